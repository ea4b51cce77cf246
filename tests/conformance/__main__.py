"""`make conformance`: print what holds of what every revision requires of a server."""

from __future__ import annotations

import os
import sys
import tempfile

from tests.conformance.suite import REVISIONS, extensions, passed, required, run, serving

missed = 0
for revision in REVISIONS:
    with tempfile.TemporaryDirectory(prefix="hilt-") as base, serving(base) as url:
        done = run(url, revision, os.path.join(base, "results"))
    wanted = required(revision)
    held = wanted & passed(done)
    print(done.stdout.partition("=== SUMMARY ===")[2].strip() or done.stdout)
    print(f"\n{revision}: {len(held)} of {len(wanted)} required server scenarios pass")
    print(f"{sum(extensions(done).values())} of {len(extensions(done))} scenarios of extensions pass\n")
    missed += len(wanted - held) or done.returncode
sys.exit(1 if missed else 0)
