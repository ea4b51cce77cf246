"""Finds matches and their replacements in texts in memory, with the program that also searches files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
    with _in_memory(texts) if hasattr(os, "memfd_create") else _on_disk(ctx, texts) as files:
        return _find_with(ctx, pattern, texts, files, limit)


class _TextFiles(NamedTuple):
    """Texts as files: their folder, their numbered names, and their descriptors."""

    folder: int
    prefix: str
    first: int
    fds: tuple[int, ...] = ()


def _find_with(
    ctx: Context, pattern: Pattern, texts: Sequence[bytes], files: _TextFiles, limit: int
) -> list[list[Replaced]]:
    replacements: list[list[Replaced]] = [[] for _ in texts]
    sizes = [len(text) for text in texts]
    complete = False
    names = [f"{files.prefix}{number}" for number in range(files.first, files.first + len(texts))]
    argv = [ripgrep.program(), "--no-config", "--color=never", "--no-mmap", "--json", "--text", "--encoding=none"]
    if sum(sizes) < SMALL_BYTES:
        argv.append("--threads=1")  # starting another thread takes longer
    argv += [*ripgrep.pattern_arguments(pattern), "--", *names]
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(
                ctx.processes.stream(
                    argv, cwd=files.folder, env={}, fds=files.fds, seconds=SECONDS, memory=MEMORY_BYTES
                )
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
                index = int(data["path"]["text"].rpartition("/")[2]) - files.first
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
def _in_memory(texts: Sequence[bytes]) -> Iterator[_TextFiles]:
    """Yield the texts as anonymous files: fast to create, and deleted with the last process that uses them."""
    with ExitStack() as stack:
        folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        fds = []
        for text in texts:
            descriptor = os.memfd_create("text", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
            _write(descriptor, text)
            fds.append(descriptor)
        # the descriptors as the program inherits them, from 3 on
        yield _TextFiles(folder, "/proc/self/fd/", 3, tuple(fds))


def _write(descriptor: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def _on_disk(ctx: Context, texts: Sequence[bytes]) -> Iterator[_TextFiles]:
    """Yield a private folder with the texts as files."""
    # next to long outputs: private to the user, and removed by age if the process is killed
    os.makedirs(ctx.overflow.directory, mode=0o700, exist_ok=True)
    path = os.path.join(ctx.overflow.directory, f"replacing-{os.urandom(8).hex()}")
    os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, text in enumerate(texts):
            descriptor = os.open(str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
            try:
                _write(descriptor, text)
            finally:
                os.close(descriptor)
        yield _TextFiles(folder, "./", 0)
    finally:
        for number in range(len(texts)):
            with suppress(FileNotFoundError):
                os.unlink(str(number), dir_fd=folder)
        os.close(folder)
        with suppress(OSError):
            os.rmdir(path)
