"""The MCP client as the attendant of one call: answers questions, and receives progress and log messages.

Approvals and the questions of `ask_user` do not block a thread: the run ends, and the call runs again with the answer.
A question from a custom tool waits for the answer if the protocol version allows requests to the client during a call;
otherwise the call runs again with all answers so far.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from hilt.call import UserAnswer
from hilt.desk.approvals import POLL_SECONDS
from hilt.errors import ToolError
from hilt.surfaces.mcp.content import replace_surrogates
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
    from hilt.call import ApprovalRequest, Result
    from hilt.surfaces.mcp.open_forms import OpenForms

    # asks the client and returns its answers; the forms may be answered elsewhere first
    Wait = Callable[[Mapping[str, Any], OpenForms | None], "Responses"]

NOTE_CHARACTERS = 10_000  # in one progress or log message
NOTES_AT_ONCE = 200
NOTES_PER_SECOND = 50
AUTOMATIC_SECONDS = 1.0  # a form that closes sooner was closed by a program

APPROVAL = "approval"
QUESTIONS = "questions"

Responses = dict[str, dict[str, Any] | None]
T = TypeVar("T")


class ClientAnswers:
    """The client's answers in one call, across all its runs."""

    def __init__(self) -> None:
        self.event_id = os.urandom(8).hex()  # of the events of the call
        self.by = ""  # the client, as recorded with its answers
        self.approvals: dict[str, UserAnswer | None] = {}  # by digest; None if nobody answered
        self.answers: dict[str, Any] | ToolError | None = None  # to questions
        self.own_words: list[int] = []  # the numbers of the questions that the user answers freely
        self.inputs: dict[str, dict[str, Any]] = {}

    def ended(self, result: Result) -> None:
        """Store the preview that a run ended with, so that the next run applies it instead of making another."""
        error = result.error
        preview = error.details.get("apply") if error is not None and error.code == "approval_required" else None
        if isinstance(preview, str):
            for digest, answer in self.approvals.items():
                if answer is not None and answer.kind == "preview":
                    self.approvals[digest] = answer._replace(preview_id=preview)


class Attending:
    """An Attendant over MCP, for one run of a call."""

    def __init__(
        self,
        replies: ClientAnswers,
        can: frozenset[str],
        *,
        by: str,
        alone: bool = False,
        approves: bool = True,
        send: Callable[[str, tuple[Any, ...]], None],
        wait: Wait | None,
        open_forms: Callable[[str | None, ClientAnswers], OpenForms] | None = None,
    ) -> None:
        """Attend a call of a client that supports the requests in `can`.

        `wait`, unless None, asks the client and returns its answers. `open_forms` returns the forms of a session, which
        may be answered elsewhere first. `alone` means that the client has no user: it closed an earlier form of this
        session by itself. Only a client that `approves` is asked for approvals.
        """
        self.needs: dict[str, dict[str, Any]] = {}  # requests to the client before the call can continue
        self.missing: str | None = None  # a capability that the call needs and the client lacks
        self._replies = replies
        self._can = can
        self._by = by
        self._alone = alone
        self._approves = approves
        self._send = send
        self._wait = wait
        self._open_forms = open_forms
        self._count = 0
        self._allowance = _Allowance()
        replies.by = by
        self.asked: tuple[ApprovalRequest, str] | None = None  # the approval to request from the client, and its digest
        self.questions: Sequence[Any] = ()  # for the client
        self._asked_at = 0.0
        self._form_lock: threading.Lock | None = None  # set if the client is asked while the call runs

    @property
    def can_ask(self) -> bool:
        """Whether a user is available to answer."""
        return "form" in self._can and not self._alone

    @property
    def has_questions(self) -> bool:
        """Whether this run of the call ended with questions."""
        return bool(self.needs)

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Return the user's answer to exactly this call, None if nobody answered; end the run to ask first."""
        if "form" not in self._can or not self._approves:
            return None
        if self._form_lock is not None:
            return self._ask_now(asked.session, lambda client: client.approve(asked, digest))
        if digest in self._replies.approvals:
            answer = self._replies.approvals[digest]
            if answer is None or answer.kind != "preview" or asked.preview:
                return answer  # else ask again: approving the preview does not approve its changes
        self.asked = asked, digest
        self._need(APPROVAL, approval_form(asked))
        raise ToolError("approval_required", f"{asked.tool} needs approval: {asked.reason.rstrip('.')}.")

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Return the user's answers; end the run to ask first."""
        if "form" not in self._can:
            return None
        if self._form_lock is not None:
            return self._ask_now(None, lambda client: client.ask(questions))
        replies = self._replies
        if isinstance(replies.answers, ToolError):
            raise replies.answers
        if replies.answers is not None and not replies.own_words:
            return replies.answers
        self.questions = questions
        form = own_words_form(questions, replies.own_words) if replies.own_words else question_form(questions)
        self._need(QUESTIONS, form)
        raise ToolError("no_one_to_ask", "The user has not answered yet.")

    def _need(self, name: str, form: dict[str, Any]) -> None:
        self.needs[name] = replace_surrogates(form)

    def sent(self) -> None:
        """Record the time at which the client is asked."""
        self._asked_at = time.monotonic()

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return the form as the user filled it in."""
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        return self._input({"method": FORM, "params": params})

    def sample(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response of the client's model."""
        return self._input({"method": "sampling/createMessage", "params": request})

    def inputs(self, requests: Mapping[str, Any]) -> Responses:
        """Return the client's answers by name; None for requests that it does not support."""
        requests = replace_surrogates(dict(requests))
        answers: Responses = dict.fromkeys(requests)
        supported = {name: request for name, request in requests.items() if self._is_supported(request)}
        if self._wait is not None:
            return {**answers, **(self._wait(supported, None) if supported else {})}
        missing = {name: request for name, request in supported.items() if name not in self._replies.inputs}
        if missing:
            self.needs.update(missing)
            raise ToolError("no_one_to_ask", "The client has not answered yet.")
        return {**answers, **{name: self._replies.inputs[name] for name in supported}}

    def for_agents(self) -> Attending | None:
        """Return this client for agents that the call starts; None if it cannot be asked while the call runs."""
        if self._wait is None or not self.can_ask:
            return None
        other = copy(self)
        other.needs, other._form_lock = {}, threading.Lock()
        return other

    def _ask_now(self, session: str | None, ask: Callable[[Attending], T | None]) -> T | None:
        """Ask the client while the call runs, with the same forms as between runs.

        Return None if nobody answered. `session` is the session of the agent, if known.
        """
        assert self._open_forms is not None  # noqa: S101
        replies = ClientAnswers()
        client = copy(self)
        client._replies, client._form_lock = replies, None
        replies.by = self._by
        forms = self._open_forms(session, replies)
        try:
            while True:
                client.needs = {}
                try:
                    answer = ask(client)
                except ToolError:
                    if not client.needs:
                        raise
                else:
                    forms.use()
                    return answer
                forms.open(client.asked, client.questions)
                has_answer = self._show(client, forms)
                if forms.is_open:
                    has_answer = forms.settle() or has_answer
                if not has_answer:
                    return None
        finally:
            forms.close()

    def _show(self, client: Attending, forms: OpenForms) -> bool:
        """Show the forms once those of other agents are closed; return whether the client answered."""
        assert self._form_lock is not None  # noqa: S101
        assert self._wait is not None  # noqa: S101
        while not self._form_lock.acquire(timeout=POLL_SECONDS):
            if forms.answered_by() is not None:
                return False
        try:
            client.sent()
            responses = self._wait(client.needs, forms)
        finally:
            self._form_lock.release()
        answers = {name: response for name, response in responses.items() if response is not None}
        client.take(answers)
        return bool(answers)

    @property
    def allowance(self) -> None:
        """None: the host limits its own runs."""
        return None

    def require(self, capability: str) -> None:
        """Raise unless the client declares this capability."""
        if capability not in self._can:
            self.missing = capability
            raise ToolError("no_one_to_ask", f"The client does not support {capability}.")

    def compact(self, focus: str) -> str | None:
        """Return None: the host compacts its own conversation."""
        return None

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress, validated and rate-limited: a tool may send anything, any number of times."""
        if _is_number(done) and self._allowance.take():
            self._send("progress", (done, total if _is_number(total) else None, str(message)[:NOTE_CHARACTERS]))

    def output(self, data: bytes) -> None:
        """Ignore the output of a command: clients receive its last line as progress."""

    def log(self, level: str, data: Any) -> None:
        """Send a log message for the user, rate-limited."""
        if self._allowance.take():
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
            self._send(
                "log", (level, data if len(text) <= NOTE_CHARACTERS and data is not None else text[:NOTE_CHARACTERS])
            )

    def take(self, responses: Mapping[str, dict[str, Any]]) -> None:
        """Store the client's answers to `needs` for the next run."""
        for name in self.needs:
            response = responses.get(name)
            if response is None:
                continue
            if name == APPROVAL and self.asked is not None:
                asked, digest = self.asked
                automatic = time.monotonic() - self._asked_at < AUTOMATIC_SECONDS
                self._replies.approvals[digest] = read_approval(asked, response, self._by, automatic=automatic)
            elif name == QUESTIONS and self.questions:
                self._take_answers(response)
            else:
                self._replies.inputs[name] = response

    def _take_answers(self, response: Mapping[str, Any]) -> None:
        replies = self._replies
        try:
            if isinstance(replies.answers, dict):
                replies.answers = read_own_words(self.questions, replies.own_words, replies.answers, response)
                replies.own_words = []
            else:
                replies.answers, replies.own_words = read_choices(self.questions, response)
        except ToolError as error:
            replies.answers = error

    def _input(self, request: dict[str, Any]) -> dict[str, Any] | None:
        self._count += 1
        name = f"input_{self._count}"
        return self.inputs({name: request})[name]

    def _is_supported(self, request: Mapping[str, Any]) -> bool:
        method = request.get("method")
        if method == FORM:
            return request.get("params", {}).get("mode", "form") in self._can
        return {"sampling/createMessage": "sampling", "roots/list": "roots"}.get(str(method), "") in self._can


class _Allowance:
    """A token bucket for the messages of a call: a burst, and then a rate per second."""

    def __init__(self) -> None:
        self._available = float(NOTES_AT_ONCE)
        self._since = time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._available = min(NOTES_AT_ONCE, self._available + (now - self._since) * NOTES_PER_SECOND)
        self._since = now
        if self._available < 1:
            return False
        self._available -= 1
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
