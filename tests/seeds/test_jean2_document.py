"""Every file and sample on the page of Jean2 about writing tools, on every surface."""

from __future__ import annotations

import json
import os

import pytest

from tests.custom.test_folder_tools import WORD_COUNT, WORD_COUNT_SCRIPT
from tests.programs import PATH, program
from tests.seeds.surfaces import SURFACES
from tests.surfaces.commands import Command

# as printed, with the lost indentation restored
MY_TOOL = """\
---
name: my-tool
script: script.ts
runtime: bun
timeout: 30000
requireApproval: false
dangerous: false
hasSecurityCheck: false
inputSchema:
  type: object
  properties:
    path:
      type: string
      description: "The file path to process"
  required:
    - path
outputSchema:
  type: object
  properties:
    result:
      type: string
    error:
      type: string
---
Human-readable description of what this tool does and when to use it.
"""
ENV = """\
env:
  - MY_TOOL_CACHE_DIR
  - MY_TOOL_TIMEOUT
"""
DOT_ENV = "MY_TOOL_CACHE_DIR=/data/cache\nMY_TOOL_TIMEOUT=30\n"
SCRIPT = """\
const cacheDir = process.env.MY_TOOL_CACHE_DIR;
const timeout = parseInt(process.env.MY_TOOL_TIMEOUT || '30', 10);
const input = JSON.parse(await Bun.stdin.text());
const fields = Object.keys(input).sort().join(' ');
console.log(JSON.stringify(
  input.path === 'gone' ? { "error": "File not found" } : { "result": `${cacheDir} ${timeout} ${fields}` }
));
"""
SECURITY = """\
{
"allowed": true,
"requiresApproval": false,
"permissionType": "file_write",
"permissionKey": "/path/to/file.ts",
"message": "This tool wants to write to file.ts"
}
"""
DIFF = """{
"type": "diff",
"path": "src/index.ts",
"language": "typescript",
"hunks": [
{
"oldStart": 10, "oldLines": 1, "newStart": 10, "newLines": 2,
"changes": [
{ "type": "removed", "content": "old line", "oldLineNumber": 10 },
{ "type": "added", "content": "new line 1", "newLineNumber": 10 },
{ "type": "added", "content": "new line 2", "newLineNumber": 11 }
]
}
],
"additions": 2,
"deletions": 1
}"""
VIEWS = {
    "diff": DIFF,
    "diffs": """{ "type": "diffs", "items": [/* DiffVisualization[], ... */] }""".replace(
        "/* DiffVisualization[], ... */", DIFF
    ),
    "code": """{
"type": "code",
"path": "src/new-file.ts",
"content": "// full file content here...",
"language": "typescript",
"created": true,
"lineCount": 42,
"highlightLines": [10, 11, 12]
}""",
    "file-list": """{
"type": "file-list",
"groups": [
{
"label": "Modified",
"icon": "edit",
"files": [
{ "path": "src/index.ts", "action": "modified" },
{ "path": "src/utils.ts", "action": "modified", "line": 42 }
]
},
{
"label": "Created",
"icon": "plus",
"files": [{ "path": "src/new.ts", "action": "created" }]
}
],
"total": 3
}""",
    "table": """{
"type": "table",
"columns": [
{ "key": "name", "label": "Name" },
{ "key": "status", "label": "Status", "width": "100px" }
],
"rows": [
{ "name": "server", "status": "running" },
{ "name": "database", "status": "stopped" }
],
"totalRows": 2
}""",
    "markdown": r"""{
"type": "markdown",
"content": "# Title\n\nParagraph with **bold** text.",
"sourceUrl": "https://example.com"
}""",
    "shell-output": r"""{
"type": "shell-output",
"command": "npm test",
"stdout": "Tests: 42 passed\n",
"stderr": "",
"exitCode": 0
}""",
    "todo-list": """{
"type": "todo-list",
"items": [
{ "content": "Set up database", "status": "completed", "priority": "high" },
{ "content": "Write API endpoint", "status": "in_progress", "priority": "medium" },
{ "content": "Add tests", "status": "pending", "priority": "low" }
]
}""",
    "none": """{ "type": "none", "message": "Operation completed silently" }""",
}
OUTPUT = r"""{
"content": "Line 1\nLine 2\nLine 3",
"_visualization": {
"type": "code",
"path": "src/index.ts",
"content": "Line 1\nLine 2\nLine 3",
"language": "typescript",
"created": false,
"lineCount": 3
}
}"""


def write_files(folder: str, **files: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(folder, name.replace("__", ".")), "w", encoding="utf-8") as file:
            file.write(text)


@pytest.mark.parametrize("surface", SURFACES)
def test_the_files_of_the_page_run_unchanged(tmp_path, surface):
    program("bun")
    command = Command(str(tmp_path))
    command.environ["PATH"] = PATH
    home = tmp_path / "home/.jean2"
    checked = MY_TOOL.replace("hasSecurityCheck: false", "hasSecurityCheck: true").replace(
        "inputSchema:", f"{ENV}inputSchema:"
    )
    # the JSON of the page is also a valid JavaScript expression
    security = f"console.log(JSON.stringify({SECURITY}));"
    write_files(f"{home}/tools/my-tool", tool__md=checked, script__ts=SCRIPT, security__ts=security)
    write_files(f"{home}/tools/word-count", tool__md=WORD_COUNT, script__ts=WORD_COUNT_SCRIPT)
    write_files(str(home), __env=DOT_ENV)
    views = {name: json.dumps({"shown": name, "_visualization": json.loads(text)}) for name, text in VIEWS.items()}
    fields = {
        "name": "show",
        "script": "script.sh",
        "runtime": "bash",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
    }
    write_files(
        f"{home}/tools/show",
        tool__json=json.dumps(fields),
        script__sh='read -r input; name=${input#*\\"view\\":*\\"}; cat "${0%/*}/${name%%\\"*}.json"\n',
        page__json=OUTPUT,
        **{f"{name}__json": text for name, text in views.items()},
    )
    command.folder.write("a.txt", "one two\nthree\n")

    with SURFACES[surface](command) as ask:
        assert ask("my-tool", {"path": "a"}).data == {"result": "/data/cache 30 path sessionId workspacePath"}
        missing = ask("my-tool", {"path": "gone"})
        assert (missing.ok, missing.code, "File not found" in missing.text) == (False, "tool_failed", True)
        assert ask("word-count", {"path": "a.txt"}).data == {"words": 3, "lines": 3, "characters": 14}
        page = ask("show", {"view": "page"})
        has_views = "mcp" not in surface
        assert page.data == {"content": "Line 1\nLine 2\nLine 3"}
        assert page.view == (json.loads(OUTPUT)["_visualization"] if has_views else None)
        for name, text in VIEWS.items():
            answer = ask("show", {"view": name})
            assert answer.data == {"shown": name}
            assert answer.view == (json.loads(text) if has_views else None)
