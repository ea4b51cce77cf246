"""Commands that print git's own copies of files that a rule keeps from being read.

A rule on a path covers the file, in the sandbox too, but not the copies of its versions in the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from hilt.files.door import Door
from hilt.formats.git_index import tracked_paths
from hilt.shell import programs
from hilt.shell.starters import CODE_HOLDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.policy.barriers import PathWatch
    from hilt.shell.risk import CommandPart, Risk

# subcommands that neither print nor write contents of files
_SILENT = frozenset(
    (
        *("branch", "check-attr", "check-ignore", "clean", "count-objects", "describe", "fetch", "for-each-ref"),
        *("gc", "init", "ls-files", "ls-tree", "merge-base", "mv", "name-rev", "prune", "push", "remote"),
        *("rev-list", "rev-parse", "shortlog", "show-ref", "symbolic-ref", "tag", "update-ref", "var", "version"),
    )
)
_PATCH_OPTIONS = (
    *("patch", "patch-with-raw", "patch-with-stat", "unified", "cc", "dd", "binary", "word-diff", "color-words"),
    *("function-context", "remerge-diff", "diff-merges", "ext-diff"),
)
# subcommands that do so with these options only: letters, and long ones
_PRINTING_OPTIONS: dict[str | None, tuple[str, ...]] = {
    "add": ("pei", "patch", "edit", "interactive"),
    "commit": ("pv", "patch", "verbose"),
    "config": ("", "blob"),
    "fsck": ("", "lost-found"),
    "log": ("puULcmWSG", *_PATCH_OPTIONS),  # -S and -G tell whether a text is in it
    "reflog": ("puULcmWSG", *_PATCH_OPTIONS),
    "rm": ("", "cached"),  # nobody would know that the file is tracked
    "status": ("v", "verbose"),
}
_SUMMARIES = ("stat", "shortstat", "numstat", "dirstat", "name-only", "name-status", "summary")
_FOLDERS_MAX = 20
_NAMES_GIT = re.compile(r"(?<![\w.-])git(?![\w./-])")


def printed_copy(risk: Risk, text: str, watch: PathWatch, door: Door, cwd: str) -> str | None:
    """Return a path that rules keep from being read, if a part of the command may print git's copies of it.

    The path is tracked, or named by the command. `text` is the whole command, with what it gives to other programs.
    """
    roots = [root.real for root in door.roots if root.writable]
    if not watch.within(roots):
        return None
    may_start_git = any("git" in part.text for part in risk.parts)  # by a variable
    commands = [words for part in risk.parts for words in _git_commands(part.words, unknown=may_start_git)]
    runs_git = _NAMES_GIT.search(text) is not None and any(map(_runs_code, risk.parts))
    if not runs_git and not any(map(_prints, commands)):
        return None
    words = [word.rpartition("=")[2] for part in risk.parts for word in part.words if word]
    folders = [path for path in (os.path.join(cwd, word) for word in words) if os.path.isdir(path)]
    named = [word.rpartition(":")[2] for word in words]
    # also those of the roots: a command can lead git to them from any folder
    for top in dict.fromkeys(map(_repository, (cwd, *roots, *folders[:_FOLDERS_MAX]))):
        for path in (*named, *_tracked(top)):
            if path and watch.covering(os.path.normpath(os.path.join(top, path))) is not None:
                return path
    return None


def _git_commands(words: Sequence[str | None], *, unknown: bool) -> list[Sequence[str | None]]:
    """Return the git commands in a simple command, with those that another program starts; maybe unknown programs."""
    found: list[Sequence[str | None]] = []
    for at, word in enumerate(words):
        name = "git" if word is None and unknown and at == 0 else os.path.basename(word or "")
        if name == "git":
            found.append(words[at:])
        elif name.startswith("git-") and (at == 0 or "/" in str(word)):
            found.append(["git", name.removeprefix("git-"), *words[at + 1 :]])
    return found


def _runs_code(part: CommandPart) -> bool:
    """Whether a simple command runs code that is in the line, but not rated: of an interpreter, or its input."""
    name = os.path.basename(part.words[0] or "") if part.words else ""
    is_runner = name in programs.SHELLS or name.rstrip("0123456789.-") in programs.INTERPRETERS
    return is_runner and (part.level == "dangerous" or part.reason.startswith(CODE_HOLDS))


def _prints(words: Sequence[str | None]) -> bool:
    """Whether a git command may print or write contents of tracked files."""
    arguments = words[1:]
    at, _ = programs.command_at(arguments, programs.GIT_OPTIONS)
    if at >= len(arguments):
        return False
    verb, rest = arguments[at], arguments[at + 1 :]
    if any(word is not None and "verbose" in word.lower() for word in arguments[:at]):
        return True  # the setting commit.verbose
    options = _PRINTING_OPTIONS.get(verb)
    if options is not None:
        return None in rest or programs.has_flag(rest, *options, values="mFCct" if verb == "commit" else "")
    if verb in _SILENT:
        return any(word is not None and "raw)" in word for word in rest)  # a format with contents
    if verb == "diff" and None not in rest and programs.has_flag(rest, "", *_SUMMARIES):
        return programs.has_flag(rest, "puUW", *_PATCH_OPTIONS)
    return not (verb in ("checkout", "switch") and len(rest) == 2 and rest[0] in ("-b", "-c"))  # a new branch


def _repository(folder: str) -> str:
    """Return the top folder of the repository that a folder is in; the folder itself if there is none."""
    folder = top = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(top, ".git")):
        if top == os.path.dirname(top):
            return folder
        top = os.path.dirname(top)
    return top


def _tracked(top: str) -> Iterable[str]:
    """Yield the tracked paths of a repository, and those in its folder if they cannot be listed."""
    git = os.path.join(top, ".git")
    if not os.path.lexists(git):
        return
    try:
        if os.path.isfile(git):
            with open(git, encoding="utf-8", errors="surrogateescape") as file:
                git = os.path.join(top, file.read(4096).removeprefix("gitdir:").strip())
        with open(os.path.join(git, "index"), "rb") as index:
            yield from tracked_paths(index.read())
    except (OSError, ValueError):
        for folder, _, names in os.walk(top):
            yield from (os.path.relpath(os.path.join(folder, name), top) for name in names)
