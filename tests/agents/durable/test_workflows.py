from __future__ import annotations

import asyncio
import base64
import os
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hilt.agents.durable.runs import open_workflows
from hilt.agents.durable.stores import local_steps
from tests.open_files import open_below


def test_nothing_stays_open_when_the_last_user_closes_the_workflows(runtime):
    place = (runtime.parts.state, runtime.parts.roster.database)
    first, second = open_workflows(*place), open_workflows(*place)
    first.close()
    assert second.records(["none"]) == []

    second.close()

    assert open_below(local_steps(runtime.parts.state)) == []


class Exploit:
    """A pickle that creates a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize(
    "table, column",
    [("operation_outputs", "output"), ("operation_outputs", "error"), ("workflow_status", "output")],
)
def test_a_row_that_says_that_it_is_pickled_runs_nothing(runtime, tmp_path, table, column):
    workflows = open_workflows(runtime.parts.state, runtime.parts.roster.database)

    async def step() -> dict[str, Any]:
        return {"type": "user"}

    def run() -> Any:
        return workflows.run("one", lambda: asyncio.run(workflows.step("step", step)))

    try:
        assert run() == workflows.records(["one"])[0] == {"type": "user"}
        with sqlite3.connect(local_steps(runtime.parts.state)) as db:
            pickled = base64.b64encode(pickle.dumps(Exploit(tmp_path / "ran"))).decode()
            db.execute(f"UPDATE {table} SET {column}=?, serialization='py_pickle'", (pickled,))
        db.close()

        if table == "operation_outputs":
            assert workflows.records(["one"]) == []
        else:
            with pytest.raises(ValueError, match="pickled"):
                run()
    finally:
        workflows.close()

    assert not (tmp_path / "ran").exists()
