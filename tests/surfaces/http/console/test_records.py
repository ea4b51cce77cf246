"""The pages Tasks, Agents, Tools, Metrics, Audit and Settings, with every button."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import WebSocketRoute, expect

from tests.surfaces.http.console.browsing import shows


def test_a_task_is_added_edited_and_moved_by_keyboard_alone(tab, playground):
    page = tab.go("Tasks")
    title = page.get_by_label("Title")
    title.fill("Write a manual")
    title.press("Enter")
    card = page.get_by_role("article", name="Write a manual")
    shows(page.get_by_role("region", name="Pending").get_by_role("article", name="Write a manual"))

    card.focus()
    card.press("Enter")
    dialog = page.get_by_role("dialog", name="Edit task")
    dialog.get_by_label("Title").fill("Write two manuals")
    dialog.get_by_label("Blocked by").fill("3")
    dialog.get_by_label("Description").fill("For people and agents")
    dialog.get_by_label("Title").press("Enter")
    card = page.get_by_role("article", name="Write two manuals")
    shows(card.get_by_text("Blocked by #3"))

    card.press("Shift+ArrowRight")
    moved = page.get_by_role("region", name="In progress").get_by_role("article", name="Write two manuals")
    shows(moved)
    expect(moved).to_be_focused()
    moved.get_by_role("button", name="Move to Completed").press("Enter")
    shows(page.get_by_role("region", name="Completed").get_by_role("article", name="Write two manuals"))
    (task,) = [row for row in playground.rows("tasks") if row["title"] == "Write two manuals"]
    assert (task["status"], task["blockedBy"]) == ("completed", [3])


def test_a_task_is_dragged_and_a_cycle_is_refused(tab, playground):
    page = tab.go("Tasks")
    blocked = page.get_by_role("article", name="Publish version 2")
    shows(blocked.get_by_text("Blocked by"))
    page.get_by_role("article", name="Write tests for prices").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit task")
    dialog.get_by_label("Blocked by").fill("4")
    dialog.get_by_role("button", name="Save").click()
    shows(dialog.get_by_role("alert"))
    dialog.get_by_role("button", name="Cancel").click()

    page.get_by_role("article", name="Write tests for prices").drag_to(page.get_by_role("region", name="In progress"))
    shows(page.get_by_role("region", name="In progress").get_by_role("article", name="Write tests for prices"))


def test_a_task_that_another_process_adds_appears_by_itself(tab, playground):
    page = tab.go("Tasks")
    shows(page.get_by_role("region", name="Pending"))

    playground.call("task", action="create", title="Added by an agent")

    shows(page.get_by_role("article", name="Added by an agent"))


def test_an_agent_opens_with_its_transcript_and_cancel_ends_its_descendants(tab):
    page = tab.go("Agents")
    tree = page.get_by_role("navigation", name="Agents")
    shows(tree.get_by_text("depth 2").first)
    tree.get_by_role("link", name="Review how prices are rounded").click()
    details = page.get_by_role("region", name="Agent", exact=True)
    shows(details.get_by_text("18.2K in, 1.4K out"))
    shows(page.get_by_text("I'll search for it."))
    page.get_by_text("Result of search_files").click()
    shows(page.get_by_text("price.py:4:def total(prices):"))

    page.get_by_label("Message").fill("Look at taxes, too.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_label("Message")).to_have_value("")
    details.get_by_role("button", name="Cancel").click()

    expect(details.get_by_role("button", name="Cancel")).to_be_disabled()
    shows(tree.get_by_role("link", name="Find all callers of total").get_by_text("cancelled"))


def test_tools_are_searched_and_their_errors_name_file_and_line(tab):
    page = tab.go("Tools")
    shows(page.get_by_text(re.compile(r"config/tools/invoice\.md:5")))
    page.get_by_label("Search").fill("price label")
    links = page.locator(".tool-list li")
    expect(links).to_have_count(1)
    links.first.click()
    tool = page.get_by_role("article", name="label")
    shows(tool.get_by_text("Source: personal"))
    tool.get_by_role("tab", name="Input schema").click()
    shows(tool.get_by_text('"price"'))


def test_a_tool_is_tried_with_a_form_made_from_its_schema(tab, playground):
    page = tab.open("tools?name=label")
    page.get_by_role("button", name="Try it").click()
    form = page.get_by_role("form", name="Try it")
    form.get_by_label("price").fill("abc")
    form.get_by_role("button", name="Run").click()
    shows(form.get_by_text("price must be a number."))
    form.get_by_label("price").fill("1999")
    form.get_by_label("currency").select_option("USD")
    form.get_by_role("button", name="Run").click()
    shows(form.get_by_text("USD 19.99"))
    form.get_by_role("tab", name="Envelope").click()
    shows(form.get_by_text('"ok": true'))

    page = tab.open("tools?name=edit_file")
    page.get_by_role("button", name="Try it").click()
    page.get_by_label("path").fill("shop.py")
    page.get_by_label("old_text").fill("from price import total")
    page.get_by_label("new_text").fill("import price")
    page.get_by_label("Dry run").check()
    page.get_by_role("button", name="Run").click()
    shows(page.get_by_role("region", name="Result").get_by_text("import price").first)
    assert "from price" in playground.call("read_file", path="shop.py")["result"]


def test_a_call_that_waits_for_approval_is_answered_and_its_result_stays(tab):
    page = tab.open("tools?name=write_file")
    page.get_by_role("button", name="Try it").click()
    page.get_by_label("path").fill("tried.txt")
    page.get_by_label("content").fill("from the console")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("link", name="Answer it").click()
    card = page.get_by_role("article", name="write_file")
    card.get_by_role("button", name="Allow once").click()
    expect(card).to_have_count(0)

    page.go_back()
    shows(page.get_by_role("region", name="Result").get_by_role("tab", name="View"))
    expect(page.get_by_role("region", name="Result").get_by_role("alert")).to_have_count(0)


def test_metrics_have_three_ranges_and_numbers(tab):
    page = tab.go("Metrics")
    shows(page.get_by_role("img", name=re.compile("Calls per minute: at most")))
    for name in ("1 h", "7 d", "24 h"):
        button = page.get_by_role("button", name=name, exact=True)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        shows(page.locator(".tiles").get_by_text("$0.1047"))
    table = page.get_by_role("table", name="Tools")
    shows(table.get_by_role("row", name=re.compile(r"run_shell \d+ 1 ")))
    page.get_by_role("link", name="sensitive_path").click()
    shows(page.get_by_role("heading", level=1, name="Audit"))
    expect(page.get_by_label("Outcome")).to_have_value("sensitive_path")
    expect(page.get_by_role("table", name="Recorded calls").get_by_role("row")).to_have_count(2)


def test_the_audit_trail_is_searched_verified_and_exported(tab):
    page = tab.go("Audit")
    rows = page.get_by_role("table", name="Recorded calls").get_by_role("row")
    page.get_by_label("Search").fill("git push")
    expect(rows).to_have_count(2)
    shows(rows.nth(1).get_by_text("deny", exact=True))
    page.get_by_role("button", name="Verify").click()
    shows(page.get_by_text("The audit trail is intact"))

    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()

    (entry,) = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert (entry["tool"], entry["outcome"]) == ("run_shell", "denied")
    page.get_by_label("Search").fill("nothing has this")
    shows(page.get_by_text("No call matches"))


def test_rows_of_the_audit_trail_do_not_move_by_themselves(tab, playground):
    page = tab.go("Audit")
    rows = page.get_by_role("table", name="Recorded calls").get_by_role("row")
    shows(rows.nth(1))
    first = rows.nth(1).inner_text()
    playground.call("stat_file", path="price.py")
    button = page.get_by_role("button", name="Load new calls")
    shows(button)
    assert rows.nth(1).inner_text() == first

    button.click()

    expect(rows.nth(1)).to_contain_text("stat_file")
    expect(button).to_have_count(0)


def test_older_calls_that_arrive_after_the_audit_list_are_not_new(tab):
    routes: list[WebSocketRoute] = []
    held: list[str | bytes] = []
    is_listed = False

    def hold(route: WebSocketRoute) -> None:
        routes.append(route)
        route.connect_to_server().on_message(lambda message: route.send(message) if is_listed else held.append(message))

    tab.page.route_web_socket(re.compile("/v1/events"), hold)
    page = tab.open("audit")
    shows(page.get_by_role("table", name="Recorded calls").get_by_role("row").nth(1))
    with page.expect_response(re.compile(r"/v1/audit\?.*limit=1(&|$)")):
        is_listed = True
        for message in held:
            routes[0].send(message)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    expect(page.get_by_role("button", name="Load new calls")).to_have_count(0)


def test_settings_show_sources_rules_and_servers_and_grants_are_revoked(tab, playground):
    page = tab.go("Settings")
    shows(page.get_by_role("row", name="approvals.timeout_s 86400").get_by_text("config.toml"))
    shows(page.get_by_role("region", name="Rules").get_by_text("Bash(git push:*)"))
    shows(page.get_by_role("row", name=re.compile("stock untrusted")))
    shows(page.get_by_text("No program is connected over MCP"))
    page.get_by_label("Filter rows").fill("shell.network")
    expect(page.get_by_role("table", name="Values").get_by_role("row")).to_have_count(2)

    page.get_by_role("button", name=re.compile("Revoke write_file")).click()

    shows(page.get_by_text("No grants"))
    assert playground.rows("grants") == []


def test_a_file_is_trusted_after_its_text_was_shown(tab):
    page = tab.go("Settings")
    page.get_by_role("button", name=re.compile(r"Review .*permissions\.yaml")).click()
    dialog = page.get_by_role("dialog", name=re.compile("Review"))
    shows(dialog.get_by_text("- Bash(make:*)"))
    dialog.get_by_role("button", name="Trust", exact=True).click()
    expect(dialog).to_have_count(0)
    row = page.get_by_role("row", name=re.compile(r"permissions\.yaml rules trusted"))
    shows(row)

    row.get_by_role("button", name=re.compile("Revoke")).click()

    shows(page.get_by_role("row", name=re.compile(r"permissions\.yaml rules untrusted")))
