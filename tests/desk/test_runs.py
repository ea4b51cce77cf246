from __future__ import annotations

from contextlib import closing

import pytest

from hilt.call import Call
from hilt.desk.runs import runs, show
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.agent_calls import AgentOrder
from hilt.state.stored_runs import Runs


def listed(runtime: Runtime, limit: int = 50) -> list[str]:
    return [run.id for run in runs(runtime, limit)]


def started(runtime: Runtime, parent: str, call: str) -> str:
    """Create an agent as a call of `parent` would."""
    host = runtime.parts.agents
    order = AgentOrder("general", "Work.", call=call)
    return host.create(order, host.define("general", or_default=True), "background", parent, None).id


def test_runs_are_listed_by_their_last_use(runtime, workspace):
    workspace.write("a.txt", "a\n")
    for session in ("first", "second"):
        assert runtime.request(Call("read_file", {"path": "a.txt"}, session=session)).ok
        assert runtime.request(Call("write_file", {"path": session, "content": "x"}, session=session)).ok

    assert listed(runtime) == ["second", "first"]
    assert listed(runtime, limit=1) == ["second"]


def test_a_session_that_only_reads_is_a_run_without_a_stored_row(runtime, workspace):
    workspace.write("a.txt", "a\n")

    assert runtime.request(Call("read_file", {"path": "a.txt"}, session="reader")).ok

    with closing(Runs(runtime.parts.state, runtime.parts.id)) as store:
        assert store.newest(10) == []
    assert listed(runtime) == ["reader"]
    assert [call.tool for call in show(runtime, "reader").calls] == ["read_file"]


def test_the_calls_and_changes_of_agents_belong_to_the_run_that_started_them(runtime):
    runtime.call("todo_read")
    agent = started(runtime, runtime.session, "call-1")
    below = started(runtime, agent, "call-2")
    for session, path in [(agent, "a"), (below, "b")]:
        call = Call("write_file", {"path": path, "content": "x"}, session=session, id=f"write-{path}")
        assert runtime.request(call).ok

    details = show(runtime, runtime.session)

    assert listed(runtime) == [runtime.session]
    assert details.agents == (agent, below)
    assert [(call.tool, call.call, call.parent, call.agent) for call in details.calls] == [
        ("todo_read", "", "", ""),
        ("write_file", "write-a", "call-1", agent),
        ("write_file", "write-b", "call-2", below),
    ]
    assert details.changes == tuple(change.id for change in runtime.parts.history.changes())
    assert (len(details.changes), details.approvals, details.costs) == (2, (), ())


def test_an_unknown_run_is_not_found(runtime):
    with pytest.raises(ToolError) as raised:
        show(runtime, "nothing")

    assert raised.value.code == "not_found"
