from __future__ import annotations

import pytest

from hilt.testing import temporary_runtime
from tests.tools.person import approved


def test_in_plan_mode_reading_works_and_writing_is_refused(runtime, workspace):
    workspace.write("a.txt", "alpha\n")

    result = runtime.call("enter_plan_mode")

    assert result.ok
    assert result.meta["mode"] == "plan"
    assert "exit_plan_mode" in result.text
    assert "alpha" in runtime.call("read_file", path="a.txt").text
    for tool, args in [
        ("write_file", {"path": "b.txt", "content": "x"}),
        ("edit_file", {"path": "a.txt", "old_text": "alpha", "new_text": "beta"}),
        ("register_hook", {"action": "register", "event": "stop", "command": "true"}),
    ]:
        assert not runtime.call(tool, **args).ok
    assert workspace.tree() == {"a.txt": "alpha\n"}


def test_entering_twice_changes_nothing(runtime):
    runtime.call("enter_plan_mode")

    again = runtime.call("enter_plan_mode")

    assert (again.ok, "already" in again.text) == (True, True)
    assert approved(runtime, "exit_plan_mode", plan="Do it.").meta["mode"] == "normal"


def test_plan_mode_belongs_to_the_session_and_outlives_the_process(base):
    with temporary_runtime(base, session="planning") as (runtime, _):
        runtime.call("enter_plan_mode")

    write = {"path": "a.txt", "content": "x"}
    with temporary_runtime(base, session="planning") as (runtime, _):
        assert not runtime.call("write_file", **write).ok
    with temporary_runtime(base, session="another") as (runtime, _):
        assert runtime.call("write_file", **write).ok


def test_entering_plan_mode_takes_no_arguments(runtime):
    assert runtime.call("enter_plan_mode", plan="x").error.code == "invalid_args"


@pytest.mark.parametrize("name", ["EnterPlanMode", "enter_plan_mode"])
def test_the_result_names_the_exit_tool_of_its_dialect(runtime, name):
    text = runtime.call(name).text

    assert ("ExitPlanMode" in text) is (name == "EnterPlanMode")
    assert ("exit_plan_mode" in text) is (name == "enter_plan_mode")
