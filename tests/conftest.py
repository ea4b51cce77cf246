"""Fixtures: a runtime on a temporary workspace, and an environment for child processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, settings

from hilt import pipeline
from hilt.runtime import Runtime
from hilt.testing import Folder, environment, temporary_runtime
from tests.probed import remember_sandbox

settings.register_profile(
    "tests",
    deadline=None,
    max_examples=2000 if os.environ.get("HILT_STRESS") else 50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("tests")

# the interpreter before a pyenv shim, which takes longer to start than most commands run
os.environ["PATH"] = os.pathsep.join((os.path.join(sys.base_prefix, "bin"), os.environ.get("PATH", os.defpath)))

# nohup and scripts ignore these signals; the programs under test would inherit that
for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)


@pytest.fixture(autouse=True)
def schema_violations(monkeypatch) -> Iterator[list[str]]:
    """Check that every structured result of a test matches the output schema of its tool."""
    violations: list[str] = []
    perform = pipeline.perform

    def checked(prepared: Any, ctx: Any) -> Any:
        output = perform(prepared, ctx)
        if output.data is not None and prepared.entry is None and prepared.tool.source == "built-in":
            errors = jsonschema_rs.iter_errors(prepared.tool.output or {"not": {}}, output.data)
            violations.extend(f"{prepared.tool.name}: {error.message}" for error in errors)
        return output

    monkeypatch.setattr(pipeline, "perform", checked)
    yield violations
    assert violations == []


@pytest.fixture
def base(tmp_path) -> str:
    """The folder that contains a test's workspace, settings and state."""
    remember_sandbox(str(tmp_path / "state"))
    return str(tmp_path)


@pytest.fixture
def joined(base) -> Iterator[tuple[Runtime, Folder]]:
    with temporary_runtime(base) as pair:
        yield pair


@pytest.fixture
def runtime(joined: tuple[Runtime, Folder]) -> Runtime:
    """A runtime on an empty workspace."""
    return joined[0]


@pytest.fixture
def workspace(joined: tuple[Runtime, Folder]) -> Folder:
    """The workspace folder of `runtime`."""
    return joined[1]


@pytest.fixture
def environ(base) -> dict[str, str]:
    """The environment for child processes that share the state of `runtime`."""
    return {**environment(base), "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH")]))}
