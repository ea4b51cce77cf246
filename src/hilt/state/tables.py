"""The tables of state.db, which all survive a power loss, and how to open it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hilt.errors import ToolError
from hilt.state.db import Database

# `ended` is null as long as an agent counts towards its parent's limit; long texts come last
AGENTS = """CREATE TABLE agents (
         workspace TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL, caller TEXT NOT NULL, depth INTEGER NOT NULL,
         kind TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL,
         answers INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
         created INTEGER NOT NULL, changed INTEGER NOT NULL, ended INTEGER, error_code TEXT NOT NULL,
         settings TEXT NOT NULL, profile TEXT NOT NULL, prompt TEXT NOT NULL, answer TEXT NOT NULL,
         PRIMARY KEY (workspace, id)) WITHOUT ROWID;
CREATE INDEX living_agents ON agents (workspace, parent) WHERE ended IS NULL;
CREATE INDEX agents_by_age ON agents (workspace, created);
CREATE TABLE agent_messages (
         number INTEGER PRIMARY KEY AUTOINCREMENT, workspace TEXT NOT NULL, sender TEXT NOT NULL, target TEXT NOT NULL,
         at INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX messages_of_agent ON agent_messages (workspace, target, number);
CREATE TABLE agent_sends (
         workspace TEXT NOT NULL, sender TEXT NOT NULL, target TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX sends_of_pair ON agent_sends (workspace, sender, target, at)"""
# `reader`: the owner that has received the message but not confirmed it yet
AGENT_READERS = "ALTER TABLE agent_messages ADD COLUMN reader TEXT NOT NULL DEFAULT ''"
# `steps` is how far the agent was when the run began; `lease` is null if a lock shows whether the owner is alive
AGENT_RUNS = """CREATE TABLE agent_runs (
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
# `anywhere` is 1 if any worker may run the agent; `machine` is the only one that can, because its worktree is there
AGENT_MACHINES = """ALTER TABLE agents ADD COLUMN anywhere INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN machine TEXT NOT NULL DEFAULT ''"""
# the id of the call that started the agent, as its caller named it
AGENT_CALLS = "ALTER TABLE agents ADD COLUMN call TEXT NOT NULL DEFAULT ''"
# for the long queues of many machines; not in state.db, which must stay small: a full disk must have room to rewrite it
AGENT_QUEUES = """CREATE INDEX queued_agents ON agents (workspace, changed) WHERE ended IS NULL AND status='queued';
CREATE INDEX agents_for_all ON agents (workspace) WHERE ended IS NULL AND anywhere=1"""
# the tables of a database that several machines share; append only
AGENT_TABLES = (AGENTS, AGENT_READERS, AGENT_RUNS, AGENT_MACHINES, AGENT_QUEUES, AGENT_CALLS)


def _with_origin(table: str, at: str) -> str:
    """Return the migration that gives the rows of a table, and their runs, what `Origin` says of a session."""
    return f"""ALTER TABLE {table} ADD COLUMN run TEXT NOT NULL DEFAULT '';
ALTER TABLE {table} ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE {table} ADD COLUMN agent TEXT NOT NULL DEFAULT '';
UPDATE {table} SET run=session;
UPDATE {table} SET agent=session, run=(
         WITH RECURSIVE above (id, depth) AS (
             VALUES ({table}.session, 0) UNION ALL SELECT parent, above.depth+1 FROM above
             JOIN agents ON agents.workspace={table}.workspace AND agents.id=above.id)
         SELECT id FROM above ORDER BY depth DESC LIMIT 1)
         WHERE EXISTS (SELECT 1 FROM agents WHERE agents.workspace={table}.workspace AND agents.id={table}.session);
CREATE INDEX {table}_of_run ON {table} (workspace, run);
INSERT INTO runs SELECT workspace, run, min({at}), max({at}) FROM {table} WHERE true GROUP BY workspace, run
         ON CONFLICT DO UPDATE SET began=min(began, excluded.began), used=max(used, excluded.used)"""  # noqa: S608


# these have already run on existing databases: append new ones, never change one
MIGRATIONS = (
    """CREATE TABLE changes (
         number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, session TEXT NOT NULL,
         operation TEXT NOT NULL, at INTEGER NOT NULL, bytes INTEGER NOT NULL, open INTEGER NOT NULL);
CREATE INDEX changes_of_workspace ON changes (workspace, number);
CREATE INDEX open_changes ON changes (workspace) WHERE open;
CREATE TABLE snapshots (
         change INTEGER NOT NULL REFERENCES changes (number), position INTEGER NOT NULL, path TEXT NOT NULL,
         before BLOB, mode INTEGER NOT NULL, size INTEGER NOT NULL, after BLOB, folders TEXT NOT NULL,
         new_mode INTEGER, PRIMARY KEY (change, position)) WITHOUT ROWID;
CREATE INDEX snapshots_of_blob ON snapshots (before);
CREATE TABLE blobs (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, packed INTEGER NOT NULL, data BLOB) WITHOUT ROWID""",
    # a call has at most one pending approval; a workspace has at most one grant of a rule
    """CREATE TABLE approvals (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, digest TEXT NOT NULL,
         asked TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, answered_by TEXT NOT NULL,
         asked_at INTEGER NOT NULL, answered_at INTEGER, expires_at INTEGER NOT NULL);
CREATE UNIQUE INDEX pending_approvals ON approvals (workspace, session, digest) WHERE state='pending';
CREATE INDEX approvals_by_end ON approvals (expires_at);
CREATE TABLE grants (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, rule TEXT NOT NULL, folder TEXT NOT NULL,
         granted_by TEXT NOT NULL, at INTEGER NOT NULL, expires_at INTEGER, UNIQUE (workspace, rule));
CREATE TABLE attendance (
         id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, workspace TEXT NOT NULL, beat_at INTEGER NOT NULL);
CREATE TABLE trusted (
         path BLOB NOT NULL, kind TEXT NOT NULL, hash BLOB NOT NULL, content BLOB NOT NULL, at INTEGER NOT NULL,
         PRIMARY KEY (path, kind)) WITHOUT ROWID;
CREATE TABLE session_values (
         workspace TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
         PRIMARY KEY (workspace, session, key)) WITHOUT ROWID""",
    # one grant of a command for each folder that it runs in
    """CREATE TABLE grants_by_folder (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, rule TEXT NOT NULL, folder TEXT NOT NULL,
         granted_by TEXT NOT NULL, at INTEGER NOT NULL, expires_at INTEGER, UNIQUE (workspace, rule, folder));
INSERT INTO grants_by_folder SELECT * FROM grants;
DROP TABLE grants;
ALTER TABLE grants_by_folder RENAME TO grants""",
    # old values are removed whenever one is stored
    "CREATE INDEX session_values_by_age ON session_values (at)",
    # `boards` holds the last id, so that ids are never reused; long texts come last, so that counting skips them
    """CREATE TABLE boards (workspace TEXT NOT NULL PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
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
CREATE INDEX todos_by_age ON todos (workspace, at)""",
    """CREATE TABLE spending (
         day TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL, unpriced INTEGER NOT NULL,
         input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, nanodollars INTEGER NOT NULL,
         PRIMARY KEY (day, model)) WITHOUT ROWID""",
    AGENTS,
    AGENT_READERS,
    """CREATE TABLE questions (
         id TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, state TEXT NOT NULL,
         answered_by TEXT NOT NULL, asked_at INTEGER NOT NULL, answered_at INTEGER, expires_at INTEGER NOT NULL,
         folder TEXT NOT NULL, asked TEXT NOT NULL, answers TEXT NOT NULL);
CREATE INDEX questions_by_end ON questions (expires_at);
ALTER TABLE approvals ADD COLUMN answer TEXT NOT NULL DEFAULT ''""",
    AGENT_RUNS,
    # the call that made a change
    "ALTER TABLE changes ADD COLUMN call TEXT NOT NULL DEFAULT ''",
    # changes of commands: `layer` is the folder with the other version of each path; `previewed` identifies the call
    # that a change is only a preview of; an inode of 0 means a missing file
    """ALTER TABLE changes ADD COLUMN layer TEXT NOT NULL DEFAULT '';
ALTER TABLE changes ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
ALTER TABLE changes ADD COLUMN previewed TEXT NOT NULL DEFAULT '';
CREATE TABLE layer_steps (
         change INTEGER NOT NULL REFERENCES changes (number), position INTEGER NOT NULL, kind TEXT NOT NULL,
         root BLOB NOT NULL, path BLOB NOT NULL, slot BLOB NOT NULL, before_inode INTEGER NOT NULL,
         before_mode INTEGER NOT NULL, after_inode INTEGER NOT NULL, after_mode INTEGER NOT NULL,
         size INTEGER NOT NULL, files INTEGER NOT NULL, PRIMARY KEY (change, position)) WITHOUT ROWID""",
    AGENT_MACHINES,
    # trust in a resolved path did not tell which project was reviewed, so those files are reviewed again
    """DROP TABLE trusted;
CREATE TABLE trusted_files (
         kind TEXT NOT NULL, root BLOB NOT NULL, path BLOB NOT NULL, hash BLOB NOT NULL, content BLOB NOT NULL,
         at INTEGER NOT NULL, PRIMARY KEY (root, path, kind)) WITHOUT ROWID""",
    AGENT_CALLS,
    # what was stored before belongs to the run of its session: of an agent's, to that of the first session above it
    f"""CREATE TABLE runs (
         workspace TEXT NOT NULL, id TEXT NOT NULL, began INTEGER NOT NULL, used INTEGER NOT NULL,
         PRIMARY KEY (workspace, id)) WITHOUT ROWID;
CREATE INDEX runs_by_age ON runs (used);
CREATE TABLE run_costs (
         workspace TEXT NOT NULL, run TEXT NOT NULL, parent TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL,
         requests INTEGER NOT NULL, unpriced INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
         output_tokens INTEGER NOT NULL, nanodollars INTEGER NOT NULL,
         PRIMARY KEY (workspace, run, agent, model)) WITHOUT ROWID;
{_with_origin("changes", "at")};
{_with_origin("approvals", "asked_at")}""",
    # marks of processes show whether a user is available
    "DROP TABLE attendance",
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
