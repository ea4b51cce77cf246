"""Long calls as tasks, for clients that support them."""

from __future__ import annotations

from typing import Any

import pytest

from hilt.call import Call
from hilt.runtime import Runtime
from hilt.state.approvals import attend
from hilt.surfaces.mcp.call_tasks import CallTasks
from hilt.surfaces.mcp.client_call import ClientCall
from hilt.surfaces.mcp.plain import Client
from hilt.surfaces.mcp.sessions import Session
from tests.conformance.server import TOOLS
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.mcp.hosts import Lines, text_of_answer

ENVELOPE = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META = {**ENVELOPE, CAPABILITIES: {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}
PLAIN = {**ENVELOPE, CAPABILITIES: {}}


@pytest.fixture
def client(command):
    with Lines(command, "--tools-dir", TOOLS, "--approve", "once", handshake=False) as client:
        yield client


def call(client: Lines, tool: str, meta: dict[str, Any] = META, **arguments: Any) -> dict[str, Any]:
    answer = client.ask("tools/call", name=tool, arguments=arguments, _meta=meta)
    result: dict[str, Any] = answer["result"]
    return result


def get(client: Lines, task: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = client.ask("tasks/get", taskId=task["taskId"], _meta=META)["result"]
    return result


def reached(client: Lines, task: dict[str, Any], status: str) -> dict[str, Any]:
    """Wait for a status, and return the task."""
    wait_until(lambda: get(client, task)["status"] == status)
    return get(client, task)


def test_a_long_call_becomes_a_task_with_the_same_result(client):
    task = call(client, "run_shell", command="sleep 1; echo done")
    plain = call(client, "run_shell", PLAIN, command="sleep 1; echo done")

    assert (task["resultType"], task["status"], "content" in task) == ("task", "working", False)
    assert reached(client, task, "completed")["result"]["content"] == plain["content"]


def test_a_short_call_and_a_client_without_tasks_are_answered_directly(client):
    assert call(client, "list_dir")["resultType"] == "complete"
    assert call(client, "slow_compute", PLAIN, seconds=0.8)["resultType"] == "complete"


def test_a_failed_call_is_a_completed_task(client):
    task = call(client, "run_shell", command="sleep 1; exit 3")

    result = reached(client, task, "completed")["result"]

    assert "3" in text_of_answer(result)


def test_cancelling_a_task_ends_its_processes(client):
    mark = Mark()
    task = call(client, "run_shell", command=f"sleep 300; echo {mark.name}")
    wait_until(mark.alive)

    assert client.ask("tasks/cancel", taskId=task["taskId"], _meta=META)["result"]["resultType"] == "complete"

    assert set(reached(client, task, "cancelled")) & {"result", "error"} == set()
    wait_until(lambda: not mark.alive())


def test_cancelling_the_request_of_a_task_does_not_cancel_the_task(client):
    request = client.send("tools/call", name="slow_compute", arguments={"seconds": 1.5}, _meta=META)
    task = client.read()["result"]

    client.tell("notifications/cancelled", requestId=request)

    reached(client, task, "completed")


def test_a_task_that_asks_runs_again_with_the_answers_and_is_recorded_once(client, command):
    task = call(client, "confirm_delete", filename="a.txt")
    requests = reached(client, task, "input_required")["inputRequests"]

    invalid = {"inputResponses": {"confirm": 5, "unknown": {}}}
    client.ask("tasks/update", taskId=task["taskId"], _meta=META, **invalid)
    assert get(client, task)["inputRequests"] == requests
    client.ask("tasks/update", taskId=task["taskId"], _meta=META, inputResponses={"confirm": {"action": "decline"}})

    assert text_of_answer(reached(client, task, "completed")["result"]) == "a.txt: decline"
    assert command.run("audit", "--json").stdout.count(b"confirm_delete") == 1


class Unheard:
    """A request that a task replaces before anything happens."""

    def asked(self) -> None:
        raise AssertionError

    def ended(self) -> None:
        raise AssertionError

    def send(self, kind: str, values: tuple[Any, ...]) -> None:
        raise AssertionError


def test_a_task_continues_when_its_call_is_approved_elsewhere(command):
    command.folder.write("../config/permissions.yaml", "ask: [write_file]\n")
    client = Client("mcp client x", frozenset({"form"}))
    request = Call("write_file", {"path": "a.txt", "content": "x"}, session="s")
    with Runtime(command.folder.path, environ=command.environ) as runtime:
        call = ClientCall(runtime, Session("s"), request, client, Unheard())
        task = CallTasks().add(call, (runtime.parts.id, "s"))
        assert task is not None
        approvals = runtime.parts.authority.approvals()
        with attend(runtime.parts.state):
            call.start()
            wait_until(lambda: task.details()["status"] == "input_required")
            task.check_answers()
            assert task.details()["status"] == "input_required"
            (pending,) = approvals.pending()
            approvals.answer(pending.id, approved=True, by="console")
            task.check_answers()
            wait_until(lambda: task.details()["status"] == "completed")

    assert task.details()["result"]["isError"] is False
    assert command.folder.read("a.txt") == "x"


def test_a_task_cancelled_at_its_question_is_recorded_once(client, command):
    task = call(client, "confirm_delete", filename="a.txt")
    reached(client, task, "input_required")

    client.ask("tasks/cancel", taskId=task["taskId"], _meta=META)

    assert "inputRequests" not in get(client, task) | reached(client, task, "cancelled")
    assert command.run("audit", "--json").stdout.count(b"confirm_delete") == 1


@needs_sandbox
def test_the_end_of_a_connection_ends_its_tasks(command):
    mark = Mark()
    with Lines(command, handshake=False) as client:
        call(client, "run_shell", command=f"sleep 300; echo {mark.name}")
        wait_until(mark.alive)

    wait_until(lambda: not mark.alive())


def test_clients_without_tasks_cannot_ask_for_them(client, command):
    task = call(client, "slow_compute", seconds=2)

    error = client.ask("tasks/get", taskId=task["taskId"], _meta=PLAIN)["error"]

    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    with Lines(command) as legacy:
        assert legacy.ask("tasks/get", taskId=task["taskId"])["error"]["code"] == -32601


@needs_sandbox
def test_beyond_the_limit_of_tasks_calls_are_answered_when_they_end(command):
    with Lines(command, constants=["hilt.surfaces.mcp.call_tasks:TASKS_MAX=1"], handshake=False) as client:
        first = call(client, "run_shell", command="sleep 300")

        second = call(client, "run_shell", command="sleep 1; echo done")

    assert (first["resultType"], second["resultType"]) == ("task", "complete")
