"""The built files of the console: up to date, complete, small, and without anything that the page must not load."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from pathlib import Path

from hilt.surfaces.http.static import FOLDER, pages, read_files

BUILT = Path(FOLDER)
SOURCE = Path(__file__).parents[3] / "console"
FIRST_PAGE_BYTES = 80_000
ALL_BYTES = 200_000


def text(path: str) -> str:
    return (BUILT / path.removeprefix("/")).read_text()


def compressed(paths: set[str]) -> int:
    return sum(len(gzip.compress((BUILT / path.removeprefix("/")).read_bytes(), 9)) for path in paths)


def scripts_of(path: str) -> set[str]:
    """Return a script and all its static imports."""
    scripts = {path}
    for name in re.findall(r'(?:from|import)\s*"\./([\w-]+\.js)"', text(path)):
        scripts |= scripts_of(f"assets/{name}")
    return scripts


def test_the_built_files_are_up_to_date():
    """The same digest as in console/build.mjs; run make assets if it differs."""
    names = ["build.mjs", "package-lock.json", "package.json"]
    names += [path.relative_to(SOURCE).as_posix() for path in (SOURCE / "src").rglob("*") if path.is_file()]
    lines = [f"{hashlib.sha256((SOURCE / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(names)]

    assert text("source.sha256") == hashlib.sha256("".join(lines).encode()).hexdigest() + "\n"


def test_the_first_page_and_the_whole_console_are_small():
    start = text("index.html")
    first = set(re.findall(r'(?:href|src)="/(assets/[^"]+)"', start)) | {"index.html"}
    script = next(path for path in first if path.endswith(".js"))
    page = next(path.name for path in (BUILT / "assets").glob("activity-*.js"))
    first |= scripts_of(script) | scripts_of(f"assets/{page}")

    assert compressed(first) <= FIRST_PAGE_BYTES
    assert compressed({f"assets/{name}" for name in os.listdir(BUILT / "assets")}) <= ALL_BYTES


def test_every_asset_has_a_name_that_changes_with_its_content():
    assets = {path: file for path, file in read_files().items() if path.startswith("/assets/")}

    assert assets
    assert all(file.is_hashed for file in assets.values())


def test_the_start_page_has_no_inline_code_and_names_only_built_files():
    start = text("index.html")

    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=", start)
    assert all((BUILT / path).is_file() for path in re.findall(r'(?:href|src)="/([^"]+)"', start))


def test_each_page_of_the_navigation_has_a_path_and_its_own_script():
    router = (SOURCE / "src/router.js").read_text()
    names = re.findall(r'\["(\w+)", "\w+", \(\) => import\("\./pages/(\w+)\.js"\)\]', router)
    files = read_files()

    assert len(names) == 10
    assert all(id == module for id, module in names)
    assert pages(files["/"]) == sorted(id for id, _ in names)
    assert all(files[f"/{id}"] is files["/"] and list((BUILT / "assets").glob(f"{id}-*.js")) for id, _ in names)


def test_the_notices_name_every_package_with_its_licence():
    packages = json.loads((SOURCE / "package.json").read_text())["dependencies"]
    notices = text("notices.txt")

    assert [name for name in packages if not re.search(rf"^{re.escape(name)} \d", notices, re.MULTILINE)] == []


def test_the_locked_packages_name_no_registry():
    assert "resolved" not in (SOURCE / "package-lock.json").read_text()
