"""The result of a call whose process was killed: on the same machine and on another."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import Any

import pytest

from hilt.agents.calls import MadeCall
from hilt.agents.durable.runs import InterruptedCalls, runs_of_last_turn
from hilt.agents.durable.stores import machine_name
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.agent_database import owners_folder
from hilt.state.agent_runs import LOST, RunRecord
from hilt.state.locks import ProcessMark
from hilt.testing import temporary_runtime

SESSION = "agent_0123456789ab"
DEAD = "0-dead"
EDIT = {"path": "a.txt", "old_text": "one", "new_text": "two"}


def interrupted(runtime: Runtime, *, host: str = "", owner: str = DEAD) -> InterruptedCalls:
    run = RunRecord(1, owner, host or machine_name(runtime.parts.state), "1", 0, 0, 3, LOST)
    return InterruptedCalls(runtime.in_session(SESSION, runtime.settings), [run])


def made_call(tool: str, args: dict[str, Any], id: str = "call_1") -> MadeCall:
    return MadeCall(0, id, tool, args)


def code_of(result: Result | None) -> str:
    assert result is not None
    assert result.error is not None
    return result.error.code


@pytest.mark.parametrize("host", ["", "elsewhere"])
def test_a_read_is_repeated(runtime, host):
    assert interrupted(runtime, host=host).settle(made_call("read_file", {"path": "a.txt"})) is None


@pytest.mark.parametrize("host", ["", "elsewhere"])
@pytest.mark.parametrize(
    "tool, args",
    [
        ("run_shell", {"command": "ls"}),
        ("memory", {"action": "add", "content": "x"}),
        ("task", {"action": "create", "title": "x"}),
        ("web_fetch", {"url": "http://example.com"}),
        ("tool_call", {"name": "run_shell", "arguments": {"command": "ls"}}),
        ("tool_of_a_server_that_is_gone", {}),
    ],
)
def test_a_call_that_may_have_run_is_not_repeated(runtime, host, tool, args):
    assert code_of(interrupted(runtime, host=host).settle(made_call(tool, args))) == "outcome_unknown"


def test_a_change_is_settled_by_the_journal(runtime, workspace):
    workspace.write("a.txt", "one\n")
    calls = interrupted(runtime)

    assert calls.settle(made_call("edit_file", EDIT)) is None
    assert runtime.request(Call("edit_file", EDIT, id="call_1", session=SESSION)).ok
    settled = calls.settle(made_call("edit_file", EDIT))

    assert settled
    assert settled.ok
    assert settled.meta["change"] in settled.text
    assert [row.entry.call for row in runtime.parts.trail.rows(session=SESSION)] == ["call_1"]
    assert calls.settle(made_call("edit_file", EDIT, id="call_2")) is None
    forwarded = calls.settle(made_call("tool_call", {"name": "edit_file", "arguments": EDIT}))
    assert forwarded
    assert forwarded.meta == settled.meta


@pytest.mark.parametrize("forget", ["evict", "clear"])
def test_a_change_that_can_no_longer_be_undone_is_still_known(base, forget):
    with temporary_runtime(base, flags={"undo.calls": 1}) as (runtime, workspace):
        workspace.write("a.txt", "one\n")
        workspace.write("b.txt", "one\n")
        assert runtime.request(Call("edit_file", EDIT, id="call_1", session=SESSION)).ok
        if forget == "evict":
            assert runtime.request(Call("edit_file", {**EDIT, "path": "b.txt"}, id="call_2", session=SESSION)).ok
        else:
            runtime.parts.history.clear()
        settled = interrupted(runtime).settle(made_call("edit_file", EDIT))

        assert len(runtime.parts.history.changes()) == (forget == "evict")
        assert settled
        assert settled.ok


def test_a_change_that_another_thread_recovers_is_waited_for(runtime, workspace):
    workspace.write("a.txt", "one\n")
    assert runtime.request(Call("edit_file", EDIT, id="call_1", session=SESSION)).ok
    path = f"{runtime.parts.state}/state.db"

    def set_open(value: int) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE changes SET open=?", (value,))
            db.commit()

    set_open(1)  # as while it is recovered: no marker is left that this process could take
    finished = threading.Timer(0.3, set_open, (0,))
    finished.start()
    settled = interrupted(runtime).settle(made_call("edit_file", EDIT))
    finished.join()

    assert settled
    assert settled.ok


def test_a_change_on_another_machine_is_unknown(runtime, workspace):
    workspace.write("a.txt", "one\n")

    result = interrupted(runtime, host="elsewhere").settle(made_call("edit_file", EDIT))

    assert code_of(result) == "outcome_unknown"
    assert "elsewhere" in str(result)


def test_a_change_of_a_process_that_only_hangs_is_unknown(runtime, workspace):
    workspace.write("a.txt", "one\n")
    with closing(ProcessMark(owners_folder(runtime.parts.state), "owner")):
        assert code_of(interrupted(runtime, owner="owner").settle(made_call("edit_file", EDIT))) == "outcome_unknown"

    assert interrupted(runtime, owner="owner").settle(made_call("edit_file", EDIT)) is None


def test_a_change_is_unknown_if_a_second_process_was_killed_before_it_settled_it(runtime, workspace):
    workspace.write("a.txt", "one\n")
    here = machine_name(runtime.parts.state)
    runs = [
        RunRecord(number, DEAD, host, "1", 0, 0, steps, LOST)
        for number, (host, steps) in enumerate([(here, 0), ("elsewhere", 2), (here, 5), (here, 6)], start=1)
    ]
    records = [{"type": kind} for kind in ("session", "user", "answer", "result", "answer", "result")]

    makers = runs_of_last_turn(runs, records)
    settled = InterruptedCalls(runtime.in_session(SESSION, runtime.settings), makers).settle(
        made_call("edit_file", EDIT)
    )

    assert [run.number for run in makers] == [2, 3, 4]
    assert code_of(settled) == "outcome_unknown"
    assert runs_of_last_turn(runs[:1], records[:2]) == runs[:1]


def test_malformed_arguments_fail_again(runtime):
    call = MadeCall(0, "call_1", "run_shell", "{", ToolError("invalid_args", "malformed"))

    assert interrupted(runtime).settle(call) is None


def test_importing_the_host_of_agents_loads_no_workflows():
    script = "import sys, hilt.agents.children; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ("dbos", "sqlalchemy", "psycopg", "pydantic_ai")

    done = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True, timeout=60)

    assert done.stdout == "[]\n", done.stderr
