"""The rule files of one workspace: loaded according to their trust, and reloaded when they change."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

from hilt import loaders
from hilt.config import RuntimePaths
from hilt.formats.digests import sha256
from hilt.loaders import ProjectFile
from hilt.places import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.policy.rule_forms import Names
    from hilt.policy.rules import RuleSet
    from hilt.policy.subject import Subject

(RULES,) = loaders.paths_of("rules", "config")
_, JCLI_RULES = loaders.paths_of("rules")


class Rulebook:
    """The active rules of one workspace. Not thread-safe: callers hold a lock."""

    def __init__(
        self,
        place: RuntimePaths,
        always: Sequence[str],
        names: Callable[[], Names],
        is_trusted: Callable[[ProjectFile, bytes], bool],
        trust_stamp: Callable[[], object],
    ) -> None:
        """`always` are the rules of the setting alwaysAllow; the result of `trust_stamp` changes with trust."""
        self._place = place
        self._always = always
        self._names = names
        self._is_trusted = is_trusted
        self._trust_stamp = trust_stamp
        self._stamps: tuple[object, ...] | None = None
        self._present: list[tuple[ProjectFile, tuple[int, ...]]] = []
        self._personal = ProjectFile("rules", place.config, RULES)
        nearest = (self._personal, *_rule_files(place.root))
        self._nearest = {file.full: file for file in nearest}  # every call looks for them
        self.rulesets: tuple[RuleSet, ...] = ()
        self.has_files = False
        self.is_strict = False
        self.has_project_files = False

    def files(self) -> list[ProjectFile]:
        """Return the possible rule files, the personal one first."""
        folders = upward(self._place.root, self._place.home)
        return [self._personal, *(file for folder in folders for file in _rule_files(folder))]

    def may_have_changed(self) -> bool:
        """Whether files differ from those of the last refresh; new ones count in the nearest folders only."""
        if self._stamps is None:
            return True
        present = self._present
        if any(status(file.full, follow=file is self._personal) != stamp for file, stamp in present):
            return True
        known_files = [file for file, _ in present]
        return any(os.access(path, os.F_OK) and file not in known_files for path, file in self._nearest.items())

    def refresh(self) -> None:
        """Reload the files if they or trust in them have changed."""
        personal, *others = self.files()
        candidates = [(personal, status(personal.full, follow=True)), *((file, status(file.full)) for file in others)]
        present = [(file, stamp) for file, stamp in candidates if stamp is not None]
        needs_trust = any(file is not personal for file, _ in present)
        self._present = present
        stamps = (tuple(present), self._trust_stamp() if needs_trust else None)
        if stamps == self._stamps:
            return
        self.rulesets = tuple(self._read_all([file for file, _ in present]))
        self.has_files, self.has_project_files = bool(present), needs_trust
        self.is_strict = any(rules.strict for rules in self.rulesets)
        self._stamps = stamps if all(is_settled(stamp) for _, stamp in present) else None

    def notes(self) -> list[str]:
        """Return messages about invalid rules and untrusted files."""
        messages: list[str] = []
        for rules in self.rulesets:
            messages += [f"A rule is invalid, so calls need approval: {problem.reason}" for problem in rules.problems]
            if not rules.trusted:
                messages.append(f"{rules.file} is not trusted: its deny and ask rules apply, its allow rules do not.")
        return messages

    def would_allow(self, subject: Subject) -> str | None:
        """Return which rule would allow a call if its file were trusted, and how to trust it; None if no rule would."""
        if all(rules.trusted for rules in self.rulesets):
            return None
        from hilt.policy import rules as policy

        ruling = policy.decide([rules._replace(trusted=True) for rules in self.rulesets], subject)
        if ruling is None or ruling.verdict != "allow" or ruling.rule is None:
            return None
        return f"{ruling.rule.cited} would allow it, but the file is not trusted ({command('trust')})"

    def _read_all(self, files: Sequence[ProjectFile]) -> Iterator[RuleSet]:
        if self._always:
            from hilt.policy import rules

            yield rules.listed("allow", self._always, "alwaysAllow", self._names(), home=self._place.home)
        for file in files:
            yield self._read(file)

    def _read(self, file: ProjectFile) -> RuleSet:
        from hilt.policy import rules

        personal = file is self._personal
        label = RULES if personal else os.path.relpath(file.full, self._place.root)
        place = file.full if personal else label
        try:
            data = loaders.read(file.full, follow=personal)
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            return rules.broken(label, f"{place}, line 1: the file cannot be read: {reason}.", trusted=personal)
        trusted = personal or self._is_trusted(file, sha256(data))
        ruleset = rules.parse(text, label, self._names(), trusted=trusted, home=self._place.home, path=place)
        # in j-cli's files, the default is confirmation
        return ruleset._replace(strict=ruleset.strict or file.path == JCLI_RULES)


def upward(root: str, home: str) -> Iterator[str]:
    """Yield the workspace and the folders above it, up to the home directory or a change of owner or device."""
    try:
        first = os.stat(root)
    except OSError:
        return
    folder = root
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if home in (folder, parent) or parent == folder:
            return
        try:
            above = os.stat(parent)
        except OSError:
            return
        if (above.st_uid, above.st_dev) != (first.st_uid, first.st_dev):
            return
        folder = parent


def _rule_files(folder: str) -> list[ProjectFile]:
    return [ProjectFile("rules", folder, path) for path in loaders.paths_of("rules")]


def status(path: str, *, follow: bool = False) -> tuple[int, ...] | None:
    """Return a stamp that changes with a file; None if it does not exist. A file that cannot be accessed exists.

    With `follow`, the stamp includes the target of a link; a dangling link exists too.
    """
    try:
        own = os.lstat(path)
        stamp = _stamp(own)
        if follow and stat.S_ISLNK(own.st_mode):
            stamp = (*_stamp(os.stat(path)), *stamp)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.islink(path):
            return None
        return (error.errno or 0,)
    return stamp


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    # unlike the modification time, the change time (ctime) cannot be set back
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino


def is_settled(stamp: tuple[int, ...] | None) -> bool:
    """Whether a later change to a file would change its stamp."""
    if stamp is None or len(stamp) == 1:
        return stamp is None
    from hilt.formats import times

    return times.is_settled(stamp[0], time.time_ns())
