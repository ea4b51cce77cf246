from __future__ import annotations

import json
import os
import sqlite3
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def calls(command):
    command.folder.write("a.txt", "a\n")
    command.ask(
        {"tool": "read_file", "args": {"path": "a.txt"}},
        {"tool": "read_file", "args": {"path": ".env"}},
        {"tool": "nope"},
        {"tool": "write_file", "args": {"path": "b.txt", "content": "secret"}, "session": "other"},
        {"tool": "Read", "args": {"path": "a.txt"}},
    )


def rows(command, *words: str) -> list[Any]:
    return [json.loads(line) for line in command.run("audit", "--json", *words).stdout.splitlines()]


def test_every_call_is_recorded_by_its_canonical_name_and_outcome(command):
    found = [(row["tool"], row["decision"], row["outcome"], row["session"]) for row in rows(command)]

    assert found == [
        ("read_file", "allow", "ok", "default"),
        ("read_file", "deny", "sensitive_path", "default"),
        ("nope", "deny", "unknown_tool", "default"),
        ("write_file", "allow", "ok", "other"),
        ("read_file", "allow", "ok", "default"),
    ]


def test_what_was_written_is_not_in_the_record(command):
    assert b"secret" not in command.run("audit", "--json").stdout


@pytest.mark.parametrize(
    "words, count",
    [
        (("--tool", "read_file"), 3),
        (("--tool=write_file",), 1),
        (("--limit", "2"), 2),
        (("--session", "other"), 1),
        (("--since", "1h"), 5),
        (("--since", "2999-01-01"), 0),
        (("--since=1d", "--tool", "nope"), 1),
    ],
)
def test_the_record_is_filtered(command, words, count):
    assert len(rows(command, *words)) == count
    assert len(command.run("audit", *words).stdout.splitlines()) == count


def test_a_whole_record_is_verified(command):
    done = command.run("audit", "verify")

    assert (done.returncode, done.stdout) == (0, b"the audit trail is whole\n")


@pytest.mark.parametrize(
    "statement, row",
    [
        ("UPDATE audit SET outcome='ok' WHERE seq=2", 2),
        ("UPDATE audit SET decision='allow' WHERE seq=2", 2),
        ("DELETE FROM audit WHERE seq=3", 3),
        ("UPDATE audit SET tool='x' WHERE seq=1", 1),
        ("UPDATE audit SET hash=zeroblob(32) WHERE seq=4", 4),
        ("DELETE FROM audit WHERE seq=1", 1),
    ],
)
def test_tampering_is_found(command, statement, row):
    with sqlite3.connect(os.path.join(command.state, "trail.db")) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement)
    db.close()

    done = command.run("audit", "verify")

    assert done.returncode == 1
    assert f"broken at row {row}" in done.stdout.decode()


@pytest.mark.parametrize("words", [("--limit", "9" * 30), ("--since", "9" * 30 + "d"), ("--since=1900-01-01",)])
def test_bounds_beyond_all_measure_find_everything(command, words):
    assert len(rows(command, *words)) == 5
