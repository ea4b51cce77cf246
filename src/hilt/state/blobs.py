"""The contents that changes have replaced, by hash: small ones in state.db, large ones as files beside it."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.formats.digests import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.db import Database

INLINE_BYTES = 1024 * 1024  # larger blobs are stored as files
COMPRESS_BYTES = 64 * 1024  # larger blobs are compressed later, not during the call


class Blob(NamedTuple):
    """Contents as they are stored."""

    hash: bytes
    size: int
    packed: int
    data: bytes

    @classmethod
    def of(cls, hash: bytes, data: bytes) -> Blob:
        """Return contents, compressed if that is quick."""
        if len(data) <= COMPRESS_BYTES:
            return cls(hash, len(data), 1, zlib.compress(data, 1))
        return cls(hash, len(data), 0, data)

    @property
    def is_large(self) -> bool:
        """Whether it is stored as a file."""
        return len(self.data) > INLINE_BYTES


class Blobs:
    """The stored contents of all workspaces."""

    def __init__(self, db: Database, folder: str) -> None:
        self._db = db
        self._folder = folder

    def write(self, blob: Blob, id: str) -> None:
        """Write a large blob to a synced file unless it exists."""
        path = self._path(blob.hash)
        if os.path.exists(path):
            return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{id}"  # the id in the name shows other processes whether its writer lives
        _write_synced(temporary, blob.data)
        os.rename(temporary, path)
        _sync_folder(os.path.dirname(path))

    def insert(self, db: sqlite3.Connection, blobs: Iterable[Blob]) -> bool:
        """Insert the rows of blobs; return False if the file of a large one was removed in the meantime."""
        for blob in blobs:
            stored = db.execute("SELECT data IS NULL FROM blobs WHERE hash=?", (blob.hash,)).fetchone()
            is_file = blob.is_large if stored is None else stored[0]
            if is_file and not os.path.exists(self._path(blob.hash)):
                return False
            if stored is None:
                db.execute("INSERT INTO blobs VALUES (?,?,?,?)", (*blob[:3], None if is_file else blob.data))
        return True

    def read(self, hash: bytes) -> bytes:
        """Return the contents with this hash, after verifying them."""
        query = "SELECT packed, data FROM blobs WHERE hash=?"
        row = self._db.read(lambda db: db.execute(query, (hash,)).fetchone())
        if row is None:
            raise ToolError("not_found", f"The contents {hash.hex()[:12]} are no longer in the history.")
        packed, data = row
        try:
            if data is None:
                with open(self._path(hash), "rb") as file:
                    data = file.read()
            contents = zlib.decompress(data) if packed else bytes(data)
        except (OSError, zlib.error) as error:
            raise _damaged(hash) from error
        if sha256(contents) != hash:
            raise _damaged(hash)
        return contents

    def compress(self, seconds: float) -> None:
        """Compress large blobs that are stored uncompressed, for about this long."""
        deadline = time.monotonic() + seconds
        query = "SELECT hash FROM blobs WHERE NOT packed AND size>?"
        for (hash,) in self._db.rows(query, (COMPRESS_BYTES,)):
            if time.monotonic() > deadline:
                return
            with suppress(ToolError):  # evicted in the meantime, or damaged: nothing to compress
                self._pack(hash)

    def _pack(self, hash: bytes) -> None:
        packed = zlib.compress(self.read(hash), 6)
        self._db.write(lambda db: db.execute("UPDATE blobs SET packed=1, data=? WHERE hash=?", (packed, hash)))
        # only after the compressed contents are durable
        self.unlink_unused([hash])

    def delete_unused(self, db: sqlite3.Connection, hashes: Iterable[bytes]) -> list[bytes]:
        """Delete the rows of blobs that no snapshot refers to; return their hashes, for `unlink_unused`."""
        unused = [
            hash
            for hash in hashes
            if db.execute("SELECT 1 FROM snapshots WHERE before=? LIMIT 1", (hash,)).fetchone() is None
        ]
        db.executemany("DELETE FROM blobs WHERE hash=?", [(hash,) for hash in unused])
        return unused

    def unlink_unused(self, hashes: Iterable[bytes]) -> None:
        """Remove the files of unreferenced blobs, after the transaction that deleted their rows is durable.

        This runs in a separate transaction, because a writer that saw the file checks again inside its transaction.
        A later sweep removes files left over after a kill or an error.
        """
        with_files = [hash for hash in hashes if os.path.exists(self._path(hash))]

        def work(db: sqlite3.Connection) -> None:
            for hash in with_files:
                query = "SELECT 1 FROM blobs WHERE hash=? AND data IS NULL"
                if db.execute(query, (hash,)).fetchone() is None:
                    with suppress(FileNotFoundError):
                        os.unlink(self._path(hash))

        if with_files:
            with suppress(ToolError, OSError):
                self._db.write(work)

    def sweep(self, is_writing: Callable[[str], bool]) -> None:
        """Remove partially written and unreferenced files; `is_writing` is whether a change still writes its own."""
        hashes = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                hash, dot, id = name.partition(".")
                if not dot:
                    with suppress(ValueError):  # not a blob
                        hashes.append(bytes.fromhex(hash))
                elif not is_writing(id):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(folder, name))
        self.unlink_unused(hashes)

    def _path(self, hash: bytes) -> str:
        name = hash.hex()
        return os.path.join(self._folder, name[:2], name)


def _write_synced(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _damaged(hash: bytes) -> ToolError:
    return ToolError("internal", f"The stored contents {hash.hex()[:12]} are damaged and were not used.")
