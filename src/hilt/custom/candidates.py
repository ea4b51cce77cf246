"""The folders that hold custom tools, and the files and folders in them that may be tools.

For a project's tool, links are rejected and all files are read. For the user's own tools, only the definition is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from hilt import loaders
from hilt.custom.definition import FILE_BYTES, Content, Format, Loaded, ToolProblem
from hilt.errors import ToolError
from hilt.loaders import LoadedFolder, ProjectFile, Source
from hilt.places import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.tool_cache import RememberedTool, Signature

DEFINITIONS = ("tool.md", "tool.json")  # what makes a folder a tool

FOLDER_FILES = 500  # a project's tool is trusted file by file
FOLDER_BYTES = 8 << 20

_SKIPPED = ("__pycache__", "node_modules", "__init__.py")
_FORMATS: dict[str, Format] = {
    ".md": "markdown",
    ".py": "python",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts"), "javascript"),
}

_LINKED = "It is a symbolic link, which is not supported for tools of a project: replace it with a copy."

Trusted = Callable[[ProjectFile, bytes], bool]  # whether the user trusts a file with this SHA-256


class Untrusted(NamedTuple):
    """A project's tool that is not loaded: the user has not trusted its current content."""

    path: str
    files: tuple[ProjectFile, ...]  # those that are not trusted

    @property
    def message(self) -> str:
        """Why the tool is not loaded."""
        return (
            f"{self.path} is new or has changed and is not trusted. Review it: {command('tools', 'trust', self.path)}"
        )


class UnreadableTool(Exception):
    """Why a tool cannot be read."""


class Candidate(NamedTuple):
    """A file or folder that may be a tool."""

    path: str
    format: Format
    place: LoadedFolder

    @property
    def stem(self) -> str:
        """The likely name of the tool."""
        name = os.path.basename(self.path)
        return name if self.format == "folder" else os.path.splitext(name)[0]

    @property
    def own(self) -> bool:
        """Whether it is the user's, not the project's: links are followed, and only its definition is read."""
        return self.place.anchor is None

    def folder_stamp(self) -> object:
        """Return a value that changes when files are added to a folder tool of which only the definition is read."""
        if self.format != "folder" or not self.own:
            return None
        try:
            facts = os.stat(self.path)
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino

    def problem(self, error: UnreadableTool) -> ToolProblem:
        """Return why it is not loaded; the message omits the tool's path, which the problem already has."""
        message = str(error)
        prefix = f"{self.path} "
        shortened = f"It {message.removeprefix(prefix)}" if message.startswith(prefix) else message
        return ToolProblem(self.path, shortened, name=self.stem)

    def names(self) -> list[str]:
        """Return the relative names of the files to read."""
        if self.format != "folder":
            return [""]
        if self.own:
            return [name for name in DEFINITIONS if os.path.exists(os.path.join(self.path, name))]
        names: list[str] = []
        folders = [""]
        for inner in folders:
            try:
                with os.scandir(f"{self.path}/{inner}") as listing:
                    for entry in listing:
                        name = f"{inner}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(name + "/")
                        else:
                            names.append(name)
            except OSError as error:
                raise UnreadableTool(f"{inner or 'It'} cannot be read: {os.strerror(error.errno or 0)}.") from None
            if len(names) + len(folders) > FOLDER_FILES:
                raise UnreadableTool(f"The folder has more than {FOLDER_FILES} files, too many to review.")
        return sorted(names)

    def signature(self) -> Signature:
        """Return a value that changes when the tool changes."""
        return [[name, *self._facts(name)] for name in self.names()]

    def _facts(self, name: str) -> tuple[int, int, int, int]:
        path = self.file(name)
        try:
            facts = os.stat(path, follow_symlinks=self.own)
        except OSError as error:
            raise UnreadableTool(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from None
        if stat.S_ISLNK(facts.st_mode):
            raise UnreadableTool(f"{path} is a symbolic link, which is not supported for tools of a project.")
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableTool(f"{path} is not a regular file.")
        if facts.st_size > FILE_BYTES:
            raise UnreadableTool(f"{path} is larger than {FILE_BYTES >> 20} MiB.")
        return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino

    def file(self, name: str) -> str:
        """Return the path of one of its files."""
        return f"{self.path}/{name}" if name else self.path

    def read(self, signature: Signature) -> dict[str, bytes]:
        """Return the bytes of the files in a signature."""
        if sum(item[1] for item in signature) > FOLDER_BYTES:
            raise UnreadableTool(f"The files of the tool total more than {FOLDER_BYTES >> 20} MiB.")
        return {item[0]: _contents(self.file(item[0]), follow=self.own) for item in signature}

    def content(self, files: Mapping[str, bytes]) -> Content:
        """Return its bytes for a reader."""
        return Content(self.path, files, self.place.source, not self.own)

    def untrusted(self, entry: RememberedTool, trusted: Trusted) -> Untrusted | None:
        """Return the untrusted files of a project's tool, if any."""
        if self.own:
            return None
        files = {self.place.file(self.file(name)): digest for name, digest in entry.hashes.items()}
        untrusted = [file for file, digest in files.items() if not trusted(file, digest)]
        return Untrusted(self.path, tuple(untrusted)) if untrusted else None


def candidates(place: LoadedFolder, problems: list[ToolProblem]) -> Iterator[Candidate]:
    """Yield the candidates in a folder, sorted by name."""
    try:
        with (
            loaders.open_folder(place.path, follow=place.anchor is None) as handle,
            os.scandir(handle) as listing,
        ):
            entries = sorted((entry.name, entry.is_dir(), entry.is_symlink()) for entry in listing)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        problems.append(ToolProblem(place.path, f"The folder cannot be read: {_reason(error)}."))
        return
    for name, is_folder, is_link in entries:
        path = os.path.join(place.path, name)
        if is_skipped(name) or name.endswith(".d.ts"):
            continue
        if is_folder:
            if any(os.path.lexists(f"{path}/{definition}") for definition in DEFINITIONS):
                if is_link and place.anchor is not None:
                    problems.append(ToolProblem(path, _LINKED))
                else:
                    yield Candidate(path, "folder", place)
        elif (form := _FORMATS.get(os.path.splitext(name)[1])) is not None:
            yield Candidate(path, form, place)


def is_skipped(name: str) -> bool:
    """Whether a file or folder with this name is skipped."""
    return name.startswith(".") or name in _SKIPPED


def _contents(path: str, *, follow: bool) -> bytes:
    try:
        return loaders.read(path, follow=follow, limit=FILE_BYTES)
    except (OSError, ValueError) as error:
        raise UnreadableTool(f"{path} cannot be read: {_reason(error)}.") from None


def _reason(error: OSError | ValueError) -> str:
    return os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)


def read_declared(content: Content, form: Format) -> Loaded:
    """Return the tool of a Markdown file or a folder, which is read without running anything."""
    if form == "markdown":
        from hilt.custom.markdown_tools import read
    else:
        from hilt.custom.folder_tools import read
    return read(content)


def read_tool(path: str, source: Source) -> Loaded:
    """Read the Markdown or folder tool at any path; an unreadable one becomes a problem."""
    candidate = _candidate_at(path, source)
    try:
        files = candidate.read(candidate.signature())
    except UnreadableTool as error:
        return Loaded(problems=(candidate.problem(error),))
    return read_declared(candidate.content(files), candidate.format)


def tool_files(path: str) -> list[str]:
    """Return the files that a user trusts by trusting the tool at this path."""
    candidate = _candidate_at(path, "project")
    try:
        return [candidate.file(name) for name in candidate.names()]
    except UnreadableTool as error:
        raise ToolError("tool_invalid", f"{path}: {error}") from None


def tool_paths(folder: str, source: Source = "project") -> list[str]:
    """Return the paths of the candidates in a folder, sorted by name; a project's links are skipped."""
    return [candidate.path for candidate in candidates(_place_at(folder, source), [])]


def is_tool(path: str) -> bool:
    """Whether the file or folder at a path looks like a tool."""
    if os.path.isdir(path):
        return any(os.path.lexists(os.path.join(path, name)) for name in DEFINITIONS)
    return os.path.splitext(path)[1] in _FORMATS


def format_of(path: str) -> Format:
    """Return the format of the tool at a path."""
    return _candidate_at(path, "project").format


def _candidate_at(path: str, source: Source) -> Candidate:
    if not is_tool(path):
        raise ToolError(
            "tool_invalid",
            f"{path} is not a tool.",
            suggestion=f"Use a folder with {' or '.join(DEFINITIONS)}, or a file that ends in {', '.join(_FORMATS)}.",
        )
    form = "folder" if os.path.isdir(path) else _FORMATS[os.path.splitext(path)[1]]
    place = _place_at(os.path.dirname(path), source)
    return Candidate(os.path.join(place.path, os.path.basename(path)), form, place)


def _place_at(folder: str, source: Source) -> LoadedFolder:
    if source == "personal":
        return LoadedFolder("tool", folder, source)
    real = os.path.realpath(folder)
    return LoadedFolder("tool", real, source, real)
