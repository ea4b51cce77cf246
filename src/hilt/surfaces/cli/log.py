"""`hilt log`: recent calls, newest last, and new ones as they are recorded."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from hilt.desk import audit as desk
from hilt.desk.audit import AuditEntry
from hilt.output.terminal import clip, inert
from hilt.surfaces.cli.audit import add_filters, as_json, empty_list, filters, open_trail
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, integer

POLL_SECONDS = 0.25
_SHOWN = 20
_SECOND = 1_000_000_000


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Shows the calls of all processes and folders of the user, newest last: time, session, tool,
outcome and duration. --workspace DIR and --session ID filter them. hilt audit shows everything recorded about a
call."""
    parser.add_argument("-f", "--follow", action="store_true", help="Keep printing new calls until interrupted")
    count = f"Start with the newest N calls; {_SHOWN} by default"
    parser.add_argument("-n", "--lines", metavar="N", type=integer("--lines", 0), default=_SHOWN, help=count)
    add_filters(parser)
    parser.add_argument("--json", action="store_true", help="Print one JSON object per call, as hilt audit does")
    parser.examples = [
        ("hilt log", f"Show the last {_SHOWN} calls"),
        ("hilt log -f", "Watch what an agent does"),
        ("hilt log -f -n 0 --tool run_shell --json", "Print each new command as JSON"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    chosen = filters(options, arguments)
    with open_trail() as trail:
        # read the end before the rows, so that a call recorded in between is shown once, by --follow
        end = trail.end()[0]
        entries = desk.entries(trail, **chosen, limit=arguments.lines)
        _write((entry for entry in entries if entry.seq <= end), as_data=arguments.json)
        if not entries and arguments.lines and not arguments.json and not arguments.follow:
            sys.stdout.write(empty_list(chosen))
        if arguments.follow:
            for fresh in desk.follow(trail, end, **chosen):
                _write(fresh, as_data=arguments.json)
                sys.stdout.flush()
                time.sleep(POLL_SECONDS * (not fresh))
    return 0


def _write(entries: Iterable[AuditEntry], *, as_data: bool) -> None:
    sys.stdout.write("".join(as_json(entry) if as_data else _line(entry) for entry in entries))


def _line(entry: AuditEntry) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(entry.at // _SECOND))
    if entry.at < time.time_ns() - 24 * 3600 * _SECOND:
        when = time.strftime("%m-%d %H:%M", time.localtime(entry.at // _SECOND))
    tool, milliseconds = clip(entry.tool, 18), entry.micros / 1000
    line = f"{when:<11}  {clip(entry.session, 12):<12}  {tool:<18}  {entry.outcome:<17}  {milliseconds:>7.0f} ms"
    return inert(line).replace("\n", "␊") + "\n"
