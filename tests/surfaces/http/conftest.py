"""Fixtures: servers that many tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.probed import remember_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.http.servers import Server, serving


def asking(base: str, **environ: str) -> Command:
    """Return the command with a rule that asks before write_file."""
    remember_sandbox(f"{base}/state")
    command = Command(base, **environ)
    command.folder.write("../config/permissions.yaml", "permissions:\n  allow_all: true\n  ask: [write_file]\n")
    command.folder.write("a.txt", "hello\n")
    return command


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server on a workspace in which write_file asks."""
    with serving(asking(str(tmp_path_factory.mktemp("served")))) as server:
        yield server
