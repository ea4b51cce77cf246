"""The rules of .gitignore files, as git and ripgrep apply them.

A line is a glob. A leading `!` negates it, a trailing `/` matches folders only, and a `/` elsewhere anchors it to the
folder of the file. The last line that matches wins, and deeper files override those above them. Everything in an
ignored folder is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hilt.formats import globs
from hilt.formats.globs import Component, Glob

NAME = ".gitignore"
FILE_BYTES = 1 << 20


class Line(NamedTuple):
    """One line: whether it is negated, whether it matches folders only, and its glob."""

    negated: bool
    folders: bool
    globs: tuple[Glob, ...]


def lines(data: bytes) -> Iterator[Line]:
    """Parse a file; invalid globs are skipped."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    for raw in text.split("\n"):
        parsed = _line(raw.removesuffix("\r"))
        if parsed is not None:
            yield parsed


def _line(text: str) -> Line | None:
    if text.startswith("#"):
        return None
    if not text.endswith("\\ "):
        text = text.rstrip()
    negated = text.startswith("!")
    text = text[negated:]
    folders = text.endswith("/")
    text = text.removesuffix("/")
    if not text or text.endswith("/") or "//" in text or "." in text.split("/"):
        return None  # no path can match
    try:
        alternatives = globs.parse(text)
    except globs.BadGlob:
        return None
    if "/" in text and not text.startswith(("**/", "/**/")):
        alternatives = [Glob((Component(()), *glob.components)) if glob.anywhere else glob for glob in alternatives]
    return Line(negated, folders, tuple(alternatives))


def rebase(line: Line, chain: Sequence[str]) -> Line | None:
    """Return a line rewritten relative to the folder that the names of the chain lead to."""
    rebased: list[Glob] = []
    for glob in line.globs:
        if glob.anywhere:
            rebased.append(glob)
            continue
        remainders = {glob.components}
        for name in chain:
            remainders = {remainder for before in remainders for remainder in _after_name(before, name)}
        rebased += [
            Glob((Component(()), *remainder)) for remainder in remainders if remainder and remainder != (Component(()),)
        ]
    return line._replace(globs=tuple(rebased)) if rebased else None


def _after_name(components: tuple[Component, ...], name: str) -> Iterator[tuple[Component, ...]]:
    """Yield the rest of a glob after one name."""
    first, rest = components[0], components[1:]
    if not first.tokens:  # the anchor
        yield from _after_name(rest, name)
    elif first.deep:
        yield components
        if rest:
            yield from _after_name(rest, name)
    elif rest and globs.component_matcher(first)(name):
        yield rest


def format_line(line: Line) -> Iterator[str]:
    """Yield the line as text, once for each of its globs."""
    for glob in line.globs:
        yield "!" * line.negated + globs.format_glob(glob) + "/" * line.folders
