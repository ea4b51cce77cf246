from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.skills import commands
from hilt.skills.folder_contents import UnusableFile
from hilt.skills.skill import Skill, mixes_scripts, name_problem, normalize, parse
from tests.formats.test_strict_yaml import TEXTS


def read(data: bytes) -> Skill | None:
    try:
        return parse("/skills/pdf", data, "personal", "SKILL.md", ())
    except UnusableFile:
        return None


@given(st.binary(max_size=200) | TEXTS.map(lambda text: f"---\ndescription: d\n{text}\n---\nBody\n".encode()))
def test_any_file_is_a_skill_with_visible_text_or_is_rejected(data):
    skill = read(data)

    if skill is not None:
        assert skill.description
        assert skill.description.isprintable()
        assert not set(skill.body) & set("\r\x00\x1b\u200b\u202e\ufeff")


@given(st.binary(max_size=200) | TEXTS.map(lambda text: f"---\n{text}\n---\nBody\n".encode()))
def test_any_file_is_a_command_or_is_rejected(data):
    try:
        command = commands.parse("go", data, "personal", "/commands/go.md")
    except UnusableFile:
        return
    assert command.body.strip()


@given(st.text(max_size=70))
def test_a_valid_name_is_normalized_and_cannot_be_a_path(name):
    normalized = normalize(name)
    if name_problem(normalized) is None:
        assert normalize(normalized) == normalized
        assert not set(normalized) & set("/\\.\0 \n:")


@pytest.mark.parametrize(
    "fields, description, tools",
    [
        ("description: a\nallowed-tools: Read Bash(git:*)\n", "a", "Read Bash(git:*)"),
        ("description: >\n  a\n  b\nallowed-tools:\n- Read\n- Grep\n", "a b", "Read, Grep"),
        ("description: [a, b]\nallowed-tools: [Read, Grep]\n", "a, b", "Read, Grep"),
        ("description: Use: when: asked\nallowed-tools: Read\n", "Use: when: asked", "Read"),
        ("description: 12\nallowed-tools: null\n", "12", ""),
        (f"description: {'x' * 2000}\n", "x" * 1024, ""),
    ],
)
def test_common_variants_of_front_matter_are_read(fields, description, tools):
    skill = read(f"---\n{fields}---\nBody\n".encode())

    assert skill is not None
    assert (skill.description, skill.allowed_tools, skill.body) == (description, tools, "Body")


@pytest.mark.parametrize(
    "name, mixes", [("pdf", False), ("p\u0434f", True), ("日本-pdf", False), ("\u03b1\u0430", True)]
)
def test_names_that_mix_scripts_are_recognized(name, mixes):
    assert mixes_scripts(name) is mixes
