"""Rates the risk of a shell command: safe, caution or dangerous, with the reason and the part that caused it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from hilt import variables
from hilt.shell import arguments as argument_rules
from hilt.shell import builtins, clients, git, programs, starters
from hilt.shell.inputs import PRINTERS, literal_input
from hilt.shell.quoting import ShellWord
from hilt.shell.rating import ORDER, RUIN, CommandPlace, Level, Rate, Rated, worse
from hilt.shell.removals import REMOVERS, listed_paths, removed_paths, ruins
from hilt.shell.syntax import MAX_LENGTH, Assignment, Command, Redirection, Unparsed, read

_MAX_WRAPPERS = 20
_HARMLESS_DEVICES = frozenset(("null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty", "ptmx"))
_DISKS = (
    *("sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "dm-", "md", "mapper/", "loop", "mem", "kmem"),
    *("port", "nbd", "zram", "sr"),
)
_EVALUATED = ("$(", "`", "${")

_CACHED_LENGTH = 2000


# code: what an interpreter reads; unseen: code that cannot be rated
Kind = Literal["command", "redirection", "code", "unseen"]


class CommandPart(NamedTuple):
    """One simple command of a command line, one file that it writes, or code that it runs and that cannot be rated."""

    text: str
    words: tuple[str | None, ...]
    level: Level
    reason: str
    start: int
    end: int
    kind: Kind = "command"
    writes: tuple[str, ...] = ()
    removes: tuple[str, ...] | None = None  # globs for what it removes, if undo brings all of that back


class Risk(NamedTuple):
    """The level of a whole command line: that of its worst part."""

    level: Level
    reason: str
    part: str
    parts: tuple[CommandPart, ...]

    @property
    def removes(self) -> tuple[str, ...] | None:
        """Globs for the files that it removes; None if it removes none, or is dangerous in another way, too."""
        removed = [part.removes for part in self.parts if part.level == "dangerous" or part.removes is not None]
        if not removed or None in removed:
            return None
        return tuple(path for paths in removed for path in paths or ())

    @property
    def ruins(self) -> bool:
        """Whether it destroys everything: no rule allows that."""
        return any(part.level == "dangerous" and part.reason.endswith(RUIN) for part in self.parts)


def classify(command: str, *, sandboxed: bool = True) -> Risk:
    """Rate a bash command line by its worst part; a command that cannot be parsed is dangerous."""
    # several voters rate the same call
    return (_classify_cached if len(command) <= _CACHED_LENGTH else _classify)(command, sandboxed)


def parts_of(argv: Sequence[str]) -> list[CommandPart]:
    """Return the rated parts of a program that runs without a shell: itself, and what it starts or writes."""
    rating = _Rating(sandboxed=True)
    words = [ShellWord(word, word, name=word.rpartition("/")[2]) for word in argv]
    rating.start(words, CommandPlace(0, 0, fed=False, depth=0))
    return rating.parts


def _classify(command: str, sandboxed: bool) -> Risk:
    rating = _Rating(sandboxed=sandboxed)
    try:
        rating.rate_text(command, None)
    except Unparsed as problem:
        reason = f"The command cannot be rated: {problem}."
        whole = CommandPart(command, (None,), "dangerous", reason, 0, len(command))
        return Risk("dangerous", reason, command, (*rating.parts, whole))
    if not rating.parts:
        return Risk("safe", "nothing runs", "", ())
    worst = max(rating.parts, key=lambda part: ORDER[part.level])
    return Risk(worst.level, worst.reason, worst.text, tuple(rating.parts))


_classify_cached = lru_cache(maxsize=64)(_classify)

_RATED: dict[str, Rate] = {
    **builtins.RATED,
    **starters.RATED,
    **argument_rules.RATED,
    **clients.RATED,
    **git.RATED,
}


class _Rating:
    """Collects the parts of one command line."""

    def __init__(self, *, sandboxed: bool) -> None:
        self.parts: list[CommandPart] = []
        self.sandboxed = sandboxed
        self._redefined: set[str] = set()
        self._loops: frozenset[str] = frozenset()
        self._characters_left = 4 * MAX_LENGTH  # in nested texts: keeps the time linear

    def rate_text(self, text: str, place: CommandPlace | None) -> None:
        """Rate a source; a nested one, such as the argument of sh -c, has the offsets of its command."""
        self._characters_left -= len(text) + 100
        if self._characters_left < 0 and place is not None:
            raise Unparsed("it has too many nested commands")
        script = read(text)
        self._redefined |= script.functions
        self._loops |= script.loops
        feeds_all = any(_feeds_the_shell(command) for command in script.commands)
        for command in script.commands:
            fed = command.fed or feeds_all or (place is not None and place.fed)
            start, end = (command.start, command.end) if place is None else (place.start, place.end)
            given = literal_input(command) if not (PRINTERS & self._redefined) else command.given
            depth = 0 if place is None else place.depth + 1
            lists = None if "find" in self._redefined else listed_paths(command.writer)
            self._rate_command(command, CommandPlace(start, end, fed, depth, given, lists))

    def _rate_command(self, command: Command, place: CommandPlace) -> None:
        writes = tuple(
            path
            for redirection in command.redirections
            if (path := _path(redirection)) is not None and _rate_redirection(redirection) is not None
        )
        if command.words or command.assignments:
            at = len(self.parts)
            rated = self._rate_words(command.words, place) if command.words else Rated("safe", "sets a variable")
            for assignment in command.assignments:
                rated = worse(rated, self.rate_assignment(assignment, place))
            values = tuple(word.value for word in command.words)
            self.parts.insert(at, _part(command.text, values, rated, place, writes=writes))
        for redirection in command.redirections:
            own = place._replace(start=redirection.start, end=redirection.end) if place.depth == 0 else place
            self._add_write(redirection, own)

    def _add_write(self, redirection: Redirection, place: CommandPlace) -> Rated | None:
        """Add a redirection as a separate part, and rate it; None if it writes no file."""
        rated = _rate_redirection(redirection)
        if rated is not None:
            path = _path(redirection)
            words, writes = (redirection.operator, path), () if path is None else (path,)
            self.parts.append(_part(redirection.text, words, rated, place, "redirection", writes))
        return rated

    def start(self, words: Sequence[ShellWord], place: CommandPlace) -> Rated:
        """Add the command that another one starts as a separate part, and rate it."""
        if place.depth > _MAX_WRAPPERS:
            raise Unparsed("too many nested commands start one another")
        at = len(self.parts)
        inner = place._replace(depth=place.depth + 1)
        rated = self._rate_words(words, inner)
        text = " ".join(word.text for word in words if word.text)
        self.parts.insert(at, _part(text, tuple(word.value for word in words), rated, place))
        return rated

    def start_text(self, text: str | None, place: CommandPlace, starter: str) -> Rated:
        """Rate text that a program passes to a shell; None is text that is computed at run time."""
        if text is None:
            return self.start_unseen(place, f"{starter} runs text that is computed at run time")
        if place.depth > _MAX_WRAPPERS:
            raise Unparsed("too many nested commands start one another")
        self.rate_text(text, place)
        return Rated("safe", f"{starter} runs text that is rated separately")

    def start_unseen(self, place: CommandPlace, reason: str) -> Rated:
        """Add a part for code that cannot be rated: a rule that allows the program does not allow it."""
        self.parts.append(CommandPart("", (), "dangerous", reason, place.start, place.end, "unseen"))
        return Rated("dangerous", reason)

    def start_code(self, rated: Rated, place: CommandPlace) -> Rated:
        """Add a part for code that a program reads: a rule that allows the program does not allow it."""
        self.parts.append(_part("", (), rated, place, "code"))
        return rated

    def write(self, path: str | None, place: CommandPlace) -> Rated:
        """Add a file that a program writes by an option or its script as a separate part, and rate it."""
        redirection = Redirection(">", ShellWord(path or "", path), place.start, place.end, f"> {path}")
        return self._add_write(redirection, place) or Rated("safe", "writes no file")

    def redefine(self, name: str) -> None:
        """Record that a name no longer means the program of that name."""
        self._redefined.add(name)

    def rate_assignment(self, assignment: Assignment, place: CommandPlace) -> Rated:
        """Rate the assignment of a variable."""
        name, value = assignment[:2]
        if variables.loads_code(name, value):
            return self.start_unseen(place, f"{name}= makes programs run other code")
        if name in programs.OPTIONS_OF:
            is_computed = value is None or any(sign in value for sign in _EVALUATED)
            code = None if is_computed else f"{programs.OPTIONS_OF[name]} {value}"
            self.start_text(code, place, f"{name}=")
        if name.startswith(("PS4", "PS0")):
            if value is None or any(sign in value for sign in _EVALUATED):
                return self.start_unseen(place, f"{name}= is run by the shell")
            return Rated("safe", "a prompt")
        if variables.runs_value(name):
            if value is None:
                return self.start_unseen(place, f"{name}= can make programs run other code")
            command = value.lstrip("|-") if name.startswith("LESS") else value
            return worse(
                Rated("caution", f"{name}= names a program to run"),
                starters.rate_helper(self, command, place, f"{name}=") if command else Rated("safe", ""),
            )
        if name in programs.CHANGES_LOOKUP or name.startswith(programs.CHANGES_LOOKUP_STARTS):
            return Rated("caution", f"{name}= changes what programs do")
        if value is not None and "[" in value and any(sign in value for sign in _EVALUATED):
            return Rated("dangerous", f"{name}= contains text that arithmetic would run")
        return Rated("safe", f"sets {name}")

    def _rate_words(self, words: Sequence[ShellWord], place: CommandPlace) -> Rated:
        verb = words[0]
        name = verb.name
        if name is None or verb.pattern:
            return Rated("dangerous", "the program is only known at run time")
        if place.depth > _MAX_WRAPPERS:
            raise Unparsed("too many nested commands start one another")
        rated = self._rate_program(name, words[1:], place)
        rated = worse(rated, _rate_disks(name, words[1:], rated.level))
        is_seen = place.input is not None and (name in programs.RUNNERS or name in programs.WRAPPERS)
        if place.fed and not is_seen and rated.level == "caution" and _names_a_shell(words[1:]):
            rated = Rated("dangerous", f"{name} passes its input to a shell")
        if rated.level == "safe" and not _is_standard(verb):
            return Rated("caution", f"{verb.text} is not the system's {name}")
        if name in self._loops:
            return Rated("dangerous", f"{name} is a function that calls itself{RUIN}")
        if name not in self._redefined:
            return rated
        return Rated("caution", f"{name} is redefined here") if rated.level == "safe" else rated._replace(removes=None)

    def _rate_destroyer(self, name: str, reason: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
        if name in REMOVERS:
            if ruined := ruins(arguments):
                return Rated("dangerous", f"{name} deletes {ruined}{RUIN}")
            return Rated("dangerous", reason, removed_paths(arguments, place) if self.sandboxed else None)
        if name in programs.KILLERS and self.sandboxed and not any(word.value == "-1" for word in arguments[1:]):
            return Rated("caution", f"{name} ends processes in its own sandbox")
        return Rated("dangerous", reason)

    def _rate_program(self, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
        values = [word.value for word in arguments]
        if len(values) == 1 and values[0] in ("--help", "--version"):
            return Rated("safe", f"{name} {values[0]} prints information")
        lowered = name.lower()
        canonical = programs.GNU.get(lowered, lowered)
        if canonical != name and (
            canonical in _RATED or canonical in programs.WRAPPERS or canonical in programs.DESTROYERS
        ):
            # some systems find a program by another spelling of its name
            unsure = Rated("caution", f"{name} is not known to be harmless")
            return worse(unsure, self._rate_program(canonical, arguments, place))
        rate = _RATED.get(name)
        if rate is not None:
            return worse(rate(self, name, arguments, place), argument_rules.rate_removal(name, values))
        family = lowered.partition(".")[0]
        if lowered in programs.DESTROYERS or family in ("mkfs", "fsck"):
            return self._rate_destroyer(
                lowered, programs.DESTROYERS.get(lowered) or programs.DESTROYERS[family], arguments, place
            )
        if lowered in programs.ELEVATORS:
            return starters.rate_elevator(self, lowered, arguments, place)
        if name in programs.READERS:
            return Rated("safe", programs.READERS[name])
        if name in programs.BUILTINS:
            return Rated("safe", f"{name} changes only this shell")
        if lowered in programs.SHELLS:
            return starters.rate_shell(self, name, arguments, place)
        interpreter = programs.INTERPRETERS.get(name) or programs.INTERPRETERS.get(name.rstrip("0123456789.-"))
        if interpreter is not None:
            rated = starters.rate_interpreter(self, name, interpreter, arguments, place)
            return worse(rated, argument_rules.rate_removal(name, values))
        if name in programs.WRAPPERS:
            return starters.rate_wrapper(self, name, arguments, place)
        rated = worse(argument_rules.rate_removal(name, values), starters.rate_runner(self, name, arguments, place))
        return worse(Rated("caution", programs.CHANGERS.get(name, f"{name} is not known to be harmless")), rated)


def _part(
    text: str,
    words: tuple[str | None, ...],
    rated: Rated,
    place: CommandPlace,
    kind: Kind = "command",
    writes: tuple[str, ...] = (),
) -> CommandPart:
    return CommandPart(text, words, rated.level, rated.reason, place.start, place.end, kind, writes, rated.removes)


def _feeds_the_shell(command: Command) -> bool:
    """Whether `exec <file` redirects the input of the shell itself."""
    return (
        bool(command.words)
        and command.words[0].value == "exec"
        and any(redirection.operator.startswith("<") for redirection in command.redirections)
    )


def _path(redirection: Redirection) -> str | None:
    """Return the file that a redirection opens; None if it is only known at run time."""
    target = redirection.target
    return None if target is None or target.pattern else target.value


def _rate_redirection(redirection: Redirection) -> Rated | None:
    """Rate what a redirection writes; None if it writes no file."""
    operator, target = redirection.operator, redirection.target
    if target is None or operator in (">&-", "<&-"):
        return None
    value = target.value
    if value is None:
        if not operator.startswith("<"):
            if target.text.startswith(">("):
                return None
            return Rated("caution", "writes a file whose name is only known at run time")
        return None
    if operator in (">&", "<&") and value.rstrip("-").isdigit():
        return None
    path = _normalize(value)
    device = _device(path)
    if operator.startswith("<"):
        if device.startswith(("tcp/", "udp/")):
            return Rated("dangerous", f"opens a connection through {path}")
        return None
    if device in _HARMLESS_DEVICES or device.startswith(("fd/", "shm/", "pts/")):
        return None
    if device:
        return Rated("dangerous", f"writes to the device {path}")
    if path.startswith(("/proc/", "/sys/")):
        return Rated("dangerous", f"writes to the system through {path}")
    return Rated("caution", f"writes {value}")


def _normalize(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/") if path.startswith("/") else path)


def _device(path: str) -> str:
    """Return the name of the device for a path below /dev; "" for any other."""
    target = path
    while target.startswith("../"):
        target = target[3:]
    if target.startswith("/dev/"):
        return target[5:]
    return target[4:] if target != path and target.startswith("dev/") else ""


def _rate_disks(name: str, arguments: Sequence[ShellWord], level: Level) -> Rated:
    """Rate an argument that names a disk, alone, after = or after a short option."""
    for word in arguments if level != "safe" else ():
        if word.value is None or "dev/" not in word.value:
            continue
        tails = (word.value, word.value.rpartition("=")[2], word.value.rpartition("@")[2])
        paths = (*tails, word.value[2:]) if word.value.startswith("-") else tails
        if any(_device(_normalize(path)).startswith(_DISKS) for path in paths):
            return Rated("dangerous", f"{name} can write to the device {word.value}")
    return Rated("safe", "")


def _is_standard(verb: ShellWord) -> bool:
    if verb.value is None:
        return False
    folder, slash, _ = verb.value.rpartition("/")
    return not slash or folder in programs.STANDARD_FOLDERS


def _names_a_shell(arguments: Sequence[ShellWord]) -> bool:
    return any(
        word.name is not None
        and (word.name in programs.SHELLS or word.name.rstrip("0123456789.") in ("python", "perl"))
        for word in arguments
    )
