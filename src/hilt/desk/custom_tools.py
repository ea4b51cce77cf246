"""The custom tools of a workspace: start one from an example, check them with their examples, find what needs trust."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt import places
from hilt.catalog import built_in_names
from hilt.custom import candidates
from hilt.custom.definition import Definition, Example, ToolProblem
from hilt.custom.precedence import CustomTools
from hilt.desk.installed_tools import changed, own_folder
from hilt.desk.personal_files import explained
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.loaders import LoadedFolder, ProjectFile, folders
from hilt.surroundings import Surroundings

if TYPE_CHECKING:
    from hilt.call import Result
    from hilt.runtime import Runtime

__all__ = ["CustomTools", "Definition", "changed"]

_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_DASHED = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")

Call = Callable[[str, Mapping[str, Any]], "Result"]


class CheckedTool(NamedTuple):
    """A tool, why it cannot work, and whether its examples have run."""

    definition: Definition
    faults: tuple[str, ...]
    ran: bool


class ToolCheck(NamedTuple):
    """The outcome of a check; `untrusted` and `changed` are paths."""

    ok: bool
    problems: tuple[ToolProblem, ...] = ()
    tools: tuple[CheckedTool, ...] = ()
    untrusted: tuple[str, ...] = ()
    hidden: tuple[Definition, ...] = ()
    changed: tuple[str, ...] = ()


# --- new ------------------------------------------------------------------------------------------------------------


def new(name: str, kind: str, project: str | None) -> str:
    """Write a working example of a tool, to a project or to the personal tools, and return its path."""
    if not (_DASHED if kind == "folder" else _PLAIN).match(name):
        characters = "lower-case letters, digits, _" + (" and -" if kind == "folder" else "")
        raise ToolError(
            "invalid_args",
            f"Invalid tool name {one_line(name)}: use {characters}, starting with a letter.",
            suggestion="Choose a name such as word_count.",
        )
    if name in built_in_names():
        raise ToolError("already_exists", f"{name} is the name of a built-in tool.", suggestion="Choose another name.")
    folder = own_folder() if project is None else os.path.join(project, ".hilt", "tools")
    path = os.path.join(folder, name + {"folder": "", "markdown": ".md", "python": ".py"}[kind])
    if os.path.lexists(path):
        raise ToolError("already_exists", f"{one_line(path)} already exists.", suggestion="Choose another name.")
    with explained(path):
        for inner, text in _TEMPLATES[kind].items():
            target = os.path.join(path, inner) if inner else path
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "x", encoding="utf-8") as file:
                file.write(text.replace("@NAME@", name))
    return path


_MARKDOWN = """\
---
name: @NAME@
description: Greet somebody by name.
parameters:
  name:
    type: string
    required: true
    description: Whom to greet.
approval: never
read_only: true
examples:
  - args: { name: World }
    expect: Hello, World!
---

printf 'Hello, %s!\\n' {{ name }}
"""

_FOLDER = """\
---
name: @NAME@
script: script.py
runtime: python
timeout: 30000
inputSchema:
  type: object
  properties:
    name:
      type: string
      description: Whom to greet.
  required: [name]
outputSchema:
  type: object
  properties:
    greeting: { type: string }
examples:
  - args: { name: World }
    expect: { greeting: "Hello, World!" }
---
Greet somebody by name.
"""

_SCRIPT = """\
import json
import sys

request = json.load(sys.stdin)  # the arguments, workspacePath and sessionId
print(json.dumps({"greeting": f"Hello, {request['name']}!"}))
"""

_PYTHON = '''\
from hilt import tool


@tool(effects="read")
def @NAME@(name: str) -> str:
    """Greet somebody by name.

    Args:
        name: Whom to greet.
    """
    return f"Hello, {name}!"
'''

_TEMPLATES = {
    "markdown": {"": _MARKDOWN},
    "folder": {"tool.md": _FOLDER, "script.py": _SCRIPT},
    "python": {"": _PYTHON},
}

KINDS = ("folder", "markdown", "python")


# --- check ----------------------------------------------------------------------------------------------------------


def check(runtime: Runtime, path: str | None = None) -> ToolCheck:
    """Check the tool at a path, or all custom tools, and run their examples as calls of the session."""

    def call(name: str, args: Mapping[str, Any]) -> Result:
        return runtime.call(name, **args)

    if path is None:
        return check_tools(runtime.parts.toolbox.tools_found(), call, runtime.parts.surroundings, changed())
    return check_path(
        os.path.abspath(path), runtime.parts.toolbox.tools_found(), runtime.parts.root, call, runtime.parts.surroundings
    )


def check_tools(custom: CustomTools, call: Call, surroundings: Surroundings, altered: Sequence[str] = ()) -> ToolCheck:
    """Check these tools; `altered` are the paths of tools changed since installation."""
    tools = [_checked(definition, call, surroundings) for _, definition in sorted(custom.definitions.items())]
    return ToolCheck(
        not custom.problems and not any(tool.faults for tool in tools),
        custom.problems,
        tuple(tools),
        tuple(tool.path for tool in custom.untrusted),
        custom.hidden,
        tuple(altered),
    )


def check_path(path: str, custom: CustomTools, root: str, call: Call, surroundings: Surroundings) -> ToolCheck:
    """Check the tool at one path. A tool that is not loaded is only parsed: none of its code runs."""
    inside = os.path.join(path, "")
    loaded_there = {
        name: tool for name, tool in custom.definitions.items() if tool.origin == path or tool.origin.startswith(inside)
    }
    problems = tuple(
        problem for problem in custom.problems if problem.origin == path or problem.origin.startswith(inside)
    )
    if loaded_there:
        only = custom._replace(definitions=loaded_there, problems=problems, untrusted=(), hidden=())
        altered = [file for file in changed() if path in (file, os.path.dirname(file))]
        return check_tools(only, call, surroundings, altered)
    if problems:
        return ToolCheck(ok=False, problems=problems)
    if not os.path.lexists(path):
        raise ToolError("file_not_found", f"{one_line(path)} does not exist.", suggestion="Pass the path of a tool.")
    if candidates.format_of(path) in ("python", "javascript"):
        return ToolCheck(ok=False, untrusted=(path,))
    loaded = candidates.read_tool(path, "project")
    tools = tuple(
        CheckedTool(definition, tuple(_fatal_faults(definition, surroundings)), ran=False)
        for definition in loaded.definitions
    )
    ok = bool(tools) and not loaded.problems and not any(tool.faults for tool in tools)
    return ToolCheck(ok, loaded.problems, tools)


def _checked(definition: Definition, call: Call, surroundings: Surroundings) -> CheckedTool:
    faults = _fatal_faults(definition, surroundings)
    if not faults:
        for number, example in enumerate(definition.examples, 1):
            failure = _failure(example, call(definition.name, example.args))
            if failure:
                faults.append(f"example {number}: {failure}")
    return CheckedTool(definition, tuple(faults), ran=True)


def _fatal_faults(definition: Definition, surroundings: Surroundings) -> list[str]:
    """Return what would make every call fail: an invalid schema or a missing runtime."""
    import jsonschema_rs

    from hilt import schema

    faults = []
    try:
        jsonschema_rs.validator_for(schema.with_numbered_groups(definition.parameters), retriever=schema.no_retrieval)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, ToolError) as error:
        faults.append(f"invalid schema: {str(error).partition(chr(10))[0]}")
    if definition.format == "folder":
        from hilt.custom import launching

        script = os.path.join(definition.folder, definition.details["script"])
        try:
            launching.launch(definition.details["runtime"], script, surroundings, cwd=definition.folder, env={})
        except ToolError as error:
            faults.append(f"{error.message} {error.suggestion}")
    return faults


def _failure(example: Example, result: Result) -> str | None:
    if result.error is not None:
        return f"{result.error.code}: {result.error.message}"
    if not example.expects:
        return None
    actual: Any = result.text.rstrip("\n") if result.data is None else result.data
    if isinstance(actual, str) and not isinstance(example.expect, str):
        with suppress(ValueError):
            actual = json.loads(actual)
    expected = example.expect.rstrip("\n") if isinstance(example.expect, str) else example.expect
    if actual == expected:
        return None
    return f"expected {json.dumps(expected, ensure_ascii=False)}, got {json.dumps(actual, ensure_ascii=False)[:500]}"


# --- trust ----------------------------------------------------------------------------------------------------------


def files_to_trust(runtime: Runtime, path: str | None) -> Iterator[ProjectFile]:
    """Return the files of the tools at a path, or of all tools, that load only after a person trusts them."""
    all_folders = folders("tool", runtime.parts.folders, runtime.parts.environ, runtime.settings["custom.dirs"])
    needing_trust = [folder for folder in all_folders if folder.anchor is not None]
    tools = [(folder, tool) for folder in needing_trust for tool in _tools_at(folder, path)]
    if path is not None and not tools and candidates.is_tool(os.path.abspath(path)):
        raise ToolError(
            "invalid_args",
            f"{one_line(path)} is not in a tools folder of a project, so it needs no trust.",
            suggestion=f"The tools folders are {' and '.join(one_line(folder.path) for folder in needing_trust)}.",
        )
    return (folder.file(file) for folder, tool in tools for file in candidates.tool_files(tool))


def _tools_at(folder: LoadedFolder, path: str | None) -> list[str]:
    """Return the tools of a folder that are at a path or below it."""
    tools = [candidate.path for candidate in candidates.candidates(folder, [])]
    if path is None:
        return tools
    full = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    return [tool for tool in tools if places.is_below(tool, full) or places.is_below(full, tool)]
