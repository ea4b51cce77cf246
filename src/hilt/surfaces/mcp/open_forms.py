"""The approvals and questions of forms in an MCP host, stored so that they can be answered elsewhere first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilt.call import ApprovalRequest
from hilt.desk import approvals
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import ClientAnswers


class OpenForms:
    """The approval and questions of one call that its client is asked to answer. Its methods block."""

    def __init__(self, runtime: Runtime, session: str, replies: ClientAnswers) -> None:
        self._runtime = runtime
        self._session = session
        self._replies = replies
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
        state, replies = self._runtime.parts.state, self._replies
        if self._approval is not None:
            answer = approvals.settle(state, self._approval, replies.approvals.get(self._digest))
            if answer is not None:
                replies.approvals[self._digest] = answer
                self._approval = None
        if self._questions is not None:
            self._settle_questions(self._questions)
        return not self.is_open

    def use(self) -> None:
        """Consume the answer to an approval, for a call that continues at once."""
        if self._digest:
            approvals.consume(self._runtime, self._session, self._digest)

    def _settle_questions(self, id: str) -> None:
        state, replies = self._runtime.parts.state, self._replies
        given = replies.answers if isinstance(replies.answers, dict) and not replies.own_words else None
        answers = approvals.settle_questions(state, id, given, by=replies.by)
        if answers is not None:
            replies.answers, replies.own_words = answers, []
            self._questions = None
        elif given is not None or isinstance(replies.answers, ToolError):
            self.close()
            self._questions = None

    def close(self) -> None:
        """Withdraw questions that nobody has answered: the call has ended."""
        if self._questions is not None:
            approvals.withdraw_questions(self._runtime.parts.state, self._questions)
