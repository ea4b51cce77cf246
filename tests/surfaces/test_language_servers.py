"""Language servers through the command: one per workspace in the resident process, shared by all callers."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import Any

import pytest

from tests.lsp.scripted import Bench, processes_of, span
from tests.surfaces.commands import Command
from tests.surfaces.mcp.hosts import Lines
from tests.surfaces.test_resident import gone, pid, wait_until

QUERY = {"action": "definition", "path": "a.lua", "line": 2, "symbol": "x"}
REQUEST = {"tool": "lsp_query", "args": QUERY}


@pytest.fixture
def bench(short) -> Bench:
    bench = Bench(os.path.dirname(short.folder.path))
    bench.folder.write("a.lua", "local x = 1\nreturn x\n")
    bench.script(results={"textDocument/definition": {"uri": bench.uri("a.lua"), "range": span(0, 6, 7)}})
    short.environ["PATH"] = bench.environ["PATH"]
    return bench


def ask(command: Command, *words: str) -> dict[str, Any]:
    [reply] = command.ask(REQUEST, words=words)
    return reply


def test_one_shot_calls_sessions_and_mcp_hosts_share_one_server(short, bench):
    replies = [ask(short), ask(short), ask(short, "stdio")]
    with Lines(short, cold=True) as host:
        reply_to_host = host.ask("tools/call", name="lsp_query", arguments=QUERY)

    assert [reply["result"] for reply in replies] == ["a.lua:1:7"] * 3
    assert reply_to_host["result"]["content"][0]["text"] == "a.lua:1:7"
    assert len(bench.starts()) == 1
    assert b", 1 language server\n" in short.run("resident", "status").stdout


def test_servers_end_with_the_resident_process(short, bench):
    ask(short)
    assert processes_of(bench.programs) != []

    short.run("resident", "stop")

    assert processes_of(bench.programs) == []


def test_servers_end_when_the_resident_process_is_killed(short, bench):
    ask(short)
    resident = pid(short)

    os.kill(resident, signal.SIGKILL)

    wait_until(lambda: gone(resident) and not processes_of(bench.programs))
    assert ask(short)["result"] == "a.lua:1:7"
    assert len(bench.starts()) == 2


def test_without_the_resident_process_a_server_ends_with_its_call(short, bench):
    short.environ["HILT_RESIDENT"] = "off"

    assert [ask(short)["result"], ask(short)["result"]] == ["a.lua:1:7"] * 2

    assert processes_of(bench.programs) == []
    assert len(bench.starts()) == 2
    assert short.run("resident", "status").returncode == 1


def test_progress_reaches_the_client_of_the_call_from_the_resident_process(short, bench):
    def progress(**value: object) -> dict[str, object]:
        params = {"token": 1, "value": value}
        return {"do": "send", "message": {"jsonrpc": "2.0", "method": "$/progress", "params": params}}

    bench.script(
        acts={
            "textDocument/didOpen": [
                progress(kind="begin", title="Indexing", message="7 of 9", percentage=77),
                {"do": "sleep", "seconds": 0.5},
                progress(kind="end"),
            ]
        },
        results={"textDocument/definition": None},
    )
    messages = []
    with Lines(short, cold=True) as host:
        number = host.send("tools/call", name="lsp_query", arguments=QUERY, _meta={"progressToken": "p"})
        while (message := host.read()).get("id") != number:
            messages.append(message)

    texts = [message["params"]["message"] for message in messages if message.get("method") == "notifications/progress"]
    assert [text for text in texts if "Indexing" in text] == ["lua-language-server: Indexing: 7 of 9"]


def test_a_client_that_disconnects_cancels_its_request(short, bench):
    bench.script(mute=["textDocument/hover"], results={"textDocument/definition": None})
    ask(short)
    query = {**QUERY, "action": "hover"}
    with short.start("stdio") as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"tool": "lsp_query", "args": query}).encode() + b"\n")
        process.stdin.flush()
        wait_until(lambda: bench.received("textDocument/hover"))
        process.kill()
        process.communicate()

    wait_until(lambda: bench.received("$/cancelRequest"))
    assert ask(short)["ok"]
    assert len(bench.starts()) == 1


def test_errors_that_a_change_introduced_come_from_the_warm_server_of_another_process(short, bench):
    short.environ["HILT_LSP_AFTER_EDIT"] = "warm"
    broken = {"range": span(1, 7, 8), "severity": 1, "source": "lua", "code": "E1", "message": "y is undefined"}
    old = {"range": span(0, 6, 7), "severity": 1, "message": "always there"}
    publish = {"do": "publish", "items": {"1": [old], "2": [old, broken]}}
    bench.script(
        acts={"textDocument/didOpen": [publish], "textDocument/didChange": [publish]},
        results={"textDocument/definition": None},
    )
    edit = {"tool": "edit_file", "args": {"path": "a.lua", "old_text": "return x", "new_text": "return y"}}
    [cold] = short.ask({"tool": "write_file", "args": {"path": "b.lua", "content": "return y\n"}}, words=("stdio",))
    ask(short)

    [reply] = short.ask(edit, words=("stdio",))

    assert "new_errors" not in cold["meta"]
    assert reply["meta"]["new_errors"] == ["a.lua:2:8 error lua/E1: y is undefined"]
    assert reply["result"].endswith("[errors that this change introduced]\na.lua:2:8 error lua/E1: y is undefined")


def test_a_change_does_not_wait_for_a_resident_process_that_hangs(short):
    short.environ["HILT_LSP_AFTER_EDIT"] = "warm"
    os.makedirs(short.state, mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.path.join(short.state, "resident.sock"))
        listener.listen()

        [reply] = short.ask({"tool": "write_file", "args": {"path": "a.lua", "content": "x\n"}}, words=("stdio",))

    assert reply["ok"]
    assert short.folder.read("a.lua") == "x\n"
    os.unlink(os.path.join(short.state, "resident.sock"))
