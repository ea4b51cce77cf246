"""The scripted model, driven by the providers' own SDKs and by pydantic-ai's models."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from tests.agents.model_server import ModelServer, ScriptedCall, Turn

FORMATS = ("chat", "responses", "messages")
TALK = Turn(
    "Zwölf Boxkämpfer 🥊.",
    calls=[ScriptedCall("read_file", {"path": "a.txt"}), ScriptedCall("list_dir", {}, id="own")],
    thinking="Which file?",
    input_tokens=1000,
    output_tokens=50,
    cached_tokens=400,
)


@asynccontextmanager
async def opened(server: ModelServer, wire_format: str, profile: Any) -> AsyncIterator[Model]:
    if wire_format == "messages":
        async with anthropic.AsyncAnthropic(api_key="key", base_url=server.url, max_retries=0) as client:
            yield AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=client))
    else:
        kind = OpenAIChatModel if wire_format == "chat" else OpenAIResponsesModel
        async with openai.AsyncOpenAI(api_key="key", base_url=server.openai_url, max_retries=0) as other:
            yield kind("gpt-4.1", provider=OpenAIProvider(openai_client=other), profile=profile)


def answer(server: ModelServer, wire_format: str, *, stream: bool = True, profile: Any = None) -> ModelResponse:
    """Send one request, and return the response as pydantic-ai parses it."""

    async def ask() -> ModelResponse:
        messages: list[Any] = [ModelRequest(parts=[UserPromptPart("Hello")])]
        schema = {"type": "object", "properties": {}}
        tools = [ToolDefinition(name=name, parameters_json_schema=schema) for name in ("read_file", "list_dir")]
        parameters = ModelRequestParameters(function_tools=tools)
        async with opened(server, wire_format, profile) as model:
            if not stream:
                return await model.request(messages, None, parameters)
            async with model.request_stream(messages, None, parameters) as response:
                async for _ in response:
                    pass
                return response.get()

    return asyncio.run(ask())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire_format", FORMATS)
def test_a_turn_arrives_the_same_in_every_format(model_server, wire_format, stream):
    server = model_server(TALK)

    response = answer(server, wire_format, stream=stream)

    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    assert "".join(part.content for part in response.parts if isinstance(part, TextPart)) == TALK.text
    assert [(call.tool_name, call.args_as_dict(), call.tool_call_id) for call in calls] == [
        ("read_file", {"path": "a.txt"}, "call_0_0"),
        ("list_dir", {}, "own"),
    ]
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (1000, 50, 400)
    assert response.finish_reason == "tool_call" or (wire_format == "responses" and response.finish_reason == "stop")
    if stream or wire_format != "chat":
        assert [part.content for part in response.parts if isinstance(part, ThinkingPart)] == ["Which file?"]


@pytest.mark.parametrize("wire_format", FORMATS)
def test_a_request_is_recorded_with_what_was_offered(model_server, wire_format):
    server = model_server(Turn("Hi."))

    answer(server, wire_format)

    (request,) = server.prompts
    assert request.tools == ["read_file", "list_dir"]
    assert "key" in (request.headers.get("x-api-key"), request.headers.get("authorization", "")[len("Bearer ") :])
    assert "Hello" in json.dumps(request.body)


def test_the_sdk_of_chat_completions_reads_every_event(model_server):
    server = model_server(TALK, TALK)
    client = openai.OpenAI(api_key="key", base_url=server.openai_url, max_retries=0)
    question: Any = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hello"}]}

    with client.chat.completions.stream(**question, stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    whole = client.chat.completions.create(**question)

    for completion in (streamed, whole):
        message = completion.choices[0].message
        assert (message.content, completion.choices[0].finish_reason) == (TALK.text, "tool_calls")
        assert [call.id for call in message.tool_calls or ()] == ["call_0_0", "own"] or completion is whole
        assert completion.usage is not None
        assert completion.usage.total_tokens == 1050


def test_the_sdk_of_responses_reads_every_event(model_server):
    server = model_server(TALK, TALK)
    client = openai.OpenAI(api_key="key", base_url=server.openai_url, max_retries=0)

    with client.responses.stream(model="gpt-4.1", input="Hello") as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    whole = client.responses.create(model="gpt-4.1", input="Hello")

    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    for response in (streamed, whole):
        assert response.output_text == TALK.text
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
        assert response.usage is not None
        assert response.usage.input_tokens_details.cached_tokens == 400


def test_the_sdk_of_messages_reads_every_event(model_server):
    server = model_server(TALK, TALK)
    client = anthropic.Anthropic(api_key="key", base_url=server.url, max_retries=0)
    question: Any = {"model": "claude-sonnet-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}

    with client.messages.stream(**question) as stream:
        streamed = stream.get_final_message()
    whole = client.messages.create(**question)

    for message in (streamed, whole):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert message.content[2].to_dict()["input"] == {"path": "a.txt"}
        assert (message.stop_reason, message.usage.cache_read_input_tokens) == ("tool_use", 400)


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 529])
@pytest.mark.parametrize("wire_format", FORMATS)
def test_an_error_has_its_status_and_a_retry_after_header(model_server, wire_format, status):
    server = model_server(Turn(status=status, retry_after="7"))

    with pytest.raises(ModelHTTPError) as caught:
        answer(server, wire_format)

    assert caught.value.status_code == status
    cause = caught.value.__cause__
    assert isinstance(cause, openai.APIStatusError | anthropic.APIStatusError)
    assert cause.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    "wire_format, fragment",
    [("chat", "context_length_exceeded"), ("responses", "context_length_exceeded"), ("messages", "prompt is too long")],
)
def test_a_context_that_is_too_long_gets_the_error_of_the_provider(model_server, wire_format, fragment):
    server = model_server(Turn(context_too_long=True))

    with pytest.raises(ModelHTTPError) as caught:
        answer(server, wire_format)

    assert caught.value.status_code == 400
    assert fragment in json.dumps(caught.value.body)


@pytest.mark.parametrize("wire_format", FORMATS)
def test_an_error_can_come_in_the_middle_of_a_stream(model_server, wire_format):
    server = model_server(Turn("Half of an", status=529, in_stream=True))

    with pytest.raises(ModelAPIError):
        answer(server, wire_format)


@pytest.mark.parametrize("wire_format", FORMATS)
def test_a_stream_can_be_cut_at_any_byte(model_server, wire_format):
    whole = model_server(TALK)
    url = (
        whole.url
        + {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[wire_format]
    )
    with urllib.request.urlopen(urllib.request.Request(url, b'{"stream": true}')) as reply:
        length = len(reply.read())
    places = [0, 1, length // 3, length // 2, length - 1, length]
    server = model_server(*(Turn(**{**TALK.__dict__, "cut_at": place}) for place in places))

    for place in places:
        with pytest.raises(Exception, match=r"(?i)connection|incomplete|peer|stream|ended"):
            answer(server, wire_format)
        assert place <= length
    assert len(server.prompts) == len(places)


def test_chat_completions_that_end_without_a_finish_reason_fail_if_the_profile_requires_one(model_server):
    server = model_server(Turn("Half of an answer", finish=False), Turn("Half of an answer", finish=False))

    assert answer(server, "chat").finish_reason == "stop"  # what pydantic-ai assumes by default
    with pytest.raises(ModelAPIError, match="finish_reason"):
        answer(server, "chat", profile={"openai_chat_streaming_requires_finish_reason": True})


@pytest.mark.parametrize("wire_format", ["responses", "messages"])
def test_other_streams_that_end_without_their_last_event_have_no_finish_reason(model_server, wire_format):
    server = model_server(Turn("Half of an answer", finish=False))

    assert answer(server, wire_format).finish_reason is None


@pytest.mark.parametrize("wire_format", FORMATS)
def test_bytes_can_arrive_one_by_one(model_server, wire_format):
    server = model_server(Turn("Zwölf 🥊", piece=1))

    response = answer(server, wire_format)

    assert [part.content for part in response.parts if isinstance(part, TextPart)] == ["Zwölf 🥊"]


@pytest.mark.parametrize("wire_format", FORMATS)
def test_arguments_can_be_invalid_and_calls_many(model_server, wire_format):
    server = model_server(Turn(calls=[ScriptedCall("read_file", '{"path": ')] * 200))

    response = answer(server, wire_format)

    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    assert len({call.tool_call_id for call in calls}) == 200
    assert {call.args for call in calls} == {'{"path": '}


@pytest.mark.parametrize("wire_format", FORMATS)
def test_an_answer_of_2_megabytes_arrives_complete(model_server, wire_format):
    text = "All work and no play. " * 100_000
    server = model_server(Turn(text))

    response = answer(server, wire_format)

    assert [part.content for part in response.parts if isinstance(part, TextPart)] == [text]


def test_a_held_stream_continues_when_its_file_appears(model_server, tmp_path):
    server = model_server(Turn("Slowly.", hold=str(tmp_path / "go")))
    client = openai.OpenAI(api_key="key", base_url=server.openai_url, max_retries=0)

    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}], stream=True)
    text, finishes = "", []
    for chunk in stream:
        text += chunk.choices[0].delta.content or ""
        finishes.append(chunk.choices[0].finish_reason)
        if text == "Slowly.":
            (tmp_path / "go").touch()

    assert finishes[-1] == "stop"


def test_a_turn_can_wait_for_the_request_that_contains_a_text(model_server):
    server = model_server(Turn("for another", when="nobody says this"), Turn("for you", when="Hello"))

    response = answer(server, "chat")

    assert [part.content for part in response.parts if isinstance(part, TextPart)] == ["for you"]
    with pytest.raises(ModelHTTPError, match="no turn"):
        answer(server, "chat")


def test_only_the_right_key_is_accepted(model_server):
    server = model_server(Turn("Hi."), key="right")

    with (
        openai.OpenAI(api_key="wrong", base_url=server.openai_url, max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    with openai.OpenAI(api_key="right", base_url=server.openai_url, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["scripted"]


def test_the_server_runs_as_a_program(tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "Hi.", "calls": [{"tool": "read_file", "args": {"path": "a"}}]}]))
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.agents.model_server", str(script)],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().decode().strip()
        try:
            client = anthropic.Anthropic(api_key="key", base_url=url, max_retries=0)
            message = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hello"}])
        finally:
            program.terminate()

    assert [block.type for block in message.content] == ["text", "tool_use"]
