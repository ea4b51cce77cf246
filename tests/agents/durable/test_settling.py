"""What becomes of a call whose process was killed: on the same machine and on another."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import Any

import pytest

from hilt.agents.calls import MadeCall
from hilt.agents.durable.places import machine_name
from hilt.agents.durable.runs import InterruptedCalls
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.agent_runs import LOST, RunRecord
from hilt.state.roster import Owner

SESSION = "agent_0123456789ab"
DEAD = "0-dead"
EDIT = {"path": "a.txt", "old_text": "one", "new_text": "two"}


def interrupted(runtime: Runtime, *, host: str = "", owner: str = DEAD) -> InterruptedCalls:
    last = RunRecord(1, owner, host or machine_name(runtime.state), "1", 0, 0, 3, LOST)
    return InterruptedCalls(runtime.in_session(SESSION, runtime.settings), last)


def made(tool: str, args: dict[str, Any], id: str = "call_1") -> MadeCall:
    return MadeCall(0, id, tool, args)


def code_of(result: Result | None) -> str:
    assert result is not None
    assert result.error is not None
    return result.error.code


@pytest.mark.parametrize("host", ["", "elsewhere"])
def test_a_read_is_repeated(runtime, host):
    assert interrupted(runtime, host=host).settle(made("read_file", {"path": "a.txt"})) is None


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
def test_what_may_have_run_is_not_repeated(runtime, host, tool, args):
    assert code_of(interrupted(runtime, host=host).settle(made(tool, args))) == "outcome_unknown"


def test_a_change_is_settled_by_the_journal(runtime, workspace):
    workspace.write("a.txt", "one\n")
    calls = interrupted(runtime)

    assert calls.settle(made("edit_file", EDIT)) is None
    assert runtime.request(Call("edit_file", EDIT, id="call_1", session=SESSION)).ok
    settled = calls.settle(made("edit_file", EDIT))

    assert settled
    assert settled.ok
    assert settled.meta["change"] in settled.text
    assert calls.settle(made("edit_file", EDIT, id="call_2")) is None
    forwarded = calls.settle(made("tool_call", {"name": "edit_file", "arguments": EDIT}))
    assert forwarded
    assert forwarded.meta == settled.meta


def test_a_change_that_another_thread_recovers_is_waited_for(runtime, workspace):
    workspace.write("a.txt", "one\n")
    assert runtime.request(Call("edit_file", EDIT, id="call_1", session=SESSION)).ok
    path = f"{runtime.state}/state.db"

    def set_open(value: int) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE changes SET open=?", (value,))
            db.commit()

    set_open(1)  # as while it is recovered: no marker is left that this process could take
    finished = threading.Timer(0.3, set_open, (0,))
    finished.start()
    settled = interrupted(runtime).settle(made("edit_file", EDIT))
    finished.join()

    assert settled
    assert settled.ok


def test_a_change_on_another_machine_is_unknown(runtime, workspace):
    workspace.write("a.txt", "one\n")

    result = interrupted(runtime, host="elsewhere").settle(made("edit_file", EDIT))

    assert code_of(result) == "outcome_unknown"
    assert "elsewhere" in str(result)


def test_a_change_of_a_process_that_only_hangs_is_unknown(runtime, workspace):
    workspace.write("a.txt", "one\n")
    owner = Owner(runtime.state)
    try:
        assert code_of(interrupted(runtime, owner=owner.name).settle(made("edit_file", EDIT))) == "outcome_unknown"
    finally:
        owner.close()

    assert interrupted(runtime, owner=owner.name).settle(made("edit_file", EDIT)) is None


def test_malformed_arguments_fail_again(runtime):
    call = MadeCall(0, "call_1", "run_shell", "{", ToolError("invalid_args", "malformed"))

    assert interrupted(runtime).settle(call) is None


def test_looking_at_agents_loads_no_workflows():
    script = "import sys, hilt.agents.children; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ("dbos", "sqlalchemy", "psycopg", "pydantic_ai")

    done = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True, timeout=60)

    assert done.stdout == "[]\n", done.stderr
