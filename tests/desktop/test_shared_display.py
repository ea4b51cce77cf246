from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hilt.testing import environment

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs X11"),
    pytest.mark.skipif(not importlib.util.find_spec("xcffib"), reason="the extra desktop is not installed"),
]


def screenshot(environ: dict[str, str], folder: Path) -> dict[str, Any]:
    """Return the reply to a screenshot from a new process."""
    request = json.dumps({"tool": "computer", "args": {"action": "screenshot"}})
    process = subprocess.run(
        [sys.executable, "-m", "hilt"], input=request, env=environ, cwd=folder, capture_output=True, text=True
    )
    reply: dict[str, Any] = json.loads(process.stdout)
    return reply


def test_a_display_that_does_not_respond_is_named(base, tmp_path):
    reply = screenshot({**environment(base), "DISPLAY": ":no", "HILT_MODE": "yolo"}, tmp_path)

    assert reply["error_code"] == "no_display"
    assert ":no" in reply["error"]
    assert not reply["error"].endswith("..")
    assert "DISPLAY" in reply["suggestion"]


def test_a_system_library_that_cannot_be_loaded_is_named(base, tmp_path):
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libxcb.so", "libxcb.so.1"):
        (libraries / name).write_bytes(b"not a library")
    environ = {**environment(base), "DISPLAY": ":99", "LD_LIBRARY_PATH": str(libraries), "HILT_MODE": "yolo"}

    reply = screenshot(environ, tmp_path)

    assert (reply["error_code"], "libxcb" in reply["error"]) == ("runtime_missing", True), reply
