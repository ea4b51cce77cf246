"""Templates of shell scripts whose values are bound to variables and never become part of the script's text.

A body is read once, when its tool is loaded; shell_text.py finds the reference that fits each placeholder, whatever the
values of a call will be. The script of a call begins with what gives the values to the variables.

    body    = { text | "{{" name "}}" | section }
    section = ( "{{#" | "{{^" ) name "}}" body "{{/" name "}}"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from hilt.custom.templates.commands import OF_THE_SHELL
from hilt.custom.templates.evaluation import CALCULATION, NAME
from hilt.custom.templates.flow import AWK, OPTION, SHELLS, Code
from hilt.custom.templates.parts import Manner, Part, Reference, Section, Shell, Unbindable, marks
from hilt.custom.templates.text import Reader
from hilt.errors import ToolError

__all__ = ["Shell", "Template", "Unbindable", "bind", "evaluated", "is_given", "note", "render"]

_PLAIN = re.compile(r"[A-Za-z0-9_.,:@%+=/-]*\Z")
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,19}\Z")
_WITH_SETTINGS = (" env", " sudo", " doas", " make")  # which take NAME=value for a variable
_ANY = Code("", "", 0, leads=False)


class Template(NamedTuple):
    """A body whose placeholders are references; `line` is where it begins in its file."""

    parts: list[Part]
    shell: Shell
    prefix: str  # of the variables
    line: int
    codes: tuple[Code, ...] = ()  # where another program reads a value as code


def bind(body: str, names: set[str] | frozenset[str], *, shell: Shell, line: int = 1) -> Template:
    """Return the template of a body whose parameters have these names; raise Unbindable when it cannot be used."""
    prefix = "_hilt_"
    while prefix in body:
        prefix += "_"
    if "{{" not in body or next(marks(body, names), None) is None:
        return Template([body], shell, prefix, line)
    reader = Reader(body, names, shell, line)
    return Template(reader.read(), shell, prefix, line, reader.flow.codes())


def note(code: Code) -> str:
    """Return what the author of a tool is told of a value that is read as code."""
    if code.program.startswith(OPTION):
        into = (
            f"{code.program.removeprefix(OPTION)} may take the value of {code.name} for an option that runs something"
        )
        asks = "a call asks first if it begins with a dash or sets a variable"
        return f"line {code.line}: {into}; write -- before it, or give it an enum; {asks}"
    advice = "pass it as an argument"
    if code.program in SHELLS:
        advice = f"""pass it as an argument: {code.program} -c '… "$1" …' {code.program} {{{{ {code.name} }}}}"""
    elif code.program == "eval":
        advice = "run the command without eval"
    elif code.program in AWK:
        advice = f"pass it as a variable: {code.program} -v x={{{{ {code.name} }}}}"
    asks = "a call asks first unless the value is a plain word"
    if code.program in (CALCULATION, NAME):
        advice = "give it the type integer or check that it is a number before"
        if code.program == NAME:
            advice = "give it an enum or check that it is a name before"
        into = f"the value of {code.name} gets into {code.program}, where the shell runs it as code"
        return f"line {code.line}: {into}; {advice}; {asks}"
    return f"line {code.line}: {code.program} reads the value of {code.name} as code; {advice}; {asks}"


def evaluated(template: Template, args: Mapping[str, Any], own: Collection[str] = ()) -> list[Code]:
    """Return where values of a call are read as code and are more than a plain word; those of `own` are the author's.

    A plain word has no sign that means something to a shell, and does not stand where a command does.
    """
    is_plain = all(_is_plain(value) for value in args.values())
    return [
        code
        for code in template.codes
        if code.name not in own and not _is_plain(args.get(code.name), code, beside_plain=is_plain)
    ]


def _is_plain(value: Any, code: Code = _ANY, *, beside_plain: bool = True) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item, code, beside_plain=beside_plain) for item in value)
    if not isinstance(value, str) or not value:
        return True
    if code.program.startswith(OPTION):
        return not value.startswith(("-", "+")) and not (code.program.endswith(_WITH_SETTINGS) and "=" in value)
    if code.program == NAME and "=" in value:
        return False
    # a word in a calculation names a variable, maybe that of another value, and that is evaluated then
    if code.program == CALCULATION and not beside_plain and _WHOLE_NUMBER.match(value) is None:
        return False
    # in the script of sed a slash ends an expression
    return not code.leads and _PLAIN.match(value) is not None and not (code.program == "sed" and "/" in value)


def is_given(value: Any) -> bool:
    """Whether a section on a value is there; absent, null, "", 0, false and [] are not."""
    return value is not None and value != "" and value != 0 and value is not False and value != []


# --- a call -------------------------------------------------------------------------------------------------------


def render(template: Template, args: Mapping[str, Any]) -> str:
    """Return the script of one call; its lines have, where that can be, the numbers that they have in the file."""
    used: dict[str, int] = {}
    script = "".join(_rendered(template.parts, template, args, used))
    quote = _bash_quoted if template.shell == "bash" else _sh_quoted
    settings: list[str] = []
    for name, number in used.items():
        settings += _settings(f"{template.prefix}{number}", args.get(name), quote, name)
    if not settings:
        return "\n" * (template.line - 1) + script
    first = "" if template.shell == "bash" else f"{_newline(template.prefix)}='\n'; "
    prelude = first + "; ".join(settings)
    if template.shell == "sh":
        prelude = prelude.replace("\0", _newline(template.prefix))
    return prelude + "\n" * max(1, template.line - 1 - prelude.count("\n")) + script


def _newline(prefix: str) -> str:
    return f"{prefix}n"


def _rendered(parts: list[Part], template: Template, args: Mapping[str, Any], used: dict[str, int]) -> list[str]:
    found: list[str] = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, Section):
            if is_given(args.get(part.name)) is not part.inverted:
                found += _rendered(part.parts, template, args, used)
        else:
            _check(part, args.get(part.name))
            variable = template.prefix + str(used.setdefault(part.name, len(used)))
            if part.is_number:
                variable += "_c"
            found.append(_reference(part.manner, variable, args.get(part.name)))
    return found


def _check(reference: Reference, value: Any) -> None:
    where = f"on line {reference.line}"
    if reference.is_present and (value is None or value == []):
        raise _refusal(f"Missing parameter: {reference.name}, which names the program to run {where}")
    first = value[0] if isinstance(value, list) and value else value
    if reference.is_present and first in OF_THE_SHELL:
        raise _refusal(f"{reference.name} must name a program to run {where}, not {first} of the shell")
    if reference.is_number and value is not None and _number(value) is None:
        raise _refusal(f"{reference.name} must be an integer: {where} of the tool it is part of a calculation")


def _refusal(message: str) -> ToolError:
    return ToolError("invalid_args", f"⚒ {message}.")


def _reference(manner: Manner, variable: str, value: Any) -> str:
    if manner == "words":
        if isinstance(value, list) and value:
            return " ".join(f'"${{{variable}_{index}}}"' for index in range(len(value)))
        return f'${{{variable}+"${{{variable}}}"}}'
    text = f"${{{variable}-}}"
    return {"number": text, "one": f'"{text}"', "text": text, "single": f"'\"{text}\"'", "ansi": f"'\"{text}\"$'"}[
        manner
    ]


def _settings(variable: str, value: Any, quote: Callable[[str], str], name: str) -> list[str]:
    """Return what gives a value to its variables: as text, element by element, and as a number for calculations."""
    if value is None or value == []:
        return [f"unset {variable} {variable}_c"]
    found = [f"{variable}={quote(_text(value, name))}"]
    if isinstance(value, list):
        found += [f"{variable}_{index}={quote(_text(item, name))}" for index, item in enumerate(value)]
    number = _number(value)
    found.append(f"unset {variable}_c" if number is None else f"{variable}_c='{number}'")
    return found


def _text(value: Any, name: str) -> str:
    if isinstance(value, list):
        return " ".join(_text(item, name) for item in value)
    if isinstance(value, str):
        if "\0" in value:
            raise _refusal(f"{name} holds a NUL character, which no command can be given")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _refusal(f"{name} holds half of a character (a lone surrogate)")
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str | None:
    """Return a whole number as it may stand anywhere in a calculation: `5-{{ n }}` must not become `5--3`."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    if _WHOLE_NUMBER.match(text) is None or abs(int(text)) >= 1 << 63:
        return None
    number = int(text)
    return f" {number}" if number < 0 else str(number)


def _bash_quoted(text: str) -> str:
    """Quote text for bash in ASCII and on one line: in some encodings a byte of a character looks like a quote."""
    if text.isascii() and text.isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\{b:03o}" for b in text.encode()) + "'"


def _sh_quoted(text: str) -> str:
    """Quote text for any POSIX shell; NUL stands for the name of the variable that holds a line end."""
    return "'" + text.replace("'", "'\\''").replace("\n", "'\"${\0}\"'") + "'"
