"""`hilt audit`: what was called, and whether the record is whole."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from hilt import places
from hilt.state.trail import Row, Trail
from hilt.surfaces.cli import Usage

_LARGEST = 2**63 - 1  # that SQLite knows
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_VALUED = ("--since", "--tool", "--agent", "--limit", "--witness")


def audit(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt audit [verify|head] [--since 1h] [--tool NAME] [--agent NAME] [--limit N] [--json]`."""
    given, rest = valued(words, _VALUED)
    filters: dict[str, Any] = {"limit": 50}
    if "session" in options:
        filters["session"] = options["session"]
    if "workspace" in options:
        filters["workspace"] = workspace_id(options["workspace"])
    for name, value in given.items():
        filters[name[2:]] = _filter(name, value)
    witness = filters.pop("witness", None)
    trail = open_trail()
    try:
        match rest:
            case [] | ["--json"] if witness is None:
                for row in trail.rows(**filters):
                    sys.stdout.write(_as_json(row) if rest else _as_line(row))
                return 0
            case ["verify"] if not given.keys() - {"--witness"}:
                return _verify(trail, witness)
            case ["head"] if not given:
                number, hash = trail.end()
                sys.stdout.write(f"{number}:{hash.hex()}\n")
                return 0
            case ["verify" | "head", *_]:
                raise Usage(f"audit {rest[0]} looks at all rows; it takes no choice of them")
            case []:
                raise Usage("--witness is for audit verify")
        raise Usage(f"audit does not take {rest[-1]!r}")
    finally:
        trail.close()


def open_trail() -> Trail:
    """Open the record of calls; it can be read whatever the settings are."""
    return Trail(os.path.join(places.state_dir(os.environ), "trail.db"))


def workspace_id(folder: str) -> str:
    """Return the name that the trail has for a workspace."""
    from hilt.config import digest

    return digest(os.path.realpath(folder))


def valued(words: list[str], names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Take the options that have values out of the words."""
    given: dict[str, str] = {}
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else next(rest, None)
            if not found:
                raise Usage(f"{name} needs a value")
            given[name] = found
        else:
            others.append(word)
    return given, others


def moment(value: str) -> float:
    """Return the time that --since names: a span back from now, or a date."""
    if value[-1] in _UNITS and value[:-1].isdecimal():
        return max(0.0, time.time() - min(int(value[:-1]), _LARGEST) * _UNITS[value[-1]])
    try:
        from datetime import datetime

        return max(0.0, datetime.fromisoformat(value).timestamp())
    except (ValueError, OverflowError):
        raise Usage(f"--since needs a time such as 30m, 2h, 7d or 2026-01-31, not {value!r}") from None


def _filter(name: str, value: str) -> Any:
    if name == "--since":
        return moment(value)
    if name == "--limit":
        if not value.isdecimal():
            raise Usage(f"--limit needs a number, not {value!r}")
        return min(int(value), _LARGEST)
    if name == "--witness":
        number, _, hash = value.partition(":")
        if number.isdecimal() and len(hash) == 64 and not hash.strip("0123456789abcdef"):
            return min(int(number), _LARGEST), bytes.fromhex(hash)
        raise Usage(f"--witness needs what hilt audit head printed, not {value!r}")
    return value


def _verify(trail: Trail, witness: tuple[int, bytes] | None) -> int:
    found = trail.breaks(witness)
    for broken in found:
        sys.stdout.write(f"the audit trail is broken at row {broken.seq}: {broken.reason}\n")
    if not found:
        sys.stdout.write("the audit trail is whole\n")
    return 1 if found else 0


def _as_json(row: Row) -> str:
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
