"""`hilt config`: show every setting with its source, and report every problem in the settings."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from hilt import places
from hilt.desk.settings import Setting, Sources, located, problems
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.opening import settings_of

_WIDTH = 100


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


def sources_of(options: Mapping[str, str]) -> Sources:
    """Return where the settings for these options come from."""
    try:
        cwd = os.getcwd()
    except OSError as error:
        raise ToolError("file_not_found", "The working directory no longer exists.") from error
    workspace = os.path.realpath(options.get("workspace") or places.workspace_dir(os.environ, cwd))
    return Sources(workspace, os.environ, settings_of(options, cwd))


def _show(options: Options, arguments: Namespace) -> int:
    settings = located(sources_of(options))
    if arguments.json:
        return print_json({setting.name: _fields(setting) for setting in settings})
    sys.stdout.write("".join(map(_as_line, settings)))
    return 0


def _fields(setting: Setting) -> dict[str, object]:
    _, value, source, file, line = setting
    return {"value": value, "source": source} | ({} if file is None else {"file": file, "line": line})


def _as_line(setting: Setting) -> str:
    """Return a setting as a line of TOML, with its source as a comment."""
    if setting.value is None:
        return f"# {setting.name} is not set\n"
    source = setting.file or setting.source
    line = f":{setting.line}" if setting.line else ""
    value = json.dumps(setting.value, ensure_ascii=False)
    if len(setting.name) + len(value) > _WIDTH and isinstance(setting.value, tuple):
        value = "[\n" + "".join(f"  {json.dumps(part, ensure_ascii=False)},\n" for part in setting.value) + "]"
    return inert(f"{setting.name} = {value}  # {source}{line}\n")


def _check(options: Options, arguments: Namespace) -> int:
    sources = sources_of(options)
    found = problems(sources)
    broken = [problem for problem in found if not problem.only_note]
    if arguments.json:
        print_json(found)
        return 1 if broken else 0
    for problem in found:
        sys.stdout.write(inert(f"{problem.where}: {'note: ' if problem.only_note else ''}{problem.text}\n"))
    for path in (sources.personal, sources.project):
        if not any(problem.place == path for problem in broken):
            sys.stdout.write(inert(f"{path}: OK{'' if os.path.lexists(path) else ' (not found)'}\n"))
    if broken:
        only_asks = all(problem.asks for problem in broken)
        sys.stdout.write(f"Calls {'prompt' if only_asks else 'are refused'} until you fix this.\n")
    return 1 if broken else 0
