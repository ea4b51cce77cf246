"""Killed, stopped and outdated workers, wrong clocks, and an unreachable database. HILT_STRESS only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import hilt
from hilt import __version__
from hilt.runtime import Runtime
from tests.agents.durable.cluster import (
    SECONDS,
    Machine,
    SteppingModel,
    kill,
    left_running,
    running_postgres,
    settled,
    wait_until,
)
from tests.agents.model_server import ModelServer, ScriptedCall, Turn, serving_model

pytestmark = pytest.mark.skipif(not os.environ.get("HILT_STRESS"), reason="runs with HILT_STRESS")

AWAY_SECONDS = 60
NEWER = "99.0.0"


@pytest.fixture
def workers() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start workers, which are killed at the end."""
    with ExitStack() as stack:

        def begin(machine: Machine, **environ: str) -> subprocess.Popen[str]:
            process = machine.worker(8, **environ)
            stack.callback(kill, process)
            return process

        yield begin


@contextmanager
def two_machines(base: str, url: str, *turns: Turn) -> Iterator[tuple[ModelServer, Machine, Machine]]:
    """Yield a scripted model and two machines that share a database."""
    with serving_model(*turns) as model:
        first, second = (Machine(f"{base}/{name}", url, model, base) for name in ("a", "b"))
        yield model, first, second


def start(runtime: Runtime, prompt: str = "go") -> str:
    result = runtime.call("agent", prompt=prompt, run_in_background=True)
    assert result.ok, result.error
    return str(result.data["task_id"])


def outcomes(runtime: Runtime, agent: str) -> list[str]:
    return [run.outcome for run in runtime.parts.roster.runs.of(agent)]


def shell(command: str) -> Turn:
    return Turn(calls=[ScriptedCall("run_shell", {"command": command})])


@pytest.mark.parametrize("place", ["same machine", "other machine"])
def test_a_kill_between_a_command_and_its_record_does_not_repeat_it(base, postgres, workers, place):
    with two_machines(base, postgres.url, shell("echo once >> log; sleep 600"), Turn("done")) as (model, first, second):
        worker = workers(first)
        with second.runtime() as runtime:
            agent = start(runtime)
            wait_until(lambda: first.read("log"))
            kill(worker)
            workers(first if place == "same machine" else second)
            (ended,) = settled(runtime, agent)

            assert (ended.answer, outcomes(runtime, agent)) == ("done", ["lost", "completed"])
    assert (first.read("log"), second.read("log")) == ("once\n", "")
    (result,) = model.prompts[-1].results.values()
    assert "outcome_unknown" in result


def test_a_worker_that_is_stopped_during_a_command_and_continued_adds_nothing(base, postgres, workers):
    command = "echo once >> log; while [ ! -e gate ]; do sleep 0.1; done; echo late >> log"
    with two_machines(base, postgres.url, shell(command), Turn("done"), Turn("never")) as (model, first, second):
        worker = workers(first)
        with second.runtime() as runtime:
            agent = start(runtime)
            wait_until(lambda: first.read("log"))
            worker.send_signal(signal.SIGSTOP)
            workers(second)
            (ended,) = settled(runtime, agent)
            worker.send_signal(signal.SIGCONT)
            first.write("gate", "")
            worker.terminate()
            assert worker.wait(SECONDS) == 0
            assert not left_running(command)

            assert (ended.answer, outcomes(runtime, agent)) == ("done", ["lost", "completed"])
            after = runtime.parts.roster.get(agent)
            assert after is not None
            assert after.answer == "done"
    assert len(model.prompts) == 2
    assert first.read("log").count("once") == 1
    assert second.read("log") == ""


def test_a_cancellation_reaches_a_model_request_on_another_machine(base, postgres, workers):
    with two_machines(base, postgres.url, Turn("never", hold=f"{base}/gate")) as (model, first, second):
        worker = workers(first)
        with second.runtime() as runtime:
            agent = start(runtime)
            wait_until(lambda: model.prompts)

            cancelled = second.hilt("agents", "cancel", agent)

            assert cancelled.stdout == f"{agent}: cancelled\n"
            wait_until(lambda: outcomes(runtime, agent) == ["cancelled"])
            open(f"{base}/gate", "w").close()
            wait_until(lambda: model.hung_up)
            assert worker.poll() is None
            waited = second.hilt("agents", "wait", agent)
            assert (waited.returncode, waited.stdout) == (130, "")


@pytest.mark.parametrize("skew", [3600.0, -3600.0])
def test_leases_do_not_depend_on_the_clocks_of_machines(base, postgres, workers, skew):
    # as on a machine with a wrong clock: every time that hilt reads is shifted
    os.makedirs(f"{base}/skewed")
    with open(f"{base}/skewed/sitecustomize.py", "w", encoding="utf-8") as file:
        file.write(
            f"import time\nreal, real_ns = time.time, time.time_ns\ntime.time = lambda: real() + {skew}\n"
            f"time.time_ns = lambda: real_ns() + int({skew} * 1e9)\n"
        )
    gate = f"{base}/gate"
    held = Turn(calls=[ScriptedCall("read_file", {"path": "0.txt"})], hold=gate)
    with two_machines(base, postgres.url, held, held, Turn("done")) as (model, first, second):
        for machine in (first, second):
            machine.write("0.txt", "begin\n")
        skewed = workers(first, PYTHONPATH=f"{base}/skewed")
        with second.runtime() as runtime:
            agent = start(runtime)
            wait_until(lambda: model.prompts)
            workers(second)
            time.sleep(5)  # longer than the lease: both live, so nobody takes over
            assert outcomes(runtime, agent) == [""]
            kill(skewed)
            wait_until(lambda: len(model.prompts) == 2)
            open(gate, "w").close()
            (ended,) = settled(runtime, agent)

            assert (ended.answer, outcomes(runtime, agent)) == ("done", ["lost", "completed"])


def newer_version(base: str) -> str:
    """Return a folder with hilt as a later version, with a setting that this one does not know."""
    package = os.path.dirname(hilt.__file__)
    folder = f"{base}/newer/hilt"
    os.makedirs(folder)
    for entry in os.listdir(package):
        if entry not in ("__init__.py", "config.py", "__pycache__"):
            os.symlink(f"{package}/{entry}", f"{folder}/{entry}")
    for name, before, after in (
        ("__init__.py", f'"{__version__}"', f'"{NEWER}"'),
        ("config.py", '    "resident": Key(', '    "agents.new": Key(int, 7),\n    "resident": Key('),
    ):
        shutil.copy(f"{package}/{name}", folder)
        with open(f"{folder}/{name}", "r+", encoding="utf-8") as file:
            text = file.read()
            assert before in text
            file.seek(0)
            file.write(text.replace(before, after, 1))
    return os.path.dirname(folder)


@pytest.mark.parametrize("first_is_newer", [False, True])
def test_versions_take_over_from_each_other(base, postgres, workers, first_is_newer):
    newer = {"PYTHONPATH": newer_version(base)}
    model = SteppingModel(6)
    machine = Machine(f"{base}/a", postgres.url, model, base)
    machine.write("0.txt", "begin\n")
    killed = workers(machine, **(newer if first_is_newer else {}))
    with machine.runtime() as runtime:
        agent = start(runtime, "agent 0")
        wait_until(lambda: machine.read("0.txt").count("\n") > 2)
        kill(killed)
        workers(machine, **({} if first_is_newer else newer))
        (ended,) = settled(runtime, agent)
        versions = [run.version for run in runtime.parts.roster.runs.of(agent)]

    assert ended.answer == "done 0"
    assert versions == ([NEWER, __version__] if first_is_newer else [__version__, NEWER])
    lines = machine.read("0.txt").split()
    assert len(lines) == len(set(lines))
    model.close()


def test_agents_continue_after_a_minute_without_the_database(base, workers):
    gate = f"{base}/gate"
    turns = [Turn(calls=[ScriptedCall("read_file", {"path": "0.txt"})], hold=gate), Turn("done")]
    with running_postgres() as server, serving_model(*turns) as model:
        machine = Machine(f"{base}/a", server.url, model, base)
        machine.write("0.txt", "begin\n")
        worker = workers(machine)
        with machine.runtime() as runtime:
            agent = start(runtime)
            wait_until(lambda: model.prompts)
            server.stop()
            open(gate, "w").close()
            time.sleep(AWAY_SECONDS)
            server.start()

            assert settled(runtime, agent)[0].answer == "done"
            assert worker.poll() is None
