"""Rate limits of a model provider, which all processes that share the agents' database keep together.

[agents.limits.anthropic]
requests = 50       # a minute
tokens = 400_000    # a minute, input and output
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelResponse

from hilt.agents.context_size import CHARACTERS_PER_TOKEN, ContextSize
from hilt.agents.model import LanguageModel, Listener, ModelInput
from hilt.errors import ToolError
from hilt.state.agent_database import AgentDatabase, Transaction

WINDOW_SECONDS = 60

_SECOND = 1_000_000_000
_LONGEST_PAUSE = 5.0


class ProviderLimits(NamedTuple):
    """The most requests and tokens a minute; None is no limit."""

    requests: int | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any], provider: str) -> ProviderLimits | None:
        """Return the limits of a provider in the settings; None if it has none."""
        limits = settings.get(provider)
        if limits is None:
            return None
        if (
            not isinstance(limits, dict)
            or not limits.keys() <= set(cls._fields)
            or not all(map(_is_limit, limits.values()))
        ):
            raise ToolError(
                "invalid_request",
                f"agents.limits.{provider} must have requests and tokens, positive integers, not {limits!r}.",
                suggestion="Correct config.toml.",
            )
        return cls(**limits)


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class ProviderPace:
    """The use of a provider by all processes within the last minute, by the clock of the database."""

    def __init__(self, database: AgentDatabase, provider: str, limits: ProviderLimits) -> None:
        self._db = database
        self._provider = provider
        self._limits = limits

    def take(self, tokens: int) -> tuple[int, float]:
        """Count a request of about this many tokens; return its number, or 0 and the seconds until there is room."""
        limits = self._limits

        def work(db: Transaction) -> tuple[int, float]:
            now = self._db.now(db)
            since = now - WINDOW_SECONDS * _SECOND
            db.execute("DELETE FROM provider_use WHERE provider=? AND at<=?", (self._provider, since))
            query = "SELECT at, tokens FROM provider_use WHERE provider=? ORDER BY at"
            used = db.execute(query, (self._provider,)).fetchall()
            requests, total, room_at = len(used), sum(count for _, count in used), now
            for at, count in used:
                fits = limits.requests is None or requests < limits.requests
                # a request above the limit has to run alone
                if fits and (limits.tokens is None or total + tokens <= limits.tokens):
                    break
                requests, total, room_at = requests - 1, total - count, at + WINDOW_SECONDS * _SECOND
            if room_at > now:
                return 0, (room_at - now) / _SECOND
            row = (self._provider, now, tokens)
            query = "INSERT INTO provider_use (provider, at, tokens) VALUES (?,?,?) RETURNING number"
            (number,) = db.execute(query, row).fetchone()
            return int(number), 0.0

        return self._db.write(work, f"provider {self._provider}")

    def count(self, number: int, tokens: int) -> None:
        """Correct the tokens of a request to what the provider counted."""
        query = "UPDATE provider_use SET tokens=? WHERE number=?"
        self._db.write(lambda db: db.execute(query, (tokens, number)), f"provider {self._provider}")


class PacedModel:
    """A model whose requests wait until its provider's limits have room; implements LanguageModel."""

    def __init__(self, model: LanguageModel, pace: ProviderPace) -> None:
        self._model = model
        self._pace = pace
        self.name = model.name
        self.context_tokens = model.context_tokens

    async def answer(self, request: ModelInput, listener: Listener) -> ModelResponse:
        """Wait for room, then return the answer."""
        characters = len(request.system) + sum(len(str(tool.schema)) + len(tool.description) for tool in request.tools)
        tokens = ContextSize.estimate(request.messages) + characters // CHARACTERS_PER_TOKEN
        while True:
            number, pause = await asyncio.to_thread(self._pace.take, tokens)
            if number:
                break
            await asyncio.sleep(min(pause, _LONGEST_PAUSE))
        response = await self._model.answer(request, listener)
        used = response.usage.input_tokens + response.usage.output_tokens
        if used:
            await asyncio.to_thread(self._pace.count, number, used)
        return response

    async def close(self) -> None:
        """Close connections."""
        await self._model.close()
