"""Finds matches and their replacements in texts in memory, with the program that also searches files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from hilt.context import Context
from hilt.errors import ToolError
from hilt.search import patterns, ripgrep
from hilt.search.ripgrep import MEMORY_BYTES, Pattern
from hilt.search.ripgrep_output import plain
from hilt.search.ripgrep_runs import SECONDS, failure

_CONTINUATION = frozenset(bytes([number]) for number in range(0x80, 0xC0))
SMALL_BYTES = 4 << 20  # searched by one thread
EVENT_BYTES = 512 << 20  # of one run of adjacent matches


class Replaced(NamedTuple):
    """Bytes start to end of a text, and their replacement."""

    start: int
    end: int
    new: bytes


def find(ctx: Context, pattern: Pattern, texts: Sequence[bytes], *, limit: int) -> list[list[Replaced]]:
    """Return the matches in each text; no text may exceed the limit after replacement."""
    replacements: list[list[Replaced]] = [[] for _ in texts]
    sizes = [len(text) for text in texts]
    complete = False
    argv = [ripgrep.program(), "--no-config", "--color=never", "--no-mmap", "--json", "--text", "--encoding=none"]
    if sum(sizes) < SMALL_BYTES:
        argv.append("--threads=1")  # starting another thread takes longer
    argv += [*ripgrep.pattern_arguments(pattern), "--", *ripgrep.open_files(len(texts))]
    with ExitStack() as stack:
        folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        fds = tuple(stack.enter_context(_opened(text)) for text in texts)
        try:
            stream = stack.enter_context(
                ctx.processes.stream(argv, cwd=folder, env={}, fds=fds, seconds=SECONDS, memory=MEMORY_BYTES)
            )
        except ToolError as error:
            raise ripgrep.broken() if error.code in ripgrep.UNUSABLE else error from None
        for line in _lines(stream):
            try:
                event = json.loads(line)
            except ValueError:
                raise ripgrep.broken() from None
            complete = complete or event["type"] == "summary"
            if event["type"] == "match":
                data = event["data"]
                index = int(data["path"]["text"].rpartition("/")[2]) - ripgrep.FIRST_FD
                for replaced in _replaced(data, data["absolute_offset"], texts[index]):
                    sizes[index] += len(replaced.new) - (replaced.end - replaced.start)
                    if sizes[index] > limit:
                        raise ToolError(
                            "file_too_large",
                            f"The replacements would make a file larger than {limit >> 20} MB.",
                            suggestion="Replace less at once, or use a shorter replacement.",
                        )
                    replacements[index].append(replaced)
    if stream.timed_out:
        raise ToolError("timeout", f"The pattern took longer than {SECONDS:g} s.")
    if not complete:
        if ripgrep.is_broken(stream.exit_code, stream.stderr):
            raise ripgrep.broken()
        raise failure(stream.stderr.decode("utf-8", "replace"), stream.exit_code, pattern)
    return [[*spans, *_at_end(pattern, text, spans)] for text, spans in zip(texts, replacements, strict=True)]


def _replaced(data: Any, offset: int, text: bytes) -> Iterator[Replaced]:
    for submatch in data["submatches"]:
        start, end = offset + submatch["start"], offset + submatch["end"]
        # ripgrep also finds empty matches inside a character
        if start != end or text[start : start + 1] not in _CONTINUATION:
            yield Replaced(start, end, plain(submatch["replacement"]))


def _at_end(pattern: Pattern, text: bytes, matches: Sequence[Replaced]) -> list[Replaced]:
    """Return an empty match at the end, as for `$` in a last line without a line ending; ripgrep does not report it."""
    size = len(text)
    if not text or (matches and matches[-1].end == size) or (pattern.lines and text.endswith(b"\n")):
        return []
    if not patterns.ends_with_empty_match(pattern, text[-4096:].decode("utf-8", "surrogateescape")):
        return []
    return [Replaced(size, size, patterns.expanded_at_end(pattern.replacement or "").encode())]


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*pieces, line))
            pieces.clear()
            size = 0
        pieces.append(rest)
        size += len(rest)
        if size > EVENT_BYTES:
            raise ToolError(
                "resource_limit",
                "The file has too many adjacent matches to replace at once.",
                suggestion="Replace less at once, or use a pattern that matches longer pieces.",
            )


@contextmanager
def _opened(text: bytes) -> Iterator[int]:
    """Yield the descriptor of an anonymous file, which is deleted with the last process that uses it."""
    with ExitStack() as stack:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("text", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
        else:
            from tempfile import TemporaryFile

            descriptor = stack.enter_context(TemporaryFile()).fileno()
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
