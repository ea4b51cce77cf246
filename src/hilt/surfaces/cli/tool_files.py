"""`hilt tools new|check|install|remove|trust`: custom tools as files, and what `list` and `show` tell of them.

Whatever gives a file the right to run (install, remove, trust) is for a person at a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple, NoReturn

from hilt import places
from hilt.catalog import built_in_names
from hilt.custom import candidates, discovery
from hilt.custom.candidates import is_tool
from hilt.custom.definition import Definition, Example
from hilt.custom.layers import CustomTools
from hilt.custom.workers import Workers
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.state.trust import TOOL_FOLDERS, Trust, kind_of
from hilt.surfaces.cli.person import answered
from hilt.surfaces.cli.prompt import Terminal, one_line
from hilt.surfaces.cli.tools_installed import changed, own_folder
from hilt.surfaces.cli.trust import trust_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.call import Result
    from hilt.state.approvals import Asked
    from hilt.surfaces.cli.parsing import Options, Parser, Run

KINDS = ("folder", "markdown", "python")

_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_DASHED = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")

Call = Callable[[str, Mapping[str, Any]], "Result"]


def build(parser: Parser) -> None:
    """Add what is done to files of tools to `hilt tools`."""
    new = parser.command("new", "Write a working example of a tool to start from", _guarded(_new))
    new.add_argument("name", metavar="NAME", help="The name of the tool, such as word_count")
    kinds = "What it is written in; markdown by default"
    new.add_argument("--kind", metavar="KIND", choices=KINDS, default="markdown", help=kinds)
    new.add_argument("--personal", action="store_true", help="Write it to your own tools, not to this project")
    new.examples = [
        ("hilt tools new word_count", "A script in a markdown file, in this project"),
        ("hilt tools new lookup --kind python --personal", "A Python function, for all projects"),
    ]
    check = parser.command("check", "Check custom tools, and run their examples", _guarded(_check))
    check.add_argument("path", metavar="PATH", nargs="?", help="The file or folder of a tool; all of them by default")
    install = parser.command("install", "Show tools from elsewhere, ask, and install them", _guarded(_install))
    install.add_argument("source", metavar="PATH", help="A path, a git URL or an archive")
    install.details = (
        "Nothing of a tool runs before you have seen its files and agreed. It needs a person at a terminal."
    )
    install.examples = [("hilt tools install https://example.com/tools.git", "Install from a repository")]
    remove = parser.command("remove", "Remove a tool that was installed", _guarded(_remove))
    remove.add_argument("name", metavar="TOOL", help="The name of the tool, or of its file")
    trust = parser.command("trust", "Show tools of this project, and trust what they are now", _guarded(_trust))
    trust.add_argument("path", metavar="PATH", nargs="?", help="The file or folder of a tool; all of them by default")


def _guarded(run: Run) -> Run:
    """Return a command whose troubles with files are told as errors."""

    def guarded(options: Options, given: Namespace) -> int:
        try:
            return run(options, given)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None:
                raise  # of a stream
            raise ToolError(
                "permission_denied",
                f"{one_line(str(error.filename))}: {os.strerror(error.errno or 0)}.",
                suggestion="See that folders of tools are folders, and that you may write there.",
            ) from error

    return guarded


def _install(options: Options, given: Namespace) -> int:
    from hilt.surfaces.cli import tools_install

    return answered("tools install", lambda screen: tools_install.install(screen, given.source))


def _remove(options: Options, given: Namespace) -> int:
    from hilt.surfaces.cli import tools_install

    return answered("tools remove", lambda screen: tools_install.remove(screen, given.name))


def _trust(options: Options, given: Namespace) -> int:
    return answered("tools trust", lambda screen: _trust_tools(screen, options, given.path))


def _root(options: Mapping[str, str]) -> str:
    return os.path.realpath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))


# --- list and show --------------------------------------------------------------------------------------------------


def listed(found: CustomTools) -> str:
    """Return the custom tools by source, then what is wrong, what waits for trust, and what was changed."""
    lines: list[str] = []
    width = max(map(len, found.definitions), default=0)
    for source in ("directory", "project", "personal"):
        tools = [one for _, one in sorted(found.definitions.items()) if one.source == source]
        if tools:
            lines.append(f"{source}:")
            lines += [f"  {one.name:<{width}}  {_marks(one)}{_first_line(one.description)}" for one in tools]
    if found.problems:
        lines.append("broken:")
        lines += [f"  {problem.place}: {problem.message}" for problem in found.problems]
    if found.untrusted:
        lines.append(f"not trusted, so not loaded ({places.command('tools', 'trust')} shows them):")
        lines += [f"  {one.path}" for one in found.untrusted]
    if altered := changed():
        lines.append("changed since installed:")
        lines += [f"  {path}" for path in altered]
    return "".join(inert(one_line(line)) + "\n" for line in lines)


def _marks(definition: Definition) -> str:
    return f"{definition.format}, {'⚠ ' if definition.dangerous else ''}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def abilities(definition: Definition) -> list[str]:
    """Return what a tool will be able to do, one fact a line."""
    details = definition.details
    facts = [f"format: {definition.format}" + (f", runtime {details['runtime']}" if "runtime" in details else "")]
    box = definition.sandbox
    if box is None:
        facts.append("rights: yours, without a sandbox")
    else:
        facts.append(f"rights: in a sandbox, {'with' if box.network else 'without'} network")
        facts += [
            f"may {verb}: {', '.join(paths)}" for verb, paths in (("write", box.write), ("read", box.read)) if paths
        ]
    if details.get("env"):
        facts.append(f"environment: {', '.join(details['env'])}")
    asks = {"never": "never asks", "always": "asks before every call", "destructive": "asks as changes of files do"}
    facts.append(f"approval: {asks[definition.approval]}{', read-only' if definition.read_only else ''}")
    if details.get("securityScript"):
        facts.append(f"security check: {details['securityScript']}, before every call")
    if definition.warm:
        facts.append("stays running between calls")
    if definition.dangerous:
        facts.append("⚠ it calls itself dangerous")
    facts.append(f"time limit: {definition.timeout:g} s")
    return facts


def shown(definition: Definition) -> str:
    """Return what `hilt tools show` adds for a custom tool."""
    facts = [f"from {definition.origin}:{definition.line} ({definition.source})", *abilities(definition)]
    facts += [f"note: {note}" for note in definition.notes]
    return "".join(f"{inert(one_line(fact))}\n" for fact in facts)


# --- new ------------------------------------------------------------------------------------------------------------


def _new(options: Options, given: Namespace) -> int:
    name, kind, personal = given.name, given.kind, given.personal
    if not (_DASHED if kind == "folder" else _PLAIN).match(name):
        wanted = "lower-case letters, digits, _" + (" and -" if kind == "folder" else "")
        raise ToolError(
            "invalid_args",
            f"{one_line(name)} is no name: {wanted}, a letter first.",
            suggestion="Choose a name such as word_count.",
        )
    if name in built_in_names():
        raise ToolError("already_exists", f"{name} is the name of a built-in tool.", suggestion="Choose another name.")
    folder = own_folder() if personal else os.path.join(_root(options), ".hilt", "tools")
    path = os.path.join(folder, name + {"folder": "", "markdown": ".md", "python": ".py"}[kind])
    if os.path.lexists(path):
        raise ToolError("already_exists", f"{one_line(path)} exists.", suggestion="Choose another name.")
    for inner, text in _TEMPLATES[kind].items():
        target = os.path.join(path, inner) if inner else path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x", encoding="utf-8") as file:
            file.write(text.replace("@NAME@", name))
    sys.stdout.write(f"{inert(one_line(path))}\n")
    if not personal:
        sys.stdout.write(f"It runs once you trust it: {places.command('tools', 'trust')}\n")
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

given = json.load(sys.stdin)  # the arguments, workspacePath and sessionId
print(json.dumps({"greeting": f"Hello, {given['name']}!"}))
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
    """What a look at tools came to: lines for a person, and whether all is well."""

    lines: tuple[str, ...]
    ok: bool


def _check(options: Options, given: Namespace) -> int:
    from hilt.surfaces.cli.person import person
    from hilt.surfaces.opening import open_runtime

    path = given.path

    with open_runtime(options, **(person() or {"asker": _nobody})) as runtime:

        def call(name: str, args: Mapping[str, Any]) -> Result:
            return runtime.call(name, **args)  # through the pipeline, like any other

        found = runtime.custom()
        if path is None:
            checked = check(found, call, changed())
        else:
            checked = check_path(os.path.abspath(path), found, runtime.root, call)
    sys.stdout.write("".join(inert(one_line(line)) + "\n" for line in checked.lines))
    return 0 if checked.ok else 1


def _nobody(asked: Asked) -> NoReturn:
    """Leave no question behind: an example is not a call that anybody waits for."""
    raise ToolError("no_one_to_ask", f"{asked.tool} asks, and nobody is here to answer; --approve once does it.")


def check(found: CustomTools, call: Call, altered: Sequence[str] = ()) -> Checked:
    """Look at all tools there are, and run their examples; `altered` were changed since they were installed."""
    lines = [f"{problem.place}: {problem.message}" for problem in found.problems]
    ok = not lines
    for _, definition in sorted(found.definitions.items()):
        told, fine = _checked(definition, call)
        lines += told
        ok = ok and fine
    lines += [
        f"{one.path}: not trusted, so not loaded; {places.command('tools', 'trust')} shows it"
        for one in found.untrusted
    ]
    lines += [f"{one.origin}: hidden by another tool {one.name}" for one in found.hidden]
    lines += [f"{path}: note: it was changed since it was installed" for path in altered]
    return Checked(tuple(lines) or ("There are no custom tools.",), ok)


def check_path(path: str, found: CustomTools, root: str, call: Call) -> Checked:
    """Look at the tool at one path. What is not loaded as a tool is only read: nothing of it runs."""
    inside = os.path.join(path, "")
    mine = [one for one in found.definitions.values() if one.origin == path or one.origin.startswith(inside)]
    only = _only(found, path)
    if mine:
        named = found._replace(definitions={one.name: one for one in mine}, **only)
        return check(named, call, [one for one in changed() if path in (one, os.path.dirname(one))])
    if only["problems"]:
        return Checked(tuple(f"{problem.place}: {problem.message}" for problem in only["problems"]), ok=False)
    if not os.path.lexists(path):
        raise ToolError("file_not_found", f"{one_line(path)} does not exist.", suggestion="Name the file of a tool.")
    if candidates.format_of(path) in ("python", "javascript"):
        return Checked((f"{path}: not trusted, so not loaded; {places.command('tools', 'trust')} shows it",), ok=False)
    with Workers() as workers:
        known = discovery.readers(workers, os.environ, root, places.state_dir(os.environ))
        loaded = candidates.read_tool(path, "project", known)
    lines = [f"{problem.place}: {problem.message}" for problem in loaded.problems]
    for definition in loaded.definitions:
        lines += [*_wrong(definition), f"{definition.name}: read; its examples run once it is loaded from its place"]
        lines += [f"{definition.origin}: note: {note}" for note in definition.notes]
    ok = not loaded.problems and not any(_wrong(definition) for definition in loaded.definitions)
    return Checked(tuple(lines) or (f"{path}: no tool",), ok and bool(loaded.definitions))


def _only(found: CustomTools, path: str) -> dict[str, Any]:
    inside = os.path.join(path, "")
    problems = [one for one in found.problems if one.origin == path or one.origin.startswith(inside)]
    return {"problems": tuple(problems), "untrusted": (), "hidden": ()}


def _checked(definition: Definition, call: Call) -> tuple[list[str], bool]:
    lines = [f"{definition.origin}: note: {note}" for note in definition.notes]
    wrong = _wrong(definition)
    if not wrong:
        for number, example in enumerate(definition.examples, 1):
            failure = _failure(example, call(definition.name, example.args))
            if failure:
                wrong.append(f"{definition.origin}: example {number}: {failure}")
    if not wrong:
        ran = f", {len(definition.examples)} example{'s' * (len(definition.examples) != 1)} passed"
        lines.append(f"{definition.name}: right{ran if definition.examples else ''}")
    return [*lines, *wrong], not wrong


def _wrong(definition: Definition) -> list[str]:
    """Return what would make every call fail: a schema that is none, a runtime that is missing."""
    import jsonschema_rs

    from hilt import schema

    wrong = []
    try:
        jsonschema_rs.validator_for(schema.with_numbered_groups(definition.parameters), retriever=schema.no_retrieval)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, ToolError) as error:
        wrong.append(f"{definition.origin}: its schema is not usable: {str(error).partition(chr(10))[0]}")
    if definition.format == "folder":
        from hilt.custom import launching

        script = os.path.join(definition.folder, definition.details["script"])
        try:
            launching.launch(definition.details["runtime"], script, cwd=definition.folder, env=os.environ)
        except ToolError as error:
            wrong.append(f"{definition.origin}: {error.message} {error.suggestion}")
    return wrong


def _failure(example: Example, result: Result) -> str | None:
    if result.error is not None:
        return f"{result.error.code}: {result.error.message}"
    if not example.expects:
        return None
    got: Any = result.text.rstrip("\n") if result.data is None else result.data
    if isinstance(got, str) and not isinstance(example.expect, str):
        with suppress(ValueError):
            got = json.loads(got)
    wanted = example.expect.rstrip("\n") if isinstance(example.expect, str) else example.expect
    if got == wanted:
        return None
    return f"expected {json.dumps(wanted, ensure_ascii=False)}, got {json.dumps(got, ensure_ascii=False)[:500]}"


# --- trust ----------------------------------------------------------------------------------------------------------


def _trust_tools(screen: Terminal, options: Options, path: str | None) -> int:
    root = _root(options)
    folders = [os.path.join(root, inner) for inner in TOOL_FOLDERS]
    if path is None:
        tools = [tool for folder in folders for tool in candidates.tool_paths(folder)]
    elif is_tool(os.path.abspath(path)):
        tools = [os.path.abspath(path)]
    else:
        tools = candidates.tool_paths(os.path.abspath(path))
    if not tools:
        screen.write("There is no tool that needs trust.\n")
        return 0
    if any(kind_of(tool) != "tool" for tool in tools):
        raise ToolError(
            "invalid_args",
            f"{one_line(str(path))} is not in a tools folder of a project: what is elsewhere needs no trust.",
            suggestion=f"Such folders are {' and '.join(TOOL_FOLDERS)}.",
        )
    with closing(Trust(places.state_dir(os.environ))) as trusted:
        answers = [trust_file(screen, trusted, file) for tool in tools for file in candidates.tool_files(tool)]
    return 0 if all(answers) else 1
