from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hilt.custom.workers import NOISE_BYTES, Recipe, Workers
from hilt.errors import ToolError
from hilt.fence import Fence
from tests.custom.calls import environment, has_ended
from tests.marks import wait_until

pytestmark = pytest.mark.starts_processes

HANG_SECONDS = 60.0

ECHO = """
import json, os, signal, sys, time
count = 0
def reply(**fields):
    sys.stdout.write(json.dumps(fields) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    request = json.loads(line)
    number, op = request["id"], request.get("op")
    count += 1
    if op == "exit":
        sys.stderr.write("x" * 9000 + " last words")
        sys.exit(3)
    if op == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if op == "hang":
        time.sleep(1000)
    if op == "leave":
        if os.fork() == 0:
            time.sleep(1000)
    if op == "noise":
        print("hello", flush=True)
        print('{"id": 999}', flush=True)
        print("{not json", flush=True)
        sys.stderr.write("e" * 300000)
        sys.stderr.flush()
    if op == "wait":
        while not os.path.exists(request["path"]):
            time.sleep(0.005)
    if op == "big":
        reply(id=number, text="y" * request["size"])
        continue
    if op == "chatter":
        sys.stdout.write(json.dumps({"id": number, "count": count}) + "\\nand that was it\\n")
        sys.stdout.flush()
        continue
    reply(id=number, pid=os.getpid(), count=count, op=op, text=request.get("text"))
"""


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as opened:
        yield opened


def recipe(key: str = "k", *, place: str = "p", program: str = ECHO, greeting: dict[str, Any] | None = None) -> Recipe:
    return Recipe(
        key, place, f"file {place}", "the tool", (sys.executable, "-I", "-c", program), "/", environment(), greeting
    )


def ask(workers: Workers, op: str = "echo", *, key: str = "k", place: str = "p", **more: Any) -> dict[str, Any]:
    seconds = more.pop("seconds", HANG_SECONDS)
    fence = more.pop("fence", None)
    return workers.ask(recipe(key, place=place), {"op": op, **more}, seconds=seconds, fence=fence)


def test_a_worker_is_kept_for_the_next_call(workers):
    first, second = ask(workers), ask(workers)

    assert (first["pid"], first["count"], second["pid"], second["count"]) == (first["pid"], 1, first["pid"], 2)


def test_other_output_around_replies_is_ignored(workers):
    assert ask(workers, "noise")["op"] == "noise"
    assert ask(workers, "echo")["count"] == 2


@pytest.mark.parametrize("text", ["", "é\u2028\n", "\x00", "a" * 3_000_000])
def test_requests_and_replies_may_have_any_length(workers, text):
    assert ask(workers, text=text)["text"] == text


@pytest.mark.parametrize("op, reason, code", [("exit", "status 3", 3), ("signal", "signal 11", 139)])
def test_a_crash_is_reported_and_the_next_call_has_a_new_worker(workers, op, reason, code):
    before = ask(workers)["pid"]

    with pytest.raises(ToolError) as caught:
        ask(workers, op)

    assert (caught.value.code, caught.value.details) == ("tool_failed", {"exit_code": code})
    assert reason in caught.value.message
    after = ask(workers)
    assert (after["count"], after["pid"] != before) == (1, True)


def test_a_crash_reports_only_the_last_output_of_a_worker(workers):
    with pytest.raises(ToolError, match="last words") as caught:
        ask(workers, "exit")

    assert len(caught.value.message) < NOISE_BYTES + 200


def test_an_endless_loop_times_out(workers):
    pid = ask(workers)["pid"]

    with pytest.raises(ToolError) as caught:
        ask(workers, "hang", seconds=0.2)

    assert caught.value.code == "timeout"
    assert has_ended(pid)
    assert ask(workers)["count"] == 1


def test_a_cancelled_call_kills_its_worker(workers):
    pid = ask(workers)["pid"]
    fence = Fence()
    threading.Timer(0.1, fence.cancel, [ToolError("cancelled", "Nobody waits.")]).start()

    with pytest.raises(ToolError, match="Nobody waits"):
        ask(workers, "hang", fence=fence)

    assert has_ended(pid)


def test_cancelling_a_finished_call_does_not_affect_its_worker(workers):
    fence = Fence()
    pid = ask(workers, fence=fence)["pid"]

    fence.cancel(ToolError("cancelled", "Too late."))

    assert ask(workers)["pid"] == pid


def test_an_idle_worker_that_died_is_replaced(workers):
    pid = ask(workers)["pid"]
    os.kill(pid, 9)
    deadline = time.monotonic() + HANG_SECONDS
    while not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)

    assert ask(workers)["count"] == 1


def test_concurrent_calls_have_their_own_workers_up_to_a_limit(tmp_path):
    door = str(tmp_path / "door")
    replies: list[dict[str, Any]] = []
    with Workers(per_tool=2) as workers:
        threads = [
            threading.Thread(target=lambda: replies.append(ask(workers, "wait", path=door)), daemon=True)
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        while workers._busy.get("k") != 2:
            time.sleep(0.005)
        with pytest.raises(ToolError, match="all 2 workers of the tool"):
            ask(workers, seconds=0.1)
        open(door, "w").close()
        for thread in threads:
            thread.join(HANG_SECONDS)
    assert len(replies) == 6
    assert len({reply["pid"] for reply in replies}) == 2


def test_waiting_for_a_worker_ends_when_the_call_is_cancelled(tmp_path):
    door, fence = str(tmp_path / "door"), Fence()
    with Workers(per_tool=1) as workers:
        thread = threading.Thread(target=lambda: ask(workers, "wait", path=door), daemon=True)
        thread.start()
        while not workers._busy:
            time.sleep(0.005)
        threading.Timer(0.1, fence.cancel, [ToolError("cancelled", "Nobody waits.")]).start()

        with pytest.raises(ToolError, match="Nobody waits"):
            ask(workers, fence=fence)

        open(door, "w").close()
        thread.join(HANG_SECONDS)


def test_a_changed_file_has_new_workers_and_the_old_ones_end(workers):
    old = ask(workers, key="one")["pid"]
    other = ask(workers, key="other", place="q")["pid"]

    new = ask(workers, key="two")["pid"]

    assert new != old
    assert has_ended(old)
    assert not has_ended(other)


def test_a_deleted_file_has_no_workers(workers):
    pid = ask(workers)["pid"]
    other = ask(workers, key="other", place="q")["pid"]

    workers.forget("file p")

    assert (has_ended(pid), workers.pids) == (True, [other])


def test_idle_workers_are_limited_in_number_and_time():
    with Workers(max_idle=2) as workers:
        pids = [ask(workers, key=str(number), place=str(number))["pid"] for number in range(4)]
        assert workers.pids == pids[2:]
        assert [has_ended(pid) for pid in pids] == [True, True, False, False]
    with Workers(idle=0.0) as workers:
        assert ask(workers)["pid"] != ask(workers)["pid"]


def test_an_idle_worker_is_stopped_after_a_while():
    with Workers(idle=0.05) as workers:
        pid = ask(workers)["pid"]

        wait_until(lambda: has_ended(pid))

        assert workers.pids == []


def test_noise_right_after_a_reply_does_not_hide_the_next_one(workers):
    assert ask(workers, "chatter")["count"] == 1
    assert ask(workers, "chatter")["count"] == 2
    assert ask(workers)["count"] == 3


def test_closing_ends_all_workers_and_their_children():
    workers = Workers()
    pids = [ask(workers, "leave", key=str(number), place=str(number))["pid"] for number in range(2)]
    children = [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and not has_ended(int(name)) and _parent(int(name)) in pids
    ]
    assert len(children) == 2

    workers.close()

    assert all(map(has_ended, [*pids, *children]))
    with pytest.raises(ToolError, match="closing"):
        ask(workers)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def test_the_greeting_is_sent_first_and_its_worker_is_kept(workers):
    greeted = recipe(greeting={"op": "hello"})

    reply = workers.greet(greeted)

    assert (reply["op"], reply["count"]) == ("hello", 1)
    assert workers.ask(greeted, {"op": "echo"}, seconds=HANG_SECONDS)["count"] == 2


def test_a_reply_that_is_too_long_is_rejected(workers, monkeypatch):
    monkeypatch.setattr("hilt.custom.workers.REPLY_BYTES", 1 << 20)

    with pytest.raises(ToolError, match="more than 1 MiB") as caught:
        ask(workers, "big", size=5_000_000)

    assert caught.value.code == "resource_limit"


def test_a_missing_program_is_an_error(workers):
    missing = recipe()._replace(argv=("/nowhere/program",))

    with pytest.raises(ToolError) as caught:
        workers.ask(missing, {}, seconds=1)

    assert "/nowhere/program" in caught.value.message
