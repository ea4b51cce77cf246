"""Standard input and output, reserved for the protocol."""

from __future__ import annotations

import os

from hilt.surfaces import Usage


class Wires:
    """Standard input and output, hidden from the rest of the process: prints go to standard error."""

    def __init__(self) -> None:
        try:
            self.input = _move(0, os.open(os.devnull, os.O_RDONLY))
            self.output = _move(1, _print_target())
        except OSError:
            raise Usage("mcp needs standard input and output to be open") from None


def _print_target() -> int:
    """Return a descriptor for prints: standard error, or the null device if that is closed."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _move(descriptor: int, replacement: int) -> int:
    """Move a standard stream to a new descriptor, and put the replacement in its place."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    new_descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
    os.dup2(replacement, descriptor)
    os.close(replacement)
    return new_descriptor
