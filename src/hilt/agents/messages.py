"""Conversion between the records of a transcript and the messages of pydantic-ai."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from hilt.agents.transcripts import Record
from hilt.call import Json

Content = str | Sequence[UserContent]

# the parts of an answer by the name of their first field in a record
_PARTS: dict[str, type[TextPart | ThinkingPart | ToolCallPart]] = {
    "text": TextPart,
    "thought": ThinkingPart,
    "call": ToolCallPart,
}
_RENAMED = {"content": "text", "tool_name": "call", "tool_call_id": "id"}
_DERIVED = {"part_kind", "tool_kind", "citations"}
# fields of an answer that its provider needs in later requests
_OF_ANSWER = ("model_name", "provider_name", "provider_response_id", "canonical_system", "finish_reason")


def content_record(content: Content) -> Json:
    """Return the content of a message or result for a record."""
    if isinstance(content, str):
        return content
    return [
        {"image": item.media_type, "data": base64.b64encode(item.data).decode()}
        if isinstance(item, BinaryContent)
        else str(item)
        for item in content
    ]


def answer_record(response: ModelResponse) -> Record:
    """Return the fields of an answer's record."""
    usage = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
    parts = [part for part in map(_part_record, response.parts) if part is not None]
    facts = {name: value for name in _OF_ANSWER if (value := getattr(response, name)) is not None}
    return {"parts": parts, "usage": usage, **facts}


def result_record(part: ToolReturnPart) -> Record:
    """Return the fields of a result's record."""
    return {
        "id": part.tool_call_id,
        "tool": part.tool_name,
        "outcome": part.outcome,
        "content": content_record(part.content if isinstance(part.content, str | list) else str(part.content)),
    }


def messages_of(records: Iterable[Record]) -> list[ModelMessage]:
    """Return user, answer and result records as messages; the results of a turn become one message."""
    messages: list[ModelMessage] = []
    results: list[ToolReturnPart] = []
    for record in records:
        if record["type"] == "result":
            if not results:
                messages.append(ModelRequest(parts=results))
            results.append(
                ToolReturnPart(record["tool"], _content(record["content"]), record["id"], outcome=record["outcome"])
            )
            continue
        results = []
        if record["type"] == "user":
            prompt = UserPromptPart(_content(record["content"]))
            messages.append(ModelRequest(parts=[prompt], metadata=record.get("metadata")))
        else:
            usage = record.get("usage") or {}
            facts = {name: record[name] for name in _OF_ANSWER if name in record}
            parts = [_part(part) for part in record["parts"]]
            messages.append(ModelResponse(parts=parts, usage=RequestUsage(**usage), **facts))
    return messages


def records_of(messages: Iterable[ModelMessage]) -> list[Record]:
    """Return messages as records of a transcript."""
    records: list[Record] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            records.append({"type": "answer", **answer_record(message)})
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                records.append({"type": "result", **result_record(part)})
            elif isinstance(part, UserPromptPart):
                facts = {"metadata": message.metadata} if message.metadata else {}
                records.append({"type": "user", "content": content_record(part.content), **facts})
    return records


def _part_record(part: ModelResponsePart) -> Record | None:
    """Return a part with the fields that differ from their defaults; None for parts that hilt does not request."""
    kind = next((name for name, part_type in _PARTS.items() if isinstance(part, part_type)), None)
    if kind is None:
        return None
    record: Record = {}
    for field in fields(part):
        value = getattr(part, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name in _DERIVED or (field.name != "content" and value == default):
            continue
        name = kind if field.name == "content" else _RENAMED.get(field.name, field.name)
        record["part_id" if field.name == "id" else name] = value
    return record


def _part(record: Record) -> ModelResponsePart:
    kind = next(name for name in _PARTS if name in record)
    values = dict(record)
    if kind == "call":
        values["tool_name"], values["tool_call_id"] = values.pop("call"), values.pop("id")
    else:
        values["content"] = values.pop(kind)
    if "part_id" in values:
        values["id"] = values.pop("part_id")
    return _PARTS[kind](**values)


def _content(content: Json) -> Any:
    if isinstance(content, str):
        return content
    return [
        item if isinstance(item, str) else BinaryContent(base64.b64decode(item["data"]), media_type=item["image"])
        for item in content
    ]
