"""The client of one call, as a tool meets it: asked through MCP, told how far the call is.

A person who is asked whether a call may run, or a question of `ask_user`, holds no thread: the call ends there, and is
run again with the answer. What a custom tool asks while it runs waits for the answer where the client can be asked in
between; otherwise the call is run again with all answers so far.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hilt.errors import ToolError
from hilt.state.approvals import UserAnswer
from hilt.surfaces.mcp.content import sound
from hilt.surfaces.mcp.forms import (
    FORM,
    approval_form,
    own_words_form,
    question_form,
    read_approval,
    read_choices,
    read_own_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.approvals import Asked

NOTE_CHARACTERS = 10_000  # of what is told while a call runs
NOTES_AT_ONCE = 200
NOTES_PER_SECOND = 50
AUTOMATIC_SECONDS = 1.0  # a form that is closed sooner was closed by a program

APPROVAL = "approval"
QUESTIONS = "questions"

Responses = dict[str, dict[str, Any] | None]


@dataclass
class ClientAnswers:
    """What the client has answered so far in one call, through all its rounds."""

    approvals: dict[str, UserAnswer | None] = field(
        default_factory=dict
    )  # by what they are bound to; None: nobody said
    answers: dict[str, Any] | ToolError | None = None  # to questions
    own_words: list[int] = field(default_factory=list)  # the numbers of questions that the person answers so
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)


class Attending:
    """An Attendant over MCP, for one run of a call."""

    def __init__(
        self,
        told: ClientAnswers,
        can: frozenset[str],
        *,
        by: str,
        alone: bool = False,
        send: Callable[[str, tuple[Any, ...]], None],
        wait: Callable[[Mapping[str, Any]], Responses] | None,
    ) -> None:
        """Take what the client can be asked; `wait`, unless None, asks it and returns its answers.

        `alone` says that it has closed a form of this session by itself: no person sits in front of it.
        """
        self.needs: dict[str, dict[str, Any]] = {}  # what must be asked before the call can go on
        self.missing: str | None = None  # what the call cannot do without and the client lacks
        self._told = told
        self._can = can
        self._by = by
        self._alone = alone
        self._send = send
        self._wait = wait
        self._count = 0
        self._allowance = _Allowance()
        self._asked: tuple[Asked, str] | None = None
        self._questions: Sequence[Any] = ()
        self._asked_at = 0.0

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked."""
        return "form" in self._can and not self._alone

    @property
    def has_questions(self) -> bool:
        """Whether this run of the call ended to ask something."""
        return bool(self.needs)

    def approve(self, asked: Asked, digest: str) -> UserAnswer | None:
        """Return what the person said to exactly this call, None if nobody did; end the call to ask them."""
        if "form" not in self._can:
            return None
        if digest in self._told.approvals:
            return self._told.approvals[digest]
        self._asked = asked, digest
        self._need(APPROVAL, approval_form(asked))
        raise ToolError("approval_required", f"{asked.tool} needs approval: {asked.reason.rstrip('.')}.")

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Return the answers of the person; end the call to ask them."""
        if "form" not in self._can:
            return None
        told = self._told
        if isinstance(told.answers, ToolError):
            raise told.answers
        if told.answers is not None and not told.own_words:
            return told.answers
        self._questions = questions
        form = own_words_form(questions, told.own_words) if told.own_words else question_form(questions)
        self._need(QUESTIONS, form)
        raise ToolError("no_one_to_ask", "The user has not answered yet.")

    def _need(self, name: str, form: dict[str, Any]) -> None:
        self._asked_at = time.monotonic()
        self.needs[name] = sound(form)

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return a form that the person filled in."""
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        return self._one({"method": FORM, "params": params})

    def sample(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return what the client's model says."""
        return self._one({"method": "sampling/createMessage", "params": request})

    def inputs(self, requests: Mapping[str, Any]) -> Responses:
        """Return the client's answers by name; None for what it cannot be asked."""
        requests = sound(dict(requests))
        found: Responses = dict.fromkeys(requests)
        asked = {name: request for name, request in requests.items() if self._is_able(request)}
        if self._wait is not None:
            return {**found, **(self._wait(asked) if asked else {})}
        missing = {name: request for name, request in asked.items() if name not in self._told.inputs}
        if missing:
            self.needs.update(missing)
            raise ToolError("no_one_to_ask", "The client has not answered yet.")
        return {**found, **{name: self._told.inputs[name] for name in asked}}

    def require(self, capability: str) -> None:
        """Raise unless the client has said that it is capable of this."""
        if capability not in self._can:
            self.missing = capability
            raise ToolError("no_one_to_ask", f"The client does not offer {capability}.")

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell how far the call is; what a tool says of it may be anything, and more than anybody can read."""
        if _is_number(done) and self._allowance.take():
            self._send("progress", (done, total if _is_number(total) else None, str(message)[:NOTE_CHARACTERS]))

    def log(self, level: str, data: Any) -> None:
        """Tell what a person may want to know while the call runs."""
        if self._allowance.take():
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
            self._send(
                "log", (level, data if len(text) <= NOTE_CHARACTERS and data is not None else text[:NOTE_CHARACTERS])
            )

    def take(self, responses: Mapping[str, dict[str, Any]]) -> None:
        """Put what the client answered to `needs` where the next run finds it."""
        for name in self.needs:
            response = responses.get(name)
            if response is None:
                continue
            if name == APPROVAL and self._asked is not None:
                asked, digest = self._asked
                automatic = time.monotonic() - self._asked_at < AUTOMATIC_SECONDS
                self._told.approvals[digest] = read_approval(asked, response, self._by, automatic=automatic)
            elif name == QUESTIONS and self._questions:
                self._take_answers(response)
            else:
                self._told.inputs[name] = response

    def _take_answers(self, response: Mapping[str, Any]) -> None:
        told = self._told
        try:
            if isinstance(told.answers, dict):
                told.answers = read_own_words(self._questions, told.own_words, told.answers, response)
                told.own_words = []
            else:
                told.answers, told.own_words = read_choices(self._questions, response)
        except ToolError as error:
            told.answers = error

    def _one(self, request: dict[str, Any]) -> dict[str, Any] | None:
        self._count += 1
        name = f"input_{self._count}"
        return self.inputs({name: request})[name]

    def _is_able(self, request: Mapping[str, Any]) -> bool:
        method = request.get("method")
        if method == FORM:
            return request.get("params", {}).get("mode", "form") in self._can
        return {"sampling/createMessage": "sampling", "roots/list": "roots"}.get(str(method), "") in self._can


class _Allowance:
    """How much a call may still tell: many things at once, and then a few in each second."""

    def __init__(self) -> None:
        self._left = float(NOTES_AT_ONCE)
        self._since = time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(NOTES_AT_ONCE, self._left + (now - self._since) * NOTES_PER_SECOND)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
