from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from hilt.state.trust import Trust
from hilt.surfaces.cli.ancestry import hilt_above
from tests.servers.running import RAW
from tests.surfaces.commands import HILT, Command, forked
from tests.surfaces.terminals import Screen
from tests.trusting import file_at

pytestmark = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")

WORDS = {"type": "object", "properties": {"text": {"type": "string"}}}
ECHO = {"name": "echo", "description": "Say it again.", "inputSchema": WORDS}


class Place:
    """A command whose workspace has one server, and the folder that controls the tools of that server."""

    def __init__(self, command: Command, base: str) -> None:
        self.command = command
        self.folder = os.path.join(base, "server")
        os.makedirs(self.folder)
        self.path = os.path.join(command.folder.path, ".mcp.json")
        entry = {"command": sys.executable, "args": [RAW, self.folder]}
        command.folder.write(".mcp.json", json.dumps({"mcpServers": {"raw": entry}}))
        self.describe(ECHO)

    def describe(self, *tools: dict[str, Any]) -> None:
        with open(os.path.join(self.folder, "tools.json"), "w", encoding="utf-8") as file:
            json.dump(tools, file)

    def trust(self) -> None:
        trust = Trust(self.command.state)
        with open(self.path, "rb") as file:
            trust.trust(file_at(self.path, "servers"), file.read())
        trust.close()

    def starts(self) -> int:
        return len([name for name in os.listdir(self.folder) if name.startswith("started-")])

    def listed(self) -> str:
        done = self.command.run("mcp", "list")
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def call(self, tool: str = "mcp__raw__echo", *, cold: bool = False) -> Any:
        words = ("--mode", "yolo")
        request = json.dumps({"tool": tool, "args": {"text": "hi"}}) + "\n"
        done = self.command.run(line=[HILT, *words] if cold else forked(*words), input=request)
        assert done.stderr == b""
        return json.loads(done.stdout)

    def at_terminal(self, *words: str) -> Screen:
        env = {**self.command.environ, "TERM": "dumb"}
        return Screen([HILT, *words], env=env, cwd=self.command.folder.path)


@pytest.fixture
def place(command, tmp_path) -> Place:
    return Place(command, str(tmp_path))


def test_an_empty_list_says_where_servers_are_configured(command):
    assert b".mcp.json" in command.run("mcp", "list").stdout


def test_the_list_shows_the_state_of_every_server_and_starts_none(place):
    assert "not trusted" in place.listed()
    place.trust()
    assert "not started yet" in place.listed()
    assert place.starts() == 0
    assert place.call(cold=True)["result"] == "hi"
    listing = place.listed()
    assert "raw  1 tool" in listing
    assert "mcp__raw__echo  Say it again." in listing
    assert place.starts() == 1


def test_the_tools_of_a_server_are_listed_with_their_source(place):
    place.trust()
    place.call(cold=True)

    tools = json.loads(place.command.run("tools", "--json").stdout)["tools"]

    assert [tool["source"] for tool in tools if tool["name"] == "mcp__raw__echo"] == ["project"]


def test_an_omitted_tool_is_reported(place):
    place.trust()
    place.describe(ECHO, {"name": "bad"})
    assert place.call()["ok"]

    assert "note: bad: its definition is malformed" in place.listed()
    doctor = place.command.run("doctor").stdout.decode()
    assert "raw: 1 tool, with notes" in doctor
    assert "hilt mcp list" in doctor
    with place.at_terminal("mcp", "trust", "raw") as screen:
        status, output = screen.end()
    assert (status, "note: bad: its definition" in output) == (0, True)


def test_a_server_file_is_trusted_like_other_project_files(place):
    with place.at_terminal("trust", ".mcp.json") as screen:
        screen.expect("(servers)")
        screen.expect("> ")
        screen.type("y\n")
        assert screen.end()[0] == 0

    assert place.call()["result"] == "hi"


def test_changes_are_shown_and_accepted_by_the_user(place):
    place.trust()
    assert place.call()["ok"]
    place.describe({**ECHO, "description": "Say it\u200b twice."}, {**ECHO, "name": "new"})
    assert place.call()["error_code"] == "untrusted"
    assert place.call("mcp__raw__new")["error_code"] == "untrusted"
    listed = place.listed()
    assert "changed, so refused: echo" in listed
    assert "new, so not offered: new" in listed
    with place.at_terminal("mcp", "trust", "raw") as screen:
        output = screen.expect("> ")
        screen.type("y\n")
        status, rest = screen.end()

    assert "Say it\\u{200b} twice." in output
    assert "new: new" in output
    assert (status, "Accepted" in rest) == (0, True)
    assert place.call()["ok"]
    assert place.call("mcp__raw__new")["ok"]
    assert "changed" not in place.listed()


def test_changes_that_the_user_does_not_accept_stay_refused(place):
    place.trust()
    assert place.call()["ok"]
    place.describe({**ECHO, "description": "Other."})
    with place.at_terminal("mcp", "trust", "raw") as screen:
        screen.expect("> ")
        screen.type("n\n")
        assert screen.end()[0] == 1

    assert place.call()["error_code"] == "untrusted"


def test_a_server_may_be_reviewed_before_its_first_use(place):
    place.trust()
    with place.at_terminal("mcp", "trust", "raw") as screen:
        assert "Say it again." in screen.expect("> ")
        screen.type("n\n")
        assert screen.end()[0] == 1
    assert place.call()["error_code"] == "untrusted"
    with place.at_terminal("mcp", "trust", "raw") as screen:
        screen.expect("> ")
        screen.type("y\n")
        assert screen.end()[0] == 0

    assert place.call()["ok"]


def test_a_server_that_has_not_changed_needs_no_answer(place):
    place.trust()
    assert place.call()["ok"]
    with place.at_terminal("mcp", "trust", "raw") as screen:
        status, text = screen.end()

    assert (status, "match their accepted definitions" in text) == (0, True)


def test_a_server_is_accepted_only_by_a_user_at_a_terminal(place):
    place.trust()
    done = place.command.run("mcp", "trust", "raw", input="y\n")

    assert done.returncode == 1
    assert b"person at a terminal" in done.stderr
    assert place.starts() == 0


@pytest.mark.parametrize("trusted, reason", [(False, "not trusted"), (True, "no MCP server nobody")])
def test_an_unknown_server_is_reported(place, trusted, reason):
    if trusted:
        place.trust()
    with place.at_terminal("mcp", "trust", "nobody" if trusted else "raw") as screen:
        status, text = screen.end()

    assert (status, reason in text.replace("\n", " ")) == (1, True), text


def test_doctor_and_config_list_servers_without_their_secrets(command):
    os.makedirs(command.environ["HILT_CONFIG_DIR"], exist_ok=True)
    with open(os.path.join(command.environ["HILT_CONFIG_DIR"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('[mcp.servers.far]\nurl = "https://a.example"\nheaders = {Authorization = "hunter2"}\n')
    output = command.run("doctor").stdout.decode() + command.run("config", "show").stdout.decode()

    assert "far: not started yet" in output
    assert "Authorization" in output
    assert "hunter2" not in output


def test_a_tool_of_a_server_is_listed_and_shown(place):
    place.trust()
    listed = place.command.run("tools", "list").stdout.decode()
    output = place.command.run(line=forked("tools", "show", "mcp__raw__echo")).stdout.decode()

    assert "mcp__raw__echo" in listed
    assert "[MCP server raw] Say it again." in output
    assert "text: string" in output


@pytest.mark.parametrize(
    "schema, expected",
    [
        (True, "a: any"),
        ({"anyOf": [True, {"type": "string"}]}, "a: any or string"),
        ({"anyOf": {"b": 1}, "enum": 7, "description": 5}, "a: any"),
        ({"type": ["string", "null"]}, "a: string or null"),
    ],
)
def test_a_tool_with_any_schema_is_shown_and_called(place, schema, expected):
    place.describe({"name": "odd", "inputSchema": {"type": "object", "properties": {"a": schema}}})
    place.trust()

    done = place.command.run(line=forked("tools", "show", "mcp__raw__odd"))
    called = place.command.run(line=forked("--mode", "yolo", "call", "mcp__raw__odd", "a=x"))

    assert (done.returncode, expected in done.stdout.decode()) == (0, True)
    assert b"Traceback" not in called.stderr


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_host_uses_every_feature_of_a_server_through_hilt(place, era):
    import anyio
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    place.describe(ECHO, {"name": "ask", "inputSchema": {"type": "object"}})
    place.trust()
    asked: list[str] = []

    async def fill_in(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"color": "green"})

    async def talk() -> tuple[list[str], list[Any]]:
        words = ["mcp", "--mode", "yolo"]
        host = StdioServerParameters(command=HILT, args=words, env=place.command.environ, cwd=place.command.folder.path)
        async with Client(host, elicitation_callback=fill_in, mode=era, read_timeout_seconds=60) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            echoed = await client.call_tool("mcp__raw__echo", {"text": "hi"})
            answered = await client.call_tool("mcp__raw__ask", {})
            return names, [*echoed.content, *answered.content]

    names, (echoed, answered) = anyio.run(talk)

    assert {"read_file", "mcp__raw__echo", "mcp__raw__ask"} <= set(names)
    assert echoed.text == "hi"
    assert json.loads(answered.text) == {"action": "accept", "content": {"color": "green"}}
    assert asked == ["The MCP server raw asks: Which color?"]
