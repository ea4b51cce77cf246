"""Approvals and questions that another process, such as a console, may answer, and may answer first."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.state.approvals import POLL_SECONDS, Approval, Approvals
from hilt.state.questions import Questions, QuestionSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.authority import Authority
    from hilt.context import Context

# ask the user at this process until a descriptor becomes readable, which contains who has answered elsewhere
AskUntil = Callable[[ApprovalRequest, int], UserAnswer]
QuestionUntil = Callable[[Sequence[Any], int], dict[str, Any]]

NOTE_SECONDS = 1.0  # for a prompt to report who has answered

T = TypeVar("T")


def ask_here(ask_until: Callable[[Any, int], T], asked: Any, fence: Fence) -> T:
    """Ask the user at this process only; the prompt ends when the call is cancelled."""
    answer = _first(lambda settled: ask_until(asked, settled), lambda: None, fence)
    if answer is None:
        raise _nobody()
    return answer


def ask_both(ask_until: AskUntil, approvals: Approvals, pending: Approval, fence: Fence) -> UserAnswer:
    """Ask the user here about a pending approval; return the first answer, given here or elsewhere."""

    def look() -> str | None:
        now = approvals.find(pending.id)
        return None if now.state == "pending" else now.answered_by

    given = _first(lambda settled: ask_until(pending.asked, settled), look, fence)
    return first_answer(approvals, pending.id, given) or UserAnswer("deny", "Nobody answered.")


def _ask_questions(
    ask_until: QuestionUntil, questions: Sequence[Any], store: Questions, pending: QuestionSet, fence: Fence
) -> dict[str, Any] | None:
    """Ask the user here; return the first answers, given here or elsewhere, or None if there are none."""

    def look() -> str | None:
        now = store.get(pending.id)
        return None if now.state == "pending" else now.answered_by

    given = _first(lambda settled: ask_until(questions, settled), look, fence)
    return first_answers(store, pending.id, given, by="terminal")


def ask_elsewhere(
    authority: Authority, ctx: Context, questions: Sequence[Any], ask_until: QuestionUntil | None = None
) -> dict[str, Any]:
    """Store the questions, wait while a user is available to answer, and return the answers by question.

    With `ask_until`, the user at this process is asked too.
    """
    place = authority.place
    if not authority.approvals().attended():
        raise _nobody()
    stored_questions = [question_json(question) for question in questions]
    with closing(Questions(place.state)) as store:
        seconds = authority.settings["approvals.timeout_s"]
        pending = store.ask(place.id, ctx.session, place.root, stored_questions, seconds=seconds)

        def pause(seconds: float) -> None:
            ctx.fence.check()
            if not authority.approvals().attended():
                raise _nobody()
            time.sleep(seconds)

        try:
            if ask_until is not None:
                answers = _ask_questions(ask_until, questions, store, pending, ctx.fence)
            else:
                settled = store.wait(pending.id, pause)
                answers = settled.answers if settled.state == "answered" else None
        finally:
            store.withdraw(pending.id)
    if answers is not None:
        return answers
    raise ToolError("no_one_to_ask", f"Nobody answered within {seconds} s.")


def question_json(question: Any) -> dict[str, Any]:
    """Return a question as it is stored."""
    options = [{"label": option.label, "description": option.description} for option in question.options]
    return {**question._asdict(), "options": options}


def _nobody() -> ToolError:
    return ToolError("no_one_to_ask", "Nobody is available to answer.")


def _first(ask: Callable[[int], T], look: Callable[[], str | None], fence: Fence) -> T | None:
    """Return the answer of the user here; None if `look` returns first who has answered elsewhere."""
    answers: SimpleQueue[T | BaseException] = SimpleQueue()
    settled, settle = os.pipe()

    def prompt() -> None:
        try:
            answers.put(ask(settled))
        except BaseException as error:  # noqa: BLE001 -- raised again below
            answers.put(error)
        finally:
            os.close(settled)

    thread = threading.Thread(target=prompt, name="hilt-prompt", daemon=True)
    thread.start()
    try:
        while True:
            try:
                answer = answers.get(timeout=POLL_SECONDS)
            except Empty:
                fence.check()
                by = look()
                if by is not None:
                    os.write(settle, by.encode("utf-8", "replace")[:1000])
                    return None
                continue
            if isinstance(answer, BaseException):
                raise answer
            return answer
    finally:
        os.close(settle)  # ends the prompt
        thread.join(NOTE_SECONDS)


def first_answer(approvals: Approvals, id: str, given: UserAnswer | None) -> UserAnswer | None:
    """Store the answer given here unless there is another; return the first answer, None if there is none yet."""
    if given is not None:
        try:
            approvals.answer(
                id,
                approved=given.kind != "deny",
                always=given.kind == "always",
                preview=given.kind == "preview",
                reason=given.reason,
                by=given.by,
                revokes=False,
            )
        except ToolError:
            pass  # answered elsewhere first
        else:
            return given
    approval = approvals.find(id)
    if approval.state == "pending":
        return None
    if approval.state == "expired":
        return UserAnswer("deny", "Nobody answered in time.", approval.answered_by)
    # the grants of "always" are already stored
    kind = {"denied": "deny", "preview": "preview"}.get(approval.state, "once")
    return UserAnswer(kind, approval.reason, approval.answered_by)


def first_answers(store: Questions, id: str, given: dict[str, Any] | None, *, by: str) -> dict[str, Any] | None:
    """Store the answers given here unless there are others; return the first answers, None if there are none."""
    if given is not None:
        try:
            store.answer(id, given, by=by)
        except ToolError:
            pass  # answered elsewhere first
        else:
            return given
    questions = store.get(id)
    return questions.answers if questions.state == "answered" else None
