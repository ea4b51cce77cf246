"""The built-in skills: valid, loaded unchanged, and every command and file in them works."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from skills_ref import validate  # type: ignore[import-untyped]

from hilt.errors import CODES
from hilt.skills.checking import check
from hilt.skills.library import BUILT_IN
from hilt.surfaces.cli import command_table
from hilt.testing import Folder
from tests.programs import needs_sandbox
from tests.test_docs import blocks, follow, own_environment

pytestmark = pytest.mark.starts_processes

NAMES = sorted(os.listdir(BUILT_IN.path))


def page(name: str) -> Path:
    return Path(BUILT_IN.path, name, "SKILL.md")


def test_hilt_has_three_built_in_skills():
    assert NAMES == ["hilt", "skill-creator", "tool-creator"]


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_skill_is_valid_and_loads_completely(runtime, name):
    assert check(str(page(name).parent)) == validate(page(name).parent) == []

    result = runtime.call("load_skill", name=name)

    body = page(name).read_text().split("---", 2)[2].strip("\n")
    assert result.text == f"[Skill {name}, built into hilt: the next {body.count(chr(10)) + 1} lines.]\n{body}"
    assert result.meta["source"] == "built-in"


@pytest.mark.parametrize("name", ["skill-creator", "tool-creator"])
def test_the_commands_in_a_built_in_skill_work_as_written(name, tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    follow(page(name), tmp_path, workspace, own_environment(tmp_path))


def test_the_example_tool_of_tool_creator_counts_lines(tmp_path):
    from tests.surfaces.commands import Command

    command = Command(str(tmp_path), HILT_TRUST="all")
    example = next(block for block in blocks(page("tool-creator")) if block.path.endswith("count_matches.md"))
    command.folder.write(example.path, "\n".join(example.lines) + "\n")
    command.folder.write("a.txt", "x 'y'\nz\n$x 'y'\n")

    matches = command.ask({"tool": "count_matches", "args": {"text": "x 'y'", "file": "a.txt"}})[0]
    no_matches = command.ask({"tool": "count_matches", "args": {"text": "-nothing", "file": "a.txt"}})[0]

    assert [matches["result"].strip(), no_matches["result"].strip()] == ["2", "0"]


@needs_sandbox
def test_every_request_in_the_hilt_skill_succeeds(runtime, workspace: Folder):
    workspace.write("README.md", "# Shop\n")
    workspace.write("shop/cart.py", "def total(prices):\n    return sum(prices)\n")
    requests = [json.loads(line) for block in blocks(page("hilt")) for line in block.lines if block.language == "json"]

    results = [runtime.call(request["tool"], **request["args"]) for request in requests]

    assert len(requests) == 9
    assert [result.error for result in results if result.error] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_error_code_in_the_text_exists(name):
    text = page(name).read_text()
    lines = re.findall(r"`(hilt [^`]+)`", text)
    for line in lines:
        first, *rest = shlex.split(line)[1:]
        parser, rest = command_table.parser_of(first).reached(rest)
        parser.read(rest)
    table = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE) if name == "hilt" else []
    codes = [code for cell in table for code in re.findall(r"`(\w+)`", cell)]

    assert lines
    assert [code for code in codes if code not in CODES] == []
