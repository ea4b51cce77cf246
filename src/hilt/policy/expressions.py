"""Regular expressions of rules, matched in time that no pattern and no text can blow up.

A thread cannot be killed, and a model writes the texts. The engine is therefore the linear one of the schema library
that is installed anyway; it knows no look-around and no back-references, and a rule that uses them is broken.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MAX_LENGTH = 2000


class BadExpression(ValueError):
    """A pattern that cannot be used; the message says why."""


class Expression(NamedTuple):
    """A pattern that was compiled twice: as what a text must be, and as what a text may hold."""

    source: str
    whole: Draft202012Validator
    part: Draft202012Validator

    def fits(self, text: str) -> bool:
        """Whether all of the text matches; a dot is no line break."""
        return _is_unicode(text) and self.whole.is_valid(text)

    def found_in(self, text: str) -> bool:
        """Whether some of the text matches; a dot may be a line break too."""
        return self.part.is_valid(text if _is_unicode(text) else text.encode("utf-8", "replace").decode())


def compile_expression(source: str) -> Expression:
    """Compile a pattern; raise BadExpression when it is empty, too long, not understood or too large."""
    if not source:
        raise BadExpression("the expression is empty")
    if len(source) > MAX_LENGTH:
        raise BadExpression(f"the expression is longer than {MAX_LENGTH} characters")
    _compiled(source)  # by itself first: brackets that only balance inside other ones are a mistake
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
            "the expression is not understood (look-around and back-references are not known, and it must stay small)"
        ) from None


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
