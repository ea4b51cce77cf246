"""One tools/call: from its submission, through the questions that its client answers, to its response.

A call runs on the runtime's threads, and occupies none while its client answers.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hilt.active_call import ActiveCall
from hilt.call import ApprovalRequest, Call, Result
from hilt.desk import approvals
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import ClientAnswers, ClientAttendant, Responses
from hilt.surfaces.mcp.content import call_answer
from hilt.surfaces.mcp.plain import TASKS, Client
from hilt.surfaces.mcp.sessions import Session

if TYPE_CHECKING:
    from hilt.surfaces.mcp.attendant import Wait

ROUNDS_MAX = 1000  # calls that wait for the client's next request
ROUND_SECONDS = 600.0

INVALID_PARAMS = -32602
MISSING_CAPABILITY = -32021


class Failure(NamedTuple):
    """A protocol error, which the client gets instead of a result."""

    code: int
    message: str
    data: Any = None


Outcome = dict[str, Any] | Failure


class Follower(Protocol):
    """What a call reports to, from any thread."""

    def asked(self) -> None:
        """Let the client answer the questions of the call, which waits."""

    def ended(self) -> None:
        """Respond with the outcome of the call."""

    def send(self, kind: str, values: tuple[Any, ...]) -> None:
        """Pass on progress, or a log message."""


class ClientCall:
    """One call of a client. Used from many threads."""

    def __init__(
        self,
        runtime: Runtime,
        session: Session,
        call: Call,
        client: Client,
        follower: Follower,
        *,
        approves: bool = True,
        wait: Wait | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a call, which `start` runs.

        `wait` asks the client and waits, for questions in the middle of a run. `inputs` are answers that the client has
        sent with the call. Only a client that `approves` is asked for approvals.
        """
        self.session = session
        self.call = call
        self.attendant = ClientAttendant(
            client,
            alone=session.alone,
            approves=approves,
            send=self._send,
            wait=None if wait is None else partial(self._wait, wait),
            open_forms=self._forms_of,
        )
        self.attendant.answers.inputs.update(inputs or {})
        self._runtime = runtime
        self.forms = self._forms_of(None, self.attendant.answers)
        self._follower = follower
        self._lock = threading.Lock()
        self._running: ActiveCall | None = None
        self._error: ToolError | None = None  # with which the call was ended
        self._is_asking = False
        self._result: Result | None = None

    def start(self) -> None:
        """Start the call."""
        self._runtime.submit(self.call, self._ended, began=self._began, attendant=self.attendant)

    def follow(self, follower: Follower) -> bool:
        """Report to another follower; return False if there is already something to report."""
        with self._lock:
            if self._is_asking or self._result is not None:
                return False
            self._follower = follower
            return True

    def answer(self, responses: Responses, follower: Follower | None = None) -> None:
        """Continue with these answers and those given elsewhere, perhaps with another follower.

        None as an answer means that the client declares forms, but does not answer them.
        """
        attendant = self.attendant
        attendant.take(responses)
        try:
            if self.forms.is_open:
                self.forms.settle()
        except ToolError as error:
            self.end(error)
        self.session.alone = self.session.alone or None in attendant.answers.approvals.values()
        attendant.proceed(alone=self.session.alone, fills_forms=None not in responses.values())
        with self._lock:
            self._is_asking = False
            self._follower = follower or self._follower
            has_ended = self._result is not None
        if has_ended and follower is not None:
            follower.ended()
        elif self._running is not None:
            self._running.resume()

    def end(self, error: ToolError | None = None) -> None:
        """End the call with an error, by default because it was cancelled; not if it is already committing."""
        with self._lock:
            self._error = error or ToolError("cancelled", f"The call of {self.call.tool} was cancelled.")
            running = self._running
        if running is not None:
            running.give_up(self._error)

    @property
    def sets_mode(self) -> bool:
        """Whether the tool may have changed the mode of the session."""
        prepared = None if self._running is None else self._running.prepared
        return prepared is not None and prepared.tool.traits.sets_mode

    @property
    def was_cancelled(self) -> bool:
        """Whether the call has ended because it was cancelled."""
        error = None if self._result is None else self._result.error
        return error is not None and error.code == "cancelled"

    def outcome(self, *, modern: bool) -> Outcome:
        """Return the response to the call, which has ended."""
        running, result, missing = self._running, self._result, self.attendant.missing
        assert result is not None  # noqa: S101
        if missing is not None and modern:
            return missing_capability(missing)
        prepared = None if running is None else running.prepared
        # an unknown name in the arguments of tool_call is the model's error, not the client's
        is_forwarded = running is not None and bool(running.call.through)
        if result.error is not None and result.error.code == "unknown_tool" and prepared is None and not is_forwarded:
            similar = result.error.message.partition(". ")[2]
            return Failure(
                INVALID_PARAMS, f"Unknown tool: {self.call.tool[:100]}" + (f". {similar}" if similar else "")
            )
        return call_answer(self.session, self.call, result, prepared)

    # --- called by the runtime ------------------------------------------------------------------------------------

    def _began(self, running: ActiveCall) -> None:
        running.asked = self._asked
        with self._lock:
            self._running, error = running, self._error
        if error is not None:
            running.give_up(error)

    def _asked(self) -> None:
        attendant, unanswered = self.attendant, None if self._running is None else self._running.unanswered
        attendant.sent("" if unanswered is None else str(unanswered.details.get("apply", "")))
        with suppress(ToolError):  # the client is still asked
            self.forms.open(attendant.asked, attendant.questions)
        with self._lock:
            self._is_asking = True
            follower = self._follower
        follower.asked()

    def _ended(self, result: Result) -> None:
        if self.forms.is_open:
            with suppress(ToolError):  # it expires
                self.forms.close()
        with self._lock:
            self._result = result
            follower = self._follower
        follower.ended()

    def _send(self, kind: str, values: tuple[Any, ...]) -> None:
        self._follower.send(kind, values)

    def _wait(self, wait: Wait, requests: Mapping[str, Any], forms: OpenForms | None) -> Responses:
        """Ask the client and wait, on a thread of the runtime; this does not count towards the tool's timeout."""
        if self._error is not None:
            raise ToolError("cancelled", "The call was cancelled.")
        running, started = self._running, time.perf_counter()
        assert running is not None  # noqa: S101
        deadline, running.deadline = running.deadline, float("inf")
        try:
            return wait(requests, forms)
        finally:
            running.deadline = deadline + time.perf_counter() - started

    def _forms_of(self, session: str | None, answers: ClientAnswers) -> OpenForms:
        return OpenForms(self._runtime, session or self.call.session or self._runtime.session, answers)


class OpenForms:
    """The approval and questions of one call, stored so that they can be answered elsewhere first.

    Its methods block.
    """

    def __init__(self, runtime: Runtime, session: str, answers: ClientAnswers) -> None:
        self._runtime = runtime
        self._session = session
        self._answers = answers
        self._digest = ""
        self._approval: str | None = None
        self._questions: str | None = None

    def open(self, asked: tuple[ApprovalRequest, str] | None, questions: Sequence[Any]) -> None:
        """Store an approval with its digest, and questions, if a user elsewhere is available to answer them."""
        if asked is not None and (id := approvals.offer(self._runtime, self._session, *asked)) is not None:
            self._approval, self._digest = id, asked[1]
        if questions and self._questions is None:
            self._questions = approvals.offer_questions(self._runtime, self._session, questions)

    @property
    def is_open(self) -> bool:
        """Whether something is stored that can be answered elsewhere."""
        return self._approval is not None or self._questions is not None

    def answered_by(self) -> str | None:
        """Return who has answered elsewhere, or None."""
        state = self._runtime.parts.state
        if self._approval is not None:
            approval = approvals.find(state, self._approval)
            return None if approval.state == "pending" else approval.answered_by
        if self._questions is not None:
            questions = approvals.find_questions(state, self._questions)
            return None if questions.state == "pending" else questions.answered_by
        return None

    def settle(self) -> bool:
        """Store the client's answers; an earlier answer from elsewhere replaces them.

        Return whether everything is answered.
        """
        state, answers = self._runtime.parts.state, self._answers
        if self._approval is not None:
            answer = approvals.settle(state, self._approval, answers.approvals.get(self._digest))
            if answer is not None:
                answers.approvals[self._digest] = answer
                self._approval = None
        if self._questions is not None:
            self._settle_questions(self._questions)
        return not self.is_open

    def use(self) -> None:
        """Consume the answer to an approval, for a call that continues at once."""
        if self._digest:
            approvals.consume(self._runtime, self._session, self._digest)

    def _settle_questions(self, id: str) -> None:
        state, answers = self._runtime.parts.state, self._answers
        given = answers.to_questions if isinstance(answers.to_questions, dict) and not answers.own_words else None
        settled = approvals.settle_questions(state, id, given, by=answers.by)
        if settled is not None:
            answers.to_questions, answers.own_words = settled, []
            self._questions = None
        elif given is not None or isinstance(answers.to_questions, ToolError):
            self.close()
            self._questions = None

    def close(self) -> None:
        """Withdraw questions that nobody has answered: the call has ended."""
        if self._questions is not None:
            approvals.withdraw_questions(self._runtime.parts.state, self._questions)


# --- calls that continue with another request -----------------------------------------------------------------------


class Round(NamedTuple):
    """A call that waits for the client's next request."""

    call: ClientCall
    key: str
    until: float


class Rounds:
    """Calls that continue with the client's next request, by a secret that is valid once. Used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Round] = {}

    def keep(self, call: ClientCall) -> dict[str, Any]:
        """Store a call, and return the result that asks its questions."""
        import secrets

        now = time.monotonic()
        self.end(before=now)
        state = secrets.token_urlsafe(24)
        with self._lock:
            excess = [self._open.pop(next(iter(self._open)))] if len(self._open) >= ROUNDS_MAX else []
            self._open[state] = Round(call, _key(call.call.tool, call.call.args), now + ROUND_SECONDS)
        _give_up(excess)
        return {"resultType": "input_required", "inputRequests": call.attendant.needs, "requestState": state}

    def take(self, state: str, tool: str, arguments: Any, session: str | None) -> ClientCall | Failure:
        """Return the call that a request continues, which must be the same call in the same session."""
        with self._lock:
            kept = self._open.get(state)
            if (
                kept is None
                or kept.key != _key(tool, arguments)
                or kept.until < time.monotonic()
                or session not in (None, kept.call.session.name)
            ):
                data = {"reason": "invalid_request_state"}
                return Failure(INVALID_PARAMS, "Invalid or expired requestState", data)
            del self._open[state]
        return kept.call

    def end(self, before: float = float("inf")) -> None:
        """End the calls that expired before this time: nobody will answer them."""
        with self._lock:
            expired = [self._open.pop(state) for state, kept in list(self._open.items()) if kept.until < before]
        _give_up(expired)


def _give_up(rounds: Sequence[Round]) -> None:
    for kept in rounds:
        kept.call.end(ToolError("approval_timeout", "The client did not answer in time."))


def _key(tool: str, arguments: Any) -> str:
    return json.dumps([tool, arguments], sort_keys=True)


def missing_capability(capability: str) -> Failure:
    """Return the error for a client that lacks a capability."""
    message = f"The call needs a client with the capability {capability}"
    required: dict[str, Any] = {capability: {}} if capability != "tasks" else {"extensions": {TASKS: {}}}
    return Failure(MISSING_CAPABILITY, message, {"requiredCapabilities": required})
