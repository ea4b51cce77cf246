"""Agents and messages from several processes at once, and after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import pytest

from hilt.runtime import Runtime
from hilt.testing import environment
from tests.agents.model_server import ScriptedCall, Turn
from tests.agents.test_children import settled
from tests.databases import connected
from tests.programs import needs_sandbox
from tests.surfaces.commands import forked

PROCESSES = 4

OPEN = """
import json, os, sys, time
from hilt.call import Call
from hilt.runtime import Runtime
from hilt.state.locks import try_lock
options = json.loads(sys.argv[1])
runtime = Runtime(options["workspace"], session="talk", flags=options["flags"])
print("ready", flush=True)
sys.stdin.readline()
"""


def settings(server: Any) -> dict[str, Any]:
    return {"model.name": "openai:scripted", "model.base_url": server.openai_url if server else "http://127.0.0.1:9/v1"}


class Script:
    """A process that runs a script once `begin` is called; `kill` ends it without notice."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        assert self._output.readline() == "ready\n"

    def begin(self) -> None:
        self._input.write("\n")
        self._input.flush()

    def printed(self) -> Any:
        return json.loads(self._output.readline())

    def kill(self) -> None:
        with self._process as process:  # closes its pipes
            process.kill()
            self._output.read()  # to its end: then the fork has ended, too


def started(base: str, script: str, flags: dict[str, Any], **options: Any) -> Script:
    os.makedirs(f"{base}/workspace", exist_ok=True)
    os.makedirs(f"{base}/home", exist_ok=True)
    arguments = json.dumps({"workspace": f"{base}/workspace", "flags": flags, **options})
    process = subprocess.Popen(
        forked("-c", OPEN + script, arguments),
        env={**environment(base), "OPENAI_API_KEY": "key-of-the-test"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Script(process)


def together(base: str, script: str, flags: dict[str, Any], **options: Any) -> list[Any]:
    """Run a script in several processes that begin at the same time; return what each of them prints, as JSON."""
    processes = [started(base, script, flags, number=number, **options) for number in range(PROCESSES)]
    for process in processes:
        process.begin()
    printed = [process.printed() for process in processes]
    for process in processes:
        process.kill()
    return printed


def opened(base: str, flags: dict[str, Any], session: str = "talk") -> Runtime:
    environ = {**environment(base), "OPENAI_API_KEY": "key-of-the-test"}
    return Runtime(f"{base}/workspace", session=session, environ=environ, flags=flags)


def test_a_parent_has_at_most_twenty_agents_however_many_processes_start_them(base, model_server):
    server = model_server(Turn("hi"), repeat=True)
    script = """
codes = []
for number in range(8):
    result = runtime.call("tool::agent_spawn", template="general", message="x", parentId=f"agent-{number}")
    codes.append("ok" if result.ok else result.error.code)
print(json.dumps(codes), flush=True)
"""
    codes = [code for printed in together(base, script, settings(server)) for code in printed]

    assert (codes.count("ok"), codes.count("limit_exceeded")) == (20, 12)


def test_a_pair_exchanges_at_most_ten_messages_a_minute(base):
    script = """
codes = []
for number in range(6):
    result = runtime.call("agent_send", agentId="a", targetAgentId="b", message=f"{options['number']} {number}")
    codes.append("ok" if result.ok else result.error.code)
print(json.dumps(codes), flush=True)
"""
    codes = [code for printed in together(base, script, {}) for code in printed]

    assert (codes.count("ok"), codes.count("limit_exceeded")) == (10, 14)
    with opened(base, {}) as runtime:
        assert runtime.call("agent_send", agentId="b", targetAgentId="a", message="the other way").ok
        assert runtime.call("agent_send", agentId="a", targetAgentId="bb", message="another one").ok


def test_a_queue_holds_a_thousand_messages_and_each_is_read_once(base):
    fill = """
sent = []
for number in range(260):
    result = runtime.call("agent_send", agentId=f"{options['number']}-{number}", targetAgentId="b", message=str(number))
    sent += [f"{options['number']}-{number}"] if result.ok else []
print(json.dumps(sent), flush=True)
"""
    sent = [name for printed in together(base, fill, {}) for name in printed]
    read = """
names = []
while mail := runtime.call("agent_receive", agentId="b", limit=7).data["messages"]:
    names += [message["from"] for message in mail]
print(json.dumps(names), flush=True)
"""
    received = [name for printed in together(base, read, {}) for name in printed]

    assert len(sent) == 1000
    assert sorted(received) == sorted(sent)


@pytest.mark.parametrize("size, code", [(102_400, None), (102_401, "limit_exceeded")])
def test_a_message_has_at_most_100_kb(runtime, size, code):
    text = "é" * (size // 2) + "x" * (size % 2)

    result = runtime.call("agent_send", agentId="a", targetAgentId="b", message=text)

    assert (result.error.code if result.error else None) == code


def test_messages_survive_the_process_that_sent_them(base):
    script = """
print(json.dumps(runtime.call("agent_send", agentId="a", targetAgentId="b", message="kept").ok), flush=True)
time.sleep(600)
"""
    process = started(base, script, {})
    process.begin()
    assert process.printed() is True
    process.kill()

    with opened(base, {}) as runtime:
        mail = runtime.call("agent_receive", agentId="b", wait_ms=1000).data
    assert [message["message"] for message in mail["messages"]] == ["kept"]


BACKGROUND = """
started = runtime.call("agent", prompt="Work.", run_in_background=True)
print(json.dumps(started.data["task_id"]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    "phase",
    ["before the answer", *(pytest.param(f"{when} a call", marks=needs_sandbox) for when in ("during", "after"))],
)
def test_an_agent_whose_process_is_killed_continues_in_another(base, model_server, phase):
    gate, marker = f"{base}/gate", f"{base}/workspace/marker"
    command = f"echo x >> {marker}" + ("; sleep 600" if phase == "during a call" else "")
    calls = [ScriptedCall("run_shell", {"command": command})]
    turns = [Turn(calls=calls), Turn("first", hold=gate)]
    server = model_server(*([Turn("first", hold=gate)] if phase == "before the answer" else turns))
    process = started(base, BACKGROUND, settings(server))
    process.begin()
    agent = process.printed()
    while len(server.prompts) < (2 if phase == "after a call" else 1):
        time.sleep(0.01)
    while phase == "during a call" and not os.path.exists(marker):
        time.sleep(0.01)
    process.kill()
    for _ in range(2):
        server.add(Turn("finished"))
    open(gate, "w").close()

    with opened(base, settings(server)) as runtime:
        result = runtime.call("job_output", task_id=agent, timeout=120_000)

    assert result.data["status"] == "completed"
    assert result.data["output"] in ("first", "finished")
    if phase != "before the answer":
        with open(marker) as file:
            assert file.read() == "x\n"  # it did not run twice


def test_an_agent_of_a_call_whose_process_was_killed_frees_its_slot(base, model_server):
    server = model_server(Turn("never", hold=f"{base}/never"), Turn("fine"))
    flags = {**settings(server), "agents.max_children": 1}
    process = started(base, 'runtime.call("agent", prompt="x")', flags)
    process.begin()
    while not server.prompts:
        time.sleep(0.01)

    with opened(base, flags) as runtime:
        error = runtime.call("agent", prompt="y").error
        assert error is not None
        assert error.code == "limit_exceeded"
        process.kill()
        assert runtime.call("agent", prompt="y").text == "fine"
        assert [agent.status for agent in runtime.parts.roster.newest(9)] == ["completed", "failed"]


def test_an_agent_continues_only_under_the_settings_it_was_started_with(base, model_server):
    server = model_server(Turn("late", hold=f"{base}/never"))
    process = started(base, BACKGROUND, {**settings(server), "mode": "plan"})
    process.begin()
    agent = process.printed()
    while not server.prompts:
        time.sleep(0.01)
    process.kill()
    server.add(Turn(calls=[ScriptedCall("write_file", {"path": "b.txt", "content": "x"})]), Turn("tried"))

    with opened(base, {**settings(server), "mode": "yolo"}) as runtime:
        result = runtime.call("job_output", task_id=agent, timeout=120_000)
        assert runtime.parts.authority.mode(agent) == "plan"

    assert (result.data["status"], result.data["output"]) == ("completed", "tried")
    assert not os.path.exists(f"{base}/workspace/b.txt")


def test_an_agent_is_queued_when_its_process_ends_and_continues_in_another(base, model_server):
    server = model_server(Turn("late", hold=f"{base}/never"))
    os.makedirs(f"{base}/workspace")
    os.makedirs(f"{base}/home")
    with opened(base, settings(server)) as runtime:
        agent = runtime.call("agent", prompt="x", run_in_background=True).data["task_id"]
        while not server.prompts:
            time.sleep(0.01)
    server.add(Turn("finished"))
    with opened(base, settings(server)) as runtime:
        assert [queued.status for queued in runtime.parts.roster.newest(9)] == ["queued"]
        assert runtime.call("agent_list").ok
        assert settled(runtime, agent).answer == "finished"


def test_a_message_is_neither_lost_nor_repeated_when_the_process_that_reads_it_is_killed(base, model_server):
    server = model_server(Turn("hello"), Turn("never", hold=f"{base}/never"))
    script = """
agent = runtime.call("agent_spawn", template="general", message="hi").data["agentId"]
runtime.call("agent_send", agentId="a", targetAgentId=agent, message="how are you")
print(json.dumps(agent), flush=True)
time.sleep(600)
"""
    process = started(base, script, settings(server))
    process.begin()
    agent = process.printed()
    while len(server.prompts) < 2:
        time.sleep(0.01)
    process.kill()
    server.add(Turn("well"))

    with opened(base, settings(server)) as runtime:
        assert runtime.call("agent_list").ok
        answered = settled(runtime, agent, answers=2)
        assert runtime.call("agent_receive", agentId=agent).data == {"messages": [], "left": 0}

    assert (answered.answer, answered.is_idle) == ("well", True)
    assert server.prompts[-1].raw.count(b"how are you") == 1


def test_messages_are_received_again_with_the_same_ids_if_their_reader_is_killed(base):
    script = """
for number in range(3):
    runtime.call("agent_send", agentId="a", targetAgentId="b", message=f"{number}")
first = runtime.call("agent_receive", agentId="b", limit=1).data
second = runtime.call("agent_receive", agentId="b", limit=1).data
print(json.dumps([first, second]), flush=True)
time.sleep(600)
"""
    process = started(base, script, {})
    process.begin()
    first, second = process.printed()
    assert [mail["messages"][0]["message"] for mail in (first, second)] == ["0", "1"]
    assert (first["left"], second["left"]) == (2, 1)
    with opened(base, {}) as runtime:
        third = runtime.call("agent_receive", agentId="b", limit=1).data["messages"]
    process.kill()

    with opened(base, {}) as runtime:
        again = runtime.call("agent_receive", agentId="b").data["messages"]

    assert [message["message"] for message in third] == ["2"]  # of a reader that ended properly
    assert again == second["messages"]
    with opened(base, {}) as runtime:
        assert runtime.call("agent_receive", agentId="b").data == {"messages": [], "left": 0}


def test_a_message_with_a_secret_is_not_repeated_after_a_kill(base, model_server):
    server = model_server(Turn("hello"), Turn("never", hold=f"{base}/never"))
    script = """
agent = runtime.call("agent_spawn", template="general", message="hi").data["agentId"]
runtime.call("agent_send", agentId="a", targetAgentId=agent, message="the key is key-of-the-test")
print(json.dumps(agent), flush=True)
time.sleep(600)
"""
    process = started(base, script, settings(server))
    process.begin()
    agent = process.printed()
    while len(server.prompts) < 2:
        time.sleep(0.01)
    process.kill()
    server.add(Turn("well"))

    with opened(base, settings(server)) as runtime:
        assert runtime.call("agent_list").ok
        answered = settled(runtime, agent, answers=2)
        assert runtime.parts.roster.mail.peek(agent, 9) == []

    assert answered.answer == "well"
    assert server.prompts[-1].raw.count(b"the key is") == 1


def test_old_messages_to_nobody_are_removed(runtime, base):
    for target in ("nobody", "somebody"):
        runtime.call("agent_send", agentId="a", targetAgentId=target, message="x")
    with connected(f"{base}/state/state.db") as db:
        db.execute("UPDATE agent_messages SET at = at - 31 * 86400 * 1000000000 WHERE target='nobody'")

    runtime.call("agent_send", agentId="b", targetAgentId="c", message="x")

    assert runtime.call("agent_receive", agentId="nobody").data["messages"] == []
    assert len(runtime.call("agent_receive", agentId="somebody").data["messages"]) == 1


def test_agents_share_the_tokens_of_a_caller_whose_process_was_killed(base, model_server):
    """Two agents share 1,000 tokens; after the kill, they get no more."""
    server = model_server(Turn("never", hold=f"{base}/never"), Turn("never", hold=f"{base}/never"))
    script = """
from hilt.agents.budgets import Budget, RunLimits
from hilt.state.agent_calls import AgentOrder
host = runtime.parts.agents
budget = Budget(RunLimits(tokens=1000), time.monotonic)
definition = host.define("general", or_default=True)
ids = [host.create(AgentOrder("general", f"Work {n}."), definition, "background", "talk", budget).id for n in range(2)]
host.serve()
print(json.dumps(ids), flush=True)
time.sleep(600)
"""
    process = started(base, script, settings(server))
    process.begin()
    ids = process.printed()
    while len(server.prompts) < 2:
        time.sleep(0.01)
    process.kill()
    look = [ScriptedCall("list_dir", {})]
    server.add(*(Turn(calls=look, input_tokens=350, output_tokens=0) for _ in range(9)))

    with opened(base, settings(server)) as runtime:
        assert runtime.call("agent_list").ok
        ended = [settled(runtime, id) for id in ids]

    assert {agent.error_code for agent in ended} == {"budget_exceeded"}
    assert 1000 <= sum(agent.input_tokens for agent in ended) <= 1000 + 2 * 350


def test_the_time_limit_of_an_agent_does_not_restart_after_a_kill(base, model_server):
    server = model_server(Turn("never", hold=f"{base}/never"))
    script = """
from hilt.agents.budgets import Budget, RunLimits
from hilt.state.agent_calls import AgentOrder
host = runtime.parts.agents
budget = Budget(RunLimits(seconds=3600), time.monotonic)
definition = host.define("general", or_default=True)
agent = host.create(AgentOrder("general", "Work."), definition, "background", "talk", budget)
host.serve()
print(json.dumps(agent.id), flush=True)
time.sleep(600)
"""
    process = started(base, script, settings(server))
    process.begin()
    id = process.printed()
    while not server.prompts:
        time.sleep(0.01)
    process.kill()
    with connected(f"{base}/state/state.db") as db:
        db.execute("UPDATE agents SET created = created - 7200 * 1000000000")
    server.add(Turn("too late"))

    with opened(base, settings(server)) as runtime:
        assert runtime.call("agent_list").ok
        assert settled(runtime, id).error_code == "budget_exceeded"


@pytest.mark.parametrize("empty", ["", " "])
def test_messages_need_a_sender_and_a_reader(runtime, empty):
    results = [
        runtime.call("agent_receive", agentId=empty),
        runtime.call("agent_send", agentId=empty, targetAgentId="b", message="x"),
        runtime.call("agent_send", agentId="a", targetAgentId=empty, message="x"),
    ]

    assert [result.error.code for result in results] == ["invalid_args"] * 3
