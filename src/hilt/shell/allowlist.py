"""Rejects calls of shell_exec: programs that are not on the allowlist, and allowed ones that would start others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hilt.shell import programs
from hilt.shell.arguments import FIND_ACTIONS

ALLOWED_PROGRAMS = programs.words(
    "git node npm npx bun deno python3 python pip ls cat grep find echo mkdir touch cp mv head tail wc sort uniq "
    "diff curl wget tar zip unzip jq sed awk which env date cargo rustc go make cmake"
)

# programs whose own options may not start others
_STARTS_NOTHING = programs.words("awk sed git zip go")
# options that hide what a program does, or load code; after the bar, the letters of other options with a value
_HIDING = programs.option_rows(
    """
    awk: fEilW file exec include load | Fve
    sed: f file | eli
    tar: IF checkpoint-action to-command use-compress-program rsh-command info-script rmt-command new-volume-script
        | fCbXgHKLNV
    sort: . compress-program
    diff: l paginate | CUIxXFLSWD
    curl: K config engine | oHdAeubTXFwmxYyzrQtPCcDE
    wget: . config use-askpass
    """
)
_GIT_COMMANDS = programs.words(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap "
    "check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree "
    "config count-objects describe diff diff-files diff-index diff-tree fast-export fast-import fetch fetch-pack "
    "fmt-merge-msg for-each-ref format-patch fsck gc get-tar-commit-id grep hash-object help index-pack init "
    "interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file "
    "merge-tree mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs patch-id prune pull push "
    "range-diff read-tree rebase reflog remote repack replace request-pull rerere reset restore rev-list rev-parse "
    "revert rm send-pack shortlog show show-branch show-index show-ref sparse-checkout stash status stripspace "
    "submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref var verify-commit "
    "verify-pack verify-tag version whatchanged worktree write-tree"
)
_GIT_LOCATION_OPTIONS = ("config-env", "exec-path", "git-dir", "bare")
_GIT_SIGNATURE_OPTIONS = ("show-signature", "verify-signatures", "gpg-sign", "local-user", "sign")
_GIT_PROGRAM_OPTIONS = ("exec", "upload-pack", "receive-pack", "ext-diff", "textconv", "open-files-in-pager")
_NPM_LAUNCHERS = programs.words("explore edit docs home bugs issues repo")
_CARGO_HARMLESS = ("net.", "http.", "profile.", "term.", "build.jobs", "build.target")
# Settings that only change git's output or what it records; any other might name a program.
_GIT_HARMLESS = tuple(
    programs.words(
        "user. author. committer. color. advice. log. status. i18n. column. branch. stash. core.quotepath "
        "core.autocrlf core.eol core.safecrlf core.filemode core.abbrev core.whitespace core.ignorecase "
        "core.precomposeunicode "
        "core.symlinks core.longpaths diff.renames diff.algorithm diff.context diff.noprefix diff.mnemonicprefix "
        "diff.colormoved diff.statgraphwidth diff.renamelimit format.pretty init.defaultbranch commit.gpgsign "
        "tag.gpgsign merge.conflictstyle merge.ff pull.rebase pull.ff push.default push.autosetupremote fetch.prune "
        "rebase.autostash gc.auto rebase.autosquash rerere. blame. grep.linenumber safe.directory pack. index. feature."
    )
)


# Settings for every git call, so that git runs nothing from a repository: no settings of a bare repository in the
# working folder, no hooks, file system monitors, pagers, editors (":" means none to git) or other transports.
_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.alternateRefsCommand": "true",
    "safe.bareRepository": "explicit",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
}
_GIT_VARIABLES = {
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_SSH_COMMAND": "ssh",
    "GIT_ASKPASS": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
    "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{index}": key for index, key in enumerate(_GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{index}": value for index, value in enumerate(_GIT_SETTINGS.values())},
}
# git commands that may start diff programs and text converters, and those that may start only the latter
_GIT_DIFF_COMMANDS = programs.words("diff log show whatchanged diff-files diff-index diff-tree range-diff")
_GIT_TEXTCONV_COMMANDS = programs.words("blame annotate grep")


def harden_argv(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the argv to run for an allowed argv, and the variables to set for it."""
    if argv[0] != "git":
        return list(argv), {}
    at, _ = programs.command_at(argv[1:], programs.GIT_OPTIONS)
    verb = argv[at + 1] if at + 1 < len(argv) else ""
    added: list[str] = []
    if verb in _GIT_DIFF_COMMANDS:
        added = ["--no-ext-diff", "--no-textconv"]
    elif verb in _GIT_TEXTCONV_COMMANDS:
        added = ["--no-textconv"]
    return [*argv[: at + 2], *added, *argv[at + 2 :]], dict(_GIT_VARIABLES)


def refuse_argv(argv: Sequence[str]) -> str | None:
    """Return why an argv must not run; None if it may."""
    if not argv:
        return "argv is empty; its first element names the program."
    if any("\0" in word for word in argv):
        return "An argument contains a NUL character."
    name = argv[0]
    if "/" in name or "\\" in name:
        return f"{name!r} is a path; use only the name of the program."
    if name not in ALLOWED_PROGRAMS:
        return f"{name!r} is not on the allowlist."
    reason = _check_started(argv) or _check_options(argv)
    check = _CHECKS.get(name)
    if reason is None and check is not None:
        reason = check(list(argv[1:]))
    return None if reason is None else f"{name} would start another program or hide what it does: {reason}."


def _check_started(argv: Sequence[str]) -> str | None:
    """Return what a program would start, by the parts of its rating; None for programs that are to start others."""
    if argv[0] not in _STARTS_NOTHING or _is_sandboxed(argv):
        return None
    from hilt.shell.risk import parts_of
    from hilt.shell.syntax import Unparsed

    try:
        _, *started = parts_of(argv)
    except Unparsed as problem:
        return str(problem)
    reasons = (
        f"it starts {part.text!r}" if part.text else part.reason for part in started if part.kind != "redirection"
    )
    return next(reasons, None)


def _check_options(argv: Sequence[str]) -> str | None:
    options = _HIDING.get(argv[0])
    if options is None or _is_sandboxed(argv):
        return None
    # abbreviated, --checkpoint-action of tar is the other option
    words = [word for word in argv[1:] if word != "--checkpoint"]
    is_hiding = programs.has_flag(words, options.short, *options.long, values=options.flags)
    return "an option names a program, loads code, or reads a script or options from a file" if is_hiding else None


def _is_sandboxed(argv: Sequence[str]) -> bool:
    """Whether sed itself rejects scripts that start programs."""
    return argv[0] == "sed" and "--sandbox" in argv


def _check_env(arguments: list[str]) -> str | None:
    at, _ = programs.command_at(arguments, programs.WRAPPERS["env"], assignments=True)
    if programs.has_flag(arguments[:at], "S", "split-string", values="uC"):
        return "-S splits a string into a command"
    return f"it would run the command {arguments[at]}" if at < len(arguments) else None


def _check_find(arguments: list[str]) -> str | None:
    action = next((word for word in arguments if word in FIND_ACTIONS), None)
    return None if action is None else f"it uses {action}"


def _check_tar(arguments: list[str]) -> str | None:
    if arguments and not arguments[0].startswith("-"):
        arguments = ["-" + arguments[0], *arguments[1:]]
        if "I" in arguments[0] or "F" in arguments[0] or "T" in arguments[0]:
            return f"the letters {arguments[0][1:]} name a program or a file of options"
    if programs.has_flag(arguments, "T", "files-from", values="fCbXgHKLNV") and not (
        "--null" in arguments or "--verbatim-files-from" in arguments
    ):
        return "-T reads options from a file; add --verbatim-files-from to allow that"
    archives = programs.option_values(arguments, "f", "file", stops="CbXgHKLNV")
    if "--force-local" not in arguments and any(":" in (archive or "") for archive in archives):
        return "an archive name with a colon is fetched through a remote shell; add --force-local to prevent that"
    return None


def _check_git(arguments: list[str]) -> str | None:
    at, is_known = programs.command_at(arguments, programs.GIT_OPTIONS)
    if not is_known or programs.has_flag(arguments[:at], "", *_GIT_LOCATION_OPTIONS, values="Cc"):
        return "a git option is unknown, or changes where git finds its programs or settings"
    for setting in programs.option_values(arguments[:at], "c", stops="C"):
        reason = _check_setting(setting)
        if reason is not None:
            return reason
    if at >= len(arguments):
        return None
    verb, rest = arguments[at], arguments[at + 1 :]
    if verb not in _GIT_COMMANDS:
        return f"{verb} is not an allowed git command"
    return _check_git_command(verb, rest)


def _check_git_command(verb: str, arguments: list[str]) -> str | None:
    words = [word for word in arguments if word != "--text"]
    if programs.has_flag(words, "", *_GIT_PROGRAM_OPTIONS):
        return "an option names a program"
    if verb in ("clone", "init") and programs.has_flag(words, "", "separate-git-dir"):
        return "--separate-git-dir puts settings that may name programs in an ordinary folder"
    if "--help" in words or (verb == "help" and programs.positionals(words)):
        return "help would start a viewer"
    if verb in ("verify-commit", "verify-tag") or any("%G" in word for word in words):
        return "a signature is checked by another program"
    letters = {"commit": "S", "merge": "S", "rebase": "S", "cherry-pick": "S", "revert": "S", "am": "S", "tag": "suv"}
    if programs.has_flag(words, letters.get(verb, ""), *_GIT_SIGNATURE_OPTIONS, values="mFCct"):
        return "signatures are made and checked by another program"
    if verb == "maintenance" and any(word in ("start", "stop", "register", "unregister") for word in words):
        return "maintenance would change scheduled commands"
    if any(word.startswith("ext::") or "=ext::" in word for word in words):
        return "ext:: is a transport that runs a command"
    if verb == "bisect" and any(word in ("visualize", "view") for word in words[:1]):
        return f"bisect {words[0]} starts a program"
    if verb == "help" and programs.has_flag(words, "wi", "web", "info"):
        return "help would start a viewer"
    settings: list[str | None] = []
    if verb == "clone":
        settings = programs.option_values(words, "c", "config", stops="obuj")
    elif verb == "config":
        if programs.has_flag(words, "e", "edit") or "edit" in words[:1]:
            return "config would start an editor"
        operands = programs.positionals(words, programs.Options("f", ("file", "blob", "type", "default", "comment")))
        operands = operands[1:] if operands[:1] in (["set"], ["add"]) else operands
        settings = operands[:1] if len(operands) > 1 else []
    return next((reason for setting in settings if (reason := _check_setting(setting)) is not None), None)


def _check_setting(setting: str | None) -> str | None:
    key = (setting or "").partition("=")[0]
    return None if key.lower().startswith(_GIT_HARMLESS) else f"the setting {key} may name a program"


def _check_npm(arguments: list[str]) -> str | None:
    at, _ = programs.command_at(arguments, programs.Options("cpw", ("call", "package", "workspace", "prefix")))
    verb = arguments[at] if at < len(arguments) else ""
    own_arguments = arguments[
        : at + 1 + programs.command_at(arguments[at + 1 :], programs.Options("pw", ("package",)))[0]
    ]
    if programs.has_flag(arguments, "", "script-shell"):
        return "--script-shell names a program"
    if verb in _NPM_LAUNCHERS or (verb in ("config", "c") and "edit" in arguments):
        return f"npm {verb} starts an editor, a browser or a command"
    if verb in ("exec", "x") and programs.has_flag(own_arguments, "c", "call"):
        return "-c runs text in a shell"
    return None


def _check_npx(arguments: list[str]) -> str | None:
    at, _ = programs.command_at(arguments, programs.Options("pw", ("package", "workspace")))
    return "-c runs text in a shell" if programs.has_flag(arguments[:at], "c", "call", values="pw") else None


def _check_wget(arguments: list[str]) -> str | None:
    for text in programs.option_values(arguments, "e", "execute", stops="OoaPUtTwQADlIXRBi"):
        if "askpass" in (text or "").lower().replace("_", "").replace("-", ""):
            return "-e names a program"
    return None


def _check_pip(arguments: list[str]) -> str | None:
    is_editing = "config" in arguments and ("edit" in arguments or programs.has_flag(arguments, "", "editor"))
    return "pip config edit starts an editor" if is_editing else None


def _check_bun(arguments: list[str]) -> str | None:
    return "bun exec runs text as a shell script" if "exec" in programs.positionals(arguments)[:1] else None


def _check_make(arguments: list[str]) -> str | None:
    if programs.has_flag(arguments, "E", "eval", values="CfIjloW"):
        return "--eval runs text as a makefile"
    assignment = next(
        (word for word in arguments if word.lstrip().startswith(("SHELL", ".SHELLFLAGS", "MAKEFLAGS"))), None
    )
    return None if assignment is None or "=" not in assignment else f"{assignment} names a program"


def _check_cmake(arguments: list[str]) -> str | None:
    is_starting = arguments[:1] == ["-E"] and arguments[1:2] and arguments[1] in ("env", "time", "chdir")
    return f"-E {arguments[1]} starts a command" if is_starting else None


def _check_go(arguments: list[str]) -> str | None:
    if arguments[:1] == ["bug"] or (arguments[:1] == ["env"] and programs.has_flag(arguments, "w", "w")):
        return f"go {arguments[0]} starts a browser, or changes what later calls start"
    return None


def _check_cargo(arguments: list[str]) -> str | None:
    settings = programs.long_values(arguments, "config", exact=True)
    unknown = next((setting for setting in settings if not (setting or "").startswith(_CARGO_HARMLESS)), None)
    return None if unknown is None else f"the setting {unknown} may name a program"


def _check_rustc(arguments: list[str]) -> str | None:
    settings = programs.option_values(arguments, "C", "codegen")
    return "-C linker names a program" if any((text or "").startswith("linker=") for text in settings) else None


_CHECKS: dict[str, Callable[[list[str]], str | None]] = {
    "env": _check_env,
    "find": _check_find,
    "tar": _check_tar,
    "git": _check_git,
    "npm": _check_npm,
    "npx": _check_npx,
    "wget": _check_wget,
    "pip": _check_pip,
    "bun": _check_bun,
    "make": _check_make,
    "cmake": _check_cmake,
    "go": _check_go,
    "cargo": _check_cargo,
    "rustc": _check_rustc,
}
