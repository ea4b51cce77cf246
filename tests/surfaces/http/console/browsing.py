"""A browser on the console: pages that report everything that goes wrong in them, and what tests do on every page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.programs import program

WAIT_MS = 60_000  # for what must happen, so that a failing test does not hang
NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 800}
PAGES = ("Activity", "Approvals", "Jobs", "Changes", "Tasks", "Agents", "Tools", "Metrics", "Audit", "Settings")

# Replaces Playwright's list, of which it has all that concerns Chromium on Linux. The last two would load two pages for
# the address bar of every window, which nobody sees.
_DISABLED_FEATURES = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
)
_AXE = Path(sys.prefix) / "npm/node_modules/axe-core/axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_REPORT = """
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) =>
        window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the headless Chromium of the system, which takes half the time for a page."""
    path = program("chromium-headless-shell")
    # Chromium's own sandbox does not work for root
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    arguments += ["--disable-gpu", f"--disable-features={','.join(_DISABLED_FEATURES)}"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """An open page of the console, and everything that went wrong in it."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.errors: list[str] = []
        self.address = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.add_init_script(_REPORT)
        self.page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        self.page.on("console", self._record_message)
        self.page.on("request", self._record_request)
        self.page.goto(address)

    def _record_message(self, message: Any) -> None:
        # the page itself reports requests that fail on purpose
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.errors.append(f"{message.type}: {message.text}")

    def _record_request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "blob:", "data:")):
            self.errors.append(f"request: {request.url}")

    def go(self, name: str) -> Page:
        """Go to a page through the navigation, and wait for it."""
        self.page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(self.page.get_by_role("heading", level=1, name=name, exact=True)).to_be_visible()
        return self.page

    def open(self, path: str) -> Page:
        """Load an address of the console."""
        self.page.goto(f"{self.address}/{path}")
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        return self.page

    def problems(self) -> list[str]:
        """Return all errors, and the violations of the content security policy."""
        return [*self.errors, *self.page.evaluate("window.violations")]

    def axe(self) -> list[str]:
        """Return the violations that axe finds on the current page."""
        if not self.page.evaluate("Boolean(window.axe)"):
            if not _AXE.exists():
                missing = pytest.fail if os.environ.get("CI") else pytest.skip
                missing("axe-core is not installed: make setup installs it")
            self.page.evaluate(_AXE.read_text(encoding="utf-8"))
        options = {"runOnly": {"type": "tag", "values": _RULES}, "resultTypes": ["violations"], "preload": False}
        report = self.page.evaluate("(options) => axe.run(document, options)", options)
        return [
            f"{violation['id']}: {node['target']} {node['failureSummary']}"
            for violation in report["violations"]
            for node in violation["nodes"]
        ]

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return max(0, width)


def shows(locator: Locator) -> None:
    """Wait until something is visible."""
    expect(locator).to_be_visible(timeout=WAIT_MS)
