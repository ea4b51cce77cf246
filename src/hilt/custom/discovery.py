"""Which custom tools there are: found in their places, trusted, read, layered, and looked at again when files change.

Higher places hide lower ones by name, and a broken file hides nothing. A file of a project is given to its reader only
when the person trusts exactly its bytes; that look at the bytes is all that happens to it before. What was read is kept
by path, size and times, in memory and in the state directory, so that unchanged files are not read again.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hilt.custom.definition import (
    FILE_BYTES,
    Content,
    Definition,
    Format,
    Loaded,
    Problem,
    Reader,
    Source,
)
from hilt.custom.remembered import Cache, Entry, Signature
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.places import command, config_dir, state_dir
from hilt.state.trust import TOOL_FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.workers import Workers
    from hilt.state.trust import Trust

KIND = "tool"  # of trust
DEFINITIONS = ("tool.md", "tool.json")  # what makes a folder a tool
PREFIX = "custom__"

FOLDER_FILES = 500  # a project's tool is trusted file by file
FOLDER_BYTES = 8 << 20
LOOK_SECONDS = 0.25  # between two looks at the folders

_SETTLED_NS = 50_000_000  # a file changed more recently than clocks are fine may change again and look the same
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")
_PASSED_OVER = ("__pycache__", "node_modules", "__init__.py")
_FORMATS: dict[str, Format] = {
    ".md": "markdown",
    ".py": "python",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts"), "javascript"),
}

T = TypeVar("T")
Trusted = Callable[[str, bytes], bool]  # whether the file at this real path may have this SHA-256


class Place(NamedTuple):
    """A folder of tools."""

    path: str
    source: Source


class Untrusted(NamedTuple):
    """A tool of the project that is not loaded: the person has not seen it, or not as it is now."""

    path: str
    files: tuple[str, ...]  # those that are not trusted

    @property
    def message(self) -> str:
        """Why the tool is not loaded."""
        return f"{self.path} is not trusted, or has changed since; {command('tools', 'trust', self.path)} shows it."


class Found(NamedTuple):
    """The tools there are, by name, and what is wrong. `hidden` are those that others of their name hide."""

    definitions: Mapping[str, Definition]
    hidden: tuple[Definition, ...]
    problems: tuple[Problem, ...]
    untrusted: tuple[Untrusted, ...]
    broken: Mapping[str, Problem]  # by the names under which they would be called
    awaiting: Mapping[str, Untrusted]  # likewise

    def find(self, name: str) -> Definition | None:
        """Return the tool of this name; one that is broken or not trusted raises why; None when there is none."""
        definition = self.definitions.get(name)
        if definition is not None:
            return definition
        problem = self.broken.get(name)
        if problem is not None:
            raise ToolError(
                "tool_invalid",
                f"The tool {name} is broken: {problem.place}: {problem.message}",
                file=problem.origin,
                line=problem.line,
            )
        untrusted = self.awaiting.get(name)
        if untrusted is not None:
            raise ToolError(
                "untrusted",
                f"The tool {name} is not loaded: the user has not trusted {untrusted.path} as it is now.",
                suggestion=f"Ask the user to run: {command('tools', 'trust', untrusted.path)}",
                file=untrusted.path,
            )
        return None


NOTHING = Found({}, (), (), (), {}, {})


def places(root: str, environ: Mapping[str, str], directories: Sequence[str] = ()) -> list[Place]:
    """Return the folders of tools, highest first; `directories` are those of --tools-dir, if any was given."""
    home = environ.get("HOME") or os.path.expanduser("~")
    named = directories or [part for part in environ.get("HILT_TOOLS_DIR", "").split(os.pathsep) if part]
    listed = [Place(os.path.abspath(os.path.join(root, path)), "directory") for path in named]
    listed += [Place(os.path.join(root, inner), "project") for inner in TOOL_FOLDERS]
    own = (
        os.path.join(config_dir(environ), "tools"),
        os.path.join(home, ".config", "nanocoder", "tools"),
        os.path.join(home, ".jean2", "tools"),
    )
    listed += [Place(path, "personal") for path in own]
    # a folder that is there twice counts where it is highest: a project's is then not the user's own
    seen: dict[str, Place] = {}
    for place in listed:
        seen.setdefault(os.path.realpath(place.path), place)
    return list(seen.values())


def trusting(trust: Trust) -> Trusted:
    """Return whether files are trusted as tools, from one look at the database."""
    known = {(item.path, item.hash) for item in trust.list() if item.kind == KIND}
    return lambda path, digest: (path, digest) in known or trust.is_trusted(KIND, path, digest)


def open_discovery(
    root: str,
    environ: Mapping[str, str],
    workers: Workers,
    *,
    directories: Sequence[str] = (),
    reserved: Collection[str] = (),
) -> Discovery:
    """Return the tools of a workspace and of its user, read by the readers of all formats."""
    from hilt.state.trust import Trust, trusts_all

    state = state_dir(environ)
    trust = Trust(state, everything=trusts_all(environ))
    name = sha256(os.fsencode(os.path.realpath(root))).hex()[:16]
    opened = Discovery(
        places(root, environ, directories),
        readers(workers, environ, root, state),
        trusted=lambda: trusting(trust),
        reserved=reserved,
        cache=os.path.join(state, "cache", f"tools-{name}.json"),
        also=[os.path.join(state, "state.db"), os.path.join(state, "state.db-wal")],
    )
    opened.listen(_forgetting(workers))
    return opened


def _forgetting(workers: Workers) -> Callable[[Found], None]:
    """Return a listener that ends the workers of files which are no tools any more."""
    seen: set[str] = set()

    def heard(found: Found) -> None:
        now = {one.origin for one in found.definitions.values() if one.warm or one.format in ("python", "javascript")}
        for origin in seen - now:
            workers.forget(origin)
        seen.clear()
        seen.update(now)

    return heard


def readers(workers: Workers, environ: Mapping[str, str], root: str, state: str) -> dict[Format, Reader]:
    """Return the readers by format; each is imported when there is a file for it."""

    def markdown(content: Content) -> Loaded:
        from hilt.custom.markdown import read

        return read(content)

    def folder(content: Content) -> Loaded:
        from hilt.custom.folders import read

        return read(content)

    def python(content: Content) -> Loaded:
        from hilt.custom.python_tools import reader

        return reader(workers, environ, root)(content)

    def javascript(content: Content) -> Loaded:
        from hilt.custom.javascript_tools import reader

        return reader(workers, environ, root, state)(content)

    return {"markdown": markdown, "folder": folder, "python": python, "javascript": javascript}


class Discovery:
    """The custom tools of a workspace, as its files are now. May be used from many threads."""

    def __init__(
        self,
        listed: Sequence[Place],
        readers: Mapping[Format, Reader],
        *,
        trusted: Callable[[], Trusted],
        reserved: Collection[str] = (),
        cache: str | None = None,
        every: float = LOOK_SECONDS,
        also: Sequence[str] = (),
    ) -> None:
        """Look in these places. `trusted` is asked anew at every look; `cache` is the file of what was read before.

        `also` are the files which change when what is trusted does.
        """
        self.places = tuple(listed)
        self.also = tuple(also)
        self._readers = readers
        self._trusted = trusted
        self._reserved = frozenset(reserved)
        self._cache = None if cache is None else Cache(cache)
        self._every = every
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._known: dict[str, Entry] = {}
        self._found = NOTHING
        self._listeners: list[Callable[[Found], None]] = []

    def listen(self, listener: Callable[[Found], None]) -> None:
        """Have `listener` called after every look that found other tools, or others broken, than the one before."""
        self._listeners.append(listener)

    def current(self, *, look: bool = False) -> Found:
        """Return the tools there are; the folders are looked at again when the last look is too long ago, or now."""
        # while another thread looks, what was found before will do
        if not self._lock.acquire(blocking=look or self._looked < 0):
            return self._found
        try:
            if not look and time.monotonic() - self._looked < self._every:
                return self._found
            before, self._found = self._found, self._look()
            self._looked = time.monotonic()
            found = self._found
        finally:
            self._lock.release()
        if (found.definitions, found.broken) != (before.definitions, before.broken):
            for listener in self._listeners:
                listener(found)
        return found

    def _look(self) -> Found:
        trusted = self._trusted()
        saved = self._cache.load() if self._cache is not None and not self._known else {}
        known: dict[str, Entry] = {}
        layers: list[_Layer] = []
        for place in self.places:
            layer = _Layer()
            folder = os.path.realpath(place.path)
            for candidate in _candidates(place, layer.problems):
                entry = self._entry(candidate, saved)
                if isinstance(entry, Problem):
                    layer.problems.append(entry)
                    layer.guesses[candidate.stem] = entry
                    continue
                known[candidate.path] = entry
                refused = candidate.untrusted(entry, folder, trusted)
                if refused is not None:
                    entry.files = None
                    layer.untrusted.append(refused)
                    layer.awaiting[candidate.stem] = refused
                    continue
                layer.add(candidate, self._loaded(candidate, entry))
            layers.append(layer)
        self._known = known
        if self._cache is not None:
            self._cache.save(known)
        return _layered(layers, self._reserved)

    def _entry(self, candidate: _Candidate, saved: Mapping[str, Entry]) -> Entry | Problem:
        """Return what is known of a candidate as it is now; its bytes are read only when it is not known."""
        try:
            signature = candidate.signature()
            entry = self._known.get(candidate.path) or saved.get(candidate.path)
            if entry is not None and entry.fits(candidate.place.source, signature):
                return entry
            at = time.time_ns()
            files = candidate.read(signature)
        except _Unreadable as error:
            return candidate.problem(error)
        hashes = {name: sha256(data) for name, data in files.items()}
        settled = all(at - max(item[2], item[3]) > _SETTLED_NS for item in signature)
        if entry is not None and entry.hashes == hashes and entry.source == candidate.place.source:
            # touched, or looked at too soon after it was written: the bytes are the same
            return entry.again(signature, settled=settled)
        return Entry(candidate.place.source, signature, hashes, settled=settled, files=files)

    def _loaded(self, candidate: _Candidate, entry: Entry) -> Loaded:
        if entry.loaded is None or entry.may_be_mended(candidate.around):
            files = entry.files
            if files is None:
                try:
                    files = candidate.read(entry.signature)
                except _Unreadable as error:
                    return Loaded(problems=(candidate.problem(error),))
                if {name: sha256(data) for name, data in files.items()} != entry.hashes:
                    return Loaded(problems=(Problem(candidate.path, "It is just being changed.", name=candidate.stem),))
            began, entry.around = time.monotonic(), candidate.around()
            entry.loaded = self._read(candidate, files)
            entry.at = time.monotonic()
            entry.took = entry.at - began
            entry.files = None
        return entry.loaded

    def _read(self, candidate: _Candidate, files: Mapping[str, bytes]) -> Loaded:
        reader = self._readers.get(candidate.format)
        if reader is None:
            return Loaded(problems=(Problem(candidate.path, f"There is no reader for {candidate.format} tools."),))
        try:
            loaded = reader(Content(candidate.path, files, candidate.place.source))
        except Exception as error:  # noqa: BLE001 -- a file that breaks its reader must not take the others with it
            message = f"It could not be read, which is a fault in hilt: {type(error).__name__}: {error}"
            return Loaded(problems=(Problem(candidate.path, message),))
        misnamed = [found for found in loaded.definitions if not _NAME.match(found.name)]
        if not misnamed:
            return loaded
        problems = [
            Problem(found.origin, f"{found.name!r} is no name: at most 64 letters, digits, _ and -.", found.line)
            for found in misnamed
        ]
        kept = tuple(found for found in loaded.definitions if found not in misnamed)
        return Loaded(kept, (*loaded.problems, *problems))


def read_tool(path: str, source: Source, readers: Mapping[Format, Reader]) -> Loaded:
    """Read the tool at a path, wherever it is; what is not one is a problem."""
    candidate = _named(path, source)
    try:
        files = candidate.read(candidate.signature())
    except _Unreadable as error:
        return Loaded(problems=(candidate.problem(error),))
    return readers[candidate.format](Content(candidate.path, files, source))


def tool_files(path: str) -> list[str]:
    """Return the files that a person trusts when they trust the tool at this path."""
    candidate = _named(path, "project")
    try:
        return [candidate.file(name) for name in candidate.names()]
    except _Unreadable as error:
        raise ToolError("tool_invalid", f"{path}: {error}") from None


def tool_paths(folder: str, source: Source = "project") -> list[str]:
    """Return the paths of what may be a tool in a folder, by name; links of a project are left out."""
    return [candidate.path for candidate in _candidates(Place(folder, source), [])]


def is_tool(path: str) -> bool:
    """Whether what is at a path looks like a tool."""
    if os.path.isdir(path):
        return any(os.path.lexists(os.path.join(path, name)) for name in DEFINITIONS)
    return os.path.splitext(path)[1] in _FORMATS


def format_of(path: str) -> Format:
    """Return the format of the tool at a path."""
    return _named(path, "project").format


def _named(path: str, source: Source) -> _Candidate:
    if not is_tool(path):
        raise ToolError(
            "tool_invalid",
            f"{path} is no tool.",
            suggestion=f"Name a folder with {' or '.join(DEFINITIONS)}, or a file with {', '.join(_FORMATS)}.",
        )
    form = "folder" if os.path.isdir(path) else _FORMATS[os.path.splitext(path)[1]]
    return _Candidate(path, form, Place(os.path.dirname(path), source))


# --- layering -------------------------------------------------------------------------------------------------------


class _Layer:
    """What one folder came to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.hidden: list[Definition] = []
        self.problems: list[Problem] = []
        self.untrusted: list[Untrusted] = []
        self.guesses: dict[str, Problem] = {}  # broken ones, by the names that they have or might have
        self.awaiting: dict[str, Untrusted] = {}

    def add(self, candidate: _Candidate, loaded: Loaded) -> None:
        """Add what a file declares; of two tools with one name the first stays."""
        for definition in loaded.definitions:
            first = self.definitions.setdefault(definition.name, definition)
            if first is not definition:
                self.hidden.append(definition)
                message = f"There is already a tool {definition.name} in this folder, in {first.origin}."
                self.problems.append(Problem(definition.origin, message, definition.line, definition.name))
        for problem in loaded.problems:
            self.problems.append(problem)
            for name in (problem.name, candidate.stem):
                if name is not None:
                    self.guesses.setdefault(name, problem)  # the first is what is told


def _layered(layers: Iterable[_Layer], reserved: Collection[str]) -> Found:
    definitions: dict[str, Definition] = {}
    hidden: list[Definition] = []
    problems: list[Problem] = []
    untrusted: list[Untrusted] = []
    broken: dict[str, Problem] = {}
    awaiting: dict[str, Untrusted] = {}
    for layer in layers:
        problems += layer.problems
        untrusted += layer.untrusted
        hidden += layer.hidden
        for found in layer.definitions.values():
            definition = found
            if definition.name in reserved:
                if definition.source != "directory":
                    message = f"{definition.name} is the name of a built-in tool; the file needs another."
                    problems.append(Problem(definition.origin, message, definition.line, definition.name))
                    continue
                definition = definition._replace(name=PREFIX + definition.name)
            if definitions.setdefault(definition.name, definition) is not definition:
                hidden.append(definition)
        _spell(layer.guesses, broken)
        _spell(layer.awaiting, awaiting)
    return Found(definitions, tuple(hidden), tuple(problems), tuple(untrusted), broken, awaiting)


def _spell(guesses: Mapping[str, T], wanted: dict[str, T]) -> None:
    """Add reasons under the names by which a tool may be called: files are often named with a dash."""
    for name, why in guesses.items():
        for spelled in (name, name.replace("-", "_")):
            wanted.setdefault(spelled, why)


# --- files ----------------------------------------------------------------------------------------------------------


class _Unreadable(Exception):
    """Why a tool cannot be read."""


class _Candidate(NamedTuple):
    """A file or folder that may be a tool."""

    path: str
    format: Format
    place: Place

    @property
    def stem(self) -> str:
        """The name that the tool probably has."""
        name = os.path.basename(self.path)
        return name if self.format == "folder" else os.path.splitext(name)[0]

    @property
    def own(self) -> bool:
        """Whether it is the user's, not the project's: links are followed then, and only its definition is read."""
        return self.place.source != "project"

    def around(self) -> object:
        """Return what changes when files come to a folder of which only the definition counts."""
        if self.format != "folder" or not self.own:
            return None
        try:
            facts = os.stat(self.path)
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino

    def problem(self, error: _Unreadable) -> Problem:
        """Return why it is not loaded; its own path is told with that anyway."""
        message = str(error)
        itself = f"{self.path} "
        told = f"It {message.removeprefix(itself)}" if message.startswith(itself) else message
        return Problem(self.path, told, name=self.stem)

    def names(self) -> list[str]:
        """Return the files that count, by their names in the tool."""
        if self.format != "folder":
            return [""]
        if self.own:
            return [name for name in DEFINITIONS if os.path.exists(os.path.join(self.path, name))]
        found: list[str] = []
        folders = [""]
        for inner in folders:
            try:
                with os.scandir(f"{self.path}/{inner}") as listing:
                    for entry in listing:
                        name = f"{inner}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(name + "/")
                        else:
                            found.append(name)
            except OSError as error:
                raise _Unreadable(f"{inner or 'It'} cannot be read: {os.strerror(error.errno or 0)}.") from None
            if len(found) + len(folders) > FOLDER_FILES:
                raise _Unreadable(f"It holds more than {FOLDER_FILES} files, which nobody looks through.")
        return sorted(found)

    def signature(self) -> Signature:
        """Return what changes when the tool changes."""
        return [[name, *self._facts(name)] for name in self.names()]

    def _facts(self, name: str) -> tuple[int, int, int, int]:
        path = self.file(name)
        try:
            facts = os.stat(path, follow_symlinks=self.own)
        except OSError as error:
            raise _Unreadable(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from None
        if stat.S_ISLNK(facts.st_mode):
            raise _Unreadable(f"{path} is a link; the tools of a project are files in it.")
        if not stat.S_ISREG(facts.st_mode):
            raise _Unreadable(f"{path} is not a regular file.")
        if facts.st_size > FILE_BYTES:
            raise _Unreadable(f"{path} is larger than {FILE_BYTES >> 20} MiB.")
        return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino

    def file(self, name: str) -> str:
        """Return the path of one of its files."""
        return f"{self.path}/{name}" if name else self.path

    def read(self, signature: Signature) -> dict[str, bytes]:
        """Return the bytes of all files that count."""
        if sum(item[1] for item in signature) > FOLDER_BYTES:
            raise _Unreadable(f"Its files are larger than {FOLDER_BYTES >> 20} MiB together.")
        return {item[0]: _contents(self.file(item[0]), follow=self.own) for item in signature}

    def untrusted(self, entry: Entry, folder: str, trusted: Trusted) -> Untrusted | None:
        """Return what keeps a project's tool from being loaded; `folder` is the real path of its place."""
        if self.own:
            return None
        real = folder + self.path[len(self.place.path) :]
        refused = [
            self.file(name)
            for name, digest in entry.hashes.items()
            if not trusted(f"{real}/{name}" if name else real, digest)
        ]
        return Untrusted(self.path, tuple(refused)) if refused else None


def _candidates(place: Place, problems: list[Problem]) -> Iterator[_Candidate]:
    """Yield what may be a tool in a folder, by name."""
    if place.source == "project":
        for folder in (os.path.dirname(place.path), place.path):
            if os.path.islink(folder):
                problems.append(Problem(folder, "It is a link; the tools of a project are files in it."))
                return
    try:
        with os.scandir(place.path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Problem(place.path, f"The folder cannot be read: {os.strerror(error.errno or 0)}."))
        return
    for entry in entries:
        if is_passed_over(entry.name) or entry.name.endswith(".d.ts"):
            continue
        if entry.is_dir():
            if any(os.path.lexists(f"{entry.path}/{name}") for name in DEFINITIONS):
                if place.source == "project" and entry.is_symlink():
                    problems.append(Problem(entry.path, "It is a link; the tools of a project are files in it."))
                else:
                    yield _Candidate(entry.path, "folder", place)
        elif (form := _FORMATS.get(os.path.splitext(entry.name)[1])) is not None:
            yield _Candidate(entry.path, form, place)


def is_passed_over(name: str) -> bool:
    """Whether a file or folder among the tools is none, by its name."""
    return name.startswith(".") or name in _PASSED_OVER


def _contents(path: str, *, follow: bool) -> bytes:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _Unreadable(f"{path} is not a regular file.")
            data = file.read(FILE_BYTES + 1) or b""
    except OSError as error:
        reason = "is a link" if error.errno == errno.ELOOP else f"cannot be read: {os.strerror(error.errno or 0)}"
        raise _Unreadable(f"{path} {reason}.") from None
    if len(data) > FILE_BYTES:
        raise _Unreadable(f"{path} is larger than {FILE_BYTES >> 20} MiB.")
    return data
