"""`hilt tools new|check|install|remove|trust`: manage files of custom tools, and describe them for `list` and `show`.

Commands that decide whether a file may run (install, remove, trust) require a person at a terminal.
"""

from __future__ import annotations

import os
from functools import partial
from typing import NoReturn

from hilt import places
from hilt.call import ApprovalRequest
from hilt.desk import custom_tools, installed_tools
from hilt.desk.custom_tools import CheckedTool, CustomTools, Definition, ToolCheck
from hilt.desk.installed_tools import StagedTool
from hilt.errors import ToolError
from hilt.formats.invisible import decoded, one_line
from hilt.output.terminal import inert
from hilt.surfaces.cli.layout import print_lines
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import for_person, person
from hilt.surfaces.cli.trust import trust_file
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.opening import open_runtime, surroundings_of
from hilt.surfaces.terminal_prompt import Terminal


def build(parser: Parser) -> None:
    """Add the commands for tool files to `hilt tools`."""
    new = parser.command("new", "Write a working example of a tool to start from", _new)
    new.add_argument("name", metavar="NAME", help="The name of the tool, such as word_count")
    kinds = "The format of the tool; markdown by default"
    new.add_argument("--kind", metavar="KIND", choices=custom_tools.KINDS, default="markdown", help=kinds)
    new.add_argument("--personal", action="store_true", help="Write it to your personal tools, not to this project")
    new.examples = [
        ("hilt tools new word_count", "A script in a markdown file, in this project"),
        ("hilt tools new lookup --kind python --personal", "A Python function, for all projects"),
    ]
    check = parser.command("check", "Check custom tools, and run their examples", _check)
    check.examples = [("hilt tools check .hilt/tools/word_count.md", "Check one tool")]
    check.add_argument("path", metavar="PATH", nargs="?", help="The file or folder of a tool; all of them by default")
    install = parser.command("install", "Show tools from a path or URL, prompt, and install them", _install)
    install.add_argument("source", metavar="PATH", help="A path, a git URL or an archive")
    install.details = "No tool code runs before you have seen its files and agreed. Requires a person at a terminal."
    install.examples = [("hilt tools install https://example.com/tools.git", "Install from a repository")]
    remove = parser.command("remove", "Remove an installed tool", _remove)
    remove.add_argument("name", metavar="TOOL", help="The name of the tool, or of its file")
    remove.examples = [("hilt tools remove word_count", "Remove a personal tool")]
    trust = parser.command("trust", "Show the tools of this project, and trust their current content", _trust)
    trust.add_argument("path", metavar="PATH", nargs="?", help="The file or folder of a tool; all of them by default")
    trust.examples = [("hilt tools trust", "Review each tool of this project")]


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
    if altered := custom_tools.changed():
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


# --- new, check and trust -------------------------------------------------------------------------------------------


def _new(options: Options, arguments: Namespace) -> int:
    project = options.get("workspace") or places.workspace_dir(os.environ, os.getcwd())
    path = custom_tools.new(arguments.name, arguments.kind, None if arguments.personal else os.path.realpath(project))
    print_lines([path])
    if not arguments.personal:
        print_lines([f"It is not loaded until you trust it: {places.command('tools', 'trust')}"])
    return 0


def _check(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, **(person() or {"asker": _refuse})) as runtime:
        checked = custom_tools.check(runtime, arguments.path)
    lines = lines_of(checked)
    lines = lines or [
        "There are no custom tools." if arguments.path is None else f"{os.path.abspath(arguments.path)}: not a tool"
    ]
    print_lines(lines)
    return 0 if checked.ok else 1


def _refuse(asked: ApprovalRequest) -> NoReturn:
    """Fail instead of creating a pending approval: nobody waits for the call of an example."""
    raise ToolError(
        "no_one_to_ask",
        f"{asked.tool} needs approval, and there is no terminal to prompt on; pass --approve once to allow it.",
    )


def lines_of(checked: ToolCheck) -> list[str]:
    """Return the outcome of a check, one fact per line."""
    review = places.command("tools", "trust")
    return [
        *(f"{problem.place}: {problem.message}" for problem in checked.problems),
        *(line for tool in checked.tools for line in _lines_of_tool(tool)),
        *(f"{path}: not trusted, so not loaded; to review: {review}" for path in checked.untrusted),
        *(f"{tool.origin}: hidden by another tool {tool.name}" for tool in checked.hidden),
        *(f"{path}: note: changed since installation" for path in checked.changed),
    ]


def _lines_of_tool(checked: CheckedTool) -> list[str]:
    name, origin, examples = checked.definition.name, checked.definition.origin, len(checked.definition.examples)
    lines = [f"{origin}: note: {note}" for note in checked.definition.notes]
    if not checked.ran:
        lines.append(f"{name}: parsed only; examples run once it is in a tools folder")
    elif not checked.faults:
        lines.append(f"{name}: OK" + f", {examples} example{'s' * (examples != 1)} passed" * bool(examples))
    return [*lines, *(f"{origin}: {fault}" for fault in checked.faults)]


@for_person("tools trust")
def _trust(screen: Terminal, options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        files = custom_tools.files_to_trust(runtime, arguments.path)
    answers = [trust_file(screen, file) for file in files]
    if not answers:
        screen.write("No tool needs trust.\n")
    return 0 if all(answers) else 1


# --- install and remove ---------------------------------------------------------------------------------------------


@for_person("tools install")
def _install(screen: Terminal, options: Options, arguments: Namespace) -> int:
    with Waiting("fetching the tools"):
        tools = installed_tools.staged(arguments.source, partial(surroundings_of, options))
    answers = [_install_one(screen, tool) for tool in tools]
    return 0 if all(answers) else 1


def _install_one(screen: Terminal, tool: StagedTool) -> bool:
    """Show a tool, prompt, and install exactly what was shown."""
    target, page = installed_tools.target(tool), screen.page()
    screen.write(f"{one_line(tool.name)}, checksum {tool.checksum}:\n")
    for name, content in tool.files.items():
        if name:
            runs = ", executable" if name in tool.runs else ""
            screen.write(f"{one_line(name)}, {len(content):,} bytes{runs}:\n")
        screen.write(page.text(decoded(content), whole=True))
    screen.write("".join(f"  {inert(one_line(fact))}\n" for fact in _declared(tool)))
    agreed = screen.agrees(f"Install it as {one_line(target)}?")
    if agreed:
        installed_tools.install(tool)
    screen.write("Installed.\n" if agreed else "Not installed.\n")
    return agreed


def _declared(tool: StagedTool) -> list[str]:
    preview = installed_tools.preview(tool)
    if preview is None:
        return ["a program: from the moment it is loaded, it has all your permissions"]
    facts = [fact for definition in preview.definitions for fact in (definition.name, *abilities(definition))]
    return [*facts, *(f"broken: {problem}" for problem in preview.problems)]


@for_person("tools remove")
def _remove(screen: Terminal, options: Options, arguments: Namespace) -> int:
    for path in installed_tools.removable(arguments.name, partial(open_runtime, {})):
        if not screen.agrees(f"Remove {one_line(path)}?"):
            screen.write("Not removed.\n")
            return 1
        installed_tools.remove(path)
        screen.write("Removed.\n")
    return 0
