"""The values of the desk as JSON, the same on every surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hilt.formats.times import Moment, rfc3339


def plain(value: Any) -> Any:
    """Return a value of the desk as JSON values: tuples with names as objects, times as RFC 3339."""
    if isinstance(value, Moment):
        return rfc3339(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value
