"""Hashes every file of a tree: small files in one thread, large files in several."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from hilt.context import Context
from hilt.handles import FILE
from hilt.places import utf8_path
from hilt.search.guard import SearchGuard
from hilt.search.selection import EXCLUDED
from hilt.search.walking import WalkedFolder, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

FILE_BYTES = 50 * 1024 * 1024
CHUNK_BYTES = 1 << 20
LARGE_BYTES = 1 << 20  # from this size on another thread pays off: hashing releases the GIL
THREADS_MAX = 8


class Hashes(NamedTuple):
    """The digests of a folder's files by path, and why files were skipped."""

    folder: str
    digests: dict[str, str]
    skipped: dict[str, str]


def hash_tree(ctx: Context, path: str, accepts: Callable[[str], bool] | None) -> Hashes:
    """Hash the files below a folder whose relative paths are accepted."""
    with ctx.door.open_folder(path) as (start, place):
        return _Hashing(ctx, SearchGuard(ctx, place, start).is_open, place.path, accepts).run(start)


class _Hashing:
    def __init__(
        self, ctx: Context, is_open: Callable[[str], bool], folder: str, accepts: Callable[[str], bool] | None
    ) -> None:
        self._check = ctx.fence.check
        self._marked = ctx.door.marked
        self._is_open = is_open
        self._folder = folder
        self._prefix = "" if folder == "." else f"{folder}/"
        self._accepts = accepts
        self._digests: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._pending: list[tuple[str, int, Future[str]]] = []

    def run(self, start: int) -> Hashes:
        try:
            for folder, path, name in walk(start, self._wanted, failed=self._failed):
                self._check()
                try:
                    self._hash(folder, path, name)
                except OSError as error:
                    self._failed(path, error)
            self._collect(0)
        finally:
            if self._pool is not None:
                for _, descriptor, future in self._pending:
                    if future.cancel():
                        os.close(descriptor)
                self._pool.shutdown()
        ordered = {utf8_path(self._prefix + path): self._digests[path] for path in sorted(self._digests)}
        return Hashes(self._folder, ordered, self._skipped)

    def _hash(self, folder: int, path: str, name: str) -> None:
        descriptor = os.open(name, FILE, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            size = status.st_size
            if not stat.S_ISREG(status.st_mode) or (self._marked is not None and self._marked(status)):
                return
            if size > FILE_BYTES:
                self._skip(path, f"larger than {FILE_BYTES >> 20} MB")
            elif size >= LARGE_BYTES and self._hand_over(path, descriptor):
                descriptor = -1
            else:
                self._digests[path] = _hash(descriptor, self._check, os.read(descriptor, size + 1), size)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _wanted(self, folder: WalkedFolder, entry: os.DirEntry[str], *, is_folder: bool) -> bool:
        path = folder.path + entry.name
        if is_folder:
            return entry.name not in EXCLUDED and self._is_open(path)
        return (self._accepts is None or self._accepts(path)) and self._is_open(path)

    def _skip(self, path: str, reason: str) -> None:
        self._skipped[utf8_path(self._prefix + path)] = reason

    def _failed(self, path: str, error: OSError) -> None:
        self._skip(path, os.strerror(error.errno or 0))

    # --- large files ----------------------------------------------------------------------------------------------

    def _hand_over(self, path: str, descriptor: int) -> bool:
        """Let another thread hash and close the file; return False if there is only one processor."""
        threads = min(THREADS_MAX, os.cpu_count() or 1)
        if threads < 2:
            return False
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="hilt-hash")
        self._collect(2 * threads)  # each holds an open file
        self._pending.append((path, descriptor, self._pool.submit(_hash_and_close, descriptor, self._check)))
        return True

    def _collect(self, limit: int) -> None:
        """Collect results until at most this many are pending."""
        while len(self._pending) > limit:
            path, _, future = self._pending.pop(0)
            try:
                self._digests[path] = future.result()
            except OSError as error:
                self._failed(path, error)


def _hash_and_close(descriptor: int, check: Callable[[], None]) -> str:
    try:
        return _hash(descriptor, check)
    finally:
        os.close(descriptor)


def _hash(descriptor: int, check: Callable[[], None], head: bytes = b"", size: int = -1) -> str:
    """Return the digest of `head` and the rest of the file; a head of the expected size is the whole file."""
    from hashlib import sha256

    digest = sha256(head)
    while len(head) != size and (head := os.read(descriptor, CHUNK_BYTES)):
        check()
        digest.update(head)
    return digest.hexdigest()
