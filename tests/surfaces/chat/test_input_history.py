"""The history of the input line, in a file."""

from __future__ import annotations

import os
import stat

import pytest

from hilt.surfaces.chat.input_line import HistoryFile


def lines(path) -> list[str]:
    return list(HistoryFile(str(path), lambda text: text).load_history_strings())


@pytest.mark.parametrize("text", ["one", "two\nlines", 'a "quote" \\', "\x1b[2J\u202e", "日本", "\ud800", ""])
def test_a_stored_input_is_loaded_again(tmp_path, text):
    HistoryFile(str(tmp_path / "h"), lambda text: text).store_string(text)

    assert lines(tmp_path / "h") == [text]


def test_inputs_of_several_chats_are_loaded_newest_first(tmp_path):
    first, second = (HistoryFile(str(tmp_path / "chat" / "h"), lambda text: text) for _ in range(2))
    first.store_string("one")
    second.store_string("two")

    assert lines(tmp_path / "chat" / "h") == ["two", "one"]
    assert stat.S_IMODE(os.stat(tmp_path / "chat" / "h").st_mode) == 0o600


def test_secrets_are_not_written(tmp_path):
    HistoryFile(str(tmp_path / "h"), lambda text: text.replace("secret", "[redacted]")).store_string("my secret")

    assert "secret" not in (tmp_path / "h").read_text()


def test_truncated_and_invalid_lines_are_skipped(tmp_path):
    (tmp_path / "h").write_bytes(b'"one"\n{"a": 1}\n\xff\xfe\n"two"\n"torn')

    assert lines(tmp_path / "h") == ["two", "one"]


def test_a_long_history_is_truncated(tmp_path):
    history = HistoryFile(str(tmp_path / "h"), lambda text: text)
    for number in range(300):
        history.store_string(f"{number} " + "x" * 10_000)

    loaded = lines(tmp_path / "h")

    assert loaded[0].startswith("299 ")
    assert 50 < len(loaded) < 150
    assert os.path.getsize(tmp_path / "h") <= 1 << 20


def test_a_file_that_cannot_be_written_is_ignored(tmp_path):
    (tmp_path / "h").mkdir()

    history = HistoryFile(str(tmp_path / "h"), lambda text: text)
    history.store_string("one")

    assert lines(tmp_path / "h") == []
