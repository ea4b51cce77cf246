"""The loop guard: which repetitions count, whatever the order in which results come."""

from __future__ import annotations

import itertools

import pytest

from hilt.agents.repetition import LoopGuard
from hilt.call import Result


def times(*turns: str, polls: str = "") -> list[int]:
    """Return the repetition after each turn; a turn is a string of one-letter calls."""
    guard, counts = LoopGuard(), []
    for turn in turns:
        guard.begin_turn()
        found = [guard.add(place, call, {}, Result("x"), polls=call in polls) for place, call in enumerate(turn)]
        counts.append(max((repetition.times for repetition in found if repetition), default=0))
    return counts


@pytest.mark.parametrize(
    "turns, counts",
    [
        (["a"] * 5, [0, 0, 3, 4, 5]),
        (["ab"] * 5, [0, 0, 3, 4, 5]),
        (["a", "b"] * 3, [0, 0, 0, 0, 0, 3]),
        (["abcd"] * 3, [0, 0, 3]),
        (["abcde"] * 5, [0, 0, 0, 0, 0]),
        (["a", "a", "b", "a", "a"], [0, 0, 0, 0, 0]),
        (["aaaaa"], [5]),
    ],
)
def test_the_same_calls_in_a_row_are_counted_also_in_cycles_of_up_to_four(turns, counts):
    assert times(*turns) == counts


def test_a_poll_counts_a_third():
    assert times(*"p" * 9, polls="p") == [0] * 8 + [3]


def test_other_arguments_or_results_are_other_calls():
    guard = LoopGuard()
    for number in range(9):
        guard.begin_turn()
        assert guard.add(0, "a", {"n": number}, Result("x")) is None
        guard.begin_turn()
        assert guard.add(0, "b", {}, Result(f"{number}")) is None


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_results_count_in_the_order_of_the_calls(order):
    guard = LoopGuard()
    turns = []
    for _ in range(3):
        guard.begin_turn()
        turns.append([guard.add(place, "abc"[place], {}, Result("x")) for place in order])

    assert [repetition is not None for repetition in turns[-1]] == [False, False, True]
    assert "same result 3 times" in turns[-1][-1].hint  # type: ignore[union-attr]
