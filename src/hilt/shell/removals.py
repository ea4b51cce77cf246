"""What a command line removes: which files, if undo can bring all of them back, and whether it destroys everything."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from hilt.shell.quoting import ShellWord
from hilt.shell.rating import CommandPlace, is_made_of_input
from hilt.shell.syntax import Command

REMOVERS = frozenset(("rm", "rmdir", "unlink"))
_CHOICE = re.compile(r"([\w./*-]*)\{([\w./*,-]+,[\w./*,-]*)\}([\w./*-]*)")
_PLACEHOLDER = re.compile(r"[^\w./*?~\[\\]*")
_NAMED = ("-name", "-iname", "-path", "-ipath", "-wholename")
_NEGATIONS, _ALTERNATIVES = ("!", "-not"), ("-o", "-or", ",")
_GLOBAL = ("-L", "-H", "-P", "-D", "-O")  # options before the folders
_ELSEWHERE = ("-follow", "-files0-from")
ANYWHERE = "**"  # in a glob: in any folder below
_HOMES = ("~", "$HOME", "${HOME}")
# everything at the top of the system, and of home directories
_TOP = re.compile(r"/*(?:|\*|[a-z]+/?\*?|home/[^/]+/?\*?)")


def removed_paths(arguments: Sequence[ShellWord], place: CommandPlace) -> tuple[str, ...] | None:
    """Return the paths that `rm` and similar programs remove; None if undo might not bring all of them back."""
    paths: list[str] = []
    options = True
    for word in arguments:
        if options and word.value is not None and word.value.startswith("-"):
            options = word.value != "--"
            if word.value.startswith("--no-preserve"):
                return None
            continue
        named = _named_paths(word, place)
        if named is None:
            return None
        paths += named
    return checked(paths)


def checked(paths: Iterable[str]) -> tuple[str, ...] | None:
    """Return paths of files that undo brings back, as globs; None if one is unspecific, or in a repository."""
    kept: list[str] = []
    for path in paths:
        path = _widened(path)
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names or path.startswith("~"):
            return None
        while names and not re.search(r"\w", names[-1]):
            names.pop()  # everything in a folder
        if not names or any(fnmatchcase(".git", name.lower()) for name in names if name != ANYWHERE):
            return None
        kept.append("/" * path.startswith("/") + "/".join(names))
    return tuple(kept)


def ruins(arguments: Sequence[ShellWord]) -> str:
    """Return what `rm -r` would remove that nobody wants to lose: the system or a home directory; else nothing."""
    flags = [word.value for word in arguments if word.value is not None and word.value.startswith("-")]
    if not any(flag in ("--recursive", "-r", "-R") or re.fullmatch(r"-\w*[rR]\w*", flag) for flag in flags):
        return ""
    for word in arguments:
        text = word.text.strip("\"'")
        path = posixpath.normpath(text) if text.startswith("/") else text.rstrip("/*") if text.startswith("$") else text
        is_temporary = path.startswith(("/tmp", "/var/tmp"))  # noqa: S108
        if (path.startswith("/") and _TOP.fullmatch(path) and not is_temporary) or path.rstrip("/*") in _HOMES:
            return text
    return ""


def found_paths(words: Sequence[ShellWord]) -> tuple[str, ...] | None:
    """Return globs for what the arguments of `find` before an action select; None if that may be anything."""
    starts: list[str] = []
    values = [word.value for word in words]
    index = 0
    while index < len(values) and not (values[index] or "-").startswith(("-", "(", "!")):
        starts.append(values[index] or "")
        index += 1
    names: list[str] = []
    group: list[str] | None = None
    negated = False
    while index < len(values):
        value = values[index]
        index += 1
        # links that it follows, or folders that are not before the expression
        if value is None or words[index - 1].pattern or value[:2] in _GLOBAL or value in _ELSEWHERE:
            return None
        if value in _NAMED and index < len(values):
            if not negated:
                (names if group is None else group).append(values[index] or "")
            index += 1
        elif value == "(" and (negated or group is not None):
            return None
        elif value == "(":
            group = []
            continue
        elif value == ")" and group is not None:
            names, group = names or group, None
        elif value in _ALTERNATIVES:
            if group is None:
                return None
        elif group is not None:
            return None
        negated = value in _NEGATIONS
    if group is not None or "(" not in values:
        names = names[:1]
    pairs = [(start, _widened(posixpath.basename(name))) for start in starts or ["."] for name in names]
    plain = checked(posixpath.join(*pair) for pair in pairs)
    return tuple(posixpath.normpath(posixpath.join(start, ANYWHERE, name)) for start, name in pairs) if plain else None


def listed_paths(writer: Command | None) -> tuple[str, ...] | None:
    """Return globs for the paths that a command prints into a pipe; None if that is not known."""
    if writer is None or not writer.words or writer.words[0].value != "find" or writer.redirections:
        return None
    words = [word for word in writer.words[1:] if word.value not in ("-print", "-print0")]
    # other actions print something else
    has_action = any(
        (word.value or "").startswith(("-print", "-fprint", "-exec", "-ok", "-ls", "-fls")) for word in words
    )
    return None if has_action else found_paths(words)


def _widened(path: str) -> str:
    """Return a glob without brackets, which Python and shells read differently, that matches at least as much."""
    return re.sub(r"\[[^/]*", "*", path)


def _named_paths(word: ShellWord, place: CommandPlace) -> Sequence[str] | None:
    if word.value is not None:
        return [word.value]
    if choice := _CHOICE.fullmatch(word.text):
        return [choice[1] + part + choice[3] for part in choice[2].split(",")]
    is_whole = _PLACEHOLDER.fullmatch(word.text) and is_made_of_input(word)
    return place.lists if is_whole or word.text == "{}" else None
