from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.loaders import ProjectFile
from hilt.servers.configured import CALL_SECONDS, SERVERS_MAX, configured, expanded


def trust_all(file: ProjectFile, data: bytes) -> bool:
    return True


def trust_none(file: ProjectFile, data: bytes) -> bool:
    return False


def write(folder, value: object, name: str = ".mcp.json") -> str:
    path = os.path.join(str(folder), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


def test_servers_are_read_from_the_format_of_other_programs(tmp_path):
    path = write(
        tmp_path,
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "cwd": "sub", "timeout": 5000},
                "far": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer t"}},
                "old": {"type": "sse", "url": "http://a.example/sse", "timeout": 7},
                "wind": {"serverUrl": "https://b.example/mcp"},
                "off": {"command": "x", "disabled": True},
                "out": {"command": "x", "enabled": False},
            }
        },
    )

    config = configured(str(tmp_path), {}, trust_all)

    assert config.problems == ()
    files = config.servers["files"]
    assert (files.command, files.args, files.env, files.cwd) == ("npx", ("-y", "x"), {"A": "1"}, "sub")
    assert (files.transport, files.seconds, files.origin, files.source) == ("stdio", 5.0, path, "project")
    assert config.servers["far"].headers == {"Authorization": "Bearer t"}
    assert {name: server.transport for name, server in config.servers.items()} == {
        "files": "stdio", "far": "http", "old": "sse", "wind": "http", "off": "stdio", "out": "stdio"
    }  # fmt: skip
    assert config.servers["old"].seconds == 7.0
    assert config.servers["far"].seconds == CALL_SECONDS
    assert {name for name, server in config.servers.items() if server.disabled} == {"off", "out"}


def test_servers_are_read_from_a_list_in_the_file_of_another_program(tmp_path):
    entries = [{"name": "one", "transport": "stdio", "command": "x"}, {"command": "no name"}]
    write(
        tmp_path,
        {"nanocoder": {"mcpServers": entries}, "mcpServers": {"two": {"url": "http://x"}}},
        "agents.config.json",
    )
    checked = []

    def trusts(file: ProjectFile, data: bytes) -> bool:
        checked.append((file.kind, file.path))
        return True

    config = configured(str(tmp_path), {}, trusts)

    assert sorted(config.servers) == ["one", "two"]
    assert len(config.problems) == 1
    assert checked == [("config", "agents.config.json")]


def test_an_untrusted_file_lists_only_the_names_of_its_servers(tmp_path):
    path = write(tmp_path, {"mcpServers": {"one": {"command": "x"}}})

    config = configured(str(tmp_path), {"own": {"command": "y"}}, trust_none)

    assert sorted(config.servers) == ["own"]
    assert config.untrusted == {path: ("one",)}


def test_a_personal_server_wins_over_a_project_server_of_the_same_name(tmp_path):
    path = write(tmp_path, {"mcpServers": {"one": {"command": "theirs"}}})

    config = configured(str(tmp_path), {"one": {"command": "mine"}}, trust_all)

    assert (config.servers["one"].command, config.servers["one"].source) == ("mine", "personal")
    assert [problem.origin for problem in config.problems] == [path]


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "7", "\x00", "[" * 5000, '{"mcpServers": 3}', '{"mcpServers": {"a": {}, "a": {}}}'),
        *(
            json.dumps({"mcpServers": {"a": entry}})
            for entry in (
                *(1, {"command": 3}, {"command": "x\0y"}, {"command": "x", "args": "y"}, {"command": "x", "args": [1]}),
                *({"command": "x", "env": {"A": 1}}, {"command": "x", "env": {"A=B": "1"}}, {"type": "a", "url": "x"}),
                *({"type": "http", "command": "x"}, {"command": "x", "timeout": -1}, {"command": "x", "timeout": True}),
                *({"command": "x", "readOnly": True}, {"url": "x", "headers": {"a b": "c"}}),
            )
        ),
    ],
)
def test_a_broken_file_is_reported_and_defines_no_server(tmp_path, text):
    write(tmp_path, text)

    config = configured(str(tmp_path), {"own": {"command": "y"}}, trust_all)

    assert sorted(config.servers) == ["own"]
    assert len(config.problems) == 1


def test_one_broken_entry_does_not_affect_the_others(tmp_path):
    write(tmp_path, {"mcpServers": {"bad name": {"command": "x"}, "good": {"command": "x"}}})

    config = configured(str(tmp_path), {}, trust_all)

    assert sorted(config.servers) == ["good"]
    assert len(config.problems) == 1


def test_a_pipe_in_place_of_the_file_does_not_block(tmp_path):
    os.mkfifo(os.path.join(str(tmp_path), ".mcp.json"))

    config = configured(str(tmp_path), {}, trust_all)

    assert config.servers == {}
    assert len(config.problems) == 1


@pytest.mark.parametrize("name", ["a__b", "_a", "a_", "a b", "", "ä", "a" * 33, "a.b", "a/b", "a\n"])
def test_ambiguous_server_names_are_rejected(tmp_path, name):
    config = configured(str(tmp_path), {name: {"command": "x"}}, trust_all)

    assert config.servers == {}
    assert len(config.problems) == 1


@given(st.text(alphabet="ab-_", min_size=1, max_size=6), st.text(alphabet="ab_", min_size=1, max_size=6))
def test_a_name_is_accepted_only_when_no_other_server_can_share_its_prefix(first, second):
    """No tool of a server has a name that begins with the prefix of another server."""
    config = configured("/nonexistent", {first: {"command": "x"}}, trust_all)
    if first in config.servers:
        other = configured("/nonexistent", {second: {"command": "x"}}, trust_all).servers
        if second in other and second != first:
            assert not f"mcp__{first}__".startswith(f"mcp__{second}__")
            assert "__" not in first


def test_the_number_of_servers_is_limited(tmp_path):
    write(tmp_path, {"mcpServers": {f"s{number}": {"command": "x"} for number in range(SERVERS_MAX + 5)}})

    config = configured(str(tmp_path), {}, trust_all)

    assert len(config.servers) == SERVERS_MAX
    assert len(config.problems) == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "hilt", "args": ["mcp"]},
        {"command": "/usr/bin/hilt"},
        {"command": "python", "args": ["-m", "hilt"]},
    ],
)
def test_hilt_does_not_start_itself_as_a_server(tmp_path, entry):
    assert configured(str(tmp_path), {"me": entry}, trust_all).servers["me"].disabled


# --- variables ------------------------------------------------------------------------------------------------------


def test_variables_are_expanded_in_every_field_and_not_stored(tmp_path):
    entry = {
        "command": "${RUN}", "args": ["--key=${KEY}", "${NONE:-some}", "${EMPTY:-other}"],
        "env": {"TOKEN": "${KEY}"}, "cwd": "${HOME}/x",
    }  # fmt: skip
    server = configured(str(tmp_path), {"a": entry}, trust_all).servers["a"]

    expanded_server = expanded(server, {"RUN": "node", "KEY": "secret", "HOME": "/own", "EMPTY": ""})

    assert (expanded_server.command, expanded_server.args) == ("node", ("--key=secret", "some", "other"))
    assert (expanded_server.env, expanded_server.cwd) == ({"TOKEN": "secret"}, "/own/x")
    assert "secret" not in repr(server)


def test_an_expanded_value_is_not_expanded_again(tmp_path):
    server = configured(str(tmp_path), {"a": {"command": "x", "args": ["${A}"]}}, trust_all).servers["a"]

    assert expanded(server, {"A": "${B}", "B": "b"}).args == ("${B}",)


def test_an_unset_variable_is_reported_by_name(tmp_path):
    server = configured(str(tmp_path), {"a": {"command": "x", "args": ["${KEY}"]}}, trust_all).servers["a"]

    with pytest.raises(ToolError) as caught:
        expanded(server, {})

    assert caught.value.code == "tool_invalid"
    assert "KEY" in caught.value.message


@pytest.mark.parametrize(
    "entry",
    [{"url": "${URL}"}, {"url": "file:///etc/passwd"}, {"url": "http://x", "headers": {"A": "${BAD}"}}],
)
def test_an_entry_must_be_valid_after_expansion(tmp_path, entry):
    server = configured(str(tmp_path), {"a": entry}, trust_all).servers["a"]

    with pytest.raises(ToolError) as caught:
        expanded(server, {"URL": "gopher://x", "BAD": "a\r\nHost: evil"})

    assert caught.value.code == "tool_invalid"
