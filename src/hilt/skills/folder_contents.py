"""Reads files by handle and within limits: what was checked is what is used, even if names are swapped in between.

Links inside a project's folder are never followed, and a link that points outside it makes the folder invalid.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from hilt import handles, loaders
from hilt.loaders import MAX_BYTES
from hilt.places import utf8_path

FILES_MAX = 500  # in one folder, with its subfolders
TOTAL_BYTES = 8 << 20
DEPTH_MAX = 16

_LIBRARIES = ("node_modules", "__pycache__")


class UnusableFile(Exception):
    """Why a file or folder cannot be used."""


class WholeFolder(NamedTuple):
    """A folder as it was read."""

    files: dict[str, bytes]  # by relative name, sorted
    programs: frozenset[str]  # the files that are executable
    links: tuple[str, ...]  # all point to something in the folder


@contextmanager
def open_folder(path: str, *, follow: bool) -> Iterator[int]:
    """Yield a descriptor of a folder; unless `follow` is set, no link on its path is followed."""
    try:
        with loaders.open_folder(path, follow=follow) as handle:
            yield handle
    except loaders.UnreadableFile as error:
        raise UnusableFile(f"The folder cannot be read: {error}.") from None
    except OSError as error:
        raise UnusableFile(_reason(error, "The folder")) from None


def file_bytes(folder: int, name: str, *, limit: int = MAX_BYTES, follow: bool = False) -> bytes:
    """Return the contents of a regular file in an open folder."""
    path = utf8_path(name)
    try:
        with handles.Closing(
            os.open(name, handles.FILE & ~os.O_NOFOLLOW if follow else handles.FILE, dir_fd=folder)
        ) as file:
            data = handles.read_regular(file, limit)
    except OSError as error:
        raise UnusableFile(_reason(error, path)) from None
    if data is None:
        raise UnusableFile(f"{path} is not a regular file.")
    if len(data) > limit:
        raise UnusableFile(f"{path} has more than {limit:,} bytes.")
    return data


def whole_folder(handle: int) -> WholeFolder:
    """Return everything below an open folder; raise unless it is within the limits.

    Links must point to something in the folder, and everything else must be a regular file.
    """
    files: dict[str, bytes] = {}
    programs: set[str] = set()
    folders: set[str] = set()
    links: dict[str, str] = {}
    total = 0
    for inner, parent, entry in _walk(handle, folders):
        name = inner + entry.name
        if len(files) + len(links) >= FILES_MAX:
            raise UnusableFile(f"The folder has more than {FILES_MAX} files, too many to review.")
        if entry.is_symlink():
            links[name] = os.path.normpath(os.path.join(inner, os.readlink(entry.name, dir_fd=parent)))
            continue
        files[name] = file_bytes(parent, entry.name)
        if entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR:
            programs.add(name)
        total += len(files[name])
        if total > TOTAL_BYTES:
            raise UnusableFile(f"The folder has more than {TOTAL_BYTES >> 20} MiB, too much to review.")
    for name, target in links.items():
        # the target itself must not be a link: a chain of links may lead outside although each one looks harmless
        if target not in files and target not in folders:
            raise UnusableFile(f"{utf8_path(name)} is a link that points outside the folder or to a missing file.")
    return WholeFolder(dict(sorted(files.items())), frozenset(programs), tuple(links))


def file_below(handle: int, name: str) -> bytes:
    """Return the contents of a file below an open folder; links on the way are rejected."""
    inner, _, last = name.rpartition("/")
    try:
        with handles.Closing(handles.open_folder(inner, handle)) as folder:
            return file_bytes(folder, last)
    except OSError as error:
        raise UnusableFile(_reason(error, utf8_path(name))) from None


def file_names(handle: int, *, hidden: bool) -> list[str]:
    """Return the relative names of the regular files below an open folder, the first FILES_MAX of them.

    Unless `hidden` is set, names that begin with a dot and the libraries of programs are skipped.
    """
    names: list[str] = []
    with suppress(UnusableFile):  # files beyond the limits are not listed
        for inner, _, entry in _walk(handle, set(), skips_hidden=not hidden):
            if entry.is_file(follow_symlinks=False):
                names.append(inner + entry.name)
            if len(names) == FILES_MAX:
                break
    return sorted(names)


def matching_files(
    handle: int, matches: Callable[[str], bool], *, follow: bool
) -> Iterator[tuple[str, bytes | UnusableFile]]:
    """Yield the files below an open folder whose relative names match, or why one cannot be read.

    With `follow`, links to files count too.
    """
    for count, (inner, parent, entry) in enumerate(_walk(handle, set())):
        if count >= FILES_MAX:
            return
        name = inner + entry.name
        if matches(name):
            try:
                yield name, file_bytes(parent, entry.name, follow=follow)
            except UnusableFile as error:
                yield name, error


def _walk(
    handle: int, folders: set[str], inner: str = "", *, skips_hidden: bool = False
) -> Iterator[tuple[str, int, os.DirEntry[str]]]:
    """Yield everything below an open folder except folders, with its open parent; add the folders to `folders`.

    One descriptor per level is open at a time.
    """
    try:
        if inner.count("/") > DEPTH_MAX:
            raise UnusableFile(f"The folder is nested more than {DEPTH_MAX} levels deep.")
        with os.scandir(handle) as listing:
            entries = sorted(islice(listing, 2 * FILES_MAX), key=lambda entry: entry.name)
        for entry in entries:
            if skips_hidden and (entry.name.startswith(".") or entry.name in _LIBRARIES):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield inner, handle, entry
                continue
            folders.add(inner + entry.name)
            if len(folders) > FILES_MAX:
                raise UnusableFile(f"The folder has more than {FILES_MAX} folders, too many to review.")
            with handles.Closing(os.open(entry.name, handles.LISTED, dir_fd=handle)) as subfolder:
                yield from _walk(subfolder, folders, f"{inner}{entry.name}/", skips_hidden=skips_hidden)
    except OSError as error:
        raise UnusableFile(_reason(error, utf8_path(inner) or "The folder")) from None


def _reason(error: OSError, name: str) -> str:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return f"{name} is a symbolic link, which is not supported here."
    return f"{name} cannot be read: {os.strerror(error.errno or 0)}."
