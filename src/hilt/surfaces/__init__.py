"""Protocol adapters: decode, call, encode."""

from __future__ import annotations

import os

# options that every command takes, before or after its name: the placeholder of the value, and the help text
OPTIONS = {
    "workspace": ("DIR", "Work in this folder instead of the current one"),
    "session": ("ID", "Use this session instead of the default one"),
    "mode": ("MODE", "Which calls need approval"),
    "approve": ("ANSWER", "How to answer approval prompts"),
    "profile": ("PROFILE", "How many tools to offer"),
    "tools": ("A,B", "Offer only these tools"),
    "tools-dir": ("DIR", "Load custom tools from this folder too; may be repeated"),
    "dialect": ("DIALECT", "Offer tools by the names of another system"),
    "allow-private": ("HOST:PORT", "Let web tools reach this private address; may be repeated"),
}
_REPEATED = {"--tools-dir": os.pathsep, "--allow-private": ","}  # may be repeated: the separator that joins the values


class Usage(Exception):
    """The command line is invalid; `command` is the one whose help to suggest."""

    def __init__(self, message: str, command: str = "hilt") -> None:
        super().__init__(message)
        self.command = command


def split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Separate the options that every command takes from the other arguments."""
    options: dict[str, str] = {}
    words: list[str] = []
    remaining = iter(arguments)
    for word in remaining:
        name, equals, joined = word.partition("=")
        if word == "--":
            words += [word, *remaining]
        elif name[:2] == "--" and name[2:] in OPTIONS:
            value = joined if equals else next(remaining, None)
            if not value:
                raise Usage(f"{name} needs a value")
            if name != "--workspace":
                _require_utf8(value)
            if name == "--workspace" and "workspace" in options and ("serve" in arguments or "worker" in arguments):
                words.append(value)  # these take any number of folders
                continue
            earlier = options.get(name[2:]) if name in _REPEATED else None
            options[name[2:]] = value if earlier is None else f"{earlier}{_REPEATED[name]}{value}"
        else:
            words.append(word)
    for word in words:
        _require_utf8(word)
    return options, words


def _require_utf8(word: str) -> None:
    """Reject an argument that is not valid UTF-8: a JSON request could not contain it either."""
    if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
        raise Usage(f"{word!a} is not UTF-8")
