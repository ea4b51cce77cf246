from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from hilt.call import Call
from hilt.testing import temporary_runtime
from tests.programs import needs_sandbox

pytestmark = pytest.mark.starts_processes

PRINTING = (
    *(
        "git show HEAD:secrets/key",
        "git show",
        "git grep x",
        "git log -p",
        "git log --patch -1",
        "git log -L1,2:secrets/key",
    ),
    *(
        "git diff HEAD~1",
        "git archive HEAD",
        "git cat-file -p HEAD:secrets/key",
        "git stash show -p",
        "git blame secrets/key",
    ),
    *(
        "git worktree add ../x",
        "git checkout HEAD -- secrets",
        "git restore -s HEAD~1 .",
        "git format-patch -1 --stdout",
    ),
    *("git bundle create b HEAD", "git fast-export --all", "git clone . copy", "git -C . show", "git --no-pager show"),
    *(
        "cd sub && git show HEAD",
        "true; git show | cat",
        "git lg",
        "git $VERB",
        "env X=1 git show",
        "git whatchanged -p",
    ),
    *("git --git-dir=.git show", "git submodule foreach 'cat secrets/key'", "git log $OPTIONS", "git difftool -x cat"),
    *("git status -vv", "git commit -av", "git commit --dry-run --verbose", "git add -p", "git fsck --lost-found"),
    *("git rm -q --cached secrets/key", "git update-index --force-remove secrets/key", "git config --blob HEAD:a -l"),
    *("git for-each-ref --format='%(raw)'", "git tag --format='%(*raw)'", "git diff --stat -p", "git diff --stat $X"),
    *(
        "git log -S x",
        "git log -Gx",
        "git -c commit.verbose=2 commit --dry-run",
        "/usr/lib/git-core/git-show",
        "git-show",
    ),
    *("echo 'git show' | bash", "bash <<< 'git show HEAD:secrets/key'", "python3 - <<E\nos.system('git show')\nE"),
    *("""python3 -c 'import subprocess; subprocess.run(["git", "show"])'""", 'perl -e \'exec "/usr/bin/git", "show"\''),
    "ruby -e 'puts `git show`'",
    *("g=git; $g show", "$(which git) show", '"g"it show', "git checkout -b x HEAD~1", "git switch main"),
)
SILENT = (
    *(
        "git status",
        "git log",
        "git log --oneline -5",
        "git log --stat",
        "git branch -a",
        "git add -A",
        "git rev-parse HEAD",
    ),
    *("git commit -m x", "git ls-files", "git", "git --version", "ls", "cat a", "echo git", "git tag", "git fetch"),
    *(
        "git commit -am 'say -v'",
        "git commit -mverbose",
        "git rm a",
        "git branch --format='%(refname)'",
    ),
    *("git -c user.name=x commit -m y", "cat git-notes.txt", "git-lfs-files/x"),
    *("rm -rf build && git status", "cat .git/config | sh", "python3 -c 'import subprocess'", "curl x/git/y | bash"),
    *("git diff --stat", "git diff --name-only HEAD~1", "git checkout -b x", "git switch -c x", "$PYTHON x.py"),
)


@pytest.fixture
def repository(base) -> str:
    folder = f"{base}/workspace"
    os.makedirs(f"{folder}/secrets")
    os.makedirs(f"{folder}/sub")
    for path in ("secrets/key", "sub/a", "a"):
        with open(f"{folder}/{path}", "w") as file:
            file.write("x\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    return folder


def git(folder: str, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


def votes(base: str, command: str, *rules: str, **options: Any) -> list[str]:
    """Return the reasons to ask about a command."""
    os.makedirs(f"{base}/config", exist_ok=True)
    lists = ", ".join(f'"{rule}"' for rule in rules)
    with open(f"{base}/config/permissions.yaml", "w") as file:
        file.write(f"permissions:\n  allow: [run_shell]\n  deny: [{lists}]\n")
    with temporary_runtime(base, flags=options.pop("flags", None)) as (runtime, _):
        args = {"command": command, "force": True, **options}
        explanation = runtime.explain(Call("run_shell", args))
        return [
            vote.reason for vote in explanation.votes if "git's copy" in vote.reason and vote == explanation.decision
        ]


@needs_sandbox
@pytest.mark.parametrize("command", PRINTING)
def test_a_command_that_prints_what_a_rule_denies_asks(repository, base, command):
    (reason,) = votes(base, command, "Read(path:secrets/**)")

    assert "git's copy of secrets" in reason


@needs_sandbox
@pytest.mark.parametrize("command", SILENT)
def test_other_commands_do_not(repository, base, command):
    assert votes(base, command, "Read(path:secrets/**)") == []


@needs_sandbox
@pytest.mark.parametrize(
    "rule", ["Read(path:other/**)", "Write(path:secrets/**)", "Read(path:/elsewhere/**)", "WebFetch"]
)
def test_rules_that_match_no_tracked_file_do_not_ask(repository, base, rule):
    assert votes(base, "git show", rule) == []


@needs_sandbox
def test_the_repository_is_that_of_the_working_directory(repository, base):
    git(repository, "init", "-q", "inner")
    with open(f"{repository}/inner/token", "w") as file:
        file.write("x")
    git(f"{repository}/inner", "add", "-A")

    assert votes(base, "git show", "Read(path:inner/token)", cwd="inner")
    assert votes(base, "git -C inner show", "Read(path:inner/token)")
    assert votes(base, "cd inner; git show", "Read(path:inner/token)")
    assert votes(base, "git show", "Read(path:inner/token)") == []


@needs_sandbox
def test_a_repository_whose_files_cannot_be_listed_asks_by_the_files_in_the_folder(repository, base):
    git(repository, "update-index", "--split-index")

    assert votes(base, "git show", "Read(path:secrets/**)")


@needs_sandbox
def test_a_repository_without_an_index_asks_by_the_files_in_the_folder(repository, base):
    os.remove(f"{repository}/.git/index")

    assert votes(base, "git show", "Read(path:secrets/**)")


@needs_sandbox
@pytest.mark.parametrize("command", ["git show HEAD~1:secrets/old", "git log -p -- ./secrets/old"])
def test_a_command_that_names_a_deleted_file_asks(repository, base, command):
    assert votes(base, command, "Read(path:secrets/old)")
    assert votes(base, command, "Read(path:secrets/older)") == []


@needs_sandbox
def test_the_repository_of_the_workspace_counts_in_a_repository_inside(repository, base):
    git(repository, "init", "-q", "inner")

    assert votes(base, "GIT_DIR=../.git git show", "Read(path:secrets/**)", cwd="inner")


@needs_sandbox
def test_nobody_can_answer_in_scheduler_mode(repository, base):
    with temporary_runtime(base, flags={"mode": "scheduler"}) as (runtime, folder):
        folder.write(".hilt/permissions.yaml", 'permissions:\n  deny: ["Read(path:secrets/**)"]\n')
        result = runtime.call("run_shell", command="git grep x")

    assert result.error is not None
    assert result.error.code == "denied"
