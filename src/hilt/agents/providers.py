"""Models of any provider that pydantic-ai supports, with its own retries disabled: the loop retries."""

from __future__ import annotations

import inspect
import platform
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model, parse_model_id
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from hilt.agents.model import CONTEXT_TOKENS, Listener, ModelFault, ModelInput
from hilt.errors import ToolError
from hilt.places import command
from hilt.web import certificates

_NO_KEY = "no-key"  # for servers on this machine, which do not check it
_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 600.0  # a model may think for minutes before its first token
_TAIL_BYTES = 4096
_MESSAGE_CHARACTERS = 500
_RETRIED_STATUSES = (408, 409, 425, 429)  # besides 5xx
# without compression, so that the end of the stream can be recognised
_SETTINGS = ModelSettings(max_retries=0, cache=True, extra_headers={"Accept-Encoding": "identity"})


class ProviderModel:
    """A model of a provider, by its name `provider:model`."""

    def __init__(self, name: str, *, base_url: str | None, key: str | None, context_tokens: int | None) -> None:
        """`key` is the API key; if it is None, the provider's library reads its own variable."""
        self.name = name
        self._end = StreamEnd()
        self._http = self._end.client()
        self._model = _build(name, base_url, key, self._http)
        self.context_tokens = context_tokens or self._model.context_window or CONTEXT_TOKENS

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def answer(self, request: ModelInput, listener: Listener) -> ModelResponse:
        """Return the whole answer, or raise ModelFault."""
        tools = [
            ToolDefinition(
                name=tool.name, parameters_json_schema=tool.schema, description=tool.description, strict=False
            )
            for tool in request.tools
        ]
        system = [InstructionPart(content=request.system)] if request.system else None
        parameters = ModelRequestParameters(function_tools=tools, instruction_parts=system)
        messages = self._model.prepare_messages(list(request.messages), parameters)
        self._end.clear()
        response = ModelResponse(parts=[], state="incomplete")
        async with aclosing(self._events(messages, parameters)) as events:
            async for event in events:
                if isinstance(event, ModelResponse):
                    response = event
                else:
                    _pass_on(event, listener)
        if not is_whole(response) or (response.provider_name == "anthropic" and self._end.lacks(b"message_stop")):
            raise ModelFault("The answer was cut off: the stream ended before the provider said that it was complete.")
        return response

    async def _events(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> AsyncGenerator[ModelResponse | ModelResponseStreamEvent]:
        """Yield the events of an answer, and then the answer; raise ModelFault on any failure."""
        try:
            async with self._model.request_stream(messages, _SETTINGS, parameters) as stream:
                async for event in stream:
                    yield event
                yield stream.get()
        except AgentRunError as error:
            raise fault_of(error) from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError, KeyError, TypeError) as error:
            # a provider's library may raise any of these for a malformed answer
            raise ModelFault(f"The answer cannot be read: {_short(str(error) or type(error).__name__)}") from error


def is_whole(response: ModelResponse) -> bool:
    """Whether the provider said that the answer is complete."""
    details = response.provider_details or {}
    return response.state == "complete" and ("finish_reason" in details or "refusal" in details)


class StreamEnd:
    """Remembers the last bytes of a response: some libraries do not report that the last event is missing."""

    def __init__(self) -> None:
        self._tail: bytes | None = None

    def client(self) -> httpx2.AsyncClient:
        """Return an HTTP client whose responses are watched."""
        timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        return httpx2.AsyncClient(
            verify=certificates.httpx_default(), timeout=timeout, event_hooks={"response": [self._watch]}
        )

    def clear(self) -> None:
        """Forget the last response."""
        self._tail = None

    def lacks(self, word: bytes) -> bool:
        """Whether the response ended without this word; False if its bytes could not be read."""
        return self._tail is not None and word not in self._tail

    async def _watch(self, response: httpx2.Response) -> None:
        if "content-encoding" not in response.headers and isinstance(response.stream, httpx2.AsyncByteStream):
            self._tail = b""
            response.stream = _WatchedStream(response.stream, self._add)

    def _add(self, data: bytes) -> None:
        self._tail = ((self._tail or b"") + data)[-_TAIL_BYTES:]


class _WatchedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, add: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._add = add

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self._add(data)
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


def _pass_on(event: object, listener: Listener) -> None:
    match event:
        case PartStartEvent(part=TextPart(content=piece)) | PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
            if piece:
                listener.text(piece)
        case (
            PartStartEvent(part=ThinkingPart(content=thought))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
        ):
            if thought:
                listener.thought(thought)


def _build(name: str, base_url: str | None, key: str | None, http: httpx2.AsyncClient) -> Model[Any]:
    # the libraries of providers ask for it, and Python would start the first `uname` on PATH
    vars(platform.uname()).setdefault("processor", platform.machine())
    kind, model_name = parse_model_id(name)
    key = key or (_NO_KEY if base_url else None)
    if kind is None:
        raise _unusable(name, "It has no provider.")
    try:
        if kind in ("openai", "openai-chat", "openai-responses"):
            return _openai(kind, model_name, base_url, key, http)
        return infer_model(name, lambda kind: _provider(kind, base_url, key, http))
    except (UserError, ValueError, ImportError) as error:
        raise _unusable(name, str(error).rstrip(".") + ".") from error


def _openai(kind: str, name: str, base_url: str | None, key: str | None, http: httpx2.AsyncClient) -> Model[Any]:
    """Return an OpenAI model; with a base URL it is a compatible server, which supports chat completions."""
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=base_url, api_key=key, http_client=http)
    if kind == "openai-responses" or (kind == "openai" and base_url is None):
        return OpenAIResponsesModel(name, provider=provider)
    return OpenAIChatModel(name, provider=provider)


def _provider(kind: str, base_url: str | None, key: str | None, http: httpx2.AsyncClient) -> Provider[Any]:
    """Return a provider, created with those arguments that it accepts."""
    provider = infer_provider_class(kind)
    accepted = inspect.signature(provider.__init__).parameters
    offered = {"base_url": base_url, "api_key": key, "http_client": http}
    values: dict[str, Any] = {name: value for name, value in offered.items() if name in accepted and value is not None}
    if base_url is not None and "base_url" not in values:
        raise UserError(f"The provider {kind} does not support a base URL")
    return provider(**values)


def _unusable(name: str, reason: str) -> ToolError:
    return ToolError(
        "no_model",
        f"The model {name[:100]!r} cannot be used. {reason}",
        suggestion=f"Write it as PROVIDER:MODEL, such as anthropic:claude-sonnet-5-5. To check it: {command('doctor')}",
    )


# --- faults -----------------------------------------------------------------------------------------------------------


def fault_of(error: AgentRunError) -> ModelFault:
    """Return an exception of pydantic-ai as a fault."""
    message = _message(error)
    if isinstance(error, ModelContextWindowExceededError):
        return ModelFault(message, retry=False, too_long=True)
    if isinstance(error, ModelQuotaExceededError):
        return ModelFault(message, retry=False, suggestion="Add credit to the account, or choose another model.")
    after = error.retry_after if isinstance(error, ModelAPIError) else None
    if isinstance(error, ModelRateLimitError | ModelConnectionError):
        return ModelFault(message, after=after)
    if isinstance(error, ModelHTTPError):
        retry = error.status_code >= 500 or error.status_code in _RETRIED_STATUSES
        suggestion = "Check the API key." if error.status_code in (401, 403) else None
        return ModelFault(message, retry=retry, after=after, suggestion=suggestion)
    return ModelFault(message, retry=not isinstance(error, ModelRequestRejectedError), after=after)


def _message(error: AgentRunError) -> str:
    if isinstance(error, ModelHTTPError):
        body: Any = error.body
        inner = body.get("error", body) if isinstance(body, dict) else body
        reason = inner.get("message") if isinstance(inner, dict) else inner
        return f"The provider answered with status {error.status_code}: {_short(str(reason or 'no reason given'))}"
    return _short(error.message)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"
