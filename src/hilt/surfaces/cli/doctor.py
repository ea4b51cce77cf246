"""`hilt doctor`: check the installation and the settings, with a command that fixes each problem."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from shutil import get_terminal_size

from hilt.desk.diagnosis import Finding, diagnose
from hilt.surfaces.cli.config import sources_of
from hilt.surfaces.cli.layout import fitted, print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.opening import open_runtime

_GROUPS = {"Works": ("ok",), "Needs you": ("wrong", "limited"), "Optional": ("missing",)}
_NAME_WIDTH = 12
_INDENT = 2 + _NAME_WIDTH + 1
_BREAK = "\n"


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """First what works, then what needs you, with the command that fixes it, then what is optional and
not installed. The exit status is 1 if anything does not work."""
    parser.add_argument("--json", action="store_true", help="Print JSON, with every gap that a missing sandbox leaves")
    parser.examples = [
        ("hilt doctor", "Check the installation, and the settings of this folder"),
        ("hilt doctor --json", "Print the same as JSON"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    from hilt.surfaces.resident import ask

    with Waiting("checking"):
        findings = diagnose(partial(sources_of, options), partial(open_runtime, options))
    findings.append(Finding("ok", "resident", ask("status") or "not running; each call starts its own process"))
    if arguments.json:
        print_json(findings)
    else:
        sys.stdout.write("\n".join(f"{title}\n{lines}" for title, lines in _groups(findings)))
    return 1 if any(finding.level == "wrong" for finding in findings) else 0


def _groups(findings: list[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the title and the lines of each group that has any."""
    for title, levels in _GROUPS.items():
        lines = [line for finding in findings if finding.level in levels for line in lines_of(finding)]
        if lines:
            yield title, "".join(f"{line}\n" for line in lines)


def lines_of(finding: Finding, details: str = "--json") -> list[str]:
    """Return the lines of a finding: the facts, and below them the fix on one line, ready to copy.

    `details` names the option or command that lists what is not enforced. What is optional is on one line.
    """
    fact = finding.fact
    if finding.level == "missing":
        return [f"  {finding.name:<{_NAME_WIDTH}} {fact}: {finding.remedy}"]
    if finding.lacks:
        gaps = f"{details} lists {len(finding.lacks)} gap{'s' * (len(finding.lacks) != 1)}"
        fact = f"{fact.rstrip('.').replace('. ', f'.{_BREAK}')}; {gaps}."
    first, *more = [line for part in fact.split(_BREAK) for line in _wrapped(part)]
    more += [f"-> {finding.remedy}"] if finding.remedy else []
    return [f"  {finding.name:<{_NAME_WIDTH}} {first}", *(f"{'':{_INDENT}}{line}" for line in more)]


def _wrapped(text: str) -> list[str]:
    width = get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    return fitted(text, max(40, width - _INDENT))
