"""Approvals and questions at the console: every answer, from two tabs at once, and by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hilt.state.approvals import Approvals
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.http.console.browsing import Tab, shows
from tests.surfaces.http.servers import Server, Waiting, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server on a workspace in which no rule allows write_file."""
    command = Command(str(tmp_path_factory.mktemp("asking")))
    command.folder.write("../config/permissions.yaml", "default: ask\ndeny: [web_fetch]\n")
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


def press(page: Page, key: str) -> None:
    """Press a key as soon as keys answer the current card."""
    shows(page.locator(".card.current.ready"))
    page.keyboard.press(key)


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
    press(tab.page, "a")
    assert waiting.result()["ok"]
    expect(tab.page.get_by_role("article")).to_have_count(0)

    waiting = asks(server, "deny.txt")
    shows(tab.page.get_by_role("article", name="write_file"))
    press(tab.page, "d")
    expect(tab.page.get_by_label("Reason")).to_be_focused()
    tab.page.keyboard.type("a reason")  # a is text here
    tab.page.keyboard.press("Enter")
    assert "a reason" in waiting.result()["error"]
    expect(tab.page.get_by_role("article")).to_have_count(0)

    waiting = asks(server, "kept.txt")
    shows(tab.page.get_by_role("article", name="write_file"))
    press(tab.page, "A")
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
    press(page, "a")
    assert older.result()["ok"]
    expect(page.get_by_role("article")).to_have_count(1)
    press(page, "d")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Enter")
    assert not newer.result()["ok"]


def test_a_key_allows_an_approval_below_a_question(server, approvals):
    page = approvals().page
    options = [{"label": "one"}, {"label": "two"}]
    question = Waiting(lambda: server.call("ask_user", questions=[{"question": "How many?", "options": options}]))
    shows(page.get_by_role("article", name="Question"))
    waiting = asks(server, "below.txt")
    shows(page.get_by_role("article", name="write_file"))

    page.keyboard.press("a")  # scrolls to it
    press(page, "a")

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
    press(page, "p")
    shows(card.get_by_role("button", name="Side by side"))
    press(page, "a")

    assert waiting.result()["ok"]
    assert "gone.txt" not in server.command.folder.tree()
    shows(page.get_by_role("article", name="write_file"))
    press(page, "a")
    assert older.result()["ok"]


def test_a_key_acts_only_on_a_card_that_has_been_in_view(server, approvals):
    page = approvals().page
    waiting = asks(server, "seen.txt")
    card = page.get_by_role("article", name="write_file")
    shows(page.locator(".card.current.ready"))
    card.evaluate("(card) => { card.style.marginTop = '3000px'; }")
    expect(page.locator(".card.ready")).to_have_count(0)

    page.keyboard.press("a")  # scrolls to the card
    expect(card).to_be_in_viewport()
    page.evaluate("document.querySelector('main').scrollTop = 0")
    page.keyboard.press("A")
    expect(card).to_be_in_viewport()
    assert [row["state"] for row in server.get("/v1/approvals")["approvals"]] == ["pending"]

    press(page, "a")
    assert waiting.result()["ok"]


def test_a_key_does_not_act_on_a_card_that_was_covered(server, approvals):
    page = approvals().page
    waiting = asks(server, "covered.txt")
    shows(page.locator(".card.current.ready"))

    page.keyboard.press("?")
    expect(page.locator(".card.ready")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    shows(page.locator(".card.current.ready"))
    cover = "const cover = document.body.appendChild(document.createElement('p')); cover.className = 'cover'"
    page.evaluate(f"{cover}; cover.style = 'position: fixed; inset: 0; z-index: 9; background: var(--panel)'")
    page.keyboard.press("a")

    assert [row["state"] for row in server.get("/v1/approvals")["approvals"]] == ["pending"]
    page.evaluate("document.querySelector('.cover').remove()")
    press(page, "a")
    assert waiting.result()["ok"]


def test_a_click_does_not_hit_a_card_that_moves_below_the_pointer(server, approvals):
    page = approvals().page
    both = [asks(server, "above.txt"), asks(server, "below.txt")]
    expect(page.get_by_role("article")).to_have_count(2)
    page.evaluate("document.querySelector('main').scrollTop = 0")
    once = page.get_by_role("button", name="Allow once").first
    box = once.bounding_box()
    assert box is not None
    once.click()
    page.evaluate(
        """([x, y]) => new Promise((resolve) => {
            const observer = new MutationObserver(() => {
                if (document.querySelectorAll(".card").length > 1) return;
                window.hit = document.elementFromPoint(x, y).tagName;
                observer.disconnect();
                resolve();
            });
            observer.observe(document.querySelector(".cards"), { childList: true });
        })""",
        [box["x"] + 5, box["y"] + 5],
    )
    assert page.evaluate("window.hit") != "BUTTON"
    page.get_by_role("button", name="Allow once").click()
    assert all(waiting.result()["ok"] for waiting in both)


def test_enter_on_a_button_first_brings_its_card_into_view(server, approvals):
    page = approvals().page
    page.set_viewport_size({"width": 320, "height": 256})  # as zoomed to 400 %
    waiting = asks(server, "low.txt")
    once = page.get_by_role("button", name="Allow once")
    once.focus()
    page.evaluate("document.querySelector('main').scrollTop = 1e6")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article").get_by_role("heading")).to_be_in_viewport(ratio=1)
    assert [row["state"] for row in server.get("/v1/approvals")["approvals"]] == ["pending"]

    shows(page.locator(".card.current.ready"))
    page.keyboard.press("Enter")
    assert waiting.result()["ok"]


def test_keys_pressed_at_once_do_not_answer_the_next_card(server, approvals):
    page = approvals().page
    both = [asks(server, "first.txt"), asks(server, "second.txt")]
    expect(page.get_by_role("article")).to_have_count(2)
    shows(page.locator(".card.current.ready"))
    page.evaluate(
        "for (const key of 'aaaa') document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
    )

    expect(page.get_by_role("article")).to_have_count(1)
    assert len(server.get("/v1/approvals")["approvals"]) == 1
    press(page, "a")
    assert all(waiting.result()["ok"] for waiting in both)


@needs_sandbox
def test_after_a_preview_no_key_acts_before_the_preview_is_in_view(server, approvals):
    folder = server.command.folder
    for number in range(40):
        folder.write(f"kept/{number}.txt", "line\n" * 40)
    page = approvals().page
    others = [asks(server, f"other{number}.txt") for number in range(6)]
    expect(page.get_by_role("article")).to_have_count(6)
    waiting = Waiting(lambda: server.call("run_shell", command="rm -rf kept", force=True))
    card = page.get_by_role("article", name="run_shell")
    expect(card).to_have_count(1)
    for _ in range(6):
        page.keyboard.press("k")
    press(page, "p")
    page.mouse.move(600, 500)
    page.mouse.wheel(0, 2000)
    shows(card.get_by_label("Files"))
    expect(card).to_have_count(1)  # the one without a preview has left
    page.evaluate("document.querySelector('main').scrollTop = 1e6")
    expect(card).not_to_be_in_viewport()

    page.keyboard.press("a")

    expect(card).to_be_in_viewport()
    heading, buttons = card.get_by_role("heading"), card.get_by_role("button", name="Deny")
    expect(heading).to_be_in_viewport(ratio=1)
    expect(buttons).to_be_in_viewport(ratio=1)
    hidden = card.get_by_label("Command").evaluate("(command) => command.scrollHeight - command.clientHeight")
    assert hidden == 0  # the long list of files does not squeeze it
    shows(card.get_by_text("40 files: 40 deleted"))
    assert "kept/0.txt" in folder.tree()
    press(page, "d")
    page.keyboard.press("Enter")
    assert not waiting.result()["ok"]
    for number, other in enumerate(others):
        one = page.get_by_role("article").filter(has_text=f"other{number}.txt")
        one.get_by_role("button", name="Deny").click()
        assert not other.result()["ok"]


def test_all_files_are_listed_and_always_needs_all_of_the_call_to_be_shown(server, approvals):
    page = approvals().page
    server.command.folder.write("old.txt", "x\n")
    patch = "".join(
        f"*** Add File: {name}\n" + "".join(f"+line {number}\n" for number in range(500))
        for name in ("setup.cfg", "deploy.sh", *(f"new{number}.py" for number in range(9)))
    )
    patch = f"*** Begin Patch\n{patch}*** Delete File: old.txt\n*** End Patch"
    waiting = Waiting(lambda: server.call("apply_patch", patch=patch))
    card = page.get_by_role("article", name="apply_patch")
    files = card.get_by_label("Files").get_by_role("listitem")
    expect(files).to_have_count(12)
    expect(files.nth(0)).to_have_text(re.compile("created setup.cfg runs later, by package managers"))
    expect(files.nth(1)).to_have_text(re.compile("created deploy.sh runs later"))
    expect(files.last).to_have_text(re.compile("deleted old.txt"))
    expect(card.get_by_label("Arguments")).to_contain_text("the diff shows what they change")
    always = card.get_by_role("button", name="Always allow")
    expect(always).to_be_disabled()

    card.get_by_role("button", name="Show all").click()

    expect(always).to_be_enabled()
    expect(card.get_by_role("cell", name="added: line 499")).to_have_count(11)
    card.get_by_role("button", name="Deny").click()
    assert not waiting.result()["ok"]


def test_what_the_server_could_not_show_is_never_always_allowed(server, approvals):
    page = approvals().page
    waiting = Waiting(lambda: server.call("write_file", path="huge.txt", content="line\n" * 250_000))
    card = page.get_by_role("article", name="write_file")
    shows(card.get_by_text("not shown: its diff is too long"))
    expect(card.get_by_role("button", name="Always allow")).to_be_disabled()
    card.get_by_role("button", name="Deny").click()
    assert not waiting.result()["ok"]
