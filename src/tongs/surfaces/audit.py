"""`tongs audit`: what was called, and whether the record is whole."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tongs.state.trail import Row
from tongs.surfaces.cli import Usage
from tongs.surfaces.opening import open_runtime

_LARGEST = 2**63 - 1  # that SQLite knows
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def audit(options: dict[str, str], words: list[str]) -> int:
    """Run `tongs audit [verify] [--since 1h] [--tool NAME] [--json] [--limit N]`."""
    filters: dict[str, Any] = {"limit": 50}
    as_json = verify = False
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "verify":
            verify = True
        elif word == "--json":
            as_json = True
        elif name in ("--since", "--tool", "--limit"):
            given = value if equals else next(rest, None)
            if not given:
                raise Usage(f"{name} needs a value")
            filters[name[2:]] = _filter(name, given)
        else:
            raise Usage(f"audit does not take {word!r}")
    if "session" in options:
        filters["session"] = options["session"]
    with open_runtime(options) as runtime:
        if verify:
            return _verify(runtime.trail.verify())
        rows = runtime.trail.rows(**filters)
    for row in rows:
        sys.stdout.write(_as_json(row) if as_json else _as_line(row))
    return 0


def _filter(name: str, value: str) -> Any:
    if name == "--limit":
        if not value.isdecimal():
            raise Usage(f"--limit needs a number, not {value!r}")
        return min(int(value), _LARGEST)
    if name == "--since":
        if value[-1] in _UNITS and value[:-1].isdecimal():
            return max(0.0, time.time() - min(int(value[:-1]), _LARGEST) * _UNITS[value[-1]])
        try:
            from datetime import datetime

            return max(0.0, datetime.fromisoformat(value).timestamp())
        except (ValueError, OverflowError):
            raise Usage(f"--since needs a time such as 30m, 2h, 7d or 2026-01-31, not {value!r}") from None
    return value


def _verify(broken: int | None) -> int:
    if broken is None:
        sys.stdout.write("the audit trail is whole\n")
        return 0
    sys.stdout.write(f"the audit trail is broken at row {broken}: it was changed, removed or moved\n")
    return 1


def _as_json(row: Row) -> str:
    fields = {"seq": row.seq, **row.entry._asdict(), "hash": row.hash.hex()}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _as_line(row: Row) -> str:
    from tongs.output.terminal import inert

    entry = row.entry
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at // 1_000_000_000))
    reason = f"  {entry.reason}" if entry.decision != "allow" else ""
    what = f"{entry.session:<10} {entry.tool:<14} {entry.decision:<5} {entry.outcome:<20}"
    line = f"{when}  {what} {entry.micros / 1000:8.1f} ms{reason}"
    return inert(line) + "\n"
