"""The store of agents on SQLite and PostgreSQL: fair, limited, and safe from agents that kill their process."""

from __future__ import annotations

import os
import threading
import uuid

import pytest

from hilt.agents.pacing import ProviderLimits, ProviderPace
from hilt.call import Call
from hilt.errors import ToolError
from hilt.state.agent_database import holds_lock, owners_folder
from hilt.state.agent_runs import OwnerRecord
from hilt.state.roster import KILLS_ALONE_MAX, KILLS_MAX, AgentLimits, AgentOutcome, AgentProfile, NewAgent, Roster

LIMITS = AgentLimits(5, 100, 3600)
DEAD = "0-dead"  # an owner that never had a lock or a lease


def new(caller: str, prompt: str = "x") -> NewAgent:
    profile = AgentProfile(("read_file",), "normal")
    return NewAgent(caller, caller, "background", "general", "title", prompt, "{}", profile)


def begin(roster: Roster, agent: str, steps: int) -> int:
    return roster.runs.begin(agent, OwnerRecord(DEAD, "host", "1", 0, 0), steps)


def test_callers_take_turns(roster):
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


def test_texts_with_special_characters_are_stored(roster):
    agent = roster.create(new("a", "zero \0 and question ? and percent %s"), LIMITS)

    stored = roster.get(agent.id)

    assert stored.prompt.endswith("and question ? and percent %s")


def test_a_full_queue_rejects_further_agents(roster):
    limits = LIMITS._replace(queued=2)
    for _ in range(2):
        roster.create(new("a"), limits)

    with pytest.raises(ToolError) as caught:
        roster.create(new("b"), limits)

    assert (caught.value.code, caught.value.details["limit"]) == ("limit_exceeded", 2)
    assert roster.sweep(3600) == 2


@pytest.mark.parametrize("neighbours, kills", [(0, KILLS_ALONE_MAX), (1, KILLS_MAX)])
def test_an_agent_that_kills_its_process_at_the_same_step_is_stopped(roster, neighbours, kills):
    agent = roster.create(new("a"), LIMITS).id
    others = [roster.create(new("a"), LIMITS).id for _ in range(neighbours)]
    for number in range(kills):
        assert roster.get(agent).status == "queued"
        assert {roster.claim("{}", DEAD).id for _ in (agent, *others)} == {agent, *others}
        begin(roster, agent, 7)
        for other in others:
            begin(roster, other, number)
        roster.sweep(3600)

    stopped = roster.get(agent)

    assert (stopped.status, stopped.error_code) == ("failed", "resource_limit")
    assert f"killed {kills} times" in stopped.answer
    assert [run.outcome for run in roster.runs.of(agent)] == ["lost"] * kills
    assert [roster.get(other).status for other in others] == ["queued"] * neighbours


def test_an_agent_that_makes_progress_survives_any_number_of_kills(roster):
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


def test_an_agent_that_its_owner_does_not_run_is_queued_again(roster):
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
    numbers: list[int] = []

    def take(pace: ProviderPace) -> None:
        for _ in range(3):
            number, pause = pace.take(10)
            numbers.append(number)
            assert bool(number) == (pause == 0)

    threads = [threading.Thread(target=take, args=(pace,)) for pace in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(1 for number in numbers if number) == 5
    number, pause = processes[0].take(10)
    assert number == 0
    assert 0 < pause <= 60
    assert ProviderPace(roster.database, f"other {uuid.uuid4()}", ProviderLimits(requests=5)).take(10)[0]


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
    assert ProviderPace(roster.database, f"other {uuid.uuid4()}", ProviderLimits(tokens=1000)).take(5000)[0]


@pytest.mark.parametrize("limits", [{"requests": 0}, {"requests": "5"}, {"token": 5}, 5])
def test_invalid_limits_are_rejected(limits):
    with pytest.raises(ToolError) as caught:
        ProviderLimits.of({"openai": limits}, "openai")

    assert "agents.limits.openai" in caught.value.message


def row_of(roster: Roster, agent: str, **values: object) -> None:
    """Change the columns of an agent, as another version or a person could."""
    names = ", ".join(f"{name}=?" for name in values)
    roster.database.write(lambda db: db.execute(f"UPDATE agents SET {names} WHERE id=?", (*values.values(), agent)))


def with_worktree(roster: Roster) -> str:
    profile = AgentProfile(("read_file",), "normal", worktree=True)
    return roster.create(new("a")._replace(profile=profile), LIMITS).id


def test_an_agent_with_a_worktree_stays_on_the_machine_that_has_it(roster):
    agent = with_worktree(roster)
    assert roster.claim("{}", DEAD, "first").machine == "first"
    child = roster.create(new(agent), LIMITS)
    roster.sweep(3600)

    assert child.machine == "first"
    assert roster.claim("{}", "other owner", "second") is None
    assert roster.claim("{}", "another owner", "first").id in (agent, child.id)


def test_an_agent_whose_machine_stays_away_is_given_to_another_machine(roster):
    agent = with_worktree(roster)
    roster.claim("{}", DEAD, "first")
    roster.sweep(3600)
    row_of(roster, agent, changed=0)

    assert roster.claim("{}", "other owner", "second").machine == "first"


def test_agents_that_need_no_folder_are_seen_by_workers_of_other_workspaces(roster):
    elsewhere = Roster("", f"another {uuid.uuid4()}", roster.database)
    before = list(elsewhere.queued_elsewhere())
    bound = roster.create(new("a"), LIMITS)
    assert [pair for pair in elsewhere.queued_elsewhere() if pair not in before] == []
    free = roster.create(new("a")._replace(anywhere=True), LIMITS)

    (pair,) = [pair for pair in elsewhere.queued_elsewhere() if pair not in before]
    assert pair[1] == "{}"
    assert pair not in roster.queued_elsewhere()
    assert roster.claim("{}", DEAD, anywhere=True).id == free.id
    assert roster.claim("{}", DEAD, anywhere=True) is None
    assert pair in elsewhere.queued_elsewhere()  # its owner is dead
    assert roster.get(bound.id).status == "queued"


def test_agents_that_are_below_each_other_end_no_search(roster):
    first, second = (roster.create(new("a"), LIMITS).id for _ in range(2))
    row_of(roster, first, parent=second)
    row_of(roster, second, parent=first)

    assert roster.chain(first) == [first, second]
    assert roster.below(first) == [first, second]


def test_an_agent_below_itself_makes_no_call(runtime):
    roster = runtime.parts.roster
    order = new("a")._replace(profile=AgentProfile(("list_dir",), "normal"), kind="call")
    first, second = (roster.create(order, LIMITS, owner=DEAD).id for _ in range(2))
    row_of(roster, first, parent=second)
    row_of(roster, second, parent=first)

    result = runtime.request(Call("list_dir", {"path": "."}, session=first))

    assert result.error.code == "denied"


@pytest.mark.parametrize("owner", ["../../important", "{base}/important", "x" * 300, "..", ".", ""])
def test_an_owner_in_a_shared_database_names_no_other_file(base, owner):
    state, important = f"{base}/state", f"{base}/important"
    os.makedirs(owners_folder(state))
    with open(important, "w"):
        pass

    assert not holds_lock(state, owner.format(base=base))
    assert os.path.exists(important)


@pytest.mark.parametrize(
    "profile",
    [
        *("", "{", "{}", "[1, 2]", "null", "[" * 50_000, '[["a"], {"b": 1}]', "[[1], 2]", '[["a"], "normal", []]'),
        '[["a"], "normal", "", "", "many"]',
    ],
)
def test_an_agent_with_an_invalid_record_fails_and_blocks_no_other(roster, profile):
    poison, next_id = roster.create(new("a"), LIMITS).id, roster.create(new("a"), LIMITS).id
    row_of(roster, poison, profile=profile)

    assert {agent.id for agent in roster.newest(5)} == {poison, next_id}
    assert roster.claim("{}", DEAD).id == next_id
    failed = roster.get(poison)
    assert (failed.status, failed.error_code, failed.profile.tools) == ("failed", "internal", ())


def test_fields_that_a_newer_version_adds_to_a_profile_are_ignored(roster):
    agent = roster.create(new("a"), LIMITS).id
    row_of(roster, agent, profile='[["read_file"], "normal", "", "", null, null, null, false, "new", 7]')

    assert roster.claim("{}", DEAD).profile == AgentProfile(("read_file",), "normal")


def test_an_agent_of_a_call_fails_if_its_owner_does_not_run_it(roster):
    agent = roster.create(new("a")._replace(kind="call"), LIMITS, owner=DEAD).id

    roster.requeue(agent, DEAD)

    assert (roster.get(agent).status, roster.claim("{}", "other")) == ("failed", None)
