from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from hilt.testing import environment


@pytest.mark.skipif(sys.platform != "linux", reason="about X11")
@pytest.mark.skipif(not importlib.util.find_spec("xcffib"), reason="the extra desktop is not installed")
def test_a_system_library_that_cannot_be_loaded_is_named(base, tmp_path):
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libxcb.so", "libxcb.so.1"):
        (libraries / name).write_bytes(b"not a library")
    environ = {**environment(base), "DISPLAY": ":99", "LD_LIBRARY_PATH": str(libraries), "HILT_MODE": "yolo"}
    request = json.dumps({"tool": "computer", "args": {"action": "screenshot"}})

    ran = subprocess.run(
        [sys.executable, "-m", "hilt"], input=request, env=environ, cwd=tmp_path, capture_output=True, text=True
    )

    answer = json.loads(ran.stdout)
    assert (answer["error_code"], "libxcb" in answer["error"]) == ("runtime_missing", True), answer
