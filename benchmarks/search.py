"""Searching, against plain programs and loops that do the same without checks."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import count
from shutil import which

from benchmarks.clock import best
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place
from benchmarks.program import Pipe, Program, request, session
from hilt.search import ripgrep

FILES = 20_000
REPLACED = 50


def figures() -> Iterator[Figure]:
    """Measure a tree of 20,000 files, and changes and checksums of some of them."""
    with fresh_place() as place, session(place) as hilt:
        _fill(place)
        yield from _searches(place, hilt)
        yield from _finds(place, hilt)
        yield _checksums(place, hilt, "tree", f"checksum_tree, {FILES:,} small files")
    with fresh_place() as place, session(place) as hilt:
        for number in range(40):
            place.write(f"large/{number}", f"{number}" * (4 << 20))
        yield _checksums(place, hilt, "large", "checksum_tree, 40 large files")
    with fresh_place() as place, session(place) as hilt:
        yield _replacements(place, hilt)


def _fill(place: Place) -> None:
    chance = random.Random(1)
    words = [f"word{number}" for number in range(2000)]
    for number in range(FILES):
        lines = [" ".join(chance.choices(words, k=8)) for _ in range(60)]
        if number % 1000 == 0:
            lines.append("here is the needle")
        place.write(f"tree/part{number // 400}/piece{number // 20 % 20}/module_{number}.py", "\n".join(lines) + "\n")


def _program() -> str:
    program = ripgrep.find()
    if program is None:
        raise RuntimeError("the reference for searching is ripgrep, which is not installed")
    return program


def _searches(place: Place, hilt: Pipe) -> Iterator[Figure]:
    for pattern, name in (("the needle", "20 matches"), ("word77", "50,000 matches")):
        bare = Program([_program(), "--no-config", "--json", pattern, place.workspace], place)
        ask = request("search_files", pattern=pattern)
        base, took = best(10, bare, partial(hilt.exchange, ask))
        yield Figure(f"search_files, {FILES:,} files, {name}", took, "ms", "rg --json", base, maximum=_allowed(base))


def _allowed(base: float) -> float:
    return round(1.3 * base + 3, 1)


def _finds(place: Place, hilt: Pipe) -> Iterator[Figure]:
    bare = Program([_program(), "--no-config", "--files", place.workspace], place)
    for glob in ("*.py", "tree/part1*/**/*_*7.py"):
        ask = request("find_files", pattern=glob)
        base, took = best(10, bare, partial(hilt.exchange, ask))
        yield Figure(f"find_files {glob}, {FILES:,} files", took, "ms", "rg --files", base, maximum=_allowed(base))


def _checksums(place: Place, hilt: Pipe, folder: str, name: str) -> Figure:
    paths = [os.path.join(path, file) for path, _, files in os.walk(place.path(folder)) for file in files]

    def bare() -> None:
        for path in paths:
            with open(path, "rb") as file:
                sha256(file.read()).hexdigest()

    ask = request("checksum_tree", path=folder)
    base, took = best(5, bare, lambda: hilt.exchange(ask))
    return Figure(name, took, "ms", "hashlib, file by file", base, max_ratio=1 / 0.8)


def _replacements(place: Place, hilt: Pipe) -> Figure:
    sed = which("sed")
    if sed is None:
        raise RuntimeError("the reference for replacing is sed, which is not installed")
    numbers = count()
    for folder in ("ours", "theirs"):
        for number in range(REPLACED):
            lines = "".join(f"line {line} of a file\n" for line in range(200))
            place.write(f"{folder}/{number}.txt", f"value 0\n{lines}value 0\n")
    theirs = [place.path(f"theirs/{number}.txt") for number in range(REPLACED)]

    def bare() -> None:
        subprocess.run([sed, "-i", f"s/value [0-9]*/value {next(numbers)}/g", *theirs], check=True)
        for path in theirs:
            descriptor = os.open(path, os.O_RDWR)
            os.fsync(descriptor)
            os.close(descriptor)

    def replace() -> None:
        hilt.call("search_replace", pattern="value [0-9]*", replacement=f"value {next(numbers)}", files="ours/*.txt")

    base, took = best(10, bare, replace)
    return Figure(f"search_replace, {REPLACED} files", took, "ms", "sed -i, fsync of each", base, max_ratio=3)
