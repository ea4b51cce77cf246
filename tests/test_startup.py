"""The modules that a call loads, checked in sys.modules instead of by timing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from tests.surfaces.commands import Command

pytestmark = pytest.mark.starts_processes

# modules that take longer to import than a whole call may take
HEAVY = {
    "argparse", "asyncio", "concurrent.futures", "dataclasses", "difflib", "email", "http", "httpx", "importlib.metadata",  # noqa: E501
    "importlib.resources", "inspect", "jsonschema_rs", "logging", "mcp", "multiprocessing", "pathlib", "pydantic", "rich", "h11", "selectolax", "html_to_markdown",  # noqa: E501
    "ssl", "subprocess", "tomllib", "unittest", "urllib", "yaml", "zipfile", "chardetng_py", "filetype", "PIL", "rapidfuzz",  # noqa: E501
}  # fmt: skip

# the one-shot path ends with os._exit, so the modules are counted there
COUNT = """
import os, sys
def report(status):
    sys.stdout.flush()
    os.write(2, "\\n".join(sys.modules).encode())
    leave(status)
leave, os._exit = os._exit, report
before = set(sys.modules)
from hilt.surfaces.cli import main
report(main([]))
"""


def modules(command: Command, request: Any) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{COUNT}"],
        input=json.dumps(request).encode(),
        cwd=command.folder.path,
        env=command.environ,
        capture_output=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["ok"], done.stdout
    return set(done.stderr.decode().split("\n"))


REQUESTS = {
    "read_file": {"path": "a.txt"},
    "multi_read": {"files": [{"path": "a.txt"}]},
    "write_file": {"path": "b.txt", "content": "b\n"},
    "edit_file": {"path": "a.txt", "old_text": "a", "new_text": "b"},
    "multi_edit": {"edits": [{"path": "a.txt", "old_text": "a", "new_text": "b"}]},
    "apply_patch": {"patch": "*** Begin Patch\n*** Add File: n.txt\n+n\n*** End Patch"},
    "undo": {"action": "list"},
    "stat_file": {"path": "a.txt"},
    "list_dir": {"details": True},
    "diff_files": {"path_a": "a.txt", "path_b": "c.txt"},
    "task": {"action": "create", "title": "x"},
    "todo_write": {"todos": [{"content": "x"}]},
    "todo_read": {},
}


@pytest.mark.parametrize("tool, args", REQUESTS.items())
def test_a_call_loads_its_own_tool_and_nothing_heavy(tmp_path, tool, args):
    command = Command(str(tmp_path))
    command.folder.write("a.txt", "a\n")
    command.folder.write("c.txt", "c\n")

    loaded = modules(command, {"tool": tool, "args": args})

    assert {name for name in loaded if name.startswith("hilt.tools.")} == {f"hilt.tools.{tool}"}
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith(("hilt.dialects.", "hilt.web", "hilt.lsp"))} == set()


def test_a_read_loads_no_modules_that_only_writes_need(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write("a.txt", "a\n")

    read = modules(command, {"tool": "read_file", "args": {"path": "a.txt"}})
    written = modules(command, {"tool": "write_file", "args": {"path": "b.txt", "content": "b\n"}})

    assert "pwd" not in read  # looks up the user's home directory, for its start files
    assert "pwd" in written


def test_a_dialect_name_loads_only_one_tool(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write("a.txt", "a\n")

    loaded = modules(command, {"tool": "Read", "args": {"path": "a.txt"}})

    assert {name for name in loaded if name.startswith("hilt.tools.")} == {"hilt.tools.read_file"}
    assert loaded & HEAVY == set()


def test_settings_are_parsed_once_and_then_read_from_the_cache(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write("a.txt", "a\n")
    command.folder.write(".hilt/config.toml", "[output]\noverflow_chars = 1000\n")
    request = {"tool": "read_file", "args": {"path": "a.txt"}}

    first, second = modules(command, request), modules(command, request)

    assert "tomllib" in first
    assert "tomllib" not in second


def test_connecting_to_the_resident_process_loads_nothing():
    with tempfile.TemporaryDirectory(prefix="hilt-", dir="/tmp") as base:
        command = Command(base, HILT_RESIDENT="auto")
        command.folder.write("a.txt", "a\n")
        assert command.run("resident", "start").returncode == 0
        try:
            loaded = modules(command, {"tool": "read_file", "args": {"path": "a.txt"}})
        finally:
            command.run("resident", "stop")
    bare = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import sys; print('\\n'.join(sys.modules))"], capture_output=True, text=True
    )
    own = {"hilt", "hilt.places", "hilt.surfaces", "hilt.surfaces.cli", "hilt.surfaces.handover"}

    assert loaded - set(bare.stdout.split()) - {"__future__", "_socket", "atexit", "errno", "os", "stat", "posixpath", "genericpath", "os.path", "_stat", "_collections_abc", "abc", "_abc"} == own  # fmt: skip  # noqa: E501


def test_importing_the_package_loads_no_part_of_it():
    script = "import sys, hilt; print([name for name in sys.modules if name.startswith('hilt.')])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ})

    assert done.stdout.strip() == "[]"
