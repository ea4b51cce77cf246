"""memory.db: texts that agents save by scope and key, in the user's configuration directory.

A scope is "global" or the real path of a project. All state is in the database and none in the process, so that
one-shot processes, sessions and concurrent processes see the same entries.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from hilt.errors import ToolError, file_error_code
from hilt.places import utf8_path
from hilt.state.db import Database
from hilt.state.locks import held

T = TypeVar("T")

KEY_CHARACTERS = 128
VALUE_BYTES = 16 * 1024
ENTRIES_MAX = 10_000  # of one scope, so that a model cannot fill the disk
TAGS_MAX = 16
TAG_CHARACTERS = 64
PATIENCE_SECONDS = 5.0
GLOBAL = "global"

_IMPORT_BYTES = 64 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_WORD = re.compile(r"[^\W_]+")
_QUERY_WORDS = 32
_UNSPACED_FROM = "\u0e00"  # from here on, scripts may not separate words by spaces; the index has whole sentences
# they match almost every text
_STOP_WORD_TEXT = "a an and are as at be by do does for from how in is it of on or that the this to was what which with"
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())

# the triggers keep the index in sync with the rows
_MIGRATIONS = (
    """CREATE TABLE memories (
         id INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, tags TEXT NOT NULL,
         created INTEGER NOT NULL, updated INTEGER NOT NULL, expires INTEGER, UNIQUE (scope, key));
CREATE INDEX memories_expires ON memories (expires) WHERE expires NOT NULL;
CREATE VIRTUAL TABLE words USING fts5(
         key, value, tags, content='memories', content_rowid='id', tokenize='porter unicode61');
CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN
         INSERT INTO words (rowid, key, value, tags) VALUES (new.id, new.key, new.value, new.tags); END;
CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN
         INSERT INTO words (words, rowid, key, value, tags)
         VALUES ('delete', old.id, old.key, old.value, old.tags); END;
CREATE TRIGGER memories_changed AFTER UPDATE OF key, value, tags ON memories BEGIN
         INSERT INTO words (words, rowid, key, value, tags)
         VALUES ('delete', old.id, old.key, old.value, old.tags);  \
INSERT INTO words (rowid, key, value, tags) VALUES (new.id, new.key, new.value, new.tags); END""",
)

_SAVE = (
    "INSERT INTO memories (scope, key, value, tags, created, updated, expires) VALUES (?,?,?,?,?,?,?) "
    "ON CONFLICT (scope, key) DO UPDATE SET "
    "value=excluded.value, tags=excluded.tags, updated=excluded.updated, expires=excluded.expires"
)


class MemoryEntry(NamedTuple):
    """One entry; times in nanoseconds since 1970."""

    key: str
    value: str
    tags: tuple[str, ...]
    updated: int
    expires: int | None
    snippet: str = ""


class MemoryPage(NamedTuple):
    """One page of the matching entries, and how many match in total."""

    entries: list[MemoryEntry]
    total: int


class Memory:
    """The user's memory, as seen from one workspace."""

    def __init__(self, folder: str, workspace: str) -> None:
        self._folder = folder
        self._workspace = workspace
        self._db = Database(os.path.join(folder, "memory.db"), _MIGRATIONS, durable=True, patience=PATIENCE_SECONDS)
        self.close = self._db.close
        self.notes: list[str] = []  # warnings about entries of memory.json that were not imported

    def scope(self, name: str | None) -> str:
        """Return the scope for an argument; None means the project: the nearest parent folder with a .git."""
        if name is None or name == "project":
            return self._project()
        if name == GLOBAL:
            return GLOBAL
        if "\0" in name or not os.path.isabs(name):
            raise ToolError(
                "invalid_args",
                f"scope must be {GLOBAL!r} or an absolute path, not {name[:200]!r}.",
                suggestion=f'Omit scope for the current project, or pass "{GLOBAL}".',
            )
        _encoded("scope", name)
        return utf8_path(os.path.realpath(name))

    def _project(self) -> str:
        folder = self._workspace
        while not os.path.lexists(os.path.join(folder, ".git")):
            parent = os.path.dirname(folder)
            if parent == folder:
                return utf8_path(self._workspace)
            folder = parent
        return utf8_path(folder)

    def save(
        self,
        scope: str,
        key: str,
        value: str,
        *,
        tags: Sequence[str] = (),
        seconds: int | None = None,
        commit: Callable[[], None],
    ) -> None:
        """Save a value, replacing an existing one; `commit` is called last and may raise to prevent it."""
        size = len(_encoded("value", value))
        if size > VALUE_BYTES:
            raise ToolError(
                "invalid_args",
                f"The value of {key} has {size} bytes; the limit is {VALUE_BYTES}.",
                suggestion="Shorten the value, or split it across several keys.",
                size=size,
                limit=VALUE_BYTES,
            )

        def work(db: sqlite3.Connection) -> None:
            now = time.time_ns()
            db.execute("DELETE FROM memories WHERE expires<=?", (now,))
            count = "SELECT count(*) FROM memories WHERE scope=? AND key<>?"
            if db.execute(count, (scope, key)).fetchone()[0] >= ENTRIES_MAX:
                raise ToolError(
                    "limit_exceeded",
                    f"There are already {ENTRIES_MAX} memories in this scope.",
                    suggestion="Forget some of them, or replace one.",
                    limit=ENTRIES_MAX,
                )
            expires = None if seconds is None else now + seconds * 1_000_000_000
            db.execute(_SAVE, (scope, key, value, _join_tags(tags), now, now, expires))
            commit()

        self._write(work)

    def recall(self, scope: str, key: str) -> MemoryEntry | None:
        """Return an entry that has not expired, or None."""
        query = f"SELECT {_columns(whole=True)} FROM memories WHERE scope=? AND key=? AND {_NOT_EXPIRED}"  # noqa: S608
        row = self._read(lambda db: db.execute(query, (scope, key, time.time_ns())).fetchone())
        return None if row is None else _entry(row)

    def forget(self, scope: str, key: str, *, commit: Callable[[], None]) -> bool:
        """Remove an entry; return whether it was there."""

        def work(db: sqlite3.Connection) -> bool:
            removed = db.execute("DELETE FROM memories WHERE scope=? AND key=?", (scope, key)).rowcount > 0
            commit()
            return removed

        return self._write(work)

    def entries(
        self, scope: str, *, tags: Sequence[str] = (), whole: bool = True, limit: int = -1, offset: int = 0
    ) -> MemoryPage:
        """Return the entries of a scope that have all these tags, by key; values are truncated unless `whole`."""
        condition, values = _conditions(scope, tags)
        query = f"SELECT {_columns(whole=whole)} FROM memories WHERE {condition} ORDER BY key LIMIT ? OFFSET ?"  # noqa: S608
        return self._page(query, f"SELECT count(*) FROM memories WHERE {condition}", values, limit, offset)  # noqa: S608

    def search(
        self,
        scope: str,
        words: str,
        *,
        tags: Sequence[str] = (),
        whole: bool = True,
        limit: int = 20,
        offset: int = 0,
    ) -> MemoryPage:
        """Return the entries of a scope that contain any of the words, best first, each with a snippet."""
        query_words = list(dict.fromkeys(_WORD.findall(words.lower())))
        terms = ([word for word in query_words if word not in _STOP_WORDS] or query_words)[:_QUERY_WORDS]
        if not terms:
            return MemoryPage([], 0)
        condition, values = _conditions(scope, tags)
        if max(map(max, terms)) >= _UNSPACED_FROM:
            hits = " + ".join(["(instr(lower(key || ' ' || value || tags), ?) > 0)"] * len(terms))
            source = f"(SELECT *, {hits} AS hits FROM memories) AS memories WHERE hits AND {condition}"  # noqa: S608
            values = [*terms, *values]
            order = "hits DESC"
        else:
            source = f"words JOIN memories ON memories.id=words.rowid WHERE words MATCH ? AND {condition}"
            values = [" OR ".join(f'"{term}"' for term in terms), *values]
            order = "bm25(words, 4.0, 1.0, 3.0)"
        query = f"SELECT {_columns(whole=True)} FROM {source} ORDER BY {order}, memories.key LIMIT ? OFFSET ?"  # noqa: S608
        page = self._page(query, f"SELECT count(*) FROM {source}", values, limit, offset)  # noqa: S608
        length = None if whole else _SHORT_CHARACTERS
        entries = [
            entry._replace(value=entry.value[:length], snippet=_excerpt(entry.value, terms)) for entry in page.entries
        ]
        return page._replace(entries=entries)

    def _page(self, query: str, count: str, values: Sequence[Any], limit: int, offset: int) -> MemoryPage:
        def work(db: sqlite3.Connection) -> MemoryPage:
            entries = [_entry(row) for row in db.execute(query, (*values, limit, min(offset, _OFFSET_MAX))).fetchall()]
            return MemoryPage(entries, int(db.execute(count, values).fetchone()[0]))

        return self._read(work)

    # --- memory.json ----------------------------------------------------------------------------------------------

    def _import(self) -> None:
        """Import the memory.json of an earlier version, and rename it so that this happens once."""
        path = os.path.join(self._folder, "memory.json")
        if not os.path.exists(path):
            return
        with held(os.path.join(self._folder, "memory.db.import")):
            try:
                with open(path, "rb") as file:
                    data = file.read(_IMPORT_BYTES)
            except FileNotFoundError:
                return  # another process has just imported it
            try:
                entries = json.loads(data.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                self.notes = [f"memory.json was not imported: it is not valid JSON ({error})"]
                return
            if not isinstance(entries, dict):
                self.notes = ["memory.json was not imported: it is not a JSON object"]
                return
            rows, invalid_keys = _importable(entries)
            now = time.time_ns()

            def work(db: sqlite3.Connection) -> None:
                insert = (
                    "INSERT OR IGNORE INTO memories (scope, key, value, tags, created, updated) VALUES (?,?,?,?,?,?)"
                )
                db.executemany(insert, ((GLOBAL, key, value, "", now, now) for key, value in rows))

            self._db.write(work)
            os.replace(path, path + ".migrated")
            if invalid_keys:
                keys = ", ".join(repr(key[:40]) for key in invalid_keys[:5])
                self.notes = [f"{len(invalid_keys)} invalid entries of memory.json were not imported: {keys}"]

    # --- the database ---------------------------------------------------------------------------------------------

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self._run(lambda: self._db.read(work))

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self._run(lambda: self._db.write(work))

    def _run(self, work: Callable[[], T]) -> T:
        """Run `work`; turn errors of the file system or SQLite into a ToolError about the memory."""
        try:
            self._import()
            return work()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            message = f"The memory cannot be opened: {reason}."
            raise ToolError(file_error_code(error), message, suggestion=_ADVICE) from error
        except sqlite3.DatabaseError as error:
            raise ToolError("internal", f"memory.db cannot be used: {error}.", suggestion=_DAMAGED) from error
        except ToolError as error:
            if error.code == "resource_limit":
                message = error.message.replace("state directory", "configuration directory")
                raise ToolError("resource_limit", message, suggestion=_ADVICE) from error
            if error.code == "internal":
                raise ToolError("internal", error.message, suggestion=_DAMAGED) from error
            raise


_DAMAGED = "Ask the user to move memory.db out of the configuration directory; hilt then starts a new one."
_ADVICE = "Free disk space, or set HILT_CONFIG_DIR to a writable folder."
_SHORT_CHARACTERS = 400  # of a truncated value
_EXCERPT_CHARACTERS = 160
_BEFORE_CHARACTERS = 40  # of an excerpt, before the word that was found
_OFFSET_MAX = 2**63 - 1  # the largest integer in SQLite
_NOT_EXPIRED = "(expires IS NULL OR expires>?)"


def check_name(what: str, name: str, limit: int = KEY_CHARACTERS) -> str:
    """Return a key or tag, or raise if it is invalid."""
    if len(name) <= limit and _NAME.fullmatch(name):
        return name
    raise ToolError(
        "invalid_args",
        f"{what} {name[:200]!r} is invalid: it must have 1 to {limit} of the characters A-Z a-z 0-9 _ . -",
        suggestion="Use only letters, digits, underscores, dots and hyphens.",
    )


def _importable(entries: dict[str, Any]) -> tuple[list[tuple[str, str]], list[str]]:
    rows: list[tuple[str, str]] = []
    invalid_keys: list[str] = []
    for key, value in entries.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        try:
            check_name("key", key)
            if len(_encoded("value", text)) > VALUE_BYTES:
                raise ToolError("invalid_args", "too long")
        except ToolError:
            invalid_keys.append(key)
        else:
            rows.append((key, text))
    return rows, invalid_keys


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        message = f"{what} contains the lone surrogate U+{ord(text[error.start]):04X}."
        raise ToolError("invalid_args", message, suggestion="Send valid Unicode.") from None


def _join_tags(tags: Sequence[str]) -> str:
    """Return the tags as one string with a space before and after each."""
    return f" {' '.join(dict.fromkeys(tags))} " if tags else ""


def _conditions(scope: str, tags: Sequence[str]) -> tuple[str, list[Any]]:
    condition = f"memories.scope=? AND {_NOT_EXPIRED}" + " AND instr(memories.tags, ?)" * len(tags)
    return condition, [scope, time.time_ns(), *(f" {tag} " for tag in tags)]


def _columns(*, whole: bool) -> str:
    value = "memories.value" if whole else f"substr(memories.value, 1, {_SHORT_CHARACTERS})"
    return f"memories.key, {value}, memories.tags, memories.updated, memories.expires"


def _entry(row: Sequence[Any]) -> MemoryEntry:
    key, value, tags, updated, expires = row
    return MemoryEntry(key, value, tuple(tags.split()), updated, expires)


def _excerpt(value: str, terms: Sequence[str]) -> str:
    """Return the text around the first of the terms; snippet() of SQLite takes seconds if a text repeats a word."""
    text = value.lower()
    first = min((at for term in terms if (at := text.find(term)) >= 0), default=0)
    start = max(0, first - _BEFORE_CHARACTERS)
    end = start + _EXCERPT_CHARACTERS
    return "…" * bool(start) + value[start:end] + "…" * (end < len(value))
