"""Fixtures: a Chromium for each module, a full playground, and tabs that must be free of errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.surfaces.http.console.browsing import WAIT_MS, WIDE, Tab, chromium

SCRIPT = Path(__file__).parents[4] / "scripts/playground.py"


class Playground:
    """A running playground: its address with the token, and its API."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        url, _, token = address.partition("/#token=")
        self._client = httpx2.Client(base_url=url, timeout=60, headers={"Authorization": f"Bearer {token}"})

    def call(self, tool: str, **args: Any) -> dict[str, Any]:
        """Call a tool and return the envelope."""
        envelope: dict[str, Any] = self._client.post(
            "/v1/call", json={"tool": tool, "args": args, "session": "t"}
        ).json()
        return envelope

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return a list of the API."""
        rows: list[dict[str, Any]] = self._client.get(f"/v1/{name}").json()[name]
        return rows

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser; while it runs, tests of other modules could not start an event loop."""
    expect.set_options(timeout=WAIT_MS)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def playground(tmp_path_factory) -> Iterator[Playground]:
    """A server with something on every page."""
    folder = tmp_path_factory.mktemp("playground")
    environ = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}
    command = [sys.executable, str(SCRIPT)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=environ, text=True, **pipes)  # type: ignore[call-overload]
    with process:
        try:
            playground = Playground(process, process.stdout.readline().strip())
            yield playground
            playground.close()
        finally:
            process.send_signal(signal.SIGINT)


@pytest.fixture
def new_tab(browser) -> Iterator[Callable[..., Tab]]:
    """Open tabs, each in its own window; at the end, check that nothing went wrong in them."""
    tabs: list[Tab] = []
    contexts = []

    def open_tab(address: str, **options: Any) -> Tab:
        contexts.append(browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options}))
        tabs.append(Tab(contexts[-1], address))
        return tabs[-1]

    yield open_tab
    problems = [problem for tab in tabs if not tab.page.is_closed() for problem in tab.problems()]
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def tab(new_tab, playground) -> Tab:
    """A tab on the playground."""
    opened: Tab = new_tab(playground.address)
    return opened
