"""Custom tools through the whole runtime: found, validated, decided on, run, and reloaded when their files change."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest

from hilt.call import UserAnswer
from hilt.runtime import Runtime
from hilt.testing import Folder, environment, temporary_runtime
from tests.programs import PATH, program
from tests.trusting import file_at

pytestmark = pytest.mark.starts_processes

HELLO = """---
name: hello
description: Say hello.
approval: never
parameters:
  who:
    type: string
    required: true
---
echo "hello {{ who }}"
"""
ECHO = """---
name: echo-back
description: Return the input.
runtime: python
script: run.py
requireApproval: false
inputSchema:
  type: object
  properties:
    text: {type: string}
  required: [text]
outputSchema:
  type: object
---
Returns the input.
"""
ECHO_SCRIPT = "import json, sys\nprint(json.dumps({'echo': json.load(sys.stdin)['text']}))\n"
SHOUT = '''from hilt import tool


@tool(effects="read")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()
'''


@pytest.fixture(autouse=True)
def programs_on_path(monkeypatch) -> None:
    monkeypatch.setenv("PATH", PATH)


@pytest.fixture
def personal(base) -> Folder:
    folder = Folder(os.path.join(base, "config", "tools"))
    os.makedirs(folder.path)
    return folder


@pytest.fixture
def project(workspace) -> Folder:
    folder = Folder(workspace.join(".hilt/tools"))
    os.makedirs(folder.path)
    return folder


def settle() -> None:
    """Make the next call scan the folders again."""
    time.sleep(0.3)


def test_every_format_runs_like_a_built_in_tool(personal, runtime):
    personal.write("hello.md", HELLO)
    personal.write("echo/tool.md", ECHO)
    personal.write("echo/run.py", ECHO_SCRIPT)
    personal.write("shout.py", SHOUT)

    assert runtime.call("hello", who="$(id) 'x'").text == "hello $(id) 'x'\n"
    assert json.loads(runtime.call("echo-back", text="back").result) == {"echo": "back"}
    assert runtime.call("shout", text="loud").text == "LOUD"
    assert [row.entry.tool for row in runtime.parts.trail.rows()] == ["hello", "echo-back", "shout"]


def test_invalid_arguments_are_reported_with_the_message_of_the_format(personal, runtime):
    personal.write("hello.md", HELLO)
    personal.write("echo/tool.md", ECHO)
    personal.write("echo/run.py", ECHO_SCRIPT)

    assert runtime.call("hello").error.message == "⚒ Missing required parameter: who"
    assert runtime.call("echo-back", text=1).error.code == "invalid_args"


@pytest.mark.parametrize("format_", ["markdown", "folder", "python", "javascript"])
def test_a_long_json_result_is_saved_to_disk(personal, runtime, format_):
    write_long(personal, format_)

    short, long = runtime.call("long", count=3), runtime.call("long", count=60_000)

    assert short.data == {"text": "yyy"}
    assert (long.data, len(long.text) < 13_000) == (None, True)
    assert (long.meta["_persisted"], long.meta["_originalSize"]) == (True, 60_011)
    with open(long.meta["_filePath"]) as saved:
        assert json.loads(saved.read().replace("\n", "")) == {"text": "y" * 60_000}


def write_long(folder: Folder, format_: str) -> None:
    """Write a tool that returns an object of the requested length."""
    parameter = "{type: integer, required: true}"
    code = "import json, sys; n = int(sys.argv[1]); print(json.dumps({'text': 'y' * n}))"
    if format_ == "markdown":
        keys = f"name: long\ndescription: Long.\napproval: never\nresult: json\nparameters:\n  count: {parameter}"
        folder.write("long.md", f'---\n{keys}\n---\npython3 -c "{code}" {{{{ count }}}}\n')
    elif format_ == "folder":
        script = "import json, sys\nprint(json.dumps({'text': 'y' * json.load(sys.stdin)['count']}))\n"
        folder.write(
            "long/tool.md", ECHO.replace("echo-back", "long").replace("text", "count").replace("string", "integer")
        )
        folder.write("long/run.py", script)
    elif format_ == "python":
        body = 'def long(count: int) -> dict:\n    """Long."""\n    return {"text": "y" * count}\n'
        folder.write("long.py", f'from hilt import tool\n\n@tool(effects="read")\n{body}')
    else:
        program("node")
        schema = "{type: 'object', properties: {count: {type: 'integer'}}}"
        options = f"description: 'Long.', inputSchema: {schema}, needsApproval: false"
        body = "execute: ({count}) => ({text: 'y'.repeat(count)})"
        folder.write("long.mjs", f"export default {{name: 'long', tool: {{{options}, {body}}}}};\n")


def test_custom_tools_are_listed_with_their_source(personal, runtime):
    personal.write("hello.md", HELLO)

    listed = {tool["name"]: tool["source"] for tool in runtime.call("list_tools").data["tools"]}

    assert listed["hello"] == "personal"
    assert listed["read_file"] == "built-in"


def test_a_tool_is_added_changed_broken_repaired_and_deleted_during_a_session(personal, runtime):
    assert runtime.call("hello", who="a").error.code == "unknown_tool"
    path = personal.write("hello.md", HELLO)
    settle()
    assert runtime.call("hello", who="a").text == "hello a\n"
    personal.write("hello.md", HELLO.replace("echo", "echo well,"))
    settle()
    assert runtime.call("hello", who="a").text == "well, hello a\n"
    personal.write("hello.md", HELLO.replace("approval: never", "approval: perhaps"))
    settle()
    broken = runtime.call("hello", who="a")
    assert (broken.error.code, broken.error.details["line"]) == ("tool_invalid", 4)
    personal.write("hello.md", HELLO)
    settle()
    assert runtime.call("hello", who="a").ok
    os.unlink(path)
    settle()
    assert runtime.call("hello", who="a").error.code == "unknown_tool"


def test_an_untrusted_project_tool_is_neither_listed_nor_run(project, runtime):
    project.write("hello.md", HELLO.replace("echo", "touch made; echo"))

    assert runtime.call("hello", who="a").error.code == "untrusted"
    assert "hello" not in [tool["name"] for tool in runtime.call("list_tools").data["tools"]]
    assert not os.path.exists(os.path.join(runtime.parts.root, "made"))

    path = os.path.join(project.path, "hello.md")
    with open(path, "rb") as file:
        runtime.parts.authority.trust().trust(file_at(path, "tool"), file.read())
    settle()
    assert runtime.call("hello", who="a").text == "hello a\n"


def test_an_unknown_tool_is_reported_with_the_untrusted_files_it_may_be_in(project, runtime):
    path = project.write("other.py", "from hilt import tool\n")

    near, far = runtime.call("hello", who="a").error, runtime.call("zzqqxx").error

    assert (near.code, far.code) == ("unknown_tool", "unknown_tool")
    assert path in near.message
    assert path in far.message
    assert far.suggestion.endswith("hilt tools trust")


def test_a_custom_tool_does_not_replace_a_built_in_one(personal, runtime, workspace):
    personal.write("read_file.md", HELLO.replace("name: hello", "name: read_file"))
    workspace.write("a.txt", "own")

    assert "own" in runtime.call("read_file", path="a.txt").text


@pytest.mark.parametrize(
    "approval, mode, runs",
    [
        ("never", "normal", True),
        ("always", "normal", False),
        ("destructive", "normal", False),
        ("destructive", "auto-accept", True),
        ("always", "auto-accept", False),
        ("always", "yolo", True),
        ("never", "plan", True),
        ("always", "plan", False),
        ("never", "scheduler", True),
        ("destructive", "scheduler", False),
    ],
)
def test_the_approval_of_a_tool_and_the_mode_decide(base, personal, approval, mode, runs):
    personal.write("hello.md", HELLO.replace("approval: never", f"approval: {approval}"))
    with temporary_runtime(base, flags={"mode": mode}) as (runtime, _):
        assert runtime.call("hello", who="a").ok is runs


def test_tool_folders_can_be_configured(base):
    folder = Folder(os.path.join(base, "more"))
    folder.write("hello.md", HELLO)
    with temporary_runtime(base, flags={"custom.dirs": [folder.path]}) as (runtime, _):
        assert runtime.call("hello", who="a").text == "hello a\n"


def test_a_tool_that_asks_for_a_sandbox_is_confined(personal, runtime, workspace):
    key = "approval: never\nsandbox: {network: false}"
    personal.write("hello.md", HELLO.replace("approval: never", key).replace("echo", "touch made 2>&1; echo"))

    result = runtime.call("hello", who="a")

    assert re.search("Read-only file system|Permission denied", result.text)
    assert not os.path.exists(workspace.join("made"))


CODE = HELLO.replace('echo "hello {{ who }}"', 'sh -c "echo hello {{ who }}"')


@pytest.mark.parametrize("mode", ["normal", "auto-accept", "plan", "scheduler", "yolo"])
def test_a_value_that_a_script_would_run_as_code_asks_in_every_mode_but_yolo(base, personal, mode):
    personal.write("hello.md", CODE)
    with temporary_runtime(base, flags={"mode": mode}) as (runtime, workspace):
        result: Any = runtime.call("hello", who="a; touch made")

        assert runtime.call("hello", who="").text == "hello\n"
        if mode == "yolo":
            assert result.ok
            return
        assert result.error.code == ("denied" if mode == "scheduler" else "approval_required")
        assert "sh -c" in result.error.message
        assert "(line 10)" in result.error.message
        assert not os.path.exists(workspace.join("made"))


def test_a_value_that_a_script_would_run_as_code_runs_after_approval(base, personal):
    personal.write("hello.md", CODE)
    prompts = []

    def ask(prompt):
        prompts.append((prompt.arguments, prompt.rules))
        return UserAnswer("once")

    workspace = os.path.join(base, "own")
    os.mkdir(workspace)
    with Runtime(workspace, environ=environment(base), asker=ask) as runtime:
        assert runtime.call("hello", who="a; echo b").text == "hello a\nb\n"
        assert runtime.call("hello", who="a; echo b").text == "hello a\nb\n"

    assert prompts == [({"who": "a; echo b"}, ())] * 2


def test_a_rule_that_allows_a_tool_does_not_allow_its_values_to_be_code(base, personal):
    personal.write("hello.md", CODE)
    with temporary_runtime(base, flags={"alwaysAllow": ["hello"]}) as (runtime, _):
        result: Any = runtime.call("hello", who="a; touch made")

    assert result.error.code == "approval_required"


def test_a_folder_tool_works_once_its_missing_script_is_added(personal, runtime):
    personal.write("echo/tool.md", ECHO)
    assert "run.py is not in the tool's folder" in runtime.call("echo-back", text="a").error.message

    personal.write("echo/run.py", ECHO_SCRIPT)
    settle()

    assert runtime.call("echo-back", text="back").data == {"echo": "back"}


@pytest.mark.parametrize("profile", ["minimal", "nano"])
def test_a_small_profile_has_only_the_listed_custom_tools(personal, base, profile):
    personal.write("hello.md", HELLO)
    personal.write("other.md", HELLO.replace("name: hello", "name: other"))
    Folder(os.path.join(base, "config")).write("config.toml", f'[profile]\nname = "{profile}"\ntools = ["hello"]\n')
    with temporary_runtime(base) as (runtime, _):
        assert runtime.call("hello", who="a").text == "hello a\n"
        error = runtime.call("other", who="a").error
        assert error is not None
        assert (error.code, error.message) == ("denied", f"other is not in the profile {profile}.")
        assert "hello" in [name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)]


@pytest.mark.parametrize("trusted", [True, False])
def test_only_a_trusted_project_adds_tools_to_its_profile(personal, base, workspace, trusted):
    personal.write("hello.md", HELLO)
    workspace.write(".hilt/config.toml", '[profile]\nname = "nano"\ntools = ["hello"]\n')
    environ = {**environment(base), **({"HILT_TRUST": "all"} if trusted else {})}
    with Runtime(workspace.path, environ=environ) as runtime:
        assert runtime.settings["profile"] == "nano"
        assert runtime.call("hello", who="a").ok == trusted
