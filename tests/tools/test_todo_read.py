from __future__ import annotations

import pytest

from hilt.runtime import Runtime
from hilt.testing import environment


def test_a_session_without_todos_has_an_empty_list(runtime):
    result = runtime.call("todo_read")

    assert (result.data, result.view) == ({"todos": []}, {"type": "todo-list", "items": []})


def test_arguments_are_rejected(runtime):
    assert runtime.call("todo_read", id=1).error.code == "invalid_args"


@pytest.mark.parametrize("name", ["todo_read", "TodoRead"])
def test_the_tool_is_disabled_by_either_name(base, workspace, name):
    with Runtime(workspace.path, environ=environment(base), flags={"disabledTools": [name]}) as runtime:
        error = runtime.call("todo_read").error
        assert error is not None
        assert error.code == "denied"
