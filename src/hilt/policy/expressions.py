"""Regular expressions of rules, matched in linear time.

A thread cannot be killed, and a model writes the texts, so backtracking is not an option. Patterns run on the regex
crate of jsonschema-rs, which is a dependency anyway. It supports neither look-around nor back-references; a rule that
uses them is invalid.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MAX_LENGTH = 2000


class BadExpression(ValueError):
    """An invalid pattern; the message says why."""


class Expression(NamedTuple):
    """A pattern compiled twice: to match a whole text, and to find in a text."""

    source: str
    whole: Draft202012Validator
    part: Draft202012Validator

    def fits(self, text: str) -> bool:
        """Whether the whole text matches; a dot does not match a line break."""
        return _is_unicode(text) and self.whole.is_valid(text)

    def found_in(self, text: str) -> bool:
        """Whether any part of the text matches; a dot also matches a line break."""
        return self.part.is_valid(text if _is_unicode(text) else text.encode("utf-8", "replace").decode())


def compile_expression(source: str) -> Expression:
    """Compile a pattern; raise BadExpression when it is empty, too long, invalid or too large."""
    if not source:
        raise BadExpression("the expression is empty")
    if len(source) > MAX_LENGTH:
        raise BadExpression(f"the expression is longer than {MAX_LENGTH} characters")
    _compiled(source)  # alone first: a pattern like `a)|(b` must not become valid inside the groups below
    return Expression(source, _compiled(f"^(?:{source})$"), _compiled(f"(?s:{source})"))


def quote(text: str) -> str:
    """Return the expression that matches exactly this text."""
    return "".join("\\" + character if character in r"\.+*?()|[]{}^$" else character for character in text)


def _compiled(source: str) -> Draft202012Validator:
    import jsonschema_rs

    try:
        return jsonschema_rs.Draft202012Validator(
            {"type": "string", "pattern": source}, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, ValueError):
        raise BadExpression(
            "the expression is invalid or too large (look-around and back-references are not supported)"
        ) from None


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
