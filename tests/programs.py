"""The programs that tests run: those that the set-up installs beside Python come before those of the machine."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
# the set-up installs what tests need, but not these
EXTRAS = ("deno", "pwsh", "ruby")
HAS_SANDBOX = sys.platform != "linux" or bool(shutil.which("bwrap") or os.environ.get("CI"))
needs_sandbox = pytest.mark.skipif(not HAS_SANDBOX, reason="needs bubblewrap")


def program(name: str) -> str:
    """Return the full path of a program; a test that needs a missing one is skipped, and fails where CI is set."""
    found = shutil.which(name, path=PATH)
    if found is None and os.environ.get("CI") and name not in EXTRAS:
        pytest.fail(f"{name} is not installed: make setup installs it")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found
