"""Times as tools show them, and file times that can be relied upon."""

from __future__ import annotations

# a change in the same tick of the clock as the last look leaves no trace, so such a look is not kept
TICK_NS = 50_000_000  # kernels count in steps of at most ten milliseconds
COARSE_TICK_NS = 2_100_000_000  # where a file system keeps whole seconds


def rfc3339(nanoseconds: int) -> str:
    """Return a time, in nanoseconds since 1970, as RFC 3339 in UTC."""
    from time import gmtime, strftime

    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest:09d}Z"


def is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether a file that was looked at now and last changed then gets another time when it changes again."""
    return now_ns - changed_ns > (TICK_NS if changed_ns % 1_000_000_000 else COARSE_TICK_NS)
