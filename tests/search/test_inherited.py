from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.testing import temporary_runtime

pytestmark = pytest.mark.starts_processes

FOLDERS = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3).map("/".join)
NAMES = st.sampled_from(["a", "b", "ab", "c.x", "d.x", ".h"])
PIECES = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", ".x", "c"]), min_size=1, max_size=3)
# git and rg differ on two stars inside a name, and on a negated class that may be next to a slash
NAME = PIECES.map("".join).filter(lambda text: "**" not in text)
GLOB = st.lists(NAME | st.just("**"), min_size=1, max_size=3).map("/".join)
LINE = st.tuples(
    st.sampled_from(["", "", "", "!"]), st.sampled_from(["", "", "/"]), GLOB, st.sampled_from(["", "", "/"])
)
LINES = st.lists(LINE.map("".join) | st.sampled_from(["# note", "", "[!a]*", "\\#a", " a", "a "]), max_size=4)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return str(tmp_path_factory.mktemp("ignores"))


def listed(runtime, **args):
    result = runtime.call("find_files", pattern="*", hidden=True, **args)
    assert result.ok, result.error
    return set(result.data["files"])


def fill(workspace, files, rules):
    shutil.rmtree(workspace.path)
    os.mkdir(workspace.path)
    for folder, name in files:
        path = os.path.join(folder, name)
        # a name is a folder or a file, whichever came first
        if not os.path.isdir(workspace.join(path)) and not any(
            os.path.isfile(workspace.join("/".join(path.split("/")[:end]))) for end in range(1, path.count("/") + 1)
        ):
            workspace.write(path, "x\n")
    for folder, lines in rules.items():
        if os.path.isdir(workspace.join(folder)):
            workspace.write(os.path.join(folder, ".gitignore"), "".join(f"{line}\n" for line in lines))


@settings(max_examples=40, derandomize=True)
@given(
    files=st.lists(st.tuples(FOLDERS, NAMES), min_size=1, max_size=12),
    rules=st.dictionaries(st.sampled_from(["", "a", "ab/b"]), LINES, max_size=3),
    git=st.booleans(),
    below=st.sampled_from(["a", "b", "ab", "a/b"]),
)
def test_search_and_git_hide_the_same_files(place, files, rules, git, below):
    with temporary_runtime(place) as (runtime, workspace):
        fill(workspace, files, rules)
        # with or without a repository: git gives the expected answer in both cases
        subprocess.run(["git", "init", "-q", workspace.path], check=True)
        command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        git_output = subprocess.run(command, cwd=workspace.path, capture_output=True, check=True).stdout.decode()
        if not git:
            shutil.rmtree(workspace.join(".git"))
        paths = [{}, {"path": below}] if os.path.isdir(workspace.join(below)) else [{}]
        found = [listed(runtime, **args) for args in paths]

    expected = set(git_output.split("\0")[:-1])
    assert found[0] == expected
    assert found[1:] == [{path for path in expected if path.startswith(f"{below}/")}] * (len(paths) - 1)


def test_a_nested_repository_follows_only_its_own_rules(runtime, workspace):
    for path in ("", "inner"):
        subprocess.run(["git", "init", "-q", workspace.join(path)], check=True)
    workspace.write(".gitignore", "*.log\n")
    for path in ("a.log", "a.txt", "inner/a.log", "inner/a.txt"):
        workspace.write(path, "x")
    workspace.write("inner/.gitignore", "*.txt\n")

    expected = {".gitignore", "a.txt", "inner/.gitignore", "inner/a.log"}
    assert listed(runtime) == expected


def test_rules_above_the_workspace_apply_if_it_is_inside_a_repository(tmp_path, base):
    subprocess.run(["git", "init", "-q", base], check=True)
    with temporary_runtime(base) as (runtime, workspace):
        with open(os.path.join(base, ".gitignore"), "w") as file:
            file.write("workspace/hidden\n*.log\n")
        for path in ("hidden", "a.log", "a.txt"):
            workspace.write(path, "x")

        assert listed(runtime) == {"a.txt"}


def test_rules_above_the_workspace_do_not_apply_outside_a_repository(tmp_path, base):
    with temporary_runtime(base) as (runtime, workspace):
        with open(os.path.join(base, ".gitignore"), "w") as file:
            file.write("*.txt\n")
        for path in (".gitignore", "sub/a.log", "sub/a.txt"):
            workspace.write(path, "*.log\n")

        assert listed(runtime, path="sub") == {"sub/a.txt"}
        assert listed(runtime) == {".gitignore", "sub/a.txt"}
