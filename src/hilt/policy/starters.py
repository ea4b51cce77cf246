"""Programs that start other programs, or run code of their own: what they start is rated too."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.policy import programs
from hilt.policy.quoting import Word
from hilt.policy.rating import RUN_TIME, Place, Rate, Rated, Rater, holds, is_made_of_input, joined, worse
from hilt.policy.scripts import SedScripts, awk_starts, sed_starts
from hilt.policy.syntax import Assignment

_SOURCES = (":::", "::::", ":::+", "::::+")
_MODULES = frozenset(("hilt", "pip", "pip3", "uv", "pipx", "poetry", "pdm", "conda"))
_FED_MODULES = frozenset(("code", "asyncio", "pdb"))


def rate_elevator(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    """Rate sudo and its like: dangerous, and what they start is a part of its own."""
    texts = programs.option_values([word.value for word in arguments], "c", "command")
    if name in ("su", "runuser") and texts:
        rater.start_text(texts[0], place, name)
    elif name in programs.WRAPPERS:
        rate_wrapper(rater, name, arguments, place)
    return Rated("dangerous", programs.ELEVATORS[name])


def rate_wrapper(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    """Rate a program that starts the command behind its own options."""
    options = programs.WRAPPERS[name]
    base: Rated = (
        Rated("safe", f"{name} starts another command")
        if name in programs.TRANSPARENT
        else Rated("caution", f"{name} starts another command")
    )
    values = [word.value for word in arguments]
    at, is_known = programs.command_at(values, options, assignments=name in ("env", "sudo"))
    if name == "command" and programs.has_flag(values[:at], "vV"):
        return Rated("safe", "command -v finds programs")
    if name in ("env", "sudo"):
        for value in values[:at]:
            if value is not None and "=" in value and not value.startswith("-"):
                key, _, given = value.partition("=")
                base = worse(base, rater.rate_assignment(Assignment(key, given), place))
    if name == "env":
        for split in programs.option_values(values[:at], "S", "split-string"):
            rest = " ".join(word.text for word in arguments[at:])
            code = None if split is None else f"env {split} {rest}"
            return worse(base, rater.start_text(code, place, "env -S"))
    if name == "time" and programs.option_values(values[:at], "o", "output"):
        base = worse(base, Rated("caution", "time -o writes a file"))
    if name == "flock":
        for text in programs.option_values(values[:at], "c", "command"):
            return worse(base, rater.start_text(text, place, name))
    if name == "watch":
        return worse(base, rater.start_text(joined(values[at:]), place, name))
    if not is_known and _names_danger(values):
        base = worse(base, Rated("dangerous", f"{name} has options that may start anything"))
    inner = list(arguments[at:])
    if name in ("xargs", "parallel"):
        return _rate_feeder(rater, name, values[:at], inner, base, place)
    if not inner:
        return Rated("safe", "env prints the environment") if name == "env" and base.level == "safe" else base
    rater.start(inner, place)
    return base


def _rate_feeder(
    rater: Rater, name: str, options: Sequence[str | None], inner: list[Word], base: Rated, place: Place
) -> Rated:
    """Rate xargs and parallel: what they read becomes words of the command they start."""
    if not inner:
        if name == "parallel":
            return Rated("dangerous", "parallel runs the lines of its input")
        return base
    marks = [mark for mark in programs.option_values(options, "Ii", "replace") if mark]
    if name == "parallel":
        marks.append("{}")
        if (inner[0].value or "").startswith(":::"):
            return Rated("dangerous", "parallel runs its arguments")
        inner = inner[: next((index for index, word in enumerate(inner) if word.value in _SOURCES), None)]
        if len(inner) == 1 and inner[0].value is not None and " " in inner[0].value:
            return worse(base, rater.start_text(inner[0].value.replace("{}", '"$1"'), place, name))
    elif programs.has_flag(options, "i"):
        marks.append("{}")
    replaced = [Word(word.text, None) if holds(word, marks) else word for word in inner]
    rater.start([*replaced, RUN_TIME], place._replace(fed=True))
    return base


def rate_runner(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    """Rate what `uv run X` and its like start."""
    verbs = programs.RUNNERS.get(name)
    values = [word.value for word in arguments]
    rated = Rated("safe", "")
    if name == "npx" or (name == "npm" and values[:1] in (["exec"], ["x"])):
        options = values[name == "npm" :]
        options = options[: programs.command_at(options, programs.Options("cpw", ("call", "package", "workspace")))[0]]
        for text in (*programs.option_values(options, "c"), *programs.long_values(options, "call", exact=True)):
            rated = worse(rated, rater.start_text(text, place, f"{name} -c"))
    for index, value in enumerate(values):
        if verbs is None or value is None:
            break
        if value in verbs:
            inner = arguments[index + 1 :]
            at, _ = programs.command_at([word.value for word in inner], programs.Options())
            if inner[at:]:
                rater.start(inner[at:], place)
            break
    return rated


def rate_shell(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    """Rate a shell by its script: a text, a file, or what it is fed."""
    has_code, reads_input = False, False
    index = 0
    while index < len(arguments):
        value = arguments[index].value
        if value is None or not value.startswith(("-", "+")) or value == "-":
            break
        index += 1
        if value == "--":
            break
        if value.startswith("--"):
            index += value in ("--rcfile", "--init-file")
            has_code = has_code or value == "--command"
            continue
        has_code = has_code or (value.startswith("-") and "c" in value)
        reads_input = reads_input or (value.startswith("-") and "s" in value)
        index += value[-1] in "oO"
    rest = arguments[index:]
    if has_code:
        if not rest:
            return Rated("caution", f"{name} starts a shell")
        return rater.start_text(rest[0].value, place, f"{name} -c")
    if rest and is_made_of_input(rest[0]):
        return Rated("dangerous", f"{name} runs the scripts that its input names")
    if rest and not reads_input and not is_standard_input(rest[0]):
        return Rated("caution", f"{name} runs a script")
    if place.fed or rest or reads_input:
        return Rated("dangerous", f"{name} runs what it is fed")
    return Rated("caution", f"{name} starts a shell")


def rate_interpreter(
    rater: Rater, name: str, kind: programs.Interpreter, arguments: Sequence[Word], place: Place
) -> Rated:
    """Rate an interpreter by its program: inline code, a file, or what it is fed."""
    codes: list[str | None] = []
    index = 0
    has_program = False
    while index < len(arguments):
        value = arguments[index].value
        following = arguments[index + 1].value if index + 1 < len(arguments) else None
        index += 1
        if is_made_of_input(arguments[index - 1]) and not codes:
            return Rated("dangerous", f"{name} runs the programs that its input names")
        if value is None:
            if is_standard_input(arguments[index - 1]) and not codes:
                return Rated("dangerous", f"{name} runs what it is fed")
            has_program = True
            break
        option, attached = _match_option(value, kind.code)
        if option:
            codes.append(attached or following)
            index += not attached
            continue
        option, attached = _match_option(value, kind.modules)
        if option:
            has_program = not _is_fed_file(attached or following or "")
            module = (
                arguments[index:] if not attached else [Word(attached, attached, name=attached), *arguments[index:]]
            )
            if option == "-m" and module and module[0].value in _MODULES:
                return worse(Rated("caution", f"{name} runs a module"), rater.start(module, place))
            if option == "-m" and module and module[0].value in _FED_MODULES and place.fed:
                return Rated("dangerous", f"{name} runs what it is fed")
            break
        option, attached = _match_option(value, kind.values)
        if option:
            index += not attached
            continue
        if value == "--":
            continue
        if value.startswith("-") and value != "-":
            continue
        has_program = not _is_fed_file(value)
        if codes:
            break
        if value.endswith(("/hilt", "hilt/__main__.py")):
            return _rate_hilt(rater, "hilt", arguments[index:], place)
        if not has_program:
            return Rated("dangerous", f"{name} runs what it is fed")
        break
    for code in codes:
        if code is None:
            return Rated("dangerous", f"{name} runs code that is computed at run time")
        lowered = code.lower()
        sign = next((sign for sign in kind.risky if sign in lowered), None)
        if sign is not None:
            return Rated("dangerous", f"the code of {name} holds {sign.strip()!r}")
    if codes:
        return Rated("caution", f"{name} runs inline code")
    if place.fed and kind.quiet and any(word.value in ("-", "/dev/stdin") for word in arguments):
        return Rated("dangerous", f"{name} runs what it is fed")
    if not has_program and place.fed and not kind.quiet:
        return Rated("dangerous", f"{name} runs what it is fed")
    return Rated("caution", f"{name} runs a program")


def _rate_awk(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    rated = Rated("caution", f"{name} runs a program of its own language")
    values = [word.value for word in arguments]
    texts = programs.option_values(values, "e", "source", stops="FfvilE")
    operands = programs.positionals(
        values, programs.Options("FfvieEl", ("assign", "field-separator", "file", "include", "source", "load"))
    )
    has_file = programs.has_flag(values, "fE", "file", "exec", values="Fvie")
    if not has_file:
        texts += operands[:1]
    if programs.has_flag(values, "l", "load", values="Fvife"):
        rated = Rated("dangerous", f"{name} loads code")
    if _is_fed(arguments, programs.option_values(values, "fE", "file", "exec", stops="Fviel")):
        rated = Rated("dangerous", f"{name} runs what it is fed")
    for text in texts:
        if text is None:
            rated = worse(rated, Rated("dangerous", f"{name} runs a program that is computed at run time"))
            continue
        for command in awk_starts(text):
            rated = worse(rated, rater.start_text(command, place._replace(fed=True), name))
    return rated


def _rate_sed(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    found = SedScripts(values)
    if _is_fed(arguments, programs.option_values(values, "f", "file", stops="eliI")):
        return Rated("dangerous", "sed runs what it is fed")
    for script in found.scripts:
        if script is not None and sed_starts(script):
            return Rated("dangerous", "the script of sed runs commands")
    return Rated("caution", "sed -i changes files" if found.in_place else programs.CHANGERS["sed"])


def _rate_tar(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    rated = Rated("caution", programs.CHANGERS.get(name, f"{name} packs and unpacks files"))
    values = [word.value for word in arguments]
    for option in ("checkpoint-action", "to-command", "use-compress-program", "rsh-command", "info-script"):
        for text in programs.long_values(values, option):
            if text is not None and option == "checkpoint-action" and not text.startswith("exec="):
                continue
            code = None if text is None else text.removeprefix("exec=")
            rated = worse(rated, rater.start_text(code, place, f"tar --{option}"))
    for text in programs.option_values(values, "IF"):
        rated = worse(rated, rater.start_text(text, place, "tar -I"))
    return rated


def _rate_ssh(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    at, _ = programs.command_at(values, programs.Options("BbcDEeFIiJLlmOoPpQRSWw", operands=1))
    rated = Rated("caution", programs.CHANGERS["ssh"])
    for option in programs.option_values(values[:at], "o"):
        lowered = (option or "").lower().replace(" ", "").replace("=", "")
        if option is None or lowered.startswith(("proxycommand", "localcommand", "permitlocal", "knownhostscommand")):
            rated = Rated("dangerous", "ssh -o starts a program")
    if len(values) <= at:
        is_feeding = place.fed and not programs.has_flag(values, "nNfT")
        return Rated("dangerous", "ssh feeds its input to a remote shell") if is_feeding else rated
    words = values[at:]
    return worse(rated, rater.start_text(joined(words), place, name))


def _rate_rsync(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    rated = Rated("caution", programs.CHANGERS["rsync"])
    for text in programs.option_values([word.value for word in arguments], "e", "rsh", stops="BfMT"):
        if text is not None:
            rated = worse(rated, rater.start_text(text, place._replace(fed=False), "rsync -e"))
    return rated


def _rate_editor(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    codes = [value for value in values if value is not None and value.startswith("+")]
    codes += [value or "!" for value in programs.option_values(values, "cS", "cmd")]
    if any("!" in code or "system(" in code or "execute" in code for code in codes):
        return Rated("dangerous", f"{name} is told to run a command")
    return Rated("caution", f"{name} opens files")


def _rate_make(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    if _is_fed(arguments, programs.option_values(values, "f", "file", "makefile")):
        return Rated("dangerous", f"{name} runs what it is fed")
    for text in programs.long_values(values, "eval"):
        return Rated("dangerous", f"{name} --eval runs {text!r}")
    return Rated("caution", programs.CHANGERS["make"])


def _rate_timer(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    if values == ["-l"]:
        return Rated("caution", f"{name} -l lists timed commands")
    return Rated("dangerous", f"{name} changes the commands that run by time")


def _rate_script(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    """Rate programs that take a whole shell text as an option."""
    values = [word.value for word in arguments]
    letters, names = {
        "script": ("c", ("command",)),
        "nix-shell": ("", ("run", "command")),
        "xterm": ("e", ()),
        "tmux": ("", ()),
        "man": ("PH", ("pager", "html")),
    }[name]
    rated = Rated("caution", f"{name} can start commands")
    for text in programs.option_values(values, letters, *names):
        rated = worse(rated, rater.start_text(text, place, name))
    if name == "tmux" and _names_danger(values):
        rated = Rated("dangerous", "tmux starts a command")
    return rated


def _rate_hilt(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    verbs = ("approve", "deny", "trust", "grants", "config")
    operands = programs.positionals(values)
    if None in operands[:2] or any(operand in verbs for operand in operands[:2]):
        return Rated("dangerous", "hilt must be told its permissions by a person")
    return Rated("caution", "hilt runs tools")


def _match_option(value: str, names: Sequence[str]) -> tuple[str, str]:
    """Return which of the options a word is, with the value attached to it."""
    for name in names:
        if value == name:
            return name, ""
        if name.startswith("--"):
            if value.startswith(name + "="):
                return name, value[len(name) + 1 :]
        elif len(name) == 2 and value.startswith("-") and not value.startswith("--"):
            place = value.find(name[1])
            if place > 0 and value[1:place].isalnum():
                return name, value[place + 1 :]
            if place == 1:
                return name, value[2:]
    return "", ""


def _is_fed_file(path: str) -> bool:
    """Whether a path stands for what a program is fed."""
    return path in ("-", "/dev/stdin") or path.startswith("/dev/fd/") or (path.startswith("/proc/") and "/fd/" in path)


def _is_fed(arguments: Sequence[Word], files: Sequence[str | None]) -> bool:
    """Whether one of these program files is standard input or a substitution."""
    if None in files and any(word.value is None and "<(" in word.text for word in arguments):
        return True
    return any(file is not None and _is_fed_file(file) for file in files)


def is_standard_input(word: Word) -> bool:
    """Whether a file name stands for something that is fed: standard input, or a substitution."""
    if word.value is None:
        return "<(" in word.text or "/dev/" in word.text or "/proc/" in word.text
    return _is_fed_file(word.value)


def _names_danger(values: Sequence[str | None]) -> bool:
    """Whether any word could be the name of a program that must not start unseen."""
    for value in values:
        name = (value or "").rpartition("/")[2].lower()
        if value is None or name in programs.DESTROYERS or name in programs.ELEVATORS or name in programs.SHELLS:
            return True
    return False


RATED: dict[str, Rate] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _rate_awk),
    **dict.fromkeys(("sed", "gsed"), _rate_sed),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _rate_tar),
    "ssh": _rate_ssh,
    "rsync": _rate_rsync,
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "vimdiff", "less", "more"), _rate_editor),
    **dict.fromkeys(("make", "gmake"), _rate_make),
    **dict.fromkeys(("crontab", "at", "batch"), _rate_timer),
    **dict.fromkeys(("script", "nix-shell", "xterm", "tmux", "man"), _rate_script),
    "hilt": _rate_hilt,
}
