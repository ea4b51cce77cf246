"""Which paths of a repository are guarded, checked against git itself where that matters."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hilt.sandbox.repositories import guarded

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=m")
    subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, env={"PATH": os.environ["PATH"]}
    )


def names(folder: Path) -> set[str]:
    return {os.path.relpath(path, folder) for path in guarded(str(folder))}


@needs_git
def test_hooks_and_configuration_are_guarded_where_git_reads_them(tmp_path):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", "m")
    git(outer, "submodule", "add", "-q", "--name", "libs/inner", str(inner), "libs/inner")
    git(outer, "worktree", "add", "-q", "../tree")

    guarded = names(outer / ".git")

    assert guarded == {
        "hooks",
        "config",
        "commondir",
        "modules/libs/inner/hooks",
        "modules/libs/inner/config",
        "modules/libs/inner/commondir",
        "worktrees/tree/commondir",
        "worktrees/tree/gitdir",
    }
    assert names(outer / "libs/inner/.git") == {"."}
    assert names(tmp_path / "tree/.git") == {"."}


@needs_git
def test_configuration_of_a_worktree_is_guarded_when_git_reads_it(tmp_path):
    git(tmp_path, "init", "-q", "main")
    main = tmp_path / "main"
    git(main, "commit", "-q", "--allow-empty", "-m", "m")
    git(main, "worktree", "add", "-q", "../tree")
    own = {"config.worktree", "worktrees/tree/config.worktree"}
    assert not own & names(main / ".git")

    git(main, "config", "extensions.worktreeConfig", "true")

    assert own <= names(main / ".git")


@needs_git
@pytest.mark.parametrize(
    "setting, is_guarded",
    [
        ("core.bare=false", True),
        ("core.bare=true", False),
        ("core.bare", False),
        ("core.worktree=/elsewhere", False),
        ("user.name=bare = true", True),
        ("extensions.worktreeConfig=true", True),
    ],
)
def test_commondir_is_guarded_only_where_its_presence_changes_nothing_for_git(tmp_path, setting, is_guarded):
    git(tmp_path, "init", "-q")
    key, equals, value = setting.partition("=")
    if equals:
        git(tmp_path, "config", key, value)
    else:
        (tmp_path / ".git/config").write_text("[core] bare\n")

    assert ("commondir" in names(tmp_path / ".git")) == is_guarded
    (tmp_path / ".git/commondir").write_text("../x")
    assert "commondir" in names(tmp_path / ".git")


@pytest.mark.parametrize("make", ["missing", "empty", "file"])
def test_a_git_path_without_a_repository_is_guarded_itself(tmp_path, make):
    if make == "empty":
        (tmp_path / ".git").mkdir()
    elif make == "file":
        (tmp_path / ".git").write_text("gitdir: x")

    assert names(tmp_path / ".git") == {"."}
