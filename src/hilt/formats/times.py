"""Times as tools show them."""


def rfc3339(nanoseconds: int) -> str:
    """Return a time, in nanoseconds since 1970, as RFC 3339 in UTC."""
    from time import gmtime, strftime

    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest:09d}Z"
