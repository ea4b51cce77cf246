"""`hilt man`: the manual page, generated from the parsers (ADR 0058)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from hilt import __version__
from hilt.surfaces.cli.command_table import COMMANDS, GROUPS, parser_of
from hilt.surfaces.cli.help_text import USAGE, global_sections, sections, usage
from hilt.surfaces.cli.parsing import Namespace, Options, Parser

_DESCRIPTION = """hilt takes a tool call from an agent, decides whether it may run, runs it confined to one folder, and
replies with a result for the model and a view for a person. Without a command it reads JSON requests from standard
input and writes a line of JSON for each."""

_STATUS = (
    ("0", "All calls succeeded."),
    ("1", "A call failed or was denied. The error is on standard error, or in the reply."),
    ("2", "The command line is invalid."),
    ("3", "hilt explain: the call would need approval."),
    ("130", "Interrupted."),
)

_ENVIRONMENT = (
    ("HILT_CONFIG_DIR", "The folder of settings, rules and personal tools; ~/.config/hilt by default."),
    ("HILT_STATE_DIR", "The folder of the audit trail, snapshots and approvals; ~/.local/state/hilt by default."),
    ("HILT_SESSION", "The session, unless --session overrides it."),
    ("HILT_RESIDENT", "If off, calls do not use the resident process."),
    ("HILT_*", "Any setting: mode is HILT_MODE, shell.network is HILT_SHELL_NETWORK."),
    ("NO_COLOR", "If set to any value, disables colours."),
)


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.examples = [
        ("hilt man | man -l -", "Read it"),
        ("hilt man > ~/.local/share/man/man1/hilt.1", "Install it for man hilt"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    sys.stdout.write(page())
    return 0


def page() -> str:
    """Return the page in the macros of man(7)."""
    lines = [
        f'.TH HILT 1 "" "hilt {__version__}" "User Commands"',
        ".nh",  # no hyphenation
        ".ad l",
        ".SH NAME",
        r"hilt \- tool runtime for AI agents",
        ".SH SYNOPSIS",
        *_verbatim(USAGE),
        ".SH DESCRIPTION",
        _text(_DESCRIPTION),
        ".SH OPTIONS",
    ]
    for section in global_sections():
        lines += [f".SS {_text(section.title)}", *_terms(section.rows)]
    lines.append(".SH COMMANDS")
    for title, group in GROUPS.items():
        lines += [f".SS {_text(title)}", *_terms((name, command.summary) for name, command in group.items())]
    for name in COMMANDS:
        lines += [f".SH HILT {name.upper()}", *_command(parser_of(name))]
    lines += [".SH EXIT STATUS", *_terms(_STATUS), ".SH ENVIRONMENT", *_terms(_ENVIRONMENT)]
    return "\n".join(lines) + "\n"


def _command(parser: Parser) -> Iterator[str]:
    yield _text(f"{parser.summary}.")
    for paragraph in parser.details.split("\n\n") if parser.details else ():
        yield from (".PP", _text(paragraph))
    yield ".PP"
    yield from _verbatim(usage(parser))
    for section in sections(parser):
        if section.title != "Commands":
            yield from _terms(row for row in section.rows if row[0] != "-h, --help")
    if parser.examples:
        yield from (".PP", "Examples:")
        for example, text in parser.examples:
            yield from (".PP", _text(f"{text}:"), *_verbatim([example]))
    for below in parser.commands.values():
        if not below.hidden:
            yield f".SS {_text(below.prog)}"
            yield from _command(below)


def _terms(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield from (".TP", rf"\fB{_escaped(term)}\fR", _text(text))


def _verbatim(lines: Iterable[str]) -> Iterator[str]:
    yield from (".nf", ".RS 4", *map(_line, lines), ".RE", ".fi")


def _text(text: str) -> str:
    return _line(" ".join(text.split()))


def _line(text: str) -> str:
    """Return a line that roff does not read as a request, whatever it begins with."""
    escaped = _escaped(text)
    return rf"\&{escaped}" if escaped.startswith((".", "'", "\\(aq")) else escaped


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("~", r"\(ti")
