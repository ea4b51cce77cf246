"""Which values a program reads as code a second time: eval, the text of `sh -c`, a pipe into a shell, and their like.

A bound value is data to the shell that runs the script. It is code again to the next program that evaluates the text
which the value has got into: right there, by a substitution, by a variable of the script, by a pipe or by a
here-document. That cannot be turned into data: the text may run on another machine or be what the author means to run.
So it is found, noted when the tool is loaded, and asked about when a value is more than a plain word. The same goes for
what the shell itself evaluates once more, see shell_evaluation.py. What is found is an estimate that errs on the side
of asking; a text that goes through a file is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from hilt.custom.templates.evaluation import CALCULATION, NAME, Declared, declared, names_in
from hilt.custom.templates.parts import Reference

SHELLS = frozenset(("sh", "bash", "dash", "ksh", "mksh", "zsh", "ash", "rbash", "fish"))
INTERPRETERS = re.compile(
    r"(?:python[0-9.]*|perl|ruby|node|bun|deno|php|lua|osascript|pwsh|powershell|expect|julia|Rscript|psql|mysql|mariadb)\Z"
)
MAYBE = "\1"  # stands among the words where a section may have been absent

_TAKE_C = SHELLS | {"su", "runuser", "flock", "script"}
_WITH_C = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*\Z")
_CODE_OPTIONS = ("-c", "-e", "-E", "-p", "-r", "--eval", "--print")
# programs that read a word as code, and their options that have a value in the next word
AWK = dict.fromkeys(("awk", "gawk", "mawk", "nawk"), "Fvfil")
_JOINING = {"watch": "nq", "parallel": "jIS"}  # which give their words to a shell
OF_TEXT = frozenset(  # whose words are no programs
    ("grep", "egrep", "fgrep", "rg", "cat", "tee", "sort", "cut", "tr", "head", "tail", "wc", "jq", "echo", "printf")
)
_SSH = "BbcDEeFIiJLlmOopQRSWw"
# programs that an option makes run something, and their options that have a value in the next word: those that take
# options before their first operand alone, and those that take them anywhere
OPTION = "an option of "
_LEADING_OPTIONS = {
    **dict.fromkeys(SHELLS, "coO"),
    **dict.fromkeys(("python", "python3", "perl", "ruby", "node", "bun", "deno", "php", "lua"), "cmWXeEIrMl"),
    "env": "uCS",
    "sudo": "ugpCrtTRDUh",
    "doas": "uC",
    "xargs": "adEILnPs",
    "ssh": _SSH,
    "sftp": _SSH,
    "scp": _SSH,
    "flock": "wEc",
    "script": "cEIOBTm",
    "watch": "nqs",
    "parallel": "jIaNnLPSd",
    "nice": "n",
    "man": "PHCRLmMSs",
}
_OPTIONS_ANYWHERE = {
    "find": "",
    "fd": "edEtjcS",
    "tar": "bCfFgHIKLNTVX",
    "zip": "bnPtsixO",
    "git": "CcmFbBnSGLUo",
    "rsync": "efBMT",
    "sed": "efl",
    "sort": "kStTo",
    "make": "CfIjloW",
    "rg": "ABCdefgjmMrtT",
    "wget": "OoaPUtTwQADlIXRBie",
    "less": "bhjoOpPtTxyz",
    "vim": "cSuUTtws",
    "vi": "cSuUTtws",
    "nvim": "cSuUTtws",
    "ex": "cStw",
    "tcpdump": "BcCEFGijrswWyz",
}
_STARTERS = frozenset(("env", "sudo", "doas", "xargs", "nohup", "nice", "time", "timeout", "setsid", "command", "exec"))
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SED = "efl"
_OWN_SHELLS = ("$SHELL", "${SHELL}", "$BASH", "${BASH}")
_BY_PLACE = frozenset(("trap", "sed", "ssh", *AWK, *_JOINING))
_POSITIONAL = re.compile(r"[0-9]+\Z|[@*]\Z")
ARGUMENTS = "@"  # of the script and of all its functions
INPUT = "<"  # of whatever reads in the script
ANY = "!"  # a variable that is not known

Mark = tuple[int, int]


class Code(NamedTuple):
    """A parameter whose value a program reads as code; `leads`: it may itself be the command."""

    name: str
    program: str
    line: int
    leads: bool


class Reach(NamedTuple):
    """The values that a text holds, at any depth, the variables it is made from, and which values may lead it."""

    references: tuple[Reference, ...]
    variables: tuple[str, ...]
    leading: frozenset[Reference] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether the text is the author's own."""
        return not self.references and not self.variables


class _Evaluated(NamedTuple):
    """What is read as code, and by what; `given`: only if a value has got in there."""

    program: str
    reach: Reach
    given: Reach | None


class Flow:
    """Where the values of a script go, noted while it is read."""

    def __init__(self, body: str) -> None:
        self._body = body
        self.references: list[Reference] = []
        self.variables: list[str] = []
        self._numbers: set[Reference] = set()  # of whose texts no more than a number is left
        self._assigned: dict[str, list[Reach]] = {}
        self._evaluated: list[_Evaluated] = []

    @cached_property
    def declared(self) -> Declared:
        """What the script says of its variables."""
        return declared(self._body)

    def mark(self) -> Mark:
        """Return the place in the script that has been read so far."""
        return len(self.references), len(self.variables)

    def since(self, mark: Mark, direct: Collection[Reference] = (), leading: Collection[Reference] = ()) -> Reach:
        """Return what was read since then; what is not in the text itself may lead it."""
        references = tuple(one for one in self.references[mark[0] :] if one not in self._numbers)
        nested = {reference for reference in references if reference not in direct}
        return Reach(references, tuple(self.variables[mark[1] :]), frozenset(nested | set(leading)))

    def assign(self, variable: str, reach: Reach) -> None:
        """Note what a variable is made from."""
        self._assigned.setdefault(variable, []).append(reach)

    def fill(self, variable: str) -> None:
        """Note that a variable gets its text from what is read."""
        self.assign(variable, Reach((), (INPUT,)))

    def evaluate(self, program: str, reach: Reach, given: Reach | None = None) -> None:
        """Note that a program reads this as code."""
        if not reach.is_empty and (given is None or not given.is_empty):
            self._evaluated.append(_Evaluated(program, reach, given))

    def calculate(self, text: str, mark: Mark | None = None) -> None:
        """Note that the shell calculates with a text, and with what was read since then."""
        reach = self.since(mark or self.mark())
        self.evaluate(CALCULATION, Reach(reach.references, reach.variables + names_in(text)))

    def reduce(self, mark: Mark) -> None:
        """Note that what was read since then has become a number."""
        self._numbers.update(self.references[mark[0] :])
        del self.variables[mark[1] :]

    def codes(self) -> tuple[Code, ...]:
        """Return the values that are read as code, once the whole script was read."""
        found: dict[tuple[str, str, int], bool] = {}
        if self._assigned:
            for program, variables in (
                (CALCULATION, self.declared.integers),
                (NAME, self.declared.names),
                ("PS4", ["PS4"]),
            ):
                self._evaluated += [_Evaluated(program, Reach((), (variable,)), None) for variable in variables]
        for program, reach, given in self._evaluated:
            if given is not None and not self._behind(given):
                continue
            for reference, leads in self._behind(reach).items():
                key = (reference.name, program, reference.line)
                if not reference.is_number:
                    found[key] = found.get(key, False) or (leads and program not in (CALCULATION, NAME, "PS4"))
        return tuple(Code(*key, leads) for key, leads in found.items())

    def _behind(self, reach: Reach) -> dict[Reference, bool]:
        """Return the values that a text is made from, through any number of variables, and whether they may lead."""
        found: dict[Reference, bool] = {}
        seen: set[str] = set()
        waiting = [reach]
        for one in waiting:
            for reference in one.references:
                found[reference] = found.get(reference, False) or reference in one.leading
            for variable in one.variables:
                name = ARGUMENTS if _POSITIONAL.match(variable) else variable
                if name == ANY:
                    found |= dict.fromkeys(self.references, True)
                if name not in seen:
                    seen.add(name)
                    waiting += self._assigned.get(name, ())
        return found


def reads_as_code(words: Sequence[str], programs: Set[str]) -> str | None:
    """Return what reads the word after these as code, None when nothing does; `programs` are what the command may run.

    Words are without their quotes, and a value in them is a NUL.
    """
    words = [word for word in words if word != MAYBE]
    if "eval" in programs:
        return "eval"
    shell = next((name for name in map(_base, words) if name in _TAKE_C), None)
    if shell is not None and any(_WITH_C.match(option) for option in _last_options(words)):
        return shell
    if words[-1:] and words[-1] in _CODE_OPTIONS:
        found = next((name for name in map(_base, words) if INTERPRETERS.match(name)), None)
        if found is not None:
            return found
    return next((name for name in sorted(programs & _BY_PLACE) if _reads_next(name, words)), None)


def takes_for_option(words: Sequence[str]) -> str | None:
    """Return the program that may take the word after these for an option, or a setting, by which it runs something."""
    words = [word for word in words if word != MAYBE]
    names = list(map(_base, words))
    for at, name in enumerate(names):
        if at and names[0] not in _STARTERS and not all(_ASSIGNED.match(word) for word in words[:at]):
            return None
        rest = words[at + 1 :]
        if name in _OPTIONS_ANYWHERE:
            last = rest[-1] if rest else ""
            is_value = last.startswith("-") and (name == "find" or last[-1:] in _OPTIONS_ANYWHERE[name])
            return None if is_value or ("--" in rest and name not in ("find", "make")) else name
        if name.startswith("python") and {"-c", "-m"} & set(rest):
            return None  # all that follows is for the code
        if name in _LEADING_OPTIONS:
            given, pending = _operands([word for word in rest if not _ASSIGNED.match(word)], _LEADING_OPTIONS[name])
            if not given and not pending and ("--" not in rest or name == "env"):
                return name
    return None


def _reads_next(name: str, words: Sequence[str]) -> bool:
    """Whether a program reads the word after these as code because of where it stands."""
    names = list(map(_base, words))
    rest = words[names.index(name) + 1 :] if name in names else []
    if name == "trap":
        return not _operands(rest, "").given
    if name in AWK:
        found = _operands(rest, AWK[name])
        return not found.given and not found.pending and "-f" not in rest
    if name == "sed":
        found = _operands(rest, _SED)
        return (
            found.pending == "e" or rest[-1:] == ["--expression"] or not (found.given or found.pending or "-e" in rest)
        )
    if name == "ssh":
        return bool(_operands(rest, _SSH).given)
    return name in _JOINING and not _operands(rest, _JOINING[name]).pending


def begins_code(program: str, words: Sequence[str]) -> bool:
    """Whether the word after these, which a program reads as code, is where that code begins."""
    words = [word for word in words if word != MAYBE]
    names = list(map(_base, words))
    rest = words[names.index(program) + 1 :] if program in names else []
    if program == "ssh":
        return len(_operands(rest, _SSH).given) == 1
    if program in ("eval", *_JOINING):
        return not _operands(rest, _JOINING.get(program, "")).given
    return True


def reads_input_as_code(words: Sequence[str]) -> str | None:
    """Return the program of a command that reads its input as code; None when there is none."""
    words = [word for word in words if word != MAYBE]
    names = list(map(_base, words))
    for at, name in enumerate(names):
        rest = words[at + 1 :]
        if name in OF_TEXT:
            return None
        if name in ("su", "runuser", "parallel", "at", "batch", "crontab"):
            return name
        if name in SHELLS or INTERPRETERS.match(name):
            options = [word for word in rest if word[:1] in ("-", "+")]
            has_text = any(_WITH_C.match(option) or option in _CODE_OPTIONS for option in options)
            if not has_text and (len(options) == len(rest) or "-s" in options or "-" in rest):
                return name
        if name == "ssh" and len(_operands(rest, _SSH).given) < 2:  # the machine alone
            return name
        if name == "xargs":
            return _reads_arguments_as_code(rest)
    return None


def _reads_arguments_as_code(words: Sequence[str]) -> str | None:
    """Return the program that xargs puts its input into the text of."""
    replaced = "{}"
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-I"):
            replaced = word[2:] or following
    for at, name in enumerate(map(_base, words)):
        rest = words[at + 1 :]
        if name in _TAKE_C and any(_WITH_C.match(word) for word in rest):
            return name if any(replaced and replaced in word for word in rest) else None
        if name == "ssh":
            return name
    return None


class _Operands(NamedTuple):
    given: list[str]
    pending: str  # the option whose value the next word is


def _operands(words: Sequence[str], with_value: str) -> _Operands:
    given: list[str] = []
    pending = ""
    for word in words:
        if pending:
            pending = ""
        elif given or not word.startswith("-") or word == "-":
            given.append(word)
        elif len(word) == 2 and word[1] in with_value:
            pending = word[1]
    return _Operands(given, pending)


def _last_options(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    for word in reversed(words):
        if word[:1] not in ("-", "+"):
            break
        found.append(word)
    return found


def _base(word: str) -> str:
    """Return the name of a program without its folder."""
    return "sh" if word in _OWN_SHELLS else word.rpartition("/")[2]
