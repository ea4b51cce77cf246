"""What a request to a model costs, and the limit of a day (`agents.max_cost_day`).

Prices come from genai-prices, a table that is installed with pydantic-ai; `agents.prices` overrides it. A price that is
in neither is unknown, not zero. So is the price at a base URL that the table does not list: a server on this machine
may be free, and a gateway may charge more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic_ai.usage import RequestUsage

from hilt.call import Origin
from hilt.config import Settings
from hilt.errors import ToolError
from hilt.formats.numbers import dollars
from hilt.state.spending import Spending

Pricing = Callable[[RequestUsage], Decimal]

_MILLION = Decimal(1_000_000)
_KEYS = ("input", "output", "cached")


class OwnPrice(NamedTuple):
    """A price set by the user, in dollars per million tokens; input tokens read from a cache cost `cached`."""

    input: Decimal
    output: Decimal
    cached: Decimal

    def cost(self, usage: RequestUsage) -> Decimal:
        """Return the cost of a request in dollars."""
        cached = min(usage.cache_read_tokens, usage.input_tokens)
        dollars = (usage.input_tokens - cached) * self.input + cached * self.cached + usage.output_tokens * self.output
        return dollars / _MILLION


def find_pricing(model: str, base_url: str | None, own: Mapping[str, Any]) -> Pricing | None:
    """Return the function that prices requests to a model (`provider:name`); None if its price is unknown.

    `own` is the setting agents.prices: tables with input, output and cached by `provider:name` or by name.
    """
    provider_id, _, name = model.rpartition(":")
    for key in (model, name):
        if key in own:
            return _own_price(key, own[key]).cost

    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, info = get_snapshot().find_provider_model(name, None, None if base_url else provider_id, base_url)
    except LookupError:
        return None
    return lambda usage: info.calc_price(usage, provider, genai_request_timestamp=datetime.now(UTC)).total_price


def _own_price(name: str, table: object) -> OwnPrice:
    if not isinstance(table, dict) or not {"input", "output"} <= table.keys() <= set(_KEYS):
        raise _bad_price(name, f"must be a table with input, output and optionally cached, not {table!r:.100}")
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise _bad_price(name, f"{key} must be dollars per million tokens, not {value!r:.100}")
    input_price, output_price = Decimal(str(table["input"])), Decimal(str(table["output"]))
    return OwnPrice(input_price, output_price, Decimal(str(table.get("cached", table["input"]))))


def _bad_price(name: str, reason: str) -> ToolError:
    return ToolError(
        "denied",
        f'agents.prices."{name[:100]}": {reason}.',
        suggestion=f'Write it as [agents.prices."{name[:100]}"] with input = 3.0 and output = 15.0.',
    )


class CostMeter:
    """Prices the requests to one model, adds them to the day's spending, and enforces the limit of the day."""

    def __init__(
        self,
        model: str,
        base_url: str | None,
        settings: Settings,
        directory: str,
        *,
        clock: Callable[[], float] = time.time,
        workspace: str = "",
        origin: Origin | None = None,
    ) -> None:
        """`directory` is the state directory; `origin` is the run in a workspace to which requests are charged."""
        self._model = model
        self._pricing = find_pricing(model, base_url, settings["agents.prices"])
        self._limit: float | None = settings["agents.max_cost_day"]
        self._clock = clock
        self._spending = Spending(directory, workspace, origin)

    def check(self) -> None:
        """Raise `budget_exceeded` if today's limit is reached, or cannot be enforced. Call it before each request."""
        if self._limit is None:
            return
        if self._pricing is None:
            raise ToolError(
                "budget_exceeded",
                f"agents.max_cost_day is ${self._limit:g}, but the price of {self._model} is unknown.",
                suggestion=(
                    f'Set the price in dollars per million tokens in config.toml: [agents.prices."{self._model}"] '
                    "with input = 0 and output = 0 if it is free. Or remove agents.max_cost_day."
                ),
                limit="agents.max_cost_day",
            )
        spent = self._spending.total(self.today())
        if spent >= self._limit:
            raise ToolError(
                "budget_exceeded",
                f"Models have cost {dollars(spent)} today; agents.max_cost_day is ${self._limit:g}.",
                suggestion="Raise agents.max_cost_day in config.toml, or continue tomorrow.",
                limit="agents.max_cost_day",
                spent=spent,
            )

    def add(self, usage: RequestUsage) -> float | None:
        """Count a request and return its cost in dollars; None if it is unknown. Call it after each request."""
        cost = self._cost(usage)
        self._spending.add(
            self.today(), self._model, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=cost
        )
        return None if cost is None else float(cost)

    def today(self) -> str:
        """Return the local date."""
        return time.strftime("%Y-%m-%d", time.localtime(self._clock()))

    def close(self) -> None:
        """Close the database."""
        self._spending.close()

    def _cost(self, usage: RequestUsage) -> Decimal | None:
        if self._pricing is None:
            return None
        try:
            cost = self._pricing(usage)
        except ValueError:
            return None  # counts that contradict each other, such as more cached tokens than input tokens
        # without counts from the provider, zero tokens are not zero dollars, unless the model is free
        is_counted = not usage.unmeasured_requests or self._pricing(_MILLION_TOKENS) == 0
        return cost if is_counted else None


_MILLION_TOKENS = RequestUsage(input_tokens=1_000_000, output_tokens=1_000_000)
