"""`hilt serve`: the API, its events, MCP and the console over HTTP."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from hilt import places
from hilt.errors import ToolError
from hilt.surfaces import Usage
from hilt.surfaces.cli.ancestry import ancestors
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, integer
from hilt.surfaces.cli.person import refuse_tools
from hilt.surfaces.oneshot import die
from hilt.surfaces.opening import open_runtime, surroundings_of
from hilt.surroundings import Surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.surfaces.http.serving import ServerOptions

PORT = 7654


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """The first line of output is the address with the person's token, which may approve calls: keep
it secret. Agents use another token. --workspace may be repeated. Only this machine can connect, unless --host is
given together with --tls-cert and --tls-key, or with --behind-proxy. Requires the extra serve."""
    parser.add_argument("folders", metavar="DIR", nargs="*", help="More folders to serve")
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="Listen on this address")
    port = f"Listen on this port; {PORT} by default, 0 for a free one"
    parser.add_argument("--port", metavar="PORT", type=integer("--port", 0, 65535), default=PORT, help=port)
    parser.add_argument("--no-open", dest="open", action="store_false", help="Do not open a browser")
    parser.add_argument("--tls-cert", metavar="FILE", help="Serve HTTPS with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="The private key of the certificate")
    proxy = "A proxy in front of this server handles TLS and sets the Host header"
    parser.add_argument("--behind-proxy", action="store_true", help=proxy)
    parser.add_argument("--show-agent-token", action="store_true", help="Print the token for agents, and exit")
    parser.examples = [
        ("hilt serve", "Serve this folder, and open the console"),
        ("hilt serve --workspace a --workspace b --no-open", "Serve two folders"),
        ("hilt serve --show-agent-token", "Print the token for agents"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    refuse_tools("serve")
    if any(process.name == "bwrap" for _, process in ancestors(os.getpid())):
        # hilt itself is not visible from inside
        raise ToolError(
            "denied",
            "hilt serve does not run inside a sandbox.",
            suggestion=f"A person runs it in a terminal: {places.command('serve')}",
        )
    for folder in (None, *arguments.folders):
        # forgets the modules of the workspaces before any library looks for its plug-ins
        with open_runtime(options if folder is None else {**options, "workspace": folder}):
            pass
    if arguments.show_agent_token:
        return _show_agent_token()
    server_options = _options(arguments)
    gc.disable()  # imported objects stay: collecting garbage while importing takes a tenth of the start
    ended = _serve(options, server_options, opens=arguments.open)
    with suppress(OSError):
        sys.stdout.flush()
    if ended:
        die(ended)
    os._exit(0)  # a call that does not end must not keep the process alive


def _show_agent_token() -> int:
    from hilt.surfaces.http.tokens import agents_token

    state = places.state_dir(os.environ)
    places.make_state_dir(state)
    sys.stdout.write(agents_token(state) + "\n")
    return 0


def _options(arguments: Namespace) -> ServerOptions:
    import ipaddress

    from hilt.surfaces.http.listening import Address
    from hilt.surfaces.http.serving import ServerOptions

    host = {"localhost": "127.0.0.1"}.get(arguments.host, arguments.host.strip("[]"))
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise Usage(f"--host takes an IP address, not {arguments.host!r}") from None
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise Usage("--tls-cert and --tls-key must be used together")
    address = Address(host, arguments.port)
    if not address.is_loopback and arguments.tls_cert is None and not arguments.behind_proxy:
        raise Usage(f"--host {host} needs --tls-cert and --tls-key, or --behind-proxy: others could read the token")
    return ServerOptions(address, arguments.folders, arguments.tls_cert, arguments.tls_key, arguments.behind_proxy)


def _serve(options: Options, server_options: ServerOptions, *, opens: bool) -> int:
    """Serve until a signal arrives; return the signal, or 0."""
    import asyncio

    from hilt.surfaces.event_loop import EndingSignal
    from hilt.surfaces.http.serving import serve

    ending = EndingSignal()

    def started(url: str, secret: str) -> None:
        sys.stdout.write(f"{secret}\nhilt serves {url}; press Ctrl-C to stop.\n")
        sys.stdout.flush()
        if opens and sys.stdout.isatty():
            open_browser(secret, places.state_dir(os.environ), surroundings_of(options))

    async def main() -> None:
        ending.cancel_task()
        await serve(options, server_options, started)

    with suppress(asyncio.CancelledError):
        asyncio.new_event_loop().run_until_complete(main())
    return ending.number


def open_browser(secret: str, state: str, surroundings: Surroundings) -> None:
    """Open the console, by a file that only the user can read: command lines are visible to others."""
    import html

    path = os.path.join(state, "open-console.html")
    with suppress(OSError):
        with suppress(FileNotFoundError):
            os.unlink(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            target = html.escape(secret, quote=True)
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><title>hilt</title>\n')
        openers = ("open",) if sys.platform == "darwin" else ("xdg-open", "x-www-browser", "wslview")
        opener = next(filter(None, map(surroundings.find, openers)), None)
        if opener is not None:
            os.posix_spawn(opener, [opener, f"file://{path}"], surroundings.environment(), setsid=True)
