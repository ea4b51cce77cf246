from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen


@pytest.fixture(autouse=True)
def file(command):
    command.folder.write("a.txt", "one\ntwo\nthree\n")


def envelope(command, *words: str) -> Any:
    done = command.run("call", *words, "--raw")
    reply = json.loads(done.stdout)
    assert done.returncode == (0 if reply["ok"] else 1)
    return reply


@pytest.mark.parametrize(
    "words, result",
    [
        (["read_file", "path=a.txt", "tail=1"], "3\tthree"),
        (["read_file", "path=a.txt", "line_numbers=false", "start_line=3"], "three"),
        (["read_file", "path=a.txt", "line_numbers=no", "tail=1"], "three"),
        (["read_file", "--json", '{"path": "a.txt", "tail": 1}'], "3\tthree"),
        (["read_file", "--json", '{"path": "a.txt", "tail": 2}', "tail=1"], "3\tthree"),
        (["read_file", '--json={"path": "a.txt", "tail": 1}'], "3\tthree"),
        (["read_file", "path=a.txt", "tail=1.0"], "3\tthree"),
        (["write_file", "path=b.txt", "content=a=b"], "wrote 3 bytes to b.txt"),
        (["write_file", "path=b.txt", "content="], "wrote 0 bytes to b.txt"),
        (["write_file", "path=b.txt", "content=1"], "wrote 1 bytes to b.txt"),
        (["Read", "path=a.txt", "offset=2"], "3\tthree"),
    ],
)
def test_arguments_are_converted_by_the_schema(command, words, result):
    assert envelope(command, *words)["result"] == result


@pytest.mark.parametrize(
    "words, text",
    [
        (["read_file", "path=a.txt", "tail=1"], "3\tthree\n"),
        (["list_dir"], '{"entries":["a.txt"],"truncated":false,"total_count":1}\n'),
    ],
)
def test_text_prints_what_a_model_reads_and_nothing_else(command, words, text):
    done = command.run("call", "--text", *words)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == text


def test_a_failed_call_prints_no_text(command):
    done = command.run("call", "--text", "read_file", "path=none.txt")

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"file_not_found: ")


def test_arrays_are_passed_as_json(command):
    reply = envelope(command, "multi_read", 'files=[{"path":"a.txt","tail":1}]')

    assert json.loads(reply["result"])["files"] == {"a.txt": "3\tthree"}


@pytest.mark.parametrize(
    "words, code",
    [
        (["read_file", "path=a.txt", "tail=x"], "invalid_args"),
        (["read_file", "path=a.txt", "tail=1.5"], "invalid_args"),
        (["read_file", "path=a.txt", "tail=inf"], "invalid_args"),
        (["read_file", "path=a.txt", "tail=-" + "9" * 400], "invalid_args"),
        (["list_dir", "changed_since=nan"], "invalid_args"),
        (["list_dir", "changed_since=inf"], "invalid_args"),
        (["read_file", "path=a.txt", "line_numbers=perhaps"], "invalid_args"),
        (["read_file"], "invalid_args"),
        (["read_file", "path=nothing"], "file_not_found"),
        (["multi_read", "files=x"], "invalid_args"),
        (["raed_file"], "unknown_tool"),
    ],
)
def test_a_failed_call_has_exit_status_1_and_says_why(command, words, code):
    done = command.run("call", *words)

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith(f"{code}: ")
    assert done.stderr.count(b"\n") == 2
    assert envelope(command, *words)["error_code"] == code


@pytest.mark.parametrize(
    "words, message",
    [
        (["read_file", "pth=a.txt"], "unknown argument 'pth'; did you mean path?"),
        (["read_file", "a.txt"], "'a.txt' is not KEY=VALUE"),
        (["read_file", "--json", "{"], "--json: "),
        (["read_file", "--json", "[]"], "--json needs a JSON object"),
        (["read_file", "--json"], "--json needs a value"),
    ],
)
def test_invalid_arguments_have_exit_status_2(command, words, message):
    done = command.run("call", *words)

    assert done.returncode == 2
    assert message in done.stderr.decode()


def test_a_diff_is_shown_and_nothing_is_coloured_in_a_pipe(command):
    done = command.run("call", "edit_file", "path=a.txt", "old_text=two", "new_text=2")

    text = done.stdout.decode()
    assert "\x1b" not in text
    assert "- two" in text
    assert "+ 2" in text


@pytest.mark.parametrize("variable, coloured", [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_support_them(command, variable, coloured):
    environ = {**command.environ, "TERM": "xterm-256color", **variable}
    words = ["edit_file", "path=a.txt", "old_text=two", "new_text=2", "dry_run=true"]

    status, text = on_terminal(command, environ, *words)

    assert (status, b"\x1b[" in text) == (0, coloured)


def on_terminal(command: Command, environ: dict[str, str], *words: str) -> tuple[int, bytes]:
    """Make a call with a terminal as output; return the exit status and the output."""
    master, slave = pty.openpty()
    process = subprocess.Popen([HILT, "call", *words], cwd=command.folder.path, env=environ, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    try:
        while chunk := os.read(master, 65536):
            text += chunk
    except OSError:
        pass  # the other end is closed
    os.close(master)
    return process.wait(60), text


GREET = """---
name: greet
description: Greet.
approval: never
parameters:
  who: {type: string}
  times: {type: integer}
---
{{# who }}echo hello {{ who }}{{/ who }}{{^ who }}echo nobody >&2; exit 3{{/ who }}
"""


def test_a_markdown_tool_result_is_rendered_in_a_terminal(command):
    tools = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools")
    os.makedirs(tools)
    with open(os.path.join(tools, "greet.md"), "w", encoding="utf-8") as file:
        file.write(GREET)
    environ = {**command.environ, "TERM": "dumb"}

    output = on_terminal(command, environ, "greet", "who=\x1b[2J you", "times=2")
    failed = on_terminal(command, environ, "greet")
    raw = on_terminal(command, environ, "greet", "who=you", "--raw")

    lines = output[1].decode().splitlines()
    assert lines[:3] == ["⚒ greet", "Args: who= you, times=2", "Output: ~3 tokens"]
    assert (lines[3].endswith(" you"), output[0]) == (True, 0)
    assert failed[0] == 1
    assert failed[1].decode().splitlines()[:2] == ["⚒ greet", "tool_failed: Custom tool failed (exit 3): nobody"]
    assert json.loads(raw[1])["ok"]
    assert command.run("call", "greet", "who=you").stdout == b"hello you\n"


def test_everything_is_shown_without_rich(command):
    script = "import sys; sys.modules['rich'] = None; from hilt.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", script, "call"]
    for call in (["read_file", "path=a.txt"], ["list_dir"], ["edit_file", "path=a.txt", "old_text=two", "new_text=2"]):
        done = subprocess.run(
            [*words, *call], cwd=command.folder.path, env=command.environ, capture_output=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout


@pytest.mark.parametrize("coding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_with_another_encoding_causes_no_traceback(command, coding):
    command.folder.write("é.txt", "日本語 é\n")
    command.environ["PYTHONIOENCODING"] = coding

    for words in (("call", "read_file", "path=é.txt"), ("call", "list_dir"), ("call", "write_file", "path=ü.txt", "content=ü"), ("undo",), ("tools",), ("call", "read_file", "path=ö")):  # fmt: skip  # noqa: E501
        done = command.run(*words)
        assert b"Traceback" not in done.stderr, done.stderr.decode()


def test_control_characters_are_inert(command):
    command.folder.write("evil.txt", "\x1b[2J\x1b]0;title\x07 bold\n")

    for words in (
        ("read_file", "path=evil.txt"),
        ("read_file", "path=evil.txt", "line_numbers=false"),
        ("read_file", "path=\x1b[31mno"),
    ):
        done = command.run("call", *words)
        assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["tools"], ["undo"], ["sessions", "end"], ["call", "list_dir"]])
def test_broken_settings_are_reported_without_a_traceback(command, words):
    command.folder.write(".hilt/config.toml", "bogus = 1\n")

    done = command.run(*words)

    assert done.returncode == 1
    assert done.stderr.decode().startswith("denied: .hilt/config.toml: unknown key bogus.")


@pytest.mark.parametrize("text", ['{"path": "a", "path": "b"}', '{"path": NaN}', '{"path": "\\ud800"}'])
def test_json_is_read_as_strictly_as_a_request(command, text):
    done = command.run("call", "read_file", "--json", text)

    assert done.returncode == 2
    assert done.stderr.startswith(b"hilt: --json: ")


ONCE = [
    (["search_files", "pattern=two"], "two"),
    (["find_files", "pattern=*.txt"], "a.txt"),
    (["list_dir"], "a.txt"),
    (["read_file", "path=a.txt"], "three"),
    (["stat_file", "path=a.txt"], '"lines": 3'),
    (["checksum_tree"], "a.txt"),
    (["undo", "action=list"], "write_file"),
    (["run_shell", "command=echo $((6 * 7))"], "42"),
    (["shell_exec", 'argv=["cat", "a.txt"]'], "three"),
    (["edit_file", "path=a.txt", "old_text=two", "new_text=zwei"], "+ zwei"),
    (["diff_files", "path_a=a.txt", "path_b=c.txt"], "- three"),
    (["run_shell", "command=ls", "dry_run=true"], "[risk: "),
]


@needs_sandbox
@pytest.mark.parametrize("words, part", ONCE, ids=[words[0] for words, _ in ONCE])
def test_a_result_is_printed_once(command, words, part):
    command.run("call", "write_file", "path=c.txt", "content=c\n")

    done = command.run("call", *words)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().count(part) == 1


def test_the_result_of_a_call_that_the_resident_runs_is_printed_once(short):
    done = short.run("call", "job_list")

    assert done.returncode == 0
    assert b"jobs" not in done.stdout  # the JSON that the table shows
    assert done.stdout.decode().startswith("Job ")


@needs_sandbox
def test_advice_on_a_command_is_printed_below_its_output(command):
    done = command.run("call", "run_shell", "command=echo begun; sleep 60", "timeout=1")

    lines = done.stdout.decode().splitlines()
    assert "begun" in lines
    assert lines[-1].startswith("[timeout: after 1 s; ")


def test_a_window_of_a_file_names_the_next_call(command):
    command.folder.write("long.txt", "x\n" * 5000)

    done = command.run("call", "read_file", "path=long.txt")

    assert "start_line" in done.stdout.decode().splitlines()[-1]


@pytest.mark.parametrize(
    "words, rules, question",
    [
        (["write_file", "path=b.txt", "content=x"], "ask: [write_file]\n", "> "),
        (["ask_user", 'questions=[{"header": "h", "question": "q?", "options": ["a", "b"]}]'], "", "answer: "),
    ],
)
def test_ctrl_c_at_a_prompt_ends_the_call_at_once(command, words, rules, question):
    command.folder.write("../config/permissions.yaml", rules)
    with Screen(
        [HILT, "call", *words], env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=100
    ) as screen:
        screen.expect(question)
        screen.type("\x03")
        status, rest = screen.end()

    assert (status, rest.splitlines()[-1]) == (130, "The call was cancelled and did not run.")
    assert "b.txt" not in command.folder.tree()
