"""What hilt loads, from which files and folders, and the one way to open those that need trust (ADR 0047).

A project's file is opened component by component from the root of its project, and no link on the way is followed:
trust in the files of one project must not extend to another that links to them.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Generic, Literal, NamedTuple, TypeVar

from hilt import handles
from hilt.places import RealPaths, config_dir, is_below

MAX_BYTES = 1024 * 1024  # of a file that a person reviews
SCAN_SECONDS = 0.25  # between two scans of folders

T = TypeVar("T")

Source = Literal["project", "personal", "directory", "built-in"]  # directory: named in settings


class LoaderPlace(NamedTuple):
    """A file or folder that hilt loads; every file in a folder belongs to what is loaded from it."""

    kind: str
    base: str  # "project", "config" for the folder of personal settings, or "home"
    path: str  # below the base
    is_folder: bool = False


def _places(kind: str, base: str, *paths: str) -> tuple[LoaderPlace, ...]:
    return tuple(LoaderPlace(kind, base, path.rstrip("/"), path.endswith("/")) for path in paths)


# in order of precedence
PLACES = (
    *_places("tool", "project", ".hilt/tools/", ".nanocoder/tools/"),
    *_places("tool", "config", "tools/"),
    *_places("tool", "home", ".config/nanocoder/tools/", ".jean2/tools/"),
    *_places("skill", "project", ".hilt/skills/", ".claude/skills/", ".agents/skills/", ".jcli/skills/"),
    *_places("skill", "config", "skills/"),
    *_places("skill", "home", ".claude/skills/", ".agents/skills/", ".jcli/skills/"),
    *_places("command", "project", ".hilt/commands/", ".claude/commands/"),
    *_places("command", "config", "commands/"),
    *_places("command", "home", ".claude/commands/"),
    *_places("agent", "project", ".hilt/agents/", ".claude/agents/", ".nanocoder/agents/"),
    *_places("agent", "config", "agents/"),
    *_places("agent", "home", ".claude/agents/", ".config/nanocoder/agents/"),
    *_places("config", "project", ".hilt/config.toml", "agents.config.json"),
    *_places("config", "config", "config.toml"),
    *_places("rules", "project", ".hilt/permissions.yaml", ".jcli/permissions.yaml"),
    *_places("rules", "config", "permissions.yaml"),
    *_places("hooks", "project", ".hilt/hooks.yaml", ".hilt/hooks/"),
    *_places("hooks", "config", "hooks.yaml", "hooks/"),
    *_places("servers", "project", ".mcp.json"),
    *_places("instructions", "project", "AGENTS.md", "CLAUDE.md", "AGENT.md", ".hilt/AGENTS.md"),
    *_places("variables", "config", ".env"),
    *_places("variables", "home", ".jean2/.env"),
)


def paths_of(kind: str, base: str = "project") -> tuple[str, ...]:
    """Return the paths of the places of a kind below a base."""
    return tuple(place.path for place in PLACES if (place.kind, place.base) == (kind, base))


# names that tools can read but not write, in any folder; instructions may be edited, and then need trust again
PROTECTED = tuple(
    dict.fromkeys(
        place.path.partition("/")[0]
        for place in PLACES
        if place.base == "project" and ("/" in place.path or place.kind != "instructions")
    )
)


class ProjectFile(NamedTuple):
    """A file that needs trust: its kind, the project it belongs to, and its path in there."""

    kind: str
    root: str  # real
    path: str

    @property
    def full(self) -> str:
        """The absolute path."""
        return f"{self.root.rstrip('/')}/{self.path}"

    @property
    def is_alias(self) -> bool:
        """Whether it only links to another file of its kind, such as CLAUDE.md to AGENTS.md, which is loaded itself."""
        return os.path.islink(self.full) and os.readlink(self.full) in paths_of(self.kind)

    def read(self) -> bytes:
        """Return the content; raise if it cannot be read, or only through a link."""
        return read(self.full)


class LoadedFolder(NamedTuple):
    """A folder that something is loaded from. With an anchor, its files are trusted as those of that project."""

    kind: str
    path: str
    source: Source
    anchor: str | None = None  # real

    def file(self, path: str) -> ProjectFile:
        """Return a file in this folder, which needs trust."""
        root = self.anchor or "/"
        return ProjectFile(self.kind, root, os.path.relpath(path, root))


class WritablePlaces:
    """Where tools can write: the workspace folders, except a configuration directory in them, which is read-only."""

    def __init__(self, roots: Sequence[str], config: str) -> None:
        """`roots` are the real paths of the folders."""
        self._roots = sorted(roots, key=len, reverse=True)  # an inner folder before the one around it
        self._config = config

    def root_of(self, path: str) -> str | None:
        """Return the root in which tools may be able to write a path."""
        root = next((root for root in self._roots if is_below(path, root)), None)
        if root is not None and is_below(path, self._config) and not is_below(root, self._config):
            return None
        return root


def writable_places(roots: Sequence[str], environ: Mapping[str, str]) -> WritablePlaces:
    """Return where tools can write, given the workspace folders."""
    return WritablePlaces(tuple(map(os.path.realpath, roots)), os.path.realpath(config_dir(environ)))


def _bases(root: str, environ: Mapping[str, str]) -> dict[str, str]:
    home = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    return {"project": root, "config": config_dir(environ), "home": home}


def guarded(roots: Sequence[str], environ: Mapping[str, str], named: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the user's own places inside the workspace folders as patterns of paths that tools must not write.

    `named` are the folders of tools that settings name. What a link leads to counts, too.
    """
    resolve = RealPaths()
    bases = _bases(roots[0], environ)
    own = [os.path.join(bases[place.base], place.path) for place in PLACES if place.base != "project"]
    own += [os.path.abspath(os.path.join(roots[0], path)) for path in named]
    territory = writable_places(roots, environ)
    patterns: dict[str, None] = {}
    for path in (*own, *map(resolve, own)):
        root = territory.root_of(path)
        if root is not None and path != root:
            patterns["/" + os.path.relpath(path, root)] = None
    return tuple(patterns)


def folders(
    kind: str, roots: Sequence[str], environ: Mapping[str, str], named: Sequence[str] = ()
) -> list[LoadedFolder]:
    """Return the folders to load a kind from, in order of precedence: `named` ones, the project's, the user's.

    `roots` are the workspace folders, the project's first. Where tools can write, files need trust, whoever's they are.
    """
    project = os.path.realpath(roots[0])
    bases = _bases(project, environ)
    territory = writable_places(roots, environ)
    candidates = [LoadedFolder(kind, os.path.abspath(os.path.join(project, path)), "directory") for path in named]
    for place in PLACES:
        if place.kind == kind and place.is_folder:
            path = os.path.join(bases[place.base], place.path)
            if place.base == "project":
                candidates.append(LoadedFolder(kind, path, "project", project))
            elif territory.root_of(path) is None:
                candidates.append(LoadedFolder(kind, path, "personal"))
            else:
                anchor = os.path.realpath(bases[place.base])
                candidates.append(LoadedFolder(kind, os.path.join(anchor, place.path), "personal", anchor))
    # a folder listed twice keeps its highest precedence, so a project's folder never counts as the user's own;
    # a link in the project, which is rejected later, does not replace its target
    found: dict[str, LoadedFolder] = {}
    for folder in candidates:
        if folder.anchor is None:
            real = folder.path if territory.root_of(folder.path) else os.path.realpath(folder.path)
            if root := territory.root_of(real):
                folder = folder._replace(path=real, anchor=root)
        found.setdefault(folder.path if folder.anchor else os.path.realpath(folder.path), folder)
    return list(found.values())


class UnreadableFile(ValueError):
    """Why a file cannot be used, as a phrase, and the code of the error."""

    def __init__(self, reason: str, code: str = "not_a_file") -> None:
        super().__init__(reason)
        self.code = code


def project_file(path: str) -> ProjectFile | None:
    """Return the file or folder at a path as hilt would load it from the project around it; None if it would not."""
    full = os.path.abspath(path)
    # what is below a folder belongs to it; ".hilt/AGENTS.md" before "AGENTS.md"
    for place in sorted(PLACES, key=lambda place: (place.is_folder, len(place.path)), reverse=True):
        if place.base == "config":
            continue
        end = "/" if place.is_folder else ""
        root, found, inner = f"{full}{end}".partition(f"/{place.path}{end}")
        if found and (place.is_folder or not inner):
            return ProjectFile(place.kind, os.path.realpath(root or "/"), os.path.join(place.path, inner).rstrip("/"))
    return None


@contextmanager
def open_folder(path: str, *, follow: bool = False) -> Iterator[int]:
    """Yield a descriptor of a folder; unless `follow` is set, no link on its path is followed."""
    with handles.Closing(
        os.open(path, handles.LISTED & ~os.O_NOFOLLOW) if follow else _open(path, handles.LISTED)
    ) as handle:
        yield handle


def read(path: str, *, follow: bool = False, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file; unless `follow` is set, no link on its path is followed."""
    with handles.Closing(
        os.open(path, handles.FILE & ~os.O_NOFOLLOW) if follow else _open(path, handles.FILE)
    ) as handle:
        data = handles.read_regular(handle, limit)
    if data is None:
        raise UnreadableFile("it is not a regular file")
    if len(data) > limit:
        raise UnreadableFile(f"it has more than {limit:,} bytes", "file_too_large")
    return data


def _open(path: str, flags: int) -> int:
    """Open an absolute path without following links, and return its descriptor."""
    try:
        return handles.open_in_folder(path, flags)
    except OSError as error:
        parents = accumulate(path.strip("/").split("/"), "{}/{}".format)
        link = next((f"/{parent}" for parent in parents if os.path.islink(f"/{parent}")), "")
        if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) or not link:
            raise
        raise UnreadableFile(
            f"{link} is a symbolic link, which hilt does not follow to a project's files; replace it with a copy",
            "denied",
        ) from None


class Scanner(Generic[T]):
    """What is loaded from some folders, up to date with their files. Thread-safe."""

    def __init__(
        self, places: Sequence[LoadedFolder], also: Sequence[str], nothing: T, every: float = SCAN_SECONDS
    ) -> None:
        """`also` are the files that change when trust does."""
        self.places = tuple(places)
        self.also = tuple(also)
        self._every = every
        self._lock = threading.Lock()
        self._scanned_at = float("-inf")
        self._contents = nothing
        self._listeners: list[Callable[[T], None]] = []

    def listen(self, listener: Callable[[T], None]) -> None:
        """Call `listener` after every scan that found something else than the last."""
        self._listeners.append(listener)

    def current(self, *, rescan: bool = False) -> T:
        """Return the contents; rescan the folders if the last scan is too old or `rescan` is set."""
        # while another thread scans, the last result is good enough
        if not self._lock.acquire(blocking=rescan or self._scanned_at < 0):
            return self._contents
        try:
            if not rescan and time.monotonic() - self._scanned_at < self._every:
                return self._contents
            before, self._contents = self._contents, self._scan()
            self._scanned_at = time.monotonic()
            current = self._contents
        finally:
            self._lock.release()
        if self._loaded(current) != self._loaded(before):
            for listener in self._listeners:
                listener(current)
        return current

    def _scan(self) -> T:
        raise NotImplementedError

    def _loaded(self, contents: T) -> object:
        """Return the part of the contents that listeners are called for."""
        raise NotImplementedError
