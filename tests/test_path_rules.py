"""Rules on paths hold where a path really leads, at the time it is opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.state.exchanging import RULES, attack

STRESS = int(os.environ.get("HILT_STRESS") or 0)
TRIES = STRESS * 25 if STRESS else 60

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="exchanges names by renameat2")


@linux_only
@pytest.mark.parametrize("rules", RULES)
def test_names_that_are_exchanged_while_calls_run_do_not_get_past_a_rule(base, rules):
    outcome = attack(base, rules, TRIES)

    assert outcome["leaks"] == {}
    assert "internal" not in outcome["codes"]
    assert outcome["codes"]["ok"]  # the harmless half


@linux_only
@pytest.mark.parametrize("rules", RULES)
def test_nor_do_they_for_an_ordinary_user(base, rules):
    command = [sys.executable, "-m", "tests.state.exchanging", base, rules, str(TRIES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)

    assert outcome["leaks"] == {}
    assert "internal" not in outcome["codes"]
