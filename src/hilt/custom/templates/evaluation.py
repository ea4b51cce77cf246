"""What the shell itself evaluates a second time: calculations, indexes of arrays, and names of variables.

A variable that holds `a[$(id)]` runs `id` as soon as it is calculated with, or is taken for a name. What is here reads
words without their quotes, in which a value is a NUL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

CALCULATION = "a calculation"
NAME = "the name of a variable"

_NAME = re.compile(r"(?<![A-Za-z0-9_#])[A-Za-z_][A-Za-z0-9_]*")
_SUBSTITUTION = re.compile(r"\$\(.*\)|`.*`", re.DOTALL)
_INDEX = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?\[(.*?)\](?:\+?=|\Z)", re.DOTALL)
_DECLARATION = re.compile(r"\b(?:declare|typeset|local|readonly|export)\s+((?:[-+]\w+\s+)+)([^;&|\n(]*)")
_DECLARED = re.compile(r"(?:^|\s)[\"']?([A-Za-z_][A-Za-z0-9_]*)")
_ARRAY = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]\n]*\]\+?=|\+?=\()|\b(?:mapfile|readarray|-\w*a)\s+(\w+)")
_FUNCTION = re.compile(r"(?<![^\s;&|(){}])([^\s;&|(){}]+)[ \t]*\([ \t]*\)|\bfunction\s+([^\s;&|(){}]+)")
_OF_THE_SHELL = frozenset(("RANDOM", "OPTIND", "HISTCMD"))  # which bash itself calculates with

_WITH_VALUE = {"read": "adinNptu", "mapfile": "CcdnOsu", "readarray": "CcdnOsu"}
_SILENT = frozenset(("[", "test", "true", "false", ":", "cd", "exit", "return"))
_DIGITS = frozenset(("0-9", "[0-9]", "[:digit:]"))


class Declared(NamedTuple):
    """What a script says of its variables, and the functions it has."""

    integers: frozenset[str] = _OF_THE_SHELL
    names: frozenset[str] = frozenset()  # variables that stand for others
    keyed: frozenset[str] = frozenset()  # arrays whose indexes are texts
    arrays: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


def declared(body: str) -> Declared:
    """Return what a script says of its variables, wherever it stands."""
    by_option: dict[str, set[str]] = {"i": set(_OF_THE_SHELL), "n": set(), "A": set(), "a": set()}
    for options, rest in _DECLARATION.findall(body):
        for option in by_option.keys() & set(options):
            by_option[option].update(_DECLARED.findall(rest))
    arrays = by_option["A"] | by_option["a"] | {one or other for one, other in _ARRAY.findall(body)}
    return Declared(
        frozenset(by_option["i"]),
        frozenset(by_option["n"]),
        frozenset(by_option["A"] - by_option["a"]),
        frozenset(arrays),
        frozenset(one or other for one, other in _FUNCTION.findall(body)),
    )


def names_in(text: str) -> tuple[str, ...]:
    """Return the variables that a calculation names, with and without a dollar sign; substitutions are not read."""
    return tuple(_NAME.findall(_SUBSTITUTION.sub(" ", text)))


class Index(NamedTuple):
    """The index in a word such as `a[i]=1`; `is_open`: not all that it is made from is in its text."""

    array: str
    text: str
    is_open: bool


def index_of(text: str) -> Index | None:
    """Return the index that a name or an assignment begins with."""
    found = _INDEX.match(text) if "[" in text else None
    if found is None:
        return None
    return Index(found[1] or "", found[2], "\0" in found[2] or _SUBSTITUTION.search(found[2]) is not None)


def evaluates_next(words: Sequence[str], programs: Set[str]) -> str | None:
    """Return as what the shell evaluates the word after these, None when it is data to it."""
    if "let" in programs:
        return CALCULATION
    if "unset" in programs and "-f" not in words:
        return NAME
    if "read" in programs and not _pending(words, "read"):
        return NAME
    for program in ("mapfile", "readarray"):
        if program in programs and _pending(words, program) == "C":
            return program
    if "compgen" in programs and words[-1] in ("-W", "-C"):
        return "compgen"
    if words[-1] == "-v" and programs & {"printf", "test", "["}:
        return NAME
    return None


def _pending(words: Sequence[str], program: str) -> str:
    """Return the option whose value the next word is."""
    last = words[-1]
    return last[-1] if len(last) > 1 and last.startswith("-") and last[-1] in _WITH_VALUE[program] else ""


def prints_no_value(words: Sequence[str]) -> bool:
    """Whether a command prints nothing, or numbers alone, whatever its values are."""
    if not words:
        return False
    name, rest = words[0].rpartition("/")[2], words[1:]
    fixed = [word for word in rest if not set(word) & set("$`\0")]
    if name in _SILENT:
        return True
    if name == "wc":
        return len(fixed) == len(rest)
    if name in ("grep", "egrep", "fgrep"):
        options = "".join(word[1:] for word in rest if word.startswith("-"))
        operands = [word for word in rest if not word.startswith("-")]
        return ("c" in options or "q" in options) and not set(options) & set("rRH") and len(operands) < 3
    if name == "date":
        return any(word.startswith("+") for word in fixed)
    if name == "stat":
        return any(re.fullmatch(r"(?:-[cf]|--format=)?%[sYXZaugzmh]", word) for word in fixed)
    return name == "tr" and len(rest) == 2 and rest[0] in ("-cd", "-dc") and rest[1] in _DIGITS
