"""Validates a skill strictly, with the same verdicts as the reference validator of the Agent Skills standard."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

from hilt.formats import strict_yaml
from hilt.places import utf8_path
from hilt.skills.folder_contents import UnusableFile, file_bytes, open_folder
from hilt.skills.skill import DEFINITIONS, DESCRIPTION_CHARACTERS, NAME_CHARACTERS

FILE_BYTES = 16 << 20
COMPATIBILITY_CHARACTERS = 500
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def check(path: str) -> list[str]:
    """Return the problems of the skill in a folder; none if it is valid. The path may also be that of its SKILL.md."""
    if os.path.isfile(path) and os.path.basename(path).lower() == "skill.md":
        path = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(path):
        return ["It is not a folder." if os.path.exists(path) else "It does not exist."]
    definition = next((name for name in DEFINITIONS if os.path.exists(os.path.join(path, name))), None)
    if definition is None:
        return ["SKILL.md is missing."]
    try:
        with open_folder(path, follow=True) as handle:
            data = file_bytes(handle, definition, limit=FILE_BYTES, follow=True)
    except UnusableFile as error:
        return [str(error)]
    return check_definition(data, os.path.basename(os.path.abspath(path)))


def check_definition(data: bytes, folder: str) -> list[str]:
    """Return the problems of the contents of a SKILL.md in a folder with this name."""
    try:
        text = data.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        return [f"SKILL.md is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,}."]
    if not text.startswith("---"):
        return ["SKILL.md must begin with ---, the start of the front matter."]
    parts = text.split("---", 2)
    if len(parts) < 3:
        return ["The front matter has no end: --- is missing."]
    try:
        fields = strict_yaml.load(parts[1])
    except strict_yaml.BadStrictYaml as error:
        return [f"The front matter is invalid, line {error.line}: {error.message}."]
    if not isinstance(fields, dict):
        return ["The front matter must be a mapping."]
    return [*_unknown(fields), *_name(fields, folder), *_description(fields), *_compatibility(fields)]


def _unknown(fields: dict[str, Any]) -> list[str]:
    unknown = sorted(set(fields) - set(FIELDS))
    return [f"Unknown fields: {', '.join(unknown)}. The fields are {', '.join(FIELDS)}."] if unknown else []


def _name(fields: dict[str, Any], folder: str) -> list[str]:
    if "name" not in fields:
        return ["The field name is missing."]
    name = fields["name"]
    if not isinstance(name, str) or not name.strip():
        return ["name must be a non-empty string."]
    name = unicodedata.normalize("NFKC", name.strip())
    problems: list[str] = []
    if len(name) > NAME_CHARACTERS:
        problems.append(f"name has {len(name)} characters; the limit is {NAME_CHARACTERS}.")
    if name != name.lower():
        problems.append(f"The name {name} must be lowercase.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        problems.append(f"The name {name} must not begin or end with a hyphen, or have two in a row.")
    if not all(character.isalnum() or character == "-" for character in name):
        problems.append(f"The name {name} may contain only letters, digits and hyphens.")
    if unicodedata.normalize("NFKC", folder) != name:
        problems.append(f"The folder is named {utf8_path(folder)}; it must have the skill's name, {name}.")
    return problems


def _description(fields: dict[str, Any]) -> list[str]:
    if "description" not in fields:
        return ["The field description is missing."]
    description = fields["description"]
    if not isinstance(description, str) or not description.strip():
        return ["description must be a non-empty string."]
    if len(description) > DESCRIPTION_CHARACTERS:
        return [f"description has {len(description):,} characters; the limit is {DESCRIPTION_CHARACTERS:,}."]
    return []


def _compatibility(fields: dict[str, Any]) -> list[str]:
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        return ["compatibility must be a string."]
    if len(compatibility) > COMPATIBILITY_CHARACTERS:
        return [f"compatibility has {len(compatibility)} characters; the limit is {COMPATIBILITY_CHARACTERS}."]
    return []
