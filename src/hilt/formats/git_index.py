"""The index of a git repository: the paths that git tracks."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

_ENTRY_BYTES = 40  # times, ids, mode and size; the object id follows
_EXTENDED = 0x4000
_LENGTH = 0x0FFF  # of the path in the flags; this value for a longer one


class TrackedFile(NamedTuple):
    """A file in an index: its path, relative to the worktree, its time in seconds and its size, as git saw it last."""

    path: str
    changed: int
    size: int


def tracked_paths(index: bytes) -> Iterator[str]:
    """Yield the paths in an index, relative to the worktree; raise ValueError for one that cannot be read."""
    return (file.path for file in tracked_files(index))


def tracked_files(index: bytes) -> Iterator[TrackedFile]:
    """Yield the files in an index; raise ValueError for one that cannot be read.

    An index that is split, or that has folders instead of the files in them, does not list all paths.
    """
    signature, version, count = struct.unpack(">4sII", index[:12].ljust(12, b"\0"))
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index of a known version")
    for id_bytes in (20, 32):
        try:
            files, end = _read(index, version, count, id_bytes)
        except (struct.error, ValueError, IndexError):
            continue
        if (end == len(index) - id_bytes or index[end : end + 4].isalpha()) and index[end : end + 4] != b"link":
            yield from files
            return
    raise ValueError("the index is split, or damaged")


def _read(index: bytes, version: int, count: int, id_bytes: int) -> tuple[list[TrackedFile], int]:
    """Return the files, and where the entries end."""
    position, path, files = 12, b"", list[TrackedFile]()
    for _ in range(count):
        start = position
        position += _ENTRY_BYTES + id_bytes
        (flags,) = struct.unpack_from(">H", index, position)
        position += 4 if flags & _EXTENDED else 2
        if version == 4:
            stripped, position = _number(index, position)
            path = path[: len(path) - stripped]
        else:
            path = b""
        end = index.index(b"\0", position)
        path += index[position:end]
        if path.endswith(b"/"):
            raise ValueError("a folder")
        changed, size = struct.unpack_from(">8xI24xI", index, start)
        files.append(TrackedFile(os.fsdecode(path), changed, size))
        position = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
    return files, position


def _number(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = data[position] & 0x7F
    while data[position] & 0x80:
        position += 1
        value = ((value + 1) << 7) | (data[position] & 0x7F)
    return value, position + 1
