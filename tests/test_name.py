"""The project has one name."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

REPOSITORY = Path(__file__).parents[1]
OLD_NAME = "ton" + "gs"
HISTORY = "CHANGELOG.md"  # may say what the project was called


def test_the_old_name_is_in_no_tracked_file():
    listing = subprocess.run(["git", "-C", REPOSITORY, "ls-files", "-z"], capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    paths = [path for path in listing.stdout.split("\0") if path and path != HISTORY]

    matches = [path for path in paths if OLD_NAME in path.lower() or OLD_NAME in _text(REPOSITORY / path).lower()]

    assert paths
    assert matches == []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
