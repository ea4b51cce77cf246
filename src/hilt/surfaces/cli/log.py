"""`hilt log`: the latest calls, newest last, and new ones as they are recorded."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import Any

from hilt.output.terminal import inert
from hilt.state.trail import Row, Trail
from hilt.surfaces.cli.audit import add_filters, as_json, filters, number, open_trail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

LOOK_SECONDS = 0.25
_SHOWN = 20
_SECOND = 1_000_000_000


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _run
    parser.details = """Calls of all processes and folders of the user are shown, newest last: when, in which session,
the tool, how it ended and how long it took. --workspace DIR and --session ID choose some of them. hilt audit shows all
that is kept of a call."""
    parser.add_argument("-f", "--follow", action="store_true", help="Go on with new calls until interrupted")
    count = f"Begin with the newest N calls; {_SHOWN} by default"
    parser.add_argument("-n", "--lines", metavar="N", type=number("--lines"), default=_SHOWN, help=count)
    add_filters(parser)
    parser.add_argument("--json", action="store_true", help="Print one JSON object per call, as hilt audit does")
    parser.examples = [
        ("hilt log", f"Show the last {_SHOWN} calls"),
        ("hilt log -f", "Watch what an agent does"),
        ("hilt log -f -n 0 --tool run_shell --json", "Give each new command to a program"),
    ]


def _run(options: Options, given: Namespace) -> int:
    chosen = filters(options, given)
    with closing(open_trail()) as trail:
        # the end before the rows: a call that is recorded in between is shown once, by what follows
        end = trail.end()[0]
        for row in trail.rows(**chosen, limit=given.lines):
            if row.seq <= end:
                _write(row, as_data=given.json)
        if given.follow:
            _follow(trail, end, chosen, as_data=given.json)
    return 0


def _follow(trail: Trail, seen: int, chosen: dict[str, Any], *, as_data: bool) -> None:
    while True:
        sys.stdout.flush()
        end = trail.end()[0]
        if end == seen:
            time.sleep(LOOK_SECONDS)
            continue
        for row in trail.rows(**chosen, after=seen):
            _write(row, as_data=as_data)
            end = max(end, row.seq)
        seen = end


def _write(row: Row, *, as_data: bool) -> None:
    sys.stdout.write(as_json(row) if as_data else _line(row))


def _line(row: Row) -> str:
    entry = row.entry
    when = time.strftime("%H:%M:%S", time.localtime(entry.at // _SECOND))
    if entry.at < time.time_ns() - 24 * 3600 * _SECOND:
        when = time.strftime("%m-%d %H:%M", time.localtime(entry.at // _SECOND))
    who = f"{entry.session}/{entry.agent}" if entry.agent else entry.session
    line = f"{when:<11}  {who[:12]:<12}  {entry.tool[:18]:<18}  {entry.outcome:<17}  {entry.micros / 1000:>7.0f} ms"
    return inert(line).replace("\n", "␊") + "\n"
