"""Structured results match the schemas of their tools, and the schemas require every field that is always present."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from hilt.formats.digests import sha256
from hilt.policy.hook_protocol import PRE
from hilt.runtime import Runtime
from hilt.schema import structured, structured_schema
from hilt.testing import Folder, environment
from tests.programs import needs_sandbox
from tests.tools.person import approved
from tests.web.servers import answer, serving

pytestmark = needs_sandbox

PYTHON = "x = 1\ny = 2\n"

# the calls of each tool; JOB is a finished background job, TERMINAL a running one
CALLS: dict[str, list[dict[str, Any]]] = {
    "agent": [{"prompt": "x"}, {"prompt": "x", "run_in_background": True}],
    "agent_list": [{}],
    "agent_receive": [{"agentId": "b"}],
    "agent_send": [{"agentId": "a", "targetAgentId": "b", "message": "x"}],
    "agent_spawn": [{"template": "general", "message": "x"}],
    "ask_user": [
        {"questions": [{"question": "Which?", "options": ["a", "b"]}]},
        {"questions": [{"question": "Which ones?", "options": ["a", {"label": "b"}], "multi_select": True}]},
    ],
    "checksum_tree": [{}, {"path": "empty"}, {"baseline": {"a.py": "0" * 64, "gone": "1" * 64}}],
    "detect_project": [{}, {"path": "empty"}, {"path": "packages"}],
    "find_files": [
        {"pattern": "*.py"},
        {"pattern": "*", "limit": 1},
        {"pattern": "*.none"},
        {"pattern": "*.log"},
        {"pattern": "*", "sort": "mtime", "offset": 2},
    ],
    "job_input": [{"task_id": "TERMINAL", "input": "x"}],
    "job_list": [{}],
    "job_output": [{"task_id": "JOB"}, {"task_id": "JOB", "new": True}, {"task_id": "TERMINAL", "block": False}],
    "job_stop": [{"task_id": "JOB"}, {"task_id": "TERMINAL"}],
    "list_dir": [{}, {"details": True}, {"max_entries": 1}, {"path": "empty"}],
    "list_tools": [{}, {"include_schema": True}],
    "memory": [
        {"action": "save", "key": "k", "value": "v", "tags": ["t"], "expires_in": "1h"},
        {"action": "list"},
        {"action": "list", "limit": 1, "include_values": True},
        {"action": "search", "query": "v"},
        {"action": "search", "query": "nothing"},
        {"action": "recall", "key": "k"},
    ],
    "multi_read": [{"files": [{"path": "a.py"}, {"path": "none"}, {"path": "long.txt"}]}],
    "read_file": [
        {"path": "a.py"},
        {"path": "a.py", "if_checksum": sha256(PYTHON.encode()).hex()},
    ],
    "register_hook": [
        {"action": "help"},
        {"action": "register", "event": PRE, "command": "true", "match": "write_file"},
        {"action": "list"},
        {"action": "remove", "event": PRE, "index": 0},
        {"action": "list"},
    ],
    "related_context": [{"query": "find races"}, {"query": "zzz"}, {"query": "find races", "client": "all"}],
    "run_shell": [{"command": "true"}, {"command": "true", "run_in_background": True}],
    "search_files": [
        {"pattern": "x", "format": "json"},
        {"pattern": "x", "format": "json", "context_lines": 1, "max_matches": 1},
        {"pattern": "x = 1\\ny", "format": "json", "multiline": True},
        {"pattern": "hidden", "format": "json"},
        {"pattern": "x"},
    ],
    "shell_exec": [{"argv": ["echo", "a"]}, {"argv": ["python3", "-c", "print('x' * 200000)"]}],
    "stat_file": [{"path": "a.py"}, {"path": "."}, {"path": "binary"}, {"path": "wide.txt"}, {"path": "empty.txt"}],
    "task": [
        {"action": "create", "title": "a", "description": "d", "owner": "ann"},
        {"action": "create", "title": "b", "blockedBy": [1]},
        {"action": "update", "taskId": 1, "status": "completed"},
        {"action": "get", "taskId": 2},
        {"action": "list"},
    ],
    "todo_read": [{}],
    "todo_write": [{"todos": [{"content": "a"}, {"id": "x", "content": "b"}]}, {"todos": []}],
    "tool_search": [{"query": "read"}, {"query": "select:read_file,none"}, {"query": "zzz"}],
    "undo": [{"action": "list"}, {"action": "list", "limit": 1}, {"action": "clear", "dry_run": True}],
    "web_search": [{"query": "something"}],
}

RESULTS = "<div id=links><div class=result><a class=result__a href='https://a.example/'>A</a></div></div>"


class Bench:
    """A runtime with a workspace of many kinds of files, jobs and snapshots."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        started = runtime.call("run_shell", command="echo done", run_in_background=True)
        terminal = runtime.call("run_shell", command="cat", run_in_background=True, tty=True)
        assert terminal.ok, terminal.error
        self._jobs = {"JOB": started.data["task_id"], "TERMINAL": terminal.data["task_id"]}
        runtime.call("job_output", task_id=self._jobs["JOB"])
        runtime.call("write_file", path="written.txt", content="new\n")
        runtime.call("apply_patch", patch="*** Begin Patch\n*** Delete File: long.py\n*** End Patch")

    def results(self, name: str) -> list[Any]:
        """Return the results of all calls of a tool."""
        results = []
        for args in CALLS[name]:
            filled = {key: self._jobs.get(value, value) if key == "task_id" else value for key, value in args.items()}
            result = approved(self._runtime, name, **filled)
            assert result.ok, result.error
            results.append(result)
        return results

    def output(self, name: str) -> Any:
        """Return the output schema of a tool."""
        return self._runtime.parts.catalog.find(name).tool.output


@pytest.fixture
def bench(base) -> Iterator[Bench]:
    folder = Folder(os.path.join(base, "workspace"))
    files: dict[str, str | bytes] = {
        "a.py": PYTHON,
        "long.py": "x\n" * 10,
        "long.txt": "line\n" * 3000,
        "b/c.py": "x = 3\n",
        "pyproject.toml": '[project]\nname = "a"\n[tool.pytest.ini_options]\n',
        "packages/one/package.json": '{"scripts": {"test": "jest"}}',
        "binary": b"\0\1",
        "wide.txt": "a\r\nb\n".encode("utf-16"),
        "empty.txt": "",
        ".gitignore": "*.log\nempty\n",
        "some.log": "hidden\n",
        ".git/HEAD": "",
        ".hilt/skills/races/SKILL.md": "---\nname: races\ndescription: Find data races\n---\nFind races.\n",
    }
    for name, contents in files.items():
        folder.write(name, contents)
    os.mkdir(folder.join("empty"))

    def person(questions: Any) -> dict[str, Any]:
        return {question.question: ["a", "b"] if question.multi_select else "own words" for question in questions}

    with serving(answer(RESULTS)) as site:
        flags = {"web.base_urls": {"duckduckgo": site.url("")}}
        environ = {**environment(base), "HILT_AGENT_COMMAND": "cat"}  # replaces a model
        with Runtime(folder.path, environ=environ, flags=flags, questioner=person) as runtime:
            yield Bench(runtime)


def test_every_tool_with_an_output_schema_is_covered(runtime):
    names = [tool.name for tool in runtime.parts.catalog.tools() if tool.output is not None]

    assert names == list(CALLS)


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", CALLS)
def test_results_match_the_output_schema(bench, name):
    output = bench.output(name)
    output_schema = structured_schema(output)
    results = bench.results(name)

    data = [result.data for result in results if result.data is not None]
    assert data
    assert (len(data) == len(results)) == (output_schema is not None)
    jsonschema_rs.meta.validate(output)
    for value in data:
        jsonschema_rs.validate(output, value)
        jsonschema_rs.validate(output_schema or {}, structured(output, value))
        for key in output.get("required", ()):
            assert not jsonschema_rs.is_valid(output, {other: value[other] for other in value if other != key})
            assert not jsonschema_rs.is_valid(output, {**value, key: [[]]})


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "tool, args",
    [
        ("read_file", {"path": "many.txt"}),
        ("read_file", {"path": "many.txt", "truncate": "middle"}),
        ("read_file", {"path": "many.txt", "tail": 5000}),
        ("search_files", {"pattern": "1", "max_matches": 3}),
        ("search_files", {"pattern": "1", "max_matches": 1, "format": "filenames"}),
        ("run_shell", {"command": "cat many.txt many.txt"}),
        ("list_dir", {"max_entries": 1}),
        ("find_files", {"pattern": "*", "limit": 1}),
    ],
)
def test_the_next_step_is_in_the_last_line(runtime, workspace, tool, args):
    workspace.write("many.txt", "".join(f"{number}\n" for number in range(10_000)))
    workspace.write("more.txt", "1\n")

    result = runtime.call(tool, **args)

    last = result.result[-300:].split("\n")[-1]
    assert any(hint in last for hint in ("read it with read_file", "to continue", "for the lines before", '"next":'))
