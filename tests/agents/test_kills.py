"""The process that runs an agent is killed, in every phase: nothing is lost, repeated or left behind."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, NamedTuple

import pytest

from hilt.testing import environment
from tests.agents.model_server import ScriptedCall, Turn
from tests.agents.test_children import settled
from tests.agents.test_many_agents import opened, settings, started
from tests.marks import Mark, wait_until

STRESS = os.environ.get("HILT_STRESS")

START = """
import threading
from hilt.call import UserAnswer

def wait_for_ever(asked):
    open(options["at"], "w").close()
    time.sleep(600)

runtime.close()
runtime = Runtime(options["workspace"], session="talk", flags=options["flags"], asker=wait_for_ever)
if options["kind"] == "call":
    threading.Thread(target=lambda: runtime.call("agent", prompt="Work."), daemon=True).start()
    while not (agents := runtime.parts.roster.newest(1)):
        time.sleep(0.01)
    print(json.dumps(agents[0].id), flush=True)
else:
    id = runtime.call("agent", prompt="Work.", run_in_background=True).data["task_id"]
    print(json.dumps(id), flush=True)
    if options["cancels"]:
        while not os.path.exists(options["at"]):
            time.sleep(0.01)
        threading.Thread(target=lambda: runtime.call("job_stop", task_id=id), daemon=True).start()
        while runtime.parts.roster.get(id).ended is None:
            time.sleep(0.01)
        open(options["at"] + "-cancelled", "w").close()
time.sleep(600)
"""
WAIT = "touch at; while [ ! -e gate ]; do sleep 0.02; done"


class Phase(NamedTuple):
    """What an agent does when its process is killed: a call of its first turn, a hook that waits, or rules that ask."""

    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    event: str = ""  # of the hook
    match: str = ""
    nth: int = 1  # the event at which the hook waits
    rules: str = ""
    holds: bool = False  # the model does not finish its first answer
    cancels: bool = False


WRITE = ("write_file", {"path": "b.txt", "content": "x"})
LOG = ("run_shell", {"command": "echo x >> log"})
PHASES = {
    "before the first request": Phase(event="session_start"),
    "during a model request": Phase(holds=True),
    "during a read": Phase((("read_file", {"path": "a.txt"}),), "pre_tool_execution", "read_file"),
    "before a write": Phase((WRITE,), "pre_tool_execution", "write_file"),
    "after a write": Phase((WRITE,), "post_tool_execution", "write_file"),
    "during a command": Phase((("run_shell", {"command": "echo x >> log; touch at; sleep 600 # {mark}"}),)),
    "between the result and the next request": Phase((WRITE, LOG), "pre_llm_request", nth=2),
    "while waiting for approval": Phase((WRITE,), rules="ask: [write_file]"),
    "while cancelling": Phase(
        (("run_shell", {"command": "trap '' TERM INT HUP; touch at; while :; do sleep 1; done # {mark}"}),),
        cancels=True,
    ),
}
QUICK = ("after a write", "while cancelling")


def prepare(base: str, phase: Phase) -> None:
    """Write the hook and the rules of a phase."""
    os.makedirs(f"{base}/workspace")
    config = environment(base)["HILT_CONFIG_DIR"]
    os.makedirs(config, exist_ok=True)
    with open(f"{base}/workspace/a.txt", "w") as file:
        file.write("x\n")
    if phase.rules:
        with open(f"{config}/permissions.yaml", "w") as file:
            file.write(f"allow: [agent, run_shell]\n{phase.rules}\n")
    if phase.event:
        root = f"{base}/workspace"
        count = f"cd {root}; echo x >> count; [ $(wc -l < count) -ge {phase.nth} ] || exit 0; {WAIT}"
        hook = {"event": phase.event, "command": count, **({"match": phase.match} if phase.match else {})}
        with open(f"{config}/hooks.yaml", "w") as file:
            json.dump({"hooks": [hook]}, file)


@pytest.mark.parametrize("kind", ["background", "call"])
@pytest.mark.parametrize("name", PHASES if STRESS else QUICK)
def test_a_kill_loses_and_repeats_nothing_in_any_phase(base, model_server, name, kind):
    phase = PHASES[name]
    if phase.cancels and kind == "call":
        pytest.skip("cancelling would end the waiting call itself")
    mark, root = Mark(), f"{base}/workspace"
    prepare(base, phase)
    calls = [
        ScriptedCall(tool, json.loads(json.dumps(args).replace("{mark}", mark.name))) for tool, args in phase.calls
    ]
    server = model_server(
        *([Turn("late", hold=f"{base}/never")] if phase.holds else []), *([Turn(calls=calls)] * bool(calls))
    )
    at = f"{root}/at"
    process = started(base, START, settings(server), kind=kind, at=at, cancels=phase.cancels)
    process.begin()
    id = process.printed()
    wait_until(lambda: server.prompts if phase.holds else os.path.exists(at + "-cancelled" * phase.cancels))
    process.kill()
    open(f"{root}/gate", "w").close()
    server.add(*(Turn("finished") for _ in range(3)))

    with opened(base, {**settings(server), "approve": "once", "agents.max_children": 1}) as runtime:
        # a process with other settings must not run the agent, but any process ends the agents of a dead one
        assert runtime.call("agent_list").ok
        agent = runtime.parts.roster.get(id)
        assert agent is not None
        if kind == "background" and not phase.cancels:
            agent = settled(runtime, id)
            assert (agent.status, agent.answer) == ("completed", "finished")
        assert agent.ended is not None
        assert agent.status == ("failed" if kind == "call" else "cancelled" if phase.cancels else "completed")
        assert agent.owner == "" or not runtime.parts.roster.is_alive(agent.owner)
        server.add(Turn("another"))
        assert runtime.call("agent", prompt="y").text in ("another", "finished")  # the slot is free again
    wait_until(lambda: mark.alive() == [])
    for relative, once in (("b.txt", "x"), ("log", "x\n")):
        if os.path.exists(f"{root}/{relative}"):
            with open(f"{root}/{relative}") as file:
                assert file.read() == once
    if name == "after a write":
        assert os.path.exists(f"{root}/b.txt")


def test_changes_in_a_worktree_survive_a_kill(base, model_server):
    """The process is killed after the patch was applied, and before that was recorded."""
    root = f"{base}/workspace"
    os.makedirs(root)
    for args in (["init", "-q"], ["-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qm", "1", "--allow-empty"]):
        subprocess.run(["git", *args], cwd=root, check=True)
    server = model_server(Turn(calls=[ScriptedCall("write_file", {"path": "b.txt", "content": "x"})]), Turn("written"))
    script = """
from hilt.agents.worktrees import Worktrees
def settle(self, agent, record, changes):
    print(json.dumps(agent.id), flush=True)
    time.sleep(600)
Worktrees._settle = settle
runtime.call("agent", prompt="Work.", run_in_background=True, worktree=True)
time.sleep(600)
"""
    flags = {**settings(server), "approve": "once"}
    process = started(base, script, flags)
    process.begin()
    id = process.printed()
    process.kill()
    with open(f"{root}/b.txt") as file:
        assert file.read() == "x"

    with opened(base, flags) as runtime:
        assert runtime.call("agent_list").ok
        agent = settled(runtime, id)
        assert (agent.status, "1 file are in the workspace" in agent.answer) == ("completed", True), agent
        assert runtime.parts.agents.worktrees.record(id) is None
    assert os.listdir(f"{base}/state-worktrees") == []


def test_a_half_created_worktree_is_created_again(base, model_server):
    root = f"{base}/workspace"
    os.makedirs(root)
    for args in (["init", "-q"], ["-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qm", "1", "--allow-empty"]):
        subprocess.run(["git", *args], cwd=root, check=True)
    server = model_server(Turn("done"))
    script = """
from hilt.agents.worktrees import Worktrees
def save(self, id, record):
    print(json.dumps(id), flush=True)
    time.sleep(600)
Worktrees._save = save
runtime.call("agent", prompt="Work.", run_in_background=True, worktree=True)
time.sleep(600)
"""
    process = started(base, script, settings(server))
    process.begin()
    id = process.printed()
    process.kill()
    assert os.listdir(f"{base}/state-worktrees") == [id]

    with opened(base, settings(server)) as runtime:
        assert runtime.call("agent_list").ok
        assert settled(runtime, id).answer == "done"
    assert os.listdir(f"{base}/state-worktrees") == []
