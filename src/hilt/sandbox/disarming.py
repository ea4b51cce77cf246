"""Disarms what a confined program leaves in the workspace for the user's next git command, agent or editor.

A watch is created before a program starts. It records what git reads there (repositories.py), and what in it makes git
run a program. When the program has ended, git's ways are followed again, and new content that makes git run a program
is disabled by renaming it. So is new configuration of agents and editors. Folders are opened by handle and links are
not followed, so that nothing outside the workspace is touched. watches.py holds the watches of running programs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from typing import NamedTuple

from hilt.formats.digests import sha256
from hilt.formats.names import fold
from hilt.handles import Closing, exchange
from hilt.places import RealPaths
from hilt.sandbox import gitfiles
from hilt.sandbox.gitfiles import HARMLESS, GitVerdict
from hilt.sandbox.layers import LAYERS
from hilt.sandbox.profile import innermost, is_below
from hilt.sandbox.repositories import SEQUENCES, GitReader, Part, Waypoint, waypoints_above
from hilt.sandbox.sensitive import PathJudge, Search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import Findings, Judge, NameRules

MAX_NOTES = 20
_SHOWN_CHARACTERS = 200
_LISTED = 5  # new paths listed in one note
_MAX_ROUNDS = 50  # of making folders accessible that a program has locked
_MAX_TIMES = 3  # that one path may be disabled before a job is ended
_SEQUENCES = tuple(name for names in SEQUENCES.values() for name in names)

_NO_ROOTS: Mapping[str, str] = {}
_NONE: Mapping[str, int] = {}


class Guard(NamedTuple):
    """What the sandbox itself enforces.

    It `enforces` names: sensitive ones are hidden, and protected ones stay as they are. `empty` are folders in which
    the program can neither see nor create anything. `absent` are names that must stay missing but that the sandbox
    cannot prevent from being created. They are disabled when they appear.
    """

    enforces: bool = False
    empty: Collection[str] = ()
    absent: Collection[str] = ()


class StateBefore(NamedTuple):
    """The workspace before a program starts.

    `absent` are names that are disabled when they appear, `above` is where git begins outside the workspace, `gitdirs`
    are repositories that git could use, and `dangers` are digests of what was dangerous already: a timestamp would not
    show what a program writes through a mapping. `guarded` is configuration of agents and editors that existed, or that
    the sandbox prevents from being created; `inodes` are those of what existed, its time of change, and those of the
    folders around it. If it is `enforced`, the program could not change it, but rename a folder further up and make
    another one in its place: `parents` are the inodes of the folders around it by path. `closed` are hilt's own
    folders, with the private /tmp.
    """

    roots: list[str]
    writable: list[str]
    home: str
    skipped: list[str]
    absent: list[str]
    above: list[Waypoint]
    gitdirs: set[str]
    guarded: set[str]
    inodes: set[tuple[int, int, int]]
    enforced: bool
    dangers: set[str]
    parents: Mapping[str, int] = _NONE
    closed: Collection[str] = ()


def disarm_new(root: str, upper: str, absent: Iterable[str], names: NameRules, judge: Judge) -> tuple[str, ...]:
    """Disable what is dangerous in the upper layer of a workspace folder, before it is moved there.

    Only repositories that the program has created are in the upper layer as a whole. All others are checked in the
    workspace afterwards, like `.git` files, which may point to a folder there.
    """
    with suppress(OSError):  # the program may have closed it
        if not os.listdir(upper):
            return ()

    def in_root(path: str) -> str:
        return root.rstrip("/") + path[len(upper) :]

    findings = Search().find_all(upper, judge, frozenset())
    candidates = *findings.repositories, *findings.inner
    repositories = [path for path in candidates if os.path.isdir(path) and not os.path.lexists(in_root(path))]
    absent_paths = [
        upper + path[len(root.rstrip("/")) :] for path in absent if is_below(path, root) and not os.path.lexists(path)
    ]
    configuration = *findings.guarded, *findings.sensitive
    guarded = {path for path in configuration if os.path.lexists(in_root(path)) and not os.path.islink(in_root(path))}
    watch = GitWatch(
        StateBefore([upper], [upper], "/", [], absent_paths, [], set(), guarded, set(), enforced=False, dangers=set())
    )
    watch.check_ended(repositories)
    watch.put_aside(configuration, names, {upper: root})
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
        self._reader = GitReader(before.roots, before.home)
        self._skipped = frozenset(before.skipped)
        guarded = before.guarded.difference(before.absent) if before.enforced else ()
        self._fixed = frozenset((*before.skipped, *guarded))
        self._sequences: set[str] = set()  # rebases, picks and reverts that were in progress
        self._times: dict[str, int] = {}  # how often a path was disabled

    @classmethod
    def begin(cls, profile: Profile, findings: Findings, guard: Guard, known: Iterable[str] = ()) -> GitWatch:
        """Record what exists now; `known` are the dangers of another record, which may come back."""
        hidden = (*findings.sensitive, *findings.unreadable) if guard.enforces else findings.unreadable
        roots = [root for root in profile.roots if any(_overlap(root, path) for path in profile.writable)]
        home = os.path.realpath(profile.home)
        configuration = *findings.guarded, *findings.sensitive
        tops = (os.path.join(root, name) for root in profile.roots for name in profile.protected)
        watch = cls(
            StateBefore(
                roots=roots,
                writable=list(profile.writable),
                home=home,
                skipped=[*profile.closed, *hidden, *guard.empty],
                absent=[path for path in guard.absent if not os.path.lexists(path)],
                above=list(
                    dict.fromkeys(place for root in roots for place in waypoints_above(root, home, profile.git_paths))
                ),
                gitdirs=set(),
                guarded={
                    # the sandbox cannot keep a link from being replaced
                    *(path for path in configuration if not os.path.islink(path)),
                    *(path for path in tops if guard.enforces or os.path.lexists(path)),
                },
                inodes={(*_identity(path), _identity(os.path.dirname(path))[0]) for path in configuration},
                enforced=guard.enforces,
                dangers=set(known),
                parents={path: _identity(os.path.dirname(path))[0] for path in configuration},
                closed=profile.closed,
            )
        )
        watch._remember(watch._git_places(findings))
        return watch

    @property
    def notes(self) -> tuple[str, ...]:
        """What was disabled, and why."""
        omitted = (f"and {self._omitted} more",) if self._omitted else ()
        return (*self._notes, *omitted)

    def settle(self, search: Search, names: NameRules, *, is_over: bool = True) -> tuple[str, ...]:
        """Walk the workspace, check everything that git reads there, and return notes on what was disabled.

        The walk has no limits: it takes about as long as the program needed to create what is there. A rebase that the
        program has begun may contain steps that run something, so it is checked only when the program `is_over`. In one
        that was in progress before, new steps of that kind are disabled at once. New configuration of agents and
        editors is renamed at the end, or while the program is a lasting one: a program that unpacks files would fail.
        """
        note_count = len(self._notes)
        try:
            repositories: list[str] = []
            guarded: list[str] = []
            for root in self.before.roots:
                findings = search.find_all(root, PathJudge(root, names), self._skipped)
                for _ in range(_MAX_ROUNDS if is_over else 0):
                    if not self._unlock_all(findings.unreadable):
                        break
                    findings = search.find_all(root, PathJudge(root, names), self._skipped)
                repositories += self._git_places(findings)
                guarded += (*findings.guarded, *findings.sensitive)
            # first, because renamed folders may contain repositories
            self._check(repositories, is_over=is_over)
            if is_over or self.is_lasting:
                self.put_aside(guarded, names)
        except OSError as error:
            self._add_note(f"Some repositories could not be checked: {error.strerror}. Check them before you use git.")
        return tuple(self._notes[note_count:])

    def check_ended(self, repositories: Iterable[str]) -> None:
        """Check these repositories and the absent names after the program has ended."""
        try:
            self._check(repositories, is_over=True)
        except OSError as error:
            self._add_note(f"Some repositories could not be checked: {error.strerror}. Check them before you use git.")

    def _check(self, repositories: Iterable[str], *, is_over: bool) -> None:
        """Disable what is dangerous and new."""
        for path in self.before.absent:
            with self._reader.opened(os.path.dirname(path)) as folder:
                if folder is not None:
                    self._examine(Part(folder, os.path.basename(path), path, "absent"), is_over=is_over)
        for part in self._reader.parts(repositories, self.before.above):
            is_new_sequence = part.kind in _SEQUENCES and os.path.dirname(part.path) not in self._sequences
            if is_over or not is_new_sequence:
                self._examine(part, is_over=is_over)

    def put_aside(self, guarded: Iterable[str], names: NameRules, roots: Mapping[str, str] = _NO_ROOTS) -> None:
        """Rename configuration of agents, editors and users that the program has created and nobody has reviewed.

        `roots` are the workspace folders for which others are searched.
        """
        renamed: list[str] = []
        for path in guarded:
            root = self._reader.root(path) or ""
            relative = path[len(root.rstrip("/")) + 1 :]
            is_protected = names.protects(roots.get(root, root), relative)
            # a place of layers that another workspace has made meanwhile; one that a program makes is never used
            is_place = os.path.basename(path).startswith(LAYERS)
            if (
                (path in self.before.guarded and self._is_in_place(path))
                or is_place
                or not is_protected
                or not self._is_changeable(path)
            ):
                continue
            with self._reader.opened(os.path.dirname(path)) as folder:
                if folder is None:
                    continue
                part = Part(folder, os.path.basename(path), path, "guarded")
                try:
                    status = part.status()
                    # with the folder around it; the number of a removed inode alone would be used again
                    is_moved = (status.st_ino, status.st_ctime_ns, os.fstat(folder).st_ino) in self.before.inodes
                    if status.st_ctime_ns <= self._until and not is_moved:
                        renamed.append(f"{self._display_path(path)} to {_disable(part, None, 0)}")
                        self._count(part, "configuration of agents or editors")
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self.before.guarded.add(path)
                    self._add_note(
                        f"{self._display_path(path)} configures agents or editors that start there, and could not be "
                        f"renamed: {error.strerror}. Review it before you use one there."
                    )
        if renamed:
            listed = ", ".join(renamed[:_LISTED])
            omitted = f" and {len(renamed) - _LISTED} more like these" if len(renamed) > _LISTED else ""
            self._add_note(
                f"New configuration of programs, agents or editors was renamed: {listed}{omitted}. To use it, review "
                "it and rename it back."
            )

    # --- what to check

    def _git_places(self, findings: Findings) -> Iterator[str]:
        """Yield repositories, and links to where programs can write and no search looks: hilt's folders and `.git`."""
        yield from (*findings.repositories, *findings.inner)
        resolve = RealPaths()
        folders = *self.before.roots, *self.before.closed
        for link in findings.links:
            with suppress(OSError):
                target = resolve(os.path.join(os.path.dirname(link), os.readlink(link)))
                if innermost(target, folders) in self.before.closed or ".git" in map(fold, target.split("/")):
                    yield link

    def _remember(self, repositories: Iterable[str]) -> None:
        """Record what exists before the program starts.

        What git ignores as yet is not known to be harmless: tools could write it, and the program may complete it.
        """
        for part in self._reader.parts(repositories, self.before.above, completed_only=True):
            if part.kind in _SEQUENCES:
                self._sequences.add(os.path.dirname(part.path))
            with suppress(OSError):
                self._judge(part, part.status(), self._learn)
        self.before.gitdirs.update(self._reader.gitdirs)

    # --- judging

    def _examine(self, part: Part, *, is_over: bool) -> None:
        """Disable a file if it is dangerous."""
        if not self._is_changeable(part.path):
            return
        try:
            status = part.status()
            if status.st_ctime_ns > self._until:
                return
            if not is_over and part.kind != "absent" and stat.S_ISREG(status.st_mode) and not status.st_size:
                return  # it runs nothing, and may be a copy in progress
            verdict = self._judge(part, status, self._is_known)
            if verdict.dangers:
                self._note(part, verdict, _disable(part, verdict.cleaned, status.st_mode))
                self._count(part, ", ".join(verdict.dangers))
        except FileNotFoundError:
            return
        except OSError as error:
            self._add_note(
                f"{self._display_path(part.path)} may make the next git command there run a program, and could not be "
                f"disabled: {error.strerror}. Remove it before you use git there."
            )

    def _count(self, part: Part, what: str) -> None:
        """Record that something was disabled; a git process that was writing it may restore it unintentionally."""
        times = self._times[part.path] = self._times.get(part.path, 0) + 1
        if times >= _MAX_TIMES:
            path = self._display_path(part.path)
            self.repeated = f"it wrote {path} again after it had been disabled ({_clean(what)})"

    def _judge(self, part: Part, status: os.stat_result, remembers: Callable[[str, str], bool]) -> GitVerdict:
        def is_known(entry: str) -> bool:
            # the user's own hook stays harmless in a new worktree
            return remembers(part.name if part.kind == "hook" else part.path, entry)

        mode = status.st_mode
        if part.kind == "absent":
            return GitVerdict(("configuration of hilt or another agent",))
        if stat.S_ISLNK(mode):
            is_old = remembers(part.path, os.readlink(part.name, dir_fd=part.folder))
            return HARMLESS if is_old else GitVerdict(("a link",))
        if stat.S_ISDIR(mode) or (part.kind == "hook" and not mode & 0o111):
            return HARMLESS
        data = part.read()
        if data is None:
            return HARMLESS if is_known(f"{mode:o}") else GitVerdict(("unreadable content",))
        return self._judge_data(part, data, is_known)

    def _judge_data(self, part: Part, data: bytes, is_known: Callable[[str], bool]) -> GitVerdict:
        def resolve(text: str) -> str | None:
            return self._reader.resolve(part.base, text)

        match part.kind:
            case "gitfile":
                text = gitfiles.read_gitdir(data)
                verdict = gitfiles.judge_whole(data, is_known, "another repository")
                if text is None or (text == text.strip() and self._is_new_repository(resolve(text))):
                    return HARMLESS
                return verdict
            case "config":
                return gitfiles.judge_config(data, is_known, lambda value: self._is_plain(part.base, value))
            case "commondir":
                in_worktree = os.path.basename(os.path.dirname(part.base)) == "worktrees"
                return gitfiles.judge_commondir(data, is_known, in_worktree=in_worktree)
            case "alternates":
                return gitfiles.judge_alternates(data, is_known, lambda line: self._may_lend(line, resolve(line)))
            case "git-rebase-todo" | "todo":
                return gitfiles.judge_todo(data, is_known)
            case "strategy":
                return gitfiles.judge_strategy(data, is_known)
            case "opts":
                return gitfiles.judge_options(data, is_known)
        return gitfiles.judge_whole(data, is_known, "a hook")

    def _is_new_repository(self, path: str | None) -> bool:
        """Whether a `.git` file may lead to a path: a repository that did not exist, so all of it is checked."""
        return path is not None and path not in self.before.gitdirs and self._is_changeable(path)

    def _is_plain(self, base: str, text: str) -> bool:
        """Whether a path is in the workspace and has no links."""
        path = self._reader.resolve(base, text)
        return (
            path is not None
            and self._reader.root(path) is not None
            and path == os.path.normpath(f"{base}/{text}" if text[:1] != "/" else text)
        )

    def _may_lend(self, line: str, path: str | None) -> bool:
        """Whether a repository may take objects from a path: a checked one, or one that no program can write."""
        if line[0] == '"' or path is None:
            return False
        return self._is_changeable(path) or not any(
            is_below(path, other) for other in (*self.before.roots, *self._skipped)
        )

    def _is_known(self, path: str, entry: str) -> bool:
        return _digest(path, entry) in self.before.dangers

    def _learn(self, path: str, entry: str) -> bool:
        self.before.dangers.add(_digest(path, entry))
        return True

    # --- places

    def _is_changeable(self, path: str) -> bool:
        """Whether the program could have written a path; nothing else is touched, whatever leads there."""
        if not any(is_below(path, folder) for folder in self.before.writable):
            return False
        while path not in self._fixed or not self._is_in_place(path):
            outer = os.path.dirname(path)
            if outer == path:
                return True
            path = outer
        return False

    def _is_in_place(self, path: str) -> bool:
        """Whether the folder around what existed is still the same; the program may have put another one there."""
        parent = self.before.parents.get(path)
        return parent is None or parent == _identity(os.path.dirname(path))[0]

    def _unlock_all(self, paths: Iterable[str]) -> bool:
        """Make folders accessible that the program has closed; return whether any was."""
        unlocked = False
        for path in paths:
            with self._reader.opened(os.path.dirname(path)) as folder, suppress(OSError):
                if folder is not None and _unlock(folder, os.path.basename(path)):
                    unlocked = True
                    shown_path = self._display_path(path)
                    self._add_note(f"{shown_path} was not accessible to its owner; it was made accessible to check it.")
        return unlocked

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
        root = self._reader.root(path)
        is_first = root is not None and root == self.before.roots[0] and path != root
        return _clean(path[len((root or "").rstrip("/")) + 1 :] if is_first else path)


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_ctime_ns


def _overlap(path: str, other: str) -> bool:
    return is_below(path, other) or is_below(other, path)


def _disable(part: Part, cleaned: bytes | None, mode: int) -> str:
    """Rename a file, put its cleaned content in its place, if any, and return its new name."""
    suffix = os.urandom(4).hex()
    new_name, draft = f"{part.name[:200]}.disabled-{suffix}", f"{part.name[:200]}.new-{suffix}"
    with _changeable(part.folder):
        if cleaned is None:
            os.rename(part.name, new_name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
            with suppress(OSError):  # a link becomes a file: somebody may look into what it leads to
                _write(part.folder, draft, os.fsencode(os.readlink(new_name, dir_fd=part.folder)), 0o600)
                os.rename(draft, new_name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
            return new_name
        _write(part.folder, draft, cleaned, mode & 0o666)
        try:
            # atomically, because a git process that starts in between fails if it finds no file
            if exchange(part.folder, draft, part.name):
                os.rename(draft, new_name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
            else:
                os.rename(part.name, new_name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
                os.rename(draft, part.name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=part.folder)
            raise
    return new_name


def _write(folder: int, name: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        file.write(data)


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
    with Closing(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as fd:
        os.chmod(f"/proc/self/fd/{fd}", mode | 0o700)
    return True


def _digest(path: str, entry: str) -> str:
    return sha256(f"{path}\0{entry}".encode("utf-8", "surrogateescape")).hex()[:32]


def _clean(text: str) -> str:
    """Make a name safe to print: programs choose names, and terminals interpret control characters."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= _SHOWN_CHARACTERS else f"…{printable[-_SHOWN_CHARACTERS:]}"
