"""The command line as a whole: values of flags, and streams that are closed or full."""

from __future__ import annotations

import subprocess

import pytest

from hilt.surfaces import split
from tests.surfaces.commands import HILT, Command

READ = '{"tool": "read_file", "args": {"path": "a.txt"}}'
COMMANDS = ["", "stdio", "call list_dir", "tools", "--schema", "doctor", "audit", "stats", "undo", "config show",
            "grants", "trust list", "resident status", "sessions end", "sessions", "approve", "mcp list"]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("flag", ["--mode=bogus", "--profile=Full", "--approve=maybe", "--dialect=none"])
def test_an_invalid_flag_value_is_a_usage_error_on_every_command(command, words, flag):
    done = command.run(*words.split(), flag, input=READ)

    assert (done.returncode, done.stdout) == (2, b"")
    name, _, value = flag.partition("=")
    assert done.stderr.decode().startswith(f"hilt: {name} takes ")
    assert repr(value) in done.stderr.decode()


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_commands_for_several_folders_take_each_as_a_workspace(name):
    assert split([name, "--workspace", "a", "--workspace=b"]) == ({"workspace": "a"}, [name, "b"])
    assert split(["tools", "--workspace", "a", "--workspace", "b"]) == ({"workspace": "b"}, ["tools"])


def test_the_values_of_a_flag_are_those_of_its_setting(command):
    command.folder.write("a.txt", "a\n")

    for flag, values in {
        "--mode": ("normal", "auto-accept", "yolo", "plan", "scheduler", "headless"),
        "--profile": ("full", "minimal", "nano"),
        "--approve": ("deny", "once", "always", "all"),
        "--dialect": ("jinn", "jcli", "agentos", "claude_code", "codex"),
    }.items():
        for value in values:
            assert command.ask({"tool": "read_file", "args": {"path": "a.txt"}}, words=(flag, value))[0]["ok"]


@pytest.mark.parametrize("words", ["tools", "config show", "undo", "sessions", "call list_dir", "worker"])
def test_an_error_cannot_control_the_terminal(command, words):
    command.folder.write(".hilt/config.toml", '"\\u001b[2J\\u202e" = 1\n')

    done = command.run(*words.split())

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith("denied: .hilt/config.toml: unknown key ␛[2J<U+202E>.")


def with_stream(command: Command, redirection: str, *words: str) -> tuple[int, bytes, bytes]:
    """Run the command with one of its streams closed or redirected."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", HILT, *words],
        input=READ.encode() + b"\n",
        capture_output=True,
        cwd=command.folder.path,
        env=command.environ,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


WRITING = ["", "tools", "--schema", "config show", "--help", "--version", "call read_file path=a.txt", "undo"]


@pytest.mark.parametrize("words", WRITING)
@pytest.mark.parametrize(
    "redirection, reason", [(">&-", b"Bad file descriptor"), (">/dev/full", b"No space left on device")]
)
def test_output_that_cannot_be_written_is_one_line_and_exit_status_1(command, words, redirection, reason):
    command.folder.write("a.txt", "a\n")

    assert with_stream(command, redirection, *words.split()) == (1, b"", b"hilt: cannot write: " + reason + b"\n")


@pytest.mark.parametrize("words", WRITING)
def test_a_closed_pipe_causes_no_error_message(command, words):
    command.folder.write("a.txt", "a\n")

    assert with_stream(command, "| false", *words.split())[2] == b""


@pytest.mark.parametrize("words, status", [("", 1), ("stdio", 0), ("tools", 0), ("call read_file path=a.txt", 0)])
def test_a_closed_input_counts_as_empty(command, words, status):
    command.folder.write("a.txt", "a\n")

    done = with_stream(command, "<&-", *words.split())

    assert (done[0], done[2]) == (status, b"")


@pytest.mark.parametrize("words", ["", "stdio", "tools", "call read_file path=a.txt"])
def test_everything_works_with_standard_error_closed(command, words):
    command.folder.write("a.txt", "a\n")

    status, out, _ = with_stream(command, "2>&-", *words.split())

    assert status == 0
    assert out
