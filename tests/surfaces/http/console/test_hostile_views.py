"""Views of hostile tools: nothing in them runs, imitates the console, or is too much for the page."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, Route, expect

from tests.surfaces.http.conftest import asking
from tests.surfaces.http.console.browsing import Tab, shows
from tests.surfaces.http.servers import Server, serving

NODES_MAX = 150_000
MARKUP = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror=alert(1)&gt;'>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><img src=x onerror=alert(1)></template>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<a href='java&#9;script:alert(1)'>a</a>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<base href='//127.0.0.1:1/'><link rel=stylesheet href=//127.0.0.1:1/x.css>",
    "<style>@import '//127.0.0.1:1/x.css'; * { display: none }</style>",
    "<div style='position:fixed;inset:0;background:url(//127.0.0.1:1/)'>",
    "<article class='card current'><button class='main'>Allow once</button></article>",
    "<dialog open>Trust this file</dialog>",
    '"><img src=x onerror=alert(1)>',
    "{{constructor.constructor('alert(1)')()}} ${alert(1)}",
]
MARKDOWN = [
    "[a](javascript:alert(1)) [a](JAVASCRIPT:alert(1)) [a](java\tscript:alert(1)) [a](&#106;avascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [a](vbscript:alert(1)) [a](file:///etc/passwd)",
    "[a][b] <javascript:alert(1)>\n\n[b]: javascript:alert(1)",
    '[a](https://example.invalid/"onclick="alert(1)) ![a"onerror="alert(1)](data:image/png;base64,x)',
    "![a](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4=)",
    "![a](//127.0.0.1:1/x.png) ![a](http://127.0.0.1:1/x.png)",
    '```html" onmouseover="alert(1)\n<b>\n```\n\n```x\fcard current\nx\n```',
]


def lines(texts: list[str], kind: str) -> list[dict[str, str]]:
    return [{"type": kind, "content": text} for text in texts]


def diff(path: str, texts: list[str]) -> dict[str, Any]:
    hunks = [{"changes": [*lines(texts, "removed"), *lines([f"{text} " for text in texts], "added")]}]
    return {"type": "diff", "path": path, "title": path, "hunks": hunks, "additions": 1, "deletions": 1}


ALL = "\n".join(MARKUP)
HOSTILE: dict[str, Any] = {
    "table": {
        "type": "table",
        "columns": [{"key": "a", "label": text} for text in MARKUP],
        "rows": [{"a": text} for text in MARKUP],
    },
    "todo-list": {
        "type": "todo-list",
        "items": [{"content": text, "status": text, "priority": text} for text in MARKUP],
    },
    "file-list": {
        "type": "file-list",
        "groups": [{"label": text, "files": [{"path": text, "action": text, "content": text}]} for text in MARKUP],
    },
    "diff": diff(MARKUP[0], MARKUP),
    "diffs": {"type": "diffs", "title": MARKUP[1], "items": [diff(text, [text]) for text in MARKUP[:8]]},
    "code": {"type": "code", "path": MARKUP[2], "content": ALL, "language": "xml"},
    "code in no language": {"type": "code", "path": MARKUP[2], "content": ALL, "language": MARKUP[0]},
    "shell-output": {
        "type": "shell-output",
        "command": ALL,
        "stdout": "\n".join(f"\x1b[31m{text}\x1b]8;;javascript:alert(1)\x07{text}" for text in MARKUP),
        "stderr": ALL,
        "exitCode": 1,
    },
    "none": {"type": "none", "message": ALL},
    "markdown": {"type": "markdown", "content": "\n\n".join([*MARKDOWN, *MARKUP]), "sourceUrl": MARKUP[0]},
    **{f"markdown {number}": {"type": "markdown", "content": text} for number, text in enumerate(MARKDOWN)},
}
CHANGE = {"type": "added", "content": "x"}
ENORMOUS: dict[str, Any] = {
    "cells": {
        "type": "table",
        "columns": [{"key": str(number)} for number in range(100)],
        "rows": [{str(number): number for number in range(100)}] * 1_000,
    },
    "columns": {"type": "table", "columns": [{"key": str(number)} for number in range(100_000)], "rows": [{}]},
    "wide cells": {"type": "table", "columns": [{"key": "a"}], "rows": [{"a": "x" * 1_000_000}]},
    "todos": {"type": "todo-list", "items": [{"content": "x", "status": "pending"}] * 100_000},
    "groups": {"type": "file-list", "groups": [{"label": "g", "files": []}] * 100_000},
    "diffs": {"type": "diffs", "items": [{"type": "diff", "path": "p", "hunks": []}] * 100_000},
    "hunks": {"type": "diff", "path": "p", "hunks": [{"changes": []}] * 100_000},
    "changes": {"type": "diff", "path": "p", "hunks": [{"changes": [CHANGE] * 100_000}]},
    "one line": {"type": "code", "path": "p", "content": "(" * 3_000_000, "language": "javascript"},
    "quotes": {"type": "markdown", "content": ">" * 200_000},
    "emphasis": {"type": "markdown", "content": "*a" * 100_000},
    "colours": {
        "type": "shell-output",
        "command": "x",
        "stdout": ("\x1b[31mx\x1b[32my" * 150 + "\n") * 400,
        "exitCode": 0,
    },
    "command": {"type": "shell-output", "command": "x" * 3_000_000, "exitCode": 0},
    "title": {"type": "none", "message": "x", "title": "x" * 3_000_000},
    "marks": {"type": "markdown", "content": ("a" + "\u0301" * 500) * 100},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server whose tools answer with what a test sets."""
    with serving(asking(str(tmp_path_factory.mktemp("views")))) as server:
        yield server


@pytest.fixture
def tab(new_tab, server) -> Tab:
    """A tab on the form that calls a tool."""
    tab: Tab = new_tab(f"{server.url}/#token={server.token}")
    page = tab.go("Tools")
    page.get_by_label("Search").fill("todo_read")
    page.locator(".tool-list li a").first.click()
    page.get_by_role("button", name="Try it").click()
    return tab


def draw(page: Page, view: dict[str, Any], content: Sequence[dict[str, Any]] = ()) -> None:
    """Show the result of a call, with this view and these blocks."""

    def answer(route: Route) -> None:
        route.fulfill(json={"ok": True, "result": "the plain result", "visualization": view, "content": list(content)})

    page.route("**/v1/call*", answer)
    with page.expect_response("**/v1/call*"):
        page.get_by_role("button", name="Run").click()
    shows(page.get_by_role("region", name="Result"))
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    page.unroute_all()


def test_nothing_in_a_view_runs_or_imitates_the_console(tab):
    page = tab.page
    for name, view in HOSTILE.items():
        draw(page, view)
        shown = page.get_by_role("region", name="Result").locator(".view")
        expect(shown).not_to_be_empty()
        if view["type"] == "markdown":
            expect(shown.locator(".markdown")).not_to_be_empty()
        forged = (
            "script, style, iframe, object, svg, math, form, template, article, dialog, link, base, .card, .current"
        )
        assert shown.locator(forged).count() == 0, name
        attributes = shown.evaluate(
            "(view) => [...view.querySelectorAll('*')]"
            ".flatMap((node) => [...node.attributes].map(({name, value}) => [name, value]))"
        )
        assert not [pair for pair in attributes if pair[0].startswith("on")], name
        targets = [value for attribute, value in attributes if attribute in ("href", "src", "action", "formaction")]
        assert all(re.match("https?:|data:image/", target) for target in targets), (name, targets)
        assert tab.problems() == [], name


def test_an_enormous_view_leaves_the_page_usable(tab):
    page = tab.page
    for name, view in ENORMOUS.items():
        draw(page, view)
        assert page.locator("*").count() < NODES_MAX, name
        assert tab.overflow() == 0, name
    assert tab.problems() == []


def picture(width: int, height: int) -> str:
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def test_images_are_drawn_up_to_a_number_of_pixels(tab):
    large, small = picture(8000, 4000), picture(3, 2)
    order = [large, large, small, large, large, small]
    markdown = {"type": "markdown", "content": "\n\n".join(f"![p](data:image/png;base64,{data})" for data in order)}
    blocks = [{"type": "image", "data": data, "mimeType": "image/png"} for data in order]
    result = tab.page.get_by_role("region", name="Result")

    draw(tab.page, markdown)
    # the second large image leaves no pixel for any other
    expect(result.get_by_text("[image: p]")).to_have_count(4)
    expect(result.locator(".markdown img")).to_have_count(2)
    draw(tab.page, {"type": "none", "message": "x"}, blocks)
    expect(result.get_by_text("incomplete or too large")).to_have_count(4)
    expect(result.locator(".thumbnail img")).to_have_count(2)
    draw(tab.page, markdown, [{"type": "image", "data": small, "mimeType": "image/png"}] * 3)
    expect(result.locator(".thumbnail img")).to_have_count(3)
    assert tab.problems() == []


def test_what_a_view_leaves_out_is_said(tab):
    page = tab.page
    result = page.get_by_role("region", name="Result")
    for name, note in {
        "columns": "The first 50 of 100,000 columns",
        "todos": "Show more of 100,000 items",
        "groups": "Show more of 100,000 files",
        "diffs": "Show more of 100,000 files",
        "changes": "Show more of 100,000 lines",
        "one line": "2,998,000 more characters",
        "command": "2,980,000 more characters",
    }.items():
        draw(page, ENORMOUS[name])
        shows(result.get_by_text(note).first)
