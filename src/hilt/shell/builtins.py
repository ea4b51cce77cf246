"""Shell builtins that run text or define names."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.shell import programs
from hilt.shell.quoting import ShellWord
from hilt.shell.rating import CommandPlace, Rate, Rated, Rater, worse
from hilt.shell.starters import is_standard_input
from hilt.shell.syntax import Assignment

_EVALUATED = ("$(", "`", "${")
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-R"))
_DECLARERS = frozenset(("declare", "typeset", "local", "export", "readonly"))


def _rate_eval(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments if word.value != "--"]
    if any(value is None for value in values) or any(word.pattern for word in arguments):
        return Rated("dangerous", "eval runs text that is computed at run time")
    return rater.start_text(" ".join(value for value in values if value is not None), place, name)


def _rate_source(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    operands = [word for word in arguments if word.value != "--"]
    if operands and (operands[0].value is None or is_standard_input(operands[0]) or operands[0].pattern):
        return Rated("dangerous", f"{name} runs text that is computed at run time")
    return Rated("caution", f"{name} runs a script in this shell")


def _rate_trap(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    operands = [word for word in arguments if word.value not in ("-l", "-p", "--")]
    if len(operands) < 2 or operands[0].value in ("-", ""):
        return Rated("safe", "trap changes only this shell")
    return rater.start_text(operands[0].value, place, name)


def _rate_alias(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("caution", programs.CHANGERS[name])
    for word in arguments:
        if word.value is None:
            return Rated("dangerous", "alias redefines a name with text that is computed at run time")
        key, equals, text = word.value.partition("=")
        if equals:
            rater.redefine(key)
            rated = worse(rated, rater.start_text(text, place, name))
    return rated


def _rate_naming(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate commands that set or read variables by name: the shell evaluates a subscript in a name."""
    values = [word.value for word in arguments]
    is_test = name in ("test", "[", "[[")
    if _takes_names(name, values) and any(
        value is not None and any(sign in value for sign in _EVALUATED[:2]) for value in values
    ):
        return Rated("dangerous", f"{name} would run the subscript of a name")
    rated = Rated("safe", f"{name} compares" if is_test else f"{name} changes only this shell")
    if name in ("read", "mapfile", "readarray", "printf", "getopts"):
        if name == "printf":
            names = [value for value in programs.option_values(values[:2], "v") if value]
        else:
            names = [value for value in values if value]
        for variable in names:
            rated = worse(rated, rater.rate_assignment(Assignment(variable, None), place))
    if name in ("mapfile", "readarray"):
        for code in programs.option_values(values, "C"):
            rated = worse(rated, rater.start_text(code, place, f"{name} -C"))
    if name == "printf":
        return worse(Rated("safe", "printf prints its arguments"), rated)
    if name in _DECLARERS and None in values:
        for word in arguments:
            key, equals, text = word.text.strip("\"'").partition("=")
            if word.value is None and text.lstrip("\"'").startswith("(") and not word.broken:
                rated = Rated("dangerous", f"{name} would run the text of an array")
            elif word.value is None and not (equals and key.rstrip("+").isidentifier()):
                rated = worse(rated, Rated("caution", f"{name} sets a name that is computed at run time"))
    for value in values if name in _DECLARERS else ():
        if value is not None and "=" in value:
            key, _, text = value.partition("=")
            rated = worse(rated, rater.rate_assignment(Assignment(key.rstrip("+"), text), place))
    return rated


def _takes_names(name: str, values: Sequence[str | None]) -> bool:
    """Whether arguments are names or numbers; tests and printf mostly compare and print their arguments."""
    if name not in ("test", "[", "[[", "printf"):
        return True
    operands = [value for value in values if value not in ("]", "]]")]
    if operands[:1] == [None] and (name == "printf" or len(operands) == 2):
        return True
    return any(value is not None and (value.startswith("-v") or value in _NUMERIC) for value in values)


def _rate_lookup(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    risky = {"hash": "p", "enable": "f", "bind": "xf", "complete": "CF", "compgen": "CFW"}[name]
    if None in values or programs.has_flag(values, risky):
        return Rated("dangerous", f"{name} -{risky[0]} redefines a name")
    return Rated("caution", f"{name} changes how names are resolved")


RATED: dict[str, Rate] = {
    "eval": _rate_eval,
    **dict.fromkeys(("source", "."), _rate_source),
    "trap": _rate_trap,
    "alias": _rate_alias,
    **dict.fromkeys(
        ("read", "mapfile", "readarray", "printf", "getopts", "unset", "let", "test", "[", "[[", *sorted(_DECLARERS)),
        _rate_naming,
    ),
    **dict.fromkeys(("hash", "enable", "bind", "complete", "compgen"), _rate_lookup),
}
