"""The playground of `make run`: it has something to show on every page, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.marks import HANG_SECONDS

pytestmark = pytest.mark.starts_processes

SCRIPT = Path(__file__).parent.parent / "scripts/playground.py"


def test_the_playground_fills_every_page_and_is_removed_on_exit(tmp_path):
    folders = {name: tmp_path / name for name in ("home", "temporary")}
    for folder in folders.values():
        folder.mkdir()
    environ = {
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["temporary"]),
        "PATH": os.environ["PATH"],
        "HILT_STATE_DIR": str(tmp_path / "own"),  # the user's; must not be used
    }

    command = [sys.executable, str(SCRIPT)]
    process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    with process as playground, ExitStack() as stack:
        stack.callback(playground.kill)
        assert playground.stdout is not None
        address, token = playground.stdout.readline().strip().split("#token=")
        assert "Ctrl-C" in playground.stdout.readline()

        def rows(path: str) -> list[dict[str, Any]]:
            request = urllib.request.Request(address + "v1/" + path, headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as response:
                body = json.load(response)
            return list(body[path.partition("?")[0]])

        approvals = {row["tool"] for row in rows("approvals")}
        assert (approvals, len(rows("questions"))) == ({"run_shell", "edit_file"}, 1)
        assert {row["status"] for row in rows("jobs")} == {"running"}
        assert {row["operation"] for row in rows("changes")} == {"edit_file", "apply_patch", "write_file"}
        assert {row["status"] for row in rows("tasks")} == {"pending", "in_progress", "completed"}
        assert {(row["status"], row["depth"]) for row in rows("agents")} == {
            ("completed", 1), ("running", 2), ("failed", 2),
        }  # fmt: skip
        playground.send_signal(signal.SIGINT)
        status = playground.wait(HANG_SECONDS)

    assert status == 0
    assert [os.listdir(folder) for folder in folders.values()] == [[], []]
    assert not (tmp_path / "own").exists()
