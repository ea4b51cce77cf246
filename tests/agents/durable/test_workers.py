"""Agents in worker processes on several machines, which are killed, stopped and disconnected."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from hilt import __version__
from hilt.agents.durable.stores import machine_name
from hilt.runtime import Runtime
from tests.agents.durable.cluster import (
    SECONDS,
    STRESS,
    Machine,
    SteppingModel,
    hilt_line,
    kill,
    left_running,
    settled,
    wait_until,
)
from tests.agents.model_server import ModelServer, Request, ScriptedCall, Turn
from tests.programs import needs_sandbox

LONG = pytest.mark.skipif(not STRESS, reason="runs with HILT_STRESS")
# HILT_STRESS=agents:50 makes the large version smaller
AGENTS, STEPS, KILLS, SLOTS = (500, 20, 20, 25) if STRESS else (8, 6, 2, 4)
if os.environ.get("HILT_STRESS", "").startswith("agents:"):
    AGENTS = int(os.environ["HILT_STRESS"].partition(":")[2])


def start(runtime: Runtime, prompt: str) -> str:
    result = runtime.call("agent", prompt=prompt, run_in_background=True)
    assert result.ok, result.error
    return str(result.data["task_id"])


@pytest.fixture
def workers() -> Iterator[Callable[[Machine], subprocess.Popen[str]]]:
    """Start workers, which are killed at the end."""
    with ExitStack() as stack:

        def begin(machine: Machine, concurrency: int = 8, **environ: str) -> subprocess.Popen[str]:
            process = machine.worker(concurrency, **environ)
            stack.callback(kill, process)
            return process

        yield begin


def effects(machines: list[Machine], agent: int) -> list[str]:
    """Return the lines that the steps of an agent have added, on all machines."""
    texts = [machine.read(f"{agent}.{kind}") for machine in machines for kind in ("txt", "log")]
    return [line for text in texts for line in text.split() if line != "begin"]


@pytest.mark.parametrize("database", ["postgresql", pytest.param("sqlite", marks=LONG)])
def test_kills_of_workers_lose_and_repeat_nothing(base, postgres, workers, database):
    randomly = random.Random(7)
    model = SteppingModel(STEPS)
    if database == "sqlite":  # two workers on one machine
        machines = [Machine(f"{base}/a", "", model, key=f"key-{number}") for number in range(3)]
    else:
        machines = [Machine(f"{base}/{name}", postgres.url, model, base) for name in ("a", "b", "c")]
    folders = {machine.workspace: machine for machine in machines}.values()
    for machine in machines:
        for agent in range(AGENTS):
            machine.write(f"{agent}.txt", "begin\n")
    running = [workers(machine, SLOTS) for machine in machines[:2]]
    with machines[2].runtime() as runtime:
        ids = [start(runtime, f"agent {number}") for number in range(AGENTS)]
        requests_before = [0, 0]  # of each machine when its worker began

        def progress(number: int) -> int:
            return model.asked(machines[number].key) - requests_before[number]

        for number in range(KILLS):
            # wait for progress: an agent that is killed again and again at the same step is stopped
            spread = AGENTS * STEPS * number // (KILLS + 2)
            while len(model.requests) < spread or max(map(progress, (0, 1))) < 2 * SLOTS:
                time.sleep(0.02)
            time.sleep(randomly.random() / 10)  # at no particular step
            victim = max((0, 1), key=progress)
            kill(running[victim])
            running[victim] = workers(machines[victim], SLOTS)
            requests_before[victim] = model.asked(machines[victim].key)
        agents = settled(runtime, *ids)
        lost = [[run for run in runtime.parts.roster.runs.of(id) if run.outcome == "lost"] for id in ids]

    assert [agent.answer for agent in agents] == [f"done {number}" for number in range(AGENTS)]
    assert any(lost)
    expected = sum(step % 5 != 3 for step in range(STEPS))
    for number, runs in enumerate(lost):
        lines = effects(list(folders), number)
        assert len(lines) == len(set(lines)), lines
        assert len(lines) >= expected - model.unmade[number]
        assert model.unmade[number] == 0 or runs
    shown = json.loads(machines[2].hilt("agents", "show", agents[0].id, "--json").stdout)
    assert {run["version"] for run in shown["runs"]} == {__version__}
    for process in running:
        process.terminate()
        assert process.wait(60) == 0
    wait_until(lambda: not left_running(f"{base}/"))
    for machine in machines[:2]:
        verified = machine.hilt("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


@LONG
def test_a_worker_that_was_stopped_and_taken_over_adds_nothing(base, postgres, workers):
    gate = f"{base}/gate"
    edit = {"path": "0.txt", "old_text": "begin\n", "new_text": "begin\nonce\n"}
    with_edit = Turn(calls=[ScriptedCall("edit_file", edit)], hold=gate)
    model = ModelServer([with_edit, with_edit, Turn("done")])
    machines = [Machine(f"{base}/{name}", postgres.url, model, base) for name in ("a", "b")]
    for machine in machines:
        machine.write("0.txt", "begin\n")
    first = workers(machines[0])
    with machines[1].runtime() as runtime:
        agent = start(runtime, "go")
        wait_until(lambda: len(model.prompts) == 1)
        first.send_signal(signal.SIGSTOP)
        workers(machines[1])
        wait_until(lambda: len(model.prompts) == 2)
        open(gate, "w").close()
        (ended,) = settled(runtime, agent)
        first.send_signal(signal.SIGCONT)
        first.terminate()
        first.wait(60)
        model.close()

        assert ended.answer == "done"
        assert effects(machines, 0) == ["once"]
        assert [run.outcome for run in runtime.parts.roster.runs.of(agent)] == ["lost", "completed"]


@needs_sandbox
def test_a_cancellation_reaches_the_machine_that_runs_the_agent(base, postgres, workers):
    command = f"touch began; sleep 600.{os.getpid()}"
    model = ModelServer([Turn(calls=[ScriptedCall("run_shell", {"command": command})])])
    machines = [Machine(f"{base}/{name}", postgres.url, model, base) for name in ("a", "b")]
    workers(machines[0])
    with machines[1].runtime() as runtime:
        agent = start(runtime, "go")
        wait_until(lambda: os.path.exists(f"{machines[0].workspace}/began"))
        assert left_running(command)

        cancelled = machines[1].hilt("agents", "cancel", agent)

        assert cancelled.stdout == f"{agent}: cancelled\n"
        wait_until(lambda: not left_running(command))
    model.close()


@LONG
def test_users_see_and_control_agents_of_other_machines(base, postgres, workers):
    model = ModelServer([Turn(calls=[ScriptedCall("read_file", {"path": "0.txt"})]), Turn("first"), Turn("second")])
    machines = [Machine(f"{base}/{name}", postgres.url, model, base) for name in ("a", "b")]
    for machine in machines:
        machine.write("0.txt", "begin\n")
        workers(machine)
    with machines[0].runtime() as runtime:
        spawned = runtime.call("agent_spawn", template="general", message="go")
        agent = spawned.data["agentId"]
        (run,) = runtime.parts.roster.runs.of(agent)
    ran_on_first = run.host == machine_name(machines[0].environ["HILT_STATE_DIR"])
    other = machines[1 if ran_on_first else 0]

    listed = other.hilt("agents", "list")
    shown = json.loads(other.hilt("agents", "show", agent, "--json").stdout)
    sent = other.hilt("agents", "send", agent, "And now?")
    waited = other.hilt("agents", "wait", agent)
    cancelled = other.hilt("agents", "cancel", agent)
    again = other.hilt("agents", "wait", agent)
    applied = other.hilt("agents", "apply", agent)

    assert spawned.data["response"] == "first"
    assert f"{agent}  " in listed.stdout
    assert (shown["answer"], shown["idle"], shown["runs"][0]["machine"]) == ("first", True, run.host)
    assert shown["progress"] == 'read_file {"path": "0.txt"}'
    assert sent.returncode == 0, sent.stderr
    assert (waited.returncode, waited.stdout) == (0, "second\n")
    assert cancelled.stdout == f"{agent}: cancelled\n"
    assert again.returncode == 130
    assert (applied.returncode, "has no worktree" in applied.stderr) == (1, True)
    model.close()


def test_a_durable_run_that_is_killed_continues_in_a_worker_without_a_database_server(base, workers):
    killed = threading.Event()

    class HeldModel(SteppingModel):
        def take(self, request: Request) -> tuple[int, Turn]:
            if len(request.results) == 2:
                killed.wait(SECONDS)
            return super().take(request)

    model = HeldModel(3)
    machine = Machine(f"{base}/a", "", model)
    machine.write("0.txt", "begin\n")
    command = hilt_line("run", "--durable", "agent 0")
    process = subprocess.Popen(
        command, env=machine.environ, cwd=machine.workspace, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    agent = process.stderr.readline().split()[1]
    wait_until(lambda: len(effects([machine], 0)) == 2)
    kill(process)
    killed.set()
    workers(machine)

    waited = machine.hilt("agents", "wait", agent)

    assert (waited.returncode, waited.stdout) == (0, "done 0\n")
    assert sorted(effects([machine], 0)) == ["0.0", "0.1", "0.2"]


def test_a_durable_run_prints_its_answer(base, postgres):
    model = SteppingModel(1)
    machine = Machine(f"{base}/a", postgres.url, model, base)
    machine.write("0.txt", "begin\n")

    done = machine.hilt("run", "--durable", "agent 0")

    assert (done.returncode, done.stdout) == (0, "done 0\n")
    with machine.runtime() as runtime:
        (agent,) = runtime.parts.roster.newest(5)
    assert (agent.status, agent.answer, agent.error_code) == ("completed", "done 0", "")
