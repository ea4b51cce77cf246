"""Fixtures: databases are created and migrated as everywhere outside the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def copied_databases() -> None:
    """No copies here: creating a database is what is tested."""
