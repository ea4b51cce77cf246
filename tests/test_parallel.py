"""The tests in forks of one process are reported as if one process had run them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.starts_processes

TESTS = """
import os, pytest, sys

OLD_STREAM = sys.stderr

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    yield folder
    assert folder.is_dir()

@pytest.mark.parametrize("number", range(40))
def test_a_folder_of_its_own(number, shared, tmp_path):
    (tmp_path / "file").touch(exist_ok=False)

def test_failure():
    print("what it printed")
    print("to a stream from before the fork", file=OLD_STREAM)
    assert 1 == 2

def test_death():
    os.kill(os.getpid(), 9)

def test_after():
    pytest.skip("not here")
"""


def run_tests(folder, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    line = [sys.executable, "-m", "pytest", "-p", "tests.parallel", "--processes", "3", *options]
    line += ["-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull, str(folder)]
    line += ["--basetemp", str(folder / "temporary")]
    return subprocess.run(line, capture_output=True, text=True, cwd=os.path.dirname(os.path.dirname(__file__)))


def test_every_test_of_every_fork_is_reported(tmp_path):
    result = run_tests(tmp_path, TESTS, "-rfs")

    assert result.returncode == 1
    assert "2 failed, 40 passed, 1 skipped" in result.stdout
    assert "what it printed" in result.stdout
    assert "to a stream from before the fork" in result.stdout
    assert "assert 1 == 2" in result.stdout
    assert "The process that ran this test ended with status -9." in result.stdout
    assert "not here" in result.stdout


def test_the_first_failure_stops_all_forks(tmp_path):
    result = run_tests(
        tmp_path, "import pytest\n@pytest.mark.parametrize('n', range(99))\ndef test_it(n): assert 0", "-x"
    )

    assert result.returncode == 1
    assert "stopping after 1 failures" in result.stdout
    assert "1 failed in" in result.stdout
