"""Approvals and grants in state.db: questions, a person's answers, and the rules they always allow.

An approval is bound to one exact call, can be used once, and expires. It is valid in the session that asked; if that
session ends with its connection, also in the next one. Every state change is a single transaction, so that only one of
two racing processes wins. A surface marks its process for as long as it can prompt a person.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Literal, NamedTuple

from hilt.call import ApprovalRequest, Json, ShownFile
from hilt.call import UserAnswer as UserAnswer  # askers in users' code import it from here
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.places import command
from hilt.state.locks import ProcessMark, living_marks
from hilt.state.stored_runs import NoteRun, no_note
from hilt.state.tables import is_id_prefix, open_state, with_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

# so that a model cannot fill the disk or a person's screen; callers choose the names of sessions and their own
PENDING_MAX = {"session": 100, "calling program": 200, "workspace": 300, "user": 1000}
STORED_BYTES = 64 << 20  # of all pending calls together, and of the settled ones that are kept
KEPT_DAYS = 7  # how long settled approvals are kept for review
POLL_SECONDS = 0.25  # how often to check for the answer of another process
REASON_CHARACTERS = 2000
CONNECTION = "mcp-"  # prefix of sessions that end with their connection; the client then reconnects as a new one

State = Literal["pending", "approved", "preview", "denied", "used", "expired"]

_SECOND = 1_000_000_000
_ATTENDING = "attending"  # folder with the marks of processes that can prompt a person


class Approval(NamedTuple):
    """A question to a person and its answer; times are nanoseconds since the epoch."""

    id: str
    workspace: str
    session: str
    digest: str
    asked: ApprovalRequest
    state: State
    reason: str  # the person's
    answered_by: str
    asked_at: int
    answered_at: int | None
    expires_at: int  # until when it can be answered; once approved, until when it can be used
    answer: str = ""  # once, always, preview or deny


_COLUMNS = ", ".join(Approval._fields)


class GrantRow(NamedTuple):
    """A rule that a person always allows in one workspace."""

    id: str
    workspace: str
    rule: str
    folder: str  # of the workspace, for display
    granted_by: str
    at: int
    expires_at: int | None


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def call_digest(tool: str, args: Mapping[str, Json], files: Mapping[str, bytes | None]) -> str:
    """Return the digest that binds an approval to a call: tool, arguments, and hashes of the files it would change.

    The hash of a missing file is None.
    """
    hashes = {path: None if hash is None else hash.hex() for path, hash in files.items()}
    try:
        text = _CANONICAL([tool, args, hashes])
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            "invalid_args", f"The arguments of {tool} are not valid JSON and cannot be approved."
        ) from error
    return sha256(text.encode()).hex()


class Approvals:
    """The approvals and grants of all workspaces of a user. Safe to use from many processes."""

    def __init__(self, directory: str, note_run: NoteRun = no_note) -> None:
        self._db = open_state(directory)
        self.close = self._db.close
        self._note_run = note_run
        self._attending = os.path.join(directory, _ATTENDING)

    # --- asking ---------------------------------------------------------------------------------------------------

    def ask(self, workspace: str, session: str, digest: str, asked: ApprovalRequest, *, seconds: float) -> Approval:
        """Store a question that expires after some seconds; if the call is already pending, return that approval.

        If it was pending for another reason, that approval expires: a person answers only what holds now.
        """
        now, note = time.time_ns(), self._note_run(session)
        new = Approval(
            os.urandom(6).hex(),
            workspace,
            session,
            digest,
            asked,
            "pending",
            "",
            "",
            now,
            None,
            now + int(seconds * _SECOND),
        )

        def work(db: sqlite3.Connection) -> Approval:
            _expire(db, now)
            for approval in _select(db, "workspace=? AND digest=? AND state='pending'", (workspace, digest)):
                if _is_for(approval, session):
                    if not is_outdated(approval, asked):
                        return approval
                    db.execute("UPDATE approvals SET state='expired', expires_at=? WHERE id=?", (now, approval.id))
            query = (
                "SELECT sum(workspace=? AND session=?), sum(json_extract(asked, '$.client')=?), sum(workspace=?), "
                "count(*), sum(length(asked)) FROM approvals WHERE state='pending'"
            )
            client = _storable(asked.client) or None  # those without a name are not one program
            *counts, size = db.execute(query, (workspace, session, client, workspace)).fetchone()
            for (owner, limit), count in zip(PENDING_MAX.items(), counts, strict=True):
                if (count or 0) >= limit:
                    raise ToolError(
                        "limit_exceeded",
                        f"{limit} calls of this {owner} are already pending approval.",
                        suggestion="Wait until the user has answered some of them.",
                    )
            encoded = _encoded(asked)
            if (size or 0) + len(encoded) > STORED_BYTES:
                raise ToolError(
                    "limit_exceeded",
                    f"With this call, the calls that are pending approval would have more than {STORED_BYTES} bytes.",
                    suggestion="Wait until the user has answered some of them, or split the call.",
                )
            values = (*new[:4], encoded, *new[5:], *note(db))
            marks = ",".join("?" * len(values))
            db.execute(f"INSERT INTO approvals ({_COLUMNS}, run, parent, agent) VALUES ({marks})", values)  # noqa: S608  # constants only
            return new

        return self._db.write(work)

    def find(self, prefix: str) -> Approval:
        """Return the approval with this id or unique id prefix."""
        matches = self._load("id GLOB ? LIMIT 11", (prefix + "*",)) if is_id_prefix(prefix) else []
        approval = with_prefix(prefix, matches, "approval")
        if approval is None:
            raise _unknown(prefix)
        return approval

    def pending(self, workspace: str | None = None) -> list[Approval]:
        """Return the pending approvals of one workspace or of all, oldest first."""
        condition, values = ("workspace=? AND ", (workspace,)) if workspace is not None else ("", ())
        approvals = self._load(condition + "state='pending' ORDER BY asked_at, rowid", values)
        return [approval for approval in approvals if approval.state == "pending"]

    def wait(self, id: str, pause: Callable[[float], object] = time.sleep) -> Approval:
        """Wait until the approval is answered or expired; `pause` is called between checks and may raise."""
        while True:
            approval = self.find(id)
            if approval.state != "pending":
                return approval
            pause(POLL_SECONDS)

    # --- answering ------------------------------------------------------------------------------------------------

    def answer(
        self,
        id: str,
        *,
        approved: bool,
        reason: str = "",
        by: str,
        always: bool = False,
        preview: bool = False,
        expires: int | None = None,
        revokes: bool = True,
    ) -> Approval:
        """Approve or deny a pending approval; with `revokes`, deny also revokes an approved one that is not yet used.

        An approval can be used for as long as its question could be answered. `always` stores a grant of the rules
        that were shown, until `expires` (in nanoseconds) if given. `preview` approves only a preview.
        """
        now = time.time_ns()

        def work(db: sqlite3.Connection) -> Approval:
            approval = _by_id(db, id, now)
            if approval.state != "pending" and not (revokes and approval.state == "approved" and not approved):
                raise _answered(approval)
            if preview and not approval.asked.preview:
                raise ToolError(
                    "invalid_args",
                    f"A preview is not available for this call of {approval.asked.tool}.",
                    suggestion="Approve or deny it.",
                )
            answered = approval._replace(
                state="preview" if preview else "approved" if approved else "denied",
                reason=_storable(reason)[:REASON_CHARACTERS],
                answered_by=by,
                answered_at=now,
                expires_at=now + approval.expires_at - (approval.answered_at or approval.asked_at),
                answer="preview" if preview else "deny" if not approved else "always" if always else "once",
            )
            db.execute(
                "UPDATE approvals SET state=?, reason=?, answered_by=?, answered_at=?, expires_at=?, answer=? "
                "WHERE id=?",
                (answered.state, answered.reason, by, now, answered.expires_at, answered.answer, id),
            )
            if approved and always and not preview:
                if not approval.asked.rules:
                    raise ToolError(
                        "invalid_args",
                        f'"always" is not available for this call of {approval.asked.tool}.',
                        suggestion="Approve it once.",
                    )
                for rule in approval.asked.rules:
                    folder = approval.asked.folder or approval.asked.workspace
                    _store_grant(db, approval.workspace, rule, folder, by, now, expires)
            return answered

        return self._db.write(work)

    def use(self, id: str, workspace: str, session: str, digest: str) -> Approval:
        """Consume the approval of exactly this call, or raise an error for the caller."""
        now = time.time_ns()

        def work(db: sqlite3.Connection) -> Approval:
            approval = _by_id(db, id, now)
            if approval.workspace != workspace or not _is_for(approval, session):
                raise _not_valid("it is for another session or workspace", id)
            if approval.state == "used":
                raise refusal(approval)  # checked first: using it may have changed the files and so the digest
            if approval.digest != digest:
                raise _not_valid("it is for other arguments, or the files it showed have changed since", id)
            if approval.state != "approved":
                raise refusal(approval)
            db.execute("UPDATE approvals SET state='used' WHERE id=?", (id,))
            return approval._replace(state="used")

        return self._db.write(work)

    def consume_approval(self, workspace: str, session: str, digest: str, state: State = "approved") -> Approval | None:
        """Consume an existing approval of exactly this call in this state; return None if there is none.

        A client may repeat its call on a new connection and without an approval id.
        """
        if not self._db.exists():
            return None

        def work(db: sqlite3.Connection) -> Approval | None:
            condition = "workspace=? AND digest=? AND state=? ORDER BY answered_at, rowid"
            for approval in _select(db, condition, (workspace, digest, state)):
                if approval.state == state and _is_for(approval, session):
                    db.execute("UPDATE approvals SET state='used' WHERE id=?", (approval.id,))
                    return approval._replace(state="used")
            return None

        return self._db.write(work)

    # --- grants ---------------------------------------------------------------------------------------------------

    def grants(self, workspace: str | None = None) -> list[GrantRow]:
        """Return the grants of one workspace or of all, oldest first."""
        query = (
            "SELECT id, workspace, rule, folder, granted_by, at, expires_at FROM grants WHERE ifnull(expires_at>?,1)"
        )
        values: tuple[object, ...] = (time.time_ns(),)
        if workspace is not None:
            query, values = query + " AND workspace=?", (*values, workspace)
        return [GrantRow(*row) for row in self._db.rows(query + " ORDER BY at, rowid", values)]

    def add_grant(
        self, workspace: str, rule: str, *, expires: int | None = None, by: str, folder: str = ""
    ) -> GrantRow:
        """Store a grant of a rule, until `expires` (in nanoseconds) if given; an existing grant is renewed."""
        now = time.time_ns()
        return self._db.write(lambda db: _store_grant(db, workspace, rule, folder, by, now, expires))

    def revoke(self, prefix: str) -> GrantRow:
        """Delete the grant with this id or unique id prefix, and return it."""
        matches = [grant for grant in self.grants() if is_id_prefix(prefix) and grant.id.startswith(prefix)]
        grant = with_prefix(prefix, matches, "grant")
        if grant is None or not self._db.change("DELETE FROM grants WHERE id=?", (grant.id,)):
            raise ToolError(
                "not_found", f"There is no grant {prefix[:40]}.", suggestion=f"{command('grants')} lists them."
            )
        return grant

    def attended(self) -> bool:
        """Whether a user is available to answer."""
        return bool(living_marks(self._attending))

    def _load(self, condition: str, values: Sequence[object]) -> list[Approval]:
        if not self._db.exists():
            return []
        return self._db.read(lambda db: _select(db, condition, values))


@contextmanager
def attend(directory: str) -> Iterator[None]:
    """Announce that a user is available to answer, in all workspaces, while the context lasts."""
    with closing(ProcessMark(os.path.join(directory, _ATTENDING), os.urandom(8).hex())):
        yield


def refusal(approval: Approval) -> ToolError:
    """Return the error for a call whose approval does not let it run, or not yet."""
    id, tool = approval.id, approval.asked.tool
    if approval.state == "pending":
        return ToolError(
            "approval_required",
            f"{tool} needs approval: {_punctuated(approval.asked.reason)} The approval {id} is pending.",
            suggestion=f"Ask the user to run: {command('approve', id)}. Then repeat the call with approval: {id!r}.",
            approval=id,
        )
    if approval.state == "denied":
        why = f": {approval.reason}" if approval.reason else "; no reason was given."
        return ToolError("USER_REJECTION", f"The user denied this call of {tool}{why}", approval=id)
    if approval.state == "expired" and approval.answered_at is None:
        return ToolError(
            "approval_timeout", f"The approval {id} of {tool} expired before anyone answered.", approval=id
        )
    used = "it has already been used" if approval.state == "used" else "it has expired"
    return _not_valid(used, id)


def _punctuated(reason: str) -> str:
    return reason if reason.endswith("?") else reason.rstrip(".") + "."


def _not_valid(reason: str, id: str) -> ToolError:
    return ToolError(
        "denied",
        f"The approval {id} does not allow this call: {reason}.",
        suggestion="Send the call without an approval to ask again.",
        approval=id,
    )


def _answered(approval: Approval) -> ToolError:
    outcomes = {"expired": "expired", "used": "been approved and used", "preview": "been answered with a preview"}
    outcome = outcomes.get(approval.state, f"been {approval.state}")
    by = f" by {approval.answered_by}" if approval.answered_by and approval.state != "expired" else ""
    return ToolError(
        "not_found",
        f"The approval {approval.id} is not pending: it has {outcome}{by}.",
        suggestion=f"{command('approve')} lists pending approvals.",
    )


def _unknown(id: str) -> ToolError:
    return ToolError(
        "not_found",
        f"There is no approval {id[:40]!r}.",
        suggestion=f"Send the call without an approval to ask again; {command('approve')} lists pending approvals.",
    )


def _is_for(approval: Approval, session: str) -> bool:
    """Whether an approval is valid in a session: its own, or the next one if its own ended with a connection."""
    return approval.session == session or (approval.session.startswith(CONNECTION) and session.startswith(CONNECTION))


def _by_id(db: sqlite3.Connection, id: str, now: int) -> Approval:
    for approval in _select(db, "id=?", (id,), now):
        return approval
    raise _unknown(id)


def _select(db: sqlite3.Connection, condition: str, values: Sequence[object], now: int | None = None) -> list[Approval]:
    now = time.time_ns() if now is None else now
    rows = db.execute(f"SELECT {_COLUMNS} FROM approvals WHERE {condition}", values)  # noqa: S608  # constants only
    return [_approval(row, now) for row in rows]


def _approval(row: Sequence[object], now: int) -> Approval:
    approval = Approval(*row)  # type: ignore[arg-type]
    fields = json.loads(approval.asked)  # type: ignore[arg-type]
    fields["rules"] = tuple(fields["rules"])
    fields["files"] = tuple(ShownFile(*file) for file in fields.get("files", ()))
    approval = approval._replace(asked=ApprovalRequest(**fields))
    if approval.state in ("pending", "approved", "preview") and approval.expires_at <= now:
        return approval._replace(state="expired")
    return approval


def _encoded(asked: ApprovalRequest) -> str:
    # ASCII: SQLite rejects lone surrogates, as in a file name that is not UTF-8
    return json.dumps(asked._asdict(), separators=(",", ":"))


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def is_outdated(approval: Approval, asked: ApprovalRequest) -> bool:
    """Whether a call that is pending would now be asked about for another reason."""
    return approval.state == "pending" and _grounds(approval.asked) != _grounds(asked)


def _grounds(asked: ApprovalRequest) -> tuple[object, ...]:
    """Return why a call needs approval, and what "always" would store."""
    return asked.reason, asked.risk, asked.risk_reason, asked.rules


def _expire(db: sqlite3.Connection, now: int) -> None:
    """Mark expired approvals; delete old approvals, those that exceed the limit, and expired grants."""
    db.execute("UPDATE approvals SET state='expired' WHERE state='pending' AND expires_at<=?", (now,))
    db.execute("DELETE FROM approvals WHERE expires_at<?", (now - KEPT_DAYS * 86400 * _SECOND,))
    settled = "state IN ('denied','used','expired')"
    sizes = f"SELECT rowid, sum(length(asked)) OVER (ORDER BY rowid DESC) AS size FROM approvals WHERE {settled}"  # noqa: S608  # constants only
    oldest = f"SELECT max(rowid) FROM ({sizes}) WHERE size>?"  # noqa: S608
    db.execute(f"DELETE FROM approvals WHERE {settled} AND rowid<=({oldest})", (STORED_BYTES,))  # noqa: S608
    db.execute("DELETE FROM grants WHERE expires_at<=?", (now,))


def _store_grant(
    db: sqlite3.Connection, workspace: str, rule: str, folder: str, by: str, now: int, expires: int | None
) -> GrantRow:
    row = db.execute(
        "INSERT INTO grants VALUES (?,?,?,?,?,?,?) ON CONFLICT (workspace, rule, folder) DO UPDATE "
        "SET granted_by=excluded.granted_by, at=excluded.at, expires_at=excluded.expires_at "
        "RETURNING id, workspace, rule, folder, granted_by, at, expires_at",
        (os.urandom(6).hex(), workspace, rule, _storable(folder), by, now, expires),
    ).fetchone()
    return GrantRow(*row)
