"""Finds the user's knowledge related to a text: the shelves of a client, their index, and the best entries."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from hilt.errors import ToolError
from hilt.knowledge.folders import FILES_MAX
from hilt.knowledge.index import IndexStore, KnowledgeIndex, RankedDocument, Refresh, Shelf
from hilt.knowledge.locations import KnowledgePlaces, shelves

T = TypeVar("T")


class RelatedEntries(NamedTuple):
    """The matching entries, how much was searched, and warnings for the caller."""

    entries: list[RankedDocument]
    refresh: Refresh
    shelves: int
    warnings: list[str]


class Knowledge:
    """Ranks entries for one workspace; keeps one index per client in the configuration directory."""

    def __init__(self, places: KnowledgePlaces, spare: str, open_store: Callable[[str], IndexStore]) -> None:
        self._places = places
        self._spare = spare  # folder for an index if the configuration directory is not writable
        self._open_store = open_store
        self._lock = threading.Lock()
        self._indexes: dict[str, KnowledgeIndex] = {}

    def related(
        self,
        query: str,
        *,
        client: str,
        kinds: Collection[str],
        limit: int,
        rebuild: bool,
        project: Sequence[Shelf],
        check: Callable[[], None],
    ) -> RelatedEntries:
        """Return the entries related to the query, after updating the index."""
        folders, warnings = shelves(self._places, client)
        searched: list[Shelf] = [*project, *folders]

        def work(index: KnowledgeIndex) -> RelatedEntries:
            if rebuild:
                index.clear()
            refresh = index.refresh(searched, check)
            return RelatedEntries(index.search(query, searched, kinds, limit), refresh, len(searched), warnings)

        result = self._with_index(client, work)
        if result.refresh.full:
            warnings.append(f"a folder has more than {FILES_MAX:,} entries; the remaining ones were skipped")
        return result

    def close(self) -> None:
        """Close the databases."""
        with self._lock:
            for index in self._indexes.values():
                index.close()
            self._indexes.clear()

    def _with_index(self, client: str, work: Callable[[KnowledgeIndex], T]) -> T:
        """Run `work` on the index of a client; rebuild a damaged one, or use the spare folder if not writable."""
        name = f"context-index-{client}.db"
        first = os.path.join(self._places.config, name)
        for path in (first, first, os.path.join(self._spare, name)):
            index = self._index(path)
            try:
                return work(index)
            except (OSError, sqlite3.DatabaseError):
                self._drop(path)
            except ToolError as error:
                if error.code not in ("internal", "resource_limit", "runtime_missing"):
                    raise
                self._drop(path)
        return work(self._index(os.path.join(self._spare, name)))

    def _index(self, path: str) -> KnowledgeIndex:
        with self._lock:
            if path not in self._indexes:
                self._indexes[path] = KnowledgeIndex(self._open_store(path))
            return self._indexes[path]

    def _drop(self, path: str) -> None:
        """Delete an unusable index; it is only a cache."""
        with self._lock:
            index = self._indexes.pop(path, None)
        if index is not None:
            index.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(path + suffix)
