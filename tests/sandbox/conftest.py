"""Fixtures: a workspace in which programs run confined, as this user and as an ordinary one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.sandbox.confined import NOBODY, Box, Worker, interpreter


@pytest.fixture(scope="session")
def own_worker() -> Iterator[Worker]:
    worker = Worker(ordinary=False)
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def ordinary_worker() -> Iterator[Worker]:
    if os.getuid() == 0 and not interpreter(NOBODY):
        pytest.skip("no Python that an ordinary user can run")
    worker = Worker(ordinary=True)
    yield worker
    worker.close()


@pytest.fixture(params=["root", "ordinary user"] if os.getuid() == 0 else ["ordinary user"])
def worker(request: pytest.FixtureRequest) -> Worker:
    """A process that confines programs, once for each kind of user that this test run can use."""
    name = "ordinary_worker" if request.param == "ordinary user" else "own_worker"
    selected: Worker = request.getfixturevalue(name)
    return selected


@pytest.fixture
def box(worker: Worker) -> Iterator[Box]:
    """A workspace for confined programs."""
    box = Box(worker)
    yield box
    box.close()
