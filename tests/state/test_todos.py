from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.state import todos as module
from hilt.state.todos import Todo, TodoLists


def nothing() -> None:
    """A call that was not cancelled."""


@pytest.fixture
def lists(tmp_path) -> Iterator[TodoLists]:
    with closing(TodoLists(str(tmp_path), "w")) as opened:
        yield opened


def put(lists: TodoLists, session: str, *todos: Todo) -> None:
    lists.change(session, lambda old: list(todos), commit=nothing)


A, B = Todo(1, "a", "pending"), Todo("b", "ü", "cancelled")


def test_a_list_is_the_same_in_another_process_and_belongs_to_its_session(tmp_path, lists):
    put(lists, "s", A, B)
    put(lists, "t", B)

    with closing(TodoLists(str(tmp_path), "w")) as again, closing(TodoLists(str(tmp_path), "v")) as other:
        assert again.read("s") == [A, B]
        assert again.read("unknown") == other.read("s") == []
        assert again.clear("s")
        assert not again.clear("s")
    assert (lists.read("s"), lists.read("t")) == ([], [B])


def test_reading_creates_no_database(tmp_path):
    with closing(TodoLists(str(tmp_path / "state"), "w")) as lists:
        assert (lists.read("s"), lists.clear("s")) == ([], False)
    assert os.listdir(tmp_path) == []


def test_simultaneous_changes_are_all_kept(tmp_path):
    def add(number: int) -> None:
        with closing(TodoLists(str(tmp_path), "w")) as lists:
            lists.change("s", lambda old: [*old, Todo(number, "x", "pending")], commit=nothing)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(add, range(40)))

    with closing(TodoLists(str(tmp_path), "w")) as lists:
        assert sorted(todo.id for todo in lists.read("s")) == list(range(40))


def test_a_cancelled_call_changes_nothing(lists):
    fence = Fence()
    fence.cancel(ToolError("cancelled", "Cancelled."))
    put(lists, "s", A)

    with pytest.raises(ToolError):
        lists.change("s", lambda old: [B], commit=fence.commit)

    assert lists.read("s") == [A]


def test_a_list_that_is_too_long_is_rejected(lists):
    put(lists, "s", A)
    with pytest.raises(ToolError) as error:
        put(lists, "s", *[Todo(number, "ü" * 1000, "pending") for number in range(40)])
    assert (error.value.code, lists.read("s")) == ("invalid_args", [A])


def test_lists_are_deleted_when_too_many_or_too_old(tmp_path, lists, monkeypatch):
    monkeypatch.setattr(module, "LISTS_MAX", 3)
    for number in range(5):
        put(lists, f"s{number}", A)
    assert [bool(lists.read(f"s{number}")) for number in range(5)] == [False, False, True, True, True]

    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("UPDATE todos SET at=1 WHERE session='s2'")
        db.commit()
    put(lists, "s4", B)
    assert [bool(lists.read(f"s{number}")) for number in (2, 3, 4)] == [False, True, True]
