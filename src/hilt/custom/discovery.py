"""Discovers custom tools: scans the tool folders, checks trust, loads the files, and rescans when they change.

A project's file reaches its reader only if the user trusts exactly its bytes; until then it is only hashed. Results are
cached by path, size and times, in memory and in the state directory, so that unchanged files are not read again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from hilt.custom.candidates import Candidate, Trusted, UnreadableTool, candidates, read_declared
from hilt.custom.definition import Content, Format, Loaded, Reader, ToolProblem
from hilt.custom.precedence import NOTHING, CustomTools, ToolLayer, layered
from hilt.custom.tool_cache import Cache, RememberedTool
from hilt.formats.digests import sha256
from hilt.formats.times import is_settled
from hilt.loaders import SCAN_SECONDS, LoadedFolder, Scanner, WritablePlaces, folders, writable_places
from hilt.places import state_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.module_tools import Modules
    from hilt.custom.workers import Workers
    from hilt.state.trust import Trust
    from hilt.surroundings import Surroundings

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")


def trusting(trust: Trust) -> Trusted:
    """Return a function that checks whether a file is trusted as a tool; one query loads all trusted files."""
    trusted = {(item.file, item.hash) for item in trust.list()}
    return lambda file, digest: (file, digest) in trusted or trust.is_trusted(file, digest)


def open_discovery(
    root: str,
    surroundings: Surroundings,
    workers: Workers,
    *,
    others: Sequence[str] = (),
    directories: Sequence[str] = (),
    reserved: Collection[str] = (),
) -> Discovery:
    """Return the discovery for a workspace and its user, for tools of all formats.

    `others` are the workspace's other folders, where tools can write, too.
    """
    from hilt.custom.module_tools import Modules
    from hilt.state.trust import Trust, trusts_all

    state = state_dir(surroundings.given)
    modules = Modules(workers, surroundings, root, state)
    trust = Trust(state, everything=trusts_all(surroundings.given))
    name = sha256(os.fsencode(os.path.realpath(root))).hex()[:16]
    opened = Discovery(
        folders("tool", (root, *others), surroundings.given, directories),
        lambda content, form: read(content, form, modules),
        trusted=lambda: trusting(trust),
        territory=writable_places((root, *others), surroundings.given),
        reserved=reserved,
        cache=os.path.join(state, "cache", f"tools-{name}.json"),
        also=[os.path.join(state, "state.db"), os.path.join(state, "state.db-wal")],
    )
    opened.listen(_stale_worker_listener(workers))
    return opened


def _stale_worker_listener(workers: Workers) -> Callable[[CustomTools], None]:
    """Return a listener that stops the workers of files that are no longer tools."""
    previous: set[str] = set()

    def stop_stale(tools: CustomTools) -> None:
        current = {
            definition.origin
            for definition in tools.definitions.values()
            if definition.warm or definition.format in ("python", "javascript")
        }
        for origin in previous - current:
            workers.forget(origin)
        previous.clear()
        previous.update(current)

    return stop_stale


def read(content: Content, form: Format, modules: Modules) -> Loaded:
    """Return the tools of a file or folder."""
    if form in ("markdown", "folder"):
        return read_declared(content, form)
    from hilt.custom import module_tools

    return module_tools.read(content, form, modules)


def _scripts(loaded: Loaded) -> Iterator[str]:
    for definition in loaded.definitions:
        if definition.format == "folder":
            yield from filter(None, (definition.details["script"], definition.details["securityScript"]))


class Discovery(Scanner[CustomTools]):
    """The custom tools of a workspace."""

    def __init__(
        self,
        tool_places: Sequence[LoadedFolder],
        read: Reader,
        *,
        trusted: Callable[[], Trusted],
        territory: WritablePlaces | None = None,
        reserved: Collection[str] = (),
        cache: str | None = None,
        every: float = SCAN_SECONDS,
        also: Sequence[str] = (),
    ) -> None:
        """Scan these places. `trusted` is called for every scan; `cache` is the path of the cache file."""
        super().__init__(tool_places, also, NOTHING, every)
        self._reader = read
        self._trusted = trusted
        self._territory = territory or WritablePlaces((), "")
        self._reserved = frozenset(reserved)
        self._cache = None if cache is None else Cache(cache)
        self._entries: dict[str, RememberedTool] = {}

    def _loaded(self, contents: CustomTools) -> object:
        return contents.definitions, contents.problems

    def _scan(self) -> CustomTools:
        trusted = self._trusted()
        saved = self._cache.load() if self._cache is not None and not self._entries else {}
        entries: dict[str, RememberedTool] = {}
        layers: list[ToolLayer] = []
        for place in self.places:
            layer = ToolLayer()
            for candidate in candidates(place, layer.problems):
                entry = self._entry(candidate, saved)
                if isinstance(entry, ToolProblem):
                    layer.problems.append(entry)
                    layer.reasons[candidate.stem] = entry
                    continue
                entries[candidate.path] = entry
                untrusted = candidate.untrusted(entry, trusted)
                if untrusted is not None:
                    entry.files = None
                    layer.untrusted.append(untrusted)
                    layer.reasons.setdefault(candidate.stem, untrusted)
                    continue
                # loading may run a module
                problem = self._exposed(candidate, entry.hashes)
                loaded = Loaded(problems=(problem,)) if problem else self._load(candidate, entry)
                if problem := self._exposed(candidate, _scripts(loaded)):
                    loaded = Loaded(problems=(problem,))
                layer.add(candidate.stem, loaded)
            layers.append(layer)
        self._entries = entries
        if self._cache is not None:
            self._cache.save(entries)
        return layered(layers, self._reserved)

    def _exposed(self, candidate: Candidate, names: Iterable[str]) -> ToolProblem | None:
        """Return a problem if tools may be able to write one of these files of the user's own tool."""
        for name in names if candidate.own else ():
            path = os.path.realpath(candidate.file(name))
            if self._territory.root_of(path):
                message = f"{path} is inside the workspace, where tools can write; copy it to your tools folder."
                return ToolProblem(candidate.path, message, name=candidate.stem)
        return None

    def _entry(self, candidate: Candidate, saved: Mapping[str, RememberedTool]) -> RememberedTool | ToolProblem:
        """Return the cached entry of a candidate if it is still valid; otherwise read its bytes."""
        try:
            signature = candidate.signature()
            entry = self._entries.get(candidate.path) or saved.get(candidate.path)
            if entry is not None and entry.fits(candidate.place.source, signature):
                return entry
            read_at = time.time_ns()
            files = candidate.read(signature)
        except UnreadableTool as error:
            return candidate.problem(error)
        hashes = {name: sha256(data) for name, data in files.items()}
        settled = all(is_settled(max(item[2], item[3]), read_at) for item in signature)
        if entry is not None and entry.hashes == hashes and entry.source == candidate.place.source:
            # touched, or scanned too soon after it was written: the bytes are the same
            entry.signature, entry.settled = signature, settled
            return entry
        return RememberedTool(candidate.place.source, signature, hashes, settled=settled, files=files)

    def _load(self, candidate: Candidate, entry: RememberedTool) -> Loaded:
        if entry.loaded is None or entry.is_retry_due(candidate.folder_stamp):
            files = entry.files
            if files is None:
                try:
                    files = candidate.read(entry.signature)
                except UnreadableTool as error:
                    return Loaded(problems=(candidate.problem(error),))
                if {name: sha256(data) for name, data in files.items()} != entry.hashes:
                    return Loaded(
                        problems=(
                            ToolProblem(candidate.path, "The file changed while it was read.", name=candidate.stem),
                        )
                    )
            started_at, entry.folder_stamp = time.monotonic(), candidate.folder_stamp()
            entry.loaded = self._read(candidate, files)
            entry.loaded_at = time.monotonic()
            entry.load_seconds = entry.loaded_at - started_at
            entry.files = None
        return entry.loaded

    def _read(self, candidate: Candidate, files: Mapping[str, bytes]) -> Loaded:
        try:
            loaded = self._reader(candidate.content(files), candidate.format)
        except Exception as error:  # noqa: BLE001 -- a file that breaks its reader must not break the others
            message = f"Reading the file failed because of a bug in hilt: {type(error).__name__}: {error}"
            return Loaded(problems=(ToolProblem(candidate.path, message),))
        misnamed = [definition for definition in loaded.definitions if not _NAME.match(definition.name)]
        if not misnamed:
            return loaded
        problems = [
            ToolProblem(
                definition.origin,
                f"{definition.name!r} is not a valid name: use at most 64 letters, digits, _ and -.",
                definition.line,
            )
            for definition in misnamed
        ]
        valid = tuple(definition for definition in loaded.definitions if definition not in misnamed)
        return Loaded(valid, (*loaded.problems, *problems))
