"""The index of a git repository: the paths that git tracks."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

_ENTRY_BYTES = 40  # times, ids, mode and size; the object id follows
_EXTENDED = 0x4000
_LENGTH = 0x0FFF  # of the path in the flags; this value for a longer one


def tracked_paths(index: bytes) -> Iterator[str]:
    """Yield the paths in an index, relative to the worktree; raise ValueError for one that cannot be read.

    An index that is split, or that has folders instead of the files in them, does not list all paths.
    """
    signature, version, count = struct.unpack(">4sII", index[:12].ljust(12, b"\0"))
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index of a known version")
    for id_bytes in (20, 32):
        try:
            paths, end = _read(index, version, count, id_bytes)
        except (struct.error, ValueError, IndexError):
            continue
        if (end == len(index) - id_bytes or index[end : end + 4].isalpha()) and index[end : end + 4] != b"link":
            yield from map(os.fsdecode, paths)
            return
    raise ValueError("the index is split, or damaged")


def _read(index: bytes, version: int, count: int, id_bytes: int) -> tuple[list[bytes], int]:
    """Return the paths, and where the entries end."""
    position, path, paths = 12, b"", list[bytes]()
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
        paths.append(path)
        position = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
    return paths, position


def _number(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = data[position] & 0x7F
    while data[position] & 0x80:
        position += 1
        value = ((value + 1) << 7) | (data[position] & 0x7F)
    return value, position + 1
