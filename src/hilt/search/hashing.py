"""Hashes every file of a tree, by handles of its folders, so that no name is resolved twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hilt.context import Context
from hilt.handles import FILE, LISTED, Closing
from hilt.places import utf8_path
from hilt.search.selection import EXCLUDED
from hilt.search.shown_paths import SearchGuard

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
        # a stack, because trees may be deeper than Python's recursion limit
        opened = [self._open(".", start, "")]
        try:
            while opened:
                folder, outer, entries = opened[-1]
                entry = next(entries, None)
                if entry is None:
                    os.close(folder)
                    opened.pop()
                    continue
                path = outer + entry.name
                self._check()
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in EXCLUDED and self._is_open(path):
                            opened.append(self._open(entry.name, folder, path + "/"))
                    elif entry.is_file(follow_symlinks=False) and self._is_wanted(path):
                        self._hash(folder, path, entry.name)
                except OSError as error:
                    self._skip(path, os.strerror(error.errno or 0))
        finally:
            for folder, _, _ in opened:
                os.close(folder)
        ordered = {utf8_path(self._prefix + path): self._digests[path] for path in sorted(self._digests)}
        return Hashes(self._folder, ordered, self._skipped)

    def _open(self, name: str, outer: int, path: str) -> tuple[int, str, Iterator[os.DirEntry[str]]]:
        """Open and list a folder; links are not followed."""
        handle = os.open(name, LISTED, dir_fd=outer)
        try:
            with os.scandir(handle) as entries:
                return handle, path, iter(list(entries))
        except BaseException:
            os.close(handle)
            raise

    def _hash(self, folder: int, path: str, name: str) -> None:
        with Closing(os.open(name, FILE, dir_fd=folder)) as descriptor:
            status = os.fstat(descriptor)
            size = status.st_size
            if not stat.S_ISREG(status.st_mode) or (self._marked is not None and self._marked(status)):
                return
            if size > FILE_BYTES:
                self._skip(path, f"larger than {FILE_BYTES >> 20} MB")
            else:
                self._digests[path] = self._digest(descriptor, size)

    def _digest(self, descriptor: int, size: int) -> str:
        from hashlib import sha256

        head = os.read(descriptor, min(size + 1, CHUNK_BYTES))
        digest = sha256(head)
        while len(head) != size and (head := os.read(descriptor, CHUNK_BYTES)):
            self._check()
            digest.update(head)
        return digest.hexdigest()

    def _is_wanted(self, path: str) -> bool:
        return (self._accepts is None or self._accepts(path)) and self._is_open(path)

    def _skip(self, path: str, reason: str) -> None:
        self._skipped[utf8_path(self._prefix + path)] = reason
