"""What a person is asked through an MCP client: approvals and questions as forms, and their answers read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hilt.consent import Answer
from hilt.errors import ToolError
from hilt.output.printed import plain
from hilt.state.approvals import REASON_MOST
from hilt.surfaces.mcp_names import MESSAGE_CHARACTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.approvals import Asked

FORM = "elicitation/create"
_WIDTH = 100


def approval_form(asked: Asked) -> dict[str, Any]:
    """Return the request that asks whether a call may run."""
    kept = f", always: also from now on ({', '.join(asked.rules)})" if asked.rules else ""
    decision = {
        "type": "string",
        "title": "Decision",
        "description": f"once: this call alone{kept}, deny: not at all.",
        "enum": ["once", *(["always"] if asked.rules else []), "deny"],
    }
    reason = {"type": "string", "title": "Reason", "description": "Why not; the model is told."}
    return _form(_told(asked), {"decision": decision, "reason": reason}, required=["decision"])


def read_approval(asked: Asked, response: Mapping[str, Any], by: str) -> Answer:
    """Return what the person said; whatever is not clearly a yes is a no."""
    content = response.get("content") or {}
    if response.get("action") != "accept":
        return Answer("deny", "the question was closed." if response.get("action") == "cancel" else "", by)
    decision = content.get("decision")
    if decision == "once" or (decision == "always" and asked.rules):
        return Answer(decision, by=by)
    reason = content.get("reason")
    return Answer("deny", plain(reason)[:REASON_MOST] if isinstance(reason, str) else "", by)


def question_form(questions: Sequence[Any], *, lists: bool) -> dict[str, Any]:
    """Return the request that asks questions; without `lists`, several answers are one text with commas."""
    fields: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        labels = [option.label for option in question.options]
        meanings = [f"{option.label}: {option.description}" for option in question.options if option.description]
        known = {
            "title": question.header or question.question,
            "description": "\n".join([question.question, *meanings]),
        }
        if not question.multi_select:
            fields[f"answer_{number}"] = {"type": "string", **known, "enum": labels}
        elif lists:
            fields[f"answer_{number}"] = {"type": "array", **known, "items": {"type": "string", "enum": labels}}
        else:
            known["description"] += f"\nSeveral, with commas: {', '.join(labels)}"
            fields[f"answer_{number}"] = {"type": "string", **known}
        own = {"title": "Or in your own words", "description": f"Instead of a choice: {question.question}"}
        fields[f"own_words_{number}"] = {"type": "string", **own}
    return _form("\n".join(question.question for question in questions), fields, required=[])


def read_answers(questions: Sequence[Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers by question; raise when nobody answered."""
    if response.get("action") != "accept":
        raise ToolError("no_one_to_ask", "The user did not answer.")
    content = response.get("content") or {}
    answers: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        chosen = content.get(f"answer_{number}")
        if isinstance(chosen, str):
            chosen = [one.strip() for one in chosen.split(",")] if question.multi_select else [chosen]
        found = [one for one in chosen if isinstance(one, str) and one] if isinstance(chosen, list) else []
        own = content.get(f"own_words_{number}")
        if isinstance(own, str) and own.strip():
            found = [*found, own.strip()] if question.multi_select else [own.strip()]
        answers[question.question] = found if question.multi_select else (found[0] if found else "")
    return answers


def _form(message: str, fields: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    return {"method": FORM, "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def _told(asked: Asked) -> str:
    """Return what the call would do, as a terminal shows it: nothing is hidden, and what is cut is said."""
    from hilt.surfaces.prompt import Page

    text = Page(width=_WIDTH, color=False).draw(asked, whole=False).strip("-\n")
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    return f"{text[:MESSAGE_CHARACTERS]}\n[{len(text) - MESSAGE_CHARACTERS} more characters are not shown]"
