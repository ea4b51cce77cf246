from __future__ import annotations

import json
import os

import pytest

from hilt.call import Call
from hilt.state.approvals import Approvals
from hilt.state.session_values import SessionValues
from hilt.testing import Folder, temporary_runtime
from tests.tools.person import approved, rejected

PLAN = "1. Write b.txt.\n2. Test it."


@pytest.fixture
def planning(runtime):
    assert runtime.call("enter_plan_mode").ok
    return runtime


def writes(runtime):
    return runtime.call("write_file", path="b.txt", content="x").ok


def stored_values(runtime):
    values = SessionValues(runtime.parts.state)
    try:
        return values.all(runtime.parts.id, runtime.session)
    finally:
        values.close()


def test_an_approved_plan_restores_the_previous_mode(planning):
    result = approved(planning, "exit_plan_mode", plan=PLAN)

    assert result.ok
    assert result.meta["mode"] == "normal"
    assert result.view == {"type": "markdown", "content": PLAN, "title": "Approved plan"}
    assert writes(planning)
    assert stored_values(planning) == {}


def test_the_restored_mode_is_that_of_the_session_if_it_had_one(runtime):
    values = SessionValues(runtime.parts.state)
    values.set(runtime.parts.id, runtime.session, "mode", "auto-accept")
    values.close()
    runtime.call("enter_plan_mode")

    assert approved(runtime, "exit_plan_mode", plan=PLAN).meta["mode"] == "auto-accept"
    assert stored_values(runtime) == {"mode": "auto-accept"}


def test_approving_a_plan_also_leaves_a_plan_mode_set_in_the_settings(base):
    with temporary_runtime(base, flags={"mode": "plan"}) as (runtime, _):
        assert not writes(runtime)
        assert approved(runtime, "exit_plan_mode", plan=PLAN).meta["mode"] == "normal"
        assert writes(runtime)


def test_nothing_changes_before_the_approval(planning):
    result = planning.call("exit_plan_mode", plan=PLAN)

    assert result.error.code == "approval_required"
    assert "leave plan mode? The approval" in result.error.message
    assert not writes(planning)


def test_the_user_is_shown_the_plan(planning):
    result = planning.call("exit_plan_mode", plan=PLAN, allowed_prompts=["run the tests"])

    approvals = Approvals(planning.parts.state)
    asked = approvals.find(result.error.details["approval"]).asked
    approvals.close()
    assert asked.tool == "exit_plan_mode"
    assert asked.arguments["plan"] == PLAN


def test_a_rejected_plan_keeps_plan_mode_and_reports_the_reason(planning):
    result = rejected(planning, "exit_plan_mode", "smaller steps, please", plan=PLAN)

    assert result.error.code == "USER_REJECTION"
    assert "smaller steps, please" in result.error.message
    assert "exit_plan_mode again" in result.error.suggestion
    assert not writes(planning)
    assert approved(planning, "exit_plan_mode", plan=PLAN + "\n3. Rest.").ok


def test_an_approval_covers_only_the_plan_that_was_shown(planning):
    first = planning.call("exit_plan_mode", plan=PLAN)
    approvals = Approvals(planning.parts.state)
    id = first.error.details["approval"]
    approvals.answer(id, approved=True, by="test")
    approvals.close()

    other = planning.request(Call("exit_plan_mode", {"plan": "1. Delete everything."}, approval=id))

    assert other.error.code == "denied"
    assert not writes(planning)


@pytest.mark.starts_processes
@pytest.mark.parametrize("file", ["permissions.yaml", "hooks.yaml"])
def test_a_rule_that_asks_about_the_call_is_combined_with_the_plan_question(base, file):
    hook = {"event": "pre_tool_execution", "match": "exit_plan_mode", "command": 'echo \'{"decision": "ask"}\''}
    config = {"permissions.yaml": {"ask": ["exit_plan_mode"]}, "hooks.yaml": {"hooks": [hook]}}
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("plan.md", PLAN)
        Folder(os.path.join(base, "config")).write(file, json.dumps(config[file]))
        runtime.call("enter_plan_mode")

        result = approved(runtime, "exit_plan_mode", plan_file="plan.md")

        assert (result.error, runtime.parts.authority.mode(runtime.session)) == (None, "normal")


@pytest.mark.parametrize("rule", [False, True])
def test_the_approver_of_a_plan_is_recorded(base, rule):
    with temporary_runtime(base) as (runtime, _):
        if rule:
            Folder(os.path.join(base, "config")).write("permissions.yaml", "ask: [exit_plan_mode]\n")
        runtime.call("enter_plan_mode")
        approved(runtime, "exit_plan_mode", plan=PLAN)

        rows = runtime.parts.trail.rows(tool="exit_plan_mode")
        assert [(row.entry.outcome, row.entry.approver) for row in rows] == [("approval_required", ""), ("ok", "test")]


def test_the_plan_can_be_a_file(planning, workspace):
    workspace.write("plan.md", PLAN)

    assert approved(planning, "exit_plan_mode", plan_file="plan.md").view["content"] == PLAN


def test_proposed_grants_are_recorded_and_grant_nothing(planning):
    prompts = ["run the tests", {"tool": "run_shell", "prompt": "install packages"}]
    proposed = [{"prompt": "run the tests"}, {"tool": "run_shell", "prompt": "install packages"}]

    result = approved(planning, "exit_plan_mode", plan=PLAN, allowed_prompts=prompts)

    assert result.meta["proposed_grants"] == proposed
    assert stored_values(planning) == {"proposed_grants": proposed}
    approvals = Approvals(planning.parts.state)
    assert approvals.grants() == []
    approvals.close()


@pytest.mark.parametrize(
    "args, code",
    [
        ({"plan": " \n"}, "invalid_args"),
        ({"plan": "x" * 100_001}, "invalid_args"),
        ({"plan": "x", "plan_file": "plan.md"}, "invalid_args"),
        ({"plan_file": "missing.md"}, "file_not_found"),
        ({"plan_file": "../outside.md"}, "path_outside_workspace"),
        ({"plan_file": "picture"}, "binary_file"),
        ({"allowed_prompts": [5]}, "invalid_args"),
        ({"allowed_prompts": [{"tool": "run_shell"}]}, "invalid_args"),
    ],
)
def test_a_plan_that_cannot_be_shown_is_refused_without_asking(planning, workspace, args, code):
    workspace.write("plan.md", PLAN)
    workspace.write("picture", b"\x89PNG\0\0")

    assert planning.call("exit_plan_mode", **args).error.code == code
    approvals = Approvals(planning.parts.state)
    assert approvals.pending() == []
    approvals.close()


def test_leaving_plan_mode_outside_plan_mode_is_refused(runtime):
    error = runtime.call("exit_plan_mode", plan=PLAN).error

    assert (error.code, "normal mode" in error.message) == ("invalid_request", True)


def test_the_jcli_dialect_takes_no_plan_argument(planning):
    args = {"allowedPrompts": [{"tool": "Bash", "prompt": "run the tests"}]}

    refusal = rejected(planning, "ExitPlanMode", "no", **args)
    approval = approved(planning, "ExitPlanMode", **args)

    assert "call ExitPlanMode again" in refusal.error.suggestion
    assert approval.meta["proposed_grants"] == args["allowedPrompts"]
