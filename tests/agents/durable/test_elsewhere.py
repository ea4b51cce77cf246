"""Agents that other workspaces, versions and machines run, and how they are shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from hilt.agents.agent_settings import open_stored
from hilt.agents.durable.stores import machine_name
from hilt.agents.worktrees import Worktrees
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.agent_calls import AgentOrder
from hilt.state.roster import AgentLimits, AgentOutcome, AgentProfile, NewAgent, Roster
from tests.agents.durable.cluster import Machine, hilt_line, kill, settled, wait_until
from tests.agents.model_server import Turn, serving_model

READER = """---
name: reader
description: Reads pages.
tools: [web_fetch, agent_send]
---
You read pages.
"""


def define_reader(machine: Machine) -> None:
    folder = os.path.join(machine.environ["HILT_CONFIG_DIR"], "agents")
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/reader.md", "w", encoding="utf-8") as file:
        file.write(READER)


def start(runtime: Runtime, **args: object) -> str:
    result = runtime.call("agent", run_in_background=True, **args)
    assert result.ok, result.error
    return str(result.data["task_id"])


def queue(runtime: Runtime, agent: str) -> str:
    """Create an agent, and leave it to others to run it."""
    host = runtime.parts.agents
    definition = host.define(agent, or_default=False)
    return host.create(AgentOrder(agent, "read something"), definition, "background", "test", None).id


def queued_elsewhere(machine: Machine) -> list[str]:
    """Return the workspaces whose agents any worker may run, as a worker of another workspace sees them."""
    with machine.runtime() as runtime:
        store = runtime.parts.roster
        assert isinstance(store, Roster)
        return [workspace for workspace, _ in Roster("", "no workspace", store.database).queued_elsewhere()]


def test_a_worker_of_another_workspace_runs_agents_that_need_no_files(base, postgres):
    with serving_model(Turn("done")) as model:
        first = Machine(f"{base}/a", postgres.url, model, f"{base} one")
        second = Machine(f"{base}/b", postgres.url, model, f"{base} two")
        second.write("AGENTS.md", "Instructions of the other project.")
        define_reader(first)
        first.write("AGENTS.md", "Instructions.")
        worker = second.worker(HILT_TRUST_ALL="1")
        try:
            with first.runtime() as runtime:
                with_files, free = queue(runtime, "general"), queue(runtime, "reader")

                (agent,) = settled(runtime, free)
                waiting = runtime.parts.roster.get(with_files)
                (run,) = runtime.parts.roster.runs.of(free)
                shown = json.loads(first.hilt("agents", "show", free, "--json").stdout)
        finally:
            kill(worker)

    assert (agent.answer, agent.status) == ("done", "completed")
    assert waiting is not None
    assert (waiting.status, waiting.owner) == ("queued", "")
    assert run.host == machine_name(second.environ["HILT_STATE_DIR"])
    assert shown["runs"][0]["machine"] == run.host
    (prompt,) = model.prompts
    assert sorted(prompt.tools) == ["agent_send", "web_fetch"]
    assert b"Instructions" not in prompt.raw
    assert second.workspace.encode() not in prompt.raw


@pytest.mark.parametrize(
    "path, text",
    [("permissions.yaml", "deny:\n  - web_fetch(https://internal.example/*)\n"), ("hooks.yaml", "hooks: []\n")],
)
def test_agents_of_a_folder_with_its_own_rules_or_hooks_stay_there(base, postgres, path, text):
    with serving_model() as model:
        machine = Machine(f"{base}/a", postgres.url, model, base)
    define_reader(machine)
    with machine.runtime() as runtime:
        agent = queue(runtime, "reader")
        assert queued_elsewhere(machine).count(base) == 1
        runtime.parts.roster.cancel(agent)
    os.makedirs(f"{machine.workspace}/.hilt")
    machine.write(f".hilt/{path}", text)
    with machine.runtime() as runtime:
        queue(runtime, "reader")

        assert base not in queued_elsewhere(machine)


def test_known_settings_of_other_versions_apply_and_unknown_ones_block_no_other_agent(base):
    with serving_model(Turn("done"), Turn("done")) as model:
        machine = Machine(f"{base}/a", "", model)
        with machine.runtime() as runtime:
            names = ("mode", "profile", "shell.network", "agents.max_children", "model.name", "model.base_url")
            with_defaults = json.dumps({name: runtime.settings[name] for name in names}, sort_keys=True)
            invalid = ["", "not JSON", "[]", '{"mode": 7}', '{"setting.of_a_newer_version": true}']

            def create(settings: str) -> str:
                new = NewAgent("test", "test", "background", "general", "", "x", settings, AgentProfile((), "normal"))
                return runtime.parts.roster.create(new, AgentLimits(5, 100, 3600)).id

            unusable = [create(settings) for settings in invalid]
            older = create(with_defaults)
            agent = start(runtime, prompt="go")

            assert [ended.answer for ended in settled(runtime, older, agent)] == ["done", "done"]
            assert {runtime.parts.roster.get(id).status for id in unusable} == {"queued"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "changes, is_run",
    [
        ({}, True),
        ({"mode": "plan", "shell.sandbox": "read-only", "disabledTools": ["run_shell"]}, True),
        ({"model.name": "openai:other", "agents.max_depth": 1}, True),
        ({"mode": "yolo"}, False),
        ({"shell.sandbox": "full"}, False),
        ({"shell.network": "full"}, False),
        ({"model.base_url": "http://attacker.example"}, False),
        ({"model.api_key_env": "AWS_SECRET_ACCESS_KEY"}, False),
        ({"custom.dirs": ["/tmp/tools"]}, False),
        ({"alwaysAllow": ["run_shell"]}, False),
        ({"workspace.roots": ["/"]}, False),
    ],
)
def test_what_others_write_to_a_shared_database_gives_agents_no_more_rights(base, postgres, changes, is_run):
    with serving_model() as model:
        machine = Machine(f"{base}/a", postgres.url, model, HILT_MODE="normal")
    with machine.runtime() as runtime:
        settings = json.dumps({**json.loads(runtime.parts.agents.settings), **changes}, sort_keys=True)

        opened = open_stored(runtime, settings, "")

        assert (opened is not None) == is_run
        if opened is not None:
            opened.close()


def test_the_defaults_do_not_replace_stricter_settings_of_a_worker(base, postgres):
    with serving_model() as model:
        machine = Machine(f"{base}/a", postgres.url, model, HILT_MODE="normal", HILT_SHELL_SANDBOX="read-only")
    with machine.runtime() as runtime:
        settings = json.loads(runtime.parts.agents.settings)
        del settings["shell.sandbox"]

        assert open_stored(runtime, json.dumps(settings, sort_keys=True), "") is None


@pytest.mark.parametrize("id", ["../../outside", "..", "/outside", ".hidden"])
def test_an_id_that_is_a_path_names_no_worktree(base, id):
    with serving_model() as model:
        machine = Machine(f"{base}/a", "", model)
    with machine.runtime() as runtime, pytest.raises(ToolError, match="is not the name of a folder"):
        Worktrees(runtime, runtime.parts.roster).record(id)


def test_the_machine_that_has_a_worktree_is_reported(base):
    with serving_model() as model:
        machine = Machine(f"{base}/a", "", model)
    with machine.runtime() as runtime:
        profile = AgentProfile((), "normal", worktree=True)
        new = NewAgent("test", "test", "background", "general", "", "x", "{}", profile)
        agent = runtime.parts.roster.create(new, AgentLimits(5, 100, 3600)).id
        runtime.parts.roster.claim("{}", "owner", "another-machine")
        runtime.parts.roster.finish(agent, "owner", AgentOutcome("failed", "", "model_error"))

    applied = machine.hilt("agents", "apply", agent)
    shown = machine.hilt("agents", "show", agent)

    assert (applied.returncode, applied.stdout) == (1, "")
    assert "is on another-machine" in applied.stderr
    assert "worktree: on another-machine\n" in shown.stdout


def test_a_durable_run_has_the_tools_and_the_prompt_of_any_other_run(base):
    with serving_model(Turn("done")) as model:
        machine = Machine(f"{base}/a", "", model)
        done = machine.hilt("run", "--durable", "go")
        shown = machine.hilt("run", "--durable", "go", "--show-prompt", "--json")

    assert (done.returncode, done.stdout) == (0, "done\n")
    (prompt,) = model.prompts
    expected = json.loads(shown.stdout)
    names = [tool["name"] for tool in expected["tools"]]
    assert {"agent", "run_shell", "edit_file"} <= set(names)
    assert sorted(prompt.tools) == sorted(names)
    system = next(message["content"] for message in prompt.body["messages"] if message["role"] == "system")
    assert system == expected["system"]


def test_a_durable_run_that_is_interrupted_names_the_session_to_continue(base):
    gate = f"{base}/gate"
    with serving_model(Turn("done", hold=gate), Turn("done")) as model:
        machine = Machine(f"{base}/a", "", model)
        process = subprocess.Popen(
            hilt_line("run", "--durable", "go"),
            env=machine.environ,
            cwd=machine.workspace,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: model.prompts)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        open(gate, "w").close()
        agent = errors.split()[1]
        continued = machine.hilt("run", "--continue", agent)

    assert (process.returncode, f"run --continue {agent}." in errors) == (130, True), errors
    assert (continued.returncode, continued.stdout) == (0, "done\n")


def test_a_durable_run_whose_terminal_is_closed_waits_for_another_process(base):
    gate = f"{base}/gate"
    with serving_model(Turn("done", hold=gate), Turn("done")) as model:
        machine = Machine(f"{base}/a", "", model)
        process = subprocess.Popen(
            hilt_line("run", "--durable", "go"),
            env=machine.environ,
            cwd=machine.workspace,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: model.prompts)
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=60)
        agent = errors.split()[1]

        assert (process.returncode, "worker" in errors) == (130, True)
        with machine.runtime() as runtime:
            (queued,) = runtime.parts.roster.newest(5)
            assert (queued.id, queued.status) == (agent, "queued")
            open(gate, "w").close()
            runtime.parts.agents.serve()

            assert settled(runtime, agent)[0].answer == "done"
