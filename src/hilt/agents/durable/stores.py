"""Where the steps of durable agents are stored, and the name of this machine.

Importing this module is cheap, and works without the extra `agents`.
"""

from __future__ import annotations

import os
import socket

from hilt.errors import ToolError
from hilt.handles import put_file
from hilt.installer import needs
from hilt.state.agent_database import AgentDatabase
from hilt.state.directory import Writing

_POSTGRES = ("postgresql://", "postgres://")
FEATURE = "Running durable agents"
_LOCAL = "agents.db"  # in the state directory: the steps of agents that one machine runs


def open_shared(url: str, workspace: str) -> AgentDatabase:
    """Return the database that several machines share; it is opened on first use."""
    if not url.startswith(_POSTGRES):
        raise ToolError(
            "invalid_request",
            "agents.database must be a PostgreSQL URL.",
            suggestion="Set it to postgresql://USER:PASSWORD@HOST/DATABASE, or unset it to use only this machine.",
        )
    with needs("agents", FEATURE):
        from hilt.agents.durable.postgres import PostgresDatabase
    return PostgresDatabase(url.replace("postgres://", "postgresql://", 1), workspace)


def local_steps(state: str) -> str:
    """Return the path of the file with the steps of this machine's agents."""
    return os.path.join(state, _LOCAL)


def machine_name(state: str) -> str:
    """Return a name for this machine and state directory, whose journal decides on interrupted calls."""
    path = os.path.join(state, "machine")
    try:
        with open(path, encoding="ascii") as file:
            return f"{socket.gethostname()}-{file.read().strip()}"
    except FileNotFoundError:
        with Writing(state):
            put_file(path, os.urandom(4).hex().encode(), only_new=True)  # another process may be faster
        return machine_name(state)
