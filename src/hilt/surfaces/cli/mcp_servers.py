"""`hilt mcp list` and `hilt mcp trust`: list other MCP servers and their tools, and accept changed definitions."""

from __future__ import annotations

import sys

from hilt import places
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.output.terminal import clip, inert
from hilt.servers.definitions import AcceptedTool, Difference, Raw, assign_names, difference, shown_json, visible
from hilt.servers.tools import Servers, State
from hilt.surfaces.cli.person import run_for_person
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import Page, Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser


def build(parser: Parser) -> None:
    """Add the commands for other MCP servers to `hilt mcp`."""
    parser.command("list", "List other MCP servers and their tools, without starting any", _list)
    trusting = parser.command("trust", "Show changed tool definitions of a server, and accept them", _trust)
    trusting.add_argument("server", metavar="SERVER", help="The name of the server")
    trusting.examples = [("hilt mcp trust github", "Review the tools of one server")]
    trusting.details = "Starts the server to read its definitions. Requires a person at a terminal."


def _trust(options: Options, arguments: Namespace) -> int:
    return run_for_person("mcp trust", lambda screen: _accept(screen, options, arguments.server))


def _list(options: Options, arguments: Namespace) -> int:
    """Print every server; nothing is started."""
    with open_runtime(options) as runtime:
        servers = runtime.servers()
        if servers is None:
            sys.stdout.write(
                "No MCP server is configured.\nAdd one to .mcp.json, or as [mcp.servers.NAME] to config.toml.\n"
            )
            return 0
        configured, states = servers.configured(), servers.states()
    lines: list[str] = []
    for state in states:
        lines += _described(state)
    for path, names in configured.untrusted.items():
        lines.append(f"{path} is not trusted, so not read ({places.command('trust', path)}): {', '.join(names)}")
    lines += [f"broken: {problem.origin}: {problem.message}" for problem in configured.problems]
    sys.stdout.write(
        "".join(inert(visible(one_line(line))) + "\n" for line in lines) or "No MCP server is configured.\n"
    )
    return 0


def _described(state: State) -> list[str]:
    server = state.server
    place = server.url or " ".join((server.command, *server.args))
    lines = [f"{server.name}  {summary(state)}  ({server.transport}: {place}; {server.origin})"]
    lines += [f"  {tool.listed_name}" + (f"  {_first(tool)}" if _first(tool) else "") for tool in state.tools or ()]
    lines += _changes(state.difference)
    if state.difference:
        lines.append(f"  to review: {places.command('mcp', 'trust', server.name)}")
    if state.failure:
        lines.append(f"  failed: {state.failure}")
    return [*lines, *(f"  note: {note}" for note in state.notes)]


def summary(state: State) -> str:
    """Return the state of a server in a few words."""
    if state.server.disabled:
        return "disabled"
    if state.tools is None:
        return "not started yet, tools unknown"
    tools = f"{len(state.tools)} tool{'s' * (len(state.tools) != 1)}"
    return f"{tools}, with changes that are not accepted" if state.difference else tools


def _first(tool: AcceptedTool) -> str:
    return clip(str(tool.raw.get("description") or tool.raw.get("title") or "").strip().partition("\n")[0], 100)


def _changes(differs: Difference) -> list[str]:
    return [
        *(f"  changed, so refused: {name}" for name in differs.changed),
        *(f"  new, so not offered: {name}" for name in differs.new),
        *(f"  removed: {name}" for name in differs.removed),
    ]


def _accept(screen: Terminal, options: Options, name: str) -> int:
    """Start a server, show how its definitions differ from the accepted ones, and prompt."""
    with open_runtime(options) as runtime:
        servers = runtime.servers()
        if servers is None:
            raise ToolError(
                "not_found", "No MCP server is configured.", suggestion=f"See {places.command('mcp', 'list')}."
            )
        accepted = _accepted(servers, name)
        pins, server, now = servers.offer(name)
        differs = difference((accepted or {}).values(), now)
        page = Page(width=screen.width, color=screen.color)
        for note in pins.notes():
            screen.write(f"note: {one_line(note)}\n")
        if accepted is not None and not differs:
            screen.write(f"The tools of {server.name} match their accepted definitions.\n")
            pins.offer(None)
            return 0
        screen.write(f"{server.name}, {len(now)} tools ({one_line(server.origin)}):\n")
        _show(screen, page, accepted or {}, now, differs)
        screen.write("Accept these definitions? [y/n] > ")
        answer = screen.read()
        offered, notes = assign_names(server.name, now, accepted or {})
        if answer.strip().casefold() not in ("y", "yes"):
            screen.write(("" if answer else "\n") + "Not accepted.\n")
            if accepted is None:
                # the first start of a server accepts its definitions; the person has rejected them
                pins.accept([])
                pins.offer(now)
            return 1
        pins.accept(offered)
    screen.write("".join(f"{one_line(note)}\n" for note in notes) + "Accepted until they change.\n")
    return 0


def _accepted(servers: Servers, name: str) -> dict[str, AcceptedTool] | None:
    for state in servers.states():
        if state.server.name == name:
            return None if state.tools is None else {tool.raw["name"]: tool for tool in state.tools}
    for path, names in servers.configured().untrusted.items():
        if name in names:
            raise ToolError(
                "untrusted",
                f"{one_line(path)} is not trusted.",
                suggestion=f"Trust it first: {places.command('trust', one_line(path))}",
            )
    raise ToolError(
        "not_found", f"There is no MCP server {one_line(name)}.", suggestion=f"See {places.command('mcp', 'list')}."
    )


def _show(screen: Terminal, page: Page, accepted: dict[str, AcceptedTool], now: list[Raw], differs: Difference) -> None:
    new = {raw["name"]: raw for raw in now}
    for name in differs.new:
        screen.write(f"new: {one_line(visible(name))}\n" + page.text(shown_json(new[name]), whole=True))
    for name in differs.changed:
        screen.write(f"changed: {one_line(visible(name))}\n")
        screen.write(page.diff(_difference(accepted[name].raw, new[name]), whole=True))
    for name in differs.removed:
        screen.write(f"removed: {one_line(visible(name))}\n")


def _difference(before: Raw, after: Raw) -> str:
    from difflib import unified_diff

    old, new = (shown_json(raw).split("\n") for raw in (before, after))
    return "\n".join(unified_diff(old, new, "accepted", "now", lineterm=""))
