"""A prompt in this process that somebody at another process, such as a console, may answer first."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.state.approvals import POLL_SECONDS, Approval, Approvals, Asked, UserAnswer

AskUntil = Callable[[Asked, int], UserAnswer]  # asks a person who is present, until a descriptor becomes readable


def ask_both(ask_until: AskUntil, approvals: Approvals, pending: Approval, fence: Fence) -> UserAnswer:
    """Ask the person here about a pending approval, and return the first answer, theirs or somebody else's."""
    answers: SimpleQueue[UserAnswer | BaseException] = SimpleQueue()
    settled, settle = os.pipe()

    def prompt() -> None:
        try:
            answers.put(ask_until(pending.asked, settled))
        except BaseException as error:  # noqa: BLE001 -- raised again below
            answers.put(error)
        finally:
            os.close(settled)

    threading.Thread(target=prompt, name="hilt-prompt", daemon=True).start()
    try:
        while True:
            try:
                answer = answers.get(timeout=POLL_SECONDS)
            except Empty:
                fence.check()
                now = approvals.find(pending.id)
                if now.state != "pending":
                    return _of_other(now)
                continue
            if isinstance(answer, BaseException):
                raise answer
            return _of_person(approvals, pending, answer)
    finally:
        os.close(settle)  # ends the prompt


def _of_person(approvals: Approvals, pending: Approval, answer: UserAnswer) -> UserAnswer:
    """Store the answer that was given here, unless somebody was faster."""
    try:
        approvals.answer(
            pending.id,
            approved=answer.kind != "deny",
            preview=answer.kind == "preview",
            reason=answer.reason,
            by=answer.by or "terminal",
            revokes=False,
        )
    except ToolError:
        return _of_other(approvals.find(pending.id))
    return answer


def _of_other(approval: Approval) -> UserAnswer:
    if approval.state == "expired":
        return UserAnswer("deny", "Nobody answered in time.", approval.answered_by)
    # what "always" stores is stored already
    kind = {"denied": "deny", "preview": "preview"}.get(approval.state, "once")
    return UserAnswer(kind, approval.reason, approval.answered_by)
