"""The log of bugs in hilt itself."""

from __future__ import annotations

import os
import time
import traceback


def log(state: str, incident: str, error: BaseException) -> None:
    """Append the traceback of an incident to incidents.log in the state directory."""
    text = "".join(traceback.format_exception(error))
    os.makedirs(state, mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(os.path.join(state, "incidents.log"), flags, 0o600)
    with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"--- {incident} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n{text}\n")
