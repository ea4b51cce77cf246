from __future__ import annotations

import os
from contextlib import closing
from decimal import Decimal
from functools import partial

import pytest

from hilt.call import ApprovalRequest, Origin
from hilt.state.approvals import Approvals
from hilt.state.db import Database
from hilt.state.history import History
from hilt.state.spending import Spending
from hilt.state.stored_runs import KEPT_DAYS, RunCost, Runs, StoredRun, note
from hilt.state.tables import MIGRATIONS, open_state

DAY = 86_400 * 1_000_000_000
BEFORE_RUNS = next(number for number, text in enumerate(MIGRATIONS) if "CREATE TABLE runs" in text)


@pytest.fixture
def state(tmp_path) -> str:
    return str(tmp_path / "state")


def old_database(state: str) -> Database:
    return Database(os.path.join(state, "state.db"), MIGRATIONS[: BEFORE_RUNS - 1], durable=True)


def add_agent(db: Database, id: str, parent: str, workspace: str = "w") -> None:
    names = "workspace, id, parent, caller, depth, kind, name, title, status, owner, answers, input_tokens"
    names += ", output_tokens, created, changed, error_code, settings, profile, prompt, answer"
    values = (workspace, id, parent, parent, 1, "call", "general", "", "completed", "", 1, 0, 0, 1, 1, "", "{}", "[]")
    marks = ",".join("?" * 20)
    db.write(lambda it: it.execute(f"INSERT INTO agents ({names}) VALUES ({marks})", (*values, "", "")))


def add_change(db: Database, id: str, session: str, at: int, workspace: str = "w") -> None:
    query = "INSERT INTO changes (id, workspace, session, operation, at, bytes, open) VALUES (?,?,?,?,?,0,0)"
    db.write(lambda it: it.execute(query, (id, workspace, session, "write_file", at)))


def carried(state: str, table: str) -> list[tuple[str, ...]]:
    """Return session, run, parent and agent of the rows of a table."""
    query = f"SELECT session, run, parent, agent FROM {table}"
    with closing(open_state(state)) as db:
        return db.read(lambda it: it.execute(query).fetchall())


def test_what_was_stored_before_belongs_to_the_run_of_its_session(state):
    with closing(old_database(state)) as old:
        add_agent(old, "agent_a", "main")
        add_agent(old, "agent_b", "agent_a")
        add_agent(old, "agent_b", "other", "elsewhere")
        for id, session, at in [("1", "main", 5), ("2", "agent_a", 7), ("3", "agent_b", 9), ("4", "agent_gone", 6)]:
            add_change(old, id, session, at)
        add_change(old, "5", "agent_b", 8, "elsewhere")
        query = "INSERT INTO approvals VALUES ('a','w','agent_b','d','{}','pending','','',3,NULL,99,'')"
        old.write(lambda db: db.execute(query))

    with closing(open_state(state)) as db:
        changes = db.read(lambda it: it.execute("SELECT id, run, parent, agent FROM changes ORDER BY id").fetchall())
        approvals = db.read(lambda it: it.execute("SELECT id, run, parent, agent FROM approvals").fetchall())
        stored = db.read(lambda it: it.execute("SELECT * FROM runs ORDER BY workspace, id").fetchall())

    assert changes == [
        ("1", "main", "", ""),
        ("2", "main", "", "agent_a"),
        ("3", "main", "", "agent_b"),
        ("4", "agent_gone", "", ""),
        ("5", "other", "", "agent_b"),
    ]
    assert approvals == [("a", "main", "", "agent_b")]
    assert stored == [("elsewhere", "other", 8, 8), ("w", "agent_gone", 6, 6), ("w", "main", 3, 9)]


def test_an_empty_old_database_is_migrated(state):
    with closing(old_database(state)) as old:
        old.write(lambda db: None)

    with closing(Runs(state, "w")) as store:
        assert (store.newest(10), store.get("main")) == ([], None)


def test_a_missing_database_has_no_runs_and_is_not_created(state):
    store = Runs(state, "w")

    assert (store.newest(10), store.get("a"), store.changes("a"), store.costs("a")) == ([], None, [], [])
    assert not os.path.exists(state)


def test_changes_and_questions_carry_their_run_parent_call_and_agent(state):
    def note_run(session: str) -> partial[Origin]:
        return partial(note, "w", Origin("main", "call-1", session))

    history = History(state, f"{state}/journal", "w", calls=10, megabytes=10, note_run=note_run)
    history.begin("agent_a", "write_file", [], call="call-7").keep()
    history.begin("agent_a", "write_file", []).drop()
    with closing(Approvals(state, note_run)) as approvals:
        asked = approvals.ask("w", "agent_a", "d", ApprovalRequest("run_shell", {}, "it writes"), seconds=60)

    rows = [carried(state, table) for table in ("changes", "approvals")]
    assert rows == [[("agent_a", "main", "call-1", "agent_a")]] * 2
    with closing(Runs(state, "w")) as store:
        (record,) = store.newest(10)
        assert (record.id, record.began <= record.used) == ("main", True)
        assert store.changes("main") == [history.changes()[0].id]
        assert store.waiting("main") == [asked.id]
    history.close()


def test_the_cost_of_a_run_is_counted_by_agent_and_model(state):
    for agent, model, cost in [("", "large", "0.5"), ("agent_a", "small", "0.001"), ("", "large", "0.25")]:
        with closing(Spending(state, "w", Origin("main", "", agent))) as spending:
            spending.add("2026-01-02", model, input_tokens=10, output_tokens=2, cost=Decimal(cost))
    with closing(Spending(state, "w", Origin("main"))) as spending:
        spending.add("2026-01-03", "large", input_tokens=1, output_tokens=1, cost=None)

    with closing(Runs(state, "w")) as store:
        assert store.costs("main") == [
            RunCost("", "large", 3, 1, 21, 5, 0.75),
            RunCost("agent_a", "small", 1, 0, 10, 2, 0.001),
        ]
        assert store.costs("other") == []


def test_runs_that_were_not_used_for_a_long_time_are_removed_with_their_costs(state, monkeypatch):
    now = 10_000 * DAY
    monkeypatch.setattr("hilt.state.stored_runs.time.time_ns", lambda: now)
    with closing(Spending(state, "w", Origin("old"))) as spending:
        spending.add("2026-01-02", "m", input_tokens=1, output_tokens=1, cost=Decimal(1))
    now += KEPT_DAYS * DAY + 1
    with closing(open_state(state)) as db, closing(Runs(state, "w")) as store:
        db.write(lambda it: note("w", Origin("new"), it))

        assert store.newest(10) == [StoredRun("new", now, now)]
        assert store.costs("old") == []
