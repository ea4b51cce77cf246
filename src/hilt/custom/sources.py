"""The tools of a path, a repository or an archive: fetched or unpacked without running any code."""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hilt.custom import candidates
from hilt.custom.candidates import is_tool
from hilt.custom.definition import FILE_BYTES
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.formats.invisible import one_line
from hilt.loaders import paths_of
from hilt.sandbox.decoding import Decoder, decode
from hilt.surroundings import Surroundings

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
CLONE_SECONDS = 300.0
TAR_BYTES = 2 * candidates.FOLDER_BYTES  # also uncompressed, with its headers

_REMOTE = re.compile(r"(https|http|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_ADVICE = "Install from a source that you trust."
_UNPACKER = Decoder(__name__, "unpacked", threading.BoundedSemaphore(), _ADVICE, seconds=3)
# folders in which a repository or an archive may keep its tools
_INSIDE = ("", "tools", *paths_of("tool"))


def tools_of(source: str, folder: str, surroundings: Callable[[], Surroundings]) -> list[str]:
    """Return the paths of the tools in a source, fetching or unpacking it into the folder."""
    fetched = os.path.join(folder, _name_of(source))
    if _REMOTE.match(source):
        os.mkdir(fetched)
        _clone(source, fetched, surroundings())
        folder = fetched
    elif not os.path.exists(source):
        raise ToolError(
            "file_not_found", f"{one_line(source)} does not exist.", suggestion="Pass a path, a git URL or an archive."
        )
    elif os.path.isfile(source) and source.endswith(ARCHIVES):
        os.mkdir(fetched)
        _unpack(source, fetched)
        folder = fetched
    elif is_tool(source):
        return [os.path.realpath(source)]
    else:
        folder = os.path.realpath(source)
    roots = [folder, *(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))]
    for root in roots:  # an archive often holds one folder with everything in it
        if is_tool(root):
            return [root]
        for inner in _INSIDE:
            place = os.path.join(root, inner)
            tools = [path for path in candidates.tool_paths(place) if _declares(path)]
            if tools:
                return tools
    raise ToolError(
        "not_found", f"{one_line(source)} contains no tool.", suggestion="A tool is a folder with tool.md, or a file."
    )


def _name_of(source: str) -> str:
    """Return a folder name for a repository or an archive."""
    name = re.split(r"[/:]", source.rstrip("/"))[-1]
    suffix = next((suffix for suffix in (*ARCHIVES, ".git") if name.endswith(suffix)), "")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.removesuffix(suffix)).strip(".-") or "tool"


def _declares(path: str) -> bool:
    """Whether a file declares a tool, unlike a README or a setup script beside one."""
    if os.path.isdir(path):
        return True
    with open(path, "rb") as file:
        start = file.read(FILE_BYTES)
    if path.endswith(".md"):
        return start.removeprefix(b"\xef\xbb\xbf").startswith(b"---")
    return b"hilt" in start if path.endswith(".py") else b"export default" in start or b"module.exports" in start


def _clone(url: str, folder: str, surroundings: Surroundings) -> None:
    """Fetch the newest commit of a repository without running any of its code."""
    from hilt.sandbox import capturing, spawning

    git = surroundings.program("git")
    hardened = (
        *("core.hooksPath=/dev/null", "core.symlinks=false", "protocol.ext.allow=never", "core.fsmonitor=false"),
        "http.followRedirects=false",  # the person named this address and no other
    )
    settings = [word for setting in hardened for word in ("-c", setting)]
    argv = [git, *settings, "clone", "--quiet", "--depth=1", "--no-tags", "--template=", "--", url, folder]
    # ignore the repository in which hilt may have been started
    git_variables = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR")
    env = surroundings.environment({"GIT_TERMINAL_PROMPT": "0"}, without=git_variables)
    # a small repository can unpack into one of any size
    limits = spawning.Limits(timeout=CLONE_SECONDS, data=1 << 30, file_size=256 << 20)
    finished = capturing.run(argv, cwd=folder, env=env, limits=limits)
    if finished.exit_code:
        output = finished.stderr.head.decode("utf-8", "replace").strip()
        raise ToolError("network_error", f"git could not fetch {one_line(url)}: {output or finished.reason}.")
    shutil.rmtree(os.path.join(folder, ".git"))


def _unpack(path: str, folder: str) -> None:
    """Unpack an archive into a folder: only regular files, within limits, and nothing outside.

    The archive is read in a limited child process: its headers can keep a parser busy for hours.
    """
    subject = one_line(path)
    with open(path, "rb") as file:
        data = file.read(TAR_BYTES + 1)
    _check_size(data, "")
    files = decode(_UNPACKER, subject, data, Fence(), name=subject)
    for name, _, _ in files:
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or "\0" in name:
            raise reject(f"The archive contains {one_line(name)!r}, which is outside its folder.")
    for name, content, runs in files:
        target = os.path.join(folder, *name.split("/"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(os.open(target, flags, 0o700 if runs else 0o600), "wb") as file:
                file.write(b64decode(content))
        except (OSError, RecursionError) as error:
            raise _unreadable(subject, error) from None


def unpacked(data: bytes, name: str) -> list[tuple[str, str, bool]]:
    """Return the files of an archive: their names, contents in base64, and which are executable."""
    import io
    import tarfile
    import zipfile
    import zlib
    from lzma import LZMAError

    unreadable = (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, ValueError)
    files: list[tuple[str, str, bool]] = []
    total = 0
    try:
        for item in (_zipped if zipfile.is_zipfile(io.BytesIO(data)) else _tarred)(data):
            total += item.size  # before unpacking: it may be a decompression bomb
            if item.size < 0 or len(files) >= candidates.FOLDER_FILES or total > candidates.FOLDER_BYTES:
                limits = f"{candidates.FOLDER_FILES} files or {candidates.FOLDER_BYTES >> 20} MiB"
                raise ToolError("file_too_large", f"The archive contains more than {limits}.")
            content = item.read(item.size + 1)
            if len(content) != item.size:
                raise reject(f"The archive declares a wrong size for {one_line(item.name)}.")
            files.append((item.name, b64encode(content).decode(), bool(item.mode & stat.S_IXUSR)))
    except (*unreadable, RuntimeError, NotImplementedError) as error:
        raise _unreadable(name, error) from None
    return files


def _unreadable(subject: str, error: Exception) -> ToolError:
    return ToolError("unsupported_file", f"{subject} cannot be unpacked: {error}.")


class _PackedFile(NamedTuple):
    name: str
    size: int  # as the archive declares it
    mode: int
    read: Callable[[int], bytes]


def _zipped(data: bytes) -> Iterator[_PackedFile]:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        for item in zipped.infolist():
            mode = item.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise reject(f"The archive contains the link {one_line(item.filename)}.")
            if not item.is_dir():
                with zipped.open(item) as file:
                    yield _PackedFile(item.filename, item.file_size, mode, file.read)


def _tarred(data: bytes) -> Iterator[_PackedFile]:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(_uncompressed(data)), mode="r:") as tarred:
        for item in tarred:
            if item.isdir():
                continue
            file = tarred.extractfile(item) if item.isreg() else None
            if file is None:
                raise reject(f"The archive contains {one_line(item.name)}, which is not a regular file.")
            yield _PackedFile(item.name, item.size, item.mode, file.read)


def _uncompressed(data: bytes) -> bytes:
    """Return the content of an archive; tarfile itself reads headers of any size into memory."""
    import bz2
    import gzip
    import io
    import lzma

    openers: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
    opener = openers.get(data[:2])
    if opener is None:
        return data
    with opener(io.BytesIO(data)) as opened:
        content: bytes = opened.read(TAR_BYTES + 1)
    _check_size(content, " uncompressed")
    return content


def _check_size(data: bytes, what: str) -> None:
    if len(data) > TAR_BYTES:
        raise ToolError("file_too_large", f"The archive is larger than {TAR_BYTES >> 20} MiB{what}.")


def reject(message: str) -> ToolError:
    """Return the error for a source that may be hostile."""
    return ToolError("tool_invalid", message, suggestion=_ADVICE)
