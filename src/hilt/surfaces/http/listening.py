"""An HTTP server that clients without a token cannot block: limits on connections, headers and idle time."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from glob import iglob
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from hilt.errors import ToolError
from hilt.formats.invisible import one_line

CONNECTIONS_MAX = 512
HEADER_BYTES = 64 << 10
HEAD_SECONDS = 10  # for the request line and the headers
CLOSING_SECONDS = 3.0  # for a client to read the rest of a response
LINGER_SECONDS = 0.5  # for which input from a rejected client is read and discarded
STOP_SECONDS = 2


class Address(NamedTuple):
    """The IP address and port to listen on."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def netloc(self) -> str:
        """The host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HttpConnection(HttpToolsProtocol):
    """A connection that replaces an idle one when the limit is reached."""

    # returns the content type and body of the response to an invalid request
    invalid: Callable[[int], tuple[bytes, bytes]] | None = None
    is_rejected = False
    lost: Callable[[], None] | None = None  # called when the client disconnects
    _unparsed = 0  # bytes since the last complete part of a request
    _has_head = False
    _last_cycle: RequestResponseCycle | None = None  # of the current or last request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """At the limit, close the oldest connection without a request, else the oldest whose request is done."""
        super().connection_made(transport)
        self.since = time.monotonic()
        # uvicorn would also count the tasks of connections that have just been closed
        self.connection_limit, self.limit_concurrency = self.limit_concurrency or CONNECTIONS_MAX, None
        if len(self.connections) < self.connection_limit:
            return
        others: list[Any] = [other for other in self.connections if other is not self]
        idle = [other for other in others if getattr(other, "is_idle", False)]
        if idle:
            oldest = min(idle, key=lambda other: (getattr(other, "cycle", None) is not None, other.since))
            self.connections.discard(oldest)
            oldest.transport.abort()
        else:
            self._reject(503, "Exceeded concurrency limit.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that its client has disconnected."""
        super().connection_lost(exc)
        if self.lost is not None:
            self.lost()

    @property
    def is_idle(self) -> bool:
        """Whether there is no request, or its response is complete."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def handle_websocket_upgrade(self) -> None:
        """Accept a WebSocket, which counts as a connection like any other."""
        if len(self.connections) >= self.connection_limit:
            self._reject(503, "Exceeded concurrency limit.")
        else:
            super().handle_websocket_upgrade()

    # --- parsing --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse input; discard everything after an invalid request."""
        if self.is_rejected:
            return
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > HEADER_BYTES and not self.is_rejected:  # the parser itself has no limit
            self._reject(431, "The headers are too long.")

    def on_message_begin(self) -> None:
        """Start a request."""
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; ignore trailers after the body, because proxies do not check them."""
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the response; a host in the request line replaces the Host header, as in proxies."""
        self._has_head = True
        if not self.url.startswith(b"/") and b"://" in self.url:
            host = self.url.partition(b"://")[2].partition(b"/")[0]
            self.headers[:] = [(b"host", host), *(header for header in self.headers if header[0] != b"host")]
        super().on_headers_complete()
        self._unparsed = 0

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the response, and give the application access to the connection."""
        self._last_cycle = cycle
        scope: Any = cycle.scope
        scope["hilt.connection"] = self
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body."""
        self._unparsed = 0
        super().on_message_complete()

    # --- responses ------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Reject an invalid request; a very long path is invalid too."""
        self._reject(431 if self._unparsed > HEADER_BYTES else 400, msg)

    def _reject(self, status: int, message: str) -> None:
        content_type, body = b"text/plain; charset=utf-8", message.encode()
        if self.invalid is not None:
            content_type, body = self.invalid(status)
        self.is_rejected = True
        if self._last_cycle is None or self._last_cycle.response_complete or not self._last_cycle.response_started:
            head = b"content-type: %s\r\ncontent-length: %d\r\n" % (content_type, len(body))
            safe = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head + safe + body)
        # this is the last response on the connection
        self.pipeline.clear()
        for cycle in filter(None, (self._last_cycle, self.cycle)):
            cycle.disconnected = True
            cycle.message_event.set()
        if self.lost is not None:
            self.lost()
        # closing with unread input would reset the connection, and the client would not see the response
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def server_config(
    app: Any, http: type[HttpConnection] = HttpConnection, *, limit: int = CONNECTIONS_MAX, **more: Any
) -> uvicorn.Config:
    """Return the configuration of a server with our limits, which logs nothing and trusts no proxy."""
    return uvicorn.Config(
        app,
        http=http,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections_max(limit),
        timeout_graceful_shutdown=STOP_SECONDS,
        **more,
    )


class HttpServer(uvicorn.Server):
    """Closes idle connections: clients without a token could use them to block others."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        # clients without a token could fill the log, or block the server if nobody reads its standard error
        logging.getLogger("uvicorn.error").disabled = True
        # since when each connection has had no request, or a complete response
        self._idle: dict[tuple[Any, Any], float] = {}
        self._closing: dict[Any, float] = {}  # since when each client has not read the rest of its response

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; a TLS handshake has the same timeout as the headers of a request."""
        loop = asyncio.get_running_loop()
        if self.config.ssl is not None:
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEAD_SECONDS)  # type: ignore[method-assign]
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Close connections that have been idle too long; called ten times a second."""
        now = time.monotonic()
        cycles = [(connection, getattr(connection, "cycle", self)) for connection in self.server_state.connections]
        # after a response, only a complete request counts, so that single bytes cannot keep a connection open
        idle = [pair for pair in cycles if pair[1] is None or getattr(pair[1], "response_complete", False)]
        self._idle = {pair: self._idle.get(pair, now) for pair in idle}
        for (connection, _), since in self._idle.items():
            if now - since > HEAD_SECONDS:
                connection.transport.close()
        # closing waits until the client has read everything; abort if it does not read
        closing = [connection for connection, _ in cycles if connection.transport.is_closing()]
        self._closing = {connection: self._closing.get(connection, now) for connection in closing}
        for connection, since in self._closing.items():
            if now - since > CLOSING_SECONDS:
                connection.transport.abort()
        return await super().on_tick(counter)


def connections_max(limit: int) -> int:
    """Return the connection limit, lowered to leave file descriptors for other uses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * limit
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if soft < 0 else max(min(limit, soft // 2), 2)


def listen(address: Address) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio disables Nagle's algorithm, which delays responses by 40 ms, only if the protocol is IPPROTO_TCP
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(256)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            user = _listening_process(address.port)
            raise ToolError("port_in_use", f"Cannot listen on {address.netloc}: {user} uses the port.") from error
        reason = os.strerror(error.errno or 0)
        advice = "Choose another port; port 0 selects any free port."
        raise ToolError(
            "permission_denied", f"Cannot listen on {address.netloc}: {reason}.", suggestion=advice
        ) from error
    listener.setblocking(False)  # noqa: FBT003 -- the library's signature
    return listener


def _listening_process(port: int) -> str:
    """Return which process listens on a port, as far as Linux tells this user."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as lines:
            fields = [line.split() for line in lines][1:]
            sockets |= {f"socket:[{row[9]}]" for row in fields if row[3] == "0A" and int(row[1][-4:], 16) == port}
    for link in iglob("/proc/[0-9]*/fd/*") if sockets else ():
        with suppress(OSError):
            if os.readlink(link) in sockets:
                process = link.split("/")[2]
                with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as name:
                    return f"process {process} ({one_line(name.read().strip())})"
    return "another process"
