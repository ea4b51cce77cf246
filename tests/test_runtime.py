from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path

import pytest

from hilt import Output, ToolError, tool
from hilt.call import Call, Result
from hilt.call_threads import WORKERS_MAX
from hilt.testing import temporary_runtime
from tests.open_files import open_below
from tests.programs import needs_sandbox


def code_of(result: Result) -> str | None:
    return None if result.error is None else result.error.code


# --- every call is answered -------------------------------------------------------------------------------------------


def raising(error: BaseException):
    @tool
    def broken() -> Output:
        """Fail."""
        raise error

    return broken


@pytest.mark.parametrize(
    "error, code",
    [
        (ToolError("not_found", "nothing"), "not_found"),
        (ValueError("private text"), "internal"),
        (KeyError("x"), "internal"),
        (OSError(5, "private text"), "internal"),
        (RecursionError(), "internal"),
        (MemoryError(), "internal"),
        (SystemExit(1), "internal"),
        (KeyboardInterrupt(), "internal"),
        (GeneratorExit(), "internal"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "private text"), "internal"),
    ],
    ids=repr,
)
def test_any_exception_of_a_tool_is_answered_and_the_next_call_runs(base, error, code):
    with temporary_runtime(base, tools=[raising(error)]) as (runtime, _):
        for _ in range(3):
            result = runtime.call("broken")
            assert code_of(result) == code
            assert "private text" not in str(result.error)
        assert runtime.call("list_dir").ok


def test_an_incident_is_logged_under_the_id_in_the_reply(base):
    with temporary_runtime(base, tools=[raising(ValueError("the cause"))]) as (runtime, _):
        result = runtime.call("broken")

    assert result.error is not None
    with open(os.path.join(base, "state", "incidents.log")) as file:
        log = file.read()
    assert str(result.error.details["incident"]) in log
    assert "ValueError: the cause" in log


def test_a_bug_that_a_tool_reports_itself_gets_an_incident_too(base):
    with temporary_runtime(base, tools=[raising(ToolError("internal", "The widget broke."))]) as (runtime, _):
        result = runtime.call("broken")

    assert result.error is not None
    incident = str(result.error.details["incident"])
    assert result.error.message == f"The widget broke, incident {incident}."
    with open(os.path.join(base, "state", "incidents.log")) as file:
        assert incident in file.read()


def test_a_fault_is_answered_when_file_descriptors_run_out(base, monkeypatch):
    monkeypatch.delitem(sys.modules, "hilt.output.incidents", raising=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    @tool
    def exhausted() -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        raise ValueError("the cause")

    with temporary_runtime(base, tools=[exhausted]) as (runtime, _):
        runtime.call("list_dir")
        try:
            assert code_of(runtime.call("exhausted")) == "internal"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "path", ["caf\udce9.txt", "\ud800", "a\nb", "\x7f", "\u202e", "x" * 5000, "a/" * 50, "a/" * 5000]
)
@pytest.mark.parametrize("name", ["read_file", "write_file", "stat_file", "list_dir"])
def test_any_path_gets_a_result(base, name, path):
    with temporary_runtime(base) as (runtime, _):
        args = {"content": "x"} if name == "write_file" else {}
        result = runtime.call(name, path=path, **args)

        assert code_of(result) != "internal", result.error
        assert runtime.call("list_dir").ok


@pytest.mark.parametrize(
    "args", [None, [], "x", 5, {"path": {}}, {"path": ["a"]}, {1: 2}, {"path": b"a"}, {"path": object()}]
)
def test_any_arguments_get_a_result(runtime, args):
    result = runtime.request(Call("read_file", args))

    assert code_of(result) in ("invalid_args", "internal")


def test_a_call_that_cannot_be_recorded_is_an_error(base):
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "secret\n")
        assert runtime.call("read_file", path="a.txt").ok
        runtime.parts.trail.close()
        for name in os.listdir(os.path.join(base, "state")):
            if name.startswith("trail.db"):
                os.unlink(os.path.join(base, "state", name))
        os.mkdir(os.path.join(base, "state", "trail.db"))

        result = runtime.call("read_file", path="a.txt")

    assert result.error is not None
    assert "secret" not in str(result)


def test_more_calls_than_threads_are_all_answered(base):
    gate = threading.Event()

    @tool
    def wait() -> Output:
        """Wait."""
        gate.wait()
        return Output("done")

    with temporary_runtime(base, tools=[wait]) as (runtime, _):
        results: list[Result] = []
        count = WORKERS_MAX * 2 + 5
        done = threading.Semaphore(0)

        def take(result: Result) -> None:
            results.append(result)
            done.release()

        for _ in range(count):
            runtime.submit(Call("wait"), take)
        gate.set()
        for _ in range(count):
            done.acquire()

        assert [result.text for result in results] == ["done"] * count
        assert runtime.call("list_dir").ok


def test_closing_a_runtime_cancels_running_calls_and_answers_them(base):
    gate, inside = threading.Event(), threading.Event()

    @tool
    def wait() -> Output:
        """Wait."""
        inside.set()
        gate.wait()
        return Output("done")

    results: list[Result] = []
    with temporary_runtime(base, tools=[wait]) as (runtime, _):
        runtime.submit(Call("wait", id=9), results.append)
        inside.wait()
    gate.set()

    assert [(code_of(result), result.id) for result in results] == [("cancelled", 9)]


def test_a_queued_call_can_be_cancelled_and_never_runs(base):
    gate, inside = threading.Event(), threading.Event()

    @tool(effects="write", touches=lambda args: [__import__("hilt.call").call.Touch("write", "a.txt")])
    def hold() -> Output:
        """Hold a.txt."""
        inside.set()
        gate.wait()
        return Output()

    with temporary_runtime(base, tools=[hold]) as (runtime, folder):
        results: list[Result] = []
        runtime.submit(Call("hold"), lambda result: None)
        inside.wait()
        waiting = runtime.submit(Call("write_file", {"path": "a.txt", "content": "x"}), results.append)
        waiting.cancel()
        assert [code_of(result) for result in results] == ["cancelled"]
        gate.set()
        assert runtime.call("read_file", path="a.txt").error is not None  # runs after both, in the same lane
        assert folder.tree() == {}


# --- every call is recorded, and nothing of its contents --------------------------------------------------------------


def test_every_call_is_in_the_trail_whatever_its_outcome(base):
    with temporary_runtime(base, tools=[raising(ValueError())]) as (runtime, folder):
        folder.write("a.txt", "x\n")
        runtime.call("read_file", path="a.txt")
        runtime.call("no_such_tool")
        runtime.call("read_file", pth="a.txt")
        runtime.call("read_file", path=".git/config")
        runtime.call("broken")

        rows = [(row.entry.tool, row.entry.decision, row.entry.outcome) for row in runtime.parts.trail.rows()]

    assert rows == [
        ("read_file", "allow", "ok"),
        ("no_such_tool", "deny", "unknown_tool"),
        ("read_file", "deny", "invalid_args"),
        ("read_file", "deny", "sensitive_path"),
        ("broken", "allow", "internal"),
    ]


def test_the_trail_holds_no_file_contents_and_no_arguments(base):
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "old marker-one\n")
        runtime.call("read_file", path="a.txt")
        runtime.call("edit_file", path="a.txt", old_text="marker-one", new_text="marker-two")
        runtime.call("edit_file", path="a.txt", old_text="marker-three", new_text="marker-four")
    raw = b""
    for name in os.listdir(os.path.join(base, "state")):
        if name.startswith("trail.db"):
            with open(os.path.join(base, "state", name), "rb") as file:
                raw += file.read()

    assert b"edit_file" in raw
    assert b"marker" not in raw


def test_messages_show_workspace_paths_and_no_absolute_ones(runtime, workspace):
    workspace.write("dir/a.txt", "x\n")
    workspace.write(".git/config", "x\n")
    os.symlink("/etc/passwd", workspace.join("out"))
    replies = []
    for path in ("missing.txt", "dir", "dir/a.txt/x", ".git/config", "out", "dir/../missing"):
        for full in (path, workspace.join(path)):
            for name, args in (
                ("read_file", {}),
                ("write_file", {"content": "", "if_absent": True}),
                ("stat_file", {}),
            ):
                result = runtime.call(name, path=full, **args)
                replies.append((full, name, result.text, result.error and (result.error.message, result.error.details)))

    leaks = [reply for reply in replies if workspace.path in str(reply[2:])]
    assert leaks == []


def test_every_kind_of_result_carries_the_id_of_its_call(runtime, workspace):
    workspace.write("a.txt", "x\n")
    ids = [0, "", False, [1], {"a": None}, "text"]
    for id in ids:
        for call in (
            Call("read_file", {"path": "a.txt"}, id=id, request_id=id),
            Call("read_file", {"path": "missing"}, id=id, request_id=id),
            Call("read_file", {"pth": 1}, id=id, request_id=id),
            Call("nothing", {}, id=id, request_id=id),
        ):
            result = runtime.request(call)
            assert (result.id, result.request_id) == (id, id)
            json.dumps(result.id)


def test_calls_leave_no_handles_open(runtime, workspace, base):
    workspace.write("a.txt", "x\n")
    os.symlink("a.txt", workspace.join("link"))
    os.symlink("/etc", workspace.join("out"))

    def round_of_calls() -> None:
        for path in ("a.txt", "link", "missing", "out/passwd", ".git", "d/e/f.txt", "a.txt/x"):
            runtime.call("read_file", path=path)
            runtime.call("stat_file", path=path)
            runtime.call("list_dir", path=path)
            runtime.call("write_file", path=path, content="x")
            runtime.call("edit_file", path=path, old_text="x", new_text="y")
            runtime.call("edit_file", path=path, old_text="y", new_text="x")
            runtime.call("edit_file", path=path, old_text="nothing", new_text="x")
        listed = runtime.call("undo", action="list").data["snapshots"]
        runtime.call("undo", action="restore", id=listed[0]["id"])

    round_of_calls()
    before = open_below(base)
    for _ in range(3):
        round_of_calls()

    assert before != []
    assert open_below(base) == before


# --- time and closing -------------------------------------------------------------------------------------------------


def test_a_call_is_answered_at_its_deadline(base):
    gate = threading.Event()

    @tool(timeout=0.2)
    def wait() -> Output:
        """Wait for the gate."""
        gate.wait(30)
        return Output()

    began = time.monotonic()
    with temporary_runtime(base, tools=[wait]) as (runtime, _):
        result = runtime.call("wait")
        gate.set()

    assert code_of(result) == "timeout"
    assert time.monotonic() - began < 10


def test_a_call_on_a_closed_runtime_is_answered(base):
    with temporary_runtime(base) as (runtime, _):
        assert runtime.call("list_dir").ok

    assert code_of(runtime.call("list_dir")) == "cancelled"


@pytest.mark.parametrize("path", [Path("a.txt"), b"a.txt", {1: 2}, {1: 2, "a": {3}}, {(1, 2)}], ids=repr)
def test_a_value_that_is_not_json_is_refused_like_any_invalid_one(runtime, path):
    assert code_of(runtime.call("read_file", path=path)) == "invalid_args"


def test_tidying_tolerates_an_unusable_database(base):
    with temporary_runtime(base) as (runtime, _):
        os.mkdir(os.path.join(base, "state", "trail.db"))

        runtime.tidy(0.1)


def test_slow_calls_do_not_block_other_calls(base):
    released = threading.Event()

    @tool(effects="read", timeout=600)
    def wait_long() -> str:
        """Wait."""
        released.wait(60)
        return "waited"

    with temporary_runtime(base, tools=[wait_long]) as (runtime, workspace):
        workspace.write("a.txt", "read meanwhile")
        waiting: list[Result] = []
        for _ in range(WORKERS_MAX + 10):
            runtime.submit(Call("wait_long"), waiting.append)
        read = runtime.call("read_file", path="a.txt")
        early = len(waiting)
        released.set()

    assert "read meanwhile" in read.text
    assert early == 0


# --- names that cannot be stored --------------------------------------------------------------------------------------

UNSTORABLE = ("a\0b", "a\ud800", "\udcff")


@pytest.mark.parametrize("name", UNSTORABLE)
@pytest.mark.parametrize("fields", [("session",), ("client",), ("id",), ("request_id",), ("session", "client", "id")])
def test_a_call_with_an_invalid_name_is_answered_and_recorded(base, name, fields):
    with temporary_runtime(base) as (runtime, folder):
        result = runtime.request(Call("write_file", {"path": "x", "content": ""}, **dict.fromkeys(fields, name)))

        assert code_of(result) == "invalid_request"
        assert not os.path.exists(folder.join("x"))
        if "id" in fields:
            assert result.id == name
        assert [row.entry.outcome for row in runtime.parts.trail.rows(limit=5)] == ["invalid_request"]


@pytest.mark.parametrize("name", UNSTORABLE)
def test_an_invalid_session_is_refused(base, name):
    with pytest.raises(ToolError) as raised, temporary_runtime(base, session=name):
        pass
    assert raised.value.code == "invalid_request"

    with temporary_runtime(base) as (runtime, _), pytest.raises(ToolError) as raised:
        runtime.end_session(name)
    assert raised.value.code == "invalid_request"


@pytest.mark.starts_processes
@needs_sandbox
@pytest.mark.parametrize("session", ["a" * 999, "ü" * 200, "a\nb", "/etc", ".."])
def test_commands_run_in_sessions_with_odd_names(base, session):
    with temporary_runtime(base, session=session) as (runtime, _):
        assert "hi" in runtime.call("run_shell", command="echo hi").text
