"""The MCP client as the attendant of one call: answers questions, and receives progress and log messages.

Approvals and the questions of `ask_user` do not block a thread: the call waits, and repeats the step with the answer. A
question from a custom tool waits for the answer if the protocol version allows requests to the client during a call;
otherwise the tool runs again with all answers so far.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from hilt.call import UserAnswer
from hilt.context import Attendant
from hilt.desk.approvals import POLL_SECONDS
from hilt.errors import ToolError
from hilt.surfaces.event_loop import Bucket
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

if TYPE_CHECKING:
    from hilt.call import ApprovalRequest
    from hilt.surfaces.mcp.client_call import OpenForms
    from hilt.surfaces.mcp.plain import Client

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
    """The client's answers in one call."""

    def __init__(self, by: str) -> None:
        self.by = by  # the client, as recorded with its answers
        self.approvals: dict[str, UserAnswer | None] = {}  # by digest; None if nobody answered
        self.to_questions: dict[str, Any] | ToolError | None = None
        self.own_words: list[int] = []  # the numbers of the questions that the user answers freely
        self.inputs: dict[str, dict[str, Any]] = {}


class ClientAttendant(Attendant):
    """An Attendant over MCP, for one call."""

    def __init__(
        self,
        client: Client,
        *,
        alone: bool = False,
        approves: bool = True,
        send: Callable[[str, tuple[Any, ...]], None],
        wait: Wait | None = None,
        open_forms: Callable[[str | None, ClientAnswers], OpenForms] | None = None,
    ) -> None:
        """Attend a call of a client.

        `wait`, unless None, asks the client and returns its answers. `open_forms` returns the forms of a session, which
        may be answered elsewhere first. `alone` means that the client has no user: it closed an earlier form of this
        session by itself. Only a client that `approves` is asked for approvals.
        """
        self.needs: dict[str, dict[str, Any]] = {}  # requests to the client before the call can continue
        self.missing: str | None = None  # a capability that the call needs and the client lacks
        self.answers = ClientAnswers(client.name)
        self.asked: tuple[ApprovalRequest, str] | None = None  # the approval to request from the client, and its digest
        self.questions: Sequence[Any] = ()  # for the client
        self._can = client.can
        self._alone = alone
        self._approves = approves
        self._send = send
        self._wait = wait
        self._open_forms = open_forms
        self._count = 0
        self._notes = Bucket(NOTES_PER_SECOND, NOTES_AT_ONCE)
        self._asked_at = 0.0
        self._form_lock: threading.Lock | None = None  # set if the client is asked while the call runs

    @property
    def can_ask(self) -> bool:
        """Whether a user is available to answer."""
        return "form" in self._can and not self._alone

    @property
    def has_questions(self) -> bool:
        """Whether the step that just ended has questions for the client."""
        return bool(self.needs)

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Return the user's answer to exactly this call, None if nobody answered; end the step to ask first."""
        if "form" not in self._can or not self._approves:
            return None
        if self._form_lock is not None:
            return self._ask_now(asked.session, lambda client: client.approve(asked, digest))
        if digest in self.answers.approvals:
            answer = self.answers.approvals[digest]
            if answer is None or answer.kind != "preview" or asked.preview:
                return answer  # else ask again: approving the preview does not approve its changes
        self.asked = asked, digest
        self._need(APPROVAL, approval_form(asked))
        raise ToolError("approval_required", f"{asked.tool} needs approval: {asked.reason.rstrip('.')}.")

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Return the user's answers; end the step to ask first."""
        if "form" not in self._can:
            return None
        if self._form_lock is not None:
            return self._ask_now(None, lambda client: client.ask(questions))
        answers = self.answers
        if isinstance(answers.to_questions, ToolError):
            raise answers.to_questions
        if answers.to_questions is not None and not answers.own_words:
            return answers.to_questions
        self.questions = questions
        form = own_words_form(questions, answers.own_words) if answers.own_words else question_form(questions)
        self._need(QUESTIONS, form)
        raise ToolError("no_one_to_ask", "The user has not answered yet.")

    def _need(self, name: str, form: dict[str, Any]) -> None:
        self.needs[name] = replace_surrogates(form)

    def sent(self, preview: str = "") -> None:
        """Record the time at which the client is asked, and the preview that it is asked about, to apply that one."""
        self._asked_at = time.monotonic()
        for digest, answer in self.answers.approvals.items() if preview else ():
            if answer is not None and answer.kind == "preview":
                self.answers.approvals[digest] = answer._replace(preview_id=preview)

    def proceed(self, *, alone: bool, fills_forms: bool) -> None:
        """Prepare for the next run of the step; some clients declare forms, but do not answer them."""
        self.needs, self.asked, self.questions, self.missing = {}, None, (), None
        self._alone, self._count = alone, 0
        if not fills_forms:
            self._can -= {"form"}

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
        missing = {name: request for name, request in supported.items() if name not in self.answers.inputs}
        if missing:
            self.needs.update(missing)
            raise ToolError("no_one_to_ask", "The client has not answered yet.")
        return {**answers, **{name: self.answers.inputs[name] for name in supported}}

    def for_agents(self) -> ClientAttendant | None:
        """Return this client for agents that the call starts; None if it cannot be asked while the call runs."""
        if self._wait is None or not self.can_ask:
            return None
        other = copy(self)
        other.needs, other._form_lock = {}, threading.Lock()
        return other

    def _ask_now(self, session: str | None, ask: Callable[[ClientAttendant], T | None]) -> T | None:
        """Ask the client while the call runs, with the same forms as between steps.

        Return None if nobody answered. `session` is the session of the agent, if known.
        """
        assert self._open_forms is not None  # noqa: S101
        client = copy(self)
        client.answers, client._form_lock = ClientAnswers(self.answers.by), None
        forms = self._open_forms(session, client.answers)
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

    def _show(self, client: ClientAttendant, forms: OpenForms) -> bool:
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
        client.take(responses)
        return any(response is not None for response in responses.values())

    def require(self, capability: str) -> None:
        """Raise unless the client declares this capability."""
        if capability not in self._can:
            self.missing = capability
            raise ToolError("no_one_to_ask", f"The client does not support {capability}.")

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress, validated and rate-limited: a tool may send anything, any number of times."""
        if _is_number(done) and self._notes.take():
            self._send("progress", (done, total if _is_number(total) else None, str(message)[:NOTE_CHARACTERS]))

    def log(self, level: str, data: Any) -> None:
        """Send a log message for the user, rate-limited."""
        if self._notes.take():
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
            self._send(
                "log", (level, data if len(text) <= NOTE_CHARACTERS and data is not None else text[:NOTE_CHARACTERS])
            )

    def take(self, responses: Mapping[str, dict[str, Any] | None]) -> None:
        """Store the client's answers to `needs`."""
        for name in self.needs:
            response = responses.get(name)
            if response is None:
                continue
            if name == APPROVAL and self.asked is not None:
                asked, digest = self.asked
                automatic = time.monotonic() - self._asked_at < AUTOMATIC_SECONDS
                answer = read_approval(asked, response, self.answers.by, automatic=automatic)
                self.answers.approvals[digest] = answer
            elif name == QUESTIONS and self.questions:
                self._take_answers(response)
            else:
                self.answers.inputs[name] = response

    def _take_answers(self, response: Mapping[str, Any]) -> None:
        answers, given = self.answers, self.answers.to_questions
        try:
            if isinstance(given, dict):
                answers.to_questions = read_own_words(self.questions, answers.own_words, given, response)
                answers.own_words = []
            else:
                answers.to_questions, answers.own_words = read_choices(self.questions, response)
        except ToolError as error:
            answers.to_questions = error

    def _input(self, request: dict[str, Any]) -> dict[str, Any] | None:
        self._count += 1
        name = f"input_{self._count}"
        return self.inputs({name: request})[name]

    def _is_supported(self, request: Mapping[str, Any]) -> bool:
        method = request.get("method")
        if method == FORM:
            return request.get("params", {}).get("mode", "form") in self._can
        return {"sampling/createMessage": "sampling", "roots/list": "roots"}.get(str(method), "") in self._can


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
