from __future__ import annotations

import hashlib

import pytest

from hilt.call import Call
from tests.marks import wait_until
from tests.programs import needs_sandbox

pytestmark = needs_sandbox


def start(runtime, command, **args):
    """Start a job on a terminal and return its id when it has printed something."""
    started = runtime.call("run_shell", command=command, run_in_background=True, **{"tty": True, **args})
    task_id = started.data["task_id"]
    wait_until(lambda: runtime.call("job_output", task_id=task_id, block=False).data["output"])
    return task_id


@pytest.mark.starts_processes
def test_a_job_reads_its_input(runtime):
    task_id = start(runtime, 'stty -echo; echo ready; read -r line; echo "got $line"')

    result = runtime.call("job_input", task_id=task_id, input="some téxt")

    assert result.data == {"status": "running", "sent": 11}
    data = runtime.call("job_output", task_id=task_id).data
    assert data == {"status": "completed", "exit_code": 0, "output": "ready\ngot some téxt\n"}


@pytest.mark.starts_processes
def test_input_and_new_output_alternate(runtime):
    task_id = start(runtime, 'stty -echo; echo ready; while read -r line; do echo "<$line>"; done')
    runtime.call("job_output", task_id=task_id, block=False)

    for word in ("one", "two"):
        runtime.call("job_input", task_id=task_id, input=word)
        output: list[str] = []

        def listen(output=output) -> bool:
            output.append(runtime.call("job_output", task_id=task_id, block=False, new=True).data["output"])
            return bool(output[-1])

        wait_until(listen)
        assert output[-1] == f"<{word}>\n"
    runtime.call("job_input", task_id=task_id, input="\u0004")
    assert runtime.call("job_output", task_id=task_id).data["status"] == "completed"


@pytest.mark.starts_processes
@pytest.mark.parametrize("key, code", [("\u0003", 130), ("\u001c", 131)], ids=["Ctrl-C", "Ctrl-backslash"])
def test_control_keys_are_sent_as_keys(runtime, key, code):
    task_id = start(runtime, "ulimit -c 0; echo ready; sleep 300")

    assert runtime.call("job_input", task_id=task_id, input=key).data["sent"] == 1

    data = runtime.call("job_output", task_id=task_id).data
    assert (data["status"], data["exit_code"]) == ("failed", code)


@pytest.mark.starts_processes
def test_without_enter_only_the_text_is_sent(runtime):
    task_id = start(runtime, 'stty -echo; echo ready; read -r -n 2 keys; echo "$keys"')

    assert runtime.call("job_input", task_id=task_id, input="y", enter=False).data["sent"] == 1
    assert runtime.call("job_input", task_id=task_id, input="n", enter=False).data["sent"] == 1

    assert runtime.call("job_output", task_id=task_id).data["output"] == "ready\nyn\n"


@pytest.mark.starts_processes
def test_input_is_accepted_while_earlier_input_is_still_being_written(runtime):
    task_id = start(runtime, "stty raw -echo; echo ready; head -c 1000 | sha256sum; sleep 300")
    keys = [chr(97 + number % 26) for number in range(1000)]

    for key in keys:
        assert runtime.call("job_input", task_id=task_id, input=key, enter=False).error is None

    wait_until(lambda: "-" in runtime.call("job_output", task_id=task_id, block=False).data["output"])
    output = runtime.call("job_output", task_id=task_id, block=False).data["output"]
    assert hashlib.sha256("".join(keys).encode()).hexdigest() in output


@pytest.mark.starts_processes
def test_a_job_without_a_terminal_accepts_no_input(runtime):
    task_id = start(runtime, "echo ready; sleep 300", tty=False)

    error = runtime.call("job_input", task_id=task_id, input="text").error

    assert (error.code, "tty: true" in error.suggestion) == ("invalid_args", True)


@pytest.mark.starts_processes
def test_a_finished_job_accepts_no_input(runtime):
    task_id = start(runtime, "echo ready")
    runtime.call("job_output", task_id=task_id)

    assert runtime.call("job_input", task_id=task_id, input="text").error.code == "not_found"


@pytest.mark.starts_processes
def test_input_over_the_unread_limit_is_rejected(runtime):
    task_id = start(runtime, "stty raw -echo; echo ready; sleep 300")

    for size, code in ((100_000, "invalid_args"), (60_000, None), (60_000, "busy")):
        result = runtime.call("job_input", task_id=task_id, input="x" * size)
        assert (result.error and result.error.code) == code


@pytest.mark.starts_processes
def test_jobs_of_another_session_are_not_found(runtime):
    task_id = start(runtime, "echo ready; read -r line")

    result = runtime.request(Call("job_input", {"task_id": task_id, "input": "text"}, session="other"))

    assert result.error.code == "not_found"
