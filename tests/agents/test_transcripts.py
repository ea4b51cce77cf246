"""Transcripts: records are read back complete and without secrets."""

from __future__ import annotations

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from hilt.agents.messages import messages_of, records_of
from hilt.agents.transcripts import Transcripts, read
from hilt.errors import ToolError
from hilt.output.redaction import Redactor

PLAIN = Redactor({})


@pytest.fixture
def transcripts(tmp_path) -> Transcripts:
    return Transcripts(str(tmp_path), "workspace", PLAIN)


def test_messages_are_read_back_unchanged(transcripts):
    image = BinaryContent(b"\x89PNG", media_type="image/png")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["Look", image])]),
        ModelResponse(
            parts=[
                ThinkingPart("hm", id="rs_1", signature="c2ln", provider_name="openai"),
                TextPart("I look.", id="msg_1", provider_name="openai", provider_details={"phase": "x"}),
                ToolCallPart("read_file", '{"path": "a"}', "call_1", id="fc_1", provider_name="openai"),
                ToolCallPart("list_dir", {"depth": 2}, "call_2"),
            ],
            usage=RequestUsage(input_tokens=5, output_tokens=7),
            model_name="m",
            provider_name="openai",
            provider_response_id="resp_1",
            finish_reason="tool_call",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("read_file", ["text", image], "call_1"),
                ToolReturnPart("list_dir", "no", "call_2", outcome="failed"),
            ]
        ),
        ModelResponse(parts=[TextPart("")]),
    ]
    transcript = transcripts.create("s")
    for record in records_of(messages):
        transcript.append(record.pop("type"), **record)
    again = messages_of(transcript.records()[1:])

    assert [_bare(message) for message in again] == [_bare(message) for message in messages]


def _bare(message):
    parts = [{**vars(part), "timestamp": None} for part in message.parts]
    facts = {name: value for name, value in vars(message).items() if name not in ("parts", "timestamp")}
    return parts, facts


@given(st.lists(st.text(), max_size=5))
def test_any_text_survives(tmp_path_factory, texts):
    transcripts = Transcripts(str(tmp_path_factory.mktemp("state")), "w", PLAIN)
    transcript = transcripts.create("s")
    for text in texts:
        transcript.append("user", content=text)
    transcript.close()

    assert [record["content"] for record in list(read(transcript.path))[1:]] == texts


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_partial_last_line_is_removed(transcripts, cut):
    transcript = transcripts.create("s")
    transcript.append("user", content="whole")
    size = os.path.getsize(transcript.path)
    transcript.append("user", content="x" * 200_000)
    transcript.close()
    os.truncate(transcript.path, size + cut)

    assert [record["type"] for record in read(transcript.path)] == ["session", "user"]
    transcript = transcripts.open("s")
    transcript.append("user", content="next")

    assert [record.get("content") for record in transcript.records()] == [None, "whole", "next"]


def test_damaged_lines_are_skipped(transcripts):
    transcript = transcripts.create("s")
    with open(transcript.path, "ab") as file:
        file.write(b"\x00\xff not json\n[1]\n")
    transcript.append("user", content="after")

    assert [record["type"] for record in transcript.records()] == ["session", "user"]


def test_a_session_is_found_by_a_prefix_of_its_id(transcripts):
    for name in ("20260101-000000-aaa", "20260101-000000-bbb", "odd name/../x"):
        transcripts.create(name).close()

    assert transcripts.find("20260101-000000-a").id == "20260101-000000-aaa"
    assert transcripts.find("odd name/../x").id == "odd name/../x"
    for prefix, code in (("20260101", "ambiguous_id"), ("2025", "not_found"), ("../state", "not_found")):
        with pytest.raises(ToolError) as raised:
            transcripts.find(prefix)
        assert raised.value.code == code


def test_one_process_at_a_time_writes_a_transcript(transcripts):
    transcript = transcripts.create("s")

    for use in (transcripts.open, transcripts.delete):
        with pytest.raises(ToolError) as raised:
            use("s")
        assert raised.value.code == "busy"
    with pytest.raises(ToolError) as raised:
        transcripts.create("s")
    assert raised.value.code == "already_exists"
    transcript.close()
    transcripts.delete("s")
    assert transcripts.list() == []


def test_old_and_large_transcripts_are_removed_but_not_those_in_use(transcripts):
    for number in range(4):
        transcript = transcripts.create(f"s{number}")
        transcript.append("user", content="x" * 400_000)
        transcript.close()
        os.utime(transcript.path, (time.time() - 100 + number,) * 2)
    ancient = transcripts.create("ancient")
    os.utime(ancient.path, (0, 0))

    transcripts.prune(days=30, megabytes=1)

    assert sorted(file.id for file in transcripts.list()) == ["ancient", "s2", "s3"]


SECRETS = [
    "sk-ant-api03-" + "aB3_" * 10,
    "sk-proj-" + "aB3-" * 10,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "AKIA" + "ABCD1234" * 2,
    "AIza" + "a1B2c" * 7,
    "xoxb-123456789012-abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_tokens_of_known_formats_are_redacted_at_any_depth(secret):
    value = {"a": [f"before {secret} after", {secret: 1}], "b": secret, "c": f'{{"key":"{secret}"}}'}

    assert secret[:20] not in json.dumps(Redactor({}).json(value))


def test_values_of_key_variables_are_redacted_and_plain_settings_are_not():
    environ = {"OPENAI_API_KEY": "abcdefgh-key", "TOKENIZERS_PARALLELISM": "false", "MY_TOKEN": "short",
               "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1", "PLAIN": "not a secret", "ODD": "odd-secret-value",
               "DB_PASSWORD": "correct horse"}  # fmt: skip
    redactor = Redactor(environ, ["ODD"])

    text = redactor.text(" | ".join(environ.values()))

    assert text == (
        "[redacted: OPENAI_API_KEY] | false | short | /tmp/ssh-x/agent.1 | not a secret | [redacted: ODD] | "
        "[redacted: DB_PASSWORD]"
    )
