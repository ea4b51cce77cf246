from __future__ import annotations

from hilt.agents.durable.stores import DurablePlace, local_steps, open_workflows
from tests.open_files import open_below


def test_nothing_stays_open_when_the_last_user_closes_the_workflows(runtime):
    place = DurablePlace(runtime.parts.state, runtime.parts.roster.database)
    first, second = open_workflows(place), open_workflows(place)
    first.close()
    assert second.records(["none"]) == []

    second.close()

    assert open_below(local_steps(runtime.parts.state)) == []
