"""The application of `hilt serve`: checks each request, finds its route, and answers it."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from hilt import wire
from hilt.call_threads import CallThreads
from hilt.errors import ToolError
from hilt.output.incidents import log_incident
from hilt.surfaces.event_loop import Bucket, offload
from hilt.surfaces.http import calling, consents, records, work
from hilt.surfaces.http.calling import HttpCall, read_call
from hilt.surfaces.http.feed import Attendance, EventSocket, Feed
from hilt.surfaces.http.listening import HEADER_BYTES, LINGER_SECONDS, HttpConnection
from hilt.surfaces.http.openapi import document
from hilt.surfaces.http.problems import CONTENT_TYPE, HttpProblem, from_error, sentence
from hilt.surfaces.http.requests import (
    BadBody,
    Disconnected,
    Headers,
    OwnHosts,
    Receive,
    Scope,
    bearer,
    headers_of,
    only,
    read_body,
)
from hilt.surfaces.http.routes import (
    WORKSPACE,
    ApiRequest,
    Caller,
    Route,
    RouteTable,
    read_fields,
    read_query,
    routes_of,
)
from hilt.surfaces.http.static import StaticFile
from hilt.surfaces.http.workspaces import Workspaces

MCP = "/mcp"
METRICS = "/metrics"
EVENTS = "/v1/events"

RATE = 4_000  # requests per second with one token
UNKNOWN_RATE = 500  # requests per second without a valid token
SEND_SECONDS = 30.0  # for a client to read one chunk of a response
QUICK_THREADS = 16
SLOW_THREADS = 512

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_API_HEADERS = (
    *_SECURITY_HEADERS,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self' {socket}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_EVENTS_QUERY: dict[str, dict[str, Any]] = {
    "after": {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**53,
        "description": "The number of the last event received.",
    },
    "recent": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10_000,
        "default": 0,
        "description": "Without after: the maximum number of older events to start with.",
    },
}
OWN_ROUTES = (
    calling.ROUTE,
    Route("GET", "/openapi.json", "Return this document", None, {"type": "object"}, who="both"),
    Route("GET", METRICS, "Return call metrics in the Prometheus text format", None, {"type": "string"}, who="both"),
    Route(
        "GET", EVENTS, "Open a WebSocket that streams all events", None, {}, _EVENTS_QUERY, status=101, errors=(426,)
    ),
)
ROUTES = (*OWN_ROUTES, *(route for module in (records, consents, work) for route in routes_of(module)))


class TokenPair(NamedTuple):
    """The tokens of the person and of agents."""

    person: bytes
    agents: bytes

    def caller(self, token: bytes | None) -> Caller | None:
        """Return whose token this is, or None."""
        if token is None:
            return None
        # always compare with both, so that the timing reveals nothing
        is_person, is_agent = hmac.compare_digest(token, self.person), hmac.compare_digest(token, self.agents)
        return "person" if is_person else "agents" if is_agent else None


class AppParts(NamedTuple):
    """The dependencies of an HttpApp."""

    workspaces: Workspaces
    tokens: TokenPair
    access: OwnHosts
    feed: Feed
    files: Mapping[str, StaticFile]
    mcp: Mapping[str, App]  # by workspace


class HttpApp:
    """The ASGI application. Lives in one event loop."""

    def __init__(self, parts: AppParts) -> None:
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._quick_threads = CallThreads(QUICK_THREADS)
        self._slow_threads = CallThreads(SLOW_THREADS)
        self._table = RouteTable(ROUTES)
        self._document = json.dumps(document(ROUTES)).encode()
        self._rates = {"person": Bucket(RATE), "agents": Bucket(RATE), None: Bucket(UNKNOWN_RATE)}
        self.attendance = Attendance(parts.workspaces.first.runtime.parts.state, self.quick)

    def close(self) -> None:
        """Stop the threads."""
        self._quick_threads.close()
        self._slow_threads.close()

    def quick(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run short work on another thread."""
        return offload(self._loop, self._quick_threads, work)

    def slow(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run work that may take minutes on another thread."""
        return offload(self._loop, self._slow_threads, work)

    # --- requests -------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or serve one WebSocket."""
        headers = headers_of(scope["headers"])
        try:
            # the parser only limits headers that arrive in several reads
            if sum(len(name) + len(value) for name, value in scope["headers"]) + _target_size(scope) > HEADER_BYTES:
                raise HttpProblem(431, f"The request line and headers exceed {HEADER_BYTES} bytes.")
            if scope["type"] == "websocket":
                await self._websocket(scope, headers, receive, send)
            else:
                await self._http(scope, headers, receive, send)
        except Disconnected:
            return
        except Exception as error:  # noqa: BLE001 -- a bug: the client gets a response, the log gets the traceback
            await self._send_problem(scope, receive, send, self._problem(error))

    def _problem(self, error: Exception) -> HttpProblem:
        if isinstance(error, HttpProblem):
            return error
        if isinstance(error, ToolError):
            return from_error(error)
        if isinstance(error, BadBody):
            return HttpProblem(error.status, sentence(error.reason))
        incident = log_incident(self._parts.workspaces.first.runtime.parts.state, error)
        return from_error(incident, 500, incident=incident.details["incident"])

    async def _http(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        refusal = self._parts.access.refusal(headers)
        if refusal is not None:
            raise HttpProblem(refusal[0], sentence(refusal[1]))
        path, method = scope["raw_path"].decode("ascii"), scope["method"]
        file = self._file(path, headers)
        if file is not None:
            await self._send_file(file, method, headers, send)
            return
        caller = self._identify(headers)
        if path == MCP:
            await self._serve_mcp(caller, scope, receive, send)
            return
        match = self._table.find(path)
        if match is None:
            raise HttpProblem(404, f"There is no path {path[:200]}.")
        methods, parts = match
        # all methods of a path accept the same tokens
        self._admit(caller, next(iter(methods.values())))
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(methods)
            raise HttpProblem(405, f"{path[:200]} supports only {allowed}.", headers=((b"allow", allowed.encode()),))
        if route.path == EVENTS:
            _read_events_query(route, scope)
            raise HttpProblem(426, "Events are sent over a WebSocket.", headers=((b"upgrade", b"websocket"),))
        query = read_query(route, scope["query_string"])
        await self._answer(route, parts, query, scope, headers, receive, send)

    def _identify(self, headers: Headers) -> Caller:
        caller = self._parts.tokens.caller(bearer(headers))
        if not self._rates[caller].take():
            raise HttpProblem(429, "Too many requests.", headers=((b"retry-after", b"1"),))
        if caller is None:
            detail = "The token is missing or invalid."
            raise HttpProblem(401, detail, headers=((b"www-authenticate", b"Bearer"),))
        return caller

    def _admit(self, caller: Caller, route: Route) -> None:
        if route.who not in ("both", caller):
            raise HttpProblem(403, f"{route.path} does not accept {_OWNERS[caller]} token.")

    async def _answer(
        self,
        route: Route,
        parts: dict[str, str],
        query: dict[str, Any],
        scope: Scope,
        headers: Headers,
        receive: Receive,
        send: Send,
    ) -> None:
        body = await read_body(headers, receive) if route.has_body else b""
        if route is calling.ROUTE:
            await self._call(body, query.get("workspace"), scope, send, streams=query["stream"] == 1)
        elif route.path == METRICS:
            data = await self.quick(lambda: records.metrics(self._parts.workspaces.first))
            await _send_body(send, 200, data, b"text/plain; version=0.0.4; charset=utf-8")
        elif route.run is None:
            await _send_body(send, 200, self._document)
        else:
            run, (fields, folder) = route.run, _read_body(route, body)
            if route.takes_folder and folder is None:
                folder = query.get("workspace")
            served = self._parts.workspaces.find(folder)
            names = {name: unquote(part, errors="replace") for name, part in parts.items()}
            request = ApiRequest(names, query, fields)
            answer = await self.quick(lambda: _encoded(run(served, request)))
            await _send_body(send, route.status, answer)

    async def _call(self, body: bytes, folder: str | None, scope: Scope, send: Send, *, streams: bool) -> None:
        call, body_folder = read_call(_decoded(body))
        served = self._parts.workspaces.find(folder if body_folder is None else body_folder)
        running = HttpCall(served, call, self.quick, self.slow)
        connection: HttpConnection = scope["hilt.connection"]
        connection.lost = running.cancel
        if connection.transport.is_closing():
            running.cancel()  # the client disconnected before the body was read
        try:
            if streams:
                await self._stream(running, send)
            else:
                await _send_body(send, 200, await running.envelope())
        finally:
            connection.lost = None
            running.cancel()

    async def _stream(self, running: HttpCall, send: Send) -> None:
        await _start(send, 200, (*_API_HEADERS, (b"content-type", b"text/event-stream")))
        async with aclosing(calling.stream(running)) as events:
            async for event in events:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _serve_mcp(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        if caller != "agents":
            raise HttpProblem(403, f"{MCP} does not accept {_OWNERS[caller]} token.")
        query = read_query(_MCP_ROUTE, scope["query_string"])
        served = self._parts.workspaces.find(query.get("workspace"))
        await self._parts.mcp[served.runtime.parts.root](scope, receive, send)

    # --- static files ---------------------------------------------------------------------------------------------

    def _file(self, path: str, headers: Headers) -> StaticFile | None:
        if path == METRICS and b"text/html" not in b"".join(headers.get(b"accept", ())):
            return None  # for Prometheus; a browser gets the page of that name
        return self._parts.files.get(path)

    async def _send_file(self, file: StaticFile, method: str, headers: Headers, send: Send) -> None:
        if method not in ("GET", "HEAD"):
            raise HttpProblem(405, "Static files are read-only.", headers=((b"allow", b"GET, HEAD"),))
        host = only(headers, b"host") or ""
        socket = " ".join(f"{scheme}://{host}" for scheme in ("ws", "wss"))
        cache_control = b"public, max-age=31536000, immutable" if file.is_hashed else b"no-cache"
        response_headers = [
            *_SECURITY_HEADERS,
            (b"content-security-policy", _CONTENT_SECURITY_POLICY.format(socket=socket).encode("latin-1")),
            (b"content-type", file.kind.encode()),
            (b"cache-control", cache_control),
            (b"etag", file.tag.encode()),
            (b"vary", b"accept-encoding"),
        ]
        if only(headers, b"if-none-match") == file.tag:
            await _start(send, 304, response_headers)
            await send({"type": "http.response.body", "body": b""})
            return
        body = file.body
        if file.compressed is not None and b"gzip" in b",".join(headers.get(b"accept-encoding", ())):
            body = file.compressed
            response_headers.append((b"content-encoding", b"gzip"))
        await _start(send, 200, (*response_headers, (b"content-length", b"%d" % len(body))))
        await send({"type": "http.response.body", "body": body})

    # --- WebSockets -----------------------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        refusal = self._parts.access.refusal(headers)
        if refusal is not None:
            raise HttpProblem(403, sentence(refusal[1]))
        if scope["raw_path"] != EVENTS.encode():
            raise HttpProblem(404, "Events are at /v1/events.")
        match = self._table.find(EVENTS)
        assert match is not None  # noqa: S101
        query = _read_events_query(match[0]["GET"], scope)
        connection = scope.get("hilt.connection")
        socket = EventSocket(self._parts.feed, self.attendance, self.quick, self._parts.tokens.person, receive, send)
        await socket.serve(query.get("after"), query["recent"], lambda: setattr(connection, "is_idle", False))

    # --- responses ------------------------------------------------------------------------------------------------

    async def _send_problem(self, scope: Scope, receive: Receive, send: Send, problem: HttpProblem) -> None:
        body = problem.body
        headers = [
            *_API_HEADERS,
            *problem.headers,
            (b"content-type", CONTENT_TYPE),
            (b"content-length", b"%d" % len(body)),
        ]
        if problem.status in (401, 403, 408, 413, 421, 429, 431):
            headers.append((b"connection", b"close"))  # a rejected client must not keep a connection open
        kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
        with suppress(RuntimeError):  # the response has already started
            await send({"type": f"{kind}.start", "status": problem.status, "headers": headers})
            if kind == "http.response" and (b"connection", b"close") in headers:
                # closing with unread input would reset the connection, and the client would not see the response
                await send({"type": "http.response.body", "body": body, "more_body": True})
                body = b""
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                            pass
            await send({"type": f"{kind}.body", "body": body})


_OWNERS = {"person": "the person's", "agents": "the agents'"}
_MCP_ROUTE = Route("POST", MCP, "MCP", None, {}, WORKSPACE)


def _read_events_query(route: Route, scope: Scope) -> dict[str, Any]:
    """Return the query of the event stream; an invalid query fails the handshake with status 400."""
    try:
        return read_query(route, scope["query_string"])
    except HttpProblem as problem:
        raise HttpProblem(400, str(problem)) from None


def _target_size(scope: Scope) -> int:
    return len(scope["raw_path"]) + len(scope["query_string"])


async def _send_body(send: Send, status: int, body: bytes, kind: bytes = b"application/json") -> None:
    await _start(send, status, (*_API_HEADERS, (b"content-type", kind), (b"content-length", b"%d" % len(body))))
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, headers: Any) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


def _decoded(body: bytes) -> Any:
    try:
        return wire.decode_value(body)
    except ToolError as error:
        raise from_error(error, 400) from None


def _read_body(route: Route, body: bytes) -> tuple[Mapping[str, Any], str | None]:
    """Return the fields of a body, and the folder that it selects; ignore a body that the route does not take."""
    if not route.has_body or (route.body is None and not body.strip()):
        return {}, None
    return read_fields(route, _decoded(body))


def _encoded(answer: Any) -> bytes:
    return json.dumps(answer).encode()
