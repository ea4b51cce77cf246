"""Untrusted text in every part of the console: nothing runs, nothing is loaded, nothing is reordered."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from hilt.agents.starting import transcripts_of
from hilt.runtime import Runtime
from hilt.state.roster import AgentLimits, AgentOutcome, AgentProfile, NewAgent
from tests.surfaces.commands import Command
from tests.surfaces.http.console.browsing import NARROW, PAGES, Tab, shows
from tests.surfaces.http.servers import Server, Waiting, serving

BIDI = "\u202egnp.exe\u202c"
MARKUP = (
    "<img src=x onerror=\"alert('img')\"><script>alert('script')</script><svg onload=alert(1)>"
    '<a href="javascript:alert(\'link\')" style="position:fixed;inset:0" onclick=alert(2)>click me</a>'
    "<iframe srcdoc=\"<script>parent.alert('frame')</script>\"></iframe>"
)
ANSI = "\x1b[31mred\x1b[0m\x1b]8;;javascript:alert(3)\x1b\\link\x1b]8;;\x1b\\\x1b]0;title\x07\x1b[2J"
HOSTILE = f"{MARKUP}{ANSI}{BIDI} &amp; \"quoted\" 'single'"
MARKDOWN = (
    f"# Heading {BIDI}\n\n{MARKUP}\n\n[link](javascript:alert('md')) ![image](http://127.0.0.1:1/x.png \"t\") "
    "<http://127.0.0.1:1/>\n\n| a | b |\n|:-:|--:|\n| left | right |\n\n```html\n<script>alert('code')</script>\n```\n"
)
LONG = "x" * 1_000_000
TOOL = f"""\
---
name: hostile
description: |
  {MARKUP} [link](javascript:alert(4)) {BIDI}
parameters:
  value: {{ type: string, description: "<b onmouseover=alert(5)>bold</b>", enum: ["<script>alert(6)</script>", b] }}
approval: never
read_only: true
---
printf '%s' '| a |'
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server in whose lists every text is hostile."""
    command = Command(str(tmp_path_factory.mktemp("hostile")))
    command.folder.write(
        "../config/permissions.yaml", "permissions:\n  allow: [run_shell, Write, task]\n  ask: [edit_file]\n"
    )
    command.folder.write("../config/tools/hostile.md", TOOL)
    command.folder.write(
        "../config/tools/broken.md", f"---\nname: broken\nparameters: {{ a: {{ type: '{MARKUP}' }} }}\n---\n"
    )
    command.folder.write("notes.md", MARKDOWN)
    command.folder.write("long.txt", LONG)
    command.folder.write(f"{BIDI}<img src=x onerror=alert(7)>.txt", HOSTILE)
    with serving(command) as server:
        _record_agent(command)
        _play(server)
        yield server


def _record_agent(command: Command) -> None:
    with Runtime(command.folder.path, session=MARKUP, environ=command.environ) as runtime:
        profile = AgentProfile(("read_file",), "normal")
        new = NewAgent("s", "s", "spawned", MARKUP, HOSTILE, HOSTILE, "{}", profile)
        agent = runtime.parts.roster.create(new, AgentLimits(5, 20, 3600), owner="nobody")
        transcript = transcripts_of(runtime).create(agent.id, workspace=runtime.parts.root, model=MARKUP, title=MARKUP)
        transcript.append("user", content=MARKDOWN)
        transcript.append("answer", parts=[{"text": MARKDOWN}, {"call": MARKUP, "id": "c", "args": {"a": HOSTILE}}])
        transcript.append("result", id="c", tool=MARKUP, outcome=MARKUP, content=HOSTILE + LONG)
        transcript.close()
        runtime.parts.roster.finish(agent.id, "nobody", AgentOutcome("completed", MARKDOWN))


def _play(server: Server) -> None:
    hostile_name = f"{BIDI}<img src=x onerror=alert(7)>.txt"
    server.call("list_dir", path=".", session=MARKUP)
    server.call("read_file", path="notes.md")
    server.call("read_file", path="long.txt")
    server.call("read_file", path=hostile_name)
    server.call("search_files", pattern="alert")
    server.call("write_file", path=f"new{hostile_name}", content=HOSTILE)
    server.call("write_file", path="wide.txt", content=LONG)
    server.call("run_shell", command=f"printf %s {_quoted(HOSTILE)}; head -c 1000000 /dev/zero | tr '\\0' y")
    server.call("no_such_tool" + MARKUP, value=HOSTILE)
    server.call("todo_write", todos=[{"content": HOSTILE, "status": "pending"}])
    server.call("run_shell", command=f"printf '%s\\n' {_quoted(HOSTILE)}; sleep 600", run_in_background=True)
    server.post("/v1/tasks", {"title": MARKUP[:150], "description": MARKDOWN, "owner": "<b>o</b>"}, status=201)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_nothing_runs_and_nothing_is_loaded_on_any_page(new_tab, server):
    tab: Tab = new_tab(f"{server.url}/#token={server.token}")
    page = tab.page
    shows(page.get_by_text("Live"))
    for name in PAGES:
        tab.go(name)
        _open_everything(tab, name)
        _check(tab)


def test_nothing_runs_in_approvals_and_questions(new_tab, server):
    tab: Tab = new_tab(f"{server.url}/#token={server.token}")
    page = tab.page
    shows(page.get_by_text("Live"))
    asked = Waiting(lambda: server.call("edit_file", path="notes.md", old_text="left", new_text=HOSTILE))
    question = {"question": HOSTILE[:1500], "options": [{"label": MARKUP, "description": MARKDOWN}, {"label": ANSI}]}
    questioned = Waiting(lambda: server.call("ask_user", questions=[question]))
    shows(page.get_by_role("link", name="Approvals 2"))
    tab.go("Approvals")
    shows(page.get_by_role("article", name="edit_file"))
    shows(page.get_by_role("article", name="Question"))
    _check(tab)

    page.get_by_role("article", name="edit_file").get_by_role("button", name="Deny").click()
    assert not asked.result()["ok"]
    page.get_by_role("article", name="Question").get_by_role("radio").first.check()
    page.get_by_role("button", name="Answer").click()
    assert questioned.result()["ok"]


def _check(tab: Tab) -> None:
    """Check that no text has become markup of the page."""
    page = tab.page
    inside = "main *:is(script, iframe, [onerror], [onload], [onclick], [style*='inset'], a[href^='javascript'])"
    assert page.locator(inside).count() == 0, page.url
    assert page.locator("main img[src^='http'], main img[src='x']").count() == 0, page.url
    assert not {"\u202e", "\u202c", "\x1b", "\x07"} & set(page.locator("main").inner_text()), page.url
    assert tab.problems() == [], page.url


def _open_everything(tab: Tab, name: str) -> None:
    """Open the rows of a page, one after the other."""
    page = tab.page
    if name == "Activity":
        rows = page.locator(".call-head")
        shows(rows.nth(9))
        for index in range(10):
            rows.nth(index).click()
            for part in ("Arguments", "Envelope", "Why", "View"):
                page.get_by_role("tab", name=part).first.click()
            rows.nth(index).click()
    elif name in ("Jobs", "Changes"):
        row = page.locator("main ul .row").first
        shows(row)
        row.click()
    elif name == "Tasks":
        page.get_by_role("article").first.press("Enter")
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    elif name == "Agents":
        page.locator(".tree a").first.click()
        page.locator("details.message summary").last.click()
        shows(page.locator(".message .markdown table").first)
    elif name == "Tools":
        page.get_by_label("Search").fill("hostile")
        page.locator(".tool-list li a").first.click()
        page.get_by_role("button", name="Try it").click()
        page.get_by_role("button", name="Run").click()
        shows(page.get_by_role("region", name="Result"))


def test_a_megabyte_in_one_line_neither_widens_nor_blocks_a_page(new_tab, server):
    tab: Tab = new_tab(f"{server.url}/#token={server.token}", viewport=NARROW)
    page = tab.page
    shows(page.locator(".call-head").first)
    page.get_by_label("Filter").fill("long.txt")
    page.locator(".call-head").first.click()
    shows(page.get_by_role("tabpanel"))
    for part in ("Arguments", "Envelope", "Why", "View"):
        page.get_by_role("tab", name=part).click()
        assert tab.overflow() == 0
    for name in PAGES:
        tab.go(name)
        shows(page.get_by_role("heading", level=1, name=name))
        assert tab.overflow() == 0, name
    tab.go("Changes")
    page.locator("main ul .row").first.click()
    page.get_by_role("button", name="Restore").click()
    shows(page.get_by_role("dialog"))
    assert tab.overflow() == 0
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert os.path.getsize(server.command.folder.join("wide.txt")) == len(LONG)
