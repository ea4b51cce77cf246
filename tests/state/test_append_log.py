"""The log in front of the database: tampering, interrupted writes, crashes and power loss."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from hilt.errors import ToolError
from hilt.state.trail import SESSION_IDLE_SECONDS, Stamp, Trail, TrailEntry, digest

SECOND = 1_000_000_000
DAY = 24 * 3600 * SECOND
STRESS = int(os.environ.get("HILT_STRESS", "0"))


@pytest.fixture
def trail(tmp_path):
    trail = Trail(str(tmp_path / "trail.db"))
    yield trail
    trail.close()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "trail.db.log"


def entry(number: int = 0, *, session: str = "s", at: int | None = None) -> TrailEntry:
    at = time.time_ns() if at is None else at
    return TrailEntry(at, "w", session, "read_file", digest({}), "allow", "reason", "", "ok", number)


def fill(trail: Trail, count: int, *, at: int | None = None) -> None:
    for number in range(count):
        trail.record(entry(number, at=at), {})


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def stored_rows(tmp_path) -> int:
    """Return how many rows the database has."""
    if not (tmp_path / "trail.db").exists():
        return 0
    with closing(sqlite3.connect(tmp_path / "trail.db")) as db:
        return int(db.execute("SELECT count(*) FROM audit").fetchone()[0])


def test_recording_does_not_open_the_database_and_reading_flushes_the_log(trail, tmp_path, log):
    trail.make_ready()
    fill(trail, 5)
    assert not (tmp_path / "trail.db").exists()
    assert trail.end()[0] == 5
    assert not (tmp_path / "trail.db").exists()

    assert [row.seq for row in trail.rows()] == [1, 2, 3, 4, 5]

    assert stored_rows(tmp_path) == 5
    assert len(lines(log)) == 1
    fill(trail, 2)
    assert (trail.end()[0], trail.breaks(), stored_rows(tmp_path)) == (7, [], 7)


READERS = {
    "rows": lambda trail: trail.rows(),
    "breaks": lambda trail: trail.breaks(),
    "verify": lambda trail: trail.verify(),
    "counters": lambda trail: trail.counters(),
    "usage": lambda trail: trail.usage(),
    "prune": lambda trail: trail.prune(),
    "end_idle": lambda trail: trail.end_idle(),
    "end_session": lambda trail: trail.end_session("w", "s"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_reader_flushes_the_log(trail, tmp_path, read):
    fill(trail, 3)

    read(trail)

    assert stored_rows(tmp_path) == 3


# --- tampering ----------------------------------------------------------------------------------------------------

# a change to the lines of a log with twelve rows (its first line has none), and the first row that is reported
TAMPERING = {
    "a changed row": (lambda rows: [*rows[:5], rows[5].replace(b'"allow"', b'"adlow"'), *rows[6:]], 5),
    "a changed last row": (lambda rows: [*rows[:-1], rows[-1].replace(b'"ok"', b'"no"')], 12),
    "a changed hash": (lambda rows: [*rows[:5], rows[5][:-9] + b"00000000\n", *rows[6:]], 5),
    "a damaged end of a line": (lambda rows: [*rows[:5], rows[5][:-9] + b"--------\n", *rows[6:]], 5),
    "a removed row": (lambda rows: [*rows[:5], *rows[6:]], 5),
    "a row in place of another": (lambda rows: [*rows[:5], rows[7], *rows[6:]], 5),
    "swapped rows": (lambda rows: [*rows[:5], rows[6], rows[5], *rows[7:]], 5),
    "swapped last rows": (lambda rows: [*rows[:-2], rows[-1], rows[-2]], 11),
    "a second row with the same number": (
        lambda rows: [*rows[:6], rows[5].replace(b'"ok"', b'"no"'), *rows[6:]],
        6,
    ),
    "a removed end": (lambda rows: rows[:-3], 10),
    "a cut line": (lambda rows: [*rows[:-1], rows[-1][:50]], 12),
    "an end of zeros": (lambda rows: [*rows[:-2], bytes(300)], 11),
    "only the first line left": (lambda rows: rows[:1], 1),
    "an empty log": (lambda rows: [], 1),
    "not a log": (lambda rows: [b"text\n" * 100], 1),
    "a line without a row": (lambda rows: [*rows[:5], rows[5][-82:], *rows[6:]], 5),
    "values that no row has": (
        lambda rows: [*rows[:5], rows[5].replace(b'"reason"', b'{"a":[1]}'), *rows[6:]],
        5,
    ),
    "text that is not Unicode": (lambda rows: [*rows[:5], rows[5].replace(b'"reason"', b'"\\ud800"'), *rows[6:]], 5),
    "a number that is too large": (
        lambda rows: [*rows[:5], rows[5].replace(b'"reason"', b"9" * 30), *rows[6:]],
        5,
    ),
    "nesting": (lambda rows: [*rows[:5], rows[5].replace(b'"reason"', b"[" * 9000), *rows[6:]], 5),
}


@pytest.mark.parametrize("more", [0, 1, 40])
@pytest.mark.parametrize("tamper, seq", TAMPERING.values(), ids=TAMPERING)
def test_tampering_with_the_log_is_detected_even_when_the_trail_continues(trail, tmp_path, log, tamper, seq, more):
    fill(trail, 12)
    trail.close()
    log.write_bytes(b"".join(tamper(lines(log))))
    with closing(Trail(str(tmp_path / "trail.db"))) as other:
        fill(other, more)

    breaks = trail.breaks()

    assert breaks[0].seq == seq
    if more:
        assert trail.rows()[-1].entry.micros == more - 1


def test_a_deleted_log_is_detected_and_the_trail_continues(trail, tmp_path, log):
    fill(trail, 3)
    trail.rows()
    fill(trail, 3)
    os.remove(log)

    fill(trail, 2)  # the descriptor was open

    assert [row.seq for row in trail.rows()] == [1, 2, 3, 7, 8]
    assert [item.seq for item in trail.breaks()] == [4]


def test_a_running_process_does_not_reuse_the_numbers_of_removed_rows(trail, tmp_path, log):
    with closing(Trail(str(tmp_path / "trail.db"))) as other:
        fill(other, 5)
        before = log.read_bytes()
        fill(trail, 50)
    log.write_bytes(before)

    fill(trail, 40)

    assert [row.seq for row in trail.rows()] == [*range(1, 6), *range(56, 96)]
    assert trail.breaks()[0].seq == 6


# --- interrupted writes -------------------------------------------------------------------------------------------


def test_a_partially_written_line_is_ignored(trail, tmp_path, log):
    fill(trail, 3)
    trail.close()
    before = log.read_bytes()
    head = (tmp_path / "trail.db.head").read_bytes()
    fill(trail, 1)
    trail.close()
    line = log.read_bytes()[len(before) :]
    assert line.endswith(b"\n")

    for length in range(len(line)):
        log.write_bytes(before + line[:length])
        (tmp_path / "trail.db.head").write_bytes(head)
        if length % 2:
            assert trail.end()[0] == 3
        fill(trail, 1)
        trail.close()
        assert list(map(_number, lines(log))) == [0, 1, 2, 3, 4]
    assert trail.breaks() == []


def _number(line: bytes) -> int:
    return int(line[-81:-65], 16)


def test_a_partially_written_first_line_is_rewritten(trail, log):
    fill(trail, 3)
    trail.rows()
    trail.close()
    first = log.read_bytes()

    for length in range(len(first)):
        log.write_bytes(first[:length])
        trail.make_ready()
        fill(trail, 1)
        assert trail.breaks() == []
        trail.close()
    assert len(trail.rows()) == 3 + len(first)


@pytest.mark.parametrize("removes", [False, True])
def test_a_log_that_was_flushed_before_a_crash_is_not_flushed_again(trail, tmp_path, log, removes):
    stamp = Stamp(1, 2, b"hash")
    fill(trail, 4, at=time.time_ns() - 200 * DAY)
    trail.record(entry(), {"a": stamp})
    before = log.read_bytes()
    if removes:
        assert trail.prune() == 4
    else:
        trail.rows()
    expected = trail.rows()
    trail.close()
    log.write_bytes(before)  # as if the process had died before it emptied the log

    assert trail.rows() == expected
    fill(trail, 2)
    assert trail.breaks() == []
    assert trail.stamps("w", "s", ["a"]) == {"a": stamp}


def test_a_power_loss_loses_only_the_last_rows(trail, tmp_path, log):
    """The database is synced before the log is emptied, so only rows of the log can be lost."""
    fill(trail, 5)
    trail.rows()
    fill(trail, 5)
    trail.close()
    state = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    log_bytes = state["trail.db.log"]
    ends = [index + 1 for index, byte in enumerate(log_bytes) if byte == 10]
    for surviving, end in enumerate(ends):
        for name in os.listdir(tmp_path):
            os.remove(tmp_path / name)
        for name, data in state.items():
            (tmp_path / name).write_bytes(data)
        log.write_bytes(log_bytes[: end + 40] if end < len(log_bytes) else log_bytes)
        os.remove(tmp_path / "trail.db.head")  # its notes were lost too

        with closing(Trail(str(tmp_path / "trail.db"))) as other:
            fill(other, 2)
            assert [row.seq for row in other.rows()] == list(range(1, 5 + surviving + 3))
            assert ["trail.db.head" in item.reason for item in other.breaks()] == [True]


_RECORD = """
import sys, time
from hilt.state.trail import TrailEntry, Trail
trail = Trail(sys.argv[1])
number = 0
while True:
    trail.make_ready()
    entry = TrailEntry(time.time_ns(), "w", sys.argv[2], "read_file", "d" * 5000, "allow", "", "", "ok", number)
    trail.record(entry, {})
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    if number % 7 == 0:
        trail.rows(limit=1)
    number += 1
"""


@pytest.mark.starts_processes
def test_a_killed_process_leaves_a_valid_chain_with_every_row_it_reported(trail, tmp_path):
    reported: dict[str, int] = {}
    for turn in range(STRESS or 4):
        names = [f"{turn}-{number}" for number in range(2)]
        processes = {
            name: subprocess.Popen(
                [sys.executable, "-c", _RECORD, str(tmp_path / "trail.db"), name], stdout=subprocess.PIPE
            )
            for name in names
        }
        for process in processes.values():
            assert process.stdout
            process.stdout.readline()
        time.sleep(0.01 + turn % 10 * 0.003)
        for name, process in processes.items():
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
            reported[name] = int(output.split(b"\n")[-2]) if b"\n" in output else 0

    assert trail.breaks() == []
    for name, last in reported.items():
        rows = [row.entry.micros for row in trail.rows(session=name)]
        assert rows == list(range(len(rows)))
        assert len(rows) > last


# --- size ---------------------------------------------------------------------------------------------------------


def test_a_long_log_is_flushed_and_old_rows_are_removed(trail, tmp_path, log, monkeypatch):
    monkeypatch.setattr("hilt.state.trail.LOG_BYTES", 4000)
    fill(trail, 30, at=time.time_ns() - 200 * DAY)
    fill(trail, 30)

    assert log.stat().st_size < 4000
    assert 20 < stored_rows(tmp_path) <= 40
    assert trail.breaks() == []


def test_a_call_is_rejected_when_the_log_is_full_and_cannot_be_flushed(trail, tmp_path, log, monkeypatch):
    monkeypatch.setattr("hilt.state.trail.LOG_BYTES", 4000)
    monkeypatch.setattr("hilt.state.trail.LOG_BYTES_MAX", 16000)
    fill(trail, 1)
    trail.rows()
    with closing(sqlite3.connect(tmp_path / "trail.db")) as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'database is full'); END")
    while log.stat().st_size <= 16000:
        trail.make_ready()
        fill(trail, 1)

    with pytest.raises(ToolError) as caught:
        trail.make_ready()
    assert caught.value.code == "resource_limit"

    with closing(sqlite3.connect(tmp_path / "trail.db")) as db:
        db.execute("DROP TRIGGER full")
    trail.make_ready()
    assert trail.breaks() == []
    assert len(lines(log)) == 1


def test_a_log_that_another_process_keeps_locked_is_reported(trail, log, monkeypatch):
    import fcntl

    monkeypatch.setattr("hilt.state.append_log.PATIENCE_SECONDS", 0.05)
    fill(trail, 1)
    with open(log, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        with pytest.raises(ToolError) as caught:
            trail.record(entry(), {}, ran=False)

    assert caught.value.code == "busy"
    fill(trail, 1)
    assert trail.end()[0] == 2


# --- stamps and sessions ------------------------------------------------------------------------------------------


def test_stamps_in_the_log_belong_to_one_session(trail):
    stamp = Stamp(1, 2, b"hash")
    trail.record(entry(session="s"), {"a": stamp, 'quoted " name': stamp, "caf\udce9": stamp})
    trail.record(entry(session="allow"), {})
    trail.record(entry(session='"s"'), {"a": Stamp(9, 9, None)})

    names = ["a", "b", 'quoted " name', "caf\udce9"]
    assert trail.stamps("w", "s", names) == dict.fromkeys(["a", 'quoted " name', "caf\udce9"], stamp)
    assert trail.stamps("w", '"s"', names) == {"a": Stamp(9, 9, None)}
    assert trail.stamps("allow", "reason", names) == {}


@pytest.mark.parametrize("count", [2, 20])
@pytest.mark.parametrize("last", [0, 1])
def test_the_newest_stamp_of_each_file_counts(trail, count, last):
    names = [f"file {number}" for number in range(count)]
    old, new = Stamp(1, 2, b"old"), Stamp(1, 2, b"new")
    trail.record(entry(), dict.fromkeys(names, old))
    trail.record(entry(), {names[last]: new})

    assert trail.stamps("w", "s", names) == {**dict.fromkeys(names, old), names[last]: new}


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_session_that_was_idle_for_a_day_has_no_stamps_until_it_is_used(trail, is_flushed):
    stamp = Stamp(1, 2, b"hash")
    old = time.time_ns() - (SESSION_IDLE_SECONDS + 60) * SECOND
    trail.record(entry(at=old), {"a": stamp})
    if is_flushed:
        trail.rows()
    assert trail.stamps("w", "s", ["a"]) == {}
    assert not trail.was_used("w", "s", time.time() - SESSION_IDLE_SECONDS)

    trail.record(entry(), {})

    assert trail.stamps("w", "s", ["a"]) == {"a": stamp}
    assert trail.was_used("w", "s", time.time() - SESSION_IDLE_SECONDS)


def test_a_session_that_ended_has_no_stamps_in_the_log_either(trail):
    trail.record(entry(), {"a": Stamp(1, 2, b"hash")})

    assert trail.end_session("w", "s")

    assert trail.stamps("w", "s", ["a"]) == {}


def test_rows_of_many_threads_are_flushed_while_others_record(trail, tmp_path):
    threads = [threading.Thread(target=fill, args=(trail, 300)) for _ in range(4)]
    for thread in threads:
        thread.start()
    with closing(Trail(str(tmp_path / "trail.db"))) as other:
        while any(thread.is_alive() for thread in threads):
            numbers = [row.seq for row in other.rows()]
            assert numbers == list(range(1, len(numbers) + 1))
        assert (other.breaks(), other.end()[0]) == ([], 1200)


def test_a_line_of_the_log_is_json(trail, log):
    trail.record(entry(), {"a": Stamp(1, 2, b"hash")})

    payload = lines(log)[1].split(b"\t")[0]

    assert json.loads(payload)[1] == {"a": [1, 2, "68617368"]}
