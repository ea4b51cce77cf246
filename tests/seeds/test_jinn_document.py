"""Every call and file in the reference of jinn, on every surface."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

import pytest

from tests.programs import PATH, needs_sandbox, program
from tests.seeds.surfaces import SURFACES, Answer, Step, of_envelope, play
from tests.surfaces.commands import HILT, Command

GO = """\
package main

import "fmt"

func main() {
\tfmt.Println("hello")
\t// old remark
\tvalue := 1
\t_ = value
}
old
"""
KNOWLEDGE = """{
  "related_context": {
    "paths": ["~/notes/agent-kb", "/opt/team/runbooks"]
  }
}
"""


def numbered(first: int, last: int) -> str:
    lines = GO.splitlines()
    return "\n".join(f"{number:>2}\t{lines[number - 1]}" for number in range(first, last + 1))


def names(answer: Answer) -> set[str]:
    return {entry["name"] for entry in answer.data["tools"]}


# the lines as printed, each with its expected answer; those that change a file come last
LINES: list[tuple[str, Any]] = [
    ("""echo '{"tool":"read_file","args":{"path":"main.go"}}' | jinn""", numbered(1, 11)),
    ("""echo '{"tool":"read_file","args":{"path":"main.go","start_line":10,"end_line":20}}' | jinn""", numbered(10, 11)),  # noqa: E501
    ("""echo '{"tool":"read_file","args":{"path":"main.go","tail":5}}' | jinn""", numbered(7, 11)),
    ("""echo '{"tool":"multi_read","args":{"files":[{"path":"main.go"},{"path":"go.mod"}]}}' | jinn""", lambda a: (list(a.data["files"]), a.data["errors"]) == (["main.go", "go.mod"], {})),  # noqa: E501
    ("""echo '{"tool":"multi_read","args":{"files":[{"path":"main.go","start_line":1,"end_line":10},{"path":"go.mod","tail":5}]}}' | jinn""", lambda a: list(a.data["files"]) == ["main.go", "go.mod"]),  # noqa: E501
    ("""echo '{"tool":"multi_read","args":{"files":[{"path":"main.go"},{"path":"nonexistent.go"}]}}' | jinn""", lambda a: list(a.data["errors"]) == ["nonexistent.go"]),  # noqa: E501
    ("""echo '{"tool":"search_files","args":{"pattern":"func main"}}' | jinn""", "main.go:5:func main() {"),
    ("""echo '{"tool":"search_files","args":{"pattern":"func \\\\w+Handler","format":"json","include":"*.go"}}' | jinn""", lambda a: [item["file"] for item in a.data["results"]] == ["internal/serve.go"]),  # noqa: E501
    ("""echo '{"tool":"search_files","args":{"pattern":"TODO","format":"filenames"}}' | jinn""", "internal/serve.go:1"),
    ("""echo '{"tool":"find_files","args":{"pattern":"*.go","path":"internal"}}' | jinn""", lambda a: a.data["files"] == ["internal/serve.go"]),  # noqa: E501
    ("""echo '{"tool":"search_replace","args":{"pattern":"oldName","replacement":"newName","files":"*.go","dry_run":true}}' | jinn""", lambda a: "newName" in a.text),  # noqa: E501
    ("""echo '{"tool":"stat_file","args":{"path":"main.go"}}' | jinn""", lambda a: (a.data["type"], a.data["size"], a.data["lines"]) == ("file", len(GO), 11)),  # noqa: E501
    ("""echo '{"tool":"list_dir","args":{"path":".","depth":2}}' | jinn""", lambda a: {"main.go", "internal/", "internal/serve.go"} <= set(a.data["entries"])),  # noqa: E501
    ("""echo '{"tool":"list_tools","args":{}}' | jinn""", lambda a: {json.loads(line.split("'")[1])["tool"] for line, _ in LINES} <= names(a)),  # noqa: E501
    ("""echo '{"tool":"checksum_tree","args":{"path":"."}}' | jinn""", lambda a: "main.go" in a.text),
    ("""echo '{"tool":"checksum_tree","args":{"path":".","pattern":"*.go"}}' | jinn""", lambda a: "main.go" in a.text and "go.mod" not in a.text),  # noqa: E501
    ("""echo '{"tool":"detect_project","args":{"path":"."}}' | jinn""", lambda a: (a.data["languages"], a.data["test_command"]) == (["Go"], "go test ./...")),  # noqa: E501
    ("""echo '{"tool":"related_context","args":{"query":"fix goroutine data race","types":["kb","skill"]}}' | jinn""", lambda a: "races.md" in a.text),  # noqa: E501
    ("""echo '{"tool":"memory","args":{"action":"save","key":"project.notes","value":"auth service uses JWT RS256"}}' | jinn""", "saved: project.notes"),  # noqa: E501
    ("""echo '{"tool":"memory","args":{"action":"save","key":"db.host","value":"localhost"}}' | jinn""", "saved: db.host"),  # noqa: E501
    ("""echo '{"tool":"memory","args":{"action":"list"}}' | jinn""", lambda a: (a.data["keys"], a.data["count"]) == (["db.host", "project.notes"], 2)),  # noqa: E501
    ("""echo '{"tool":"memory","args":{"action":"forget","key":"db.host"}}' | jinn""", "forgotten: db.host"),
    ("""echo '{"tool":"apply_patch","args":{"patch":"*** Begin Patch\\n*** Update File: main.go\\n@@\\n-old\\n+new\\n*** End Patch"}}' | jinn""", lambda a: "main.go" in a.text),  # noqa: E501
    ("""echo '{"tool":"edit_file","args":{"path":"main.go","old_text":"fmt.Println","new_text":"log.Println"}}' | jinn""", "edited main.go: lines 6-6 (1 line) replaced with 1 line"),  # noqa: E501
    ("""echo '{"tool":"edit_file","args":{"path":"main.go","old_text":"old","new_text":"new","show_context":2}}' | jinn""", lambda a: "\n7*| \t// new remark\n" in a.text),  # noqa: E501
    ("""echo '{"tool":"edit_file","args":{"path":"config.yaml","old_text":"port: 8080","new_text":"port: 9090","dry_run":true}}' | jinn""", "--- a/config.yaml\n+++ b/config.yaml\n@@ -1,2 +1,2 @@\n host: localhost\n-port: 8080\n+port: 9090\n"),  # noqa: E501
    ("""echo '{"tool":"multi_edit","args":{"edits":[{"path":"a.go","old_text":"foo","new_text":"bar"},{"path":"b.go","old_text":"baz","new_text":"qux"}]}}' | jinn""", lambda a: a.text.startswith("applied 2 edits:")),  # noqa: E501
    ("""echo '{"tool":"write_file","args":{"path":"hello.txt","content":"new content\\n","dry_run":true}}' | jinn""", "[dry-run] would create hello.txt (12 bytes)"),  # noqa: E501
    ("""echo '{"tool":"write_file","args":{"path":"hello.txt","content":"Hello, world.\\n"}}' | jinn""", "wrote 14 bytes to hello.txt"),  # noqa: E501
    ("""echo '{"tool":"undo","args":{"action":"list"}}' | jinn""", lambda a: {"id", "path", "timestamp", "operation"} <= set(a.data["snapshots"][0])),  # noqa: E501
    ("""echo '{"tool":"undo","args":{"action":"restore","id":"a1b2c3"}}' | jinn""", lambda a: a.code == "not_found"),
    ("""echo '{"tool":"run_shell","args":{"command":"go test ./..."}}' | jinn""", "[exit: 0]\ngo test ./...\n[classification: success — exit status 0]"),  # noqa: E501
    ("""echo '{"tool":"run_shell","args":{"command":"go build ./...","timeout":120}}' | jinn""", "[exit: 0]\ngo build ./...\n[classification: success — exit status 0]"),  # noqa: E501
    ("""echo '{"tool":"run_shell","args":{"command":"rm -rf /tmp/test","dry_run":true}}' | jinn""", lambda a: a.text.startswith("[dry-run] would execute: rm -rf /tmp/test\n")),  # noqa: E501
]  # fmt: skip
LSP = [
    ("""echo '{"tool":"lsp_query","args":{"action":"hover","path":"main.go","line":12,"character":5}}' | jinn""", lambda a: "var answer string" in a.text),  # noqa: E501
    ("""echo '{"tool":"lsp_query","args":{"action":"definition","path":"cmd/jinn/main.go","line":15,"character":12}}' | jinn""", "cmd/jinn/main.go:6:6"),  # noqa: E501
    ("""echo '{"tool":"lsp_query","args":{"action":"symbols","path":"internal/jinn/engine.go"}}' | jinn""", "Struct Engine (3:6)\n  Field name (3:21)"),  # noqa: E501
]  # fmt: skip
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


def step(line: str, expected: Any) -> Step:
    """Return the call in a line of the document."""
    request = json.loads(line.removeprefix("echo '").removesuffix("' | jinn"))
    return Step(request["tool"], request["args"], expected, fails="a1b2c3" in line)


def project(base: str) -> Command:
    command = Command(base)
    write = command.folder.write
    write("main.go", GO)
    write("go.mod", "module example.com/x\n\ngo 1.22\n")
    write("a.go", "foo\n")
    write("b.go", "baz oldName\n")
    write("config.yaml", "host: localhost\nport: 8080\n")
    write("internal/serve.go", "func userHandler() {} // TODO\n")
    home = os.path.join(base, "home")
    for path, text in {
        ".config/jinn/config.json": KNOWLEDGE,
        "notes/agent-kb/races.md": "# Data races\n\nFix a goroutine data race with a mutex.\n",
    }.items():
        os.makedirs(os.path.dirname(os.path.join(home, path)), exist_ok=True)
        with open(os.path.join(home, path), "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(write("bin/go", '#!/bin/sh\necho "go $*"\n'), 0o755)
    command.environ["PATH"] = os.pathsep.join([command.folder.join("bin"), os.path.dirname(HILT), PATH])
    return command


def check_files(command: Command) -> None:
    folder = command.folder
    assert folder.read("main.go") == GO.replace("old remark", "new remark").replace("fmt.P", "log.P").replace(
        "}\nold\n", "}\nnew\n"
    )
    assert (folder.read("a.go"), folder.read("b.go")) == ("bar\n", "qux oldName\n")
    assert folder.read("hello.txt") == "Hello, world.\n"


@needs_sandbox
@pytest.mark.parametrize("surface", [name for name in SURFACES if name != "one-shot"])
def test_every_line_of_the_reference_works(tmp_path, surface):
    command = project(str(tmp_path))
    with SURFACES[surface](command) as ask:
        play(ask, [step(line, expected) for line, expected in LINES])
        check_files(command)
        last = next(item for item in ask("undo", {"action": "list"}).data["snapshots"] if item["path"] == "a.go")
        assert ask("undo", {"action": "restore", "id": last["id"][:6]}).ok

    assert (command.folder.read("a.go"), command.folder.read("b.go")) == ("foo\n", "baz oldName\n")


@needs_sandbox
def test_the_lines_run_in_a_shell_as_printed(tmp_path):
    command = project(str(tmp_path))
    script = "\n".join(line.replace("| jinn", "| hilt") for line, _ in LINES)

    process = subprocess.run(
        ["bash", "-c", script], cwd=command.folder.path, env=command.environ, capture_output=True, timeout=120
    )

    replies = [json.loads(reply) for reply in process.stdout.splitlines()]
    assert process.stderr == b""
    assert len(replies) == len(LINES)
    for (line, expected), reply in zip(LINES, replies, strict=True):
        assert reply["ok"] or "a1b2c3" in line, reply
        answer = of_envelope(reply)
        assert answer.text == expected if isinstance(expected, str) else expected(answer), (line, reply)
    check_files(command)


@pytest.mark.parametrize("surface", SURFACES)
def test_the_language_server_examples_work(tmp_path, surface):
    program("gopls")
    program("go")
    command = Command(str(tmp_path))
    command.environ["PATH"] = PATH
    for name in ("main.go", "cmd/jinn/main.go"):
        command.folder.write(name, MAIN_GO)
    command.folder.write("internal/jinn/engine.go", "package jinn\n\ntype Engine struct{ name string }\n")

    with SURFACES[surface](command) as ask:
        play(ask, [step(line, expected) for line, expected in LSP])


def test_every_tool_of_the_reference_is_called_here():
    called = {json.loads(re.findall(r"echo '(.*)' \| jinn", line)[0])["tool"] for line, _ in (*LINES, *LSP)}

    assert len(called) == 19  # all tools with an example
