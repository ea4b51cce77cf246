"""The MCP conformance suite against our client."""

from __future__ import annotations

import pytest

from tests.conformance.scenarios import SCENARIOS, run_client
from tests.programs import program


@pytest.mark.parametrize("scenario, revision", SCENARIOS)
def test_the_client_conforms(tmp_path, scenario, revision):
    program("conformance")

    done = run_client(scenario, revision, str(tmp_path))

    assert done.returncode == 0, done.stdout
    assert "OVERALL: PASSED" in done.stdout
