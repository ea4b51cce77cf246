"""Disarms what a confined program leaves in the workspace for the user's next git command to run.

A watch is created before a program starts. It records which repositories exist, and what in them makes git run a
program. When the program has ended, every repository is checked, and new content that makes git run a program is
disabled by renaming it. Paths that the sandbox keeps read-only are not checked. Folders are opened by handle and links
are not followed, so that nothing outside the workspace is touched. running.py holds the watches of running programs.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic, sleep, time_ns
from typing import NamedTuple

from hilt.formats.digests import sha256
from hilt.sandbox import gitfiles
from hilt.sandbox.gitfiles import HARMLESS, GitVerdict
from hilt.sandbox.handles import exchange, open_below
from hilt.sandbox.profile import is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import Findings, Search

_MAX_BYTES = 16 << 20
MAX_NOTES = 20
_SHOWN_CHARACTERS = 200
_LISTED = 5  # new paths listed in one note
_SETTLED_NS = 100_000_000  # a later change may get the same timestamp as one that is this recent
_MAX_ROUNDS = 50  # of making folders accessible that a program has locked
_MAX_BURSTS = 3  # in which one path may be disabled, for different reasons or while git was writing it
_MAX_WAITS = 5  # per check of all repositories, for git processes that are writing
_WAIT_SECONDS = 0.001
_BURST_SECONDS = 0.1  # a program may change several settings in a row

_FILES = ("config", "config.worktree", "commondir")
_FOLDERS = ("hooks", "rebase-merge", "sequencer", "worktrees", "modules")
_IN_SEQUENCES = {"rebase-merge": ("git-rebase-todo", "strategy"), "sequencer": ("todo", "opts")}
_SEQUENCES = tuple(name for names in _IN_SEQUENCES.values() for name in names)

_UNREACHABLE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENAMETOOLONG)

Stamp = tuple[int, int, int]


class Part(NamedTuple):
    """Something that may make git run a program: its open folder, its name there, its path, and its kind."""

    folder: int
    name: str
    path: str
    kind: str


class GitFolder(NamedTuple):
    """A folder in a repository, and the relevant names in it; empty means all."""

    repository: str
    names: Collection[str]


class Guard(NamedTuple):
    """What the sandbox itself enforces: paths that it keeps unchanged, and whether it hides sensitive ones.

    `empty` are folders in which the program can neither see nor create anything. `absent` are names that must stay
    missing but that the sandbox cannot prevent from being created. They are disabled when they appear.
    """

    kept: Collection[str] = ()
    hides: bool = False
    empty: Collection[str] = ()
    absent: Collection[str] = ()


class StateBefore(NamedTuple):
    """The workspace before a program starts, in a form that JSON can store.

    `kept` are paths that the program cannot change, `absent` names that are disabled when they appear, `stamps` show
    whether a file is unchanged, and `dangers` are digests of what was dangerous already. `guarded` is configuration
    of agents and editors that existed, or that the sandbox prevents from being created.
    """

    roots: list[str]
    writable: list[str]
    skipped: list[str]
    kept: list[str]
    absent: list[str]
    repositories: list[str]
    guarded: list[str]
    stamps: dict[str, Stamp]
    dangers: list[str]


class _Replaced(Exception):
    """Another process is replacing a file, or has replaced it, while it is examined."""


class _Burst(NamedTuple):
    """Why a path was disabled, possibly several times in quick succession."""

    began: float
    dangers: set[str]


def disarm_new(root: str, upper: str, absent: Iterable[str], is_sensitive: Callable[[str], bool]) -> tuple[str, ...]:
    """Disable what is dangerous in the upper layer of a workspace folder, before it is moved there.

    Only repositories that the program has created are in the upper layer as a whole. All others are checked in the
    workspace afterwards, like `.git` files, which may point to a folder there.
    """
    from hilt.sandbox.sensitive import Search

    with suppress(OSError):  # the program may have closed it
        if not os.listdir(upper):
            return ()

    def in_upper(path: str) -> str:
        return upper + path[len(root.rstrip("/")) :]

    findings = Search().find_all(upper, is_sensitive, frozenset())
    new_repositories = [
        path
        for path in findings.repositories
        if os.path.isdir(path) and not os.path.lexists(root.rstrip("/") + path[len(upper) :])
    ]
    absent_paths = [in_upper(path) for path in absent if is_below(path, root) and not os.path.lexists(path)]
    watch = GitWatch(StateBefore([upper], [upper], [], [], absent_paths, [], [], {}, []))
    watch.check_ended(new_repositories)
    return watch.notes


class GitWatch:
    """Records what existed before a program, and disables what is dangerous and new."""

    def __init__(self, before: StateBefore, until: float = inf) -> None:
        """`until`: time in nanoseconds since 1970 after which the program cannot have changed anything."""
        self.before = before
        self._until = until
        self.is_lasting = False
        self.repeated = ""  # what the program has written again after it was disabled
        self._notes: list[str] = []
        self._omitted = 0
        self._skipped = frozenset(before.skipped)
        self._kept = frozenset(before.kept)
        self._repositories = frozenset(before.repositories)
        self._stamps = dict(before.stamps)
        self._dangers = set(before.dangers)
        self._guarded = set(before.guarded)
        self._sequences: set[str] = set()  # rebases, picks and reverts that were in progress
        self._disabled: dict[str, list[_Burst]] = {}  # by path
        self._locks: set[Stamp] = set()  # of git processes that were writing something when it was disabled
        self._contested: set[str] = set()  # paths that others replaced while they were disabled
        self._waits = 0  # remaining in this check
        self.git_folders: dict[str, GitFolder] = {}  # opened by the last check

    @classmethod
    def begin(cls, profile: Profile, findings: Findings, guard: Guard) -> GitWatch:
        """Record what exists now."""
        hidden = (*findings.sensitive, *findings.unreadable) if guard.hides else findings.unreadable
        watch = cls(
            StateBefore(
                roots=[root for root in profile.roots if any(_overlap(root, path) for path in profile.writable)],
                writable=list(profile.writable),
                skipped=[*profile.closed, *hidden, *guard.empty],
                kept=list(guard.kept),
                absent=[path for path in guard.absent if not os.path.lexists(path)],
                repositories=list(findings.repositories),
                guarded=[
                    *findings.guarded,
                    *(os.path.join(root, name) for root in profile.roots for name in profile.protected),
                ],
                stamps={},
                dangers=[],
            )
        )
        watch._remember(findings.repositories)
        return watch

    @property
    def notes(self) -> tuple[str, ...]:
        """What was disabled, and why."""
        omitted = (f"and {self._omitted} more",) if self._omitted else ()
        return (*self._notes, *omitted)

    def _check(self, repositories: Iterable[str], *, is_over: bool) -> None:
        """Disable what is dangerous and new."""
        self._waits = _MAX_WAITS
        for path in self.before.absent:
            with self._opened(os.path.dirname(path)) as folder:
                if folder is not None:
                    self._examine(Part(folder, os.path.basename(path), path, "absent"), is_over=is_over)
        for part in self._parts(repositories):
            is_new_sequence = part.kind in _SEQUENCES and os.path.dirname(part.path) not in self._sequences
            if is_over or not is_new_sequence:
                self._examine(part, is_over=is_over)

    def settle(self, search: Search, is_sensitive: Callable[[str], bool], *, is_over: bool = True) -> tuple[str, ...]:
        """Walk the workspace, check every repository in it, and return notes on what was disabled.

        A rebase that the program has begun may contain steps that run something, so it is checked only when the program
        `is_over`. In one that was in progress before, new steps of that kind are disabled at once.
        """
        note_count = len(self._notes)
        self.git_folders.clear()
        try:
            for root in self.before.roots:
                findings = search.find_all(root, is_sensitive, self._skipped)
                for _ in range(_MAX_ROUNDS if is_over else 0):
                    if not self._unlock_all(findings.unreadable):
                        break
                    findings = search.find_all(root, is_sensitive, self._skipped)
                self._check(findings.repositories, is_over=is_over)
                self._report_new(findings.guarded)
        except OSError as error:
            self._add_note(f"Some repositories could not be checked: {error.strerror}. Check them before you use git.")
        return tuple(self._notes[note_count:])

    def check(self, paths: Collection[str]) -> tuple[str, ...]:
        """Check these repositories and absent names while the program runs; return notes on what was disabled."""
        note_count = len(self._notes)
        self.git_folders.clear()
        with suppress(OSError):  # `settle` reports it
            self._check([path for path in paths if path not in self.before.absent], is_over=False)
        return tuple(self._notes[note_count:])

    def check_ended(self, paths: Collection[str]) -> None:
        """Check these repositories and the absent names after the program has ended."""
        try:
            self._check(paths, is_over=True)
        except OSError as error:
            self._add_note(f"Some repositories could not be checked: {error.strerror}. Check them before you use git.")

    def _report_new(self, guarded: Iterable[str]) -> None:
        """Report configuration that the program has created and nobody has reviewed."""
        new = [path for path in guarded if path not in self._guarded]
        self._guarded.update(new)
        if new:
            listed = ", ".join(map(self._display_path, new[:_LISTED]))
            omitted = f" and {len(new) - _LISTED} more" if len(new) > _LISTED else ""
            self._add_note(
                f"New agent or editor configuration: {listed}{omitted}. "
                "Review it before you use an agent or editor there."
            )

    # --- what to check

    def _remember(self, repositories: Iterable[str]) -> None:
        """Record what exists before the program starts."""
        for part in self._parts(repositories):
            if part.kind in _SEQUENCES:
                self._sequences.add(os.path.dirname(part.path))
            if part.path in self._kept and part.kind != "gitfile":
                continue
            with suppress(OSError):
                status = _status(part)
                self._judge(part, status, self._learn)
                self._trust(part, status)
        self.before.stamps.update(self._stamps)
        self.before.dangers.extend(self._dangers)

    def _parts(self, repositories: Iterable[str]) -> Iterator[Part]:
        """Yield what may be dangerous in repositories, one open folder at a time."""
        seen: set[tuple[str, str]] = set()
        for repository in repositories:
            if self._is_writable(repository):
                yield from self._parts_of(repository, seen)

    def _parts_of(self, repository: str, seen: set[tuple[str, str]]) -> Iterator[Part]:
        pending = [(repository, "repository")]
        while pending:
            path, role = pending.pop()
            if (path, role) in seen or (path in self._kept and role != "repository"):
                continue
            seen.add((path, role))
            if role == "repository" and os.path.basename(path).lower() == ".git":
                with self._opened(os.path.dirname(path)) as folder:
                    if folder is not None:
                        yield from self._entrance(folder, path, pending)
                continue
            with self._opened(path) as folder:
                if folder is not None:
                    self.git_folders[path] = GitFolder(repository, _names_that_matter(role))
                    yield from self._inside(folder, path, role, pending)
            if folder is None and role != "repository":
                with self._opened(os.path.dirname(path)) as parent:
                    if parent is not None:
                        yield Part(parent, os.path.basename(path), path, "closed")
                # the caller may have made it accessible
                with self._opened(path) as folder:
                    if folder is not None:
                        yield from self._inside(folder, path, role, pending)

    def _entrance(self, folder: int, path: str, pending: list[tuple[str, str]]) -> Iterator[Part]:
        """Yield what is at a `.git`, and add the folder that it leads to."""
        part = Part(folder, os.path.basename(path), path, "link")
        try:
            mode = _status(part).st_mode
            if stat.S_ISDIR(mode):
                pending.append((path, "gitdir"))
                return
            if stat.S_ISREG(mode):
                part = part._replace(kind="gitfile")
                if target := self._target(path, _read(part) or b""):
                    pending.append((target, "gitdir"))
        except OSError:
            return
        yield part

    def _inside(self, folder: int, path: str, role: str, pending: list[tuple[str, str]]) -> Iterator[Part]:
        try:
            names = os.listdir(folder)
        except OSError:
            return
        if role == "worktrees":
            pending += [(f"{path}/{name}", "gitdir") for name in names]
        elif role == "modules":
            is_gitdir = "HEAD" in names
            pending += [(path, "gitdir")] if is_gitdir else [(f"{path}/{name}", "modules") for name in names]
        elif role == "hooks" or role in _IN_SEQUENCES:
            for name in names:
                folded = name.lower()
                if role == "hooks" or folded in _IN_SEQUENCES[role]:
                    yield Part(folder, name, f"{path}/{name}", "hook" if role == "hooks" else folded)
        else:
            for name in names:
                folded = name.lower()
                if folded in _FILES:
                    yield Part(folder, name, f"{path}/{name}", folded)
                elif folded in _FOLDERS:
                    pending.append((f"{path}/{name}", folded))

    # --- judging

    def _examine(self, part: Part, *, is_over: bool) -> None:
        if part.path in self._kept and part.kind != "gitfile":
            return
        while True:
            try:
                self._try_examine(part, is_over=is_over, is_last=not self._waits)
            except _Replaced:
                self._waits -= 1
                sleep(_WAIT_SECONDS)
            else:
                return

    def _try_examine(self, part: Part, *, is_over: bool, is_last: bool) -> None:
        """Disable a file if it is dangerous; raise if others are replacing it, unless this is the last attempt."""
        try:
            status = _status(part)
        except OSError:
            return
        is_same = part.kind != "gitfile" and self._stamps.get(part.path) == _stamp(status)
        if is_same or status.st_ctime_ns > self._until:
            return
        if not is_over and part.kind != "absent" and stat.S_ISREG(status.st_mode) and not status.st_size:
            return  # it runs nothing, and may be a copy in progress
        try:
            verdict = self._judge(part, status, self._is_known)
            if not verdict.dangers:
                self._trust(part, status)
                return
            if part.kind == "closed" and stat.S_ISDIR(status.st_mode):
                if is_over:
                    self._unlock(part.folder, part.name, part.path)
                return
            locks = _locks(part)
            new_name, is_contested = _disable(part, verdict.cleaned, status, is_last=is_last)
            self._note(part, verdict, new_name)
            self._count(part, frozenset(verdict.dangers), locks | _locks(part), is_contested=is_contested)
        except FileNotFoundError:
            return
        except OSError as error:
            self._add_note(
                f"{self._display_path(part.path)} may make the next git command there run a program, and could not be "
                f"disabled: {error.strerror}. Remove it before you use git there."
            )

    def _count(self, part: Part, dangers: frozenset[str], locks: set[Stamp], *, is_contested: bool) -> None:
        """Record that something was disabled, and whether the program has written it again.

        A git process that was writing the file at that moment restores it unintentionally, but only once per lock. If
        it took and released its lock in between, it has replaced the file; that counts once per path.
        """
        is_written = not locks <= self._locks or (is_contested and part.path not in self._contested)
        self._locks |= locks
        if is_contested:
            self._contested.add(part.path)
        bursts = self._disabled.setdefault(part.path, [])
        now = monotonic()
        is_new_burst = not bursts or now - bursts[-1].began > _BURST_SECONDS
        if any(dangers & burst.dangers for burst in bursts) or (is_new_burst and len(bursts) >= _MAX_BURSTS):
            what = _clean(", ".join(sorted(dangers)))
            self.repeated = f"it wrote {self._display_path(part.path)} again after it had been disabled ({what})"
        if is_new_burst:
            bursts.append(_Burst(now, set()))
        bursts[-1].dangers.update(() if is_written else dangers)

    def _judge(self, part: Part, status: os.stat_result, remembers: Callable[[str, str], bool]) -> GitVerdict:
        def is_known(entry: str) -> bool:
            return remembers(part.path, entry)

        if part.kind == "absent":
            return GitVerdict(("configuration of hilt or another agent",))
        mode = status.st_mode
        if part.kind == "closed" or stat.S_ISLNK(mode):
            if part.kind == "hook" and not gitfiles.is_hook(part.name, 0o111):
                return HARMLESS
            if part.kind == "closed" and not (stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                return HARMLESS  # a file where git expects a folder
            entry = os.readlink(part.name, dir_fd=part.folder) if stat.S_ISLNK(mode) else str(stat.S_IMODE(mode))
            return (
                HARMLESS
                if is_known(entry)
                else GitVerdict(("a link" if stat.S_ISLNK(mode) else "an inaccessible folder",))
            )
        if stat.S_ISDIR(mode) or (part.kind == "hook" and not gitfiles.is_hook(part.name, mode)):
            return HARMLESS
        data = _read(part)
        if data is None:
            return HARMLESS if is_known(f"{mode:o}") else GitVerdict(("unreadable content",))
        return self._judge_data(part, data, is_known)

    def _judge_data(self, part: Part, data: bytes, is_known: Callable[[str], bool]) -> GitVerdict:
        folder = os.path.dirname(part.path)
        match part.kind:
            case "gitfile":
                target = self._target(part.path, data)
                if gitfiles.read_gitdir(data) is None or (target and target not in self._repositories):
                    return HARMLESS
                return gitfiles.judge_whole(data, is_known, "another repository")
            case "config" | "config.worktree":
                return gitfiles.judge_config(data, is_known, lambda value: self._resolve(folder, value) is not None)
            case "commondir":
                in_worktree = os.path.basename(os.path.dirname(folder)) == "worktrees"
                return gitfiles.judge_commondir(data, is_known, in_worktree=in_worktree)
            case "git-rebase-todo" | "todo":
                return gitfiles.judge_todo(data, is_known)
            case "strategy":
                return gitfiles.judge_strategy(data, is_known)
            case "opts":
                return gitfiles.judge_options(data, is_known)
        return gitfiles.judge_whole(data, is_known, "a hook")

    def _is_known(self, path: str, entry: str) -> bool:
        return _digest(path, entry) in self._dangers

    def _learn(self, path: str, entry: str) -> bool:
        self._dangers.add(_digest(path, entry))
        return True

    def _trust(self, part: Part, status: os.stat_result) -> None:
        """Skip a file in the next check, unless a later change could have the same timestamp."""
        if time_ns() - status.st_ctime_ns > _SETTLED_NS:
            self._stamps[part.path] = _stamp(status)

    # --- places

    def _is_writable(self, path: str) -> bool:
        return any(_overlap(path, folder) for folder in self.before.writable)

    def _root(self, path: str) -> str | None:
        """The outermost root around a path: no program inside can replace a folder above it."""
        return min((root for root in self.before.roots if is_below(path, root)), key=len, default=None)

    @contextmanager
    def _opened(self, path: str) -> Iterator[int | None]:
        """Yield an open folder; None when it is missing or inaccessible, or a link is on its path."""
        fd = None
        root = self._root(path)
        if root is not None:
            try:
                fd = open_below(root, path[len(root.rstrip("/")) + 1 :])
            except OSError as error:
                if error.errno not in _UNREACHABLE:
                    raise
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def _target(self, path: str, data: bytes) -> str | None:
        """Return the workspace folder that a `.git` file points to; None for any other, or through a link."""
        text = gitfiles.read_gitdir(data)
        return self._resolve(os.path.dirname(path), text) if text else None

    def _resolve(self, folder: str, text: str) -> str | None:
        """Resolve a path relative to a folder; None when it is outside the workspace or a link is on the way."""
        names = text.split("/")
        while names and names[0] in (".", ".."):
            folder = os.path.dirname(folder) if names.pop(0) == ".." else folder
        path = text if text.startswith("/") else "/".join((folder, *filter(None, names)))
        root = self._root(path)
        if root is None or ".." in names or os.path.normpath(path) != path.rstrip("/"):
            return None
        path = path.rstrip("/")
        prefix = root.rstrip("/")
        for name in filter(None, path[len(prefix) + 1 :].split("/")):
            prefix += "/" + name
            try:
                if not stat.S_ISDIR(os.lstat(prefix).st_mode):
                    return None
            except (FileNotFoundError, PermissionError):
                break  # git cannot resolve it further either
        return path

    def _unlock_all(self, paths: Iterable[str]) -> bool:
        """Make folders accessible that the program has closed; return whether any was."""
        unlocked = False
        for path in paths:
            with self._opened(os.path.dirname(path)) as folder, suppress(OSError):
                if folder is not None:
                    unlocked |= self._unlock(folder, os.path.basename(path), path)
        return unlocked

    def _unlock(self, folder: int, name: str, path: str) -> bool:
        is_unlocked = _unlock(folder, name)
        if is_unlocked:
            shown_path = self._display_path(path)
            self._add_note(f"{shown_path} was not accessible to its owner; it was made accessible to check it.")
        return is_unlocked

    # --- notes

    def _note(self, part: Part, verdict: GitVerdict, new_name: str) -> None:
        path = self._display_path(part.path)
        if part.kind == "absent":
            self._add_note(f"{path} would configure the next agent that starts here; renamed to {new_name}.")
            return
        what = _clean(", ".join(verdict.dangers))
        if verdict.cleaned is None:
            self._add_note(
                f"{path} would make the next git command there run a program ({what}); renamed to {new_name}."
            )
        else:
            self._add_note(
                f"{path} would make the next git command there run a program: {what} removed; "
                f"the original is {new_name}."
            )

    def _add_note(self, note: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(note)
        else:
            self._omitted += 1

    def _display_path(self, path: str) -> str:
        root = self._root(path)
        is_first = root is not None and root == self.before.roots[0] and path != root
        return _clean(path[len((root or "").rstrip("/")) + 1 :] if is_first else path)


def _names_that_matter(role: str) -> tuple[str, ...]:
    return _IN_SEQUENCES.get(role) or ((*_FILES, *_FOLDERS) if role in ("repository", "gitdir") else ())


def _overlap(path: str, other: str) -> bool:
    return is_below(path, other) or is_below(other, path)


def _status(part: Part) -> os.stat_result:
    return os.stat(part.name, dir_fd=part.folder, follow_symlinks=False)


def _locks(part: Part) -> set[Stamp]:
    """Return the lock of a git process that is writing the file, if any."""
    try:
        return {_stamp(os.stat(f"{part.name}.lock", dir_fd=part.folder, follow_symlinks=False))}
    except OSError:
        return set()


def _stamp(status: os.stat_result) -> Stamp:
    # a program can set mtime, but not ctime
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _read(part: Part) -> bytes | None:
    """Return the contents of a file; None when it is not a regular file, too long, or unreadable."""
    try:
        fd = os.open(part.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=part.folder)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = file.read(_MAX_BYTES + 1)
    return data if len(data) <= _MAX_BYTES else None


def _disable(part: Part, cleaned: bytes | None, examined: os.stat_result, *, is_last: bool) -> tuple[str, bool]:
    """Rename a file and put its cleaned content in its place; return its new name, and whether others replaced it, too.

    If they did so after it was examined, the cleaned content lacks their changes: leave the file and raise, unless
    `is_last`.
    """
    suffix = os.urandom(4).hex()
    new_name, draft = f"{part.name[:200]}.disabled-{suffix}", f"{part.name[:200]}.new-{suffix}"
    cleaned_inode = 0  # the inode of the file with the cleaned content
    with _changeable(part.folder):
        if cleaned is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(draft, flags, examined.st_mode & 0o666, dir_fd=part.folder), "wb") as file:
                file.write(cleaned)
                cleaned_inode = os.fstat(file.fileno()).st_ino
        try:
            if not is_last and (_locks(part) or _version(_status(part)) != _version(examined)):
                raise _Replaced
            # atomically, because a git process that starts in between fails if it finds no file
            is_swapped = cleaned is not None and exchange(part.folder, draft, part.name)
            if is_swapped and not is_last and _version(_status(part._replace(name=draft))) != _version(examined):
                exchange(part.folder, draft, part.name)
                raise _Replaced
            os.rename(draft if is_swapped else part.name, new_name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
            if cleaned is not None and not is_swapped:
                os.rename(draft, part.name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
        finally:
            if cleaned_inode and _inode(part.folder, draft) == cleaned_inode:
                os.unlink(draft, dir_fd=part.folder)
    return new_name, (_inode(part.folder, new_name), _inode(part.folder, part.name)) != (examined.st_ino, cleaned_inode)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    """Return what distinguishes a file from its replacement; not its ctime, which renaming changes."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _inode(folder: int, name: str) -> int:
    """Return the inode of a name; 0 when it is missing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    except OSError:
        return 0


@contextmanager
def _changeable(folder: int) -> Iterator[None]:
    """Make a folder temporarily writable, whatever mode a program has given it."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    is_closed = mode & 0o300 != 0o300
    if is_closed:
        os.fchmod(folder, mode | 0o300)
    try:
        yield
    finally:
        if is_closed:
            os.fchmod(folder, mode)


def _unlock(folder: int, name: str) -> bool:
    """Give a folder's owner all permissions; False when the owner had them already."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if mode & 0o700 == 0o700:
        return False
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode | 0o700, dir_fd=folder, follow_symlinks=False)
        return True
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode | 0o700)
    finally:
        os.close(fd)
    return True


def _digest(path: str, entry: str) -> str:
    return sha256(f"{path}\0{entry}".encode("utf-8", "surrogateescape")).hex()[:32]


def _clean(text: str) -> str:
    """Make a name safe to print: programs choose names, and terminals interpret control characters."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= _SHOWN_CHARACTERS else f"…{printable[-_SHOWN_CHARACTERS:]}"
