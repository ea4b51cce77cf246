"""One of many processes that use the same workspace and state at the same time; prints errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from hilt.call import Result
from hilt.runtime import Runtime
from hilt.testing import environment, temporary_runtime


def edit(base: str, number: int, count: int) -> None:
    """Add a unique line to five files in rotation, many times, in one session."""
    with temporary_runtime(base) as (runtime, _):
        for turn in range(count):
            path = f"{(number + turn) % 5}.txt"
            line = f"process {number} turn {turn}\n"
            report_error(f"edit {path}", runtime.call("edit_file", path=path, old_text="END", new_text=line + "END"))


def open_first(base: str, number: int, count: int) -> None:
    """Open a runtime on empty state, like all other processes."""
    with temporary_runtime(base, session=f"s{number}") as (runtime, _):
        for turn in range(count):
            report_error("write", runtime.call("write_file", path=f"{number}/{turn}.txt", content="x"))
            report_error("read", runtime.call("read_file", path=f"{number}/{turn}.txt"))


def nested(base: str, number: int, count: int) -> None:
    """Edit one file, every other process from a workspace that is a folder of the others' workspace."""
    inner = number % 2 == 1
    root = os.path.join(base, "workspace", "inner") if inner else os.path.join(base, "workspace")
    with Runtime(root, environ=environment(base)) as runtime:
        for turn in range(count):
            path = "0.txt" if inner else "inner/0.txt"
            line = f"process {number} turn {turn}\n"
            while True:
                result = runtime.call("edit_file", path=path, old_text="END", new_text=line + "END")
                if result.error is None or result.error.code != "stale_file":
                    break
                runtime.call("read_file", path=path)
            report_error("edit", result)


def report_error(action: str, result: Result) -> None:
    """Print the error of a result, if any."""
    if result.error is not None:
        print(f"{action}: {result.error.code}: {result.error.message}")


MODES: dict[str, Callable[[str, int, int], None]] = {"edit": edit, "open_first": open_first, "nested": nested}

if __name__ == "__main__":
    mode, base, number, count = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    MODES[mode](base, int(number), int(count))
