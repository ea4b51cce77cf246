"""Processes and threads that use the same files and state at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hilt.state.trail import Trail
from hilt.testing import Folder, temporary_runtime
from tests.databases import connected

_LOAD = """
import sys, threading
def load(name):
    try:
        __import__(name)
    except BaseException as error:
        print(name, error)
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=load, args=(name,)) for name in sys.argv[1:]]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

pytestmark = pytest.mark.starts_processes

PROCESSES = 12


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder in memory: these tests are about ordering, not the disk."""
    base = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    yield base
    shutil.rmtree(base)


def hammered(base: str, mode: str, count: int) -> list[str]:
    """Start all processes at the same moment; return the errors that they print."""
    command = [sys.executable, "-m", "tests.state.hammering", mode, base]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(
            [*command, str(number), str(count)], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    errors: list[str] = []
    for process in processes:
        out, _ = process.communicate()
        errors += out.splitlines()
        assert process.returncode == 0, out
    return errors


def added(text: str) -> list[str]:
    return re.findall(r"^process \d+ turn \d+$", text, re.MULTILINE)


def test_twelve_processes_edit_five_files_and_no_change_and_no_snapshot_is_lost(memory):
    folder = Folder(os.path.join(memory, "workspace"))
    for number in range(5):
        folder.write(f"{number}.txt", "END\n")
    folder.write("../config/config.toml", "undo.calls = 2000\n")

    assert hammered(memory, "edit", 50) == []

    lines = [line for number in range(5) for line in added(folder.read(f"{number}.txt"))]
    assert Counter(lines) == Counter(f"process {n} turn {turn}" for n in range(PROCESSES) for turn in range(50))
    assert sorted(os.listdir(folder.path)) == [f"{number}.txt" for number in range(5)]
    with temporary_runtime(memory) as (runtime, _):
        listed = runtime.call("undo", action="list").data
        ids = list(dict.fromkeys(entry["id"] for entry in listed["snapshots"]))
        assert (len(ids), listed["total"]) == (600, 600)
        assert runtime.parts.trail.verify() is None
        assert len(runtime.parts.trail.rows(tool="edit_file")) == 600
        for id in ids:
            # each undo removes exactly one line: the newest one of its file
            file = runtime.parts.history.find(id).snapshots[0].path
            before = added(folder.read(file))
            assert runtime.call("undo", action="restore", id=id).ok
            assert added(folder.read(file)) == before[:-1]


def test_twelve_processes_may_start_on_empty_state_at_once(memory):
    os.mkdir(os.path.join(memory, "workspace"))

    assert hammered(memory, "open_first", 3) == []

    with temporary_runtime(memory) as (runtime, _):
        assert runtime.call("undo", action="list").data["total"] == PROCESSES * 3
        assert runtime.parts.trail.verify() is None
        assert len(runtime.parts.trail.rows()) == PROCESSES * 3 * 2 + 1
    assert [name for _, _, names in os.walk(os.path.join(memory, "state", "journal")) for name in names] == []


def test_processes_with_nested_workspaces_lose_no_update(memory):
    folder = Folder(os.path.join(memory, "workspace"))
    folder.write("inner/0.txt", "END\n")

    assert hammered(memory, "nested", 20) == []

    lines = added(folder.read("inner/0.txt"))
    assert Counter(lines) == Counter(f"process {n} turn {turn}" for n in range(PROCESSES) for turn in range(20))


def test_threads_may_load_the_mcp_sdk_at_once():
    """Packages whose modules import each other can otherwise fail in one thread, and leave it without the SDK."""
    source = Path(__file__).parents[1] / "src"
    names = sorted(
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in source.glob("hilt/**/*.py")
        if re.search(r"^from mcp\.", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert len(names) > 4

    for first in names:
        threads = [first, *(name for name in names if name != first)]
        finished = subprocess.run(
            [sys.executable, "-c", _LOAD, *threads], capture_output=True, text=True, timeout=60, check=False
        )
        assert (finished.stdout, finished.returncode) == ("", 0), finished.stderr


def test_threads_of_one_runtime_lose_no_update_and_no_snapshot(memory):
    with temporary_runtime(memory) as (runtime, folder):
        for number in range(3):
            folder.write(f"{number}.txt", "END\n")
        failures = []

        def work(thread: int) -> None:
            for turn in range(20):
                line = f"process {thread} turn {turn}\n"
                result = runtime.call("edit_file", path=f"{turn % 3}.txt", old_text="END", new_text=line + "END")
                if result.error is not None:
                    failures.append(result.error.message)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        lines = [line for number in range(3) for line in added(folder.read(f"{number}.txt"))]
        assert Counter(lines) == Counter(f"process {n} turn {turn}" for n in range(16) for turn in range(20))
        assert runtime.call("undo", action="list").data["total"] == 320
        assert runtime.parts.trail.verify() is None


@pytest.mark.parametrize(
    "tamper, seq",
    [
        ("UPDATE audit SET outcome='ok' WHERE seq=7", 7),
        ("UPDATE audit SET tool='read_file' WHERE seq=1", 1),
        ("UPDATE audit SET micros=micros+1 WHERE seq=20", 20),
        ("UPDATE audit SET hash=zeroblob(32) WHERE seq=3", 3),
        ("DELETE FROM audit WHERE seq=5", 5),
        ("DELETE FROM audit WHERE seq=1", 1),
        (
            "UPDATE audit SET seq=99 WHERE seq=8; UPDATE audit SET seq=8 WHERE seq=9; "
            "UPDATE audit SET seq=9 WHERE seq=99",
            8,
        ),
        (
            "INSERT INTO audit SELECT 25, at, workspace, session, tool, digest, decision, reason, approver, outcome, "
            "micros, hash, agent, contacts, call, run, parent FROM audit WHERE seq=24",
            25,
        ),
    ],
)
def test_a_changed_removed_moved_or_added_trail_row_is_detected(memory, tamper, seq):
    with temporary_runtime(memory) as (runtime, _):
        for _ in range(24):
            assert not runtime.call("list_dir", path="missing").ok
        assert runtime.parts.trail.verify() is None
    path = os.path.join(memory, "state", "trail.db")
    with connected(path) as db:
        db.executescript(tamper)
    db.close()

    assert Trail(path).verify() == seq
