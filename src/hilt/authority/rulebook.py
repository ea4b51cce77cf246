"""The rule files of one workspace: found, read as far as they are trusted, and read again when they change."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from hilt.config import RuntimePaths
from hilt.formats.digests import sha256
from hilt.places import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.policy.rule_forms import Names
    from hilt.policy.rules import RuleSet
    from hilt.policy.subject import Subject

RULES = "permissions.yaml"
FILE_BYTES = 1 << 20
# a change in the same tick of the clock as the last look leaves no trace, so such a look is not kept
TICK = 20_000_000  # nanoseconds; kernels count in steps of at most ten milliseconds
COARSE_TICK = 2_100_000_000  # where a file system keeps whole seconds


class Rulebook:
    """The rules in force in one workspace; whoever uses it from many threads holds a lock."""

    def __init__(
        self,
        place: RuntimePaths,
        always: Sequence[str],
        names: Callable[[], Names],
        is_trusted: Callable[[str, bytes], bool],
        trust_stamp: Callable[[], object],
    ) -> None:
        """`always` are rules of the settings; `trust_stamp` is something that changes when trust is given."""
        self._place = place
        self._always = always
        self._names = names
        self._is_trusted = is_trusted
        self._trust_stamp = trust_stamp
        self._stamps: tuple[object, ...] | None = None
        self.rulesets: tuple[RuleSet, ...] = ()
        self.has_files = False

    def files(self) -> list[str]:
        """Return the paths at which rule files may be, the personal one first."""
        found = [os.path.join(self._place.config, RULES)]
        for folder in upward(self._place.root, self._place.home):
            found += [os.path.join(folder, name, RULES) for name in (".hilt", ".jcli")]
        return found

    def refresh(self) -> None:
        """Look whether files have changed, or are trusted now, and read them anew if so."""
        personal, *others = self.files()
        looked = [(personal, status(personal, follow=True)), *((path, status(path)) for path in others)]
        present = [(path, found) for path, found in looked if found is not None]
        needs_trust = any(path != personal for path, _ in present)
        stamps = (tuple(present), self._trust_stamp() if needs_trust else None)
        if stamps == self._stamps:
            return
        self.rulesets = tuple(self._read_all([path for path, _ in present]))
        self.has_files = bool(present)
        self._stamps = stamps if all(is_settled(found) for _, found in present) else None

    def notes(self) -> list[str]:
        """Return what people must know of the rules: what is broken, and what counts only in part."""
        found: list[str] = []
        for rules in self.rulesets:
            found += [f"A rule is broken, so calls ask: {problem.reason}" for problem in rules.problems]
            if not rules.trusted:
                found.append(f"{rules.file} is not trusted: it denies and asks, and allows nothing until it is.")
        return found

    def would_allow(self, subject: Subject) -> str | None:
        """Return which rule would allow a call if its file were trusted, and how to trust it; None when none would."""
        if all(rules.trusted for rules in self.rulesets):
            return None
        from hilt.policy import rules as policy

        ruling = policy.decide([rules._replace(trusted=True) for rules in self.rulesets], subject)
        if ruling is None or ruling.verdict != "allow" or ruling.rule is None:
            return None
        rule = ruling.rule
        would = f"{rule.text} ({rule.file}, line {rule.line}) would allow it"
        return f"{would}, but the file is not trusted ({command('trust')})"

    def _read_all(self, paths: Iterable[str]) -> Iterator[RuleSet]:
        if self._always:
            from hilt.policy import rules

            yield rules.listed("allow", self._always, "alwaysAllow", self._names(), home=self._place.home)
        for path in paths:
            yield self._read(path)

    def _read(self, path: str) -> RuleSet:
        from hilt.policy import rules

        personal = path == os.path.join(self._place.config, RULES)
        shown = RULES if personal else os.path.relpath(path, self._place.root)
        place = path if personal else shown
        try:
            data = contents(path, follow=personal)
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            return rules.broken(shown, f"{place}, line 1: the file cannot be read: {reason}.", trusted=personal)
        trusted = personal or self._is_trusted(path, sha256(data))
        return rules.parse(text, shown, self._names(), trusted=trusted, home=self._place.home, path=place)


def upward(root: str, home: str) -> Iterator[str]:
    """Yield the workspace and the folders above it, up to the home directory, another owner or another device."""
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


def status(path: str, *, follow: bool = False) -> tuple[int, ...] | None:
    """Return what changes when a file does; None when it is not there. What cannot be looked at counts as there.

    With `follow`, what a link leads to counts too; the link that leads nowhere is there all the same.
    """
    try:
        found = os.lstat(path)
        seen = _facts(found)
        if follow and stat.S_ISLNK(found.st_mode):
            seen = (*_facts(os.stat(path)), *seen)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.islink(path):
            return None
        return (error.errno or 0,)
    return seen


def _facts(found: os.stat_result) -> tuple[int, ...]:
    # the time of the last change to the file's own record cannot be set back, as that of its contents can
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino


def is_settled(found: tuple[int, ...] | None) -> bool:
    """Whether a later change would show in the status of a file."""
    if found is None or len(found) == 1:
        return found is None
    changed = found[0]
    return time.time_ns() - changed > (TICK if changed % 1_000_000_000 else COARSE_TICK)


def contents(path: str, *, follow: bool) -> bytes:
    """Return the bytes of a regular file of a size that people read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
            raise ValueError(f"it is not a regular file of at most {FILE_BYTES} bytes")
        return file.read(FILE_BYTES)
