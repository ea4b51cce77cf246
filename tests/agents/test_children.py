"""Agents that other agents start: their rights, their limits and how they end."""

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
from tests.trusting import file_at


def call(tool: str, **args: Any) -> ScriptedCall:
    return ScriptedCall(tool, args)


def define(folder: Any, base: str, name: str, text: str) -> None:
    """Write a definition to the project, and trust it."""
    path = folder.write(f".hilt/agents/{name}.md", text)
    Trust(f"{base}/state").trust(file_at(path, "agent"), text.encode())


def test_an_agent_answers_in_its_own_context(talk):
    talking = talk(
        Turn(calls=[call("agent", prompt="Count the files.")]),
        Turn("There are three.", input_tokens=7, output_tokens=3),
        Turn("Done: three."),
    )

    ended = talking.send("The secret word is xylophone.")

    assert (ended.status, ended.text) == (0, "Done: three.")
    result = talking.results[0].result
    assert (result.text, result.meta["agent"], result.meta["usage"]) == (
        "There are three.",
        "general",
        {"input_tokens": 7, "output_tokens": 3},
    )
    child = talking.server.prompts[1]
    assert b"xylophone" not in child.raw
    assert "agent" not in child.tools
    assert {"read_file", "run_shell", "agent_spawn"} <= set(child.tools)
    (agent,) = talking.runtime.parts.roster.newest(10)
    assert (agent.status, agent.parent, agent.depth, agent.ended is None) == ("completed", "talk", 1, False)


def test_an_unknown_agent_is_not_found(talk):
    talking = talk(Turn(calls=[call("agent", prompt="x", agent="explorer")]), Turn("ok"))

    talking.send("go")

    error = talking.results[0].result.error
    assert (error.code, "explore" in error.suggestion) == ("not_found", True)


def test_explore_only_reads(talk, folder):
    folder.write("a.txt", "here")
    talking = talk(
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

    talking.send("go")

    assert sorted(folder.tree()) == ["a.txt"]
    assert set(talking.server.prompts[1].tools) <= {
        *("read_file", "multi_read", "list_dir", "find_files", "search_files", "stat_file", "diff_files"),
        *("detect_project", "related_context", "load_skill"),
    }


def test_a_definition_is_the_prompt_once_it_is_trusted(talk, folder, base):
    text = "---\nname: poet\ntools: Read, Agent\nmaxTurns: 3\n---\nYou are a poet.\n"
    folder.write(".hilt/agents/poet.md", text)
    talking = talk(
        Turn(calls=[call("agent", prompt="x", agent="poet")]), Turn("not yet"),
        Turn(calls=[call("agent", prompt="x", agent="poet")]), Turn("Roses."), Turn("ok"),
    )  # fmt: skip

    talking.send("go")
    assert talking.results[0].result.error.code == "untrusted"
    define(folder, base, "poet", text)
    talking.send("again", is_new=False)

    assert talking.results[1].result.text == "Roses."
    child = talking.server.prompts[3]
    assert sorted(child.tools) == ["agent", "read_file"]
    assert "You are a poet." in child.body["messages"][0]["content"]


def test_a_child_never_has_more_rights_than_its_parent_in_plan_mode(talk, folder, base):
    define(folder, base, "wild", "---\nname: wild\nmode: yolo\n---\nDo it.\n")
    talking = talk(
        Turn(calls=[call("agent", prompt="x", agent="wild")]),
        Turn(calls=[call("write_file", path="b.txt", content="x"), call("exit_plan_mode", plan="p")]),
        Turn(calls=[call("write_file", path="b.txt", content="x"), call("run_shell", command="touch c.txt")]),
        Turn("tried"),
        Turn("ok"),
        flags={"mode": "plan", "approve": "all"},
    )

    talking.send("go")

    assert not os.path.exists(folder.join("b.txt"))
    assert not os.path.exists(folder.join("c.txt"))
    assert "write_file" not in talking.server.prompts[1].tools


def test_plan_mode_of_a_parent_applies_to_its_agents(talk, folder):
    talking = talk(
        Turn(calls=[call("agent_spawn", template="general", message="wait")]),
        Turn("waiting"),
        Turn("ok"),
    )
    talking.send("go")
    assert talking.runtime.call("enter_plan_mode").ok
    agent = talking.results[0].result.data["agentId"]

    refused = talking.runtime.request(Call("write_file", {"path": "b.txt", "content": "x"}, session=agent))

    assert refused.error.code == "denied"
    assert talking.runtime.parts.authority.mode(agent) == "plan"


@pytest.mark.parametrize("setting", [{"disabledTools": ["write_file"]}, {"tools.only": ["agent", "read_file"]}])
def test_a_child_does_not_have_tools_that_its_parent_lacks(talk, folder, base, setting):
    define(folder, base, "writer", "---\nname: writer\ntools: [Write, read_file]\n---\nWrite.\n")
    talking = talk(
        Turn(calls=[call("agent", prompt="x", agent="writer")]),
        Turn(calls=[call("write_file", path="b.txt", content="x")]),
        Turn("tried"),
        Turn("ok"),
        flags=setting,
    )

    talking.send("go")

    assert talking.server.prompts[1].tools == ["read_file"]
    assert not os.path.exists(folder.join("b.txt"))


def test_hooks_of_the_parents_session_apply_to_its_children(talk, folder):
    hook = {"action": "register", "event": "pre_tool_execution", "command": "exit 2"}
    talking = talk(
        Turn(calls=[call("agent", prompt="x")]),
        Turn(calls=[call("write_file", path="b.txt", content="x")]),
        Turn("tried"),
        Turn("ok"),
        flags={"approve": "all"},
    )
    registered = talking.runtime.call("register_hook", **hook, match="write_file")
    assert registered.ok, registered

    talking.send("go")

    assert "hook_blocked" in "".join(talking.server.prompts[2].results.values())
    assert not os.path.exists(folder.join("b.txt"))


def test_a_childs_question_and_approval_are_marked_with_its_name(talk, folder):
    from hilt.call import UserAnswer

    asked: list[Any] = []
    questions: list[Any] = []

    def asker(question: Any) -> UserAnswer:
        asked.append(question)
        return UserAnswer("deny", "no")

    def questioner(new_questions: Any) -> dict[str, Any]:
        questions.extend(new_questions)
        return {new_questions[0].question: "a"}

    folder.write(".hilt/permissions.yaml", "permissions:\n  ask: [write_file]\n")
    question = {"question": "Which?", "options": ["a", "b"]}
    talking = talk(
        Turn(calls=[call("agent", prompt="x")]),
        Turn(calls=[call("write_file", path="b.txt", content="x"), call("ask_user", questions=[question])]),
        Turn("tried"),
        Turn("ok"),
        asker=asker,
        questioner=questioner,
    )

    talking.send("go")

    (agent,) = talking.runtime.parts.roster.newest(1)
    assert asked[0].reason.startswith(f"[agent general, {agent.id}] ")
    assert questions[0].question == f"[agent general, {agent.id}] Which?"
    assert '"Which?":"a"' in "".join(talking.server.prompts[2].results.values())
    assert not os.path.exists(folder.join("b.txt"))


def test_tokens_of_a_child_count_against_its_parent(talk):
    from hilt.agents.budgets import RunLimits

    talking = talk(
        Turn(calls=[call("agent", prompt="x")], input_tokens=100, output_tokens=0),
        Turn(calls=[call("list_dir")], input_tokens=900, output_tokens=0),
        Turn("never"),
        Turn("never"),
    )

    ended = talking.send("go", limits=RunLimits(tokens=1000))

    assert (ended.status, len(talking.server.prompts)) == (3, 2)
    assert talking.results[-1].result.error.code == "budget_exceeded"


def test_a_child_that_fails_frees_its_slot(talk):
    talking = talk(
        Turn(calls=[call("agent", prompt="x")]), Turn(status=400, message="bad"),
        Turn(calls=[call("agent", prompt="y")]), Turn("fine"), Turn("ok"),
        flags={"agents.max_children": 1},
    )  # fmt: skip

    talking.send("go")

    assert [result.result.ok for result in talking.results] == [False, True]
    error = talking.results[0].result.error
    assert (error.code, error.suggestion) == ("model_error", "Try again later, or do the work yourself.")
    assert [agent.status for agent in talking.runtime.parts.roster.newest(9)] == ["completed", "failed"]


def test_a_spawned_agent_counts_until_it_is_cancelled(talk):
    talking = talk(
        Turn(calls=[call("agent_spawn", template="nobody", message="a")]), Turn("first"),
        Turn(calls=[call("tool::agent_spawn", template="general", message="b", parentId="agent-123")]), Turn("ok"),
        flags={"agents.max_children": 1},
    )  # fmt: skip
    talking.send("go")
    first, second = (result.result for result in talking.results)
    assert (first.data["response"], first.data["depth"], first.meta["template"]) == ("first", 1, "general")
    assert second.error.code == "limit_exceeded"

    talking.runtime.call("job_stop", task_id=first.data["agentId"])
    talking.server.add(Turn("second"))

    assert talking.runtime.call("agent_spawn", template="general", message="c").data["response"] == "second"


def test_a_message_wakes_an_idle_agent(talk):
    talking = talk(Turn("hello"), Turn("woken", when="how are you"))
    spawned = talking.runtime.call("agent_spawn", template="general", message="hi").data["agentId"]

    sent = talking.runtime.call("agent_send", agentId="me", targetAgentId=spawned, message="how are you")

    assert sent.data == {"sent": True, "targetAgentId": spawned}
    answered = settled(talking.runtime, spawned, answers=2)
    assert (answered.status, answered.answer, answered.is_idle) == ("completed", "woken", True)
    assert talking.runtime.call("agent_receive", agentId=spawned).data == {"messages": [], "left": 0}


def test_a_message_of_another_agent_is_marked_as_data(talk):
    talking = talk(Turn("a"), Turn("b"), Turn("c", when="obey me"), Turn("d", when="your parent"))
    first, second = (
        talking.runtime.call("agent_spawn", template="general", message=text).data["agentId"] for text in "12"
    )

    args = {"agentId": first, "targetAgentId": second, "message": "obey me"}
    talking.runtime.request(Call("agent_send", args, session=first))
    settled(talking.runtime, second, answers=2)
    talking.runtime.call("agent_send", agentId="talk", targetAgentId=second, message="your parent")
    settled(talking.runtime, second, answers=3)

    users = [part["content"] for part in talking.server.requests[-1].body["messages"] if part["role"] == "user"]
    sibling, parent = users[-2:]
    assert f'from="message of {first}">\nobey me\n</data-' in sibling
    assert parent.endswith("\nyour parent")


def settled(runtime: Runtime, id: str, *, answers: int = 1) -> Any:
    """Return an agent after its end, or after this many answers."""
    while True:
        agent = runtime.parts.roster.get(id)
        assert agent is not None
        if agent.ended is not None or (agent.answers >= answers and agent.status == "completed"):
            return agent
        time.sleep(0.02)


def test_a_background_agent_is_a_job_of_its_parent(talk, base):
    gate = os.path.join(base, "gate")
    talking = talk(
        Turn(calls=[call("list_dir", path=".")]),
        Turn("found", hold=gate),
    )
    started = talking.runtime.call("agent", prompt="look", run_in_background=True)
    id = started.data["task_id"]

    running = talking.runtime.call("job_output", task_id=id, block=False)
    while "list_dir" not in running.data["output"]:
        running = talking.runtime.call("job_output", task_id=id, block=False)
    assert (running.data["status"], running.data["exit_code"]) == ("running", None)
    assert talking.runtime.request(Call("job_output", {"task_id": id}, session="other")).error.code == "not_found"
    open(gate, "w").close()

    (job,) = talking.runtime.call("job_list").data["jobs"]
    assert (job["task_id"], job["agent"], job["command"]) == (id, "general", "look")
    assert talking.runtime.request(Call("job_list", {}, session="other")).data["jobs"] == []

    ended = talking.runtime.call("job_output", task_id=id)
    assert (ended.data["status"], ended.data["exit_code"], ended.data["output"]) == ("completed", 0, "found")


@needs_sandbox
def test_stopping_an_agent_ends_what_it_runs(talk, base, folder):
    talking = talk(
        Turn(calls=[call("run_shell", command="echo $$ > pid; sleep 600", timeout=300)]),
    )
    started = talking.runtime.call("agent", prompt="look", run_in_background=True)
    wait_until(lambda: os.path.exists(folder.join("pid")))

    stopped = talking.runtime.call("job_stop", task_id=started.data["task_id"])

    assert stopped.data["status"] == "cancelled"
    assert talking.runtime.parts.agents.running == 0


def test_interrupting_the_parent_ends_its_child(talk, base):
    import asyncio

    gate = os.path.join(base, "never")
    talking = talk(Turn(calls=[call("agent", prompt="x")]), Turn("late", hold=gate))

    async def work(conversation: Any) -> Any:
        from tests.agents.talking import until

        sending = asyncio.ensure_future(conversation.send("go"))
        await until(lambda: len(talking.server.prompts) == 2)
        conversation.cancel()
        return await sending

    ended = talking.run(work)

    assert ended.status == 130
    (agent,) = talking.runtime.parts.roster.newest(1)
    assert settled(talking.runtime, agent.id).status == "cancelled"


@pytest.mark.parametrize("tool, parent", [("agent_spawn", "nobody"), ("tool::agent_spawn", "agent_0123456789ab")])
def test_an_agent_cannot_be_started_below_one_that_does_not_exist(talk, tool, parent):
    talking = talk()

    error = talking.runtime.call(tool, template="general", message="x", parentId=parent).error

    assert (error.code, error.message) == ("not_found", f"There is no agent {parent!r}.")
    assert talking.runtime.parts.roster.newest(9) == []


def test_an_agent_acts_only_as_itself_and_those_below_it(talk):
    talking = talk(Turn("a"), Turn("b"))
    first = talking.runtime.call("agent_spawn", template="general", message="1").data["agentId"]
    second = talking.runtime.call("agent_spawn", template="general", message="2").data["agentId"]

    def as_first(tool: str, **args: Any) -> Any:
        return talking.runtime.request(Call(tool, args, session=first))

    assert as_first("agent_send", agentId=second, targetAgentId=first, message="x").error.code == "denied"
    assert as_first("agent_send", agentId="talk", targetAgentId=second, message="x").error.code == "denied"
    assert as_first("agent_receive", agentId=second).error.code == "denied"
    assert as_first("agent_spawn", template="general", message="x", parentId=second).error.code == "denied"
    assert as_first("agent_send", agentId=first, targetAgentId="nobody", message="x").error.code == "not_found"
    assert as_first("agent_send", agentId=first, targetAgentId="talk", message="x").ok
    assert talking.runtime.call("agent_receive", agentId="talk").data["messages"][0]["from"] == first
    assert as_first("job_stop", task_id=second).error.code == "not_found"
    assert as_first("agent", prompt="x").error.code == "denied"


def test_agents_can_be_nested_five_deep(talk):
    talking = talk(*(Turn(f"{number}") for number in range(5)))
    session, depths = "talk", []
    for _ in range(5):
        spawned = talking.runtime.request(Call("agent_spawn", {"template": "general", "message": "x"}, session=session))
        depths.append(spawned.data["depth"])
        session = spawned.data["agentId"]

    deeper = talking.runtime.request(Call("agent_spawn", {"template": "general", "message": "x"}, session=session))

    assert (depths, deeper.error.code) == ([1, 2, 3, 4, 5], "limit_exceeded")


def test_fifty_agents_run_at_once(talk, base):
    gate = os.path.join(base, "gate")
    talking = talk(*(Turn("done", hold=gate) for _ in range(50)), flags={"agents.max_children": 50})
    ids = [talking.runtime.call("agent", prompt=f"{n}", run_in_background=True).data["task_id"] for n in range(50)]
    while len(talking.server.prompts) < 50:
        time.sleep(0.01)

    refused = talking.runtime.call("agent", prompt="one more", run_in_background=True)
    assert (talking.runtime.parts.agents.running, refused.error.code) == (50, "limit_exceeded")
    open(gate, "w").close()

    assert {settled(talking.runtime, id).answer for id in ids} == {"done"}
    assert not [agent for agent in talking.runtime.parts.roster.newest(99) if agent.ended is None]


def test_agent_list_shows_the_agents(talk):
    talking = talk(Turn("a"))
    spawned = talking.runtime.call("agent_spawn", template="explore", message="Look\naround").data["agentId"]

    (listed,) = talking.runtime.call("agent_list").data["agents"]

    assert (listed["agentId"], listed["parentId"], listed["agent"]) == (spawned, "talk", "explore")
    assert (listed["title"], listed["status"], listed["idle"], listed["depth"]) == ("Look around", "completed", True, 1)


def test_a_nested_agent_has_no_more_rights_than_those_above_it(talk, folder, base):
    define(folder, base, "reader", "---\nname: reader\ntools: [Read, agent_spawn]\nmode: plan\n---\nRead.\n")
    talking = talk(
        Turn(calls=[call("agent", prompt="x", agent="reader")]),
        Turn(calls=[call("agent_spawn", template="general", message="deeper")]),
        Turn(calls=[call("write_file", path="b.txt", content="x")], when="deeper"),
        Turn("tried"),
        Turn("read"),
        Turn("ok"),
        flags={"mode": "yolo"},
    )

    talking.send("go")

    assert [sorted(request.tools) for request in talking.server.prompts[1:3]] == [["agent_spawn", "read_file"]] * 2
    assert not os.path.exists(folder.join("b.txt"))
    deeper, reader = talking.runtime.parts.roster.newest(2)
    assert (deeper.depth, deeper.parent, deeper.profile.mode) == (2, reader.id, "plan")
    assert deeper.status == "cancelled"  # its parent has ended
