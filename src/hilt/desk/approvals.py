"""Calls that wait for a person's approval, questions that wait for an answer, and grants.

A person may answer at any of several surfaces: the first answer counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt.authority.elsewhere import first_answer, first_answers, question_json
from hilt.call import ApprovalRequest, Json, UserAnswer
from hilt.formats.times import Moment
from hilt.state.approvals import POLL_SECONDS as POLL_SECONDS
from hilt.state.approvals import Approval as Approval
from hilt.state.approvals import Approvals
from hilt.state.approvals import attend as attend
from hilt.state.questions import ANSWER_CHARACTERS as ANSWER_CHARACTERS
from hilt.state.questions import Questions
from hilt.state.questions import QuestionSet as QuestionSet

if TYPE_CHECKING:
    from hilt.runtime import Runtime
    from hilt.state.approvals import GrantRow

_SECOND = 1_000_000_000


class Grant(NamedTuple):
    """A rule that a person always allows in a folder."""

    id: str
    rule: str
    folder: str | None
    since: Moment
    until: Moment | None
    workspace: str


class FirstAnswer(NamedTuple):
    """The answer that settled an approval."""

    answer: str  # once, always, preview or deny
    reason: str
    by: str
    time: Moment


# --- approvals ------------------------------------------------------------------------------------------------------


def pending(state: str, workspace: str | None = None) -> list[Approval]:
    """Return the calls that wait for approval in one workspace or in all, oldest first."""
    with closing(Approvals(state)) as store:
        return store.pending(workspace)


def find(state: str, id: str) -> Approval:
    """Return the approval with this id or unique id prefix."""
    with closing(Approvals(state)) as store:
        return store.find(id)


def answer(state: str, id: str, answer: UserAnswer, *, seconds: int | None = None, revokes: bool = False) -> Approval:
    """Answer a call that waits; with `revokes`, a denial also revokes an approval that is not used yet.

    The grants of an answer "always" expire after some seconds, if given.
    """
    with closing(Approvals(state)) as store:
        return store.answer(
            id,
            approved=answer.kind != "deny",
            reason=answer.reason,
            by=answer.by,
            always=answer.kind == "always",
            preview=answer.kind == "preview",
            expires=None if seconds is None else time.time_ns() + seconds * _SECOND,
            revokes=revokes,
        )


def settled_by(approval: Approval) -> FirstAnswer | None:
    """Return the answer that settled an approval; None if it expired without one."""
    if approval.answered_at is None:
        return None
    kind = approval.answer or ("deny" if approval.state == "denied" else "once")
    return FirstAnswer(kind, approval.reason, approval.answered_by, Moment(approval.answered_at))


# --- questions ------------------------------------------------------------------------------------------------------


def pending_questions(state: str, workspace: str | None = None) -> list[QuestionSet]:
    """Return the questions that wait for an answer in one workspace or in all, oldest first."""
    with closing(Questions(state)) as store:
        return store.pending(workspace)


def find_questions(state: str, id: str) -> QuestionSet:
    """Return the questions with this id."""
    with closing(Questions(state)) as store:
        return store.get(id)


def answer_questions(state: str, id: str, answers: Mapping[str, Json], *, by: str) -> QuestionSet:
    """Answer questions that wait; raise busy if they do not wait any more."""
    with closing(Questions(state)) as store:
        return store.answer(id, answers, by=by)


# --- what a surface asks the person itself, and others may answer first ---------------------------------------------


def offer(runtime: Runtime, session: str, asked: ApprovalRequest, digest: str) -> str | None:
    """Store a call for approval if a person elsewhere is available to answer, and return its id."""
    approvals, seconds = runtime.parts.authority.approvals(), runtime.settings["approvals.timeout_s"]
    if not approvals.attended():
        return None
    return approvals.ask(runtime.parts.id, session, digest, asked, seconds=seconds).id


def offer_questions(runtime: Runtime, session: str, questions: Sequence[Any]) -> str | None:
    """Store questions if a person elsewhere is available to answer, and return their id."""
    if not runtime.parts.authority.approvals().attended():
        return None
    stored, seconds = [question_json(question) for question in questions], runtime.settings["approvals.timeout_s"]
    with closing(Questions(runtime.parts.state)) as store:
        return store.ask(runtime.parts.id, session, runtime.parts.root, stored, seconds=seconds).id


def settle(state: str, id: str, given: UserAnswer | None) -> UserAnswer | None:
    """Store the answer given here unless there is another; return the first answer, None if there is none yet."""
    with closing(Approvals(state)) as store:
        return first_answer(store, id, given)


def settle_questions(state: str, id: str, given: dict[str, Json] | None, *, by: str) -> dict[str, Json] | None:
    """Store the answers given here unless there are others; return the first answers, None if there are none yet."""
    with closing(Questions(state)) as store:
        return first_answers(store, id, given, by=by)


def consume(runtime: Runtime, session: str, digest: str) -> None:
    """Consume the answer to a call that continues at once."""
    approvals, call = runtime.parts.authority.approvals(), (runtime.parts.id, session, digest)
    if approvals.consume_approval(*call, "preview") is None:
        approvals.consume_approval(*call)


def withdraw_questions(state: str, id: str) -> None:
    """End questions whose call no longer waits."""
    with closing(Questions(state)) as store:
        store.withdraw(id)


# --- grants ---------------------------------------------------------------------------------------------------------


def grants(state: str, workspace: str | None = None) -> list[Grant]:
    """Return the grants of one workspace or of all, oldest first."""
    with closing(Approvals(state)) as store:
        return list(map(_grant, store.grants(workspace)))


def revoke(state: str, id: str) -> Grant:
    """Delete the grant with this id or unique id prefix, and return it."""
    with closing(Approvals(state)) as store:
        return _grant(store.revoke(id))


def _grant(grant: GrantRow) -> Grant:
    until = None if grant.expires_at is None else Moment(grant.expires_at)
    return Grant(grant.id, grant.rule, grant.folder or None, Moment(grant.at), until, grant.workspace)
