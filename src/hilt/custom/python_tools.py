"""Python tools: the functions under `@tool` of a file, in a worker process that stays warm.

The interpreter is that of hilt, isolated: neither the workspace nor PYTHON* variables nor the folder of the file are
on its path, so that nothing but the trusted file is run from a project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import hilt
from hilt.custom import module_tools
from hilt.custom.definition import Content, Definition, Execute, Loaded, Reader
from hilt.custom.workers import Recipe, Workers

_LAUNCH = "import sys; sys.path.append(sys.argv.pop(1)); from hilt.custom.python_host import main; main()"


def reader(workers: Workers, environ: Mapping[str, str], root: str) -> Reader:
    """Return what reads a Python file: its tools are described by a worker."""

    def read(content: Content) -> Loaded:
        return module_tools.read(content, "python", workers, _start(environ, root), _fields)

    return read


def executor(workers: Workers, environ: Mapping[str, str], root: str) -> Callable[[Definition], Execute]:
    """Return what makes the function of a definition, for `to_tool`."""
    return lambda definition: module_tools.execute(definition, workers, _start(environ, root), root)


def _start(environ: Mapping[str, str], root: str) -> module_tools.Start:
    def start(path: str, data: bytes) -> Recipe:
        key, place = module_tools.identity(path, data, root)
        package = os.path.dirname(os.path.dirname(os.path.abspath(hilt.__file__)))
        greeting = {"op": "load", "path": path, "source": data.decode("latin-1")}
        argv = (sys.executable, "-I", "-c", _LAUNCH, package)
        return Recipe(key, place, path, os.path.basename(path), argv, root, module_tools.environment(environ), greeting)

    return start


def _fields(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a definition. A tool that does not name its effects may have any, so it asks."""
    effects = told["effects"]
    reads = effects == ["read"]
    return {
        "name": told["name"],
        "description": told["description"],
        "parameters": told["schema"],
        "timeout": told["timeout"],
        "line": told["line"],
        "effects": None if effects is None else frozenset(effects),
        "read_only": reads,
        "approval": "always" if effects is None else "never" if reads else "destructive",
    }
