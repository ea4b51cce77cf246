"""`hilt tools install|remove`: copy tools from a path, a repository or an archive to the personal tools.

No tool code runs before the person has seen its files and agreed. Exactly the bytes that were shown are written.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from hilt import places
from hilt.custom import candidates, discovery
from hilt.custom.candidates import is_tool
from hilt.custom.definition import FILE_BYTES, Loaded, ToolProblem, fingerprint
from hilt.custom.workers import Workers
from hilt.errors import ToolError
from hilt.formats.invisible import decoded, one_line
from hilt.loaders import paths_of
from hilt.output.terminal import inert
from hilt.surfaces.cli import tools_installed
from hilt.surfaces.cli.tool_files import abilities
from hilt.surfaces.opening import open_runtime, surroundings_of
from hilt.surfaces.terminal_prompt import Terminal
from hilt.surroundings import Surroundings

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
CLONE_SECONDS = 300.0
TAR_BYTES = 2 * candidates.FOLDER_BYTES  # uncompressed, with its headers

_REMOTE = re.compile(r"(https|http|ssh|git|file)://|[\w.-]+@[\w.-]+:")
# folders in which a repository or an archive may keep its tools
_INSIDE = ("", "tools", *paths_of("tool"))


class Staged(NamedTuple):
    """A tool to install: its file name, and its files."""

    name: str
    files: Mapping[str, bytes]
    runs: frozenset[str]  # the files that are executable


def install(screen: Terminal, source: str, options: Mapping[str, str]) -> int:
    """Show the tools of a source, and install those that the person accepts; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="hilt-install-") as folder:
        staged = [_staged(path) for path in _tools_of(source, folder, options)]
        answers = [_install_one(screen, tool, source) for tool in staged]
    return 0 if all(answers) else 1


def _tools_of(source: str, folder: str, options: Mapping[str, str]) -> list[str]:
    """Return the paths of the tools in a source, fetching or unpacking it into the folder."""
    fetched = os.path.join(folder, _name_of(source))
    if _REMOTE.match(source):
        os.mkdir(fetched)
        _clone(source, fetched, options)
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


def _staged(path: str) -> Staged:
    """Read the files once, so that the bytes shown are the bytes written."""
    if os.path.basename(path).startswith("."):
        raise _reject(f"The tool has the hidden name {one_line(os.path.basename(path))!r}.")
    contents = tools_installed.contents(path)
    return Staged(os.path.basename(path), contents.files, contents.runs)


def _install_one(screen: Terminal, staged: Staged, source: str) -> bool:
    target = os.path.join(tools_installed.own_folder(), staged.name)
    if os.path.lexists(target):
        raise ToolError(
            "already_exists",
            f"{one_line(target)} already exists.",
            suggestion=f"Remove it first: {places.command('tools', 'remove', one_line(staged.name))}",
        )
    page = screen.page()
    checksum = fingerprint(staged.files)
    screen.write(f"{one_line(staged.name)}, checksum {checksum}:\n")
    for name, content in staged.files.items():
        if name:
            runs = ", executable" if name in staged.runs else ""
            screen.write(f"{one_line(name)}, {len(content):,} bytes{runs}:\n")
        screen.write(page.text(decoded(content), whole=True))
    screen.write("".join(f"  {inert(one_line(fact))}\n" for fact in _abilities(staged)))
    screen.write(f"Install it as {one_line(target)}? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Not installed.\n")
        return False
    _write(staged, target)
    tools_installed.record(lambda entries: {**entries, staged.name: {"from": source, "checksum": checksum}})
    screen.write("Installed.\n")
    return True


def _abilities(staged: Staged) -> list[str]:
    """Return what a tool can do, as far as that is known without running it."""
    with tempfile.TemporaryDirectory(prefix="hilt-install-") as folder:
        path = os.path.join(folder, staged.name)
        _write(staged, path)
        if candidates.format_of(path) in ("python", "javascript"):
            return ["a program: from the moment it is loaded, it has all your permissions"]
        with Workers() as workers:
            readers = discovery.readers(workers, Surroundings(os.environ, (folder,)), folder, folder)
            loaded: Loaded = candidates.read_tool(path, "personal", readers)
    facts = [fact for definition in loaded.definitions for fact in (definition.name, *abilities(definition))]
    return [*facts, *(f"broken: {_inside(problem, path)}" for problem in loaded.problems)]


def _inside(problem: ToolProblem, path: str) -> str:
    line = "" if problem.line is None else f"line {problem.line}: "
    return line + problem.message.replace(path, os.path.basename(path))


def _write(staged: Staged, target: str) -> None:
    """Write a tool atomically: it appears under its name when it is complete."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=os.path.dirname(target)) as fresh:
        top = os.path.join(fresh, "tool")
        for name, content in staged.files.items():
            path = os.path.join(top, name) if name else top
            os.makedirs(os.path.dirname(path), exist_ok=True)
            mode = 0o755 if name in staged.runs else 0o644
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(content)
        os.rename(top, target)


def _clone(url: str, folder: str, options: Mapping[str, str]) -> None:
    """Fetch the newest commit of a repository without running any of its code."""
    from hilt.sandbox import capturing, spawning

    surroundings = surroundings_of(options)
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
    """Unpack an archive into a folder: only regular files, within limits, and nothing outside."""
    import tarfile
    import zipfile
    import zlib
    from lzma import LZMAError

    unreadable = (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError)
    try:
        if zipfile.is_zipfile(path):
            _unzip(path, folder)
        else:
            _untar(path, folder)
    except (*unreadable, RuntimeError, NotImplementedError) as error:
        raise ToolError("unsupported_file", f"{one_line(path)} cannot be unpacked: {error}.") from None


def _unzip(path: str, folder: str) -> None:
    import zipfile

    target_folder = _ArchiveFolder(folder)
    with zipfile.ZipFile(path) as zipped:
        for item in zipped.infolist():
            mode = item.external_attr >> 16
            if item.is_dir():
                continue
            if stat.S_ISLNK(mode):
                raise _reject(f"The archive contains the link {one_line(item.filename)}.")
            target_folder.enter(item.filename, item.file_size)
            with zipped.open(item) as file:
                target_folder.put(
                    item.filename, file.read(item.file_size + 1), item.file_size, runs=bool(mode & stat.S_IXUSR)
                )


def _untar(path: str, folder: str) -> None:
    import tarfile

    target_folder = _ArchiveFolder(folder)
    with tarfile.open(fileobj=io.BytesIO(_uncompressed(path)), mode="r:") as tarred:
        for item in tarred:
            if item.isdir():
                continue
            if not item.isreg():
                raise _reject(f"The archive contains {one_line(item.name)}, which is not a regular file.")
            target_folder.enter(item.name, item.size)  # before unpacking: it may be a decompression bomb
            file = tarred.extractfile(item)
            content = b"" if file is None else file.read(item.size + 1)
            target_folder.put(item.name, content, item.size, runs=bool(item.mode & stat.S_IXUSR))


def _uncompressed(path: str) -> bytes:
    """Return the content of an archive; tarfile itself reads headers of any size into memory."""
    import bz2
    import gzip
    import lzma

    with open(path, "rb") as file:
        start = file.read(2)
    openers: dict[bytes, Callable[[str], Any]] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
    with openers.get(start, partial(open, mode="rb"))(path) as opened:
        data: bytes = opened.read(TAR_BYTES + 1)
    if len(data) > TAR_BYTES:
        raise ToolError("file_too_large", f"The archive is larger than {TAR_BYTES >> 20} MiB uncompressed.")
    return data


class _ArchiveFolder:
    """The folder for the files of an archive; enforces the limits, and that every path stays inside."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files = 0
        self._bytes = 0

    def enter(self, name: str, size: int) -> None:
        """Reject a file that exceeds the limits or is outside the folder."""
        self._files += 1
        self._bytes += size
        if self._files > candidates.FOLDER_FILES or self._bytes > candidates.FOLDER_BYTES:
            limits = f"{candidates.FOLDER_FILES} files or {candidates.FOLDER_BYTES >> 20} MiB"
            raise ToolError("file_too_large", f"The archive contains more than {limits}.")
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or "\0" in name:
            raise _reject(f"The archive contains {one_line(name)!r}, which is outside its folder.")

    def put(self, name: str, content: bytes, size: int, *, runs: bool) -> None:
        """Write a file."""
        if len(content) != size:
            raise _reject(f"The archive declares a wrong size for {one_line(name)}.")
        path = os.path.join(self._folder, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o700 if runs else 0o600), "wb") as file:
            file.write(content)


def _reject(message: str) -> ToolError:
    return ToolError("tool_invalid", message, suggestion="Install from a source that you trust.")


def remove(screen: Terminal, name: str) -> int:
    """Remove a personal tool if the person confirms; return the exit status."""
    folder = tools_installed.own_folder()
    installed = candidates.tool_paths(folder, "personal")
    matches = [path for path in installed if name in (os.path.basename(path), _stem(path))]
    matches = matches or _declaring(name, installed)
    if not matches:
        raise ToolError(
            "not_found",
            f"There is no tool {one_line(name)} in {one_line(folder)}.",
            suggestion=f"To see where a tool comes from: {places.command('tools', 'show', 'NAME')}",
        )
    for path in matches:
        screen.write(f"Remove {one_line(path)}? [y/n] > ")
        answer = screen.read()
        if answer.strip().casefold() not in ("y", "yes"):
            screen.write(("" if answer else "\n") + "Not removed.\n")
            return 1
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        _forget(os.path.basename(path))
        screen.write("Removed.\n")
    return 0


def _declaring(name: str, paths: Sequence[str]) -> list[str]:
    """Return the paths that declare a tool of this name, whatever their file names are."""
    # loads modules like any other list of tools, in the sandbox that the settings require
    with open_runtime({}) as runtime:
        custom = runtime.custom()
    same_name = (custom.definitions.get(name), *(tool for tool in custom.hidden if tool.name == name))
    origins = [tool.origin for tool in same_name if tool is not None]
    return [path for path in paths if any(origin in (path, *_definitions(path)) for origin in origins)]


def _definitions(path: str) -> list[str]:
    return [os.path.join(path, name) for name in candidates.DEFINITIONS]


def _forget(name: str) -> None:
    if name in tools_installed.records():
        tools_installed.record(lambda entries: {key: value for key, value in entries.items() if key != name})


def _stem(path: str) -> str:
    return os.path.basename(path) if os.path.isdir(path) else os.path.splitext(os.path.basename(path))[0]
