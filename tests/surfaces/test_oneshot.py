from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
from typing import Any

import pytest

from tests.marks import HANG_SECONDS, pids, read, wait_until
from tests.surfaces.commands import HILT

READ = {"tool": "read_file", "args": {"path": "a.txt"}}


@pytest.fixture(autouse=True)
def file(command):
    command.folder.write("a.txt", "a\n")


def lines(done: subprocess.CompletedProcess[bytes]) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("text", [json.dumps(READ), json.dumps(READ) + "\n", json.dumps(READ, indent=4), "\ufeff" + json.dumps(READ), "\r\n" + json.dumps(READ) + "\r\n"])  # fmt: skip  # noqa: E501
def test_one_request_in_any_layout_is_one_reply_line(command, text):
    done = command.run(input=text)

    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1
    assert lines(done)[0]["result"] == "1\ta"


def test_several_requests_are_answered_in_order(command):
    requests = [
        {"tool": "write_file", "args": {"path": "n.txt", "content": str(number)}, "id": number} for number in range(20)
    ]
    requests.append({"tool": "read_file", "args": {"path": "n.txt"}, "id": 20})

    replies = command.ask(*requests)

    assert [reply["id"] for reply in replies] == list(range(21))
    assert replies[-1]["result"] == "1\t19"


def test_concatenated_or_pretty_printed_requests_are_split(command):
    text = json.dumps(READ) * 3 + json.dumps(READ, indent=2) + "\n\n" + json.dumps(READ, indent=1) + json.dumps(READ)

    assert [reply["ok"] for reply in lines(command.run(input=text))] == [True] * 6


@pytest.mark.parametrize("second, status", [("a.txt", 0), ("nothing.txt", 1)])
def test_the_status_is_1_when_any_request_failed(command, second, status):
    text = json.dumps(READ) + "\n" + json.dumps({**READ, "args": {"path": second}}) + "\n" + json.dumps(READ)

    assert command.run(input=text).returncode == status


def test_a_reply_is_sent_as_soon_as_its_request_arrives(command):
    process = command.start()
    for _ in range(3):
        process.stdin.write(json.dumps(READ).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["ok"]
    process.communicate(timeout=60)

    assert process.returncode == 0


def test_a_cancel_outside_a_session_is_refused(command):
    (reply,) = command.ask({"cancel": 1})

    assert (reply["error_code"], reply["ok"]) == ("invalid_request", False)


def test_on_a_terminal_without_input_the_first_steps_are_shown(command):
    master, slave = pty.openpty()
    done = subprocess.run([HILT], stdin=slave, env=command.environ, capture_output=True, timeout=60)
    os.close(master)
    os.close(slave)

    assert done.returncode == 0
    assert b"hilt --help" in done.stdout


def test_ten_calls_at_once_lose_nothing(command):
    command.folder.write("count.txt", "".join(f"<{number}>\n" for number in range(10)))
    results: dict[int, Any] = {}

    def edit(number: int) -> None:
        args = {"path": "count.txt", "old_text": f"<{number}>", "new_text": f"[{number}]"}
        (results[number],) = command.ask({"tool": "edit_file", "args": args, "session": f"s{number}"})

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [results[number]["ok"] for number in range(10)] == [True] * 10
    assert command.folder.read("count.txt") == "".join(f"[{number}]\n" for number in range(10))
    (listed,) = command.ask({"tool": "undo", "args": {"action": "list"}})
    assert json.loads(listed["result"])["count"] == 10
    assert b"intact" in command.run("audit", "verify").stdout


def test_the_workspace_is_named_by_flag_or_variable(command, tmp_path):
    for name in ("flag", "variable", "root"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name + "\n")
    flagged = command.run("--workspace", str(tmp_path / "flag"), input=json.dumps(READ))
    relative = command.run("--workspace=../flag", input=json.dumps(READ))
    command.environ["WORKSPACE_ROOT"] = str(tmp_path / "root")
    rooted = command.run(input=json.dumps(READ))
    command.environ["HILT_WORKSPACE"] = str(tmp_path / "variable")
    named = command.run(input=json.dumps(READ))
    both = command.run("--workspace", str(tmp_path / "flag"), input=json.dumps(READ))

    contents = [lines(done)[0]["result"][2:] for done in (flagged, relative, rooted, named, both)]
    assert contents == ["flag", "flag", "root", "variable", "flag"]


@pytest.mark.parametrize(
    "words, code",
    [
        (("--workspace", "/nonexistent"), "file_not_found"),
        (("--workspace", "a.txt"), "file_not_found"),
        (("--tools", "raed_file"), "unknown_tool"),
    ],
)
def test_a_problem_that_prevents_every_call_is_reported_for_each(command, words, code):
    text = json.dumps({**READ, "id": 1}) + "\n" + json.dumps({**READ, "id": 2})

    done = command.run(*words, input=text)

    assert done.returncode == 1
    assert [(reply["error_code"], reply["id"]) for reply in lines(done)] == [(code, 1), (code, 2)]


def test_invalid_settings_refuse_every_call(command):
    command.folder.write(".hilt/config.toml", "bogus = 1\n")

    (reply,) = command.ask(READ)

    assert (reply["error_code"], reply["error"]) == ("denied", ".hilt/config.toml: unknown key bogus.")


def test_a_deleted_working_directory_is_an_error_envelope(command, tmp_path):
    deleted = tmp_path / "gone"
    deleted.mkdir()
    script = f"cd {deleted} && rmdir {deleted} && echo '{json.dumps(READ)}' | {HILT}"

    done = subprocess.run(["sh", "-c", script], env=command.environ, capture_output=True, timeout=60)

    assert (done.returncode, json.loads(done.stdout)["error_code"], done.stderr) == (1, "file_not_found", b"")


def test_a_closed_output_causes_no_traceback(command):
    script = f"yes '{json.dumps(READ)}' | head -2000 | {HILT} | head -1"

    done = subprocess.run(
        ["bash", "-c", script], cwd=command.folder.path, env=command.environ, capture_output=True, timeout=60
    )

    assert b"Traceback" not in done.stderr
    assert json.loads(done.stdout)["ok"]


@pytest.mark.parametrize("words", [["bogus"], ["--bogus"], ["--workspace"], ["--session"], ["stdio", "x"], ["--schema", "x"], ["call"], ["undo", "x"], ["audit", "x"], ["session"], ["resident"], ["resident", "serve", "x"], ["doctor", "x"], ["tools", "x"]])  # fmt: skip  # noqa: E501
def test_a_usage_error_has_exit_status_2(command, words):
    done = command.run(*words)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"hilt: ")
    assert b"Traceback" not in done.stderr


def test_arguments_that_are_not_utf8_are_refused(command):
    done = command.run("call", "read_file", os.fsdecode(b"path=caf\xe9"))

    assert done.returncode == 2
    assert b"is not UTF-8" in done.stderr


@pytest.mark.parametrize("words", [["--version"], ["-V"]])
def test_the_version_is_printed(command, words):
    import hilt

    assert command.run(*words).stdout.decode() == f"hilt {hilt.__version__}\n"


@pytest.mark.parametrize("sandbox", ["workspace-write", "full"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_leaves_nothing_in_the_workspace(command, number, sandbox):
    command.environ |= {"HILT_SHELL_SANDBOX": sandbox, "HILT_APPROVE": "all"}
    mark = f"hilt-test-{os.getpid()}-{number.name}"
    process = command.start()
    request = {"tool": "run_shell", "args": {"command": f"touch begun; exec -a {mark} sleep 600"}}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    wait_until(lambda: os.path.exists(command.folder.join("begun")))

    process.send_signal(number)
    out, errors = process.communicate(timeout=HANG_SECONDS)

    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert (out, errors) == (b"", b"")
    assert sorted(os.listdir(command.folder.path)) == ["a.txt", "begun"]
    wait_until(lambda: not any(mark.encode() in read(f"/proc/{pid}/cmdline") for pid in pids()))
