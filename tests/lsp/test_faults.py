"""Faults of servers: they crash, hang, flood and break the protocol; a call ends with an answer or a clear error."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import pytest

from hilt.call import Call
from hilt.lazy import Lazy
from hilt.lsp import answering, pool, server_connection
from hilt.testing import Folder
from tests.lsp.scripted import EVERYTHING, Bench, ask, failure, place, processes_of, span, text
from tests.marks import wait_until


@pytest.fixture
def bench(tmp_path) -> Bench:
    bench = Bench(str(tmp_path))
    bench.folder.write("a.lua", "local x = 1\nreturn x\n")
    return bench


def definition(bench: Bench) -> dict[str, object]:
    return {"uri": bench.uri("a.lua"), "range": span(0, 6, 7)}


def test_a_server_that_crashes_is_restarted_once(bench):
    bench.script(
        results={"textDocument/definition": definition(bench)},
        acts={"textDocument/definition": [{"do": "die", "times": 1}]},
    )
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.lua", line=2, symbol="x")) == "a.lua:1:7"

    assert len(bench.starts()) == 2


def test_a_server_that_crashes_again_is_reported_with_its_output(bench):
    bench.script(acts={"textDocument/definition": [{"do": "die"}]})
    with bench.runtime() as runtime:
        result = ask(runtime, "definition", "a.lua", line=2, symbol="x")

    message = failure(result, "lsp_unavailable")
    assert "twice: it exited with status 7" in message
    assert "the server is dying" in message
    assert len(bench.starts()) == 2


def test_a_server_that_cannot_start_is_tried_twice_and_reported(bench):
    bench.script(acts={"initialize": [{"do": "die"}]})
    with bench.runtime() as runtime:
        result = ask(runtime, "hover", "a.lua", line=2, symbol="x")

    failure(result, "lsp_unavailable")
    assert len(bench.starts()) == 2


def test_a_server_that_does_not_answer_is_stopped_and_the_next_call_starts_another(bench, monkeypatch):
    monkeypatch.setattr(answering, "START_SECONDS", 3.0)
    bench.script(mute=["textDocument/hover"], results={"textDocument/definition": definition(bench)})
    with bench.runtime() as runtime:
        hung = ask(runtime, "hover", "a.lua", line=2, symbol="x")
        after = ask(runtime, "definition", "a.lua", line=2, symbol="x")

    message = failure(hung, "timeout")
    assert "hover" in message
    assert text(after) == "a.lua:1:7"
    assert len(bench.starts()) == 2
    assert bench.received("$/cancelRequest") != []


@pytest.mark.parametrize("hangs_at", ["initialize", "textDocument/hover", "textDocument/documentSymbol"])
def test_a_server_that_hangs_is_stopped(bench, monkeypatch, hangs_at):
    assert pool.INITIALIZE_SECONDS + answering.BEGIN_SECONDS + answering.START_SECONDS < 60
    monkeypatch.setattr(pool, "INITIALIZE_SECONDS", 3.0)
    monkeypatch.setattr(answering, "START_SECONDS", 3.0)
    bench.script(mute=[hangs_at])
    with bench.runtime() as runtime:
        if "Symbol" in hangs_at:
            hung = ask(runtime, "diagnostics", "a.lua")
        else:
            hung = ask(runtime, "hover", "a.lua", line=2, symbol="x")

    failure(hung, "lsp_unavailable" if hangs_at == "initialize" else "timeout")
    assert processes_of(bench.programs) == []


def test_a_server_that_knows_no_pulled_diagnostics_pushes_them(bench):
    item = {"range": span(1, 6, 7), "severity": 1, "message": "pushed"}
    bench.script(
        capabilities={"diagnosticProvider": {}},
        errors={"textDocument/diagnostic": {"code": -32601, "message": "method not found: textDocument/diagnostic"}},
        acts={"textDocument/didOpen": [{"do": "publish", "items": {"*": [item]}}]},
    )
    with bench.runtime() as runtime:
        assert "pushed" in text(ask(runtime, "diagnostics", "a.lua"))
        assert "pushed" in text(ask(runtime, "diagnostics", "a.lua"))
    assert len(bench.received("textDocument/diagnostic")) == 1


@pytest.mark.parametrize("version, is_used", [("7.0.1", True), ("10.0.0-beta", True), ("5.9.3", False), ("x", False)])
def test_typescript_is_its_own_server_from_version_7_on(bench, version, is_used):
    bench.folder.write("a.ts", "const x = 1\n")
    bench.script("typescript-language-server")
    bench.script("node_modules/typescript/bin/tsc", results={"textDocument/hover": {"contents": "a number"}})
    os.symlink("node_modules/typescript/bin/tsc", os.path.join(bench.programs, "tsc"))
    Folder(bench.programs).write("node_modules/typescript/package.json", json.dumps({"version": version}))
    with bench.runtime() as runtime:
        result = ask(runtime, "hover", "a.ts", line=1, symbol="x")

    if is_used:
        assert "a number" in text(result)
        assert [call["args"] for call in bench.log() if "started" in call] == [["--lsp", "--stdio"]]
    else:
        assert "typescript: it" in failure(result, "lsp_unavailable")


@pytest.mark.parametrize(
    "raw, reason",
    [
        ("Content-Length: 5\r\n\r\n{}{}{}{}", "not JSON, or whose length is wrong"),
        ("Content-Length: 99999999999\r\n\r\n{}", "it announced a message of 99999999999 bytes"),
        ("Content-Length: 3\r\n\r\n[1]", "not an object"),
        ("noise\n" * 200_000, "printed too much text that is not a message"),
    ],
)
def test_a_server_that_breaks_the_framing_is_stopped(bench, raw, reason):
    bench.script(acts={"textDocument/hover": [{"do": "raw", "text": raw}]})
    with bench.runtime() as runtime:
        result = ask(runtime, "hover", "a.lua", line=2, symbol="x")

    message = failure(result, "lsp_unavailable")
    assert reason in message


def test_text_on_standard_output_between_messages_is_skipped(bench):
    noise = "Loading the project...\nwarning: deprecated\n\nno end of line"
    bench.script(
        acts={"textDocument/definition": [{"do": "raw", "text": noise}]},
        results={"textDocument/definition": definition(bench)},
    )
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.lua", line=2, symbol="x")) == "a.lua:1:7"

    assert len(bench.starts()) == 1


def test_a_server_that_floods_is_stopped(bench, monkeypatch):
    monkeypatch.setattr(server_connection, "FLOOD_MESSAGES", 2000)
    bench.script(acts={"textDocument/hover": [{"do": "flood"}]})
    with bench.runtime() as runtime:
        result = ask(runtime, "hover", "a.lua", line=2, symbol="x")

    message = failure(result, "lsp_unavailable")
    assert "too many messages" in message


def test_a_server_that_stops_reading_is_stopped(bench, monkeypatch):
    monkeypatch.setattr(server_connection, "WRITE_SECONDS", 0.5)
    monkeypatch.setattr(server_connection, "_CHECK_SECONDS", 0.2)
    bench.folder.write("big.lua", "-- a line of a comment that fills the pipe\n" * 20_000)
    bench.script(acts={"initialized": [{"do": "stop"}]})
    with bench.runtime() as runtime:
        result = ask(runtime, "symbols", "big.lua")

    message = failure(result, "lsp_unavailable")
    assert "it stopped reading its input" in message


def test_a_server_that_uses_too_much_memory_is_stopped(bench):
    bench.script(acts={"textDocument/hover": [{"do": "gobble"}]})
    with bench.runtime(**{"lsp.memory_mb": 200}) as runtime:
        result = ask(runtime, "hover", "a.lua", line=2, symbol="x")

    message = failure(result, "lsp_unavailable")
    assert "lsp.memory_mb" in message


def test_the_requests_of_a_server_are_answered(bench):
    requests: list[tuple[str, Any]] = [
        ("workspace/configuration", {"items": [{"section": "Lua.runtime"}, {"section": "none"}, {}]}),
        ("workspace/workspaceFolders", None),
        ("client/registerCapability", {"registrations": [{"id": "1", "method": "workspace/didChangeWatchedFiles"}]}),
        ("window/workDoneProgress/create", {"token": "t"}),
        ("workspace/applyEdit", {"edit": {}}),
        ("window/showMessageRequest", {"type": 1, "message": "Load plug-ins?", "actions": [{"title": "Yes"}]}),
        ("window/showDocument", {"uri": "https://example.com"}),
        ("workspace/diagnostic/refresh", None),
        ("hilt/unknown", {}),
    ]
    acts = [
        {"do": "send", "message": {"jsonrpc": "2.0", "id": f"q{number}", "method": method, "params": params}}
        for number, (method, params) in enumerate(requests)
    ]
    # the server receives the answers before the next question
    bench.script(acts={"initialized": acts}, results={"textDocument/hover": {"contents": "text"}})
    with bench.runtime() as runtime:
        assert text(ask(runtime, "hover", "a.lua", line=2, symbol="x")) == "text"
        assert text(ask(runtime, "hover", "a.lua", line=2, symbol="x")) == "text"

    answers = {message["id"]: message for message in bench.log() if str(message.get("id")).startswith("q")}
    results = [answers[f"q{number}"].get("result") for number in range(len(requests))]
    settings, folders, _, _, applied, chosen, shown, _, _ = results
    assert settings[:2] == [{"plugin": ""}, None]
    assert "telemetry" in settings[2]["Lua"]
    assert [folder["uri"] for folder in folders] == [bench.uri("").rstrip("/")]
    assert applied["applied"] is False
    assert chosen is None  # nobody said yes
    assert shown == {"success": False}
    assert answers["q8"]["error"]["code"] == -32601


def test_indexing_is_awaited_and_reported(bench):
    def progress(**value: object) -> dict[str, object]:
        return {"jsonrpc": "2.0", "method": "$/progress", "params": {"token": "index", "value": value}}

    acts = [
        {"do": "send", "message": progress(kind="begin", title="Indexing", percentage=0)},
        {"do": "send", "message": progress(kind="report", message="3/9", percentage=33)},
        {"do": "sleep", "seconds": 0.5},
        {"do": "send", "message": progress(kind="end")},
    ]
    bench.script(acts={"textDocument/didOpen": acts}, results={"textDocument/references": [definition(bench)]})
    reports: list[tuple[float, float | None, str]] = []

    class Client:
        can_ask = has_questions = False

        def progress(self, done: float, total: float | None, message: str) -> None:
            reports.append((done, total, message))

    ended = threading.Event()
    with bench.runtime() as runtime:
        call = Call("lsp_query", {"action": "references", "path": "a.lua", "line": 2, "symbol": "x"})
        runtime.submit(call, lambda result: ended.set(), attendant=Client())
        assert ended.wait(60)

    assert (33.0, 100.0, "lua-language-server: Indexing: 3/9") in reports
    assert reports[0][2] == "starting lua-language-server"
    methods = [message.get("method") for message in bench.log()]
    assert methods.index("textDocument/didOpen") < methods.index("textDocument/references")


def test_a_cancelled_call_cancels_its_request_and_keeps_the_server(bench):
    bench.script(mute=["textDocument/hover"], results={"textDocument/definition": definition(bench)})
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.lua", line=2, symbol="x")) == "a.lua:1:7"
        results = []
        ended = threading.Event()

        def collect(result):
            results.append(result)
            ended.set()

        call = Call("lsp_query", {"action": "hover", "path": "a.lua", "line": 2, "symbol": "x"})
        running = runtime.submit(call, collect)
        wait_until(lambda: bench.received("textDocument/hover"))
        running.cancel()
        assert ended.wait(30)
        wait_until(lambda: bench.received("$/cancelRequest"))
        assert text(ask(runtime, "definition", "a.lua", line=2, symbol="x")) == "a.lua:1:7"

    failure(results[0], "cancelled")
    assert len(bench.starts()) == 1


def test_a_request_that_became_stale_is_sent_again(bench):
    bench.script(errors={"textDocument/hover": {"code": -32801, "message": "content modified"}})
    with bench.runtime() as runtime:
        result = ask(runtime, "hover", "a.lua", line=2, symbol="x")

    failure(result, "tool_failed")
    assert len(bench.received("textDocument/hover")) > 1


def test_an_error_of_the_server_is_reported_verbatim(bench):
    bench.script(errors={"textDocument/rename": {"code": -32602, "message": "not a symbol"}})
    with bench.runtime() as runtime:
        result = ask(runtime, "rename", "a.lua", line=1, character=1, new_name="y")

    message = failure(result, "tool_failed")
    assert "not a symbol" in message


def test_a_missing_capability_is_reported(bench):
    capabilities = {name: value for name, value in EVERYTHING.items() if name != "renameProvider"}
    bench.script(capabilities=capabilities)
    with bench.runtime() as runtime:
        result = ask(runtime, "rename", "a.lua", line=1, symbol="x", new_name="y")

    message = failure(result, "lsp_unavailable")
    assert "lua-language-server: it does not support rename" in message


def test_a_missing_server_is_reported_with_its_install_command(bench):
    bench.folder.write("a.go", "package a\n")
    bench.environ["PATH"] = bench.programs
    with bench.runtime() as runtime:
        missing = ask(runtime, "symbols", "a.go")
        other = ask(runtime, "symbols", "../workspace/a.lua")
        bench.folder.write("a.txt", "text\n")
        unsupported = ask(runtime, "symbols", "a.txt")

    failure(missing, "lsp_unavailable")
    assert missing.error is not None
    assert missing.error.suggestion == "Install one: go install golang.org/x/tools/gopls@latest"
    assert "lua-language-server" in failure(other, "lsp_unavailable")
    assert "No language server is known for a.txt" in failure(unsupported, "lsp_unavailable")


def test_servers_stop_with_the_runtime_and_when_they_are_idle(bench):
    bench.script(results={"textDocument/hover": {"contents": "text"}})
    with bench.runtime() as runtime:
        text(ask(runtime, "hover", "a.lua", line=2, symbol="x"))
        assert processes_of(bench.programs) != []
    assert processes_of(bench.programs) == []

    servers = pool.LanguageServers(idle=0.2)
    with bench.runtime() as runtime:
        runtime.parts.lazy["language_servers"] = Lazy(lambda: servers)
        text(ask(runtime, "hover", "a.lua", line=2, symbol="x"))
        deadline = time.monotonic() + 30
        while processes_of(bench.programs) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes_of(bench.programs) == []
        text(ask(runtime, "hover", "a.lua", line=2, symbol="x"))

    assert len(bench.starts()) == 3
    assert "shutdown" in [message.get("method") for message in bench.log()]


def test_calls_at_the_same_time_share_one_server_and_its_crash(bench):
    bench.script(
        results={"textDocument/definition": definition(bench)},
        acts={"textDocument/definition": [{"do": "sleep", "seconds": 0.2}, {"do": "die", "times": 1}]},
    )
    texts: list[str] = []
    with bench.runtime() as runtime:

        def work() -> None:
            texts.append(text(ask(runtime, "definition", "a.lua", line=2, symbol="x")))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert texts == ["a.lua:1:7"] * 8
    assert len(bench.starts()) == 2


def test_results_of_a_server_may_have_any_shape(bench):
    uri = bench.uri("a.lua")
    link = {"targetUri": uri, "targetRange": span(0, 0, 9), "targetSelectionRange": span(0, 6, 7)}
    shapes: list[tuple[Any, str]] = [
        (None, "no definition found for a.lua:2:8"),
        ([], "no definition found for a.lua:2:8"),
        ({"uri": uri, "range": span(0, 6, 7)}, "a.lua:1:7"),
        ([link, link], "a.lua:1:7"),
        ([{"uri": 5}, {"range": 3}, "x", {"uri": uri, "range": {"start": place(-1, 0), "end": {}}}], "no definition"),
        ([{"uri": "jdt://contents/x.class", "range": span(0, 0, 1)}], "no definition"),
    ]
    with bench.runtime() as runtime:
        for result, expected in shapes:
            bench.script(results={"textDocument/definition": result})
            assert text(ask(runtime, "definition", "a.lua", line=2, symbol="x")).startswith(expected)

        hovers: list[tuple[Any, str]] = [
            ({"contents": "plain"}, "plain"),
            ({"contents": {"kind": "markdown", "value": "**bold**"}}, "**bold**"),
            ({"contents": {"language": "lua", "value": "x = 1"}}, "```lua\nx = 1\n```"),
            ({"contents": ["one", {"language": "lua", "value": "two"}, 3]}, "one\n\n```lua\ntwo\n```"),
            ({"contents": []}, "no information about a.lua:2:8"),
        ]
        for result, expected in hovers:
            bench.script(results={"textDocument/hover": result})
            assert text(ask(runtime, "hover", "a.lua", line=2, symbol="x")) == expected
