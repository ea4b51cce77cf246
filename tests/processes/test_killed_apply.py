"""A command's change is applied or undone as a whole, whenever the process is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

STRESS = os.environ.get("HILT_STRESS")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # faster; what the kernel has survives a kill


VARIANTS = ("", " without exchange", " from copies")


@pytest.mark.parametrize("way", [f"{action}{variant}" for variant in VARIANTS for action in ("apply", "restore")])
def test_a_kill_at_any_step_leaves_all_or_nothing(way):
    every = 1 if STRESS else 5
    with tempfile.TemporaryDirectory(prefix="hilt-killed-", dir=MEMORY) as base:
        command = [sys.executable, "-m", "tests.processes.killed_apply", base, way, str(every)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=Path(__file__).parents[2])

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["faults"] == []
    assert report["steps"] > 20
    assert min(report["outcomes"].values()) > 0
