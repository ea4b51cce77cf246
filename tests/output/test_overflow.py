from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt import Output, tool
from hilt.output.overflow import LINE_CHARACTERS, Overflow, split_long_lines
from hilt.testing import temporary_runtime


@pytest.fixture
def overflow(tmp_path):
    return Overflow(str(tmp_path / "overflow" / "w" / "s"), keep_days=7, keep_megabytes=1, limit=50_000)


def test_long_text_is_saved_in_full_and_previewed_by_its_ends(overflow):
    text = "".join(f"line {number}\n" for number in range(20_000))

    saved = overflow.keep(text, "search files")

    with open(saved.path, encoding="utf-8", newline="") as file:
        assert file.read() == text
    assert saved.preview.startswith(text[:10_000])
    *lines, last = saved.preview.split("\n")
    assert "\n".join(lines).endswith(text[-2_000:-1])
    assert saved.path in last
    assert saved.size == len(text)


@pytest.mark.parametrize("label", ["read_file", "../../etc/passwd", "/", "..", "a\nb", "ü" * 200, "", "\0", "x" * 1000])
def test_a_label_cannot_escape_the_folder(overflow, label):
    path = overflow.save("text", label)

    assert os.path.dirname(os.path.realpath(path)) == os.path.realpath(overflow.directory)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.mark.parametrize("text", ["a\r\nb\rc\n", "\udcff not UTF-8", "\ud800", "", "\0", "\u2028\x85"])
def test_any_text_can_be_saved_with_its_line_endings(overflow, text):
    path = overflow.save(text, "x")

    with open(path, "rb") as file:
        assert file.read() == text.encode("utf-8", "backslashreplace")


def test_old_files_and_those_beyond_the_size_are_removed_oldest_first_in_all_sessions(overflow, tmp_path):
    other = Overflow(str(tmp_path / "overflow" / "other" / "t"), keep_days=7, keep_megabytes=1, limit=1)
    paths = [(overflow, other)[number % 2].save("x" * 300_000, str(number)) for number in range(3)]
    for age, path in enumerate(reversed(paths)):
        os.utime(path, ns=(0, os.stat(path).st_mtime_ns - age * 1_000_000_000))
    ancient = overflow.save("small", "ancient")
    os.utime(ancient, (0, 0))

    newest = other.save("x" * 300_000, "newest")

    assert [os.path.exists(path) for path in (*paths, ancient, newest)] == [False, True, True, False, True]


def test_the_newest_file_is_kept_whatever_its_size(overflow):
    path = overflow.save("x" * 3_000_000, "large")

    assert os.path.getsize(path) == 3_000_000


@given(st.text(st.sampled_from("ab\n"), max_size=50), st.integers(1, 40))
def test_split_lines_fit_and_lose_no_character(text, factor):
    long = text.replace("a", "a" * 500 * factor)

    result = split_long_lines(long)

    assert result.replace("\n", "") == long.replace("\n", "")
    assert all(len(line) <= LINE_CHARACTERS for line in result.split("\n"))
    if all(len(line) <= LINE_CHARACTERS for line in long.split("\n")):
        assert result == long


def test_a_result_that_is_too_long_is_truncated_and_can_be_read_in_full(base):
    @tool
    def chatter() -> Output:
        """Talk."""
        return Output("word " * 20_000)

    with temporary_runtime(base, tools=[chatter]) as (runtime, _):
        result = runtime.call("chatter")

        assert result.meta["_persisted"]
        assert len(result.text) < 15_000
        read = runtime.call("read_file", path=result.meta["_filePath"], line_numbers=False)
        assert read.text.startswith("word word")
        assert not runtime.call("edit_file", path=result.meta["_filePath"], old_text="word", new_text="x").ok


def test_a_session_cannot_read_the_overflow_of_another(base):
    with temporary_runtime(base, session="one") as (runtime, folder):
        folder.write("long.txt", "line\n" * 5000)
        path = runtime.call("read_file", path="long.txt").meta["truncation"]["remainder"]
    with temporary_runtime(base, session="two") as (runtime, _):
        result = runtime.call("read_file", path=path)

    assert result.error is not None
    assert result.error.code == "path_outside_workspace"


def test_output_that_cannot_be_saved_is_still_previewed(base):
    @tool
    def much() -> Output:
        """Say much."""
        return Output("x" * 60_000)

    with temporary_runtime(base, tools=[much]) as (runtime, _):
        os.symlink("/dev/null", os.path.join(base, "state", "overflow"))
        result = runtime.call("much")

    assert result.ok
    assert "The full output could not be saved" in result.text
    assert "_filePath" not in result.meta
