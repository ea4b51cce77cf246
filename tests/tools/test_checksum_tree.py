from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest


def digest(data):
    return sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


@pytest.fixture
def project(workspace):
    for path in ("main.go", "b/x.go", "b/y.txt", ".hidden", "ignored.log"):
        workspace.write(path, path)
    workspace.write(".gitignore", "*.log\n")
    for folder in (".git", "node_modules", "vendor", "__pycache__", ".cache", "dist", "b/build", ".ssh"):
        workspace.write(f"{folder}/f.go", "x")
    workspace.write(".env", "x")
    os.symlink("main.go", workspace.join("link.go"))
    os.symlink("..", workspace.join("b/loop"))
    os.mkfifo(workspace.join("pipe"))
    return workspace


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "args, paths",
    [
        ('{"path":"."}', [".gitignore", ".hidden", "b/x.go", "b/y.txt", "ignored.log", "main.go"]),
        ('{"path":".","pattern":"*.go"}', ["b/x.go", "main.go"]),
    ],
)
def test_the_examples_of_the_reference_run_as_printed(project, environ, args, paths):
    command = [sys.executable, "-m", "hilt", "--workspace", project.path]
    text = f'{{"tool":"checksum_tree","args":{args}}}'

    process = subprocess.run(command, input=text, env=environ, capture_output=True, text=True)

    reply = json.loads(process.stdout)
    sums = json.loads(reply["result"])
    assert sums == {path: digest(project.bytes(path)) for path in paths}
    assert list(sums) == sorted(paths)
    assert reply["visualization"]["type"] == "table"
    assert reply["visualization"]["totalRows"] == len(paths)


@pytest.mark.parametrize(
    "args, paths",
    [
        ({"path": "b"}, ["b/x.go", "b/y.txt"]),
        ({"path": "b", "pattern": "*.go"}, ["b/x.go"]),
        ({"pattern": "b/*"}, ["b/x.go", "b/y.txt"]),
        ({"pattern": "*.{go,txt}"}, ["b/x.go", "b/y.txt", "main.go"]),
        ({"pattern": "*.rs"}, []),
        ({"pattern": ".env*"}, []),
    ],
)
def test_path_and_pattern_select_the_files(runtime, project, args, paths):
    assert list(runtime.call("checksum_tree", **args).data) == paths


def test_a_baseline_reports_the_changes(runtime, project):
    baseline = runtime.call("checksum_tree").data
    project.write("main.go", "new")
    project.write("added.txt", "new")
    os.unlink(project.join("b/y.txt"))

    result = runtime.call("checksum_tree", baseline=baseline)

    assert result.data == {"changed": ["main.go"], "added": ["added.txt"], "removed": ["b/y.txt"], "unchanged_count": 4}
    assert result.view["rows"][0] == {"path": "main.go", "state": "changed"}
    # only the selected part is compared
    assert runtime.call("checksum_tree", path="b", baseline=baseline).data == {
        "changed": [],
        "added": [],
        "removed": ["b/y.txt"],
        "unchanged_count": 1,
    }
    assert runtime.call("checksum_tree", pattern="*.go", baseline=baseline).data["changed"] == ["main.go"]


def test_files_over_50_megabytes_are_skipped_and_reported(runtime, workspace):
    with open(workspace.write("large"), "wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)
    workspace.write("small", "x")

    result = runtime.call("checksum_tree", baseline={"large": "0" * 64, "small": digest("x")})

    assert result.data == {"changed": [], "added": [], "removed": [], "unchanged_count": 1, "not_compared": ["large"]}
    assert result.meta["skipped"] == {"large": "larger than 50 MB"}


def test_large_files_have_the_right_digests(runtime, workspace):
    contents = {f"{number}.bin": os.urandom(1 << 20) * (1 + number % 3) for number in range(20)}
    for name, data in contents.items():
        workspace.write(name, data)

    assert runtime.call("checksum_tree").data == {name: digest(contents[name]) for name in sorted(contents)}


def test_files_with_unusual_names_are_hashed(runtime, workspace):
    for name in (b"new\nline", b"inv\xff", "é".encode()):
        with open(os.path.join(os.fsencode(workspace.path), name), "w"):
            pass

    assert sorted(runtime.call("checksum_tree").data) == ["inv\\xff", "new\nline", "é"]


@pytest.mark.parametrize(
    "args, code",
    [
        ({"path": "absent"}, "file_not_found"),
        ({"path": "a.txt"}, "invalid_args"),
        ({"path": ".git"}, "sensitive_path"),
        ({"path": "/"}, "path_outside_workspace"),
        ({"pattern": "["}, "invalid_args"),
        ({"baseline": {"a": "short"}}, "invalid_args"),
        ({"baseline": {"a": 1}}, "invalid_args"),
    ],
)
def test_invalid_arguments_are_rejected(runtime, workspace, args, code):
    workspace.write("a.txt", "x")
    workspace.write("a", "x")

    error = runtime.call("checksum_tree", **args).error

    assert error is not None
    assert error.code == code
