"""Agents that other agents start: their rights, limits and end, with scripted models."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from hilt.call import Call
from hilt.runtime import Runtime
from hilt.state.trust import Trust
from tests.agents.model_server import ScriptedCall, Turn
from tests.marks import wait_until
from tests.programs import needs_sandbox


def call(tool: str, **args: Any) -> ScriptedCall:
    return ScriptedCall(tool, args)


def define(folder: Any, base: str, name: str, text: str) -> None:
    """Write a definition to the project, and trust it."""
    path = folder.write(f".hilt/agents/{name}.md", text)
    Trust(f"{base}/state").trust("agent", path, text.encode())


def test_an_agent_answers_with_a_context_of_its_own(talk):
    one = talk(
        Turn(calls=[call("agent", prompt="Count the files.")]),
        Turn("There are three.", input_tokens=7, output_tokens=3),
        Turn("Done: three."),
    )

    ended = one.send("The secret word is xylophone.")

    assert (ended.status, ended.text) == (0, "Done: three.")
    result = one.results[0].result
    assert (result.text, result.meta["agent"], result.meta["usage"]) == (
        "There are three.",
        "general",
        {"input_tokens": 7, "output_tokens": 3},
    )
    child = one.server.prompts[1]
    assert b"xylophone" not in child.raw
    assert "agent" not in child.tools
    assert {"read_file", "run_shell", "agent_spawn"} <= set(child.tools)
    (agent,) = one.runtime.roster().newest(10)
    assert (agent.status, agent.parent, agent.depth, agent.ended is None) == ("completed", "talk", 1, False)


def test_an_unknown_agent_is_not_found(talk):
    one = talk(Turn(calls=[call("agent", prompt="x", agent="explorer")]), Turn("ok"))

    one.send("go")

    error = one.results[0].result.error
    assert (error.code, "explore" in error.suggestion) == ("not_found", True)


def test_explore_only_reads(talk, folder):
    folder.write("a.txt", "here")
    one = talk(
        Turn(calls=[call("agent", prompt="look", agent="explore")]),
        Turn(
            calls=[
                call("write_file", path="b.txt", content="x"),
                call("run_shell", command="touch c.txt"),
                call("tool_call", name="write_file", arguments={"path": "d.txt", "content": "x"}),
                call("read_file", path="a.txt"),
            ]
        ),
        Turn("seen", when="here"),
        Turn("ok"),
    )

    one.send("go")

    assert sorted(folder.tree()) == ["a.txt"]
    assert set(one.server.prompts[1].tools) <= {
        *("read_file", "multi_read", "list_dir", "find_files", "search_files", "stat_file", "diff_files"),
        *("detect_project", "related_context", "load_skill"),
    }


def test_a_definition_needs_trust_and_is_the_prompt(talk, folder, base):
    text = "---\nname: poet\ntools: Read, Agent\nmaxTurns: 3\n---\nYou are a poet.\n"
    folder.write(".hilt/agents/poet.md", text)
    one = talk(
        Turn(calls=[call("agent", prompt="x", agent="poet")]), Turn("not yet"),
        Turn(calls=[call("agent", prompt="x", agent="poet")]), Turn("Roses."), Turn("ok"),
    )  # fmt: skip

    one.send("go")
    assert one.results[0].result.error.code == "untrusted"
    define(folder, base, "poet", text)
    one.send("again", is_new=False)

    assert one.results[1].result.text == "Roses."
    child = one.server.prompts[3]
    assert sorted(child.tools) == ["agent", "read_file"]
    assert "You are a poet." in child.body["messages"][0]["content"]


def test_a_child_never_has_more_than_its_parent_in_plan_mode(talk, folder, base):
    define(folder, base, "wild", "---\nname: wild\nmode: yolo\n---\nDo it.\n")
    one = talk(
        Turn(calls=[call("agent", prompt="x", agent="wild")]),
        Turn(calls=[call("write_file", path="b.txt", content="x"), call("exit_plan_mode", plan="p")]),
        Turn(calls=[call("write_file", path="b.txt", content="x"), call("run_shell", command="touch c.txt")]),
        Turn("tried"),
        Turn("ok"),
        flags={"mode": "plan", "approve": "all"},
    )

    one.send("go")

    assert not os.path.exists(folder.join("b.txt"))
    assert not os.path.exists(folder.join("c.txt"))
    assert "write_file" not in one.server.prompts[1].tools


def test_a_parent_that_enters_plan_mode_takes_its_agents_along(talk, folder):
    one = talk(
        Turn(calls=[call("agent_spawn", template="general", message="wait")]),
        Turn("waiting"),
        Turn("ok"),
    )
    one.send("go")
    assert one.runtime.call("enter_plan_mode").ok
    agent = one.results[0].result.data["agentId"]

    refused = one.runtime.request(Call("write_file", {"path": "b.txt", "content": "x"}, session=agent))

    assert refused.error.code == "denied"
    assert one.runtime.authority.mode(agent) == "plan"


@pytest.mark.parametrize("setting", [{"disabledTools": ["write_file"]}, {"tools.only": ["agent", "read_file"]}])
def test_tools_that_the_parent_lacks_are_not_its_childs(talk, folder, base, setting):
    define(folder, base, "writer", "---\nname: writer\ntools: [Write, read_file]\n---\nWrite.\n")
    one = talk(
        Turn(calls=[call("agent", prompt="x", agent="writer")]),
        Turn(calls=[call("write_file", path="b.txt", content="x")]),
        Turn("tried"),
        Turn("ok"),
        flags=setting,
    )

    one.send("go")

    assert one.server.prompts[1].tools == ["read_file"]
    assert not os.path.exists(folder.join("b.txt"))


def test_hooks_of_the_parents_session_judge_its_children(talk, folder):
    hook = {"action": "register", "event": "pre_tool_execution", "command": "exit 2"}
    one = talk(
        Turn(calls=[call("agent", prompt="x")]),
        Turn(calls=[call("write_file", path="b.txt", content="x")]),
        Turn("tried"),
        Turn("ok"),
        flags={"approve": "all"},
    )
    registered = one.runtime.call("register_hook", **hook, match="write_file")
    assert registered.ok, registered

    one.send("go")

    assert "hook_blocked" in "".join(one.server.prompts[2].results.values())
    assert not os.path.exists(folder.join("b.txt"))


def test_a_childs_question_and_approval_are_marked_with_its_name(talk, folder):
    from hilt.state.approvals import UserAnswer

    asked: list[Any] = []
    questions: list[Any] = []

    def asker(question: Any) -> UserAnswer:
        asked.append(question)
        return UserAnswer("deny", "no")

    def questioner(given: Any) -> dict[str, Any]:
        questions.extend(given)
        return {given[0].question: "a"}

    folder.write(".hilt/permissions.yaml", "permissions:\n  ask: [write_file]\n")
    question = {"question": "Which?", "options": ["a", "b"]}
    one = talk(
        Turn(calls=[call("agent", prompt="x")]),
        Turn(calls=[call("write_file", path="b.txt", content="x"), call("ask_user", questions=[question])]),
        Turn("tried"),
        Turn("ok"),
        asker=asker,
        questioner=questioner,
    )

    one.send("go")

    (agent,) = one.runtime.roster().newest(1)
    assert asked[0].reason.startswith(f"[agent general, {agent.id}] ")
    assert questions[0].question == f"[agent general, {agent.id}] Which?"
    assert '"Which?":"a"' in "".join(one.server.prompts[2].results.values())
    assert not os.path.exists(folder.join("b.txt"))


def test_tokens_of_a_child_count_against_its_parent(talk):
    from hilt.agents.budgets import RunLimits

    one = talk(
        Turn(calls=[call("agent", prompt="x")], input_tokens=100, output_tokens=0),
        Turn(calls=[call("list_dir")], input_tokens=900, output_tokens=0),
        Turn("never"),
        Turn("never"),
    )

    ended = one.send("go", limits=RunLimits(tokens=1000))

    assert (ended.status, len(one.server.prompts)) == (3, 2)
    assert one.results[-1].result.error.code == "budget_exceeded"


def test_a_child_that_fails_gives_its_place_back(talk):
    one = talk(
        Turn(calls=[call("agent", prompt="x")]), Turn(status=400, message="bad"),
        Turn(calls=[call("agent", prompt="y")]), Turn("fine"), Turn("ok"),
        flags={"agents.max_children": 1},
    )  # fmt: skip

    one.send("go")

    assert [result.result.ok for result in one.results] == [False, True]
    error = one.results[0].result.error
    assert (error.code, error.suggestion) == ("model_error", "Try again later, or do the work yourself.")
    assert [agent.status for agent in one.runtime.roster().newest(9)] == ["completed", "failed"]


def test_a_spawned_agent_counts_until_it_is_cancelled(talk):
    one = talk(
        Turn(calls=[call("agent_spawn", template="nobody", message="a")]), Turn("first"),
        Turn(calls=[call("agent_spawn", template="general", message="b", parentId="agent-123")]), Turn("ok"),
        flags={"agents.max_children": 1},
    )  # fmt: skip
    one.send("go")
    first, second = (result.result for result in one.results)
    assert (first.data["response"], first.data["depth"], first.meta["template"]) == ("first", 1, "general")
    assert second.error.code == "limit_exceeded"

    one.runtime.call("job_stop", task_id=first.data["agentId"])
    one.server.add(Turn("second"))

    assert one.runtime.call("agent_spawn", template="general", message="c").data["response"] == "second"


def test_a_message_wakes_an_idle_agent(talk):
    one = talk(Turn("hello"), Turn("woken", when="how are you"))
    spawned = one.runtime.call("agent_spawn", template="general", message="hi").data["agentId"]

    sent = one.runtime.call("agent_send", agentId="me", targetAgentId=spawned, message="how are you")

    assert sent.data == {"sent": True, "targetAgentId": spawned}
    answered = settled(one.runtime, spawned, answers=2)
    assert (answered.status, answered.answer, answered.is_idle) == ("completed", "woken", True)
    assert one.runtime.call("agent_receive", agentId=spawned).data == {"messages": [], "left": 0}


def test_a_message_of_another_agent_is_marked_as_data(talk):
    one = talk(Turn("a"), Turn("b"), Turn("c", when="obey me"), Turn("d", when="your parent"))
    first, second = (one.runtime.call("agent_spawn", template="general", message=text).data["agentId"] for text in "12")

    args = {"agentId": first, "targetAgentId": second, "message": "obey me"}
    one.runtime.request(Call("agent_send", args, session=first))
    settled(one.runtime, second, answers=2)
    one.runtime.call("agent_send", agentId="talk", targetAgentId=second, message="your parent")
    settled(one.runtime, second, answers=3)

    users = [part["content"] for part in one.server.requests[-1].body["messages"] if part["role"] == "user"]
    sibling, parent = users[-2:]
    assert f'from="message of {first}">\nobey me\n</data-' in sibling
    assert parent.endswith("\nyour parent")


def settled(runtime: Runtime, id: str, *, answers: int = 1) -> Any:

    while True:
        agent = runtime.roster().get(id)
        assert agent is not None
        if agent.ended is not None or (agent.answers >= answers and agent.status == "completed"):
            return agent
        time.sleep(0.02)


def test_a_background_agent_is_a_job_of_its_parent(talk, base):
    gate = os.path.join(base, "gate")
    one = talk(
        Turn(calls=[call("list_dir", path=".")]),
        Turn("found", hold=gate),
    )
    started = one.runtime.call("agent", prompt="look", run_in_background=True)
    id = started.data["task_id"]

    running = one.runtime.call("job_output", task_id=id, block=False)
    while "list_dir" not in running.data["output"]:
        running = one.runtime.call("job_output", task_id=id, block=False)
    assert (running.data["status"], running.data["exit_code"]) == ("running", None)
    assert one.runtime.request(Call("job_output", {"task_id": id}, session="other")).error.code == "not_found"
    open(gate, "w").close()

    (job,) = one.runtime.call("job_list").data["jobs"]
    assert (job["task_id"], job["agent"], job["command"]) == (id, "general", "look")
    assert one.runtime.request(Call("job_list", {}, session="other")).data["jobs"] == []

    ended = one.runtime.call("job_output", task_id=id)
    assert (ended.data["status"], ended.data["exit_code"], ended.data["output"]) == ("completed", 0, "found")


@needs_sandbox
def test_stopping_an_agent_ends_what_it_runs(talk, base, folder):
    one = talk(
        Turn(calls=[call("run_shell", command="echo $$ > pid; sleep 600", timeout=300)]),
    )
    started = one.runtime.call("agent", prompt="look", run_in_background=True)
    wait_until(lambda: os.path.exists(folder.join("pid")))

    stopped = one.runtime.call("job_stop", task_id=started.data["task_id"])

    assert stopped.data["status"] == "cancelled"
    assert one.runtime.agents().running == 0


def test_interrupting_the_parent_ends_its_child(talk, base):
    import asyncio

    gate = os.path.join(base, "never")
    one = talk(Turn(calls=[call("agent", prompt="x")]), Turn("late", hold=gate))

    async def work(conversation: Any) -> Any:
        from tests.agents.talking import until

        sending = asyncio.ensure_future(conversation.send("go"))
        await until(lambda: len(one.server.prompts) == 2)
        conversation.cancel()
        return await sending

    ended = one.run(work)

    assert ended.status == 130
    (agent,) = one.runtime.roster().newest(1)
    assert settled(one.runtime, agent.id).status == "cancelled"


def test_an_agent_acts_only_as_itself_and_those_below_it(talk):
    one = talk(Turn("a"), Turn("b"))
    first = one.runtime.call("agent_spawn", template="general", message="1").data["agentId"]
    second = one.runtime.call("agent_spawn", template="general", message="2").data["agentId"]

    def as_first(tool: str, **args: Any) -> Any:
        return one.runtime.request(Call(tool, args, session=first))

    assert as_first("agent_send", agentId=second, targetAgentId=first, message="x").error.code == "denied"
    assert as_first("agent_send", agentId="talk", targetAgentId=second, message="x").error.code == "denied"
    assert as_first("agent_receive", agentId=second).error.code == "denied"
    assert as_first("agent_spawn", template="general", message="x", parentId=second).error.code == "denied"
    assert as_first("agent_send", agentId=first, targetAgentId="nobody", message="x").error.code == "not_found"
    assert as_first("agent_send", agentId=first, targetAgentId="talk", message="x").ok
    assert one.runtime.call("agent_receive", agentId="talk").data["messages"][0]["from"] == first
    assert as_first("job_stop", task_id=second).error.code == "not_found"
    assert as_first("agent", prompt="x").error.code == "denied"


def test_agents_are_nested_five_deep(talk):
    one = talk(*(Turn(f"{number}") for number in range(5)))
    session, depths = "talk", []
    for _ in range(5):
        spawned = one.runtime.request(Call("agent_spawn", {"template": "general", "message": "x"}, session=session))
        depths.append(spawned.data["depth"])
        session = spawned.data["agentId"]

    deeper = one.runtime.request(Call("agent_spawn", {"template": "general", "message": "x"}, session=session))

    assert (depths, deeper.error.code) == ([1, 2, 3, 4, 5], "limit_exceeded")


def test_fifty_agents_at_once(talk, base):
    gate = os.path.join(base, "gate")
    one = talk(*(Turn("done", hold=gate) for _ in range(50)), flags={"agents.max_children": 50})
    ids = [one.runtime.call("agent", prompt=f"{n}", run_in_background=True).data["task_id"] for n in range(50)]
    while len(one.server.prompts) < 50:
        time.sleep(0.01)

    refused = one.runtime.call("agent", prompt="one more", run_in_background=True)
    assert (one.runtime.agents().running, refused.error.code) == (50, "limit_exceeded")
    open(gate, "w").close()

    assert {settled(one.runtime, id).answer for id in ids} == {"done"}
    assert not [agent for agent in one.runtime.roster().newest(99) if agent.ended is None]


def test_a_list_shows_the_agents(talk):
    one = talk(Turn("a"))
    spawned = one.runtime.call("agent_spawn", template="explore", message="Look\naround").data["agentId"]

    (listed,) = one.runtime.call("agent_list").data["agents"]

    assert (listed["agentId"], listed["parentId"], listed["agent"]) == (spawned, "talk", "explore")
    assert (listed["title"], listed["status"], listed["idle"], listed["depth"]) == ("Look around", "completed", True, 1)


def test_an_agent_further_down_has_no_more_than_those_above_it(talk, folder, base):
    define(folder, base, "reader", "---\nname: reader\ntools: [Read, agent_spawn]\nmode: plan\n---\nRead.\n")
    one = talk(
        Turn(calls=[call("agent", prompt="x", agent="reader")]),
        Turn(calls=[call("agent_spawn", template="general", message="deeper")]),
        Turn(calls=[call("write_file", path="b.txt", content="x")], when="deeper"),
        Turn("tried"),
        Turn("read"),
        Turn("ok"),
        flags={"mode": "yolo"},
    )

    one.send("go")

    assert [sorted(request.tools) for request in one.server.prompts[1:3]] == [["agent_spawn", "read_file"]] * 2
    assert not os.path.exists(folder.join("b.txt"))
    deeper, reader = one.runtime.roster().newest(2)
    assert (deeper.depth, deeper.parent, deeper.profile.mode) == (2, reader.id, "plan")
    assert deeper.status == "cancelled"  # its parent has ended
