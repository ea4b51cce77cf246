"""Background jobs through the command: they outlive one-shot calls in the resident process, not their session."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.test_resident import gone, pid


@pytest.fixture(autouse=True)  # requested first, so that it checks last
def mark() -> Iterator[Mark]:
    """A marker in the arguments of all processes of the test."""
    mark = Mark()
    yield mark
    wait_until(lambda: not mark.alive())


def background(mark: Mark, script: str = "echo begun; sleep 300", **fields: Any) -> dict[str, Any]:
    return {"tool": "run_shell", "args": {"command": f"{script}; : {mark.name}", "run_in_background": True}, **fields}


def start(command: Command, mark: Mark, *script: str, **fields: Any) -> str:
    """Start a job with a one-shot call and return its name."""
    [reply] = command.ask(background(mark, *script, **fields))
    assert reply["ok"], reply
    return task_id_of(reply)


def task_id_of(reply: dict[str, Any]) -> str:
    return str(json.loads(reply["result"])["task_id"])


def look(command: Command, task_id: str, *, words: tuple[str, ...] = (), **args: Any) -> dict[str, Any]:
    """Return the job_output result of a one-shot call."""
    [reply] = command.ask({"tool": "job_output", "args": {"task_id": task_id, **args}}, words=words)
    assert reply["ok"], reply
    answer: dict[str, Any] = json.loads(reply["result"])
    return answer


def jobs(command: Command, *words: str) -> list[dict[str, Any]]:
    [reply] = command.ask({"tool": "job_list"}, words=words)
    listed: list[dict[str, Any]] = json.loads(reply["result"])["jobs"]
    return listed


def wait_for_output(command: Command, task_id: str, text: str) -> None:
    wait_until(lambda: text in look(command, task_id, block=False)["output"])


# --- one-shot calls


@needs_sandbox
def test_a_job_started_by_a_one_shot_call_is_available_to_the_next(short, mark):
    assert short.run("resident", "status").returncode == 1

    task_id = start(short, mark, "echo begun; sleep 0.2; exit 3")

    assert short.run("resident", "status").returncode == 0
    answer = look(short, task_id)
    assert (answer["status"], answer["exit_code"], answer["output"]) == ("failed", 3, "begun\n")
    assert [job["task_id"] for job in jobs(short)] == [task_id]


@needs_sandbox
def test_a_job_started_with_hilt_call_is_available_too(short, mark):
    pairs = (f"command=echo begun; : {mark.name}", "run_in_background=true")
    done = short.run("call", "run_shell", *pairs, "--raw")
    task_id = task_id_of(json.loads(done.stdout))

    assert (done.returncode, done.stderr) == (0, b"")
    output = short.run("call", "job_output", f"task_id={task_id}")
    assert (output.returncode, output.stderr) == (0, b"")
    assert b"begun" in output.stdout
    refused = short.run("call", "job_stop", "task_id=job_none")
    assert refused.returncode == 1
    assert refused.stderr.startswith(b"not_found: ")


@needs_sandbox
def test_the_resident_returns_the_same_reply_as_a_direct_call(short, mark):
    request = {**background(mark), "id": {"any": [1]}, "request_id": "r"}

    # the first starts the resident, the second is forwarded at once
    replies = [short.ask(request)[0] for _ in range(2)]

    for reply in replies:
        assert reply["meta"].pop("timing")
    first, second = (json.dumps(reply).replace(task_id_of(reply), "JOB") for reply in replies)
    assert first == second
    assert (replies[0]["id"], replies[0]["request_id"]) == ({"any": [1]}, "r")


@needs_sandbox
def test_several_requests_in_one_call_are_answered_in_order(short, mark):
    short.folder.write("a.txt", "a\n")
    read = {"tool": "read_file", "args": {"path": "a.txt"}}

    replies = short.ask(read, background(mark), read, {"tool": "job_list"})

    assert [reply["ok"] for reply in replies] == [True] * 4
    assert [job["status"] for job in json.loads(replies[3]["result"])["jobs"]] == ["running"]


def recorded(command: Command) -> list[tuple[str, str, str]]:
    """Return tool, approver and outcome of every recorded call."""
    rows = map(json.loads, command.run("audit", "--json").stdout.splitlines())
    return [(row["tool"], row["approver"], row["outcome"]) for row in rows]


@pytest.mark.parametrize("words", [(), ("call", "job_list", "--raw")], ids=["one-shot", "call"])
def test_a_call_that_the_resident_runs_is_recorded_once(short, words):
    for _ in range(2):  # the first starts the resident
        assert short.run(*words, input='{"tool": "job_list"}').returncode == 0

    assert recorded(short) == [("job_list", "", "ok")] * 2


def test_a_job_that_needs_approval_is_approved_once(short, mark):
    request = background(mark, "true")
    request["args"]["network"] = "full"

    [reply] = short.ask(request, words=("--approve", "once"))

    assert reply["ok"]
    assert recorded(short) == [("run_shell", "--approve", "ok")]


@needs_sandbox
def test_a_call_that_no_resident_takes_is_recorded_once_too(short, mark):
    assert short.run("resident", "start").returncode == 0
    process = short.start(umask=0o027)
    process.communicate(json.dumps(background(mark)).encode(), timeout=60)

    assert recorded(short) == [("run_shell", "", "resident_required")]


@needs_sandbox
@pytest.mark.parametrize("how", ["environment", "settings"])
@pytest.mark.parametrize("tool", ["run_shell", "job_list"])
def test_without_the_resident_a_one_shot_call_has_no_jobs(short, mark, how, tool):
    if how == "environment":
        short.environ["HILT_RESIDENT"] = "off"
    else:
        del short.environ["HILT_RESIDENT"]  # the environment would override the file
        os.makedirs(short.environ["HILT_CONFIG_DIR"])
        with open(os.path.join(short.environ["HILT_CONFIG_DIR"], "config.toml"), "w", encoding="utf-8") as file:
            file.write('resident = "off"\n')

    [reply] = short.ask(background(mark) if tool == "run_shell" else {"tool": tool})

    assert (reply["ok"], reply["error_code"]) == (False, "resident_required")
    assert "HILT_RESIDENT" in reply["suggestion"]
    assert short.run("resident", "status").returncode == 1
    assert mark.alive() == []


@needs_sandbox
def test_a_caller_that_the_resident_declines_has_no_jobs(short, mark):
    assert short.run("resident", "start").returncode == 0
    process = short.start(umask=0o027)
    out, errors = process.communicate(json.dumps(background(mark)).encode(), timeout=60)

    reply = json.loads(out)
    assert (process.returncode, errors) == (1, b"")
    assert reply["error_code"] == "resident_required"
    assert "declined" in reply["error"]
    assert mark.alive() == []


@needs_sandbox
def test_a_resident_of_another_version_exits(short, mark):
    """As after an upgrade: the old resident has a job, which ends with it."""
    old = short.environ | {"PYTHONPATH": fake_version(short)}
    new, short.environ = short.environ, old
    start(short, mark)
    number = pid(short)
    short.environ = new

    task_id = start(short, mark)

    wait_until(lambda: gone(number))
    assert [job["task_id"] for job in jobs(short)] == [task_id]


def fake_version(command: Command) -> str:
    """Return a folder that gives hilt another version when it is on the path."""
    code = "import hilt\nhilt.__version__ = '0.0.0'\n"
    folder = os.path.join(os.path.dirname(command.folder.path), "older")
    os.makedirs(folder)
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(code)
    return folder


# --- owners of jobs


@needs_sandbox
def test_a_session_finds_its_jobs_with_another_environment(short, mark):
    task_id = start(short, mark)
    wait_for_output(short, task_id, "begun\n")
    short.environ.update(TERM="other", COLUMNS="70", LANG="C", HILT_UNDO_CALLS="7")
    short.folder.write(".hilt/config.toml", "[output]\noverflow_chars = 40000\n")

    assert look(short, task_id, block=False)["output"] == "begun\n"
    [reply] = short.ask({"tool": "job_stop", "args": {"task_id": task_id}})
    assert json.loads(reply["result"])["status"] == "stopped"


@needs_sandbox
def test_another_session_and_another_workspace_have_other_jobs(short, mark, tmp_path):
    start(short, mark)

    assert jobs(short, "--session", "other") == []
    assert jobs(short, "--workspace", str(tmp_path)) == []
    assert len(jobs(short)) == 1


@needs_sandbox
def test_a_job_sees_the_environment_of_its_caller(short, mark):
    assert short.run("resident", "start").returncode == 0
    program = short.folder.write("bin/greet", "#!/bin/sh\necho hello\n")
    os.chmod(program, 0o755)
    short.environ["PATH"] += f":{short.folder.join('bin')}"

    assert look(short, start(short, mark, "greet"))["output"] == "hello\n"


# --- the end of jobs


@needs_sandbox
def test_jobs_end_when_the_resident_is_stopped(short, mark):
    start(short, mark, "trap '' TERM; echo begun; (setsid sleep 300 &); while :; do sleep 1; done")

    assert short.run("resident", "stop").stdout == b"stopped\n"

    assert mark.alive() == []


@needs_sandbox
def test_a_caller_that_waits_for_a_job_is_answered_when_the_resident_is_stopped(short, mark):
    task_id = start(short, mark)
    waiting = short.start()
    request = {"tool": "job_output", "args": {"task_id": task_id, "timeout": 600_000}}
    waiting.stdin.write(json.dumps(request).encode())
    waiting.stdin.close()
    waiting.stdin = None
    wait_for_output(short, task_id, "begun\n")

    assert short.run("resident", "stop").stdout == b"stopped\n"

    out, errors = waiting.communicate(timeout=60)
    assert errors == b""
    assert json.loads(json.loads(out)["result"])["status"] == "stopped"


@needs_sandbox
def test_a_waiting_caller_that_disconnects_leaves_the_job_running(short, mark):
    task_id = start(short, mark)
    waiting = short.start()
    waiting.stdin.write(json.dumps({"tool": "job_output", "args": {"task_id": task_id, "timeout": 600_000}}).encode())
    waiting.stdin.flush()
    waiting.kill()
    waiting.communicate()

    assert look(short, task_id, block=False)["status"] == "running"


@needs_sandbox
def test_no_job_is_left_when_the_resident_is_killed(short, mark):
    task_id = start(short, mark, "trap '' TERM; echo begun; (setsid sleep 300 &); while :; do sleep 1; done")
    wait_for_output(short, task_id, "begun\n")

    os.kill(pid(short), signal.SIGKILL)

    wait_until(lambda: not mark.alive())
    [reply] = short.ask({"tool": "job_output", "args": {"task_id": task_id}})
    assert reply["error_code"] == "not_found"


@needs_sandbox
def test_the_end_of_a_session_ends_its_jobs_and_no_others(short, mark):
    start(short, mark)
    other = start(short, mark, session="other")

    done = short.run("sessions", "end")

    assert (done.returncode, done.stdout) == (0, b"session default ended\n1 background job ended with it\n")
    assert jobs(short) == []
    [job] = jobs(short, "--session", "other")
    assert (job["task_id"], job["status"]) == (other, "running")


@needs_sandbox
def test_invalid_settings_are_reported_when_a_session_ends(short, mark):
    start(short, mark)
    short.folder.write(".hilt/config.toml", "nothing = 1\n")

    done = short.run("sessions", "end")

    assert (done.returncode, done.stderr.partition(b":")[0]) == (1, b"denied")


@needs_sandbox
def test_the_resident_stays_while_a_job_runs_and_until_its_result_is_read(short, mark):
    process = short.start("resident", "serve", "1")
    wait_until(lambda: short.run("resident", "status").returncode == 0)
    os.mkfifo(short.folder.join("end"))
    task_id = start(short, mark, "echo begun; read < end")
    wait_for_output(short, task_id, "begun\n")
    for _ in range(2):
        with pytest.raises(Exception, match="timed out"):
            process.wait(0.8)

    with open(short.folder.join("end"), "wb"):
        pass
    assert look(short, task_id)["status"] in ("completed", "failed")

    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, b"", b"")


@needs_sandbox
def test_the_status_reports_the_number_of_running_jobs(short, mark):
    start(short, mark)
    start(short, mark, session="other")

    assert short.run("resident", "status").stdout.endswith(b", 2 background jobs\n")


# --- sessions


@needs_sandbox
def test_the_end_of_input_ends_the_jobs_of_a_session(command, mark):
    process = command.start("stdio")
    process.stdin.write(
        json.dumps(background(mark, "trap '' TERM; echo begun; while :; do sleep 1; done")).encode() + b"\n"
    )
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["ok"]
    wait_until(mark.alive)

    out, errors = process.communicate(timeout=60)

    assert (process.returncode, out, errors) == (0, b"", b"")
    assert mark.alive() == []


@needs_sandbox
def test_waiting_for_a_job_blocks_nobody_and_can_be_cancelled(command, mark):
    process = command.start("stdio")

    def send(*requests: dict[str, Any]) -> None:
        process.stdin.write("".join(json.dumps(request) + "\n" for request in requests).encode())
        process.stdin.flush()

    send(background(mark))
    task_id = task_id_of(json.loads(process.stdout.readline()))
    send(
        {"tool": "job_output", "args": {"task_id": task_id, "timeout": 600_000}, "id": "long"},
        {"tool": "job_list", "id": "short"},
    )
    assert json.loads(process.stdout.readline())["id"] == "short"
    send({"cancel": "long"})
    reply = json.loads(process.stdout.readline())
    assert (reply["id"], reply["error_code"]) == ("long", "cancelled")

    out, errors = process.communicate(timeout=60)

    assert (process.returncode, out, errors) == (0, b"", b"")
