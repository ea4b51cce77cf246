from __future__ import annotations

import pytest

pytestmark = pytest.mark.starts_processes

LIMIT = 1000


@pytest.mark.parametrize(
    "replacement, code", [("b" * 8, None), ("", None), ("b" * 13, None), ("b" * 14, "file_too_large")]
)
def test_only_the_growth_of_a_file_counts_against_the_limit(runtime, workspace, monkeypatch, replacement, code):
    monkeypatch.setattr("hilt.tools.search_replace.MAX_BYTES", LIMIT)
    workspace.write("a.txt", "aaaaaaaa\n" * 70)

    result = runtime.call("search_replace", pattern="a{8}", replacement=replacement, files="a.txt")

    assert (result.error and result.error.code) == code
    assert workspace.read("a.txt") == f"{'aaaaaaaa' if code else replacement}\n" * 70
