from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

from hilt import parts
from hilt.lazy import Lazy
from hilt.parts import CLOSING, CLOSING_COPY, OF_COPY, SHARED, Parts, share
from hilt.runtime import Runtime
from hilt.testing import environment, temporary_runtime
from tests.marks import Mark, wait_until

NAMES = {name for name, value in vars(Parts).items() if isinstance(value, parts._Part)}


class Closed:
    """A part that only records that it was closed."""

    def __init__(self, name: str, order: list[str], *, fails: bool = False) -> None:
        self.name = name
        self.order = order
        self.fails = fails

    def close(self) -> None:
        self.order.append(self.name)
        if self.fails:
            raise OSError(self.name)


def replace(opened: Parts, name: str, part: object) -> None:
    opened.lazy[name] = Lazy(lambda: part)
    getattr(opened, name)


def test_every_part_that_can_be_closed_has_one_place_in_the_order():
    assert NAMES - set(CLOSING) == {"catalog"}
    assert set(CLOSING) <= NAMES
    assert max(Counter(CLOSING).values()) == 1
    assert set(SHARED) <= set(CLOSING)
    assert set(CLOSING_COPY) <= set(OF_COPY) <= set(CLOSING)


def test_a_part_is_opened_when_it_is_first_asked_for(runtime):
    opened = runtime.parts

    assert opened.opened("memory") is None
    assert opened.memory is opened.memory
    assert opened.opened("memory") is opened.memory


def test_threads_that_ask_at_once_get_the_same_part(runtime):
    barrier = threading.Barrier(8)
    seen: list[object] = []

    def ask() -> None:
        barrier.wait()
        seen.append(runtime.parts.history)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [runtime.parts.history] * 8


def test_parts_are_closed_in_the_declared_order(base):
    order: list[str] = []
    with temporary_runtime(base) as (runtime, _):
        real = [runtime.parts.lazy[name] for name in CLOSING if runtime.parts.opened(name)]
        for name in CLOSING:
            replace(runtime.parts, name, Closed(name, order))
        runtime.parts.close()
        assert order == list(CLOSING)
        for part in real:
            part.close()
        runtime.parts.lazy.clear()


def test_what_was_never_asked_for_is_not_opened_to_be_closed(base):
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("a.txt", "a\n")
        assert runtime.call("read_file", path="a.txt").ok
        runtime.close()

        opened = set(runtime.parts.lazy)

    assert opened == {"scheduler", "trail", "recorder", "authority", "catalog", "toolbox"}


def test_a_part_that_cannot_be_closed_leaves_none_of_the_later_ones_open(base):
    order: list[str] = []
    with temporary_runtime(base) as (runtime, _):
        replace(runtime.parts, "display", Closed("display", order, fails=True))
        replace(runtime.parts, "board", Closed("board", order))
        with pytest.raises(OSError, match="display"):
            runtime.parts.close()
        del runtime.parts.lazy["display"]

    assert order == ["display", "board", "board"]


@pytest.mark.starts_processes
def test_the_owner_of_shared_parts_closes_them(base, tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    env = environment(base)
    shared = share(env["HILT_STATE_DIR"], str(folder))
    with (
        Runtime(str(folder), environ=env, shared=shared) as first,
        Runtime(str(folder), environ=env, shared=shared) as second,
    ):
        assert first.call("run_shell", command="sleep 60", run_in_background=True).ok
        first.close()

        assert first.parts.jobs is second.parts.jobs
        assert second.parts.running_jobs == 1
    shared.close()

    assert shared.jobs.running == 0


def test_a_copy_of_the_workspace_shares_the_parts_that_are_not_its_own(runtime, tmp_path):
    main = runtime.parts
    (tmp_path / "copy").mkdir()
    copy = main.in_copy(str(tmp_path / "copy"), main.settings)

    for name in ("board", "memory", "trail", "todos", "catalog", "scheduler"):
        assert getattr(copy, name) is getattr(main, name)
    for name in OF_COPY:
        assert getattr(copy, name) is not getattr(main, name)
    assert copy.session("a").door.roots[0].real == str(tmp_path / "copy")
    copy.close()
    assert runtime.call("task", action="create", title="still open").ok


ENDING = """
import os, signal, sys
from hilt.lazy import Lazy
from hilt.testing import temporary_runtime

base, mark, name = sys.argv[1:]

class Kills:
    def close(self):
        os.kill(os.getpid(), signal.SIGKILL)

with temporary_runtime(base) as (runtime, workspace):
    assert runtime.call("write_file", path="a.txt", content="new").ok
    assert runtime.call("run_shell", command=f"touch started; sleep 60; echo {mark}", run_in_background=True).ok
    assert runtime.call("task", action="create", title="kept").ok
    while not os.path.exists(workspace.join("started")):
        pass
    runtime.parts.lazy[name] = Lazy(Kills)
    getattr(runtime.parts, name)
    runtime.parts.close()
"""


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", CLOSING[::3])
def test_a_kill_while_closing_loses_nothing_and_leaves_no_program(base, name):
    mark = Mark()
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("a.txt", "old")
        assert runtime.call("read_file", path="a.txt").ok

    ended = subprocess.run([sys.executable, "-c", ENDING, base, mark.name, name], check=False, timeout=60)

    assert ended.returncode == -signal.SIGKILL
    wait_until(lambda: not mark.alive())
    with temporary_runtime(base) as (runtime, workspace):
        tools = [row.entry.tool for row in runtime.parts.trail.rows()]
        assert tools == ["read_file", "write_file", "run_shell", "task"]
        assert runtime.parts.board.get(1).title == "kept"
        assert runtime.call("undo", action="restore", id=runtime.parts.history.changes()[0].id).ok
        assert workspace.read("a.txt") == "old"
