from __future__ import annotations

import os
import resource
import sqlite3
import stat
from contextlib import closing

import pytest

from hilt.call import Result
from hilt.errors import ToolError
from hilt.state.db import Database
from hilt.testing import temporary_runtime

TABLE = "CREATE TABLE t (x INTEGER)"


def code_of(result: Result) -> str | None:
    return None if result.error is None else result.error.code


def test_the_state_folder_and_its_files_are_private_to_the_owner(tmp_path):
    base = str(tmp_path)  # without a state folder
    before = os.umask(0o000)
    try:
        with temporary_runtime(base) as (runtime, folder):
            folder.write("long.txt", "line\n" * 5000)
            assert runtime.call("read_file", path="long.txt").ok
            assert runtime.call("write_file", path="long.txt", content="x" * 3_000_000).ok
            assert runtime.call("write_file", path="long.txt", content="short").ok
            modes = {}
            for inner, _, names in os.walk(os.path.join(base, "state")):
                for name in names:
                    modes[name] = stat.S_IMODE(os.stat(os.path.join(inner, name)).st_mode)
            modes["state"] = stat.S_IMODE(os.stat(os.path.join(base, "state")).st_mode)
    finally:
        os.umask(before)

    assert {name for name, mode in modes.items() if mode & 0o077} == set()


def test_a_transaction_that_raises_changes_nothing(tmp_path):
    database = Database(str(tmp_path / "x.db"), (TABLE,), durable=True)

    def fail(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO t VALUES (1)")
        raise KeyError

    with pytest.raises(KeyError):
        database.write(fail)

    assert database.read(lambda db: db.execute("SELECT count(*) FROM t").fetchone()[0]) == 0
    database.close()


def test_a_newer_version_migrates_an_older_file_once_and_keeps_its_rows(tmp_path):
    path = str(tmp_path / "x.db")
    old = Database(path, (TABLE,), durable=False)
    old.write(lambda db: db.execute("INSERT INTO t VALUES (1)"))
    old.close()

    for _ in range(2):
        new = Database(path, (TABLE, "ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 7"), durable=False)
        assert new.read(lambda db: db.execute("SELECT x, y FROM t").fetchall()) == [(1, 7)]
        new.close()


def test_a_file_is_copied_before_each_migration_and_only_the_last_copy_is_kept(tmp_path):
    path = str(tmp_path / "x.db")
    steps = (TABLE, "ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 7", "ALTER TABLE t ADD COLUMN z")
    for count in (1, 2, 3):
        database = Database(path, steps[:count], durable=False)
        database.write(lambda db: db.execute("INSERT INTO t (x) VALUES (1)"))
        database.close()

    assert sorted(os.listdir(tmp_path / "backups")) == ["x.db.2"]
    copy = tmp_path / "backups" / "x.db.2"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT x, y FROM t").fetchall() == [(1, 7), (1, 7)]
        assert db.execute("PRAGMA user_version").fetchone() == (2,)


def test_leftovers_of_a_killed_copy_do_not_stop_the_next(tmp_path):
    path = str(tmp_path / "x.db")
    old = Database(path, (TABLE,), durable=False)
    old.write(lambda db: db.execute("INSERT INTO t VALUES (1)"))
    old.close()
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "x.db.1.new").write_bytes(b"half")

    new = Database(path, (TABLE, "ALTER TABLE t ADD COLUMN y"), durable=False)
    assert new.read(lambda db: db.execute("SELECT x, y FROM t").fetchall()) == [(1, None)]
    new.close()

    assert os.listdir(tmp_path / "backups") == ["x.db.1"]


def test_a_failed_copy_leaves_the_file_and_no_partial_copy(tmp_path):
    path = str(tmp_path / "x.db")
    old = Database(path, (TABLE,), durable=False)
    old.write(lambda db: db.executemany("INSERT INTO t VALUES (?)", [(1,)] * 50_000))
    old.close()
    new = Database(path, (TABLE, "ALTER TABLE t ADD COLUMN y"), durable=False)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(ToolError) as failed:
            new.read(lambda db: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert failed.value.code == "resource_limit"
    assert os.listdir(tmp_path / "backups") == []
    assert new.read(lambda db: db.execute("SELECT count(*), max(y) FROM t").fetchone()) == (50_000, None)
    new.close()


def test_a_cache_is_migrated_without_a_copy(tmp_path):
    path = str(tmp_path / "x.db")
    for steps in ((TABLE,), (TABLE, "ALTER TABLE t ADD COLUMN y")):
        database = Database(path, steps, durable=False, is_cache=True)
        database.read(lambda db: None)
        database.close()

    assert not (tmp_path / "backups").exists()


def test_a_file_of_a_newer_version_is_rejected_and_unchanged(tmp_path):
    path = str(tmp_path / "x.db")
    newer = Database(path, (TABLE, "ALTER TABLE t ADD COLUMN y"), durable=False)
    newer.read(lambda db: None)
    newer.close()
    before = (tmp_path / "x.db").read_bytes()

    with pytest.raises(ToolError) as refused:
        Database(path, (TABLE,), durable=False).write(lambda db: db.execute("INSERT INTO t VALUES (1)"))

    assert (refused.value.code, refused.value.details) == ("runtime_missing", {"format": 2, "known": 1})
    assert "backups" not in str(refused.value.suggestion)
    assert (tmp_path / "x.db").read_bytes() == before


def test_the_error_for_a_newer_file_names_the_copy_of_the_older_one(tmp_path):
    path = str(tmp_path / "x.db")
    for steps in ((TABLE,), (TABLE, "ALTER TABLE t ADD COLUMN y")):
        database = Database(path, steps, durable=False)
        database.write(lambda db: db.execute("INSERT INTO t (x) VALUES (1)"))
        database.close()

    with pytest.raises(ToolError) as refused:
        Database(path, (TABLE,), durable=False).read(lambda db: None)

    assert f"{tmp_path}/backups" in str(refused.value.suggestion)


def test_a_failed_migration_leaves_the_file_unchanged(tmp_path):
    path = str(tmp_path / "x.db")
    broken = Database(path, (TABLE, "ALTER TABLE t ADD COLUMN y;\nnonsense"), durable=False)
    with pytest.raises(sqlite3.OperationalError):
        broken.read(lambda db: None)

    good = Database(path, (TABLE,), durable=False)
    assert good.read(lambda db: db.execute("SELECT count(*) FROM t").fetchone()[0]) == 0
    good.close()


@pytest.mark.parametrize("damage", [b"this is not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_reported_with_advice(tmp_path, damage):
    (tmp_path / "x.db").write_bytes(damage)

    with pytest.raises(ToolError) as caught:
        Database(str(tmp_path / "x.db"), (TABLE,), durable=False).read(lambda db: None)

    assert "x.db" in caught.value.message
    assert "x.db" in caught.value.suggestion


@pytest.mark.parametrize("name", ["trail.db", "state.db"])
def test_a_call_on_damaged_state_returns_an_error(base, name):
    with open(os.path.join(base, "state", name), "wb") as file:
        file.write(b"not a database" * 100)

    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "old\n")
        result = runtime.call("write_file", path="a.txt", content="new\n")

    assert code_of(result) == "internal"
    assert name in str(result.error)


def test_a_state_folder_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "state").write_text("a file where the folder should be")

    with temporary_runtime(str(tmp_path)) as (runtime, folder):
        folder.write("a.txt", "old\n")
        result = runtime.call("read_file", path="a.txt")

    assert result.error is not None
    assert result.error.code == "resource_limit"
