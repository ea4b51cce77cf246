"""Limits of commands: the memory of all their processes together, and what they write to their private folders."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hilt import config
from hilt.call import Call
from hilt.errors import ToolError
from hilt.sandbox import cgroups, rooms, spawning
from hilt.testing import temporary_runtime
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command

MB = 1 << 20

# fills this many megabytes, prints a line, and waits forever
FILL = """
import sys, time
data = bytearray(int(sys.argv[1]) << 20)
for offset in range(0, len(data), 4096):
    data[offset] = 1
print("filled", flush=True)
time.sleep(1000)
"""

# each generation fills some memory, forks the next, and waits; all are orphans in separate sessions
FORK = """
import os, sys, time
for _ in range(40):
    data = bytearray(12 << 20)
    for offset in range(0, len(data), 4096):
        data[offset] = 1
    if os.fork():
        os.setsid() if os.getpid() != os.getpgrp() else None
        time.sleep(1000)
time.sleep(1000)
"""

SHARE = """
import os, sys, time
data = bytearray(120 << 20)
for offset in range(0, len(data), 4096):
    data[offset] = 1
children = []
for _ in range(4):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.read(reading, 1)
        os._exit(0)
    children.append((child, writing))
time.sleep(1.5)
for child, writing in children:
    os.write(writing, b"+")
    os.waitpid(child, 0)
print("all were there")
"""

UNMAPPED = """
import os, time
file = os.memfd_create("x")
for _ in range(500):
    os.write(file, bytes(1 << 20))
time.sleep(1000)
"""


@pytest.fixture
def mark() -> Mark:
    return Mark()


@pytest.fixture
def joined(base):
    with temporary_runtime(base, flags={"shell.memory_mb": 200, "shell.tmp_mb": 20}) as pair:
        for name, text in (("fill", FILL), ("fork", FORK), ("share", SHARE), ("unmapped", UNMAPPED)):
            pair[1].write(f"{name}.py", text)
        yield pair


def run(runtime, command, **args):
    return runtime.call("run_shell", command=command, force=True, **{"timeout": 120, **args})


def private(runtime, session=None):
    return rooms.private_folder(runtime.parts.state, runtime.parts.id, config.digest(session or runtime.session))


# --- memory -----------------------------------------------------------------------------------------------------


MEMORY_HOGS = {
    "several processes": "for i in 1 2 3 4 5; do python3 fill.py 80 {mark} & done; wait",
    "a chain of forks": "python3 fork.py {mark}",
    "processes in other sessions": "for i in 1 2 3; do setsid -f python3 fill.py 80 {mark}; done; sleep 1000",
    "files in memory that nothing maps": "python3 unmapped.py {mark}",
    "files in /dev/shm": "head -c 400000000 /dev/zero > /dev/shm/x; : {mark}; sleep 1000",
}


@needs_sandbox
@pytest.mark.parametrize("name", MEMORY_HOGS)
def test_processes_that_together_use_too_much_memory_are_ended(runtime, mark, name):
    result = run(runtime, "echo begun; " + MEMORY_HOGS[name].format(mark=mark.name))

    assert result.error.code == "resource_limit"
    assert "200 MB (shell.memory_mb)" in result.error.message
    # the kernel stops a group exactly at its limit
    assert result.error.details["used"] >= 200 * MB == result.error.details["limit"]
    assert result.error.details["output"].startswith("begun\n")
    assert mark.alive() == []


@needs_sandbox
@pytest.mark.parametrize("name", ["several processes", "a chain of forks"])
def test_a_job_that_uses_too_much_memory_is_ended(runtime, mark, name):
    command = "echo begun; " + MEMORY_HOGS[name].format(mark=mark.name)
    job = run(runtime, command, run_in_background=True).data["task_id"]

    ended = runtime.call("job_output", task_id=job, timeout=120_000).data

    assert (ended["status"], ended["exit_code"]) == ("limit", 137)
    assert "the limit is 200 MB (shell.memory_mb)" in ended["reason"]
    assert ended["output"].startswith("begun\n")
    assert mark.alive() == []


@needs_sandbox
def test_memory_that_processes_share_counts_once(runtime):
    result = run(runtime, "python3 share.py")

    assert result.ok
    assert "all were there" in result.text


@needs_sandbox
def test_ten_commands_have_ten_limits(runtime, mark):
    small = f"python3 fill.py 20 {mark.name} & python3 -c 'import time; time.sleep(1)'; kill %1"
    large = f"for i in 1 2 3 4 5; do python3 fill.py 60 {mark.name} & done; wait"
    commands = [small] * 8 + [large] * 2
    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(lambda command: run(runtime, command), commands))

    assert [result.ok for result in results] == [True] * 8 + [False] * 2
    assert mark.alive() == []


def test_the_limit_never_exceeds_the_memory_of_the_machine(base):
    from hilt.processes.call_processes import machine_memory

    with temporary_runtime(base, flags={"shell.memory_mb": 1_000_000_000}) as (runtime, _):
        limits = runtime._world.context(runtime._world.active(Call("run_shell"))).processes._limits(1)

    assert limits.memory == machine_memory()


def test_doctor_shows_the_limits_and_who_enforces_them(base):
    printed = Command(base, HILT_SHELL_MEMORY_MB="300", HILT_SHELL_TMP_MB="30").run("doctor").stdout.decode()
    text = " ".join(printed.split())  # without line breaks

    assert "300 MB for all processes of a command; " in text
    assert ("control groups in " if cgroups.find_parent() else "polled") in text
    assert "30 MB for /tmp, /var/tmp and ~/.cache of a session" in text


# --- the private folders ------------------------------------------------------------------------------------------


ROOM_HOGS = {
    "one file": "cat /dev/zero > /tmp/much",
    "in /var/tmp": "cat /dev/zero > /var/tmp/much",
    "in the cache": "cat /dev/zero > ~/.cache/much",
    "many files": "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > /tmp/$i; done",
    "in folders of folders": "while :; do mkdir a; cd a; head -c 100000 /dev/zero > b; done",
    "many processes": "for i in 1 2 3 4; do cat /dev/zero > /tmp/$i & done; wait",
    "forks in other sessions": "for i in 1 2 3; do setsid -f cat /dev/zero > /tmp/$i; done; sleep 1000",
}


@needs_sandbox
@pytest.mark.parametrize("name", ROOM_HOGS)
def test_a_command_that_fills_its_private_folders_is_ended(runtime, mark, name):
    os.makedirs(os.path.join(os.path.dirname(runtime.parts.root), "home/.cache"), exist_ok=True)

    result = run(runtime, f"echo begun; : {mark.name}; cd /tmp; {ROOM_HOGS[name]}")

    assert result.error.code == "resource_limit"
    assert "private /tmp, /var/tmp and ~/.cache hold " in result.error.message
    assert "the limit is 20 MB (shell.tmp_mb)" in result.error.message
    assert result.error.details["used"] > 20 * MB
    assert result.error.details["output"] == "begun\n"
    assert mark.alive() == []


@needs_sandbox
def test_a_job_that_fills_the_private_folders_is_ended_and_older_jobs_continue(runtime, mark):
    older = run(runtime, f"echo begun; sleep 1000 # {mark.name}", run_in_background=True).data["task_id"]
    newer = run(runtime, f"cat /dev/zero > /tmp/much # {mark.name}", run_in_background=True).data["task_id"]

    ended = runtime.call("job_output", task_id=newer, timeout=120_000).data

    assert (ended["status"], ended["exit_code"]) == ("limit", 137)
    assert "the limit is 20 MB (shell.tmp_mb)" in ended["reason"]
    assert run(runtime, "sleep 0.2; rm /tmp/much").ok
    assert runtime.call("job_output", task_id=older, block=False).data["status"] == "running"
    runtime.call("job_stop", task_id=older)
    assert mark.alive() == []


@needs_sandbox
def test_an_older_job_that_keeps_writing_is_ended_after_the_newer_command(runtime):
    job = run(runtime, "until [ -e go ]; do sleep 0.01; done; cat /dev/zero > /tmp/much", run_in_background=True)
    blamed = run(runtime, "touch go; sleep 1000")
    ended = runtime.call("job_output", task_id=job.data["task_id"], timeout=120_000).data

    assert blamed.error.code == "resource_limit"
    assert ended["status"] == "limit"


@needs_sandbox
def test_over_the_limit_a_command_may_delete_but_not_add(runtime):
    assert run(runtime, "cat /dev/zero > /tmp/much").error.code == "resource_limit"
    os.truncate(os.path.join(private(runtime), "tmp/much"), 0)
    with open(os.path.join(private(runtime), "tmp/much"), "wb") as file:
        file.write(bytes(25 * MB))

    more = run(runtime, "cat /dev/zero > /tmp/more")
    deleted = run(runtime, "rm /tmp/much /tmp/more; echo deleted")
    again = run(runtime, "head -c 10000000 /dev/zero > /tmp/some; sleep 0.2; echo fits")

    assert more.error.code == "resource_limit"
    assert "deleted" in deleted.text
    assert "fits" in again.text


@needs_sandbox
def test_no_command_starts_far_over_the_limit(runtime, workspace):
    run(runtime, "true")
    with open(os.path.join(private(runtime), "tmp/much"), "wb") as file:
        file.write(bytes(280 * MB))

    refused = run(runtime, "touch made")

    assert refused.error.code == "resource_limit"
    assert private(runtime) in refused.error.suggestion
    assert "made" not in workspace.tree()
    os.unlink(os.path.join(private(runtime), "tmp/much"))
    assert run(runtime, "touch made").ok


@needs_sandbox
def test_sparse_files_and_links_do_not_count(runtime):
    sparse = "truncate -s 1G /tmp/sparse; head -c 6000000 /dev/zero > /tmp/a"
    links = "for i in 1 2 3 4 5 6 7 8; do ln /tmp/a /tmp/link$i; done; ln -s / /tmp/root"

    assert run(runtime, f"{sparse}; {links}; sleep 0.5").ok


@needs_sandbox
def test_ten_commands_at_once_fill_one_folder_and_none_is_left(runtime, mark):
    with ThreadPoolExecutor(10) as pool:
        command = f"cat /dev/zero > /tmp/$$; : {mark.name}"
        results = list(pool.map(lambda _: run(runtime, command), range(10)))

    assert {result.error.code for result in results} == {"resource_limit"}
    assert mark.alive() == []


def test_a_large_tree_is_measured_in_slices(tmp_path):
    for number in range(1000):
        (tmp_path / str(number)).write_bytes(b"x")
    in_use = rooms.Rooms()
    with in_use.stay(str(tmp_path), 1 << 40) as stay:
        (tmp_path / "more").write_bytes(bytes(MB))
        wait_until(lambda: time.monotonic() > stay.due())
        assert stay.check() is None
    assert in_use._rooms == {}


# --- removing private folders -------------------------------------------------------------------------------------


@needs_sandbox
def test_the_private_folder_is_removed_with_its_session(runtime):
    run(runtime, "mkdir -p /tmp/a/b; touch /tmp/a/b/c")
    assert os.path.isdir(private(runtime))

    runtime.end_session(runtime.session)

    assert not os.path.exists(private(runtime))
    assert run(runtime, "ls /tmp/a").text.startswith("[exit: 2]")


def test_private_folders_unused_for_a_long_time_are_removed(runtime):
    old, new = "2" * 16, "3" * 16
    for session in (old, new):
        os.makedirs(os.path.join(runtime.parts.state, "sandbox", runtime.parts.id, session, "tmp"))
    os.utime(os.path.join(runtime.parts.state, "sandbox", runtime.parts.id, old), (0, 0))

    runtime.tidy(0)

    assert os.listdir(os.path.join(runtime.parts.state, "sandbox", runtime.parts.id)) == [new]


@needs_sandbox
def test_a_private_folder_in_use_is_not_removed(runtime):
    job = run(runtime, "echo here > /tmp/a; sleep 1000", run_in_background=True).data["task_id"]
    os.utime(private(runtime), (0, 0))

    runtime.tidy(0)

    assert os.path.isdir(private(runtime))
    runtime.call("job_stop", task_id=job)
    os.utime(private(runtime), (0, 0))
    runtime.tidy(0)
    assert not os.path.exists(private(runtime))


def test_removing_a_private_folder_follows_no_links_and_handles_any_mode_and_depth(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    folder = tmp_path / "private"
    (folder / "tmp").mkdir(parents=True)
    (folder / "tmp/link").symlink_to(precious)
    (folder / "cache").symlink_to(precious)
    (folder / "moved-0").mkdir()
    (folder / "closed/in").mkdir(parents=True)
    (folder / "closed/in").chmod(0)
    (folder / "closed").chmod(0)
    os.mkfifo(folder / "pipe")
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=deep)
        inner = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)

    assert rooms.remove(str(folder))

    assert not folder.exists()
    assert (precious / "file").read_text() == "kept"


# --- control groups -----------------------------------------------------------------------------------------------


def version_2():
    """A writable folder of control groups, preferably one that counts memory."""
    if parent := cgroups.find_parent():
        return parent
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split()[4] for line in file if " - cgroup2 " in line]
    for mount in mounts:
        if os.access(os.path.join(mount, "cgroup.procs"), os.W_OK):
            return mount
    return pytest.skip("no control groups of version 2 that can be written")


def test_a_program_enters_its_group_and_the_group_is_removed():
    parent = version_2()
    group = cgroups.Group(parent, {})
    limits = spawning.Limits(memory=200 * MB)
    child = None
    reading, writing = os.pipe()
    try:
        argv = ["sh", "-c", "cat /proc/self/cgroup"]
        child = spawning._start(
            argv, "/", {"PATH": os.defpath}, (0, writing, writing), limits, spawning.UNCONFINED, False, group
        )
        assert child.wait(60) == spawning.Exit("exit", 0)
        assert f"/{os.path.basename(group._path)}\n" in os.read(reading, 4096).decode()
        assert child.exceeded() is None
    finally:
        os.close(reading)
        os.close(writing)
        if child is not None:
            child.close()
        group.close()
    assert [name for name in os.listdir(parent) if name == os.path.basename(group._path)] == []


def test_only_groups_left_by_killed_processes_are_removed():
    parent = version_2()
    leftover = os.path.join(parent, "hilt-" + "0" * 16)
    os.mkdir(leftover)
    group = cgroups.Group(parent, {})
    try:
        cgroups.sweep(parent)

        assert not os.path.exists(leftover)
        assert os.path.isdir(group._path)
    finally:
        group.close()
    assert not os.path.exists(group._path)


@needs_sandbox
def test_the_kernel_enforces_the_memory_limit_of_a_group(runtime, mark):
    if cgroups.find_parent() is None:
        pytest.skip("no control group that counts memory can be written here")
    result = run(runtime, MEMORY_HOGS["several processes"].format(mark=mark.name))

    assert result.error.details["resource"] == "memory"
    assert mark.alive() == []
    assert [name for name in os.listdir(cgroups.find_parent() or "") if name.startswith("hilt-")] == []


def test_a_group_that_cannot_be_created_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        cgroups.Group(str(tmp_path), {"memory.max": "1"})

    assert os.listdir(tmp_path) == []


def test_a_full_private_folder_is_reported_with_its_size(tmp_path):
    (tmp_path / "much").write_bytes(bytes(258 * MB))
    in_use = rooms.Rooms()

    with pytest.raises(ToolError, match=r"hold 25\d MB or more"), in_use.stay(str(tmp_path), MB):
        pass
    assert in_use._rooms == {}
