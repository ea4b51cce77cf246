"""A scripted model on loopback: OpenAI chat completions, OpenAI responses and Anthropic messages, streaming or not.

A script is a list of turns, independent of the format. Each request takes the next turn that matches it and gets it
in the format of its path, faults included. `python -m tests.agents.model_server SCRIPT.json` serves a script, a JSON
list of turns, until it is interrupted; the first line it prints is the address.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]
_CREATED = 1_790_000_000
_DELTAS_MAX = 1000


class ScriptedCall(NamedTuple):
    """A tool call of a turn; arguments as text are sent as they are, valid or not."""

    tool: str
    args: Json | str = {}  # noqa: RUF012
    id: str = ""  # by default from the place of the call in the script

    @property
    def text(self) -> str:
        """The arguments as sent."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


@dataclass(frozen=True)
class Turn:
    """One answer of the model, or its fault."""

    text: str = ""
    calls: Sequence[ScriptedCall] = ()
    thinking: str = ""
    input_tokens: int = 100  # with the cached ones
    output_tokens: int = 20
    cached_tokens: int = 0
    when: str = ""  # only for a request that contains this text
    status: int = 200  # an HTTP error
    message: str = ""  # of the error; by default the provider's usual one
    retry_after: str = ""  # the header
    context_too_long: bool = False  # the provider's own error for it
    in_stream: bool = False  # the error comes as an event, after the text
    cut_at: int | None = None  # the connection breaks after this many bytes of the body
    finish: bool = True  # false: the stream ends well, but without the provider's last events
    length: bool = False  # the answer reached the limit of tokens
    delay: float = 0  # seconds before each event
    hold: str = ""  # before the end of the stream, wait until this file exists
    piece: int = 0  # bytes per write, across all borders; 0: one event

    @classmethod
    def read(cls, value: Json) -> Turn:
        """Read a turn from JSON."""
        unknown = value.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown keys of a turn: {', '.join(sorted(unknown))}")
        return cls(**{**value, "calls": [ScriptedCall(**call) for call in value.get("calls", ())]})


class Request(NamedTuple):
    """A request as it arrived; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        """The body."""
        return dict(json.loads(self.raw)) if self.raw else {}

    @property
    def tools(self) -> list[str]:
        """The names of the offered tools."""
        return [tool.get("function", tool)["name"] for tool in self.body.get("tools") or ()]

    @property
    def results(self) -> dict[str, str]:
        """The texts of all tool results, by the id of their call."""
        results = {}
        for message in self.body.get("messages") or self.body.get("input") or ():
            if message.get("role") == "tool":
                results[message["tool_call_id"]] = _plain(message["content"])
            elif message.get("type") == "function_call_output":
                results[message["call_id"]] = _plain(message["output"])
            elif isinstance(message.get("content"), list):
                blocks = [block for block in message["content"] if block.get("type") == "tool_result"]
                results |= {block["tool_use_id"]: _plain(block["content"]) for block in blocks}
        return results


def _plain(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


class ModelServer:
    """A running scripted model with the `requests` it received; `hung_up` counts answers that the client left early."""

    def __init__(self, turns: Sequence[Turn], *, key: str = "", repeat: bool = False, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.hung_up = 0
        self._turns = list(turns)
        self._waiting = list(enumerate(turns))
        self._key = key
        self._repeat = repeat
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _bound(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL for Anthropic's SDK; OpenAI's takes `openai_url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI's SDK."""
        return f"{self.url}/v1"

    @property
    def prompts(self) -> list[Request]:
        """The requests for an answer, without those for the list of models."""
        return [request for request in self.requests if request.method == "POST"]

    def add(self, *turns: Turn) -> None:
        """Extend the script."""
        with self._lock:
            self._waiting += enumerate(turns, len(self._turns))
            self._turns += turns

    def close(self) -> None:
        """End the server; answers on hold end, too."""
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: Request) -> tuple[int, Turn]:
        """Record a request for an answer, and return its turn with the turn's place in the script."""
        with self._lock:
            text = request.raw.decode("utf-8", "replace")
            if self._repeat and not self._waiting:
                self._waiting = list(enumerate(self._turns))
            for place, (index, turn) in enumerate(self._waiting):
                if turn.when in text:
                    del self._waiting[place]
                    return index, turn
        return -1, Turn(status=400, message="The script has no turn for this request.")

    def admits(self, request: Request) -> bool:
        """Return whether a request has the right key."""
        sent = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        return not self._key or sent == self._key

    def wait_for(self, path: str) -> None:
        """Wait until a file exists or the server is closed."""
        while path and not os.path.exists(path) and not self._closed.wait(0.01):
            pass


@contextmanager
def serving_model(*turns: Turn, key: str = "", repeat: bool = False, port: int = 0) -> Iterator[ModelServer]:
    """Run a scripted model; with a key, other keys get 401."""
    server = ModelServer(turns, key=key, repeat=repeat, port=port)
    try:
        yield server
    finally:
        server.close()


class _Cut(Exception):
    """The connection breaks here, as the script says."""


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ModelServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(60)  # of an idle connection

    def do_GET(self) -> None:
        request = self._request(b"")
        if not self.model.admits(request):
            self._refuse(_format(self.path), Turn(status=401))
        else:
            self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model", "type": "model"}]})

    def do_POST(self) -> None:
        request = self._request(self.rfile.read(int(self.headers.get("content-length", 0))))
        wire_format = _format(self.path)
        if wire_format is None:
            self._send(404, {"error": {"message": f"Unknown path {self.path}", "type": "invalid_request_error"}})
            return
        if not self.model.admits(request):
            self._refuse(wire_format, Turn(status=401))
            return
        index, turn = self.model.take(request)
        turn = replace(
            turn, calls=[call._replace(id=call.id or f"call_{index}_{n}") for n, call in enumerate(turn.calls)]
        )
        if (turn.context_too_long or turn.status != 200) and not turn.in_stream:
            self._refuse(wire_format, turn)
        elif not request.body.get("stream"):
            self.model.wait_for(turn.hold)
            self._send(200, wire_format.whole(turn, request.body))
        else:
            self._stream(wire_format, turn, request.body)

    def _request(self, raw: bytes) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, raw)
        self.model.requests.append(request)
        return request

    def _refuse(self, wire_format: _Format | None, turn: Turn) -> None:
        status = 400 if turn.context_too_long else turn.status
        fields = {"Retry-After": turn.retry_after} if turn.retry_after else {}
        self._send(status, (wire_format or _CHAT).error(turn), **fields)

    def _send(self, status: int, body: Json, **fields: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **fields}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, wire_format: _Format, turn: Turn, body: Json) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        bytes_left = turn.cut_at
        try:
            for piece in _pieces(wire_format.stream(turn, body), turn, self.model):
                if bytes_left is not None and len(piece) >= bytes_left:
                    self._chunk(piece[:bytes_left])
                    raise _Cut
                bytes_left = None if bytes_left is None else bytes_left - len(piece)
                self._chunk(piece)
            if bytes_left is not None:
                raise _Cut
            self.wfile.write(b"0\r\n\r\n")
        except _Cut:
            self.close_connection = True
        except OSError:
            self.model.hung_up += 1
            self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _bound(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    return type("Answering", (_Answering,), {"model": server})


def _pieces(events: Iterator[tuple[str, Json | str]], turn: Turn, model: ModelServer) -> Iterator[bytes]:
    """Yield the bytes of a stream as they are written. A hold comes before the events that end the stream."""
    for name, data in events:
        if name == "hold":
            model.wait_for(turn.hold)
            continue
        if turn.delay:
            time.sleep(turn.delay)
        text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        event = ((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode("utf-8", "surrogatepass")
        size = turn.piece or len(event)
        yield from (event[start : start + size] for start in range(0, len(event), size))


def tokens(text: str) -> Iterator[str]:
    """Yield a text as tokens of a few characters, and a long one as fewer, longer parts."""
    size = max(4, -(-len(text) // _DELTAS_MAX))
    yield from (text[start : start + size] for start in range(0, len(text), size))


class _Format:
    """What a provider sends: the events of a turn, the whole answer, the body of an error."""

    def stream(self, turn: Turn, body: Json) -> Iterator[tuple[str, Json | str]]:
        """Yield name and data of each event; the event "hold" is where a held stream waits."""
        raise NotImplementedError

    def whole(self, turn: Turn, body: Json) -> Json:
        """Return the answer to a request without streaming."""
        raise NotImplementedError

    def error(self, turn: Turn) -> Json:
        """Return the body of an error."""
        raise NotImplementedError


_OPENAI_ERRORS = {
    400: ("Invalid value in the request.", "invalid_request_error", None),
    401: ("Incorrect API key provided: sk-****. You can find your API key in your account.",
          "invalid_request_error", "invalid_api_key"),
    403: ("Country, region, or territory not supported", "request_forbidden", "unsupported_country_region_territory"),
    404: ("The model `scripted` does not exist or you do not have access to it.",
          "invalid_request_error", "model_not_found"),
    429: ("Rate limit reached for scripted on requests per min (RPM): Limit 3, Used 3, Requested 1.",
          "requests", "rate_limit_exceeded"),
    500: ("The server had an error while processing your request. Sorry about that!", "server_error", None),
    503: ("The engine is currently overloaded, please try again later", "server_error", None),
}  # fmt: skip


class _OpenAI(_Format):
    too_long = ("", "")  # message and parameter of the error

    def error(self, turn: Turn) -> Json:
        if turn.context_too_long:
            message, param = self.too_long
            kind, code = "invalid_request_error", "context_length_exceeded"
            return {"error": {"message": turn.message or message, "type": kind, "param": param, "code": code}}
        message, kind, code = _OPENAI_ERRORS.get(turn.status, _OPENAI_ERRORS[500])  # type: ignore[assignment]
        return {"error": {"message": turn.message or message, "type": kind, "param": None, "code": code}}


class _ChatCompletions(_OpenAI):
    too_long = (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens. "
        "Please reduce the length of the messages.",
        "messages",
    )

    def stream(self, turn: Turn, body: Json) -> Iterator[tuple[str, Json | str]]:
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))

        def chunk(delta: Json, finish: str | None = None) -> tuple[str, Json]:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return "", {**self._head(body, "chat.completion.chunk"), "choices": [choice], **usage}

        usage: Json = {"usage": None} if with_usage else {}
        yield chunk({"role": "assistant", "content": "", "refusal": None})
        for text in tokens(turn.thinking):
            yield chunk({"reasoning_content": text})
        for text in tokens(turn.text):
            yield chunk({"content": text})
        if turn.in_stream:
            yield "", self.error(turn)
            return
        for index, call in enumerate(turn.calls):
            function = {"name": call.tool, "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
            for text in tokens(call.text):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
        yield "hold", ""
        if turn.finish:
            yield chunk({}, self._finish(turn))
            if with_usage:
                usage = {"usage": self._usage(turn)}
                yield "", {**self._head(body, "chat.completion.chunk"), "choices": [], **usage}
            yield "", "[DONE]"

    def whole(self, turn: Turn, body: Json) -> Json:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.text}}
            for call in turn.calls
        ]
        message: Json = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish(turn)}
        return {**self._head(body, "chat.completion"), "choices": [choice], "usage": self._usage(turn)}

    def _head(self, body: Json, kind: str) -> Json:
        return {
            "id": "chatcmpl-1",
            "object": kind,
            "created": _CREATED,
            "model": body.get("model", "scripted"),
            "service_tier": "default",
            "system_fingerprint": "fp_1",
        }

    def _finish(self, turn: Turn) -> str:
        return "length" if turn.length else "tool_calls" if turn.calls else "stop"

    def _usage(self, turn: Turn) -> Json:
        return {
            "prompt_tokens": turn.input_tokens,
            "completion_tokens": turn.output_tokens,
            "total_tokens": turn.input_tokens + turn.output_tokens,
            "prompt_tokens_details": {"cached_tokens": turn.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }


class _Responses(_OpenAI):
    too_long = ("Your input exceeds the context window of this model. Please adjust your input and try again.", "input")

    def stream(self, turn: Turn, body: Json) -> Iterator[tuple[str, Json | str]]:
        for number, event in enumerate(self._events(turn, body)):
            if event["type"] == "hold":
                yield "hold", ""
            else:
                yield event["type"], {"type": event["type"], "sequence_number": number, **event}

    def _events(self, turn: Turn, body: Json) -> Iterator[Json]:
        yield {"type": "response.created", "response": self._response(turn, body, "in_progress")}
        yield {"type": "response.in_progress", "response": self._response(turn, body, "in_progress")}
        for index, item in enumerate(self._items(turn)):
            yield from getattr(self, f"_{item['type']}")(item, {"output_index": index})
            if turn.in_stream and item["type"] == "message":
                break
        if turn.in_stream:
            error = self.error(turn)["error"]
            failed = {"code": error["code"] or "server_error", "message": error["message"]}
            yield {"type": "error", **failed, "param": error["param"]}
            yield {"type": "response.failed", "response": {**self._response(turn, body, "failed"), "error": failed}}
            return
        yield {"type": "hold"}
        if turn.finish:
            status = "incomplete" if turn.length else "completed"
            yield {"type": f"response.{status}", "response": self._response(turn, body, status)}

    def whole(self, turn: Turn, body: Json) -> Json:
        return self._response(turn, body, "incomplete" if turn.length else "completed")

    def _message(self, item: Json, at: Json) -> Iterator[Json]:
        part, place = item["content"][0], {"item_id": item["id"], **at, "content_index": 0}
        yield {"type": "response.output_item.added", **at, "item": {**item, "status": "in_progress", "content": []}}
        yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
        for text in tokens(part["text"]):
            yield {"type": "response.output_text.delta", **place, "delta": text, "logprobs": [], "obfuscation": "x"}
        yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": part}
        yield {"type": "response.output_item.done", **at, "item": item}

    def _reasoning(self, item: Json, at: Json) -> Iterator[Json]:
        part, place = item["summary"][0], {"item_id": item["id"], **at, "summary_index": 0}
        yield {"type": "response.output_item.added", **at, "item": {**item, "summary": []}}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        for text in tokens(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": text, "obfuscation": "x"}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
        yield {"type": "response.output_item.done", **at, "item": item}

    def _function_call(self, item: Json, at: Json) -> Iterator[Json]:
        place = {"item_id": item["id"], **at}
        yield {"type": "response.output_item.added", **at, "item": {**item, "status": "in_progress", "arguments": ""}}
        for text in tokens(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": text, "obfuscation": "x"}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **place, **done}
        yield {"type": "response.output_item.done", **at, "item": item}

    def _items(self, turn: Turn) -> list[Json]:
        items: list[Json] = []
        if turn.thinking:
            summary = [{"type": "summary_text", "text": turn.thinking}]
            items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "c2VhbGVk"})
        if turn.text:
            content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}]
            items.append(
                {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}
            )
        items += [
            {
                "id": f"fc_{index}",
                "type": "function_call",
                "status": "completed",
                "arguments": call.text,
                "call_id": call.id,
                "name": call.tool,
            }
            for index, call in enumerate(turn.calls)
        ]
        return items

    def _response(self, turn: Turn, body: Json, status: str) -> Json:
        ended = status in ("completed", "incomplete")
        usage = {
            "input_tokens": turn.input_tokens,
            "input_tokens_details": {"cached_tokens": turn.cached_tokens},
            "output_tokens": turn.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": turn.input_tokens + turn.output_tokens,
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": _CREATED,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": None,
            "model": body.get("model", "scripted"),
            "output": self._items(turn) if ended else [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default" if ended else "auto",
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage if ended else None,
            "user": None,
            "metadata": {},
        }


_ANTHROPIC_ERRORS = {
    400: ("invalid_request_error", "messages: at least one message is required"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "model: scripted"),
    413: ("request_too_large", "Request exceeds the maximum allowed number of bytes."),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


class _Messages(_Format):
    def error(self, turn: Turn) -> Json:
        kind, message = _ANTHROPIC_ERRORS.get(turn.status, _ANTHROPIC_ERRORS[500])
        if turn.context_too_long:
            kind, message = "invalid_request_error", "prompt is too long: 210001 tokens > 200000 maximum"
        return {"type": "error", "error": {"type": kind, "message": turn.message or message}, "request_id": "req_1"}

    def stream(self, turn: Turn, body: Json) -> Iterator[tuple[str, Json | str]]:
        for event in self._events(turn, body):
            yield event["type"], event

    def _events(self, turn: Turn, body: Json) -> Iterator[Json]:
        started = {**self.whole(turn, body), "content": [], "stop_reason": None}
        started["usage"] = {**started["usage"], "output_tokens": 1}
        yield {"type": "message_start", "message": started}
        for index, (block, deltas) in enumerate(self._blocks(turn)):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            if index == 0:
                yield {"type": "ping"}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            if turn.in_stream and block["type"] == "text":
                break
            yield {"type": "content_block_stop", "index": index}
        if turn.in_stream:
            yield self.error(turn)
            return
        yield {"type": "hold"}
        if turn.finish:
            delta = {"stop_reason": self._stop(turn), "stop_sequence": None}
            yield {"type": "message_delta", "delta": delta, "usage": self._usage(turn)}
            yield {"type": "message_stop"}

    def whole(self, turn: Turn, body: Json) -> Json:
        content: list[Json] = []
        if turn.thinking:
            content.append({"type": "thinking", "thinking": turn.thinking, "signature": "c2lnbmVk"})
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        content += [{"type": "tool_use", "id": call.id, "name": call.tool, "input": call.args} for call in turn.calls]
        return {
            "model": body.get("model", "scripted"),
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": self._stop(turn),
            "stop_sequence": None,
            "usage": self._usage(turn),
        }

    def _blocks(self, turn: Turn) -> Iterator[tuple[Json, list[Json]]]:
        """Yield each block as it starts, and its deltas."""
        if turn.thinking:
            deltas = [{"type": "thinking_delta", "thinking": text} for text in tokens(turn.thinking)]
            deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
            yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
        if turn.text:
            yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in tokens(turn.text)]
        for call in turn.calls:
            block = {"type": "tool_use", "id": call.id, "name": call.tool, "input": {}}
            parts = ["", *tokens(call.text)]
            yield block, [{"type": "input_json_delta", "partial_json": text} for text in parts]

    def _stop(self, turn: Turn) -> str:
        return "max_tokens" if turn.length else "tool_use" if turn.calls else "end_turn"

    def _usage(self, turn: Turn) -> Json:
        return {
            "input_tokens": turn.input_tokens - turn.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": turn.cached_tokens,
            "output_tokens": turn.output_tokens,
        }


_CHAT, _RESPONSES, _MESSAGES = _ChatCompletions(), _Responses(), _Messages()
_PATHS: dict[str, _Format] = {"chat/completions": _CHAT, "responses": _RESPONSES, "messages": _MESSAGES}


def _format(path: str) -> _Format | None:
    match = re.fullmatch(r"/v1/([a-z/]+)", path.partition("?")[0])
    return _PATHS.get(match.group(1)) if match else None


def main() -> None:
    """Serve a script until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents.model_server")
    parser.add_argument("script", help="A JSON file with a list of turns")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default="", help="The only key that is accepted")
    parser.add_argument("--repeat", action="store_true", help="Start again at the end of the script")
    arguments = parser.parse_args()
    with open(arguments.script, encoding="utf-8") as file:
        turns = [Turn.read(value) for value in json.load(file)]
    with serving_model(*turns, key=arguments.key, repeat=arguments.repeat, port=arguments.port) as server:
        print(server.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
