"""`hilt mcp list` and `hilt mcp trust`: other MCP servers, what they have, what changed, and who accepts that."""

from __future__ import annotations

import sys

from hilt import places
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.servers.definitions import AcceptedTool, Difference, Raw, difference, named, shown_json, visible
from hilt.servers.tools import Servers, State
from hilt.surfaces.cli.person import answered
from hilt.surfaces.cli.prompt import Page, Terminal, one_line
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser


def build(parser: Parser) -> None:
    """Add what is done about other servers to `hilt mcp`."""
    parser.command("list", "List other MCP servers and their tools; none is started", _list)
    trusting = parser.command("trust", "Show what changed in the tools of a server, and accept it", _trust)
    trusting.add_argument("server", metavar="SERVER", help="The name of the server")
    trusting.details = "The server is started to ask it. It needs a person at a terminal."


def _trust(options: Options, given: Namespace) -> int:
    return answered("mcp trust", lambda screen: _accept(screen, options, given.server))


def _list(options: Options, given: Namespace) -> int:
    """Print every server; nothing is started."""
    with open_runtime(options) as runtime:
        found = runtime.servers()
        if found is None:
            sys.stdout.write("No MCP server is configured: .mcp.json, or [mcp.servers.NAME] in config.toml.\n")
            return 0
        configured, states = found.configured(), found.states()
    lines: list[str] = []
    for state in states:
        lines += _told(state)
    for path, names in configured.untrusted.items():
        lines.append(f"{path} is not trusted, so not read ({places.command('trust', path)}): {', '.join(names)}")
    lines += [f"broken: {problem.origin}: {problem.message}" for problem in configured.problems]
    sys.stdout.write(
        "".join(inert(visible(one_line(line))) + "\n" for line in lines) or "No MCP server is configured.\n"
    )
    return 0


def _told(state: State) -> list[str]:
    server = state.server
    place = server.url or " ".join((server.command, *server.args))
    lines = [f"{server.name}  {summary(state)}  ({server.transport}: {place}; {server.origin})"]
    lines += [f"  {kept.shown}" + (f"  {_first(kept)}" if _first(kept) else "") for kept in state.tools or ()]
    lines += _changes(state.difference)
    if state.difference:
        lines.append(f"  {places.command('mcp', 'trust', server.name)} shows this and asks")
    if state.failure:
        lines.append(f"  failed: {state.failure}")
    return [*lines, *(f"  note: {note}" for note in state.notes)]


def summary(state: State) -> str:
    """Return in a few words how a server stands."""
    if state.server.disabled:
        return "disabled"
    if state.tools is None:
        return "not started yet, so its tools are not known"
    tools = f"{len(state.tools)} tool{'s' * (len(state.tools) != 1)}"
    return f"{tools}, changed: not accepted" if state.difference else tools


def _first(kept: AcceptedTool) -> str:
    return str(kept.raw.get("description") or kept.raw.get("title") or "").strip().partition("\n")[0][:100]


def _changes(differs: Difference) -> list[str]:
    return [
        *(f"  changed, so refused: {name}" for name in differs.changed),
        *(f"  new, so not shown: {name}" for name in differs.new),
        *(f"  gone: {name}" for name in differs.gone),
    ]


def _accept(screen: Terminal, options: Options, name: str) -> int:
    """Start a server, show what it describes otherwise than it was accepted, and ask."""
    with open_runtime(options) as runtime:
        found = runtime.servers()
        if found is None:
            raise ToolError(
                "not_found", "No MCP server is configured.", suggestion=f"See {places.command('mcp', 'list')}."
            )
        known = _accepted(found, name)
        pins, server, now = found.offer(name)
        differs = difference((known or {}).values(), now)
        page = Page(width=screen.width, color=screen.color)
        for note in pins.notes():
            screen.write(f"note: {one_line(note)}\n")
        if known is not None and not differs:
            screen.write(f"{server.name} describes its tools as they were accepted.\n")
            pins.offer(None)
            return 0
        screen.write(f"{server.name}, {len(now)} tools ({one_line(server.origin)}):\n")
        _show(screen, page, known or {}, now, differs)
        screen.write("Accept these definitions? [y/n] > ")
        answer = screen.read()
        kept, notes = named(server.name, now, known or {})
        if answer.strip().casefold() not in ("y", "yes"):
            screen.write(("" if answer else "\n") + "Not accepted.\n")
            if known is None:
                # starting it has accepted them, as every first start does: here a person said no
                pins.accept([])
                pins.offer(now)
            return 1
        pins.accept(kept)
    screen.write("".join(f"{one_line(note)}\n" for note in notes) + "Accepted, until they change.\n")
    return 0


def _accepted(found: Servers, name: str) -> dict[str, AcceptedTool] | None:
    for state in found.states():
        if state.server.name == name:
            return None if state.tools is None else {kept.raw["name"]: kept for kept in state.tools}
    for path, names in found.configured().untrusted.items():
        if name in names:
            raise ToolError(
                "untrusted",
                f"{one_line(path)} is not trusted.",
                suggestion=f"First: {places.command('trust', one_line(path))}",
            )
    raise ToolError(
        "not_found", f"There is no MCP server {one_line(name)}.", suggestion=f"See {places.command('mcp', 'list')}."
    )


def _show(screen: Terminal, page: Page, known: dict[str, AcceptedTool], now: list[Raw], differs: Difference) -> None:
    new = {raw["name"]: raw for raw in now}
    for name in differs.new:
        screen.write(f"new: {one_line(visible(name))}\n" + page.text(shown_json(new[name]), whole=True))
    for name in differs.changed:
        screen.write(f"changed: {one_line(visible(name))}\n")
        screen.write(page.diff(_difference(known[name].raw, new[name]), whole=True))
    for name in differs.gone:
        screen.write(f"gone: {one_line(visible(name))}\n")


def _difference(before: Raw, after: Raw) -> str:
    from difflib import unified_diff

    old, new = (shown_json(raw).split("\n") for raw in (before, after))
    return "\n".join(unified_diff(old, new, "accepted", "now", lineterm=""))
