"""Fixtures: PostgreSQL for a module, and the databases of agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hilt.state.roster import Roster
from tests.agents.durable.cluster import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def roster(request, base) -> Iterator[Roster]:
    """The agents of a new workspace, in SQLite and in PostgreSQL."""
    database = None
    if request.param == "postgresql":
        from hilt.agents.durable.postgres import PostgresDatabase

        database = PostgresDatabase(request.getfixturevalue("postgres").url, base)
    store = Roster(f"{base}/state", base, database)
    yield store
    store.close()
