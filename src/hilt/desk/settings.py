"""The settings of a workspace, each with its source, its rules, and the problems in settings, rules and hooks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hilt import config, places
from hilt.authority.rulebook import RULES
from hilt.config import KEYS, Settings
from hilt.errors import ToolError
from hilt.loaders import MAX_BYTES, ProjectFile
from hilt.policy.decision import Verdict
from hilt.runtime import Runtime
from hilt.state.trust import trusts_file

_TRIES_MAX = 2000  # attempts to find the end of values that span several lines
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]*@")  # of a URL
_AT = re.compile(r" \(at line (\d+), column (\d+)\)")


class Sources(NamedTuple):
    """Where settings come from; the files may not exist."""

    workspace: str
    environ: Mapping[str, str]
    flags: Mapping[str, Any]

    @property
    def personal(self) -> str:
        """The path of the user's file."""
        return os.path.join(places.config_dir(self.environ), "config.toml")

    @property
    def project(self) -> str:
        """The path of the project's file."""
        return os.path.join(self.workspace, config.PROJECT)

    @property
    def cache(self) -> str:
        """The folder for parsed files."""
        return os.path.join(places.state_dir(self.environ), "cache")

    def trusts(self, file: ProjectFile, data: bytes) -> bool:
        """Whether the user trusts a file of the project with this content."""
        return trusts_file(places.state_dir(self.environ), self.environ, file, data)


class Setting(NamedTuple):
    """A setting, without secrets; `source` is a file, a variable, a flag or the default."""

    name: str
    value: Any
    source: str
    file: str | None = None
    line: int | None = None


class FileRule(NamedTuple):
    """One rule of a file."""

    verdict: Verdict
    rule: str
    line: int


class InvalidRule(NamedTuple):
    """A line of a file that is not a rule, and why."""

    line: int
    reason: str


class RuleFile(NamedTuple):
    """The rules of a file; until it is trusted, it can only tighten."""

    file: str
    trusted: bool
    rules: tuple[FileRule, ...]
    problems: tuple[InvalidRule, ...]


class Problem(NamedTuple):
    """A problem in settings, rules or hooks. Unless it is only a note, calls are refused, or prompt if `asks`."""

    place: str
    line: int | None
    text: str
    only_note: bool = False
    asks: bool = False

    @property
    def where(self) -> str:
        """The place, with the line if it is known."""
        return self.place if self.line is None else f"{self.place}:{self.line}"


class Statement(NamedTuple):
    """One statement of a TOML file, parsed as a separate document."""

    line: int
    data: dict[str, Any]
    is_header: bool


# --- values -------------------------------------------------------------------------------------------------------


def effective(settings: Settings) -> list[Setting]:
    """Return the settings of a runtime."""
    return [Setting(key, _without_secrets(settings[key]), settings.sources[key]) for key in KEYS]


def located(sources: Sources) -> list[Setting]:
    """Return the effective settings with the lines that set them; broken settings are an error, as for calls."""
    settings = effective(config.load(sources.workspace, sources.environ, sources.flags, sources.trusts))
    files = {"config.toml": sources.personal, config.PROJECT: sources.project}
    used = {setting.source for setting in settings}
    lines = {name: _lines(path) for name, path in files.items() if name in used}
    return [
        setting._replace(file=files[setting.source], line=lines[setting.source].get(setting.name))
        if setting.source in files
        else setting
        for setting in settings
    ]


def rule_files(runtime: Runtime) -> list[RuleFile]:
    """Return the files with rules, from the personal one down to the project's."""
    return [
        RuleFile(
            rules.file,
            rules.trusted,
            tuple(FileRule(rule.verdict, rule.text, rule.line) for rule in rules.rules),
            tuple(InvalidRule(problem.line, problem.reason) for problem in rules.problems),
        )
        for rules in runtime.parts.authority.rulesets()
        if rules.file
    ]


def _without_secrets(value: Any) -> Any:
    """Return a value to show: environment variables and headers of MCP servers by name only, URLs without password."""
    if isinstance(value, str):
        return _PASSWORD.sub(r"\1:...@", value)
    if not isinstance(value, dict):
        return value
    hidden = ("env", "headers")
    return {
        name: {key: sorted(part) if key in hidden and isinstance(part, dict) else part for key, part in inner.items()}
        if isinstance(inner, dict)
        else inner
        for name, inner in value.items()
    }


def _lines(path: str) -> dict[str, int]:
    """Return the line on which a valid file sets each key; empty if the file cannot be split into statements."""
    try:
        with open(path, encoding="utf-8") as file:
            statements = list(_statements(file.read()))
    except ValueError:
        return {}
    return {key: line for line, data, _ in statements for key in config.flat_keys(data, path)}


# --- problems -----------------------------------------------------------------------------------------------------


def problems(sources: Sources) -> list[Problem]:
    """Return every problem in settings, rules and hooks."""
    return [problem for check in (_personal, _project, _variables, _policy) for problem in check(sources)]


def _personal(sources: Sources) -> Iterator[Problem]:
    yield from _file(sources.personal, sources.personal, sources.cache)


def _project(sources: Sources) -> Iterator[Problem]:
    problems = list(_file(sources.project, config.PROJECT, sources.cache))
    yield from problems
    if problems or not os.path.exists(sources.project):
        return
    file = ProjectFile("config", sources.workspace, config.PROJECT)
    trusted = sources.trusts(file, file.read())
    for key, line in _lines(sources.project).items():
        if key in config.PERSONAL:
            yield Problem(sources.project, line, f"{key} is ignored: a project cannot set it", only_note=True)
        elif config.needs_trust(key) and not trusted:
            text = f"{key} is ignored until the file is trusted ({places.command('trust')})"
            yield Problem(sources.project, line, text, only_note=True)


def _variables(sources: Sources) -> Iterator[Problem]:
    for name in KEYS:
        variable = config.variable_of(name)
        text = sources.environ.get(variable)
        if text:
            try:
                config.checked(name, config.from_text(name, text), variable)
            except ToolError as error:
                yield Problem(variable, None, _message(error, variable))


def _policy(sources: Sources) -> Iterator[Problem]:
    """Yield the problems in rules and hooks; with broken settings, calls are refused before those are read."""
    try:
        runtime = Runtime(sources.workspace, environ=sources.environ, flags=sources.flags)
    except ToolError:
        return
    with runtime:
        for rules in runtime.parts.authority.rulesets():
            personal = rules.file == RULES
            path = os.path.normpath(
                os.path.join(os.path.dirname(sources.personal) if personal else sources.workspace, rules.file)
            )
            for problem in rules.problems:
                prefix = f"{path if personal else rules.file}, line {problem.line}: "
                yield Problem(path, problem.line, problem.reason.removeprefix(prefix).rstrip("."), asks=True)
            for note in rules.notes:
                yield Problem(path, None, note.rstrip("."), only_note=True)
            if not rules.trusted:
                text = f"allow rules have no effect until the file is trusted ({places.command('trust')})"
                yield Problem(path, None, text, only_note=True)
        for hooks in runtime.parts.authority.session_hooks().of_files():
            for broken in hooks.problems:
                yield Problem(broken.file, broken.line, broken.reason.rstrip("."), asks=True)
            for note in hooks.notes:
                yield Problem("hooks", None, note.rstrip("."), only_note=True)


def _file(path: str, label: str, cache: str) -> Iterator[Problem]:
    """Yield every problem in a settings file because of which calls are refused."""
    try:
        config.read_file(path, label, cache, follow=path == label)
    except ToolError as error:
        problem = Problem(path, _line(path, error), _message(error, label))
        yield from _wrong_statements(path, label) or [problem]


def _wrong_statements(path: str, label: str) -> list[Problem]:
    """Return the problem of each invalid statement; empty if the file cannot be split into statements."""
    problems: list[Problem] = []
    below_wrong_header = False
    try:
        if os.path.getsize(path) > MAX_BYTES or not os.path.isfile(path):
            return []
        with open(path, encoding="utf-8") as file:
            statements = list(_statements(file.read()))
    except (OSError, ValueError, RecursionError):
        return []
    for line, data, is_header in statements:
        if below_wrong_header and not is_header:
            continue
        below_wrong_header = False
        try:
            config.flat_keys(data, label)
        except ToolError as error:
            problems.append(Problem(path, line, _message(error, label)))
            below_wrong_header = is_header
    return problems


def _message(error: ToolError, label: str) -> str:
    return _AT.sub("", error.message.removeprefix(f"{label}: "))


def _line(path: str, error: ToolError) -> int | None:
    position = _AT.search(error.message)
    if position:
        return int(position[1])
    if "(at end of document)" in error.message:
        with open(path, "rb") as file:
            return max(1, len(file.read().splitlines()))
    return None


def _statements(text: str) -> Iterator[Statement]:
    """Split a TOML document into statements; raise ValueError if it is invalid or takes too many attempts.

    The standard library does not report lines. A statement ends at the first line at which it parses on its own.
    """
    import tomllib

    tomllib.loads(text)
    table: list[str] = []
    tries = start = 0
    lines = text.split("\n")
    for end in range(1, len(lines) + 1):
        chunk = "\n".join(lines[start:end])
        try:
            data = tomllib.loads(chunk)
        except ValueError:
            tries += 1
            if tries > _TRIES_MAX:
                raise
            continue
        if data:
            is_header = chunk.lstrip().startswith("[")
            if is_header:
                table = _names(data)
            else:
                for name in reversed(table):
                    data = {name: data}
            yield Statement(start + 1, data, is_header)
        start = end


def _names(header: Any) -> list[str]:
    """Return the names of a table's header, outermost first."""
    names: list[str] = []
    while isinstance(header, dict) and header:
        ((name, header),) = header.items()
        names.append(name)
    return names
