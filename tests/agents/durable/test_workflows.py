from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hilt.agents.durable.places import DurablePlace, local_steps, open_workflows


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_stays_open_when_the_last_user_closes_the_workflows(runtime):
    place = DurablePlace(runtime.state, runtime.roster().database)
    first, second = open_workflows(place), open_workflows(place)
    first.close()
    assert second.records(["none"]) == []

    second.close()

    steps = local_steps(runtime.state)
    opened = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert [path for path in opened if path.startswith(steps)] == []
