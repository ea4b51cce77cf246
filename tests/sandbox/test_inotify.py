"""Repositories that appear or change are reported at once and checked without a walk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hilt.sandbox.disarming import GitFolder, Guard
from hilt.sandbox.profile import Profile
from hilt.sandbox.running import RunningWatch, Watches
from hilt.sandbox.sensitive import Findings, Search
from tests.marks import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")

if sys.platform == "linux":
    from hilt.sandbox.inotify import RepositoryEvents


@pytest.fixture
def events() -> Iterator[RepositoryEvents]:
    opened = RepositoryEvents()
    yield opened
    opened.close()


def git_folder(path: Path) -> dict[str, GitFolder]:
    return {str(path): GitFolder(str(path), ("config", "hooks"))}


@pytest.mark.parametrize("name", [".git", ".GIT"])
def test_a_new_repository_is_reported(tmp_path, events, name):
    (tmp_path / "sub").mkdir()
    events.add_tree(str(tmp_path))

    (tmp_path / "sub" / name).mkdir()

    assert events.read() == {str(tmp_path / "sub" / name)}
    assert events.read() == set()


def test_a_repository_in_new_folders_is_reported(tmp_path, events):
    events.add_tree(str(tmp_path))
    (tmp_path / "a/b/c/.git").mkdir(parents=True)
    assert events.read() == {str(tmp_path / "a/b/c/.git")}

    (tmp_path / "a/b/.git").write_text("gitdir: elsewhere\n")

    assert events.read() == {str(tmp_path / "a/b/.git")}


def test_a_repository_in_a_renamed_folder_is_reported_with_its_new_path(tmp_path, events):
    (tmp_path / "old/deep").mkdir(parents=True)
    events.add_tree(str(tmp_path))
    (tmp_path / "old").rename(tmp_path / "new")
    assert events.read() == set()
    (tmp_path / "old/deep").mkdir(parents=True)
    assert events.read() == set()

    (tmp_path / "new/deep/.git").mkdir()
    (tmp_path / "old/deep/.git").mkdir()

    assert events.read() == {str(tmp_path / name / "deep/.git") for name in ("new", "old")}


def test_a_folder_that_becomes_a_repository_is_reported(tmp_path, events):
    events.add_tree(str(tmp_path))
    store = tmp_path / "store"
    for name in ("objects", "refs"):
        (store / name).mkdir(parents=True)
    assert events.read() == set()

    (store / "HEAD").touch()

    assert events.read() == {str(store)}


def test_a_changed_repository_is_reported_and_other_files_in_it_are_not(tmp_path, events):
    git = tmp_path / ".git"
    git.mkdir()
    (git / "config").touch()
    assert events.add_git_folders(git_folder(git)) == {str(git)}
    assert events.add_git_folders(git_folder(git)) == set()

    (git / "index").touch()
    assert events.read() == set()
    with (git / "config").open("a") as config:
        config.write("[alias]\n")
        config.flush()
        assert events.read() == {str(git)}
    (git / "config").chmod(0o755)
    assert events.read() == {str(git)}
    (git / "index").rename(git / "config")
    assert events.read() == {str(git)}


def test_folders_above_the_maximum_are_not_watched(tmp_path):
    for name in ("a/b/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    events = RepositoryEvents(max_folders=6)
    events.add_tree(str(tmp_path))

    (tmp_path / "a/b/.git").mkdir()
    assert events.read() == set()
    (tmp_path / "a/.git").mkdir()
    assert events.read() == {str(tmp_path / "a/.git")}
    events.close()


def test_new_folders_are_watched_when_there_are_many_old_ones(tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    events = RepositoryEvents(max_folders=4)
    events.add_tree(str(tmp_path))
    for name in ("new", "newer", "newest"):
        (tmp_path / name).mkdir()
        events.read()

    for name in ("new", "newer", "newest"):
        (tmp_path / name / ".git").mkdir()
    assert events.read() == {str(tmp_path / name / ".git") for name in ("new", "newer")}

    (tmp_path / "newer/.git").rmdir()
    (tmp_path / "newer").rmdir()
    assert events.read() == set()
    (tmp_path / "last/.git").mkdir(parents=True)
    assert events.read() == {str(tmp_path / "last/.git")}
    events.close()


def test_lost_events_are_reported(tmp_path, events):
    events.add_tree(str(tmp_path))
    maximum = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if maximum > 100_000:
        pytest.skip("the system queues too many events")

    for number in range(maximum + 1):
        (tmp_path / str(number)).symlink_to("x")

    answers = [events.read()]
    while answers[-1] == set():
        answers.append(events.read())
    assert answers[-1] is None


# --- checks


@pytest.fixture
def watch(tmp_path) -> Iterator[RunningWatch]:
    """The watch of a program that runs in a workspace, and whose caller polls for changes."""
    root = str(tmp_path / "ws")
    os.mkdir(root)
    profile = Profile("workspace-write", (root,), lambda path: False, (), (), str(tmp_path / "home"))
    watches = Watches(str(tmp_path / "running"), Search())
    with watches.hold(profile, Findings(), Guard(absent=[f"{root}/agents.json"])) as opened:
        assert opened.changes()[0] >= 0
        opened.check()
        yield opened
    assert opened.changes()[0] < 0


PLANTS = {
    "a setting": "git init -q sub; git -C sub config core.fsmonitor x",
    "a hook": "git init -q sub; cp /bin/true sub/.git/hooks/post-commit",
    "a hook made executable": "git init -q sub; echo > sub/.git/hooks/post-commit; chmod +x sub/.git/hooks/post-commit",
    "another place for all": "git init -q sub; echo ../../other > sub/.git/commondir",
    "a repository that is moved": "git init -q sub; mv sub/.git x; git config -f x/config core.pager y; mv x sub/.git",
    "in new folders": "mkdir -p a/b/c; git init -q a/b/c; git -C a/b/c config core.pager y",
    "a folder that something points to": "git init -q --separate-git-dir=store sub; git -C sub config core.pager y",
    "in a module": "git init -q sub; git init -q --bare sub/.git/modules/m/n; echo > sub/.git/modules/m/n/hooks/x;"
    " chmod +x sub/.git/modules/m/n/hooks/x",
    "configuration of an agent": "echo > agents.json",
}


@pytest.mark.parametrize("script", PLANTS.values(), ids=PLANTS)
def test_planted_files_are_disabled_without_a_walk(tmp_path, watch, script):
    for step in script.split("; "):
        subprocess.run(["sh", "-c", step], cwd=tmp_path / "ws", check=True)
        watch.check_changes()

    assert len(watch.notes()) == 1
    assert list((tmp_path / "ws").rglob("*.disabled-*"))


def test_files_planted_by_one_command_are_disabled_without_a_walk(tmp_path, watch):
    subprocess.run(["sh", "-c", PLANTS["a hook"]], cwd=tmp_path / "ws", check=True)

    watch.check_changes()

    assert len(watch.notes()) == 1


def test_a_file_is_disabled_when_it_has_content(tmp_path, watch):
    git = tmp_path / "ws/sub/.git"
    subprocess.run(["git", "init", "-q", "sub"], cwd=tmp_path / "ws", check=True)
    watch.check_changes()

    with (git / "commondir").open("w") as commondir:
        watch.check_changes()
        assert watch.notes() == ()
        commondir.write("elsewhere")

    watch.check_changes()
    assert watch.notes()[0].startswith("sub/.git/commondir ")


def test_after_lost_events_everything_is_checked(tmp_path, watch):
    maximum = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if maximum > 100_000:
        pytest.skip("the system queues too many events")
    for number in range(maximum + 1):
        (tmp_path / f"ws/{number}").symlink_to("x")
    subprocess.run(["sh", "-c", PLANTS["a setting"]], cwd=tmp_path / "ws", check=True)

    wait_until(lambda: watch.check_changes() or watch.notes())

    assert "core.fsmonitor" in watch.notes()[0]
