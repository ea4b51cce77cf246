"""Programs that are harmless or destructive by their arguments."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.policy import programs
from hilt.policy.quoting import Word
from hilt.policy.rating import RUN_TIME, Place, Rate, Rated, Rater, has_unknown, holds, worse

_ACTIONS = ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")


def _rate_find(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    rated = Rated("safe", "find lists files")
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if word.value in ("-exec", "-execdir", "-ok", "-okdir"):
            inner: list[Word] = []
            while index < len(arguments) and arguments[index].value not in (";", "+"):
                inner.append(arguments[index])
                index += 1
            replaced = [
                Word(part.text, None, name="{}" if position else None) if holds(part, ["{}"]) else part
                for position, part in enumerate(inner)
            ]
            rated = worse(rated, Rated("caution", f"find {word.value} starts a command"))
            if replaced:
                rater.start(replaced, place)
        elif word.value == "-delete":
            return Rated("dangerous", "find -delete deletes files")
        elif word.value is not None and word.value.startswith(("-fprint", "-fls")):
            rated = worse(rated, Rated("caution", f"find {word.value} writes a file"))
        elif word.value is None or _may_find(word):
            rated = worse(rated, Rated("caution", "an argument of find is only known at run time"))
    return rated


def _rate_guarded(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    """Rate programs that only read unless an option says otherwise."""
    values = [word.value for word in arguments]
    rated = Rated("safe", f"{name} only reads")
    if has_unknown(arguments):
        rated = Rated("caution", f"an argument of {name} is only known at run time")
    if name == "sort":
        if programs.has_flag(values, "o", "output", values="kStT"):
            rated = worse(rated, Rated("caution", "sort -o writes a file"))
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
            rated = worse(rated, Rated("caution", "hostname sets the name"))
    elif name == "uniq":
        if len(programs.positionals(values, programs.Options("fsw", ("skip-fields", "skip-chars")))) > 1:
            rated = worse(rated, Rated("caution", "uniq writes its second file"))
    elif name == "file" and programs.has_flag(values, "C", "compile", values="Ffm"):
        rated = worse(rated, Rated("caution", "file -C writes a file"))
    return rated


def _start_program(rater: Rater, text: str | None, place: Place, starter: str) -> Rated:
    if text is None:
        return Rated("dangerous", f"{starter} starts a program that is computed at run time")
    rater.start((Word(text, text, name=text.rpartition("/")[2]), RUN_TIME), place._replace(fed=True))
    return Rated("caution", f"{starter} starts a program")


def _rate_chmod(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    is_recursive = programs.has_flag(values, "R", "recursive")
    if name == "chown" and is_recursive:
        return Rated("dangerous", "chown -R changes the owner of a whole tree")
    if name == "chmod" and is_recursive and any(_opens_to_all(value or "") for value in values):
        return Rated("dangerous", "chmod -R opens a whole tree to everyone")
    return Rated("caution", programs.CHANGERS[name])


def _opens_to_all(mode: str) -> bool:
    if mode == "+rwx" or (mode.isdigit() and mode[-3:] in ("777", "666")):
        return True
    for clause in mode.split(","):
        who, sign, granted = clause.partition("+") if "+" in clause else clause.partition("=")
        if sign and "w" in granted and ("o" in who or "a" in who) and not who.strip("ugoa"):
            return True
    return False


def _rate_power(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    stops = {"poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "emergency", "rescue", "0", "6", "kill"}
    if any(value in stops for value in values):
        return Rated("dangerous", f"{name} stops the machine or its processes")
    if name == "fuser" and programs.has_flag(values, "k", "kill"):
        return Rated("dangerous", "fuser -k ends processes")
    return Rated("caution", f"{name} is not known to be harmless")


def _rate_container(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    operands = programs.positionals(values, programs.CONTAINER_OPTIONS)
    verbs = operands[:1] if not operands or operands[0] not in programs.CONTAINER_GROUPS else operands[:2]
    if None in verbs:
        return Rated("dangerous", f"the command of {name} is only known at run time")
    last = verbs[-1] if verbs else None
    if last in ("rm", "rmi", "prune", "remove") or (name.endswith("-compose") and "rm" in operands[:1]):
        return Rated("dangerous", f"{name} {' '.join(v for v in verbs if v)} deletes")
    return Rated("caution", f"{name} runs containers")


def _rate_cluster(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    destructive = {
        "kubectl": ("delete",),
        "oc": ("delete",),
        "terraform": ("destroy",),
        "tofu": ("destroy",),
        "terragrunt": ("destroy",),
        "pulumi": ("destroy",),
        "helm": ("uninstall", "delete"),
    }[name]
    operands = programs.positionals(values, programs.CLUSTER_OPTIONS)
    first = operands[0] if operands else ""
    if first is None:
        return Rated("dangerous", f"the command of {name} is only known at run time")
    if any(operand in destructive for operand in operands[:2]) or "-destroy" in values or "--destroy" in values:
        return Rated("dangerous", f"{name} {destructive[0]} deletes what it manages")
    return Rated("caution", f"{name} can change what it manages")


def rate_removal(name: str, values: Sequence[str | None]) -> Rated:
    """Rate the removal of packages; safe when nothing is removed."""
    operands = programs.positionals(values, programs.PACKAGE_OPTIONS)
    removals = programs.REMOVALS.get(name, frozenset())
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


def _may_find(word: Word) -> bool:
    """Whether a wildcard could find a file whose name is an action of find."""
    if not word.pattern:
        return False
    from fnmatch import fnmatchcase

    return any(fnmatchcase(action, word.value or "*") for action in _ACTIONS)


RATED: dict[str, Rate] = {
    "find": _rate_find,
    **dict.fromkeys(("sort", "rg", "date", "hostname", "uniq", "file"), _rate_guarded),
    **dict.fromkeys(("chmod", "chown"), _rate_chmod),
    **dict.fromkeys(("systemctl", "init", "telinit", "loginctl", "fuser"), _rate_power),
    **dict.fromkeys(sorted(programs.CONTAINERS), _rate_container),
    **dict.fromkeys(("kubectl", "oc", "terraform", "tofu", "terragrunt", "pulumi", "helm"), _rate_cluster),
}
