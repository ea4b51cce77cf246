"""One HTTP request on one connection, to an address that the guard has checked, with a deadline and size limits.

Nothing is shared between requests: no connection pool, no cookies (ADR 0028). Proxy variables are ignored.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import h11

from hilt.errors import ToolError
from hilt.web.guard import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from hilt.fence import Fence

CONNECT_SECONDS = 10.0  # per address
HEADER_BYTES = 64 * 1024
FRAMING = 8  # how many times its size a chunked body may take on the wire
INFORMATIONAL_MAX = 10  # informational responses before the final one
CHUNK_BYTES = 64 * 1024

Headers = Sequence[tuple[str, str]]


class HttpRequest(NamedTuple):
    """A request to a target."""

    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""


class Response(NamedTuple):
    """The head of a response; `chunks` yields its body as it arrives, still compressed."""

    status: int
    headers: Mapping[str, str]  # names in lower case; values of repeated headers are joined
    chunks: Iterator[bytes]


class BrokenConnection(Exception):
    """The body ended before it was complete."""


class Dialler:
    """Opens connections for one call, until its deadline or cancellation."""

    def __init__(
        self,
        fence: Fence,
        deadline: float,
        contacted: Callable[[str], None],
        tls: Callable[[], ssl.SSLContext],
    ) -> None:
        """`contacted` is called with every address before connecting to it."""
        self._fence = fence
        self._deadline = deadline
        self._contacted = contacted
        self._tls = tls

    @contextmanager
    def exchange(self, target: Target, request: HttpRequest, max_bytes: int) -> Iterator[Response]:
        """Send a request and yield the response; reading its body stops shortly after `max_bytes`."""
        try:
            connection = self._connect(target)
        except TimeoutError:
            raise self._timeout_error(target) from None
        try:
            peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES)
            yield self._converse(target, request, connection, peer, HEADER_BYTES * 2 + max_bytes * FRAMING)
        except TimeoutError:
            raise self._timeout_error(target) from None
        except OSError as error:
            self._fence.check()
            raise _request_error(target, _reason(error)) from error
        except h11.LocalProtocolError as error:
            raise ToolError("invalid_args", f"Invalid request: {error}.") from error
        except h11.RemoteProtocolError as error:
            raise _request_error(target, f"invalid HTTP response ({str(error)[:200]!a})") from error
        finally:
            connection.close()

    def _connect(self, target: Target) -> socket.socket:
        problems = []
        for address in target.addresses:
            self._fence.check()
            self._contacted(f"{target.authority} ({address}:{target.port})")
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                self._fence.watch(_breaker(connection))
                connection.settimeout(min(self._remaining(), CONNECT_SECONDS))
                connection.connect((address, target.port))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if target.scheme == "https":
                    connection.settimeout(self._remaining())
                    # the certificate is issued for the name, not for the address
                    secured = self._tls().wrap_socket(
                        connection, server_hostname=target.host, do_handshake_on_connect=False
                    )
                    connection = secured
                    self._fence.watch(_breaker(connection))
                    secured.do_handshake()
                return connection
            except OSError as error:
                connection.close()
                self._fence.check()
                problems.append(f"{address}: {_reason(error)}")
            except BaseException:
                connection.close()
                raise
        self._remaining()
        raise _request_error(target, "; ".join(problems))

    def _converse(
        self, target: Target, request: HttpRequest, connection: socket.socket, peer: h11.Connection, wire_bytes: int
    ) -> Response:
        fields = [("Host", target.authority), *request.headers, ("Connection", "close")]
        if request.body:
            fields.append(("Content-Length", str(len(request.body))))
        head = peer.send(h11.Request(method=request.method, target=target.path, headers=fields))
        body = peer.send(h11.Data(data=request.body)) if request.body else b""
        connection.settimeout(self._remaining())
        connection.sendall((head or b"") + (body or b"") + (peer.send(h11.EndOfMessage()) or b""))
        events = self._events(connection, peer, wire_bytes)
        for _ in range(INFORMATIONAL_MAX):
            event = next(events, None)
            if isinstance(event, h11.Response):
                return Response(event.status_code, _joined(event.headers), _body(events))
            if not isinstance(event, h11.InformationalResponse):
                break
        raise _request_error(target, "the server closed the connection without a response")

    def _events(self, connection: socket.socket, peer: h11.Connection, wire_bytes: int) -> Iterator[h11.Event]:
        """Yield events as they arrive; raise BrokenConnection if the response is too large or incomplete."""
        while True:
            event = peer.next_event()
            if event is h11.NEED_DATA:
                if wire_bytes <= 0:
                    raise BrokenConnection
                connection.settimeout(self._remaining())
                data = connection.recv(CHUNK_BYTES)
                if not data:
                    self._fence.check()  # cancelling a call shuts its connections down
                wire_bytes -= len(data)
                if not data and peer.their_state is h11.SEND_RESPONSE:
                    return
                peer.receive_data(data)
            elif isinstance(event, h11.Event):
                yield event
                if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return
            else:
                return

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def _timeout_error(self, target: Target) -> ToolError:
        self._fence.check()
        return ToolError(
            "timeout", f"{target.authority} did not respond in time.", suggestion="Try again later, or request less."
        )


def _body(events: Iterator[h11.Event]) -> Iterator[bytes]:
    try:
        for event in events:
            if isinstance(event, h11.Data):
                yield bytes(event.data)
    except h11.RemoteProtocolError as error:
        raise BrokenConnection from error


def _breaker(connection: socket.socket) -> Callable[[], None]:
    def interrupt() -> None:
        with suppress(OSError):
            # not the method of a TLS socket, which would continue in plain text
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    return interrupt


def _joined(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace").strip()
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


def _request_error(target: Target, reason: str) -> ToolError:
    return ToolError("network_error", f"The request to {target.authority} failed: {reason}.")


def _reason(error: OSError) -> str:
    verification = getattr(error, "verify_message", "")
    if verification:
        return f"invalid certificate ({verification})"
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error) or type(error).__name__).rstrip(".")
