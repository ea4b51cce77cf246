"""Ask the user."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import foreign_views, views
from hilt.params import Items
from hilt.schema import STRING, array, fields, mapping

CALL_SECONDS = 86_400.0  # a person may take their time; questions expire on their own
HEADER_CHARACTERS = 40
TEXT_CHARACTERS = 2000


class Option(NamedTuple):
    """One answer to choose.

    Args:
        label: Answer in a few words.
        description: What choosing it means.
    """

    label: str
    description: str = ""


class Question(NamedTuple):
    """One question.

    Args:
        question: The full question.
        options: Answers to choose from.
        header: Short label, such as "Style".
        multi_select: Allow several answers.
    """

    question: str
    options: Annotated[list[str | Option], Items(minimum=2, maximum=4)]
    header: str = ""
    multi_select: bool = False


_ANSWER = fields("answers:answers", answers=mapping({"anyOf": [STRING, array(STRING)]}))


@tool(effects="read", timeout=CALL_SECONDS, output=_ANSWER, traits=Traits(plan=True, asks_person=True))
def ask_user(ctx: Context, questions: Annotated[list[Question], Items(minimum=1, maximum=4)]) -> Output:
    """Ask the user one to four multiple-choice questions, and wait for the answers.

    Use it for unclear requirements, alternatives and preferences.

    Details:
    Returns JSON, {"answers": {QUESTION: LABEL}}, with a list of labels if multi_select is set; the user may also answer
    in their own words. If no user is available to answer, the call fails with no_one_to_ask.

    Args:
        questions: Questions to ask; no two the same.
    """
    questions = [question._replace(options=_options(question.options)) for question in questions]
    _check(questions)
    replies = ctx.ask(questions)
    answers = {question.question: _answer(question, replies.get(question.question)) for question in questions}
    return Output(data={"answers": answers}, view=_view(questions, answers))


def _options(options: list[Any]) -> list[Any]:
    """Convert every option to an Option; values of a union type arrive as they were sent."""
    return [Option(item) if isinstance(item, str) else Option(**item) for item in options]


def _check(questions: list[Question]) -> None:
    _check_unique("questions", [question.question for question in questions])
    for index, question in enumerate(questions):
        argument = f"questions[{index}]"
        if question.header:
            _check_length(f"{argument}.header", question.header, HEADER_CHARACTERS)
        _check_length(f"{argument}.question", question.question, TEXT_CHARACTERS)
        labels = [option.label for option in question.options if isinstance(option, Option)]
        _check_unique(f"{argument}.options", labels)
        for label in labels:
            _check_length(f"{argument}.options", label, TEXT_CHARACTERS)


def _check_length(argument: str, text: str, maximum: int) -> None:
    if not text.strip() or len(text) > maximum:
        advice = f"Use 1 to {maximum} characters."
        raise ToolError(
            "invalid_args", f"{argument} is empty or has more than {maximum} characters.", suggestion=advice
        )


def _check_unique(argument: str, texts: list[str]) -> None:
    if len(set(texts)) != len(texts):
        advice = "Make each one unique: answers are matched by it."
        raise ToolError("invalid_args", f"{argument} contains duplicates.", suggestion=advice)


def _answer(question: Question, answer: Any) -> Any:
    """Normalize the answer from a surface: a list if several may be chosen, otherwise a string."""
    chosen = [] if answer is None else [answer] if isinstance(answer, str) else list(answer)
    if question.multi_select:
        return chosen
    return chosen[0] if chosen else ""


def _view(questions: list[Question], answers: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"question": question.header or question.question, "answer": _answer_text(answers[question.question])}
        for question in questions
    ]
    return foreign_views.validate(views.table({"question": "Question", "answer": "Answer"}, rows))


def _answer_text(answer: Any) -> str:
    return answer if isinstance(answer, str) else ", ".join(answer)
