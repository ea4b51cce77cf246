"""Search a workspace while a process swaps its names with links to secrets, and report which secrets were shown.

Run as `python -m tests.search.leaking BASE CALLS WAY`, as any user, with the folder BASE for itself; WAY is one of
WAYS. Prints an object: calls, rounds of the swapping process, errors by code, finding (calls that found harmless
files), dropped (calls that omitted something), and leaks.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from typing import Any

from hilt.call import Call, Result
from hilt.runtime import Runtime
from hilt.sandbox import ruleset
from hilt.testing import Folder, temporary_runtime

SECRET, NAME = "STOLEN-LINE", "STOLEN-NAME"
LINES = 1000  # of a secret: a count that includes them is conspicuous
NAMES = 100
EXCHANGED = ("bait", "inner", "plain.txt", "deep")
FILLERS = 40
WAYS = ("ripgrep", "without Landlock")

REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_files", {"pattern": "needle"}),
    ("search_files", {"pattern": "needle", "format": "json", "context_lines": 2}),
    ("search_files", {"pattern": "needle", "format": "filenames"}),
    ("search_files", {"pattern": "needle", "max_matches": 1}),
    ("search_files", {"pattern": "needle", "format": "filenames", "max_matches": 1}),
    ("search_files", {"pattern": "needle[^x]*?line", "multiline": True, "hidden": True, "no_ignore": True}),
    ("search_files", {"pattern": "needle", "include": "*.txt", "offset": 1}),
    ("search_files", {"pattern": "needle", "path": "plain.txt"}),
    ("search_files", {"pattern": "long-line", "context_lines": 1}),
    ("find_files", {"pattern": "*.txt"}),
    ("find_files", {"pattern": "*", "sort": "mtime", "hidden": True, "no_ignore": True}),
    ("find_files", {"pattern": "bait/*"}),
    ("find_files", {"pattern": "*.txt", "path": "inner"}),
    ("checksum_tree", {}),
    ("list_dir", {"details": True, "hidden": True}),
    ("detect_project", {}),
    ("search_replace", {"pattern": "needle", "replacement": "pin", "files": "{bait,inner}/*", "dry_run": True}),
    ("search_replace", {"pattern": "needle", "replacement": "pin", "files": "plain.txt", "dry_run": True}),
)
FOREIGN: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("jcli", "Grep", {"pattern": "needle"}),
    ("jcli", "Grep", {"pattern": "needle", "output_mode": "content", "context": 2}),
    ("jcli", "Grep", {"pattern": "needle", "output_mode": "count"}),
    ("jcli", "Glob", {"pattern": "**/*.txt"}),
    ("claude_code", "Glob", {"pattern": "**"}),
    ("claude_code", "Grep", {"pattern": "needle", "output_mode": "content", "-A": 1}),
    ("claude_code", "Grep", {"pattern": "needle"}),
)


def fill(base: str, folder: Folder) -> None:
    """Make a workspace with secrets in it and beside it, and links to them."""
    outside = Folder(os.path.join(base, "home", ".ssh"))
    stolen = f"needle {SECRET} line\n" * LINES
    for number in range(NAMES):
        outside.write(f"{NAME}-{number}.txt", stolen if number == 0 else "")
        folder.write(f".ssh/{NAME}-{number}.txt", stolen if number == 0 else "")
    outside.write("key.txt", stolen)
    outside.write("er/key.txt", stolen)
    outside.write("long.txt", f"{SECRET}\n" + "x" * 1_500_000 + f" long-line {SECRET}\n{SECRET}\n")
    folder.write(".ssh/key.txt", stolen)
    folder.write(".env", stolen)
    for name in ("bait", "inner", "deep/er"):
        folder.write(f"{name}/key.txt", "before\nneedle line\nafter\n")
    folder.write("bait/long.txt", "before\n" + "x" * 1_500_000 + " long-line\nafter\n")
    folder.write("plain.txt", "before\nneedle line\nafter\n")
    for number in range(FILLERS):
        folder.write(f"filler/{number}.txt", f"before\nneedle line {number}\nafter\n")
    for name, target in zip(EXCHANGED, (outside.path, ".ssh", ".env", outside.path), strict=True):
        os.symlink(target, folder.join(f"{name}.link"))


def requests() -> list[tuple[str, Call]]:
    """Return every call, with a name that identifies it."""
    own = [(f"{tool} {json.dumps(args)}", Call(tool, args)) for tool, args in REQUESTS]
    return own + [(f"{tool} {json.dumps(args)}", Call(tool, args, dialect=dialect)) for dialect, tool, args in FOREIGN]


def visible_text(result: Result) -> str:
    """Return all parts of a result that a caller may see."""
    error = result.error
    parts = [result.text, result.data, dict(result.meta), result.view]
    parts += [] if error is None else [error.message, error.suggestion, error.details]
    return json.dumps(parts, default=str)


def refuse_landlock() -> None:
    """Make Landlock appear unsupported to this process and its children."""
    # a seccomp filter: load the number, fail with ENOSYS if it is that of landlock_create_ruleset
    code = ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | errno.ENOSYS), (0x06, 0, 0, 0x7FFF0000))
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
    program = ctypes.create_string_buffer(struct.pack("HP", len(code), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.addressof(program), 0, 0)):  # no new privileges; the filter
        if libc.prctl(*map(ctypes.c_ulong, arguments)) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def numbers(value: Any) -> list[int]:
    """Return the totals in a result."""
    if isinstance(value, dict):
        inner = [number for each in value.values() for number in numbers(each)]
        return inner + [value[key] for key in ("total_count", "total_matches") if isinstance(value.get(key), int)]
    return [number for each in value for number in numbers(each)] if isinstance(value, list) else []


def attack(runtime: Runtime, calls: int) -> dict[str, Any]:
    """Repeat the calls of `requests` in order; return the leaks, the errors and the counts."""
    leaks: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    finding = dropped = 0
    named_calls = requests()
    for turn in range(calls):
        name, call = named_calls[turn % len(named_calls)]
        result = runtime.request(call)
        text = visible_text(result)
        if SECRET in text:
            leaks[f"content: {name}"] += 1
        if NAME in text:
            leaks[f"name: {name}"] += 1
        facts = {"data": result.data, "meta": dict(result.meta)}
        limit = NAMES if name.startswith(("find_files", "Glob")) else LINES
        if any(number >= limit for number in numbers(facts)):
            leaks[f"number: {name}"] += 1
        if result.error is not None:
            errors[result.error.code] += 1
        finding += "needle line" in text or "filler/1.txt" in text
        dropped += '"dropped":' in text
    return {"calls": calls, "leaks": leaks, "errors": errors, "finding": finding, "dropped": dropped}


if __name__ == "__main__":
    base, calls, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if way == "without Landlock":
        refuse_landlock()
        assert not ruleset.abi()
    with ExitStack() as stack:
        runtime, folder = stack.enter_context(temporary_runtime(base))
        fill(base, folder)
        command = [sys.executable, "-m", "tests.search.exchanging", folder.path, *EXCHANGED]
        swapper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert swapper.stdout
        swapper.stdout.readline()
        try:
            report = attack(runtime, calls)
        finally:
            rounds, _ = swapper.communicate("end\n")
        print(json.dumps({**report, "rounds": int(rounds)}))
