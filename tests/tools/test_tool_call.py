from __future__ import annotations

import json
import os
import threading

import pytest

from hilt.call import Call
from hilt.declaration import tool
from hilt.params import WritePath
from hilt.testing import Folder, environment, temporary_runtime


def code(result):
    return result.error.code


def test_the_named_tool_runs(runtime, workspace):
    written = runtime.call("tool_call", name="write_file", arguments={"path": "a.txt", "content": "hi\n"})
    direct = runtime.call("write_file", path="a.txt", content="hi\n", dry_run=True)

    assert written.text == "wrote 3 bytes to a.txt"
    assert written.meta["undo"]
    assert workspace.tree() == {"a.txt": "hi\n"}
    wrapped = runtime.call(
        "tool_call", name="write_file", arguments={"path": "a.txt", "content": "hi\n", "dry_run": True}
    )
    assert (wrapped.text, wrapped.view) == (direct.text, direct.view)


def test_a_tool_without_arguments_needs_none(runtime):
    assert runtime.call("tool_call", name="job_list").ok
    assert runtime.call("tool_call", name="job_list", arguments=None).ok


def test_arguments_may_be_a_json_string(runtime, workspace):
    workspace.write("a", "x\n")

    assert runtime.call("tool_call", name="read_file", arguments=json.dumps({"path": "a"})).text == "1\tx"


@pytest.mark.parametrize("name", ["Read", "tool::file_read"])
def test_dialect_names_return_results_in_their_own_format(runtime, workspace, name):
    workspace.write("a", "x\n")

    wrapped = runtime.call("tool_call", name=name, arguments={"path": "a"})

    assert (wrapped.text, wrapped.data) == (runtime.call(name, path="a").text, runtime.call(name, path="a").data)


def test_the_dialect_of_the_call_applies(runtime, workspace):
    workspace.write("a", "x\n")
    call = Call("tool_call", {"name": "Read", "arguments": {"path": "a"}}, dialect="jcli")

    assert runtime.request(call).ok


# --- errors -------------------------------------------------------------------------------------------------------


def test_tool_call_does_not_call_itself(runtime):
    inner = {"name": "tool_call", "arguments": {"name": "job_list"}}

    assert runtime.call("tool_call", **inner).error.code == "invalid_request"


@pytest.mark.parametrize(
    "args, reason",
    [
        ({}, "argument: name"),
        ({"name": 3}, "name must be a string"),
        ({"name": "read_file", "arguments": [1]}, "arguments must be an object"),
        ({"name": "read_file", "path": "a"}, "path is not an argument"),
    ],
)
def test_invalid_wrapper_arguments_are_reported(runtime, args, reason):
    error = runtime.call("tool_call", **args).error

    assert error.code == "invalid_args"
    assert reason in error.message
    assert "inside arguments" in error.suggestion


def test_violations_of_the_named_tools_schema_are_reported(runtime):
    error = runtime.call("tool_call", name="read_file", arguments={"pth": "a", "start_line": "x"}).error

    assert error.code == "invalid_args"
    assert [violation["path"] for violation in error.details["violations"]] == ["pth", "start_line", "path"]


def test_an_unknown_tool_suggests_the_nearest_name(runtime):
    error = runtime.call("tool_call", name="read_fil").error

    assert (error.code, error.details["nearest"][0]) == ("unknown_tool", "read_file")


# --- policy, trail, approvals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [{"mode": "plan"}, {"disabledTools": ["Write"]}, {"disabledTools": ["tool_call"]}, {"tools.only": ["read_file"]}],
)
def test_hidden_tools_are_denied(base, flags):
    with temporary_runtime(base, flags=flags) as (runtime, workspace):
        result = runtime.call("tool_call", name="write_file", arguments={"path": "a", "content": "x"})

        assert code(result) == "denied"
        assert workspace.tree() == {}


@pytest.mark.parametrize("flags", [{"profile": "nano"}, {"mode": "plan"}, {"tools.only": ["read_file"]}])
def test_available_tools_can_be_called_in_every_profile_and_mode(base, flags):
    with temporary_runtime(base, flags=flags) as (runtime, workspace):
        workspace.write("a", "x\n")

        assert runtime.call("tool_call", name="read_file", arguments={"path": "a"}).ok


@pytest.mark.parametrize("denied", ["write_file", "Write", "write_file(/a/)", "tool_call"])
def test_rules_apply_to_the_named_tool_and_a_denied_wrapper_cannot_be_used(base, denied):
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write(".hilt/permissions.yaml", json.dumps({"permissions": {"allow_all": True, "deny": [denied]}}))
        result = runtime.call("tool_call", name="write_file", arguments={"path": "a", "content": "x"})

        assert code(result) == "denied"
        assert "a" not in workspace.tree()


def test_allowing_the_wrapper_allows_no_tool_that_asks(base):
    os.makedirs(environment(base)["HILT_CONFIG_DIR"])
    rules = Folder(environment(base)["HILT_CONFIG_DIR"])
    rules.write("permissions.yaml", json.dumps({"default": "ask", "allow": ["tool_call"]}))
    with temporary_runtime(base) as (runtime, _):
        result = runtime.call("tool_call", name="write_file", arguments={"path": "a", "content": "x"})

    assert code(result) == "approval_required"


def test_an_approval_covers_the_real_call_with_or_without_the_wrapper(base):
    @tool(effects="control")
    def launch(target: str) -> str:
        """Launch it."""
        return f"launched {target}"

    with temporary_runtime(base, tools=[launch]) as (runtime, _):
        wrapped = {"name": "launch", "arguments": {"target": "it"}}
        error = runtime.call("tool_call", **wrapped).error
        assert error is not None
        id = str(error.details["approval"])
        approvals = runtime.parts.authority.approvals()
        pending = approvals.find(id)
        approvals.answer(id, approved=True, reason="", by="test")
        other = runtime.request(Call("tool_call", {"name": "launch", "arguments": {"target": "x"}}, approval=id))
        allowed = runtime.request(Call("tool_call", wrapped, approval=id))
        again = runtime.request(Call("launch", {"target": "it"}, approval=id))

    assert (pending.asked.tool, pending.asked.arguments) == ("launch", {"target": "it"})
    assert not other.ok
    assert allowed.text == "launched it"
    assert not again.ok


def test_the_trail_records_the_named_tool(runtime):
    runtime.call("tool_call", name="job_list")
    runtime.call("tool_call", name="read_file", arguments={"pth": "a"})
    runtime.call("tool_call", name="tool_call")

    rows = runtime.parts.trail.rows(limit=10)

    assert sorted(row.entry.tool for row in rows) == ["job_list", "read_file", "tool_call"]


def test_explain_covers_the_named_tool(runtime):
    explanation = runtime.explain(Call("tool_call", {"name": "write_file", "arguments": {"path": "a", "content": "x"}}))

    assert explanation.prepared.tool.name == "write_file"
    assert [touch.effect for touch in explanation.prepared.touches] == ["write"]


def test_calls_on_one_file_wait_for_each_other_with_or_without_the_wrapper(base):
    order: list[str] = []
    began, go = threading.Event(), threading.Event()

    @tool(effects="write")
    def hold(path: WritePath) -> str:
        """Hold it."""
        began.set()
        go.wait(60)
        order.append("hold")
        return ""

    @tool(effects="write")
    def touch(path: WritePath) -> str:
        """Touch it."""
        order.append("touch")
        return ""

    with temporary_runtime(base, tools=[hold, touch]) as (runtime, _):
        ended = [threading.Event(), threading.Event()]
        runtime.submit(Call("hold", {"path": "a"}), lambda result: ended[0].set())
        assert began.wait(60)
        runtime.submit(Call("tool_call", {"name": "touch", "arguments": {"path": "a"}}), lambda result: ended[1].set())
        go.set()
        assert all(event.wait(60) for event in ended)

    assert order == ["hold", "touch"]
