"""`hilt chat` on a real terminal, with a scripted model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hilt.testing import Folder
from tests.agents.model_server import ModelServer, tokens
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import HANG_SECONDS, Screen

ENTER, CTRL_C, CTRL_D, CTRL_O, ALT_ENTER, UP = "\r", "\x03", "\x04", "\x0f", "\x1b\r", "\x1b[A"


class ChatScreen(Screen):
    """A chat with a scripted model."""

    def __init__(
        self,
        server: ModelServer,
        command: Command,
        *words: str,
        columns: int = 80,
        constants: tuple[str, ...] = (),
        **environ: str,
    ) -> None:
        self.server = server
        self.folder: Folder = command.folder
        model = {"HILT_MODEL": "openai:scripted", "HILT_MODEL_BASE_URL": server.openai_url, "TERM": "xterm-256color"}
        env = {**command.environ, **model, **environ}
        super().__init__([HILT, *constants, "chat", *words], env=env, cwd=command.folder.path, columns=columns)

    @property
    def pid(self) -> int:
        """The process of the chat."""
        return self._process.pid

    def send(self, text: str) -> None:
        """Type a line."""
        self.type(text + ENTER)

    def expect_streamed(self, text: str) -> None:
        """Wait for the end of a text that still streams: a slow machine draws its tokens one by one."""
        self.expect(list(tokens(text))[-1])

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + HANG_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)

    def wait_for_requests(self, count: int) -> None:
        """Wait until the model has received this many requests."""
        self.wait_until(lambda: len(self.server.prompts) >= count)

    def _more(self, deadline: float) -> bool:
        before = len(self.text)
        is_more = super()._more(deadline)
        self.text = self.text[:before] + self.text[before:].replace("\r", "")
        return is_more


def messages(server: ModelServer) -> list[dict[str, Any]]:
    """Return the messages of the newest request."""
    return list(server.prompts[-1].body["messages"])
