"""Finds the display, or the reason why there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from hilt.errors import ToolError
from hilt.installer import add_command

IS_MAC = sys.platform == "darwin"
_REQUIRED_MODULES = ("Quartz", "ApplicationServices", "PIL") if IS_MAC else ("xcffib", "jeepney", "PIL")


def find_display(environ: Mapping[str, str], chosen: str | None) -> str:
    """Return the name of the display to use; `chosen` is the setting desktop.display. Raise if there is none."""
    display = _display_name(environ, chosen)
    missing = [name for name in _REQUIRED_MODULES if find_spec(name) is None]
    if missing:
        raise ToolError(
            "runtime_missing",
            f"Desktop control needs the extra desktop: {', '.join(missing)} is missing.",
            suggestion=f"Ask the user to install it: {add_command('desktop')}",
        )
    return display


def is_offered(environ: Mapping[str, str], chosen: str | None) -> bool:
    """Whether to offer tools that need a display."""
    try:
        find_display(environ, chosen)
    except ToolError:
        return False
    return True


def _display_name(environ: Mapping[str, str], chosen: str | None) -> str:
    if IS_MAC:
        return "Quartz"
    if chosen:
        return chosen
    if environ.get("WAYLAND_DISPLAY") or environ.get("XDG_SESSION_TYPE") == "wayland":
        raise ToolError(
            "no_display",
            "This is a Wayland session, in which programs cannot see or control the windows of others.",
            suggestion="Ask the user to log in with X11, or to start Xvfb and set desktop.display to it.",
        )
    display = environ.get("DISPLAY")
    if not display:
        raise ToolError(
            "no_display",
            "There is no display: DISPLAY is not set.",
            suggestion="Ask the user to start one, such as Xvfb :1 -screen 0 1280x800x24, and set DISPLAY=:1.",
        )
    return display


def lock_name(display: str) -> str:
    """Return the name of a display's lock file; all screens of a display share one."""
    number = display.rpartition(".")[0] if "." in display.rpartition(":")[2] else display
    return "".join(character if character.isalnum() else "_" for character in os.path.basename(number))
