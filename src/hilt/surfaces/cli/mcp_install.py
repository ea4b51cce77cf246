"""`hilt mcp install|uninstall HOST`: show and write the entry for hilt in the settings of an MCP host.

If a file cannot be edited, the entry is printed for pasting instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from hilt import places
from hilt.desk import installed_files
from hilt.desk.mcp_entries import entry_text, with_entry, without_entry
from hilt.desk.mcp_hosts import HOSTS, Entry, Host, HostFile, host_files
from hilt.desk.personal_files import SettingsChange
from hilt.formats.invisible import one_line, revealed
from hilt.surfaces import Usage
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, suggestion
from hilt.surfaces.cli.person import change_text, confirm, refuse_tools, run_for_person
from hilt.surfaces.cli.serve import PORT
from hilt.surfaces.terminal_prompt import Terminal

_PASSED = ("profile", "mode", "session", "dialect", "approve", "tools")  # options to pass on to the server
_URL = f"http://127.0.0.1:{PORT}"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def build(parser: Parser) -> None:
    """Add the commands for MCP hosts to `hilt mcp`."""
    install = parser.command("install", "Add hilt to the MCP servers of a host", _install)
    uninstall = parser.command("uninstall", "Remove hilt from the MCP servers of a host", _uninstall)
    for below in (install, uninstall):
        below.details = """Shows the change, prompts, and writes it; the rest of the file stays unchanged. Without HOST,
the hosts and their files are listed."""
        below.add_argument("host", metavar="HOST", nargs="?", help=f"The MCP host: {', '.join(HOSTS)}")
        scope = below.add_mutually_exclusive_group()
        for name, whose in (("project", "this project"), ("user", "the user")):
            help = f"Change the file of {whose}"
            scope.add_argument(f"--{name}", dest="scope", action="store_const", const=name, help=help)
        below.add_argument(
            "--name", metavar="NAME", type=_name, default="hilt", help="The name of the entry; hilt by default"
        )
        what = "entry" if below is install else "change"
        below.add_argument("--print", action="store_true", help=f"Print the {what} without writing it")
        below.add_argument("--yes", action="store_true", help="Write without a prompt")
    install.add_argument("--search", action="store_true", help="Offer only tool_search and tool_call to the model")
    install.add_argument("--lean", action="store_true", help="Offer tools with shorter descriptions")
    http = f"Connect to hilt serve at this URL, {_URL} by default, with the agents' token; in the user's file only"
    install.add_argument("--http", metavar="URL", nargs="?", const=_URL, help=http)
    twice = "Let the host prompt for tool calls as well"
    install.add_argument("--ask-twice", action="store_true", help=twice)
    only = "Turn off the host's own tools for files and commands, so that hilt decides on every change and can undo it"
    install.add_argument("--only-hilt", action="store_true", help=only)
    uninstall.examples = [("hilt mcp uninstall claude", "Remove hilt from Claude Code, in this project")]
    install.examples = [
        ("hilt mcp install", "List the hosts"),
        ("hilt mcp install claude", "Add hilt to Claude Code, in this project"),
        ("hilt mcp install claude --only-hilt", "Add it, and turn off Claude Code's own file and shell tools"),
        ("hilt mcp install codex --profile minimal --print", "Print an entry with fewer tools"),
        ("hilt mcp install cursor --http", "Let Cursor connect to hilt serve"),
    ]


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise Usage("--name takes 1 to 32 letters, digits, - and _")
    return value


# --- what to write --------------------------------------------------------------------------------------------------


def _install(options: Options, arguments: Namespace) -> int:
    if arguments.host is None:
        return _list(options)
    host = _find_host(arguments.host)
    if arguments.ask_twice and not host.alone:
        raise Usage(f"the prompts of {host.title} follow its own settings: omit --ask-twice")
    if arguments.http is not None:
        _check_http(host, options, arguments)
    if arguments.only_hilt and host.own_tools is None:
        able = ", ".join(name for name, other in HOSTS.items() if other.own_tools is not None)
        raise Usage(f"{host.title} has no setting that turns off its own tools; these hosts do: {able}")
    file = _file_of(host, arguments.scope, options)
    flags = [f"--{name}" for name in ("search", "lean") if getattr(arguments, name)]
    if arguments.http is None or host.remote is None:
        entry = _entry(file, options, flags)
    else:
        entry = host.remote(_address(arguments.http, options), _headers())
    entry |= {} if arguments.ask_twice else host.alone
    if arguments.print and not arguments.only_hilt:
        sys.stdout.write(f"{one_line(file.path)}\n\n{revealed(entry_text(file, arguments.name, entry))}")
        return 0
    changes = with_entry(file, arguments.name, entry, only_hilt=arguments.only_hilt)
    in_project = file.scope == "project"
    closing = closing_lines(host, arguments.name, ask_twice=arguments.ask_twice, in_project=in_project)
    if arguments.http is not None:
        closing += _about_token(arguments.host, file.path)
    command = f"mcp install {arguments.host}{' --only-hilt' * arguments.only_hilt}"
    return _write(changes, file, arguments, closing, command, "already has this entry")


def _uninstall(options: Options, arguments: Namespace) -> int:
    if arguments.host is None:
        return _list(options)
    host = _find_host(arguments.host)
    file = _file_of(host, arguments.scope, options)
    changes = without_entry(file, arguments.name)
    closing = f"Removed. Restart {host.title} to apply the change.\n"
    return _write(changes, file, arguments, closing, f"mcp uninstall {arguments.host}", "has no such entry")


def proposal(host: Host, options: Options) -> tuple[HostFile, list[SettingsChange]]:
    """Return the file of a host, and the changes that `hilt mcp install` proposes without further options."""
    file = _file_of(host, None, options)
    return file, with_entry(file, "hilt", {**_entry(file, options), **host.alone})


def _check_http(host: Host, options: Options, arguments: Namespace) -> None:
    """Reject options that an entry with a URL cannot express. It goes to the user's file, as it contains a token."""
    if host.remote is None:
        raise Usage(f"{host.title} does not support servers at a URL: omit --http")
    if arguments.scope == "project":
        raise Usage("--http writes a token, which does not belong in a project file: omit --project")
    misplaced = [f"--{name}" for name in (*_PASSED, "tools-dir") if name in options]
    misplaced += [f"--{name}" for name in ("search", "lean") if getattr(arguments, name)]
    if misplaced:
        raise Usage(f"with --http, {misplaced[0]} is an option of hilt serve: omit it here")
    arguments.scope = "user"


def _find_host(name: str) -> Host:
    if name in HOSTS:
        return HOSTS[name]
    near = suggestion(name, HOSTS) or f"; known hosts: {', '.join(HOSTS)}"
    raise Usage(f"unknown MCP host {name!r}{near}")


def _file_of(host: Host, scope: str | None, options: Options) -> HostFile:
    files = host_files(host, _workspace(options))
    if scope is None:
        return files.get(host.scope) or next(iter(files.values()))
    if scope not in files:
        raise Usage(f"{host.title} has no {scope} settings file: omit --{scope}")
    return files[scope]


def _workspace(options: Options) -> str:
    return os.path.abspath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))


def _entry(file: HostFile, options: Options, flags: Sequence[str] = ()) -> Entry:
    """Return the entry that starts hilt, with the options given to this command.

    Others use a project's file on their machines, so there hilt is looked up on PATH.
    """
    command, *args = ["hilt"] if file.scope == "project" else places.own_command()
    args.append("mcp")
    folder = file.folder
    if folder is None and file.scope == "user" and "workspace" in options:
        folder = file.workspace
    if folder is not None:
        args += ["--workspace", folder]
    for name in _PASSED:
        if name in options:
            args += [f"--{name}", options[name]]
    for path in filter(None, options.get("tools-dir", "").split(os.pathsep)):
        args += ["--tools-dir", os.path.abspath(path)]
    return file.host.entry(command, [*args, *flags])


def _address(url: str, options: Options) -> str:
    """Return the URL of the MCP endpoint of a server, with the workspace if one is given."""
    from urllib.parse import quote, urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Usage(f"--http takes the address of hilt serve, such as {_URL}, not {url!r}")
    folder = f"?workspace={quote(os.path.realpath(options['workspace']))}" if "workspace" in options else ""
    return f"{parts.scheme}://{parts.netloc}/mcp{folder}"


def _headers() -> dict[str, str]:
    from hilt.surfaces.http.tokens import agents_token

    state = places.state_dir(os.environ)
    places.make_state_dir(state)
    return {"Authorization": f"Bearer {agents_token(state)}"}


# --- show, and write ------------------------------------------------------------------------------------------------


def _list(options: Options) -> int:
    width = max(map(len, HOSTS))
    for name, host in HOSTS.items():
        sys.stdout.write(f"{name:<{width}}  {host.title}\n")
        for scope, file in host_files(host, _workspace(options)).items():
            sys.stdout.write(f"{'':<{width}}  --{scope:<7}  {one_line(file.path)}\n")
    return 0


def _write(
    changes: Sequence[SettingsChange], file: HostFile, arguments: Namespace, closing: str, command: str, unchanged: str
) -> int:
    """Show the changes, and write those that the person confirms; `command` is what to repeat at a terminal."""
    if not changes:
        sys.stdout.write(f"{one_line(file.path)} {unchanged}.\n")
        return 0
    if arguments.print:
        sys.stdout.write("".join(map(change_text, changes)))
        return 0
    if not arguments.yes:
        return run_for_person(command, lambda screen: _confirm(screen, closing, changes, file))
    refuse_tools(command)
    for change in changes:
        sys.stdout.write(change_text(change))
        installed_files.write(change, mode_of(file), file.workspace)
    sys.stdout.write(closing)
    return 0


def mode_of(file: HostFile) -> int:
    """Return the mode of a new settings file."""
    return 0o600 if file.scope == "user" else 0o666


def _confirm(screen: Terminal, closing: str, changes: Sequence[SettingsChange], file: HostFile) -> int:
    write = partial(installed_files.write, mode=mode_of(file), workspace=file.workspace)
    if not all(confirm(screen, change, write) for change in changes):
        return 1
    screen.write(closing)
    return 0


def closing_lines(host: Host, name: str, *, ask_twice: bool, in_project: bool) -> str:
    """Return the lines after an installation: its effect, and what remains for the user to do."""
    lines = [f"Installed. Restart {host.title} to apply the change."]
    if host.alone and not ask_twice:
        lines.append(
            f"{host.title} itself does not prompt for these tools: hilt decides on each call, and prompts if its rules "
            f"require it. With --ask-twice, {host.title} prompts as well, and rejects calls that nobody approves."
        )
    if in_project and places.command() != "hilt":
        lines.append(path_note())
    lines.append(f"Next: {host.step.replace('NAME', name)}")
    return "\n".join(lines) + "\n"


def path_note() -> str:
    """Return a line on entries in project files, for a hilt that is not on PATH."""
    return f"Entries in project files start hilt from PATH, where this one is not: {places.command()}"


def _about_token(name: str, path: str) -> str:
    """Return closing lines for an entry with a token."""
    lines = [f"hilt serve must be running; remove the entry with: {places.command('mcp', 'uninstall', name, '--user')}"]
    with suppress(OSError):
        if os.stat(path).st_mode & 0o077:
            lines.append(f"Others on this machine can read the token in {one_line(path)}: chmod 600 keeps them out.")
    return "".join(f"{line}\n" for line in lines)
