"""`hilt mcp install|uninstall HOST`: show and write the entry for hilt in the settings of an MCP host.

The rest of the file stays unchanged, byte for byte. A file that cannot be edited this way is left alone, and the entry
is printed for pasting.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from typing import NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.formats import jsonc, toml_tables
from hilt.formats.jsonc import NotEditable
from hilt.surfaces.cli import Usage
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.surfaces.cli.mcp_hosts import HOSTS, Entry, Host, file_of, folder_of
from hilt.surfaces.cli.person import answered
from hilt.surfaces.cli.prompt import Terminal, one_line, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

MAX_BYTES = 64 << 20
_CONTEXT = 3  # lines around a change
_LINE_SHOWN = 300
_PASSED = ("profile", "mode", "session", "dialect", "approve", "tools")  # options to pass on to the server
_MARK = "\ufeff"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


class Change(NamedTuple):
    """A change of a file: its path, the path with links resolved, and its old and new bytes."""

    path: str
    real: str
    before: bytes | None  # None if the file does not exist
    after: bytes


def build(parser: Parser) -> None:
    """Add the commands for MCP hosts to `hilt mcp`."""
    install = parser.command("install", "Add hilt to the MCP servers of a host", _install)
    uninstall = parser.command("uninstall", "Remove that entry", _uninstall)
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
        below.add_argument("--print", action="store_true", help="Print the entry without changing anything")
        below.add_argument("--yes", action="store_true", help="Write without a prompt")
    install.add_argument("--search", action="store_true", help="Offer only tool_search and tool_call to the model")
    install.add_argument("--lean", action="store_true", help="Offer tools with shorter descriptions")
    twice = "Let the host prompt for tool calls as well"
    install.add_argument("--ask-twice", action="store_true", help=twice)
    install.examples = [
        ("hilt mcp install", "List the hosts"),
        ("hilt mcp install claude", "Add hilt to Claude Code, in this project"),
        ("hilt mcp install codex --profile minimal --print", "Print an entry with fewer tools"),
    ]


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise Usage("--name takes 1 to 32 letters, digits, - and _")
    return value


def _install(options: Options, arguments: Namespace) -> int:
    if arguments.host is None:
        return _list(options)
    host = _named(arguments.host)
    if arguments.ask_twice and not host.alone:
        raise Usage(f"{host.title} always prompts as its own settings say: omit --ask-twice")
    return _write_entry(options, arguments, "install", host)


def _uninstall(options: Options, arguments: Namespace) -> int:
    return (
        _list(options)
        if arguments.host is None
        else _write_entry(options, arguments, "uninstall", _named(arguments.host))
    )


def _write_entry(options: Options, arguments: Namespace, verb: str, host: Host) -> int:
    scope = _scope(host, arguments.scope)
    workspace = os.path.abspath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    entry = _entry(host, scope, workspace, options, arguments) if verb == "install" else None
    closing = _closing(host, verb, arguments.name, ask_twice=verb == "install" and arguments.ask_twice)
    path = file_of(host, scope, workspace, os.environ)
    keys = _keys(host, path, arguments.name)
    if arguments.print and entry is not None:
        sys.stdout.write(f"{one_line(path)}\n\n{plain(_snippet(path, keys, entry))}")
        return 0
    change = _change(path, keys, entry)
    if change.before == change.after or (change.before is None and entry is None):
        state = "already has this entry" if entry is not None else "has no such entry"
        sys.stdout.write(f"{one_line(path)} {state}.\n")
        return 0
    if arguments.print:
        sys.stdout.write(_shown(change))
        return 0
    mode = 0o600 if scope == "user" else 0o666
    if arguments.yes:
        above = hilt_above(os.getpid())
        if above is not None:
            raise ToolError(
                "denied",
                f"Tools cannot run hilt mcp {verb}: this process was started by hilt itself ({one_line(above)}).",
                suggestion=f"Ask the user to run: {places.command('mcp', verb)}",
            )
        sys.stdout.write(_shown(change))
        _write(change, mode)
        sys.stdout.write(closing)
        return 0
    return answered(f"mcp {verb}", lambda screen: _asked(screen, closing, change, mode))


def _list(options: Options) -> int:
    workspace = options.get("workspace") or places.workspace_dir(os.environ, os.getcwd())
    width = max(map(len, HOSTS))
    for name, host in HOSTS.items():
        scopes = _scopes(host)
        files = [file_of(host, scope, workspace, os.environ) for scope in scopes]
        choices = "; ".join(f"--{scope} {one_line(path)}" for scope, path in zip(scopes, files, strict=True))
        sys.stdout.write(f"{name:<{width}}  {host.title}: {choices}\n")
    return 0


def _named(name: str) -> Host:
    if name in HOSTS:
        return HOSTS[name]
    from hilt.schema import did_you_mean

    near = did_you_mean(name, HOSTS)
    raise Usage(
        f"unknown MCP host {name!r}" + (f"; did you mean {near}?" if near else f"; known hosts: {', '.join(HOSTS)}")
    )


def _scopes(host: Host) -> list[str]:
    return [*(["project"] if host.project else []), *(["user"] if host.user(os.environ) else [])]


def _scope(host: Host, wanted: str | None) -> str:
    scopes = _scopes(host)
    if wanted is None:
        return host.scope if host.scope in scopes else scopes[0]
    if wanted not in scopes:
        raise Usage(f"{host.title} has no {wanted} settings file: omit --{wanted}")
    return wanted


def _entry(host: Host, scope: str, workspace: str, options: Options, arguments: Namespace) -> Entry:
    """Return the entry: the absolute command of hilt, with the options given to this command."""
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
    return {**host.entry(command, args), **(host.alone if not arguments.ask_twice else {})}


def _keys(host: Host, path: str, name: str) -> list[str]:
    keys = [*host.keys, name]
    if host.keys == ("mcp",):
        # newer versions of this file nest the servers one level deeper
        with suppress(NotEditable, KeyError, TypeError):
            inner = jsonc.parsed(_text(_bytes(os.path.realpath(path)) or b"{}")[1])["mcp"]["servers"]
            if isinstance(inner, dict) and "type" not in inner:
                return ["mcp", "servers", name]
    return keys


def _change(path: str, keys: list[str], entry: Entry | None) -> Change:
    """Return the change that writes an entry, or removes it if `entry` is None."""
    real = os.path.realpath(path)
    before = _bytes(real)
    try:
        mark, text = _text(before or b"")
        after = _edited(real, text, keys, entry)
    except NotEditable as error:
        advice = "Remove the entry by hand." if entry is None else f"Add this by hand:\n{_snippet(path, keys, entry)}"
        raise ToolError(
            "invalid_request", f"{one_line(path)} cannot be edited: {plain(str(error))}.", suggestion=advice.rstrip()
        ) from None
    return Change(path, real, before, (mark + after).encode())


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


def _bytes(path: str) -> bytes | None:
    try:
        # do not block on a pipe without a writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError("not_a_file", f"{one_line(path)} is not a regular file.")
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failed(path, error) from error
    if len(data) > MAX_BYTES:
        raise ToolError("file_too_large", f"{one_line(path)} has more than {MAX_BYTES:,} bytes.")
    return data


def _failed(path: str, error: OSError) -> ToolError:
    code = "not_a_file" if isinstance(error, IsADirectoryError | NotADirectoryError) else "permission_denied"
    return ToolError(code, f"{one_line(path)}: {os.strerror(error.errno or 0)}.")


def _asked(screen: Terminal, closing: str, change: Change, mode: int) -> int:
    """Show the change, prompt, and write it."""
    screen.write(f"{_place(change)}\n" + screen.page().diff(_difference(change), whole=True))
    screen.write("Write this? [y/n] > ")
    answer = screen.read()
    if answer.strip().casefold() not in ("y", "yes"):
        screen.write(("" if answer else "\n") + "Nothing was written.\n")
        return 1
    _write(change, mode)
    screen.write(closing)
    return 0


def _closing(host: Host, verb: str, name: str, *, ask_twice: bool) -> str:
    """Return the closing lines: what the entry means, and what the user still has to do."""
    if verb == "uninstall":
        return f"Removed. Restart {host.title} to apply the change.\n"
    lines = [f"Installed. Restart {host.title} to apply the change."]
    if host.alone and not ask_twice:
        lines.append(
            f"{host.title} itself does not prompt for these tools: hilt decides on each call, and prompts where its "
            f"rules say so. With --ask-twice, {host.title} prompts as well, and refuses the calls when nobody answers."
        )
    lines.append(f"Next: {host.step.replace('NAME', name)}")
    return "\n".join(lines) + "\n"


def _shown(change: Change) -> str:
    return f"{_place(change)}\n{plain(_difference(change))}\n"


def _place(change: Change) -> str:
    link = f" -> {change.real}" if change.real != os.path.abspath(change.path) else ""
    return one_line(change.path + link) + ("" if change.before is not None else " (new)")


def _difference(change: Change) -> str:
    """Return the changed lines with context, as one hunk: files may be large, and the change is in one place."""
    old, new = (_text(data or b"")[1].split("\n") for data in (change.before, change.after))
    shortest = min(len(old), len(new))
    same = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    most = shortest - same
    end = next((index for index in range(most) if old[-1 - index] != new[-1 - index]), most)
    first = max(0, same - _CONTEXT)
    after = old[len(old) - end :][:_CONTEXT]
    after = after[:-1] if end <= _CONTEXT and after[-1:] == [""] else after  # the end of the last line
    removed, added = old[same : len(old) - end], new[same : len(new) - end]
    context = len(after) + same - first
    lines = [f"@@ -{first + 1},{context + len(removed)} +{first + 1},{context + len(added)} @@"]
    lines += [f" {line}" for line in old[first:same]]
    lines += [f"-{line}" for line in removed] + [f"+{line}" for line in added]
    lines += [f" {line}" for line in after]
    return "\n".join(line if len(line) <= _LINE_SHOWN else line[:_LINE_SHOWN] + "…" for line in lines)


def _write(change: Change, mode: int) -> None:
    """Replace the file atomically; a new file gets this mode."""
    folder, name = os.path.split(change.real)
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb") as file:
                _keep_owner(change, file.fileno())
                file.write(change.after)
                file.flush()
                os.fsync(file.fileno())
            if _bytes(change.real) != change.before:
                raise ToolError(
                    "stale_file",
                    f"{one_line(change.path)} was changed by another program in the meantime.",
                    suggestion="Run the command again.",
                )
            os.replace(temporary, change.real)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise _failed(change.path, error) from error


def _keep_owner(change: Change, descriptor: int) -> None:
    """Give the new file the permissions and the owner of the old one."""
    if change.before is None:
        return
    status = os.stat(change.real)
    if not status.st_mode & 0o222:
        # the folder may allow replacing it, but its owner made it read-only
        raise ToolError("permission_denied", f"{one_line(change.path)} is read-only.")
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
