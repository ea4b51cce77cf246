"""Approvals and grants in state.db: who was asked what, what a person answered, and the rules they keep allowing.

An approval is bound to one exact call, is used once, and ends by itself. It counts in the session that asked; when that
ends with a connection, also on the next one. Every step that changes one is a single transaction, so that of two
processes that race for it only one wins. Whether anybody is there to be asked is known by heartbeats: rows that
somebody refreshes for as long as they can answer.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

from hilt.call import Json
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.places import command
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

PENDING_MOST = 100  # in one session: a model that goes on asking fills neither the disk nor a person's screen
KEPT_DAYS = 7  # what has ended stays that long, for those who look back
BEAT_SECONDS = 5.0
STALE_SECONDS = 20.0  # a heartbeat as old as this has ended
LOOK_SECONDS = 0.25  # how often an answer of another process is looked for
REASON_MOST = 2000
CONNECTION = "mcp-"  # begins the sessions that end with a connection, whose client comes again as another

Kind = Literal["command", "edit", "call"]
State = Literal["pending", "approved", "denied", "used", "expired"]

_SECOND = 1_000_000_000
_COLUMNS = "id, workspace, session, digest, asked, state, reason, answered_by, asked_at, answered_at, expires_at"
_HEX = "0123456789abcdef"


class UserAnswer(NamedTuple):
    """What a person said to a call: once, always, all or deny, and why."""

    kind: str
    reason: str = ""
    by: str = ""


class Asked(NamedTuple):
    """What a person is shown of a call. `rules` are what "always" would store, none when nothing would."""

    tool: str
    arguments: Mapping[str, Json]
    reason: str  # of the decision to ask
    kind: Kind = "call"
    command: str = ""
    risk: str = ""
    part: str = ""  # the part of the command that has this risk
    diff: str = ""  # unified
    rules: tuple[str, ...] = ()
    workspace: str = ""  # its folder
    session: str = ""
    folder: str = ""  # where a rule that is kept holds: of a command, the folder it runs in


class Approval(NamedTuple):
    """A question to a person and its answer; times are nanoseconds since the epoch."""

    id: str
    workspace: str
    session: str
    digest: str
    asked: Asked
    state: State
    reason: str  # the person's
    answered_by: str
    asked_at: int
    answered_at: int | None
    expires_at: int  # until when it can be answered; once approved, until when it can be used


class Grant(NamedTuple):
    """A rule that a person keeps allowing in one workspace."""

    id: str
    workspace: str
    rule: str
    folder: str  # of the workspace, for people
    granted_by: str
    at: int
    expires_at: int | None


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def call_digest(tool: str, args: Mapping[str, Json], files: Mapping[str, bytes | None]) -> str:
    """Return what binds an approval to a call: its tool, its arguments, and the hashes of the files it would change.

    A file that is not there has the hash None.
    """
    hashes = {path: None if hash is None else hash.hex() for path, hash in files.items()}
    try:
        text = _CANONICAL([tool, args, hashes])
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("invalid_args", f"The arguments of {tool} are not JSON, so nobody can approve them.") from error
    return sha256(text.encode()).hex()


class Approvals:
    """The approvals and grants of all workspaces of a user; any number of processes use them at once."""

    def __init__(self, directory: str) -> None:
        self._db = open_state(directory)

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self._db.close()

    # --- asking ---------------------------------------------------------------------------------------------------

    def ask(self, workspace: str, session: str, digest: str, asked: Asked, *, seconds: float) -> Approval:
        """Store a question that can be answered for some seconds; the same call that still waits keeps its id."""
        now = time.time_ns()
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
            _tidy(db, now)
            for found in _select(db, "workspace=? AND digest=? AND state='pending'", (workspace, digest)):
                if _is_for(found, session):
                    return found
            count = "SELECT count(*) FROM approvals WHERE workspace=? AND session=? AND state='pending'"
            if db.execute(count, (workspace, session)).fetchone()[0] >= PENDING_MOST:
                raise ToolError(
                    "limit_exceeded",
                    f"{PENDING_MOST} calls of this session wait for approval already.",
                    suggestion="Wait until the user has answered some of them.",
                )
            values = (*new[:4], _encoded(asked), *new[5:])
            db.execute(f"INSERT INTO approvals ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", values)  # noqa: S608  # constants only
            return new

        return self._db.write(work)

    def find(self, prefix: str) -> Approval:
        """Return the approval with this id, or the only one whose id begins so."""
        found = self._load("id GLOB ?", (prefix + "*",)) if _is_id(prefix) else []
        exact = [approval for approval in found if approval.id == prefix]
        if exact or len(found) == 1:
            return (exact or found)[0]
        if not found:
            raise _unknown(prefix)
        ids = [approval.id for approval in found]
        raise ToolError(
            "ambiguous_id",
            f"{prefix} is the beginning of {len(ids)} approval ids: {', '.join(ids[:10])}.",
            candidates=ids[:10],
        )

    def pending(self, workspace: str | None = None) -> list[Approval]:
        """Return what can be answered now, in one workspace or in all, oldest first."""
        condition, values = ("workspace=? AND ", (workspace,)) if workspace is not None else ("", ())
        found = self._load(condition + "state='pending' ORDER BY asked_at, rowid", values)
        return [approval for approval in found if approval.state == "pending"]

    def wait(self, id: str, pause: Callable[[float], object] = time.sleep) -> Approval:
        """Return the approval when it is answered or expired; `pause` is called between looks and may raise."""
        while True:
            found = self.find(id)
            if found.state != "pending":
                return found
            pause(LOOK_SECONDS)

    # --- answering ------------------------------------------------------------------------------------------------

    def answer(
        self, id: str, *, approved: bool, reason: str = "", by: str, always: bool = False, expires: int | None = None
    ) -> Approval:
        """Approve or deny what is pending; deny also takes back what is approved and not yet used.

        An approval can be used for as long as its question could be answered. `always` stores a grant of the rules
        that were shown, until a time in nanoseconds if one is given.
        """
        now = time.time_ns()

        def work(db: sqlite3.Connection) -> Approval:
            found = _one(db, id, now)
            if found.state != "pending" and not (found.state == "approved" and not approved):
                raise _answered(found)
            answered = found._replace(
                state="approved" if approved else "denied",
                reason=_storable(reason)[:REASON_MOST],
                answered_by=by,
                answered_at=now,
                expires_at=now + found.expires_at - (found.answered_at or found.asked_at),
            )
            db.execute(
                "UPDATE approvals SET state=?, reason=?, answered_by=?, answered_at=?, expires_at=? WHERE id=?",
                (answered.state, answered.reason, by, now, answered.expires_at, id),
            )
            if approved and always:
                if not found.asked.rules:
                    raise ToolError(
                        "invalid_args",
                        f"This call of {found.asked.tool} cannot be allowed for always.",
                        suggestion="Approve it once.",
                    )
                for rule in found.asked.rules:
                    _keep(db, found.workspace, rule, found.asked.folder or found.asked.workspace, by, now, expires)
            return answered

        return self._db.write(work)

    def use(self, id: str, workspace: str, session: str, digest: str) -> Approval:
        """Use up an approval of exactly this call, or raise what the caller is to be told."""
        now = time.time_ns()

        def work(db: sqlite3.Connection) -> Approval:
            found = _one(db, id, now)
            if found.workspace != workspace or not _is_for(found, session):
                raise _not_for("it was given in another session or workspace", id)
            if found.state == "used":
                raise refusal(found)  # its use may have changed the files: that is not the reason
            if found.digest != digest:
                raise _not_for("it was given for other arguments, or the files it showed have changed since", id)
            if found.state != "approved":
                raise refusal(found)
            db.execute("UPDATE approvals SET state='used' WHERE id=?", (id,))
            return found._replace(state="used")

        return self._db.write(work)

    def use_given(self, workspace: str, session: str, digest: str) -> Approval | None:
        """Use up an approval of exactly this call that was given, None when there is none.

        A program that was told to repeat its call may do so on a new connection, and without an id.
        """
        if not self._db.exists():
            return None

        def work(db: sqlite3.Connection) -> Approval | None:
            given = "workspace=? AND digest=? AND state='approved' ORDER BY answered_at, rowid"
            for found in _select(db, given, (workspace, digest)):
                if found.state == "approved" and _is_for(found, session):
                    db.execute("UPDATE approvals SET state='used' WHERE id=?", (found.id,))
                    return found._replace(state="used")
            return None

        return self._db.write(work)

    # --- grants ---------------------------------------------------------------------------------------------------

    def grants(self, workspace: str | None = None) -> list[Grant]:
        """Return the rules that are kept, in one workspace or in all, oldest first."""
        if not self._db.exists():
            return []
        query = (
            "SELECT id, workspace, rule, folder, granted_by, at, expires_at FROM grants WHERE ifnull(expires_at>?,1)"
        )
        values: tuple[object, ...] = (time.time_ns(),)
        if workspace is not None:
            query, values = query + " AND workspace=?", (*values, workspace)
        rows = self._db.read(lambda db: db.execute(query + " ORDER BY at, rowid", values).fetchall())
        return [Grant(*row) for row in rows]

    def add_grant(self, workspace: str, rule: str, *, expires: int | None = None, by: str, folder: str = "") -> Grant:
        """Keep a rule, until a time in nanoseconds if one is given; a rule that is kept already is kept anew."""
        now = time.time_ns()
        return self._db.write(lambda db: _keep(db, workspace, rule, folder, by, now, expires))

    def revoke(self, prefix: str) -> Grant:
        """Forget the grant with this id, or the only one whose id begins so, and return it."""
        found = [grant for grant in self.grants() if _is_id(prefix) and grant.id.startswith(prefix)]
        if len(found) > 1:
            ids = [grant.id for grant in found]
            raise ToolError("ambiguous_id", f"{prefix} is the beginning of {len(ids)} ids.", candidates=ids[:10])
        query = "DELETE FROM grants WHERE id=?"
        if not found or not self._db.write(lambda db: db.execute(query, (found[0].id,)).rowcount):
            raise ToolError(
                "not_found", f"There is no grant {prefix[:40]}.", suggestion=f"{command('grants')} lists them."
            )
        return found[0]

    # --- heartbeats -----------------------------------------------------------------------------------------------

    @contextmanager
    def attend(self, kind: str, workspace: str = "") -> Iterator[None]:
        """Say, for as long as the context lasts, that somebody can answer; for one workspace, or for all."""
        id = os.urandom(8).hex()
        ended = threading.Event()

        def beat() -> None:
            query = "INSERT INTO attendance VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET beat_at=excluded.beat_at"
            self._db.write(lambda db: db.execute(query, (id, kind, workspace, time.time_ns())))

        def go_on() -> None:
            while not ended.wait(BEAT_SECONDS):
                with suppress(ToolError):  # the next beat may succeed; without one, nobody counts on us
                    beat()

        beat()
        thread = threading.Thread(target=go_on, name="hilt-attend", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with suppress(ToolError):  # what cannot be removed grows old
                self._db.write(lambda db: db.execute("DELETE FROM attendance WHERE id=?", (id,)))

    def attended(self, workspace: str) -> bool:
        """Whether somebody can be asked now about calls in this workspace."""
        if not self._db.exists():
            return False
        now, span = time.time_ns(), int(STALE_SECONDS * _SECOND)
        # a beat from the future is of a clock that was set back since: it would never grow old
        query = "SELECT 1 FROM attendance WHERE workspace IN ('', ?) AND beat_at BETWEEN ? AND ? LIMIT 1"
        values = (workspace, now - span, now + span)
        return self._db.read(lambda db: db.execute(query, values).fetchone()) is not None

    def _load(self, condition: str, values: Sequence[object]) -> list[Approval]:
        if not self._db.exists():
            return []
        return self._db.read(lambda db: _select(db, condition, values))


def refusal(approval: Approval) -> ToolError:
    """Return what the caller is told whose call may not run, or not yet."""
    id, tool = approval.id, approval.asked.tool
    if approval.state == "pending":
        return ToolError(
            "approval_required",
            f"{tool} needs approval: {_ended(approval.asked.reason)} The approval {id} waits for an answer.",
            suggestion=f"Ask the user to run: {command('approve', id)}. Then repeat the call with approval: {id!r}.",
            approval=id,
        )
    if approval.state == "denied":
        why = f": {approval.reason}" if approval.reason else "; no reason was given."
        return ToolError("USER_REJECTION", f"The user denied this call of {tool}{why}", approval=id)
    if approval.state == "expired" and approval.answered_at is None:
        return ToolError("approval_timeout", f"Nobody answered whether {tool} may run (approval {id}).", approval=id)
    used = "it has been used, and counts once" if approval.state == "used" else "it has expired"
    return _not_for(used, id)


def _ended(reason: str) -> str:
    return reason if reason.endswith("?") else reason.rstrip(".") + "."


def _not_for(reason: str, id: str) -> ToolError:
    return ToolError(
        "denied",
        f"The approval {id} does not allow this call: {reason}.",
        suggestion="Send the call without an approval to ask anew.",
        approval=id,
    )


def _answered(approval: Approval) -> ToolError:
    told = {"expired": "expired", "used": "been approved and used"}.get(approval.state, f"been {approval.state}")
    by = f" by {approval.answered_by}" if approval.answered_by and approval.state != "expired" else ""
    return ToolError(
        "not_found",
        f"The approval {approval.id} is not pending: it has {told}{by}.",
        suggestion=f"{command('approve')} lists what is pending.",
    )


def _unknown(id: str) -> ToolError:
    return ToolError(
        "not_found",
        f"There is no approval {id[:40]!r}.",
        suggestion=f"Send the call without an approval to ask anew; {command('approve')} lists what is pending.",
    )


def _is_for(approval: Approval, session: str) -> bool:
    """Whether an approval counts in a session: its own, and if that ended with a connection, the next one."""
    return approval.session == session or (approval.session.startswith(CONNECTION) and session.startswith(CONNECTION))


def _is_id(text: str) -> bool:
    return bool(text) and not text.strip(_HEX)


def _one(db: sqlite3.Connection, id: str, now: int) -> Approval:
    for found in _select(db, "id=?", (id,), now):
        return found
    raise _unknown(id)


def _select(db: sqlite3.Connection, condition: str, values: Sequence[object], now: int | None = None) -> list[Approval]:
    now = time.time_ns() if now is None else now
    rows = db.execute(f"SELECT {_COLUMNS} FROM approvals WHERE {condition}", values)  # noqa: S608  # constants only
    return [_approval(row, now) for row in rows]


def _approval(row: Sequence[object], now: int) -> Approval:
    approval = Approval(*row)  # type: ignore[arg-type]
    fields = json.loads(approval.asked)  # type: ignore[arg-type]
    fields["rules"] = tuple(fields["rules"])
    approval = approval._replace(asked=Asked(**fields))
    if approval.state in ("pending", "approved") and approval.expires_at <= now:
        return approval._replace(state="expired")
    return approval


def _encoded(asked: Asked) -> str:
    # in ASCII: half a character, as in a name that is not UTF-8, is no text for SQLite
    return json.dumps(asked._asdict(), separators=(",", ":"))


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _tidy(db: sqlite3.Connection, now: int) -> None:
    """Note what has expired, and forget what did so long ago."""
    db.execute("UPDATE approvals SET state='expired' WHERE state='pending' AND expires_at<=?", (now,))
    db.execute("DELETE FROM approvals WHERE expires_at<?", (now - KEPT_DAYS * 86400 * _SECOND,))
    db.execute("DELETE FROM grants WHERE expires_at<=?", (now,))
    db.execute("DELETE FROM attendance WHERE beat_at<?", (now - 60 * int(STALE_SECONDS) * _SECOND,))


def _keep(
    db: sqlite3.Connection, workspace: str, rule: str, folder: str, by: str, now: int, expires: int | None
) -> Grant:
    row = db.execute(
        "INSERT INTO grants VALUES (?,?,?,?,?,?,?) ON CONFLICT (workspace, rule, folder) DO UPDATE "
        "SET granted_by=excluded.granted_by, at=excluded.at, expires_at=excluded.expires_at "
        "RETURNING id, workspace, rule, folder, granted_by, at, expires_at",
        (os.urandom(6).hex(), workspace, rule, _storable(folder), by, now, expires),
    ).fetchone()
    return Grant(*row)
