"""Commands: the overhead of starting, confining and watching a command, and the memory during a flood of output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from shutil import which

from benchmarks.clock import best, milliseconds
from benchmarks.figure import Figure
from benchmarks.place import fresh_place
from benchmarks.program import Program, request, session
from hilt.sandbox.capturing import run
from hilt.shell.risk import classify

ROUNDS = 40
COMMANDS, ENDS = 500, 50
FLAT = 1.15
JOBS = 64
SMALLEST_SANDBOX = (
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-all",
    "--die-with-parent",
    "--",
)
LINE = "cd src && git log --oneline -5 | grep -v merge; FOO=1 pytest -q tests/unit > out.txt 2>&1 || echo failed"


def figures() -> Iterator[Figure]:
    """Measure single commands, jobs, a flood of output, and parsing a command line."""
    bash = which("bash")
    if bash is None:
        raise RuntimeError("the reference for commands is bash, which is not installed")
    with fresh_place() as place, session(place) as hilt:
        bare = Program([bash, "-c", "true"], place)
        plain = partial(run, [bash, "-c", "true"], cwd="/", env=place.environ)
        ask = partial(hilt.ask, request("run_shell", command="true"))
        base, unconfined, confined = best(ROUNDS, bare, plain, ask)
        yield Figure(
            "a command started and watched", unconfined, "ms", "bash -c true", base, maximum=round(base + 4, 2)
        )
        yield Figure(
            "run_shell in a session, confined", confined, "ms", "bash -c true", base, maximum=round(base + 16, 2)
        )
        if bubblewrap := which("bwrap"):
            smallest = Program([bubblewrap, *SMALLEST_SANDBOX, bash, "-c", "true"], place)
            wrapped, confined = best(ROUNDS, smallest, ask)
            yield Figure("the same", confined, "ms", "bwrap with little to mount", wrapped)
        times = [milliseconds(ask) for _ in range(COMMANDS)]
        first, last = min(times[:ENDS]), min(times[-ENDS:])
        yield Figure(f"{COMMANDS} commands, last {ENDS}", last, "ms", f"first {ENDS}", first, max_ratio=FLAT)
        jobs = [request("run_shell", command="sleep 60", run_in_background=True)] * JOBS
        took = milliseconds(lambda: [hilt.ask(job) for job in jobs]) / JOBS
        yield Figure(f"a background job, of {JOBS} at once", took, "ms", "bash -c true", base)
    with fresh_place() as place, session(place) as hilt:
        hilt.ask(request("run_shell", command="true"))
        idle = hilt.memory()
        hilt.reset_peak()
        hilt.exchange(request("run_shell", command="yes | head -c 2G", timeout=120))
        yield Figure("memory in a flood of output", hilt.peak(), "MB", "idle", idle, maximum=80)
    numbers = count()  # results are cached per line
    base, took = best(200, partial(os.stat, "/"), lambda: classify(f"{LINE} #{next(numbers)}"))
    yield Figure(f"parsing a command line of {len(LINE)} characters", took, "ms", "os.stat", base)
