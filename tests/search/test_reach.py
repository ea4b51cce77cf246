"""Searches show nothing that the door would not open, even while a process swaps names with links.

Each user makes about two hundred calls; `HILT_STRESS=200` makes thirty times that number instead.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.call import Result
from hilt.testing import Folder, temporary_runtime
from tests.sandbox.confined import NOBODY, as_user, interpreter
from tests.search.leaking import fill, requests, visible_text

pytestmark = pytest.mark.starts_processes

CALLS = 20 * int(os.environ.get("HILT_STRESS") or 6)
linux = pytest.mark.skipif(sys.platform != "linux", reason="swaps names by a system call of Linux")


def run_attack(base: str, calls: int, way: str, user: int) -> dict[str, Any]:
    program = sys.executable
    if user != os.getuid():
        program = interpreter(user)
        if not program:
            pytest.skip("no Python here that an ordinary user can run")
        if not all(folder.stat().st_mode & stat.S_IXOTH for folder in Path(__file__).resolve().parents):
            pytest.skip("the folder of the tests is closed to other users")
        os.chown(base, user, user)
    completed = subprocess.run(
        [*as_user(user), program, "-B", "-m", "tests.search.leaking", base, str(calls), way],
        capture_output=True,
        text=True,
        timeout=600,
        env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert completed.returncode == 0, completed.stderr
    report: dict[str, Any] = json.loads(completed.stdout)
    return report


@pytest.fixture
def ground() -> Iterator[str]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="hilt-leaking-") as folder:
        yield folder


@contextmanager
def exchanging(folder: str, names: list[str]) -> Iterator[None]:
    """Keep swapping each name with its .link."""
    command = [sys.executable, "-m", "tests.search.exchanging", folder, *names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as swapper:
        assert swapper.stdout
        swapper.stdout.readline()
        try:
            yield
        finally:
            swapper.communicate("end\n")


@linux
@pytest.mark.parametrize("user", [os.getuid(), *([NOBODY] if os.getuid() == 0 else [])])
@pytest.mark.parametrize("way, share", [("ripgrep", 1), ("without Landlock", 2)])
def test_searches_show_no_secret_while_a_process_swaps_links(ground, way, share, user):
    report = run_attack(ground, CALLS // share, way, user)

    assert report["leaks"] == {}
    assert "internal" not in report["errors"]
    assert report["rounds"] > 1000
    assert report["finding"] > report["calls"] // 4
    assert report["dropped"] > 0  # some calls met a swap


def test_nothing_is_dropped_while_nothing_is_swapped(base):
    with temporary_runtime(base) as (runtime, folder):
        fill(base, folder)
        results = {name: runtime.request(call) for name, call in requests()}

    assert {name: result.error for name, result in results.items() if result.error} == {}
    assert [name for name, result in results.items() if '"dropped"' in visible_text(result)] == []
    for name, result in results.items():
        if "needle" in name and "filler" not in name and "plain.txt" not in name and "bait" not in name:
            assert "filler/1.txt" in visible_text(result) or "max_matches" in name, name


# --- comparison of contents -----------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-16"), max_size=40)
WIDE = st.tuples(
    st.sampled_from(
        [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"), (b"", "utf-8")]
    ),
    st.lists(TEXTS | st.just("needle"), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    # halves of characters and halves of units
    st.sampled_from([b"", b"\x00\xd8", b"\xd8\x00", b"\xdc\x00n\x00", b"\xff", b"\n\x00"]),
).map(lambda drawn: drawn[0][0] + drawn[2].join(drawn[1]).encode(drawn[0][1]) + drawn[3])


@settings(max_examples=25)
@given(files=st.lists(WIDE, min_size=10, max_size=30), multiline=st.booleans())
def test_nothing_is_dropped_from_unchanged_files_whatever_their_bytes(files, multiline):
    with tempfile.TemporaryDirectory() as base, temporary_runtime(base) as (runtime, folder):
        for number, data in enumerate(files):
            folder.write(f"{number}.txt", data)
        result = runtime.call("search_files", pattern=".", context_lines=1, multiline=multiline)

    assert result.ok
    assert "dropped" not in result.meta["truncation"]


def test_long_lines_of_wide_files_are_shown_around_the_match(runtime, workspace):
    workspace.write("wide.txt", b"\xff\xfe" + ("é" * 1_500_000 + " needle\nend\n").encode("utf-16-le"))

    result = runtime.call("search_files", pattern="needle|end", format="json", context_lines=1)

    first, second = result.data["results"]
    assert (first["line"], first["column"]) == (1, 1_500_002)
    assert first["text"].endswith("éé needle")
    assert (second["line"], second["text"]) == (2, "end")


@linux
def test_lines_that_changed_during_the_search_are_omitted_and_counted(runtime, workspace):
    names = [f"{number}.txt" for number in range(50)]
    for name in names:
        workspace.write(name, "needle one\n")
        workspace.write(f"{name}.link", "needle two\n" * 3)
    results: list[Result] = []

    def facts(result: Result) -> Any:
        return result.data if result.data and "results" in result.data else result.meta["truncation"]

    with exchanging(workspace.path, names):
        for format in ("text", "json", "filenames"):
            calls = (runtime.call("search_files", pattern="needle", format=format) for _ in range(500))
            results.append(next(result for result in calls if "dropped" in facts(result)))

    text, data, files = (facts(result)["dropped"] for result in results)
    assert f"{text} line{'s' * (text != 1)} omitted" in results[0].text.splitlines()[-1]
    assert results[1].data["total_count"] == len(results[1].data["results"])
    assert data
    assert f"{files} file{'s' * (files != 1)} omitted" in results[2].text


# --- ignore files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [".", "sub"])
def test_an_ignore_file_that_links_to_a_secret_reveals_nothing(base, runtime, workspace, path):
    secret = Folder(os.path.join(base, "outside"))
    secret.write("secret", "[SECRET\n{SECRET\nkept.txt\n")
    os.symlink(secret.join("secret"), workspace.join(".gitignore"))
    workspace.write("sub/kept.txt", "needle\n")

    results = [
        runtime.call("search_files", pattern="needle", path=path),
        runtime.call("search_files", pattern="absent", path=path),
        runtime.call("find_files", pattern="*.txt", path=path),
        runtime.call("find_files", pattern="/kept.txt", path="sub"),
    ]

    assert [result.error for result in results] == [None] * 4
    assert not [text for text in map(visible_text, results) if "SECRET" in text]
    assert "sub/kept.txt" in visible_text(results[0])
    assert results[3].data["files"] == ["sub/kept.txt"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root reads what belongs to others")
def test_root_searches_files_that_belong_to_others(runtime, workspace):
    os.chmod(workspace.write("theirs/private.txt", "needle\n"), 0o600)
    for name in ("theirs/private.txt", "theirs"):
        os.chown(workspace.join(name), NOBODY, NOBODY)
    os.chmod(workspace.join("theirs"), 0o700)

    assert runtime.call("search_files", pattern="needle").text == "theirs/private.txt:1:needle"
