"""The typical changes of docs/architecture.md, made in a copy of hilt: the files of the page are enough."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hilt
from hilt.testing import environment
from tests.probed import remember_sandbox

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"

TOOL = '''\
"""Count the lines of a file."""

from hilt.context import Context
from hilt.declaration import tool
from hilt.params import ReadPath


@tool(effects="read")
def count_lines(ctx: Context, path: ReadPath) -> str:
    """Count the lines of a text file."""
    return f"{len(ctx.workspace.read(path).data.splitlines())} lines"
'''
DIALECT = '''\
"""The tools of a system that shouts."""

from hilt.call import Output
from hilt.dialects._rows import Args, entries, row, string


def _loud(output: Output, args: Args, root: str) -> Output:
    return output._replace(text=output.text.upper())


ENTRIES = entries(
    row("READ!", "read_file", "Read.", {"FILE!": string("A file.")}, renames={"FILE": "path"}, reply=_loud)
)
'''
BACKEND = '''\
"""Says its name, and confines nothing."""

from contextlib import contextmanager

from hilt.sandbox.backend import Availability, Backend, Launch


class Loud(Backend):
    name = "loud"

    def fingerprint(self, find):
        return []

    def probe(self, state, find):
        return Availability(self.name, "It works.", features=("inner_paths",))

    @contextmanager
    def confine(self, profile, start):
        yield Launch(("/usr/bin/env", f"CONFINED=loud {profile.network.name}"))


BACKEND = Loud
'''


class Copy:
    """A copy of hilt, and a workspace."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.package = base / "src/hilt"
        shutil.copytree(os.path.dirname(hilt.__file__), self.package, ignore=shutil.ignore_patterns("__pycache__"))
        (base / "workspace").mkdir()
        (base / "workspace/a.txt").write_text("one\ntwo\n")
        remember_sandbox(str(base / "state"))

    def add(self, path: str, text: str) -> None:
        """Write a new module."""
        assert not (self.package / path).exists()
        (self.package / path).write_text(text)

    def change(self, path: str, old: str, new: str) -> None:
        """Replace a text that the module has once."""
        text = (self.package / path).read_text()
        assert text.count(old) == 1
        (self.package / path).write_text(text.replace(old, new))

    def run(self, *words: str, input: str = "") -> str:
        """Run the command line of this copy, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "hilt", *words],
            cwd=self._base / "workspace",
            env={
                **environment(str(self._base)),
                "PYTHONPATH": str(self.package.parent),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            input=input,
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_tool_is_one_file(copy: Copy):
    copy.add("tools/count_lines.py", TOOL)

    assert copy.run("call", "count_lines", "path=a.txt") == "2 lines\n"
    assert "count_lines" in copy.run("tools", "list")


def test_a_dialect_is_one_file(copy: Copy):
    copy.add("dialects/loud.py", DIALECT)

    printed = copy.run("--dialect", "loud", input='{"tool": "READ!", "args": {"FILE": "a.txt"}}')

    assert json.loads(printed)["result"] == "1\tONE\n2\tTWO"
    assert "loud" in copy.run("--dialect", "none", "call", "READ!", "FILE=a.txt")  # listed in the advice


def test_a_backend_is_one_file_and_its_name(copy: Copy):
    copy.add("sandbox/loud.py", BACKEND)
    copy.change("sandbox/backend.py", '"linux": (', '"linux": ("loud", ')
    (copy.package.parents[1] / "state/sandbox.json").unlink()

    assert copy.run("call", "run_shell", "command=echo $CONFINED") == "$ echo $CONFINED\nloud none\nexit code 0\n"


def test_a_kind_of_network_is_its_declaration_and_its_name(copy: Copy):
    copy.change("params.py", 'Literal["none", ', 'Literal["none", "quiet", ')
    copy.change("sandbox/network.py", "for network in (NONE, ", 'for network in (NONE, Network("quiet"), ')

    printed = copy.run("call", "run_shell", "command=grep -c : /proc/net/dev", "network=quiet")

    assert printed == "$ grep -c : /proc/net/dev\n1\nexit code 0\n"


def test_the_files_of_the_page_exist():
    table = PAGE.read_text(encoding="utf-8").partition("## Five typical changes")[2].partition("\n## ")[0]
    paths = re.findall(r"`([\w./-]+/[\w./-]*)`", table)

    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / (os.path.dirname(path) if "NAME" in path else path)).exists()] == []
