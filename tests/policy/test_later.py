"""Files that run later are marked."""

from __future__ import annotations

import pytest

from hilt.policy.later import runner


@pytest.mark.parametrize(
    "path, who",
    [
        ("setup.cfg", "package managers"),
        ("sub/package.json", "package managers"),
        ("Makefile", "builds"),
        ("sub/GNUmakefile", "builds"),
        ("docker/Dockerfile.dev", "builds"),
        (".github/workflows/ci.yml", "CI"),
        (".husky/pre-commit", "git"),
        (".vscode/tasks.json", "editors"),
        ("lib/hooks/.githooks/post-merge", "git"),
        (".bashrc", "shells or logins"),
        (".zshrc", "shells or logins"),
        (".config/fish/x.desktop", "shells or logins"),
        ("conftest.py", "tests or interpreters"),
        ("evil.pth", "tests or interpreters"),
        (".mcp.json", "agents"),
        ("sub/.claude/settings.json", "agents"),
        ("deploy.sh", "hand (a script)"),
        ("MAKEFILE", "builds"),
        ("Make\u200bfile", "builds"),
        ("src/app.py", ""),
        ("README.md", ""),
        ("notes.txt", ""),
    ],
)
def test_a_name_tells_what_runs_a_file(path, who):
    assert runner(path, executable=False, start="x = 1\n") == who


def test_an_executable_or_a_script_runs_later_whatever_its_name():
    assert runner("deploy", executable=True, start="") == runner("deploy", executable=False, start="#!/bin/sh\n") != ""
