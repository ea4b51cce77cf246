"""One skill: the facts and the text of its SKILL.md."""

from __future__ import annotations

import os
import unicodedata
from typing import Any, NamedTuple

from hilt.formats import front_matter
from hilt.formats.front_matter import BadFrontMatter
from hilt.formats.invisible import visible
from hilt.loaders import MAX_BYTES, Source
from hilt.skills.folder_contents import UnusableFile

DEFINITIONS = ("SKILL.md", "skill.md")
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1024

_KEYS = ("description", "license", "compatibility", "allowed_tools")
_LOOSE = ("name", *_KEYS, "argument_hint")
_WITH_LATIN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")


class Skill(NamedTuple):
    """A loaded skill."""

    name: str
    description: str
    source: Source
    path: str  # of its folder
    definition: str  # the name of its SKILL.md
    body: str
    license: str
    compatibility: str
    allowed_tools: str  # requested by its author; grants nothing
    files: tuple[str, ...]  # the other files, relative to the folder


class MarkdownText(NamedTuple):
    """The fields and the text of a Markdown file; its front matter may be missing."""

    fields: dict[str, str]
    body: str


def normalize(name: str) -> str:
    """Return a name in the form in which names are compared."""
    return unicodedata.normalize("NFKC", name.strip())


def name_problem(name: str) -> str | None:
    """Return why a normalized name is invalid, or None."""
    if not name or len(name) > NAME_CHARACTERS:
        return f"it must have 1 to {NAME_CHARACTERS} characters"
    if name != name.lower():
        return "it must be lowercase"
    if not all(character.isalnum() or character == "-" for character in name):
        return "it may contain only letters, digits and hyphens"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        return "it must not start or end with a hyphen, or have two in a row"
    return None


def mixes_scripts(name: str) -> bool:
    """Whether a name mixes letters of several scripts, which can make it look like another name."""
    letters = (unicodedata.name(character, "?") for character in name if character.isalpha())
    scripts = {name.split()[0] for name in letters}
    foreign = {script for script in scripts if script not in ("LATIN", *_WITH_LATIN)}
    return len(foreign) > 1 or (bool(foreign) and len(scripts) > 1)


def parse_markdown(data: bytes) -> MarkdownText:
    """Return the fields and the text of a Markdown file, without invisible characters.

    Front matter in skills is often invalid YAML: then only its simple `key: value` lines are used.
    """
    if len(data) > MAX_BYTES:
        raise UnusableFile(f"It has more than {MAX_BYTES:,} bytes.")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnusableFile(f"It is not UTF-8: byte 0x{data[error.start]:02x}.") from None
    try:
        strict = front_matter.read(text.encode(), limit=MAX_BYTES)
    except BadFrontMatter:
        loose = front_matter.skim(text, _LOOSE, ())
        return MarkdownText({key: one_line(value) for key, value in loose.texts.items()}, visible(loose.body))
    fields = {str(key).lower().replace("-", "_"): _text(value) for key, value in strict.fields.items()}
    return MarkdownText(fields, visible(strict.body))


def parse(path: str, data: bytes, source: Source, definition: str, files: tuple[str, ...]) -> Skill:
    """Return the skill of a folder from the bytes of its SKILL.md and the names of its other files."""
    fields, body = parse_markdown(data)
    if not fields.get("description"):
        raise UnusableFile("SKILL.md has no description in its front matter.")
    values = {key: fields.get(key, "")[:DESCRIPTION_CHARACTERS] for key in _KEYS}
    return Skill(
        name=normalize(os.path.basename(path)),
        source=source,
        path=path,
        definition=definition,
        body=body.strip("\n"),
        files=files,
        **values,
    )


def one_line(text: str) -> str:
    """Return a text as one visible line."""
    return " ".join(visible(text).split())


def _text(value: Any) -> str:
    """Return a value of the front matter as one line; lists are joined, and mappings skipped."""
    if isinstance(value, dict) or value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(one_line(str(item)) for item in value)
    return one_line(str(value))
