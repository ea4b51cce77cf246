from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hilt.call import Call, Output
from hilt.dialects.claude_code import ENTRIES
from hilt.testing import temporary_runtime
from tests.programs import needs_sandbox
from tests.tools.test_read_file import picture


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A runtime under the dialect, and its workspace; for tests that do not affect each other."""
    base = str(tmp_path_factory.mktemp("claude_code"))
    with temporary_runtime(base, flags={"dialect": "claude_code"}) as (runtime, folder):
        folder.write("src/a.py", "import os\n\ndef first():\n    return os\n\n\n\ndef second():\n    return first\n")
        folder.write("long.txt", "".join(f"line {number}\n" for number in range(1, 2501)))
        yield runtime, folder


def call(bench: Any, name: str, **args: Any) -> str:
    result = bench[0].request(Call(name, args))
    assert result.ok, result.error
    return str(result.result)


def error_of(bench: Any, name: str, **args: Any) -> Any:
    result = bench[0].request(Call(name, args))
    assert result.error is not None
    return result.error


@pytest.mark.parametrize(
    "name, arguments, expected",
    [
        ("Read", {"file_path": "a"}, {"path": "a", "start_line": 1, "truncate": "head"}),
        ("Read", {"file_path": "a", "offset": 0, "limit": 5}, {"path": "a", "start_line": 1, "end_line": 5, "truncate": "none"}),  # noqa: E501
        ("Read", {"file_path": "a", "offset": 3, "limit": 2}, {"path": "a", "start_line": 3, "end_line": 4, "truncate": "none"}),  # noqa: E501
        ("Write", {"file_path": "a", "content": "b"}, {"path": "a", "content": "b"}),
        ("Edit", {"file_path": "a", "old_string": "b", "new_string": "c"}, {"path": "a", "old_text": "b", "new_text": "c"}),  # noqa: E501
        ("Edit", {"file_path": "a", "old_string": "b", "new_string": "", "replace_all": True}, {"path": "a", "old_text": "b", "new_text": "", "replace_all": True}),  # noqa: E501
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]}, {"edits": [{"path": "a", "old_text": "b", "new_text": "c"}]}),  # noqa: E501
        ("Glob", {"pattern": "*.py"}, {"pattern": "*.py", "sort": "mtime", "limit": 100}),
        ("Grep", {"pattern": "a"}, {"pattern": "a", "format": "filenames"}),
        ("Grep", {"pattern": "a", "output_mode": "count", "glob": "*.py", "type": "py", "-i": True}, {"pattern": "a", "format": "filenames", "include": "*.py", "type": "py", "case_insensitive": True}),  # noqa: E501
        ("Grep", {"pattern": "a", "output_mode": "content", "-A": 1, "-B": 3, "head_limit": 9, "offset": 2, "multiline": True}, {"pattern": "a", "format": "json", "context_lines": 3, "max_matches": 9, "offset": 2, "multiline": True}),  # noqa: E501
        ("Grep", {"pattern": "a", "head_limit": 0}, {"pattern": "a", "format": "filenames", "max_matches": 10_000}),
        ("Bash", {"command": "a", "description": "b"}, {"command": "a", "timeout": 120}),
        ("Bash", {"command": "a", "timeout": 1500, "run_in_background": True}, {"command": "a", "timeout": 2, "run_in_background": True}),  # noqa: E501
        ("Bash", {"command": "a", "dangerouslyDisableSandbox": False}, {"command": "a", "timeout": 120}),
        ("Bash", {"command": "a", "dangerouslyDisableSandbox": True}, {"command": "a", "timeout": 120, "force": True, "network": "full"}),  # noqa: E501
        ("BashOutput", {"bash_id": "a", "filter": "b"}, {"task_id": "a", "block": False, "new": True}),
        ("KillShell", {"shell_id": "a"}, {"task_id": "a"}),
        ("TodoWrite", {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]}, {"todos": [{"content": "a", "status": "pending"}]}),  # noqa: E501
        ("WebFetch", {"url": "https://a.example", "prompt": "b"}, {"url": "https://a.example"}),
        ("WebSearch", {"query": "a"}, {"query": "a", "count": 10}),
        ("WebSearch", {"query": "a", "allowed_domains": ["b.example", "c.example"]}, {"query": "a site:b.example OR site:c.example", "count": 10}),  # noqa: E501
        ("WebSearch", {"query": "a", "blocked_domains": ["b.example"]}, {"query": "a", "count": 10}),
        ("Task", {"description": "a", "prompt": "b", "subagent_type": "general-purpose"}, {"description": "a", "prompt": "b", "agent": "general"}),  # noqa: E501
        ("Task", {"description": "a", "prompt": "b", "subagent_type": "docs"}, {"description": "a", "prompt": "b", "agent": "docs"}),  # noqa: E501
        ("Skill", {"skill": "a", "args": "b c"}, {"name": "a", "arguments": "b c"}),
    ],
)  # fmt: skip
def test_arguments_are_translated(name, arguments, expected):
    before = json.dumps(arguments)

    assert ENTRIES[name].arguments(arguments) == expected
    assert json.dumps(arguments) == before


# --- files --------------------------------------------------------------------------------------------------------


def test_read_numbers_lines_like_cat_and_takes_absolute_and_relative_paths(bench):
    numbered = "     1\timport os\n     2\t"

    assert call(bench, "Read", file_path="src/a.py", limit=2).startswith(numbered)
    assert call(bench, "Read", file_path=bench[1].join("src/a.py"), limit=2).startswith(numbered)


def test_read_returns_2000_lines_and_says_how_to_continue(bench):
    lines = call(bench, "Read", file_path="long.txt").split("\n")
    rest = call(bench, "Read", file_path="long.txt", offset=2001)

    assert (lines[1999], len(lines)) == ("  2000\tline 2000", 2001)
    assert lines[2000].startswith("[Showing lines 1-2000 of 2500. Use offset=2001 to continue.")
    assert rest.split("\n")[0] == "  2001\tline 2001"
    assert rest.endswith("  2500\tline 2500")


def test_read_shows_images(bench):
    bench[1].write("a.png", picture("PNG"))

    result = bench[0].request(Call("Read", {"file_path": "a.png"}))

    assert [block["mimeType"] for block in result.content] == ["image/png"]


def test_an_offset_past_the_end_is_reported_as_an_offset(bench):
    error = error_of(bench, "Read", file_path="src/a.py", offset=99)

    assert error.message == "src/a.py has 9 lines; offset 99 is past the end."
    assert error.suggestion == "Use an offset from 1 to 9."


def test_write_edit_and_multi_edit_change_a_file(bench):
    folder = bench[1]

    assert call(bench, "Write", file_path="new/b.txt", content="x one\nx two\n") == "wrote 12 bytes to new/b.txt"
    call(bench, "Edit", file_path="new/b.txt", old_string="one", new_string="1")
    assert folder.read("new/b.txt") == "x 1\nx two\n"
    replaced = call(bench, "Edit", file_path="new/b.txt", old_string="x", new_string="y", replace_all=True)
    assert (replaced, folder.read("new/b.txt")) == (
        "edited new/b.txt: 2 occurrences on lines 1-2 replaced",
        "y 1\ny two\n",
    )
    edits = [{"old_string": "y", "new_string": "z", "replace_all": True}, {"old_string": "z two", "new_string": "2"}]
    call(bench, "MultiEdit", file_path="new/b.txt", edits=edits)
    assert folder.read("new/b.txt") == "z 1\n2\n"


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "name, args, code, message, advice",
    [
        ("Read", {"file_path": "absent"}, "file_not_found", "absent does not exist.", "Find the file with Glob, then use a path from its list."),  # noqa: E501
        ("Read", {"file_path": "src"}, "not_a_file", "src is a folder", "Bash"),
        ("Edit", {"file_path": "src/a.py", "old_string": "first", "new_string": "1"}, "edit_not_unique", "old_string occurs 2 times", "replace_all: true"),  # noqa: E501
        ("Edit", {"file_path": "src/a.py", "old_string": "none", "new_string": "1"}, "edit_not_found", "old_string is not in src/a.py", "Read the file again"),  # noqa: E501
        ("Edit", {"file_path": "src/a.py", "old_string": "", "new_string": "1"}, "old_text_empty", "old_string is empty", "old_string"),  # noqa: E501
        ("MultiEdit", {"file_path": "src/a.py", "edits": [{"old_string": "none", "new_string": "1"}]}, "edit_not_found", "old_string is not in", "Read the file again"),  # noqa: E501
        ("Grep", {"pattern": "a("}, "invalid_regex", "not closed", "backslash"),
        ("Grep", {"pattern": "a\\nb"}, "invalid_regex", "line break", "multiline: true"),
        ("Grep", {"pattern": "a", "glob": "[a"}, "invalid_args", "glob: the [ is not closed", ""),
        ("BashOutput", {"bash_id": "none"}, "not_found", "none", "an ID that Bash or Task returned"),
        ("BashOutput", {"bash_id": "none", "filter": "("}, "invalid_regex", "filter is invalid", "look-around"),
        ("KillShell", {"shell_id": "none"}, "not_found", "none", "an ID that Bash or Task returned"),
        ("Task", {"description": "a", "prompt": "b", "subagent_type": "none"}, "not_found", "no agent 'none'", "general"),  # noqa: E501
        ("Skill", {"skill": "none"}, "not_found", "no skill 'none'", "skill-creator"),
        ("WebFetch", {"url": "http://127.0.0.1/", "prompt": "a"}, "ssrf_blocked", "not a public address", "public"),
        ("WebSearch", {"query": "a", "allowed_domains": ["b"], "blocked_domains": ["c"]}, "invalid_args", "mutually exclusive", "Pass only one"),  # noqa: E501
        ("Bash", {"command": "shred src/a.py"}, "command_blocked", "dangerous", "dangerouslyDisableSandbox: true"),
        ("Bash", {"command": "shred src/a.py", "dangerouslyDisableSandbox": True}, "approval_required", "network", ""),
        ("Raed", {"file_path": "a"}, "unknown_tool", "The nearest names are: Read", "Use Read"),
    ],
)  # fmt: skip
def test_errors_use_the_names_of_the_dialect(bench, name, args, code, message, advice):
    error = error_of(bench, name, **args)

    assert error.code == code
    assert message in error.message
    assert advice in error.suggestion
    canonical = {
        "old_text",
        "new_text",
        "start_line",
        "read_file",
        "find_files",
        "search_files",
        "list_dir",
        "job_list",
    }
    assert [name for name in canonical if name in f"{error.message} {error.suggestion}"] == []


# --- searches -----------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_glob_lists_the_newest_file_first(base):
    with temporary_runtime(base, flags={"dialect": "claude_code"}) as (runtime, folder):
        for number in range(120):
            path = folder.write(f"{number:03}.txt", "")
            os.utime(path, (number, number))
        lines = call((runtime, folder), "Glob", pattern="**/*.txt").split("\n")

    assert (lines[0], lines[99]) == ("119.txt", "020.txt")
    assert lines[100:] == ["[Showing 100 of 120 files; use a narrower pattern or path to see the others.]"]


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "args, expected",
    [
        ({"pattern": "return"}, "src/a.py"),
        ({"pattern": "RETURN", "-i": True, "output_mode": "count"}, "src/a.py:2"),
        ({"pattern": "return", "output_mode": "content"}, "src/a.py:4:    return os\nsrc/a.py:9:    return first"),
        ({"pattern": "return os", "output_mode": "content", "-n": False}, "src/a.py:    return os"),
        (
            {"pattern": "return", "output_mode": "content", "-B": 1},
            "src/a.py-3-def first():\nsrc/a.py:4:    return os\n--\n"
            "src/a.py-8-def second():\nsrc/a.py:9:    return first",
        ),
        (
            {"pattern": "return", "output_mode": "content", "-A": 2},
            "src/a.py:4:    return os\nsrc/a.py-5-\nsrc/a.py-6-\n--\nsrc/a.py:9:    return first",
        ),
        (
            {"pattern": "def", "output_mode": "content", "-C": 1},
            "src/a.py-2-\nsrc/a.py:3:def first():\nsrc/a.py-4-    return os\n--\n"
            "src/a.py-7-\nsrc/a.py:8:def second():\nsrc/a.py-9-    return first",
        ),
        (
            {"pattern": "os\\n\\ndef", "multiline": True, "output_mode": "content", "glob": "*.py"},
            "src/a.py:1:import os\nsrc/a.py:2:\nsrc/a.py:3:def first():",
        ),
        (
            {"pattern": "line", "path": "long.txt", "output_mode": "content", "head_limit": 1, "offset": 1},
            "long.txt:2:line 2\n[Showing matches 2-2 of 2500; use offset=2 to continue.]",
        ),
        ({"pattern": "absent"}, "No files found"),
        ({"pattern": "absent", "output_mode": "content"}, "No matches found"),
        ({"pattern": "import", "type": "py"}, "src/a.py"),
    ],
)
def test_grep_supports_every_output_mode(bench, args, expected):
    assert call(bench, "Grep", **args) == expected


@pytest.mark.starts_processes
def test_grep_keeps_paths_that_begin_with_a_bracket(base):
    with temporary_runtime(base, flags={"dialect": "claude_code"}) as (runtime, folder):
        folder.write("[id].ts", "needle\n")

        assert call((runtime, folder), "Grep", pattern="needle") == "[id].ts"


@pytest.mark.starts_processes
@pytest.mark.parametrize("args", [{}, {"output_mode": "content"}, {"output_mode": "content", "-n": False, "-C": 1}])
def test_a_path_cannot_add_a_line(base, args):
    with temporary_runtime(base, flags={"dialect": "claude_code"}) as (runtime, folder):
        folder.write("a\nb.txt", "needle\n")

        assert call((runtime, folder), "Grep", pattern="needle", **args).split("\n")[0].startswith("a\\nb.txt")
        assert call((runtime, folder), "Glob", pattern="*.txt") == "a\\nb.txt"
        result = runtime.request(Call("Glob", {"pattern": "*.txt"}, dialect="jcli"))
        assert result.text == "a\\nb.txt"


# --- commands -----------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
@needs_sandbox
def test_bash_returns_the_output_and_an_exit_code_only_after_a_failure(bench):
    assert call(bench, "Bash", command="echo out; echo error >&2", description="Print") == "out\nerror"
    assert call(bench, "Bash", command="echo out; exit 3") == "Exit code 3\nout"
    assert call(bench, "Bash", command="true") == ""
    late = call(bench, "Bash", command="sleep 600", timeout=900)
    assert late.startswith("Exit code 124\nCommand timed out after 1 seconds\n[timeout: after 1 s; send timeout, up to")


@pytest.mark.starts_processes
@needs_sandbox
def test_a_background_command_is_read_filtered_and_stopped(base):
    with temporary_runtime(base, flags={"dialect": "claude_code"}) as (runtime, folder):
        bench = runtime, folder
        command = "echo one; echo two; until [ -e go ]; do sleep 0.05; done; echo three; sleep 600"
        started = call(bench, "Bash", command=command, run_in_background=True)
        id = started.removeprefix("Command running in background with ID: ")
        first_output = ""
        while "two" not in first_output:
            first_output += call(bench, "BashOutput", bash_id=id, filter="t(w|hr)")
        folder.write("go", "")
        later = ""
        while "three" not in later:
            later = call(bench, "BashOutput", bash_id=id)
        ended = json.loads(call(bench, "KillShell", shell_id=id))
        last = call(bench, "BashOutput", bash_id=id)

    assert first_output.endswith("<status>running</status>\n\n<stdout>\ntwo\n</stdout>")
    assert later == "<status>running</status>\n\n<stdout>\nthree\n</stdout>"
    assert ended == {"message": f"{id}: stopped", "shell_id": id}
    assert last.startswith("<status>stopped</status>")


# --- others -------------------------------------------------------------------------------------------------------


def test_todos_are_stored_without_their_active_form(bench):
    todos = [
        {"content": "Read", "status": "completed", "activeForm": "Reading"},
        {"content": "Fix", "status": "in_progress", "activeForm": "Fixing"},
    ]

    assert call(bench, "TodoWrite", todos=todos) == "The list has 2 todos, 1 completed. In progress: Fix"
    todos = json.loads(call(bench, "todo_read"))["todos"]
    assert [(todo["content"], todo["status"]) for todo in todos] == [("Read", "completed"), ("Fix", "in_progress")]


def test_a_skill_refers_to_the_read_tool_of_the_dialect(bench):
    assert call(bench, "Skill", skill="skill-creator").startswith("[Skill skill-creator, built into hilt")
    files = ENTRIES["Skill"].reply(Output("a\n[Further files, for read_file: b]"), {}, "/w")
    assert files.text == "a\n[Further files, for Read: b]"


@pytest.mark.parametrize(
    "args, expected",
    [
        ({}, ["https://a.example/1", "https://docs.b.example/2", "https://c.example:8080/3", "https://a.example@d.example/4"]),
        ({"allowed_domains": ["b.example", "www.c.example"]}, ["https://docs.b.example/2", "https://c.example:8080/3"]),
        ({"allowed_domains": ["a.example"]}, ["https://a.example/1"]),
        ({"blocked_domains": ["A.example", "example.b"]}, ["https://docs.b.example/2", "https://c.example:8080/3", "https://a.example@d.example/4"]),
        ({"allowed_domains": ["ample"]}, []),
    ],
)  # fmt: skip
def test_a_search_keeps_the_results_of_the_allowed_domains(args, expected):
    urls = [
        "https://a.example/1",
        "https://docs.b.example/2",
        "https://c.example:8080/3",
        "https://a.example@d.example/4",
    ]
    data = {"provider": "exa", "results": [{"title": "t", "url": url, "content": "c"} for url in urls]}

    text = ENTRIES["WebSearch"].reply(Output(data=data), {"query": "a", **args}, "/w").text

    assert [line.strip() for line in text.split("\n") if line.startswith("   http")] == expected
    assert ("No results." in text) == (not expected)


def test_a_page_has_no_advice_on_missing_arguments():
    text = "a\n[Showing characters 0-100 of 300. Use offset=100 to continue.]"

    output = ENTRIES["WebFetch"].reply(Output(text, meta={"next": {}}), {}, "/w")

    assert (output.text, dict(output.meta)) == ("a\n[Showing characters 0-100 of 300.]", {})
