from __future__ import annotations

import threading
from typing import Any

import pytest

from hilt.policy.hook_protocol import EVENTS, POST, PRE
from hilt.runtime import Runtime
from hilt.state.approvals import Approvals
from hilt.testing import temporary_runtime
from tests.tools.person import approved, rejected


def register(runtime: Runtime, command: str, event: str = PRE, **more: Any) -> Any:
    return approved(runtime, "register_hook", action="register", event=event, command=command, **more)


def listed(runtime: Runtime) -> list[dict[str, Any]]:
    hooks: list[dict[str, Any]] = approved(runtime, "register_hook", action="list").data["hooks"]
    return hooks


def test_a_hook_is_registered_only_with_the_users_approval(runtime):
    args = {"action": "register", "event": PRE, "command": "true"}

    assert runtime.call("register_hook", **args).error.code == "approval_required"
    assert rejected(runtime, "register_hook", "no", **args).error.code == "USER_REJECTION"
    assert listed(runtime) == []


def test_the_user_is_shown_the_command_and_its_risk(runtime):
    result = runtime.call("register_hook", action="register", event=PRE, command="ls; rm -rf build")

    approvals = Approvals(runtime.parts.state)
    asked = approvals.find(result.error.details["approval"]).asked
    approvals.close()
    assert (asked.kind, asked.command, asked.risk) == ("command", "ls; rm -rf build", "dangerous")


def test_hooks_are_numbered_listed_and_removed(runtime):
    replies = [register(runtime, command, event).data for command, event in [("a", PRE), ("b", POST), ("c", PRE)]]

    assert replies == [{"event": PRE, "index": 0}, {"event": POST, "index": 0}, {"event": PRE, "index": 1}]
    removed = approved(runtime, "register_hook", action="remove", event=PRE, index=0)
    assert removed.data["removed"]["command"] == "a"
    assert listed(runtime) == [
        {"source": "session", "index": 0, "event": POST, "command": "b", "timeout": 10.0, "on_failure": "ignore"},
        {"source": "session", "index": 0, "event": PRE, "command": "c", "timeout": 10.0, "on_failure": "block"},
    ]


@pytest.mark.starts_processes
def test_the_list_shows_the_users_own_hooks_too(base):
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("../config/hooks.yaml", "- {event: post_tool_execution, command: 'true'}\n- {event: what}\n")
        workspace.write(".hilt/hooks.yaml", "- {event: stop, command: 'true'}\n")

        data = approved(runtime, "register_hook", action="list").data

    assert [(hook["source"], hook["command"]) for hook in data["hooks"]] == [("personal", "true")]
    assert data["hooks"][0]["file"].endswith("config/hooks.yaml")
    assert "unknown event 'what'" in data["problems"][0]
    assert "is not trusted" in data["notes"][0]


def test_help_explains_the_protocol_and_lists_every_event(runtime):
    text = approved(runtime, "register_hook", action="help").text

    assert [event for event in EVENTS if f"\n  {event}: " not in text] == []
    for word in ("standard input", "arguments", "decision", "skip", "Exit status 2", "on_failure"):
        assert word in text


@pytest.mark.parametrize(
    "args, code",
    [
        ({"action": "register", "command": "true"}, "invalid_args"),
        ({"action": "register", "event": PRE}, "invalid_args"),
        ({"action": "register", "event": "pre_tool_executon", "command": "true"}, "invalid_args"),
        ({"action": "register", "event": PRE, "command": "true", "match": "Bash(/(/)"}, "invalid_args"),
        ({"action": "register", "event": "stop", "command": "true", "match": "Bash"}, "invalid_args"),
        ({"action": "register", "event": PRE, "command": "true", "timeout": 601}, "invalid_args"),
        ({"action": "register", "event": PRE, "command": "true", "on_failure": "pass"}, "invalid_args"),
        ({"action": "remove", "event": PRE}, "invalid_args"),
        ({"action": "remove", "index": 0}, "invalid_args"),
        ({"action": "remove", "event": PRE, "index": -1}, "invalid_args"),
        ({"action": "remove", "event": PRE, "index": 0}, "not_found"),
        ({"action": "clear"}, "invalid_args"),
    ],
)
def test_invalid_requests_are_rejected(runtime, args, code):
    assert approved(runtime, "register_hook", **args).error.code == code
    assert listed(runtime) == []


@pytest.mark.starts_processes
def test_a_hook_that_always_fails_can_be_removed(runtime, workspace):
    workspace.write("a.txt", "x")
    register(runtime, "exit 1")

    assert runtime.call("read_file", path="a.txt").error.code == "hook_blocked"
    assert approved(runtime, "register_hook", action="remove", event=PRE, index=0).ok
    assert runtime.call("read_file", path="a.txt").ok


def test_the_jcli_tool_has_the_same_actions(runtime):
    args = {"action": "register", "event": PRE, "command": "true"}

    assert approved(runtime, "RegisterHook", **args).data == {"event": PRE, "index": 0}
    assert approved(runtime, "RegisterHook", action="remove", event=PRE, index=0).ok


def test_concurrent_registrations_lose_no_hook(runtime):
    threads = [threading.Thread(target=register, args=(runtime, f"true {number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(hook["command"] for hook in listed(runtime)) == [f"true {number}" for number in range(8)]
    assert [hook["index"] for hook in listed(runtime)] == list(range(8))


# --- effects of registered hooks ------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_a_registered_hook_blocks_calls_of_its_session_in_other_processes_too(base):
    with temporary_runtime(base, session="one") as (runtime, _):
        register(runtime, "echo 'gen/ is generated' >&2; exit 2", match="Write(path:gen/**)")

    write = {"path": "gen/a.txt", "content": "x"}
    with temporary_runtime(base, session="one") as (runtime, _):
        error: Any = runtime.call("write_file", **write).error
        assert (error.code, "gen/ is generated" in error.message) == ("hook_blocked", True)
        assert runtime.call("write_file", path="src/a.txt", content="x").ok
    with temporary_runtime(base, session="two") as (runtime, _):
        assert runtime.call("write_file", **write).ok


@pytest.mark.starts_processes
def test_a_registered_hook_runs_in_the_sandbox(runtime, workspace, tmp_path):
    outside = tmp_path / "outside"
    register(runtime, f"touch {outside}; touch inside; cat .env >&2; true")
    workspace.write("a.txt", "x")
    workspace.write(".env", "SECRET=1")

    assert runtime.call("read_file", path="a.txt").ok
    assert not outside.exists()
    assert "inside" in workspace.tree()


@pytest.mark.starts_processes
def test_a_registered_hook_receives_the_call_and_can_change_its_result(runtime, workspace):
    workspace.write("a.txt", "x")
    register(runtime, 'cat > received.json; echo \'{"result": "changed"}\'', POST, match="Read")

    assert runtime.call("read_file", path="a.txt").text == "changed"
    assert '"event": "post_tool_execution"' in workspace.read("received.json")


@pytest.mark.starts_processes
def test_arguments_rewritten_by_a_registered_hook_are_decided_again(runtime, workspace):
    workspace.write("b.txt", "beta")
    workspace.write(".env", "SECRET=1")
    register(
        runtime,
        """grep -q a.txt && echo '{"arguments": {"path": "b.txt"}}' || echo '{"arguments": {"path": ".env"}}'""",
    )

    assert "beta" in runtime.call("read_file", path="a.txt").text
    assert runtime.call("read_file", path="b.txt").error.code == "sensitive_path"
