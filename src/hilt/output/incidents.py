"""The log of bugs in hilt itself: incidents.log in the state directory."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from hilt.errors import ToolError


def log_incident(state: str, error: BaseException) -> ToolError:
    """Log a bug with its traceback, and return the error to report; the one that a module found keeps its message."""
    incident = os.urandom(4).hex()
    with suppress(Exception):  # the log may not be writable; the caller still gets an error
        _log(state, incident, error)
    if isinstance(error, ToolError):
        message = f"{error.message.removesuffix('.')}, incident {incident}."
        return ToolError(error.code, message, suggestion=error.suggestion, **error.details, incident=incident)
    return ToolError("internal", f"hilt failed ({type(error).__name__}), incident {incident}.", incident=incident)


def _log(state: str, incident: str, error: BaseException) -> None:
    import traceback  # fails if file descriptors have run out

    text = "".join(traceback.format_exception(error))
    os.makedirs(state, mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(os.path.join(state, "incidents.log"), flags, 0o600)
    with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"--- {incident} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n{text}\n")
