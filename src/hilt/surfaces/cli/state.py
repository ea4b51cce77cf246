"""`hilt state`: what hilt has stored on this machine; back it up, restore it, clean it."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing

from hilt import places
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.running.cleaning import clean
from hilt.state import archive, inventory
from hilt.state.directory import free_bytes
from hilt.state.history import History
from hilt.state.tables import open_state
from hilt.surfaces.cli import Usage
from hilt.surfaces.cli.layout import wrapped
from hilt.surfaces.cli.person import refuse_tools, run_for_person
from hilt.surfaces.cli.prompt import Terminal
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_DAY_NS = 86_400 * 1_000_000_000
_UNITS = ("bytes", "KB", "MB", "GB")
_INDENT = 26  # of the text beside size and name


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _show
    parser.details = """The state directory holds undo data, the record of calls, approvals, transcripts and more. Its
total size is limited by state.mb. Nothing leaves this machine."""
    showing = parser.command("show", "Show what is stored where, and how large it is", _show)
    for below in (parser, showing):
        below.add_argument("--json", action="store_true", help="Print JSON")
    saving = parser.command(
        "backup", "Write undo data, records, approvals, tasks and transcripts to one file", _back_up
    )
    saving.add_argument("file", metavar="FILE", nargs="?", help="A new file; by default hilt-DATE.tar.gz here")
    restoring = parser.command("restore", "Replace the state with a backup", _restore)
    restoring.add_argument("file", metavar="FILE", help="The backup")
    restoring.add_argument("--yes", action="store_true", help="Restore without a prompt")
    cleaning = parser.command("clean", "Remove data that exceeds the limits in the settings", _clean)
    days = "Also delete undo data older than this, in all folders"
    cleaning.add_argument("--undo-days", metavar="DAYS", type=_days, help=days)
    saving.details = """Other processes may keep running. The file contains old contents of your files, and is
readable by you alone. Settings, personal tools, skills and memory are in the configuration directory, and are not part
of it."""
    restoring.details = """Stops the resident process; no other hilt process may be running. The replaced state is kept
in a folder beside it. Trust, approvals and grants of the backup apply again."""
    cleaning.details = """Removes data that is older or larger than its own limits, such as output.keep_days. If the
total is still larger than state.mb, removes caches, private folders of commands, long outputs, events, transcripts,
removed skills and old copies of databases, in this order, the oldest first. Files in use are skipped. Undo data is
limited by undo.calls and undo.mb in each folder. hilt also does this automatically, once an hour."""
    showing.examples = [("hilt state show --json", "Print the same as JSON")]
    restoring.examples = [("hilt state restore hilt-20261116-081200.tar.gz", "Restore a backup")]
    parser.examples = [
        ("hilt state", "Show what is stored, and how large it is"),
        ("hilt state backup", "Write a backup to the current folder"),
        ("hilt state clean --undo-days 90", "Clean up, and delete undo data older than 90 days"),
    ]


def _days(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 7):
        raise Usage(f"--undo-days takes a number of days, not {value[:100]!r}")
    return int(value)


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        state, quota = runtime.state, runtime.settings["state.mb"] << 20
    sizes = inventory.measure(state)
    total, free = sum(size.bytes for size in sizes), free_bytes(state)
    elsewhere = _elsewhere(state)
    if arguments.json:
        parts = [
            {
                "name": size.part.name,
                "holds": size.part.holds,
                "limits": size.part.limits,
                "names": list(size.names),
                "bytes": size.bytes,
                "files": size.files,
                "in_backup": size.part.saved,
            }
            for size in sizes
        ]
        data = {"directory": state, "bytes": total, "quota_bytes": quota, "free_bytes": free, "parts": parts}
        data["elsewhere"] = [{"path": path, "holds": holds, "bytes": _size(path)} for path, holds in elsewhere.items()]
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        return 0
    room = "" if free is None else f"; {readable(free)} free on the disk"
    sys.stdout.write(f"{inert(state)}: {readable(total)} of {readable(quota)} (state.mb){room}\n\n")
    for size in sizes:
        if size.names:
            facts = (size.part.holds, ", ".join(size.names), f"limited by: {size.part.limits}")
            text = f"\n{'':{_INDENT}}".join(wrapped(fact, _INDENT) for fact in facts)
            sys.stdout.write(f"{readable(size.bytes):>11}  {size.part.name:<11}  {text}\n")
    if elsewhere:
        sys.stdout.write("\nNot part of the quota or of backups:\n")
    for path, holds in elsewhere.items():
        sys.stdout.write(f"{readable(_size(path)):>11}  {inert(path)}\n{'':{_INDENT}}{wrapped(holds, _INDENT)}\n")
    return 0


def _elsewhere(state: str) -> dict[str, str]:
    """Return the paths outside the state directory that hilt uses, each with a description."""
    folders = {
        places.config_dir(os.environ): "your settings, tools, skills, rules and memory",
        f"{state.rstrip('/')}-worktrees": "worktrees of agents, with changes that were not applied",
        **dict.fromkeys(replaced_states(state), "replaced by hilt state restore; delete it when you no longer need it"),
    }
    return {path: holds for path, holds in folders.items() if os.path.exists(path)}


def replaced_states(state: str) -> list[str]:
    """Return the folders that `hilt state restore` has left beside the state directory."""
    state = os.path.realpath(state)
    prefixes = f"{state}.before-", f"{state}.restoring-"
    try:
        with os.scandir(os.path.dirname(state)) as entries:
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(path for path in folders if path.startswith(prefixes))


def _size(path: str) -> int:
    return sum(status.st_blocks * 512 for _, status in inventory.files_below(path))


def readable(size: int) -> str:
    """Format a size in bytes for people."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.4g} {_UNITS[-1]}"


def _back_up(options: Options, arguments: Namespace) -> int:
    refuse_tools("state backup")
    path = arguments.file or f"hilt-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    state = places.state_dir(os.environ)
    if not os.path.isdir(state):
        raise ToolError("not_found", f"There is no state yet in {state}.", suggestion="There is nothing to back up.")
    size = archive.write(state, path)
    sys.stdout.write(f"{inert(path)}: {readable(size)}\n")
    return 0


def _restore(options: Options, arguments: Namespace) -> int:
    if arguments.yes:
        refuse_tools("state restore")
        return _replace(arguments.file)

    def ask(screen: Terminal) -> int:
        manifest = archive.inspect(arguments.file)
        screen.write(
            f"{inert(arguments.file)}: hilt {inert(manifest.hilt)}, {inert(manifest.created)[:19]}, "
            f"{readable(manifest.bytes)}\nIt replaces the state in {inert(places.state_dir(os.environ))}. "
            "Trust, approvals and grants of the backup apply again.\n"
        )
        if not screen.agrees("Restore it?"):
            screen.write("Nothing was changed.\n")
            return 1
        return _replace(arguments.file)

    return run_for_person("state restore", ask)


def _replace(path: str) -> int:
    from hilt.surfaces import resident

    archive.inspect(path)
    resident.stop()
    old = archive.restore(places.state_dir(os.environ), path)
    sys.stdout.write("Restored.\n")
    if old is not None:
        sys.stdout.write(f"The replaced state is in {inert(old)}; delete it when you no longer need it.\n")
    return 0


def _clean(options: Options, arguments: Namespace) -> int:
    refuse_tools("state clean")
    with open_runtime(options) as runtime:
        state, settings = runtime.state, runtime.settings
    snapshots = 0 if arguments.undo_days is None else _forget(state, time.time_ns() - arguments.undo_days * _DAY_NS)
    cleaned = clean(state, settings)
    for name, size in cleaned.removed.items():
        sys.stdout.write(f"{readable(size):>11}  {name}\n")
    if snapshots:
        sys.stdout.write(f"deleted {snapshots} undo snapshots\n")
    sys.stdout.write(f"{readable(cleaned.after)} of {readable(cleaned.quota)} (state.mb)\n")
    if cleaned.after > cleaned.quota:
        sys.stdout.write(
            "The rest is in use, or undo data within its limits. Raise state.mb, lower undo.mb, or delete old undo "
            f"data: {places.command('state', 'clean', '--undo-days', '30')}\n"
        )
        return 1
    return 0


def _forget(state: str, before: int) -> int:
    """Delete the undo data of all folders from before a time; return the number of snapshots."""
    with closing(open_state(state)) as db:
        query = "SELECT DISTINCT workspace FROM changes WHERE NOT open AND at<?"
        folders = [id for (id,) in db.read(lambda db: db.execute(query, (before,)).fetchall())] if db.exists() else []
    deleted = 0
    for id in folders:
        with closing(History(state, os.path.join(state, "journal", id), id, calls=1, megabytes=1)) as history:
            deleted += history.clear(before)
    return deleted
