"""`hilt config`: show every setting with its source, and report every problem in the settings."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from hilt import config as configuration
from hilt import places
from hilt.authority.rulebook import RULES
from hilt.config import KEYS
from hilt.errors import ToolError
from hilt.loaders import MAX_BYTES, ProjectFile
from hilt.output.terminal import inert
from hilt.runtime import Runtime, trusts_file
from hilt.surfaces.opening import settings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_TRIES_MAX = 2000  # attempts to find the end of values that span several lines
_WIDTH = 100
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]*@")  # of a URL
_AT = re.compile(r" \(at line (\d+), column (\d+)\)")


class Sources(NamedTuple):
    """Where settings come from."""

    personal: str  # path of a file that may not exist
    project: str
    environ: Mapping[str, str]
    flags: Mapping[str, Any]
    cache: str
    workspace: str


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


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    show = parser.command("show", "Print every setting, its value and where it comes from", _show)
    check = parser.command("check", "Report problems in settings, rules and hooks by file and line", _check)
    check.details = "The exit status is 1 if calls are refused, or prompt, because of a problem."
    for below in (show, check):
        below.add_argument("--json", action="store_true", help="Print JSON")
    parser.examples = [
        ("hilt config show", "Print the effective settings of this folder"),
        ("hilt config check", "Find the line with an error"),
    ]


def _sources(options: Mapping[str, str]) -> Sources:
    env = os.environ
    try:
        cwd = os.getcwd()
    except OSError as error:
        raise ToolError("file_not_found", "The working directory no longer exists.") from error
    workspace = os.path.realpath(options.get("workspace") or places.workspace_dir(env, cwd))
    return Sources(
        os.path.join(places.config_dir(env), "config.toml"),
        os.path.join(workspace, configuration.PROJECT),
        env,
        settings_of(options, cwd),
        os.path.join(places.state_dir(env), "cache"),
        workspace,
    )


# --- show ---------------------------------------------------------------------------------------------------------


def _show(options: Options, arguments: Namespace) -> int:
    """Print the effective settings; broken settings are an error, as they are for calls."""
    sources = _sources(options)
    settings = configuration.load(sources.workspace, sources.environ, sources.flags, _trusts(sources))
    files = {"config.toml": sources.personal, configuration.PROJECT: sources.project}
    lines = {name: _lines(path) for name, path in files.items() if name in settings.sources.values()}
    rows: dict[str, dict[str, Any]] = {}
    for key in KEYS:
        source = settings.sources[key]
        rows[key] = {"value": without_secrets(settings[key]), "source": source}
        if source in files:
            rows[key] |= {"file": files[source], "line": lines[source].get(key)}
    sys.stdout.write(
        json.dumps(rows, ensure_ascii=False) + "\n" if arguments.json else "".join(map(_setting, rows.items()))
    )
    return 0


def without_secrets(value: Any) -> Any:
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


def _trusts(sources: Sources) -> configuration.Trusts:
    return partial(trusts_file, places.state_dir(sources.environ), sources.environ)


def _setting(item: tuple[str, dict[str, Any]]) -> str:
    """Return a setting as a line of TOML, with its source as a comment."""
    key, row = item
    source = row["source"]
    if "file" in row:
        source = row["file"] + (f":{row['line']}" if row["line"] else "")
    if row["value"] is None:
        return f"# {key} is not set\n"
    value = json.dumps(row["value"], ensure_ascii=False)
    if len(key) + len(value) > _WIDTH and isinstance(row["value"], tuple):
        value = "[\n" + "".join(f"  {json.dumps(part, ensure_ascii=False)},\n" for part in row["value"]) + "]"
    return inert(f"{key} = {value}  # {source}\n")


def _lines(path: str) -> dict[str, int]:
    """Return the line on which a valid file sets each key; empty if the file cannot be split into statements."""
    try:
        with open(path, encoding="utf-8") as file:
            statements = list(_statements(file.read()))
    except ValueError:
        return {}
    return {key: line for line, data, _ in statements for key in configuration.flat_keys(data, path)}


# --- check --------------------------------------------------------------------------------------------------------


def _check(options: Options, arguments: Namespace) -> int:
    sources = _sources(options)
    all_problems = problems(options)
    broken = [problem for problem in all_problems if not problem.only_note]
    if arguments.json:
        sys.stdout.write(json.dumps([problem._asdict() for problem in all_problems], ensure_ascii=False) + "\n")
        return 1 if broken else 0
    for problem in all_problems:
        sys.stdout.write(inert(f"{problem.where}: {'note: ' if problem.only_note else ''}{problem.text}\n"))
    for path in (sources.personal, sources.project):
        if not any(problem.place == path for problem in broken):
            sys.stdout.write(inert(f"{path}: {'OK' if os.path.lexists(path) else 'not found'}\n"))
    if broken:
        only_asks = all(problem.asks for problem in broken)
        sys.stdout.write(f"Calls {'prompt' if only_asks else 'are refused'} until you fix this.\n")
    return 1 if broken else 0


def problems(options: Mapping[str, str]) -> list[Problem]:
    """Return every problem in settings, rules and hooks."""
    sources = _sources(options)
    return [problem for check in CHECKS for problem in check(sources)]


def _personal(sources: Sources) -> Iterator[Problem]:
    yield from _file(sources.personal, sources.personal, sources.cache)


def _project(sources: Sources) -> Iterator[Problem]:
    problems = list(_file(sources.project, configuration.PROJECT, sources.cache))
    yield from problems
    if problems or not os.path.exists(sources.project):
        return
    file = ProjectFile("config", sources.workspace, configuration.PROJECT)
    trusted = _trusts(sources)(file, file.read())
    for key, line in _lines(sources.project).items():
        if key in configuration.PERSONAL:
            yield Problem(sources.project, line, f"{key} is ignored: a project cannot set it", only_note=True)
        elif configuration.needs_trust(key) and not trusted:
            text = f"{key} is ignored until the file is trusted ({places.command('trust')})"
            yield Problem(sources.project, line, text, only_note=True)


def _variables(sources: Sources) -> Iterator[Problem]:
    for name in KEYS:
        variable = configuration.variable_of(name)
        text = sources.environ.get(variable)
        if text:
            try:
                configuration.checked(name, configuration.from_text(name, text), variable)
            except ToolError as error:
                yield Problem(variable, None, _message(error, variable))


def _policy(sources: Sources) -> Iterator[Problem]:
    """Yield the problems in rules and hooks; with broken settings, calls are refused before those are read."""
    try:
        runtime = Runtime(sources.workspace, environ=sources.environ, flags=sources.flags)
    except ToolError:
        return
    with runtime:
        for rules in runtime.authority.rulesets():
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
        for hooks in runtime.authority.session_hooks().of_files():
            for broken in hooks.problems:
                yield Problem(broken.file, broken.line, broken.reason.rstrip("."), asks=True)
            for note in hooks.notes:
                yield Problem("hooks", None, note.rstrip("."), only_note=True)


# the checks of `hilt config check`; each yields the problems it finds
CHECKS: tuple[Callable[[Sources], Iterable[Problem]], ...] = (_personal, _project, _variables, _policy)


def _file(path: str, label: str, cache: str) -> Iterator[Problem]:
    """Yield every problem in a settings file because of which calls are refused."""
    try:
        configuration.read_file(path, label, cache, follow=path == label)
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
            configuration.flat_keys(data, label)
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
