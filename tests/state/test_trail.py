from __future__ import annotations

import pytest

from tongs.state.trail import SESSION_IDLE_SECONDS, Entry, Stamp, Trail, digest

SECOND = 1_000_000_000
NOW = 1_900_000_000 * SECOND  # later than any clock that runs these tests, so that sessions count as in use


@pytest.fixture
def trail(tmp_path):
    trail = Trail(str(tmp_path / "trail.db"))
    yield trail
    trail.close()


def entry(
    tool: str = "read_file", *, at: int = NOW, session: str = "s", outcome: str = "ok", micros: int = 1000
) -> Entry:
    return Entry(at, "w", session, tool, digest({}), "allow", "reason", "", outcome, micros)


def test_rows_come_back_oldest_first_and_filtered(trail):
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


def test_counters_are_what_the_rows_say(trail):
    for outcome, micros in (("ok", 1000), ("ok", 3000), ("stale_file", 500)):
        trail.record(entry("edit_file", outcome=outcome, micros=micros), {})

    assert [tuple(counter) for counter in trail.counters()] == [
        ("edit_file", "failure", 1, 0.5),
        ("edit_file", "success", 2, 4.0),
    ]


def test_stamps_belong_to_one_session_and_one_workspace_and_none_forgets(trail):
    stamp = Stamp(1, 2, b"hash")
    trail.record(entry(), {"a": stamp, "b": stamp})
    trail.record(entry(session="other"), {})
    trail.record(entry(), {"b": None})

    assert trail.stamps("w", "s", ["a", "b", "c"]) == {"a": stamp}
    assert trail.stamps("w", "other", ["a"]) == {}
    assert trail.stamps("elsewhere", "s", ["a"]) == {}


def test_a_session_that_ends_has_seen_nothing(trail):
    trail.record(entry(), {"a": Stamp(1, 2, b"hash")})

    assert trail.end_session("w", "s")
    assert not trail.end_session("w", "s")
    assert trail.stamps("w", "s", ["a"]) == {}
    assert [row.seq for row in trail.rows()] == [1]  # what happened stays


def test_idle_sessions_are_forgotten_and_the_others_are_not(trail):
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
    with_many = 5003
    for _ in range(with_many):
        trail.record(entry(), {})

    assert trail.verify() is None
    assert len(trail.rows()) == with_many
