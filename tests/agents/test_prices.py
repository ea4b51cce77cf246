from __future__ import annotations

import subprocess
import sys
import time
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.usage import RequestUsage

from hilt import config
from hilt.agents.prices import CostMeter, find_pricing
from hilt.errors import ToolError
from hilt.formats.numbers import dollars
from hilt.state.spending import Spending

OWN = {"openai:mine": {"input": 2, "output": 10.5, "cached": 0.25}}
USAGE = RequestUsage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=400_000)


def settings(tmp_path, **flags: Any) -> config.Settings:
    environ = {"HILT_CONFIG_DIR": str(tmp_path / "config"), "HILT_STATE_DIR": str(tmp_path / "state")}
    return config.load(str(tmp_path), environ, {name.replace("__", "."): value for name, value in flags.items()})


def meter(tmp_path, model: str = "openai:mine", base_url: str | None = None, **options: Any) -> CostMeter:
    values = {"agents__prices": OWN, **options.pop("flags", {})}
    return CostMeter(model, base_url, settings(tmp_path, **values), str(tmp_path / "state"), **options)


def spent(tmp_path, cost_meter: CostMeter) -> float:
    spending = Spending(str(tmp_path / "state"))
    try:
        return spending.total(cost_meter.today())
    finally:
        spending.close()


@pytest.mark.parametrize(
    "model",
    [
        "anthropic:claude-opus-5",
        "anthropic:claude-sonnet-5",
        "openai:gpt-5",
        "openai-responses:gpt-5-mini",
        "openai-chat:gpt-4.1",
        "google-gla:gemini-2.5-pro",
        "mistral:mistral-large-latest",
        "deepseek:deepseek-chat",
        "groq:llama-3.3-70b-versatile",
        "openrouter:anthropic/claude-sonnet-5",
    ],
)
def test_common_models_have_a_price(model):
    pricing = find_pricing(model, None, {})

    assert pricing is not None
    assert 0 < pricing(RequestUsage(input_tokens=1_000_000, output_tokens=1_000_000)) < 1000


def test_cached_tokens_cost_less():
    pricing = find_pricing("anthropic:claude-sonnet-5", None, {})
    assert pricing is not None

    cached = pricing(RequestUsage(input_tokens=1000, cache_read_tokens=900))

    assert cached < pricing(RequestUsage(input_tokens=1000))


@pytest.mark.parametrize(
    "model, base_url",
    [
        ("openai:nobody-knows-this", None),
        ("nowhere:gpt-5", None),
        ("openai:gpt-5", "http://127.0.0.1:8000/v1"),
        ("openai:gpt-5", "https://gateway.example/v1"),
        ("gpt-5", "http://localhost/v1"),
    ],
)
def test_a_model_or_base_url_that_the_table_lacks_has_an_unknown_price(model, base_url):
    assert find_pricing(model, base_url, {}) is None


def test_a_listed_base_url_gives_the_price():
    assert find_pricing("openai:gpt-5", "https://api.openai.com/v1", {}) is not None


@pytest.mark.parametrize("key", ["openai:mine", "mine"])
def test_a_price_of_the_user_counts_first_and_at_every_base_url(key):
    own = {key: OWN["openai:mine"]}

    for base_url in (None, "http://127.0.0.1:1/v1"):
        pricing = find_pricing("openai:mine", base_url, own)
        assert pricing is not None
        assert pricing(USAGE) == Decimal("1.2") + Decimal("0.1") + Decimal("1.05")


def test_cached_tokens_without_their_own_price_cost_as_much_as_others():
    pricing = find_pricing("a:b", None, {"b": {"input": 3, "output": 0}})

    assert pricing is not None
    assert pricing(USAGE) == 3


@pytest.mark.parametrize(
    "table",
    [3, {}, {"input": 1}, {"input": 1, "output": "2"}, {"input": -1, "output": 1}, {"input": True, "output": 1},
     {"input": 1, "output": float("nan")}, {"input": 1, "output": 1, "outptu": 2}],
)  # fmt: skip
def test_an_invalid_price_is_reported(table):
    with pytest.raises(ToolError) as caught:
        find_pricing("openai:mine", None, {"openai:mine": table})

    assert "openai:mine" in caught.value.message


def test_costs_of_a_day_add_up_exactly(tmp_path):
    cost_meter = meter(tmp_path)

    costs = [cost_meter.add(RequestUsage(input_tokens=1, output_tokens=0)) for _ in range(1000)]

    assert costs[0] == 0.000002
    assert spent(tmp_path, cost_meter) == 0.002
    cost_meter.close()


def test_a_request_without_counts_has_an_unknown_cost(tmp_path):
    cost_meter = meter(tmp_path)

    assert cost_meter.add(RequestUsage(unmeasured_requests=1)) is None

    (row,) = Spending(str(tmp_path / "state")).models(cost_meter.today())
    assert (row.requests, row.unpriced, row.cost) == (1, 1, 0)


def test_a_free_model_costs_nothing_with_or_without_counts(tmp_path):
    free = {"agents__prices": {"mine": {"input": 0, "output": 0}}, "agents__max_cost_day": 1}
    cost_meter = meter(tmp_path, base_url="http://127.0.0.1:1/v1", flags=free)

    cost_meter.check()

    assert cost_meter.add(RequestUsage(unmeasured_requests=1)) == 0


def test_the_limit_of_a_day_counts_all_models_and_processes(tmp_path):
    limited = {"agents__max_cost_day": 0.5}
    other, cost_meter = (
        meter(tmp_path, "other:mine", flags={"agents__prices": {"mine": OWN["openai:mine"]}}),
        meter(tmp_path, flags=limited),
    )
    cost_meter.check()
    other.add(RequestUsage(input_tokens=200_000))
    cost_meter.check()
    other.add(RequestUsage(input_tokens=50_000))

    with pytest.raises(ToolError) as caught:
        cost_meter.check()

    assert (caught.value.code, caught.value.details) == (
        "budget_exceeded",
        {"limit": "agents.max_cost_day", "spent": 0.5},
    )


def test_the_next_day_starts_at_zero(tmp_path):
    now = time.mktime((2026, 11, 16, 23, 59, 0, 0, 0, -1))
    times = [now]
    cost_meter = meter(tmp_path, flags={"agents__max_cost_day": 1}, clock=lambda: times[0])
    cost_meter.add(RequestUsage(input_tokens=1_000_000))
    with pytest.raises(ToolError):
        cost_meter.check()

    times[0] += 120
    cost_meter.check()

    assert spent(tmp_path, cost_meter) == 0


def test_a_limit_that_cannot_be_enforced_is_an_error(tmp_path):
    cost_meter = meter(tmp_path, "openai:nobody-knows-this", flags={"agents__max_cost_day": 5})

    with pytest.raises(ToolError) as caught:
        cost_meter.check()

    assert caught.value.code == "budget_exceeded"
    assert "openai:nobody-knows-this" in caught.value.message


def test_processes_that_spend_at_once_lose_nothing(tmp_path):
    program = """
import sys
from decimal import Decimal
from hilt.state.spending import Spending
spending = Spending(sys.argv[1])
for _ in range(25):
    spending.add("2026-11-16", "m", input_tokens=3, output_tokens=1, cost=Decimal("0.01"))
"""
    processes = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]

    spending = Spending(str(tmp_path))
    assert spending.total("2026-11-16") == 1
    assert spending.models("2026-11-16")[0][1:5] == (100, 0, 300, 100)
    spending.close()


def test_old_days_are_dropped(tmp_path):
    spending = Spending(str(tmp_path))
    for day in ("2025-01-01", "2026-11-16"):
        spending.add(day, "m", input_tokens=1, output_tokens=1, cost=Decimal(1))

    assert (spending.total("2025-01-01"), spending.total("2026-11-16")) == (0, 1)
    spending.close()


def test_reading_creates_no_database(tmp_path):
    spending = Spending(str(tmp_path / "state"))

    assert (spending.total("2026-11-16"), spending.models("2026-11-16")) == (0, [])
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "cost, text",
    [(None, "unknown"), (0, "$0.00"), (0.00001, "<$0.0001"), (0.0031, "$0.0031"), (1.254, "$1.25"), (1000, "$1000.00")],
)
def test_a_cost_is_shown_in_dollars(cost, text):
    assert dollars(cost) == text


@pytest.mark.parametrize("value", [0, -1, "five", True, float("nan"), float("inf")])
def test_an_invalid_limit_is_rejected(tmp_path, value):
    with pytest.raises(ToolError, match="max_cost_day"):
        settings(tmp_path, agents__max_cost_day=value)


def test_a_project_can_lower_the_limit_but_not_raise_it(tmp_path):
    (tmp_path / ".hilt").mkdir()
    (tmp_path / ".hilt" / "config.toml").write_text("[agents]\nmax_cost_day = 2.5\n")
    environ = {"HILT_CONFIG_DIR": str(tmp_path / "config"), "HILT_STATE_DIR": str(tmp_path / "state")}

    assert config.load(str(tmp_path), environ, {})["agents.max_cost_day"] == 2.5
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("[agents]\nmax_cost_day = 1\n")
    assert config.load(str(tmp_path), environ, {})["agents.max_cost_day"] == 1


def test_the_limit_can_be_set_by_a_variable(tmp_path):
    environ = {
        "HILT_CONFIG_DIR": str(tmp_path / "config"),
        "HILT_STATE_DIR": str(tmp_path / "state"),
        "HILT_AGENTS_MAX_COST_DAY": "0.75",
    }

    assert config.load(str(tmp_path), environ, {})["agents.max_cost_day"] == 0.75
