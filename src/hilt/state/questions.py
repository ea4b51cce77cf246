"""Questions of tools to the user, in state.db: any process may ask, and any that can prompt the user may answer.

A question is pending while its call waits. Every state change is one transaction: the first of two answers wins.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from hilt.call import Json
from hilt.errors import ToolError
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

PENDING_MAX = {"session": 100, "workspace": 300, "user": 1000}  # callers choose the names of sessions
ANSWER_CHARACTERS = 8_000  # of one answer
POLL_SECONDS = 0.25  # how often to check for the answer of another process
KEPT_SECONDS = 86_400  # how long settled questions are kept, to report who answered

_SECOND = 1_000_000_000
_COLUMNS = "id, workspace, session, state, answered_by, asked_at, answered_at, expires_at, folder, asked, answers"

State = Literal["pending", "answered", "withdrawn", "expired"]


class QuestionSet(NamedTuple):
    """The questions of one call, and their answers; times in nanoseconds since 1970."""

    id: str
    workspace: str
    session: str
    state: State
    answered_by: str
    asked_at: int
    answered_at: int | None
    expires_at: int
    folder: str
    questions: list[dict[str, Json]]
    answers: dict[str, Json]


class Questions:
    """The questions of all workspaces of a user. Safe to use from many processes."""

    def __init__(self, directory: str) -> None:
        self._db = open_state(directory)

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self._db.close()

    def ask(
        self, workspace: str, session: str, folder: str, questions: Sequence[Mapping[str, Json]], *, seconds: float
    ) -> QuestionSet:
        """Store the questions of a call; they expire after some seconds."""
        now, id = time.time_ns(), os.urandom(6).hex()
        row = (id, workspace, session, "pending", "", now, None, now + int(seconds * _SECOND))

        def work(db: sqlite3.Connection) -> QuestionSet:
            db.execute("DELETE FROM questions WHERE expires_at<?", (now - KEPT_SECONDS * _SECOND,))
            query = (
                "SELECT sum(workspace=? AND session=?), sum(workspace=?), count(*) FROM questions "
                "WHERE state='pending' AND expires_at>?"
            )
            counts = db.execute(query, (workspace, session, workspace, now)).fetchone()
            for (owner, limit), count in zip(PENDING_MAX.items(), counts, strict=True):
                if (count or 0) >= limit:
                    raise ToolError(
                        "limit_exceeded",
                        f"{limit} questions of this {owner} are already pending.",
                        suggestion="Wait until the user has answered some of them.",
                    )
            values = (*row, _storable(folder), json.dumps(list(questions)), "{}")
            db.execute(f"INSERT INTO questions ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", values)  # noqa: S608  # constants only
            return _get(db, id)

        return self._db.write(work)

    def get(self, id: str) -> QuestionSet:
        """Return the questions with this id."""
        if not self._db.exists():
            raise _unknown(id)
        return self._db.read(lambda db: _get(db, id))

    def pending(self, workspace: str | None = None) -> list[QuestionSet]:
        """Return the pending questions of one workspace or of all, oldest first."""
        condition, values = ("workspace=? AND ", [workspace]) if workspace is not None else ("", [])
        questions = self._select(condition + "state='pending' ORDER BY asked_at, rowid", values)
        return [question for question in questions if question.state == "pending"]

    def wait(self, id: str, pause: Callable[[float], object]) -> QuestionSet:
        """Wait until the questions are settled; `pause` is called between checks and may raise."""
        while (question := self.get(id)).state == "pending":
            pause(POLL_SECONDS)
        return question

    def answer(self, id: str, answers: Mapping[str, Json], *, by: str) -> QuestionSet:
        """Store the answers; raise busy if the question is no longer pending."""
        return self._settle(id, "answered", answers, by)

    def withdraw(self, id: str) -> None:
        """End a question whose call no longer waits."""
        now = time.time_ns()
        query = "UPDATE questions SET state='withdrawn', answered_at=? WHERE id=? AND state='pending'"
        self._db.write(lambda db: db.execute(query, (now, id)))

    def _settle(self, id: str, state: State, answers: Mapping[str, Json], by: str) -> QuestionSet:
        now = time.time_ns()

        def work(db: sqlite3.Connection) -> QuestionSet:
            question = _get(db, id, now)
            if question.state != "pending":
                raise ToolError(
                    "busy",
                    f"The question {id} is not pending: it is {question.state}.",
                    suggestion="Reload the questions.",
                )
            db.execute(
                "UPDATE questions SET state=?, answers=?, answered_by=?, answered_at=? WHERE id=?",
                (state, json.dumps(dict(answers)), by, now, id),
            )
            return _get(db, id, now)

        return self._db.write(work)

    def _select(self, condition: str, values: Sequence[object]) -> list[QuestionSet]:
        now = time.time_ns()
        query = f"SELECT {_COLUMNS} FROM questions WHERE {condition}"  # noqa: S608  # constants only
        return [_read(row, now) for row in self._db.rows(query, values)]


def _get(db: sqlite3.Connection, id: str, now: int | None = None) -> QuestionSet:
    row = db.execute(f"SELECT {_COLUMNS} FROM questions WHERE id=?", (id,)).fetchone()  # noqa: S608  # constants only
    if row is None:
        raise _unknown(id)
    return _read(row, time.time_ns() if now is None else now)


def _read(row: Sequence[object], now: int) -> QuestionSet:
    question = QuestionSet(*row)  # type: ignore[arg-type]
    question = question._replace(
        questions=json.loads(question.questions),  # type: ignore[arg-type]
        answers=json.loads(question.answers),  # type: ignore[arg-type]
    )
    if question.state == "pending" and question.expires_at <= now:
        return question._replace(state="expired")
    return question


def _unknown(id: str) -> ToolError:
    return ToolError("not_found", f"There is no question {id[:40]!r}.", suggestion="Reload the questions.")


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
