"""A full state directory: no call runs unrecorded, nothing is lost, and calls work again once there is space."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hilt.call import Output
from hilt.declaration import tool
from hilt.testing import temporary_runtime
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.small_disk import SmallDisk
from tests.surfaces.commands import Command

pytestmark = pytest.mark.starts_processes


@pytest.fixture
def disk(base) -> Iterator[SmallDisk]:
    disk = SmallDisk(os.path.join(base, "state"))
    yield disk
    disk.close()


def tools(runtime):
    return [row.entry.tool for row in runtime.parts.trail.rows()]


CALLS = {
    "run_shell": {"command": "touch made"},
    "write_file": {"path": "made", "content": "x"},
    "read_file": {"path": "a.txt"},
    "job_list": {},
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_sandbox] if name == "run_shell" else []) for name in CALLS]
)
def test_on_a_full_disk_a_call_is_rejected_before_anything_runs(runtime, workspace, disk, name):
    workspace.write("a.txt", "a\n")
    runtime.call("read_file", path="a.txt")
    assert tools(runtime) == ["read_file"]
    runtime.call("list_dir")
    disk.fill()

    error = runtime.call(name, **CALLS[name]).error

    assert (error.code, error.details["directory"]) == ("resource_limit", disk.path)
    assert [fact for fact in ("did not run", disk.path, "0 KB free") if fact not in error.message] == []
    assert "hilt undo clear" in error.suggestion
    assert workspace.tree() == {"a.txt": "a\n"}
    # the rejected call is recorded if there is room
    assert tools(runtime) in (["read_file", "list_dir"], ["read_file", "list_dir", name])
    disk.empty()
    before = tools(runtime)

    again = runtime.call(name, **CALLS[name])

    assert again.ok
    assert tools(runtime) == [*before, name]
    assert runtime.parts.trail.verify() is None


def test_on_a_full_disk_an_unknown_tool_is_reported_only_while_that_can_be_recorded(runtime, disk):
    runtime.call("list_dir")
    disk.fill()

    codes = [runtime.call("no_such_tool").error.code for _ in range(30)]
    disk.empty()

    recorded = codes.count("unknown_tool")
    assert codes == ["unknown_tool"] * recorded + ["resource_limit"] * (30 - recorded)
    assert recorded < 30
    assert tools(runtime) == ["list_dir", *["no_such_tool"] * recorded]
    assert runtime.parts.trail.verify() is None


def test_a_disk_that_is_full_from_the_start_fails_calls_until_space_is_freed(base, disk):
    disk.fill()
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("a.txt", "a\n")
        refused = runtime.call("read_file", path="a.txt").error
        assert refused is not None
        assert refused.code == "resource_limit"
        disk.empty()

        assert runtime.call("read_file", path="a.txt").ok


@needs_sandbox
def test_a_call_that_fills_the_disk_is_recorded(base, disk):
    @tool(effects="write")
    def fill() -> Output:
        """Fill the disk."""
        disk.fill()
        return Output("full")

    with temporary_runtime(base, tools=[fill]) as (runtime, workspace):
        runtime.call("list_dir")
        result = runtime.call("fill")
        refused = runtime.call("run_shell", command="touch made")
        disk.empty()

        assert result.text == "full"
        assert refused.error is not None
        assert refused.error.code == "resource_limit"
        assert workspace.tree() == {}
        assert tools(runtime)[:2] == ["list_dir", "fill"]
        assert runtime.call("run_shell", command="touch made").ok
        assert runtime.parts.trail.verify() is None


@needs_sandbox
def test_a_command_that_fills_the_disk_is_recorded(runtime, disk):
    runtime.call("run_shell", command="true")
    runtime.call("run_shell", command="cat /dev/zero > /tmp/much")

    assert runtime.call("run_shell", command="true").error.code == "resource_limit"
    os.unlink(
        os.path.join(
            disk.path, "sandbox", runtime.parts.id, os.listdir(f"{disk.path}/sandbox/{runtime.parts.id}")[0], "tmp/much"
        )
    )

    # the rejected call is recorded if there is room
    assert tools(runtime)[:2] == ["run_shell", "run_shell"]


def test_one_shot_calls_are_rejected_until_space_is_freed(base, disk):
    command = Command(base)
    command.folder.write("a.txt", "a\n")
    request = {"tool": "read_file", "args": {"path": "a.txt"}}
    assert command.ask(request)[0]["ok"]
    disk.fill()
    (refused,) = command.ask(request)
    assert (refused["ok"], refused["error_code"]) == (False, "resource_limit")
    disk.empty()

    assert command.ask(request)[0]["ok"]


@needs_sandbox
def test_the_resident_process_rejects_calls_until_space_is_freed(base, disk):
    command = Command(base, HILT_RESIDENT="auto")
    assert command.run("resident", "start").returncode == 0
    try:
        disk.fill()
        request = {"tool": "run_shell", "args": {"command": "touch made", "run_in_background": True}}
        (refused,) = command.ask(request)
        assert refused["error_code"] == "resource_limit"
        disk.empty()
        assert command.ask(request)[0]["ok"]
    finally:
        command.run("resident", "stop")


@needs_sandbox
def test_a_job_can_be_stopped_on_a_full_disk(runtime, disk):
    job = runtime.call("run_shell", command="sleep 300", run_in_background=True).data["task_id"]
    disk.fill()

    stopped = runtime.call("job_stop", task_id=job)

    assert stopped.data["status"] == "stopped"
    disk.empty()
    assert tools(runtime) == ["run_shell", "job_stop"]


def test_clearing_the_history_frees_a_full_disk(base, disk):
    command = Command(base)
    for _ in range(3):
        command.folder.write("a.bin", os.urandom(200_000).hex().encode()[:300_000])
        (written,) = command.ask({"tool": "write_file", "args": {"path": "a.bin", "content": "new"}})
        assert written["ok"]
    disk.fill()

    done = command.run("undo", "clear")

    assert (done.returncode, done.stdout) == (0, b"cleared 3 snapshots\n"), done.stderr
    assert disk.free > 400_000
    assert command.ask({"tool": "list_dir", "args": {}})[0]["ok"]


@pytest.mark.parametrize("leave", [*range(128, 400, 24)])
def test_a_change_that_runs_out_of_space_is_complete_or_absent(runtime, workspace, disk, leave):
    old = {f"{name}.txt": os.urandom(40_000).hex() for name in "abc"}
    for name, text in old.items():
        workspace.write(name, text)
        runtime.call("read_file", path=name, limit=1)
    disk.fill(leave << 10)

    edits = [{"path": name, "old_text": text[:40], "new_text": "new"} for name, text in old.items()]
    result = runtime.call("multi_edit", edits=edits)

    new = {name: "new" + text[40:] for name, text in old.items()}
    assert workspace.tree() == (new if result.ok else old)
    assert result.ok or result.error.code == "resource_limit"
    disk.empty()
    assert runtime.call("list_dir").ok
    assert workspace.tree() == (new if result.ok else old)
    listed = runtime.call("undo", action="list").data["snapshots"]
    assert len(listed) == (3 if result.ok else 0)
    if listed:
        assert runtime.call("undo", action="restore", id=listed[0]["id"]).ok
        assert workspace.tree() == old
    assert [os.listdir(folder) for folder, _, _ in os.walk(runtime.parts.journal)] in ([], [[]])


@needs_sandbox
def test_long_output_that_cannot_be_stored_is_truncated(runtime, disk):
    runtime.call("run_shell", command="true")
    disk.fill(200 << 10)

    result = runtime.call("run_shell", command="seq 100000")

    assert result.ok
    assert result.text.startswith("[exit: 0]\n1\n2\n")
    assert "The full output could not be saved" in result.text
    assert [names for _, _, names in os.walk(os.path.join(disk.path, "overflow")) if names] == []


@needs_sandbox
def test_output_that_fits_neither_memory_nor_disk_ends_the_command(runtime, disk):
    runtime.call("run_shell", command="true")

    result = runtime.call("run_shell", command="seq 3000000")

    assert result.error.code == "resource_limit"
    assert "No space left" in result.error.message
    assert [names for _, _, names in os.walk(os.path.join(disk.path, "overflow")) if names] == []
    assert runtime.call("run_shell", command="true").ok


@needs_sandbox
def test_a_job_whose_output_cannot_be_stored_ends_with_the_reason(runtime, disk):
    job = runtime.call("run_shell", command="seq 3000000", run_in_background=True).data["task_id"]
    (state,) = runtime.parts.jobs.list(runtime.session)
    wait_until(lambda: runtime.parts.jobs.running == 0)
    os.truncate(state.job.output_file, 1000)

    ended = runtime.call("job_output", task_id=job)

    assert (ended.data["status"], ended.data["exit_code"]) == ("limit", 137)
    assert "its output could not be saved: No space left on device" in str(ended)


def test_large_snapshots_that_do_not_fit_leave_nothing_behind(runtime, workspace, disk):
    old = {name: os.urandom(700_000).hex() for name in ("a.txt", "b.txt")}
    for name, text in old.items():
        workspace.write(name, text)

    edits = [{"path": name, "old_text": text[:40], "new_text": "new"} for name, text in old.items()]
    result = runtime.call("multi_edit", edits=edits)

    assert result.error.code == "resource_limit"
    assert disk.path in result.error.message
    assert workspace.tree() == old
    assert [names for _, _, names in os.walk(os.path.join(disk.path, "blobs")) if names] == []
    assert runtime.call("list_dir").ok


def test_doctor_reports_a_full_disk(base, disk):
    command = Command(base)
    command.ask({"tool": "list_dir", "args": {}})
    disk.fill()

    report = command.run("doctor")

    assert report.returncode == 1
    assert b"0 KB free; calls are refused below 128 KB" in report.stdout


@pytest.mark.parametrize("words", [("rules", "add", "Read", "--ask", "--user", "--yes"), ("state", "backup", "BACKUP")])
def test_a_full_disk_for_other_files_is_not_missing_permission(base, words):
    full = SmallDisk(os.path.join(base, "full"))
    command = Command(base)
    command.environ["HILT_CONFIG_DIR"] = full.path
    command.run("call", "list_dir")
    try:
        full.fill()
        done = command.run(*[os.path.join(full.path, "backup.tar.gz") if word == "BACKUP" else word for word in words])
    finally:
        full.close()

    assert (done.returncode, done.stderr.partition(b":")[0]) == (1, b"resource_limit"), done.stderr.decode()


def test_nothing_is_installed_that_could_not_be_recorded(base, disk):
    command = Command(base)
    command.run("call", "list_dir")
    disk.fill()

    done = command.run("mcp", "install", "gemini", "--yes")

    assert (done.returncode, done.stderr.partition(b":")[0]) == (1, b"resource_limit"), done.stderr.decode()
    assert command.folder.tree() == {}
