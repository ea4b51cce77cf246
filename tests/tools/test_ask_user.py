from __future__ import annotations

from typing import Any

import pytest

from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.testing import environment
from hilt.tools.ask_user import Option, Question

STYLE = {
    "header": "Style",
    "question": "Choose code style",
    "options": ["Concise", "Detailed", "Standard"],
    "multi_select": False,
}
FORMATS = {
    "question": "Which formats?",
    "options": [{"label": "JSON", "description": "for programs"}, {"label": "Text"}],
    "multi_select": True,
}


class Person:
    """A user who answers and records the questions."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Question] = []

    def __call__(self, questions: Any) -> dict[str, Any]:
        self.asked += questions
        return {question.question: self.answers[question.header or "other"] for question in questions}


def ask(base: str, person: Any, *questions: dict[str, Any], tool: str = "ask_user") -> Any:
    with Runtime(base, environ=environment(base), questioner=person) as runtime:
        return runtime.call(tool, questions=list(questions))


@pytest.mark.parametrize("tool", ["ask_user", "Ask"])
def test_answers_are_returned_by_question(base, tool):
    person = Person(Style="Concise", other=["JSON", "Text"])

    result = ask(base, person, STYLE, FORMATS, tool=tool)

    assert result.data == {"answers": {"Choose code style": "Concise", "Which formats?": ["JSON", "Text"]}}
    assert result.view["rows"] == [
        {"question": "Style", "answer": "Concise"},
        {"question": "Which formats?", "answer": "JSON, Text"},
    ]


def test_the_user_sees_every_question_with_its_options_in_one_format(base):
    person = Person(Style="Concise", other=[])

    ask(base, person, STYLE, FORMATS)

    assert person.asked == [
        Question("Choose code style", [Option("Concise"), Option("Detailed"), Option("Standard")], "Style"),
        Question("Which formats?", [Option("JSON", "for programs"), Option("Text")], "", multi_select=True),
    ]


@pytest.mark.parametrize(
    "several, reply, answer",
    [
        (False, "Concise", "Concise"),
        (False, "something of my own", "something of my own"),
        (False, ["Concise"], "Concise"),
        (True, "Concise", ["Concise"]),
        (True, ["Concise", "Standard"], ["Concise", "Standard"]),
        (True, [], []),
    ],
)
def test_one_answer_is_a_string_and_several_are_a_list(base, several, reply, answer):
    result = ask(base, Person(Style=reply), {**STYLE, "multi_select": several})

    assert result.data == {"answers": {"Choose code style": answer}}


def test_asking_without_a_user_is_an_error(base):
    assert ask(base, None, STYLE).error.code == "no_one_to_ask"


def test_a_user_who_does_not_answer_is_an_error(base):
    def silent(questions: Any) -> dict[str, Any]:
        raise ToolError("approval_timeout", "Nobody answered.")

    assert ask(base, silent, STYLE).error.code == "approval_timeout"


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{**STYLE, "question": f"{number}?"} for number in range(5)],
        [{**STYLE, "options": ["only one"]}],
        [{**STYLE, "options": ["1", "2", "3", "4", "5"]}],
        [{**STYLE, "options": ["same", {"label": "same"}]}],
        [{**STYLE, "options": ["a", {"description": "without a label"}]}],
        [{**STYLE, "options": ["a", " "]}],
        [{**STYLE, "options": ["a", 5]}],
        [{**STYLE, "question": " "}],
        [{**STYLE, "header": "x" * 41}],
        [{"header": "Style", "options": ["a", "b"]}],
        [{**STYLE, "choices": []}],
        [STYLE, {**STYLE, "header": "Again"}],
    ],
)
@pytest.mark.parametrize("tool", ["ask_user", "Ask"])
def test_invalid_questions_are_not_asked(base, questions, tool):
    person = Person(Style="Concise")

    assert ask(base, person, *questions, tool=tool).error.code == "invalid_args"
    assert person.asked == []


def test_a_planning_agent_may_ask(base):
    with Runtime(base, environ=environment(base), questioner=Person(Style="Detailed")) as runtime:
        runtime.call("enter_plan_mode")

        assert runtime.call("ask_user", questions=[STYLE]).ok


def test_scheduler_mode_asks_nobody(base):
    person = Person(Style="Concise")
    with Runtime(base, environ=environment(base), questioner=person, flags={"mode": "scheduler"}) as runtime:
        result: Any = runtime.call("ask_user", questions=[STYLE])
    assert result.error.code == "denied"
    assert person.asked == []
