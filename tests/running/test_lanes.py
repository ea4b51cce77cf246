from __future__ import annotations

import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import Call, Result
from hilt.running.lanes import Lanes, Ticket

PATHS = [".", "a", "a/b", "a/b/c", "a/bc", "b", "/state/x", "/state/x/y", "below a"]


def same_target(first: str, other: str) -> bool:
    """A path conflicts with itself and every folder above it; the workspace is above all."""
    return first == other or "." in (first, other) or first.startswith(other + "/") or other.startswith(first + "/")


def must_wait(earlier: dict[str, bool], later: dict[str, bool]) -> bool:
    """The rule of the lanes: calls conflict if they share a target and at least one of them writes it."""
    return any(
        (write or other_write) and same_target(path, other)
        for path, write in earlier.items()
        for other, other_write in later.items()
    )


calls = st.lists(st.dictionaries(st.sampled_from(PATHS[:-1]), st.booleans(), max_size=3), min_size=1, max_size=8)


@given(calls, st.randoms(use_true_random=False))
def test_a_call_starts_exactly_when_every_earlier_conflicting_call_has_ended(touches, random):
    """For any calls and any order of completion: at every moment, the running calls are exactly those that no
    earlier unfinished call blocks; so no call overtakes, waits needlessly or waits forever."""
    lanes = Lanes()
    started: list[int] = []
    tickets: dict[int, Ticket] = {}
    ended: set[int] = set()

    def expected() -> set[int]:
        return {
            number
            for number in tickets
            if not any(must_wait(touches[other], touches[number]) for other in range(number) if other not in ended)
        }

    pending = list(range(len(touches)))
    while pending or len(ended) < len(touches):
        running = [number for number in started if number not in ended]
        if pending and (not running or random.random() < 0.6):
            number = pending.pop(0)
            tickets[number] = lanes.enter(partial(touches.__getitem__, number), partial(started.append, number))
            if not tickets[number].waits:
                started.append(number)
        else:
            assert running, "every call waits for another"
            number = random.choice(running)
            ended.add(number)
            lanes.leave(tickets[number])
        assert set(started) == expected() | ended
        assert len(started) == len(set(started))
    assert lanes._lanes == {}


@pytest.mark.parametrize(
    "first, second, waits",
    [
        ({"a": True}, {"a": True}, True),
        ({"a": True}, {"a": False}, True),
        ({"a": False}, {"a": True}, True),
        ({"a": False}, {"a": False}, False),
        ({"a": True}, {"b": True}, False),
        ({"a/b": True}, {"a": False}, True),
        ({"a": False}, {"a/b": True}, True),
        ({".": True}, {"a/b/c": False}, True),  # an undo restores before the read that follows it
        ({"a/b/c": False}, {".": True}, True),
        ({".": False}, {"a/b/c": False}, False),
        ({"a/b": True}, {"a/bc": True}, False),
        ({"a": True, "b": True}, {"b": False, "c": True}, True),
        ({}, {".": True}, False),
    ],
)
def test_conflicting_calls_wait(first, second, waits):
    lanes = Lanes()
    started: list[str] = []
    earlier = lanes.enter(lambda: first, lambda: started.append("first"))
    later = lanes.enter(lambda: second, lambda: started.append("second"))

    assert (earlier.waits, later.waits) == (0, int(waits))
    lanes.leave(earlier)
    assert started == (["second"] if waits else [])


def test_the_paths_of_a_call_are_computed_when_another_call_arrives():
    lanes = Lanes()
    computed: list[str] = []

    def paths(name: str) -> dict[str, bool]:
        computed.append(name)
        return {"a": True}

    lanes.leave(lanes.enter(partial(paths, "alone"), lambda: None))
    first = lanes.enter(partial(paths, "first"), lambda: None)
    assert computed == []

    second = lanes.enter(partial(paths, "second"), lambda: None)

    assert computed == ["first", "second"]
    assert (first.waits, second.waits) == (0, 1)


def test_calls_of_a_session_on_one_file_run_in_order_of_arrival(runtime, workspace):
    """Sent without waiting for replies, each edit sees the one before it, and none is reported as stale."""
    workspace.write("a.txt", "0\n")
    results: dict[int, Result] = {}

    done = threading.Semaphore(0)
    for number in range(40):

        def receive(result: Result, number: int = number) -> None:
            results[number] = result
            done.release()

        args = {"path": "a.txt", "old_text": str(number), "new_text": str(number + 1)}
        runtime.submit(Call("edit_file", args), receive)
    for _ in range(40):
        done.acquire()

    assert [result.error for _, result in sorted(results.items())] == [None] * 40
    assert workspace.read("a.txt") == "40\n"


def test_a_read_sent_after_an_undo_sees_what_the_undo_restored(runtime, workspace):

    workspace.write("a.txt", "old\n")
    id = runtime.call("write_file", path="a.txt", content="new\n").meta["undo"]
    texts: list[str] = []
    done = threading.Event()

    def receive(result: Result) -> None:
        texts.append(result.text)
        done.set()

    runtime.submit(Call("undo", {"action": "restore", "id": id}), lambda result: None)
    runtime.submit(Call("read_file", {"path": "a.txt", "line_numbers": False}), receive)
    done.wait()

    assert texts == ["old"]


def test_no_result_overtakes_an_earlier_one(runtime, workspace):
    workspace.write("a.txt", "0\n")
    answered: list[int] = []
    last = threading.Event()

    def receive(number: int, result: Result) -> None:
        if number == 0:
            last.wait(0.5)  # long enough for the next call to finish if it were allowed to
        answered.append(number)
        if number == 1:
            last.set()

    for number in range(2):
        args = {"path": "a.txt", "old_text": str(number), "new_text": str(number + 1)}
        runtime.submit(Call("edit_file", args), partial(receive, number))

    assert last.wait(60)
    assert answered == [0, 1]
