"""Fixtures: scripted models on loopback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hilt.testing import Folder
from tests.agents.model_server import ModelServer, Turn, serving_model


@pytest.fixture
def model_server() -> Iterator[Callable[..., ModelServer]]:
    """Start scripted models."""
    with ExitStack() as servers:

        def start(*turns: Turn, **options: Any) -> ModelServer:
            return servers.enter_context(serving_model(*turns, **options))

        yield start


@pytest.fixture
def talk(base, model_server) -> Iterator[Callable[..., Any]]:
    """Open conversations with scripted models on one workspace."""
    from tests.agents.talking import Talk

    os.makedirs(f"{base}/workspace", exist_ok=True)
    os.makedirs(f"{base}/home", exist_ok=True)
    talks: list[Talk] = []

    def start(*turns: Turn, kind: str = "openai", server: ModelServer | None = None, **options: Any) -> Talk:
        talks.append(Talk(base, server or model_server(*turns), kind, **options))
        return talks[-1]

    yield start
    for opened_talk in talks:
        opened_talk.runtime.close()


@pytest.fixture
def folder(base) -> Folder:
    """The workspace of `talk`."""
    os.makedirs(f"{base}/workspace", exist_ok=True)
    return Folder(f"{base}/workspace")
