"""Finds where a script evaluates non-constant text a second time, and so may run a value as code (ADR 0026).

A bound value is data to the shell that runs the script. It becomes code if the text that contains it is evaluated
again: by eval, `sh -c`, a pipe into a shell, arithmetic, or use as a variable name. Values are not tracked through the
script. Instead, all text that is evaluated again must be constant: written in the script, or made of variables that the
script sets only to constants or numbers, or does not set at all. Anything else is reported when the tool is loaded, and
prompts at every call. False positives are accepted; a script that cannot be parsed is reported too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hilt import variables
from hilt.shell import arguments as argument_rules
from hilt.shell import awk_sed, clients, git, programs, starters
from hilt.shell.heredocs import remove_heredocs
from hilt.shell.quoting import ShellWord, unquote
from hilt.shell.rating import CommandPlace, Rate, Rated, is_made_of_input
from hilt.shell.syntax import Assignment, Command, Unparsed, read

CALCULATES = "arithmetic uses text that may not be a number"
NAMES = "the shell uses text that is not constant as a variable name"
MAX_DEPTH = 20

_RATED: dict[str, Rate] = {**starters.RATED, **argument_rules.RATED, **clients.RATED, **git.RATED}
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_NUMBER = re.compile(  # always a number, whatever the values of its variables
    r"""\$\{\#[^{}]*\}|(?<!\\)\$[\#?$!]|\$\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)
    |\$\(\ *(?:date\ \+%s|nproc|seq\ [0-9\ ]+|(?:(?:[^;&\n()`\\|"']|"[^"()`\\]*"|'[^']*')+\|)*
    \ *wc\ -[clmw](?:\ *<\ *(?:"[^"()`\\]*"|[^\s;&()`\\|<>"']+))?)\ *\)""",
    re.VERBOSE,
)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_LOOSE = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
_UNKNOWN = re.compile(r"`|\$\(|[<>]\(|\$\[|\$\{?[0-9@*!_-](?![A-Za-z_])|\$\{!")
_CALCULATED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)", re.ASCII
)
_OPERAND = re.compile(r"(?<![\w#.])[A-Za-z_]\w*", re.ASCII)
_SUBJECT = re.compile(r"\w+(?=\[)|\$\{(?:\w+|[@*])(?:\[[^\]]*\])?:")  # its own text is not evaluated
_KEYS = re.compile(r"\$\{!\w+(?:\[[@*]\]|[@*])\}")
_SETS = re.compile(r"[\"']?([A-Za-z_]\w*)(\[[^\]]*\])?\+?=", re.ASCII)
_BEGINS_FORMAT = re.compile(r"[A-Za-z0-9%]|['\"](?:\\[A-Za-z0-9]|[^-$`'\"\\\n])")
_PLAIN_INDEX = re.compile(r"\w+\[\d+\]\Z")

# variables that the shell itself sets to text that may come from a value
_FILLED = programs.words("_ REPLY OPTARG MAPFILE BASH_REMATCH PWD OLDPWD DIRSTACK BASH_COMMAND COPROC")
_INTEGERS = programs.words("RANDOM SRANDOM SECONDS LINENO OPTIND HISTCMD BASHPID EPOCHSECONDS")
_DECLARES = programs.words("declare typeset local readonly export")
_COMPARES = programs.words("-eq -ne -lt -le -gt -ge")
_READS = programs.words("read mapfile readarray getopts")  # which fill variables
_COUNTERS = programs.words("date nproc seq wc")
_ANY_WORD = programs.words("alias jobs hash enable bind complete compgen fc crontab at batch")
_WRITES = programs.words("tee cp mv ln install")
_QUERIES = dict.fromkeys(("psql", "mysql", "mariadb"), programs.Interpreter(("-c", "-e", "--command", "--execute")))
# programs that can run something because of an option, and their options with a value in the next word
_TAKES_OPTIONS = {
    name: letters.strip()
    for name, letters in programs.rows(
        """
        ssh sftp scp: BbcDEeFIiJLlmOopQRSWw
        vim vi nvim ex: cSuUTtws
        man: PHCRLmMSs
        find:
        fd: edEtjcS
        tar: bCfFgHIKLNTVX
        zip: bnPtsixO
        git: CcmFbBnSGLUo
        rsync: efBMT
        sed: efl
        sort: kStTo
        make: CfIjloW
        rg: ABCdefgjmMrtT
        wget: OoaPUtTwQADlIXRBie
        less: bhjoOpPtTxyz
        tcpdump: BcCEFGijrswWyz
        """
    ).items()
}


class Variables(NamedTuple):
    """The variables of a script that are bound to parameters, by the kind of their values."""

    texts: dict[str, str]  # any string, with the names of the parameters
    chosen: set[str]  # strings that the author wrote
    numbers: set[str]


class Evaluation(NamedTuple):
    """A place of a script that may run a value as code; with `names`, only if one of these values is an option."""

    start: int
    reason: str
    names: tuple[str, ...] = ()


def evaluations(script: str, bound: Variables) -> list[Evaluation]:
    """Return the places of a script that may run a value as code, each reason once per place."""
    finder = _Finder(bound)
    try:
        return list(dict.fromkeys(finder.find(script)))
    except Unparsed as problem:
        return [Evaluation(0, f"the script cannot be checked: {problem}")]


class _Finder:
    """Checks every command of a script, and of constant text that it passes to a shell. A Rater, see rating.py."""

    sandboxed = True

    def __init__(self, bound: Variables) -> None:
        self._bound = bound
        self._texts: dict[str, int] = {}  # the texts that were parsed, with their offsets in the script
        self._commands: list[tuple[Command, CommandPlace, str | None]] = []
        self._evaluated: list[tuple[str, int]] = []
        self._assigned: dict[str, list[str | None]] = {}
        self._integers = set(_INTEGERS)
        self._written: set[str | None] = set()  # names of files
        self._sources = False  # other files may set any variable
        self._evaluations: list[Evaluation] = []
        self._start = 0  # of the current command
        self._has_open_word = False  # one of its words may contain a value
        self._feed: str | None = ""  # its standard input

    def find(self, script: str) -> list[Evaluation]:
        """Check all commands until none adds another text."""
        self._read(script, 0)
        parsed_count = 0
        while parsed_count != len(self._texts):
            parsed_count = len(self._texts)
            self._evaluations = []
            for command, place, feed in list(self._commands):
                self._start = place.start
                self._check_assignments(command.assignments)
                if not self._integers.isdisjoint(self._filled(command.words)):
                    self._add(CALCULATES)
                if command.words:
                    self._check_command([self._resolved(word) for word in command.words], place, feed)
            for text, start in list(self._evaluated):
                self._start = start
                self._check_arithmetic(text, is_whole=text.startswith(("$", "((", "for")) and not text.startswith("${"))
        return sorted(self._evaluations)

    def _add(self, reason: str, names: tuple[str, ...] = ()) -> None:
        self._evaluations.append(Evaluation(self._start, reason, names))

    # --- the whole script ---------------------------------------------------------------------------------------------

    def _read(self, text: str, start: int, *, depth: int = 0) -> None:
        """Record the text of a shell script; a nested one has the offset of its command."""
        if text in self._texts:
            return
        if depth > MAX_DEPTH:
            raise Unparsed("commands that start other commands are nested too deeply")
        is_inner = bool(self._texts)
        self._texts[text] = start
        script = read(text)
        if not _COUNTERS.isdisjoint(script.functions):
            raise Unparsed("the script redefines a program that prints numbers")
        feeds_all = any(
            command.words and command.words[0].value == "exec" and _inputs(command) for command in script.commands
        )
        for command in script.commands:
            at = start if is_inner else command.start
            feed = None if feeds_all else _feed(text, command)
            self._commands.append((command, CommandPlace(at, command.end, feed != "", depth), feed))
            for name, value, source in command.assignments:
                self._assigned.setdefault(name, []).append(source if value is not None or source else None)
            self._declare(command.words)
            self._written |= {
                redirection.target.name
                for redirection in command.redirections
                if redirection.target and ">" in redirection.operator
            }
            if command.words and command.words[0].name in _WRITES:
                self._written.update(word.name for word in command.words[1:])
        expressions = [*script.evaluated, *_calculations(text)]
        self._evaluated += [(evaluated, start if is_inner else at) for evaluated, at in expressions]
        for evaluated, _ in expressions:
            for name in (before or after for before, after in _CALCULATED.findall(evaluated)):
                self._assigned.setdefault(name, []).append("0")

    def _declare(self, words: Sequence[ShellWord]) -> None:
        """Record the variables that a command sets or declares."""
        for name in self._filled(words):
            self._assigned.setdefault(name, []).append(None)
        values = [word.value or "" for word in words]
        options = {letter for value in values if value[:1] in ("-", "+") for letter in value}
        for word in words if not _DECLARES.isdisjoint(values) else ():
            name = _SETS.sub(r"\1=", word.text).partition("=")[0]
            if "i" in options:
                self._integers.add(name)
            if options & set("aA"):
                self._assigned.setdefault(name, []).append("()")
        self._sources = self._sources or bool({"source", "."} & set(values))

    def _filled(self, words: Sequence[ShellWord]) -> set[str]:
        """Return a superset of the names of variables that a command sets."""
        values = {(word.value or "").removeprefix("-v").partition("[")[0] for word in words}
        return values if values & _READS or "printf" in values else set()

    def _is_constant(self, text: str, *, number: bool = False) -> bool:
        """Whether a text consists only of constants; with `number`, only of numbers."""
        return self._is_constant_text(text, number, set())

    def _is_constant_text(self, text: str, number: bool, seen: set[str]) -> bool:
        text = _NUMBER.sub("0", text)
        if _UNKNOWN.search(text) or (number and _VARIABLE.sub("", text).strip("\"'+-0123456789 {.}")):
            return False
        return all(self._is_constant_variable(name, number, seen) for name in _LOOSE.findall(text))

    def _is_constant_variable(self, name: str, number: bool, seen: set[str]) -> bool:
        """Whether a variable holds only constants; one that the script does not set is the user's."""
        if name in self._bound.numbers or name in seen:
            return True
        if name in self._bound.chosen:
            return not number
        if name in self._bound.texts or name in _FILLED:
            return False
        seen.add(name)
        texts = self._assigned.get(name)
        if texts is None:
            return not self._sources or name in _INTEGERS
        return all(text is not None and self._is_constant_text(text, number, seen) for text in texts)

    def _resolved(self, word: ShellWord) -> ShellWord:
        """Return a word with its value if it consists only of constants and numbers."""
        if word.value is not None or is_made_of_input(word):
            return word

        def fill(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            is_set = name in self._assigned or name in self._bound.numbers
            return "0" if is_set and self._is_constant(match[0], number=True) else match[0]

        resolved = unquote(_VARIABLE.sub(fill, _NUMBER.sub("0", word.text)))
        return word if resolved.value is None else resolved._replace(text=word.text)

    def _is_open(self, word: ShellWord) -> bool:
        """Whether a word may contain a value."""
        return word.value is None and (is_made_of_input(word) or not self._is_constant(word.text))

    def _any_open(self, words: Sequence[ShellWord]) -> bool:
        return any(map(self._is_open, words))

    # --- what the shell evaluates itself --------------------------------------------------------------------------

    def _check_arithmetic(self, text: str, *, is_whole: bool = True) -> None:
        """Check arithmetic; unless `is_whole`, only the arithmetic in a subscript or an expansion."""
        if text.startswith("${!"):
            if not _KEYS.match(text) and not self._is_constant("$" + text[3:].rstrip("}")):
                self._add(NAMES)
            return
        if not is_whole:
            text = _SUBJECT.sub("", text.partition("]=")[0] if text.startswith("[") else text, count=1)
        text = _NUMBER.sub("0", text.removeprefix("$"))
        names = set(_OPERAND.findall(text)) - {"for"}
        if _UNKNOWN.search(text) or not all(self._is_constant(f"${name}", number=True) for name in names):
            self._add(CALCULATES)

    def _check_name(self, word: ShellWord) -> None:
        """Check a word that is used as a variable name."""
        if self._is_open(word) or ("[" in word.text and _PLAIN_INDEX.match(word.value or "") is None):
            self._add(NAMES)

    def _check_assignments(self, assignments: Sequence[Assignment]) -> None:
        for name, value, text in assignments:
            if name in self._integers and not (text and self._is_constant(text, number=True)) and value != "":
                self._add(CALCULATES)
            if (value is None and text and not self._is_constant(text)) or _is_prompt(name, text):
                self._check_variable(name)

    def _check_variable(self, name: str) -> None:
        """Check a variable that is set to non-constant text."""
        if (
            _is_prompt(name, "$(")
            or variables.runs_value(name)
            or name in programs.OPTIONS_OF
            or variables.loads_code(name, None)
        ):
            self._add(f"{name}= makes programs run text that is not constant")

    # --- commands -------------------------------------------------------------------------------------------------

    def _check_command(self, words: Sequence[ShellWord], place: CommandPlace, feed: str | None) -> None:
        """Check one command; `feed` is its standard input: "" for none, None if it is not constant."""
        verb, *arguments = words
        name = verb.name
        if name is None or verb.pattern:
            self._add("the program to run is not constant")
            return
        if place.depth > MAX_DEPTH:
            raise Unparsed("commands that start other commands are nested too deeply")
        if "/" in verb.text:
            self._check_file("the shell", ShellWord(verb.text, name, name=name))
        place = place._replace(fed=feed != "", depth=place.depth + 1)
        canonical = programs.GNU.get(name.lower(), name.lower())
        interpreter = programs.INTERPRETERS.get(name) or programs.INTERPRETERS.get(name.rstrip("0123456789.-"))
        if canonical in programs.SHELLS:
            self._check_shell(name, arguments, place, feed)
        elif interpreter or name in _QUERIES:
            self._check_interpreter(name, interpreter or _QUERIES[name], arguments, feed)
        elif not self._check_builtin(name, arguments, place):
            self._check_program(name if name in _RATED else canonical, arguments, place, feed)

    def _check_code(self, program: str, word: ShellWord, place: CommandPlace) -> None:
        """Check a word that a shell runs as code."""
        variable = _VARIABLE.fullmatch(word.text.strip('"'))
        texts = [word.value]
        if word.value is None and variable and self._is_constant(word.text):
            texts = [text and unquote(text).value for text in self._assigned.get(variable[1] or variable[2], [None])]
        for text in texts:
            if text is None:
                self._add(f"{program} runs text that is not constant")
            else:
                self._read(text, place.start, depth=place.depth)

    def _check_shell(self, name: str, arguments: Sequence[ShellWord], place: CommandPlace, feed: str | None) -> None:
        rest = list(arguments)
        has_code = reads_input = False
        while rest and (option := rest[0].value) is not None and option.startswith(("-", "+")) and option != "-":
            del rest[0]
            if option == "--":
                break
            is_short = option.startswith("-") and not option.startswith("--")
            has_code = has_code or (is_short and "c" in option) or option == "--command"
            reads_input = reads_input or (is_short and "s" in option)
            if (option in ("--rcfile", "--init-file") or option[-1] in "oO") and rest:
                self._check_file(name, rest.pop(0))
        if has_code:
            for word in rest[:1]:
                self._check_code(f"{name} -c", word, place)
        elif rest and not reads_input and not starters.is_standard_input(rest[0]):
            self._check_file(name, rest[0], rest[1:])
        elif feed is None or (rest and rest[0].value is None and not reads_input):
            self._add(f"{name} runs its standard input")
        elif feed:
            self._read(feed, place.start, depth=place.depth)

    def _check_file(self, name: str, word: ShellWord, rest: Sequence[ShellWord] = ()) -> None:
        """Check the file that a program runs; if `word` may be an option, check the rest too."""
        if word.name in self._written:
            self._add(f"{name} runs a file that the script writes")
        if (
            self._is_open(word)
            or "<(" in word.text
            or (word.value is None and word.name is None and self._any_open(rest))
        ):
            self._add(f"{name} runs a file or text that is not constant")

    def _check_interpreter(
        self, name: str, kind: programs.Interpreter, arguments: Sequence[ShellWord], feed: str | None
    ) -> None:
        rest = list(arguments)
        word = ShellWord("-", "-", name="-")
        while rest:
            word = rest.pop(0)
            value = word.value
            if value is None or starters.is_standard_input(word) or not value.startswith("-"):
                break
            if starters.match_option(value, kind.modules)[0]:
                word = rest[0] if rest else word
                break
            option, attached = starters.match_option(value, kind.code)
            if option and not attached and rest and self._is_open(rest[0]):
                self._add(f"{name} {option} runs text that is not constant")
            if option or starters.match_option(value, kind.values)[0]:
                rest = rest[not attached :]
            if option:
                return
        else:
            word = ShellWord("-", "-", name="-")
        if word.value is None or not starters.is_standard_input(word):
            if name not in _QUERIES:
                self._check_file(name, word, rest)
        elif feed is None and not (kind.quiet and word.text == "-" and not arguments):
            self._add(f"{name} runs its standard input")

    def _check_builtin(self, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> bool:
        """Check a shell builtin; return whether it is a known one."""
        values = [word.value for word in arguments]
        operands = [word for word in arguments if word.value != "--"]
        if name == "eval":
            texts = [word.value for word in operands]
            code = (
                operands[0]
                if len(operands) == 1
                else ShellWord("", None if None in texts else " ".join(map(str, texts)))
            )
            self._check_code(name, code, place)
        elif name in ("source", "."):
            for word in operands[:1]:
                self._check_file(name, word)
                if starters.is_standard_input(word):
                    self._add(f"{name} runs its standard input")
        elif name == "trap":
            for word in [word for word in operands if word.value not in ("-l", "-p")][:1]:
                self._check_code(name, word, place)
        elif name in _ANY_WORD:
            evaluates = name == "compgen" and any(sign in word.text for word in arguments for sign in "$`")
            if evaluates or self._any_open(arguments) or (place.fed and name in ("crontab", "at", "batch")):
                self._add(f"{name} runs text that is not constant")
            for word in arguments if name == "alias" else ():
                self._read((word.value or "").partition("=")[2], place.start, depth=place.depth)
        elif name == "let":
            self._check_arithmetic(" ".join(word.text for word in arguments))
        elif name == "unset":
            for word in arguments if "-f" not in values else ():
                self._check_name(word)
        elif name in _READS or name == "wait":
            for word in arguments:
                self._check_name(word)
            if name in ("mapfile", "readarray") and programs.has_flag(values, "C", values="cdnOsu"):
                self._add(f"{name} -C runs text that is not constant")
        elif name == "printf":
            self._check_printf(arguments)
        elif name in ("test", "[", "[["):
            self._check_test(name, arguments)
        elif name in _DECLARES:
            self._check_declaration(name, arguments)
        else:
            return name in programs.BUILTINS or name in programs.READERS
        return True

    def _check_printf(self, arguments: Sequence[ShellWord]) -> None:
        rest = list(arguments)
        while rest and (rest[0].value or "").startswith("-"):
            option = rest.pop(0).value or ""
            if option == "-v" and rest:
                self._check_name(rest.pop(0))
            elif option.startswith("-v"):
                self._check_name(ShellWord(option[2:], option[2:]))
            else:
                break
        # a computed format may be -v, and the next word the name
        if not rest or (rest[0].value is not None and not rest[0].pattern) or _BEGINS_FORMAT.match(rest[0].text):
            return
        if self._any_open(rest) and (rest[1:] or not _is_quoted(rest[0].text)):
            self._add(NAMES)

    def _check_test(self, name: str, arguments: Sequence[ShellWord]) -> None:
        before: ShellWord | None = None
        for word, following in zip(arguments, [*arguments[1:], None], strict=True):
            if word.value in ("-v", "-R") and following is not None:
                self._check_name(following)
            if name == "[[":
                if word.value in _COMPARES:
                    self._check_arithmetic(
                        " ".join(operand.text for operand in (before, following) if operand is not None)
                    )
            elif self._is_open(word) and (not _is_quoted(word.text) or (before is not None and self._is_open(before))):
                self._add(NAMES)  # -v and a name
            before = word

    def _check_declaration(self, name: str, arguments: Sequence[ShellWord]) -> None:
        options = {letter for word in arguments if (word.value or "")[:1] in ("-", "+") for letter in word.value or ""}
        if "n" in options and name != "export":
            self._add(NAMES)
        for word in arguments if not options & set("pfF") else ():
            assignment = _SETS.match(word.text)
            if assignment is None:
                if (word.value or "")[:1] not in ("-", "+"):
                    self._check_name(word)
                continue
            if assignment[2] and _PLAIN_INDEX.match(assignment[0].strip("\"'").rstrip("+=")) is None:
                self._add(CALCULATES)
            is_array = options & set("aA") or any(
                (text or "(").startswith("(") for text in self._assigned.get(assignment[1], ())
            )
            if self._is_open(word):
                if is_array and not word.broken:
                    self._add(f"{name} runs the text of an array")
                self._check_variable(assignment[1])

    def _check_program(self, name: str, arguments: Sequence[ShellWord], place: CommandPlace, feed: str | None) -> None:
        """Check a program that may start others, or read a value as an option."""
        values = [word.value for word in arguments]
        is_open = self._any_open(arguments)
        outer = self._has_open_word, self._feed
        self._has_open_word, self._feed = is_open, feed
        if name in ("env", "sudo"):
            arguments = [self._setting(word) for word in arguments]
        if name in ("awk", "gawk", "mawk", "nawk", "original-awk"):
            self._check_awk(name, values, is_open=is_open)
        elif name in ("sed", "gsed"):
            scripts = awk_sed.SedScripts(values).scripts
            if (None in scripts and is_open) or any(
                script is not None and awk_sed.sed_starts(script) for script in scripts
            ):
                self._add(f"{name} runs text that is not constant")
        elif name in programs.ELEVATORS:
            starters.rate_elevator(self, name, arguments, place)
            if name in ("su", "runuser") and feed is None:
                self._add(f"{name} runs its standard input")
        elif name in programs.WRAPPERS:
            starters.rate_wrapper(self, name, arguments, place)
            if name in ("parallel", "sem") and is_open:
                self._add(f"{name} runs text that is not constant")
        elif name in _RATED:
            if name in ("make", "gmake") and feed is None and any(map(starters.is_standard_input, arguments)):
                self._add(f"{name} runs its standard input")
            words = [part for word in arguments for part in _attached(word)]
            rated = _RATED[name](self, name, words, place)
            if rated.level == "dangerous" and (is_open or place.fed):
                fixed = [word if word.value is not None else ShellWord("x", "x", name="x") for word in words]
                if _RATED[name](_Finder(self._bound), name, fixed, place._replace(fed=False)).level != "dangerous":
                    self._add(rated.reason)
        else:
            starters.rate_runner(self, name, arguments, place)
        for at, word in enumerate(arguments):
            base = (word.name or "").lower()
            if base in ("eval", *programs.SHELLS) or base.rstrip("0123456789.-") in programs.INTERPRETERS:
                self._check_command(arguments[at:], place, feed)
                if any((option.value or "").startswith("-") for option in arguments[at + 1 : at + 2]):
                    break
        if name in _TAKES_OPTIONS:
            self._check_options(name, arguments)
        self._has_open_word, self._feed = outer

    def _check_awk(self, name: str, values: Sequence[str | None], *, is_open: bool) -> None:
        texts = programs.option_values(values, "e", "source", stops="FfvilE")
        if not programs.has_flag(values, "fE", "file", "exec", values="Fvie"):
            options = programs.Options("FfvieEl", ("assign", "field-separator", "file", "include", "source", "load"))
            texts += programs.positionals(values, options)[:1]
        elif None in programs.option_values(values, "fE", "file", "exec", stops="Fviel") and is_open:
            texts.append(None)
        if (None in texts and is_open) or any(text and None in awk_sed.awk_starts(text) for text in texts):
            self._add(f"{name} runs text that is not constant")

    def _setting(self, word: ShellWord) -> ShellWord:
        """Return NAME=value with a known value, so that it is not read as the program to run."""
        assignment = _SETS.match(word.text) if self._is_open(word) else None
        if assignment is None:
            return word
        self._check_variable(assignment[1])
        return ShellWord(word.text, f"{assignment[1]}=x")

    def _check_options(self, name: str, arguments: Sequence[ShellWord]) -> None:
        """Check words that a program may read as an option that runs something."""
        before = ""
        for word in arguments:
            if word.value == "--" and name not in ("find", "make"):
                return
            is_value = before.startswith("-") and (name == "find" or before[-1] in _TAKES_OPTIONS[name])
            before = word.value or ""
            if is_value or not self._is_open(word) or not (_leads(word.text) or is_made_of_input(word)):
                continue
            names = None if is_made_of_input(word) else self._leading(word.text, set())
            if names != ():
                whose = f"the value of {' or '.join(names)}" if names else "text that is not constant"
                self._add(f"{name} may read {whose} as an option that runs something", names or ())

    def _leading(self, text: str, seen: set[str]) -> tuple[str, ...] | None:
        """Return the parameters whose values a text may start with; None if it may start with anything else."""
        names: list[str] = []
        text = text.lstrip("\"'")
        while text.startswith("$"):
            match = _VARIABLE.match(text)
            variable = (match[1] or match[2]) if match else ""
            if match is None or variable in _FILLED or (self._sources and variable not in self._bound.texts):
                return None
            if variable in self._bound.texts:
                names.append(self._bound.texts[variable])
            elif variable not in seen:
                seen.add(variable)
                for assigned in self._assigned.get(variable, ()):
                    inner = None if assigned is None else self._leading(assigned, seen)
                    if inner is None:
                        return None
                    names += inner
            text = text[match.end() :].lstrip("\"'")
        # after an empty value, the following text comes first
        return None if text[:1] in ("-", "`", "<", "{") else tuple(dict.fromkeys(names))

    # --- what programs start, reported by shell/starters.py ----------------------------------------------------

    def start(self, words: Sequence[ShellWord], place: CommandPlace) -> Rated:
        """Check a command that another command starts."""
        if words and words[0].text:
            self._check_command(words, place, None if place.fed and self._feed == "" else self._feed)
        return _SAFE

    def start_text(self, text: str | None, place: CommandPlace, starter: str) -> Rated:
        """Check a text that a program passes to a shell."""
        if text is not None:
            self._read(text, place.start, depth=place.depth)
        else:
            self._add(f"{starter} runs text that is not constant")
        return _SAFE

    def start_unseen(self, place: CommandPlace, reason: str) -> Rated:
        """Report code that a program runs and that cannot be checked."""
        if self._has_open_word or self._feed is None:
            self._add(reason)
        return _SAFE

    def start_code(self, rated: Rated, place: CommandPlace) -> Rated:
        """Accept code in a here-document: the values of a template in it are checked where it is read."""
        return rated

    def write(self, path: str | None, place: CommandPlace) -> Rated:
        """Writing a file runs nothing."""
        return _SAFE

    def rate_assignment(self, assignment: Assignment, place: CommandPlace) -> Rated:
        """Constant assignments run no value."""
        return _SAFE

    def redefine(self, name: str) -> None:
        """A redefined name is constant, too."""


_SAFE = Rated("safe", "")


def _inputs(command: Command) -> list[str]:
    return [
        text for redirection in command.redirections if (text := redirection.text.lstrip("0123456789")).startswith("<")
    ]


def _feed(text: str, command: Command) -> str | None:
    """Return the standard input of a command; "" for none and for a constant file, None if it is not constant."""
    inputs = _inputs(command)
    if not inputs:
        return None if command.fed else ""
    source = inputs[0]
    if len(inputs) > 1:
        return None
    if source.startswith("<<<"):
        return unquote(source[3:].strip()).value
    if not source.startswith("<<"):
        target = unquote(source[1:].strip())
        return None if target.value is None or starters.is_standard_input(target) else ""
    redirection = next(redirection for redirection in command.redirections if redirection.text.endswith(source))
    place = slice(redirection.start, redirection.end)
    stripped = remove_heredocs(text) if text[place] == redirection.text else None
    for body in () if stripped is None else stripped.bodies:
        is_constant = body.quoted or not any(sign in body.text for sign in "$`\\")
        if is_constant and place.start <= body.operator[0] < place.stop:
            return re.sub(r"^\t+", "", body.text, flags=re.MULTILINE) if source.startswith("<<-") else body.text
    return None


def _calculations(text: str) -> Iterator[tuple[str, int]]:
    """Yield everything that looks like arithmetic: the grammar does not show it in here-documents."""
    for match in re.finditer(r"\$\(\(|\$\[", text):
        opening, closing = "[]" if match[0] == "$[" else "()"
        depth = 0
        for end in range(match.start() + 1, len(text)):
            depth += (text[end] == opening) - (text[end] == closing)
            if not depth:
                break
        yield text[match.start() : end + 1], match.start()


def _leads(text: str) -> bool:
    """Whether a word starts, possibly after dashes, with an expansion."""
    return re.match(r"[\"'-]*[$`]", text) is not None


def _is_quoted(text: str) -> bool:
    """Whether a word stays one word, whatever the values of its variables."""
    before = ""
    while text != before:
        before, text = text, re.sub(r"\$\([^()]*\)", "$_", text)
    rest = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", "", text)
    return "$" not in rest and "`" not in rest


def _is_prompt(name: str, text: str) -> bool:
    """Whether a variable holds a prompt that runs commands: the shell expands it when it is shown."""
    return name.startswith(("PS4", "PS0")) and any(sign in text for sign in ("$(", "`"))


def _attached(word: ShellWord) -> list[ShellWord]:
    """Return an option and the computed value attached to it as two words."""
    match = re.match(r"--[\w-]+(?==)|-[A-Za-z]+(?=[\"'$`])", word.text) if word.value is None else None
    return [word] if match is None else [unquote(match[0]), ShellWord(word.text[match.end() :].removeprefix("="), None)]
