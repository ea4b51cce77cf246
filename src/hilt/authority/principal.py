"""On whose behalf a call runs: its session's mode and values, and the user who answers questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hilt.authority.authority import MODE, PANIC, Authority
from hilt.call import Call, Json, Questioner
from hilt.context import Context
from hilt.declaration import Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.hooks import Hooks


class SessionPrincipal:
    """The session and the user that one call works for."""

    def __init__(
        self,
        authority: Authority,
        ctx: Context,
        call: Call,
        questioner: Questioner | None,
        note_approver: Callable[[str], None],
    ) -> None:
        self._authority = authority
        self._note_approver = note_approver
        self._ctx = ctx
        self._call = call
        self._questioner = questioner

    @property
    def mode(self) -> str:
        """The mode of the session."""
        return self._authority.mode(self._ctx.session)

    @property
    def values(self) -> Values:
        """The values stored in the session."""
        return Values(self._authority, self._ctx.session)

    @property
    def hooks(self) -> Hooks:
        """The hooks of the session."""
        return self._authority.session_hooks().of(self._ctx)

    @property
    def can_ask(self) -> bool:
        """Whether a user is available to approve something."""
        return self.mode not in ("yolo", "scheduler") and self._authority.consent().can_ask(self._ctx)

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session; None restores the mode from the settings."""
        self.values.set(MODE, mode)

    def hidden(self, tool: Tool) -> str | None:
        """Return why a tool is hidden: the mode, the profile, or a missing user or display; None if it is not."""
        from hilt.authority.visibility import lacks_display, lacks_person

        authority, attendant = self._authority, self._ctx.attendant
        asks = attendant is None or attendant.can_ask
        lacks = lacks_person(authority, tool, client_asks=asks) or lacks_display(authority, tool)
        return authority.hidden(tool, self._ctx.session) or lacks

    def ask(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Ask the user and return the answers by question."""
        from hilt.authority.consent import marked

        attendant = self._ctx.attendant
        prefixed = [
            question._replace(question=marked(self._authority, self._ctx, question.question)) for question in questions
        ]
        answers = None if attendant is None else attendant.ask(prefixed)
        if answers is None:
            answers = self._ask_person(prefixed)
        originals = {new.question: old.question for new, old in zip(prefixed, questions, strict=True)}
        return {originals.get(text, text): answer for text, answer in answers.items()}

    def _ask_person(self, questions: Sequence[Any]) -> dict[str, Any]:
        authority, questioner = self._authority, self._questioner
        ask_until = getattr(questioner, "ask_until", None)  # of prompts that can be interrupted
        if questioner is not None and ask_until is None:
            return questioner(questions)
        from hilt.authority.elsewhere import ask_elsewhere, ask_here

        if ask_until is not None and not authority.approvals().attended():
            answers: dict[str, Any] = ask_here(ask_until, questions, self._ctx.fence)
            return answers
        return ask_elsewhere(authority, self._ctx, questions, ask_until)

    def approve(self, summary: str, **facts: Any) -> None:
        """Ask the user for approval; raise unless they approve."""
        from hilt.authority.consent import approve_summary

        by = approve_summary(self._authority, self._call.tool, summary, self._ctx, self._call, facts)
        self._note_approver(by)


class SessionPanic:
    """Whether the user has pressed the panic key in a session or in one above it."""

    def __init__(self, authority: Authority, session: str) -> None:
        self._authority = authority
        self._sessions = authority.lineage(session)
        self._pressed = False

    def is_set(self) -> bool:
        """Whether the desktop is closed to the session."""
        return self._pressed or any(self._authority.stored_values(session).get(PANIC) for session in self._sessions)

    def set(self) -> None:
        """Close the desktop to the session and to those above it."""
        self._pressed = True
        for session in self._sessions:
            Values(self._authority, session).set(PANIC, value=True)


class Values:
    """The values stored in one session."""

    def __init__(self, authority: Authority, session: str) -> None:
        self._authority = authority
        self._session = session

    def get(self, key: str) -> Json:
        """Return a value, or None."""
        return self._authority.values().get(self._authority.place.id, self._session, key)

    def set(self, key: str, value: Json) -> None:
        """Store a value; None removes it."""
        self._authority.values().set(self._authority.place.id, self._session, key, value)
