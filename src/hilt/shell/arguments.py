"""Programs whose arguments decide whether they are harmless or destructive."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from hilt.shell import programs
from hilt.shell.quoting import ShellWord
from hilt.shell.rating import RUIN, RUN_TIME, CommandPlace, Rate, Rated, Rater, has_unknown, holds, worse
from hilt.shell.removals import checked, found_paths

FIND_ACTIONS = ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")


def _rate_find(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("safe", "find lists files")
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if word.value in ("-exec", "-execdir", "-ok", "-okdir"):
            action = index - 1
            inner: list[ShellWord] = []
            while index < len(arguments) and arguments[index].value not in (";", "+"):
                inner.append(arguments[index])
                index += 1
            replaced = [
                ShellWord(part.text, None, name="{}" if position else None) if holds(part, ["{}"]) else part
                for position, part in enumerate(inner)
            ]
            rated = worse(rated, Rated("caution", f"find {word.value} starts a command"))
            if replaced:
                rater.start(replaced, place._replace(lists=found_paths(arguments[:action])))
        elif word.value == "-delete":
            is_last = index == len(arguments) and rater.sandboxed
            removed = found_paths(arguments[: index - 1]) if is_last else None
            return Rated("dangerous", "find -delete deletes files", removed)
        elif word.value is not None and word.value.startswith(("-fprint", "-fls")):
            rated = worse(rated, Rated("caution", f"find {word.value} writes a file"))
            rated = worse(rated, rater.write(arguments[index].value if index < len(arguments) else None, place))
        elif word.value is None or _may_be_action(word):
            rated = worse(rated, Rated("caution", "an argument of find is only known at run time"))
    return rated


def _rate_reader(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate programs that only read, except with certain options."""
    values = [word.value for word in arguments]
    rated = Rated("safe", f"{name} only reads")
    if has_unknown(arguments):
        rated = Rated("caution", f"an argument of {name} is only known at run time")
    if name == "sort":
        if programs.has_flag(values, "o", "output", values="kStT"):
            rated = worse(rated, Rated("caution", "sort -o writes a file"))
            for path in programs.option_values(values, "o", "output", stops="kStT"):
                rated = worse(rated, rater.write(path, place))
        for text in programs.long_values(values, "compress-program"):
            rated = worse(rated, _start_program(rater, text, place, "sort --compress-program"))
    elif name == "rg":
        for text in (
            *programs.long_values(values, "pre", exact=True),
            *programs.long_values(values, "hostname-bin", exact=True),
        ):
            rated = worse(rated, _start_program(rater, text, place, "rg --pre"))
    elif name == "date":
        operands = programs.positionals(values, programs.Options("dfIrv", ("date", "file", "reference")))
        if programs.has_flag(values, "s", "set", values="dfrI") or any(
            operand is not None and not operand.startswith("+") for operand in operands
        ):
            rated = worse(rated, Rated("caution", "date sets the clock"))
    elif name == "hostname":
        if programs.positionals(values) or programs.has_flag(values, "Fb", "file", "boot"):
            rated = worse(rated, Rated("caution", "hostname sets the name of the machine"))
    elif name == "uniq":
        if len(programs.positionals(values, programs.Options("fsw", ("skip-fields", "skip-chars")))) > 1:
            rated = worse(rated, Rated("caution", "uniq writes its second file"))
    elif name == "file" and programs.has_flag(values, "C", "compile", values="Ffm"):
        rated = worse(rated, Rated("caution", "file -C writes a file"))
    return rated


def _start_program(rater: Rater, text: str | None, place: CommandPlace, starter: str) -> Rated:
    if text is None:
        return Rated("dangerous", f"{starter} starts a program that is computed at run time")
    rater.start((ShellWord(text, text, name=text.rpartition("/")[2]), RUN_TIME), place.feeding)
    return Rated("caution", f"{starter} starts a program")


def _rate_chmod(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    is_recursive = programs.has_flag(values, "R", "recursive")
    if name != "chmod":
        if is_recursive:
            return Rated("dangerous", f"{name} -R changes the owner of a whole tree")
        return Rated("caution", programs.CHANGERS[name])
    if any(_sets_user(value or "") for value in values):
        return Rated("dangerous", "chmod lets others run a file as its owner")
    if is_recursive and any(_opens_to_all(value or "") for value in values):
        return Rated("dangerous", "chmod -R opens a whole tree to everyone")
    if is_recursive and any(_locks_out(value or "") for value in values):
        return Rated("dangerous", "chmod -R locks the owner out of a whole tree")
    return Rated("caution", programs.CHANGERS[name])


def _opens_to_all(mode: str) -> bool:
    if mode == "+rwx" or (mode.isdigit() and mode[-3:] in ("777", "666")):
        return True
    for clause in mode.split(","):
        who, sign, granted = clause.partition("+") if "+" in clause else clause.partition("=")
        if sign and "w" in granted and ("o" in who or "a" in who) and not who.strip("ugoa"):
            return True
    return False


def _locks_out(mode: str) -> bool:
    """Whether a mode locks the owner out."""
    if mode.isdigit() and len(mode) < 5:
        return int(mode.zfill(4)[-3]) & 4 == 0
    for clause in mode.split(","):
        who, sign, rights = clause.partition("=" if "=" in clause else "-")
        if not sign or who.strip("ugoa") or not (who == "" or "u" in who or "a" in who):
            continue
        if (sign == "=" and "r" not in rights) or (sign == "-" and set(rights) & set("rx") and "X" not in mode):
            return True
    return False


def _sets_user(mode: str) -> bool:
    if mode.isdigit():
        return len(mode) > 3 and mode[-4] in "4567"
    return any(
        "s" in clause.partition("+")[2] + clause.partition("=")[2] and clause[:1] in ("u", "a", "+", "=")
        for clause in mode.split(",")
        if not clause.strip("ugoarwxXst+-=")
    )


def _rate_service_control(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    stops = programs.STOPS[name]
    if any(value in stops for value in values):
        return Rated("dangerous", f"{name} stops the machine, its services or its processes, or changes what it starts")
    if name == "fuser" and programs.has_flag(values, "k", "kill"):
        return Rated("dangerous", "fuser -k ends processes")
    if name == "journalctl" and any((value or "").startswith("--vac") for value in values):
        return Rated("dangerous", "journalctl --vacuum deletes logs")
    return Rated("caution", f"{name} is not known to be harmless")


def _rate_truncate(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    sizes = programs.option_values([word.value for word in arguments], "s", "size", stops="r")
    if any(size is None or size[:1] in ("-", "<", "/") or not size.strip("0") for size in sizes):
        paths = programs.positionals([word.value for word in arguments], programs.Options("sr", ("size", "reference")))
        emptied = checked(path or ".." for path in paths) if rater.sandboxed else None
        return Rated("dangerous", "truncate discards the content of files", emptied)
    return Rated("caution", programs.CHANGERS[name])


def _rate_replacement(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate mv, ln and install, which replace any file, even a device."""
    for word in arguments:
        path = posixpath.normpath(word.value or "")
        if path.startswith("/dev/") and not path.startswith("/dev/shm/"):  # noqa: S108 -- not a device
            return Rated("dangerous", f"{name} would replace or move the device {path}")
    return Rated("caution", programs.CHANGERS[name])


def _rate_destructive_option(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate programs that destroy data with one of their options."""
    values = [word.value for word in arguments]
    letters, names, _, stops, _ = programs.LOSSES[name]
    if programs.has_flag(values, letters, *names, values=stops):
        return Rated("dangerous", f"an option makes {name} delete or overwrite data permanently")
    return Rated("caution", programs.CHANGERS.get(name, f"{name} is not known to be harmless"))


def rate_removal(name: str, values: Sequence[str | None]) -> Rated:
    """Rate the removal of packages; safe if nothing is removed."""
    if name in ("manage.py", "django-admin") and any(
        value in ("flush", "reset_db", "reset_schema") for value in values
    ):
        return Rated("dangerous", f"{name} empties a database{RUIN}")
    operands = programs.positionals(values, programs.PACKAGE_OPTIONS)
    removals = programs.REMOVALS.get(name, ())
    if operands[:1] and operands[0] in programs.PACKAGE_GROUPS:
        operands = operands[1:]
    if operands and operands[0] in removals:
        return Rated("dangerous", f"{name} removes packages")
    if removals and operands and operands[0] is None:
        return Rated("dangerous", f"the command of {name} is only known at run time")
    for flag in programs.REMOVAL_FLAGS.get(name, ()):
        for value in values:
            if value is not None and (value.startswith(flag) if len(flag) == 2 else value == flag):
                return Rated("dangerous", f"{name} removes packages")
    return Rated("safe", "")


def _may_be_action(word: ShellWord) -> bool:
    """Whether a wildcard could match a file whose name is an action of find."""
    if not word.pattern:
        return False
    from fnmatch import fnmatchcase

    return any(fnmatchcase(action, word.value or "*") for action in FIND_ACTIONS)


RATED: dict[str, Rate] = {
    "find": _rate_find,
    **dict.fromkeys(("sort", "rg", "date", "hostname", "uniq", "file"), _rate_reader),
    **dict.fromkeys(("chmod", "chown", "chgrp"), _rate_chmod),
    **dict.fromkeys(programs.STOPS, _rate_service_control),
    **dict.fromkeys(programs.LOSSES, _rate_destructive_option),
    "truncate": _rate_truncate,
    **dict.fromkeys(("mv", "ln", "install"), _rate_replacement),
}
