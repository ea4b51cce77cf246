"""DBOS in this process: each run of an agent is a workflow, and its model turns and calls are the workflow's steps.

There is one DBOS per process, so `Workflows.of` returns the same object to all that use the same database. A run is
never replayed: the next run of the agent is a new workflow that begins with the records of the earlier ones. Once a
workflow is cancelled, DBOS neither begins nor stores another step of it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import sqlalchemy
from dbos import DBOS, Serializer, SetWorkflowID
from dbos import error as dbos_errors
from dbos._serialization import DefaultSerializer

from hilt import __version__
from hilt.agents.durable.leases import TakenOver
from hilt.agents.durable.postgres import PostgresDatabase
from hilt.agents.durable.stores import local_steps
from hilt.agents.transcripts import Record
from hilt.errors import ToolError
from hilt.state.agent_database import AgentDatabase
from hilt.state.locks import held

_BATCH = 500
_TAKEN_OVER = (
    dbos_errors.DBOSWorkflowCancelledError,
    dbos_errors.DBOSWorkflowConflictIDError,
    dbos_errors.DBOSAwaitedWorkflowCancelledError,
)


class _JsonText(Serializer):
    """Stores steps as JSON: pickled ones would let anyone who can write to the database run code."""

    def serialize(self, data: Any) -> str:
        return json.dumps(data, default=str)

    def deserialize(self, serialized_data: str) -> Any:
        return json.loads(serialized_data)

    def name(self) -> str:
        return "hilt_json"


def _refuse_pickle(_: Serializer, serialized_data: str) -> Any:
    raise ValueError("The row is pickled: only rows in JSON are read.")


class Workflows:
    """The workflows of this process."""

    _lock = threading.Lock()
    _opened: Workflows | None = None
    _works: dict[str, Callable[[], Any]] = {}  # noqa: RUF012  # by id, for workflows that are about to begin

    @classmethod
    def of(cls, state: str, database: AgentDatabase) -> Workflows:
        """Return the workflows of this process, opening DBOS if needed; the caller closes them."""
        key = database.url if isinstance(database, PostgresDatabase) else local_steps(state)
        with cls._lock:
            opened = cls._opened
            if opened is None:
                opened = cls._opened = cls(key, database)
            elif opened.key != key:
                raise ToolError(
                    "busy",
                    "This process already runs durable agents of another database.",
                    suggestion="Run the agents of each database in a separate worker: hilt worker.",
                )
            opened._users += 1
            return opened

    def __init__(self, key: str, database: object) -> None:
        self.key = key
        self._users = 0
        self._file: sqlalchemy.Engine | None = None  # DBOS does not close an engine that is passed in
        if isinstance(database, PostgresDatabase):
            self._launch(key, database.engine)
        else:
            with held(key + ".setup"):  # two processes must not create the tables at once
                os.close(os.open(key, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
                self._file = _open_file(key)
                self._launch(f"sqlite:///{key}", self._file)

    def _launch(self, url: str, engine: sqlalchemy.Engine) -> None:
        # a row names its own format, and DBOS would unpickle it whatever the serializer is
        DefaultSerializer.deserialize = _refuse_pickle  # type: ignore[method-assign, assignment]
        DBOS(
            config={
                "name": "hilt",
                "system_database_url": url,
                "system_database_engine": engine,
                "executor_id": f"{os.getpid()}-{os.urandom(4).hex()}",  # new, so DBOS recovers nothing by itself
                "application_version": __version__,
                "serializer": _JsonText(),
                "log_level": "CRITICAL",
                "notification_listener_polling_interval_sec": 0.1,  # nothing listens, but closing waits this long
            }
        )
        DBOS.listen_queues([])
        DBOS.launch()

    def close(self) -> None:
        """Close DBOS with its last user."""
        with Workflows._lock:
            self._users -= 1
            if not self._users:
                Workflows._opened = None
                DBOS.destroy()
                if self._file is not None:
                    self._file.dispose()

    def run(self, id: str, work: Callable[[], Any]) -> Any:
        """Run work as a workflow on this thread and return its value; raise TakenOver if another process takes over."""
        self._works[id] = work
        try:
            with SetWorkflowID(id):
                return _run_agent(id)
        except _TAKEN_OVER as error:
            raise TakenOver from error
        finally:
            self._works.pop(id, None)

    async def step(self, name: str, work: Callable[[], Awaitable[Record]]) -> Record:
        """Run a step of the workflow that runs on this thread."""

        async def step() -> Record:
            return await work()

        try:
            return await DBOS.run_step_async({"name": name}, step)
        except _TAKEN_OVER as error:
            raise TakenOver from error

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel workflows, whichever process runs them."""
        if ids:
            DBOS.cancel_workflows(list(ids))

    def records(self, ids: Sequence[str]) -> list[Record]:
        """Return the records that the steps of these workflows have stored."""
        steps = [step["output"] for id in ids for step in DBOS.list_workflow_steps(id)]
        return [output for output in steps if isinstance(output, dict) and "type" in output]

    def delete_before(self, time: datetime, select_needed: Callable[[list[str]], set[str]]) -> int:
        """Delete workflows that began before a time, except those that `select_needed` returns; return how many."""
        deleted = offset = 0
        while True:
            old = DBOS.list_workflows(
                end_time=time.isoformat(), load_input=False, load_output=False, limit=_BATCH, offset=offset
            )
            ids = [workflow.workflow_id for workflow in old]
            needed = select_needed(ids)
            if len(needed) < len(ids):
                DBOS.delete_workflows([id for id in ids if id not in needed])
                deleted += len(ids) - len(needed)
            offset += len(needed)
            if len(ids) < _BATCH:
                return deleted


@DBOS.workflow(name="agent")
def _run_agent(id: str) -> Any:
    return Workflows._works.pop(id)()


def _open_file(path: str) -> sqlalchemy.Engine:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

    @sqlalchemy.event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: object) -> None:
        with suppress(sqlalchemy.exc.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # a turn whose calls have run must survive a power loss

    return engine
