from __future__ import annotations

import os
import subprocess
from functools import partial

import pytest

from hilt.testing import temporary_runtime
from tests.programs import needs_sandbox

pytestmark = needs_sandbox


def execute(runtime, *argv, **args):
    return runtime.call("shell_exec", argv=list(argv), **args)


@pytest.mark.starts_processes
def test_the_result_is_both_streams_and_the_exit_code(runtime, workspace):
    workspace.write("a.txt", "one\ntwo\n")

    result = execute(runtime, "cat", "a.txt", "missing.txt")

    assert result.data["stdout"] == "one\ntwo\n"
    assert "missing.txt" in result.data["stderr"]
    assert (result.data["exitCode"], set(result.data)) == (1, {"stdout", "stderr", "exitCode"})
    assert result.view["type"] == "shell-output"


@pytest.mark.starts_processes
def test_a_program_that_fails_without_network_gets_advice(runtime, workspace):
    workspace.write("reach.py", "import socket\nsocket.getaddrinfo('example.com', 80)\n")

    result = execute(runtime, "python3", "reach.py")

    assert result.data["exitCode"] == 1
    assert 'run_shell with network: "full"' in result.data["advice"]


@pytest.mark.starts_processes
def test_nothing_is_expanded_or_interpreted(runtime, workspace):
    argument = "$HOME `id` $(id) *; touch made > x"

    assert execute(runtime, "echo", argument, "*").data["stdout"] == f"{argument} *\n"
    assert workspace.tree() == {}


@pytest.mark.parametrize(
    "argv",
    [
        ["rm", "x"],
        ["bash", "-c", "id"],
        ["./git", "status"],
        ["/usr/bin/git", "status"],
        ["bin/ls"],
        [""],
        ["LS"],
        ["env", "rm", "x"],
        ["env", "-i", "FOO=1", "sh"],
        ["find", ".", "-exec", "id", ";"],
        ["find", ".", "-delete"],
        ["awk", 'BEGIN { system("id") }'],
        ["awk", 'BEGIN { "id" | getline x }'],
        ["sed", "1e id", "a.txt"],
        ["tar", "cf", "x", "--checkpoint=1", "--checkpoint-action=exec=id", "."],
        ["tar", "-I", "id", "-cf", "x", "."],
        ["git", "-c", "alias.x=!id", "x"],
        ["sort", "--compress-program=id", "a.txt"],
    ],
)
def test_a_program_that_is_not_allowed_is_blocked_even_with_force(runtime, workspace, argv):
    for force in (False, True):
        result = execute(runtime, *argv, force=force)
        assert result.error.code == "command_blocked"
        assert "force" not in result.error.suggestion


@pytest.mark.starts_processes
def test_a_program_that_is_not_installed_is_reported(base, monkeypatch):
    monkeypatch.setenv("PATH", f"{base}/nothing")

    with temporary_runtime(base) as (runtime, _):
        error = execute(runtime, "deno", "--version").error

    assert (error.code, error.message) == ("runtime_missing", "deno is not on the PATH.")


@pytest.mark.starts_processes
def test_a_workspace_program_with_an_allowed_name_is_not_run(runtime, workspace):
    os.chmod(workspace.write("ls", "#!/bin/sh\necho evil\n"), 0o755)

    assert execute(runtime, "ls").data["stdout"] == "ls\n"


@pytest.mark.starts_processes
def test_a_relative_folder_on_path_is_not_searched(base, monkeypatch):
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")

    with temporary_runtime(base) as (runtime, workspace):
        os.chmod(workspace.write("ls", "#!/bin/sh\necho evil\n"), 0o755)
        output = execute(runtime, "ls").data["stdout"]

    assert output == "ls\n"


@pytest.mark.starts_processes
def test_output_is_truncated_by_bytes_and_marked(runtime, workspace):
    workspace.write("big.txt", "é" * 60_000)

    result = execute(runtime, "cat", "big.txt")

    assert result.data["truncated"] is True
    assert result.data["stdout"] == "é" * 51_200


@pytest.mark.starts_processes
def test_standard_error_is_truncated_at_half_the_limit(runtime):
    result = execute(runtime, "python3", "-c", "import sys; sys.stderr.write('x' * 60000)")

    assert (len(result.data["stderr"]), result.data["truncated"]) == (50 * 1024, True)


@pytest.mark.starts_processes
def test_a_timeout_has_an_exit_code(runtime):
    result = execute(runtime, "python3", "-c", "import time; print('begun', flush=True); time.sleep(60)", timeout=700)

    assert result.ok
    assert (result.data["exitCode"], result.data["stdout"]) == (124, "begun\n")
    assert "run_in_background: true" in result.data["advice"]


@pytest.mark.starts_processes
def test_a_program_runs_in_a_folder_of_the_workspace(runtime, workspace):
    workspace.write("my-project/a.txt")

    assert execute(runtime, "ls", cwd="my-project").data["stdout"] == "a.txt\n"
    assert execute(runtime, "ls", cwd="../..").error.code == "path_outside_workspace"


@pytest.mark.starts_processes
def test_a_program_is_confined(runtime, workspace, base):
    execute(runtime, "touch", "inside", os.path.join(base, "outside"))

    assert os.path.exists(workspace.join("inside"))
    assert not os.path.exists(os.path.join(base, "outside"))


@pytest.mark.parametrize("argv", [[], "git status", ["git", 1], None])
def test_an_invalid_argv_is_rejected(runtime, argv):
    assert runtime.call("shell_exec", argv=argv).error.code == "invalid_args"


@pytest.mark.starts_processes
def test_success_and_failure_are_in_the_trail(runtime):
    execute(runtime, "echo", "hi")
    execute(runtime, "rm", "x")

    rows = runtime.parts.trail.rows(tool="shell_exec")
    assert [row.entry.outcome for row in rows] == ["ok", "command_blocked"]


@pytest.mark.starts_processes
def test_the_agentos_tool_has_the_same_result(runtime, workspace):
    workspace.write("my-project/a.txt")

    result = runtime.call("tool::shell_exec", argv=["ls", "-1"], cwd="my-project", timeout=5000.0)

    assert result.data == {"stdout": "a.txt\n", "stderr": "", "exitCode": 0}


def _arm(workspace, setting):
    """Write a bare repository whose settings start a program, as file tools could."""
    helper = workspace.write("evil/post-index-change", f"#!/bin/sh\ntouch {workspace.join('started')}\n")
    os.chmod(helper, 0o755)
    workspace.write("evil/HEAD", "ref: refs/heads/main\n")
    workspace.write("evil/objects/x", "")
    workspace.write("evil/refs/heads/x", "")
    value = helper if setting == "fsmonitor" else os.path.dirname(helper)
    workspace.write("evil/config", f"[core]\nrepositoryformatversion = 0\nworktree = ..\n{setting} = {value}\n")


@pytest.mark.starts_processes
@pytest.mark.parametrize("leading", [("-C", "evil"), ("--git-dir=evil",), ()])
@pytest.mark.parametrize("setting", ["fsmonitor", "hooksPath"])
def test_git_runs_no_helper_configured_by_a_repository_in_the_workspace(runtime, workspace, leading, setting):
    _arm(workspace, setting)
    workspace.write("a.txt", "a\n")

    for command in (("status",), ("add", "../a.txt"), ("add", "a.txt")):
        execute(runtime, "git", *leading, *command, cwd="." if leading else "evil")

    assert "started" not in workspace.tree()


@pytest.mark.starts_processes
def test_git_works_without_hooks_editors_and_helpers(runtime, workspace):
    git = partial(subprocess.run, cwd=workspace.path, check=True)
    for setting in (["init", "-q"], ["config", "user.name", "x"], ["config", "user.email", "x@example.org"]):
        git(["git", *setting])
    started = workspace.join("started")
    for key in ("diff.external", "diff.x.textconv", "core.editor", "core.fsmonitor"):
        git(["git", "config", key, f"touch {started}; cat"])
    os.chmod(workspace.write(".git/hooks/pre-commit", f"#!/bin/sh\ntouch {started}\n"), 0o755)
    workspace.write(".gitattributes", "*.txt diff=x\n")
    workspace.write("a.txt", "one\n")

    added = execute(runtime, "git", "add", "a.txt").data
    committed = execute(runtime, "git", "commit", "-q", "-m", "first").data
    workspace.write("a.txt", "two\n")
    results = [execute(runtime, "git", *command).data for command in (["diff"], ["log", "-p"], ["blame", "a.txt"])]
    amended = execute(runtime, "git", "commit", "-q", "-a", "--amend").data

    assert [result["exitCode"] for result in (added, committed, *results, amended)] == [0] * 6
    assert "+two" in results[0]["stdout"]
    assert "started" not in workspace.tree()
