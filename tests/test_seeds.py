"""Behaviour that the documents of other systems describe in prose; tests/seeds runs every call in them."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.tools.test_read_file import picture

pytestmark = pytest.mark.starts_processes


@pytest.fixture
def command(tmp_path):
    command = Command(str(tmp_path))
    command.environ["PATH"] = os.path.dirname(HILT) + os.pathsep + command.environ["PATH"]
    command.folder.write("main.go", "package main\n")
    return command


def shell(command: Command, line: str) -> Any:
    """Run a line of the document in a shell, with jinn called hilt."""
    result = subprocess.run(
        ["bash", "-c", line.replace("| jinn", "| hilt")],
        cwd=command.folder.path,
        env=command.environ,
        capture_output=True,
        timeout=60,
    )
    reply = json.loads(result.stdout)
    assert result.stderr == b""
    assert result.returncode == (0 if reply["ok"] else 1)
    return reply


# --- jinn ---------------------------------------------------------------------------------------------------------


@needs_sandbox
@pytest.mark.parametrize("dangerous", ["rm -rf .git", "dd if=a of=b", "sudo id"])
def test_jinn_blocks_dangerous_commands_unless_forced(command, dangerous):
    line = f"""echo '{{"tool":"run_shell","args":{{"command":"{dangerous}"}}}}' | jinn"""

    blocked = shell(command, line)
    forced = shell(command, line.replace("}}'", ""","force":true}}'"""))

    assert (blocked["ok"], blocked["error_code"], blocked["risk"]) == (False, "command_blocked", "dangerous")
    assert "force: true" in blocked["suggestion"]
    assert (forced["ok"], forced["risk"]) == (True, "dangerous")


@needs_sandbox
def test_jinn_times_a_command_and_its_children_out_with_124(command):
    reply = shell(
        command, """echo '{"tool":"run_shell","args":{"command":"sleep 600 & sleep 600","timeout":1}}' | jinn"""
    )

    assert (reply["ok"], reply["classification"], reply["meta"]["exit_code"]) == (True, "timeout", 124)
    assert reply["result"].startswith("[exit: 124]\n")


@needs_sandbox
def test_jinn_scrubs_the_environment_and_spills_long_output(command):
    command.environ["API_TOKEN"] = "t0ken"

    clean = shell(command, """echo '{"tool":"run_shell","args":{"command":"env | grep -c TOKEN"}}' | jinn""")
    long = shell(command, """echo '{"tool":"run_shell","args":{"command":"seq 300000"}}' | jinn""")

    assert clean["result"] == "[exit: 1]\n0\n[classification: expected_nonzero — grep: no line matched]"
    with open(long["meta"]["truncation"]["output_file"], encoding="utf-8") as spill:
        assert spill.read() == "".join(f"{number}\n" for number in range(1, 300_001))
    *_, last, classification, note = long["result"].split("\n")
    assert (last, classification) == ("300000", "[classification: success — exit status 0]")
    assert long["meta"]["truncation"]["output_file"] in note


def test_the_client_field_of_a_request_is_accepted(command):
    for client in ("claude", "codex", "pi"):
        assert command.ask({"tool": "read_file", "args": {"path": "main.go"}, "client": client})[0]["ok"]


# --- j-cli --------------------------------------------------------------------------------------------------------


@pytest.fixture
def rust(command):
    command.folder.write("src/main.rs", "fn main() {}\n")
    command.folder.write("screenshot.png", picture("PNG"))
    command.folder.write("large.log", "".join(f"entry {number}\n" for number in range(1, 301)))
    return command


def jcli(command: Command, tool: str, arguments: str) -> Any:
    """Send arguments as the j-cli document prints them."""
    request = {"tool": tool, "args": json.loads(arguments)}
    (reply,) = command.ask(request)
    return reply


def test_jcli_counts_the_offset_from_zero_and_lines_from_one(rust):
    reply = jcli(rust, "Read", """{"path": "large.log", "offset": 100, "limit": 50}""")

    lines = reply["result"].split("\n")
    assert (lines[0], lines[49]) == ("101\tentry 101", "150\tentry 150")
    assert lines[50] == "[Showing lines 101-150 of 300. Use offset=150 to continue.]"


def test_jcli_writes_and_edits(rust):
    written = jcli(rust, "Write", r"""{"path": "src/new_file.rs", "content": "fn main() {}\n"}""")
    arguments = (
        r"""{"path": "src/main.rs", "old_string": "fn main() {}", "new_string": "fn main() { println!(\"Hello\"); }"}"""
    )
    edited = jcli(rust, "Edit", arguments)
    deleted = jcli(rust, "Edit", """{"path": "src/new_file.rs", "old_string": "fn main() {}"}""")

    assert written["ok"]
    assert edited["ok"]
    assert deleted["ok"]
    assert rust.folder.read("src/main.rs") == 'fn main() { println!("Hello"); }\n'
    assert rust.folder.read("src/new_file.rs") == "\n"


def test_jcli_keeps_a_todo_list_with_one_item_in_progress(rust):
    todos = [
        {"id": "1", "content": "Read", "status": "in_progress"},
        {"id": 2, "content": "Fix", "status": "pending"},
    ]
    written = jcli(rust, "TodoWrite", json.dumps({"todos": todos}))
    rejected = jcli(rust, "TodoWrite", """{"todos": [{"id": "2", "status": "in_progress"}], "merge": true}""")
    read = jcli(rust, "TodoRead", "{}")

    assert written["result"] == read["result"]
    assert json.loads(read["result"])["todos"] == todos
    assert (rejected["ok"], rejected["error_code"]) == (False, "invalid_args")
    assert written["visualization"]["type"] == "todo-list"


# --- agentos ------------------------------------------------------------------------------------------------------


def trigger(command: Command, tool: str, arguments: Any) -> Any:
    (reply,) = command.ask({"tool": tool, "args": arguments})
    assert reply["ok"], reply
    return json.loads(reply["result"])


def test_agentos_lists(command):
    command.folder.write("src/a.ts", "abc")
    command.folder.write("src/.hidden", "")
    command.folder.write("src/sub/b.ts", "")

    flat = trigger(command, "tool::file_list", {"path": "src"})
    deep = trigger(command, "tool::file_list", {"path": "src", "recursive": True})

    assert flat["path"] == os.path.realpath(command.folder.join("src"))
    assert [(entry["name"], entry["type"]) for entry in flat["entries"]] == [
        (".hidden", "file"),
        ("a.ts", "file"),
        ("sub", "directory"),
    ]
    assert flat["entries"][1]["size"] == 3
    assert flat["entries"][1]["modified"].endswith("Z")
    assert [entry["name"] for entry in deep["entries"]] == [".hidden", "a.ts", "sub", "sub/b.ts"]


def test_agentos_confines_paths_to_the_workspace_root(command, tmp_path):
    (tmp_path / "other").mkdir()
    command.environ["WORKSPACE_ROOT"] = str(tmp_path / "other")

    (reply,) = command.ask({"tool": "tool::file_read", "args": {"path": "../workspace/main.go"}})
    trigger(command, "tool::file_write", {"path": "x.txt", "content": "x"})

    assert reply["error_code"] == "path_outside_workspace"
    assert (tmp_path / "other" / "x.txt").read_text() == "x"


@needs_sandbox
def test_agentos_limits_both_streams(command):
    code = "import sys; sys.stdout.write('o' * 200_000); sys.stderr.write('e' * 200_000)"

    result = trigger(command, "tool::shell_exec", {"argv": ["python3", "-c", code]})

    assert (len(result["stdout"]), len(result["stderr"]), result["exitCode"]) == (100 * 1024, 50 * 1024, 0)
    assert result["truncated"] is True


@needs_sandbox
@pytest.mark.parametrize(
    "arguments, code",
    [
        ({"argv": ["bash", "-c", "id"]}, "command_blocked"),
        ({"argv": ["ls"], "cwd": "../.."}, "path_outside_workspace"),
        ({"argv": []}, "invalid_args"),
        ({"cwd": "."}, "invalid_args"),
    ],
)
def test_agentos_rejects_other_programs_and_folders(command, arguments, code):
    (reply,) = command.ask({"tool": "tool::shell_exec", "args": arguments})

    assert (reply["ok"], reply["error_code"]) == (False, code)
