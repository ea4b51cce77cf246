"""Every example call in the documentation of the other systems for files and commands, exactly as printed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from typing import Any

import pytest

from tests.programs import program
from tests.surfaces.commands import HILT, Command
from tests.tools.test_read_file import picture

GO = """\
package main

import "fmt"

func main() {
\tfmt.Println("hello")
\t// old
\tvalue := 1
\t_ = value
}
"""


@pytest.fixture
def command(tmp_path):
    command = Command(str(tmp_path))
    command.environ["PATH"] = os.path.dirname(HILT) + os.pathsep + command.environ["PATH"]
    write = command.folder.write
    write("main.go", GO)
    write("go.mod", "module example.com/x\n\ngo 1.22\n")
    write("a.go", "foo\n")
    write("b.go", "baz\n")
    write("hello.txt", "old content\n")
    write("config.yaml", "host: localhost\nport: 8080\n")
    return command


def shell(command: Command, line: str) -> Any:
    """Run a line of the document in a shell, with jinn called hilt."""
    done = subprocess.run(
        ["bash", "-c", line.replace("| jinn", "| hilt")],
        cwd=command.folder.path,
        env=command.environ,
        capture_output=True,
        timeout=60,
    )
    reply = json.loads(done.stdout)
    assert done.stderr == b""
    assert done.returncode == (0 if reply["ok"] else 1)
    return reply


# --- jinn ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, result",
    [
        (
            """echo '{"tool":"read_file","args":{"path":"main.go"}}' | jinn""",
            "\n".join(f"{number:>2}\t{line}" for number, line in enumerate(GO.splitlines(), 1)),
        ),
        (
            """echo '{"tool":"read_file","args":{"path":"main.go","tail":5}}' | jinn""",
            "\n".join(f"{number:>2}\t{line}" for number, line in enumerate(GO.splitlines(), 1) if number > 5),
        ),
        ("""echo '{"tool":"write_file","args":{"path":"hello.txt","content":"Hello, world.\\n"}}' | jinn""", "wrote 14 bytes to hello.txt"),  # noqa: E501
        (
            """echo '{"tool":"write_file","args":{"path":"hello.txt","content":"new content\\n","dry_run":true}}' | jinn""",  # noqa: E501
            "--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-old content\n+new content\n",
        ),
        (
            """echo '{"tool":"edit_file","args":{"path":"main.go","old_text":"fmt.Println","new_text":"log.Println"}}' | jinn""",  # noqa: E501
            "edited main.go: lines 6-6 (1 line) replaced with 1 line",
        ),
        (
            """echo '{"tool":"edit_file","args":{"path":"main.go","old_text":"old","new_text":"new","show_context":2}}' | jinn""",  # noqa: E501
            "edited main.go: lines 7-7 (1 line) replaced with 1 line\n--- context ---\n"
            '5 | func main() {\n6 | \tfmt.Println("hello")\n7*| \t// new\n8 | \tvalue := 1\n9 | \t_ = value',
        ),
        (
            """echo '{"tool":"edit_file","args":{"path":"config.yaml","old_text":"port: 8080","new_text":"port: 9090","dry_run":true}}' | jinn""",  # noqa: E501
            "--- a/config.yaml\n+++ b/config.yaml\n@@ -1,2 +1,2 @@\n host: localhost\n-port: 8080\n+port: 9090\n",
        ),
        (
            """echo '{"tool":"multi_edit","args":{"edits":[{"path":"a.go","old_text":"foo","new_text":"bar"},{"path":"b.go","old_text":"baz","new_text":"qux"}]}}' | jinn""",  # noqa: E501
            "applied 2 edits:\nedited a.go: lines 1-1 (1 line) replaced with 1 line\n"
            "edited b.go: lines 1-1 (1 line) replaced with 1 line",
        ),
    ],
)  # fmt: skip
def test_a_command_of_the_jinn_reference_answers_as_described(command, line, result):
    reply = shell(command, line)

    assert (reply["ok"], reply["result"]) == (True, result)


def test_jinn_reads_a_window_past_the_end_of_the_file(command):
    line = """echo '{"tool":"read_file","args":{"path":"main.go","start_line":10,"end_line":20}}' | jinn"""

    assert shell(command, line)["result"] == "10\t}"


@pytest.mark.parametrize(
    "line, files, errors",
    [
        ("""echo '{"tool":"multi_read","args":{"files":[{"path":"main.go"},{"path":"go.mod"}]}}' | jinn""", ["main.go", "go.mod"], []),  # noqa: E501
        ("""echo '{"tool":"multi_read","args":{"files":[{"path":"main.go","start_line":1,"end_line":10},{"path":"go.mod","tail":5}]}}' | jinn""", ["main.go", "go.mod"], []),  # noqa: E501
        ("""echo '{"tool":"multi_read","args":{"files":[{"path":"main.go"},{"path":"nonexistent.go"}]}}' | jinn""", ["main.go"], ["nonexistent.go"]),  # noqa: E501
    ],
)  # fmt: skip
def test_jinn_reads_several_files(command, line, files, errors):
    maps = json.loads(shell(command, line)["result"])

    assert (list(maps["files"]), list(maps["errors"]), maps["truncation"]) == (files, errors, {})


def test_jinn_applies_the_patch_of_its_reference(command):
    command.folder.write("main.go", "a\nold\nb\n")
    line = """echo '{"tool":"apply_patch","args":{"patch":"*** Begin Patch\\n*** Update File: main.go\\n@@\\n-old\\n+new\\n*** End Patch"}}' | jinn"""  # noqa: E501

    assert shell(command, line)["ok"]
    assert command.folder.read("main.go") == "a\nnew\nb\n"


def test_jinn_lists_snapshots_and_restores_one_by_id_prefix(command):
    shell(command, """echo '{"tool":"write_file","args":{"path":"hello.txt","content":"Hello, world.\\n"}}' | jinn""")

    listed = json.loads(shell(command, """echo '{"tool":"undo","args":{"action":"list"}}' | jinn""")["result"])
    (snapshot,) = listed["snapshots"]
    line = """echo '{"tool":"undo","args":{"action":"restore","id":"a1b2c3"}}' | jinn"""
    unknown = shell(command, line)
    restored = shell(command, line.replace("a1b2c3", snapshot["id"][:6]))

    assert {"id", "path", "timestamp", "operation"} <= set(snapshot)
    assert (unknown["ok"], unknown["error_code"]) == (False, "not_found")
    assert restored["ok"]
    assert command.folder.read("hello.txt") == "old content\n"


def test_jinn_stats_a_file_and_a_folder(command):
    entry = json.loads(shell(command, """echo '{"tool":"stat_file","args":{"path":"main.go"}}' | jinn""")["result"])
    listed = json.loads(shell(command, """echo '{"tool":"list_dir","args":{"path":".","depth":2}}' | jinn""")["result"])

    assert (entry["path"], entry["type"], entry["size"], entry["lines"]) == ("main.go", "file", len(GO), 10)
    assert listed == {
        "entries": ["a.go", "b.go", "config.yaml", "go.mod", "hello.txt", "main.go"],
        "truncated": False,
        "total_count": 6,
    }


def test_jinn_lists_its_tools(command):
    tools = json.loads(shell(command, """echo '{"tool":"list_tools","args":{}}' | jinn""")["result"])

    names = {tool["name"] for tool in tools["tools"]}
    assert {"read_file", "multi_read", "write_file", "edit_file", "multi_edit", "apply_patch", "undo"} <= names
    assert {"stat_file", "list_dir", "list_tools", "diff_files"} <= names


@pytest.fixture
def programs(command):
    """Stand-ins for the programs in the documents: each prints its arguments or a fixed output."""
    for name, text in {
        "go": 'echo "go $*"',
        "cargo": 'echo "cargo $*"',
        "npm": 'echo "npm $*"; exec sleep 600',
    }.items():
        os.chmod(command.folder.write(f"bin/{name}", f"#!/bin/sh\n{text}\n"), 0o755)
    command.environ["PATH"] = command.folder.join("bin") + os.pathsep + command.environ["PATH"]
    return command


@pytest.mark.parametrize(
    "line, output, seconds",
    [
        ("""echo '{"tool":"run_shell","args":{"command":"go test ./..."}}' | jinn""", "go test ./...", 30),
        ("""echo '{"tool":"run_shell","args":{"command":"go build ./...","timeout":120}}' | jinn""", "go build ./...", 120),  # noqa: E501
    ],
)  # fmt: skip
def test_jinn_runs_the_commands_of_its_reference(programs, line, output, seconds):
    reply = shell(programs, line)

    assert reply["result"] == f"[exit: 0]\n{output}\n[classification: success — exit status 0]"
    assert (reply["risk"], reply["classification"]) == ("caution", "success")
    assert reply["meta"]["timeout_ms"] == seconds * 1000


def test_jinn_previews_a_command_without_running_it(command):
    line = """echo '{"tool":"run_shell","args":{"command":"rm -rf /tmp/test","dry_run":true}}' | jinn"""

    reply = shell(command, line)

    assert reply["result"].startswith("[dry-run] would execute: rm -rf /tmp/test\n")
    assert (reply["ok"], reply["risk"], reply["classification"]) == (True, "dangerous", "success")


@pytest.mark.parametrize("dangerous", ["rm -rf x", "dd if=a of=b", "sudo id"])
def test_jinn_blocks_dangerous_commands_unless_forced(command, dangerous):
    line = f"""echo '{{"tool":"run_shell","args":{{"command":"{dangerous}"}}}}' | jinn"""

    blocked = shell(command, line)
    forced = shell(command, line.replace("}}'", ""","force":true}}'"""))

    assert (blocked["ok"], blocked["error_code"], blocked["risk"]) == (False, "command_blocked", "dangerous")
    assert "force: true" in blocked["suggestion"]
    assert (forced["ok"], forced["risk"]) == (True, "dangerous")


def test_jinn_times_a_command_and_its_children_out_with_124(command):
    reply = shell(
        command, """echo '{"tool":"run_shell","args":{"command":"sleep 600 & sleep 600","timeout":1}}' | jinn"""
    )

    assert (reply["ok"], reply["classification"], reply["meta"]["exit_code"]) == (True, "timeout", 124)
    assert reply["result"].startswith("[exit: 124]\n")


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
        assert command.ask({"tool": "read_file", "args": {"path": "a.go"}, "client": client})[0]["ok"]


MAIN_GO = """\
package main

// greeting is what main prints.
const greeting = "hello"

func greet() string {
\treturn greeting
}



var answer = greet()

func main() {
\tprintln(  greet(), answer)
}
"""


def test_jinn_asks_a_language_server(command):
    program("gopls")
    program("go")
    for name in ("main.go", "cmd/jinn/main.go"):
        command.folder.write(name, MAIN_GO)
    command.folder.write("internal/jinn/engine.go", "package jinn\n\ntype Engine struct{ name string }\n")

    hover, definition, symbols = (
        shell(command, f'echo \'{{"tool":"lsp_query","args":{args}}}\' | jinn')
        for args in (
            '{"action":"hover","path":"main.go","line":12,"character":5}',
            '{"action":"definition","path":"cmd/jinn/main.go","line":15,"character":12}',
            '{"action":"symbols","path":"internal/jinn/engine.go"}',
        )
    )

    assert "var answer string" in hover["result"]
    assert definition["result"] == "cmd/jinn/main.go:6:6"
    assert symbols["result"] == "Struct Engine (3:6)\n  Field name (3:21)"


# --- j-cli --------------------------------------------------------------------------------------------------------


@pytest.fixture
def rust(command):
    command.folder.write("src/main.rs", "fn main() {}\n")
    command.folder.write("screenshot.png", picture("PNG"))
    command.folder.write("large.log", "".join(f"entry {number}\n" for number in range(1, 301)))
    return command


def jcli(command: Command, tool: str, arguments: str) -> Any:
    """Send arguments as the j-cli document prints them, in every way to select a dialect."""
    request = {"tool": tool, "args": json.loads(arguments)}
    (reply,) = command.ask(request)
    return reply


def test_jcli_reads_a_file(rust):
    assert jcli(rust, "Read", """{"path": "src/main.rs"}""")["result"] == "1\tfn main() {}"


def test_jcli_reads_a_picture(rust):
    reply = jcli(rust, "Read", """{"path": "screenshot.png"}""")

    assert reply["content"] == [
        {"type": "image", "data": base64.b64encode(picture("PNG")).decode(), "mimeType": "image/png"}
    ]


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


def test_jcli_builds(programs):
    reply = jcli(programs, "Bash", """{"command": "cargo build --release", "timeout": 300}""")

    assert reply["result"] == "[exit: 0]\ncargo build --release\n[classification: success — exit status 0]"
    assert reply["meta"]["timeout_ms"] == 300_000


def test_jcli_runs_a_command_in_the_background_and_polls_it(programs):
    programs.environ["HILT_RESIDENT"] = "auto"
    try:
        started = jcli(programs, "Bash", """{"command": "npm run dev", "run_in_background": true}""")
        task = json.loads(started["result"])
        asked = {"task_id": task["task_id"], "block": True, "timeout": 1000}
        running = json.loads(jcli(programs, "TaskOutput", json.dumps(asked))["result"])
        stopped = jcli(programs, "job_stop", json.dumps(task))
        ended = json.loads(jcli(programs, "TaskOutput", json.dumps(task))["result"])
    finally:
        programs.run("resident", "stop")

    assert list(task) == ["task_id"]
    assert running == {"status": "running", "exit_code": None, "output": "npm run dev\n"}
    assert stopped["ok"]
    assert (ended["status"], ended["output"]) == ("stopped", "npm run dev\n")


def test_jcli_manages_tasks(rust):
    created = jcli(
        rust,
        "Task",
        """{"action": "create", "title": "Implement user auth", "description": "Add login/register functionality"}""",
    )
    listed = jcli(rust, "Task", """{"action": "list", "ready": true}""")
    updated = jcli(rust, "Task", """{"action": "update", "taskId": 1, "status": "in_progress"}""")
    none_ready = jcli(rust, "Task", """{"action": "list", "ready": true}""")
    read = jcli(rust, "Task", """{"action": "get", "taskId": "1"}""")

    task = json.loads(created["result"])["task"]
    assert (task["id"], task["status"], task["description"]) == (1, "pending", "Add login/register functionality")
    assert [item["id"] for item in json.loads(listed["result"])["tasks"]] == [1]
    assert json.loads(updated["result"])["task"]["status"] == "in_progress"
    assert json.loads(none_ready["result"])["tasks"] == []
    assert json.loads(read["result"])["task"]["title"] == "Implement user auth"
    assert jcli(rust, "Task", """{"action": "create"}""")["error_code"] == "invalid_args"
    assert jcli(rust, "Task", """{"action": "get"}""")["error_code"] == "invalid_args"


def test_jcli_keeps_a_todo_list_with_one_item_in_progress(rust):
    todos = [
        {"id": "1", "content": "Read", "status": "in_progress"},
        {"id": 2, "content": "Fix", "status": "pending"},
    ]
    written = jcli(rust, "TodoWrite", json.dumps({"todos": todos}))
    refused = jcli(rust, "TodoWrite", """{"todos": [{"id": "2", "status": "in_progress"}], "merge": true}""")
    read = jcli(rust, "TodoRead", "{}")

    assert written["result"] == read["result"]
    assert json.loads(read["result"])["todos"] == todos
    assert (refused["ok"], refused["error_code"]) == (False, "invalid_args")
    assert written["visualization"]["type"] == "todo-list"


# --- agentos ------------------------------------------------------------------------------------------------------


def trigger(command: Command, tool: str, arguments: Any) -> Any:
    (reply,) = command.ask({"tool": tool, "args": arguments})
    assert reply["ok"], reply
    return json.loads(reply["result"])


def test_agentos_reads_with_a_limit(command):
    command.folder.write("src/config.ts", "export const x = 1;\n" * 1000)

    result = trigger(command, "tool::file_read", {"path": "src/config.ts", "maxBytes": 10000})

    assert len(result["content"]) == 10000
    assert result["size"] == 20000
    assert result["path"] == os.path.realpath(command.folder.join("src/config.ts"))


def test_agentos_writes(command):
    content = json.dumps({"status": "success"}, indent=2)

    result = trigger(command, "tool::file_write", {"path": "output/result.json", "content": content})

    path = os.path.realpath(command.folder.join("output/result.json"))
    assert result == {"written": True, "path": path, "size": len(content)}
    assert command.folder.read("output/result.json") == content


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


def test_agentos_applies_the_patch_of_its_page(command):
    command.folder.write("src/version.ts", 'const version = "1.0.0";\nexport { version };\n')
    patch = '@@ -1,3 +1,3 @@\n-const version = "1.0.0";\n+const version = "1.1.0";\n'

    result = trigger(command, "tool::apply_patch", {"path": "src/version.ts", "patch": patch})

    assert result == {"patched": True, "path": os.path.realpath(command.folder.join("src/version.ts"))}
    assert command.folder.read("src/version.ts") == 'const version = "1.1.0";\nexport { version };\n'


def test_agentos_confines_paths_to_the_workspace_root(command, tmp_path):
    (tmp_path / "other").mkdir()
    command.environ["WORKSPACE_ROOT"] = str(tmp_path / "other")

    (reply,) = command.ask({"tool": "tool::file_read", "args": {"path": "../workspace/main.go"}})
    trigger(command, "tool::file_write", {"path": "x.txt", "content": "x"})

    assert reply["error_code"] == "path_outside_workspace"
    assert (tmp_path / "other" / "x.txt").read_text() == "x"


def test_agentos_runs_git_in_a_project(command):
    command.folder.write("my-project/new.txt", "")
    subprocess.run(["git", "init", "-q", command.folder.join("my-project")], check=True)

    result = trigger(command, "tool::shell_exec", {"argv": ["git", "status", "--short"], "cwd": "my-project"})

    assert result == {"stdout": "?? new.txt\n", "stderr": "", "exitCode": 0}


def test_agentos_limits_both_streams(command):
    code = "import sys; sys.stdout.write('o' * 200_000); sys.stderr.write('e' * 200_000)"

    result = trigger(command, "tool::shell_exec", {"argv": ["python3", "-c", code]})

    assert (len(result["stdout"]), len(result["stderr"]), result["exitCode"]) == (100 * 1024, 50 * 1024, 0)
    assert result["truncated"] is True


@pytest.mark.parametrize(
    "arguments, code",
    [
        ({"argv": ["bash", "-c", "id"]}, "command_blocked"),
        ({"argv": ["ls"], "cwd": "../.."}, "path_outside_workspace"),
        ({"argv": []}, "invalid_args"),
        ({"cwd": "."}, "invalid_args"),
    ],
)
def test_agentos_refuses_other_programs_and_places(command, arguments, code):
    (reply,) = command.ask({"tool": "tool::shell_exec", "args": arguments})

    assert (reply["ok"], reply["error_code"]) == (False, code)
