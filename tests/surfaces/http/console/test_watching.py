"""Activity, jobs and changes: what happens is shown as it happens, as what it is, and without moving what is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from hilt.state.events import EventStore, NewEvent
from tests.surfaces.http.conftest import asking
from tests.surfaces.http.console.browsing import Tab, shows
from tests.surfaces.http.servers import Server, serving

SCRIPT = "<img src=x onerror=window.ran=1><script>window.ran=1</script>"
LINK = "[link](javascript:window.ran=1) ![i](http://example.invalid/i.png)"
TURNED = "\u202egnp.exe\u2066\u200f"
RED = "\x1b[31mred\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[0m \x1b]8;;javascript:window.ran=1\x07link\x1b]8;;\x07"
LONG = "A" * 100_000
HOSTILE = f"{SCRIPT}{TURNED}{RED}"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

DIFF = {
    "type": "diff",
    "path": HOSTILE,
    "hunks": [
        {
            "changes": [
                {"type": "context", "content": "same", "oldLineNumber": 1, "newLineNumber": 1},
                {"type": "removed", "content": "the old word", "oldLineNumber": 2},
                {"type": "added", "content": f"the new word {HOSTILE}", "newLineNumber": 2},
                {"type": "added", "content": LONG, "newLineNumber": 3},
            ]
        }
    ],
    "additions": 2,
    "deletions": 1,
}
TABLE = {
    "type": "table",
    "columns": [{"key": "a", "label": HOSTILE}, {"key": "n", "label": "N"}],
    "rows": [{"a": f"{HOSTILE}{number}", "n": number} for number in range(300)],
}
CODE = f"def f():\n    pass  # {HOSTILE}\n{LONG}"
FILES = [{"label": HOSTILE, "files": [{"path": f"x{HOSTILE}", "action": "created"}]}]
TEXT = f"# Title\n\n**bold** {LINK} {HOSTILE}\n\n|a|b|\n|:-:|-:|\n|1|{SCRIPT}|\n"
SHELL = {"command": f"run {HOSTILE}", "stdout": f"{HOSTILE}\n{LONG}", "stderr": RED, "exitCode": 3}
TODO = {"content": f"do {HOSTILE}", "status": "in_progress", "priority": "high"}
# the view, and what a person must see of it
VIEWS: dict[str, tuple[dict[str, Any], str]] = {
    "diff": (DIFF, "the new word"),
    "diffs": ({"type": "diffs", "items": [DIFF, DIFF]}, "the old word"),
    "code": ({"type": "code", "path": "a.py", "content": CODE, "language": "python"}, "def"),
    "file-list": ({"type": "file-list", "groups": FILES}, "created"),
    "table": (TABLE, "Copy as CSV"),
    "markdown": ({"type": "markdown", "content": TEXT}, "bold"),
    "shell-output": ({"type": "shell-output", **SHELL}, "exit 3"),
    "todo-list": ({"type": "todo-list", "items": [TODO]}, "do <img"),
    "none": ({"type": "none", "message": f"quiet {HOSTILE}"}, "quiet"),
    "unknown": ({"type": "hologram", "content": HOSTILE}, "the plain result"),
    "broken": ({"type": "diff", "path": "a", "hunks": [{"changes": "no list"}]}, "the plain result"),
    "hollow": ({"type": "table", "columns": None, "rows": [1]}, "the plain result"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server on a workspace in which write_file asks."""
    with serving(asking(str(tmp_path_factory.mktemp("watched")))) as server:
        yield server


@pytest.fixture
def watching(new_tab, server) -> Tab:
    """A tab on the server."""
    tab: Tab = new_tab(f"{server.url}/#token={server.token}")
    return tab


def publish(server: Server, count: int = 1, **facts: Any) -> None:
    """Append events of calls, as other processes do."""
    store = EventStore(server.command.state)
    call: dict[str, Any] = {"session": "s", "tool": "read_file", "outcome": "ok", "ms": 1.5, "verdict": "allow"}
    call |= {"reason": "", "args": {"path": "a.txt"}, "votes": [], "envelope": {"ok": True, "result": ""}}
    for _ in range(count):
        store.append(NewEvent("call", {**call, **facts}))
    store.close()


def head(page: Page, text: str) -> Locator:
    """Return the row of a call."""
    return page.get_by_role("list", name="Calls").get_by_role("button").filter(has_text=text).first


def top(locator: Locator) -> float:
    box = locator.bounding_box()
    assert box is not None
    return box["y"]


def test_every_view_is_drawn_and_hostile_text_in_it_is_text(watching, server):
    page = watching.page
    image = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    for name, (view, expected) in VIEWS.items():
        envelope = {"ok": True, "result": "the plain result", "visualization": view, "content": [image]}
        facts: dict[str, Any] = {
            "tool": f"tool_{name}_{SCRIPT}",
            "session": TURNED,
            "args": {"path": f"{HOSTILE}{LONG}"},
        }
        publish(server, **facts, envelope=envelope)
        head(page, f"tool_{name}_").click()

        panel = page.get_by_role("tabpanel")
        shows(panel.get_by_text(expected).first)
        shows(panel.get_by_role("button", name="Zoom image 1"))
        for tab in ("Arguments", "Envelope", "Why"):
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        text = page.evaluate("document.body.textContent")
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200f\x1b]", text), name
        assert page.evaluate("window.ran") is None, name
        head(page, f"tool_{name}_").click()


def test_an_open_row_and_a_row_that_is_read_stay_in_their_places(watching, server):
    page = watching.page
    publish(server, 200)
    publish(server, tool="opened")
    publish(server, 3)
    head(page, "opened").click()
    before = top(head(page, "opened"))

    publish(server, 150, tool="newer")
    shows(page.get_by_role("button", name="150 new calls"))

    assert top(head(page, "opened")) == before
    page.get_by_role("button", name="150 new calls").click()
    shows(head(page, "newer"))


def test_calls_are_filtered_and_paused(watching, server):
    page = watching.page
    publish(server, tool="first_tool", args={"path": "needle.txt"})
    publish(server, tool="failing_tool", outcome="file_not_found")
    publish(server, tool="denied_tool", outcome="denied")
    shows(head(page, "denied_tool"))

    page.get_by_label("Filter").fill("needle")
    shows(head(page, "first_tool"))
    expect(head(page, "failing_tool")).to_have_count(0)
    page.get_by_label("Filter").fill("")
    page.get_by_label("Outcome").select_option("Failed")
    shows(head(page, "failing_tool"))
    expect(head(page, "first_tool")).to_have_count(0)
    page.get_by_label("Outcome").select_option("Any outcome")
    page.get_by_role("button", name="Pause").click()
    publish(server, tool="later_tool")
    shows(page.get_by_role("button", name="1 new call"))
    expect(head(page, "later_tool")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    shows(head(page, "later_tool"))


def test_a_call_is_shown_while_it_runs_and_turns_into_its_end(watching, server):
    page = watching.page
    store = EventStore(server.command.state)
    facts = {"id": "c1", "session": "s", "tool": "slow_tool", "args": {"command": "sleep"}}
    store.append(NewEvent("call_started", facts))
    expect(head(page, "slow_tool")).to_contain_text("running")

    publish(server, id="c1", tool="slow_tool", ms=1234)

    expect(head(page, "slow_tool")).to_contain_text("1.2 s")
    expect(page.get_by_role("button").filter(has_text="slow_tool")).to_have_count(1)


def test_a_job_is_followed_searched_typed_into_and_stopped(watching, server):
    command = "printf '\\033[31mstarted\\033[0m <b>\\n'; while read line; do echo \"heard $line\"; done"
    server.call("run_shell", command=command, run_in_background=True, tty=True)
    page = watching.go("Jobs")

    shows(page.get_by_text("started").last)
    page.get_by_label("Send a line").fill("hello job")
    page.get_by_role("button", name="Send a line").click()
    shows(page.get_by_text("heard hello job"))
    page.get_by_label("Search").fill("heard")
    shows(page.get_by_text("1 of 1"))
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Stop").click()

    shows(page.get_by_role("region", name="Job").get_by_text("stopped"))
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()


def test_a_change_is_restored_after_a_preview_and_the_restore_too(watching, server):
    folder = server.command.folder
    folder.write("b.txt", "one\n")
    server.call("edit_file", path="b.txt", old_text="one", new_text="two")
    page = watching.go("Changes")
    dialog = page.get_by_role("dialog")
    row = page.get_by_role("link").filter(has_text="b.txt")

    page.get_by_role("button", name="Restore").click()
    shows(dialog.get_by_role("cell", name="added: one"))
    assert folder.read("b.txt") == "two\n"
    dialog.get_by_role("button", name="Restore").click()
    shows(page.get_by_text("Restored b.txt."))
    assert folder.read("b.txt") == "one\n"

    row.filter(has_text="undo").click()
    page.get_by_role("button", name="Restore").click()
    dialog.get_by_role("button", name="Restore").click()
    shows(page.get_by_text("Restored b.txt."))
    assert folder.read("b.txt") == "two\n"


def test_enter_restores_nothing_before_the_preview_is_drawn(watching, server):
    folder = server.command.folder
    folder.write("early.txt", "one\n")
    server.call("edit_file", path="early.txt", old_text="one", new_text="two")
    page = watching.go("Changes")
    page.get_by_role("link").filter(has_text="early.txt").click()
    previews: list[Route] = []

    def hold(route: Route) -> None:
        previews.append(route)

    page.route("**/v1/changes/*", hold)

    page.get_by_role("button", name="Restore").click()
    dialog = page.get_by_role("dialog")
    shows(dialog.get_by_text("Loading"))
    page.keyboard.press("Enter")
    shows(dialog)  # the close button has not the focus
    expect(dialog.get_by_role("button", name="Restore")).to_be_disabled()
    expect(dialog.get_by_role("button", name="Close")).not_to_be_focused()
    previews[0].continue_()
    page.unroute_all()

    shows(dialog.get_by_role("cell", name="added: one"))
    expect(dialog.get_by_role("button", name="Restore")).to_be_focused()
    assert folder.read("early.txt") == "two\n"
    page.keyboard.press("Enter")
    shows(page.get_by_text("Restored early.txt."))
    assert folder.read("early.txt") == "one\n"


def test_a_file_that_was_edited_since_the_preview_is_not_restored_unseen(watching, server):
    folder = server.command.folder
    folder.write("edited.txt", "one\n")
    server.call("edit_file", path="edited.txt", old_text="one", new_text="two")
    page = watching.go("Changes")
    page.get_by_role("link").filter(has_text="edited.txt").click()
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Restore").click()
    shows(dialog.get_by_role("cell", name="added: one"))

    folder.write("edited.txt", "two\nmine\n")
    dialog.get_by_role("button", name="Restore").click()

    shows(dialog.get_by_text("The files have changed since this was shown."))
    shows(dialog.get_by_role("cell", name="removed: mine"))
    assert folder.read("edited.txt") == "two\nmine\n"
    dialog.get_by_role("button", name="Restore").click()
    shows(page.get_by_text("Restored edited.txt."))
    assert folder.read("edited.txt") == "one\n"


def test_responses_aborted_by_leaving_a_page_are_not_cached(watching):
    page = watching.page
    # the headers of a response arrive, but its body not before the page is left
    page.evaluate("""() => {
        const real = window.fetch;
        window.fetch = async (address, options) => {
            if (!address.startsWith("/v1/stats")) return real(address, options);
            window.fetch = real;
            const body = new ReadableStream({
                start: (stream) => options.signal.addEventListener("abort", () => stream.error(options.signal.reason)),
            });
            return new Response(body, { status: 200 });
        };
    }""")
    watching.go("Metrics")
    watching.go("Audit")
    watching.go("Metrics")

    shows(page.get_by_text("Approvals waiting"))


def test_csv_of_a_table_runs_no_formula_in_a_spreadsheet(watching, server):
    page = watching.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    rows = [{"a": '=cmd|"/c calc"!A1', "n": -5}]
    view = {"type": "table", "columns": [{"key": "a", "label": "A"}, {"key": "n", "label": "N"}], "rows": rows}
    publish(server, tool="sheet", envelope={"ok": True, "result": json.dumps(rows), "visualization": view})
    head(page, "sheet").click()

    page.get_by_role("button", name="Copy as CSV").click()
    shows(page.get_by_role("button", name="Copied"))

    assert page.evaluate("navigator.clipboard.readText()") == '"A","N"\r\n"\'=cmd|""/c calc""!A1","-5"'


def test_a_list_ignores_a_scroll_event_that_arrives_after_its_page_was_left(tab, server):
    server.call("list_dir", path=".")
    shows(tab.page.locator(".call-head").first)
    scrolled = tab.page.locator(".virtual").first.element_handle()
    tab.go("Tasks")

    scrolled.evaluate("element => element.dispatchEvent(new Event('scroll'))")

    assert tab.problems() == []
