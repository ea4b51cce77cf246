"""Numbers for people: sizes, costs, and large counts."""

from __future__ import annotations

_UNITS = ("bytes", "KB", "MB", "GB")


def file_size(size: float) -> str:
    """Return a number of bytes, such as 12 bytes or 1.5 MB."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} {_UNITS[-1]}"


def dollars(cost: float | None) -> str:
    """Return a cost, such as $1.25, $0.0031 or "unknown"."""
    if cost is None:
        return "unknown"
    if cost and cost < 0.01:
        return f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"
    return f"${cost:.2f}"


def thousands(number: int) -> str:
    """Return a count, such as 950, 12.3k or 1.2M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
