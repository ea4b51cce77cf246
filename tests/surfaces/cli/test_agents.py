from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from tests.agents.model_server import ModelServer, ScriptedCall, Turn, serving_model
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen


@pytest.fixture
def server():
    with serving_model() as server:
        yield server


@pytest.fixture
def hilt(short: Command, server: ModelServer) -> Command:
    """The command with a resident process and a scripted model."""
    short.environ |= {
        "HILT_MODEL": "openai:scripted",
        "HILT_MODEL_BASE_URL": server.openai_url,
        "OPENAI_API_KEY": "key-of-the-test",
    }
    return short


def spawn(hilt: Command, **args: Any) -> dict[str, Any]:
    (reply,) = hilt.ask({"tool": "agent_spawn", "args": {"template": "general", "message": "hi", **args}})
    assert reply["ok"], reply
    return dict(json.loads(reply["result"]))


def background(hilt: Command) -> str:
    (reply,) = hilt.ask({"tool": "agent", "args": {"prompt": "Work.", "run_in_background": True}})
    assert reply["ok"], reply
    return str(json.loads(reply["result"])["task_id"])


def test_a_folder_without_agents_has_none(hilt):
    assert hilt.run("agents").stdout == b"There are no agents. To start one: hilt run --durable PROMPT\n"
    assert json.loads(hilt.run("agents", "list", "--json").stdout) == []


def test_agents_are_listed_shown_written_to_and_waited_for(hilt, server):
    server.add(Turn("hello"), Turn("more"))
    agent = spawn(hilt)

    (listed,) = json.loads(hilt.run("agents", "--json").stdout)
    assert (listed["id"], listed["status"], listed["idle"]) == (agent["agentId"], "completed", True)
    assert f"{agent['agentId']}  ".encode() in hilt.run("agents").stdout
    assert b"hello" in hilt.run("agents", "show", agent["agentId"]).stdout
    sent = hilt.run("agents", "send", agent["agentId"], "and now?")
    assert (sent.returncode, sent.stderr) == (0, b"")
    while b"more" not in (waited := hilt.run("agents", "wait", agent["agentId"])).stdout:
        time.sleep(0.05)
    assert (waited.returncode, waited.stdout) == (0, b"more\n")
    assert "[message 1 from user, " in server.prompts[1].raw.decode()


def test_a_wait_that_takes_longer_says_so(hilt, server, tmp_path):
    gate = tmp_path / "gate"
    server.add(Turn("done", hold=str(gate)))
    agent = background(hilt)

    words = [HILT, "agents", "wait", agent]
    with Screen(words, env={**hilt.environ, "TERM": "xterm"}, cwd=hilt.folder.path) as screen:
        screen.expect("… waiting for the agent, ")
        gate.touch()
        status, rest = screen.end()

    assert status == 0
    assert rest.index("\r\x1b[K") < rest.index("done")


def test_a_failed_agent_is_waited_for_with_status_1(hilt, server):
    server.add(Turn(status=400, message="no such thing"))

    waited = hilt.run("agents", "wait", background(hilt))

    assert (waited.returncode, waited.stdout) == (1, b"")
    assert b"no such thing" in waited.stderr


@pytest.mark.parametrize("words", [("show", "agent_0"), ("wait", "agent_0"), ("cancel", "x"), ("send", "x", "y")])
def test_an_unknown_agent_is_an_error(hilt, words):
    done = hilt.run("agents", *words)

    assert (done.returncode, done.stdout) == (1, b"")
    assert b"not_found" in done.stderr


@needs_sandbox
def test_cancelling_an_agent_ends_its_children_and_what_they_run(hilt, server):
    script = "echo $$ > pid; exec sleep 600"
    server.add(
        Turn(calls=[ScriptedCall("agent_spawn", {"template": "general", "message": "deeper"})]),
        Turn(calls=[ScriptedCall("run_shell", {"command": script, "timeout": 300})], when="deeper"),
    )
    parent = background(hilt)
    wait_until(lambda: os.path.exists(hilt.folder.join("pid")))
    wait_until(lambda: sleeping(hilt.folder.path))
    marked = sleeping(hilt.folder.path)

    done = hilt.run("agents", "cancel", parent)

    assert (done.returncode, done.stdout) == (0, f"{parent}: cancelled\n".encode())
    assert not marked & sleeping(hilt.folder.path)
    first, second = hilt.run("agents").stdout.decode().splitlines()
    assert first.startswith(parent)
    assert second.startswith("  agent_")
    assert {agent["status"] for agent in json.loads(hilt.run("agents", "--json").stdout)} == {"cancelled"}
    assert hilt.run("agents", "wait", parent).returncode == 130


def sleeping(folder: str) -> set[str]:
    """Return the processes that sleep in a folder."""
    sleepers = set()
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if file.read().startswith(b"sleep\x00600") and os.readlink(f"/proc/{name}/cwd") == folder:
                    sleepers.add(name)
        except OSError:
            continue
    return sleepers


def test_an_agent_continues_after_the_resident_process_was_killed(hilt, server, tmp_path):
    gate = str(tmp_path / "gate")
    server.add(Turn("never", hold=gate))
    agent = background(hilt)
    while not server.prompts:
        time.sleep(0.02)
    status = hilt.run("resident", "status").stdout.decode()
    os.kill(int(status.split("pid ")[1].split(",")[0]), 9)
    server.add(Turn("finished"))

    waited = hilt.run("agents", "wait", agent)

    assert (waited.returncode, waited.stdout) == (0, b"finished\n")
