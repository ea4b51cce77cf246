"""Opens files below an open folder by handles and never through a link, as the workspace does.

The search program walks by name, and names can be swapped meanwhile. Its results are therefore verified against the
files opened here.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from hilt.handles import FILE, FOLDER, LISTED, Closing

_TICK_NS = 20_000_000  # longer than a tick of the kernel clock that sets file times

_LISTED_NAMES = 8
_HEAD_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
_UTF8_MARK = b"\xef\xbb\xbf"
MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class SearchReach:
    """Caches the folder handles of the last path, so that its neighbours are opened in one step."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._path = ""
        self._names: list[str] = []
        self._handles: list[int] = []

    def __enter__(self) -> SearchReach:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(0)

    def folder(self, path: str) -> int:
        """Return the handle of a folder, valid until the next call; "" is the start."""
        if path != self._path:
            try:
                self._enter(path.split("/") if path else [])
            finally:
                self._path = "/".join(self._names)
        return self._handles[-1] if self._handles else self._start

    def statuses(self, paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the status of each path without following links; unreachable paths are skipped."""
        for path in paths:
            folder, _, name = path.rpartition("/")
            try:
                yield path, os.stat(name, dir_fd=self.folder(folder), follow_symlinks=False)
            except OSError:
                continue

    def files(self, paths: Iterable[str]) -> list[str]:
        """Return the paths of regular files that can be reached without links."""
        wanted: dict[str, set[str]] = {}
        order = []
        for path in paths:
            folder, _, name = path.rpartition("/")
            order.append((path, folder, name))
            wanted.setdefault(folder, set()).add(name)
        regular = {folder: self._regular(folder, names) for folder, names in wanted.items()}
        return [path for path, folder, name in order if name in regular[folder]]

    def _regular(self, folder: str, names: set[str]) -> set[str]:
        """Return the names in a folder that are regular files."""
        try:
            handle = self.folder(folder)
        except OSError:
            return set()
        # listing a folder is faster than a stat of each name, unless it has many other names
        regular = _listed(handle, names) if len(names) >= _LISTED_NAMES else set()
        for name in names - regular:
            with suppress(OSError):
                if stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    regular.add(name)
        return regular

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open a regular file."""
        folder, _, name = path.rpartition("/")
        with Closing(os.open(_checked_name(name), FILE, dir_fd=self.folder(folder))) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            yield descriptor

    def _enter(self, names: list[str]) -> None:
        shared = 0
        while shared < min(len(names), len(self._names)) and names[shared] == self._names[shared]:
            shared += 1
        self._leave(shared)
        for name in names[shared:]:
            folder = self._handles[-1] if self._handles else self._start
            self._handles.append(os.open(_checked_name(name), FOLDER, dir_fd=folder))
            self._names.append(name)

    def _leave(self, depth: int) -> None:
        while len(self._handles) > depth:
            os.close(self._handles.pop())
            self._names.pop()


def _listed(folder: int, names: set[str]) -> set[str]:
    """Return names of regular files, from a bounded listing of the folder."""
    regular = set()
    with (
        suppress(OSError),
        Closing(os.open(".", LISTED, dir_fd=folder)) as descriptor,
        os.scandir(descriptor) as entries,
    ):
        for entry in islice(entries, 4 * len(names)):
            if entry.name in names and entry.is_file(follow_symlinks=False):
                regular.add(entry.name)
    return regular


def _checked_name(name: str) -> str:
    """Return a name that stays in its folder."""
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "not a name")
    return name


class NameChanges:
    """Detects names below a folder that may have led to other files or folders since this was created.

    Any other name led a program to the file that is there now, never through a link. The proof is the ctime of an
    inode, which nobody can set: it changes for a folder when a name in it changes, and for a file or folder that is
    renamed.
    """

    def __init__(self) -> None:
        self._since = time.time_ns() - _TICK_NS
        # by folder: whether its own name is unchanged, and whether the names in it are
        self._unchanged: dict[str, tuple[bool, bool]] = {}

    def changed_files(self, reach: SearchReach, paths: Iterable[str]) -> set[str]:
        """Return the files whose name, or that of a folder around them, may have changed."""
        changed = set()
        doubtful = []
        for path in sorted(paths):
            is_in_place, has_same_names = self._unchanged_names(reach, path.rpartition("/")[0])
            if not is_in_place:
                changed.add(path)
            elif not has_same_names:
                doubtful.append(path)
        same = {path for path, status in reach.statuses(doubtful) if self._is_old(status)}
        return changed.union(doubtful) - same

    def _unchanged_names(self, reach: SearchReach, folder: str) -> tuple[bool, bool]:
        pending = []
        while folder not in self._unchanged:
            pending.append(folder)
            if not folder:
                # an open file has no name that could change
                self._unchanged[folder] = True, self._is_old(os.stat(reach.folder("")))
            folder = folder.rpartition("/")[0]
        unchanged = self._unchanged[folder]
        for unchecked in reversed(pending):
            if unchecked:
                entry = next(reach.statuses([unchecked]), None)
                self._unchanged[unchecked] = (False, False) if entry is None else self._judge(unchanged, entry[1])
            unchanged = self._unchanged[unchecked]
        return unchanged

    def _judge(self, parent: tuple[bool, bool], status: os.stat_result) -> tuple[bool, bool]:
        old = stat.S_ISDIR(status.st_mode) and self._is_old(status)
        return parent[0] and (old or parent[1]), old

    def _is_old(self, status: os.stat_result) -> bool:
        return status.st_ctime_ns < self._since


class SearchedContents:
    """The bytes of an open file as ripgrep searches them: without a byte order mark, and UTF-16 as UTF-8."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._head = os.pread(descriptor, _HEAD_BYTES, 0)
        self._mark = len(_UTF8_MARK) if self._head.startswith(_UTF8_MARK) else 0
        codec = next((codec for mark, codec in MARKS if self._head.startswith(mark)), None)
        self._translated = None if codec is None else _Translated(descriptor, codec)

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes at an offset; fewer at the end of the file."""
        if self._translated is not None:
            return self._translated.read(offset, size)
        start = self._mark + offset
        if start + size <= len(self._head):
            return self._head[start : start + size]
        pieces = []
        while size > 0 and (piece := os.pread(self._descriptor, size, start)):
            pieces.append(piece)
            start += len(piece)
            size -= len(piece)
        return b"".join(pieces)


class _Translated:
    """UTF-16 as UTF-8, in chunks; reading backwards starts over."""

    def __init__(self, descriptor: int, codec: str) -> None:
        self._descriptor = descriptor
        self._codec = codec
        self._rewind()

    def _rewind(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._codec)("replace")
        self._at = 2  # in the file, after the byte order mark
        self._start = 0  # of the window, in UTF-8
        self._window = b""
        self._ended = False

    def read(self, offset: int, size: int) -> bytes:
        if offset < self._start:
            self._rewind()
        while not self._ended and self._start + len(self._window) < offset + size:
            if self._start + len(self._window) <= offset:
                self._start += len(self._window)
                self._window = b""
            piece = os.pread(self._descriptor, _PIECE_BYTES, self._at)
            self._at += len(piece)
            self._ended = not piece
            self._window += self._decoder.decode(piece, final=self._ended).encode("utf-8", "replace")
        return self._window[offset - self._start : offset - self._start + size]
