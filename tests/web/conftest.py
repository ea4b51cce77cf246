"""Fixtures: a certificate authority, and a web client with its own resolver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.reaching import Reach
from tests.web.servers import Authority, make_authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory) -> Authority:
    """A certificate authority that only tests trust."""
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def reach(tmp_path) -> Callable[..., Reach]:
    """Return a function that creates a web client."""

    def make(*allowed: str, **options: Any) -> Reach:
        return Reach(tmp_path, allowed, **options)

    return make
