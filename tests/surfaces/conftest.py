"""Fixtures: the real command."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from tests.probed import remember_sandbox
from tests.surfaces.commands import Command


@pytest.fixture
def command(tmp_path) -> Command:
    """The command with its own workspace and state, never using a resident process."""
    remember_sandbox(str(tmp_path / "state"))
    return Command(str(tmp_path))


@pytest.fixture
def short() -> Iterator[Command]:
    """The command below a short path, free to use a resident process, which is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="hilt-", dir="/tmp") as base:
        command = Command(base, HILT_RESIDENT="auto")
        yield command
        command.run("resident", "stop")
