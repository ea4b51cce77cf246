"""`hilt state`: what hilt has stored on this machine; back it up, restore it, clean it."""

from __future__ import annotations

import os
import sys
import time

from hilt import places
from hilt.desk import storage
from hilt.formats.numbers import file_size
from hilt.output.terminal import inert
from hilt.surfaces.cli.layout import print_json, wrapped
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, integer
from hilt.surfaces.cli.person import refuse_tools, run_for_person
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import Terminal

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
    cleaning.add_argument("--undo-days", metavar="DAYS", type=integer("--undo-days", 0, 999_999), help=days)
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


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        stored = storage.stored(runtime)
    if arguments.json:
        return print_json(stored)
    room = "" if stored.free_bytes is None else f"; {file_size(stored.free_bytes)} free on the disk"
    total, quota = file_size(stored.bytes), file_size(stored.quota_bytes)
    sys.stdout.write(f"{inert(stored.directory)}: {total} of {quota} (state.mb){room}\n\n")
    for part in stored.parts:
        if part.names:
            facts = (part.holds, ", ".join(part.names), f"limited by: {part.limits}")
            text = f"\n{'':{_INDENT}}".join(wrapped(fact, _INDENT) for fact in facts)
            sys.stdout.write(f"{file_size(part.bytes):>11}  {part.name:<11}  {text}\n")
    if stored.elsewhere:
        sys.stdout.write("\nNot part of the quota or of backups:\n")
    for folder in stored.elsewhere:
        sys.stdout.write(
            f"{file_size(folder.bytes):>11}  {inert(folder.path)}\n{'':{_INDENT}}{wrapped(folder.holds, _INDENT)}\n"
        )
    return 0


def _back_up(options: Options, arguments: Namespace) -> int:
    refuse_tools("state backup")
    path = arguments.file or f"hilt-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    size = storage.back_up(path)
    sys.stdout.write(f"{inert(path)}: {file_size(size)}\n")
    return 0


def _restore(options: Options, arguments: Namespace) -> int:
    if arguments.yes:
        refuse_tools("state restore")
        return _replace(arguments.file)

    def ask(screen: Terminal) -> int:
        manifest = storage.backup_manifest(arguments.file)
        screen.write(
            f"{inert(arguments.file)}: hilt {inert(manifest.hilt)}, {inert(manifest.created)[:19]}, "
            f"{file_size(manifest.bytes)}\nIt replaces the state in {inert(places.state_dir(os.environ))}. "
            "Trust, approvals and grants of the backup apply again.\n"
        )
        if not screen.agrees("Restore it?"):
            screen.write("Nothing was changed.\n")
            return 1
        return _replace(arguments.file)

    return run_for_person("state restore", ask)


def _replace(path: str) -> int:
    from hilt.surfaces import resident

    storage.backup_manifest(path)
    resident.stop()
    old = storage.restore(path)
    sys.stdout.write("Restored.\n")
    if old is not None:
        sys.stdout.write(f"The replaced state is in {inert(old)}; delete it when you no longer need it.\n")
    return 0


def _clean(options: Options, arguments: Namespace) -> int:
    refuse_tools("state clean")
    with open_runtime(options) as runtime:
        snapshots = 0 if arguments.undo_days is None else storage.forget(runtime, arguments.undo_days)
        cleaned = storage.clean(runtime)
    for name, size in cleaned.removed.items():
        sys.stdout.write(f"{file_size(size):>11}  {name}\n")
    if snapshots:
        sys.stdout.write(f"deleted {snapshots} undo snapshots\n")
    sys.stdout.write(f"{file_size(cleaned.after)} of {file_size(cleaned.quota)} (state.mb)\n")
    if cleaned.after > cleaned.quota:
        sys.stdout.write(
            "The rest is in use, or undo data within its limits. Raise state.mb, lower undo.mb, or delete old undo "
            f"data: {places.command('state', 'clean', '--undo-days', '30')}\n"
        )
        return 1
    return 0
