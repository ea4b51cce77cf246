"""Hooks: commands that run on events, their input, and their answers.

    hooks:                          # optional; without it, the file is the list
      - event: pre_tool_execution
        match: Write(path:gen/**)   # a rule (see `rule_forms`); without it, every call
        command: ./check            # for bash -c, in the workspace
        timeout: 10                 # seconds
        on_failure: block           # or ignore

A hook reads one JSON object on standard input: `event` and `session`, and for a call `tool`, `arguments`, `touches` and
afterwards `result` or `error`. It prints nothing, or one JSON object with any of `arguments`, `result`, `context`,
`decision` and `reason`. Exit status 2 blocks, with standard error as the reason; any other nonzero status is a failure
of the hook.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from hilt.errors import ToolError, did_you_mean
from hilt.formats import yaml12
from hilt.policy import rule_forms
from hilt.policy.decision import Vote
from hilt.policy.rule_forms import EVERYTHING, BadForm, Form, Names, Scope
from hilt.policy.subject import Subject
from hilt.wire import decode_value

Source = Literal["personal", "project", "session"]
OnFailure = Literal["block", "ignore"]
Decision = Literal["allow", "ask", "deny", "skip", "stop"]

PRE = "pre_tool_execution"
POST = "post_tool_execution"
FAILURE = "post_tool_execution_failure"

SECONDS = 10.0
LONGEST_SECONDS = 600.0
MAX_HOOKS = 100  # of one source
MAX_COMMAND = 10_000
MAX_CONTEXT = 10_000
MAX_REASON = 2000

_KEYS = ("event", "match", "command", "timeout", "on_failure")
_ANSWER_KEYS = ("arguments", "result", "context", "decision", "reason")


class EventSpec(NamedTuple):
    """What the hooks of an event may decide and change, and the default for failures."""

    decisions: tuple[Decision, ...]
    changes: tuple[str, ...] = ()
    on_failure: OnFailure = "ignore"


_BEFORE = EventSpec(("allow", "deny", "skip", "stop"), ("arguments",), "block")
_AFTER = EventSpec(("allow", "deny", "stop"), ("result",))

EVENTS: dict[str, EventSpec] = {
    PRE: EventSpec(("allow", "ask", "deny", "skip", "stop"), ("arguments", "result"), "block"),
    POST: _AFTER,
    FAILURE: _AFTER,
    "session_start": EventSpec(("allow", "stop")),
    "session_end": EventSpec(("allow",)),
    "pre_send_message": _BEFORE,
    "post_send_message": _AFTER,
    "pre_llm_request": _BEFORE,
    "post_llm_response": _AFTER,
    "stop": EventSpec(("allow", "deny")),
    "pre_compact": _BEFORE,
    "post_compact": _AFTER,
}
_CALL_EVENTS = (PRE, POST, FAILURE)


class Hook(NamedTuple):
    """A command that runs on an event; `number` counts the hooks of its event and source from 0."""

    event: str
    command: str
    match: str = ""
    form: Form | None = None
    timeout: float = SECONDS
    on_failure: OnFailure = "block"
    source: Source = "session"
    file: str = ""
    line: int = 0
    number: int = 0

    @property
    def name(self) -> str:
        """The name of the hook in records and messages."""
        return f"{self.source} {self.event} {self.number}"

    def applies_to(self, subject: Callable[[], Subject]) -> bool:
        """Whether the hook runs for a call; a possible match counts."""
        return self.form is None or self.form.applies(subject()) != "no"

    def as_dict(self) -> dict[str, Any]:
        """Return the hook as a session stores it, and as it is listed."""
        match = {"match": self.match} if self.match else {}
        return {
            "event": self.event,
            **match,
            "command": self.command,
            "timeout": self.timeout,
            "on_failure": self.on_failure,
        }


class HookProblem(NamedTuple):
    """An invalid hook or file: why, where, and what it could have governed; event None means any."""

    reason: str
    file: str
    line: int
    event: str | None = None
    scope: Scope = EVERYTHING


class HookSet(NamedTuple):
    """The hooks of one source. `notes` are for people: hooks that do not run, and why."""

    source: Source
    hooks: tuple[Hook, ...] = ()
    problems: tuple[HookProblem, ...] = ()
    notes: tuple[str, ...] = ()


class BadHook(ValueError):
    """An invalid hook: why, and what it could have governed."""

    def __init__(self, message: str, event: str | None = None, scope: Scope = EVERYTHING) -> None:
        super().__init__(message)
        self.message = message
        self.event = event
        self.scope = scope


# --- files and lists ----------------------------------------------------------------------------------------------


def parse(text: str, file: str, source: Source, names: Callable[[], Names], *, home: str = "") -> HookSet:
    """Parse a hook file; invalid parts become problems, never exceptions."""
    try:
        data, lines = yaml12.load_with_lines(text, file)
    except yaml12.BadYaml as error:
        return HookSet(source, (), (HookProblem(error.message, file, error.line),))
    path: yaml12.Path = ()
    if isinstance(data, dict):
        unknown = [key for key in data if key != "hooks"]
        if unknown:
            reason = f"{file} has the unknown key {str(unknown[0])[:100]!r}; the only key is hooks"
            return broken(source, file, reason, lines.get((unknown[0],), 1))
        data, path = data.get("hooks"), ("hooks",)
    return collect(data, source, names, file=file, home=home, line_of=lambda place: lines.get((*path, place), 1))


def broken(source: Source, file: str, reason: str, line: int = 1) -> HookSet:
    """Return the hooks of an unreadable file."""
    return HookSet(source, (), (HookProblem(reason, file, line),))


def collect(
    data: Any,
    source: Source,
    names: Callable[[], Names],
    *,
    file: str = "",
    home: str = "",
    line_of: Callable[[int], int] = lambda place: 0,
) -> HookSet:
    """Return the hooks in a list of mappings, from a file or a session."""
    if data is None:
        return HookSet(source)
    origin = file or f"the {source}'s list"
    if not isinstance(data, list):
        return broken(source, file, f"{origin} must be a list of hooks")
    if len(data) > MAX_HOOKS:
        return broken(source, file, f"{origin} has {len(data)} hooks; the limit is {MAX_HOOKS}", line_of(MAX_HOOKS))
    hooks: list[Hook] = []
    problems: list[HookProblem] = []
    for place, (number, item) in enumerate(numbered(data)):
        try:
            hook = check(item, names, home=home)
        except BadHook as error:
            where = f"{file}, line {line_of(place)}: " if file else f"hook {place} of the {source}: "
            problems.append(HookProblem(where + error.message, file, line_of(place), error.event, error.scope))
            continue
        hooks.append(hook._replace(source=source, file=file, line=line_of(place), number=number))
    return HookSet(source, tuple(hooks), tuple(problems))


def numbered(data: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the items of a list of hooks with their numbers, counted from 0 for each event, invalid ones included."""
    counts: dict[str, int] = {}
    for item in data:
        event = str(item.get("event")) if isinstance(item, dict) else ""
        number = counts[event] = counts.get(event, -1) + 1
        yield number, item


def check(data: Any, names: Callable[[], Names], *, home: str = "") -> Hook:
    """Return the hook described by a mapping, or raise BadHook."""
    if not isinstance(data, dict):
        raise BadHook("a hook must be a mapping with event and command")
    event = data.get("event")
    if not isinstance(event, str) or event not in EVENTS:
        raise BadHook(_unknown_event(event))
    match, form = _match(data.get("match"), event, names, home)
    scope = EVERYTHING if form is None else form.scope
    for key in data:
        if key not in _KEYS:
            raise BadHook(f"unknown key {str(key)[:100]!r} of a hook{_spelling_hint(str(key), _KEYS)}", event, scope)
    command = data.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise BadHook("a hook needs a command, a non-empty string", event, scope)
    if len(command) > MAX_COMMAND:
        raise BadHook(f"the command is longer than {MAX_COMMAND} characters", event, scope)
    seconds = data.get("timeout", SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_SECONDS:
        raise BadHook(f"timeout must be a number of seconds up to {LONGEST_SECONDS:g}", event, scope)
    on_failure = data.get("on_failure", EVENTS[event].on_failure)
    if on_failure not in ("block", "ignore"):
        raise BadHook("on_failure must be block or ignore", event, scope)
    return Hook(event, command, match, form, float(seconds), on_failure)


def _match(text: Any, event: str, names: Callable[[], Names], home: str) -> tuple[str, Form | None]:
    if text is None:
        return "", None
    if not isinstance(text, str):
        raise BadHook("match must be a rule, a string", event)
    if event not in _CALL_EVENTS:
        raise BadHook(f"match is only for events of calls, not for {event}", event)
    try:
        return text, rule_forms.parse(text, names(), home)
    except BadForm as error:
        raise BadHook(f"match: {error.message}", event, error.scope) from None


def _unknown_event(event: Any) -> str:
    if not isinstance(event, str):
        return "a hook needs an event, a string"
    return f"unknown event {event[:100]!r}{_spelling_hint(event, EVENTS) or '; the events are: ' + ', '.join(EVENTS)}"


def _spelling_hint(word: str, known: Iterable[str]) -> str:
    closest = did_you_mean(word, known)
    return f"; did you mean {closest}?" if closest else ""


# --- input and answer of a hook -----------------------------------------------------------------------------------


class HookAnswer(NamedTuple):
    """The answer of a hook; `result` is a tuple of one value if there is one, since it may be null."""

    decision: Decision | None = None
    reason: str = ""
    context: str = ""
    arguments: dict[str, Any] | None = None
    result: tuple[Any, ...] = ()


NOTHING = HookAnswer()


class BadAnswer(ValueError):
    """A hook failed; the message says why."""


def hook_input(event: str, session: str, facts: dict[str, Any]) -> bytes:
    """Return the standard input of a hook."""
    # a caller from Python may send anything
    return json.dumps({"event": event, "session": session, **facts}, default=repr).encode()


def parse_answer(event: str, code: int, stdout: bytes, stderr: bytes) -> HookAnswer:
    """Return the answer of a hook that exited, or raise BadAnswer."""
    if code == 2:
        # for an event that cannot be blocked, such as the end of a session, this is a failure
        if "deny" not in EVENTS[event].decisions:
            raise BadAnswer(f"it blocks (exit status 2), but {event} cannot be blocked")
        return HookAnswer("deny", readable(stderr.decode("utf-8", "replace")))
    if code != 0:
        reason = readable(stderr.decode("utf-8", "replace"))
        raise BadAnswer(f"exit status {code}" + (f": {reason}" if reason else ""))
    if not stdout.strip():
        return NOTHING
    try:
        data = decode_value(stdout.strip())
    except ToolError as error:
        raise BadAnswer(f"it printed invalid JSON ({error.message.rstrip('.')})") from None
    if not isinstance(data, dict):
        raise BadAnswer("it printed JSON that is not an object")
    return _answer(event, {key: value for key, value in data.items() if value is not None or key == "result"})


def _answer(event: str, data: dict[str, Any]) -> HookAnswer:
    spec = EVENTS[event]
    for key in data:
        if key not in _ANSWER_KEYS:
            # a misspelt decision must not be ignored
            raise BadAnswer(f"its answer has the unknown key {key[:100]!r}{_spelling_hint(key, _ANSWER_KEYS)}")
    for key in ("context", "reason"):
        if not isinstance(data.get(key, ""), str):
            raise BadAnswer(f"{key} must be a string")
    if len(data.get("context", "")) > MAX_CONTEXT:
        raise BadAnswer(f"its context is longer than {MAX_CONTEXT} characters")
    decision = data.get("decision")
    if decision is not None and decision not in spec.decisions:
        raise BadAnswer(f"its decision must be one of {', '.join(spec.decisions)} at {event}")
    for key in ("arguments", "result"):
        if key in data and key not in spec.changes:
            raise BadAnswer(f"{key} cannot be changed at {event}")
    if not isinstance(data.get("arguments", {}), dict):
        raise BadAnswer("arguments must be an object")
    if event == PRE and "result" in data and decision != "skip":
        raise BadAnswer("before a call, a result requires the decision skip")
    if event == FAILURE and not isinstance(data.get("result", ""), str):
        raise BadAnswer("the result of a failed call is its message, and must be a string")
    result = (data["result"],) if "result" in data else ()
    return HookAnswer(
        decision, readable(data.get("reason", "")), data.get("context", ""), data.get("arguments"), result
    )


def readable(text: str) -> str:
    """Return a hook's reason, truncated and without control characters."""
    plain = "".join(character if character.isprintable() or character == "\n" else " " for character in text).strip()
    return plain if len(plain) <= MAX_REASON else plain[: MAX_REASON - 1] + "…"


# --- votes --------------------------------------------------------------------------------------------------------


def vote(hook: Hook, answer: HookAnswer) -> Vote | None:
    """Return the vote of a hook on a call; no decision and skip are no vote."""
    if answer.decision is None or answer.decision == "skip":
        return None
    reason = answer.reason or f"the hook {hook.name} answered {answer.decision}"
    if answer.decision in ("allow", "ask"):
        return Vote(answer.decision, "hooks", f"hook {hook.name}: {reason}" if answer.reason else reason)
    return Vote("deny", "hooks", reason, blocked(hook, reason, stop=answer.decision == "stop"))


def blocked(hook: Hook, reason: str, *, stop: bool = False) -> ToolError:
    """Return the error of a call that a hook blocks; `stop` asks the agent to stop."""
    what = "blocked the call" if hook.event == PRE else "withheld the result; the call itself ran"
    message = f"The hook {hook.name} {what}: {reason}"
    if stop:
        advice = "Stop, and tell the user the reason."
        return ToolError("hook_blocked", message, suggestion=advice, hook=hook.name, stop=True)
    return ToolError("hook_blocked", message, hook=hook.name)


def failed(hook: Hook, reason: str) -> ToolError:
    """Return the error of a call whose hook failed with on_failure: block."""
    what = "so the call is blocked" if hook.event == PRE else "so the result is withheld; the call itself ran"
    return ToolError(
        "hook_blocked",
        f"The hook {hook.name} failed, {what}: {reason}.",
        suggestion="Ask the user to fix the hook, or to set on_failure: ignore for it.",
        hook=hook.name,
        failed=True,
    )
