"""Runs ripgrep on an open tree or on open files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from hilt.context import Context
from hilt.errors import ToolError
from hilt.fence import Reads
from hilt.handles import Closing
from hilt.search import ripgrep
from hilt.search.inherited import inherited_rules
from hilt.search.ripgrep import MEMORY_BYTES, UNUSABLE, Pattern, is_broken
from hilt.search.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Place
    from hilt.processes.call_processes import OutputStream

SECONDS = 60.0  # after that, the result is partial

_OS_ERROR = re.compile(r"\(os error \d+\)\s*$", re.MULTILINE)


class SearchBackend:
    """The program that searches a folder, or a single file if `file` is its descriptor and not -1."""

    def __init__(self, ctx: Context, place: Place, folder: int, file: int, sensitive: Sequence[str]) -> None:
        """`sensitive` are names that the program skips."""
        self._ctx = ctx
        self._place = place
        self._folder = folder
        self._sensitive = sensitive
        self.file = file
        self._program = ripgrep.program()

    @property
    def is_file(self) -> bool:
        """Whether a single file is searched."""
        return self.file >= 0

    @contextmanager
    def started(
        self,
        mode: str,
        pattern: Pattern | None,
        selection: Selection,
        *,
        per_file: int | None = None,
        context: int = 0,
        fds: tuple[int, ...] = (),
        seconds: float = SECONDS,
        largest: int | None = None,
    ) -> Iterator[OutputStream]:
        """Start the program in one of three modes: files (paths), json (matches), count (matches per file).

        It searches the tree, or only the open files `fds`.
        """
        with ExitStack() as stack:
            above = None
            stdin: int | None = None
            cwd = self._folder
            reads: Reads | None = Reads(cwd)
            if self.is_file:
                os.lseek(self.file, 0, os.SEEK_SET)
                stdin = self.file
                cwd = stack.enter_context(_folder_of(self._place))
                reads = Reads(None)
            elif fds:
                reads = None  # the files are open: it needs no path
            else:
                above = stack.enter_context(inherited_rules(self._ctx.door, self._place, selection))
                reads = Reads(cwd, files=above.files)
            argv = [self._program, "--no-config", "--color=never", "--no-mmap", "--no-ignore-messages"]
            argv += _mode_arguments(mode, pattern, per_file, context)
            if largest is not None:
                argv.append(f"--max-filesize={largest}")
            if selection.kind is not None:
                argv.append(f"--type={selection.kind}")
            if above is not None:
                argv += ripgrep.selection_arguments(
                    selection, above, sensitive=self._sensitive, names_only=mode == "files"
                )
            argv += ["--", *(ripgrep.open_files(len(fds)) if fds else ["-"] if self.is_file else ["./"])]
            processes = self._ctx.processes
            started = processes.stream(
                argv, cwd=cwd, env={}, stdin=stdin, fds=fds, seconds=seconds, memory=MEMORY_BYTES, reads=reads
            )
            try:
                stream = stack.enter_context(started)
            except ToolError as error:
                raise ripgrep.broken() if error.code in UNUSABLE else error from None
            yield stream

    def raise_on_failure(self, stream: OutputStream, pattern: Pattern | None = None, *, answered: bool) -> None:
        """Raise if the program failed; unreadable files are not a failure."""
        if stream.timed_out or (answered and stream.exit_code in (0, 1)):
            return
        text = stream.stderr.decode("utf-8", "replace")
        if stream.exit_code == 2 and _OS_ERROR.search(text):
            return
        if is_broken(stream.exit_code, stream.stderr):
            raise ripgrep.broken()
        if "unrecognized file type" in text:
            raise self._unknown_type(text.rpartition(":")[2].strip())
        if stream.exit_code not in (0, 1):
            raise failure(text, stream.exit_code, pattern)

    def _unknown_type(self, name: str) -> ToolError:
        from difflib import get_close_matches

        argv = [self._program, "--no-config", "--type-list"]
        with self._ctx.processes.stream(argv, cwd=self._folder, env={}, seconds=SECONDS, memory=MEMORY_BYTES) as stream:
            known = [line.partition(":")[0] for line in b"".join(stream).decode().splitlines()]
        similar = get_close_matches(name.lower(), known, n=3, cutoff=0.4) or ("py", "js", "ts", "rust", "go", "java")
        return ToolError(
            "invalid_args",
            f"Unknown file type {name!r}.",
            suggestion=f"Use one of: {', '.join(similar)}; or use a glob.",
        )


def _mode_arguments(mode: str, pattern: Pattern | None, per_file: int | None, context: int) -> list[str]:
    if mode == "files" or pattern is None:
        # walking is I/O-bound: more threads than processors are faster
        return ["--files", "--null", f"--threads={min(12, max(4, os.cpu_count() or 1))}"]
    arguments = ripgrep.pattern_arguments(pattern)
    if mode == "count":
        return [*arguments, "--count-matches" if pattern.multiline else "--count", "--null", "--with-filename"]
    arguments.append("--json")
    if per_file is not None:
        arguments.append(f"--max-count={per_file}")
    if context:
        arguments.append(f"--context={context}")
    return arguments


def failure(text: str, exit_code: int | None, pattern: Pattern | None) -> ToolError:
    """Return the failure of the program as an error that the caller can act on."""
    from hilt.search import patterns

    if exit_code is not None and exit_code >= 128:
        return ToolError(
            "resource_limit",
            f"The search needed more than {MEMORY_BYTES >> 30} GB of memory, or was killed.",
            suggestion="Narrow the search with path or include, or use a pattern that matches less.",
        )
    if pattern is not None:
        return patterns.invalid_pattern(pattern, text)
    reason = text.strip().removeprefix("rg: ")
    return ToolError("internal", f"The search failed: {reason or f'exit code {exit_code}'}.")


def found_nothing(stream: OutputStream) -> bool:
    """Whether the exit code means no matches."""
    return stream.exit_code == 1 and not stream.received


def unreadable(stream: OutputStream) -> int:
    """Return how many files the program could not read."""
    return stream.stderr.count(b"(os error ")


def counts_by_path(stream: OutputStream) -> Iterator[tuple[str, int]]:
    """Yield path and count from lines of path, NUL, count."""
    incomplete = b""
    for chunk in stream:
        # a path may contain line breaks; a count contains no NUL
        pieces = (incomplete + chunk).split(b"\0")
        while len(pieces) > 1:
            number, end, following = pieces[1].partition(b"\n")
            if not end:
                break
            yield os.fsdecode(pieces[0]).removeprefix("./"), int(number)
            pieces[0:2] = [following]
        incomplete = b"\0".join(pieces)


def _folder_of(place: Place) -> Closing:
    # the handle of the place may be O_PATH, and it closes with the place
    return Closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.folder))
