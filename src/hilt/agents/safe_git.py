"""Runs git without any program that a repository configures: no hooks, filters, file system monitors or diff programs.

Contents are read from the object database and written here, byte for byte: git would run the filters that attributes
and configuration name. Changes are found the same way, by comparing files with the ids in a tree. Nothing below a
worktree is opened through a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, NamedTuple

from hilt import handles
from hilt.errors import ToolError
from hilt.sandbox import capturing, spawning
from hilt.surroundings import Surroundings
from hilt.text.binary_patch import blob_id, hasher

SECONDS = 600.0
OUTPUT_BYTES = 256 << 20  # of a listing
FILE_BYTES = 50 << 20  # of a changed file: the limit of one change
TOTAL_BYTES = 200 << 20  # of all changed files

LINK, MODULE = "120000", "160000"

_PIECE = 1 << 20
_HARDENED = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.untrackedCache=false"),
    *(
        "protocol.allow=never",
        "gc.auto=0",
        "maintenance.auto=false",
        "submodule.recurse=false",
        "core.splitIndex=false",
    ),
)
_VARIABLES = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    **{f"GIT_{role}_{field}": "hilt" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")},
    "LC_ALL": "C",
}


class TreeEntry(NamedTuple):
    """A file in a commit: its git mode, and the id and size of its contents."""

    mode: str
    id: str
    size: int


class FileState(NamedTuple):
    """A file, or a link with its target as data, and its git mode."""

    mode: str
    data: bytes


class FileChange(NamedTuple):
    """A path before and after; None if there is no file."""

    path: str
    old: FileState | None
    new: FileState | None


class Changes(NamedTuple):
    """What differs from a commit, and the paths that a patch cannot hold, each with the reason."""

    files: tuple[FileChange, ...]
    unsupported: Mapping[str, str]


class SafeGit:
    """Runs git in one folder."""

    def __init__(self, folder: str, surroundings: Surroundings, *, git_dir: str = "") -> None:
        """`git_dir` is found from the folder if empty."""
        self._folder = folder
        self._surroundings = surroundings
        self._git_dir = git_dir

    def run(self, *args: str, stdin: bytes = b"", index: str = "", output: BinaryIO | None = None) -> bytes:
        """Return what git prints, or write it to a file; raise if it fails."""
        location = ["--git-dir", self._git_dir, "--work-tree", self._folder] if self._git_dir else []
        argv = [
            self._surroundings.program("git"),
            *(word for setting in _HARDENED for word in ("-c", setting)),
            *location,
            *args,
        ]
        env = {**_VARIABLES, "PATH": self._surroundings.search_path(), **({"GIT_INDEX_FILE": index} if index else {})}
        if output is not None:
            return self._stream(argv, env, stdin, output)
        limits = spawning.Limits(timeout=SECONDS, keep_bytes=OUTPUT_BYTES, max_bytes=OUTPUT_BYTES)
        finished = capturing.run(argv, cwd=self._folder, env=env, stdin=stdin, limits=limits)
        if finished.exit_code:
            raise git_failed(args[0], finished.stderr.head)
        return finished.stdout.head

    def _stream(self, argv: Sequence[str], env: Mapping[str, str], stdin: bytes, output: BinaryIO) -> bytes:
        import tempfile

        with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as errors:
            input_file.write(stdin)
            input_file.seek(0)
            child = spawning.start(
                argv,
                cwd=self._folder,
                env=env,
                stdin=input_file.fileno(),
                stdout=output.fileno(),
                stderr=errors.fileno(),
                limits=spawning.Limits(timeout=SECONDS),
            )
            with child:
                ended = child.wait(SECONDS)
            errors.seek(0)
            if ended is None or ended.code:
                raise git_failed(argv[-1], errors.read(4096))
        return b""

    def entries(self, commit: str) -> dict[str, TreeEntry]:
        """Return the files of a commit by path; raise if it has submodules or unsafe paths."""
        entries: dict[str, TreeEntry] = {}
        for line in self.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            mode, _, id, size = facts.decode("ascii").split()
            path = os.fsdecode(name)
            if mode == MODULE:
                raise ToolError(
                    "invalid_request",
                    f"The repository has the submodule {path}; worktrees of agents do not support submodules.",
                    suggestion="Start the agent without a worktree.",
                )
            if any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/")):
                raise ToolError("invalid_request", f"The commit contains the path {path!r}, which is not safe.")
            kind = mode if mode in ("100755", LINK) else "100644"
            entries[path] = TreeEntry(kind, id, int(size))
        return entries

    def contents(self, ids: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents of objects, in order."""
        import tempfile

        with tempfile.TemporaryFile() as output:
            self.run("cat-file", "--batch", stdin="".join(f"{id}\n" for id in ids).encode(), output=output)
            output.seek(0)
            for id in ids:
                header = output.readline().split()
                if len(header) != 3 or header[1] != b"blob":
                    raise ToolError(
                        "invalid_request",
                        f"The object {id} is missing in the repository.",
                        suggestion="Run git fsck, or fetch the missing objects.",
                    )
                yield output.read(int(header[2]))
                output.read(1)

    def write(self, folder: str, entries: Mapping[str, TreeEntry]) -> None:
        """Write the files of a commit to an empty folder, without filters."""
        for (path, entry), data in zip(
            entries.items(), self.contents([entry.id for entry in entries.values()]), strict=True
        ):
            names = path.split("/")
            with _opened(folder, names[:-1], create=True) as handle:
                if entry.mode == LINK:
                    os.symlink(data, os.fsencode(names[-1]), dir_fd=handle)
                    continue
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                mode = 0o777 if entry.mode == "100755" else 0o666
                with open(os.open(names[-1], flags, mode, dir_fd=handle), "wb") as file:
                    file.write(data)

    def changes(self, folder: str, commit: str, index: str) -> Changes:
        """Return how a folder differs from a commit, without files that git ignores; `index` is a scratch file."""
        entries = self.entries(commit)
        self.run("read-tree", commit, index=index)
        untracked = self.run("ls-files", "--others", "--exclude-standard", "-z", index=index).split(b"\0")[:-1]
        differing: dict[str, FileState | None] = {}
        unsupported: dict[str, str] = {}
        room = TOTAL_BYTES
        for path in dict.fromkeys((*entries, *map(os.fsdecode, untracked))):
            if path.endswith("/"):
                unsupported[path] = "it is a repository"
                continue
            try:
                if path not in entries or not is_same(folder, path, entries[path]):
                    state = file_state(folder, path, room)
                    room -= 0 if state is None else len(state.data)
                    differing[path] = state
            except ToolError as error:
                unsupported[path] = error.message
        old_entries = {path: entries[path] for path in differing if path in entries}
        old_contents = self.contents([entry.id for entry in old_entries.values()]) if old_entries else iter(())
        old = {
            path: FileState(entry.mode, data)
            for (path, entry), data in zip(old_entries.items(), old_contents, strict=True)
        }
        files = [FileChange(path, old.get(path), new) for path, new in sorted(differing.items())]
        for change in files:
            if any(state is not None and state.mode == LINK for state in (change.old, change.new)):
                unsupported[change.path] = "it is a symbolic link"
        return Changes(tuple(change for change in files if change.old != change.new), unsupported)

    def record(self, changes: Changes, commit: str) -> str:
        """Return a new commit with these changes on top of another; it becomes the HEAD of this worktree."""
        lines = []
        for change in changes.files:
            mode, id = "0", "0" * len(commit)
            if change.new is not None:
                mode = change.new.mode
                id = self.run("hash-object", "-w", "--no-filters", "--stdin", stdin=change.new.data).decode().strip()
            lines.append(f"{mode} {id}\t".encode() + os.fsencode(change.path) + b"\0")
        self.run("read-tree", commit)
        self.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
        tree = self.run("write-tree").decode().strip()
        new = self.run("commit-tree", tree, "-p", commit, stdin=b"Changes that were applied\n").decode().strip()
        self.run("update-ref", "--no-deref", "HEAD", new)
        return new


def git_failed(command: str, errors: bytes) -> ToolError:
    """Return the error for a git command that failed."""
    reason = " ".join(errors.decode("utf-8", "replace").split())[:500].removeprefix("fatal: ")
    message = f"git {command} failed: {reason.rstrip('.') or 'it printed nothing'}."
    return ToolError("invalid_request", message, suggestion="Start the agent without a worktree.")


def file_state(folder: str, path: str, limit: int = FILE_BYTES) -> FileState | None:
    """Return a file in a folder without following links, None if there is none; raise if a patch cannot hold it."""
    with _file(folder, path) as file:
        if file is None or isinstance(file, FileState):
            return file
        status = os.fstat(file.fileno())
        limit = min(limit, FILE_BYTES)
        if status.st_size > limit:
            raise ToolError("file_too_large", f"it has {status.st_size:,} bytes, and a patch has room for {limit:,}")
        return FileState(_mode(status), file.read(status.st_size))


def is_same(folder: str, path: str, entry: TreeEntry) -> bool:
    """Whether a file in a folder is the same as in a commit."""
    with _file(folder, path) as file:
        if file is None:
            return False
        if isinstance(file, FileState):
            return (file.mode, blob_id(file.data, len(entry.id))) == (entry.mode, entry.id)
        status = os.fstat(file.fileno())
        if (_mode(status), status.st_size) != (entry.mode, entry.size):
            return False
        digest = hasher(len(entry.id))
        digest.update(b"blob %d\0" % entry.size)
        while piece := file.read(_PIECE):
            digest.update(piece)
        return digest.hexdigest() == entry.id


def _mode(status: os.stat_result) -> str:
    return "100755" if status.st_mode & 0o111 else "100644"


@contextmanager
def _file(folder: str, path: str) -> Iterator[BinaryIO | FileState | None]:
    """Yield an open file, or a link as a state; None if there is neither. Links among the folders are not followed."""
    names = path.split("/")
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(_opened(folder, names[:-1]))
            status = os.lstat(names[-1], dir_fd=handle)
            if stat.S_ISLNK(status.st_mode):
                content: BinaryIO | FileState | None = FileState(
                    LINK, os.fsencode(os.readlink(names[-1], dir_fd=handle))
                )
            elif stat.S_ISDIR(status.st_mode):
                content = None
            elif not stat.S_ISREG(status.st_mode):
                raise ToolError("unsupported_file", "it is neither a file nor a link")
            else:
                content = stack.enter_context(open(os.open(names[-1], handles.FILE, dir_fd=handle), "rb"))
        except (FileNotFoundError, NotADirectoryError):
            content = None
        except OSError as error:
            # a link instead of a folder: the files below it are gone
            if error.errno != errno.ELOOP:
                raise ToolError("permission_denied", f"it cannot be read: {os.strerror(error.errno or 0)}") from error
            content = None
        yield content


@contextmanager
def _opened(folder: str, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Yield a handle of a folder below another; links among the folders are not followed."""
    with handles.Closing(os.open(folder, handles.FOLDER)) as start:
        handle = handles.open_folder("/".join(names), start, mode=0o777 if create else None)
    with handles.Closing(handle):
        yield handle
