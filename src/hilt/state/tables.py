"""The tables of state.db, which all survive a power loss, and how to open it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hilt.errors import ToolError
from hilt.state.db import Database

# `ended` is null as long as an agent counts towards its parent's limit; long texts come last. `anywhere` is 1 if any
# worker may run the agent; `machine` is the only one that can, because its worktree is there; `call` is the id of the
# call that started it. `reader`: the owner that has received a message but not confirmed it yet. `steps` is how far the
# agent was when the run began; `lease` is null if a lock shows whether the owner is alive
_AGENTS = """CREATE TABLE agents (
         workspace TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL, caller TEXT NOT NULL, depth INTEGER NOT NULL,
         kind TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL,
         answers INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
         created INTEGER NOT NULL, changed INTEGER NOT NULL, ended INTEGER, error_code TEXT NOT NULL,
         anywhere INTEGER NOT NULL, machine TEXT NOT NULL, call TEXT NOT NULL,
         settings TEXT NOT NULL, profile TEXT NOT NULL, prompt TEXT NOT NULL, answer TEXT NOT NULL,
         PRIMARY KEY (workspace, id)) WITHOUT ROWID;
CREATE INDEX living_agents ON agents (workspace, parent) WHERE ended IS NULL;
CREATE INDEX agents_by_age ON agents (workspace, created);
CREATE TABLE agent_messages (
         number INTEGER PRIMARY KEY AUTOINCREMENT, workspace TEXT NOT NULL, sender TEXT NOT NULL, target TEXT NOT NULL,
         at INTEGER NOT NULL, text TEXT NOT NULL, reader TEXT NOT NULL DEFAULT '');
CREATE INDEX messages_of_agent ON agent_messages (workspace, target, number);
CREATE TABLE agent_sends (
         workspace TEXT NOT NULL, sender TEXT NOT NULL, target TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX sends_of_pair ON agent_sends (workspace, sender, target, at);
CREATE TABLE agent_runs (
         workspace TEXT NOT NULL, agent TEXT NOT NULL, number INTEGER NOT NULL, owner TEXT NOT NULL,
         host TEXT NOT NULL, version TEXT NOT NULL, began INTEGER NOT NULL, ended INTEGER, steps INTEGER NOT NULL,
         outcome TEXT NOT NULL, PRIMARY KEY (workspace, agent, number)) WITHOUT ROWID;
CREATE TABLE agent_owners (
         name TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, host TEXT NOT NULL, version TEXT NOT NULL,
         slots INTEGER NOT NULL, began INTEGER NOT NULL, lease INTEGER) WITHOUT ROWID;
CREATE TABLE provider_use (
         number INTEGER PRIMARY KEY AUTOINCREMENT, provider TEXT NOT NULL, at INTEGER NOT NULL,
         tokens INTEGER NOT NULL);
CREATE INDEX use_of_provider ON provider_use (provider, at)"""
# for the long queues of many machines; not in state.db, which must stay small: a full disk must have room to rewrite it
_AGENT_QUEUES = """CREATE INDEX queued_agents ON agents (workspace, changed) WHERE ended IS NULL AND status='queued';
CREATE INDEX agents_for_all ON agents (workspace) WHERE ended IS NULL AND anywhere=1"""
# the tables of a database that several machines share
AGENT_TABLES = (f"{_AGENTS};\n{_AGENT_QUEUES}",)

# what a released version has created must never be changed: append a script that migrates it
MIGRATIONS = (
    # changes: `call` made the change; `layer`, of a command's change, is the folder with the other version of each
    # path; `previewed` identifies the call that a change is only a preview of; an inode of 0 means a missing file.
    # A call has at most one pending approval; a workspace has at most one grant of a rule for each folder.
    # `boards` holds the last id, so that ids are never reused; long texts come last, so that counting skips them
    f"""CREATE TABLE changes (
         number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, session TEXT NOT NULL,
         operation TEXT NOT NULL, at INTEGER NOT NULL, bytes INTEGER NOT NULL, open INTEGER NOT NULL,
         call TEXT NOT NULL, layer TEXT NOT NULL DEFAULT '', began INTEGER NOT NULL DEFAULT 0,
         previewed TEXT NOT NULL DEFAULT '', run TEXT NOT NULL, parent TEXT NOT NULL, agent TEXT NOT NULL);
CREATE INDEX changes_of_workspace ON changes (workspace, number);
CREATE INDEX changes_of_run ON changes (workspace, run);
CREATE INDEX open_changes ON changes (workspace) WHERE open;
CREATE TABLE snapshots (
         change INTEGER NOT NULL REFERENCES changes (number), position INTEGER NOT NULL, path TEXT NOT NULL,
         before BLOB, mode INTEGER NOT NULL, size INTEGER NOT NULL, after BLOB, folders TEXT NOT NULL,
         new_mode INTEGER, PRIMARY KEY (change, position)) WITHOUT ROWID;
CREATE INDEX snapshots_of_blob ON snapshots (before);
CREATE TABLE layer_steps (
         change INTEGER NOT NULL REFERENCES changes (number), position INTEGER NOT NULL, kind TEXT NOT NULL,
         root BLOB NOT NULL, path BLOB NOT NULL, slot BLOB NOT NULL, before_inode INTEGER NOT NULL,
         before_mode INTEGER NOT NULL, after_inode INTEGER NOT NULL, after_mode INTEGER NOT NULL,
         size INTEGER NOT NULL, files INTEGER NOT NULL, PRIMARY KEY (change, position)) WITHOUT ROWID;
CREATE TABLE blobs (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, packed INTEGER NOT NULL, data BLOB) WITHOUT ROWID;
CREATE TABLE approvals (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, digest TEXT NOT NULL,
         asked TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, answered_by TEXT NOT NULL,
         asked_at INTEGER NOT NULL, answered_at INTEGER, expires_at INTEGER NOT NULL, answer TEXT NOT NULL,
         run TEXT NOT NULL, parent TEXT NOT NULL, agent TEXT NOT NULL);
CREATE UNIQUE INDEX pending_approvals ON approvals (workspace, session, digest) WHERE state='pending';
CREATE INDEX approvals_by_end ON approvals (expires_at);
CREATE INDEX approvals_of_run ON approvals (workspace, run);
CREATE TABLE grants (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, rule TEXT NOT NULL, folder TEXT NOT NULL,
         granted_by TEXT NOT NULL, at INTEGER NOT NULL, expires_at INTEGER, UNIQUE (workspace, rule, folder));
CREATE TABLE trusted_files (
         kind TEXT NOT NULL, root BLOB NOT NULL, path BLOB NOT NULL, hash BLOB NOT NULL, content BLOB NOT NULL,
         at INTEGER NOT NULL, PRIMARY KEY (root, path, kind)) WITHOUT ROWID;
CREATE TABLE session_values (
         workspace TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
         PRIMARY KEY (workspace, session, key)) WITHOUT ROWID;
CREATE INDEX session_values_by_age ON session_values (at);
CREATE TABLE boards (workspace TEXT NOT NULL PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (
         workspace TEXT NOT NULL, id INTEGER NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL,
         created INTEGER NOT NULL, updated INTEGER NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL,
         PRIMARY KEY (workspace, id)) WITHOUT ROWID;
CREATE TABLE task_blockers (
         workspace TEXT NOT NULL, task INTEGER NOT NULL, blocker INTEGER NOT NULL,
         PRIMARY KEY (workspace, task, blocker)) WITHOUT ROWID;
CREATE INDEX tasks_by_blocker ON task_blockers (workspace, blocker, task);
CREATE TABLE todos (
         workspace TEXT NOT NULL, session TEXT NOT NULL, items TEXT NOT NULL, at INTEGER NOT NULL,
         PRIMARY KEY (workspace, session)) WITHOUT ROWID;
CREATE INDEX todos_by_age ON todos (workspace, at);
CREATE TABLE questions (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, state TEXT NOT NULL,
         answered_by TEXT NOT NULL, asked_at INTEGER NOT NULL, answered_at INTEGER, expires_at INTEGER NOT NULL,
         folder TEXT NOT NULL, asked TEXT NOT NULL, answers TEXT NOT NULL);
CREATE INDEX questions_by_end ON questions (expires_at);
CREATE TABLE spending (
         day TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL, unpriced INTEGER NOT NULL,
         input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, nanodollars INTEGER NOT NULL,
         PRIMARY KEY (day, model)) WITHOUT ROWID;
CREATE TABLE runs (
         workspace TEXT NOT NULL, id TEXT NOT NULL, began INTEGER NOT NULL, used INTEGER NOT NULL,
         PRIMARY KEY (workspace, id)) WITHOUT ROWID;
CREATE INDEX runs_by_age ON runs (used);
CREATE TABLE run_costs (
         workspace TEXT NOT NULL, run TEXT NOT NULL, parent TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL,
         requests INTEGER NOT NULL, unpriced INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
         output_tokens INTEGER NOT NULL, nanodollars INTEGER NOT NULL,
         PRIMARY KEY (workspace, run, agent, model)) WITHOUT ROWID;
{_AGENTS}""",
)


def open_state(directory: str) -> Database:
    """Return the state database of this state directory; its file is opened on first use."""
    return Database(os.path.join(directory, "state.db"), MIGRATIONS, durable=True)


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


Row = TypeVar("Row", bound=_WithId)


def with_prefix(prefix: str, rows: Sequence[Row], what: str) -> Row | None:
    """Return the row with this id or unique id prefix, of rows with this prefix; None if there are none."""
    exact = [row for row in rows if row.id == prefix]
    if len(exact or rows) <= 1:
        return next(iter(exact or rows), None)
    ids = ", ".join(row.id for row in rows[:10])
    raise ToolError(
        "ambiguous_id",
        f"{prefix} is the prefix of {len(rows)}{'+' * (len(rows) > 10)} {what} ids: {ids}.",
        candidates=[row.id for row in rows[:10]],
    )


def is_id_prefix(text: str) -> bool:
    """Whether an id may start with a text."""
    return bool(text) and not text.strip("0123456789abcdef")
