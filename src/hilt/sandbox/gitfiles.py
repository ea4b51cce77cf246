"""Which contents of a Git repository make git run a program.

Only content known to be harmless passes. Configuration is parsed with a strict subset of git's grammar: one setting per
line, as git itself writes it. A file that does not parse counts as dangerous as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import NamedTuple

CONTENT_BYTES = 1 << 20  # a longer file counts as dangerous

# settings that neither run a program nor name a file to read, in sections without and with a subsection
_SECTION_SETTINGS: Mapping[str, str] = {
    "author": "email name",
    "checkout": "defaultremote",
    "color": "ui",
    "commit": "gpgsign",
    "committer": "email name",
    "core": "abbrev autocrlf bare bigfilethreshold checkstat compression eol filemode fscache ignorecase ignorestat"
    " logallrefupdates longpaths multipackindex precomposeunicode protecthfs protectntfs quotepath"
    " repositoryformatversion safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex symlinks"
    " trustctime untrackedcache whitespace worktree",
    "diff": "algorithm renames",
    "extensions": "compatobjectformat noop objectformat partialclone preciousobjects refstorage relativeworktrees"
    " worktreeconfig",
    "feature": "manyfiles",
    "fetch": "prune prunetags",
    "gc": "auto",
    "index": "skiphash sparse threads version",
    "init": "defaultbranch",
    "lfs": "repositoryformatversion",
    "maintenance": "auto strategy",
    "merge": "conflictstyle ff",
    "pull": "ff rebase",
    "push": "autosetupremote default followtags",
    "rebase": "autosquash autostash updaterefs",
    "receive": "denycurrentbranch denydeletes denynonfastforwards",
    "rerere": "autoupdate enabled",
    "status": "showuntrackedfiles",
    "submodule": "active recurse",
    "tag": "gpgsign",
    "user": "email name useconfigonly",
}
_SUBSECTION_SETTINGS: Mapping[str, str] = {
    "branch": "description merge pushremote rebase remote",
    "remote": "fetch mirror partialclonefilter promisor prune push pushurl skipfetchall tagopt url",
    "submodule": "active branch fetchrecursesubmodules ignore shallow update url",
}
_ADDRESSES = ("url", "pushurl", "remote", "pushremote")
# what a command may change in a repository that existed before, in sections without and with a subsection
_TAKEN = {
    ("branch", True): "description merge pushremote rebase remote",
    ("remote", True): "fetch prune pushurl tagopt url",
    ("user", False): "email name",
}
_UPDATES = ("checkout", "rebase", "merge", "none")  # anything else may be a command
# git runs the program git-merge-STRATEGY, even if the name contains slashes
_STRATEGIES = ("", "ort", "recursive", "resolve", "octopus", "ours", "subtree")
_STEPS = "pick p reword r edit e squash s fixup f drop d label l reset t merge m update-ref u noop break b revert"

_HEADER = re.compile(r'\[([A-Za-z0-9-]+)(?:[ \t]+"((?:[^"\\]|\\["\\])*)")?\]')
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_PLAIN_VALUE = re.compile(r'[^"\\#;]*')
_QUOTED_VALUE = re.compile(r'"((?:[^"\\]|\\["\\nt])*)"')
# not a folder here, whose hooks would run
_REMOTE_ADDRESS = re.compile(r"(?!.*(?:::|://-))(?:(?:https?|ssh|git)://.+|(?:[\w.][\w.-]*@)?[\w.][\w.-]*:(?!//)[^:]*)")
_HOOK = re.compile(r"[A-Za-z0-9-]+")
_GITDIR = b"gitdir: "
_MAX_ALTERNATES = 1000  # lines; git follows five levels of them, and nobody needs that many
_REFERENCE = re.compile(rb"(?i)path|worktree|templatedir")
_REFERENCES = {"include": "path", "includeif": "path", "core": "hookspath worktree", "init": "templatedir"}
# possessive: it reads files that anyone may have written
_SECTION = re.compile(r'\[[ \t]*+([A-Za-z0-9-]++)[^]"]*+(?:"(?:[^"\\]|\\.)*+")?[^]]*+\]')
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"?|([^"#;]+)|[#;].*')

IsKnown = Callable[[str], bool]  # whether this existed before


class GitVerdict(NamedTuple):
    """What in a file runs a program, and the content without it; None if only the whole file can be disabled."""

    dangers: tuple[str, ...] = ()
    cleaned: bytes | None = None


HARMLESS = GitVerdict()


def is_hook(name: str) -> bool:
    """Whether git may run a file of this name in a hooks folder; samples and disabled files have a dot in theirs."""
    return _HOOK.fullmatch(name) is not None


def judge_whole(data: bytes, is_known: IsKnown, danger: str) -> GitVerdict:
    """Judge content that is dangerous as a whole, unless it existed before."""
    return HARMLESS if is_known(_text(data)) else GitVerdict((danger,))


def judge_config(data: bytes, is_known: IsKnown, is_worktree: Callable[[str], bool]) -> GitVerdict:
    """Judge the configuration of a repository; `is_worktree` returns whether a path may be its worktree."""

    def is_harmless(section: str, name: str | None, key: str, value: str) -> bool:
        if key not in (_SECTION_SETTINGS if name is None else _SUBSECTION_SETTINGS).get(section, "").split():
            return False
        if section == "core" and key == "worktree":
            return is_worktree(value)
        if name is not None and key in _ADDRESSES:
            return "::" not in value and not value.startswith("-")
        return not (section == "submodule" and key == "update") or value in _UPDATES

    return _judge_settings(data, is_known, is_harmless)


def take_over(before: bytes, after: bytes) -> tuple[bytes | None, tuple[str, ...]]:
    """Return a configuration with the harmless changes of a later version, and what was not taken from that.

    None if nothing can be taken: settings that might matter were removed, or a version cannot be parsed.
    """
    old, new = _all_settings(before), _all_settings(after)
    if old is None or new is None:
        return None, ("settings that cannot be parsed",)
    earlier = [setting for _, setting in old if setting is not None]
    later = [setting for _, setting in new if setting is not None]
    if earlier == later:
        return before, ()
    # git takes the name of a remote without an address for a folder
    remotes = {name for name, value in later if (name, value) in earlier or _REMOTE_ADDRESS.fullmatch(value)}
    used = {f"remote.{value}.url" for name, value in later if name.startswith("branch.") and name.endswith("remote")}
    lost = [
        name
        for name, value in earlier
        if (name, value) not in later and (not _may_change(name) or (name in used and name not in remotes))
    ]
    if lost:
        return None, tuple(f"removal of {name}" for name in lost)
    refused = [setting for setting in later if setting not in earlier and not _is_taken(*setting, remotes)]
    known = {line for line, _ in old}
    lines: list[str] = []
    is_empty = True  # the section, from its end
    for line, setting in reversed(new):
        is_head = line.startswith("[")
        if setting not in refused and not (is_head and is_empty and line not in known):
            lines.append(line)
            is_empty = is_head or (is_empty and not line.strip())
    lines.reverse()
    return _bytes("\n".join(lines)), tuple(dict.fromkeys(name for name, _ in refused))


def _may_change(name: str) -> bool:
    """Whether a command may change or remove a setting of a repository that existed before."""
    section, _, key = name.partition(".")
    _, dot, key = key.rpartition(".")
    return key in _TAKEN.get((section, bool(dot)), "").split()


def _is_taken(name: str, value: str, remotes: Container[str]) -> bool:
    """Whether a command may set this in a repository that existed before, which then has these addresses."""
    around, _, key = name.rpartition(".")
    if not _may_change(name) or (key in ("fetch", "prune", "tagopt") and f"{around}.url" not in remotes):
        return False
    if key in ("remote", "pushremote"):
        return value == "." or f"remote.{value}.url" in remotes
    return value.isprintable() and (key not in _ADDRESSES or _REMOTE_ADDRESS.fullmatch(value) is not None)


def _all_settings(data: bytes) -> list[tuple[str, tuple[str, str] | None]] | None:
    """Return the lines of a configuration with their settings; None if one cannot be parsed."""
    lines: list[tuple[str, tuple[str, str] | None]] = []
    section: tuple[str, str | None] | None = None
    if len(data) > CONTENT_BYTES or b"\0" in data or b"\r" in data:
        return None
    for line in _text(data).split("\n"):
        text = line.strip(" \t")
        setting = None
        if header := _HEADER.fullmatch(text):
            section = header[1].lower(), header[2]
        elif text and text[0] not in "#;":
            parsed = _parse_setting(text)
            if section is None or parsed is None:
                return None
            setting = ".".join(part for part in (*section, parsed[0]) if part is not None), parsed[1]
        lines.append((line, setting))
    return lines


def judge_options(data: bytes, is_known: IsKnown) -> GitVerdict:
    """Judge the options of a sequence of picks or reverts."""

    def is_harmless(section: str, name: str | None, key: str, value: str) -> bool:
        return section == "options" and name is None and (key != "strategy" or value in _STRATEGIES)

    return _judge_settings(data, is_known, is_harmless)


def judge_strategy(data: bytes, is_known: IsKnown) -> GitVerdict:
    """Judge the name of a merge strategy."""
    return HARMLESS if _text(data).strip() in _STRATEGIES else judge_whole(data, is_known, "a merge strategy")


def judge_todo(data: bytes, is_known: IsKnown) -> GitVerdict:
    """Judge the steps of a rebase."""
    dangers: list[str] = []
    harmless_lines: list[str] = []
    for line in _text(data).split("\n"):
        command = line.strip(" \t\r").partition(" ")[0].partition("\t")[0]
        # a line that begins with another character is a comment
        if not command[:1].isalnum() or command in _STEPS.split() or is_known(line):
            harmless_lines.append(line)
        else:
            dangers.append(f"the step {command}")
    return GitVerdict(tuple(dict.fromkeys(dangers)), _bytes("\n".join(harmless_lines))) if dangers else HARMLESS


def judge_commondir(data: bytes, is_known: IsKnown, *, in_worktree: bool) -> GitVerdict:
    """Judge a `commondir` file, which git writes only for a worktree, and always with this content.

    If it names its own folder, git ignores it; hilt's own mount point files do that.
    """
    if data.rstrip(b"\n") == (b"../.." if in_worktree else b"."):
        return HARMLESS
    return judge_whole(data, is_known, "another place for hooks and configuration")


def judge_alternates(data: bytes, is_known: IsKnown, is_harmless: Callable[[str], bool]) -> GitVerdict:
    """Judge the list of repositories in which git looks for objects, too."""
    lines = _text(data).split("\n")
    if len(lines) > _MAX_ALTERNATES:
        return judge_whole(data, is_known, "objects elsewhere")
    rest = [line for line in lines if not line or line[0] == "#" or is_known(line) or is_harmless(line)]
    return HARMLESS if rest == lines else GitVerdict(("objects elsewhere",), _bytes("\n".join(rest)))


def read_gitdir(data: bytes) -> str | None:
    """Return the path in a `.git` file; None when git would not follow it."""
    return read_path(data[len(_GITDIR) :]) if data.startswith(_GITDIR) else None


def read_path(data: bytes) -> str:
    """Return a path that is the only content of a file, as git reads it."""
    return _text(data.rstrip(b"\r\n").partition(b"\0")[0])


def read_alternates(data: bytes) -> list[str]:
    """Return the folders in a list of alternates."""
    lines = _text(data.replace(b"\0", b"\n")).split("\n")
    return [line for line in lines if line and line[0] not in '#"']


def references(data: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield the section, key and value of settings that lead git to other files, in any syntax that git accepts."""
    if not _REFERENCE.search(data):
        return
    section = ""
    for line in _text(data.replace(b"\0", b"\n")).replace("\\\n", "").split("\n"):
        text = line.strip(" \t\r\ufeff")
        if header := _SECTION.match(text):
            section, text = header[1].lower(), text[header.end() :]
        key, _, value = (part.strip(" \t\r") for part in text.partition("="))
        if key.lower() in _REFERENCES.get(section, "").split() and value:
            plain = "".join(word[1] or word[2] or "" for word in _VALUE.finditer(value)).rstrip(" \t")
            yield section, key.lower(), _unquoted(plain)


def _judge_settings(
    data: bytes, is_known: IsKnown, is_harmless: Callable[[str, str | None, str, str], bool]
) -> GitVerdict:
    settings = _all_settings(data)
    if settings is None:
        return judge_whole(data, is_known, "settings that cannot be parsed")
    dangers: list[str] = []
    harmless_lines: list[str] = []
    for line, setting in settings:
        if setting is not None:
            section, _, rest = setting[0].partition(".")
            name, dot, key = rest.rpartition(".")
            if not is_harmless(section, name if dot else None, key, setting[1]) and not is_known("=".join(setting)):
                dangers.append(setting[0])
                continue
        harmless_lines.append(line)
    return GitVerdict(tuple(dict.fromkeys(dangers)), _bytes("\n".join(harmless_lines))) if dangers else HARMLESS


def _parse_setting(line: str) -> tuple[str, str] | None:
    """Return the key and value of a line; None when it is not a single simple setting."""
    key, equals, value = (part.strip(" \t") for part in line.partition("="))
    if not _KEY.fullmatch(key):
        return None
    if _PLAIN_VALUE.fullmatch(value):
        return key.lower(), value if equals else "true"
    quoted = _QUOTED_VALUE.fullmatch(value)
    return quoted and (key.lower(), _unquoted(quoted[1]))


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
