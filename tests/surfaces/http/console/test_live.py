"""The console while things happen: a call, thousands of events, and a server that is killed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from hilt.state.events import EventStore, NewEvent
from tests.probed import remember_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.http.console.browsing import Tab, shows
from tests.surfaces.http.servers import Server, Waiting, serving

EVENTS = 5_000


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server on an empty workspace."""
    base = str(tmp_path_factory.mktemp("live"))
    remember_sandbox(f"{base}/state")
    with serving(Command(base)) as server:
        yield server


@pytest.fixture
def live(new_tab, server) -> Tab:
    """A tab on the server."""
    tab: Tab = new_tab(f"{server.url}/#token={server.token}")
    shows(tab.page.get_by_text("Live"))
    return tab


def test_a_call_appears_by_itself_and_opens_with_its_details(live, server):
    page = live.page
    server.call("write_file", path="a.py", content="print('hello')\n", session="writer")

    row = page.get_by_role("button", name=re.compile("writer.*write_file.*a.py.*ok"))
    row.click()
    for name, text in (
        ("View", "print"),
        ("Arguments", '"path": "a.py"'),
        ("Envelope", '"ok": true'),
        ("Why", "allow"),
    ):
        page.get_by_role("tab", name=name).click()
        shows(page.get_by_role("tabpanel").get_by_text(text).first)


def test_thousands_of_events_arrive_and_stay_usable(live, server):
    page = live.page
    facts = {"workspace": server.command.folder.path, "session": "flood", "tool": "read_file", "verdict": "allow"}
    more = {"reason": "it only reads", "outcome": "ok", "ms": 1.0, "votes": [], "approver": "", "change": None}
    events = EventStore(server.command.state)
    for number in range(EVENTS):
        args = {"path": f"file{number}.txt"}
        envelope = {"ok": True, "result": f"1\t{number}"}
        events.append(NewEvent("call", {**facts, **more, "args": args, "envelope": envelope}))
    events.close()

    shows(page.get_by_text(f"file{EVENTS - 1}.txt"))
    assert page.locator(".call-head").count() < 200  # only what is visible is drawn
    page.get_by_label("Filter").fill("file17.txt")
    expect(page.locator(".call-head")).to_have_count(1)
    page.get_by_label("Filter").fill("")
    page.keyboard.press("Escape")
    live.go("Tasks")
    live.go("Activity")
    shows(page.get_by_text(f"file{EVENTS - 1}.txt"))


def test_a_page_survives_a_server_that_is_killed_and_started_again(new_tab, tmp_path):
    base = str(tmp_path)
    remember_sandbox(f"{base}/state")
    command = Command(base)
    command.folder.write("../config/permissions.yaml", "permissions:\n  ask: [write_file]\n")
    with serving(command, cold=True) as server:
        tab: Tab = new_tab(f"{server.url}/#token={server.token}")
        page = tab.page
        shows(page.get_by_text("Live"))
        server.call("read_file", path="before.txt")
        shows(page.get_by_text("before.txt"))
        server.process.kill()
        shows(page.get_by_role("alert"))
        shows(page.get_by_text("Not connected"))
    tab.errors.clear()  # of requests without a server

    with serving(command, "--port", str(server.port)) as server:
        shows(page.get_by_text("Live"))
        expect(page.get_by_role("alert")).to_have_count(0)
        server.call("read_file", path="after.txt")
        shows(page.get_by_text("after.txt"))
        expect(page.get_by_text("before.txt")).to_have_count(1)
        waiting = Waiting(lambda: server.call("write_file", path="new.txt", content="x\n"))
        tab.go("Approvals")
        page.get_by_role("button", name="Allow once").click()
        assert waiting.result()["ok"]
        tab.errors.clear()
