"""Templates of shell scripts whose values are bound to variables and never become part of the script's text (ADR 0057).

A body is parsed once for each set of enabled sections; text.py chooses the reference that fits each placeholder for any
value. The script of a call starts with the assignments of the values to the variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from itertools import chain, combinations
from typing import Any, Literal, NamedTuple

from hilt.custom.templates.placeholders import (
    Manner,
    Mark,
    Part,
    Reference,
    Shell,
    Unbindable,
    has_marks,
    present,
    split,
)
from hilt.errors import ToolError

# the kind of a value: any string, a list of strings, one of the strings in the tool's file, a number
Kind = Literal["text", "texts", "chosen", "number"]

CHECKED_CHARACTERS = 64 * 1024  # of a script, over all sets of its sections

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}\Z")
_SHELL_BUILTINS = frozenset(
    (
        *("eval", "trap", "command", "builtin", "exec", "source", ".", "printf", "test", "[", "let", "alias", "unset"),
        *("read", "mapfile", "readarray", "getopts", "compgen", "complete", "declare", "typeset", "local", "readonly"),
        "export",
    )
)


class Template(NamedTuple):
    """A body with placeholders; `line` is where it starts in its file."""

    body: str
    names: frozenset[str]
    shell: Shell
    prefix: str  # of the variables
    line: int
    sections: tuple[str, ...] = ()  # the names that sections depend on


class RiskyLine(NamedTuple):
    """A line of a script that may run a value as code; with `names`, only if one of these values is an option."""

    line: int
    reason: str
    names: tuple[str, ...] = ()


def bind(body: str, names: Collection[str], *, shell: Shell, line: int = 1, is_validated: bool = False) -> Template:
    """Return the template of a body with these parameters; raise Unbindable if it cannot be used.

    With `is_validated`, the body was validated before, and only what a call needs is parsed.
    """
    if len(body) > CHECKED_CHARACTERS and has_marks(body, names):
        raise Unbindable(f"a script with placeholders is longer than {CHECKED_CHARACTERS} characters", line)
    prefix = "_hilt_"
    while prefix in body:
        prefix += "_"
    marks = [item for item, _ in split(body, names) if isinstance(item, Mark)] if "{{" in body else []
    sections = sorted({mark.name for mark in marks if mark.sign} & set(names))
    template = Template(body, frozenset(names), shell, prefix, line, tuple(sections))
    for enabled in _section_sets(template) if marks and not is_validated else ():
        _parts(template, enabled)
    return template


def _section_sets(template: Template) -> Iterator[frozenset[str]]:
    """Yield the sets of enabled sections; if there are too many, only those with none, one, all or all but one."""
    names = template.sections
    sizes = set(range(len(names) + 1))
    if not is_checked(template):
        sizes &= {0, 1, len(names) - 1, len(names)}
    yield from map(frozenset, chain.from_iterable(combinations(names, size) for size in sizes))


def is_checked(template: Template) -> bool:
    """Whether every set of sections is checked on load, so that a call needs no check."""
    return len(template.body) << len(template.sections) <= CHECKED_CHARACTERS


@lru_cache(maxsize=256)
def _parts(template: Template, enabled: frozenset[str]) -> list[Part]:
    items = split(template.body, template.names)
    present_items = list(present(items, template.names, enabled, template.line))
    if not any(isinstance(item, Mark) for item, _ in items):
        return [template.body]
    from hilt.custom.templates.text import Reader

    return Reader(template.body, present_items, template.names, template.shell, template.line).read()


# --- approval of a call -------------------------------------------------------------------------------------------


def check(template: Template, kinds: Mapping[str, Kind], enabled: Collection[str] | None = None) -> list[RiskyLine]:
    """Return where the script may run a value as code, with any sections or with these."""
    sets = _section_sets(template) if enabled is None else [frozenset(enabled).intersection(template.sections)]
    warnings: dict[RiskyLine, None] = {}
    for names in sets:
        warnings |= dict.fromkeys(_risky_lines(template, kinds, _parts(template, names)))
    return sorted(warnings)


def _risky_lines(template: Template, kinds: Mapping[str, Kind], parts: list[Part]) -> Iterator[RiskyLine]:
    references = [part for part in parts if isinstance(part, Reference)]
    if all(reference.is_number or kinds[reference.name] in ("chosen", "number") for reference in references):
        return
    from hilt.custom.templates.evaluation import Variables, evaluations

    bound = Variables({}, set(), set())
    script, lines = "", [(0, template.line)]
    for part in parts:
        if isinstance(part, str):
            script += part
            lines += [(len(script) - len(part) + at + 1, 0) for at, sign in enumerate(part) if sign == "\n"]
            continue
        kind: Kind = "number" if part.is_number else kinds[part.name]
        variable = f"{template.prefix}{sorted(template.names).index(part.name)}_{kind}"
        if kind in ("text", "texts"):
            bound.texts[variable] = part.name
        else:
            (bound.numbers if kind == "number" else bound.chosen).add(variable)
        lines.append((len(script), part.line))
        script += (
            f"${{{variable}}}"
            if part.manner == "words" and kind == "texts"
            else _quoted_for(part.manner, f"${{{variable}}}")
        )
    for start, reason, names in evaluations(script, bound):
        yield RiskyLine(_line(lines, start), reason, names)


def _line(lines: list[tuple[int, int]], start: int) -> int:
    """Return the line of an offset in a script, counted from the last reference or newline before it."""
    line = lines[0][1]
    for at, reference_line in lines:
        if at > start:
            break
        line = reference_line or line + 1
    return line


def note(risky_line: RiskyLine) -> str:
    """Return the warning for the author of a tool about a line that may run a value as code."""
    if risky_line.names:
        advice = "write -- before it, or declare an enum; a call prompts if the value starts with a dash or contains ="
    else:
        advice = "every call prompts; pass values as arguments, numbers as type integer, or declare an enum"
    return f"line {risky_line.line}: {risky_line.reason}; {advice}"


def must_prompt(risky_line: RiskyLine, args: Mapping[str, Any], kinds: Mapping[str, Kind]) -> bool:
    """Whether a call with these values must prompt for a line."""
    names = risky_line.names or [name for name, kind in kinds.items() if kind in ("text", "texts")]
    values = [args.get(name) for name in names]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    if not risky_line.names:
        return any(text not in (None, "") for text in texts)
    return any(isinstance(text, str) and (text.startswith(("-", "+")) or "=" in text) for text in texts)


def enables_section(value: Any) -> bool:
    """Whether a value enables its section; absent, null, "", 0, false and [] do not."""
    return value is not None and value != "" and value != 0 and value is not False and value != []


# --- a call -------------------------------------------------------------------------------------------------------


def render(template: Template, args: Mapping[str, Any]) -> str:
    """Return the script of one call, where possible with the same line numbers as in the file."""
    numbers: dict[str, int] = {}
    enabled = frozenset(name for name in template.sections if enables_section(args.get(name)))
    script = "".join(_render_part(part, template, args, numbers) for part in _parts(template, enabled))
    quote = _bash_quoted if template.shell == "bash" else _sh_quoted
    assignments: list[str] = []
    for name, number in numbers.items():
        assignments += _assignments(f"{template.prefix}{number}", args.get(name), quote, name)
    if not assignments:
        return "\n" * (template.line - 1) + script
    newline = "" if template.shell == "bash" else f"{_newline(template.prefix)}='\n'; "
    prelude = newline + "; ".join(assignments)
    if template.shell == "sh":
        prelude = prelude.replace("\0", _newline(template.prefix))
    return prelude + "\n" * max(1, template.line - 1 - prelude.count("\n")) + script


def _newline(prefix: str) -> str:
    return f"{prefix}n"


def _render_part(part: Part, template: Template, args: Mapping[str, Any], numbers: dict[str, int]) -> str:
    if isinstance(part, str):
        return part
    value = args.get(part.name)
    _check_value(part, value)
    variable = template.prefix + str(numbers.setdefault(part.name, len(numbers))) + "_c" * part.is_number
    if part.manner != "words":
        return _quoted_for(part.manner, f"${{{variable}-}}")
    if isinstance(value, list) and value:
        return " ".join(f'"${{{variable}_{index}}}"' for index in range(len(value)))
    return f'${{{variable}+"${{{variable}}}"}}'


def _check_value(reference: Reference, value: Any) -> None:
    where = f"on line {reference.line}"
    if reference.is_present and (value is None or value == []):
        raise _refusal(f"Missing required parameter: {reference.name}, the program to run {where}")
    first = value[0] if isinstance(value, list) and value else value
    if reference.is_present and first in _SHELL_BUILTINS:
        raise _refusal(f"{reference.name} must be a program to run {where}, not the shell builtin {first}")
    if reference.is_number and value is not None and _number(value) is None:
        raise _refusal(f"{reference.name} must be an integer: the tool uses it in arithmetic {where}")


def _refusal(message: str) -> ToolError:
    return ToolError("invalid_args", f"⚒ {message}.")


def _quoted_for(manner: Manner, text: str) -> str:
    """Return an expansion, quoted for its context."""
    if manner in ("words", "one"):
        return f'"{text}"'
    return {"single": f"'\"{text}\"'", "ansi": f"'\"{text}\"$'"}.get(manner, text)


def _assignments(variable: str, value: Any, quote: Callable[[str], str], name: str) -> list[str]:
    """Return the assignments of a value: as a string, per element, and as a number for arithmetic."""
    if value is None or value == []:
        return [f"unset {variable} {variable}_c"]
    assignments = [f"{variable}={quote(_text(value, name))}"]
    if isinstance(value, list):
        assignments += [f"{variable}_{index}={quote(_text(item, name))}" for index, item in enumerate(value)]
    number = _number(value)
    assignments.append(f"unset {variable}_c" if number is None else f"{variable}_c='{number}'")
    return assignments


def _text(value: Any, name: str) -> str:
    if isinstance(value, list):
        return " ".join(_text(item, name) for item in value)
    if isinstance(value, str):
        if "\0" in value:
            raise _refusal(f"{name} contains a NUL character, which cannot be passed to a command")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _refusal(f"{name} contains a lone surrogate, which is not valid Unicode text")
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str | None:
    """Return an integer that is safe anywhere in arithmetic, or None: `5-{{ n }}` must not become `5--3`."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    if _INTEGER.match(text) is None or abs(int(text)) >= 1 << 63:
        return None
    number = int(text)
    return f" {number}" if number < 0 else str(number)


def _bash_quoted(text: str) -> str:
    """Quote text for bash in ASCII and on one line: in some encodings, a byte of a character equals a quote."""
    if text.isascii() and text.isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\{b:03o}" for b in text.encode()) + "'"


def _sh_quoted(text: str) -> str:
    """Quote text for any POSIX shell; NUL is replaced later by the name of the variable that holds a newline."""
    return "'" + text.replace("'", "'\\''").replace("\n", "'\"${\0}\"'") + "'"
