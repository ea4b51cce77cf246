"""Runs `hilt serve`: opens the workspaces, listens, and shuts down."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Response

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.output.incidents import log_incident
from hilt.surfaces import resident
from hilt.surfaces.http.app import AppParts, HttpApp, TokenPair
from hilt.surfaces.http.feed import Feed
from hilt.surfaces.http.listening import Address, HttpConnection, HttpServer, listen, server_config
from hilt.surfaces.http.problems import CONTENT_TYPE, HttpProblem
from hilt.surfaces.http.requests import OwnHosts
from hilt.surfaces.http.static import read_files
from hilt.surfaces.http.tokens import agents_token, person_token
from hilt.surfaces.http.workspaces import ServedWorkspace, Workspaces
from hilt.surfaces.mcp.content import Choice
from hilt.surfaces.mcp.http import RequestGuard, session_manager
from hilt.surfaces.mcp.server import Serving
from hilt.surfaces.opening import open_runtime

CONNECTIONS_MAX = 1024
MESSAGE_BYTES = 64 << 10  # from a WebSocket client
PING_SECONDS = 20.0
PONG_SECONDS = 120.0  # long, because a slow WebSocket client should receive `reset`, not lose its connection
CLOSE_SECONDS = 2.0  # for runtimes to stop their jobs and calls


class ServerOptions(NamedTuple):
    """The options of `hilt serve`."""

    address: Address
    folders: Sequence[str] = ()  # besides the first
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False


async def serve(options: dict[str, str], server_options: ServerOptions, started: Callable[[str, str], None]) -> None:
    """Serve until cancelled; `started` receives the URL, and the URL with the person's token."""
    stack = AsyncExitStack()
    listener = listen(server_options.address)
    address = server_options.address._replace(port=listener.getsockname()[1])
    workspaces = _open(options, server_options.folders)
    first = workspaces.first.runtime.parts
    async with stack:
        stack.callback(listener.close)
        stack.callback(_close, workspaces)
        tokens = person_token(first.state), agents_token(first.state)
        if tokens[0] == tokens[1]:
            raise ToolError(
                "invalid_args",
                "HILT_TOKEN and HILT_AGENT_TOKEN are the same: agents could approve their own calls.",
                suggestion="Use two different tokens.",
            )
        for name, token in zip(("HILT_TOKEN", "HILT_AGENT_TOKEN"), tokens, strict=True):
            os.environ.pop(name, None)  # child processes do not need them
            for served in workspaces.all:
                served.runtime.parts.secrets[name] = token
        names = {served.runtime.parts.id: served.runtime.parts.root for served in workspaces.all}
        settings = first.settings
        feed = Feed(first.state, names, days=settings["events.keep_days"], megabytes=settings["events.keep_mb"])
        stack.callback(feed.close)
        mcp = {served.runtime.parts.root: await _mcp(served, stack) for served in workspaces.all}
        is_secure = server_options.certificate is not None
        access = OwnHosts(address, secure=is_secure, any_host=server_options.behind_proxy)
        pair = TokenPair(*(token.encode() for token in tokens))
        app = HttpApp(AppParts(workspaces, pair, access, feed, read_files(), mcp))
        stack.callback(app.close)
        stack.push_async_callback(app.attendance.close)
        server = HttpServer(_config(app, server_options))
        asyncio.get_running_loop().set_exception_handler(partial(_log_bug, first.state))
        gc.freeze()
        gc.enable()
        for served in workspaces.all:
            served.runtime.watch_deadlines()
        url = f"{'https' if is_secure else 'http'}://{address.netloc}/"
        started(url, f"{url}#token={tokens[0]}")
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            server.should_exit = True
            await running


def _log_bug(state: str, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception in the event loop; standard error may be a pipe that nobody reads."""
    error = context.get("exception")
    if isinstance(error, Exception) and not isinstance(error, OSError):
        log_incident(state, error)


def _open(options: dict[str, str], folders: Sequence[str]) -> Workspaces:
    served = [ServedWorkspace(open_runtime(options), options)]
    for folder in folders:
        runtime = open_runtime({**options, "workspace": folder})
        if runtime.parts.root in [other.runtime.parts.root for other in served]:
            runtime.close()
        else:
            served.append(ServedWorkspace(runtime, options))
    return Workspaces(served)


def _close(workspaces: Workspaces) -> None:
    """Close all workspaces, but wait only CLOSE_SECONDS: their child processes end with this process anyway."""
    threads = [threading.Thread(target=served.close, daemon=True) for served in workspaces.all]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CLOSE_SECONDS / len(threads))


async def _mcp(served: ServedWorkspace, stack: AsyncExitStack) -> RequestGuard:
    """Start the MCP server of a workspace."""
    runtime = served.runtime
    hand_over = partial(_hand_over, served) if served.uses_resident else None
    # a client with the agents' token could answer forms without the person
    serving = Serving(runtime, Choice(), single=None, hand_over=hand_over, approves=False)
    stack.callback(serving.close)
    tidying = asyncio.create_task(serving.tidy())
    stack.callback(tidying.cancel)
    manager = session_manager(serving)
    await stack.enter_async_context(manager.run())
    return RequestGuard(manager.handle_request, None, None)


def _hand_over(served: ServedWorkspace, call: Call) -> Result:
    return resident.hand_over(call._replace(client=None), served.options)


def _config(app: HttpApp, server_options: ServerOptions) -> uvicorn.Config:
    config = server_config(
        app,
        _ApiConnection,
        limit=CONNECTIONS_MAX,
        ws=_EventConnection,
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PONG_SECONDS,
        ws_per_message_deflate=False,  # takes 64 KB for each client
    )
    if server_options.certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(server_options.certificate, server_options.key)
        except (OSError, ssl.SSLError) as error:
            advice = "Pass PEM files with --tls-cert and --tls-key."
            raise ToolError("invalid_args", f"Cannot load the certificate: {error}.", suggestion=advice) from error
        config.load()
        config.ssl = context
    return config


def _problem(status: int) -> tuple[bytes, bytes]:
    return CONTENT_TYPE, HttpProblem(status, "The request is not valid HTTP, or it is too large.").body


def _reject(reject: Callable[[int, str], Response], status: int, text: str) -> Response:
    """Return the response to an invalid handshake as problem+json instead of plain text."""
    detail = HttpProblem(status, text.strip()).body.decode()
    response = reject(status, detail)
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = CONTENT_TYPE.decode()
    return response


class _ApiConnection(HttpConnection):
    """A connection that answers invalid requests with problem+json."""

    invalid = staticmethod(_problem)


class _EventConnection(WebSocketsSansIOProtocol):
    """A WebSocket; until its client has sent a valid token, it may be closed to make room for others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.reject = partial(_reject, self.conn.reject)  # type: ignore[method-assign]
        self.is_idle = True
        self.since = asyncio.get_running_loop().time()

    def handle_connect(self, event: Any) -> None:
        """Start the handshake, and give the application access to this connection."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["hilt.connection"] = self  # type: ignore[typeddict-unknown-key]

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection, which may already have been removed to make room for another."""
        self.connections.add(self)
        super().connection_lost(exc)
