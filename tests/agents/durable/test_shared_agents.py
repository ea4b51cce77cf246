"""The store of agents on SQLite and PostgreSQL: fair, limited, and rid of agents that kill their process."""

from __future__ import annotations

import threading

import pytest

from hilt.agents.pacing import ProviderLimits, ProviderPace
from hilt.errors import ToolError
from hilt.state.agent_runs import OwnerRecord
from hilt.state.roster import KILLS_MAX, AgentLimits, AgentOutcome, AgentProfile, NewAgent, Roster

LIMITS = AgentLimits(5, 100, 3600)
DEAD = "0-dead"  # an owner that never had a lock or a lease


def new(caller: str, prompt: str = "x") -> NewAgent:
    profile = AgentProfile(("read_file",), "normal")
    return NewAgent(caller, caller, "background", "general", "title", prompt, "{}", profile)


def begin(roster: Roster, agent: str, steps: int) -> int:
    return roster.runs.begin(agent, OwnerRecord(DEAD, "host", "1", 0, 0), steps)


def test_callers_get_their_turn(roster):
    busy = [roster.create(new("busy"), LIMITS).id for _ in range(4)]
    other = roster.create(new("other"), LIMITS).id

    claimed = [roster.claim("{}", DEAD).id for _ in range(3)]

    assert claimed == [busy[0], other, busy[1]]


def test_each_agent_is_claimed_once(roster):
    ids = [roster.create(new(f"caller {number}"), LIMITS).id for number in range(20)]
    claimed: list[str] = []

    def claim(owner: str) -> None:
        while (agent := roster.claim("{}", owner)) is not None:
            claimed.append(agent.id)

    threads = [threading.Thread(target=claim, args=(f"owner {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(claimed) == sorted(ids)


def test_texts_that_databases_cannot_hold_are_stored(roster):
    agent = roster.create(new("a", "zero \0 and question ? and percent %s"), LIMITS)

    stored = roster.get(agent.id)

    assert stored.prompt.endswith("and question ? and percent %s")


def test_a_long_queue_refuses_further_agents(roster):
    limits = LIMITS._replace(queued=2)
    for _ in range(2):
        roster.create(new("a"), limits)

    with pytest.raises(ToolError) as caught:
        roster.create(new("b"), limits)

    assert (caught.value.code, caught.value.details["limit"]) == ("limit_exceeded", 2)
    assert roster.sweep(3600) == 2


def test_an_agent_that_kills_its_process_at_the_same_step_is_stopped(roster):
    agent = roster.create(new("a"), LIMITS).id
    for _ in range(KILLS_MAX):
        assert roster.claim("{}", DEAD).id == agent
        begin(roster, agent, 7)
        roster.sweep(3600)

    stopped = roster.get(agent)

    assert (stopped.status, stopped.error_code) == ("failed", "resource_limit")
    assert "killed 3 times" in stopped.answer
    assert [run.outcome for run in roster.runs.of(agent)] == ["lost"] * KILLS_MAX
    assert roster.claim("{}", DEAD) is None


def test_an_agent_that_gets_on_survives_any_number_of_kills(roster):
    agent = roster.create(new("a"), LIMITS).id
    for number in range(KILLS_MAX * 2):
        roster.claim("{}", DEAD)
        begin(roster, agent, number)
        roster.sweep(3600)

    assert roster.get(agent).status == "queued"


def test_suspects_run_one_at_a_time_so_that_only_one_is_to_blame(roster):
    suspects = [roster.create(new(f"caller {number}"), LIMITS).id for number in range(2)]
    for _ in range(KILLS_MAX - 1):
        for suspect in suspects:
            roster.claim("{}", DEAD)
            begin(roster, suspect, 7)
        roster.sweep(3600)
    innocent = roster.create(new("other"), LIMITS).id

    first = roster.claim("{}", DEAD)
    begin(roster, first.id, 7)
    others = [roster.claim("{}", DEAD) for _ in range(2)]

    claimed = {first.id, others[0].id}
    (waiting,) = set(suspects) - claimed
    assert claimed == {innocent, *suspects} - {waiting}
    assert others[1] is None
    assert roster.claim("{}", "another owner").id == waiting


def test_what_an_owner_has_but_does_not_run_is_queued_again(roster):
    agent = roster.create(new("a"), LIMITS).id
    roster.claim("{}", DEAD)
    assert list(roster.owned(DEAD)) == [agent]

    roster.requeue(agent, "another owner")
    assert list(roster.owned(DEAD)) == [agent]
    roster.requeue(agent, DEAD)

    assert (roster.get(agent).status, roster.owned(DEAD)) == ("queued", [])


def test_the_outcome_of_a_run_counts_only_for_its_owner(roster):
    agent = roster.create(new("a"), LIMITS).id
    roster.claim("{}", DEAD)
    begin(roster, agent, 0)
    roster.sweep(3600)
    roster.claim("{}", "next")

    assert roster.finish(agent, DEAD, AgentOutcome("completed", "late")) is None
    assert roster.get(agent).status == "running"


def test_a_provider_gets_as_many_requests_a_minute_as_it_allows(roster):
    processes = [ProviderPace(roster.database, "openai", ProviderLimits(requests=5)) for _ in range(4)]
    taken: list[int] = []

    def take(pace: ProviderPace) -> None:
        for _ in range(3):
            number, pause = pace.take(10)
            taken.append(number)
            assert bool(number) == (pause == 0)

    threads = [threading.Thread(target=take, args=(pace,)) for pace in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(1 for number in taken if number) == 5
    number, pause = processes[0].take(10)
    assert number == 0
    assert 0 < pause <= 60
    assert ProviderPace(roster.database, f"other {id(roster)}", ProviderLimits(requests=5)).take(10)[0]


def test_tokens_are_counted_as_the_provider_does_and_a_large_request_runs_alone(roster):
    pace = ProviderPace(roster.database, "anthropic", ProviderLimits(tokens=1000))

    first, _ = pace.take(900)
    assert pace.take(200)[0] == 0
    pace.count(first, 300)
    second, _ = pace.take(200)
    assert second
    assert pace.take(5000)[0] == 0
    for number in (first, second):
        pace.count(number, 0)

    assert pace.take(501)[0]
    assert ProviderPace(roster.database, f"other {id(roster)}", ProviderLimits(tokens=1000)).take(5000)[0]


@pytest.mark.parametrize("limits", [{"requests": 0}, {"requests": "5"}, {"token": 5}, 5])
def test_invalid_limits_are_rejected(limits):
    with pytest.raises(ToolError) as caught:
        ProviderLimits.of({"openai": limits}, "openai")

    assert "agents.limits.openai" in caught.value.message
