from __future__ import annotations

import pytest

from hilt.call import Call
from hilt.output import foreign_views
from tests.marks import wait_until
from tests.programs import needs_sandbox

pytestmark = needs_sandbox


def start(runtime, command, **args):
    """Start a job and return its id."""
    return runtime.call("run_shell", command=command, run_in_background=True, **args).data["task_id"]


def output(runtime, task_id, **args):
    return runtime.call("job_output", task_id=task_id, **args)


@pytest.mark.starts_processes
def test_the_result_has_status_exit_code_and_output(runtime):
    result = output(runtime, start(runtime, "echo out; echo err >&2"))

    assert result.data == {"status": "completed", "exit_code": 0, "output": "out\nerr\n"}
    assert result.result == '{"status":"completed","exit_code":0,"output":"out\\nerr\\n"}'


@pytest.mark.starts_processes
@pytest.mark.parametrize("command, code", [("exit 3", 3), ("no-such-program", 127)])
def test_a_failed_job_reports_its_exit_code(runtime, command, code):
    data = output(runtime, start(runtime, command)).data

    assert (data["status"], data["exit_code"]) == ("failed", code)


@pytest.mark.starts_processes
def test_a_running_job_has_no_exit_code_and_continues_after_the_wait(runtime):
    task_id = start(runtime, "echo begun; sleep 300")

    wait_until(lambda: output(runtime, task_id, block=False).data["output"])

    assert output(runtime, task_id, timeout=1).data == {"status": "running", "exit_code": None, "output": "begun\n"}


@pytest.mark.starts_processes
def test_new_output_excludes_what_was_returned_before(runtime, workspace):
    task_id = start(runtime, "echo one; until test -e go; do sleep 0.01; done; echo two")
    wait_until(lambda: output(runtime, task_id, block=False).data["output"])

    assert output(runtime, task_id, block=False, new=True).data["output"] == ""
    workspace.write("go")
    assert output(runtime, task_id, new=True).data["output"] == "two\n"
    assert output(runtime, task_id, new=True).data["output"] == ""
    assert output(runtime, task_id).data["output"] == "one\ntwo\n"


@pytest.mark.starts_processes
def test_long_output_keeps_both_ends_and_read_file_returns_the_rest(runtime):
    data = output(runtime, start(runtime, "seq 100000")).data

    assert list(data) == ["status", "exit_code", "output", "truncated", "output_file"]
    assert data["truncated"] is True
    assert len(data["output"]) <= 50_000
    assert data["output"].startswith("1\n2\n")
    *lines, note = data["output"].split("\n")
    assert lines[-1] == "100000"
    assert data["output_file"] in note
    window = runtime.call("read_file", path=data["output_file"], start_line=50_000, end_line=50_000)
    assert window.text.startswith("50000\t50000\n")


@pytest.mark.starts_processes
def test_colours_reach_the_view_and_not_the_model(runtime):
    command = r"printf '\033[31mred\033[0m \xff\n'"

    result = output(runtime, start(runtime, command))

    assert result.data["output"] == "red \ufffd\n"
    view = {"type": "shell-output", "command": command, "stdout": "\x1b[31mred\x1b[0m \ufffd\n", "exitCode": 0}
    assert foreign_views.validate(result.view) == view


@pytest.mark.starts_processes
def test_a_wait_over_the_maximum_is_clamped_with_a_note(runtime):
    result = output(runtime, start(runtime, "true"), timeout=700_000)

    assert result.data["status"] == "completed"
    assert "600000" in result.meta["notes"][0]


@pytest.mark.starts_processes
def test_a_stopped_job_says_so_and_keeps_its_output(runtime):
    task_id = start(runtime, "echo begun; sleep 300")
    wait_until(lambda: output(runtime, task_id, block=False).data["output"])
    runtime.call("job_stop", task_id=task_id)

    data = output(runtime, task_id).data

    assert (data["status"], data["output"], data["reason"]) == ("stopped", "begun\n", "it was asked to stop")


def test_an_unknown_job_is_not_found(runtime):
    error = output(runtime, "job_000000").error

    assert (error.code, "job_000000" in error.message, "job_list" in error.suggestion) == ("not_found", True, True)


@pytest.mark.starts_processes
def test_jobs_of_another_session_are_not_found(runtime):
    task_id = start(runtime, "sleep 300")

    result = runtime.request(Call("job_output", {"task_id": task_id}, session="other"))

    assert result.error.code == "not_found"


@pytest.mark.starts_processes
def test_jobs_end_with_the_runtime(runtime):
    task_id = start(runtime, "sleep 300")
    jobs = runtime.parts.jobs

    runtime.close()

    assert [(state.job.id, state.status) for state in jobs.list("default")] == [(task_id, "stopped")]


@pytest.mark.starts_processes
def test_many_waits_do_not_block_other_calls_and_can_be_cancelled(runtime):
    task_id = start(runtime, "echo begun; sleep 300")
    results: list[object] = []
    waiting = [
        runtime.submit(Call("job_output", {"task_id": task_id, "timeout": 600_000}), results.append) for _ in range(40)
    ]

    assert output(runtime, task_id, block=False).data["status"] == "running"
    for call in waiting:
        call.cancel()
    wait_until(lambda: len(results) == 40)


@pytest.mark.starts_processes
@pytest.mark.parametrize("block", [True, False])
def test_jcli_calls_it_task_output(runtime, block):
    started = runtime.request(Call("Bash", {"command": "echo text", "run_in_background": True}, dialect="jcli"))
    task_id = started.data["task_id"]
    output(runtime, task_id)

    result = runtime.request(Call("TaskOutput", {"task_id": task_id, "block": block}, dialect="jcli"))

    assert result.data == {"status": "completed", "exit_code": 0, "output": "text\n"}
