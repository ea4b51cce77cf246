from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from hilt.surfaces.cli.command_table import COMMANDS, parser_of
from hilt.surfaces.cli.man import page
from tests.surfaces.cli.test_help_text import SHOWN


def test_the_man_page_has_every_command_and_option():
    text = page().replace(r"\-", "-")

    assert text.startswith(".TH HILT 1 ")
    assert [line[4:] for line in text.splitlines() if line.startswith(".SH HILT ")] == [
        f"HILT {name.upper()}" for name in COMMANDS
    ]
    for name in COMMANDS:
        for action in parser_of(name).flags:
            assert action.option_strings[-1] in text
    assert all(f".SS {prog}\n" in text for prog in SHOWN if prog.count(" ") > 1)


def test_a_line_starts_a_groff_request_only_where_intended():
    requests = {match[0] for match in re.findall(r"^([.'][A-Za-z]*)(.*)$", page(), flags=re.MULTILINE)}

    assert requests <= {".TH", ".SH", ".SS", ".TP", ".PP", ".RS", ".RE", ".nf", ".fi", ".nh", ".ad"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_formats_it_without_a_warning():
    words = ["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=80n"]

    done = subprocess.run(words, input=page(), capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert "hilt - tool runtime for AI agents" in done.stdout
    assert """echo '{"tool": "NAME", "args": {...}}' | hilt [OPTIONS]""" in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


def test_the_command_prints_it(command):
    done = command.run("man")

    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, page(), b"")
