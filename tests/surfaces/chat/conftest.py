"""Fixtures: chats with scripted models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.agents.model_server import ModelServer, Turn, serving_model
from tests.surfaces.chat.chatting import ChatScreen
from tests.surfaces.commands import Command


@pytest.fixture
def chat(command: Command) -> Iterator[Callable[..., ChatScreen]]:
    """Start chats in one workspace."""
    with ExitStack() as stack:

        def start(
            *turns: Turn, words: tuple[str, ...] = (), server: ModelServer | None = None, **options: Any
        ) -> ChatScreen:
            server = server or stack.enter_context(serving_model(*turns))
            screen = ChatScreen(server, command, *words, **options)
            stack.enter_context(screen)
            screen.expect("/help shows commands and keys.")
            return screen

        yield start


@pytest.fixture
def asks(command: Command) -> None:
    """Commands that no rule allows need approval."""
    rules = os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml")
    os.makedirs(os.path.dirname(rules), exist_ok=True)
    with open(rules, "w", encoding="utf-8") as file:
        file.write("default: ask\nallow: ['Bash(echo:*)']\n")
