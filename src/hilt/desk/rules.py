"""The rules of a workspace, and changes of one rule in a rule file; the rest of the file stays as it is."""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple

from hilt.authority.rulebook import RULES
from hilt.authority.targets import names_of
from hilt.desk.personal_files import SettingsChange, read_bytes
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.loaders import paths_of
from hilt.policy import rules as policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.policy.rules import RuleSet
    from hilt.runtime import Runtime

DECISIONS = ("allow", "ask", "deny")
_HEAD = re.compile(r"( *)(permissions|allow|ask|deny):[ \t]*(?:#.*)?")


class ListedRule(NamedTuple):
    """A rule in force, and where it is. An allow rule of a file that is not trusted has no effect."""

    decision: str
    rule: str
    file: str
    line: int
    trusted: bool


def rules(runtime: Runtime) -> list[ListedRule]:
    """Return the rules of all files, in the order of the files."""
    return [
        ListedRule(rule.verdict, rule.text, rule.file, rule.line, ruleset.trusted)
        for ruleset in runtime.parts.authority.rulesets()
        for rule in ruleset.rules
    ]


def with_rule(runtime: Runtime, decision: str, rule: str, *, personal: bool) -> SettingsChange:
    """Return the change that adds a rule to the file of the project or the user."""
    path, before, text = _read(runtime, personal=personal)
    entry = rule if re.fullmatch(r"[A-Za-z][\w:./ -]*(\([^'\"#]*\))?", rule) and ": " not in rule else json.dumps(rule)
    lines = text.splitlines(keepends=True)
    heads = {match[2]: (number, len(match[1])) for number, line in enumerate(lines) if (match := _head(line))}
    outer = heads["permissions"][1] + 2 if "permissions" in heads else 0
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if decision in heads:
        number, indent = heads[decision]
        lines.insert(number + 1, f"{' ' * (indent + 2)}- {entry}\n")
    elif heads:
        number = heads["permissions"][0] + 1 if "permissions" in heads else len(lines)
        lines[number:number] = [f"{' ' * outer}{decision}:\n", f"{' ' * (outer + 2)}- {entry}\n"]
    else:
        lines += ["permissions:\n", f"  {decision}:\n", f"    - {entry}\n"]
    after = "".join(lines)
    known, parsed = _parse(runtime, text, path), _parse(runtime, after, path)
    if len(parsed.problems) > len(known.problems):
        reason = next(problem.reason for problem in parsed.problems if problem not in known.problems)
        raise ToolError("invalid_args", reason, suggestion="See the forms of rules: hilt rules add --help")
    if len(parsed.rules) != len(known.rules) + 1:
        raise _by_hand(path, f"add {entry} below {decision}")
    return SettingsChange(path, path, before, after.encode())


def without_rule(runtime: Runtime, rule: str, *, personal: bool) -> SettingsChange:
    """Return the change that removes a rule from the file of the project or the user."""
    path, before, text = _read(runtime, personal=personal)
    known = _parse(runtime, text, path)
    numbers = [found.line - 1 for found in known.rules if found.text == rule]
    if not numbers:
        raise ToolError("not_found", f"{one_line(path)} has no rule {rule!r}.", suggestion="See the rules: hilt rules")
    lines = text.splitlines(keepends=True)
    after = "".join(line for number, line in enumerate(lines) if number not in numbers)
    left = [found.text for found in _parse(runtime, after, path).rules]
    if left != [found.text for found in known.rules if found.text != rule]:
        raise _by_hand(path, f"remove {rule}")
    return SettingsChange(path, path, before, after.encode())


def _head(line: str) -> re.Match[str] | None:
    return _HEAD.fullmatch(line.rstrip("\r\n"))


def _read(runtime: Runtime, *, personal: bool) -> tuple[str, bytes | None, str]:
    place = runtime.parts.place
    path = os.path.join(place.config, RULES) if personal else os.path.join(place.root, paths_of("rules")[0])
    before = read_bytes(path)
    try:
        return path, before, (before or b"").decode()
    except UnicodeDecodeError:
        raise _by_hand(path, "save it as UTF-8") from None


def _parse(runtime: Runtime, text: str, path: str) -> RuleSet:
    return policy.parse(text, os.path.basename(path), names_of(runtime.parts.catalog), trusted=True, path=path)


def _by_hand(path: str, step: str) -> ToolError:
    message = f"{one_line(path)} cannot be edited."
    return ToolError("invalid_request", message, suggestion=f"Change it by hand: {step}.")
