"""`hilt mcp` as a pipe: hosts that share the resident process, and what happens when it exits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from hilt import __version__
from hilt.surfaces import handover
from hilt.surfaces.mcp.pipe import Ledger
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.surfaces.mcp.hosts import Lines, text_of_answer

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Command]:
    """The command with a resident process that no test stops."""
    with tempfile.TemporaryDirectory(prefix="hilt-", dir="/tmp") as base:
        command = Command(base, HILT_RESIDENT="auto")
        command.folder.write("a.txt", "alpha\n")
        assert command.run("resident", "start").returncode == 0
        yield command
        command.run("resident", "stop")


def host(command: Command, *arguments: str, **options: object) -> Lines:
    return Lines(command, *arguments, cold=True, **options)  # type: ignore[arg-type]


def status(command: Command, pattern: str) -> int:
    match = re.search(pattern, command.run("resident", "status").stdout.decode())
    return int(match[1]) if match else 0


def pid(command: Command) -> int:
    return status(command, r"pid (\d+)")


# --- sharing --------------------------------------------------------------------------------------------------------


def test_hosts_share_one_process_and_have_their_own_sessions(shared):
    with host(shared) as first, host(shared) as second:
        first.call("todo_write", todos=[{"content": "mine"}])

        assert status(shared, r"(\d+) MCP hosts") == 2
        assert "mine" in text_of_answer(first.call("todo_read"))
        assert "mine" not in text_of_answer(second.call("todo_read"))
    wait_until(lambda: status(shared, r"(\d+) MCP host") == 0)


def test_the_first_host_starts_the_resident_process(short):
    assert pid(short) == 0

    with host(short) as client:
        assert not client.call("list_dir")["isError"]
        assert status(short, r"(\d+) MCP host") == 1


COUNT = """
import os, sys
def report(status):
    os.write(2, "\\n".join(sys.modules).encode())
    leave(status)
leave, os._exit = os._exit, report
from hilt.surfaces.cli import main
main(["mcp"])
"""


def test_the_pipe_of_a_host_loads_nothing_expensive(shared):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "lines", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{COUNT}"],
        input=json.dumps(first).encode() + b"\n",
        capture_output=True,
        cwd=shared.folder.path,
        env=shared.environ,
        timeout=60,
    )

    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "hilt"
    loaded = set(done.stderr.decode().split("\n"))
    assert {"hilt.surfaces.mcp.pipe", "select"} <= loaded
    assert loaded & {"argparse", "contextlib", "functools", "json", "re", "socket", "threading", "typing"} == set()
    assert not any(name.startswith(("hilt.runtime", "hilt.errors", "hilt.surfaces.opening")) for name in loaded)


def test_without_a_resident_process_hosts_are_served_by_their_own_process(command):
    with host(command) as client:
        assert not client.call("list_dir")["isError"]

    assert not os.path.exists(os.path.join(command.state, "resident.lock"))


def test_the_environment_of_a_host_belongs_to_its_connection(shared):
    other = Command(os.path.dirname(shared.state), HILT_RESIDENT="auto", HILT_PROFILE="nano")
    with host(other) as small, host(shared) as large:
        counts = [len(client.ask("tools/list")["result"]["tools"]) for client in (small, large)]

    assert counts[0] < 10 < counts[1]


FLAGS = [(("--search",), {"tool_search", "tool_call"}), (("--tools", "undo"), {"undo"})]


@pytest.mark.parametrize("flags, names", FLAGS)
def test_the_flags_of_a_host_belong_to_its_connection(shared, flags, names):
    with host(shared, *flags) as client, host(shared) as other:
        assert {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]} == names
        assert len(other.ask("tools/list")["result"]["tools"]) > 20


@needs_sandbox
def test_a_host_that_ends_or_is_killed_ends_its_calls_and_jobs(shared):
    for kill in (False, True):
        call, job = Mark(), Mark()
        client = host(shared)
        client.call("run_shell", command=f"sleep 300; echo {job.name}", run_in_background=True)
        client.send("tools/call", name="run_shell", arguments={"command": f"sleep 300; echo {call.name}"})
        wait_until(partial(_are_alive, True, call, job))

        if kill:
            client.process.kill()
        client.end()

        wait_until(partial(_are_alive, False, call, job))


def _are_alive(expected: bool, *marks: Mark) -> bool:
    return all(bool(mark.alive()) is expected for mark in marks)


@needs_sandbox
def test_a_named_session_keeps_its_jobs_and_tasks_when_its_host_reconnects(shared):
    job = Mark()
    with host(shared, "--session", "kept", handshake=False) as client:
        arguments = {"command": f"sleep 300; echo {job.name}", "run_in_background": True}
        answer = client.ask("tools/call", name="run_shell", arguments=arguments, _meta=META)
        id = answer["result"]["structuredContent"]["task_id"]
        waiting = {"task_id": id, "timeout": 60_000}
        task = client.ask("tools/call", name="job_output", arguments=waiting, _meta=META)["result"]
        assert (task["resultType"], task["status"]) == ("task", "working")

    with host(shared, "--session", "kept", handshake=False) as client:
        assert client.ask("tasks/get", taskId=task["taskId"], _meta=META)["result"]["status"] == "working"
        client.ask("tools/call", name="job_stop", arguments={"task_id": id}, _meta=META)

        def ended() -> bool:
            details = client.ask("tasks/get", taskId=task["taskId"], _meta=META)["result"]
            return details["status"] == "completed" and "stopped" in json.dumps(details["result"])

        wait_until(ended)
    with host(shared, "--session", "other", handshake=False) as client:
        assert client.ask("tasks/get", taskId=task["taskId"], _meta=META)["error"]["code"] == -32602


def test_a_host_that_floods_and_never_reads_does_not_block_others(shared):
    flooding = host(shared)
    call = {"name": "read_file", "arguments": {"path": "a.txt"}}
    lines = b"".join(
        json.dumps({"jsonrpc": "2.0", "id": f"f{number}", "method": "tools/call", "params": call}).encode() + b"\n"
        for number in range(3000)
    )
    threading.Thread(target=flooding.write, args=(lines,), daemon=True).start()
    with host(shared) as client:
        for _ in range(20):
            assert not client.call("stat_file", path="a.txt")["isError"]
    flooding.process.kill()
    flooding.end()


def test_a_workspace_that_does_not_exist_is_reported_by_the_host_s_own_process(shared):
    done = subprocess.run(
        [HILT, "mcp", "--workspace", "/nonexistent"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=shared.environ,
        timeout=60,
    )

    assert done.returncode == 1
    assert b"/nonexistent is not a folder" in done.stderr


def test_a_setting_keeps_hosts_out_of_the_resident_process(short):
    path = os.path.join(short.environ["HILT_CONFIG_DIR"], "config.toml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write('resident = "off"\n')
    del short.environ["HILT_RESIDENT"]
    with host(short) as client:
        assert not client.call("list_dir")["isError"]
        assert pid(short) == 0  # it is not even started
    with open(path, "w", encoding="utf-8") as file:
        file.write('resident = "auto"\n')
    with host(short) as client:
        assert not client.call("list_dir")["isError"]
        assert status(short, r"(\d+) MCP host") == 1


# --- when the resident process exits --------------------------------------------------------------------------------


def test_a_session_continues_when_the_resident_process_is_replaced(short):
    short.folder.write("a.txt", "alpha\n")
    with host(short) as client:
        assert not client.call("read_file", path="a.txt")["isError"]
        first = pid(short)
        assert short.run("resident", "stop").returncode == 0
        assert pid(short) == 0  # until the host needs it

        edited = client.call("edit_file", path="a.txt", old_text="alpha", new_text="beta")

        assert not edited["isError"], edited  # the session has still read the file
        assert pid(short) not in (0, first)
    assert short.folder.read("a.txt") == "beta\n"


@needs_sandbox
def test_a_call_without_an_answer_fails_when_the_resident_process_is_killed(short):
    mark = Mark()
    with host(short) as client:
        arguments = {"command": f"sleep 300; echo {mark.name}", "timeout": 200}
        request = client.send("tools/call", name="run_shell", arguments=arguments)
        wait_until(mark.alive)

        os.kill(pid(short), signal.SIGKILL)

        answer = client.read()
        assert (answer["id"], answer["error"]["code"]) == (request, -32000)
        assert "may have run" in answer["error"]["message"]
        assert not client.call("list_dir")["isError"]
        wait_until(lambda: not mark.alive())


def test_a_session_continues_in_its_own_process_if_there_is_no_other(short):
    short.folder.write("a.txt", "alpha\n")
    del short.environ["HILT_RESIDENT"]
    with host(short) as client:
        assert not client.call("read_file", path="a.txt")["isError"]
        assert short.run("resident", "stop").returncode == 0
        os.makedirs(short.environ["HILT_CONFIG_DIR"])
        with open(os.path.join(short.environ["HILT_CONFIG_DIR"], "config.toml"), "w", encoding="utf-8") as file:
            file.write('resident = "off"\n')

        edited = client.call("edit_file", path="a.txt", old_text="alpha", new_text="beta")

        assert not edited["isError"], edited
        assert pid(short) == 0
        assert client.end() == 0


def test_the_resident_process_exits_when_its_last_host_has_left(short):
    with short.start("resident", "serve", "0.3") as process:
        wait_until(lambda: os.path.exists(os.path.join(short.state, "resident.sock")))
        with host(short) as client:
            time.sleep(1)
            assert not client.call("list_dir")["isError"]
            assert pid(short) == process.pid

        assert process.wait(30) == 0
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize("again", [False, True])
def test_only_a_new_host_of_another_version_replaces_the_resident_process(short, again):
    assert short.run("resident", "start").returncode == 0
    first = pid(short)
    options = {"again": "on"} if again else {}
    connection = handover.connect(short.state)
    assert connection is not None
    old = handover.header("mcp", options).replace(__version__.encode(), b"0.0.0", 1)

    connection.sendall(old)

    assert connection.recv(1) == b"-"
    connection.close()
    if again:
        assert pid(short) == first
    else:
        wait_until(lambda: pid(short) != first)


# --- the ledger -----------------------------------------------------------------------------------------------------


def message(**fields: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def test_the_ledger_tracks_unanswered_requests_and_the_handshake():
    ledger = Ledger()
    first = message(id=0, method="initialize", params={})
    ledger.sent(first + message(method="notifications/initialized"))
    ledger.received(message(id=0, result={}))
    ledger.sent(message(id=1, method="ping") + message(id="1", method="ping") + message(id=2, method="tools/list"))
    ledger.sent(message(id=3, method="tools/call") + message(method="notifications/cancelled", params={"requestId": 3}))
    ledger.sent(b"[" + message(id=4, method="ping").strip() + b"]\nno json\n" + b'{"jsonrpc":')
    ledger.received(message(id=1, result={}) + message(id=2, error={}) + message(id=4, method="elicitation/create"))

    assert [id for id, _ in ledger.unanswered(forget=False)] == ["1", 4]
    assert [line for _, line in ledger.unanswered(forget=True)][:1] == [message(id="1", method="ping")]
    assert ledger.handshake == [first, message(method="notifications/initialized")]
    assert ledger.part == b'{"jsonrpc":'
    assert ledger.unanswered(forget=False) == []
