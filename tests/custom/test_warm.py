"""Folder tools that stay running, through the whole runtime."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from hilt.call import Call, Result
from hilt.testing import Folder, temporary_runtime
from tests.custom.calls import has_ended
from tests.marks import wait_until

pytestmark = pytest.mark.starts_processes

ERRORS = ("Read-only file system", "Permission denied")  # from bubblewrap, and from Landlock
TOOL = {
    "name": "warm_one",
    "description": "Answers.",
    "runtime": "python",
    "script": "run.py",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "warm": True,
}
SCRIPT = """
import json, os, sys, time
calls = 0
for line in sys.stdin:
    calls += 1
    request = json.loads(line)
    do = request.get("do")
    if do == "crash":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    if do == "sleep":
        time.sleep(1000)
    if do == "noise":
        print("loading ...", flush=True)
    if do == "write":
        try:
            open("made", "w").close()
        except OSError as error:
            request["refused"] = error.strerror
    if do == "nan":
        print('{"n": NaN}', flush=True)
    print(json.dumps({**request, "pid": os.getpid(), "calls": calls, "folder": os.getcwd()}))
    if do == "twice":
        print(json.dumps({"calls": "of the call before"}))
    if do == "part":
        print('{"calls": "of the call before",', end="")
    sys.stdout.flush()  # everything after the answer arrives with it, not during the next call
    if do == "chatter":
        print("done", flush=True)
    if do == "last":
        sys.exit(0)
"""


@pytest.fixture
def tools(base) -> Folder:
    folder = Folder(os.path.join(base, "config", "tools"))
    os.makedirs(folder.path)
    return folder


def add(tools: Folder, script: str = SCRIPT, **fields: Any) -> str:
    tools.write("warm_one/tool.json", json.dumps({**TOOL, **fields}))
    path = tools.write("warm_one/run.py", script)
    settle(path)
    return path


def settle(path: str) -> None:
    """Wait until the file counts as settled."""
    wait_until(lambda: time.time_ns() - os.stat(path).st_ctime_ns > 60_000_000)


def data(result: Result) -> Any:
    assert result.error is None, result.error.message
    return result.data


def test_one_process_answers_consecutive_calls(tools, runtime):
    add(tools)

    first, second = (data(runtime.call("warm_one", text=text)) for text in ("a\nb", "é\u2028"))

    assert (first["text"], second["text"]) == ("a\nb", "é\u2028")
    assert (first["calls"], second["calls"], first["pid"]) == (1, 2, second["pid"])
    assert (second["workspacePath"], second["folder"]) == (runtime.parts.root, runtime.parts.root)
    assert second["sessionId"] == runtime.session


def test_sessions_share_a_process(tools, runtime):
    add(tools)

    pids = {data(runtime.request(Call("warm_one", {}, session=name)))["pid"] for name in ("a", "b")}

    assert len(pids) == 1


def test_a_call_that_times_out_kills_its_process_and_the_next_call_has_a_new_one(tools, runtime):
    add(tools, timeout=2000)
    pid = data(runtime.call("warm_one"))["pid"]

    late = runtime.call("warm_one", do="sleep")

    assert (late.error.code, has_ended(pid)) == ("timeout", True)
    assert "one line of JSON" in late.error.suggestion
    assert data(runtime.call("warm_one"))["calls"] == 1


def test_a_crash_is_reported_with_its_last_output_and_the_next_call_has_a_new_process(tools, runtime):
    add(tools)
    assert data(runtime.call("warm_one"))["calls"] == 1

    crashed = runtime.call("warm_one", do="crash")

    assert (crashed.error.code, crashed.error.details["exit_code"]) == ("tool_failed", 3)
    assert "the last words" in crashed.error.message
    assert data(runtime.call("warm_one"))["calls"] == 1


def test_a_script_that_exits_after_its_answer_is_restarted(tools, runtime):
    add(tools)
    pid = data(runtime.call("warm_one", do="last"))["pid"]
    wait_until(lambda: has_ended(pid))

    assert data(runtime.call("warm_one"))["calls"] == 1


def test_an_error_response_fails_the_call_and_keeps_the_process(tools, runtime):
    add(tools)
    assert data(runtime.call("warm_one"))["calls"] == 1

    failed = runtime.call("warm_one", error="no such thing")

    assert (failed.error.code, "no such thing" in failed.error.message) == ("tool_failed", True)
    assert data(runtime.call("warm_one"))["calls"] == 3


@pytest.mark.parametrize("do", ["noise", "nan"])
def test_output_before_the_response_is_a_warning(tools, runtime, do):
    add(tools)

    result = runtime.call("warm_one", do=do)

    assert data(result)["do"] == do
    assert "other output" in result.meta["warnings"][0]
    assert "warnings" not in runtime.call("warm_one").meta


def test_noise_after_a_response_does_not_disturb_the_next_call(tools, runtime):
    add(tools)

    assert [data(runtime.call("warm_one", do="chatter"))["calls"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("do", ["twice", "part"])
def test_a_second_response_is_not_used_for_the_next_call(tools, runtime, do):
    add(tools)
    pid = data(runtime.call("warm_one", do=do))["pid"]

    following = data(runtime.call("warm_one", text="mine"))

    assert (following["text"], following["calls"], following["pid"] != pid) == ("mine", 1, True)


def test_a_view_is_extracted_from_the_response(tools, runtime):
    add(tools)

    result = runtime.call("warm_one", _visualization={"type": "markdown", "content": "x"})

    assert (result.view or {})["type"] == "markdown"
    assert "_visualization" not in data(result)


def test_concurrent_calls_get_their_own_responses(tools, runtime):
    add(tools)
    replies: dict[int, Any] = {}

    def call(number: int) -> None:
        replies[number] = data(runtime.call("warm_one", number=number))["number"]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert replies == {number: number for number in range(40)}


def test_a_changed_script_has_a_new_process(tools, runtime):
    path = add(tools)
    before = data(runtime.call("warm_one"))["pid"]

    tools.write("warm_one/run.py", SCRIPT.replace("**request,", '**request, "new": True,'))
    settle(path)
    after = data(runtime.call("warm_one"))

    assert (after.get("new"), after["calls"], has_ended(before)) == (True, 1, True)


def test_a_removed_tool_has_no_process(tools, runtime):
    path = add(tools)
    pid = data(runtime.call("warm_one"))["pid"]
    assert not has_ended(pid)

    os.unlink(path)
    os.unlink(os.path.join(os.path.dirname(path), "tool.json"))
    wait_until(lambda: runtime.call("warm_one").error.code == "unknown_tool")

    wait_until(lambda: has_ended(pid))


def test_a_process_ends_with_the_runtime(base, tools):
    add(tools)
    with temporary_runtime(base) as (runtime, _):
        pid = data(runtime.call("warm_one"))["pid"]
        assert not has_ended(pid)

    assert has_ended(pid)


def test_a_process_does_not_outlive_a_killed_runtime(base, tools, runtime, environ):
    add(tools)
    code = (
        "from hilt.runtime import Runtime\n"
        f"runtime = Runtime({runtime.parts.root!r})\n"
        "print(runtime.call('warm_one').data['pid'], flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as hilt:
        assert hilt.stdout is not None
        pid = int(hilt.stdout.readline())
        assert not has_ended(pid)
        os.kill(hilt.pid, signal.SIGKILL)
        hilt.wait()

        wait_until(lambda: has_ended(pid))


def test_a_sandboxed_process_is_confined_and_each_session_has_its_own(tools, runtime, workspace):
    add(tools, sandbox={"network": False})

    first = data(runtime.call("warm_one", do="write"))
    second = data(runtime.call("warm_one", do="write"))
    other = data(runtime.request(Call("warm_one", {}, session="other")))

    assert first["refused"] == second["refused"]
    assert first["refused"] in ERRORS
    assert (first["calls"], second["calls"], other["calls"]) == (1, 2, 1)
    assert not os.path.exists(workspace.join("made"))


def test_plan_mode_also_tightens_the_sandbox_of_a_running_process(tools, runtime, workspace):
    add(tools, sandbox={"write": ["."]}, effects=["read"])
    assert "refused" not in data(runtime.call("warm_one", do="write"))
    os.unlink(workspace.join("made"))

    runtime.parts.authority.values().set(runtime.parts.id, runtime.session, "mode", "plan")

    assert data(runtime.call("warm_one", do="write"))["refused"] in ERRORS


def test_a_script_that_waits_for_end_of_input_times_out_with_advice(tools, runtime):
    add(tools, "import json, sys\nprint(json.dumps(json.load(sys.stdin)))\n", timeout=500)

    late = runtime.call("warm_one")

    assert (late.error.code, "answer every line" in late.error.suggestion) == ("timeout", True)


def test_a_text_result_is_not_supported(tools, runtime):
    add(tools, result="text")

    assert "result cannot be text" in runtime.call("warm_one").error.message
