from __future__ import annotations

import pytest

from hilt import tool
from hilt.declaration import Tool
from hilt.params import Count
from hilt.schema import INTEGER, Schema, check_any, record
from hilt.testing import temporary_runtime

ANSWER: Schema = record({"words": INTEGER})


@tool(effects="read", output=ANSWER)
def count_words(text: str, skip: Count = 0, loudly: bool = False) -> dict[str, int]:
    """Count words.

    Blanks divide them.

    Details:
    Line ends are blanks.

    So are tabs.

    Args:
        text: To count in.
        skip: Words not to count.
    """
    return {"words": len(text.split()) - skip}


def test_a_docstring_gives_the_description_and_separate_details():
    assert count_words.description == "Count words.\n\nBlanks divide them."
    assert count_words.details == "Line ends are blanks.\n\nSo are tabs."
    assert count_words.schema["properties"]["text"]["description"] == "To count in."


def test_a_docstring_without_details_has_none():
    @tool
    def plain() -> str:
        """Do it. Details: none."""
        return ""

    assert (plain.description, plain.details) == ("Do it. Details: none.", "")


@pytest.mark.parametrize(
    "name, title",
    [("read_file", "Read file"), ("undo", "Undo"), ("mcp__git__log", "Mcp  git  log"), ("größe", "Größe"), ("_", "")],
)
def test_a_title_is_derived_from_the_name(name, title):
    assert count_words._replace(name=name).title == title


def test_a_model_sees_only_the_parts_of_a_schema_it_needs():
    assert count_words.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "To count in."},
            "skip": {"type": "integer", "description": "Words not to count."},
            "loudly": {"type": "boolean"},
        },
        "required": ["text"],
    }


def test_a_schema_supplied_with_a_tool_is_shown_unchanged():
    foreign: Schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "default": 0}},
        "additionalProperties": False,
    }
    supplied = Tool(
        "supplied",
        "Do it.",
        foreign,
        frozenset(("read",)),
        count_words.run,
        count_words.touches,
        check=lambda args: check_any(foreign, args),
    )

    assert supplied.parameters == foreign


def test_hidden_schema_keywords_are_still_validated_and_defaults_filled(base):
    with temporary_runtime(base, tools=[count_words]) as (runtime, _):
        counted = runtime.call("count_words", text="a b")
        wrong = [runtime.call("count_words", text="a", **args) for args in ({"skip": -1}, {"shout": True})]

    assert counted.data == {"words": 2}
    assert [result.error and result.error.code for result in wrong] == ["invalid_args", "invalid_args"]


def test_a_tool_declares_the_schema_of_its_result():
    assert count_words.output == ANSWER
    assert tool(lambda: None).output is None
