"""Times as tools show them, durations as people write them, and file times that can be relied upon."""

from __future__ import annotations

# a change in the same tick of the clock as the last look leaves no trace, so such a look is not kept
TICK_NS = 50_000_000  # kernels count in steps of at most ten milliseconds
COARSE_TICK_NS = 2_100_000_000  # where a file system keeps whole seconds

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def rfc3339(nanoseconds: int) -> str:
    """Return a time, in nanoseconds since 1970, as RFC 3339 in UTC."""
    from time import gmtime, strftime

    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest:09d}Z"


def duration_seconds(text: str) -> int | None:
    """Return a duration of digits and a unit, such as 90s, 15m, 12h, 30d or 2w, in seconds; None for other texts."""
    unit = _UNITS.get(text[-1:])
    digits = text[:-1]
    return int(digits) * unit if unit and digits.isascii() and digits.isdecimal() and len(digits) <= 12 else None


def is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether a file that was looked at now and last changed then gets another time when it changes again."""
    return now_ns - changed_ns > (TICK_NS if changed_ns % 1_000_000_000 else COARSE_TICK_NS)
