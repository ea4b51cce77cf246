"""The MCP conformance suite against our server."""

from __future__ import annotations

import pytest

from tests.conformance.suite import REVISIONS, extensions, passed, required, run, serving


@pytest.mark.parametrize("revision", REVISIONS)
def test_all_required_server_scenarios_of_a_revision_pass(tmp_path, revision):
    scenarios = required(revision)

    with serving(str(tmp_path)) as url:
        done = run(url, revision, str(tmp_path / "results"))

    assert len(scenarios) >= 30
    assert scenarios - passed(done) == set(), done.stdout
    assert done.returncode == 0
    tasks = {name: passes for name, passes in extensions(done).items() if name.startswith("tasks-")}
    assert len(tasks) == (10 if revision == "2026-07-28" else 0)
    assert all(tasks.values()), done.stdout
