"""The values of settings that are also flags; a separate module, so that parsing flags need not load the settings."""

from __future__ import annotations

import os

FLAGS = ("mode", "profile", "approve", "dialect")
_VALUES = {
    "mode": ("normal", "auto-accept", "yolo", "plan", "scheduler", "headless"),
    "profile": ("nano", "minimal", "full"),  # from strict to lax
    "approve": ("deny", "once", "always", "all"),
}


def choices(name: str) -> tuple[str, ...]:
    """Return the values of a flag; empty if it takes any."""
    return dialect_names() if name == "dialect" else _VALUES.get(name, ())


def dialect_names() -> tuple[str, ...]:
    """Return the names of all dialects, the canonical one first, from the listing of their folder."""
    names = os.listdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "dialects"))
    return ("jinn", *sorted(name[:-3] for name in names if name.endswith(".py") and not name.startswith("_")))
