"""Commands that do not want to end, through every door that starts programs: each answers in time and leaves nothing.

Each is run five times; `TONGS_STRESS=200` says how often instead, and holds the answers to the time that is promised.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import pytest

from tests.marks import STUBBORN, Mark, pids
from tongs.context import Fence
from tongs.jobs import Jobs
from tongs.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from tongs.sandbox import process
from tongs.sandbox.process import Child, Confined, Limits
from tongs.sandbox.profile import Profile, Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

RUNS = int(os.environ.get("TONGS_STRESS") or 5)
# the promise is 2 seconds; other tests that run at the same time must not make it fail
LATE_SECONDS = 2.0 if "TONGS_STRESS" in os.environ else 30.0
MEMORY_KILOBYTES = 80_000
NOT_FOUND = 127  # a script that needs a program which is not there proves nothing

DEADLINE = Limits(timeout=0.25, grace=0.1, settle=0.05)
NO_DEADLINE = DEADLINE._replace(timeout=60)

FORKS_AND_EXITS = """
import os, time
until = time.monotonic() + 30
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
"""

# the limit counts the processes of a user, and root has none
FORKS_AND_STAYS = """
import os, time
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
until = time.monotonic() + 30
while time.monotonic() < until:
    try:
        if os.fork() == 0 and os.getpid() % 2:
            os.setsid()
    except OSError:
        time.sleep(0.001)
"""


class Hostile(NamedTuple):
    """A command, how it may end, and what it is held to. $MARK stands for a word that gives its processes away."""

    script: str
    ends: tuple[str, ...]
    limits: Limits = DEADLINE
    extra_processes: int | None = None


HOSTILE = {
    "a grandchild holds the pipe": Hostile("sleep 300 & echo begun", ("exit",), NO_DEADLINE),
    "a grandchild holds the pipe and ignores SIGTERM": Hostile(f"bash -c {quote(STUBBORN)} &", ("exit",), NO_DEADLINE),
    "ignores SIGTERM": Hostile(STUBBORN, ("timeout",)),
    "another session": Hostile(f"setsid bash -c {quote(STUBBORN)} & wait", ("timeout",)),
    "a double fork": Hostile(f"(setsid bash -c {quote(STUBBORN)} &); sleep 300", ("timeout",)),
    "a daemon": Hostile(
        f"(setsid bash -c {quote(f'cd /; exec <&- >&- 2>&-; {STUBBORN}')} &); exit 0", ("exit",), NO_DEADLINE
    ),
    "nohup": Hostile("nohup sleep 300 > /dev/null 2>&1 & disown; exit 0", ("exit",), NO_DEADLINE),
    "an empty environment": Hostile(
        'x=\'exec -a $0 sleep 300\'; env -i bash -c "$x" $MARK & exec env -i bash -c "$x" $MARK', ("timeout",)
    ),
    "new processes when it is told to end": Hostile(
        "trap 'setsid sleep 300 & (setsid sleep 300 &)' TERM EXIT; sleep 300 & wait; sleep 300", ("timeout", "exit")
    ),
    "forks and exits for ever": Hostile(f"exec python3 -I -S -c {quote(FORKS_AND_EXITS)}", ("timeout", "exit")),
    "forks and stays": Hostile(f"exec python3 -I -S -c {quote(FORKS_AND_STAYS)}", ("timeout",), DEADLINE, 60),
    "two gigabytes": Hostile("yes | head -c 2G", ("limit",), NO_DEADLINE),
    "two gigabytes without a newline": Hostile("head -c 2G /dev/zero", ("limit",), NO_DEADLINE),
    "two gigabytes from a grandchild": Hostile("(setsid yes &); sleep 300", ("limit",), NO_DEADLINE),
    "closes its output": Hostile("exec >&- 2>&-; sleep 300", ("timeout",)),
    "stops itself": Hostile("kill -STOP $$; sleep 300", ("timeout",)),
    "stops its group": Hostile(f"bash -c {quote(STUBBORN)} & kill -STOP 0; sleep 300", ("timeout",)),
    "its parent dies": Hostile(f"bash -c {quote(STUBBORN)} & kill -KILL $$; wait", ("exit",), NO_DEADLINE),
}


class Place(NamedTuple):
    """Where a command runs, and how it is confined there."""

    workspace: Path
    confined: Confined


def run_in_call(script: str, place: Place, env: dict[str, str], limits: Limits) -> str:
    argv = ["bash", "-c", script]
    finished = process.run(argv, cwd=place.workspace, env=env, limits=limits, confined=place.confined)
    assert finished.clean
    assert finished.exit_code != NOT_FOUND
    return "exit" if finished.reason == "signal" else finished.reason


def run_as_job(script: str, place: Place, env: dict[str, str], limits: Limits) -> str:
    def begin(stdin: int, stdout: int, stderr: int) -> Child:
        return process.start(
            ["bash", "-c", script],
            cwd=place.workspace,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            limits=limits,
            confined=place.confined,
        )

    jobs = Jobs(folder=lambda session: str(place.workspace))
    job = jobs.start("s", script, begin, timeout=limits.timeout)
    state = jobs.output("s", job.id, fence=Fence(), seconds=90).state
    os.unlink(job.output_file)
    assert state.exit_code != NOT_FOUND
    return {"completed": "exit", "failed": "exit"}.get(state.status, state.status)


Door = Callable[[str, Place, dict[str, str], Limits], str]
DOORS: list[Door] = [run_in_call, run_as_job]


@contextmanager
def free(base: Path) -> Iterator[Place]:
    (base / "workspace").mkdir(exist_ok=True)
    yield Place(base / "workspace", Confined())


@contextmanager
def sandboxed(base: Path) -> Iterator[Place]:
    for name in ("workspace", "home", "state"):
        (base / name).mkdir(exist_ok=True)
    sandbox = Sandbox(str(base / "state"))
    profile = Profile(
        name="workspace-write",
        roots=(str(base / "workspace"),),
        is_sensitive=PathRules(SENSITIVE, READABLE, PROTECTED).is_sensitive,
        protected=tuple(PROTECTED),
        closed=(str(base / "state"),),
        home=str(base / "home"),
        private=str(base / "state" / "private"),
    )
    if sandbox.availability().kind == "none":
        pytest.skip("there is no sandbox here")
    with closing(sandbox), sandbox.confine(profile, str(base / "workspace")) as confined:
        yield Place(base / "workspace", confined)


Ground = Callable[[Path], AbstractContextManager[Place]]
GROUNDS: list[Ground] = [free, sandboxed]


@pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: ground.__name__)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_command_answers_in_time_and_leaves_nothing(
    tmp_path: Path, ground: Ground, door: Door, name: str
) -> None:
    hostile = HOSTILE[name]
    if hostile.extra_processes and ground is sandboxed and os.getuid() == 0:
        pytest.skip("root has no limit on processes, and cannot become another user in the sandbox")
    for _ in range(RUNS):
        mark = Mark()
        limits = hostile.limits
        if hostile.extra_processes is not None:
            limits = limits._replace(processes=count_of_processes() + hostile.extra_processes)
        with ground(tmp_path) as place:
            began = time.monotonic()

            ended = door(hostile.script, place, mark.env, limits)

            seconds = time.monotonic() - began
            assert mark.alive() == []
        assert ended in hostile.ends
        deadline = limits.timeout if ended == "timeout" else 0.0
        assert seconds < (deadline or 0.0) + LATE_SECONDS
        assert os.listdir(place.workspace) == []


def count_of_processes() -> int:
    """How many processes the user has who runs the fork bomb."""
    owner = 65534 if os.getuid() == 0 else os.getuid()
    return sum(1 for pid in pids() if owner_of(pid) == owner)


def owner_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


FLOOD = """
import os, sys
from pathlib import Path
from tests.marks import Mark
from tests.sandbox import test_hostile
door = getattr(test_hostile, sys.argv[1])
limits = test_hostile.NO_DEADLINE._replace(max_bytes=int(sys.argv[3]))
with test_hostile.free(Path(sys.argv[4])) as place:
    print(door(sys.argv[2], place, Mark().env, limits))
print(open("/proc/self/status").read())
"""


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize(
    "script, most",
    [("yes | head -c 2G", 64 << 20), ("head -c 2G /dev/zero", 64 << 20), ("head -c 500M /dev/zero", 4 << 30)],
    ids=["lines", "one line", "all of it"],
)
def test_memory_stays_small_in_a_flood(tmp_path: Path, door: Door, script: str, most: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", FLOOD, door.__name__, script, str(most), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )

    ended, *status = answer.stdout.splitlines()
    assert ended in ("limit", "exit"), answer.stderr
    [peak] = [int(line.split()[1]) for line in status if line.startswith("VmHWM:")]
    assert peak < MEMORY_KILOBYTES
