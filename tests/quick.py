"""A pytest plugin that runs the tests that start no process: `make quick`.

Tests that start one are in `FOLDERS`, or marked with starts_processes; in any other test, starting one fails.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import probed

TESTS = Path(__file__).parent
# most tests in these folders start processes
FOLDERS = {
    "agents",
    "conformance",
    "desktop",
    "lsp",
    "processes",
    "sandbox",
    "scenarios",
    "seeds",
    "servers",
    "surfaces",
}
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"}


class Watch:
    """Refuses to start processes, from the first test on: a thread may outlive its test."""

    def __init__(self) -> None:
        self.test = ""  # the latest one
        self.is_running = False

    def refuse(self, event: str, arguments: tuple[object, ...]) -> None:
        """End the test that starts a process, whichever thread this is."""
        if event in STARTS and self.test:
            os.kill(os.getpid(), signal.SIGUSR2)
            raise PermissionError(f"{self.test} starts a process: mark it with starts_processes")

    def fail(self, number: int, frame: object) -> None:
        """Fail the running test, which may wait for the process."""
        if self.is_running:
            pytest.fail(f"{self.test} starts a process: mark it with starts_processes")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch the fixtures of a test."""
        self.test = item.nodeid
        return (yield from self._running())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Watch a test."""
        return (yield from self._running())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Watch the ends of its fixtures."""
        return (yield from self._running())

    def _running(self) -> Generator[None, object, object]:
        self.is_running = True
        try:
            return (yield)
        finally:
            self.is_running = False


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out whole folders."""
    return True if collection_path.parent == TESTS and collection_path.name in FOLDERS else None


def pytest_configure(config: pytest.Config) -> None:
    """Select the tests, and watch for processes."""
    config.option.markexpr = "not starts_processes"
    probed.record()  # once, before the tests; their forks have no connection to the keeper that ran it
    watch = Watch()
    config.pluginmanager.register(watch)
    sys.addaudithook(watch.refuse)
    signal.signal(signal.SIGUSR2, watch.fail)
