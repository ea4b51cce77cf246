"""lsp_query: its results, its changes and its errors, with a scripted server."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hilt.call import Call
from tests.lsp.scripted import Bench, ask, failure, place, span, text
from tests.programs import needs_sandbox

pytestmark = pytest.mark.starts_processes


@pytest.fixture
def bench(tmp_path) -> Bench:
    bench = Bench(str(tmp_path))
    bench.folder.write("a.lua", "local wide = '\U0001d4b3ü' .. name\nreturn name\n")
    bench.folder.write("b.lua", "return name\n")
    bench.script()
    return bench


def location(bench: Bench, name: str, line: int, character: int) -> dict[str, Any]:
    return {"uri": bench.uri(name), "range": {"start": place(line, character), "end": place(line, character + 4)}}


@pytest.mark.parametrize("encoding, sent", [(None, 22), ("utf-16", 22), ("utf-8", 25), ("utf-32", 21)])
def test_columns_count_characters_in_every_position_encoding(bench, encoding, sent):
    capabilities = {"definitionProvider": True} | ({"positionEncoding": encoding} if encoding else {})
    bench.script(capabilities=capabilities, results={"textDocument/definition": location(bench, "a.lua", 0, sent)})
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.lua", line=1, symbol="name")) == "a.lua:1:22"
        assert text(ask(runtime, "definition", "a.lua", line=1, character=22)) == "a.lua:1:22"

    assert [params["position"] for params in bench.received("textDocument/definition")] == [place(0, sent)] * 2


def test_references_are_sorted_and_truncated_at_a_hundred(bench):
    bench.folder.write("c.lua", "name\n" * 150)
    locations = [location(bench, "c.lua", line, 0) for line in reversed(range(150))]
    bench.script(results={"textDocument/references": [*locations, *locations]})
    with bench.runtime() as runtime:
        result = ask(runtime, "references", "a.lua", line=2, symbol="name")

    lines = text(result).splitlines()
    assert lines[:2] == ["c.lua:1:1", "c.lua:2:1"]
    assert lines[-1] == "[truncated: showing 100 of 150]"
    assert len(lines) == 101
    assert (len(result.meta["locations"]), result.meta["total"]) == (100, 150)
    assert bench.received("textDocument/references")[0]["context"] == {"includeDeclaration": True}


def test_symbols_are_shown_as_a_tree_or_as_a_list(bench):
    tree = [
        {"name": "M", "kind": 2, "range": span(0, 0, 9), "selectionRange": span(0, 6, 7), "children": [
            {"name": "run", "kind": 12, "range": span(1, 0, 9), "selectionRange": span(1, 7, 8)},
            {"name": 5, "kind": 12},
        ]},
        {"name": "odd", "kind": 99, "range": span(1, 0, 1)},
    ]  # fmt: skip
    flat = [{"name": "run", "kind": 12, "containerName": "M", "location": location(bench, "a.lua", 1, 7)}]
    with bench.runtime() as runtime:
        bench.script(results={"textDocument/documentSymbol": tree})
        assert text(ask(runtime, "symbols", "a.lua")) == "Module M (1:7)\n  Function run (2:8)\nSymbol odd (2:1)"
        assert text(ask(runtime, "symbols", "a.lua", symbol="M.run")) == "  Function run (2:8)"
        bench.script(results={"textDocument/documentSymbol": flat, "workspace/symbol": flat})
        assert text(ask(runtime, "symbols", "a.lua")) == "Function run (2:8)"
        assert text(ask(runtime, "symbols", ".", symbol="run")) == "Function run a.lua:2:8"
        failure(ask(runtime, "symbols", "."), "invalid_args")
        bench.script(results={"textDocument/documentSymbol": []})
        assert text(ask(runtime, "symbols", "a.lua")) == "no symbols in a.lua"


def test_diagnostics_that_a_server_pushes_are_sorted_by_position(bench):
    items = [
        {"range": span(1, 7, 11), "severity": 2, "source": "lint", "code": 7, "message": "unused\nname"},
        {"range": span(0, 22, 26), "severity": 1, "code": {"value": "E1"}, "message": "undefined"},
        {"range": span(1, 0, 1), "message": "no severity"},
        {"range": "nowhere", "message": "malformed"},
    ]
    bench.script(acts={"textDocument/didOpen": [{"do": "publish", "items": {"*": items}}]})
    with bench.runtime() as runtime:
        result = ask(runtime, "diagnostics", "a.lua")

    assert text(result).splitlines() == [
        "a.lua:1:22 error E1: undefined",
        "a.lua:2:1 error: no severity",
        "a.lua:2:8 warning lint/7: unused name",
    ]
    assert result.meta["counts"] == {"error": 2, "warning": 1}


def test_diagnostics_are_pulled_from_a_server_that_supports_it(bench):
    report = {"kind": "full", "items": [{"range": span(0, 0, 1), "message": "pulled"}]}
    bench.script(
        capabilities={"diagnosticProvider": {"interFileDependencies": True}},
        results={"textDocument/diagnostic": report},
    )
    with bench.runtime() as runtime:
        assert text(ask(runtime, "diagnostics", "a.lua")) == "a.lua:1:1 error: pulled"


def test_diagnostics_of_a_changed_text_are_those_of_its_version(bench):
    def diagnostics(message: str) -> list[dict[str, Any]]:
        return [{"range": span(0, 0, 1), "message": message}]

    publish = {"do": "publish", "items": {"1": diagnostics("first"), "2": diagnostics("second")}}
    bench.script(acts={"textDocument/didOpen": [publish], "textDocument/didChange": [publish]})
    with bench.runtime() as runtime:
        assert text(ask(runtime, "diagnostics", "b.lua")) == "b.lua:1:1 error: first"
        assert text(ask(runtime, "diagnostics", "b.lua")) == "b.lua:1:1 error: first"
        bench.folder.write("b.lua", "return other\n")
        assert text(ask(runtime, "diagnostics", "b.lua")) == "b.lua:1:1 error: second"

    assert len(bench.received("textDocument/didOpen")) == 1
    assert bench.received("textDocument/didChange")[0]["contentChanges"] == [{"text": "return other\n"}]


def test_without_new_diagnostics_the_last_ones_are_reported_with_a_note(bench, monkeypatch):
    monkeypatch.setattr("hilt.lsp.language_server.QUIET_SECONDS", 0.3)
    bench.script(acts={"textDocument/didOpen": [{"do": "publish", "items": {"*": []}}]})
    with bench.runtime() as runtime:
        assert text(ask(runtime, "diagnostics", "b.lua")) == "no diagnostics for b.lua"
        bench.folder.write("b.lua", "return other\n")
        output = text(ask(runtime, "diagnostics", "b.lua"))

    assert output.splitlines()[0] == "no diagnostics for b.lua"
    assert "sent no diagnostics for the current text" in output


def test_changes_on_disk_are_sent_to_the_server(bench):
    bench.script(results={"textDocument/hover": {"contents": "text"}})
    with bench.runtime() as runtime:
        text(ask(runtime, "hover", "b.lua", line=1, symbol="name"))
        text(ask(runtime, "hover", "a.lua", line=2, symbol="name"))
        bench.folder.write("b.lua", "changed\n")
        bench.folder.write("new/c.lua", "created\n")
        bench.folder.write("gone.lua", "")
        os.unlink(bench.folder.join("gone.lua"))
        runtime.call("write_file", path="a.lua", content="return name\n")
        text(ask(runtime, "hover", "a.lua", line=1, symbol="name"))
        os.unlink(bench.folder.join("b.lua"))
        text(ask(runtime, "hover", "a.lua", line=1, symbol="name"))

    first, second = bench.received("workspace/didChangeWatchedFiles")
    changes = {item["uri"]: item["type"] for item in first["changes"]}
    assert changes == {bench.uri("b.lua"): 2, bench.uri("new/c.lua"): 1, bench.uri("a.lua"): 2}
    assert second["changes"] == [{"uri": bench.uri("b.lua"), "type": 3}]
    # the server would ignore the disk for a file that is open
    assert [params["textDocument"]["uri"] for params in bench.received("textDocument/didClose")] == [bench.uri("b.lua")]


# --- positions --------------------------------------------------------------------------------------------------------


def test_a_position_is_required_and_must_exist(bench):
    with bench.runtime() as runtime:
        failure(ask(runtime, "hover", "a.lua"), "invalid_args")
        failure(ask(runtime, "hover", "a.lua", line=1), "invalid_args")
        assert "a.lua has 2 lines, not 9" in failure(ask(runtime, "hover", "a.lua", line=9, character=1), "past_end")
        message = failure(ask(runtime, "hover", "a.lua", line=2, symbol="wide"), "not_found")
        failure(ask(runtime, "rename", "a.lua", line=2, symbol="name"), "invalid_args")
        failure(ask(runtime, "hover", "a.lua", line=2, symbol="name", apply=True), "invalid_args")
        failure(ask(runtime, "hover", "missing.lua", line=2, symbol="name"), "file_not_found")
        bench.folder.write("bin.lua", b"\0\1\2")
        failure(ask(runtime, "symbols", "bin.lua"), "binary_file")

    assert message == "wide is not in line 2 of a.lua: return name"


def test_a_symbol_without_a_line_is_found_in_the_file_then_in_the_workspace_then_by_its_use(bench):
    def symbol(name: str, file: str, line: int, column: int, around: str = "") -> dict[str, Any]:
        return {"name": name, "kind": 12, "containerName": around, "location": location(bench, file, line, column)}

    here = [symbol("name", "a.lua", 1, 0)]
    with bench.runtime() as runtime:
        for symbols in (
            {"textDocument/documentSymbol": here},
            {"workspace/symbol": [symbol("name", "b.lua", 0, 0)]},
            {},
            {"workspace/symbol": [symbol("name", "a.lua", 0, 0), symbol("name", "b.lua", 0, 0)]},
        ):
            bench.script(results={**symbols, "textDocument/hover": {"contents": "text"}})
            text(ask(runtime, "hover", "a.lua", symbol="name"))
        bench.script(results={"textDocument/documentSymbol": [*here, symbol("name", "a.lua", 0, 6)]})
        message = failure(ask(runtime, "hover", "a.lua", symbol="name"), "ambiguous_id")
        bench.script(results={"workspace/symbol": [symbol("f", "b.lua", 0, 0, "A"), symbol("f", "b.lua", 0, 0, "B")]})
        failure(ask(runtime, "hover", "a.lua", symbol="C.f"), "not_found")

    queried = [(params["textDocument"]["uri"], params["position"]) for params in bench.received("textDocument/hover")]
    # the server may report the start of a definition; the query uses the position of the name
    used = (bench.uri("a.lua"), place(0, 22))
    assert queried == [(bench.uri("a.lua"), place(1, 7)), (bench.uri("b.lua"), place(0, 7)), used, used]
    assert "name matches 2 symbols" in message


def test_a_server_that_cannot_search_the_workspace_is_asked_where_the_file_uses_the_symbol(bench):
    capabilities = {"hoverProvider": True, "documentSymbolProvider": True}
    bench.script(capabilities=capabilities, results={"textDocument/hover": {"contents": "text"}})
    with bench.runtime() as runtime:
        assert text(ask(runtime, "hover", "a.lua", symbol="name")) == "text"

    assert bench.received("textDocument/hover")[0]["position"] == place(0, 22)


def test_locations_in_unreadable_files_are_omitted_and_those_outside_are_reported(bench):
    bench.folder.write(".env", "SECRET=1\n")
    bench.folder.write("dir/.env.local", "SECRET=1\n")
    outside = {"uri": "file:///usr/share/lua/5.4/x.lua", "range": span(3, 4, 5)}
    hidden = [location(bench, ".env", 0, 0), location(bench, "dir/.env.local", 0, 2), outside]
    bench.folder.write("binary.lua", b"\0")
    reported = [
        location(bench, "b.lua", 0, 7),
        location(bench, "missing.lua", 0, 0),
        location(bench, "binary.lua", 0, 0),
    ]
    secret = {"name": "other", "kind": 12, "location": location(bench, ".env", 0, 0)}
    bench.script(results={"textDocument/references": [*hidden, *reported], "workspace/symbol": [secret]})
    with bench.runtime() as runtime:
        shown = text(ask(runtime, "references", "a.lua", line=2, symbol="name"))
        assert ".env" not in failure(ask(runtime, "hover", "a.lua", symbol="other"), "not_found")

    assert shown.splitlines() == [
        "/usr/share/lua/5.4/x.lua:4:5",
        "b.lua:1:8",
        "binary.lua:1:1",
        "missing.lua:1:1",
        "[omitted 2 locations in files that tools cannot read]",
    ]


def test_text_from_a_server_cannot_forge_lines(bench):
    outside = {"uri": "file:///x%0Ab.lua:1:1", "range": span(3, 4, 5)}
    symbols = [{"name": "a\nFunction b (1:1)", "kind": 12, "range": span(0, 0, 1)}]
    items = [{"range": span(0, 0, 1), "source": "x\ny", "code": "1\n2", "message": "a\nb"}]
    bench.script(
        results={"textDocument/definition": outside, "textDocument/documentSymbol": symbols},
        acts={"textDocument/didOpen": [{"do": "publish", "items": {"*": items}}]},
    )
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.lua", line=2, symbol="name")) == "/x\\nb.lua:1:1:4:5"
        assert text(ask(runtime, "symbols", "a.lua")) == "Function a Function b (1:1) (1:1)"
        assert text(ask(runtime, "diagnostics", "a.lua")) == "a.lua:1:1 error x y/1 2: a b"


def test_a_file_that_tools_cannot_read_is_not_opened(bench):
    bench.folder.write(".env.lua", "SECRET=1\n")
    with bench.runtime(**{"workspace.sensitive": [".env*"]}) as runtime:
        failure(ask(runtime, "symbols", ".env.lua"), "sensitive_path")
        failure(ask(runtime, "symbols", "../outside.lua"), "path_outside_workspace")

    assert bench.log() == []


# --- rename -----------------------------------------------------------------------------------------------------------


def edit(line: int, start: int, end: int, new: str) -> dict[str, Any]:
    return {"range": span(line, start, end), "newText": new}


def change(bench: Bench, **files: list[dict[str, Any]]) -> dict[str, Any]:
    items = [
        {"textDocument": {"uri": bench.uri(name.replace("_", ".")), "version": None}, "edits": edits}
        for name, edits in files.items()
    ]
    return {"textDocument/rename": {"documentChanges": items}}


def rename(runtime: Any, **args: Any) -> Any:
    return ask(runtime, "rename", "a.lua", line=2, symbol="name", new_name="title", **args)


@pytest.mark.parametrize("form", ["documentChanges", "changes"])
def test_a_rename_is_previewed_as_a_diff_and_applied_as_one_change(bench, form):
    result = change(bench, a_lua=[edit(0, 22, 26, "title"), edit(1, 7, 11, "title")], b_lua=[edit(0, 7, 11, "title")])
    if form == "changes":
        items = result["textDocument/rename"]["documentChanges"]
        result = {"textDocument/rename": {"changes": {item["textDocument"]["uri"]: item["edits"] for item in items}}}
    bench.script(results=result)
    before = bench.folder.tree()
    with bench.runtime() as runtime:
        preview = rename(runtime)
        assert bench.folder.tree() == before
        applied = rename(runtime, apply=True)
        after = bench.folder.tree()
        runtime.call("undo", action="restore", id=applied.meta["undo"])

    assert "-return name\n+return title\n" in text(preview)
    assert text(preview).endswith("[preview: 3 edits in 2 files; pass apply: true to apply it]")
    assert preview.meta["dry_run"] is True
    assert text(applied) == "renamed to title: 3 edits in 2 files\na.lua: 2\nb.lua: 1"
    assert after == {name: (contents or "").replace("name", "title") for name, contents in before.items()}
    assert bench.folder.tree() == before


@pytest.mark.parametrize(
    "target, code",
    [
        ("/etc/hilt-test.lua", "path_outside_workspace"),
        (".env", "sensitive_path"),
        (".hilt/tools/x.lua", "protected_path"),
        ("missing.lua", "stale_file"),
    ],
)
def test_a_rename_that_would_change_a_file_that_tools_cannot_write_changes_nothing(bench, target, code):
    bench.folder.write(".env", "name=1\n")
    bench.folder.write(".hilt/tools/x.lua", "name\n")
    result = change(bench, a_lua=[edit(1, 7, 11, "title")])
    uri = f"file://{target}" if target.startswith("/") else bench.uri(target)
    item = {"textDocument": {"uri": uri, "version": 1}, "edits": [edit(1, 0, 4, "title")]}
    result["textDocument/rename"]["documentChanges"].append(item)
    bench.script(results=result)
    before = bench.folder.tree()
    with bench.runtime() as runtime:
        failure(rename(runtime, apply=True), code)

    assert bench.folder.tree() == before


@pytest.mark.parametrize(
    "edits",
    [
        [edit(1, 7, 11, "title"), edit(1, 9, 11, "title")],
        [edit(99, 0, 4, "title")],
        [{"range": {"start": place(1, 5), "end": place(1, 2)}, "newText": "x"}],
    ],
)
def test_edits_that_do_not_match_the_file_are_rejected(bench, edits):
    bench.script(results=change(bench, b_lua=[edit(0, 7, 11, "title")], a_lua=edits))
    before = bench.folder.tree()
    with bench.runtime() as runtime:
        failure(rename(runtime, apply=True), "stale_file")

    assert bench.folder.tree() == before


def test_file_operations_and_empty_renames_are_rejected(bench):
    moved = {"kind": "rename", "oldUri": bench.uri("a.lua"), "newUri": bench.uri("c.lua")}
    with bench.runtime() as runtime:
        bench.script(results={"textDocument/rename": {"documentChanges": [moved]}})
        failure(rename(runtime, apply=True), "tool_failed")
        bench.script(results={"textDocument/rename": None})
        failure(rename(runtime), "not_found")


def test_encodings_and_line_endings_survive_a_rename(bench):
    bench.folder.write("a.lua", b"\xef\xbb\xbflocal wide = '\xf0\x9d\x92\xb3' .. name\r\nreturn name\r\n")
    bench.script(results=change(bench, a_lua=[edit(0, 21, 25, "title"), edit(1, 7, 11, "title")]))
    with bench.runtime() as runtime:
        text(rename(runtime, apply=True))

    assert bench.folder.bytes("a.lua") == b"\xef\xbb\xbflocal wide = '\xf0\x9d\x92\xb3' .. title\r\nreturn title\r\n"


# --- decisions --------------------------------------------------------------------------------------------------------


def rules(bench: Bench, **lists: str | list[str]) -> None:
    folder = bench.environ["HILT_CONFIG_DIR"]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "permissions.yaml"), "w", encoding="utf-8") as file:
        json.dump({"default": "ask", **lists}, file)


def verdict(runtime: Any, **args: Any) -> str:
    query = {"action": "rename", "path": "a.lua", "line": 2, "symbol": "name", "new_name": "title", **args}
    return str(runtime.explain(Call("lsp_query", query)).decision.verdict)


def test_only_a_rename_that_is_applied_counts_as_writing(bench):
    bench.script(results=change(bench, a_lua=[edit(1, 7, 11, "title")]))
    with bench.runtime(mode="plan") as runtime:
        assert "preview" in text(rename(runtime))
        assert "plan mode" in failure(rename(runtime, apply=True), "denied")
        assert "lsp_query" in [name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)]
    with bench.runtime() as runtime:
        assert (verdict(runtime), verdict(runtime, apply=True)) == ("allow", "allow")
    rules(bench, default="ask", allow=["Read"])
    with bench.runtime() as runtime:
        assert (verdict(runtime), verdict(runtime, apply=True)) == ("allow", "ask")


def test_a_rule_that_denies_a_file_keeps_a_rename_from_changing_any(bench):
    rules(bench, deny=["Edit(path:b.lua)"], allow=["lsp_query"])
    bench.script(results=change(bench, a_lua=[edit(1, 7, 11, "title")], b_lua=[edit(0, 7, 11, "title")]))
    before = bench.folder.tree()
    with bench.runtime() as runtime:
        failure(rename(runtime, apply=True), "approval_required")

    assert bench.folder.tree() == before


@needs_sandbox
def test_a_file_that_a_rule_denies_to_read_is_hidden_from_the_server_too(bench):
    bench.folder.write("b.lua", "hidden\n")
    bench.folder.write(".env", "SECRET=1\n")
    rules(bench, deny=["Read(path:b.lua)"], allow=["Read"])
    tries = {"do": "try", "read": [bench.folder.join("b.lua"), bench.folder.join(".env"), bench.folder.join("a.lua")]}
    tries["write"] = [bench.folder.join("new.lua"), bench.folder.join("a.lua"), "/tmp/scratch"]
    bench.script(
        acts={"textDocument/hover": [tries]},
        results={"textDocument/hover": {"contents": "text"}, "textDocument/definition": location(bench, "b.lua", 0, 1)},
    )
    with bench.runtime() as runtime:
        text(ask(runtime, "hover", "a.lua", line=2, symbol="name"))
        shown = text(ask(runtime, "definition", "a.lua", line=2, symbol="name"))

    report = next(message for message in bench.log() if "outcomes" in message)
    outcomes = {os.path.basename(path): outcome for path, outcome in report["outcomes"].items()}
    assert outcomes == {
        "b.lua": "PermissionError",
        ".env": "PermissionError",
        "a.lua": "OSError",  # the file system is read-only
        "new.lua": "OSError",
        "scratch": "written",
    }
    assert report["network"] != "connected"
    assert "b.lua" not in shown
    started = bench.log()[0]
    assert started["cwd"] == "/"
    assert "HILT_STATE_DIR" not in started["environ"]
