"""A sandbox that waits for the next program gives it exactly what a new one would."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.marks import kill, read
from tests.sandbox.confined import SECRET, Box, Busy, Refused, Worker
from tests.sandbox.test_swapping import PLACES, swap_and_start

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")

STARTS = int(os.environ.get("HILT_STRESS") or 1) * 6
HANG_SECONDS = 30
# the brackets keep it from matching itself: the first process of a new sandbox has the whole script as an argument
WAITS = "tr '\\0' ' ' < /proc/1/cmdline | grep -q 'import l[a]uncher' && echo waited"

# everything that a program can see of its environment, apart from times, counters and ids
INSPECT = r"""
env | sort; ulimit -a; umask; id; pwd; trap; echo $- $0 $$ $PPID $SHLVL $BASHPID
grep -v 'ctxt\|Vm\|Rss\|HugetlbPages\|Mems_\|Cpus_' /proc/self/status
cat /proc/self/limits /proc/self/cgroup /proc/self/oom_score_adj /proc/self/uid_map /proc/self/loginuid
cut -d' ' -f 3-8 /proc/self/stat; cat /proc/sys/kernel/hostname; cat /proc/net/dev
readlink /proc/self/fd/0; stat -L -c '%F %a' /proc/self/fd/*; ls /proc/self/fd
cut -d' ' -f 4- /proc/self/mountinfo | sort; ls -laR /dev; ls -la . ~ /tmp; ls -A /
ps -o pid,ppid,pgid,sid,tty,nice
exec 2>&1; touch /x /proc/x /dev/x /run/x ~/x .git/x .hilt/x; cat .env; cat < /dev/tty
"""


@pytest.fixture
def place(worker: Worker) -> Iterator[Box]:
    """A box outside the temporary folder, so that programs can see the folders around it."""
    with closing(Box(worker, folder=PLACES[0])) as box:
        yield box


def normalized(output: str) -> list[str]:
    # listings contain times, and the ids of devices and processes of the script itself
    return [re.sub(r"\b(\w{3} +\d+ \d\d:\d\d|\d+:\d+|pts/\d+)\b", "…", line) for line in output.splitlines()]


def below(pid: int) -> dict[int, str]:
    """Return the descendants of a process, and their names."""
    rows = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True).stdout.splitlines()
    table = {int(row.split()[0]): (int(row.split()[1]), row.split()[2]) for row in rows}
    tree = {pid}
    for _ in table:
        tree |= {child for child, (parent, _) in table.items() if parent in tree}
    return {child: table[child][1] for child in tree - {pid} if child in table}


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def waiting_processes(box: Box) -> set[int]:
    return {pid for pid, name in below(box.worker.pid).items() if name in ("hilt-mounter", "bwrap")}


def test_a_program_sees_the_same_as_in_a_new_sandbox(place):
    place.write("ws/.env")
    place.write("ws/sub/.git/config", "")
    new = place.run(INSPECT + WAITS, processes=4000)
    place.prepare(processes=4000)

    waited = place.run(INSPECT + WAITS, processes=4000)

    assert normalized(waited.output) == [*normalized(new.output), "waited"]
    assert SECRET not in waited.output


def test_a_program_runs_in_the_sandbox_that_waited(box):
    box.prepare()

    assert box.run(WAITS).output == "waited\n"


@pytest.mark.parametrize("folder", ["", "sub/", "deep/er/"])
def test_files_created_while_a_sandbox_waits_are_protected(box, folder):
    box.prepare()
    box.write(f"ws/{folder}.env")
    box.write(f"ws/{folder}.git/hooks/pre-commit", "")
    box.write(f"ws/{folder}.git/config", "")
    box.write(f"ws/{folder}.claude/settings.json", "")
    paths = f"{folder}.git/hooks/pre-commit {folder}.git/config {folder}.claude/settings.json"

    done = box.run(f"cat {folder}.env; for path in {paths}; do echo evil >> $path; done; {WAITS}")

    assert SECRET not in done.output
    assert done.output.endswith("waited\n")
    assert not any("evil" in path.read_text() for path in map(box.workspace.joinpath, paths.split()))


def test_rules_added_while_a_sandbox_waits_apply(box):
    box.write("ws/plan.txt")
    box.write("ws/kept.txt", "")
    box.prepare()

    changes = {"denies_read": [str(box.workspace / "plan.txt")], "denies_write": [str(box.workspace / "kept.txt")]}
    done = box.run(f"cat plan.txt; echo evil > kept.txt; {WAITS}", **changes)

    assert SECRET not in done.output
    assert (box.workspace / "kept.txt").read_text() == ""
    assert done.output.endswith("waited\n")


def test_credentials_added_while_a_sandbox_waits_are_hidden(place):
    place.prepare()
    place.write("home/.ssh/id")
    place.write("home/.aws/credentials")

    done = place.run(f"cat ~/.ssh/id ~/.aws/credentials; {WAITS}")

    assert SECRET not in done.output
    assert done.output.endswith("waited\n")


def replace_by_rename(file: Path) -> None:
    new = file.with_suffix(".new")
    new.write_text(file.read_text())
    new.chmod(0o644)
    new.rename(file)


def replace_by_link(file: Path) -> None:
    os.link(file, file.with_suffix(".other"))
    file.unlink()
    file.with_suffix(".other").rename(file)


def replace_folder(file: Path) -> None:
    folder = file.parent
    folder.rename(folder.with_suffix(".old"))
    shutil.copytree(folder.with_suffix(".old"), folder)
    shutil.rmtree(folder.with_suffix(".old"))


@pytest.mark.parametrize("replace", [replace_by_rename, replace_by_link, replace_folder])
def test_files_replaced_while_a_sandbox_waits_stay_protected(box, replace):
    secret = box.write("ws/sub/.env")
    config = box.write("ws/sub/.git/config", "")
    box.prepare()
    for file in (secret, config):
        replace(file)
    box.own()

    done = box.run(f"cat sub/.env; echo evil >> sub/.git/config; {WAITS}")

    assert SECRET not in done.output
    assert config.read_text() == ""
    assert done.output.endswith("waited\n")


@pytest.mark.parametrize("inner", [".git/config", ".env"])
def test_a_job_that_swaps_names_gains_nothing(place, inner):
    outside = place.mkdir("outside")
    secret = place.write("home/.ssh/id")
    script = f"cat {secret}; echo evil > {outside}/marker; {WAITS}; echo ran"

    printed = swap_and_start(place, inner, "outside", script, starts=STARTS, before=place.prepare)

    assert set(os.listdir(outside)) <= {".git", inner.partition("/")[0]}
    assert not any(SECRET in output for output in printed)
    assert all(output.endswith("ran\n") for output in printed)


def test_a_job_that_keeps_moving_a_secret_does_not_reveal_it(place):
    place.write("ws/one/.env")
    place.mkdir("ws/two")
    swap = (
        "mv -T --exchange"
        if "--exchange" in subprocess.run(["mv", "--help"], capture_output=True, text=True).stdout
        else ""
    )
    swap_step = f"{swap} one two" if swap else "mv -T one three; mv -T two one; mv -T three two"
    job = place.start(f"echo on; while :; do {swap_step}; done 2>/dev/null")
    printed = []
    try:
        for _ in range(STARTS):
            with suppress(Busy):
                place.prepare()
                printed.append(place.run("cat one/.env two/.env three/.env; echo ran").output)
    finally:
        place.stop(job)

    assert printed
    assert not any(SECRET in output for output in printed)


@pytest.mark.parametrize("program, code", [("no-such-program", "runtime_missing"), ("./a.txt", "permission_denied")])
def test_a_program_that_cannot_be_started_is_reported(box, program, code):
    box.write("ws/a.txt", "")
    box.prepare()

    with pytest.raises(Refused) as raised:
        box.worker.ask(do="run", **{**box.request(""), "argv": [program, "-c", "x"]})

    assert raised.value.code == code
    assert program in str(raised.value)
    assert box.run("echo next").output == "next\n"


def test_a_folder_that_cannot_be_entered_is_reported(box):
    box.mkdir("ws/closed").chmod(0)
    box.prepare()

    with pytest.raises(Refused) as raised:
        box.run("true", cwd=box.workspace / "closed")

    assert raised.value.code == "permission_denied"


def test_a_script_without_an_interpreter_runs_in_the_shell(box):
    box.write("ws/tool", "echo ran\n").chmod(0o755)
    new = box.worker.ask(do="run", **{**box.request(""), "argv": ["./tool"]})
    box.prepare()

    assert box.worker.ask(do="run", **{**box.request(""), "argv": ["./tool"]}) == new


@pytest.mark.parametrize("door", ["run_in_call", "run_as_job"])
def test_a_program_that_resists_is_ended_at_the_timeout(box, door):
    box.prepare()
    script = "trap '' TERM INT HUP; (setsid sleep 1000 &) & sleep 1000"

    ended = box.attack(door, script, {}, [0.3, 0.1])

    assert ended == "timeout"
    assert eventually(lambda: "sleep" not in below(box.worker.pid).values())


def test_nothing_is_left_when_hilt_is_killed(own_worker):
    box = Box(own_worker)
    box.prepare()
    processes = set(below(own_worker.pid))
    assert waiting_processes(box)

    os.kill(own_worker.pid, signal.SIGKILL)
    own_worker.restart()

    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))
    box.close()


@pytest.mark.parametrize("name", ["hilt-mounter", "bwrap", "launcher"])
def test_a_program_runs_when_the_waiting_sandbox_has_died(box, name):
    box.prepare()
    tree = below(box.worker.pid)
    victims = [pid for pid, comm in tree.items() if comm == name]
    if name == "launcher":
        victims = [pid for pid in tree if b"launcher" in read(f"/proc/{pid}/cmdline") and tree[pid] != "bwrap"]
    kill(victims)

    assert victims
    assert box.run("echo ran").output == "ran\n"


def test_a_waiting_sandbox_ends_when_it_is_not_used(box):
    box.worker.ask(do="set_idle", seconds=3)
    try:
        box.prepare()

        assert eventually(lambda: not waiting_processes(box))
        assert box.run("echo ran").output == "ran\n"
    finally:
        box.worker.ask(do="set_idle", seconds=30)


def test_a_waiting_sandbox_ends_when_its_runtime_closes(box):
    box.prepare()

    box.worker.ask(do="forget", state=str(box.state))

    assert eventually(lambda: not waiting_processes(box))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")
@pytest.mark.parametrize("is_mounted", [False, True])
def test_a_waiting_sandbox_ends_when_the_mounts_of_the_system_change(is_mounted):
    worker = Worker(ordinary=False)
    box = Box(worker, folder=PLACES[0])
    folder = box.mkdir("mounted")
    command = ["nsenter", "-t", str(worker.pid), "-m", "--"]  # the worker has its own mounts
    mount = [*command, "mount", "-t", "tmpfs", "none", str(folder)]
    if is_mounted:
        subprocess.run(mount, check=True)
    box.prepare()

    subprocess.run([*command, "umount", str(folder)] if is_mounted else mount, check=True)

    assert box.run(f"grep -c ' {folder} ' /proc/self/mountinfo").output == f"{int(not is_mounted)}\n"
    box.close()
    worker.close()


def test_a_waiting_sandbox_holds_no_folder_of_the_workspace(box):
    box.mkdir("ws/sub")
    box.prepare()

    os.rmdir(box.workspace / "sub")
    assert os.listdir(box.workspace) == []
    os.rename(box.workspace, box.base / "moved")
    os.rename(box.base / "moved", box.workspace)

    assert box.run(WAITS).output == "waited\n"


def test_at_most_one_sandbox_waits(box):
    for session in ("one", "two", "three"):
        box.prepare(session=session)

    assert eventually(lambda: list(below(box.worker.pid).values()).count("hilt-mounter") == 1)


def test_a_different_profile_gets_a_separate_sandbox(box):
    box.prepare()

    assert box.run(WAITS, network="full").output == ""
    box.prepare()
    assert box.run(f"touch x; {WAITS}", name="read-only").output.endswith("Read-only file system\nwaited\n")
    assert not (box.workspace / "x").exists()
