from __future__ import annotations

import os
from contextlib import closing
from decimal import Decimal
from functools import partial

import pytest

from hilt.call import ApprovalRequest, Origin
from hilt.state.approvals import Approvals
from hilt.state.history import History
from hilt.state.spending import Spending
from hilt.state.stored_runs import KEPT_DAYS, RunCost, Runs, StoredRun, note
from hilt.state.tables import open_state

DAY = 86_400 * 1_000_000_000


@pytest.fixture
def state(tmp_path) -> str:
    return str(tmp_path / "state")


def carried(state: str, table: str) -> list[tuple[str, ...]]:
    """Return session, run, parent and agent of the rows of a table."""
    query = f"SELECT session, run, parent, agent FROM {table}"
    with closing(open_state(state)) as db:
        return db.read(lambda it: it.execute(query).fetchall())


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
