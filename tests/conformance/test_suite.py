"""The MCP conformance suite against our server."""

from __future__ import annotations

import pytest

from tests.conformance.suite import REVISIONS, extensions, passed, required, run, serving


@pytest.mark.parametrize("revision", REVISIONS)
def test_all_that_a_revision_requires_of_a_server_holds(tmp_path, revision):
    wanted = required(revision)

    with serving(str(tmp_path)) as url:
        done = run(url, revision, str(tmp_path / "results"))

    assert len(wanted) >= 30
    assert wanted - passed(done) == set(), done.stdout
    assert done.returncode == 0
    tasks = {name: holds for name, holds in extensions(done).items() if name.startswith("tasks-")}
    assert len(tasks) == (10 if revision == "2026-07-28" else 0)
    assert all(tasks.values()), done.stdout
