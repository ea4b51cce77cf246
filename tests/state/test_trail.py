from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.state.reserve import Reserve
from hilt.state.trail import SESSION_IDLE_SECONDS, Stamp, Trail, TrailEntry, chain_hash, digest
from hilt.state.usage import BOUNDS_MS, UNKNOWN
from tests.databases import connected

SECOND = 1_000_000_000
DAY = 24 * 3600 * SECOND
NOW = 1_900_000_000 * SECOND  # later than any clock that runs these tests, so that sessions count as in use


@pytest.fixture
def trail(tmp_path):
    trail = Trail(str(tmp_path / "trail.db"))
    yield trail
    trail.close()


def entry(
    tool: str = "read_file", *, at: int = NOW, session: str = "s", outcome: str = "ok", micros: int = 1000
) -> TrailEntry:
    return TrailEntry(at, "w", session, tool, digest({}), "allow", "reason", "", outcome, micros)


def test_rows_are_returned_oldest_first_and_filtered(trail):
    for number in range(6):
        trail.record(
            entry(["read_file", "write_file"][number % 2], at=NOW + number * SECOND, session=f"s{number % 3}"), {}
        )

    assert [row.seq for row in trail.rows()] == [1, 2, 3, 4, 5, 6]
    assert [row.seq for row in trail.rows(tool="write_file")] == [2, 4, 6]
    assert [row.seq for row in trail.rows(session="s1")] == [2, 5]
    assert [row.seq for row in trail.rows(limit=2)] == [5, 6]
    assert [row.seq for row in trail.rows(since=NOW // SECOND + 4)] == [5, 6]
    assert trail.rows(workspace="elsewhere") == []


def test_checking_whether_a_session_was_used_does_not_scan_the_trail(trail):
    trail.record(entry(session="mine"), {})
    for number in range(3000):
        trail.record(entry(at=NOW + number, session=f"other {number}"), {})
    steps: list[int] = []
    trail._db.read(lambda db: db.set_progress_handler(lambda: steps.append(1), 100))

    assert trail.was_used("w", "mine", NOW / SECOND)
    assert not trail.was_used("w", "mine", NOW / SECOND + 120)
    assert not trail.was_used("w", "nobody", 0)
    assert not trail.was_used("elsewhere", "mine", 0)
    assert steps == []


def test_counters_match_the_rows(trail):
    for outcome, micros in (("ok", 1000), ("ok", 3000), ("stale_file", 500)):
        trail.record(entry("edit_file", outcome=outcome, micros=micros), {})

    assert [tuple(counter)[:4] for counter in trail.counters()] == [
        ("edit_file", "failure", 1, 0.5),
        ("edit_file", "success", 2, 4.0),
    ]
    failed, succeeded = (dict(zip(BOUNDS_MS, counter.buckets, strict=True)) for counter in trail.counters())
    assert [failed[bound] for bound in (0.25, 0.5, 300_000)] == [0, 1, 1]
    assert [succeeded[bound] for bound in (0.5, 1, 2.5, 5, 300_000)] == [0, 1, 1, 2, 2]


def test_unknown_tool_names_are_counted_together(trail):
    for name in ("one", "two", "three"):
        trail.record(entry(name, outcome="unknown_tool"), {})

    assert [(counter.tool, counter.calls) for counter in trail.counters()] == [(UNKNOWN, 3)]
    assert [(use.tool, use.calls, use.failed) for use in trail.usage().tools] == [(UNKNOWN, 3, 3)]


def test_stamps_belong_to_one_session_and_workspace_and_none_removes_them(trail):
    stamp = Stamp(1, 2, b"hash")
    trail.record(entry(), {"a": stamp, "b": stamp})
    trail.record(entry(session="other"), {})
    trail.record(entry(), {"b": None})

    assert trail.stamps("w", "s", ["a", "b", "c"]) == {"a": stamp}
    assert trail.stamps("w", "other", ["a"]) == {}
    assert trail.stamps("elsewhere", "s", ["a"]) == {}


OLD = Stamp(1, 2, b"hash")


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize(
    "stored", [None, OLD._replace(size=9), OLD._replace(mtime=9), OLD._replace(hash=b"9")], ids=repr
)
@pytest.mark.parametrize("seen", [None, OLD, OLD._replace(hash=None)], ids=repr)
def test_the_last_stamp_of_a_session_replaces_the_one_of_another_process(tmp_path, trail, seen, stored, is_flushed):
    names = [f"file {number}" for number in range(3)]
    trail.record(entry(), dict.fromkeys(names, seen))
    with closing(Trail(str(tmp_path / "trail.db"))) as other:
        other.stamp("w", "s", {names[-1]: stored})
        if is_flushed:
            other.rows()
        assert trail.stamps("w", "s", names[2:]) == ({} if stored is None else {names[-1]: stored})

    trail.record(entry(), dict.fromkeys(names, seen))

    assert trail.stamps("w", "s", names) == ({} if seen is None else dict.fromkeys(names, seen))
    assert [row.seq for row in trail.rows()] == [1, 2]
    assert trail.stamps("w", "s", names) == ({} if seen is None else dict.fromkeys(names, seen))
    assert trail.verify() is None


def test_ending_a_session_deletes_its_stamps(trail):
    trail.record(entry(), {"a": Stamp(1, 2, b"hash")})

    assert trail.end_session("w", "s")
    assert not trail.end_session("w", "s")
    assert trail.stamps("w", "s", ["a"]) == {}
    assert [row.seq for row in trail.rows()] == [1]  # the rows stay


def test_only_idle_sessions_are_deleted(trail):
    import time

    now = time.time_ns()
    stamp = Stamp(1, 2, b"hash")
    trail.record(entry(session="idle", at=now - (SESSION_IDLE_SECONDS + 60) * SECOND), {"a": stamp})
    trail.record(entry(session="busy", at=now), {"a": stamp})

    assert trail.stamps("w", "idle", ["a"]) == {}
    trail.end_idle()
    assert not trail.end_session("w", "idle")
    assert trail.stamps("w", "busy", ["a"]) == {"a": stamp}


@pytest.mark.parametrize("text", ["plain", 'ü\n\t"', "\udcff not UTF-8", "\ud800 a lone surrogate", "x" * 100_000])
def test_any_text_has_a_digest_and_order_does_not_matter(text):
    assert digest({"a": text, "b": 1}) == digest({"b": 1, "a": text})
    assert digest({"a": text}) != digest({"a": text + "x"})


def test_names_that_are_not_utf8_can_be_stamped(trail):
    stamp = Stamp(1, 2, b"hash")

    trail.record(entry(), {"caf\udce9": stamp})

    assert trail.stamps("w", "s", ["caf\udce9"]) == {"caf\udce9": stamp}


def test_a_long_trail_is_verified_page_by_page(trail):
    count = 5003
    for _ in range(count):
        trail.record(entry(), {})

    assert trail.verify() is None
    assert len(trail.rows()) == count


def test_rows_name_the_agent_and_can_be_filtered_by_it(trail):
    trail.record(entry(), {})
    trail.record(entry()._replace(agent="scout"), {})

    assert [row.entry.agent for row in trail.rows()] == ["", "scout"]
    assert [row.seq for row in trail.rows(agent="scout")] == [2]
    assert trail.verify() is None


# --- the chain ----------------------------------------------------------------------------------------------------


def change(trail: Trail, tmp_path, *statements: str) -> None:
    trail.rows(limit=1)  # flushes the log
    trail.close()
    with connected(tmp_path / "trail.db") as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def fill(trail: Trail, count: int, *, at: int = NOW) -> None:
    for number in range(count):
        trail.record(entry(at=at + number), {})


@pytest.mark.parametrize(
    "statement, seq, reason",
    [
        ("UPDATE audit SET agent='me' WHERE seq=3", 3, "changed"),
        ("UPDATE audit SET micros=x'00' WHERE seq=3", 3, "changed"),
        ("UPDATE audit SET session=x'00' WHERE seq=3", 3, "changed"),
        ("UPDATE audit SET session=CAST(x'ff' AS TEXT) WHERE seq=3", 3, "changed"),
        ("UPDATE audit SET parent=x'' WHERE seq=3", 3, "changed"),
        ("DELETE FROM audit WHERE seq=40", 40, "there was a row 50"),
        ("DELETE FROM audit WHERE seq>=40", 40, "there was a row 50"),
        ("DELETE FROM audit", 1, "there was a row 50"),
        ("INSERT INTO marks VALUES ('removed', 10, x'00')", 1, "removed"),
        ("INSERT INTO marks SELECT 'removed', seq, hash FROM audit WHERE seq=10", 1, "removed"),
    ],
)
def test_tampering_with_rows_is_detected(trail, tmp_path, statement, seq, reason):
    fill(trail, 50)
    assert trail.breaks() == []
    change(trail, tmp_path, statement)
    if statement == "DELETE FROM audit WHERE seq=40":
        change(trail, tmp_path, "DELETE FROM audit WHERE seq>40")

    first_break, *_ = trail.breaks()

    assert first_break.seq == seq
    assert reason in first_break.reason


def test_rows_stay_readable_beside_text_that_is_not_utf_8(trail, tmp_path):
    fill(trail, 5)
    change(trail, tmp_path, "UPDATE audit SET tool=CAST(x'ff' AS TEXT) WHERE seq=3")

    assert [row.entry.tool for row in trail.rows()][2] == "\ufffd"
    assert len(trail.rows()) == 5


def test_a_trail_without_its_tables_is_reported_as_damaged(trail, tmp_path):
    fill(trail, 5)
    change(trail, tmp_path, "DROP TABLE audit")

    with pytest.raises(ToolError, match=r"trail\.db is damaged"):
        trail.breaks()


def test_removal_of_the_first_rows_is_detected(trail, tmp_path):
    fill(trail, 50)
    anchor = "INSERT INTO marks SELECT 'removed', seq, hash FROM audit WHERE seq=10"
    change(trail, tmp_path, anchor, "DELETE FROM audit WHERE seq<=10")

    first_break, *_ = trail.breaks()

    assert (first_break.seq, "no row records" in first_break.reason) == (10, True)


def test_a_rebuilt_chain_is_detected_by_the_head(trail, tmp_path):
    fill(trail, 50)
    rows = trail.rows()
    change(trail, tmp_path, "UPDATE audit SET outcome='denied' WHERE seq=5")
    previous = rows[3].hash
    with connected(tmp_path / "trail.db") as db:
        for row in rows[4:]:
            altered = row.entry._replace(outcome="denied") if row.seq == 5 else row.entry
            previous = chain_hash(previous, altered)
            db.execute("UPDATE audit SET hash=? WHERE seq=?", (previous, row.seq))
    db.close()

    first_break, *_ = trail.breaks()

    assert "rebuilt" in first_break.reason
    os.remove(tmp_path / "trail.db.head")
    first_break, *_ = trail.breaks()
    assert "is missing" in first_break.reason


def test_an_end_stored_elsewhere_reveals_deleted_rows_and_a_deleted_head(trail, tmp_path):
    fill(trail, 10)
    witness = trail.end()
    assert trail.breaks(witness) == []
    change(trail, tmp_path, "DELETE FROM audit WHERE seq>8")
    os.remove(tmp_path / "trail.db.head")
    os.remove(tmp_path / "trail.db.log")
    other = Trail(str(tmp_path / "trail.db"))
    fill(other, 5)  # continues from row 8 and creates a new head and log
    other.close()

    [first_break] = trail.breaks()
    assert (first_break.seq, "trail.db.head" in first_break.reason) == (1, True)
    first_break, *_ = trail.breaks(witness)
    assert (first_break.seq, "rebuilt" in first_break.reason) == (10, True)


@pytest.mark.parametrize("kept", [0, 48, 32 * 48 - 10 * 48])
def test_a_head_that_lost_its_newest_rows_does_not_hide_deleted_rows(trail, tmp_path, kept):
    fill(trail, 50)
    change(trail, tmp_path, "DELETE FROM audit WHERE seq>40")
    (tmp_path / "trail.db.log").unlink()
    head = tmp_path / "trail.db.head"
    data = head.read_bytes()
    for damaged in (data[:kept], data[:kept] + bytes(len(data) - kept)):
        head.write_bytes(damaged)

        assert trail.breaks()

    fill(trail, 3)
    assert trail.breaks()


def test_an_empty_head_does_not_hide_all_rows_but_the_first(trail, tmp_path):
    fill(trail, 30)
    change(trail, tmp_path, "DELETE FROM audit WHERE seq>1")
    (tmp_path / "trail.db.log").unlink()
    (tmp_path / "trail.db.head").write_bytes(bytes(32 * 48))

    assert [item.seq for item in trail.breaks()] == [1]


def test_a_damaged_reserve_does_not_block_calls_and_is_recorded(trail, tmp_path):
    fill(trail, 5)
    trail.close()
    (tmp_path / "trail.db.reserve").write_bytes(b"\xff\n" * 300_000)

    fill(trail, 1)

    assert trail.breaks() == []
    assert [row.entry.tool for row in trail.rows()].count("hilt audit") == 1


def test_the_end_of_the_log_reveals_deleted_rows_without_the_head(trail, tmp_path):
    fill(trail, 50)
    change(trail, tmp_path, "DELETE FROM audit WHERE seq>40")
    os.remove(tmp_path / "trail.db.head")

    assert trail.breaks()[0] == (41, "the trail ends before it, but there was a row 50")
    fill(trail, 40)
    assert [item.seq for item in trail.breaks()] == [41]


def test_a_witness_of_removed_rows_is_reported(trail, tmp_path):
    fill(trail, 50)
    witness = trail.end()
    trail.close()
    for path in tmp_path.glob("trail.db*"):
        path.unlink()
    # another trail, which says that it removed the rows that could contradict it
    fill(trail, 60, at=time.time_ns() - 200 * DAY)
    assert trail.prune() == 60
    assert trail.breaks() == []

    [first_break] = trail.breaks(witness)

    assert (first_break.seq, "cannot be verified" in first_break.reason) == (50, True)


@pytest.mark.parametrize("more", [1, 3, 40])
def test_removed_rows_are_still_detected_when_the_trail_continues(trail, tmp_path, more):
    fill(trail, 50)
    change(trail, tmp_path, "DELETE FROM audit WHERE seq>47")
    other = Trail(str(tmp_path / "trail.db"))
    fill(other, more)
    other.close()

    assert [row.seq for row in trail.rows(limit=more)] == list(range(51, 51 + more))
    assert [item.seq for item in trail.breaks()] == [48]


@pytest.mark.parametrize("damage", [b"", b"\xff" * 2000, b"\0" * 7, b"text\n" * 400])
def test_a_damaged_head_does_not_block_calls(trail, tmp_path, damage):
    fill(trail, 5)
    trail.close()
    (tmp_path / "trail.db.head").write_bytes(damage)
    fill(trail, 5)

    assert [row.seq for row in trail.rows()] == list(range(1, 11))
    assert [(item.seq, "trail.db.head" in item.reason) for item in trail.breaks()] == [(1, True)]


def test_a_process_that_dies_between_a_row_and_its_head_update_leaves_an_intact_trail(trail, tmp_path):
    fill(trail, 5)
    other = Trail(str(tmp_path / "trail.db"))
    other._head.note = lambda *_, **__: None  # type: ignore[method-assign]
    fill(other, 1)
    other.close()

    assert trail.breaks() == []
    fill(trail, 1)
    assert trail.breaks() == []


def test_a_head_that_cannot_be_written_is_reported(trail, tmp_path):
    from hilt.errors import ToolError

    os.mkdir(tmp_path / "trail.db.head")

    for attempt in (trail.make_ready, lambda: trail.record(entry(), {}, ran=False)):
        with pytest.raises(ToolError) as caught:
            attempt()
        assert caught.value.code == "resource_limit"


# --- pending rows -------------------------------------------------------------------------------------------------


def break_log(trail, tmp_path):
    """Make the log unwritable until the returned function is called."""
    trail.rows(limit=1)  # flushes the log
    os.remove(tmp_path / "trail.db.log")
    os.mkdir(tmp_path / "trail.db.log")
    return lambda: os.rmdir(tmp_path / "trail.db.log")


def test_a_row_that_cannot_be_logged_is_pending_and_appended_once(trail, tmp_path):
    from hilt.errors import ToolError

    fill(trail, 2)
    repair = break_log(trail, tmp_path)
    trail.record(entry("run_shell"), {})
    with pytest.raises(ToolError) as caught:
        trail.make_ready()
    assert caught.value.code == "resource_limit"
    repair()

    trail.make_ready()

    assert [row.entry.tool for row in trail.rows()] == ["read_file", "read_file", "run_shell"]
    assert trail.breaks() == []


def test_a_row_that_was_appended_before_a_crash_is_not_appended_again(trail, tmp_path):
    trail.record(entry("run_shell"), {})
    Reserve(str(tmp_path / "trail.db.reserve")).put(json.dumps(entry("run_shell")).encode())

    assert [row.entry.tool for row in trail.rows()] == ["run_shell"]
    trail.make_ready()


def test_reading_the_trail_includes_pending_rows(trail, tmp_path):
    trail.make_ready()
    repair = break_log(trail, tmp_path)
    trail.record(entry("run_shell"), {})
    repair()

    assert trail.usage().tools[0].tool == "run_shell"
    assert trail.breaks() == []


@pytest.mark.starts_processes
def test_many_threads_and_processes_add_pending_rows_at_once(tmp_path):
    path = str(tmp_path / "reserve")
    script = (
        "import sys, threading\nfrom hilt.state.reserve import Reserve\nreserve = Reserve(sys.argv[1])\n"
        "put = lambda name: [reserve.put(f'{sys.argv[2]}-{name}-{i}'.encode()) for i in range(20)]\n"
        "threads = [threading.Thread(target=put, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, path, str(name)]) for name in range(4)]
    assert [process.wait(60) for process in started] == [0] * 4

    with Reserve(path).drain() as rows:
        assert sorted(rows) == sorted(f"{p}-{n}-{i}".encode() for p in range(4) for n in range(4) for i in range(20))
    assert not Reserve(path).has_pending()


def test_a_deleted_reserve_is_recreated(trail, tmp_path):
    trail.make_ready()
    os.unlink(tmp_path / "trail.db.reserve")

    trail.make_ready()

    assert os.path.getsize(tmp_path / "trail.db.reserve") > 100_000


def test_a_full_reserve_rejects_calls_and_keeps_its_rows(trail, tmp_path):
    from hilt.errors import ToolError

    trail.make_ready()
    repair = break_log(trail, tmp_path)
    rows = 250
    for number in range(rows):
        trail.record(entry("x" * 200, at=NOW + number), {})
    with pytest.raises(ToolError, match="pending"):
        trail.record(entry("x" * 60_000), {})
    with pytest.raises(ToolError, match="pending"):
        trail.make_ready(full=True)
    repair()

    assert len(trail.rows()) == rows
    trail.make_ready()


_RECORD = """
import sys, time
from hilt.state.trail import TrailEntry, Trail, digest
path, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
trail = Trail(path)
for number in range(200):
    trail.record(TrailEntry(time.time_ns(), "w", name, "read_file", digest({}), "allow", "", "", "ok", number), {})
trail.close()
"""


@pytest.mark.starts_processes
def test_fifty_processes_append_to_one_chain(trail, tmp_path):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _RECORD, str(tmp_path / "trail.db")]
    processes = [subprocess.Popen([*command, str(number)], stdin=pipe, stdout=pipe) for number in range(50)]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    while any(process.poll() is None for process in processes):
        assert trail.breaks() == []  # flushes the log
    assert [process.returncode for process in processes] == [0] * 50
    for process in processes:
        process.communicate()

    assert trail.breaks() == []
    assert trail.end()[0] == 50 * 200
    for number in range(50):
        assert [row.entry.micros for row in trail.rows(session=str(number))] == list(range(200))


def test_threads_of_one_process_append_to_one_chain_while_it_is_verified(trail):
    threads = [threading.Thread(target=fill, args=(trail, 200)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert trail.breaks() == []
    for thread in threads:
        thread.join()

    assert (trail.breaks(), trail.end()[0]) == ([], 800)


def test_an_older_trail_without_agents_stays_valid_and_continues(tmp_path):
    rows = [entry(at=NOW + number) for number in range(3)]
    previous = b""
    with connected(tmp_path / "trail.db") as db:
        from hilt.state import trail as module

        db.executescript(module.MIGRATIONS[0] + ";PRAGMA user_version=1")
        for seq, row in enumerate(rows, 1):
            previous = chain_hash(previous, row)
            db.execute("INSERT INTO audit VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", (seq, *row[:10], previous))
    db.close()
    trail = Trail(str(tmp_path / "trail.db"))

    assert trail.breaks() == []
    assert [row.entry for row in trail.rows()] == rows
    fill(trail, 1)
    assert (trail.breaks(), trail.end()[0]) == ([], 4)
    trail.close()


def test_the_hash_of_a_row_never_changes():
    row = TrailEntry(1, "w", "s", "tool", "d", "allow", "", "", "ok", 12)
    text = "1:1,1:w,1:s,4:tool,1:d,5:allow,0:,0:,2:ok,2:12"

    from hashlib import sha256

    assert chain_hash(b"before", row) == sha256(b"before" + text.encode()).digest()


_FIELDS = st.builds(
    TrailEntry,
    *[st.integers(0, 2**62), *[st.text(max_size=8)] * 8, st.integers(0, 2**62), st.text(max_size=8)],
)


@given(_FIELDS, _FIELDS)
def test_different_entries_have_different_hashes(first, other):
    assert (chain_hash(b"", first) == chain_hash(b"", other)) == (first == other)


# --- removal ------------------------------------------------------------------------------------------------------


def test_removing_old_rows_leaves_a_valid_chain(trail):
    now = time.time_ns()
    fill(trail, 30, at=now - 100 * DAY)
    fill(trail, 10, at=now - DAY)
    witness = trail.rows()[34]

    assert trail.prune() == 30

    rows = trail.rows()
    assert [row.seq for row in rows] == list(range(31, 42))
    assert (rows[-1].entry.workspace, "rows 1 to 30 were removed" in rows[-1].entry.reason) == ("", True)
    assert trail.breaks((witness.seq, witness.hash)) == []
    assert trail.prune() == 0
    fill(trail, 3)
    assert (trail.breaks(), trail.end()[0]) == ([], 44)


def test_rows_beyond_the_limit_are_removed_except_those_of_the_last_hour(trail):
    now = time.time_ns()
    fill(trail, 300, at=now - DAY)
    fill(trail, 150, at=now - SECOND)

    assert trail.prune(rows=200) == 250
    assert trail.prune(rows=200) == 0  # one row more does not trigger a removal
    assert trail.prune(rows=100) == 50
    assert trail.prune(rows=100) == 0  # the remaining rows are from the last hour
    assert trail.breaks() == []


def test_a_trail_of_only_old_rows_can_continue(trail):
    fill(trail, 5, at=time.time_ns() - 200 * DAY)
    assert trail.prune() == 5
    fill(trail, 2)

    assert [row.seq for row in trail.rows()] == [6, 7, 8]
    assert trail.breaks() == []


def test_many_rows_are_removed_in_batches(trail, monkeypatch):
    monkeypatch.setattr("hilt.state.trail.REMOVED_MAX", 20)
    fill(trail, 50, at=time.time_ns() - 200 * DAY)

    assert [trail.prune() for _ in range(4)] == [20, 20, 10, 0]
    assert trail.breaks() == []


@pytest.mark.parametrize(
    "statement, seq",
    [
        ("UPDATE marks SET seq=seq+1 WHERE name='removed'", 31),
        ("UPDATE marks SET hash=x'00' WHERE name='removed'", 30),
        ("DELETE FROM marks", 1),
        ("DELETE FROM audit WHERE seq=31", 31),
        ("UPDATE audit SET reason='' WHERE seq=41", 41),
        ("UPDATE marks SET seq=35 WHERE name='said'", 30),
        ("UPDATE audit SET seq=1 WHERE seq=31", 1),
    ],
)
def test_tampering_after_a_removal_is_detected(trail, tmp_path, statement, seq):
    now = time.time_ns()
    fill(trail, 30, at=now - 100 * DAY)
    fill(trail, 10, at=now)
    trail.prune()
    assert trail.breaks() == []
    change(trail, tmp_path, statement)

    first_break, *_ = trail.breaks()

    assert first_break.seq == seq


def test_a_process_with_an_outdated_end_does_not_fork_the_chain(trail, tmp_path, monkeypatch):
    old = time.time_ns() - 200 * DAY
    fill(trail, 3, at=old)
    other = Trail(str(tmp_path / "trail.db"))
    fill(other, 3, at=old)
    assert other.prune() == 6
    other.close()
    clock = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: clock)

    fill(trail, 1, at=old)

    assert [row.seq for row in trail.rows()] == [7, 8]
    assert trail.breaks() == []


def test_counters_only_ever_grow(trail):
    now = time.time_ns()
    for number in range(40):
        at = now - (100 if number < 30 else 1) * DAY
        trail.record(entry(["a", "b"][number % 2], at=at, outcome=["ok", "denied"][number % 3 == 0], micros=number), {})
    before = trail.counters()
    assert trail.prune() == 30

    assert trail.counters() == before
    trail.record(entry("a", at=now - 100 * DAY, micros=7_000_000), {})
    after = trail.counters()
    assert sum(counter.calls for counter in after) == 41
    assert all(
        old.calls <= new.calls and all(map(int.__le__, old.buckets, new.buckets))
        for old, new in zip(before, after, strict=True)
    )


# --- usage --------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=60))
def test_percentiles_use_the_nearest_rank(tmp_path_factory, durations):
    trail = Trail(str(tmp_path_factory.mktemp("trail") / "trail.db"))
    for micros in durations:
        trail.record(entry(micros=micros), {})

    (use,) = trail.usage().tools
    trail.close()

    ranked = sorted(durations)
    expected = [ranked[math.ceil(len(ranked) * part / 100) - 1] / 1000 for part in (50, 95)]
    assert [use.p50_ms, use.p95_ms] == expected


def test_use_is_counted_by_tool_and_by_time(trail):
    now = time.time_ns()
    for hours, tool, outcome in (
        (9.5, "a", "ok"),
        (9.4, "a", "denied"),
        (5.5, "b", "timeout"),
        (0.1, "a", "ok"),
        (0.1, "a", "denied"),
        (30, "a", "ok"),
    ):
        trail.record(entry(tool, at=now - int(hours * 3600) * SECOND, outcome=outcome), {})
    trail.record(entry("a", at=now + DAY), {})  # from a wrong clock

    usage = trail.usage(since=now / SECOND - 10 * 3600, parts=10)

    assert [(use.tool, use.calls, use.failed, use.plot) for use in usage.tools] == [
        ("a", 5, 2, (2, 0, 0, 0, 0, 0, 0, 0, 0, 3)),
        ("b", 1, 1, (0, 0, 0, 0, 1, 0, 0, 0, 0, 0)),
    ]
    assert usage.errors == {"denied": 2, "timeout": 1}
    assert [use.calls for use in trail.usage(tool="b").tools] == [1]
    assert trail.usage(tool="nothing").tools == []
    assert [sum(use.plot) for use in trail.usage(parts=7).tools] == [6, 1]
