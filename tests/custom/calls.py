"""A call without a runtime, with the parts of a context that an executor needs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

from hilt.call import Output
from hilt.context import Context
from hilt.custom.definition import Definition, Execute
from hilt.fence import Fence
from tests.programs import PATH


def call(execute: Execute, *, fence: Fence | None = None, session: str = "s", **args: Any) -> Output:
    """Run a tool as the pipeline does, with a new fence by default."""
    ctx = SimpleNamespace(session=session, fence=fence or Fence(), overflow=SimpleNamespace(limit=50_000))
    return execute(cast(Context, ctx), args)


def environment() -> dict[str, str]:
    """Return an environment for workers."""
    return {"PATH": PATH, "HOME": os.environ.get("HOME", "/")}


def has_ended(pid: int) -> bool:
    """Whether a process has ended; it may still be a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def by_name(definitions: tuple[Definition, ...]) -> dict[str, Definition]:
    """Return definitions by name."""
    return {definition.name: definition for definition in definitions}
