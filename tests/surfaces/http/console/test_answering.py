"""Approvals and questions at the console: every answer, from two tabs at once, and by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import expect

from hilt.state.approvals import Approvals
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.http.console.browsing import Tab, shows
from tests.surfaces.http.servers import Server, Waiting, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server on a workspace in which no rule allows write_file."""
    command = Command(str(tmp_path_factory.mktemp("asking")))
    command.folder.write("../config/permissions.yaml", "permissions:\n  deny: [web_fetch]\n")
    with serving(command) as server:
        yield server


@pytest.fixture
def approvals(new_tab, server) -> Callable[[], Tab]:
    """Open the page Approvals in a new window."""

    def open_page() -> Tab:
        tab: Tab = new_tab(f"{server.url}/#token={server.token}")
        tab.go("Approvals")
        shows(tab.page.get_by_text("Live"))
        return tab

    return open_page


def asks(server: Server, path: str, **options: Any) -> Waiting:
    """Ask for a new file, on another thread."""
    return Waiting(lambda: server.call("write_file", path=path, content=f"{path}\n", **options))


def test_of_two_tabs_the_first_answer_counts_and_the_other_says_so(server, approvals):
    first, second = approvals(), approvals()
    waiting = asks(server, "two.txt", session="editor")
    cards = [tab.page.get_by_role("article", name="write_file") for tab in (first, second)]
    for tab, card in zip((first, second), cards, strict=True):
        shows(card.get_by_text("two.txt").first)
        shows(card.get_by_text("editor"))
        shows(card.get_by_label("Reason"))
        expect(tab.page).to_have_title(re.compile(r"\(1\) Approvals"))
        shows(tab.page.get_by_role("link", name="Approvals 1"))

    cards[0].get_by_role("button", name="Allow once").click()

    assert waiting.result()["ok"]
    shows(second.page.get_by_text(re.compile("Allowed.* by console")))
    for tab, card in zip((first, second), cards, strict=True):
        expect(card).to_have_count(0)
        shows(tab.page.get_by_text("Nothing is waiting for you"))
        expect(tab.page).to_have_title(re.compile(r"^Approvals"))


def test_two_tabs_that_answer_at_once_give_one_answer(server, approvals):
    tabs = [approvals(), approvals()]
    waiting = asks(server, "race.txt")
    buttons = [
        tabs[0].page.get_by_role("button", name="Allow once"),
        tabs[1].page.get_by_role("button", name="Deny"),
    ]
    for button in buttons:
        shows(button)
    for button in buttons:
        button.evaluate("(button) => setTimeout(() => button.click(), 100)")

    envelope = waiting.result()

    assert envelope["ok"] is ("race.txt" in server.command.folder.tree())
    for tab in tabs:
        expect(tab.page.get_by_role("article")).to_have_count(0)


def test_always_stores_what_the_card_says(server, approvals):
    page = approvals().page
    waiting = asks(server, "always.txt")
    card = page.get_by_role("article", name="write_file")
    shows(card.get_by_text("write_file(path:./always.txt)"))
    card.get_by_role("button", name="Always allow").click()

    assert waiting.result()["ok"]
    assert server.call("write_file", path="always.txt", content="again\n")["ok"]
    assert [grant["rule"] for grant in server.get("/v1/grants")["grants"]] == ["write_file(path:./always.txt)"]


def test_a_reason_reaches_the_agent(server, approvals):
    page = approvals().page
    waiting = asks(server, "no.txt")
    card = page.get_by_role("article", name="write_file")
    card.get_by_label("Reason").fill("not in this folder")
    card.get_by_role("button", name="Deny").click()

    assert "not in this folder" in waiting.result()["error"]


def test_one_key_allows_from_the_page_and_two_from_anywhere(server, approvals):
    tab = approvals()
    tab.go("Metrics")
    waiting = asks(server, "key.txt")
    shows(tab.page.get_by_role("link", name="Approvals 1"))
    tab.page.keyboard.press("a")
    shows(tab.page.get_by_role("article", name="write_file"))
    tab.page.keyboard.press("a")
    assert waiting.result()["ok"]
    expect(tab.page.get_by_role("article")).to_have_count(0)

    waiting = asks(server, "deny.txt")
    shows(tab.page.get_by_role("article", name="write_file"))
    tab.page.keyboard.press("d")
    expect(tab.page.get_by_label("Reason")).to_be_focused()
    tab.page.keyboard.type("a reason")  # a is text here
    tab.page.keyboard.press("Enter")
    assert "a reason" in waiting.result()["error"]
    expect(tab.page.get_by_role("article")).to_have_count(0)

    waiting = asks(server, "kept.txt")
    shows(tab.page.get_by_role("article", name="write_file"))
    tab.page.keyboard.press("A")
    assert waiting.result()["ok"]
    assert "write_file(path:./kept.txt)" in [grant["rule"] for grant in server.get("/v1/grants")["grants"]]


def test_j_and_k_choose_the_card_that_a_key_answers(server, approvals):
    page = approvals().page
    older = asks(server, "older.txt")
    shows(page.get_by_role("article", name="write_file").filter(has_text="older.txt"))
    newer = asks(server, "newer.txt")
    shows(page.get_by_role("article", name="write_file").filter(has_text="newer.txt"))
    expect(page.get_by_role("article").first).to_contain_text("newer.txt")  # the newest first

    page.keyboard.press("k")  # the older one was chosen while it was alone
    page.keyboard.press("j")
    page.keyboard.press("a")
    assert older.result()["ok"]
    expect(page.get_by_role("article")).to_have_count(1)
    page.keyboard.press("d")
    page.keyboard.press("Enter")
    assert not newer.result()["ok"]


def test_a_key_allows_an_approval_below_a_question(server, approvals):
    page = approvals().page
    options = [{"label": "one"}, {"label": "two"}]
    question = Waiting(lambda: server.call("ask_user", questions=[{"question": "How many?", "options": options}]))
    shows(page.get_by_role("article", name="Question"))
    waiting = asks(server, "below.txt")
    shows(page.get_by_role("article", name="write_file"))

    page.keyboard.press("a")

    assert waiting.result()["ok"]
    page.get_by_role("radio", name="two").check()
    page.get_by_role("button", name="Answer").click()
    assert question.result()["ok"]


def test_a_question_is_answered_with_a_label_or_with_own_words(server, approvals):
    page = approvals().page
    question = {
        "question": "Which colour?",
        "options": [{"label": "red", "description": "as before"}, {"label": "blue", "description": "new"}],
    }
    waiting = Waiting(lambda: server.call("ask_user", questions=[question]))
    card = page.get_by_role("article", name="Question")
    shows(card.get_by_text("Which colour?"))
    shows(card.get_by_text("as before"))
    card.get_by_role("radio", name="blue").check()
    card.get_by_role("button", name="Answer").click()

    assert json.loads(waiting.result()["result"]) == {"answers": {"Which colour?": "blue"}}
    expect(card).to_have_count(0)


def test_an_answer_in_a_terminal_removes_the_card(server, approvals):
    page = approvals().page
    waiting = asks(server, "elsewhere.txt")
    card = page.get_by_role("article", name="write_file")
    shows(card)
    (approval,) = server.get("/v1/approvals")["approvals"]
    with closing(Approvals(server.command.state)) as stored:
        stored.answer(approval["id"], approved=False, reason="", by="terminal")

    assert not waiting.result()["ok"]
    shows(page.get_by_text(re.compile("Denied by terminal")))
    expect(card).to_have_count(0)


@needs_sandbox
def test_after_a_preview_the_next_key_answers_the_same_command(server, approvals):
    server.command.folder.write("gone.txt", "x\n")
    page = approvals().page
    older = asks(server, "older.txt")
    shows(page.get_by_role("article", name="write_file"))
    waiting = Waiting(lambda: server.call("run_shell", command="rm gone.txt", force=True))
    card = page.get_by_role("article", name="run_shell")
    shows(card.get_by_role("button", name="Preview first"))

    page.keyboard.press("k")  # the older card was the current one
    page.keyboard.press("p")
    shows(card.get_by_role("button", name="Side by side"))
    page.keyboard.press("a")

    assert waiting.result()["ok"]
    assert "gone.txt" not in server.command.folder.tree()
    shows(page.get_by_role("article", name="write_file"))
    page.keyboard.press("a")
    assert older.result()["ok"]
