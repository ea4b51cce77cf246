from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import Call
from hilt.output import foreign_views
from hilt.runtime import Runtime
from hilt.testing import environment
from hilt.tools.todo_write import TodoChange, _merged


def write(runtime: Runtime, *todos: Any, merge: bool = False) -> list[tuple[Any, str, str]]:
    result = runtime.call("todo_write", todos=list(todos), merge=merge)
    assert result.ok, result.error
    return listed(result.data)


def listed(data: Any) -> list[tuple[Any, str, str]]:
    return [(todo["id"], todo["content"], todo["status"]) for todo in data["todos"]]


def read(runtime: Runtime) -> list[tuple[Any, str, str]]:
    return listed(runtime.call("todo_read").data)


ONE = {"id": 1, "content": "one", "status": "in_progress"}
TWO = {"id": "two", "content": "two", "status": "pending"}


def test_a_list_is_replaced_and_read_again(runtime, base, workspace):
    assert read(runtime) == []
    assert write(runtime, ONE, TWO) == [(1, "one", "in_progress"), ("two", "two", "pending")]
    assert write(runtime, TWO, ONE) == [("two", "two", "pending"), (1, "one", "in_progress")]
    with Runtime(workspace.path, environ=environment(base)) as later:
        assert read(later) == read(runtime)
    assert write(runtime) == []


def test_a_merge_updates_by_id_keeps_omitted_fields_and_order_and_appends(runtime):
    write(runtime, ONE, TWO)

    merged = write(
        runtime, {"id": "three", "content": "three"}, {"id": "1", "status": "completed"}, {"id": "two", "content": "2"},
        merge=True,
    )  # fmt: skip

    assert merged == [(1, "one", "completed"), ("two", "2", "pending"), ("three", "three", "pending")]


def test_the_integer_1_and_the_string_1_are_the_same_id(runtime):
    write(runtime, ONE)
    assert write(runtime, {"id": "1", "content": "x"}, merge=True) == [(1, "x", "in_progress")]
    assert write(runtime, {"id": 1.0, "content": "y"}, merge=True) == [(1, "y", "in_progress")]
    assert write(runtime, {"id": "01", "content": "z"}, merge=True)[1] == ("01", "z", "pending")


def test_a_todo_without_an_id_gets_the_next_free_number(runtime):
    assert [id for id, *_ in write(runtime, {"content": "a"}, {"id": "1", "content": "b"}, {"content": "c"})] == [
        2,
        "1",
        3,
    ]
    assert [id for id, *_ in write(runtime, {"content": "d"}, merge=True)] == [2, "1", 3, 4]


@pytest.mark.parametrize(
    "todos, fact",
    [
        ([ONE, {**TWO, "status": "in_progress"}], "2 todos would be in_progress (ids 1, two)"),
        ([{"id": "two", "status": "in_progress"}], "2 todos would be in_progress"),
        ([{"id": "new"}], "'new'"),
        ([{"id": "new", "content": " \n\u200b"}], "todos[0].content is empty"),
        ([{"id": "", "content": "x"}], "todos[0].id"),
        ([{"id": "\u2060", "content": "x"}], "todos[0].id"),
        ([{"id": "x" * 65, "content": "x"}], "64"),
        ([{"id": 10**400, "content": "x"}], "todos[0].id"),
        ([{"id": -(2**53), "content": "x"}], "todos[0].id"),
        ([{"id": True, "content": "x"}], "not a boolean"),
        ([{"id": 1.5, "content": "x"}], "not a number"),
        ([{"id": [1], "content": "x"}], "not an array"),
        ([{"id": 1, "content": 1}], "todos[0].content must be a string"),
        ([{"id": 1, "status": "done"}], "must be one of"),
        ([{"id": 1, "text": "x"}], "todos[0].text"),
        (["x"], "todos[0] must be an object"),
        ([{"id": "a", "content": "x"}, {"id": "a", "content": "y"}], "'a' occurs more than once"),
        ([{"id": 7, "content": "x"}, {"id": "7", "content": "y"}], "'7' occurs more than once"),
        ([{"id": 1, "content": "x" * 1001}], "1001 characters"),
        ([{"content": "x"}] * 199, "201 todos"),
        ([{"content": "x"}] * 201, "200"),
        ([{"content": "x" * 1000}] * 70, "65536"),
    ],
)
def test_invalid_arguments_are_rejected_and_change_nothing(runtime, todos, fact):
    write(runtime, ONE, TWO)

    result = runtime.call("todo_write", todos=todos, merge=True)

    assert (result.error.code, fact in result.error.message) == ("invalid_args", True), result.error.message
    assert read(runtime) == [(1, "one", "in_progress"), ("two", "two", "pending")]


def test_a_list_as_a_json_string_is_accepted(runtime):
    result = runtime.call("todo_write", todos=json.dumps([ONE]))

    assert listed(result.data) == [(1, "one", "in_progress")]


def test_control_and_invisible_characters_are_removed(runtime):
    written = write(runtime, {"id": "a\x1b\u202e", "content": "do\u200b \x1b[31mit\r\nnow\udc00 \U000e0041é"})

    assert written == [("a", "do [31mit now é", "pending")]


def test_the_view_is_a_checklist(runtime):
    view = runtime.call("todo_write", todos=[ONE, TWO]).view

    assert view == {
        "type": "todo-list",
        "items": [{"content": "one", "status": "in_progress"}, {"content": "two", "status": "pending"}],
    }
    assert foreign_views.validate(view) == runtime.call("todo_read").view == view


def test_each_session_has_its_own_list_which_ends_with_it(runtime):
    write(runtime, ONE)
    other = runtime.request(Call("todo_write", {"todos": [TWO]}, session="other"))
    assert listed(other.data) == [("two", "two", "pending")]

    assert runtime.end_session("other")

    assert runtime.request(Call("todo_read", session="other")).data == {"todos": []}
    assert read(runtime) == [(1, "one", "in_progress")]


@pytest.mark.parametrize("mode", ["plan", "scheduler", "normal", "auto-accept", "yolo"])
def test_todos_work_in_every_mode_and_with_a_rule_file(base, workspace, mode):
    workspace.write(".hilt/permissions.yaml", "ask: [run_shell]\n")
    with Runtime(workspace.path, environ=environment(base), flags={"mode": mode}) as runtime:
        assert write(runtime, ONE) == read(runtime)


def test_todos_do_not_slow_down_reads(runtime):
    """A session value would disable the fast path."""
    write(runtime, ONE)

    assert runtime.parts.authority.is_unrestricted(runtime.session)


CHANGES = st.lists(
    st.builds(
        TodoChange,
        st.none() | st.integers(0, 5) | st.sampled_from(["0", "1", "a"]),
        st.none() | st.just("x"),
        st.none() | st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
    ),
    max_size=6,
)


@given(st.lists(CHANGES, max_size=5))
def test_a_list_never_has_one_id_twice_or_two_in_progress(rounds):
    from hilt.errors import ToolError

    todos: list[Any] = []
    for changes in rounds:
        try:
            after = _merged(todos, changes)
        except ToolError:
            continue
        keys = [str(todo.id) for todo in after]
        assert len(set(keys)) == len(keys)
        assert sum(todo.status == "in_progress" for todo in after) <= 1
        assert keys[: len(todos)] == [str(todo.id) for todo in todos]
        todos = after
