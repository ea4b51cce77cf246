from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.state import memory as module
from hilt.state.memory import ENTRIES_MAX, GLOBAL, Memory, check_name
from tests.databases import connected


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def memory(tmp_path, config):
    (tmp_path / "workspace").mkdir()
    opened = Memory(str(config), str(tmp_path / "workspace"))
    yield opened
    opened.close()


def nothing() -> None:
    """A call that was not cancelled."""


# --- many processes -----------------------------------------------------------------------------------------------

SAVE = """
import sys
from hilt import Runtime
from hilt.testing import environment
base, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Runtime(base + "/workspace", environ=environment(base)) as runtime:
    sys.stdin.read()
    for turn in range(count):
        for key in (f"own.{number}.{turn}", "shared"):
            result = runtime.call("memory", action="save", key=key, value=f"{number}/{turn}", scope="global")
            assert result.ok, result.error.message
"""


def together(script: str, base: object, count: int, *arguments: str) -> None:
    """Run this many processes; each waits for the end of its input, which comes when all have started."""
    command = [sys.executable, "-c", script, str(base)]
    running = [
        subprocess.Popen([*command, str(number), *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(count)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    for process in running:
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        process.stderr.close()
        assert process.wait() == 0, errors


@pytest.mark.starts_processes
def test_twenty_processes_that_save_at_once_lose_nothing(tmp_path, config, memory):
    together(SAVE, tmp_path, 20, "10")

    entries = {entry.key: entry.value for entry in memory.entries(GLOBAL).entries}
    shared = entries.pop("shared")
    assert entries == {f"own.{number}.{turn}": f"{number}/{turn}" for number in range(20) for turn in range(10)}
    assert shared in {f"{number}/9" for number in range(20)}
    assert memory.search(GLOBAL, "own", limit=1000).total == 200


IMPORT = """
import sys
from hilt import Runtime
from hilt.testing import environment
base = sys.argv[1]
with Runtime(base + "/workspace", environ=environment(base)) as runtime:
    sys.stdin.read()
    assert runtime.call("memory", action="forget", key="gone", scope="global").ok
    assert runtime.call("memory", action="recall", key="gone", scope="global").error.code == "not_found"
"""


@pytest.mark.starts_processes
def test_processes_that_start_at_once_import_memory_json_once(tmp_path, config, memory):
    config.mkdir()
    (config / "memory.json").write_text(json.dumps({"gone": "1", "kept": "2"}))

    together(IMPORT, tmp_path, 8)

    assert [entry.key for entry in memory.entries(GLOBAL).entries] == ["kept"]
    assert sorted(path.name for path in config.glob("memory.json*")) == ["memory.json.migrated"]


# --- memory.json --------------------------------------------------------------------------------------------------


def test_memory_json_is_imported_into_global_once_and_renamed(config, memory):
    config.mkdir()
    (config / "memory.json").write_text(json.dumps({"host": "localhost", "port": 8080, "Ünfit key": "x"}))

    assert memory.recall(GLOBAL, "host").value == "localhost"
    assert memory.recall(GLOBAL, "port").value == "8080"
    (note,) = memory.notes
    assert [fact for fact in ("1 invalid", "memory.json", "'Ünfit key'") if fact not in note] == []
    assert (config / "memory.json.migrated").exists()
    assert not (config / "memory.json").exists()

    memory.forget(GLOBAL, "host", commit=nothing)
    assert memory.recall(GLOBAL, "host") is None


def test_memory_json_does_not_replace_newer_entries(config, memory):
    memory.save(GLOBAL, "host", "new", commit=nothing)
    (config / "memory.json").write_text('{"host": "old"}')

    assert memory.recall(GLOBAL, "host").value == "new"


@pytest.mark.parametrize("contents", [b"", b"not json", b"[1]", b"\xff\xfe\x00", b"[" * 100_000, b"null"])
def test_an_unreadable_memory_json_stays_and_is_reported(config, memory, contents):
    config.mkdir()
    (config / "memory.json").write_bytes(contents)

    memory.save(GLOBAL, "key", "value", commit=nothing)

    assert memory.recall(GLOBAL, "key").value == "value"
    assert memory.notes[0].startswith("memory.json was not imported")
    assert (config / "memory.json").read_bytes() == contents


# --- the database -------------------------------------------------------------------------------------------------


def test_the_folder_and_the_database_are_private_to_the_owner(config, memory):
    memory.save(GLOBAL, "key", "value", commit=nothing)

    assert stat.S_IMODE(config.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in config.iterdir()} == {0o600}
    connection = sqlite3.connect(config / "memory.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_locked_memory_is_busy_after_the_timeout(config, memory, monkeypatch):
    memory.save(GLOBAL, "key", "old", commit=nothing)
    memory.close()
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    memory = Memory(str(config), str(config))
    other = sqlite3.connect(config / "memory.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(ToolError) as caught:
        memory.save(GLOBAL, "key", "new", commit=nothing)

    assert caught.value.code == "busy"
    assert memory.recall(GLOBAL, "key").value == "old"
    other.execute("ROLLBACK")
    other.close()
    memory.save(GLOBAL, "key", "new", commit=nothing)
    assert memory.recall(GLOBAL, "key").value == "new"
    memory.close()


def test_callers_wait_five_seconds_for_other_writers():
    assert module.PATIENCE_SECONDS == 5


@pytest.mark.parametrize(
    "contents", [b"not a database at all, but long enough" * 40, b"SQLite format 3\0" + b"\1" * 4000]
)
def test_a_damaged_database_is_an_error_with_advice(config, memory, contents):
    config.mkdir()
    (config / "memory.db").write_bytes(contents)

    for attempt in (lambda: memory.recall(GLOBAL, "key"), lambda: memory.save(GLOBAL, "key", "", commit=nothing)):
        with pytest.raises(ToolError) as caught:
            attempt()
        assert "memory.db" in caught.value.suggestion
    assert (config / "memory.db").read_bytes() == contents


def test_a_configuration_directory_that_is_a_file_is_an_error_with_advice(config, memory):
    config.write_text("a file")

    with pytest.raises(ToolError) as caught:
        memory.save(GLOBAL, "key", "value", commit=nothing)

    assert "HILT_CONFIG_DIR" in caught.value.suggestion


def test_a_cancelled_call_saves_and_forgets_nothing(memory):
    memory.save(GLOBAL, "key", "old", commit=nothing)
    fence = Fence()
    fence.cancel(ToolError("cancelled", "the caller disconnected"))

    with pytest.raises(ToolError, match="disconnected"):
        memory.save(GLOBAL, "key", "new", commit=fence.commit)
    with pytest.raises(ToolError, match="disconnected"):
        memory.forget(GLOBAL, "key", commit=fence.commit)

    assert memory.recall(GLOBAL, "key").value == "old"


# --- entries ------------------------------------------------------------------------------------------------------


@given(value=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=2000))
def test_every_text_is_returned_as_saved(memory, value):
    memory.save(GLOBAL, "key", value, commit=nothing)

    assert memory.recall(GLOBAL, "key").value == value
    assert [entry.value for entry in memory.entries(GLOBAL).entries] == [value]


def test_an_expired_entry_is_gone_from_every_answer_and_from_the_file_at_the_next_save(config, memory):
    memory.save(GLOBAL, "old", "stale words", seconds=3600, commit=nothing)
    memory.save(GLOBAL, "new", "fresh words", seconds=3600, commit=nothing)
    connection = sqlite3.connect(config / "memory.db", isolation_level=None)
    connection.execute("UPDATE memories SET expires=1 WHERE key='old'")

    assert memory.recall(GLOBAL, "old") is None
    assert [entry.key for entry in memory.entries(GLOBAL).entries] == ["new"]
    assert [entry.key for entry in memory.search(GLOBAL, "words").entries] == ["new"]

    memory.save(GLOBAL, "other", "", commit=nothing)
    assert connection.execute("SELECT count(*) FROM memories").fetchone() == (2,)
    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")  # raises when text and rows differ
    connection.close()


def test_a_second_save_replaces_value_tags_expiry_and_search_terms(memory):
    memory.save(GLOBAL, "key", "apples", tags=["fruit"], seconds=60, commit=nothing)
    memory.save(GLOBAL, "key", "bolts", commit=nothing)

    entry = memory.recall(GLOBAL, "key")
    assert (entry.value, entry.tags, entry.expires) == ("bolts", (), None)
    assert memory.search(GLOBAL, "apples fruit").entries == []
    assert memory.search(GLOBAL, "bolt").total == 1


@pytest.mark.parametrize(
    "query", ["", "   ", '"', "* OR", "NEAR(", "key:", "-", "'; DROP TABLE memories; --", "\0", "AND"]
)
def test_a_search_accepts_any_text(memory, query):
    memory.save(GLOBAL, "key", "value", commit=nothing)

    assert memory.search(GLOBAL, query).total in (0, 1)
    assert memory.recall(GLOBAL, "key").value == "value"


@pytest.mark.parametrize("query, keys", [("接続", ["de", "ja"]), ("env 設定", ["ja"]), ("競合", []), ("Größe", ["de"])])
def test_words_of_scripts_without_spaces_are_found_inside_sentences(memory, query, keys):
    memory.save(GLOBAL, "ja", "データベースの接続設定はenvにある", commit=nothing)
    memory.save(GLOBAL, "de", "Größe (接続)", tags=["x"], commit=nothing)
    memory.save("/other", "ja", "接続", commit=nothing)

    page = memory.search(GLOBAL, query)

    assert ([entry.key for entry in page.entries], page.total) == (keys, len(keys))
    assert all("接続" in entry.snippet for entry in page.entries)
    assert [entry.key for entry in memory.search(GLOBAL, query, tags=["x"]).entries] == [k for k in keys if k == "de"]


# --- scopes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_the_project_is_the_nearest_parent_folder_with_a_git(tmp_path, kind):
    inner = tmp_path / "repository" / "deep" / "er"
    inner.mkdir(parents=True)
    git = tmp_path / "repository" / ".git"
    git.mkdir() if kind == "folder" else git.write_text("gitdir: elsewhere\n")  # a worktree has a file

    memory = Memory(str(tmp_path / "config"), str(inner))

    assert memory.scope(None) == str(tmp_path / "repository")
    assert memory.scope("project") == str(tmp_path / "repository")


def test_a_link_and_its_target_are_one_scope(tmp_path, memory):
    (tmp_path / "link").symlink_to(tmp_path / "workspace")

    assert memory.scope(str(tmp_path / "link")) == memory.scope(str(tmp_path / "workspace/../workspace/"))


@pytest.mark.parametrize("scope", ["", "relative/path", "../up", "Global", "~/x", "/nul\0", "/\ud800"])
def test_other_scopes_are_rejected(memory, scope):
    with pytest.raises(ToolError) as caught:
        memory.scope(scope)

    assert caught.value.code == "invalid_args"


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "-", "..", "x" * 128])
def test_valid_keys_are_accepted(name):
    assert check_name("key", name) == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "a\n", "\n", "x" * 129, "a\0", "٣"])
def test_invalid_keys_are_rejected(name):
    with pytest.raises(ToolError) as caught:
        check_name("key", name)

    assert caught.value.code == "invalid_args"


def test_a_workspace_whose_name_is_not_utf8_is_a_project_too(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff")
    os.mkdir(folder)
    memory = Memory(str(tmp_path / "config"), folder)

    memory.save(memory.scope(None), "key", "value", commit=nothing)

    entry = memory.recall(memory.scope(None), "key")
    memory.close()
    assert entry is not None
    assert entry.value == "value"


def test_a_full_scope_takes_no_new_keys(config, memory):
    memory.save("w", "first", "1", commit=nothing)
    with connected(config / "memory.db") as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(memories)") if row[1] not in ("id", "key")]
        copied = ", ".join(columns)
        db.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {ENTRIES_MAX}) "
            f"INSERT INTO memories (key, {copied}) SELECT 'k' || i, {copied} FROM memories, n"
        )
    db.close()

    with pytest.raises(ToolError) as caught:
        memory.save("w", "more", "1", commit=nothing)

    assert caught.value.code == "limit_exceeded"
    memory.save("w", "first", "2", commit=nothing)
    memory.save(GLOBAL, "more", "1", commit=nothing)
    memory.forget("w", "first", commit=nothing)
    memory.save("w", "more", "1", commit=nothing)
