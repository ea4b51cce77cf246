"""The custom tools of a workspace as Tools: found by discovery, run by the executor of their format."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.custom.definition import Definition, Execute
    from tongs.custom.discovery import Discovery, Found
    from tongs.custom.watching import Watch
    from tongs.custom.workers import Workers
    from tongs.declaration import Tool


class Toolbox:
    """Custom tools by name, as their files are now. May be used from many threads; no work before the first look."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        state: str,
        *,
        directories: Sequence[str],
        reserved: Callable[[], Collection[str]],
        grants: Any,
        confine: Any,
    ) -> None:
        """Take what the executors need: the user's grants for security scripts, and what confines a tool that asks."""
        self._root = root
        self._environ = environ
        self._state = state
        self._directories = directories
        self._reserved = reserved
        self._grants = grants
        self._confine = confine
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._discovery: Discovery | None = None
        self._watch: Watch | None = None
        self._made: dict[str, tuple[Definition, Tool]] = {}

    def close(self) -> None:
        """End the workers, and the watch over the folders."""
        with self._lock:
            watch, workers = self._watch, self._workers
        if watch is not None:
            watch.close()
        if workers is not None:
            workers.close()

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called, from a thread of its own, soon after tools came, changed, broke, were mended or went.

        What is returned ends that.
        """
        from tongs.custom.watching import Watch

        discovery = self._open()
        with self._lock:
            if self._watch is None:
                self._watch = Watch(discovery)
            watch = self._watch
        return watch.add(callback)

    def found(self) -> Found:
        """Return what there is now, what is broken and what is not trusted."""
        return self._open().current()

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name; one that is broken or not trusted raises why."""
        definition = self.found().find(name)
        return None if definition is None else self._tool(definition)

    def tools(self) -> list[Tool]:
        """Return all of them, by name."""
        return [self._tool(definition) for _, definition in sorted(self.found().definitions.items())]

    def _tool(self, definition: Definition) -> Tool:
        from tongs.custom.definition import to_tool

        known = self._made.get(definition.name)
        if known is None or known[0] is not definition:
            known = self._made[definition.name] = (definition, to_tool(definition, self._execute(definition)))
        return known[1]

    def _execute(self, definition: Definition) -> Execute:
        if definition.format == "markdown":
            from tongs.custom import scripts

            return scripts.executor(self._environ, self._confine)(definition)
        if definition.format == "folder":
            from tongs.custom import folders

            workers = self._workers if definition.warm else None
            return folders.executor(self._environ, self._grants, self._confine, workers)(definition)
        self._open()
        assert self._workers is not None  # noqa: S101
        if definition.format == "python":
            from tongs.custom import python_tools

            return python_tools.executor(self._workers, self._environ, self._root)(definition)
        from tongs.custom import javascript_tools

        return javascript_tools.executor(self._workers, self._environ, self._root, self._state)(definition)

    def _open(self) -> Discovery:
        with self._lock:
            if self._discovery is None:
                from tongs.custom.discovery import open_discovery
                from tongs.custom.workers import Workers

                self._workers = Workers()
                self._discovery = open_discovery(
                    self._root,
                    self._environ,
                    self._workers,
                    directories=self._directories,
                    reserved=self._reserved(),
                )
            return self._discovery
