from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from typing import Any

import pytest

from hilt.surfaces import handover
from hilt.surfaces.resident import RUNTIMES_MAX
from tests.marks import pids, read
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command

READ = {"tool": "read_file", "args": {"path": "a.txt"}, "id": 1}


@pytest.fixture
def resident(short: Command) -> Command:
    short.folder.write("a.txt", "a\n")
    done = short.run("resident", "start")
    assert done.returncode == 0, done.stderr
    return short


def pid(command: Command) -> int:
    return _number(rb"pid (\d+)", command)


def count(command: Command) -> int:
    """Return how many calls the resident process has answered."""
    return _number(rb"(\d+) calls", command)


def _number(pattern: bytes, command: Command) -> int:
    match = re.search(pattern, command.run("resident", "status").stdout)
    assert match is not None
    return int(match[1])


def wait_until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(number: int) -> bool:
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends while it is read
        return True


def test_the_resident_starts_once_reports_its_status_and_stops(short):
    assert short.run("resident", "status").stdout == b"not running\n"
    assert short.run("resident", "status").returncode == 1
    started = short.run("resident", "start")
    first = pid(short)
    again = short.run("resident", "start")

    assert started.stdout.startswith(b"running: pid ")
    assert again.returncode == 0
    assert pid(short) == first
    assert short.run("resident", "stop").stdout == b"stopped\n"
    assert short.run("resident", "stop").stdout == b"not running\n"
    wait_until(lambda: gone(first))


def test_calls_are_forwarded_to_the_resident_with_the_same_replies(resident):
    before = count(resident)
    forwarded = resident.ask(READ)
    assert count(resident) == before + 1
    resident.environ["HILT_RESIDENT"] = "off"
    own = resident.ask(READ)

    for reply in (forwarded, own):
        reply[0]["meta"].pop("timing")
    assert forwarded == own
    assert len(resident.run("audit", "--json").stdout.splitlines()) == 2


def test_a_reply_is_sent_as_soon_as_its_request_arrives(resident):
    process = resident.start()
    for _ in range(3):
        process.stdin.write(json.dumps(READ).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["ok"]
    out, errors = process.communicate(timeout=60)

    assert (process.returncode, out, errors) == (0, b"", b"")


def test_the_settings_can_turn_forwarding_off(resident):
    before = count(resident)
    del resident.environ["HILT_RESIDENT"]  # the environment would override the file
    os.makedirs(resident.environ["HILT_CONFIG_DIR"])
    with open(os.path.join(resident.environ["HILT_CONFIG_DIR"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('resident = "off"\n')

    assert resident.ask(READ)[0]["ok"]
    assert count(resident) == before


def test_exit_status_output_and_workspace_are_those_of_the_caller(resident, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("other\n")

    failed = resident.run(input=json.dumps({**READ, "args": {"path": "nothing"}}))
    other = resident.run(input=json.dumps(READ), cwd=str(tmp_path / "other"))
    flagged = resident.run("--workspace", str(tmp_path / "other"), input=json.dumps(READ))
    several = resident.run(input=(json.dumps(READ) + "\n") * 3)

    assert failed.returncode == 1
    assert json.loads(other.stdout)["result"] == json.loads(flagged.stdout)["result"] == "1\tother"
    assert several.stdout.count(b"\n") == 3


def test_a_problem_that_prevents_a_runtime_is_reported_through_the_resident_too(resident):
    done = resident.run("--workspace", "/nonexistent", input=json.dumps(READ))

    assert (done.returncode, json.loads(done.stdout)["error_code"]) == (1, "file_not_found")


def test_sessions_are_kept_apart(resident):
    resident.ask({**READ, "session": "one"})
    resident.folder.write("a.txt", "b\n")
    write = {"tool": "write_file", "args": {"path": "a.txt", "content": "c\n"}}

    stale = resident.ask({**write, "session": "one"})[0]
    other = resident.ask(write)[0]

    assert (stale["error_code"], other["ok"]) == ("stale_file", True)


def test_changed_settings_are_seen_by_the_next_call(resident):
    assert resident.ask(READ)[0]["ok"]
    resident.folder.write(".hilt/config.toml", '[workspace]\nsensitive = ["a.txt"]\n')

    assert resident.ask(READ)[0]["error_code"] == "sensitive_path"


def refused(resident: Command, run) -> None:
    """Check that a caller with other restrictions gets the same reply from its own process."""
    before = count(resident)
    done = run()
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["result"] == "1\ta"
    assert count(resident) == before


# the command, which is native if there was a compiler, and the Python program behind it
CLIENTS = (HILT, f"{HILT}-py")


def run_with(resident: Command, *line: str, **options) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        line,
        input=json.dumps(READ).encode(),
        cwd=resident.folder.path,
        env=resident.environ,
        capture_output=True,
        timeout=60,
        **options,
    )


def test_a_caller_with_another_umask_or_no_new_privileges_is_not_forwarded(resident):
    libc = ctypes.CDLL(None)
    for client in CLIENTS:
        before = count(resident)
        assert run_with(resident, client).returncode == 0
        assert count(resident) == before + 1
        refused(resident, lambda client=client: run_with(resident, client, umask=0o077))
        refused(
            resident, lambda client=client: run_with(resident, client, preexec_fn=lambda: libc.prctl(38, 1, 0, 0, 0))
        )


def test_a_caller_in_another_namespace_is_not_forwarded(resident):
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("namespaces cannot be made here")
    for client in CLIENTS:
        for space in ("--mount", "--net", "--ipc", "--uts"):
            refused(resident, lambda words=("unshare", space, client): run_with(resident, *words))


def test_calls_work_after_the_resident_was_killed(resident):
    number = pid(resident)
    os.kill(number, signal.SIGKILL)
    wait_until(lambda: gone(number))

    assert resident.ask(READ)[0]["ok"]
    assert resident.run("resident", "status").returncode == 1
    assert resident.run("resident", "start").returncode == 0
    assert resident.ask(READ)[0]["ok"]
    assert pid(resident) != number


@needs_sandbox
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_resident_with_its_commands_and_leaves_nothing_in_the_workspace(resident, number):
    mark = f"hilt-test-{os.getpid()}-{number.name}"
    script = f"touch NAME; exec -a {mark} sleep 600"
    job = {"command": script.replace("NAME", "job"), "run_in_background": True}
    assert resident.ask({"tool": "run_shell", "args": job})[0]["ok"]
    caller = resident.start()
    request = {"tool": "run_shell", "args": {"command": script.replace("NAME", "call"), "timeout": 300}}
    caller.stdin.write(json.dumps(request).encode() + b"\n")
    caller.stdin.flush()
    wait_until(lambda: {"job", "call"} <= set(os.listdir(resident.folder.path)))
    server = pid(resident)

    os.kill(server, number)
    out, _ = caller.communicate(timeout=60)

    wait_until(lambda: gone(server))
    assert json.loads(out)["error_code"] == "cancelled"
    assert sorted(os.listdir(resident.folder.path)) == ["a.txt", "call", "job"]
    wait_until(lambda: not any(mark.encode() in read(f"/proc/{other}/cmdline") for other in pids()))


def test_a_resident_that_dies_during_a_call_is_an_error_envelope(resident):
    number = pid(resident)
    process = resident.start()
    process.stdin.write(json.dumps(READ).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["ok"]
    os.kill(number, signal.SIGKILL)
    out, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (1, b"")
    assert json.loads(out)["error_code"] == "internal"


def test_a_call_of_another_version_stops_the_resident(resident):
    number = pid(resident)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(resident.state, "resident.sock"))
        connection.sendall(f"{handover.PROTOCOL}\x00999.0\x00call\x00/\x00\n".encode())
        assert connection.recv(10) == b"-"

    wait_until(lambda: gone(number))
    assert resident.ask(READ)[0]["ok"]


def test_the_resident_stops_when_idle(short):
    process = short.start("resident", "serve", "0.5")
    wait_until(lambda: os.path.exists(os.path.join(short.state, "resident.sock")))
    out, errors = process.communicate(timeout=60)

    assert (process.returncode, out, errors) == (0, b"", b"")
    assert not os.path.exists(os.path.join(short.state, "resident.sock"))


def test_only_one_resident_serves(resident):
    done = resident.run("resident", "serve")

    assert done.returncode == 1
    assert b"already running" in done.stderr


def test_the_socket_is_private_to_the_owner(resident):
    assert os.stat(os.path.join(resident.state, "resident.sock")).st_mode & 0o777 == 0o600
    assert os.stat(resident.state).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("noise", [b"", b"\n", b"\0\n", b"x" * 100_000, b"GET / HTTP/1.1\r\n\r\n", b"a\0b\0c\0\n", b"\xff\0" * 5 + b"\n"])  # fmt: skip  # noqa: E501
def test_garbage_on_the_socket_is_tolerated(resident, noise):
    number = pid(resident)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(resident.state, "resident.sock"))
        connection.sendall(noise)

    if not noise.endswith(b"\0\n") and b"\0" not in noise:
        assert pid(resident) == number
    assert resident.ask(READ)[0]["ok"]


def test_a_silent_caller_blocks_nobody(resident):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(resident.state, "resident.sock"))

        assert resident.ask(READ)[0]["ok"]


def test_a_long_state_path_works_too(tmp_path):
    base = tmp_path / ("long" * 30)
    base.mkdir()
    command = Command(str(base), HILT_RESIDENT="auto")
    command.folder.write("a.txt", "a\n")
    try:
        assert command.run("resident", "start").returncode == 0
        before = count(command)
        assert command.ask(READ)[0]["ok"]
        assert count(command) == before + 1
    finally:
        command.run("resident", "stop")


def test_ten_calls_at_once_are_all_answered(resident):
    resident.folder.write("count.txt", "".join(f"<{number}>\n" for number in range(10)))
    replies: list[Any] = []

    def edit(number: int) -> None:
        args = {"path": "count.txt", "old_text": f"<{number}>", "new_text": f"[{number}]"}
        replies.extend(resident.ask({"tool": "edit_file", "args": args}))

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [reply["ok"] for reply in replies] == [True] * 10
    assert resident.folder.read("count.txt") == "".join(f"[{number}]\n" for number in range(10))


def test_large_requests_and_replies_are_not_truncated(resident):
    content = "é" * 2_000_000
    (written,) = resident.ask({"tool": "write_file", "args": {"path": "big.txt", "content": content}})
    (read,) = resident.ask({"tool": "tool::file_read", "args": {"path": "big.txt", "maxBytes": 1_000_000}})

    assert written["ok"]
    assert json.loads(read["result"])["content"] == "é" * 500_000


def test_nothing_is_imported_from_the_working_directory(short):
    for name in ("json", "hilt", "threading", "socket"):
        short.folder.write(f"{name}.py", "open('imported', 'w').close()\n")

    started = short.run("resident", "start")

    assert started.returncode == 0, started.stderr
    assert "imported" not in os.listdir(short.folder.path)


def test_a_caller_keeps_its_runtime_when_many_others_connect(resident, tmp_path):
    waiting = resident.start()
    waiting.stdin.write(json.dumps(READ).encode() + b"\n")
    waiting.stdin.flush()
    assert json.loads(waiting.stdout.readline())["ok"]
    for number in range(RUNTIMES_MAX + 1):
        (tmp_path / str(number)).mkdir()
        assert resident.ask({"tool": "list_dir"}, words=("--workspace", str(tmp_path / str(number))))[0]["ok"]

    out, errors = waiting.communicate(json.dumps(READ).encode(), timeout=60)

    assert (json.loads(out)["ok"], errors) == (True, b"")
