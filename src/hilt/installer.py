"""How hilt was installed: the commands that add an extra or remove hilt, and the error for a missing extra."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hilt.errors import ToolError

# marker file in the environment of hilt -> the commands that add an extra and remove hilt
_PROGRAMS = {
    # replaces the extras that are installed, so it must name all of them
    "uv-receipt.toml": ("uv tool install 'hilt[all]'", "uv tool uninstall hilt"),
    "pipx_metadata.json": ("pipx inject hilt 'hilt[{extra}]'", "pipx uninstall hilt"),
}
_PIP = ("pip install 'hilt[{extra}]'", "pip uninstall hilt")


def add_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return _commands()[0].format(extra=extra)


def remove_command() -> str:
    """Return the command that removes the program."""
    return _commands()[1]


def _commands() -> tuple[str, str]:
    return next((_PROGRAMS[name] for name in _PROGRAMS if os.path.exists(os.path.join(sys.prefix, name))), _PIP)


@contextmanager
def needs(extra: str, feature: str) -> Iterator[None]:
    """Report an import error of a package as a missing extra; `feature` is what needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "hilt":
            raise
        raise ToolError(
            "runtime_missing",
            missing(extra, feature, error.name),
            suggestion=f"Ask the user to install it: {add_command(extra)}",
            extra=extra,
        ) from error


def missing(extra: str, feature: str, package: str) -> str:
    """Return the message for a feature that needs an extra that is not installed."""
    return f"{feature} needs the extra {extra}: {package} is not installed."
