from __future__ import annotations

from typing import Any

import pytest

from hilt.call import Output
from hilt.custom.definition import Definition, to_tool
from hilt.schema import promised

ANSWER = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}


def definition(**fields: Any) -> Definition:
    given = {"format": "python", "details": {"outputSchema": ANSWER}, **fields}
    return Definition(
        "count", "Count.", {"type": "object"}, "count.py", "personal", folder=".", content_hash="", **given
    )


@pytest.mark.parametrize("form", ["python", "javascript", "server"])
def test_the_schema_of_the_answer_is_that_of_the_tool(form):
    tool = to_tool(definition(format=form), lambda ctx, args: Output())

    assert tool.output == ANSWER
    assert promised(tool.output) == ANSWER


def test_a_script_declares_its_answer_and_may_print_something_else():
    tool = to_tool(definition(format="folder"), lambda ctx, args: Output())

    assert tool.output is not None
    assert tool.output["required"] == ["words"]
    assert promised(tool.output) is None


@pytest.mark.parametrize("details", [{}, {"outputSchema": None}])
def test_without_one_nothing_is_declared(details):
    assert to_tool(definition(details=details), lambda ctx, args: Output()).output is None
