"""Fixtures: scripted models on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.agents.model_server import ModelServer, Turn, serving_model


@pytest.fixture
def model_server() -> Iterator[Callable[..., ModelServer]]:
    """Start scripted models."""
    with ExitStack() as servers:

        def start(*turns: Turn, **options: Any) -> ModelServer:
            return servers.enter_context(serving_model(*turns, **options))

        yield start
