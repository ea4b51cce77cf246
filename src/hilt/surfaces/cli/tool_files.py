"""`hilt tools new|check|install|remove|trust`: manage files of custom tools, and describe them for `list` and `show`.

Commands that decide whether a file may run (install, remove, trust) require a person at a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from hilt import places
from hilt.catalog import built_in_names
from hilt.custom import candidates, discovery
from hilt.custom.candidates import is_tool
from hilt.custom.definition import Definition, Example
from hilt.custom.layers import CustomTools
from hilt.custom.workers import Workers
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.loaders import LoadedFolder, folders
from hilt.output.terminal import inert
from hilt.surfaces.cli.person import run_for_person
from hilt.surfaces.cli.tools_installed import changed, own_folder
from hilt.surfaces.cli.trust import trust_file
from hilt.surfaces.opening import open_runtime, surroundings_of
from hilt.surfaces.terminal_prompt import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.call import ApprovalRequest, Result
    from hilt.surfaces.cli.parsing import Options, Parser, Run

KINDS = ("folder", "markdown", "python")

_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_DASHED = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")

Call = Callable[[str, Mapping[str, Any]], "Result"]


def build(parser: Parser) -> None:
    """Add the commands for tool files to `hilt tools`."""
    new = parser.command("new", "Write a working example of a tool to start from", _guarded(_new))
    new.add_argument("name", metavar="NAME", help="The name of the tool, such as word_count")
    kinds = "The format of the tool; markdown by default"
    new.add_argument("--kind", metavar="KIND", choices=KINDS, default="markdown", help=kinds)
    new.add_argument("--personal", action="store_true", help="Write it to your personal tools, not to this project")
    new.examples = [
        ("hilt tools new word_count", "A script in a markdown file, in this project"),
        ("hilt tools new lookup --kind python --personal", "A Python function, for all projects"),
    ]
    check = parser.command("check", "Check custom tools, and run their examples", _guarded(_check))
    check.examples = [("hilt tools check .hilt/tools/word_count.md", "Check one tool")]
    check.add_argument("path", metavar="PATH", nargs="?", help="The file or folder of a tool; all of them by default")
    install = parser.command("install", "Show tools from a path or URL, prompt, and install them", _guarded(_install))
    install.add_argument("source", metavar="PATH", help="A path, a git URL or an archive")
    install.details = "No tool code runs before you have seen its files and agreed. Requires a person at a terminal."
    install.examples = [("hilt tools install https://example.com/tools.git", "Install from a repository")]
    remove = parser.command("remove", "Remove an installed tool", _guarded(_remove))
    remove.add_argument("name", metavar="TOOL", help="The name of the tool, or of its file")
    remove.examples = [("hilt tools remove word_count", "Remove a personal tool")]
    trust = parser.command("trust", "Show the tools of this project, and trust their current content", _guarded(_trust))
    trust.add_argument("path", metavar="PATH", nargs="?", help="The file or folder of a tool; all of them by default")
    trust.examples = [("hilt tools trust", "Review each tool of this project")]


def _guarded(run: Run) -> Run:
    """Wrap a command so that file errors become tool errors."""

    def guarded(options: Options, arguments: Namespace) -> int:
        try:
            return run(options, arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None:
                raise  # about a stream
            raise ToolError(
                "permission_denied",
                f"{one_line(str(error.filename))}: {os.strerror(error.errno or 0)}.",
                suggestion="Check that the tools folder is a folder that you can write to.",
            ) from error

    return guarded


def _install(options: Options, arguments: Namespace) -> int:
    from hilt.surfaces.cli import tools_install

    return run_for_person("tools install", lambda screen: tools_install.install(screen, arguments.source, options))


def _remove(options: Options, arguments: Namespace) -> int:
    from hilt.surfaces.cli import tools_install

    return run_for_person("tools remove", lambda screen: tools_install.remove(screen, arguments.name))


def _trust(options: Options, arguments: Namespace) -> int:
    return run_for_person("tools trust", lambda screen: _trust_tools(screen, options, arguments.path))


def _root(options: Mapping[str, str]) -> str:
    return os.path.realpath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))


# --- list and show --------------------------------------------------------------------------------------------------


def listed(custom: CustomTools) -> str:
    """Return the custom tools by source, then the broken, the untrusted and the changed ones."""
    lines: list[str] = []
    width = max(map(len, custom.definitions), default=0)
    for source in ("directory", "project", "personal"):
        tools = [tool for _, tool in sorted(custom.definitions.items()) if tool.source == source]
        if tools:
            lines.append(f"{source}:")
            lines += [f"  {tool.name:<{width}}  {_marks(tool)}{_first_line(tool.description)}" for tool in tools]
    if custom.problems:
        lines.append("broken:")
        lines += [f"  {problem.place}: {problem.message}" for problem in custom.problems]
    if custom.untrusted:
        lines.append(f"not trusted, so not loaded (to review: {places.command('tools', 'trust')}):")
        lines += [f"  {tool.path}" for tool in custom.untrusted]
    if altered := changed():
        lines.append("changed since installation:")
        lines += [f"  {path}" for path in altered]
    return "".join(inert(one_line(line)) + "\n" for line in lines)


def _marks(definition: Definition) -> str:
    return f"{definition.format}, {'⚠ ' if definition.dangerous else ''}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def abilities(definition: Definition) -> list[str]:
    """Return what a tool can do, one fact per line."""
    details = definition.details
    facts = [f"format: {definition.format}" + (f", runtime {details['runtime']}" if "runtime" in details else "")]
    box = definition.sandbox
    if box is None:
        facts.append("sandbox: none; it runs with all your permissions")
    else:
        facts.append(f"sandbox: yes, {'with' if box.network else 'without'} network")
        facts += [
            f"may {verb}: {', '.join(paths)}" for verb, paths in (("write", box.write), ("read", box.read)) if paths
        ]
    if details.get("env"):
        facts.append(f"environment: {', '.join(details['env'])}")
    asks = {"never": "never", "always": "before every call", "destructive": "as for file changes"}
    facts.append(f"approval: {asks[definition.approval]}{', read-only' if definition.read_only else ''}")
    if details.get("securityScript"):
        facts.append(f"security check: {details['securityScript']} before every call")
    if definition.warm:
        facts.append("stays running between calls")
    if definition.dangerous:
        facts.append("⚠ declared dangerous by its author")
    facts.append(f"timeout: {definition.timeout:g} s")
    return facts


def describe(definition: Definition) -> str:
    """Return the lines that `hilt tools show` adds for a custom tool."""
    facts = [f"from {definition.origin}:{definition.line} ({definition.source})", *abilities(definition)]
    facts += [f"note: {note}" for note in definition.notes]
    return "".join(f"{inert(one_line(fact))}\n" for fact in facts)


# --- new ------------------------------------------------------------------------------------------------------------


def _new(options: Options, arguments: Namespace) -> int:
    name, kind, personal = arguments.name, arguments.kind, arguments.personal
    if not (_DASHED if kind == "folder" else _PLAIN).match(name):
        characters = "lower-case letters, digits, _" + (" and -" if kind == "folder" else "")
        raise ToolError(
            "invalid_args",
            f"Invalid tool name {one_line(name)}: use {characters}, starting with a letter.",
            suggestion="Choose a name such as word_count.",
        )
    if name in built_in_names():
        raise ToolError("already_exists", f"{name} is the name of a built-in tool.", suggestion="Choose another name.")
    folder = own_folder() if personal else os.path.join(_root(options), ".hilt", "tools")
    path = os.path.join(folder, name + {"folder": "", "markdown": ".md", "python": ".py"}[kind])
    if os.path.lexists(path):
        raise ToolError("already_exists", f"{one_line(path)} already exists.", suggestion="Choose another name.")
    for inner, text in _TEMPLATES[kind].items():
        target = os.path.join(path, inner) if inner else path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x", encoding="utf-8") as file:
            file.write(text.replace("@NAME@", name))
    sys.stdout.write(f"{inert(one_line(path))}\n")
    if not personal:
        sys.stdout.write(f"It is not loaded until you trust it: {places.command('tools', 'trust')}\n")
    return 0


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


# --- check ----------------------------------------------------------------------------------------------------------


class Checked(NamedTuple):
    """The outcome of a check: lines for a person, and whether all tools are valid."""

    lines: tuple[str, ...]
    ok: bool


def _check(options: Options, arguments: Namespace) -> int:
    from hilt.surfaces.cli.person import person
    from hilt.surfaces.opening import open_runtime

    path = arguments.path
    with open_runtime(options, **(person() or {"asker": _refuse})) as runtime:

        def call(name: str, args: Mapping[str, Any]) -> Result:
            return runtime.call(name, **args)  # through the pipeline, like any other call

        custom = runtime.custom()
        if path is None:
            checked = check(custom, call, changed())
        else:
            checked = check_path(os.path.abspath(path), custom, runtime.root, call)
    sys.stdout.write("".join(inert(one_line(line)) + "\n" for line in checked.lines))
    return 0 if checked.ok else 1


def _refuse(asked: ApprovalRequest) -> NoReturn:
    """Fail instead of creating a pending approval: nobody waits for the call of an example."""
    raise ToolError(
        "no_one_to_ask",
        f"{asked.tool} needs approval, and there is no terminal to prompt on; pass --approve once to allow it.",
    )


def check(custom: CustomTools, call: Call, altered: Sequence[str] = ()) -> Checked:
    """Check all custom tools and run their examples; `altered` are the paths of tools changed since installation."""
    lines = [f"{problem.place}: {problem.message}" for problem in custom.problems]
    ok = not lines
    for _, definition in sorted(custom.definitions.items()):
        tool_lines, is_valid = _check_tool(definition, call)
        lines += tool_lines
        ok = ok and is_valid
    lines += [_not_trusted(tool.path) for tool in custom.untrusted]
    lines += [f"{tool.origin}: hidden by another tool {tool.name}" for tool in custom.hidden]
    lines += [f"{path}: note: changed since installation" for path in altered]
    return Checked(tuple(lines) or ("There are no custom tools.",), ok)


def check_path(path: str, custom: CustomTools, root: str, call: Call) -> Checked:
    """Check the tool at one path. A tool that is not loaded is only parsed: none of its code runs."""
    inside = os.path.join(path, "")
    loaded_there = [
        tool for tool in custom.definitions.values() if tool.origin == path or tool.origin.startswith(inside)
    ]
    problems = [problem for problem in custom.problems if problem.origin == path or problem.origin.startswith(inside)]
    if loaded_there:
        definitions = {tool.name: tool for tool in loaded_there}
        only = custom._replace(definitions=definitions, problems=tuple(problems), untrusted=(), hidden=())
        return check(only, call, [file for file in changed() if path in (file, os.path.dirname(file))])
    if problems:
        return Checked(tuple(f"{problem.place}: {problem.message}" for problem in problems), ok=False)
    if not os.path.lexists(path):
        raise ToolError("file_not_found", f"{one_line(path)} does not exist.", suggestion="Pass the path of a tool.")
    if candidates.format_of(path) in ("python", "javascript"):
        return Checked((_not_trusted(path),), ok=False)
    with Workers() as workers:
        readers = discovery.readers(workers, surroundings_of({"workspace": root}), root, places.state_dir(os.environ))
        loaded = candidates.read_tool(path, "project", readers)
    lines = [f"{problem.place}: {problem.message}" for problem in loaded.problems]
    for definition in loaded.definitions:
        lines += [
            *_fatal_problems(definition),
            f"{definition.name}: parsed only; examples run once it is in a tools folder",
        ]
        lines += [f"{definition.origin}: note: {note}" for note in definition.notes]
    ok = not loaded.problems and not any(_fatal_problems(definition) for definition in loaded.definitions)
    return Checked(tuple(lines) or (f"{path}: not a tool",), ok and bool(loaded.definitions))


def _not_trusted(path: str) -> str:
    return f"{path}: not trusted, so not loaded; to review: {places.command('tools', 'trust')}"


def _check_tool(definition: Definition, call: Call) -> tuple[list[str], bool]:
    lines = [f"{definition.origin}: note: {note}" for note in definition.notes]
    wrong = _fatal_problems(definition)
    if not wrong:
        for number, example in enumerate(definition.examples, 1):
            failure = _failure(example, call(definition.name, example.args))
            if failure:
                wrong.append(f"{definition.origin}: example {number}: {failure}")
    if not wrong:
        passed = f", {len(definition.examples)} example{'s' * (len(definition.examples) != 1)} passed"
        lines.append(f"{definition.name}: OK{passed if definition.examples else ''}")
    return [*lines, *wrong], not wrong


def _fatal_problems(definition: Definition) -> list[str]:
    """Return the problems that would make every call fail: an invalid schema or a missing runtime."""
    import jsonschema_rs

    from hilt import schema

    wrong = []
    try:
        jsonschema_rs.validator_for(schema.with_numbered_groups(definition.parameters), retriever=schema.no_retrieval)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, ToolError) as error:
        wrong.append(f"{definition.origin}: invalid schema: {str(error).partition(chr(10))[0]}")
    if definition.format == "folder":
        from hilt.custom import launching

        script = os.path.join(definition.folder, definition.details["script"])
        try:
            launching.launch(definition.details["runtime"], script, surroundings_of({}), cwd=definition.folder, env={})
        except ToolError as error:
            wrong.append(f"{definition.origin}: {error.message} {error.suggestion}")
    return wrong


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


def _trust_tools(screen: Terminal, options: Options, path: str | None) -> int:
    with open_runtime(options) as runtime:
        all_folders = folders("tool", runtime.folders, os.environ, runtime.settings["custom.dirs"])
    needing_trust = [folder for folder in all_folders if folder.anchor is not None]
    tools = [(folder, tool) for folder in needing_trust for tool in _tools_at(folder, path)]
    if path is not None and not tools and is_tool(os.path.abspath(path)):
        raise ToolError(
            "invalid_args",
            f"{one_line(path)} is not in a tools folder of a project, so it needs no trust.",
            suggestion=f"The tools folders are {' and '.join(one_line(folder.path) for folder in needing_trust)}.",
        )
    if not tools:
        screen.write("No tool needs trust.\n")
        return 0
    answers = [trust_file(screen, folder.file(file)) for folder, tool in tools for file in candidates.tool_files(tool)]
    return 0 if all(answers) else 1


def _tools_at(folder: LoadedFolder, path: str | None) -> list[str]:
    """Return the tools of a folder that are at a path or below it."""
    tools = [candidate.path for candidate in candidates.candidates(folder, [])]
    if path is None:
        return tools
    full = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    return [tool for tool in tools if places.is_below(tool, full) or places.is_below(full, tool)]
