from __future__ import annotations

import os

import pytest

from hilt.call import Call
from hilt.output import foreign_views
from tests.marks import wait_until
from tests.programs import needs_sandbox

pytestmark = needs_sandbox


def start(runtime, command, **args):
    """Start a job and return its id."""
    return runtime.call("run_shell", command=command, run_in_background=True, **args).data["task_id"]


def test_without_jobs_the_list_is_empty(runtime):
    assert runtime.call("job_list").data == {"jobs": []}


@pytest.mark.starts_processes
def test_jobs_are_listed_oldest_first(runtime):
    first, second = start(runtime, "echo text; exit 3"), start(runtime, "sleep 300")
    runtime.call("job_output", task_id=first)

    jobs = runtime.call("job_list").data["jobs"]

    assert [job["task_id"] for job in jobs] == [first, second]
    assert [(job["command"], job["status"], job["exit_code"]) for job in jobs] == [
        ("echo text; exit 3", "failed", 3),
        ("sleep 300", "running", None),
    ]
    assert jobs[0]["output_bytes"] == os.path.getsize(jobs[0]["output_file"]) == 5
    assert jobs[0]["started"].endswith("Z")
    assert jobs[0]["seconds"] >= 0
    assert not {"cwd", "tty", "reason"} & jobs[0].keys()


@pytest.mark.starts_processes
def test_a_job_reports_its_terminal_and_why_it_ended(runtime):
    task_id = start(runtime, "sleep 300", tty=True)
    runtime.call("job_stop", task_id=task_id)

    [job] = runtime.call("job_list").data["jobs"]

    assert (job["status"], job["tty"], job["reason"]) == ("stopped", True, "it was asked to stop")


@pytest.mark.starts_processes
def test_a_job_in_another_folder_reports_the_folder(runtime, workspace):
    workspace.write("inner/file")
    start(runtime, "true", cwd="inner")

    [job] = runtime.call("job_list").data["jobs"]

    assert job["cwd"] == "inner"


@pytest.mark.starts_processes
def test_a_long_command_is_shortened(runtime):
    start(runtime, f"true {'x' * 1000}")

    [job] = runtime.call("job_list").data["jobs"]

    assert (len(job["command"]), job["command"][-1]) == (200, "…")


@pytest.mark.starts_processes
def test_the_view_is_a_table(runtime):
    task_id = start(runtime, "true")
    wait_until(lambda: runtime.call("job_list").data["jobs"][0]["status"] == "completed")

    view = foreign_views.validate(runtime.call("job_list").view)

    assert (view["type"], view["totalRows"]) == ("table", 1)
    assert (view["rows"][0]["task_id"], view["rows"][0]["exit_code"]) == (task_id, 0)


@pytest.mark.starts_processes
def test_another_session_has_other_jobs(runtime):
    start(runtime, "true")

    assert runtime.request(Call("job_list", session="other")).data == {"jobs": []}
