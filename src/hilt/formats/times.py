"""Formatting of times, parsing of durations, and reliable file times."""

from __future__ import annotations

# a change in the same clock tick as the last check leaves no trace, so such a check is not cached
TICK_NS = 50_000_000  # kernel clocks tick at least every ten milliseconds
COARSE_TICK_NS = 2_100_000_000  # for file systems that store whole seconds

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def rfc3339(nanoseconds: int) -> str:
    """Format a time, in nanoseconds since 1970, as RFC 3339 in UTC."""
    from time import gmtime, strftime

    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest:09d}Z"


def duration_seconds(text: str) -> int | None:
    """Parse a duration such as 90s, 15m, 12h, 30d or 2w and return seconds; None if it is invalid."""
    unit = _UNITS.get(text[-1:])
    digits = text[:-1]
    return int(digits) * unit if unit and digits.isascii() and digits.isdecimal() and len(digits) <= 40 else None


def is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether a file checked at `now_ns` and last changed at `changed_ns` gets a new time when it changes again."""
    return now_ns - changed_ns > (TICK_NS if changed_ns % 1_000_000_000 else COARSE_TICK_NS)


class Moment(int):
    """A time in nanoseconds since 1970."""

    __slots__ = ()
