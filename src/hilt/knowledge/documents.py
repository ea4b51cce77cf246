"""One file as a document: name, title, description and tags, from its front matter or from its text."""

from __future__ import annotations

import os
from typing import NamedTuple

from hilt.formats import front_matter
from hilt.places import utf8_path

TEXT_BYTES = 32 * 1024
TITLE_CHARACTERS = 200
DESCRIPTION_CHARACTERS = 240
TAGS_MAX = 32

_LISTS = ("tags", "aliases", "keywords")
_SCALARS = ("name", "title", "description", "source", "when_to_use")


class KnowledgeDocument(NamedTuple):
    """The facts about one file, without its text."""

    name: str
    title: str
    description: str
    tags: tuple[str, ...]
    source: str
    purpose: str  # what the author states it is for; the description may be just the start of the text
    body: str


def parse(data: bytes, path: str) -> KnowledgeDocument | None:
    """Return the document from the beginning of a file; None if it is not text."""
    if b"\0" in data[:512]:
        return None
    text = data[:TEXT_BYTES].decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    fields, lists, body = front_matter.skim(text, _SCALARS, _LISTS)
    name = _line(fields.get("name", "")) or _name(path)
    title = _line(fields.get("title", "")) or _heading(body) or name
    purpose = _line(f"{fields.get('description', '')} {fields.get('when_to_use', '')}")
    description = _line(fields.get("description", "")) or _paragraph(body)
    tags = [tag for key in _LISTS for tag in lists.get(key, ())][:TAGS_MAX]
    return KnowledgeDocument(
        name[:TITLE_CHARACTERS],
        title[:TITLE_CHARACTERS],
        description[:DESCRIPTION_CHARACTERS],
        tuple(_line(tag)[:TITLE_CHARACTERS] for tag in tags),
        _line(fields.get("source", ""))[:TITLE_CHARACTERS],
        purpose,
        body,
    )


def _name(path: str) -> str:
    folder, _, name = path.rpartition("/")
    stem = folder.rpartition("/")[2] if name == "SKILL.md" else os.path.splitext(name)[0]
    return _line(utf8_path(stem))


def _heading(body: str) -> str:
    lines = [line.strip() for line in body.split("\n")]
    for line in lines:
        if line.startswith("# "):
            return _line(line[2:])
    return next((_line(line.lstrip("#")) for line in lines if line), "")


def _paragraph(body: str) -> str:
    lines: list[str] = []
    for line in body.split("\n"):
        plain = line.strip()
        if not plain and lines:
            break
        if plain and not plain.startswith(("#", "---", "```")):
            lines.append(plain)
        if len(lines) == 3:
            break
    return _line(" ".join(lines))


def _line(text: str) -> str:
    """Return a text as one line that can be displayed and encoded."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())
