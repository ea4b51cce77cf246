"""Programs that only some tests need: tests skip without them, but not where CI is set."""

from __future__ import annotations

import os

import pytest

from tests.programs import EXTRAS, program


@pytest.mark.parametrize("name", ["no-such-program", *EXTRAS])
def test_a_missing_program_skips_a_test(monkeypatch, name):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("tests.programs.PATH", "")

    with pytest.raises(pytest.skip.Exception, match=f"{name} is not installed"):
        program(name)


def test_a_missing_program_fails_a_test_where_ci_is_set(monkeypatch):
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="no-such-program is not installed"):
        program("no-such-program")


@pytest.mark.parametrize("name", EXTRAS)
def test_a_program_that_the_setup_does_not_install_is_skipped_everywhere(monkeypatch, name):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("tests.programs.PATH", "")

    with pytest.raises(pytest.skip.Exception):
        program(name)


@pytest.mark.parametrize("name", ["sh", "bash", "bun", "go", "node", "python3", "uv", "mcp-inspector", "conformance"])
def test_the_setup_installs_the_programs_that_tests_run(name):
    assert os.access(program(name), os.X_OK)
