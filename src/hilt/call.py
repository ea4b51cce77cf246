"""The values passed between layers: a Call in, an Output from the tool, a Result out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

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


class Origin(NamedTuple):
    """Whose a call is: its run, and for the calls of an agent the call that started the agent, and the agent."""

    run: str  # the session that began it all
    parent: str = ""
    agent: str = ""


def check_name(field: str, name: str) -> None:
    """Raise if a name, such as that of a session, cannot be stored and passed on."""
    if name != storable(name):
        what = "a NUL character" if "\0" in name else "a lone surrogate"
        advice = "Send valid Unicode without NUL."
        raise ToolError("invalid_request", f"The {field} contains {what}.", suggestion=advice, field=field)


def storable(name: str) -> str:
    """Return a name with what databases, files and messages cannot hold as escapes."""
    name = name.replace("\0", "\\0")
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


class ShownFile(NamedTuple):
    """A file of a change, as a person sees it before they approve the change."""

    path: str
    action: str  # created, modified, deleted, or in other words what happens to it
    runs: str = ""  # what runs it later
    missing: str = ""  # why its contents are not in the diff


class ShownChange(NamedTuple):
    """What a person sees of a change before they approve it: all files, and a unified diff of their contents."""

    files: tuple[ShownFile, ...] = ()
    diff: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the diff has the contents of all files."""
        return not any(file.missing for file in self.files)


class UserAnswer(NamedTuple):
    """A person's answer to a call: once, always, all, preview or deny, and why."""

    kind: str
    reason: str = ""
    by: str = ""
    preview_id: str = ""  # the id of the preview, if there already is one


class ApprovalRequest(NamedTuple):
    """What a person sees of a call. `rules` are the rules that "always" would store; empty if it is not offered.

    With `preview`, the person may request a preview: it is run, and the question is asked again with its diff.
    """

    tool: str
    arguments: Mapping[str, Json]
    reason: str  # of the decision to ask
    kind: Literal["command", "edit", "call"] = "call"
    command: str = ""
    risk: str = ""
    part: str = ""  # the part of the command that has this risk
    risk_reason: str = ""  # why it has this risk
    files: tuple[ShownFile, ...] = ()  # that it would change; empty if that is not known
    diff: str = ""  # unified
    rules: tuple[str, ...] = ()
    workspace: str = ""  # its folder
    session: str = ""
    folder: str = ""  # where a stored rule applies: for a command, the folder it runs in
    client: str = ""  # the name that the calling program reports
    preview: bool = False


Asker = Callable[[ApprovalRequest], UserAnswer]  # asks the person at this process to approve a call
Questioner = Callable[[Sequence[Any]], dict[str, Any]]  # asks them questions; returns the answers by question


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
    change: ShownChange | None = None  # of a dry run: what the call would change


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
