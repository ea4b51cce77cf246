"""`hilt audit`: list recorded calls, and verify that the audit trail is intact."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager
from typing import Any

from hilt import places
from hilt.desk import audit as desk
from hilt.desk.audit import AuditEntry, Trail, workspace_id
from hilt.desk.encoding import plain
from hilt.output.terminal import inert
from hilt.surfaces import Usage
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, integer


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """The audit trail covers all folders of the user; --workspace DIR and --session ID filter it. It
holds digests of arguments, not their contents. Each row has a hash that covers the row before it, so verify detects
rows that were changed, removed or added later. hilt log shows the same calls as they happen."""
    add_filters(parser)
    count = "Show the newest N calls; 50 by default"
    parser.add_argument("--limit", metavar="N", type=integer("--limit", 0), default=50, help=count)
    parser.add_argument("--json", action="store_true", help="Print one JSON object per call")
    verify = parser.command("verify", "Check that no row was changed, removed or added", _verify)
    witness = "Earlier output of hilt audit head, which must still match"
    verify.add_argument("--witness", metavar="ROW:HASH", type=_witness, help=witness)
    verify.add_argument("--json", action="store_true", help="Print the breaks as JSON")
    verify.details = "The exit status is 1 if the audit trail is broken."
    head = parser.command("head", "Print the newest row and its hash, to keep as a witness", _head)
    head.add_argument("--json", action="store_true", help="Print JSON")
    head.examples = [("hilt audit head > witness.txt", "Keep a witness for a later check")]
    parser.examples = [
        ("hilt audit --since 1h --tool run_shell", "List the commands of the last hour"),
        ("hilt audit --json --limit 1", "Print everything recorded about the last call"),
        ("hilt audit verify", "Check the whole audit trail"),
    ]


def add_filters(parser: Parser) -> None:
    """Add the options that filter calls by time, tool and agent."""
    span = "Only calls since this time: 30m, 2h, 7d or a date such as 2026-01-31"
    parser.add_argument("--since", metavar="TIME", type=parse_since, help=span)
    parser.add_argument("--tool", metavar="TOOL", help="Only calls of this tool")
    parser.add_argument("--agent", metavar="NAME", help="Only calls of this agent")


def filters(options: Options, arguments: Namespace) -> dict[str, Any]:
    """Return the filters for rows of the trail."""
    values = {
        "since": arguments.since,
        "tool": arguments.tool,
        "agent": getattr(arguments, "agent", None),
        "session": options.get("session"),
    }
    values["workspace"] = workspace_id(options["workspace"]) if "workspace" in options else None
    return {name: value for name, value in values.items() if value is not None}


def empty_list(chosen: dict[str, Any]) -> str:
    """Return what a list without calls says; `chosen` are its filters."""
    if chosen:
        return "No recorded calls match.\n"
    return f"No calls are recorded yet. To make one: {places.command('call', 'list_dir')}\n"


def _list(options: Options, arguments: Namespace) -> int:
    with open_trail() as trail:
        entries = desk.entries(trail, **filters(options, arguments), limit=arguments.limit)
    sys.stdout.write("".join(as_json(entry) if arguments.json else _as_line(entry) for entry in entries))
    return 0


def open_trail() -> AbstractContextManager[Trail]:
    """Open the audit trail of the user."""
    return desk.opened(places.state_dir(os.environ))


def parse_since(value: str) -> float:
    """Return the time for --since: a span before now, or a date."""
    since = desk.parse_since(value)
    if since is None:
        raise Usage(f"--since needs a time such as 30m, 2h, 7d or 2026-01-31, not {value!r}")
    return since


def _witness(value: str) -> tuple[int, bytes]:
    row, _, hash = value.partition(":")
    if row.isdecimal() and len(hash) == 64 and not hash.strip("0123456789abcdef"):
        return min(int(row), desk.LARGEST), bytes.fromhex(hash)
    raise Usage(f"--witness needs the output of hilt audit head, not {value!r}")


def _verify(options: Options, arguments: Namespace) -> int:
    with open_trail() as trail:
        breaks = desk.breaks(trail, arguments.witness)
    if arguments.json:
        print_json({"intact": not breaks, "breaks": breaks})
    else:
        lines = [f"The audit trail is broken at row {broken.row}: {broken.reason}\n" for broken in breaks]
        sys.stdout.write("".join(lines) or "The audit trail is intact.\n")
    return 1 if breaks else 0


def _head(options: Options, arguments: Namespace) -> int:
    with open_trail() as trail:
        row, hash = trail.end()
    if arguments.json:
        return print_json({"row": row, "hash": hash.hex()})
    sys.stdout.write(f"{row}:{hash.hex()}\n")
    return 0


def as_json(entry: AuditEntry) -> str:
    """Return everything recorded about a call, as a line of JSON."""
    return json.dumps(plain(entry), ensure_ascii=False) + "\n"


def _as_line(entry: AuditEntry) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at // 1_000_000_000))
    what = f"{entry.session:<10} {entry.tool:<14} {entry.decision:<5} {entry.outcome:<17}"
    line = f"{when}  {what} {entry.micros / 1000:6.1f} ms"
    if entry.approver:
        line += f"  by {entry.approver}"
    if entry.contacts:
        line += f"  to {entry.contacts}"
    if entry.decision != "allow" or not entry.workspace:
        line += f"  {entry.reason}"
    return inert(line).replace("\n", "␊") + "\n"
