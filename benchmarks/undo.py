"""Undo for commands: the cost of the overlay, and of applying its changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from math import inf
from typing import Any

from benchmarks.clock import best, milliseconds
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place
from benchmarks.program import Pipe, request, session

ROUNDS, HEAVY_ROUNDS = 30, 5
FILES, TAR_FILES = 1_000, 10_000
NOTHING = "rm -f none"
TOGGLE = "rm -f none; sed -i 'y/ls/sl/' folder*/*.txt"
EXTRACT = "rm -rf out; mkdir out; tar xf files.tar -C out"


def figures() -> Iterator[Figure]:
    """Alternate between commands on an overlay and without one, then measure applying a preview."""
    with ExitStack() as stack:
        place, other = (stack.enter_context(fresh_place(files=FILES)) for _ in range(2))
        hilt = stack.enter_context(session(_with_undo(place, "auto")))
        without = stack.enter_context(session(_with_undo(other, "off")))
        overlaid, plain = (partial(_run, program, NOTHING) for program in (hilt, without))
        measured, base = best(ROUNDS, overlaid, plain)
        yield Figure("a command on an overlay", measured, "ms", "without one", base, maximum=round(base + 3, 2))
        overlaid, plain = (partial(_run, program, TOGGLE) for program in (hilt, without))
        measured, base = best(HEAVY_ROUNDS, overlaid, plain)
        yield Figure(f"sed -i of {FILES:,} files", measured, "ms", "without an overlay", base, max_ratio=1.6)
        for each in (place, other):
            _pack(each)
        overlaid, plain = (partial(_run, program, EXTRACT) for program in (hilt, without))
        measured, base = best(HEAVY_ROUNDS, overlaid, plain)
        yield Figure(f"tar x of {TAR_FILES:,} files", measured, "ms", "without an overlay", base, max_ratio=1.8)
    with fresh_place(files=FILES) as place, session(_with_undo(place, "auto")) as hilt:
        measured = base = inf
        for _ in range(HEAVY_ROUNDS):
            preview = _run(hilt, TOGGLE, preview=True)["meta"]["preview"]["id"]
            measured = min(measured, milliseconds(partial(_run, hilt, TOGGLE, apply=preview)))
            base = min(base, milliseconds(partial(_copy, place)))
            shutil.rmtree(place.path("copy"))
        yield Figure(f"apply of {FILES:,} files", measured, "ms", "cp -a and syncfs", base, max_ratio=1.3)


def _with_undo(place: Place, setting: str) -> Place:
    return place._replace(environ={**place.environ, "HILT_SHELL_UNDO": setting})


def _run(hilt: Pipe, command: str, **args: object) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(hilt.ask(request("run_shell", command=command, force=True, timeout=120, **args)))
    if not reply["ok"] or reply["meta"].get("exit_code") != 0:
        raise RuntimeError(f"{command} failed: {reply}")
    return reply


def _pack(place: Place) -> None:
    """Write an archive of small files."""
    folder = place.path("packed")
    for number in range(TAR_FILES):
        place.write(f"packed/{number // 100}/{number}.txt", f"file {number}\n")
    subprocess.run(["tar", "cf", place.path("files.tar"), "-C", folder, "."], check=True)
    shutil.rmtree(folder)


def _copy(place: Place) -> None:
    folders = [place.path(name) for name in os.listdir(place.workspace) if name.startswith("folder")]
    os.mkdir(place.path("copy"))
    subprocess.run(["cp", "-a", *folders, place.path("copy")], check=True)
    subprocess.run(["sync", "-f", place.path("copy")], check=True)
