"""Programs that start other programs or run code: what they start is rated too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilt import places, variables
from hilt.shell import programs
from hilt.shell.arguments import rate_removal
from hilt.shell.awk_sed import SedScripts, awk_starts, awk_writes, sed_starts, sed_writes
from hilt.shell.quoting import ShellWord
from hilt.shell.rating import ORDER, RUN_TIME, CommandPlace, Rate, Rated, Rater, holds, is_made_of_input, joined, worse
from hilt.shell.syntax import Assignment

_SOURCES = (":::", "::::", ":::+", "::::+")
_MODULES = frozenset(("hilt", "pip", "pip3", "uv", "pipx", "poetry", "pdm", "conda"))
CODE_HOLDS = "the code of"  # begins the reason for code that may start programs or delete files
_REMOVES = ("remove", "unlink", "delete", "rmtree", "rmdir", "rmsync", ".rm(", "rm_rf", "truncate")
_EVALUATES = ("exec(", "eval(", "eval ", "compile(", "new function")
_INPUTS = ("-", "/dev/stdin")
_FED_MODULES = frozenset(("code", "asyncio", "pdb"))
# options of tar that name a program, and those that name one of its usual helpers
_TAR_COMMANDS = ("to-command", "info-script", "new-volume-script")
_TAR_HELPERS = ("use-compress-program", "rsh-command", "rmt-command")
# Programs that options and variables usually name: pagers, editors, remote shells, compressors, caches of compilers.
_HELPER = re.compile(
    r"(?:cat|less|more|most|bat|delta|col|true|false|:|ssh|rsh|rmt|vim?|nvim|nano|emacs|emacsclient|ed|code|firefox"
    r"|gzip|pigz|bzip2|pbzip2|lbzip2|xz|pxz|pixz|lzma|lzip|plzip|lzop|lz4|zstd|zstdmt|pzstd|brotli|compress"
    r"|rustc|rustdoc|ccache|sccache)\Z"
)
_CODE_VALUES = ("data:", "http://", "https://", "auto_prepend_file", "auto_append_file", "allow_url_include")
_TAR_VALUES = "bCfgHKLNTVX"
_SSH_STARTS = (
    *("proxycommand", "localcommand", "permitlocal", "knownhostscommand", "pkcs11provider", "securitykeyprovider"),
    *("match", "include", "remotecommand", "proxyusefdpass"),
)
_EDITOR_RUNS = (
    *("!", "system", "exec", "eval", "lua", "py", "perl", "ruby", "tcl", "mzs", "so ", "source", "norm", "term", "job"),
    *("libcall", "delete(", "rename(", "writefile", "feedkeys", "runtime", "packadd", "call "),
)


def rate_helper(rater: Rater, text: str | None, place: CommandPlace, starter: str) -> Rated:
    """Rate the program that an option or a variable names in place of a usual helper, such as a pager."""
    verb = (text or "").split()[:1]
    folder, _, name = verb[0].rpartition("/") if verb else ("", "", "")
    is_usual = bool(_HELPER.match(name)) or (text == "".join(verb) and name in programs.SHELLS)
    if text is None or (is_usual and (not folder or folder in programs.STANDARD_FOLDERS)):
        return rater.start_text(text, place, starter)
    return rate_code(rater, text, place, starter)


def rate_code(rater: Rater, text: str | None, place: CommandPlace, starter: str) -> Rated:
    """Rate a command that a program runs although its name does not show it."""
    rated = rater.start_text(text, place, starter)
    if text is not None:
        rater.start_unseen(place, f"{starter} runs {text!r}")
    return rated


def rate_elevator(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate sudo and similar programs: dangerous, and the command they start is a separate part."""
    texts = programs.option_values([word.value for word in arguments], "c", "command")
    if name in ("su", "runuser") and texts:
        rater.start_text(texts[0], place, name)
    elif name in programs.WRAPPERS:
        rate_wrapper(rater, name, arguments, place)
    return Rated("dangerous", programs.ELEVATORS[name])


def rate_wrapper(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate a program that starts the command after its own options."""
    options = programs.WRAPPERS[name]
    rated: Rated = (
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
                key, _, assigned = value.partition("=")
                rated = worse(rated, rater.rate_assignment(Assignment(key, assigned), place))
    if name == "env":
        for split in programs.option_values(values[:at], "S", "split-string"):
            remaining = " ".join(word.text for word in arguments[at:])
            code = None if split is None else f"env {split} {remaining}"
            return worse(rated, rater.start_text(code, place, "env -S"))
    if name == "time" and programs.option_values(values[:at], "o", "output"):
        rated = worse(rated, Rated("caution", "time -o writes a file"))
    if name == "flock":
        for text in programs.option_values(values[:at], "c", "command"):
            return worse(rated, rater.start_text(text, place, name))
    if name == "watch":
        return worse(rated, rater.start_text(joined(values[at:]), place, name))
    if not is_known:
        reason = f"{name} has options that may start anything"
        rated = worse(rated, Rated("dangerous" if _names_danger(values) else "caution", reason))
    inner = list(arguments[at:])
    if name in ("xargs", "parallel", "sem"):
        return _rate_feeder(rater, name, values[:at], inner, rated, place)
    if not inner:
        return Rated("safe", "env prints the environment") if name == "env" and rated.level == "safe" else rated
    if name in programs.SHELL_WRAPPERS:
        for word in inner:
            if word.value is None or " " in word.value:
                rated = worse(rated, rater.start_text(word.value, place, name))
    rater.start(inner, place)
    return rated


def _rate_feeder(
    rater: Rater, name: str, options: Sequence[str | None], inner: list[ShellWord], rated: Rated, place: CommandPlace
) -> Rated:
    """Rate xargs and parallel: their input becomes arguments of the command they start."""
    if not inner:
        if name == "parallel":
            return rater.start_unseen(place, "parallel runs the lines of its input")
        return rated
    marks = [mark for mark in programs.option_values(options, "Ii", "replace") if mark]
    if name in ("parallel", "sem"):
        marks.append("{}")
        if any(option is not None and option.startswith(("--rpl", "--tmpl")) for option in options) or any(
            "{=" in word.text for word in inner
        ):
            return rater.start_unseen(place, f"{name} runs code in its own language")
        if (inner[0].value or "").startswith(":::"):
            return rater.start_unseen(place, "parallel runs its arguments")
        inner = inner[: next((index for index, word in enumerate(inner) if word.value in _SOURCES), None)]
        if len(inner) == 1 and inner[0].value is not None and " " in inner[0].value:
            return worse(rated, rater.start_text(inner[0].value.replace("{}", '"$1"'), place, name))
    elif programs.has_flag(options, "i"):
        marks.append("{}")
    replaced = [ShellWord(word.text, None) if holds(word, marks) else word for word in inner]
    if name != "xargs" or programs.has_flag(options, "a", "arg-file"):
        place = place._replace(lists=None)
    rater.start([*replaced, RUN_TIME], place.feeding)
    return rated


def rate_runner(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate what `uv run X` and similar commands start."""
    verbs = programs.RUNNERS.get(name)
    values = [word.value for word in arguments]
    rated = Rated("safe", "")
    if name in ("npx", "bunx", "pnpx") or (name == "npm" and values[:1] in (["exec"], ["x"])):
        options = values[name == "npm" :]
        options = options[: programs.command_at(options, programs.Options("cpw", ("call", "package", "workspace")))[0]]
        for text in (*programs.option_values(options, "c"), *programs.long_values(options, "call", exact=True)):
            rated = worse(rated, rater.start_text(text, place, f"{name} -c"))
        packages = programs.positionals(
            values[name == "npm" :], programs.Options("cpw", ("call", "package", "workspace"))
        )
        if packages[:1] and packages[0] in programs.DESTROYERS:
            rated = Rated("dangerous", programs.DESTROYERS[packages[0] or ""])
    if name in ("npm", "pnpm", "yarn"):
        for text in programs.long_values(values, "script-shell", exact=True):
            rated = worse(rated, rater.start_text(text, place, f"{name} --script-shell"))
        if "config" in values[:1] and any((value or "").startswith("script-shell") for value in values):
            rated = rater.start_unseen(place, f"a setting changes the shell that runs the scripts of {name}")
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


def rate_shell(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate a shell by its script: an argument, a file, or standard input."""
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
    operands = arguments[index:]
    if has_code:
        if not operands:
            return Rated("caution", f"{name} starts a shell")
        return rater.start_text(operands[0].value, place, f"{name} -c")
    if operands and is_made_of_input(operands[0]):
        return Rated("dangerous", f"{name} runs the scripts that its input names")
    if operands and not reads_input and not is_standard_input(operands[0]):
        return Rated("caution", f"{name} runs a script")
    if place.input is not None and (reads_input or not operands or operands[0].value in _INPUTS):
        return rater.start_text(place.input, place.feeding, f"the standard input of {name}")
    if place.fed or operands or reads_input:
        return Rated("dangerous", f"{name} runs its standard input")
    return Rated("caution", f"{name} starts a shell")


def rate_interpreter(
    rater: Rater, name: str, kind: programs.Interpreter, arguments: Sequence[ShellWord], place: CommandPlace
) -> Rated:
    """Rate an interpreter by its program: inline code, a file, or standard input."""
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
                return Rated("dangerous", f"{name} runs its standard input")
            has_program = True
            break
        option, attached = match_option(value, kind.code)
        if option:
            codes.append(attached or following)
            index += not attached
            continue
        option, attached = match_option(value, kind.modules)
        if option:
            has_program = not _is_fed_file(attached or following or "")
            module = (
                arguments[index:]
                if not attached
                else [ShellWord(attached, attached, name=attached), *arguments[index:]]
            )
            if option == "-m" and module and module[0].value in _MODULES:
                return worse(Rated("caution", f"{name} runs a module"), rater.start(module, place))
            if option == "-m" and module and module[0].value in _FED_MODULES and place.fed:
                return Rated("dangerous", f"{name} runs its standard input")
            break
        option, attached = match_option(value, kind.values)
        if option:
            option_value = attached or following or ""
            if option_value.startswith(_CODE_VALUES):
                return rater.start_unseen(place, f"{name} {option} runs code in its value")
            index += not attached
            continue
        if value == "--":
            continue
        if value.startswith("-") and value != "-":
            continue
        has_program = not _is_fed_file(value)
        if name == "deno" and value.startswith(("http://", "https://", "data:")):
            return rater.start_unseen(place, "deno runs code from the network")
        if name == "deno" and value in ("run", "serve", "install", "test", "bench"):
            continue
        if codes:
            break
        if value.endswith((*(f"/{program}" for program in places.PROGRAMS), "hilt/__main__.py")):
            return _rate_hilt(rater, "hilt", arguments[index:], place)
        if value.endswith("manage.py"):
            return worse(
                Rated("caution", f"{name} runs a program"),
                rate_removal("manage.py", [word.value for word in arguments[index:]]),
            )
        if not has_program:
            return _rate_input(rater, name, kind, place if value in _INPUTS else place.feeding)
        break
    if codes:
        return max(
            (_rate_code(rater, name, kind, code, place, "code that is computed at run time") for code in codes),
            key=lambda rated: ORDER[rated.level],
        )
    names_input = any(word.value in _INPUTS for word in arguments)
    if place.fed and (names_input if kind.quiet else not has_program):
        return _rate_input(rater, name, kind, place)
    return Rated("caution", f"{name} runs a program")


def _rate_input(rater: Rater, name: str, kind: programs.Interpreter, place: CommandPlace) -> Rated:
    """Rate an interpreter that runs its standard input."""
    rated = _rate_code(rater, name, kind, place.input, place, "its standard input")
    return rated if place.input is None else rater.start_code(rated, place)


def _rate_code(
    rater: Rater, name: str, kind: programs.Interpreter, code: str | None, place: CommandPlace, what: str
) -> Rated:
    """Rate code that is in the line; None is code that is not, which `what` describes."""
    if code is None:
        return Rated("dangerous", f"{name} runs {what}")
    lowered = code.lower()
    sign = next((sign for sign in kind.risky if sign in lowered), None)
    if sign is not None:
        # in the sandbox, it can do no more than a program of the workspace, unless it runs what it reads
        is_seen = not place.fed or place.input is not None or not any(call in lowered for call in _EVALUATES)
        return Rated(
            "caution" if rater.sandboxed and is_seen else "dangerous",
            f"{CODE_HOLDS} {name} contains {sign.strip()!r}",
            () if rater.sandboxed and is_seen and any(word in lowered for word in _REMOVES) else None,
        )
    return Rated("caution", f"{name} runs inline code")


def _rate_awk(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("caution", f"{name} runs a program in its own language")
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
        rated = Rated("dangerous", f"{name} runs its standard input")
    for text in texts:
        if text is None:
            rated = worse(rated, Rated("dangerous", f"{name} runs a program that is computed at run time"))
            continue
        for command in awk_starts(text):
            rated = worse(rated, rater.start_text(command, place.feeding, name))
        for path in awk_writes(text):
            rated = worse(rated, rater.write(path, place))
    return rated


def _rate_sed(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    sed = SedScripts(values)
    if _is_fed(arguments, programs.option_values(values, "f", "file", stops="eliI")):
        return Rated("dangerous", "sed runs its standard input")
    rated = Rated("caution", "sed -i changes files" if sed.in_place else programs.CHANGERS["sed"])
    for script in sed.scripts:
        if script is None:
            if any(word.value is None and is_computed(word) for word in arguments):
                return rater.start_unseen(place, "sed runs a script that is computed at run time")
        elif sed_starts(script):
            return rater.start_unseen(place, "the script of sed runs commands")
        else:
            for path in sed_writes(script):
                rated = worse(rated, rater.write(path, place))
    return rated


def _rate_tar(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("caution", programs.CHANGERS.get(name, f"{name} packs and unpacks files"))
    values = _with_dashes([word.value for word in arguments])
    for text in programs.long_values(values, "checkpoint-action"):
        if text is None or text.startswith("exec="):
            rated = worse(rated, rate_code(rater, text and text[5:], place, "tar --checkpoint-action"))
    for option in _TAR_COMMANDS:
        for text in programs.long_values(values, option):
            rated = worse(rated, rate_code(rater, text, place, f"tar --{option}"))
    helpers = [text for option in _TAR_HELPERS for text in programs.long_values(values, option)]
    if name != "cpio":
        helpers += programs.option_values(values, "I", stops=_TAR_VALUES + "F")
        for text in programs.option_values(values, "F", stops=_TAR_VALUES + "I"):
            rated = worse(rated, rate_code(rater, text, place, "tar -F"))
    for text in helpers:
        rated = worse(rated, rate_helper(rater, text, place, "an option of tar"))
    if programs.has_flag(values, "", "remove-files", "delete", "recursive-unlink"):
        rated = worse(rated, Rated("dangerous", "an option makes tar delete files"))
    return rated


def _with_dashes(values: Sequence[str | None]) -> list[str | None]:
    """Return the arguments of tar with old-style letters, whose values follow in order, as options."""
    letters = values[0] if values else None
    if letters is None or letters.startswith("-"):
        return list(values)
    options: list[str | None] = []
    operands = list(values[1:])
    for letter in letters:
        options.append(f"-{letter}")
        if letter in _TAR_VALUES + "IF" and operands:
            options.append(operands.pop(0))
    return [*options, *operands]


def _rate_zip(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    rated = Rated("caution", programs.CHANGERS[name])
    texts = programs.long_values(values, "unzip-command")
    for index, value in enumerate(values):
        if value is not None and value.startswith("-") and not value.startswith("--") and "TT" in value:
            attached = value.partition("TT")[2]
            texts.append(attached or (values[index + 1] if index + 1 < len(values) else None))
    for text in texts:
        rated = worse(rated, rate_code(rater, text, place, "zip -TT"))
    if programs.has_flag(values, "md", "move", "delete", values="bnPtsixO"):
        rated = worse(rated, Rated("dangerous", f"an option makes {name} delete files"))
    return rated


def _rate_fd(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("caution", f"{name} is not known to be harmless")
    for index, word in enumerate(arguments):
        option, equals, attached = (word.value or "").partition("=")
        letters = option[1:] if option.startswith("-") and not option.startswith("--") else ""
        at = next((place for place, letter in enumerate(letters) if letter in "xX"), None)
        if option not in ("--exec", "--exec-batch") and (at is None or set(letters[:at]) & set("eEtdocSj")):
            continue
        program = attached if equals else "" if at is None else letters[at + 1 :]
        inner = [ShellWord(program, program, name=program.rpartition("/")[2])] if program else []
        for following in arguments[index + 1 :]:
            if following.value == ";":
                break
            inner.append(ShellWord(following.text, None, name="{}") if holds(following, ["{"]) else following)
        if inner:
            rater.start([*inner, RUN_TIME], place)
        return worse(rated, Rated("caution", f"{name} {option} starts a command"))
    return rated


def _rate_ssh(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    at, _ = programs.command_at(values, programs.Options("BbcDEeFIiJLlmOoPpQRSWw", operands=1))
    rated = _rate_ssh_options(rater, name, values[:at], place)
    if len(values) <= at:
        is_feeding = place.fed and not programs.has_flag(values, "nNfT")
        return Rated("dangerous", "ssh passes its input to a remote shell") if is_feeding else rated
    words = values[at + (values[at] == "--") :]
    return worse(rated, rater.start_text(joined(words), place, name))


def _rate_ssh_options(rater: Rater, name: str, values: Sequence[str | None], place: CommandPlace) -> Rated:
    """Rate the options common to ssh, scp and sftp: settings and libraries that start programs."""
    rated = Rated("caution", programs.CHANGERS.get(name, f"{name} connects to another machine"))
    stops = "BbcDEeFiJLlmOPpQRWw" + ("S" if name == "ssh" else "")
    for option in programs.option_values(values, "o", stops=stops + "I"):
        lowered = (option or "").lower().replace(" ", "").replace("=", "")
        if option is None or lowered.startswith(_SSH_STARTS):
            rated = rater.start_unseen(place, f"{name} -o starts a program")
    if name == "ssh" and programs.option_values(values, "I", stops=stops + "o"):
        rated = rater.start_unseen(place, "ssh -I loads code")
    return rated


def _rate_copying(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate scp and sftp."""
    values = [word.value for word in arguments]
    rated = _rate_ssh_options(rater, name, values, place)
    for text in programs.option_values(values, "SD", stops="BbcFiJloPR"):
        rated = worse(rated, rate_helper(rater, text, place, f"{name} -S"))
    if name == "sftp" and place.fed:
        return rater.start_unseen(place, "sftp runs its standard input")
    return rated


def _rate_rsync(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("caution", programs.CHANGERS["rsync"])
    values = [word.value for word in arguments]
    for text in programs.option_values(values, "e", "rsh", stops="BfMT"):
        if text is not None:
            rated = worse(rated, rate_helper(rater, text, place._replace(fed=False), "rsync -e"))
        elif not any("ssh " in word.text for word in arguments if word.value is None):
            rated = rater.start_unseen(place, "rsync -e starts a program that is computed at run time")
    for text in programs.long_values(values, "rsync-path", exact=True):
        rated = worse(rated, rater.start_text(text, place._replace(fed=False), "rsync --rsync-path"))
    names = [value[2:].partition("=")[0] for value in values if value is not None and value.startswith("--")]
    deletes = any(option == "del" or option.startswith(("delete", "remove-s", "force-d")) for option in names)
    if deletes and not programs.has_flag(values, "n", "dry-run", values="eBfMT"):
        rated = worse(rated, Rated("dangerous", "an option makes rsync delete files"))
    return rated


def _rate_editor(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    codes = [value[1:] for value in values if value is not None and value.startswith("+")]
    codes += [value or "!" for value in programs.option_values(values, "cS", "cmd")]
    if any(sign in code for code in codes for sign in _EDITOR_RUNS):
        return rater.start_unseen(place, f"an argument makes {name} run a command")
    is_scripted = name == "ex" or programs.has_flag(values, "eE", values="cSuUTtws")
    if place.fed and is_scripted:
        return rater.start_unseen(place, f"{name} runs its standard input")
    return Rated("caution", f"{name} opens files")


def _rate_pager(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    if any(value is not None and value.startswith("+") and any(sign in value for sign in "!|#sv") for value in values):
        return rater.start_unseen(place, f"an argument makes {name} run a command")
    if programs.has_flag(values, "k", "lesskey-file", "lesskey-src", "lesskey-content", values="bhjoOpPtTxyz"):
        return rater.start_unseen(place, f"{name} reads commands from a lesskey file")
    return Rated("caution", f"{name} opens files")


def _rate_small_language(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate programs whose language starts a shell with `!`, such as dc, ed and ftp."""
    values = [word.value for word in arguments]
    codes = programs.option_values(values, "ec", "expression", "execute")
    if place.input is not None and name in ("dc", "ed"):
        codes.append(place.input)
    elif place.fed:
        return rater.start_unseen(place, f"{name} runs its standard input")
    if any(code is None or "!" in code or "system" in code or "shell" in code for code in codes):
        return rater.start_unseen(place, f"an argument makes {name} run a command")
    return Rated("caution", f"{name} is not known to be harmless")


def _rate_make(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    if _is_fed(arguments, programs.option_values(values, "f", "file", "makefile")):
        return Rated("dangerous", f"{name} runs its standard input")
    for text in programs.option_values(values, "E", "eval", stops="CfIjloW"):
        return rater.start_unseen(place, f"{name} --eval runs {text!r}")
    rated = Rated("caution", programs.CHANGERS["make"])
    for value in values:
        if value is not None and "=" in value and not value.startswith("-"):
            variable, assigned = value.split("=", 1)
            if variables.is_code(variable) or variable in programs.OPTIONS_OF:
                rated = worse(rated, rater.rate_assignment(Assignment(variable, assigned), place))
    return rated


def _rate_timer(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    if "-l" in values and not programs.has_flag(values, "er"):
        return Rated("caution", f"{name} -l lists scheduled commands")
    return Rated("dangerous", f"{name} changes scheduled commands")


def _rate_texts(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate programs that take a command as an option."""
    values = [word.value for word in arguments]
    letters, names, _, stops, _ = programs.TEXT_OPTIONS[name]
    rated = Rated("caution", programs.CHANGERS.get(name, f"{name} can start commands"))
    if name in ("nc", "ncat", "netcat"):
        place = place.feeding  # by the network
    has_pager = name in ("man", "bat", "batcat", "delta")
    for text in programs.option_values(values, letters, *names, stops=stops):
        started = rate_helper(rater, text, place, name) if has_pager else rater.start_text(text, place, name)
        rated = worse(rated, started)
    for index, value in enumerate(values):
        # long names with one dash
        option, equals, attached = (value or "").lstrip("-").partition("=")
        if value is not None and value.startswith("-") and not value.startswith("--") and option in names:
            following = values[index + 1] if index + 1 < len(values) else None
            rated = worse(rated, rater.start_text(attached if equals else following, place, name))
    if name in ("tmux", "screen", "zellij") and _names_danger([value and value.split(" ")[0] for value in values]):
        rated = rater.start_unseen(place, f"{name} starts a command")
    if name == "script":
        inner = arguments[programs.command_at(values, programs.Options("cBEIOTm", operands=1))[0] :]
        if inner and not programs.has_flag(values, "c", "command"):
            rater.start(inner, place)
    if name == "hyperfine":
        for text in programs.positionals(values, programs.Options("wmMrspcSniNuDL", ("warmup", "runs"))):
            rated = worse(rated, rater.start_text(text, place, name))
    return rated


def _rate_socat(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    rated = Rated("caution", f"{name} accesses the network")
    for word in arguments:
        kind, colon, rest = (word.value or "").partition(":")
        if colon and kind.lower() in ("exec", "system", "shell"):
            rated = worse(rated, rater.start_text(rest.partition(",")[0], place.feeding, name))
    return rated


def _rate_code_option(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate programs that run code because of one option."""
    for word in arguments:
        value = word.value or ""
        if any(
            sign[1:] in value if sign[0] == "*" else value.startswith(sign) for sign in programs.CODE_ARGUMENTS[name]
        ):
            return rater.start_unseen(place, f"an argument makes {name} run code")
    return Rated("caution", programs.CHANGERS.get(name, f"{name} is not known to be harmless"))


def _rate_cmake(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    if values[:1] == ["-E"]:
        if any(value in ("rm", "remove", "remove_directory") for value in values[1:2]):
            return Rated("dangerous", "cmake -E deletes files")
        if values[1:2] in (["env"], ["time"]):
            at, _ = programs.command_at(values[2:], programs.Options(long=("unset", "modify")), assignments=True)
            if arguments[2 + at :]:
                rater.start(arguments[2 + at :], place)
    return Rated("caution", "cmake runs the commands of a project")


def _rate_ip(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    if "exec" in values and arguments[values.index("exec") + 2 :]:
        rater.start(arguments[values.index("exec") + 2 :], place)
    return Rated("caution", f"{name} is not known to be harmless")


def _rate_hilt(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    verbs = ("approve", "deny", "trust", "grants", "rules", "config", "install", "remove", "serve")
    operands = programs.positionals(values)
    if None in operands[:2] or any(operand in verbs for operand in operands[:2]):
        return Rated("dangerous", "only a person may change the permissions of hilt, its tools and its skills")
    return Rated("caution", "hilt runs tools")


def match_option(value: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the option that a word matches, with the value attached to it."""
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
    """Whether a path means standard input or another open descriptor."""
    return path in ("-", "/dev/stdin") or path.startswith("/dev/fd/") or (path.startswith("/proc/") and "/fd/" in path)


def _is_fed(arguments: Sequence[ShellWord], files: Sequence[str | None]) -> bool:
    """Whether one of these program files is standard input or a substitution."""
    if None in files and any(word.value is None and "<(" in word.text for word in arguments):
        return True
    return any(file is not None and _is_fed_file(file) for file in files)


def is_standard_input(word: ShellWord) -> bool:
    """Whether a file name means standard input or a process substitution."""
    if word.value is None:
        return "<(" in word.text or "/dev/" in word.text or "/proc/" in word.text
    return _is_fed_file(word.value)


def is_computed(word: ShellWord) -> bool:
    """Whether a word starts with an expansion."""
    return word.text.lstrip('"')[:1] in ("$", "`")


def _names_danger(values: Sequence[str | None]) -> bool:
    """Whether any word could name a program that must not start without a rating."""
    for value in values:
        name = (value or "").rpartition("/")[2].lower()
        if value is None or name in programs.DESTROYERS or name in programs.ELEVATORS or name in programs.SHELLS:
            return True
    return False


RATED: dict[str, Rate] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _rate_awk),
    **dict.fromkeys(("sed", "gsed"), _rate_sed),
    **dict.fromkeys(("tar", "gtar", "bsdtar", "cpio"), _rate_tar),
    "zip": _rate_zip,
    **dict.fromkeys(("fd", "fdfind"), _rate_fd),
    "ssh": _rate_ssh,
    **dict.fromkeys(("scp", "sftp"), _rate_copying),
    "rsync": _rate_rsync,
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "vimdiff", "gvim", "rvim"), _rate_editor),
    **dict.fromkeys(("less", "more", "most"), _rate_pager),
    **dict.fromkeys(("dc", "ed", "ftp", "lftp", "telnet", "gnuplot", "octave", "gp", "maxima"), _rate_small_language),
    **dict.fromkeys(("make", "gmake"), _rate_make),
    **dict.fromkeys(("crontab", "at", "batch", "atrm"), _rate_timer),
    **dict.fromkeys(programs.TEXT_OPTIONS, _rate_texts),
    **dict.fromkeys(programs.CODE_ARGUMENTS, _rate_code_option),
    "socat": _rate_socat,
    "cmake": _rate_cmake,
    "ip": _rate_ip,
    **dict.fromkeys(places.PROGRAMS, _rate_hilt),
}
