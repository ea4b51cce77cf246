"""The values passed between layers: a Call in, an Output from the tool, a Result out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hilt.errors import ToolError

Json = Any  # a decoded JSON value

AGENT = "agent_"  # prefix of the ids of agents, each of which has a session of that name

_NO_META: Mapping[str, Json] = {}


class Call(NamedTuple):
    """One request to run a tool, as the caller sent it."""

    tool: str
    args: Json = None
    id: Json = None
    request_id: Json = None
    session: str | None = None
    client: str | None = None
    dialect: str | None = None
    approval: str | None = None
    through: tuple[str, ...] = ()  # the tools that forwarded this call


class Output(NamedTuple):
    """What a tool returns: text, or `data` when the result is structured (then the result is exactly that JSON)."""

    text: str = ""
    data: Json = None
    view: dict[str, Json] | None = None
    meta: Mapping[str, Json] = _NO_META
    content: tuple[dict[str, Any], ...] = ()  # MCP content blocks
    classification: str | None = None
    risk: str | None = None
    bounded: bool = False  # the tool truncated the text itself and says how to get the rest


class Result(NamedTuple):
    """The outcome of a call."""

    text: str = ""
    data: Json = None
    error: ToolError | None = None
    view: dict[str, Json] | None = None
    meta: Mapping[str, Json] = _NO_META
    content: tuple[dict[str, Any], ...] = ()  # MCP content blocks
    classification: str | None = None
    risk: str | None = None
    id: Json = None
    request_id: Json = None

    @property
    def result(self) -> str:
        """What the model reads, as on the wire: the text, or the data as JSON."""
        if self.data is None:
            return self.text
        import json

        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None


class Touch(NamedTuple):
    """One effect on one target; `partial` when the tool reports a denied target itself and handles the others."""

    effect: str
    target: str
    partial: bool = False
