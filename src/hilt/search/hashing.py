"""Hashes every file of a tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from hilt.context import Context
from hilt.handles import FILE
from hilt.places import utf8_path
from hilt.search.selection import EXCLUDED
from hilt.search.shown_paths import SearchGuard
from hilt.search.walking import WalkedFolder, walk

FILE_BYTES = 50 * 1024 * 1024
CHUNK_BYTES = 1 << 20


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

    def run(self, start: int) -> Hashes:
        for folder, path, name in walk(start, self._wanted, failed=self._failed):
            self._check()
            try:
                self._hash(folder, path, name)
            except OSError as error:
                self._failed(path, error)
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
            else:
                self._digests[path] = self._digest(descriptor, size)
        finally:
            os.close(descriptor)

    def _digest(self, descriptor: int, size: int) -> str:
        from hashlib import sha256

        head = os.read(descriptor, min(size + 1, CHUNK_BYTES))
        digest = sha256(head)
        while len(head) != size and (head := os.read(descriptor, CHUNK_BYTES)):
            self._check()
            digest.update(head)
        return digest.hexdigest()

    def _wanted(self, folder: WalkedFolder, entry: os.DirEntry[str], *, is_folder: bool) -> bool:
        path = folder.path + entry.name
        if is_folder:
            return entry.name not in EXCLUDED and self._is_open(path)
        return (self._accepts is None or self._accepts(path)) and self._is_open(path)

    def _skip(self, path: str, reason: str) -> None:
        self._skipped[utf8_path(self._prefix + path)] = reason

    def _failed(self, path: str, error: OSError) -> None:
        self._skip(path, os.strerror(error.errno or 0))
