"""Commands: prompts that a user starts by name, one Markdown file each; a subfolder is a namespace.

`frontend/review.md` is the command `frontend:review`, or just `review` if no other command has that last part. Shell
commands and references in a command's text are not run or resolved here: they are plain text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.loaders import Source
from hilt.skills.folder_contents import UnusableFile
from hilt.skills.skill import mixes_scripts, normalize, one_line, parse_markdown

SUFFIX = ".md"
PART_CHARACTERS = 64
SUMMARY_CHARACTERS = 200


class PromptCommand(NamedTuple):
    """A command, ready to be expanded."""

    name: str
    description: str
    argument_hint: str
    source: Source
    path: str
    body: str
    allowed_tools: str  # requested by its author; grants nothing

    def expand(self, arguments: str) -> str:
        """Return the prompt with the arguments filled in; missing ones are empty."""
        return fill_in(self.body, arguments, drops_missing=True)


def is_command(relative: str) -> bool:
    """Whether a file in a folder of commands is a command, by its path in the folder."""
    *folders, name = relative.lower().split("/")
    is_hidden = any(part.startswith(".") for part in (*folders, name))
    return name.endswith(SUFFIX) and name != "readme.md" and not is_hidden


def command_name(relative: str) -> str:
    """Return the name of a command by its path in the folder of commands."""
    parts = [normalize(part) for part in relative[: -len(SUFFIX)].split("/")]
    for part in parts:
        is_plain = all(character.isalnum() or character in "-_." for character in part)
        if not 0 < len(part) <= PART_CHARACTERS or not is_plain:
            raise UnusableFile(
                f"Each part of its name must have 1 to {PART_CHARACTERS} letters, digits, -, _ and dots."
            )
        if mixes_scripts(part):
            raise UnusableFile("Its name mixes letters of several scripts, so it may look like another name.")
    return ":".join(parts)


def parse(name: str, data: bytes, source: Source, path: str) -> PromptCommand:
    """Return the command of a file."""
    fields, body = parse_markdown(data)
    if not body.strip():
        raise UnusableFile("The command has no text.")
    description = fields.get("description") or one_line(next(line for line in body.split("\n") if line.strip()))
    hint = fields.get("argument_hint", "")
    return PromptCommand(
        name,
        description[:SUMMARY_CHARACTERS],
        hint[:SUMMARY_CHARACTERS],
        source,
        path,
        body.strip("\n"),
        fields.get("allowed_tools", ""),
    )


def matching(name: str, names: Collection[str]) -> list[str]:
    """Return the commands that a name matches: the one with that full name, else those with that last part."""
    searched = normalize(name).removeprefix("/")
    return [searched] if searched in names else [command for command in names if command.rpartition(":")[2] == searched]


TEXT_CHARACTERS = 2 << 20  # of the filled-in text

_PLACEHOLDER = re.compile(r"\$ARGUMENTS(?![A-Za-z0-9_])|(?<![A-Za-z0-9$])\$([1-9][0-9]{0,3})(?![0-9])")


def fill_in(text: str, arguments: str, *, drops_missing: bool = False) -> str:
    """Return the text with the arguments filled in; those of a text without placeholders are added at its end.

    The text is read once, from left to right; placeholders in the arguments are not filled in. Prices, formulas and
    scripts have dollar signs and digits, too: `$5` is a placeholder only if there is a fifth word, and nothing precedes
    it that makes it part of something else. Placeholders for missing arguments stay; `drops_missing` makes them empty.
    """
    words = _words(arguments)
    size, filled_in = len(text), 0

    def value(match: re.Match[str]) -> str:
        nonlocal size, filled_in
        position = int(match[1] or 0)
        if position > len(words) or not words:
            return "" if drops_missing else match[0]
        filled = words[position - 1] if position else arguments
        filled_in += 1
        size += len(filled)
        if size > TEXT_CHARACTERS:
            raise ToolError(
                "limit_exceeded",
                f"With its arguments, the text has more than {TEXT_CHARACTERS:,} characters.",
                suggestion="Pass shorter arguments.",
            )
        return filled

    filled = _PLACEHOLDER.sub(value, text)
    return filled if filled_in or not words else f"{filled.rstrip()}\n\nARGUMENTS: {arguments}\n"


def _words(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()  # an apostrophe, not a quote
