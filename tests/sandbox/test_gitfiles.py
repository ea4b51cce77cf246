"""Reading of git's own files, which anyone may have written; git itself is the reference."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hilt.sandbox import gitfiles
from hilt.sandbox.gitfiles import references

SECTIONS = [
    "[core]",
    "[CORE]",
    "[include]",
    '[includeIf "gitdir:x]y"]',
    "[ core]",
    '[core "x"]',
    "[include.x]",
    "[init]",
]
KEYS = ["path", "hooksPath", "HOOKSPATH", "worktree", "templateDir", "other"]
VALUES = ["/a", "a b", '"a # b"', '"a"b', "a;b", "a # b", '"\\"x\\""', "a\\\n  b", '"a\\\nb"', "a\\\\b", "", "x\\tb"]
WANTED = ("include.path", "includeif.gitdir:x]y.path", "core.hookspath", "core.worktree", "init.templatedir")


def line() -> st.SearchStrategy[str]:
    setting = st.builds(
        "{}{}={}{}".format,
        st.sampled_from(KEYS),
        st.sampled_from(["", " ", "\t"]),
        st.sampled_from(["", " "]),
        st.sampled_from(VALUES),
    )
    header = st.sampled_from(SECTIONS)
    return st.one_of(header, setting, st.builds("{} {}".format, header, setting), st.sampled_from(["# x", "; y", ""]))


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(line(), max_size=8), end=st.sampled_from(["\n", "\r\n"]))
def test_every_file_that_git_would_read_is_found(tmp_path: Path, lines: list[str], end: str) -> None:
    file = tmp_path / "config"
    text = end.join(["[core]", *lines, ""])
    file.write_bytes(text.encode())

    listed = subprocess.run(["git", "config", "--file", file, "--null", "--list"], capture_output=True)

    if listed.returncode:
        return  # git refuses the whole file
    read = (entry.partition("\n")[::2] for entry in listed.stdout.decode().split("\0")[:-1])
    expected = {value for name, value in read if name in WANTED and value}
    assert expected <= {value for _, _, value in references(file.read_bytes())}


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_content_is_too_strange(data: bytes) -> None:
    for _, _, value in references(b"[core]\nhooksPath=" + data + b"\n" + data):
        assert "\0" not in value


@pytest.mark.parametrize("text", ["[" + "a" * 500_000, "[" + "-->." * 100_000, '[a "' + "\\" * 500_000])
def test_a_broken_section_is_recognised_in_linear_time(text):
    """The square of this length would take minutes."""
    assert gitfiles._SECTION.match(text) is None


@pytest.mark.parametrize(
    "text, section", [("[core]", "core"), ('[a "x]y"] b', "a"), ('[ a "x" z]', "a"), ('[a "x] y', "a"), ("[a.b]", "a")]
)
def test_the_name_of_a_section_is_read(text, section):
    match = gitfiles._SECTION.match(text)

    assert match is not None
    assert match[1] == section
