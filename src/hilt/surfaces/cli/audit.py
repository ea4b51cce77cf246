"""`hilt audit`: list recorded calls, and verify that the audit trail is intact."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from hilt import places
from hilt.formats.times import duration_seconds
from hilt.state.trail import Row, Trail
from hilt.surfaces.cli import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_LARGEST = 2**63 - 1  # the largest integer of SQLite


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """The audit trail covers all folders of the user; --workspace DIR and --session ID filter it. It
holds digests of arguments, not their contents. Each row has a hash that covers the row before it, so verify detects
rows that were changed, removed or added later. hilt log shows the same calls as they happen."""
    add_filters(parser)
    parser.add_argument("--limit", metavar="N", type=_limit, default=50, help="Show the newest N calls; 50 by default")
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
        "agent": arguments.agent,
        "session": options.get("session"),
    }
    values["workspace"] = workspace_id(options["workspace"]) if "workspace" in options else None
    return {name: value for name, value in values.items() if value is not None}


def _list(options: Options, arguments: Namespace) -> int:
    with closing(open_trail()) as trail:
        for row in trail.rows(**filters(options, arguments), limit=arguments.limit):
            sys.stdout.write(as_json(row) if arguments.json else _as_line(row))
    return 0


def open_trail() -> Trail:
    """Open the audit trail; broken settings do not prevent that."""
    return Trail(os.path.join(places.state_dir(os.environ), "trail.db"))


def workspace_id(folder: str) -> str:
    """Return the id of a workspace in the audit trail."""
    from hilt.config import digest

    return digest(os.path.realpath(folder))


def parse_since(value: str) -> float:
    """Return the time for --since: a span before now, or a date."""
    seconds = duration_seconds(value)
    if seconds is not None:
        return max(0.0, time.time() - min(seconds, _LARGEST))
    try:
        from datetime import datetime

        return max(0.0, datetime.fromisoformat(value).timestamp())
    except (ValueError, OverflowError):
        raise Usage(f"--since needs a time such as 30m, 2h, 7d or 2026-01-31, not {value!r}") from None


def number(name: str) -> Callable[[str], int]:
    """Return a parser for the integer that an option needs."""

    def read(value: str) -> int:
        if not value.isdecimal():
            raise Usage(f"{name} needs a number, not {value!r}")
        return min(int(value), _LARGEST)

    return read


_limit = number("--limit")


def _witness(value: str) -> tuple[int, bytes]:
    row, _, hash = value.partition(":")
    if row.isdecimal() and len(hash) == 64 and not hash.strip("0123456789abcdef"):
        return min(int(row), _LARGEST), bytes.fromhex(hash)
    raise Usage(f"--witness needs the output of hilt audit head, not {value!r}")


def _verify(options: Options, arguments: Namespace) -> int:
    with closing(open_trail()) as trail:
        breaks = trail.breaks(arguments.witness)
    if arguments.json:
        data = [{"row": broken.seq, "reason": broken.reason} for broken in breaks]
        sys.stdout.write(json.dumps({"intact": not breaks, "breaks": data}, ensure_ascii=False) + "\n")
        return 1 if breaks else 0
    for broken in breaks:
        sys.stdout.write(f"The audit trail is broken at row {broken.seq}: {broken.reason}\n")
    if not breaks:
        sys.stdout.write("The audit trail is intact.\n")
    return 1 if breaks else 0


def _head(options: Options, arguments: Namespace) -> int:
    with closing(open_trail()) as trail:
        row, hash = trail.end()
    line = json.dumps({"row": row, "hash": hash.hex()}) if arguments.json else f"{row}:{hash.hex()}"
    sys.stdout.write(f"{line}\n")
    return 0


def as_json(row: Row) -> str:
    """Return everything recorded about a call, as a line of JSON."""
    return json.dumps(audit_data(row), ensure_ascii=False) + "\n"


def audit_data(row: Row) -> dict[str, Any]:
    """Return everything recorded about a call, for programs."""
    from hilt.formats.times import rfc3339

    return {"seq": row.seq, "time": rfc3339(row.entry.at), **row.entry._asdict(), "hash": row.hash.hex()}


def _as_line(row: Row) -> str:
    from hilt.output.terminal import inert

    entry = row.entry
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at // 1_000_000_000))
    who = f"{entry.session}/{entry.agent}" if entry.agent else entry.session
    what = f"{who:<10} {entry.tool:<14} {entry.decision:<5} {entry.outcome:<17}"
    line = f"{when}  {what} {entry.micros / 1000:6.1f} ms"
    if entry.approver:
        line += f"  by {entry.approver}"
    if entry.contacts:
        line += f"  to {entry.contacts}"
    if entry.decision != "allow" or not entry.workspace:
        line += f"  {entry.reason}"
    return inert(line).replace("\n", "␊") + "\n"
