"""Walks a tree by handles of its folders, so that no name is resolved twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from hilt.handles import LISTED


class WalkedFolder(NamedTuple):
    """An open folder of the walk: its handle, its path below the start ("" or ending with "/"), its names."""

    handle: int
    path: str
    entries: list[os.DirEntry[str]]


class Wanted(Protocol):
    """Decides whether to yield a file, or enter a folder."""

    def __call__(self, folder: WalkedFolder, entry: os.DirEntry[str], *, is_folder: bool) -> bool: ...


def walk(
    start: int,
    wanted: Wanted,
    *,
    failed: Callable[[str, OSError], None] = lambda path, error: None,
) -> Iterator[tuple[int, str, str]]:
    """Yield the folder handle, path and name of every regular file below the folder `start`, sorted by path.

    Links are not followed. Folders that vanish or cannot be read are reported to `failed` and skipped.
    """
    # a stack, because trees may be deeper than Python's recursion limit
    stack: list[tuple[WalkedFolder, Iterator[tuple[str, os.DirEntry[str]]]]] = []

    def descend(handle: int, path: str) -> None:
        try:
            with os.scandir(handle) as scanned:
                folder = WalkedFolder(handle, path, list(scanned))
        except OSError as error:
            failed(path, error)
            os.close(handle)
            return
        chosen = []
        for entry in folder.entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if (is_folder or entry.is_file(follow_symlinks=False)) and wanted(folder, entry, is_folder=is_folder):
                # in the order of full paths: a folder sorts by its name and a slash
                chosen.append((entry.name + "/" if is_folder else entry.name, entry))
        chosen.sort(key=_name)
        stack.append((folder, iter(chosen)))

    try:
        descend(os.open(".", LISTED, dir_fd=start), "")
        while stack:
            folder, entries = stack[-1]
            name, entry = next(entries, ("", None))
            if entry is None:
                stack.pop()
                os.close(folder.handle)
            elif name[-1] != "/":
                yield folder.handle, folder.path + name, name
            else:
                try:
                    inner = os.open(entry.name, LISTED, dir_fd=folder.handle)
                except OSError as error:
                    failed(folder.path + name, error)
                    continue
                descend(inner, folder.path + name)
    finally:
        for folder, _ in stack:
            os.close(folder.handle)


def _name(pair: tuple[str, os.DirEntry[str]]) -> str:
    return pair[0]
