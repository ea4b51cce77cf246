from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from hilt.places import serving_folder
from hilt.state.events import EventStore, is_served
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.http.servers import WAIT_SECONDS, EventClient, Server, Waiting, serving

CALLS = 5_000 if os.environ.get("HILT_STRESS") else 300
# small limits, so that few events reach them
SMALL = [
    "hilt.desk.activity:EVENTS_MAX=60",
    "hilt.desk.activity:PRUNE_EVENTS=10",
    "hilt.surfaces.http.feed:RECENT_MAX=20",
    "hilt.surfaces.http.feed:BEHIND_MAX=30",
    "hilt.surfaces.http.feed:HELLO_SECONDS=1",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Iterator[Server]:
    """A server with small limits."""
    command = Command(str(tmp_path_factory.mktemp("small")), MY_API_KEY="correct-horse-battery")
    command.folder.write("a.txt", "a\n")
    command.folder.write("long.txt", ("x" * 99 + "\n") * 450)
    with serving(command, constants=SMALL) as server:
        yield server


class StdioSession:
    """A session of `hilt stdio` that makes calls one after the other."""

    def __init__(self, command: Command) -> None:
        self._process = command.start("stdio")

    def read(self, number: str) -> None:
        """Read a file that does not exist, with a number in its name, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"tool": "stat_file", "args": {"path": f"n{number}.txt"}}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()


def path_of(event: dict[str, Any]) -> str | None:
    return event["args"]["path"] if event["type"] == "call" else None


def call_numbered(server: Server, number: str) -> None:
    server.call("stat_file", path=f"n{number}.txt")


def test_events_are_numbered_without_gaps_and_continue_after_a_number(small):
    with small.events() as client:
        for _ in range(3):
            small.call("read_file", path="a.txt")
        seen = [client.next()]
        while sum(event["type"] == "call" for event in seen) < 3:
            seen.append(client.next())
    with small.events(after=seen[0]["seq"]) as client:
        again = [client.next() for _ in seen[1:]]

    first, call = seen[0]["seq"], seen[-1]
    assert [event["seq"] for event in seen] == list(range(first, first + len(seen)))
    assert again == seen[1:]
    assert (call["tool"], call["envelope"]["ok"]) == ("read_file", True)
    assert call["votes"]


@needs_sandbox
def test_a_call_that_takes_a_while_is_an_event_when_it_starts_and_when_it_ends(small):
    mark = small.command.folder.join("go")
    command = f"until [ -e {mark} ]; do sleep 0.01; done"
    with small.events() as client:
        waiting = Waiting(lambda: small.call("run_shell", session="slow", command=command))
        started = client.next("call_started")
        small.command.folder.write("go", "")
        waiting.result()
        ended = client.next("call")

    assert (started["session"], started["tool"], started["args"]["command"]) == ("slow", "run_shell", command)
    assert started["workspace"] == small.command.folder.path
    assert (ended["id"], ended["outcome"]) == (started["id"], "ok")


@needs_sandbox
def test_every_start_has_its_end_after_it_whatever_the_order_of_the_calls(small):
    calls = 12
    with small.events() as client:
        waiting = [
            Waiting(lambda number=number: small.call("run_shell", command=f"sleep 0.0{number % 10}"))  # type: ignore[misc]
            for number in range(calls)
        ]
        for call in waiting:
            assert call.result()["ok"]
        seen: list[dict[str, Any]] = []
        while sum(event["type"] == "call" for event in seen) < calls:
            seen.append(client.next("call_started", "call"))
    ends = {event["id"]: event["seq"] for event in seen if event["type"] == "call"}

    assert len(ends) == calls
    assert all(event["seq"] < ends[event["id"]] for event in seen if event["type"] == "call_started")


def sleeping(command: Command) -> subprocess.Popen[bytes]:
    """Start a session whose call waits."""
    session = command.start("stdio")
    assert session.stdin is not None
    session.stdin.write(json.dumps({"tool": "run_shell", "args": {"command": "sleep 600"}}).encode() + b"\n")
    session.stdin.flush()
    return session


def test_a_call_whose_process_is_killed_is_interrupted(small):
    with small.events() as client:
        session = sleeping(small.command)
        started = client.next("call_started")
        session.kill()
        session.communicate()
        ended = client.next("call")

    assert (ended["id"], ended["outcome"]) == (started["id"], "interrupted")
    assert ended["args"]["command"] == "sleep 600"
    assert "process" not in ended
    assert not os.path.exists(os.path.join(small.command.state, "callers", started["process"]))


@needs_sandbox
def test_calls_that_ended_with_a_killed_server_are_interrupted_when_the_next_one_starts(tmp_path):
    command = Command(str(tmp_path))
    with serving(command) as server, server.events() as client:
        body = {"tool": "run_shell", "args": {"command": "sleep 600"}}

        def call() -> None:
            with suppress(httpx2.HTTPError):
                server.post("/v1/call", body)

        calling = threading.Thread(target=call)
        calling.start()
        started = client.next("call_started")
        session = sleeping(command)  # outlives the server
        other = client.next("call_started")
        server.process.kill()
        calling.join()
    with serving(command) as server, server.events(recent=100) as client:
        while (ended := client.next("call")).get("id") != started["id"]:
            pass
        session.kill()
        session.communicate()
        last = client.next("call")

    assert ended["outcome"] == "interrupted"
    assert (last["id"], last["outcome"]) == (other["id"], "interrupted")


@needs_sandbox
def test_approvals_tasks_and_jobs_are_events(small):
    with small.events() as client:
        task = small.post("/v1/tasks", {"title": "x"}, status=201)
        event = client.next("task")
        small.call("run_shell", command="true", run_in_background=True)
        jobs = [client.next("job")["status"] for _ in range(2)]

    assert (event["id"], event["status"]) == (task["id"], "pending")
    assert jobs == ["running", "completed"]


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "99999999999999999999", ""])
def test_an_invalid_number_is_rejected_in_the_handshake(small, after):
    with pytest.raises(InvalidStatus) as caught, connect(f"ws://127.0.0.1:{small.port}/v1/events?after={after}"):
        pass

    assert caught.value.response.status_code == 400


def test_a_number_is_also_validated_without_a_websocket(small):
    assert small.request("GET", "/v1/events?after=x").status_code == 400
    assert small.request("GET", "/v1/events?after=1").status_code == 426


def test_an_unknown_number_is_answered_with_a_reset(small):
    with small.events(after=2**40) as client:
        reset = client.next()
        small.call("read_file", path="a.txt")
        event = client.next()

    assert reset["type"] == "reset"
    assert event["seq"] == reset["seq"] + 1


def test_a_number_whose_events_are_gone_is_answered_with_a_reset(small):
    for _ in range(150):
        small.call("read_file", path="a.txt")
    wait_until(lambda: len(EventStore(small.command.state).after(0, 1000)) <= 60)

    with small.events(after=1) as client:
        assert client.next()["type"] == "reset"


def test_a_client_starts_with_recent_events_even_if_older_ones_are_gone(small):
    for _ in range(70):
        small.call("read_file", path="a.txt")
    wait_until(lambda: len(EventStore(small.command.state).after(0, 1000)) <= 60)

    with small.events(recent=10_000) as client:
        seen = [client.next()]
        small.call("read_file", path="a.txt")
        while seen[-1]["seq"] < EventStore(small.command.state).last():
            seen.append(client.next())
    with small.events(recent=2) as client:
        few = [client.next()["seq"] for _ in range(2)]

    first = seen[0]["seq"]
    assert [event["seq"] for event in seen] == list(range(first, first + len(seen)))
    assert len(seen) > 2
    assert all(event["type"] != "reset" for event in seen)
    assert few == [event["seq"] for event in seen[-2:]]


@pytest.mark.parametrize("hello", ['{"token": "wrong"}', "{", "[]", '{"token": 5}', "x" * 5000, b"bytes", None])
def test_a_first_message_without_the_token_closes_the_connection(small, hello):
    with connect(f"ws://127.0.0.1:{small.port}/v1/events", compression=None) as socket:
        if hello is not None:
            socket.send(hello)
        with pytest.raises(ConnectionClosed) as caught:
            socket.recv(timeout=WAIT_SECONDS)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 4401


def test_the_agents_token_does_not_open_the_stream(small):
    with small.events(token=small.agents_token) as client, pytest.raises(ConnectionClosed) as caught:
        client.next()

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 4401


def test_a_frame_that_is_too_large_closes_the_connection_and_no_other(small):
    with small.events() as other, small.events() as client:
        client.socket.send("x" * 200_000)
        with pytest.raises(ConnectionClosed):
            client.next()
        small.call("read_file", path="a.txt")

        assert other.next()["tool"] == "read_file"


def test_a_slow_reader_receives_a_reset_and_does_not_block_others(small):
    with small.events() as quick, small.events() as slow:
        for _ in range(200):
            small.call("read_file", path="long.txt")
            assert quick.next("call", "reset")
        seen = [slow.next()]
        while seen[-1]["type"] != "reset":
            seen.append(slow.next())
        small.call("stat_file", path="a.txt")
        while seen[-1].get("tool") != "stat_file":
            seen.append(slow.next())

    assert all(later["seq"] > earlier["seq"] for earlier, later in pairwise(seen))


def test_secrets_are_redacted_before_they_are_stored(small):
    with small.events() as client:
        small.call("read_file", path="correct-horse-battery", start_line=1)
        event = client.next("call")

    assert event["args"]["path"] == "[redacted: MY_API_KEY]"
    contents = b"".join(Path(path).read_bytes() for path in glob(f"{small.command.state}/events.db*"))
    assert b"read_file" in contents
    assert b"correct-horse" not in contents


def test_events_have_no_contents_and_are_not_stored_if_events_keep_is_false(tmp_path):
    command = Command(str(tmp_path), HILT_EVENTS_KEEP="false")
    command.folder.write("a.txt", "a\n")
    with serving(command) as server:
        with server.events() as client:
            server.call("read_file", path="a.txt")
            event = client.next("call")
        wait_until(lambda: [row for row in EventStore(command.state).after(0, 10) if '"call"' in row.text] == [])

    assert (event["tool"], event["outcome"]) == ("read_file", "ok")
    assert not {"args", "envelope", "votes"} & event.keys()


def test_a_long_event_is_truncated(small):
    small.command.folder.write("wide.txt", "y" * 700_000)
    with small.events() as client:
        small.call("write_file", path="new.txt", content="z" * 1_000_000)
        event = client.next("call")

    assert event["cut"] is True
    assert len(json.dumps(event)) < 300_000


def test_nothing_is_published_when_no_server_runs(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write("a.txt", "a\n")
    read = {"tool": "read_file", "args": {"path": "a.txt"}}
    with serving(command) as server:
        command.ask(read)
        server.stop()
        last = EventStore(command.state).last()
    command.ask(read)
    with serving(command, cold=True) as server:
        server.process.kill()
        server.process.wait()
    killed = EventStore(command.state).last()
    assert os.path.exists(serving_folder(command.state))
    command.ask(read)

    assert last > 1
    assert EventStore(command.state).last() == killed
    assert not os.path.exists(serving_folder(command.state))  # so that the next call need not look for servers


def test_the_serving_mark_is_shared_by_servers_and_removed_with_the_last(tmp_path):
    command = Command(str(tmp_path))
    with serving(command) as first, serving(command) as second:
        first.stop()
        assert is_served(command.state)
        with second.events() as client:
            second.post("/v1/tasks", {"title": "x"}, status=201)
            client.next("task")
        second.stop()

    assert not is_served(command.state)


# --- kills and reconnects -------------------------------------------------------------------------------------------


class Reader:
    """A client that reconnects all the time, and stores all received events."""

    def __init__(self, server: Server, after: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.last = after
        self.resets = 0
        self._server = server
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        dice = random.Random(1)
        while not self._ended:
            try:
                with self._server.events(after=self.last) as client:
                    for _ in range(dice.randrange(1, 120)):
                        self._take(client)
            except (OSError, EOFError, WebSocketException):
                continue  # the server was killed

    def _take(self, client: EventClient) -> None:
        event = json.loads(client.socket.recv(timeout=0.5))
        self.last = event["seq"]
        self.resets += event["type"] == "reset"
        self.events.append(event)

    def wait_for(self, paths: set[str]) -> None:
        """Wait until calls with these paths have been seen."""
        wait_until(lambda: paths <= {path_of(event) for event in list(self.events)})

    def end(self) -> None:
        self._ended = True
        self._thread.join(WAIT_SECONDS)


def check(reader: Reader, paths: set[str]) -> None:
    """Check that no event was missed or received twice."""
    numbers = [event["seq"] for event in reader.events]
    assert reader.resets == 0
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    seen = [path for event in reader.events if (path := path_of(event)) is not None]
    assert len(seen) == len(set(seen))
    assert paths <= set(seen)


def test_no_event_is_missed_or_received_twice_while_processes_call_and_are_killed(tmp_path):
    command = Command(str(tmp_path))
    with serving(command) as server:
        reader = Reader(server, EventStore(command.state).last())
        answered: list[str] = []

        def call(name: str) -> None:
            session = StdioSession(command)
            for number in range(CALLS // 3):
                session.read(f"{name}-{number}")
                answered.append(f"n{name}-{number}.txt")
                if number % 40 == 39:
                    session.kill()  # right after an answer
                    session = StdioSession(command)
            session.kill()

        threads = [threading.Thread(target=call, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for number in range(CALLS // 3):
            call_numbered(server, f"http-{number}")
            answered.append(f"nhttp-{number}.txt")
        for thread in threads:
            thread.join()
        reader.wait_for(set(answered))
        reader.end()

    check(reader, set(answered))


@needs_sandbox
def test_no_event_is_missed_when_the_server_is_killed(tmp_path):
    command = Command(str(tmp_path))
    answered: list[str] = []
    reader = None
    port = 0
    for turn in range(3):
        with serving(command, "--port", str(port), cold=True) as server:
            port = server.port
            reader = reader or Reader(server, EventStore(command.state).last() - 1)
            ended = threading.Event()

            def call(turn: int = turn, server: Server = server, ended: threading.Event = ended) -> None:
                for number in range(CALLS):
                    try:
                        call_numbered(server, f"{turn}-{number}")
                    except (httpx2.HTTPError, AssertionError):
                        return ended.set()
                    answered.append(f"n{turn}-{number}.txt")
                return ended.set()

            threading.Thread(target=call).start()
            enough = len(answered) + 40
            wait_until(lambda enough=enough: len(answered) > enough)  # type: ignore[misc]
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            ended.wait(WAIT_SECONDS)
    with serving(command, "--port", str(port), cold=True):
        assert reader is not None
        reader.wait_for(set(answered))
        reader.end()

    check(reader, set(answered))
