"""Pages that users leave while something is loading: what arrives later causes no error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.surfaces.http.conftest import asking
from tests.surfaces.http.console.browsing import Tab, shows
from tests.surfaces.http.servers import Server, serving

MARKDOWN = {"ok": True, "result": "plain", "visualization": {"type": "markdown", "content": "# A heading"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server on an empty workspace."""
    with serving(asking(str(tmp_path_factory.mktemp("leaving")))) as server:
        yield server


@pytest.fixture
def tab(new_tab, server) -> Tab:
    """A tab on the server."""
    tab: Tab = new_tab(f"{server.url}/#token={server.token}")
    shows(tab.page.get_by_text("Live"))
    return tab


def test_a_task_that_is_added_after_its_form_has_gone(tab):
    page = tab.go("Tasks")
    held: list[Route] = []
    page.route("**/v1/tasks", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    page.get_by_label("Title").fill("Count the apples")
    with page.expect_request("**/v1/tasks"):
        page.get_by_role("button", name="Add").click()

    tab.go("Audit")
    with page.expect_response("**/v1/tasks"):
        held[0].continue_()
    tab.go("Tasks")
    shows(page.get_by_text("Count the apples"))


def test_markdown_whose_code_arrives_after_its_page_has_gone(tab):
    page = tab.go("Tools")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/rendering-*.js", hold)
    page.route("**/v1/call*", lambda route: route.fulfill(json=MARKDOWN))
    page.get_by_label("Search").fill("todo_read")
    page.locator(".tool-list li a").first.click()
    page.get_by_role("button", name="Try it").click()
    page.get_by_role("button", name="Run").click()
    shows(page.get_by_role("region", name="Result").get_by_text("# A heading"))
    while not held:
        page.wait_for_timeout(20)

    page.clock.install(time=0)
    page.clock.pause_at(1000)  # effects that wait for a frame do not end
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Audit").click()
    expect(page.get_by_role("heading", level=1, name="Audit", exact=True)).to_be_visible()
    with page.expect_response("**/rendering-*.js"):
        held[0].continue_()
    page.evaluate("(url) => import(url)", held[0].request.url)
    page.clock.resume()
