"""Which custom tools there are: found in their places, trusted, read, and looked at again when files change.

A file of a project is given to its reader only when the person trusts exactly its bytes; that look at the bytes is all
that happens to it before. What was read is kept by path, size and times, in memory and in the state directory, so that
unchanged files are not read again.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from hilt.custom.candidates import Candidate, ToolPlace, Trusted, UnreadableTool, candidates, places
from hilt.custom.definition import Content, Format, Loaded, Reader, ToolProblem
from hilt.custom.layers import NOTHING, CustomTools, ToolLayer, layered
from hilt.custom.tool_cache import Cache, RememberedTool
from hilt.formats.digests import sha256
from hilt.formats.times import is_settled
from hilt.places import state_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.workers import Workers
    from hilt.state.trust import Trust

KIND = "tool"  # of trust
LOOK_SECONDS = 0.25  # between two looks at the folders

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")


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


def _forgetting(workers: Workers) -> Callable[[CustomTools], None]:
    """Return a listener that ends the workers of files which are no tools any more."""
    seen: set[str] = set()

    def heard(found: CustomTools) -> None:
        now = {one.origin for one in found.definitions.values() if one.warm or one.format in ("python", "javascript")}
        for origin in seen - now:
            workers.forget(origin)
        seen.clear()
        seen.update(now)

    return heard


def readers(workers: Workers, environ: Mapping[str, str], root: str, state: str) -> dict[Format, Reader]:
    """Return the readers by format; each is imported when there is a file for it."""

    def markdown(content: Content) -> Loaded:
        from hilt.custom.markdown_tools import read

        return read(content)

    def folder(content: Content) -> Loaded:
        from hilt.custom.folder_tools import read

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
        listed: Sequence[ToolPlace],
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
        self._known: dict[str, RememberedTool] = {}
        self._found = NOTHING
        self._listeners: list[Callable[[CustomTools], None]] = []

    def listen(self, listener: Callable[[CustomTools], None]) -> None:
        """Have `listener` called after every look that found other tools, or others broken, than the one before."""
        self._listeners.append(listener)

    def current(self, *, look: bool = False) -> CustomTools:
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

    def _look(self) -> CustomTools:
        trusted = self._trusted()
        saved = self._cache.load() if self._cache is not None and not self._known else {}
        known: dict[str, RememberedTool] = {}
        layers: list[ToolLayer] = []
        for place in self.places:
            layer = ToolLayer()
            folder = os.path.realpath(place.path)
            for candidate in candidates(place, layer.problems):
                entry = self._entry(candidate, saved)
                if isinstance(entry, ToolProblem):
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
                layer.add(candidate.stem, self._loaded(candidate, entry))
            layers.append(layer)
        self._known = known
        if self._cache is not None:
            self._cache.save(known)
        return layered(layers, self._reserved)

    def _entry(self, candidate: Candidate, saved: Mapping[str, RememberedTool]) -> RememberedTool | ToolProblem:
        """Return what is known of a candidate as it is now; its bytes are read only when it is not known."""
        try:
            signature = candidate.signature()
            entry = self._known.get(candidate.path) or saved.get(candidate.path)
            if entry is not None and entry.fits(candidate.place.source, signature):
                return entry
            at = time.time_ns()
            files = candidate.read(signature)
        except UnreadableTool as error:
            return candidate.problem(error)
        hashes = {name: sha256(data) for name, data in files.items()}
        settled = all(is_settled(max(item[2], item[3]), at) for item in signature)
        if entry is not None and entry.hashes == hashes and entry.source == candidate.place.source:
            # touched, or looked at too soon after it was written: the bytes are the same
            return entry.again(signature, settled=settled)
        return RememberedTool(candidate.place.source, signature, hashes, settled=settled, files=files)

    def _loaded(self, candidate: Candidate, entry: RememberedTool) -> Loaded:
        if entry.loaded is None or entry.may_be_mended(candidate.around):
            files = entry.files
            if files is None:
                try:
                    files = candidate.read(entry.signature)
                except UnreadableTool as error:
                    return Loaded(problems=(candidate.problem(error),))
                if {name: sha256(data) for name, data in files.items()} != entry.hashes:
                    return Loaded(
                        problems=(ToolProblem(candidate.path, "It is just being changed.", name=candidate.stem),)
                    )
            began, entry.around = time.monotonic(), candidate.around()
            entry.loaded = self._read(candidate, files)
            entry.at = time.monotonic()
            entry.took = entry.at - began
            entry.files = None
        return entry.loaded

    def _read(self, candidate: Candidate, files: Mapping[str, bytes]) -> Loaded:
        reader = self._readers.get(candidate.format)
        if reader is None:
            return Loaded(problems=(ToolProblem(candidate.path, f"There is no reader for {candidate.format} tools."),))
        try:
            loaded = reader(Content(candidate.path, files, candidate.place.source))
        except Exception as error:  # noqa: BLE001 -- a file that breaks its reader must not take the others with it
            message = f"It could not be read, which is a fault in hilt: {type(error).__name__}: {error}"
            return Loaded(problems=(ToolProblem(candidate.path, message),))
        misnamed = [found for found in loaded.definitions if not _NAME.match(found.name)]
        if not misnamed:
            return loaded
        problems = [
            ToolProblem(found.origin, f"{found.name!r} is no name: at most 64 letters, digits, _ and -.", found.line)
            for found in misnamed
        ]
        kept = tuple(found for found in loaded.definitions if found not in misnamed)
        return Loaded(kept, (*loaded.problems, *problems))
