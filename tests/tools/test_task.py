from __future__ import annotations

import threading
from typing import Any

import pytest

from hilt.call import Call, Result
from hilt.output import foreign_views
from hilt.runtime import Runtime
from hilt.state.board import BLOCKERS_MAX
from hilt.testing import environment
from hilt.tools.task import PAGE


def task(runtime: Runtime, action: str, **args: Any) -> Any:
    result = runtime.call("task", action=action, **args)
    assert result.ok, result.error
    return result.data


def error_of(result: Result) -> tuple[str, str]:
    assert result.error is not None
    return result.error.code, result.error.message


def test_a_task_is_created_read_and_listed(runtime):
    created = task(runtime, "create", title="Design", description="One\npage", owner="ann")["task"]

    assert created == task(runtime, "get", taskId=1)["task"]
    times = {name: created.pop(name) for name in ("created", "updated")}
    assert times["created"] == times["updated"]
    assert created == {
        "id": 1,
        "title": "Design",
        "status": "pending",
        "ready": True,
        "blockedBy": [],
        "owner": "ann",
        "description": "One\npage",
    }
    del created["description"]
    assert task(runtime, "list") == {"tasks": [created], "total_count": 1, "truncated": False}


def test_completing_a_task_returns_the_tasks_that_became_ready(runtime):
    task(runtime, "create", title="a")
    task(runtime, "create", title="b", blockedBy=[1])
    task(runtime, "create", title="c", blockedBy=["1", 2])

    assert [item["id"] for item in task(runtime, "list", ready=True)["tasks"]] == [1]
    assert task(runtime, "update", taskId=1, status="completed")["became_ready"] == [{"id": 2, "title": "b"}]
    assert task(runtime, "update", taskId="2", status="completed")["became_ready"] == [{"id": 3, "title": "c"}]
    assert "became_ready" not in task(runtime, "update", taskId=3, status="in_progress")
    assert task(runtime, "update", taskId=3, status="completed")["became_ready"] == []


def test_omitted_fields_keep_their_value(runtime):
    task(runtime, "create", title="a")
    before = task(runtime, "create", title="b", description="d", owner="ann", blockedBy=[1])["task"]

    after = task(runtime, "update", taskId=2, title="B")["task"]

    assert after.pop("updated") >= before.pop("updated")
    assert after == {**before, "title": "B"}
    cleared = task(runtime, "update", taskId=2, description="", owner="", blockedBy=[])["task"]
    assert (cleared["ready"], cleared["blockedBy"], "owner" in cleared, "description" in cleared) == (
        True, [], False, False,
    )  # fmt: skip


@pytest.mark.parametrize("id", [1, "1", " 1 ", 1.0, "01"])
def test_an_id_may_be_a_string(runtime, id):
    task(runtime, "create", title="a")

    assert task(runtime, "get", taskId=id)["task"]["id"] == 1


@pytest.mark.parametrize(
    "args, code, fact",
    [
        ({}, "invalid_args", "action"),
        ({"action": "delete"}, "invalid_args", "must be one of create, get, list, update"),
        ({"action": "create"}, "invalid_args", "title"),
        ({"action": "create", "title": ""}, "invalid_args", "title"),
        ({"action": "create", "title": " \u200b\n"}, "invalid_args", "title is empty"),
        ({"action": "create", "title": 1}, "invalid_args", "must be a string"),
        ({"action": "create", "title": "x" * 201}, "invalid_args", "201 characters; the limit is 200"),
        ({"action": "create", "title": "x", "description": "x" * 8001}, "invalid_args", "8001"),
        ({"action": "create", "title": "x", "owner": "x" * 101}, "invalid_args", "101"),
        ({"action": "create", "title": "x", "blockedBy": [2]}, "not_found", "no task 2"),
        ({"action": "create", "title": "x", "blockedBy": [1, 5, "6"]}, "not_found", "no tasks 5, 6"),
        ({"action": "create", "title": "x", "blockedBy": ["x"]}, "invalid_args", "blockedBy"),
        ({"action": "create", "title": "x", "blockedBy": [True]}, "invalid_args", "not a boolean"),
        ({"action": "create", "title": "x", "blockedBy": 1}, "invalid_args", "must be an array"),
        ({"action": "create", "title": "x", "blockedBy": [1] * (BLOCKERS_MAX + 1)}, "invalid_args", "at most"),
        ({"action": "create", "title": "x", "status": "done"}, "invalid_args", "must be one of"),
        ({"action": "create", "title": "x", "tags": []}, "invalid_args", "tags"),
        ({"action": "get"}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": 7}, "not_found", "no task 7"),
        ({"action": "get", "taskId": "x"}, "invalid_args", '"x"'),
        ({"action": "get", "taskId": "1" * 5000}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": 10**400}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": "9999999999999999999"}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": "\u0661"}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": 0}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": -1}, "invalid_args", "taskId"),
        ({"action": "get", "taskId": 1.5}, "invalid_args", "taskId"),
        ({"action": "update", "status": "completed"}, "invalid_args", "taskId"),
        ({"action": "update", "taskId": 1}, "invalid_args", "changes nothing"),
        ({"action": "update", "taskId": 1, "title": ""}, "invalid_args", "title is empty"),
        ({"action": "update", "taskId": 1, "status": "cancelled"}, "invalid_args", "must be one of"),
        ({"action": "update", "taskId": 1, "blockedBy": [1]}, "invalid_args", "the cycle 1 → 1"),
        ({"action": "update", "taskId": 1, "blockedBy": [9], "status": "completed"}, "not_found", "no task 9"),
        ({"action": "update", "taskId": 9, "status": "completed"}, "not_found", "no task 9"),
    ],
)
def test_invalid_arguments_are_rejected_and_change_nothing(runtime, args, code, fact):
    task(runtime, "create", title="a")
    before = task(runtime, "list")

    result = runtime.call("task", **args)

    assert (error_of(result)[0], fact in error_of(result)[1]) == (code, True), error_of(result)
    assert task(runtime, "list") == before
    assert task(runtime, "create", title="next")["task"]["id"] == 2


def test_a_damaged_database_is_reported_with_advice(base, workspace):
    workspace.write("../state/state.db", b"not a database" * 100)
    with Runtime(workspace.path, environ=environment(base)) as runtime:
        for name, args in (("task", {"action": "list"}), ("todo_read", {}), ("todo_write", {"todos": []})):
            result = runtime.call(name, **args)
            assert result.error is not None
            assert (result.error.code, "state.db" in result.error.suggestion) == ("internal", True)


def test_one_of_two_simultaneous_claims_succeeds(runtime):
    task(runtime, "create", title="a")
    barrier = threading.Barrier(10)
    results: dict[str, Result] = {}

    def claim(name: str) -> None:
        barrier.wait()
        results[name] = runtime.call("task", action="update", taskId=1, status="in_progress", owner=name)

    threads = [threading.Thread(target=claim, args=(f"agent {number}",)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [name for name, result in results.items() if result.ok]
    losers = [result.error for result in results.values() if result.error is not None]
    assert [(error.code, error.details["owner"]) for error in losers] == [("busy", winner)] * 9
    assert task(runtime, "get", taskId=1)["task"]["owner"] == winner


def test_a_claim_without_an_owner_is_made_by_the_session(runtime):
    task(runtime, "create", title="a")
    claim = {"action": "update", "taskId": 1, "status": "in_progress"}

    first = runtime.request(Call("task", claim, session="first\x1b\u200b " + "x" * 200))
    second = runtime.request(Call("task", claim, session="second"))

    assert first.data["task"]["owner"] == ("first " + "x" * 200)[:100]
    assert error_of(second)[0] == "busy"


def test_a_long_list_is_paged(runtime):
    for number in range(PAGE * 2 + 5):
        task(runtime, "create", title=f"t{number}", owner="ann" if number % 2 else "")

    args: dict[str, Any] = {"action": "list", "owner": "ann", "status": "pending"}
    ids: list[int] = []
    counts = []
    while True:
        data = task(runtime, **args)
        ids += [item["id"] for item in data["tasks"]]
        counts.append((len(data["tasks"]), data["total_count"], data["truncated"]))
        if "next" not in data:
            break
        args = data["next"]["args"]

    assert ids == list(range(2, PAGE * 2 + 6, 2))
    assert counts == [(PAGE, PAGE + 2, True), (2, 2, False)]
    assert task(runtime, "list", taskId=10**18)["tasks"] == []


def test_texts_have_no_control_or_invisible_characters(runtime):
    texts = {"title": "do\u202e\x1b[31m\nit", "description": "a\r\nb\x00\u200b\n\n\n\nc\udc00", "owner": "a\u2066\tb"}
    created = task(runtime, "create", **texts)["task"]

    assert (created["title"], created["description"], created["owner"]) == ("do[31m it", "a\nb\n\nc", "a b")
    assert task(runtime, "list", owner="a b\u200b")["total_count"] == 1


def test_the_view_is_a_table(runtime):
    task(runtime, "create", title="a", owner="ann")
    task(runtime, "create", title="b", blockedBy=[1])

    listed = runtime.call("task", action="list").view
    completed = runtime.call("task", action="update", taskId=1, status="completed").view

    assert listed["rows"][1] == {"id": 2, "status": "pending", "owner": "", "blocked": "1", "title": "b"}
    assert (listed["type"], listed["totalRows"]) == ("table", 2)
    assert [(row["id"], row["status"]) for row in completed["rows"]] == [(1, "completed"), (2, "ready")]
    assert foreign_views.validate(listed) == listed


@pytest.mark.parametrize("mode", ["plan", "scheduler", "normal", "auto-accept", "yolo"])
def test_tasks_work_in_every_mode_and_with_a_rule_file(base, workspace, mode):
    workspace.write(".hilt/permissions.yaml", "ask: [run_shell]\n")
    with Runtime(workspace.path, environ=environment(base), flags={"mode": mode}) as runtime:
        task(runtime, "create", title="a")
        assert task(runtime, "update", taskId=1, status="completed")["task"]["status"] == "completed"


@pytest.mark.parametrize("name", ["task", "Task"])
def test_a_rule_may_deny_the_tool_by_either_name(base, workspace, name):
    workspace.write(".hilt/permissions.yaml", f"deny: [{name}]\n")
    with Runtime(workspace.path, environ=environment(base)) as runtime:
        assert error_of(runtime.call("task", action="list"))[0] == "denied"
        assert error_of(runtime.call("Task", action="list"))[0] == "denied"
