"""The approvals and questions of forms in an MCP host, stored so that they can be answered elsewhere first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from hilt.authority.prompting import answer_of
from hilt.authority.questioning import question_json
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.approvals import ApprovalRequest
from hilt.state.questions import Questions
from hilt.surfaces.mcp.attendant import ClientAnswers


class OpenForms:
    """The approval and questions of one call that its client is asked to answer. Its methods block."""

    def __init__(self, runtime: Runtime, session: str, replies: ClientAnswers) -> None:
        self._runtime = runtime
        self._session = session
        self._replies = replies
        self._digest = ""
        self._approval: str | None = None
        self._question: str | None = None

    def open(self, asked: tuple[ApprovalRequest, str] | None, questions: Sequence[Any]) -> None:
        """Store an approval with its digest, and questions, if a user elsewhere is available to answer them."""
        authority, workspace = self._runtime.authority, self._runtime.id
        approvals, seconds = authority.approvals(), authority.settings["approvals.timeout_s"]
        if not approvals.attended(workspace):
            return
        if asked is not None:
            call, self._digest = asked
            self._approval = approvals.ask(workspace, self._session, self._digest, call, seconds=seconds).id
        if questions and self._question is None:
            stored = [question_json(question) for question in questions]
            with closing(Questions(self._runtime.state)) as store:
                self._question = store.ask(workspace, self._session, self._runtime.root, stored, seconds=seconds).id

    @property
    def is_open(self) -> bool:
        """Whether something is stored that can be answered elsewhere."""
        return self._approval is not None or self._question is not None

    def answered_by(self) -> str | None:
        """Return who has answered elsewhere, or None."""
        approvals = self._runtime.authority.approvals()
        if self._approval is not None:
            approval = approvals.find(self._approval)
            return None if approval.state == "pending" else approval.answered_by
        if self._question is not None:
            with closing(Questions(self._runtime.state)) as store:
                question = store.get(self._question)
            return None if question.state == "pending" else question.answered_by
        return None

    def settle(self) -> bool:
        """Store the client's answers; an earlier answer from elsewhere replaces them.

        Return whether everything is answered.
        """
        if self._approval is not None:
            self._settle_approval(self._approval)
        if self._question is not None:
            self._settle_question(self._question)
        return not self.is_open

    def use(self) -> None:
        """Consume the answer to an approval, for a call that continues at once."""
        if self._digest:
            approvals, call = self._runtime.authority.approvals(), (self._runtime.id, self._session, self._digest)
            if not approvals.use_preview(*call):
                approvals.consume_approval(*call)

    def _settle_approval(self, id: str) -> None:
        approvals, answers = self._runtime.authority.approvals(), self._replies.approvals
        answer = answers.get(self._digest)
        if answer is not None:
            try:
                approved = answer.kind != "deny"
                approvals.answer(
                    id,
                    approved=approved,
                    reason=answer.reason,
                    by=answer.by,
                    always=answer.kind == "always",
                    preview=answer.kind == "preview",
                    revokes=False,
                )
            except ToolError:
                answer = None
        if answer is None:
            approval = approvals.find(id)
            if approval.state == "pending":
                return  # nobody has answered
            answers[self._digest] = answer_of(approval)
        self._approval = None

    def _settle_question(self, id: str) -> None:
        replies = self._replies
        with closing(Questions(self._runtime.state)) as store:
            if isinstance(replies.answers, dict) and replies.own_words:
                if store.get(id).state == "pending":
                    return  # another form follows
                answers = None
            else:
                answers = replies.answers
            try:
                if not isinstance(answers, dict):
                    raise ToolError("no_one_to_ask", "The user did not answer.")
                store.answer(id, answers, by=replies.by)
            except ToolError:
                question = store.get(id)
                if question.state == "answered":
                    replies.answers, replies.own_words = question.answers, []
                elif answers is None:
                    return
                else:
                    store.withdraw(id)
        self._question = None

    def close(self) -> None:
        """Withdraw questions that nobody has answered: the call has ended."""
        if self._question is not None:
            with closing(Questions(self._runtime.state)) as store:
                store.withdraw(self._question)
