"""The custom tools of a workspace as Tools: found by discovery, run by the executor of their format."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.definition import Definition, Execute
    from hilt.custom.discovery import Discovery
    from hilt.custom.layers import CustomTools
    from hilt.custom.watching import ToolWatch
    from hilt.custom.workers import Workers
    from hilt.declaration import Tool
    from hilt.processes.declared_sandbox import DeclaredSandbox
    from hilt.sandbox.process import Confined


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
        sandbox: str,
        confine_module: Callable[[DeclaredSandbox, str], AbstractContextManager[Confined]],
    ) -> None:
        """Take what the executors need: the user's grants for security scripts, and what confines a tool that asks.

        `sandbox` is what tools get that ask for none; modules are confined without a call, since they are loaded first.
        """
        self._root = root
        self._environ = environ
        self._state = state
        self._directories = directories
        self._reserved = reserved
        self._grants = grants
        self._confine = confine
        self._sandbox = sandbox
        self._confine_module = confine_module
        self._boxed: tuple[CustomTools, CustomTools] | None = None  # what was found, and the same with that sandbox
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._discovery: Discovery | None = None
        self._watch: ToolWatch | None = None
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
        from hilt.custom.watching import ToolWatch

        discovery = self._open()
        with self._lock:
            if self._watch is None:
                self._watch = ToolWatch(discovery)
            watch = self._watch
        return watch.add(callback)

    def found(self) -> CustomTools:
        """Return what there is now, what is broken and what is not trusted."""
        found = self._open().current()
        box = self._default()
        if box is None:
            return found
        boxed = self._boxed
        if boxed is None or boxed[0] is not found:
            own = {name: one if one.sandbox else one._replace(sandbox=box) for name, one in found.definitions.items()}
            boxed = self._boxed = found, found._replace(definitions=own)
        return boxed[1]

    def _default(self) -> DeclaredSandbox | None:
        """Return the sandbox of tools that ask for none; None for the rights of the user."""
        if self._sandbox == "declared":
            return None
        from hilt.processes.declared_sandbox import DeclaredSandbox

        return DeclaredSandbox(write=(".",) if self._sandbox == "workspace-write" else ())

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name; one that is broken or not trusted raises why."""
        definition = self.found().find(name)
        return None if definition is None else self._tool(definition)

    def names(self) -> list[str]:
        """Return the names of all of them."""
        return list(self.found().definitions)

    def untrusted(self) -> list[str]:
        """Return the files that are not loaded because the user has not trusted them."""
        return [one.path for one in self.found().untrusted]

    def tools(self) -> list[Tool]:
        """Return all of them, by name."""
        return [self._tool(definition) for _, definition in sorted(self.found().definitions.items())]

    def _tool(self, definition: Definition) -> Tool:
        from hilt.custom.definition import to_tool

        known = self._made.get(definition.name)
        if known is None or known[0] is not definition:
            known = self._made[definition.name] = (definition, to_tool(definition, self._execute(definition)))
        return known[1]

    def _execute(self, definition: Definition) -> Execute:
        if definition.format == "markdown":
            from hilt.custom import scripts

            return scripts.executor(self._environ, self._confine)(definition)
        if definition.format == "folder":
            from hilt.custom import folder_tools

            workers = self._workers if definition.warm else None
            return folder_tools.executor(self._environ, self._grants, self._confine, workers)(definition)
        self._open()
        assert self._workers is not None  # noqa: S101
        if definition.format == "python":
            from hilt.custom import python_tools

            return python_tools.executor(self._workers, self._environ, self._root)(definition)
        from hilt.custom import javascript_tools

        return javascript_tools.executor(self._workers, self._environ, self._root, self._state)(definition)

    def _open(self) -> Discovery:
        with self._lock:
            if self._discovery is None:
                from hilt.custom.discovery import open_discovery
                from hilt.custom.workers import Workers

                box = self._default()
                self._workers = Workers(confine=None if box is None else partial(self._confine_module, box))
                self._discovery = open_discovery(
                    self._root,
                    self._environ,
                    self._workers,
                    directories=self._directories,
                    reserved=self._reserved(),
                )
            return self._discovery
