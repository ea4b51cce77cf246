from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hilt.state.session_values import SessionValues
from tests.databases import connected


@pytest.fixture
def values(tmp_path) -> Iterator[SessionValues]:
    store = SessionValues(str(tmp_path))
    yield store
    store.close()


@pytest.mark.parametrize("value", [False, 0, "", [], {}, "plan", {"a": [1, None, "ü\ud800"]}, 1.5])
def test_a_value_is_the_same_in_another_process(values, tmp_path, value):
    values.set("w", "s", "mode", value)

    again = SessionValues(str(tmp_path))
    assert again.get("w", "s", "mode") == value
    assert again.all("w", "s") == {"mode": value}
    again.close()


def test_values_belong_to_their_session(values):
    values.set("w", "s", "mode", "plan")
    values.set("w", "t", "mode", "yolo")
    values.set("v", "s", "mode", "normal")

    assert values.clear("w", "s")

    assert values.all("w", "s") == {}
    assert (values.get("w", "t", "mode"), values.get("v", "s", "mode")) == ("yolo", "normal")
    assert not values.clear("w", "s")


def test_setting_none_removes_a_value(values):
    values.set("w", "s", "mode", "plan")
    values.set("w", "s", "mode", None)

    assert values.get("w", "s", "mode") is None
    assert values.all("w", "s") == {}


def test_reading_creates_no_database(tmp_path):
    values = SessionValues(str(tmp_path / "state"))

    assert (values.get("w", "s", "k"), values.all("w", "s"), values.clear("w", "s")) == (None, {}, False)
    assert os.listdir(tmp_path) == []


def test_simultaneous_changes_are_all_kept(tmp_path):
    def add(number: int) -> None:
        values = SessionValues(str(tmp_path))
        for turn in range(5):
            new = [number, turn]
            values.change("w", "s", "list", lambda old, new=new: [*(old or []), new])  # type: ignore[misc]
        values.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))

    values = SessionValues(str(tmp_path))
    assert sorted(values.get("w", "s", "list") or []) == [[number, turn] for number in range(8) for turn in range(5)]
    values.close()


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_a_change_that_fails_changes_nothing(values, value):
    values.set("w", "s", "k", 1)

    with pytest.raises((TypeError, ValueError)):
        values.change("w", "s", "k", lambda old: value)

    assert values.get("w", "s", "k") == 1


def test_values_of_abandoned_sessions_are_deleted(values, tmp_path):
    values.set("w", "old", "k", 1)
    values.set("w", "new", "k", 1)
    with connected(tmp_path / "state.db") as db:
        db.execute("UPDATE session_values SET at=1 WHERE session='old'")
    db.close()

    values.set("w", "s", "k", 1)

    assert (values.get("w", "old", "k"), values.get("w", "new", "k")) == (None, 1)


def test_changes_since_a_time_are_detected(values):
    before = time.time() - 1
    assert not values.changed_since("w", "s", before)

    values.set("w", "s", "mode", "plan")

    assert values.changed_since("w", "s", before)
    assert not values.changed_since("w", "s", time.time() + 1)
    assert not values.changed_since("w", "other", before)


def test_storing_a_value_does_not_scan_other_sessions(values):
    for number in range(2000):
        values.set("w", f"s{number}", "mode", "plan")
    steps: list[int] = []
    values._db.read(lambda db: db.set_progress_handler(lambda: steps.append(1), 1000))

    values.set("w", "mine", "mode", "plan")

    assert len(steps) < 3  # in thousands of steps; a full scan takes more than ten
    assert values.get("w", "mine", "mode") == "plan"
