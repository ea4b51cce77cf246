"""Rules that hold for every row of every dialect."""

from __future__ import annotations

import os
from typing import Any

import jsonschema_rs
import pytest

from hilt import tool
from hilt.call import Call
from hilt.catalog import built_in_names, dialect
from hilt.choices import dialect_names
from hilt.listing import definition
from hilt.schema import cost
from hilt.testing import temporary_runtime
from tests.dialects.rows import CALLS, ROWS, Row
from tests.tools.test_read_file import picture

COST_AVERAGE = 700  # characters of JSON for a tool, as for built-in ones
COST_MAX = 1500

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.dialect}-{row.name}")


def entry(row: Row) -> Any:
    return dialect(row.dialect)[row.name]


def test_every_row_of_every_dialect_has_a_call_here():
    assert {name: list(calls) for name, calls in CALLS.items()} == {
        name: list(dialect(name)) for name in dialect_names() if name != "jinn"
    }


@each_row
def test_a_schema_is_valid_closed_and_described(row):
    schema = entry(row).schema

    jsonschema_rs.meta.validate(schema)
    assert schema["additionalProperties"] is False
    assert all(parameter["description"] for parameter in schema["properties"].values())
    assert set(schema["required"]) <= set(row.args)
    assert entry(row).tool in built_in_names()


@pytest.mark.parametrize("name", CALLS)
def test_the_tool_list_of_a_dialect_is_short(base, name):
    with temporary_runtime(base, flags={"dialect": name}) as (runtime, _):
        costs = {tool.name: cost(definition(tool)) for tool in runtime.parts.authority.listed_tools("s")}

    assert sum(costs.values()) / len(costs) <= COST_AVERAGE
    assert {tool: count for tool, count in costs.items() if count > COST_MAX} == {}


@pytest.fixture(scope="module")
def shared_runtime(tmp_path_factory):
    """A runtime on a workspace, shared by calls that change nothing."""
    with temporary_runtime(str(tmp_path_factory.mktemp("rows"))) as (runtime, folder):
        folder.write("a.txt", "one\n")
        yield runtime


@each_row
def test_invalid_arguments_are_rejected_with_the_names_of_the_dialect(shared_runtime, row):
    unknown = shared_runtime.request(Call(row.name, {**row.args, "colour": "red"}, dialect=row.dialect)).error
    required = entry(row).schema["required"]
    missing = shared_runtime.request(Call(row.name, {}, dialect=row.dialect)).error if required else None

    assert unknown is not None
    assert (unknown.code, "colour is not an argument" in unknown.message) == ("invalid_args", True)
    if missing is not None:
        assert missing.code == "invalid_args"
        assert [name for name in required if f"Missing required argument: {name}" not in missing.message] == []
        assert "list_tools" not in missing.suggestion


@each_row
def test_a_wrong_type_is_rejected(shared_runtime, row):
    for name in row.args:
        error = shared_runtime.request(Call(row.name, {**row.args, name: 1.5}, dialect=row.dialect)).error
        assert (error.code, name in error.message) == ("invalid_args", True)


# --- policy -------------------------------------------------------------------------------------------------------


def rules(base: str, text: str) -> None:
    os.makedirs(os.path.join(base, "config"), exist_ok=True)
    with open(os.path.join(base, "config", "permissions.yaml"), "w", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture(scope="module")
def denying(tmp_path_factory):
    """A runtime whose rules deny every canonical tool that a dialect has."""
    base = str(tmp_path_factory.mktemp("denying"))
    tools = sorted({entry(row).tool for row in ROWS})
    rules(base, "deny:\n" + "".join(f"- {name}\n" for name in tools))
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "one\n")
        folder.write("a.png", picture("PNG"))
        yield runtime, folder


@pytest.mark.starts_processes
@each_row
def test_a_rule_that_denies_a_tool_denies_it_under_every_name(denying, row):
    runtime, folder = denying
    before = folder.tree()

    error = runtime.request(Call(row.name, row.args, dialect=row.dialect)).error

    assert (error.code, folder.tree()) == ("denied", before)
    wrapped = runtime.request(Call("tool_call", {"name": row.name, "arguments": row.args}, dialect=row.dialect)).error
    assert (wrapped.code, folder.tree()) == ("denied", before)


@pytest.mark.parametrize("name", sorted({row.name for row in ROWS}))
def test_a_rule_denies_all_tools_that_have_the_name(base, name):
    rules(base, f"deny: [{name!r}]\n")
    denied = {entry(row).tool for row in ROWS if row.name == name}
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "one\n")
        folder.write("a.png", picture("PNG"))
        for row in ROWS:
            if entry(row).tool in denied:
                error = runtime.request(Call(row.name, row.args, dialect=row.dialect)).error
                assert error is not None, row
                assert error.code == "denied", row
        assert folder.read("a.txt") == "one\n"


def test_tools_that_share_a_dialect_name_have_separate_rules(base):
    rules(base, "deny: [agent]\nallow: [task]\n")
    with temporary_runtime(base) as (runtime, _):
        board = runtime.request(Call("Task", {"action": "list"}, dialect="jcli"))
        task = {"description": "count", "prompt": "Count.", "subagent_type": "general-purpose"}
        agent = runtime.request(Call("Task", task, dialect="claude_code"))

    assert board.ok
    assert agent.error is not None
    assert agent.error.code == "denied"


def test_a_custom_tool_with_the_name_of_a_foreign_one_has_its_own_rules(base):
    @tool
    def shell(text: str) -> str:
        """Shout.

        Args:
            text: What to shout.
        """
        return text.upper()

    rules(base, "allow: ['Bash(echo:*)']\ndeny: [run_shell]\n")
    with temporary_runtime(base, tools=[shell]) as (runtime, _):
        names = runtime.parts.authority.names_of(runtime.parts.catalog.find("shell").tool)
        assert names == {"shell"}
        command = runtime.request(Call("shell", {"command": ["echo"]}, dialect="codex"))
        assert command.error is not None
        assert command.error.code == "denied"


@pytest.mark.parametrize(
    "rule, name, args",
    [
        ("write_file(path:a.txt)", "shell", {"command": ["apply_patch", CALLS["codex"]["apply_patch"]["input"]]}),
        ("run_shell", "shell", {"command": ["apply_patch", CALLS["codex"]["apply_patch"]["input"]]}),
        ("shell_exec", "shell", {"command": ["apply_patch", CALLS["codex"]["apply_patch"]["input"]]}),
        ("MultiEdit(path:a.txt)", "apply_patch", CALLS["codex"]["apply_patch"]),
        ("view_image(path:a.txt)", "view_image", {"path": "a.txt"}),
        ("'shell(/echo 1/)'", "shell", {"command": ["bash", "-lc", "echo 1"]}),
        ("'Bash(echo:*)'", "shell", {"command": ["echo", "1"]}),
    ],
)
def test_rules_on_paths_and_commands_apply_to_the_names_of_codex(base, rule, name, args):
    rules(base, f"deny: [{rule}]\n")
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "one\n")
        error = runtime.request(Call(name, args, dialect="codex")).error

        assert error is not None
        assert error.code == "denied"
        assert folder.tree() == {"a.txt": "one\n"}


@pytest.mark.starts_processes
def test_hooks_see_the_canonical_tool_under_every_name(base):
    os.makedirs(os.path.join(base, "config"), exist_ok=True)
    with open(os.path.join(base, "config", "hooks.yaml"), "w", encoding="utf-8") as file:
        file.write("hooks:\n- {event: pre_tool_execution, match: write_file, command: 'exit 2'}\n")
    with temporary_runtime(base) as (runtime, folder):
        for name in ("claude_code", "jcli", "agentos"):
            for row in ROWS:
                if row.dialect == name and entry(row).tool == "write_file":
                    error = runtime.request(Call(row.name, row.args, dialect=name)).error
                    assert error is not None
                    assert error.code == "hook_blocked"
        assert folder.tree() == {}


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_the_names_of_clashing_dialects_need_the_dialect(runtime, name):
    own = set(dialect(name)) - {tool_name for other in ("jcli", "agentos") for tool_name in dialect(other)}
    for tool_name in own - set(built_in_names()):
        error = runtime.call(tool_name).error
        assert (tool_name, error.code) == (tool_name, "unknown_tool")
