from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.output.metrics import bars, prometheus


def test_counters_and_histograms_are_in_prometheus_format():
    text = prometheus((0.5, 10), [("read_file", "success", 3, 20.25, (1, 2)), ("read_file", "failure", 1, 0.5, (1, 1))])

    assert text == (
        "# HELP tool_execution_total Calls of tools, by tool and status.\n"
        "# TYPE tool_execution_total counter\n"
        'tool_execution_total{tool="read_file",status="success"} 3\n'
        'tool_execution_total{tool="read_file",status="failure"} 1\n'
        "# HELP function_call_duration_ms Duration of calls in milliseconds.\n"
        "# TYPE function_call_duration_ms histogram\n"
        'function_call_duration_ms_bucket{tool="read_file",status="success",le="0.5"} 1\n'
        'function_call_duration_ms_bucket{tool="read_file",status="success",le="10"} 2\n'
        'function_call_duration_ms_bucket{tool="read_file",status="success",le="+Inf"} 3\n'
        'function_call_duration_ms_sum{tool="read_file",status="success"} 20.250\n'
        'function_call_duration_ms_count{tool="read_file",status="success"} 3\n'
        'function_call_duration_ms_bucket{tool="read_file",status="failure",le="0.5"} 1\n'
        'function_call_duration_ms_bucket{tool="read_file",status="failure",le="10"} 1\n'
        'function_call_duration_ms_bucket{tool="read_file",status="failure",le="+Inf"} 1\n'
        'function_call_duration_ms_sum{tool="read_file",status="failure"} 0.500\n'
        'function_call_duration_ms_count{tool="read_file",status="failure"} 1\n'
    )


@given(st.dictionaries(st.text(), st.integers(0, 2**40), max_size=5))
def test_the_prometheus_parser_returns_any_name_unchanged(names):
    parser = pytest.importorskip("prometheus_client.parser")
    series = [(name, "success", calls, 1.5, (calls,)) for name, calls in names.items()]

    families = {family.name: family for family in parser.text_string_to_metric_families(prometheus((1,), series))}

    assert {name: family.type for name, family in families.items()} == {
        "tool_execution": "counter",
        "function_call_duration_ms": "histogram",
    }
    assert {sample.labels["tool"]: sample.value for sample in families["tool_execution"].samples} == names
    durations = families["function_call_duration_ms"].samples
    assert {s.labels["tool"]: s.value for s in durations if s.labels.get("le") == "+Inf"} == names
    assert {s.labels["tool"] for s in durations if s.name.endswith("_sum") and s.value == 1.5} == set(names)


@pytest.mark.parametrize(
    "counts, drawn",
    [
        ((), ""),
        ((0, 0), "  "),
        ((1,), "█"),
        ((0, 1, 8), " ▁█"),
        ((1, 2, 3, 4, 5, 6, 7, 8), "▁▂▃▄▅▆▇█"),
        ((1, 1000), "▁█"),
    ],
)
def test_bars_are_proportional_to_the_counts(counts, drawn):
    assert bars(counts, plain=False) == drawn
    assert bars(counts, plain=True).isascii()


@given(st.lists(st.integers(0, 2**40)))
def test_bars_keep_the_order_of_counts_and_only_zero_is_blank(counts):
    drawn = bars(counts, plain=False)

    assert [bar == " " for bar in drawn] == [count == 0 for count in counts]
    pairs = sorted(zip(counts, drawn, strict=True))
    assert [bar for _, bar in pairs] == sorted(drawn)
