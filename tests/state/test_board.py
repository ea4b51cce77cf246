from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.state import board as module
from hilt.state import db as database
from hilt.state.board import Board, Task, TaskChange
from hilt.testing import temporary_runtime


def nothing() -> None:
    """A call that was not cancelled."""


@pytest.fixture
def board(tmp_path) -> Iterator[Board]:
    with closing(Board(str(tmp_path), "w")) as opened:
        yield opened


def add(board: Board, title: str = "x", *blockers: int) -> Task:
    return board.create(TaskChange(title, blockers=blockers), "s", commit=nothing)


def update(board: Board, id: int, change: TaskChange, session: str = "s") -> list[int]:
    """Change a task and return the ids of those that became ready."""
    return [task.id for task in board.update(id, change, session, commit=nothing).became_ready]


def everything(board: Board) -> list[Task]:
    return board.page(first=1, limit=10_000).tasks


def code(error: pytest.ExceptionInfo[ToolError]) -> str:
    return error.value.code


# --- readiness and cycles -----------------------------------------------------------------------------------------


def test_ids_count_from_one_and_rejected_tasks_use_none(board):
    assert add(board).id == 1
    for wrong in (TaskChange(""), TaskChange("x", blockers=(9,)), TaskChange("x" * 201)):
        with pytest.raises(ToolError):
            board.create(wrong, "s", commit=nothing)

    assert add(board).id == 2
    assert [task.id for task in everything(board)] == [1, 2]


def test_completing_a_task_reports_the_tasks_that_became_ready_once(board):
    for blockers in ((), (), (1, 2), (1,)):
        add(board, "x", *blockers)

    assert update(board, 1, TaskChange(status="completed")) == [4]
    assert update(board, 1, TaskChange(status="completed")) == []
    assert update(board, 2, TaskChange(status="completed")) == [3]
    assert update(board, 2, TaskChange(status="pending")) == []
    assert not board.get(3).is_ready
    assert update(board, 2, TaskChange(status="completed")) == [3]


@pytest.mark.parametrize("length", [1, 2, 3, 10, 200])
def test_a_cycle_of_any_length_is_rejected_and_changes_nothing(board, length):
    for number in range(1, length + 1):
        add(board, "x", *([number - 1] if number > 1 else []))
    before = everything(board)

    with pytest.raises(ToolError) as error:
        update(board, 1, TaskChange("other title", blockers=(length,)))

    cycle = error.value.details["cycle"]
    assert (code(error), cycle) == ("invalid_args", [1, *range(length, 1, -1), 1])
    assert everything(board) == before


STATUSES = st.sampled_from(["pending", "in_progress", "completed"])
EDITS = st.tuples(st.integers(1, 7), STATUSES | st.none(), st.lists(st.integers(0, 8), max_size=4) | st.none())


@settings(max_examples=30)
@given(st.lists(EDITS, max_size=20))
def test_no_sequence_of_changes_makes_a_cycle_and_readiness_matches_its_definition(edits):
    with tempfile.TemporaryDirectory() as folder, closing(Board(folder, "w")) as board:
        for _ in range(7):
            add(board)
        for id, status, blockers in edits:
            before = everything(board)
            try:
                change = TaskChange(status=status, blockers=None if blockers is None else tuple(blockers))
                became_ready = update(board, id, change)
            except ToolError:
                assert everything(board) == before
                continue
            after = everything(board)
            newly_ready = ready(after) - ready(before) - {id}
            assert newly_ready == set(became_ready)
            assert not is_cyclic(after)
            assert ready(after) == {task.id for task in after if task.is_ready}
            assert ready(after) == {task.id for task in board.page(ready=True, first=1, limit=100).tasks}


def ready(tasks: list[Task]) -> set[int]:
    done = {task.id for task in tasks if task.status == "completed"}
    return {task.id for task in tasks if task.status == "pending" and set(task.blockers) <= done}


def is_cyclic(tasks: list[Task]) -> bool:
    """Whether tasks remain after repeatedly removing those without blockers."""
    waiting = {task.id: set(task.blockers) for task in tasks}
    while free := {id for id, blockers in waiting.items() if not blockers & waiting.keys()}:
        waiting = {id: blockers for id, blockers in waiting.items() if id not in free}
    return bool(waiting)


@settings(max_examples=30)
@given(st.integers(2, 10), st.randoms(use_true_random=False))
def test_a_blocker_is_rejected_exactly_when_it_closes_a_cycle(count, random):
    with tempfile.TemporaryDirectory() as folder, closing(Board(folder, "w")) as board:
        for _ in range(count):
            add(board)
        edges: dict[int, set[int]] = {id: set() for id in range(1, count + 1)}
        for _ in range(count * 2):
            task, blocker = random.randint(1, count), random.randint(1, count)
            closes_cycle = reaches(edges, blocker, task)
            try:
                update(board, task, TaskChange(blockers=(*edges[task], blocker)))
            except ToolError:
                assert closes_cycle
            else:
                assert not closes_cycle
                edges[task].add(blocker)


def reaches(edges: dict[int, set[int]], start: int, end: int) -> bool:
    return start == end or any(reaches(edges, inner, end) for inner in edges[start])


# --- owners -------------------------------------------------------------------------------------------------------

CLAIM = TaskChange(status="in_progress")


def test_a_claim_of_a_task_in_progress_names_its_owner_and_changes_nothing(board):
    add(board)
    update(board, 1, CLAIM._replace(owner="ann"))
    before = everything(board)

    for change in (CLAIM._replace(owner="bob"), CLAIM, TaskChange(status="completed", owner="bob")):
        with pytest.raises(ToolError) as error:
            update(board, 1, change._replace(title="taken"))
        assert (code(error), error.value.details["owner"]) == ("busy", "ann")
        assert "ann" in error.value.message
    assert everything(board) == before
    update(board, 1, CLAIM._replace(owner="ann"))
    assert board.get(1).owner == "ann"


def test_without_an_owner_the_session_claims_the_task(board):
    add(board)
    update(board, 1, CLAIM, "first")
    update(board, 1, CLAIM, "first")

    with pytest.raises(ToolError) as error:
        update(board, 1, CLAIM, "second")

    assert (code(error), board.get(1).owner) == ("busy", "first")


def test_a_pending_task_with_an_owner_is_reserved(board):
    add(board)
    update(board, 1, TaskChange(owner="ann"))

    with pytest.raises(ToolError) as error:
        update(board, 1, CLAIM._replace(owner="bob"))
    assert code(error) == "busy"
    update(board, 1, CLAIM)
    assert (board.get(1).status, board.get(1).owner) == ("in_progress", "ann")


def test_setting_a_task_to_pending_releases_it_and_a_new_owner_takes_it_over(board):
    add(board)
    update(board, 1, CLAIM._replace(owner="ann"))
    update(board, 1, TaskChange(owner="bob"))
    assert (board.get(1).status, board.get(1).owner) == ("in_progress", "bob")

    update(board, 1, TaskChange(status="pending"))
    assert board.get(1).owner == ""
    update(board, 1, CLAIM._replace(owner="cleo"))
    update(board, 1, TaskChange(status="pending", owner="ann"))
    update(board, 1, TaskChange("new title", status="pending"))
    assert board.get(1).owner == "ann"


def test_a_completed_task_is_reopened_by_its_owner_or_by_others_through_pending(board):
    """An agent that listed the task while it was ready must not get it a second time."""
    add(board)
    update(board, 1, CLAIM._replace(owner="ann"))
    update(board, 1, TaskChange(status="completed"))
    assert board.get(1).owner == "ann"

    for change in (CLAIM._replace(owner="bob"), CLAIM):
        with pytest.raises(ToolError) as error:
            update(board, 1, change)
        assert (code(error), board.get(1).status) == ("busy", "completed")
    update(board, 1, CLAIM._replace(owner="ann"))
    update(board, 1, TaskChange(status="completed"))
    update(board, 1, TaskChange(status="pending"))
    update(board, 1, CLAIM._replace(owner="bob"))

    assert (board.get(1).status, board.get(1).owner) == ("in_progress", "bob")


def test_without_owners_one_session_may_set_any_status(board):
    add(board)
    for status in ("completed", "in_progress", "completed", "in_progress", "pending", "in_progress"):
        update(board, 1, TaskChange(status=status))
        assert board.get(1).status == status


# --- limits -------------------------------------------------------------------------------------------------------


def test_a_full_board_rejects_tasks_until_one_is_completed(board, monkeypatch):
    monkeypatch.setattr(module, "OPEN_MAX", 3)
    for _ in range(3):
        add(board)
    with pytest.raises(ToolError) as error:
        add(board)
    assert code(error) == "limit_exceeded"

    update(board, 1, TaskChange(status="completed"))
    assert add(board).id == 4
    with pytest.raises(ToolError) as error:
        update(board, 1, TaskChange(status="pending"))
    assert (code(error), board.get(1).status) == ("limit_exceeded", "completed")


def test_the_oldest_completed_tasks_are_removed_and_their_ids_are_not_reused(board, monkeypatch):
    monkeypatch.setattr(module, "COMPLETED_KEPT", 2)
    for _ in range(4):
        add(board)
    waiting = add(board, "waits", 4)
    for id in (4, 3, 2, 1):
        update(board, id, TaskChange(status="completed"))

    assert [task.id for task in everything(board)] == [1, 2, 5]
    assert (board.get(waiting.id).blockers, board.get(waiting.id).is_ready) == ((), True)
    assert add(board).id == 6
    update(board, 6, TaskChange(status="completed"))
    update(board, 5, TaskChange(status="completed"))
    assert add(board).id == 7


@pytest.mark.parametrize("id", [0, -1, 2, 2**63, 10**100])
def test_an_unknown_task_id_is_not_found(board, id):
    with pytest.raises(ToolError) as error:
        board.get(id)
    assert code(error) == "not_found"
    add(board)
    for change in (TaskChange("x"), TaskChange(blockers=(id,))):
        with pytest.raises(ToolError) as error:
            update(board, id if change.title else 1, change)
        assert code(error) == "not_found"


def test_a_board_belongs_to_its_workspace(tmp_path, board):
    with closing(Board(str(tmp_path), "other")) as other:
        add(board, "here")
        assert everything(other) == []
        assert add(other, "there").id == 1
        update(other, 1, TaskChange(status="completed"))

    assert [(task.title, task.status) for task in everything(board)] == [("here", "pending")]


def test_reading_creates_no_database(tmp_path):
    with closing(Board(str(tmp_path / "state"), "w")) as board:
        assert everything(board) == []
    assert os.listdir(tmp_path) == []


def test_a_cancelled_call_changes_nothing(board):
    fence = Fence()
    fence.cancel(ToolError("cancelled", "Cancelled."))
    add(board)
    before = everything(board)

    with pytest.raises(ToolError):
        board.create(TaskChange("x"), "s", commit=fence.commit)
    with pytest.raises(ToolError):
        board.update(1, CLAIM, "s", commit=fence.commit)

    assert everything(board) == before


# --- many processes -----------------------------------------------------------------------------------------------

WORK = """
import sys, time
from hilt import Runtime
from hilt.testing import environment
base, name = sys.argv[1], sys.argv[2]
with Runtime(base + "/workspace", environ=environment(base)) as runtime:
    sys.stdin.read()
    for _ in range(5000):
        listed = runtime.call("task", action="list", ready=True).data["tasks"]
        if not listed:
            pending = runtime.call("task", action="list", status="pending").data["total_count"]
            if not pending:
                sys.exit(0)
            time.sleep(0.01)
        for task in listed:
            claim = runtime.call("task", action="update", taskId=task["id"], status="in_progress", owner=name)
            if claim.error is not None:
                assert claim.error.code == "busy", claim.error.message
                continue
            print("claimed", task["id"], flush=True)
            done = runtime.call("task", action="update", taskId=task["id"], status="completed", owner=name)
            assert done.ok, done.error.message
            print("ready", *[item["id"] for item in done.data["became_ready"]], flush=True)
            break
    sys.exit("tasks remain")
"""


def start(base: object, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, str(base), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def layered(runtime, layers: int, width: int) -> None:
    """Fill the board with layers of tasks, each task blocked by two of the layer before."""
    for number in range(layers * width):
        above = number - number % width - width
        blockers = [above + number % width + 1, above + (number + 1) % width + 1] if number >= width else []
        assert runtime.call("task", action="create", title=f"task {number}", blockedBy=blockers).ok


@pytest.mark.starts_processes
def test_twelve_processes_that_claim_and_complete_lose_nothing_and_get_no_task_twice(tmp_path):
    with temporary_runtime(str(tmp_path)) as (runtime, _):
        layered(runtime, layers=5, width=8)
        running = [start(tmp_path, f"agent {number}") for number in range(12)]
        for process in running:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        output = []
        for process in running:
            out, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            output += [line.split() for line in out.splitlines()]
        tasks = runtime.call("task", action="list").data["tasks"]

    claimed = sorted(int(line[1]) for line in output if line[0] == "claimed")
    became_ready = sorted(int(id) for line in output if line[0] == "ready" for id in line[1:])
    assert claimed == list(range(1, 41))
    assert became_ready == list(range(9, 41))
    assert {task["status"] for task in tasks} == {"completed"}


@pytest.mark.starts_processes
def test_a_killed_process_leaves_a_usable_board(tmp_path):
    with temporary_runtime(str(tmp_path)) as (runtime, _):
        layered(runtime, layers=4, width=4)
        victims = [start(tmp_path, f"victim {number}") for number in range(3)]
        for victim in victims:
            assert victim.stdin is not None
            victim.stdin.close()
            victim.stdin = None
        for victim in victims:
            assert victim.stdout is not None
            victim.stdout.readline()
            os.kill(victim.pid, signal.SIGKILL)
        for victim in victims:
            victim.communicate(timeout=60)
        for task in runtime.call("task", action="list", status="in_progress").data["tasks"]:
            assert task["owner"].startswith("victim")
            assert runtime.call("task", action="update", taskId=task["id"], status="pending").ok
        with closing(sqlite3.connect(tmp_path / "state/state.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        follower = start(tmp_path, "follower")
        _, errors = follower.communicate("", timeout=120)
        assert follower.returncode == 0, errors
        tasks = runtime.call("task", action="list").data["tasks"]

    assert [(task["id"], task["status"]) for task in tasks] == [(id, "completed") for id in range(1, 17)]


DIE = """
import os, signal, sys
from hilt.state.board import Board, TaskChange
board = Board(sys.argv[1], "w")
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "update":
    board.update(1, TaskChange("lost", status="completed", blockers=(2,)), "s", commit=die)
board.create(TaskChange("lost", blockers=(1, 2)), "s", commit=die)
"""


@pytest.mark.starts_processes
@pytest.mark.parametrize("action", ["create", "update"])
def test_a_process_killed_before_its_commit_changes_nothing(tmp_path, board, action):
    add(board)
    add(board)
    before = everything(board)

    died = subprocess.run([sys.executable, "-c", DIE, str(tmp_path), action], capture_output=True, timeout=60)

    assert (died.returncode, died.stderr) == (-signal.SIGKILL, b"")
    assert everything(board) == before
    assert add(board).id == 3


# --- database errors ----------------------------------------------------------------------------------------------


def test_a_locked_database_is_busy(tmp_path, board, monkeypatch):
    add(board)
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 0.2)
    with closing(Board(str(tmp_path), "w")) as late, closing(sqlite3.connect(tmp_path / "state.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ToolError) as error:
            update(late, 1, CLAIM)
        assert code(error) == "busy"
        assert late.get(1).status == "pending"
        other.execute("ROLLBACK")
        update(late, 1, CLAIM)


def test_a_damaged_database_is_reported_with_advice(tmp_path):
    (tmp_path / "state.db").write_bytes(b"not a database" * 100)
    with closing(Board(str(tmp_path), "w")) as board:
        for attempt in (lambda: add(board), lambda: board.get(1), lambda: everything(board)):
            with pytest.raises(ToolError) as error:
                attempt()
            assert code(error) == "internal"
            assert "state.db" in error.value.suggestion


def test_a_dense_board_is_searched_for_a_cycle_in_one_pass(board):
    """A thousand tasks with fifty blockers each: a search that visited tasks twice would never end."""
    edges = [(number, blocker) for number in range(1, 1001) for blocker in range(max(1, number - 50), number)]
    add(board)
    with closing(sqlite3.connect(board._db._path)) as db:
        now = time.time_ns()
        tasks = [("w", number, "pending", "", now, now, "x", "") for number in range(2, 1001)]
        db.executemany("INSERT INTO tasks VALUES (?,?,?,?,?,?,?,?)", tasks)
        db.executemany("INSERT INTO task_blockers VALUES ('w',?,?)", edges)
        db.commit()

    with pytest.raises(ToolError) as error:
        update(board, 1, TaskChange(blockers=(1000,)))

    assert code(error) == "invalid_args"
    assert len(str(error.value.details["cycle"]).split(",")) == 22  # the shortest one: steps of fifty
    assert error.value.message.count("→") == 10
