"""The programs that tests run: those installed by the set-up take precedence over those of the machine."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
# the set-up does not install these
EXTRAS = ("deno", "pwsh", "ruby")
HAS_SANDBOX = sys.platform != "linux" or bool(shutil.which("bwrap") or os.environ.get("CI"))
needs_sandbox = pytest.mark.skipif(not HAS_SANDBOX, reason="needs bubblewrap")


def program(name: str) -> str:
    """Return the full path of a program; a test that needs a missing one is skipped, and fails where CI is set."""
    path = shutil.which(name, path=PATH)
    if path is None and os.environ.get("CI") and name not in EXTRAS:
        pytest.fail(f"{name} is not installed: make setup installs it")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path
