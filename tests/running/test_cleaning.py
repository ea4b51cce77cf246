"""The quota of the state directory."""

from __future__ import annotations

import fcntl
import os
import time

import pytest

from hilt import config
from hilt.errors import ToolError
from hilt.running import cleaning
from hilt.sandbox import rooms
from hilt.state import inventory
from hilt.state.events import EventStore, NewEvent
from hilt.testing import Folder, temporary_runtime

MEGABYTE = 1 << 20
OLD = time.time() - 7200


@pytest.fixture
def state(tmp_path) -> Folder:
    os.mkdir(tmp_path / "state")
    return Folder(str(tmp_path / "state"))


def add(state: Folder, name: str, megabytes: int = 1, age: float = 7200) -> str:
    path = state.write(name, os.urandom(megabytes * MEGABYTE))
    os.utime(path, (time.time() - age,) * 2)
    return path


def settings(tmp_path, **values: int) -> config.Settings:
    flags = {name.replace("__", "."): value for name, value in values.items()}
    return config.load(str(tmp_path), {"HILT_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}, flags)


def test_each_part_is_first_reduced_to_its_own_limits(tmp_path, state):
    old = add(state, "overflow/w/s/old.txt", age=8 * 86_400)
    new = add(state, "overflow/w/s/new.txt")
    conversation = add(state, "transcripts/w/old.jsonl", age=31 * 86_400)

    cleaned = cleaning.clean(state.path, settings(tmp_path))

    assert [os.path.exists(path) for path in (old, new, conversation)] == [False, True, False]
    assert cleaned.removed == {"output": MEGABYTE, "transcripts": MEGABYTE}


def test_above_the_quota_the_least_valuable_part_is_removed_first_and_in_it_the_oldest_files(tmp_path, state):
    paths = [
        add(state, "cache/modules/x/tool.js"),
        add(state, "sandbox/w/s/tmp/x"),
        add(state, "overflow/w/s/1.txt", age=9000),
        add(state, "overflow/w/s/2.txt"),
        add(state, "transcripts/w/1.jsonl"),
        add(state, "blobs/00/00"),
    ]
    os.utime(state.join("sandbox/w/s"), (OLD, OLD))

    cleaned = cleaning.clean(state.path, settings(tmp_path, state__mb=3))

    assert [os.path.exists(path) for path in paths] == [False, False, False, True, True, True]
    assert list(cleaned.removed) == ["cache", "rooms", "output"]
    assert cleaned.after <= cleaned.quota


def test_undo_data_and_foreign_files_are_kept_however_small_the_quota_is(tmp_path, state):
    paths = [
        add(state, "blobs/00/00", 2),
        add(state, "mine/notes.txt"),
        add(state, "backups/of-mine.tar"),
        add(state, "worktrees/a.json"),
    ]

    cleaned = cleaning.clean(state.path, settings(tmp_path, state__mb=1))

    assert all(map(os.path.exists, paths))
    assert cleaned.after > cleaned.quota


def test_files_that_a_process_uses_or_has_just_written_are_kept(tmp_path, state):
    written = add(state, "overflow/w/s/job.out")
    locked = add(state, "transcripts/w/running.jsonl")
    fresh = add(state, "overflow/w/s/fresh.txt", age=0)
    room = add(state, "sandbox/w/s/tmp/x")

    with open(written, "ab"), open(locked, "ab") as transcript:
        fcntl.flock(transcript, fcntl.LOCK_EX)
        folder = os.open(state.join("sandbox/w/s"), os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_SH)
        cleaning.clean(state.path, settings(tmp_path, state__mb=1))
        exist = [os.path.exists(path) for path in (written, locked, fresh, room)]
        os.close(folder)

    assert exist == [hasattr(fcntl, "F_SETLEASE"), True, True, True]


def test_events_beyond_the_quota_are_removed_and_their_space_freed(tmp_path, state):
    events = EventStore(state.path)
    for _ in range(100):
        events.append(NewEvent("call", {"text": "x" * 60_000}))
    events.close()

    cleaned = cleaning.clean(state.path, settings(tmp_path, state__mb=2))

    assert cleaned.removed["events"] > 3 * MEGABYTE
    assert cleaned.after <= cleaned.quota


def test_one_process_cleans_at_a_time(tmp_path, state):
    with open(state.write("cleaned"), "wb") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        with pytest.raises(ToolError) as caught:
            cleaning.clean(state.path, settings(tmp_path))

    assert caught.value.code == "busy"


def test_a_session_cleans_once_an_hour(tmp_path, state):
    old = add(state, "overflow/w/s/1.txt", 2)
    with temporary_runtime(str(tmp_path), flags={"state.mb": 1, "output.keep_mb": 500}) as (runtime, _):
        runtime.tidy(0)
        assert os.path.exists(old)  # the first time only records the time
        runtime.tidy(0)
        assert os.path.exists(old)
        os.utime(state.join("cleaned"), (OLD, OLD))
        runtime.tidy(0)

    assert not os.path.exists(old)


def test_a_deep_tree_in_a_private_folder_is_measured_without_recursion(tmp_path, state):
    folder = state.join("sandbox/w/s")
    os.makedirs(folder)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    assert sum(size.bytes for size in inventory.measure(state.path)) == 0
    os.utime(folder, (OLD, OLD))
    rooms.remove(folder)


def test_a_project_file_cannot_set_the_quota(tmp_path, state):
    project = Folder(str(tmp_path / "project"))
    project.write(".hilt/config.toml", "[state]\nmb = 1\n")
    environ = {"HILT_STATE_DIR": state.path, "HOME": str(tmp_path)}

    values = config.load(project.path, environ, {}, lambda path, data: True)

    assert values["state.mb"] == config.KEYS["state.mb"].default
