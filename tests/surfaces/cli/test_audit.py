from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.databases import connected


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


def audit_text(command, *words: str) -> str:
    done = command.run("audit", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return str(done.stdout.decode())


def rows(command, *words: str) -> list[Any]:
    return [json.loads(line) for line in audit_text(command, "--json", *words).splitlines()]


def test_every_call_is_recorded_by_its_canonical_name_and_outcome(command):
    recorded = [(row["tool"], row["decision"], row["outcome"], row["session"]) for row in rows(command)]

    assert recorded == [
        ("read_file", "allow", "ok", "default"),
        ("read_file", "deny", "sensitive_path", "default"),
        ("nope", "deny", "unknown_tool", "default"),
        ("write_file", "allow", "ok", "other"),
        ("read_file", "allow", "ok", "default"),
    ]


def test_the_line_of_an_allowed_call_fits_80_columns(command):
    assert [line for line in audit_text(command, "--tool", "write_file").splitlines() if len(line) > 80] == []


def test_written_contents_are_not_in_the_trail(command):
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
        (("--workspace", "."), 5),
        (("--workspace", ".."), 0),
        (("--agent", "scout"), 0),
    ],
)
def test_the_trail_can_be_filtered(command, words, count):
    assert len(rows(command, *words)) == count
    assert len(audit_text(command, *words).splitlines()) == count


def test_an_intact_trail_is_verified(command):
    done = command.run("audit", "verify")

    assert (done.returncode, done.stdout) == (0, b"The audit trail is intact.\n")


@pytest.mark.parametrize(
    "statement, row",
    [
        ("UPDATE audit SET outcome='ok' WHERE seq=2", 2),
        ("UPDATE audit SET decision='allow' WHERE seq=2", 2),
        ("DELETE FROM audit WHERE seq=3", 3),
        ("UPDATE audit SET tool='x' WHERE seq=1", 1),
        ("UPDATE audit SET hash=zeroblob(32) WHERE seq=4", 4),
        ("DELETE FROM audit WHERE seq=1", 1),
        ("DELETE FROM audit WHERE seq=5", 5),
        ("DELETE FROM audit WHERE seq>2", 3),
        ("DELETE FROM audit", 1),
    ],
)
def test_tampering_is_detected_and_stays_detected(command, statement, row):
    change(command, statement)

    for _ in range(2):
        done = command.run("audit", "verify")
        assert done.returncode == 1
        assert f"broken at row {row}" in done.stdout.decode().splitlines()[0]
        # later calls do not hide it
        command.ask(*[{"tool": "read_file", "args": {"path": "a.txt"}}] * 40)


def change(command, statement: str) -> None:
    assert command.run("audit").returncode == 0  # merges the log into the database
    with connected(os.path.join(command.state, "trail.db")) as db:
        db.execute(statement)
    db.close()


def test_the_check_and_the_head_are_available_as_json(command):
    assert json.loads(audit_text(command, "verify", "--json")) == {"intact": True, "breaks": []}
    head = json.loads(audit_text(command, "head", "--json"))
    assert audit_text(command, "head") == f"{head['row']}:{head['hash']}\n"
    change(command, "UPDATE audit SET outcome='x' WHERE seq=2")

    done = command.run("audit", "verify", "--json")

    report = json.loads(done.stdout)
    assert (done.returncode, report["intact"], [item["row"] for item in report["breaks"]]) == (1, False, [2])


def test_every_break_is_reported(command):
    change(command, "UPDATE audit SET outcome='x' WHERE seq IN (2, 4)")

    lines = command.run("audit", "verify").stdout.decode().splitlines()

    assert [line.split(":")[0] for line in lines] == [f"The audit trail is broken at row {row}" for row in (2, 4)]


def test_a_noted_head_proves_the_rows_up_to_it(command):
    head = audit_text(command, "head").strip()
    assert head.startswith("5:")
    command.ask({"tool": "read_file", "args": {"path": "a.txt"}})

    assert audit_text(command, "verify", "--witness", head) == "The audit trail is intact.\n"
    done = command.run("audit", "verify", "--witness", "5:" + "0" * 64)
    assert (done.returncode, b"broken at row 5" in done.stdout) == (1, True)
    done = command.run("audit", "verify", "--witness=99:" + "0" * 64)
    assert (done.returncode, b"broken at row 7" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--tool", "read_file"),
        ("head", "--limit", "2"),
        ("verify", "--witness", "5"),
        ("verify", "--witness", "5:xyz"),
        ("--witness", "5:" + "0" * 64),
        ("verify", "more"),
        ("more",),
        ("--limit", "many"),
        ("--since", "soon"),
        ("--tool",),
    ],
)
def test_a_usage_error_is_reported(command, words):
    done = command.run("audit", *words)

    assert (done.returncode, done.stdout) == (2, b"")


def test_broken_settings_do_not_hide_the_trail(command):
    command.folder.write(".hilt/config.toml", "nonsense = 1\n")

    assert len(rows(command)) == 5
    assert audit_text(command, "verify") == "The audit trail is intact.\n"


def test_a_line_cannot_control_the_terminal(command):
    command.ask({"tool": "a\x1b[31m\nb"})

    printed = audit_text(command, "--limit", "1")

    assert "\x1b" not in printed
    assert len(printed.splitlines()) == 1


@pytest.mark.parametrize("words", [("--limit", "9" * 30), ("--since", "9" * 30 + "d"), ("--since=1900-01-01",)])
def test_huge_bounds_find_everything(command, words):
    assert len(rows(command, *words)) == 5
