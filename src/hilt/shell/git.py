"""Rates git commands: whether they read, change, discard, or start a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt.shell import programs
from hilt.shell.quoting import ShellWord
from hilt.shell.rating import CommandPlace, Rate, Rated, Rater, has_unknown, joined, worse
from hilt.shell.removals import checked

_PAGERS = frozenset(("", "cat", "less", "more", "less -R", "less -FRX", "false", "true"))


class _Loss(NamedTuple):
    """Options that make a command discard data permanently: letters, names, letters with a value; and which data."""

    letters: str
    names: tuple[str, ...]
    values: str
    what: str


_CHANGES = "uncommitted changes"
_LOSSES = {
    "checkout": _Loss("f", ("force", "ours", "theirs", "pathspec-from-file"), "bB", _CHANGES),
    "switch": _Loss("f", ("force", "discard-changes"), "cC", _CHANGES),
    "checkout-index": _Loss("f", ("force",), "", _CHANGES),
    "read-tree": _Loss("", ("reset",), "", _CHANGES),
    "reset": _Loss("", ("hard", "merge"), "", _CHANGES),
    "mv": _Loss("f", ("force",), "", "the file it replaces"),
    "tag": _Loss("df", ("delete", "force"), "mFu", "a tag"),
    "replace": _Loss("d", ("delete",), "", "a reference"),
    "symbolic-ref": _Loss("d", ("delete",), "m", "a reference"),
    "update-ref": _Loss("d", ("stdin",), "m", "a reference"),
}
# subcommands that discard data permanently: always, and only with --force
_LOSING = {
    "stash": ("drop", "clear"),
    "reflog": ("expire", "delete", "drop"),
}
_LOSING_IF_FORCED = {"worktree": ("remove",), "submodule": ("deinit", "update")}
_REMOTE_COMMANDS = programs.words("fetch clone pull push ls-remote fetch-pack send-pack archive remote submodule")
_SEND_EMAIL_COMMANDS = ("smtp-server", "sendmail-cmd", "to-cmd", "cc-cmd", "header-cmd")
_PATH_PREFIXES = ("/", "./", "../", ":", "~")


def _rate_git(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    at, is_known = programs.command_at(values, programs.GIT_OPTIONS)
    rated = Rated("safe", "git only reads")
    if not is_known:
        rated = Rated("caution", "git has an unknown option")
    if programs.has_flag(values[:at], "p", "git-dir", "work-tree", "paginate", values="Cc"):
        rated = worse(rated, Rated("caution", "git uses settings from another location, or starts a pager"))
    for setting in programs.option_values(values[:at], "c"):
        rated = worse(rated, _rate_setting(rater, setting, place))
    if programs.has_flag(values[:at], "", "config-env", "exec-path", values="Cc"):
        rated = worse(rated, rater.start_unseen(place, "an option makes git run other programs"))
    if at >= len(values):
        return worse(rated, Rated("caution", programs.CHANGERS["git"]))
    verb = values[at]
    if verb is None:
        return Rated("dangerous", "the git command is only known at run time")
    rest = arguments[at + 1 :]
    return worse(rated, _rate_git_verb(rater, verb, rest, place))


def _rate_git_verb(rater: Rater, verb: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    rated = _rate_loss(verb, arguments, sandboxed=rater.sandboxed)
    if verb in _REMOTE_COMMANDS:
        rated = worse(rated, _rate_remote(rater, verb, values, place))
    if verb == "push":
        return worse(rated, _rate_push(values))
    if verb == "config":
        return _rate_git_config(rater, values, place)
    if verb in ("rebase", "bisect", "submodule", "filter-branch", "difftool", "mergetool", "grep", "send-email"):
        return worse(rated, _rate_git_starting(rater, verb, values, place))
    if verb in ("clone", "init") and programs.has_flag(values, "", "template", values="bcjou"):
        return rater.start_unseen(place, f"git {verb} --template installs hooks that git runs")
    if verb == "maintenance" and "start" in values[:1]:
        return Rated("dangerous", "git maintenance start schedules commands")
    if verb in programs.GIT_READERS:
        return worse(rated, _rate_git_reading(rater, verb, arguments))
    return worse(Rated("caution", f"git {verb} can change the repository"), rated)


def _rate_loss(verb: str, arguments: Sequence[ShellWord], *, sandboxed: bool) -> Rated:
    """Rate what a command discards so that no other git command can restore it."""
    what = _loss(verb, arguments)
    if what is None:
        return Rated("safe", "")
    return Rated("dangerous", f"git {verb} discards {what}", _undone(verb, arguments) if sandboxed else None)


def _undone(verb: str, arguments: Sequence[ShellWord]) -> tuple[str, ...] | None:
    """Return globs for the files of the worktree that a command changes; None if it discards more than that."""
    values = [word.value for word in arguments]
    if verb == "clean" and not programs.has_flag(values, "xXi", "interactive", values="e"):
        return () if sum((value or "-").count("f") for value in values if (value or "").startswith("-")) < 2 else None
    paths = [value or ".." for value in values if value != "--"]
    # with a commit, git replaces what was staged, too
    names_files = verb == "restore" or (verb == "checkout" and (values[:1] == ["--"] or len(values) == 1))
    return checked(paths) if names_files and paths and not any(path.startswith("-") for path in paths) else None


def _loss(verb: str, arguments: Sequence[ShellWord]) -> str | None:
    values = [word.value for word in arguments]
    first = next(iter(programs.positionals(values)), None)
    is_forced = programs.has_flag(values, "f", "force")
    if verb == "reset" and programs.has_flag(values, "", "hard"):
        return "uncommitted changes: reset --hard"
    if verb == "clean":
        return None if programs.has_flag(values, "n", "dry-run", values="e") else "untracked files"
    if verb in ("filter-branch", "filter-repo"):
        return "the history that it rewrites"
    loss = _LOSSES.get(verb)
    if loss is not None and programs.has_flag(values, loss.letters, *loss.names, values=loss.values):
        return loss.what
    if first in _LOSING.get(verb, ()) or (is_forced and first in _LOSING_IF_FORCED.get(verb, ())):
        return f"data: {verb} {first}" if first != "expire" else "recoverable commits"
    if verb == "rm" and is_forced and not programs.has_flag(values, "", "cached"):
        return _CHANGES
    if verb == "branch" and (
        programs.has_flag(values, "D", values="u") or (is_forced and programs.has_flag(values, "d", "delete"))
    ):
        return "a branch that may be unmerged"
    if verb == "restore" and (
        programs.has_flag(values, "W", "worktree", values="s")
        or not programs.has_flag(values, "S", "staged", values="s")
    ):
        return _CHANGES
    if verb == "checkout" and _checks_out_files(arguments):
        return _CHANGES
    is_dry_run = programs.has_flag(values, "n", "dry-run")
    expires_early = any((value or "").startswith("--pr") and "=" in (value or "") for value in values)
    if (verb == "prune" and not is_dry_run) or (verb == "gc" and expires_early and "--prune=never" not in values):
        return "unreachable commits"
    if verb == "repack" and programs.has_flag(values, "a") and programs.has_flag(values, "d"):
        return "unreachable commits"
    return None


def _checks_out_files(arguments: Sequence[ShellWord]) -> bool:
    """Whether git checkout has file arguments, which it overwrites, and not only a branch."""
    values = [word.value for word in arguments]
    if "--" in values:
        return len(values) > values.index("--") + 1
    if programs.has_flag(values, "p", "patch", values="bB"):
        return True
    if programs.has_flag(values, "bBdlt", "track", "orphan", "detach", "guess", values="bB"):
        return False
    operands = [word for word in arguments if word.value is None or not word.value.startswith("-") or word.value == "-"]
    return len(operands) > 1 or any(_is_file(word) for word in operands)


def _is_file(word: ShellWord) -> bool:
    """Whether a word is the name of a file, and not of a branch or a commit."""
    value = word.value or ""
    if word.pattern or value == "." or value.endswith("/") or value.startswith(_PATH_PREFIXES):
        return True
    stem, dot, suffix = value.rpartition("/")[2].rpartition(".")
    # main.c and a.py, but neither v1.2, 10.x nor release/3.rc1
    is_version = not stem.strip("v0123456789.")
    return bool(dot) and suffix[:1].isalpha() and suffix.isalnum() and len(suffix) < 6 and not is_version


def _rate_remote(rater: Rater, verb: str, values: Sequence[str | None], place: CommandPlace) -> Rated:
    """Rate options that start a program to access another repository."""
    rated = Rated("safe", "")
    if any(value is not None and value.startswith("ext::") for value in values):
        rated = rater.start_unseen(place, f"git {verb} ext:: starts a program")
    texts = [*programs.long_values(values, "upload-pack"), *programs.long_values(values, "receive-pack")]
    if verb in ("archive", "push", "ls-remote", "fetch-pack", "send-pack"):
        texts += programs.long_values(values, "exec")
    if verb == "clone":
        texts += programs.option_values(values, "u", stops="bcjo")
        for setting in programs.option_values(values, "c", "config", stops="bjou"):
            rated = worse(rated, _rate_setting(rater, setting, place))
    for text in texts:
        rated = worse(rated, rater.start_text(text, place, f"git {verb}"))
    return rated


def _rate_git_reading(rater: Rater, verb: str, arguments: Sequence[ShellWord]) -> Rated:
    values = [word.value for word in arguments]
    if not rater.sandboxed:
        return Rated("caution", f"git {verb} runs helpers of the repository when there is no sandbox")
    if has_unknown(arguments):
        return Rated("caution", f"an argument of git {verb} is only known at run time")
    options = [value for value in values if value != "--text"]
    if programs.has_flag(options, "", "output", "ext-diff", "textconv", "show-signature") or any(
        "%G" in (value or "") for value in values
    ):
        return Rated("caution", f"an option of git {verb} writes a file or runs a helper")
    if verb == "branch" and not _lists_branches(values):
        return Rated("caution", "git branch changes branches")
    return Rated("safe", f"git {verb} only reads")


def _rate_git_starting(rater: Rater, verb: str, values: Sequence[str | None], place: CommandPlace) -> Rated:
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
    elif verb == "send-email":
        texts = [text for option in _SEND_EMAIL_COMMANDS for text in programs.long_values(values, option)]
    elif programs.has_flag(values, "O", "open-files-in-pager", values="efABCm"):
        return rater.start_unseen(place, "git grep -O starts a program")
    for text in texts:
        rated = worse(rated, rater.start_text(text, place, f"git {verb}"))
    return rated


def _rate_git_config(rater: Rater, values: Sequence[str | None], place: CommandPlace) -> Rated:
    operands = programs.positionals(values, programs.Options("f", ("file", "blob", "type", "default")))
    if operands[:1] in (["set"], ["add"]):
        operands = operands[1:]
    if programs.has_flag(values, "e", "edit") or operands[:1] in ([None], ["edit"]):
        return Rated("dangerous", "the setting that git config changes is only known at run time")
    if len(operands) >= 2:
        setting = None if operands[1] is None else f"{operands[0]}={operands[1]}"
        return worse(Rated("caution", "git config changes settings"), _rate_setting(rater, setting, place))
    return Rated("caution", "git config shows or changes settings")


def _rate_setting(rater: Rater, setting: str | None, place: CommandPlace) -> Rated:
    """Rate a git setting: some values are programs that git runs."""
    if setting is None:
        return rater.start_unseen(place, "a setting of git is only known at run time")
    key, _, value = setting.partition("=")
    lowered = key.lower()
    if not lowered.startswith(programs.GIT_RUNS) and not lowered.endswith(programs.GIT_RUNS_ENDS):
        return Rated("caution", f"git runs with {key}")
    if lowered in ("core.pager", "pager.log", "pager.diff", "pager.show", "pager.branch") and value in _PAGERS:
        return Rated("caution", f"git runs with {key}")
    if lowered.startswith("alias."):
        rater.start_text(value[1:] if value.startswith("!") else f"git {value}", place, "a git alias")
    return rater.start_unseen(place, f"the setting {key} makes git run a program")


def _rate_push(values: Sequence[str | None]) -> Rated:
    operands = programs.positionals(values, programs.Options("o", ("repo", "push-option", "receive-pack", "exec")))
    names = ("force", "force-with-lease", "force-if-includes", "mirror", "delete", "prune")
    if programs.has_flag(values, "fd", *names, values="o") or any(
        operand is not None and operand.startswith(("+", ":")) for operand in operands
    ):
        return Rated("dangerous", "git push --force overwrites or deletes remote branches")
    if programs.has_flag(values, "", "receive-pack", "exec"):
        return Rated("dangerous", "an option makes git push start a program")
    return Rated("caution", "git push changes the remote repository")


def _lists_branches(values: Sequence[str | None]) -> bool:
    flags = ("list", "show-current", "all", "remotes", "verbose", "color", "no-color", "column", "no-column", "abbrev")
    valued = ("sort", "format", "contains", "no-contains", "merged", "no-merged", "points-at")
    expects_value = is_listing = False
    for value in values:
        if value is None:
            return False
        if not value.startswith("-"):
            if not expects_value and not is_listing:
                return False
        elif value.startswith("--"):
            name, equals, _ = value[2:].partition("=")
            if name not in flags and name not in valued:
                return False
            is_listing = is_listing or name == "list"
            expects_value = name in valued and not equals
            continue
        elif set(value[1:]) - set("arvli"):
            return False
        elif "l" in value:
            is_listing = True
        expects_value = False
    return True


RATED: dict[str, Rate] = {"git": _rate_git}
