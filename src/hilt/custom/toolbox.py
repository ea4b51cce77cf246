"""The custom tools of a workspace as Tools: found by discovery, run by the executor of their format."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.definition import Definition, Execute
    from hilt.custom.discovery import Discovery
    from hilt.custom.precedence import CustomTools
    from hilt.custom.watching import FolderWatch
    from hilt.custom.workers import Workers
    from hilt.declaration import Tool
    from hilt.processes.declared_sandbox import DeclaredSandbox
    from hilt.sandbox.backend import Launch
    from hilt.surroundings import Surroundings


class Toolbox:
    """Custom tools by name, up to date with their files. Thread-safe; does no work before the first lookup."""

    def __init__(
        self,
        root: str,
        surroundings: Surroundings,
        state: str,
        *,
        others: Sequence[str] = (),
        directories: Sequence[str],
        reserved: Callable[[], Collection[str]],
        grants: Any,
        confine: Any,
        sandbox: str,
        confine_module: Callable[[DeclaredSandbox, str], AbstractContextManager[Launch]],
    ) -> None:
        """Set up the toolbox. `grants` are the user's, for security scripts; `confine` sets up declared sandboxes.

        `sandbox` applies to tools that declare none. `confine_module` confines modules; it takes no call, because
        modules are loaded before the first one.
        """
        self._root = root
        self._surroundings = surroundings
        self._state = state
        self._others = others
        self._directories = directories
        self._reserved = reserved
        self._grants = grants
        self._confine = confine
        self._sandbox = sandbox
        self._confine_module = confine_module
        self._boxed: tuple[CustomTools, CustomTools] | None = None  # tools as discovered, and with the default sandbox
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._discovery: Discovery | None = None
        self._watch: FolderWatch | None = None
        self._tools: dict[str, tuple[Definition, Tool]] = {}

    def close(self) -> None:
        """Stop the workers and the folder watch."""
        with self._lock:
            watch, workers = self._watch, self._workers
        if watch is not None:
            watch.close()
        if workers is not None:
            workers.close()

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, from a separate thread, soon after tools are added, changed, broken, fixed or removed.

        Return a function that removes the callback.
        """
        from hilt.custom.watching import FolderWatch

        discovery = self._open()
        with self._lock:
            if self._watch is None:
                self._watch = FolderWatch(discovery)
            watch = self._watch
        return watch.add(callback)

    def tools_found(self) -> CustomTools:
        """Return the current tools, including the broken and the untrusted ones."""
        current = self._open().current()
        default = self._default()
        if default is None:
            return current
        boxed = self._boxed
        if boxed is None or boxed[0] is not current:
            definitions = {
                name: definition if definition.sandbox else definition._replace(sandbox=default)
                for name, definition in current.definitions.items()
            }
            boxed = self._boxed = current, current._replace(definitions=definitions)
        return boxed[1]

    def _default(self) -> DeclaredSandbox | None:
        """Return the sandbox of tools that declare none; None for the rights of the user."""
        if self._sandbox == "declared":
            return None
        from hilt.processes.declared_sandbox import DeclaredSandbox

        return DeclaredSandbox(write=(".",) if self._sandbox == "workspace-write" else ())

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, or None; raise the reason if it is broken or not trusted."""
        definition = self.tools_found().find(name)
        return None if definition is None else self._tool(definition)

    def names(self) -> list[str]:
        """Return the names of all custom tools."""
        return list(self.tools_found().definitions)

    def untrusted(self) -> list[str]:
        """Return the files that are not loaded because the user has not trusted them."""
        return [tool.path for tool in self.tools_found().untrusted]

    def tools(self) -> list[Tool]:
        """Return all custom tools, sorted by name."""
        return [self._tool(definition) for _, definition in sorted(self.tools_found().definitions.items())]

    def _tool(self, definition: Definition) -> Tool:
        from hilt.custom.definition import to_tool

        cached = self._tools.get(definition.name)
        if cached is None or cached[0] is not definition:
            cached = self._tools[definition.name] = (definition, to_tool(definition, self._execute(definition)))
        return cached[1]

    def _execute(self, definition: Definition) -> Execute:
        if definition.format == "markdown":
            from hilt.custom import scripts

            return scripts.BoundScript(definition, self._surroundings, self._confine)
        if definition.format == "folder":
            from hilt.custom import folder_tools

            workers = self._workers if definition.warm else None
            return folder_tools.FolderTool(definition, self._surroundings, self._grants, self._confine, workers)
        self._open()
        assert self._workers is not None  # noqa: S101
        from hilt.custom import module_tools

        modules = module_tools.Modules(self._workers, self._surroundings, self._root, self._state)
        return module_tools.execute(definition, modules)

    def _open(self) -> Discovery:
        with self._lock:
            if self._discovery is None:
                from hilt.custom.discovery import open_discovery
                from hilt.custom.workers import Workers

                default = self._default()
                self._workers = Workers(confine=None if default is None else partial(self._confine_module, default))
                self._discovery = open_discovery(
                    self._root,
                    self._surroundings,
                    self._workers,
                    others=self._others,
                    directories=self._directories,
                    reserved=self._reserved(),
                )
            return self._discovery
