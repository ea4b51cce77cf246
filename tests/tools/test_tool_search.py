from __future__ import annotations

import pytest

from hilt import catalog
from hilt.declaration import tool
from hilt.testing import temporary_runtime

FINDERS = {"tool_search", "tool_call"}


def search_names(runtime, query, **args):
    return [tool["name"] for tool in runtime.call("tool_search", query=query, **args).data["tools"]]


@tool(effects="read")
def fetchInvoice(number: int, currency: str = "EUR") -> str:
    """Get a bill from the ledger.

    Args:
        number: Of the bill.
        currency: To convert it to.
    """
    return f"{number} {currency}"


@pytest.mark.parametrize(
    "query, name",
    [
        ("search text in files with a regular expression", "search_files"),
        ("replace in many files", "search_replace"),
        ("ask the person a question", "ask_user"),
        ("checksum of a folder", "checksum_tree"),
        ("find files by name", "find_files"),
        ("list a folder", "list_dir"),
        ("apply a unified diff", "apply_patch"),
        ("STOP the JOB", "job_stop"),
        ("how do I remember a decision in memory, please?", "memory"),
    ],
)
def test_a_task_description_finds_its_tool(runtime, query, name):
    assert search_names(runtime, query)[0] == name


def test_the_result_has_everything_a_call_needs(runtime):
    data = runtime.call("tool_search", query="stat_file", limit=1).data

    assert data["count"] == 1
    assert data["searched"] == len(set(catalog.built_in_names()) - FINDERS - {"computer"})  # without a display
    (tool,) = data["tools"]
    assert tool["name"] == "stat_file"
    assert tool["description"].startswith("Return a file's type")
    assert tool["inputSchema"]["required"] == ["path"]
    assert tool["inputSchema"]["properties"]["path"]["description"]


@pytest.mark.parametrize("query", ["invoice", "fetch invoice", "ledger", "currency", "fetchInvoice", "convert"])
def test_camel_case_names_descriptions_and_parameters_are_searched(base, query):
    with temporary_runtime(base, tools=[fetchInvoice]) as (runtime, _):
        assert search_names(runtime, query)[0] == "fetchInvoice"


def test_an_exact_name_ranks_first(runtime):
    assert search_names(runtime, "undo")[0] == "undo"
    assert search_names(runtime, "files search_files write_file text")[:2] == ["search_files", "write_file"]


def test_the_limit_sets_the_number_of_results(runtime):
    assert len(search_names(runtime, "file")) == 5
    assert len(search_names(runtime, "file", limit=2)) == 2
    assert len(search_names(runtime, "file", limit=1000)) <= 20


def test_no_match_is_not_an_error(runtime):
    result = runtime.call("tool_search", query="xylophone")

    assert (result.ok, result.data["tools"], result.data["count"]) == (True, [], 0)


@pytest.mark.parametrize(
    "query", ["the of and", "???", '"; DROP TABLE texts; --', "a\0b", "NEAR(a b)", "тест", "日本", "x" * 100_000]
)
def test_unusual_queries_are_not_an_error(runtime, query):
    assert runtime.call("tool_search", query=query).ok


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_is_rejected(runtime, query):
    assert runtime.call("tool_search", query=query).error.code == "invalid_args"


# --- by name ------------------------------------------------------------------------------------------------------


def test_schemas_are_returned_by_name_in_the_order_requested(runtime):
    assert search_names(runtime, "select:write_file, read_file,write_file") == ["write_file", "read_file"]


def test_dialect_names_are_accepted(runtime):
    assert search_names(runtime, "select:Read,tool::file_write") == ["read_file", "write_file"]


def test_an_unknown_name_is_reported_with_the_results_of_the_others(runtime):
    data = runtime.call("tool_search", query="select:read_file,wrte_file,zzzzzz").data

    assert [tool["name"] for tool in data["tools"]] == ["read_file"]
    assert data["missing"] == [{"name": "wrte_file", "nearest": "write_file"}, {"name": "zzzzzz", "nearest": None}]


def test_only_unknown_names_are_an_error_with_suggestions(runtime):
    error = runtime.call("tool_search", query="select:wrte_file").error

    assert (error.code, error.details["nearest"]) == ("unknown_tool", ["write_file"])
    assert "select:write_file" in error.suggestion


@pytest.mark.parametrize("query", ["select:", "select:,,", "select:" + ",".join(f"t{n}" for n in range(51))])
def test_too_few_and_too_many_names_are_rejected(runtime, query):
    assert not runtime.call("tool_search", query=query).ok


# --- hidden tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags, query, name",
    [
        ({"mode": "plan"}, "write_file", "write_file"),
        ({"profile": "nano"}, "apply_patch", "apply_patch"),
        ({"profile": "minimal"}, "undo", "undo"),
        ({"disabledTools": ["Bash"]}, "run_shell", "run_shell"),
        ({"tools.only": ["read_file"]}, "write_file", "write_file"),
    ],
)
def test_hidden_tools_are_not_found(base, flags, query, name):
    with temporary_runtime(base, flags=flags) as (runtime, _):
        assert name not in search_names(runtime, query, limit=20)
        assert name not in search_names(runtime, f"select:read_file,{query}")
        error = runtime.call("tool_search", query=f"select:{query}").error
        assert error is not None
        assert error.code == "unknown_tool"


def test_the_search_tools_do_not_find_themselves(runtime):
    assert not FINDERS & set(search_names(runtime, "tool_search tool_call find tools call", limit=20))


def test_under_a_dialect_its_names_and_schemas_are_found(base):
    with temporary_runtime(base, flags={"dialect": "jcli"}) as (runtime, _):
        data = runtime.call("tool_search", query="read_file", limit=1).data

    assert data["tools"][0]["name"] == "Read"
    assert (
        data["tools"][0]["inputSchema"]["properties"].keys()
        == catalog.dialect("jcli")["Read"].schema["properties"].keys()
    )


def test_definitions_that_do_not_fit_are_listed_by_name(base):
    big = fetchInvoice._replace(description="Ledger " + "x" * 3000)
    tools = [big._replace(name=f"ledger_{number}") for number in range(5)]
    with temporary_runtime(base, tools=tools, flags={"output.overflow_chars": 7000}) as (runtime, _):
        data = runtime.call("tool_search", query="ledger").data

    assert data["count"] == len(data["tools"]) == 2
    assert len(data["left_out"]) == 3
