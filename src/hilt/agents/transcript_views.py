"""A transcript for people: as Markdown, and as a list of messages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from hilt.agents.transcripts import Record


def as_markdown(records: Iterable[Record]) -> str:
    """Return a whole transcript as Markdown, compacted parts included."""
    return "\n\n".join(section for record in records for section in _sections(record)) + "\n"


def as_messages(records: Iterable[Record]) -> list[Record]:
    """Return the records of a transcript that are messages, for programs."""
    return [record for record in records if record.get("type") in ("user", "answer", "result", "compacted", "ended")]


def _sections(record: Record) -> Iterator[str]:
    match record.get("type"):
        case "session":
            yield f"# Session {record['id']}"
            yield f"{_moment(record)}, model {record.get('model')}, in {record.get('workspace')}"
        case "user":
            yield f"## User, {_moment(record)}\n\n{_text(record['content'])}"
        case "answer":
            yield f"## Agent, {_moment(record)}"
            for part in record["parts"]:
                if part.get("text"):
                    yield str(part["text"])
                elif "call" in part:
                    args = part.get("args") or "{}"
                    text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
                    yield f"### Call {part['call']} ({part['id']})\n\n{_fenced(text)}"
        case "result":
            yield f"### Result of {record['tool']} ({record['id']}), {record['outcome']}"
            yield _fenced(_text(record["content"]))
        case "compacted":
            yield f"## Compacted, {_moment(record)}"
            yield "From here on the model sees a shorter form of the messages above."
        case "ended":
            code = f", {record['error_code']}" if record.get("error_code") else ""
            yield f"*Ended with status {record['status']}{code}, {_moment(record)}*"


def _moment(record: Record) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.get("time", 0)))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(item if isinstance(item, str) else f"[{item.get('image')}]" for item in content)


def _fenced(text: str) -> str:
    longest = max((len(run) for run in _runs_of_backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _runs_of_backticks(text: str) -> list[str]:
    import re

    return re.findall(r"`+", text)
