from __future__ import annotations

import json
import select
import signal
from contextlib import contextmanager

import pytest

READ = {"tool": "read_file", "args": {"path": "a.txt"}}
HANG_SECONDS = 60


@pytest.fixture(autouse=True)
def calls(command):
    command.folder.write("a.txt", "a\n")
    command.ask(READ, {"tool": "nope"}, {**READ, "session": "other"})


def lines(command, *words: str) -> list[str]:
    done = command.run("log", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    printed: list[str] = done.stdout.decode().splitlines()
    return printed


def test_calls_are_shown_newest_last_on_lines_that_fit_a_terminal(command):
    printed = lines(command)

    assert [line.split()[1:4] for line in printed] == [
        ["default", "read_file", "ok"],
        ["default", "nope", "unknown_tool"],
        ["other", "read_file", "ok"],
    ]
    assert all(len(line) <= 80 for line in printed)


@pytest.mark.parametrize(
    "words, count",
    [
        (("-n", "1"), 1),
        (("-n0",), 0),
        (("--lines=2",), 2),
        (("--tool", "read_file"), 2),
        (("--session", "other"), 1),
        (("--since", "1h"), 3),
    ],
)
def test_calls_can_be_filtered(command, words, count):
    assert len(lines(command, *words)) == count


def test_filters_that_match_nothing_are_reported(command):
    assert lines(command, "--workspace", "..") == ["No recorded calls match."]
    assert lines(command, "--workspace", "..", "--json") == []


def test_the_json_output_equals_that_of_audit(command):
    assert lines(command, "--json") == command.run("audit", "--json").stdout.decode().splitlines()


@contextmanager
def following(command, *words: str):
    """Yield a function that waits for the next line of `hilt log -f`."""
    process = command.start("log", "-f", *words, bufsize=0)

    def next_line() -> str:
        ready, _, _ = select.select([process.stdout], [], [], HANG_SECONDS)
        assert ready, "no line came"
        return str(process.stdout.readline().decode())

    try:
        yield process, next_line
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def test_calls_of_other_processes_are_followed_until_it_is_interrupted(command):
    with following(command, "-n", "1", "--json") as (process, next_line):
        assert json.loads(next_line())["session"] == "other"
        for name in ("one", "two"):
            command.ask({**READ, "session": name}, {**READ, "session": f"{name}-again"})
            assert [json.loads(next_line())["session"] for _ in range(2)] == [name, f"{name}-again"]
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 130


def test_followed_calls_can_be_filtered_too(command):
    with following(command, "-n", "1", "--tool", "read_file", "--json") as (_, next_line):
        next_line()  # it has started to follow
        command.ask({"tool": "stat_file", "args": {"path": "a.txt"}}, {**READ, "session": "mine"})
        row = json.loads(next_line())
        assert (row["tool"], row["session"]) == ("read_file", "mine")


def test_a_closed_pipe_ends_it_without_an_error_message(command):
    with following(command, "-n", "1") as (process, next_line):
        next_line()
        process.stdout.close()
        command.ask(READ)
        assert process.wait(HANG_SECONDS) == 1
        assert process.stderr.read() == b""
