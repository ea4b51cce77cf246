"""Large sets of tools over MCP: search, calls by name, lean lists."""

from __future__ import annotations

import json
import os
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from hilt.surfaces.cli.ancestry import hilt_above
from tests.surfaces.commands import HILT
from tests.surfaces.mcp.hosts import ALL, STDIO_NEW, connected, run, text_of

each_way = pytest.mark.parametrize("kind", ALL, ids="-".join)


@each_way
def test_a_tool_is_found_and_called(command, kind):
    async def test() -> None:
        async with connected(command, kind, "--search") as client:
            listed = (await client.list_tools()).tools
            result = await client.call_tool("tool_search", {"query": "write a whole file", "limit": 1})
            (match,) = (result.structured_content or {})["tools"]
            arguments = {"path": "a.txt", "content": "hi\n"}
            done = await client.call_tool("tool_call", {"name": match["name"], "arguments": arguments})
            invalid = await client.call_tool("tool_call", {"name": match["name"], "arguments": {"pth": "a.txt"}})
            unknown = await client.call_tool("tool_call", {"name": "write_fil"})
            none = await client.call_tool("tool_search", {"query": "select:write_fil"})

        assert [tool.name for tool in listed] == ["tool_call", "tool_search"]
        assert "write_file" in str(listed[1].description)
        assert [tool.annotations.read_only_hint for tool in listed if tool.annotations] == [False, True]
        assert match["inputSchema"]["required"] == ["path", "content"]
        assert text_of(done) == "wrote 3 bytes to a.txt"
        assert invalid.is_error
        assert text_of(invalid).startswith("invalid_args: ")
        assert "did you mean path?" in text_of(invalid)
        assert unknown.is_error
        assert none.is_error
        assert all("write_file" in text_of(reply) for reply in (unknown, none))

    run(test())
    assert command.folder.tree() == {"a.txt": "hi\n"}


@each_way
def test_the_user_approves_the_named_tool(command, kind):
    os.makedirs(command.environ["HILT_CONFIG_DIR"])
    with open(os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml"), "w", encoding="utf-8") as file:
        file.write("permissions:\n  ask: [Write]\n")
    forms: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params)
        return types.ElicitResult(action="accept", content={"decision": "once"})

    async def test() -> None:
        async with connected(command, kind, "--search", elicitation_callback=elicit) as client:
            wrapped = {"name": "write_file", "arguments": {"path": "a.txt", "content": "hi\n"}}
            done = await client.call_tool("tool_call", wrapped)
        assert text_of(done) == "wrote 3 bytes to a.txt"

    run(test())
    assert len(forms) == 1
    assert "write_file wants to change files" in forms[0].message


def test_a_lean_list_describes_tools_and_not_parameters(command):
    async def test() -> None:
        lists = []
        for flags in ((), ("--lean",)):
            async with connected(command, STDIO_NEW, *flags) as client:
                lists.append({tool.name: tool for tool in (await client.list_tools()).tools})
        full, lean = lists

        assert lean.keys() == full.keys()
        assert lean["read_file"].description == full["read_file"].description
        assert "description" in full["read_file"].input_schema["properties"]["path"]
        assert "description" not in lean["read_file"].input_schema["properties"]["path"]

    run(test())


@pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")
@pytest.mark.parametrize("host", ["claude", "kiro", "opencode"])
def test_an_installed_entry_starts_a_server(command, host, tmp_path):
    command.folder.write("a.txt", "x\n")
    done = command.run("mcp", "install", host, "--project", "--yes", "--tools", "Read")
    assert done.returncode == 0
    path = {"claude": ".mcp.json", "kiro": ".kiro/settings/mcp.json", "opencode": "opencode.json"}[host]
    (servers,) = json.loads(command.folder.read(path)).values()
    entry = servers["hilt"]
    line = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    # a host that passes the folder of a server starts it in any folder
    folder = str(tmp_path) if host == "kiro" else command.folder.path

    async def test() -> None:
        # the entry of a project starts hilt from PATH
        environ = {**command.environ, "PATH": f"{os.path.dirname(HILT)}:{command.environ['PATH']}"}
        server = StdioServerParameters(command=line[0], args=line[1:], env=environ, cwd=folder)
        async with Client(stdio_client(server)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["read_file"]
            assert text_of(await client.call_tool("read_file", {"path": "a.txt"})) == "1\tx"

    run(test())
