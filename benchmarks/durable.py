"""Durable agents: the cost of a step, many agents at once, and the size of a worker and of its tables."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.agents import TURNS, ScriptedModel
from benchmarks.clock import milliseconds
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from hilt.agents.budgets import RunLimits
from hilt.agents.conversation import Conversation
from hilt.agents.durable.postgres import PostgresDatabase
from hilt.agents.durable.runs import DurableRuns
from hilt.agents.marks import Marks
from hilt.agents.steps import Steps, TranscriptOnly
from hilt.agents.transcripts import Record, Transcripts
from hilt.output.redaction import Redactor
from hilt.output.run_events import RunEnded
from hilt.runtime import Runtime
from tests.agents.durable.cluster import Postgres, running_postgres

ROUNDS = 5
AGENTS = 50
AGENT_TURNS = 10  # 20 steps, as in the stress test
STEPS = 2 * TURNS + 3  # of a conversation: its first record, the message, each turn and its call, the answer
WORKER_MB = 150


def figures() -> Iterator[Figure]:
    """Measure on SQLite, then on PostgreSQL."""
    with fresh_place(files=TURNS) as place:
        yield from _steps(place, "SQLite", {})
        yield _worker(place)
    with running_postgres() as server, fresh_place(files=TURNS) as place:
        yield from _steps(place, "PostgreSQL", {"agents.database": server.url})
        yield from _growth(place, server)


def _steps(place: Place, name: str, flags: dict[str, str]) -> Iterator[Figure]:
    with Runtime(place.workspace, environ=place.environ, flags=flags) as runtime:
        durable = DurableRuns(runtime)
        runtime.parts.listen(lambda: None)  # as a worker does
        try:
            talk = partial(_talk, runtime, durable)
            rounds = [
                (
                    milliseconds(lambda: _bare(durable, STEPS)) / STEPS,
                    milliseconds(lambda: talk(TURNS, TranscriptOnly())),
                    milliseconds(lambda: talk(TURNS, durable.steps())),
                )
                for _ in range(ROUNDS)
            ]
            bare, plain, stored = (min(times) for times in zip(*rounds, strict=True))
            steps = 2 * AGENT_TURNS + 3
            rates = [
                (
                    _rate(steps, lambda: _bare(durable, steps, runtime)),
                    _rate(steps, lambda: talk(AGENT_TURNS, durable.steps())),
                )
                for _ in range(3)
            ]
        finally:
            durable.close()
    step = (stored - plain) / STEPS
    yield Figure(f"a durable step, {name}", step, "ms", "a bare step of DBOS", bare, max_ratio=1.5)
    bare_rate, rate = (max(round_rates) for round_rates in zip(*rates, strict=True))
    yield Figure(
        f"{AGENTS} agents at once, {name}",
        rate,
        "/s",
        "steps of DBOS, the same calls",
        bare_rate,
        minimum=0.7 * bare_rate,
    )


_number = iter(range(1_000_000_000))


def _bare(durable: DurableRuns, steps: int, runtime: Runtime | None = None) -> None:
    """Run a workflow of steps that do nothing; with a runtime, every second one calls a tool."""

    async def nothing() -> Record:
        return {"type": "nothing"}

    async def call() -> Record:
        assert runtime is not None
        read = partial(runtime.call, "read_file", path=small_name(0))
        result = await asyncio.get_running_loop().run_in_executor(None, read)
        return {"type": "result", "text": result.text}

    async def main() -> None:
        for number in range(steps):
            await durable.steps().run("step", call if runtime is not None and number % 2 else nothing)

    def work() -> RunEnded:
        durable.run_loop(main())
        return RunEnded(0, "")

    durable.run_workflow(f"bare_{time.time_ns()}_{next(_number)}", 1, work)


def _talk(runtime: Runtime, durable: DurableRuns, turns: int, steps: Steps) -> None:
    """Run a conversation of this many calls, with durable steps or without."""
    session = f"talk_{time.time_ns()}_{next(_number)}"

    async def main() -> RunEnded:
        own = runtime.in_session(session, runtime.settings)
        transcript = Transcripts(runtime.parts.state, runtime.parts.id, Redactor({})).create(session)
        limits = RunLimits(turns=None)
        conversation = Conversation(
            own, ScriptedModel(turns), transcript, lambda event: None, marks=Marks(), limits=limits, steps=steps
        )
        ended = await conversation.send("Read them all.")
        await conversation.close()
        if ended.status:
            raise RuntimeError(f"the run ended with {ended}")
        return ended

    if isinstance(steps, TranscriptOnly):
        asyncio.run(main())
    else:
        durable.run_workflow(session, 1, lambda: durable.run_loop(main()))


def _rate(steps: int, work: Callable[[], None]) -> float:
    """Return the steps a second of many workflows at once."""
    threads = [threading.Thread(target=work) for _ in range(AGENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return AGENTS * steps / (time.perf_counter() - began)


def _worker(place: Place) -> Figure:
    """Measure the memory of an idle worker."""
    importing = [sys.executable, "-c", "import dbos, sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(importing, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        base = _megabytes(process.pid)
    command = [sys.executable, "-m", "hilt", "worker", place.workspace]
    with subprocess.Popen(command, env=place.environ, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(2)  # until it has looked for agents
        measured = _megabytes(process.pid)
        process.terminate()
    return Figure("memory of an idle worker", measured, "MB", "a process that imports DBOS", base, maximum=WORKER_MB)


def _megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return kilobytes / 1024


def _growth(place: Place, server: Postgres) -> Iterator[Figure]:
    """Measure the tables of DBOS with the steps of conversations, and after cleaning."""
    flags = {"agents.database": server.url}
    with Runtime(place.workspace, environ=place.environ, flags=flags) as runtime:
        durable = DurableRuns(runtime)
        try:
            rows, size = _tables(server)
            durable.clean(0)
            remaining, _ = _tables(server)
        finally:
            durable.close()
    yield Figure("tables of DBOS for each step", size / rows, "KB", f"{rows:,} steps", size / rows)
    yield Figure("steps left after cleaning", remaining, "", "before", rows, maximum=0)


def _tables(server: Postgres) -> tuple[int, float]:
    database = PostgresDatabase(server.url, "benchmark")
    sizes = "SELECT sum(pg_total_relation_size(relid)) / 1024.0 FROM pg_stat_user_tables WHERE schemaname=?"
    try:
        return database.read(
            lambda db: (
                int(db.execute("SELECT count(*) FROM dbos.operation_outputs").fetchone()[0]),
                float(db.execute(sizes, ("dbos",)).fetchone()[0]),
            )
        )
    finally:
        database.close()
