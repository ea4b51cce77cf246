"""Conversations with a scripted model, in this process and without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hilt.agents.budgets import RunLimits
from hilt.agents.conversation import Conversation
from hilt.agents.model_requests import Clock
from hilt.agents.starting import open_conversation, transcripts_of
from hilt.agents.transcripts import Record
from hilt.output.run_events import CallFinished, Event, Notice, RunEnded, TextPiece, TokensUsed
from hilt.runtime import Runtime
from hilt.testing import environment
from tests.agents.model_server import ModelServer

FORMATS = ("openai", "openai-responses", "anthropic")


async def until(happened: Callable[[], Any]) -> None:
    """Wait until something has happened."""
    while not happened():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class Talk:
    """A conversation with a model server, and its events."""

    def __init__(
        self,
        base: str,
        server: ModelServer,
        kind: str = "openai",
        *,
        session: str = "talk",
        environ: dict[str, str] | None = None,
        flags: dict[str, Any] | None = None,
        tools: Sequence[Any] = (),
        **people: Any,
    ) -> None:
        self.server = server
        self.events: list[Event] = []
        self.emit: Callable[[Event], None] = self.events.append  # a test may replace it
        self.pauses: list[float] = []
        self._people = people
        url = server.url if kind == "anthropic" else server.openai_url
        model = {"model.name": f"{kind}:scripted", "model.base_url": url}
        keys = {"ANTHROPIC_API_KEY": "key-of-the-test", "OPENAI_API_KEY": "key-of-the-test"}
        self.runtime = Runtime(
            f"{base}/workspace",
            session=session,
            environ={**environment(base), **keys, **(environ or {})},
            flags={**model, **(flags or {})},
            tools=tools,
            **people,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def _show(self, event: Event) -> None:
        self.emit(event)

    def open(self, *, is_new: bool = True, limits: RunLimits | None = None) -> Conversation:
        """Open the conversation, on a running event loop."""
        clock = Clock(sleep=self._sleep, jitter=lambda: 1.0)
        return open_conversation(
            self.runtime,
            self._show,
            title="test",
            is_new=is_new,
            limits=limits,
            asks_person="asker" in self._people,
            clock=clock,
        )

    def send(self, *messages: Any, is_new: bool = True, limits: RunLimits | None = None) -> RunEnded:
        """Send messages one after the other; return how the last one ended."""

        async def work(conversation: Conversation) -> None:
            for message in messages:
                await conversation.send(message)

        self.run(work, is_new=is_new, limits=limits)
        ended = self.events[-1]
        assert isinstance(ended, RunEnded)
        return ended

    def run(
        self,
        work: Callable[[Conversation], Awaitable[Any]],
        *,
        is_new: bool = True,
        limits: RunLimits | None = None,
    ) -> Any:
        """Run work on an open conversation."""

        async def main() -> Any:
            conversation = self.open(is_new=is_new, limits=limits)
            try:
                return await work(conversation)
            finally:
                await conversation.close()

        return asyncio.run(main())

    @property
    def text(self) -> str:
        """The text of all answers, as a listener puts it together."""
        text = ""
        for event in self.events:
            if isinstance(event, TextPiece):
                text = event.text if event.restart else text + event.text
        return text

    @property
    def results(self) -> list[CallFinished]:
        """The results of the calls."""
        return [event for event in self.events if isinstance(event, CallFinished)]

    @property
    def notices(self) -> list[str]:
        """The notices for the user."""
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def tokens(self) -> list[TokensUsed]:
        """The tokens of each request."""
        return [event for event in self.events if isinstance(event, TokensUsed)]

    @property
    def records(self) -> list[Record]:
        """The transcript."""
        from hilt.agents.transcripts import read

        return list(read(transcripts_of(self.runtime).path(self.runtime.session)))

    def kinds(self) -> list[str]:
        """The types of the transcript's records."""
        return [record["type"] for record in self.records]
