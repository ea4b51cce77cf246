"""The client scenarios of the conformance suite except OAuth, run against our client."""

from __future__ import annotations

import os
import shlex
import subprocess

from tests.conformance.suite import BIN, ROOT
from tests.surfaces.commands import forked

SCENARIOS = (
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
)


def run_client(scenario: str, revision: str, output: str) -> subprocess.CompletedProcess[str]:
    """Run one scenario; the exit status is 0 if it passes."""
    client = shlex.join(forked("-m", "tests.conformance.client"))
    arguments = ["client", "--command", client, "--scenario", scenario]
    return subprocess.run(
        [os.path.join(BIN, "conformance"), *arguments, "--spec-version", revision, "-o", output],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}", "NO_COLOR": "1"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
