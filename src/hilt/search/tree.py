"""A folder or file to search: its files and their matches, without anything that tools may not see."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from hilt.context import Context
from hilt.places import utf8_path
from hilt.search.reach import NameChanges, SearchedContents, SearchReach
from hilt.search.ripgrep import OUT_OF_MEMORY, Pattern
from hilt.search.ripgrep_runs import SECONDS, SearchBackend, counts_by_path, found_nothing, unreadable
from hilt.search.selection import Selection
from hilt.search.shown_paths import SearchGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Place
    from hilt.search.ripgrep_output import MatchedFile

BATCH_PATHS = 2000  # sort and truncate after this many paths
PER_FILE = 1000  # at least this many matches of a file are reported before it is truncated
MODEST_BYTES = 4 << 20  # searching files up to this size needs little memory


class Listed(NamedTuple):
    """Files of a tree: the first ones in order, and how many there are."""

    paths: list[str]
    total: int
    is_minimum: bool
    unreadable: int
    dropped: int = 0  # names that changed during the search


class Matches(NamedTuple):
    """Matches in a tree: the first ones by path and line, and how many there are."""

    files: list[MatchedFile]
    total: int
    total_files: int
    is_minimum: bool
    unreadable: int
    binary: list[str]
    dropped: int = 0  # lines that changed during the search


class MatchCounts(NamedTuple):
    """Files with their match counts, and the total number of files and matches."""

    files: list[tuple[str, int]]
    total_files: int
    total: int
    is_minimum: bool
    unreadable: int
    binary: list[str]
    dropped: int = 0  # files whose matches changed during the search


@contextmanager
def open_tree(ctx: Context, path: str) -> Iterator[Tree]:
    """Open a path with the access checks of the workspace."""
    with ExitStack() as stack:
        place = stack.enter_context(ctx.door.place(path))
        if place.status is not None and stat.S_ISREG(place.status.st_mode):
            descriptor, _, place = stack.enter_context(ctx.door.open_file(path))
            yield Tree(ctx, place, -1, descriptor)
        else:
            descriptor, place = stack.enter_context(ctx.door.open_folder(path))
            yield Tree(ctx, place, descriptor, -1)


class Tree:
    """An open folder, or a single open file."""

    def __init__(self, ctx: Context, place: Place, folder: int, file: int) -> None:
        self._ctx = ctx
        self._place = place
        self._folder = folder
        self._file = file
        self._guard = SearchGuard(ctx, place, folder)
        self._backend = SearchBackend(ctx, place, folder, file, self._guard.names)

    @property
    def is_file(self) -> bool:
        """Whether this is a single file."""
        return self._file >= 0

    @property
    def path(self) -> str:
        """The path as callers see it."""
        return self._place.path

    def display_paths(self, paths: list[str]) -> list[str]:
        """Return paths below the tree as callers see them."""
        if self._place.path == "." and "".join(paths).isascii():
            return paths
        return [self.display_path(path) for path in paths]

    def display_path(self, path: str) -> str:
        """Return a path below the tree as callers see it."""
        if self.is_file:
            return utf8_path(self._place.path)
        prefix = self._place.path
        if prefix == ".":
            return utf8_path(path)
        return utf8_path(f"{prefix}/{path}")

    def below(self, glob: str) -> str:
        """Return a glob that starts with the absolute path of the tree, made relative to the tree."""
        root = self._place.root
        for start in (root.path, root.real):
            folder = os.path.join(start, *self._place.parts)
            if glob.startswith(f"{folder}/"):
                return glob[len(folder) :]
        return glob

    def sizes(self, paths: list[str]) -> list[int]:
        """Return the sizes of files below the tree; 0 for missing files."""
        with SearchReach(self._folder) as reach:
            sizes = {path: status.st_size for path, status in reach.statuses(paths)}
        return [sizes.get(path, 0) for path in paths]

    # --- files ----------------------------------------------------------------------------------------------------

    def files(self, selection: Selection, *, keep: int, skip: int = 0, newest: bool = False) -> Listed:
        """Return the files of the selection, by path or newest first; skipped ones are not checked."""
        batch = _FirstPaths(keep, (lambda paths: _by_time(self._folder, paths)) if newest else sorted)
        total = 0
        has_output = False
        incomplete = b""
        with self._backend.started("files", None, selection) as stream:
            for chunk in stream:
                data = incomplete + chunk if incomplete else chunk
                end = data.rfind(b"\0") + 1
                incomplete = data[end:]
                if not end:
                    continue
                has_output = True
                paths = self._guard.visible(data[:end], selection)
                total += len(paths)
                batch.add(paths)
        self._backend.raise_on_failure(stream, answered=has_output or found_nothing(stream))
        first = batch.first()
        with SearchReach(self._folder) as reach:
            reachable = reach.files(first[skip:])
        dropped = max(0, len(first) - skip) - len(reachable)
        return Listed(first[:skip] + reachable, total - dropped, stream.timed_out, unreadable(stream), dropped)

    def hidden(self, selection: Selection, searched: int | None = None) -> int:
        """Return how many files of the selection are excluded only by ignore rules."""
        if selection.no_ignore or self.is_file:
            return 0
        if searched is None:
            searched = self.files(selection, keep=0).total
        return max(0, self.files(selection.with_ignored(), keep=0).total - searched)

    # --- matches --------------------------------------------------------------------------------------------------

    def matches(
        self,
        pattern: Pattern,
        selection: Selection,
        *,
        keep: int,
        context: int = 0,
        seconds: float = SECONDS,
        largest: int | None = None,
    ) -> Matches:
        """Return the first matches, and their total number."""
        from hilt.search.recount import is_binary, recount
        from hilt.search.ripgrep_output import Events

        # one more than is kept shows that there are more; a multiline match may span any number of lines
        per_file = None if pattern.multiline else max(keep, PER_FILE) + 1
        events = Events(self._guard.test(selection.accepts), keep=keep, per_match=pattern.multiline, per_file=per_file)
        name_changes = NameChanges()
        started = self._backend.started(
            "json", pattern, selection, per_file=per_file, context=context, seconds=seconds, largest=largest
        )
        with started as stream:
            for chunk in stream:
                events.feed(chunk)
        if not events.complete:
            if stream.exit_code in OUT_OF_MEMORY and largest is None and not self.is_file:
                # one line with millions of matches must not make the whole search fail
                partial = self.matches(
                    pattern, selection, keep=keep, context=context, seconds=seconds, largest=MODEST_BYTES
                )
                return partial._replace(is_minimum=True)
            self._backend.raise_on_failure(stream, pattern, answered=False)
        if events.truncated and self.is_file and is_binary(self._file):
            return Matches([], 0, 0, stream.timed_out, 0, [self.path])
        with SearchReach(self._folder) as reach:
            files = events.matched(lambda path: self._contents(reach, path))
            counts = events.counts
            complete = {
                file.path: len(file.matches)
                for file in files
                if len(file.matches) + file.gone_matches == counts[file.path] and file.path not in events.truncated
            }
            for path in complete:
                del counts[path]
            recounted = recount(
                self._backend, reach, name_changes, pattern, counts, () if stream.timed_out else events.truncated
            )
        return Matches(
            [file for file in files if file.matches],
            sum(complete.values()) + sum(recounted.counts.values()),
            sum(map(bool, complete.values())) + len(recounted.counts),
            stream.timed_out or recounted.is_minimum,
            unreadable(stream),
            events.binary,
            sum(file.gone_matches + file.gone_lines for file in files),
        )

    def counts(self, pattern: Pattern, selection: Selection, *, keep: int, seconds: float = SECONDS) -> MatchCounts:
        """Return the first files with matches and their counts."""
        from hilt.search.recount import is_binary, recount

        accepts = self._guard.test(selection.accepts)
        counts: dict[str, int] = {}
        has_output = False
        name_changes = NameChanges()
        with self._backend.started("count", pattern, selection, seconds=seconds) as stream:
            for path, count in counts_by_path(stream):
                has_output = True
                if accepts(path):
                    counts[path] = count
        self._backend.raise_on_failure(stream, pattern, answered=has_output or found_nothing(stream))
        if has_output and self.is_file and is_binary(self._file):
            return MatchCounts([], 0, 0, stream.timed_out, 0, [self.path])
        with SearchReach(self._folder) as reach:
            counts, dropped, is_minimum = recount(self._backend, reach, name_changes, pattern, counts)
            first = sorted(counts.items())[:keep]
            files = {path for path, _ in first} if self.is_file else set(reach.files(path for path, _ in first))
            reachable = [(path, count) for path, count in first if path in files]
        unreachable = len(first) - len(reachable)
        is_minimum = is_minimum or stream.timed_out
        total = sum(counts.values())
        return MatchCounts(
            reachable, len(counts) - unreachable, total, is_minimum, unreadable(stream), [], dropped + unreachable
        )

    @contextmanager
    def _contents(self, reach: SearchReach, path: str) -> Iterator[SearchedContents | None]:
        """Open a file to verify its matches; None if it cannot be reached without links."""
        if self.is_file:
            yield SearchedContents(self._file)
            return
        with ExitStack() as stack:
            contents = None
            with suppress(OSError):
                contents = SearchedContents(stack.enter_context(reach.opened(path)))
            yield contents


class _FirstPaths:
    """Collects the first of many paths without storing all of them."""

    def __init__(self, keep: int, order: Callable[[list[str]], list[str]]) -> None:
        self._keep = keep
        self._order = order
        self._paths: list[str] = []
        self._last: str | None = None  # the last path to keep when sorted by path: later ones are skipped

    def add(self, paths: list[str]) -> None:
        if not self._keep:
            return
        last = self._last
        self._paths += paths if last is None else [path for path in paths if path < last]
        if len(self._paths) > 2 * self._keep + BATCH_PATHS:
            self._paths = self.first()
            if self._order is sorted:
                self._last = self._paths[-1]

    def first(self) -> list[str]:
        return self._order(self._paths)[: self._keep]


def _by_time(folder: int, paths: list[str]) -> list[str]:
    """Return the paths that can be reached without links, the newest first."""
    with SearchReach(folder) as reach:
        dated = [(-status.st_mtime_ns, path) for path, status in reach.statuses(sorted(paths))]
    return [path for _, path in sorted(dated)]
