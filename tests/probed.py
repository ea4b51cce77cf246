"""The sandbox of this system, probed once per test process instead of once per state directory."""

from __future__ import annotations

import functools
import os
import tempfile

from hilt.sandbox import availability


def remember_sandbox(state: str) -> None:
    """Create a state directory that contains the probe result, as after the first command."""
    os.makedirs(state, 0o700, exist_ok=True)
    with open(os.path.join(state, "sandbox.json"), "wb") as file:
        file.write(record())


@functools.cache
def record() -> bytes:
    """Return the probe result, as it is stored."""
    with tempfile.TemporaryDirectory() as state:
        availability.find(state)
        with open(os.path.join(state, "sandbox.json"), "rb") as file:
            return file.read()
