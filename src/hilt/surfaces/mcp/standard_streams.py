"""Standard input and output for the protocol alone."""

from __future__ import annotations

import os

from hilt.surfaces.cli import Usage


class Wires:
    """Standard input and output, taken away from everything else in the process: prints go to standard error."""

    def __init__(self) -> None:
        try:
            self.input = _moved(0, os.open(os.devnull, os.O_RDONLY))
            self.output = _moved(1, _errors())
        except OSError:
            raise Usage("mcp needs its standard input and output") from None


def _errors() -> int:
    """Return where prints go: standard error, or nowhere when there is none."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _moved(descriptor: int, instead: int) -> int:
    """Return another number for a standard stream, which then leads elsewhere."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    kept = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
    os.dup2(instead, descriptor)
    os.close(instead)
    return kept
