from __future__ import annotations

import json
from typing import Any

import pytest

from hilt.call import Call
from hilt.dialects.codex import ENTRIES
from hilt.testing import temporary_runtime
from tests.programs import needs_sandbox
from tests.tools.test_read_file import picture

ADD = (
    "*** Begin Patch\n*** Add File: b.txt\n+two\n"
    "*** Update File: a.txt\n*** Move to: c.txt\n@@\n-one\n+1\n*** End Patch"
)


@pytest.fixture
def bench(base):
    with temporary_runtime(base, flags={"dialect": "codex"}) as (runtime, folder):
        folder.write("a.txt", "one\n")
        yield runtime, folder


def call(bench: Any, name: str, **args: Any) -> str:
    result = bench[0].request(Call(name, args))
    assert result.ok, result.error
    return str(result.result)


@pytest.mark.parametrize(
    "args, expected",
    [
        ({"command": ["ls", "-l", "a b"]}, {"command": "ls -l 'a b'", "timeout": 120}),
        ({"command": ["bash", "-lc", "ls | wc"]}, {"command": "ls | wc", "timeout": 120}),
        ({"command": ["/bin/bash", "-c", "ls"]}, {"command": "ls", "timeout": 120}),
        ({"command": ["zsh", "-lc", "ls | wc"]}, {"command": "zsh -lc 'ls | wc'", "timeout": 120}),
        ({"command": ["bash", "-x", "ls"]}, {"command": "bash -x ls", "timeout": 120}),
        ({"command": "ls | wc"}, {"command": "ls | wc", "timeout": 120}),
        ({"command": ["ls"], "workdir": "sub", "timeout_ms": 1500}, {"command": "ls", "cwd": "sub", "timeout": 2}),
        ({"command": ["ls"], "with_escalated_permissions": False, "justification": "x"}, {"command": "ls", "timeout": 120}),  # noqa: E501
        ({"command": ["ls"], "with_escalated_permissions": True}, {"command": "ls", "timeout": 120, "force": True, "network": "full"}),  # noqa: E501
        ({"command": ["ls"], "sandbox_permissions": "require_escalated"}, {"command": "ls", "timeout": 120, "force": True, "network": "full"}),  # noqa: E501
        ({"command": ["ls"], "sandbox_permissions": "use_default"}, {"command": "ls", "timeout": 120}),
    ],
)  # fmt: skip
def test_a_command_is_translated(args, expected):
    assert ENTRIES["shell"].arguments(args) == expected


@pytest.mark.starts_processes
@needs_sandbox
def test_shell_returns_output_and_metadata(bench):
    failed = json.loads(call(bench, "shell", command=["bash", "-lc", "echo out; echo error >&2; exit 3"]))
    listed = json.loads(call(bench, "shell", command=["cat", "a.txt"], workdir="."))

    assert (failed["output"], failed["metadata"]["exit_code"]) == ("out\nerror", 3)
    assert isinstance(failed["metadata"]["duration_seconds"], float)
    assert (listed["output"], listed["metadata"]["exit_code"]) == ("one", 0)


def test_escalation_asks_the_user(bench):
    runtime, folder = bench
    blocked = runtime.request(Call("shell", {"command": ["rm", "a.txt"]})).error
    escalated = {"command": ["rm", "a.txt"], "with_escalated_permissions": True, "justification": "It is old."}
    pending = runtime.request(Call("shell", escalated)).error

    assert (blocked.code, "with_escalated_permissions: true" in blocked.suggestion) == ("command_blocked", True)
    assert pending.code == "approval_required"
    assert folder.read("a.txt") == "one\n"


# --- patches ------------------------------------------------------------------------------------------------------


HERE_DOCUMENT = f"apply_patch <<'EOF'\n{ADD}\nEOF\n"


@pytest.mark.parametrize(
    "name, args, folder",
    [
        ("apply_patch", {"input": ADD}, ""),
        ("shell", {"command": ["apply_patch", ADD]}, ""),
        ("shell", {"command": ["applypatch", ADD]}, ""),
        ("shell", {"command": ["bash", "-lc", HERE_DOCUMENT]}, ""),
        ("shell", {"command": HERE_DOCUMENT}, ""),
        ("shell", {"command": HERE_DOCUMENT.replace("'EOF'", "EOF")}, ""),
        ("shell", {"command": ["bash", "-lc", f"cd sub && {HERE_DOCUMENT}"]}, "sub/"),
        ("shell", {"command": ["apply_patch", ADD], "workdir": "sub"}, "sub/"),
        ("shell", {"command": ["bash", "-lc", f"cd 'in ner' && {HERE_DOCUMENT}"], "workdir": "sub"}, "sub/in ner/"),
    ],
)
def test_every_form_of_a_patch_is_applied_by_the_tool(base, name, args, folder):
    with temporary_runtime(base, flags={"dialect": "codex"}) as (runtime, workspace):
        workspace.write(f"{folder}a.txt", "one\n")
        text = call((runtime, workspace), name, **args)

        files = {path: content for path, content in workspace.tree().items() if content is not None}
        assert files == {f"{folder}b.txt": "two\n", f"{folder}c.txt": "1\n"}
        assert text.startswith("applied patch with 2 operations:")
        assert [row.entry.tool for row in runtime.parts.trail.rows()] == ["apply_patch"]


@pytest.mark.parametrize(
    "command",
    [
        ["apply_patch", ADD, "more"],
        ["bash", "-lc", f"{HERE_DOCUMENT}rm -rf sub"],
        ["bash", "-lc", f"echo 1; {HERE_DOCUMENT}"],
        ["bash", "-lc", f"cd $(pwd) && {HERE_DOCUMENT}"],
        ["bash", "-lc", "apply_patch <<'EOF'\nno end"],
    ],
)
def test_a_command_that_does_more_than_patch_is_not_forwarded(command):
    forward: Any = ENTRIES["shell"].forward

    assert forward({"command": command}) is None
    assert forward({"command": ["apply_patch", "--- a/b\n+++ a/b\n"], "workdir": "sub"}) is None


def test_an_invalid_patch_is_reported(bench):
    for name, args in (("apply_patch", {"input": "none"}), ("shell", {"command": ["apply_patch", "none"]})):
        error = bench[0].request(Call(name, args)).error
        assert error.code == "patch_invalid"


def test_an_added_file_replaces_an_existing_one(bench):
    runtime, folder = bench
    patch = "*** Begin Patch\n*** Add File: a.txt\n+new\n*** End Patch"
    strict = runtime.request(Call("apply_patch", {"patch": patch}, dialect="jinn")).error

    call(bench, "apply_patch", input=patch)
    changed = folder.read("a.txt")
    (snapshot,) = json.loads(call(bench, "undo", action="list"))["snapshots"]
    call(bench, "undo", action="restore", id=snapshot["id"])

    assert strict.code == "already_exists"
    assert (changed, folder.read("a.txt")) == ("new\n", "one\n")


def test_a_patch_cannot_leave_the_workspace(bench):
    error = bench[0].request(Call("shell", {"command": ["apply_patch", ADD], "workdir": "../.."})).error

    assert error.code == "path_outside_workspace"


# --- plans and images ---------------------------------------------------------------------------------------------


def test_a_plan_becomes_the_todo_list(bench):
    steps = [{"step": "Read", "status": "completed"}, {"step": "Fix", "status": "in_progress"}]

    assert call(bench, "update_plan", explanation="Start", plan=steps) == "Plan updated"
    todos = json.loads(call(bench, "todo_read"))["todos"]
    assert [(todo["content"], todo["status"]) for todo in todos] == [("Read", "completed"), ("Fix", "in_progress")]
    error = bench[0].request(Call("update_plan", {"plan": [{"step": "", "status": "pending"}]})).error
    assert (error.code, error.message) == ("invalid_args", "plan[0].step is empty.")


def test_only_images_can_be_viewed(bench):
    runtime, folder = bench
    folder.write("a.png", picture("PNG"))

    result = runtime.request(Call("view_image", {"path": "a.png"}))
    error = runtime.request(Call("view_image", {"path": "a.txt"})).error
    missing = runtime.request(Call("view_image", {"path": "b.png"})).error

    assert [block["mimeType"] for block in result.content] == ["image/png"]
    assert (error.code, error.message) == ("unsupported_file", "a.txt is not an image.")
    assert (missing.code, "shell" in missing.suggestion) == ("file_not_found", True)
