"""`hilt mcp install|uninstall HOST`: show and write the entry for hilt in the settings of an MCP host.

The rest of the file stays unchanged, byte for byte. If a file cannot be edited this way, the entry is printed for
pasting instead.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hilt import places
from hilt.errors import ToolError
from hilt.formats import jsonc, toml_tables
from hilt.formats.invisible import one_line, revealed
from hilt.formats.jsonc import NotEditable
from hilt.servers.configured import starts_hilt
from hilt.surfaces.cli import Usage
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.surfaces.cli.mcp_hosts import (
    HOSTS,
    Entry,
    Headers,
    Host,
    OwnTools,
    file_of,
    folder_of,
    own_tools_file,
    path_to_write,
)
from hilt.surfaces.cli.person import run_for_person
from hilt.surfaces.cli.serve import PORT
from hilt.surfaces.cli.settings_file import SettingsChange, read_bytes
from hilt.surfaces.terminal_prompt import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_PASSED = ("profile", "mode", "session", "dialect", "approve", "tools")  # options to pass on to the server
_URL = f"http://127.0.0.1:{PORT}"
_MARK = "\ufeff"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")

Edit = Callable[[str], str]  # of the text of a settings file


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
    return _write_entry(options, arguments, "install", host)


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


def _uninstall(options: Options, arguments: Namespace) -> int:
    return (
        _list(options)
        if arguments.host is None
        else _write_entry(options, arguments, "uninstall", _find_host(arguments.host))
    )


def _write_entry(options: Options, arguments: Namespace, verb: str, host: Host) -> int:
    scope = _scope(host, arguments.scope)
    workspace = os.path.abspath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    entry = _entry(host, scope, workspace, options, arguments) if verb == "install" else None
    only_hilt = verb == "install" and arguments.only_hilt
    closing = _closing(host, verb, arguments.name, ask_twice=verb == "install" and arguments.ask_twice)
    path = file_of(host, scope, workspace, os.environ)
    if verb == "install" and arguments.http is not None:
        closing += _about_token(arguments.host, path)
    to_write = partial(path_to_write, scope=scope, workspace=workspace)
    keys = _keys(host, to_write(path), arguments.name)
    if arguments.print and entry is not None and not only_hilt:
        sys.stdout.write(f"{one_line(path)}\n\n{revealed(_snippet(path, keys, entry))}")
        return 0
    edits = {path: [_entry_edit(path, keys, entry)]}
    own = host.own_tools
    if own is not None and (entry is None or only_hilt):
        other = own_tools_file(own, path, scope, workspace, os.environ)
        edits.setdefault(other, []).append(partial(_turn_on if entry is None else _turn_off, own))
    by_hand = "Remove the entry by hand." if entry is None else f"Add this by hand:\n{_snippet(path, keys, entry)}"
    changes = [_change(file, to_write(file), steps, by_hand) for file, steps in edits.items()]
    changes = [change for change in changes if change.after != (change.before or b"")]
    if not changes:
        state = "already has this entry" if entry is not None else "has no such entry"
        sys.stdout.write(f"{one_line(path)} {state}.\n")
        return 0
    if arguments.print:
        sys.stdout.write("".join(change.as_text() for change in changes))
        return 0
    mode = _mode(scope)
    if arguments.yes:
        above = hilt_above(os.getpid())
        if above is not None:
            raise ToolError(
                "denied",
                f"Tools cannot run hilt mcp {verb}: this process was started by hilt itself ({one_line(above)}).",
                suggestion=f"Ask the user to run: {places.command('mcp', verb, arguments.host)}",
            )
        for change in changes:
            sys.stdout.write(change.as_text())
            change.write(mode)
        sys.stdout.write(closing)
        return 0
    command = f"mcp {verb} {arguments.host}{' --only-hilt' * only_hilt}"
    return run_for_person(command, lambda screen: _confirm(screen, closing, changes, mode))


def default_entry(host: Host, options: Options) -> tuple[SettingsChange, int, str]:
    """Return the change that `hilt mcp install` proposes for a host, the mode of a new file, and the closing lines."""
    from argparse import Namespace

    arguments = Namespace(search=False, lean=False, ask_twice=False, http=None)
    scope = _scope(host, None)
    workspace = os.path.abspath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    path = file_of(host, scope, workspace, os.environ)
    real = path_to_write(path, scope, workspace)
    keys, entry = _keys(host, real, "hilt"), _entry(host, scope, workspace, options, arguments)
    by_hand = f"Add this by hand:\n{_snippet(path, keys, entry)}"
    change = _change(path, real, [_entry_edit(path, keys, entry)], by_hand)
    return change, _mode(scope), _closing(host, "install", "hilt", ask_twice=False)


def own_entries(host: Host, scope: str, workspace: str) -> list[SettingsChange]:
    """Return the changes that remove every entry for hilt from the settings of a host, whatever its name."""
    path = file_of(host, scope, workspace, os.environ)
    to_write = partial(path_to_write, scope=scope, workspace=workspace)
    real = to_write(path)
    data = read_bytes(real)
    if data is None:
        return []
    by_hand = f"Remove the entry for hilt from {one_line(path)} by hand."
    try:
        text = _text(data)[1]
        servers = toml_tables.parse(text) if real.endswith(".toml") else jsonc.parse(text) if text.strip() else {}
    except NotEditable:
        return []  # the host cannot read it either
    *keys, _ = _keys(host, real, "")
    for key in keys:
        servers = servers.get(key) if isinstance(servers, dict) else None
    names = [name for name, entry in servers.items() if _is_own(entry)] if isinstance(servers, dict) else []
    if not names:
        return []
    edits = {path: [_entry_edit(path, [*keys, name], None) for name in names]}
    if host.own_tools is not None:
        other = own_tools_file(host.own_tools, path, scope, workspace, os.environ)
        edits.setdefault(other, []).append(partial(_turn_on, host.own_tools))
    changes = [_change(file, to_write(file), steps, by_hand) for file, steps in edits.items()]
    return [change for change in changes if change.after != (change.before or b"")]


def _is_own(entry: Any) -> bool:
    """Whether an entry starts hilt, or connects to `hilt serve` with the agents' token."""
    with suppress(OSError), open(os.path.join(places.state_dir(os.environ), "serve-agent-token")) as file:
        token = file.read().strip()
        if token and token in json.dumps(entry, default=str):
            return True
    return starts_hilt(entry)


def _mode(scope: str) -> int:
    return 0o600 if scope == "user" else 0o666


def _list(options: Options) -> int:
    workspace = options.get("workspace") or places.workspace_dir(os.environ, os.getcwd())
    width = max(map(len, HOSTS))
    for name, host in HOSTS.items():
        sys.stdout.write(f"{name:<{width}}  {host.title}\n")
        for scope in scopes_of(host):
            path = file_of(host, scope, workspace, os.environ)
            sys.stdout.write(f"{'':<{width}}  --{scope:<7}  {one_line(path)}\n")
    return 0


def _find_host(name: str) -> Host:
    if name in HOSTS:
        return HOSTS[name]
    from hilt.schema import did_you_mean

    near = did_you_mean(name, HOSTS)
    raise Usage(
        f"unknown MCP host {name!r}" + (f"; did you mean {near}?" if near else f"; known hosts: {', '.join(HOSTS)}")
    )


def scopes_of(host: Host) -> list[str]:
    """Return for whom a host has settings files: the project, the user, or both."""
    return [*(["project"] if host.project else []), *(["user"] if host.user(os.environ) else [])]


def _scope(host: Host, requested: str | None) -> str:
    scopes = scopes_of(host)
    if requested is None:
        return host.scope if host.scope in scopes else scopes[0]
    if requested not in scopes:
        raise Usage(f"{host.title} has no {requested} settings file: omit --{requested}")
    return requested


def _entry(host: Host, scope: str, workspace: str, options: Options, arguments: Namespace) -> Entry:
    """Return the entry: the absolute command of hilt, with the options given to this command, or a URL."""
    alone = host.alone if not arguments.ask_twice else {}
    if arguments.http is not None and host.remote is not None:
        return {**host.remote(_address(arguments.http, options), _headers()), **alone}
    command, *args = places.own_command()
    args.append("mcp")
    folder = folder_of(host, scope, workspace)
    if folder is None and scope == "user" and "workspace" in options:
        folder = workspace
    if folder is not None:
        args += ["--workspace", folder]
    for name in _PASSED:
        if name in options:
            args += [f"--{name}", options[name]]
    for path in filter(None, options.get("tools-dir", "").split(os.pathsep)):
        args += ["--tools-dir", os.path.abspath(path)]
    args += [f"--{name}" for name in ("search", "lean") if getattr(arguments, name)]
    return {**host.entry(command, args), **alone}


def _address(url: str, options: Options) -> str:
    """Return the URL of the MCP endpoint of a server, with the workspace if one is given."""
    from urllib.parse import quote, urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Usage(f"--http takes the address of hilt serve, such as {_URL}, not {url!r}")
    folder = f"?workspace={quote(os.path.realpath(options['workspace']))}" if "workspace" in options else ""
    return f"{parts.scheme}://{parts.netloc}/mcp{folder}"


def _headers() -> Headers:
    from hilt.surfaces.http.tokens import agents_token

    state = places.state_dir(os.environ)
    places.make_state_dir(state)
    return {"Authorization": f"Bearer {agents_token(state)}"}


def _about_token(name: str, path: str) -> str:
    """Return closing lines for an entry with a token."""
    lines = [f"hilt serve must be running; remove the entry with: {places.command('mcp', 'uninstall', name, '--user')}"]
    with suppress(OSError):
        if os.stat(path).st_mode & 0o077:
            lines.append(f"Others on this machine can read the token in {one_line(path)}: chmod 600 keeps them out.")
    return "".join(f"{line}\n" for line in lines)


def _keys(host: Host, real: str, name: str) -> list[str]:
    keys = [*host.keys, name]
    if host.keys == ("mcp",):
        # newer versions of this file nest the servers one level deeper
        with suppress(NotEditable, KeyError, TypeError):
            inner = jsonc.parse(_text(read_bytes(real) or b"{}")[1])["mcp"]["servers"]
            if isinstance(inner, dict) and "type" not in inner:
                return ["mcp", "servers", name]
    return keys


def _change(path: str, real: str, edits: Sequence[Edit], by_hand: str) -> SettingsChange:
    """Return the change that the edits make to a file; `by_hand` is what to do if it cannot be edited."""
    before = read_bytes(real)
    try:
        mark, text = _text(before or b"")
        for edit in edits:
            text = edit(text)
    except NotEditable as error:
        raise ToolError(
            "invalid_request",
            f"{one_line(path)} cannot be edited: {revealed(str(error))}.",
            suggestion=by_hand.rstrip(),
        ) from None
    return SettingsChange(path, real, before, (mark + text).encode())


def _entry_edit(path: str, keys: list[str], entry: Entry | None) -> Edit:
    return lambda text: _edited(os.path.realpath(path), text, keys, entry)


def _turn_off(own: OwnTools, text: str) -> str:
    """Turn off the host's own tools; tools that the user turned off stay off."""
    if isinstance(own.off, Mapping):
        for name, value in own.off.items():
            text = jsonc.with_member(text, [*own.keys, name], value)
        return text
    names = _names(own, text)
    missing = [name for name in own.off if name not in names]
    return jsonc.with_member(text, own.keys, [*names, *missing]) if missing else text


def _turn_on(own: OwnTools, text: str) -> str:
    """Turn the host's own tools back on, if everything that --only-hilt turns off is off."""
    if isinstance(own.off, Mapping):
        current = _value(own, text)
        if isinstance(current, dict) and own.off.items() <= current.items():
            for name in own.off:
                text = jsonc.without_member(text, [*own.keys, name])
        return text
    names = _names(own, text)
    others = [name for name in names if name not in own.off]
    if not set(own.off) <= set(names):
        return text
    return jsonc.with_member(text, own.keys, others) if others else jsonc.without_member(text, own.keys)


def _names(own: OwnTools, text: str) -> list[str]:
    current = _value(own, text)
    if current is not None and not isinstance(current, list):
        raise NotEditable(f"{'.'.join(own.keys)} is not a list")
    return current or []


def _value(own: OwnTools, text: str) -> Any:
    value = jsonc.parse(text) if text.strip() else None
    for key in own.keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _edited(path: str, text: str, keys: list[str], entry: Entry | None) -> str:
    if path.endswith(".toml"):
        return toml_tables.without_table(text, keys) if entry is None else toml_tables.with_table(text, keys, entry)
    return jsonc.without_member(text, keys) if entry is None else jsonc.with_member(text, keys, entry)


def _snippet(path: str, keys: list[str], entry: Entry) -> str:
    return _edited(path, "", keys, entry)


def _text(data: bytes) -> tuple[str, str]:
    """Return the byte order mark of a file, if it has one, and the text after it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotEditable("it is not UTF-8") from None
    return (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)


def _confirm(screen: Terminal, closing: str, changes: list[SettingsChange], mode: int) -> int:
    if not all(change.confirm(screen, mode) for change in changes):
        return 1
    screen.write(closing)
    return 0


def _closing(host: Host, verb: str, name: str, *, ask_twice: bool) -> str:
    """Return the closing lines: the effect of the entry, and what remains for the user to do."""
    if verb == "uninstall":
        return f"Removed. Restart {host.title} to apply the change.\n"
    lines = [f"Installed. Restart {host.title} to apply the change."]
    if host.alone and not ask_twice:
        lines.append(
            f"{host.title} itself does not prompt for these tools: hilt decides on each call, and prompts if its rules "
            f"require it. With --ask-twice, {host.title} prompts as well, and rejects calls that nobody approves."
        )
    lines.append(f"Next: {host.step.replace('NAME', name)}")
    return "\n".join(lines) + "\n"
