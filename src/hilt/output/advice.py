"""The next step after an error, as it is said to the user: suggestions are written for a model, which asks the user."""

from __future__ import annotations

import re

from hilt import places
from hilt.errors import CODES, ToolError

# in place of default suggestions that name tools or arguments; {hilt} becomes the command line of hilt
_BY_CODE = {
    "invalid_args": "To list the arguments of a tool: {hilt} call TOOL --help",
    "unknown_tool": "To list the tools: {hilt} tools",
    "sensitive_path": "Tools cannot open it; use your own editor.",
    "protected_path": "Make this change yourself; tools cannot write configuration.",
    "denied": "To see which rule or setting decides: {hilt} explain",
    "approval_required": "To list what waits for approval: {hilt} approve",
    "approval_timeout": "Repeat the call.",
    "USER_REJECTION": "",
    "no_one_to_ask": "Run it in a terminal.",
}
# in this order
_FOR_USER = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in {
        r"[;,]? (?:or |and |to )?(?:ask the user|tell the user the reason)(?=\.)|, which prompts the user": "",
        r"\bcall list_tools to see all names\b": "see them all: hilt tools",
        r"\bask the user for ": "use ",
        r"\bask the user whether to ": "decide whether to ",
        r"\bask the user what they want\b": "say what you want",
        r"\b(?:ask|have) the user (?:to )?": "",
        r"\bthe user wants\b": "you want",
        r" with approval: '\w+'": "",
        r"; (?=undo restore \w+ reverts it)": "; hilt ",
    }.items()
)


def next_step(error: ToolError) -> str:
    """Return the suggestion of an error in words for the user, who has nobody to ask."""
    text = error.suggestion
    if text == CODES.get(error.code) and error.code in _BY_CODE:
        return _BY_CODE[error.code].replace("{hilt}", places.command())
    return for_user(text)


def for_user(text: str) -> str:
    """Return a suggestion or a note without what is only meant for a model."""
    said = text
    for pattern, words in _FOR_USER:
        said = pattern.sub(words, said)
    return said[:1].upper() + said[1:] if said != text else text
