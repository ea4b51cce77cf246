"""`hilt mcp`: serve the tools to MCP hosts; list other MCP servers, and accept their changed definitions."""

from __future__ import annotations

import sys

from hilt import places
from hilt.desk import servers as desk
from hilt.formats.invisible import one_line
from hilt.output.terminal import clip, inert
from hilt.surfaces import Usage
from hilt.surfaces.cli import mcp_install
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import for_person
from hilt.surfaces.mcp import pipe
from hilt.surfaces.mcp.command import ServeOptions, serve
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import Page, Terminal


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _serve
    parser.details = """Without a command, serves all tools to one client on standard input and output, or with --http
to any number of clients. --tools and --profile select the tools."""
    address = "Serve over HTTP; 127.0.0.1 and a free port by default"
    parser.add_argument("--http", metavar="HOST:PORT", nargs="?", const="", help=address)
    parser.add_argument("--no-token", dest="token", action="store_false", help="With --http, require no token")
    parser.add_argument("--search", action="store_true", help="Offer only tool_search and tool_call")
    parser.add_argument("--lean", action="store_true", help="Offer tools with shorter descriptions")
    mcp_install.build(parser)
    parser.command("list", "List other MCP servers and their tools, without starting any", _list)
    trusting = parser.command("trust", "Show changed tool definitions of a server, and accept them", _trust)
    trusting.add_argument("server", metavar="SERVER", help="The name of the server")
    trusting.examples = [("hilt mcp trust github", "Review the tools of one server")]
    trusting.details = "Starts the server to read its definitions. Requires a person at a terminal."
    parser.examples = [
        ("hilt mcp install claude", "Add hilt to the MCP servers of Claude Code"),
        ("hilt mcp --http 127.0.0.1:8931", "Serve over HTTP"),
        ("hilt mcp list", "List the MCP servers whose tools hilt offers"),
    ]


def _serve(options: Options, arguments: Namespace) -> int:
    flags = flags_of(arguments)
    if flags.http is not None:
        return serve(options, flags)
    return pipe.main(options, [f"--{name}" for name in ("search", "lean") if getattr(flags, name)])


def flags_of(arguments: Namespace) -> ServeOptions:
    """Return the options for serving."""
    if not arguments.token and arguments.http is None:
        raise Usage("--no-token needs --http")
    return ServeOptions(arguments.http, arguments.token, arguments.search, arguments.lean)


# --- other servers --------------------------------------------------------------------------------------------------


def _list(options: Options, arguments: Namespace) -> int:
    """Print every server; nothing is started."""
    with open_runtime(options) as runtime:
        found = desk.servers(runtime)
    if found is None:
        sys.stdout.write(
            "No MCP server is configured.\nAdd one to .mcp.json, or as [mcp.servers.NAME] to config.toml.\n"
        )
        return 0
    lines = [line for server in found.servers for line in _described(server)]
    for path, names in found.untrusted.items():
        lines.append(f"{path} is not trusted, so not read ({places.command('trust', path)}): {', '.join(names)}")
    lines += [f"broken: {problem.origin}: {problem.message}" for problem in found.problems]
    sys.stdout.write(
        "".join(inert(desk.visible(one_line(line))) + "\n" for line in lines) or "No MCP server is configured.\n"
    )
    return 0


def _described(server: desk.OtherServer) -> list[str]:
    changes = server.unaccepted
    lines = [f"{server.id}  {server.summary}  ({server.transport}: {server.target}; {server.origin})"]
    lines += [f"  {tool.name}" + f"  {clip(tool.description, 100)}" * bool(tool.description) for tool in server.tools]
    lines += [f"  changed, so refused: {name}" for name in changes.changed]
    lines += [f"  new, so not offered: {name}" for name in changes.new]
    lines += [f"  removed: {name}" for name in changes.removed]
    if changes:
        lines.append(f"  to review: {places.command('mcp', 'trust', server.id)}")
    if server.failure:
        lines.append(f"  failed: {server.failure}")
    return [*lines, *(f"  note: {note}" for note in server.notes)]


@for_person("mcp trust")
def _trust(screen: Terminal, options: Options, arguments: Namespace) -> int:
    """Start a server, show how its definitions differ from the accepted ones, and prompt."""
    with open_runtime(options) as runtime:
        review = desk.review(runtime, arguments.server)
        page = screen.page()
        for note in review.notes:
            screen.write(f"note: {one_line(note)}\n")
        if not review.changes and not review.is_first:
            screen.write(f"The tools of {review.server} match their accepted definitions.\n")
            return 0
        screen.write(f"{review.server}, {review.tools} tools ({one_line(review.origin)}):\n")
        for change in review.changes:
            _show(screen, page, change)
        if not screen.agrees("Accept these definitions?"):
            desk.reject(review)
            screen.write("Not accepted.\n")
            return 1
        notes = desk.accept(review)
    screen.write("".join(f"{one_line(note)}\n" for note in notes) + "Accepted until they change.\n")
    return 0


def _show(screen: Terminal, page: Page, change: desk.ChangedDefinition) -> None:
    name = one_line(desk.visible(change.name))
    if change.after is None:
        screen.write(f"removed: {name}\n")
    elif change.before is None:
        screen.write(f"new: {name}\n" + page.text(change.after, whole=True))
    else:
        screen.write(f"changed: {name}\n" + page.difference(change.before, change.after, "accepted"))
