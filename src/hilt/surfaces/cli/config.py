"""`hilt config`: every setting with its source, and everything that is wrong with the settings."""

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
from hilt.output.terminal import inert
from hilt.runtime import Runtime, trusts_settings
from hilt.surfaces.opening import settings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_TRIES_MOST = 2000  # at finding the ends of values that go over several lines
_WIDTH = 100
_AT = re.compile(r" \(at line (\d+), column (\d+)\)")


class Sources(NamedTuple):
    """Where settings come from."""

    personal: str  # the path of a file that may be missing
    project: str
    environ: Mapping[str, str]
    flags: Mapping[str, Any]
    cache: str
    workspace: str


class Problem(NamedTuple):
    """What is wrong at one place; calls are refused for it, or ask, unless it is only a note."""

    place: str
    line: int | None
    text: str
    only_note: bool = False
    asks: bool = False

    @property
    def where(self) -> str:
        """The place, with the line where that is known."""
        return self.place if self.line is None else f"{self.place}:{self.line}"


class Statement(NamedTuple):
    """One statement of a TOML file, as the document that it would be alone."""

    line: int
    data: dict[str, Any]
    is_header: bool


def build(parser: Parser) -> None:
    """Say what the command takes."""
    show = parser.command("show", "Print every setting, its value and where it comes from", _show)
    check = parser.command("check", "Say what is wrong with the settings, by file and line", _check)
    check.details = "The exit status is 1 when calls are refused, or ask, because of it."
    for below in (show, check):
        below.add_argument("--json", action="store_true", help="Print JSON")
    parser.examples = [
        ("hilt config show", "Print what is in force in this folder"),
        ("hilt config check", "Find the line of a mistake"),
    ]


def _sources(options: Mapping[str, str]) -> Sources:
    env = os.environ
    try:
        cwd = os.getcwd()
    except OSError as error:
        raise ToolError("file_not_found", "The working directory does not exist any more.") from error
    workspace = os.path.realpath(options.get("workspace") or places.workspace_dir(env, cwd))
    return Sources(
        os.path.join(places.config_dir(env), "config.toml"),
        os.path.join(workspace, ".hilt", "config.toml"),
        env,
        settings_of(options, cwd),
        os.path.join(places.state_dir(env), "cache"),
        workspace,
    )


# --- show ---------------------------------------------------------------------------------------------------------


def _show(options: Options, given: Namespace) -> int:
    """Print what is in force; what is broken is an error here as it is for calls."""
    sources = _sources(options)
    settings = configuration.load(sources.workspace, sources.environ, sources.flags, _trusts(sources))
    files = {"config.toml": sources.personal, ".hilt/config.toml": sources.project}
    lines = {name: _lines(path) for name, path in files.items() if name in settings.sources.values()}
    shown: dict[str, dict[str, Any]] = {}
    for key in KEYS:
        source = settings.sources[key]
        shown[key] = {"value": _told_value(settings[key]), "source": source}
        if source in files:
            shown[key] |= {"file": files[source], "line": lines[source].get(key)}
    sys.stdout.write(
        json.dumps(shown, ensure_ascii=False) + "\n" if given.json else "".join(map(_setting, shown.items()))
    )
    return 0


def _told_value(value: Any) -> Any:
    """Return a value as people are shown it: what may be secret of MCP servers is told by its name alone."""
    if not isinstance(value, dict):
        return value
    hidden = ("env", "headers")
    return {
        name: {key: sorted(inner) if key in hidden and isinstance(inner, dict) else inner for key, inner in one.items()}
        if isinstance(one, dict)
        else one
        for name, one in value.items()
    }


def _trusts(sources: Sources) -> configuration.Trusts:
    return partial(trusts_settings, places.state_dir(sources.environ), sources.environ)


def _setting(item: tuple[str, dict[str, Any]]) -> str:
    """Return a setting as it could stand in a file, with its source beside it."""
    key, shown = item
    source = shown["source"]
    if "file" in shown:
        source = shown["file"] + (f":{shown['line']}" if shown["line"] else "")
    if shown["value"] is None:
        return f"# {key} is not set\n"
    value = json.dumps(shown["value"], ensure_ascii=False)
    if len(key) + len(value) > _WIDTH and isinstance(shown["value"], tuple):
        value = "[\n" + "".join(f"  {json.dumps(part, ensure_ascii=False)},\n" for part in shown["value"]) + "]"
    return inert(f"{key} = {value}  # {source}\n")


def _lines(path: str) -> dict[str, int]:
    """Return the line on which a file that is right sets each key; nothing when it cannot be taken apart."""
    try:
        with open(path, encoding="utf-8") as file:
            statements = list(_statements(file.read()))
    except ValueError:
        return {}
    return {key: line for line, data, _ in statements for key in configuration.flat_keys(data, path)}


# --- check --------------------------------------------------------------------------------------------------------


def _check(options: Options, given: Namespace) -> int:
    sources = _sources(options)
    found = problems(options)
    broken = [problem for problem in found if not problem.only_note]
    if given.json:
        sys.stdout.write(json.dumps([problem._asdict() for problem in found], ensure_ascii=False) + "\n")
        return 1 if broken else 0
    for problem in found:
        sys.stdout.write(inert(f"{problem.where}: {'note: ' if problem.only_note else ''}{problem.text}\n"))
    for path in (sources.personal, sources.project):
        if not any(problem.place == path for problem in broken):
            sys.stdout.write(inert(f"{path}: {'right' if os.path.lexists(path) else 'not there'}\n"))
    if broken:
        only_asks = all(problem.asks for problem in broken)
        sys.stdout.write(f"calls {'ask' if only_asks else 'are refused'} until this is mended\n")
    return 1 if broken else 0


def problems(options: Mapping[str, str]) -> list[Problem]:
    """Return everything that is wrong with settings, rules and hooks."""
    sources = _sources(options)
    return [problem for check in CHECKS for problem in check(sources)]


def _personal(sources: Sources) -> Iterator[Problem]:
    yield from _file(sources.personal, sources.personal, sources.cache)


def _project(sources: Sources) -> Iterator[Problem]:
    shown = ".hilt/config.toml"
    problems = list(_file(sources.project, shown, sources.cache))
    yield from problems
    if problems or not os.path.exists(sources.project):
        return
    with open(sources.project, "rb") as file:
        trusted = _trusts(sources)(sources.project, file.read())
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
                yield Problem(variable, None, _told(error, variable))


def _policy(sources: Sources) -> Iterator[Problem]:
    """Yield what is wrong with rules and hooks; where the settings are broken, calls come to neither."""
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
                told = problem.reason.removeprefix(f"{path if personal else rules.file}, line {problem.line}: ").rstrip(
                    "."
                )
                yield Problem(path, problem.line, told, asks=True)
            for note in rules.notes:
                yield Problem(path, None, note.rstrip("."), only_note=True)
            if not rules.trusted:
                told = f"it denies and asks, and allows nothing until it is trusted ({places.command('trust')})"
                yield Problem(path, None, told, only_note=True)
        for hooks in runtime.authority.session_hooks().of_files():
            for broken in hooks.problems:
                yield Problem(broken.file, broken.line, broken.reason.rstrip("."), asks=True)
            for note in hooks.notes:
                yield Problem("hooks", None, note.rstrip("."), only_note=True)


# what `hilt config check` looks at; each yields what is wrong
CHECKS: tuple[Callable[[Sources], Iterable[Problem]], ...] = (_personal, _project, _variables, _policy)


def _file(path: str, shown: str, cache: str) -> Iterator[Problem]:
    """Yield everything that is wrong with a file, if a call would refuse it."""
    try:
        configuration.read_file(path, shown, cache)
    except ToolError as error:
        whole = Problem(path, _line(path, error), _told(error, shown))
        yield from _wrong_statements(path, shown) or [whole]


def _wrong_statements(path: str, shown: str) -> list[Problem]:
    """Return what is wrong with each statement of a file; nothing when it cannot be taken apart."""
    problems: list[Problem] = []
    below_wrong_header = False
    try:
        if os.path.getsize(path) > configuration.MAX_BYTES or not os.path.isfile(path):
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
            configuration.flat_keys(data, shown)
        except ToolError as error:
            problems.append(Problem(path, line, _told(error, shown)))
            below_wrong_header = is_header
    return problems


def _told(error: ToolError, shown: str) -> str:
    return _AT.sub("", error.message.removeprefix(f"{shown}: "))


def _line(path: str, error: ToolError) -> int | None:
    found = _AT.search(error.message)
    if found:
        return int(found[1])
    if "(at end of document)" in error.message:
        with open(path, "rb") as file:
            return max(1, len(file.read().splitlines()))
    return None


def _statements(text: str) -> Iterator[Statement]:
    """Take a TOML document apart; ValueError when it is none, or too long-winded to be taken apart.

    The standard library tells no lines. A statement ends with the first line that makes it a document by itself.
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
            if tries > _TRIES_MOST:
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
