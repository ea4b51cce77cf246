"""What the output of a command says about the sandbox: paths that were denied, and a network that is missing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from hilt.shell.risk import Risk

_DENIED = re.compile(
    r"(?i)permission denied|read-only file system|device or resource busy|operation not permitted|connection refused"
    r"|isn't writable|not writable|\b(?:EACCES|EROFS|EBUSY|EPERM|ECONNREFUSED)\b"
)
_MISSING = re.compile(r"(?i)no such file or directory|\bENOENT\b")
_LIMITED = re.compile(
    r"(?i)(file too large|file size limit exceeded|\bEFBIG\b)|(resource temporarily unavailable|retry: |can't fork)"
)
_WORDS = re.compile(r"[^\s'\"`\u2018\u2019\u201c\u201d:,;()\[\]<>=]+")
_LINES, _WORDS_MAX = 200, 100
_LOCAL = re.compile(r"\b(?:localhost|127\.0\.0\.1)\b|\[::1\]")
_FETCHERS = frozenset(
    (
        *("npm", "npx", "yarn", "pnpm", "bun", "bunx", "pip", "pip3", "uv", "uvx", "poetry", "pipx", "cargo", "go"),
        *("curl", "wget", "apt", "apt-get", "brew", "gem", "bundle", "composer", "gradle", "mvn", "gh", "docker"),
    )
)
_FETCHING_GIT = ("clone", "fetch", "pull", "push", "ls-remote", "submodule")


def denied_paths(output: str, folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths that the output of a command may name as denied, and whether as missing.

    Relative ones are in its working folder.
    """
    lines = [line[:2000] for line in output.split("\n")[-_LINES:]]
    words = [(word, False) for line in lines if _DENIED.search(line) for word in _WORDS.findall(line)]
    words += [(word, True) for line in lines if _MISSING.search(line) for word in _WORDS.findall(line)]
    for word, is_missing in dict.fromkeys(words[:_WORDS_MAX]):
        if "/" in word or "." in word or os.path.lexists(os.path.join(folder, word)):
            yield os.path.join(folder, word), is_missing


def exceeded_setting(output: str) -> str:
    """Return the setting of a limit that the output names; an empty string if it names none."""
    found = _LIMITED.search(output[-20_000:])
    return "" if found is None else "shell.file_mb" if found[1] else "shell.processes"


def reaches_this_machine(risk: Risk) -> bool:
    """Whether a command connects to a server of this machine."""
    return any(_LOCAL.search(part.text) for part in risk.parts)


def fetches(risk: Risk) -> bool:
    """Whether a command runs a program that waits for the network."""
    commands = [part.words for part in risk.parts if part.kind == "command" and part.words]
    return any(
        os.path.basename(words[0] or "") in _FETCHERS
        or (words[0] == "git" and words[1:2] and words[1] in _FETCHING_GIT)
        for words in commands
    )
