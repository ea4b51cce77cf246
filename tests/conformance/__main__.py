"""`make conformance`: print which of the required server scenarios of every revision pass."""

from __future__ import annotations

import os
import sys
import tempfile

from tests.conformance.suite import REVISIONS, extensions, passed, required, run, serving

failures = 0
for revision in REVISIONS:
    with tempfile.TemporaryDirectory(prefix="hilt-") as base, serving(base) as url:
        done = run(url, revision, os.path.join(base, "results"))
    scenarios = required(revision)
    passing = scenarios & passed(done)
    print(done.stdout.partition("=== SUMMARY ===")[2].strip() or done.stdout)
    print(f"\n{revision}: {len(passing)} of {len(scenarios)} required server scenarios pass")
    print(f"{sum(extensions(done).values())} of {len(extensions(done))} scenarios of extensions pass\n")
    failures += len(scenarios - passing) or done.returncode
sys.exit(1 if failures else 0)
