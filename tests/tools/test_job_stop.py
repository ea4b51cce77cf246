from __future__ import annotations

import pytest

from hilt.call import Call
from tests.marks import STUBBORN, Mark, wait_until
from tests.programs import needs_sandbox

pytestmark = needs_sandbox


@pytest.mark.starts_processes
@pytest.mark.parametrize("script", ["sleep 300", STUBBORN, f"(setsid bash -c {STUBBORN!r} &); sleep 300"])
def test_a_job_is_stopped_with_everything_it_started(runtime, script):
    mark = Mark()
    command = f"echo begun; export MARK={mark.name}; {script}"
    task_id = runtime.call("run_shell", command=command, run_in_background=True, force=True).data["task_id"]
    wait_until(lambda: runtime.call("job_output", task_id=task_id, block=False).data["output"])

    result = runtime.call("job_stop", task_id=task_id)

    assert (result.data["status"], result.data["reason"]) == ("stopped", "it was asked to stop")
    assert isinstance(result.data["exit_code"], int)
    assert mark.alive() == []
    assert runtime.call("job_stop", task_id=task_id).data == result.data


@pytest.mark.starts_processes
def test_a_job_that_ended_by_itself_keeps_its_status(runtime):
    task_id = runtime.call("run_shell", command="exit 3", run_in_background=True).data["task_id"]
    runtime.call("job_output", task_id=task_id)

    assert runtime.call("job_stop", task_id=task_id).data == {"status": "failed", "exit_code": 3}


@pytest.mark.starts_processes
def test_unknown_jobs_and_jobs_of_another_session_are_not_found(runtime):
    task_id = runtime.call("run_shell", command="sleep 300", run_in_background=True).data["task_id"]

    assert runtime.call("job_stop", task_id="job_000000").error.code == "not_found"
    assert runtime.request(Call("job_stop", {"task_id": task_id}, session="other")).error.code == "not_found"
    assert runtime.call("job_output", task_id=task_id, block=False).data["status"] == "running"
