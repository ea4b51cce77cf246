"""What holds on every page of the console."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.surfaces.http.console.browsing import NARROW, PAGES, shows

# what a page shows once it has loaded, and what is clicked first, so that axe checks more of it
FULL = {
    "Activity": "[role=tabpanel]",
    "Approvals": "article",
    "Jobs": ".job",
    "Changes": ".change",
    "Tasks": ".task",
    "Agents": ".message",
    "Tools": ".try",
    "Metrics": ".chart canvas",
    "Audit": "table",
    "Settings": "table",
}
LEAVE = """(link) => new Promise((resolve) => {
    const main = document.querySelector("main");
    const all = [main, ...main.querySelectorAll("*")];
    for (const element of all) element.scrollTop += element.scrollTop ? -9 : 9;
    link.click();
    requestAnimationFrame(() => {
        for (const element of all) {
            for (const name of ["scroll", "pointermove", "pointerleave", "blur", "resize"]) {
                element.dispatchEvent(new Event(name, { bubbles: true }));
            }
        }
        for (const name of ["resize", "scroll"]) {
            visualViewport.dispatchEvent(new Event(name));
            window.dispatchEvent(new Event(name));
        }
        document.dispatchEvent(new Event("visibilitychange"));
        setTimeout(resolve, 100);
    });
})"""
OPENED = {"Activity": [".call-head"], "Agents": [".tree a"], "Tools": [".tool-list li a", "button:text-is('Try it')"]}


def test_every_page_has_its_name_and_reload_and_back_return_to_it(tab):
    page = tab.page
    for name in PAGES:
        tab.go(name)
        assert page.url == f"{tab.address}/{name.lower()}"
        current = page.locator("nav[aria-label=Pages] [aria-current=page]")
        expect(current).to_have_count(1)
        expect(current).to_contain_text(name)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_have_count(1)
        expect(page).to_have_title(re.compile(rf"\(3\) {name}"))
    page.reload()
    shows(page.get_by_role("heading", level=1, name="Settings"))
    page.go_back()
    shows(page.get_by_role("heading", level=1, name="Audit"))


def test_the_token_leaves_the_address_and_a_wrong_one_is_reported(new_tab, playground):
    tab = new_tab(playground.address)
    shows(tab.page.get_by_role("heading", level=1, name="Activity"))
    assert "token" not in tab.page.url

    for address in (tab.address + "/jobs", tab.address + "/#token=wrong"):
        other = new_tab(address)
        shows(other.page.get_by_text("token").first)
        requests: list[str] = []
        other.page.on("request", lambda request, requests=requests: requests.append(request.url))
        other.page.wait_for_timeout(600)
        assert [url for url in requests if "/assets/" not in url] == []


def test_axe_finds_nothing_on_any_page_in_both_themes(tab):
    page = tab.page
    found = {}
    for name in PAGES:
        tab.go(name)
        for target in OPENED.get(name, ()):
            page.locator(f"main {target}").first.click()
        shows(page.locator(f"main {FULL[name]}").first)
        for theme in ("light", "dark"):
            page.get_by_label("Theme").select_option(theme)
            found[f"{name}, {theme}"] = tab.axe()
    assert {name: violations for name, violations in found.items() if violations} == {}


def test_every_page_fits_into_360_pixels(new_tab, playground):
    tab = new_tab(playground.address, viewport=NARROW)
    wide = {}
    for name in PAGES:
        tab.go(name)
        tab.page.wait_for_load_state("networkidle")
        wide[name] = tab.overflow()
    assert {name: pixels for name, pixels in wide.items() if pixels} == {}


def test_nothing_is_cut_off_or_misaligned_at_360_pixels(new_tab, playground):
    tab = new_tab(playground.address, viewport=NARROW)
    page = tab.page
    page.locator(".call-head").first.click()
    shows(page.get_by_role("tab", name="Why"))

    edges = "tags => [...new Set(tags.map((tag) => Math.round(tag.getBoundingClientRect().right)))]"
    assert len(page.locator(".call-outcome .tag").evaluate_all(edges)) == 1
    assert page.get_by_role("tablist").evaluate("tabs => tabs.scrollWidth - tabs.clientWidth") == 0
    assert page.get_by_label("Theme").evaluate("theme => theme.clientWidth") >= 80  # its value is readable


def test_keys_open_every_page_and_search_results(tab):
    page = tab.page
    for number, name in enumerate(PAGES, 1):
        page.keyboard.press(str(number % 10))
        shows(page.get_by_role("heading", level=1, name=name, exact=True))
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    shows(keys.get_by_text("Find a page, tool or call"))
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    for typed, title in (("metr", "Metrics"), ("edit_file", "Tools")):
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox", name="Find")).to_be_focused()
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        shows(page.get_by_role("heading", level=1, name=title))
    # single keys are text in a text field
    page.get_by_label("Search").fill("")
    page.get_by_label("Search").press("1")
    shows(page.get_by_role("heading", level=1, name="Tools"))
    expect(page.get_by_label("Search")).to_have_value("1")


def test_a_tool_is_found_even_if_its_name_is_typed_before_the_tools_are_loaded(tab):
    page = tab.page
    shows(page.locator(".call-head").filter(has_text="edit_file").first)  # an older call of the same tool
    held: list[Route] = []
    page.route("**/v1/tools*", lambda route: held.append(route))  # noqa: PLW0108
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("edit_file")
    page.keyboard.press("Enter")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for route in held:
        route.continue_()

    shows(page.get_by_role("heading", level=1, name="Tools"))
    assert page.url == f"{tab.address}/tools?name=edit_file"


def test_pages_and_calls_are_found_even_if_the_tools_cannot_be_loaded(tab):
    page = tab.page
    shows(page.locator(".call-head").filter(has_text="edit_file").first)
    page.route("**/v1/tools*", lambda route: route.abort())
    for typed, address in (("metr", "/metrics"), ("edit_file", "/activity?call=")):
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox", name="Find")).to_be_focused()
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{tab.address}{address}*")


def test_the_keyboard_alone_reaches_a_call_and_its_details(tab):
    page = tab.page
    shows(page.locator(".call-head").first)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(".call-head:focus")).to_have_count(1)  # the first, unless another call came in
    page.keyboard.press("Enter")
    tabs = page.get_by_role("tab")
    shows(tabs.first)
    page.keyboard.press("Tab")
    expect(tabs.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    shows(page.get_by_role("tabpanel", name="Arguments"))


def test_keys_work_as_soon_as_the_page_appears(tab):
    page = tab.page
    page.add_init_script("""
        new MutationObserver((changes, observer) => {
            if (!document.querySelector(".call-head")) return;
            observer.disconnect();
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "j", bubbles: true}));
        }).observe(document, {childList: true, subtree: true});
    """)
    held: list[Route] = []
    page.route("**/assets/activity-*", lambda route: held.append(route))  # noqa: PLW0108

    with page.expect_websocket() as socket:
        page.reload()
    socket.value.wait_for_event("framereceived")  # so that there are calls when the page is drawn for the first time
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for route in held:
        route.continue_()

    expect(page.locator(".call-head:focus")).to_have_count(1)


def test_the_theme_survives_a_reload(tab):
    page = tab.page
    background = "getComputedStyle(document.body).backgroundColor"
    colours = {}
    for theme in ("light", "dark"):
        page.get_by_label("Theme").select_option(theme)
        colours[theme] = page.evaluate(background)
    page.reload()
    shows(page.get_by_role("heading", level=1))
    assert page.evaluate(background) == colours["dark"] != colours["light"]


def test_the_newest_approval_is_in_view_even_if_the_questions_are_loaded_first(new_tab, playground):
    tab = new_tab(playground.address, viewport=NARROW)
    shows(tab.page.get_by_text("Live"))
    held: list[Route] = []
    tab.page.route("**/v1/approvals*", lambda route: held.append(route))  # noqa: PLW0108

    with tab.page.expect_response("**/v1/questions*"):
        page = tab.open("approvals")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for route in held:
        route.continue_()

    expect(page.get_by_role("article", name="run_shell").get_by_role("heading")).to_be_in_viewport()


def test_events_that_arrive_after_a_page_has_gone_do_no_harm(new_tab, playground):
    tab = new_tab(playground.address, viewport={"width": 800, "height": 300})
    for number, name in enumerate(PAGES):
        tab.go(name)
        for target in OPENED.get(name, ()):
            tab.page.locator(f"main {target}").first.click()
        shows(tab.page.locator(f"main {FULL[name]}").first)
        next_name = PAGES[(number + 1) % len(PAGES)]
        link = tab.page.get_by_role("navigation", name="Pages").get_by_role("link", name=next_name)
        # Preact ends the effects of what it has removed after the next frame, in which these events arrive.
        link.evaluate(LEAVE)
        shows(tab.page.get_by_role("heading", level=1, name=next_name, exact=True))
        assert tab.problems() == [], name
