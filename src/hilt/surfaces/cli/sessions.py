"""`hilt sessions`: the conversations of agents in this folder, and the end of a session."""

from __future__ import annotations

import sys
from argparse import SUPPRESS
from contextlib import suppress

from hilt.desk import sessions as desk
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.surfaces.cli.layout import list_row, local_time, print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.opening import open_runtime


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """Each run of an agent is a session with a transcript: every message as it was sent, without
secrets. Transcripts are removed after agents.keep_days, and the oldest beyond agents.keep_mb. Any unique
prefix of an ID works."""
    listing = parser.command("list", "List the sessions of this folder, newest first", _list)
    for below in (parser, listing):
        below.add_argument("--json", action="store_true", help="Print the list as JSON")
    showing = parser.command("show", "Show the messages of a session", _show)
    exporting = parser.command("export", "Print the transcript of a session", _export)
    exporting.add_argument("--format", choices=("md", "json"), default="md", help="Markdown (the default) or JSON")
    ending = parser.command("end", "End a session and its background jobs", _end)
    deleting = parser.command("delete", "Delete the transcript of a session", _delete)
    for below in (showing, exporting, deleting):
        below.add_argument("id", metavar="ID", help="The session")
    ending.add_argument(
        "id", metavar="ID", nargs="?", default=SUPPRESS, help="The session; that of --session by default"
    )
    parser.examples = [
        ("hilt sessions", "List the sessions of this folder"),
        ("hilt sessions show 20261116-0812", "Show the messages of one"),
        ("hilt run --continue 20261116-0812 'And now the docs'", "Continue it"),
    ]
    listing.examples = [("hilt sessions list --json", "List the sessions as JSON")]
    exporting.examples = [("hilt sessions export 20261116-0812 > session.md", "Write a transcript to a file")]
    deleting.examples = [("hilt sessions delete 20261116-0812", "Delete one transcript")]
    ending.details = "Also deletes the record of the files that the session has read."
    ending.examples = [
        ("hilt sessions end", "End the default session of this folder"),
        ("hilt sessions end review", "End another one"),
    ]


def _list(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        transcripts = desk.transcripts(runtime)
    if arguments.json:
        return print_json(transcripts)
    for stored in transcripts:
        title = f"  {stored.title}" if stored.title else ""
        sys.stdout.write(list_row(f"{stored.id}  {local_time(stored.changed)}  {stored.model or ''}{title}"))
    if not transcripts:
        sys.stdout.write("No session in this folder has a transcript. hilt run and hilt chat write one.\n")
    return 0


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        sys.stdout.write(inert(desk.markdown(runtime, arguments.id)))
    return 0


def _export(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        if arguments.format == "json":
            return print_json(desk.records(runtime, arguments.id), indent=2)
        sys.stdout.write(desk.markdown(runtime, arguments.id))
    return 0


def _delete(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        id = desk.delete_transcript(runtime, arguments.id)
    sys.stdout.write(f"deleted the transcript of {inert(id)}\n")
    return 0


def _end(options: Options, arguments: Namespace) -> int:
    from hilt.surfaces import resident

    if "id" in arguments:
        options = {**options, "session": _full_id(options, arguments.id)}
    jobs = resident.end_session(options)
    with open_runtime(options) as runtime:
        runtime.fire("session_end")
        ended = runtime.end_session(runtime.session)
        name = inert(runtime.session)
    sys.stdout.write(f"session {name} {'ended' if ended or jobs else 'has not been used here'}\n")
    if jobs:
        sys.stdout.write(f"{jobs} background job{'s' * (jobs != 1)} ended with it\n")
    return 0


def _full_id(options: Options, id: str) -> str:
    """Return the full id of the session whose transcript matches a prefix; the id itself if there is none."""
    with open_runtime(options) as runtime, suppress(ToolError):
        return desk.full_id(runtime, id)
    return id
