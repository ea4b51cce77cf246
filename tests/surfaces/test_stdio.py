from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.state import locks
from tests.marks import HANG_SECONDS, Mark, wait_until
from tests.surfaces.commands import Command


class Session:
    """A `hilt stdio` process: send requests, wait for replies."""

    def __init__(self, command: Command, *words: str) -> None:
        self.process: Any = command.start(*words, "stdio")

    def send(self, **request: Any) -> None:
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        return json.loads(self.process.stdout.readline())

    def end(self) -> tuple[int, list[Any], bytes]:
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], errors


@pytest.fixture
def session(command) -> Iterator[Session]:
    session = Session(command)
    yield session
    if session.process.poll() is None:
        session.process.kill()
        session.process.communicate()


@contextmanager
def locked(command: Command, *names: str) -> Iterator[None]:
    """Hold the locks of files, so that calls on them wait."""
    paths = [os.path.join(os.path.realpath(command.folder.path), name) for name in names]
    with locks.targets(os.path.join(command.state, "locks"), paths, lambda: None):
        yield


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return {"tool": "edit_file", "args": {"path": path, "old_text": old, "new_text": new}}


def read(path: str) -> dict[str, Any]:
    return {"tool": "read_file", "args": {"path": path}}


def test_calls_on_one_file_run_in_order(command, session):
    command.folder.write("a.txt", "0\n")

    for number in range(200):
        session.send(**edit("a.txt", str(number), str(number + 1)), id=number)
    session.send(**read("a.txt"), id="end")
    status, replies, errors = session.end()

    assert (status, errors) == (0, b"")
    assert [reply["id"] for reply in replies if reply["ok"]] == [*range(200), "end"]
    assert replies[-1]["result"] == "1\t200"


def test_a_waiting_call_blocks_only_its_own_file(command, session):
    command.folder.write("a.txt", "a\n")
    command.folder.write("b.txt", "b\n")
    with locked(command, "a.txt"):
        session.send(**edit("a.txt", "a", "A"), id="slow")
        session.send(**read("a.txt"), id="behind")
        session.send(**read("b.txt"), id="read")
        session.send(**edit("b.txt", "b", "B"), id="write")
        session.send(tool="list_tools", id="list")
        first = {session.receive()["id"] for _ in range(3)}
    after = [session.receive() for _ in range(2)]

    assert first == {"read", "write", "list"}
    assert [reply["id"] for reply in after] == ["slow", "behind"]
    assert after[1]["result"] == "1\tA"


def test_a_folder_is_listed_after_earlier_changes_in_it(command, session):
    with locked(command, "sub/new.txt"):
        session.send(tool="write_file", args={"path": "sub/new.txt", "content": "x"}, id=1)
        session.send(tool="list_dir", args={"path": "sub"}, id=2)
        session.send(tool="list_tools", id=3)
        assert session.receive()["id"] == 3
    replies = [session.receive() for _ in range(2)]

    assert [reply["id"] for reply in replies] == [1, 2]
    assert json.loads(replies[1]["result"])["entries"] == ["sub/new.txt"]


@pytest.mark.parametrize("id", ["x", 1, 0, True, [1], {"a": 1}, "[1]", 1.5])
def test_a_running_call_is_cancelled_and_does_nothing_afterwards(command, session, id):
    command.folder.write("a.txt", "a\n")
    with locked(command, "a.txt"):
        session.send(**edit("a.txt", "a", "b"), id=id)
        session.send(cancel=id)
        reply = session.receive()
    session.send(**read("a.txt"))
    after = session.receive()

    assert (reply["id"], reply["error_code"], bool(reply["suggestion"])) == (id, "cancelled", True)
    assert after["result"] == "1\ta"
    assert command.folder.read("a.txt") == "a\n"


def test_a_call_that_has_only_a_request_id_is_cancelled_by_it(command, session):
    command.folder.write("a.txt", "a\n")
    with locked(command, "a.txt"):
        session.send(**edit("a.txt", "a", "b"), request_id="r")
        session.send(cancel="r")
        reply = session.receive()

    assert (reply["request_id"], reply["error_code"]) == ("r", "cancelled")


@pytest.mark.parametrize("running, other", [(1, True), ("[1]", [1]), ("1", 1), ({"a": 1}, '{"a": 1}')])
def test_a_cancel_matches_exactly_its_id(command, session, running, other):
    command.folder.write("a.txt", "a\n")
    with locked(command, "a.txt"):
        session.send(**edit("a.txt", "a", "b"), id=running)
        session.send(cancel=other)
        session.send(tool="list_tools", id="later")
        assert session.receive()["id"] == "later"
    reply = session.receive()

    assert (reply["id"], reply["ok"]) == (running, True)


def test_a_queued_call_can_be_cancelled(command, session):
    command.folder.write("a.txt", "a\n")
    with locked(command, "a.txt"):
        session.send(**edit("a.txt", "a", "b"), id=1)
        session.send(**edit("a.txt", "b", "c"), id=2)
        session.send(cancel=2)
        assert (session.receive()["id"]) == 2
    assert session.receive()["id"] == 1
    session.send(**edit("a.txt", "b", "d"), id=3)

    assert session.receive()["ok"]
    assert command.folder.read("a.txt") == "d\n"


def test_a_cancel_of_an_unknown_id_has_no_reply(command, session):
    session.send(cancel="nothing")
    session.send(tool="list_tools", id=1)

    assert session.receive()["id"] == 1
    assert session.end() == (0, [], b"")


def test_the_end_of_input_waits_for_running_calls(command, session):
    command.folder.write("a.txt", "a\n")
    release = threading.Event()

    def hold() -> None:
        with locked(command, "a.txt"):
            ready.set()
            release.wait()

    ready = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    session.send(**edit("a.txt", "a", "b"), id=1)
    session.process.stdin.close()
    release.set()
    thread.join()
    replies = [json.loads(line) for line in session.process.stdout]

    assert session.process.wait(60) == 0
    assert [(reply["id"], reply["ok"]) for reply in replies] == [(1, True)]
    session.process.stdout.close()
    session.process.stderr.close()


def test_a_last_line_without_an_ending_is_a_request(command):
    done = command.run("stdio", input=json.dumps({"tool": "list_dir", "id": 1}))

    assert json.loads(done.stdout)["id"] == 1


def test_a_request_over_several_lines_is_one_error_per_line(command):
    text = json.dumps({"tool": "list_dir"}, indent=1)

    done = command.run("stdio", input=text)

    assert done.returncode == 0
    assert all(json.loads(line)["error_code"] == "invalid_request" for line in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) == len(text.splitlines())


def test_a_thousand_requests_are_all_answered(command):
    command.folder.write("a.txt", "a\n")
    text = "".join(json.dumps({**read("a.txt"), "id": number}) + "\n" for number in range(1000))

    done = command.run("stdio", input=text)

    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == list(range(1000))


def test_a_request_that_takes_long_to_parse_is_not_overtaken(command, session):
    """The files of a patch are unknown until it is parsed; the next request must wait for that too."""
    added = "+line\n" * 300_000
    session.send(tool="apply_patch", args={"patch": f"*** Begin Patch\n*** Add File: n.txt\n{added}*** End Patch"})
    session.send(tool="stat_file", args={"path": "n.txt"})

    assert session.receive()["result"].startswith("applied patch")
    assert session.receive()["ok"]


def test_sessions_are_selected_by_flag_and_by_field(command):
    command.folder.write("a.txt", "a\n")
    first = Session(command, "--session", "one")
    first.send(**read("a.txt"))
    assert first.receive()["ok"]
    command.folder.write("a.txt", "changed\n")
    first.send(**edit("a.txt", "changed", "x"), session="two")
    first.send(**edit("a.txt", "x", "y"), session="one")
    replies = [first.receive(), first.receive()]
    first.end()

    assert replies[0]["ok"]
    assert replies[1]["error_code"] == "stale_file"


def test_a_missing_workspace_ends_the_session_with_an_error(command):
    done = command.run("--workspace", "/nonexistent", "stdio")

    assert (done.returncode, json.loads(done.stdout)["error_code"]) == (1, "file_not_found")


# --- signals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sandbox", ["workspace-write", "full"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_session_and_its_commands(command, number, sandbox):
    mark = Mark()
    command.environ |= {"HILT_SHELL_SANDBOX": sandbox, "HILT_APPROVE": "all"}
    session = Session(command)
    session.send(tool="run_shell", args={"command": f"exec -a {mark.name} sleep 600", "run_in_background": True})
    started = session.receive()
    session.send(tool="run_shell", args={"command": f"touch begun; exec -a {mark.name} sleep 600"}, id="long")
    wait_until(lambda: "begun" in command.folder.tree())

    for _ in range(3):
        session.process.send_signal(number)  # as when a parent process forwards a signal that both received
    out, errors = session.process.communicate(timeout=HANG_SECONDS)

    assert started["ok"]
    assert (session.process.returncode, errors) == (-number, b"")
    assert [(reply["id"], reply["error_code"]) for reply in map(json.loads, out.splitlines())] == [
        ("long", "cancelled")
    ]
    wait_until(lambda: not mark.alive())
    assert command.folder.tree() == {"begun": ""}


def test_a_signal_between_calls_ends_the_session(command, session):
    command.folder.write("a.txt", "a\n")
    session.send(**read("a.txt"))
    session.receive()

    session.process.send_signal(signal.SIGTERM)

    # while more requests could still come
    assert session.process.wait(HANG_SECONDS) == -signal.SIGTERM
    assert session.process.communicate() == (b"", b"")


def test_a_signal_during_a_change_leaves_it_complete_or_absent(command, session):
    for number in range(200):
        session.send(tool="write_file", args={"path": f"{number}.txt", "content": "x"}, id=number)
    session.receive()

    session.process.send_signal(signal.SIGTERM)
    out, errors = session.process.communicate(timeout=HANG_SECONDS)

    assert (session.process.returncode, errors) == (-signal.SIGTERM, b"")
    replies = [json.loads(line) for line in out.splitlines()]
    assert {reply.get("error_code", "ok") for reply in replies} <= {"ok", "cancelled"}
    for reply in replies:
        assert (f"{reply['id']}.txt" in command.folder.tree()) == reply["ok"]
    assert "recovered" not in command.ask({"tool": "list_dir"})[0]["meta"]


def test_an_ignored_signal_stays_ignored(command):
    process = command.start("stdio", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stdin.write(b'{"tool":"list_dir"}\n')
    process.stdin.flush()
    process.stdout.readline()

    process.send_signal(signal.SIGHUP)
    out, errors = process.communicate(b'{"tool":"list_dir","id":2}\n', timeout=HANG_SECONDS)

    assert (process.returncode, errors, json.loads(out)["id"]) == (0, b"", 2)
