"""Converts approvals and questions to MCP elicitation forms, and reads the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError
from hilt.places import command

FORM = "elicitation/create"
OTHER = "Other answer"  # the choice that opens a second form
MESSAGE_CHARACTERS = 4000  # of the diff or command in an approval form
_WIDTH = 100
_LINES = 30  # of a command or diff; fewer if the message becomes too long


def approval_form(asked: ApprovalRequest) -> dict[str, Any]:
    """Return the request for approval of a call.

    It has a single choice: some terminals cannot submit a form that ends with an empty text field. The default denies,
    because a host may accept a form without showing it.
    """
    description, was_cut = _description(asked)
    meanings = {"once": "only this call"}
    if asked.rules and not was_cut:
        meanings["always"] = f"this and later calls ({', '.join(asked.rules)})"
    if asked.preview:
        meanings["preview"] = "preview first"
    meanings["deny"] = "do not run it"
    decision = {
        "type": "string",
        "title": "Decision",
        "description": ", ".join(f"{choice}: {meaning}" for choice, meaning in meanings.items()) + ".",
        "enum": list(meanings),
        "default": "deny",
    }
    return _form(description, {"decision": decision})


def read_approval(
    asked: ApprovalRequest, response: Mapping[str, Any], by: str, *, automatic: bool
) -> UserAnswer | None:
    """Return the user's answer; None if nobody answered.

    `automatic` means that the form was closed faster than a user could close it: then nobody has seen it.
    """
    decision = (response.get("content") or {}).get("decision")
    if response.get("action") != "accept" or decision is None:
        reason = "the form was closed." if response.get("action") == "cancel" else ""
        return None if automatic else UserAnswer("deny", reason, by)
    if decision in approval_form(asked)["params"]["requestedSchema"]["properties"]["decision"]["enum"]:
        return UserAnswer(decision, by=by)
    return UserAnswer("deny", by=by)


def question_form(questions: Sequence[Any]) -> dict[str, Any]:
    """Return the request that asks questions: a choice per question, or yes/no per option if several may be chosen."""
    fields: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        title, labels = question.header or question.question, _labels(question)
        if question.multi_select:
            for index, option in enumerate(question.options, 1):
                meaning = f"{question.question} {option.label}" + (f": {option.description}" * bool(option.description))
                fields[f"choice_{number}_{index}"] = _yes_or_no(f"{title}: {option.label}", meaning)
            fields[f"other_{number}"] = _yes_or_no(f"{title}: {OTHER}", f"{question.question} {OTHER}")
        else:
            meanings = [f"{option.label}: {option.description}" for option in question.options if option.description]
            fields[f"answer_{number}"] = {
                "type": "string",
                "title": title,
                "description": "\n".join([question.question, *meanings]),
                "enum": [*labels, _other(labels)],
            }
    return _form("\n".join(question.question for question in questions), fields)


def read_choices(questions: Sequence[Any], response: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Return the answers by question, and the numbers of the questions that the user answers in their own words."""
    content = _content(response)
    answers: dict[str, Any] = {}
    free: list[int] = []
    for number, question in enumerate(questions, 1):
        labels = _labels(question)
        if question.multi_select:
            chosen = [label for index, label in enumerate(labels, 1) if content.get(f"choice_{number}_{index}") is True]
            answers[question.question] = chosen
            is_other = content.get(f"other_{number}") is True
        else:
            answer = content.get(f"answer_{number}")
            is_other = answer == _other(labels)
            answers[question.question] = answer if isinstance(answer, str) and not is_other else ""
        free += [number] if is_other else []
    return answers, free


def own_words_form(questions: Sequence[Any], numbers: Sequence[int]) -> dict[str, Any]:
    """Return the request for answers that are not among the choices."""
    fields = {
        f"own_words_{number}": {
            "type": "string",
            "title": questions[number - 1].header or OTHER,
            "description": questions[number - 1].question,
            "minLength": 1,
        }
        for number in numbers
    }
    return _form("\n".join(questions[number - 1].question for number in numbers), fields)


def read_own_words(
    questions: Sequence[Any], numbers: Sequence[int], answers: Mapping[str, Any], response: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the answers, completed with those in the user's own words."""
    content = _content(response)
    complete = dict(answers)
    for number in numbers:
        question, words = questions[number - 1], content.get(f"own_words_{number}")
        if isinstance(words, str) and words.strip():
            before = complete[question.question]
            complete[question.question] = [*before, words.strip()] if question.multi_select else words.strip()
    return complete


def _content(response: Mapping[str, Any]) -> Mapping[str, Any]:
    if response.get("action") != "accept":
        raise ToolError("no_one_to_ask", "The user did not answer.")
    return response.get("content") or {}


def _other(labels: Sequence[str]) -> str:
    other = OTHER
    while other in labels:
        other += "…"
    return other


def _labels(question: Any) -> list[str]:
    from hilt.formats.invisible import revealed

    return [revealed(option.label) for option in question.options]


def _yes_or_no(title: str, description: str) -> dict[str, Any]:
    return {"type": "boolean", "title": title, "description": description, "default": False}


def _form(message: str, fields: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from hilt.formats.invisible import revealed

    for field in fields.values():
        field |= {name: revealed(field[name]) for name in ("title", "description")}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"method": FORM, "params": {"mode": "form", "message": revealed(message), "requestedSchema": schema}}


def _description(asked: ApprovalRequest) -> tuple[str, bool]:
    """Return the call as shown in a terminal, and whether something was left out, which it says."""
    from hilt.surfaces.terminal_prompt import Page

    lines = _LINES
    while True:
        page = Page(width=_WIDTH, color=False, lines=lines)
        text = page.draw(asked, whole=False).strip("-\n")
        if len(text) <= MESSAGE_CHARACTERS or lines < 4:
            break
        lines //= 2
    missing = len(text) - MESSAGE_CHARACTERS
    if missing > 0:
        text = f"{text[:MESSAGE_CHARACTERS]}\n[{missing} more characters are not shown]"
    if page.was_cut or missing > 0:
        text += f"\nTo see all of it before you answer: {command('approve')}"
    return text, page.was_cut or missing > 0
