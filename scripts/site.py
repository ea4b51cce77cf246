"""Build the documentation site in build/site with zensical, then check it; `make docs` runs this.

Links to files that are not pages of the site become links to the repository. A block with prompts is split into blocks
that can be pasted, each followed by its output. Every link of the built site must resolve, and no page may load
anything from another host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "build"
SOURCE = BUILD / "docs"
SITE = BUILD / "site"
# pages of the site that are not in docs/
ELSEWHERE = {ROOT / "CHANGELOG.md": "changelog.md", ROOT / "SECURITY.md": "security.md"}


def stage() -> None:
    """Copy the pages, with links rewritten for the site."""
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"]
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE)
    shutil.copy(ROOT / "mkdocs.yml", BUILD)
    places = {path: path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.is_file()} | ELSEWHERE
    for path, place in places.items():
        if path.suffix == ".md":
            (SOURCE / place).write_text(_staged(path, place, places, repository), encoding="utf-8")


def _staged(path: Path, place: str, places: dict[Path, str], repository: str) -> str:
    """Return a page with its links and blocks rewritten for the site."""
    parts = re.split(r"(^```.*?^```$)", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        file = (path.parent / target).resolve()
        if file in places:
            return f"{match[1]}{os.path.relpath(places[file], os.path.dirname(place) or '.')}{mark}{anchor})"
        return f"{match[1]}{repository}/blob/main/{file.relative_to(ROOT).as_posix()}{mark}{anchor})"

    return "".join(
        staged_block(part) if part.startswith("```") else re.sub(r"(\]\()([^)\s]+)\)", link, part) for part in parts
    )


def staged_block(block: str) -> str:
    """Return a fenced block with its path as the title; split a block with prompts into blocks that can be pasted."""
    opening, *lines, _ = block.split("\n")
    if opening != "```console":
        return "\n".join([re.sub(r"^```(\w+) (\S+)$", r'```\1 title="\2"', opening), *lines, "```"])
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        is_typed = line.startswith(("$ ", "> ")) or line == ">"
        language, text = ("bash", line[2:]) if is_typed else ("text", line)
        if not blocks or blocks[-1][0] != language:
            blocks.append((language, []))
        blocks[-1][1].append(text)
    return "\n\n".join("\n".join([f"```{language}", *text, "```"]) for language, text in blocks)


class Page(HTMLParser):
    """The anchors of a page, its links, and the resources that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the anchors and addresses of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag in ("a", "link"):
            self.links.add(values.get("href", ""))
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.loaded.add(values.get("href", ""))
        self.loaded |= {values[name] for name in ("src", "data") if name in values}


def problems(site: Path) -> Iterator[str]:
    """Yield every dead link of a site, and every resource from another host."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute, because it is served for any path
            continue
        name = path.relative_to(site).as_posix()
        for address in sorted(page.loaded):
            if urlsplit(address).netloc:
                yield f"{name} loads {address}"
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = site / unquote(urlsplit(urljoin(f"/{name}", link)).path).lstrip("/")
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name}: {link} does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link} has no such heading"


def main() -> int:
    """Build and check; return 1 on any problem."""
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    building = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    if subprocess.run(building, cwd=BUILD, check=False).returncode:
        return 1
    broken = list(problems(SITE))
    print("\n".join(broken) or f"{sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
