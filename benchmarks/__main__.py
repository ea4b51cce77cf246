"""`python -m benchmarks [--strict] [--markdown] [AREA...]` prints a table of the figures.

--strict makes a missed limit exit 1, --markdown prints the rows for docs/performance.md.
"""

from __future__ import annotations

import os
import sys
import time

from benchmarks import (
    agents,
    code,
    custom,
    durable,
    editing,
    growth,
    http,
    knowledge,
    listing,
    mcp,
    reading,
    search,
    session,
    shell,
    startup,
    undo,
    web,
)
from benchmarks.figure import heading, markdown, row

_MODULES = (
    startup,
    session,
    growth,
    editing,
    reading,
    listing,
    knowledge,
    search,
    shell,
    undo,
    custom,
    mcp,
    http,
    web,
    agents,
    durable,
    code,
)
AREAS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}


def main(arguments: list[str]) -> int:
    """Measure the named areas, or all."""
    names = [word for word in arguments if not word.startswith("--")] or list(AREAS)
    line = markdown if "--markdown" in arguments else row
    unknown = [name for name in names if name not in AREAS]
    if unknown:
        print(f"unknown area {unknown[0]!r}; available: {', '.join(AREAS)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    load = os.getloadavg()[0]
    if line is row:
        print(heading())
    missed = 0
    for name in names:
        for figure in AREAS[name].figures():
            print(line(figure), flush=True)
            missed += not figure.met
    print(f"\n{missed} limits not met; {time.monotonic() - started:.0f} s on {os.cpu_count()} CPUs", end="")
    print(f", load before {load:.1f}{': other processes distort the figures' if load > 1 else ''}")
    return 1 if missed and "--strict" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
