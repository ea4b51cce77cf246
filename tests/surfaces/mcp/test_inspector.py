"""The MCP Inspector as a host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.state.approvals import Approvals
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command, forked
from tests.surfaces.mcp.hosts import WAIT_SECONDS, listening

BIN = os.path.dirname(HILT)
EACH_WAY = pytest.mark.parametrize("transport", ["stdio", "http"])
EACH_ERA = pytest.mark.parametrize("era", ["legacy", "modern"])


class Inspector:
    """The command line of the MCP Inspector, which reconnects for every request."""

    def __init__(self, command: Command, server: Sequence[str], era: str) -> None:
        self._command = command
        self._arguments = ["--format", "json", "-q", "--protocol-era", era, *server]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        path = f"{BIN}{os.pathsep}{self._command.environ['PATH']}"
        return subprocess.Popen(
            [os.path.join(BIN, "mcp-inspector"), "--cli", *self._arguments, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._command.folder.path,
            env={**self._command.environ, "PATH": path},
        )

    def ask(self, method: str, *arguments: str) -> Any:
        """Return the response of the server."""
        with self.start("--method", method, *arguments) as process:
            out, err = process.communicate(timeout=WAIT_SECONDS)
        assert out, err.decode()
        return json.loads(out)["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a call."""
        return self.ask("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))


@contextmanager
def inspector(
    command: Command, transport: str, era: str, *, cold: bool = False, constants: Sequence[str] = ()
) -> Iterator[Inspector]:
    session = ("--session", "inspected")  # the inspector reconnects for every request
    if transport == "stdio":
        # the inspector does not pass on these variables by itself
        environ = [word for name, value in command.environ.items() for word in ("-e", f"{name}={value}")]
        line = [HILT, "mcp", *session] if cold else forked("mcp", *session)
        yield Inspector(command, [*environ, *line], era)
        return
    with listening(command, *session, cold=cold, constants=constants) as address:
        header = ["--header", f"Authorization: Bearer {address.token}"]
        yield Inspector(command, ["--server-url", address.url, "--transport", "http", *header], era)


@EACH_WAY
@EACH_ERA
def test_the_inspector_lists_and_edits(command, transport, era):
    command.folder.write("a.txt", "one\ntwo\n")
    with inspector(command, transport, era) as host:
        names = [tool["name"] for tool in host.ask("tools/list", "--strict")["tools"]]
        edited = host.call("edit_file", path="a.txt", old_text="two", new_text="TWO")

    assert names == sorted(names)
    assert not edited["isError"]
    assert command.folder.read("a.txt") == "one\nTWO\n"


@pytest.mark.parametrize("transport, era", [("stdio", "modern"), ("http", "legacy")])
def test_the_inspector_reads_patches_and_shows_a_failure(command, transport, era):
    command.folder.write("a.txt", "one\ntwo\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+three\n*** End Patch\n"
    with inspector(command, transport, era, cold=transport == "http") as host:
        read = host.call("read_file", path="a.txt")
        patched = host.call("apply_patch", patch=patch)
        failed = host.call("read_file", path="none.txt")

    assert "two" in read["content"][0]["text"]
    assert not patched["isError"]
    assert failed["isError"]
    assert command.folder.read("a.txt") == "one\nthree\n"


@EACH_WAY
def test_the_inspector_waits_for_an_approval(command, transport):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("ask: [Write]\n")
    with inspector(command, transport, "legacy") as host:
        call = ["--tool-name", "write_file", "--tool-args-json", json.dumps({"path": "a.txt", "content": "new\n"})]
        asked = host.ask("tools/call", *call)
        approval = asked["_meta"]["dev.hilt/error"]["details"]["approval"]
        approvals = Approvals(command.state)
        approvals.answer(approval, approved=True, by="test")
        approvals.close()
        done = host.ask("tools/call", *call, "--tool-metadata", f'dev.hilt/approval="{approval}"')

    assert not done["isError"]
    assert command.folder.read("a.txt") == "new\n"


@needs_sandbox
@EACH_WAY
def test_a_command_ends_with_the_inspector(command, transport):
    mark = Mark()
    # a task outlives its client
    constants = ["hilt.surfaces.mcp.calls:AFTER_SECONDS=600"]
    with inspector(command, transport, "modern", cold=transport == "stdio", constants=constants) as host:
        arguments = json.dumps({"command": f"sleep 300; echo {mark.name}", "timeout": 200})
        request = ["--method", "tools/call", "--tool-name", "run_shell", "--tool-args-json", arguments]
        with host.start(*request) as process:
            wait_until(lambda: len(mark.alive()) > 2)  # the inspector and its server have the marker too
            process.kill()
            process.communicate()
        wait_until(lambda: not mark.alive())


@EACH_WAY
def test_the_inspector_calls_a_tool_that_was_added(command, transport):
    with inspector(command, transport, "modern") as host:
        before = [tool["name"] for tool in host.ask("tools/list")["tools"]]
        path = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools", "made.py")
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                "from hilt import tool\n@tool(effects='read')\ndef made() -> dict:\n    'Say.'\n    return {'a': 1}\n"
            )
        after = host.call("made")

    assert "made" not in before
    assert after["structuredContent"] == {"a": 1}
