"""What a git command would do: read, change, throw away, or start a program."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.policy import programs
from hilt.policy.quoting import Word
from hilt.policy.rating import Place, Rate, Rated, Rater, has_unknown, joined, worse

_PAGERS = frozenset(("", "cat", "less", "more", "less -R", "less -FRX", "false", "true"))


def _rate_git(rater: Rater, name: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    at, is_known = programs.command_at(values, programs.GIT_OPTIONS)
    rated = Rated("safe", "git only reads")
    if not is_known:
        rated = Rated("caution", "git has an option that is not known")
    for setting in programs.option_values(values[:at], "c"):
        rated = worse(rated, _rate_setting(rater, setting, place))
    if programs.has_flag(values[:at], "", "config-env", "exec-path", values="Cc"):
        rated = worse(rated, Rated("dangerous", "git is told to run other programs"))
    if at >= len(values):
        return worse(rated, Rated("caution", programs.CHANGERS["git"]))
    verb = values[at]
    if verb is None:
        return Rated("dangerous", "the command of git is only known at run time")
    rest = arguments[at + 1 :]
    return worse(rated, _rate_git_verb(rater, verb, rest, place))


def _rate_git_verb(rater: Rater, verb: str, arguments: Sequence[Word], place: Place) -> Rated:
    values = [word.value for word in arguments]
    if verb == "push":
        return _rate_push(values)
    if verb == "reset" and programs.has_flag(values, "", "hard"):
        return Rated("dangerous", "git reset --hard throws changes away")
    if verb == "clean":
        return Rated("dangerous", "git clean deletes files")
    if verb == "config":
        return _rate_git_config(rater, values, place)
    if verb in (
        "rebase",
        "bisect",
        "submodule",
        "filter-branch",
        "difftool",
        "mergetool",
        "grep",
        "fetch",
        "clone",
    ):
        return _rate_git_starting(rater, verb, values, place)
    if verb in programs.SHELL_WORDS_OF_GIT:
        return _rate_git_reading(rater, verb, arguments)
    return Rated("caution", f"git {verb} can change the repository")


def _rate_git_reading(rater: Rater, verb: str, arguments: Sequence[Word]) -> Rated:
    values = [word.value for word in arguments]
    if not rater.sandboxed:
        return Rated("caution", f"git {verb} runs helpers of the repository when there is no sandbox")
    if has_unknown(arguments):
        return Rated("caution", f"an argument of git {verb} is only known at run time")
    options = [value for value in values if value != "--text"]
    if programs.has_flag(options, "", "output", "ext-diff", "textconv"):
        return Rated("caution", f"an option of git {verb} writes a file or runs a helper")
    if verb == "branch" and not _lists_branches(values):
        return Rated("caution", "git branch changes branches")
    return Rated("safe", f"git {verb} only reads")


def _rate_git_starting(rater: Rater, verb: str, values: Sequence[str | None], place: Place) -> Rated:
    rated = Rated("caution", f"git {verb} can change the repository")
    texts: list[str | None] = []
    if verb == "rebase":
        texts = [*programs.option_values(values, "x"), *programs.long_values(values, "exec")]
    elif verb == "bisect" and values[:1] == ["run"]:
        texts = [joined(values[1:])]
    elif verb == "submodule" and "foreach" in values:
        texts = [
            joined([v for v in values[values.index("foreach") + 1 :] if v not in ("--recursive", "-q", "--quiet")])
        ]
    elif verb == "filter-branch":
        texts = [
            values[i + 1] if i + 1 < len(values) else None
            for i, v in enumerate(values)
            if (v or "").endswith("-filter")
        ]
    elif verb in ("difftool", "mergetool"):
        texts = [*programs.option_values(values, "x"), *programs.long_values(values, "extcmd")]
    elif verb == "grep":
        if programs.has_flag(values, "O", "open-files-in-pager"):
            return Rated("dangerous", "git grep -O starts a program")
    else:
        texts = programs.long_values(values, "upload-pack")
        if any(value is not None and value.startswith("ext::") for value in values):
            return Rated("dangerous", f"git {verb} ext:: starts a program")
        for setting in programs.option_values(values, "c", "config") if verb == "clone" else ():
            rated = worse(rated, _rate_setting(rater, setting, place))
    for text in texts:
        rated = worse(rated, rater.start_text(text, place, f"git {verb}"))
    return rated


def _rate_git_config(rater: Rater, values: Sequence[str | None], place: Place) -> Rated:
    operands = programs.positionals(values, programs.Options("f", ("file", "blob", "type", "default")))
    if operands[:1] in (["set"], ["add"]):
        operands = operands[1:]
    if programs.has_flag(values, "e", "edit") or None in operands[:1]:
        return Rated("dangerous", "git config is not known before it runs")
    if len(operands) >= 2:
        setting = None if operands[1] is None else f"{operands[0]}={operands[1]}"
        return worse(Rated("caution", "git config changes settings"), _rate_setting(rater, setting, place))
    return Rated("caution", "git config shows or changes settings")


def _rate_setting(rater: Rater, setting: str | None, place: Place) -> Rated:
    """Rate a setting of git: some values are programs that git runs."""
    if setting is None:
        return Rated("dangerous", "a setting of git is only known at run time")
    key, _, value = setting.partition("=")
    lowered = key.lower()
    if not lowered.startswith(programs.GIT_RUNS) and not lowered.endswith(programs.GIT_RUNS_ENDS):
        return Rated("caution", f"git runs with {key}")
    if lowered in ("core.pager", "pager.log", "pager.diff", "pager.show", "pager.branch") and value in _PAGERS:
        return Rated("caution", f"git runs with {key}")
    if lowered.startswith("alias."):
        rater.start_text(value[1:] if value.startswith("!") else f"git {value}", place, "a git alias")
    return Rated("dangerous", f"the setting {key} makes git run a program")


def _rate_push(values: Sequence[str | None]) -> Rated:
    operands = programs.positionals(values, programs.Options("o", ("repo", "push-option", "receive-pack", "exec")))
    names = ("force", "force-with-lease", "force-if-includes", "mirror", "delete", "prune")
    if programs.has_flag(values, "fd", *names, values="o") or any(
        operand is not None and operand.startswith(("+", ":")) for operand in operands
    ):
        return Rated("dangerous", "git push --force overwrites or deletes what others have")
    if programs.has_flag(values, "", "receive-pack", "exec") or any((v or "").startswith("ext::") for v in operands):
        return Rated("dangerous", "git push is told to start a program")
    return Rated("caution", "git push changes the remote repository")


def _lists_branches(values: Sequence[str | None]) -> bool:
    plain = ("list", "show-current", "all", "remotes", "verbose", "color", "no-color", "column", "no-column", "abbrev")
    takes = ("sort", "format", "contains", "no-contains", "merged", "no-merged", "points-at")
    expects = is_listing = False
    for value in values:
        if value is None:
            return False
        if not value.startswith("-"):
            if not expects and not is_listing:
                return False
        elif value.startswith("--"):
            name, equals, _ = value[2:].partition("=")
            if name not in plain and name not in takes:
                return False
            is_listing = is_listing or name == "list"
            expects = name in takes and not equals
            continue
        elif set(value[1:]) - set("arvli"):
            return False
        elif "l" in value:
            is_listing = True
        expects = False
    return True


RATED: dict[str, Rate] = {"git": _rate_git}
