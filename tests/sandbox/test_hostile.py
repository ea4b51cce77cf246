"""Commands that resist being ended, as calls and as jobs: each returns in time and leaves nothing.

Each runs twice; `HILT_STRESS=200` sets another number of runs and checks the promised time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import pytest

from hilt.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from hilt.sandbox.backend import Launch
from hilt.sandbox.profile import Profile
from hilt.sandbox.sandbox import Sandbox
from hilt.sandbox.spawning import Limits
from tests.marks import STUBBORN, Mark, pids
from tests.sandbox.confined import DOORS, NOBODY, Box, Place, Worker, interpreter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

RUNS = int(os.environ.get("HILT_STRESS") or 2)
# the promise is 2 seconds; other tests that run at the same time must not make it fail
LATE_SECONDS = 2.0 if "HILT_STRESS" in os.environ else 30.0
MEMORY_KILOBYTES = 80_000
BOMBER = NOBODY - 1
BOMB_PROCESSES = 60  # that a fork bomb may create

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
    """A command, how it may end, and its limits. $MARK is replaced by a word that identifies its processes."""

    script: str
    outcomes: tuple[str, ...]
    limits: Limits = DEADLINE


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
    "new processes on SIGTERM": Hostile(
        "trap 'setsid sleep 300 & (setsid sleep 300 &)' TERM EXIT; sleep 300 & wait; sleep 300", ("timeout", "exit")
    ),
    "forks and exits forever": Hostile(f"exec python3 -I -S -c {quote(FORKS_AND_EXITS)}", ("timeout", "exit")),
    "two gigabytes": Hostile("yes | head -c 2G", ("limit",), NO_DEADLINE),
    "two gigabytes without a newline": Hostile("head -c 2G /dev/zero", ("limit",), NO_DEADLINE),
    "two gigabytes from a grandchild": Hostile("(setsid yes &); sleep 300", ("limit",), NO_DEADLINE),
    "closes its output": Hostile("exec >&- 2>&-; sleep 300", ("timeout",)),
    "stops itself": Hostile("kill -STOP $$; sleep 300", ("timeout",)),
    "stops its group": Hostile(f"bash -c {quote(STUBBORN)} & kill -STOP 0; sleep 300", ("timeout",)),
    "its parent dies": Hostile(f"bash -c {quote(STUBBORN)} & kill -KILL $$; wait", ("exit",), NO_DEADLINE),
}
FORK_BOMB = Hostile(f"exec python3 -I -S -c {quote(FORKS_AND_STAYS)}", ("timeout",))


@contextmanager
def free(base: Path) -> Iterator[Place]:
    (base / "workspace").mkdir(exist_ok=True)
    yield Place(base / "workspace", Launch())


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
    if not sandbox.availability().works:
        pytest.skip("there is no sandbox here")
    with closing(sandbox), sandbox.confine(profile, str(base / "workspace")) as confined:
        yield Place(base / "workspace", confined)


Ground = Callable[[Path], AbstractContextManager[Place]]
GROUNDS: list[Ground] = [free, sandboxed]


@pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: ground.__name__)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_command_returns_in_time_and_leaves_nothing(
    tmp_path: Path, ground: Ground, door: str, name: str
) -> None:
    def attack(script: str, mark: Mark, limits: Limits) -> str:
        with ground(tmp_path) as place:
            outcome = DOORS[door](script, place, mark.env, limits)
            assert mark.alive() == []
        return outcome

    run_and_check(attack, HOSTILE[name], tmp_path / "workspace")


@pytest.mark.parametrize("door", DOORS)
def test_a_fork_bomb_returns_in_time_and_leaves_nothing(tmp_path: Path, door: str) -> None:
    def attack(script: str, mark: Mark, limits: Limits) -> str:
        with free(tmp_path) as place:
            return DOORS[door](
                script, place, mark.env, limits._replace(processes=count_of_processes(NOBODY) + BOMB_PROCESSES)
            )

    run_and_check(attack, FORK_BOMB, tmp_path / "workspace")


# root has no limit on processes, and cannot become another user in the sandbox
@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
def test_a_sandboxed_fork_bomb_of_an_ordinary_user_returns_in_time_and_leaves_nothing(bomber: Box) -> None:
    def attack(door: str, script: str, mark: Mark, limits: Limits) -> str:
        return bomber.attack(
            door, script, mark.env, limits._replace(processes=count_of_processes(BOMBER) + BOMB_PROCESSES)
        )

    # one after the other: each counts against the limit of the other
    for door in DOORS:
        run_and_check(partial(attack, door), FORK_BOMB, bomber.workspace)


@pytest.fixture
def bomber() -> Iterator[Box]:
    """A workspace of a user who runs nothing else, unless that is the user who runs the tests."""
    if os.getuid() == 0 and not interpreter(BOMBER):
        pytest.skip("no Python that an ordinary user can run")
    with closing(Worker(ordinary=True, user=BOMBER)) as worker, closing(Box(worker)) as box:
        yield box


def run_and_check(attack: Callable[[str, Mark, Limits], str], hostile: Hostile, workspace: Path) -> None:
    """Run a hostile command, several times if requested, and check what it leaves."""
    for _ in range(RUNS):
        mark = Mark()
        began = time.monotonic()

        outcome = attack(hostile.script, mark, hostile.limits)

        seconds = time.monotonic() - began
        assert mark.alive() == []
        assert outcome in hostile.outcomes
        deadline = hostile.limits.timeout if outcome == "timeout" else 0.0
        assert seconds < (deadline or 0.0) + LATE_SECONDS
        assert os.listdir(workspace) == []


def count_of_processes(ordinary: int) -> int:
    """How many processes the user of the fork bomb has, as the kernel counts them: with all their threads."""
    owner = ordinary if os.getuid() == 0 else os.getuid()
    return sum(count_of_threads(pid) for pid in pids() if owner_of(pid) == owner)


def count_of_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


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
door = test_hostile.DOORS[sys.argv[1]]
limits = test_hostile.NO_DEADLINE._replace(max_bytes=int(sys.argv[3]))
with test_hostile.free(Path(sys.argv[4])) as place:
    print(door(sys.argv[2], place, Mark().env, limits))
print(open("/proc/self/status").read())
"""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "script, max_bytes",
    [("yes | head -c 2G", 64 << 20), ("head -c 2G /dev/zero", 64 << 20), ("head -c 500M /dev/zero", 4 << 30)],
    ids=["lines", "one line", "all of it"],
)
def test_memory_stays_small_in_a_flood(tmp_path: Path, door: str, script: str, max_bytes: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", FLOOD, door, script, str(max_bytes), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )

    outcome, *status = answer.stdout.splitlines()
    assert outcome in ("limit", "exit"), answer.stderr
    [peak] = [int(line.split()[1]) for line in status if line.startswith("VmHWM:")]
    assert peak < MEMORY_KILOBYTES
