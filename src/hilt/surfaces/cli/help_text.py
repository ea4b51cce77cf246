"""Help text for the terminal, generated from the parsers: at most 80 columns, no word broken."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hilt.choices import choices
from hilt.surfaces import OPTIONS
from hilt.surfaces.cli.command_table import COMMANDS, GROUPS, TOP
from hilt.surfaces.cli.layout import WIDTH, fitted, wrapped
from hilt.surfaces.cli.parsing import Parser

_INDENT = 2
_TERM_MAX = 26  # the text of a longer term goes on the next line
_EXAMPLE_MAX = 32  # if any example is longer, all texts go on their own lines
_TEXT_INDENT = 6

SUMMARY = "hilt, the tool runtime for AI agents"
USAGE = ("hilt [OPTIONS] COMMAND ...", """echo '{"tool": "NAME", "args": {...}}' | hilt [OPTIONS]""")

FIRST_STEPS = [
    ("hilt init", "Set up this project and the MCP hosts on this machine"),
    ("hilt call list_dir", "Call a tool"),
    ("hilt tools", "List the tools"),
    ("hilt doctor", "Check the installation"),
    ("hilt --help", "List all commands"),
]


class HelpSection(NamedTuple):
    """A title, and terms with their descriptions."""

    title: str
    rows: list[tuple[str, str]]


def overview() -> str:
    """Return the help of `hilt` itself, with one line per command."""
    lines = [SUMMARY, "", *_usage_lines(USAGE)]
    width = max(map(len, COMMANDS))
    for title, group in GROUPS.items():
        lines += _lines(HelpSection(title, [(name, command.summary) for name, command in group.items()]), width)
    lines += [line for section in global_sections() for line in _lines(section)]
    lines += ["Run hilt COMMAND --help for a command, hilt call TOOL --help for a tool."]
    return "\n".join(lines) + "\n"


def first_steps() -> str:
    """Return what to do next, for a person who types `hilt` alone."""
    from hilt import __version__

    lines = [f"{SUMMARY}, version {__version__}", ""]
    lines += _lines(HelpSection("Next", FIRST_STEPS), max(len(command) for command, _ in FIRST_STEPS))
    return "\n".join(lines)


def of(parser: Parser) -> str:
    """Return the help of a command."""
    lines = [f"{parser.summary}.", ""]
    lines += [wrapped(parser.details), ""] if parser.details else []
    lines += _usage_lines(usage(parser))
    lines += [line for section in sections(parser) for line in _lines(section)]
    examples = parser.help_examples
    if examples:
        longest = max(len(example) for example, _ in examples)
        room = WIDTH - _INDENT - longest - 2
        in_columns = longest <= _EXAMPLE_MAX and all(len(text) <= room for _, text in examples)
        lines += _lines(HelpSection("Examples", examples), longest if in_columns else 0)
    lines += ["Run hilt --help for the options that every command takes."]
    return "\n".join(lines) + "\n"


def _usage_lines(usages: Sequence[str]) -> list[str]:
    return [f"{'       ' if number else 'Usage: '}{line}" for number, line in enumerate(usages)] + [""]


def global_sections() -> Iterator[HelpSection]:
    """Yield the options that every command takes, and those that only work without a command."""
    rows = ((f"--{name} {value}", _with_choices(text, choices(name))) for name, (value, text) in OPTIONS.items())
    yield HelpSection("Options for every command", [*rows])
    yield HelpSection("Options without a command", list(TOP.items()))


def usage(parser: Parser) -> list[str]:
    """Return the usage lines of a command."""
    words = [parser.prog, "[OPTIONS]"]
    forms = [[*words, *map(_in_usage, parser.arguments)]] if parser.run is not None else []
    return [" ".join(form) for form in (*forms, *([[*words, "COMMAND ..."]] if parser.commands else []))]


def sections(parser: Parser) -> Iterator[HelpSection]:
    """Yield the subcommands, arguments and options of a command."""
    below = [(name, below.summary) for name, below in parser.commands.items() if not below.hidden]
    arguments, flags = (
        [(term(action), meaning(action)) for action in actions if is_listed(action)]
        for actions in (parser.arguments, parser.flags)
    )
    sections = {"Commands": below, "Arguments": arguments, "Options": flags}
    yield from (HelpSection(title, rows) for title, rows in sections.items() if rows)


def is_listed(action: argparse.Action) -> bool:
    """Whether the help lists an option."""
    return action.help is not argparse.SUPPRESS


def term(action: argparse.Action) -> str:
    """Return an argument as the user types it."""
    value = str(action.metavar or "")
    if not action.option_strings:
        return value
    placeholder = f"[{value}]" if action.nargs == "?" else value
    return ", ".join(action.option_strings) + (f" {placeholder}" if action.nargs != 0 else "")


def meaning(action: argparse.Action) -> str:
    """Return the description of an argument, with its choices."""
    return _with_choices(str(action.help), action.choices or ())


def _with_choices(text: str, allowed: Iterable[object]) -> str:
    return ": ".join(filter(None, (text, ", ".join(map(str, allowed)))))


def _in_usage(action: argparse.Action) -> str:
    value = str(action.metavar)
    return {"?": f"[{value}]", "*": f"[{value}]...", "+": f"{value}..."}.get(str(action.nargs), value)


def _lines(section: HelpSection, width: int | None = None) -> list[str]:
    """Return the lines of a section: terms and descriptions in two columns."""
    fitting = (len(name) for name, _ in section.rows if len(name) <= _TERM_MAX)
    column = max(fitting, default=0) if width is None else width
    lines = [f"{section.title}:"]
    for name, text in section.rows:
        start = _INDENT + column + 2
        if len(name) > column:
            lines += [f"{'':{_INDENT}}{name}"]
            lines += [f"{'':{_TEXT_INDENT}}{line}" for line in fitted(text, WIDTH - _TEXT_INDENT)]
            continue
        first, *more = fitted(text, WIDTH - start)
        lines += [f"{'':{_INDENT}}{name:<{column}}  {first}", *(f"{'':{start}}{line}" for line in more)]
    return [*lines, ""]
