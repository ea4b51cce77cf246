"""Questions of a tool that another process answers, such as the console of `hilt serve`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from hilt.authority.authority import Authority
from hilt.authority.prompting import QuestionUntil, ask_questions
from hilt.context import Context
from hilt.errors import ToolError
from hilt.state.questions import Questions


def ask_elsewhere(
    authority: Authority, ctx: Context, questions: Sequence[Any], ask_until: QuestionUntil | None = None
) -> dict[str, Any]:
    """Store the questions, wait while a user is available to answer, and return the answers by question.

    With `ask_until`, the user at this process is asked too.
    """
    place = authority.place
    if not authority.approvals().attended(place.id):
        raise _nobody()
    stored_questions = [question_json(question) for question in questions]
    with closing(Questions(place.state)) as store:
        seconds = authority.settings["approvals.timeout_s"]
        pending = store.ask(place.id, ctx.session, place.root, stored_questions, seconds=seconds)

        def pause(seconds: float) -> None:
            ctx.fence.check()
            if not authority.approvals().attended(place.id):
                raise _nobody()
            time.sleep(seconds)

        try:
            if ask_until is not None:
                answers = ask_questions(ask_until, questions, store, pending, ctx.fence)
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
