"""Runs the conformance suite against our server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hilt.testing import environment

REVISIONS = ("2025-11-25", "2026-07-28")
BIN = os.path.dirname(sys.executable)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@contextmanager
def serving(base: str) -> Iterator[str]:
    """Start the server with everything below one folder, and yield its address."""
    workspace = os.path.join(base, "workspace")
    os.makedirs(workspace)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.server", workspace],
        cwd=ROOT,
        env=environment(base),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        try:
            lines = []
            for line in server.stderr:
                lines.append(line)
                match = re.search(r"http://\S+", line)
                if match:
                    yield match[0]
                    return
            raise AssertionError("".join(lines))
        finally:
            server.terminate()
            server.stderr.close()


def run(url: str, revision: str, output: str) -> subprocess.CompletedProcess[str]:
    """Run the required scenarios of a revision; the exit status is 0 if all pass."""
    return _conformance("server", "--url", url, "--requirements", revision, "-o", output)


def extensions(done: subprocess.CompletedProcess[str]) -> dict[str, bool]:
    """Return the scenarios of extensions that were run, and whether they passed."""
    return {name: mark == "✓" for mark, name in re.findall(r"([✓✗]) (\S+) \(extension\)", done.stdout)}


def passed(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Return the scenarios without a failure."""
    matches = re.findall(r"✓ (\S+): (\d+) passed, 0 failed", done.stdout)
    return {name for name, count in matches if count != "0"}


def required(revision: str) -> set[str]:
    """Return the required server scenarios of a revision."""
    listed = _conformance("list", "--server", "--requirements", revision).stdout
    scenarios, inside = set(), False
    for line in listed.splitlines():
        if line and not line.startswith(" "):
            inside = line.startswith("Server scenarios")
        elif inside and line.strip().startswith("- "):
            scenarios.add(line.strip()[2:])
    return scenarios


def _conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.path.join(BIN, "conformance"), *arguments],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}", "NO_COLOR": "1"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
