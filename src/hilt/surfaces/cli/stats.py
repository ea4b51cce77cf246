"""`hilt stats`: how often each tool was called, how often it failed, how long it took, and when."""

from __future__ import annotations

import sys
import time

from hilt.desk.usage import UsageReport, metrics
from hilt.output.metrics import bars
from hilt.output.terminal import BOLD, DIM, RED, draws_color, inert, painted
from hilt.surfaces import Usage
from hilt.surfaces.cli.audit import empty_list, filters, open_trail, parse_since
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser

_WIDTH = 80  # unless the terminal is wider
_NAME_MAX = 24
_PLOT_MAX = 60
_ERRORS_MAX = 8


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = "Covers the calls of all folders; --workspace DIR and --session ID filter them."
    parser.add_argument(
        "--since", metavar="TIME", type=parse_since, help="Only calls since this time: 30m, 2h, 7d or a date"
    )
    parser.add_argument("--tool", metavar="TOOL", help="Only calls of this tool")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="Print JSON")
    form.add_argument("--prometheus", action="store_true", help="Print counters and histograms for Prometheus")
    parser.examples = [
        ("hilt stats --since 7d", "Show the last week"),
        ("hilt stats --tool run_shell --json", "Count the commands, for a script"),
        ("hilt stats --prometheus > hilt.prom", "Write a file for the node exporter"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    if arguments.prometheus and (arguments.since is not None or options.keys() & {"session", "workspace"}):
        raise Usage("--prometheus counts all calls; filter in the Prometheus query instead")
    with open_trail() as trail:
        if arguments.prometheus:
            sys.stdout.write(metrics(trail, arguments.tool))
            return 0
        width = _width()
        chosen = filters(options, arguments)
        usage = trail.usage(**chosen, parts=min(_PLOT_MAX, width - _NAME_MAX - 36))
    if arguments.json:
        return print_json(usage)
    sys.stdout.write(_table(usage, width) if usage.tools else empty_list(chosen))
    return 0


def _width() -> int:
    from shutil import get_terminal_size

    return max(_WIDTH, get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH


def _table(usage: UsageReport, width: int) -> str:
    calls, failed = sum(use.calls for use in usage.tools), sum(use.failed for use in usage.tools)
    part = (usage.end - usage.start) / len(usage.tools[0].plot)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(usage.start))
    plain = not _draws_bars()
    lines = [
        f"{calls:,} {'call' if calls == 1 else 'calls'} since {since}, {failed:,} failed ({failed / calls:.1%})",
        "",
        _painted(f"{_row('tool', 'calls', 'failed', 'p50', 'p95')}  each bar {_span(part)}", BOLD),
    ]
    for use in usage.tools:
        failures = _painted(f"{use.failed:>8,}", RED) if use.failed else f"{use.failed:>8,}"
        row = _row(use.tool, f"{use.calls:,}", failures, _duration(use.p50_ms), _duration(use.p95_ms))
        lines.append(f"{row}  {bars(use.plot, plain=plain)}".rstrip())
    total = [sum(counts) for counts in zip(*(use.plot for use in usage.tools), strict=True)]
    if len(usage.tools) > 1:
        row = f"{_row('all', f'{calls:,}', f'{failed:,}', '', '')}  {bars(total, plain=plain)}"
        lines.append(_painted(row.rstrip(), DIM))
    if usage.errors:
        lines += ["", *_errors(usage.errors, width)]
    return "\n".join(lines) + "\n"


def _row(name: str, calls: str, failed: str, p50: str, p95: str) -> str:
    label = inert(name).replace("\n", "␊").replace("\t", "␉")
    if len(label) > _NAME_MAX:
        label = label[: _NAME_MAX - 1] + ("…" if _draws_bars() else "~")
    return f"{label:<{_NAME_MAX}}{calls:>9}{failed:>8}{p50:>8}{p95:>8}"


def _errors(errors: dict[str, int], width: int) -> list[str]:
    from textwrap import wrap

    counts = [f"{code}\xa0{count:,}" for code, count in list(errors.items())[:_ERRORS_MAX]]
    more = len(errors) - len(counts)
    text = "failures: " + ", ".join(counts) + (f", {more} more kinds" if more else "")
    return [line.replace("\xa0", " ") for line in wrap(inert(text), width, subsequent_indent="  ")]


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _draws_bars() -> bool:
    try:
        "▁█".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _painted(text: str, sgr: str) -> str:
    return painted(text, sgr, color=draws_color(sys.stdout))
