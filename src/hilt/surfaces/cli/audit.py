"""`hilt audit`: what was called, and whether the record is whole."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from hilt import places
from hilt.state.trail import Row, Trail
from hilt.surfaces.cli import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_LARGEST = 2**63 - 1  # that SQLite knows
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _list
    parser.details = """The record covers all folders of the user; --workspace DIR and --session ID choose from it. It
holds no contents, only digests of arguments. Each row has a hash that covers the row before it, so a row that was
changed, removed or added later is found. hilt log shows the same calls as they happen."""
    add_filters(parser)
    parser.add_argument("--limit", metavar="N", type=_limit, default=50, help="Show the newest N calls; 50 by default")
    parser.add_argument("--json", action="store_true", help="Print one JSON object per call")
    verify = parser.command("verify", "Check that no row was changed, removed or added", _verify)
    witness = "What hilt audit head has printed once, kept elsewhere"
    verify.add_argument("--witness", metavar="ROW:HASH", type=_witness, help=witness)
    verify.add_argument("--json", action="store_true", help="Print the breaks as JSON")
    verify.details = "The exit status is 1 when the record is not as it was written."
    head = parser.command("head", "Print the newest row and its hash, to keep as a witness", _head)
    head.add_argument("--json", action="store_true", help="Print JSON")
    parser.examples = [
        ("hilt audit --since 1h --tool run_shell", "List the commands of the last hour"),
        ("hilt audit --json --limit 1", "Print everything that is kept of the last call"),
        ("hilt audit verify", "Check the whole record"),
    ]


def add_filters(parser: Parser) -> None:
    """Add the options that choose calls by time, tool and agent."""
    span = "Only calls since then: 30m, 2h, 7d or a date such as 2026-01-31"
    parser.add_argument("--since", metavar="TIME", type=moment, help=span)
    parser.add_argument("--tool", metavar="TOOL", help="Only calls of this tool")
    parser.add_argument("--agent", metavar="NAME", help="Only calls of this agent")


def filters(options: Options, given: Namespace) -> dict[str, Any]:
    """Return what chooses rows of the trail."""
    chosen = {"since": given.since, "tool": given.tool, "agent": given.agent, "session": options.get("session")}
    chosen["workspace"] = workspace_id(options["workspace"]) if "workspace" in options else None
    return {name: value for name, value in chosen.items() if value is not None}


def _list(options: Options, given: Namespace) -> int:
    with closing(open_trail()) as trail:
        for row in trail.rows(**filters(options, given), limit=given.limit):
            sys.stdout.write(as_json(row) if given.json else _as_line(row))
    return 0


def open_trail() -> Trail:
    """Open the record of calls; it can be read whatever the settings are."""
    return Trail(os.path.join(places.state_dir(os.environ), "trail.db"))


def workspace_id(folder: str) -> str:
    """Return the name that the trail has for a workspace."""
    from hilt.config import digest

    return digest(os.path.realpath(folder))


def moment(value: str) -> float:
    """Return the time that --since names: a span back from now, or a date."""
    if value[-1:] in _UNITS and value[:-1].isdecimal():
        return max(0.0, time.time() - min(int(value[:-1]), _LARGEST) * _UNITS[value[-1]])
    try:
        from datetime import datetime

        return max(0.0, datetime.fromisoformat(value).timestamp())
    except (ValueError, OverflowError):
        raise Usage(f"--since needs a time such as 30m, 2h, 7d or 2026-01-31, not {value!r}") from None


def number(name: str) -> Callable[[str], int]:
    """Return what reads the whole number that an option needs."""

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
    raise Usage(f"--witness needs what hilt audit head printed, not {value!r}")


def _verify(options: Options, given: Namespace) -> int:
    with closing(open_trail()) as trail:
        found = trail.breaks(given.witness)
    if given.json:
        breaks = [{"row": broken.seq, "reason": broken.reason} for broken in found]
        sys.stdout.write(json.dumps({"whole": not found, "breaks": breaks}, ensure_ascii=False) + "\n")
        return 1 if found else 0
    for broken in found:
        sys.stdout.write(f"the audit trail is broken at row {broken.seq}: {broken.reason}\n")
    if not found:
        sys.stdout.write("the audit trail is whole\n")
    return 1 if found else 0


def _head(options: Options, given: Namespace) -> int:
    with closing(open_trail()) as trail:
        row, hash = trail.end()
    shown = json.dumps({"row": row, "hash": hash.hex()}) if given.json else f"{row}:{hash.hex()}"
    sys.stdout.write(f"{shown}\n")
    return 0


def as_json(row: Row) -> str:
    """Return everything that is kept of a call, as a line of JSON."""
    from hilt.formats.times import rfc3339

    fields = {"seq": row.seq, "time": rfc3339(row.entry.at), **row.entry._asdict(), "hash": row.hash.hex()}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _as_line(row: Row) -> str:
    from hilt.output.terminal import inert

    entry = row.entry
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at // 1_000_000_000))
    who = f"{entry.session}/{entry.agent}" if entry.agent else entry.session
    what = f"{who:<10} {entry.tool:<14} {entry.decision:<5} {entry.outcome:<20}"
    line = f"{when}  {what} {entry.micros / 1000:8.1f} ms"
    if entry.approver:
        line += f"  by {entry.approver}"
    if entry.contacts:
        line += f"  to {entry.contacts}"
    if entry.decision != "allow" or not entry.workspace:
        line += f"  {entry.reason}"
    return inert(line).replace("\n", "␊") + "\n"
