"""JavaScript and TypeScript tools: modules with the default export of nanocoder, hosted by node or bun.

A module is one file. Its trusted content is copied into a separate folder, so that the runtime finds nothing of the
workspace: no package.json, bunfig.toml or .env, and only our node_modules, which holds 'nanocoder/tools'.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from hilt.custom import launching
from hilt.custom.definition import fingerprint
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.module_tools import Modules
    from hilt.custom.workers import Recipe
    from hilt.surroundings import Surroundings

TYPED = (".ts", ".mts")

# the first version of node that strips types
_STRIPS_TYPES_SINCE = (22, 6)
_VERSION = re.compile(rb"v(\d+)\.(\d+)\.")
# variables that make a runtime load code or read files
_INJECTING = ("NODE_", "BUN_", "DENO_", "npm_")

_TOOLS = "export const tool = (given) => given;\nexport const jsonSchema = (schema) => ({ jsonSchema: schema });\n"
_PACKAGE = """{"name": "nanocoder", "type": "module", "exports": {"./tools": "./tools.js"}}\n"""
_FILES = {
    "package.json": '{"type": "module"}\n',
    "node_modules/nanocoder/package.json": _PACKAGE,
    "node_modules/nanocoder/tools.js": _TOOLS,
}


def runtime(suffix: str, surroundings: Surroundings, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program that hosts modules of this suffix, with its options, or raise `runtime_missing`."""
    node, bun = surroundings.find("node"), surroundings.find("bun")
    advice = surroundings.advice("node") or surroundings.advice("bun")
    if suffix in TYPED:
        if bun is not None:
            return bun, "run", "--no-install"
        if node is not None and _version(node, env) >= _STRIPS_TYPES_SINCE:
            return node, "--no-warnings", "--experimental-strip-types"
        raise ToolError(
            "runtime_missing",
            f"TypeScript tools need bun, or node 22.6 or later, on the PATH.{advice}",
            suggestion="Install bun (https://bun.sh) or a newer node (https://nodejs.org), or write the tool as .js.",
        )
    if node is not None:
        return node, "--no-warnings"
    if bun is not None:
        return bun, "run", "--no-install"
    raise ToolError(
        "runtime_missing",
        f"JavaScript tools need node or bun on the PATH.{advice}",
        suggestion="Install node (https://nodejs.org) or bun (https://bun.sh).",
    )


def _version(node: str, env: Mapping[str, str]) -> tuple[int, int]:
    from hilt.sandbox import capturing, spawning

    limits = spawning.Limits(timeout=10.0)
    finished = capturing.run([node, "--version"], cwd="/", env=env, limits=limits)
    version = _VERSION.match(finished.stdout.head)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_INJECTING)}


def recipe(modules: Modules, path: str, data: bytes) -> Recipe:
    """Return how to start the worker of a module; its copy is kept below the state directory."""
    suffix = os.path.splitext(path)[1]
    folder = os.path.join(modules.state, "cache", "modules", fingerprint({suffix: data}))
    launching.write_copy(folder, {**_FILES, "tool" + suffix: data})
    host = os.path.join(os.path.dirname(os.path.abspath(__file__)), "javascript_host.mjs")
    greeting = {"op": "load", "module": os.path.join(folder, "tool" + suffix), "root": modules.root}
    environment = _environment(modules.environment())
    argv = (*runtime(suffix, modules.surroundings, environment), host)
    return modules.recipe(path, data, argv, folder, environment, greeting)


def fields(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a definition."""
    return {
        "name": description["name"],
        "description": description["description"],
        "parameters": description["schema"],
        "read_only": description["readOnly"],
        "approval": "always" if description["asks"] else "never",
        "notes": tuple(description["notes"]),
    }
