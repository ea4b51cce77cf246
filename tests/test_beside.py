"""`scripts/beside.sh` runs a check in parallel to the tests, and reports failures of both."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

BESIDE = Path(__file__).resolve().parent.parent / "scripts/beside.sh"


def run_beside(check: str, *program: str, pass_fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(BESIDE), check, *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, pass_fds=pass_fds)


def test_a_check_that_succeeds_prints_nothing():
    result = run_beside("echo checked", "echo", "tested")

    assert (result.returncode, result.stdout, result.stderr) == (0, "tested\n", "")


def test_a_failing_check_fails_the_run_and_is_printed_last():
    check = "sh -c 'echo wrong type; exit 3'"

    result = run_beside(check, "echo", "tested")

    assert (result.returncode, result.stdout) == (1, f"tested\nwrong type\nFailed: {check}\n")


@pytest.mark.parametrize("status", [1, 5])
def test_the_exit_status_of_the_program_is_returned(status):
    result = run_beside("echo checked", "sh", "-c", f"echo tested; exit {status}")

    assert (result.returncode, result.stdout) == (status, "tested\n")


def test_a_check_that_is_still_running_ends_when_the_program_is_interrupted():
    ours, inherited = os.pipe()

    # the program interrupts the script, as a terminal would
    result = run_beside("sleep 600", "sh", "-c", "kill -INT $PPID", pass_fds=[inherited])

    os.close(inherited)
    assert os.read(ours, 1) == b""  # no process has the other end
    os.close(ours)
    assert (result.returncode, result.stdout) == (130, "")


def test_patience_passes_on_the_status_and_leaves_no_clock_behind():
    patiently = BESIDE.with_name("patiently.sh")
    result = subprocess.run(["sh", str(patiently), "x", "sh", "-c", "echo a; exit 3"], capture_output=True, timeout=50)

    # the pipes would stay open while a clock held them
    assert (result.returncode, result.stdout) == (3, b"a\n")
