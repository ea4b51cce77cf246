"""Whatever a command plants for the user's next git command is disabled, as running that git command proves.

Each attack first runs without a sandbox, in a separate folder, to show that its payload works.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.programs import needs_sandbox
from tests.sandbox.confined import Box, Worker, as_user

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")

GITS = int(os.environ.get("HILT_STRESS") or 2) * 10

WHO = "GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e"
WHO += " GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=true"
ENVIRONMENT = dict(word.split("=") for word in WHO.split())
BEGIN = f"export {WHO}; evil=$PWD/evil; monitor() {{ printf '[core]\\n\\tfsmonitor = %s\\n' $evil; }}; set -e; "
# a folder that becomes a repository when something points to it
STORE = "git init -q --bare store; git --git-dir=store config core.bare false; "
DEEP = "/".join(["d"] * 800)


class Attack(NamedTuple):
    """What a command does, and what the user does afterwards."""

    script: str
    git: str
    folder: str = "."


ATTACKS = {
    "fsmonitor": Attack("git init -q sub; monitor >> sub/.git/config", "status", "sub"),
    "status of the outer repository": Attack(
        "git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub; monitor >> sub/.git/config", "status"
    ),
    "a cloned repository": Attack("git clone -q . sub; monitor >> sub/.git/config", "status", "sub"),
    "hooks elsewhere": Attack(
        "git init -q sub; mkdir hooks; cp evil hooks/post-commit; printf '[core]\nhooksPath=%s\n' $PWD/hooks"
        " >> sub/.git/config",
        "commit -q --allow-empty -m x",
        "sub",
    ),
    "a hook": Attack("git init -q sub; cp evil sub/.git/hooks/post-commit", "commit -q --allow-empty -m x", "sub"),
    "a link for a hook": Attack(
        "git init -q sub; ln -s $evil sub/.git/hooks/post-commit", "commit -q --allow-empty -m x", "sub"
    ),
    "a link for the hooks": Attack(
        "git init -q sub; rm -r sub/.git/hooks; mkdir hooks; cp evil hooks/post-commit;"
        " ln -s $PWD/hooks sub/.git/hooks",
        "commit -q --allow-empty -m x",
        "sub",
    ),
    "a filter": Attack(
        "git init -q sub; echo '* filter=x' > sub/.git/info/attributes; echo a > sub/a;"
        " printf '[filter \"x\"]\nclean=%s\n' $evil >> sub/.git/config",
        "add .",
        "sub",
    ),
    "an external diff program": Attack(
        "git init -q sub; cd sub; echo a > a; git add a; echo b > a; printf '[diff]\nexternal=%s\n' $evil"
        " >> .git/config",
        "diff",
        "sub",
    ),
    "a textconv program": Attack(
        "git init -q sub; cd sub; echo a > a; git add a; echo b > a; echo '* diff=x' > .gitattributes;"
        " printf '[diff \"x\"]\ntextconv=%s\n' $evil >> .git/config",
        "diff",
        "sub",
    ),
    "an alias": Attack("git init -q sub; printf '[alias]\nst=!%s\n' $evil >> sub/.git/config", "st", "sub"),
    "an include": Attack(
        "git init -q sub; monitor > more; printf '[include]\npath=%s\n' $PWD/more >> sub/.git/config", "status", "sub"
    ),
    "a signature program": Attack(
        "git init -q sub; printf '[commit]\ngpgsign=true\n[gpg]\nprogram=%s\n' $evil >> sub/.git/config",
        "commit -q --allow-empty -m x",
        "sub",
    ),
    "an uploadpack program": Attack(
        "git init -q sub; printf '[remote \"o\"]\nurl=%s\nuploadpack=%s\n' $PWD $evil >> sub/.git/config",
        "fetch o",
        "sub",
    ),
    "the update command of a submodule": Attack(
        "git init -q sub; cd sub; git -c protocol.file.allow=always submodule --quiet add $OLDPWD/lib lib;"
        " git commit -qm x;"
        ' git submodule --quiet deinit -f lib; git submodule --quiet init; git config submodule.lib.update "!$evil"',
        "-c protocol.file.allow=always submodule update",
        "sub",
    ),
    "configuration of a worktree": Attack(
        "git init -q sub; git -C sub config extensions.worktreeConfig true; monitor > sub/.git/config.worktree",
        "status",
        "sub",
    ),
    "one line": Attack('git init -q sub; echo "[core] fsmonitor=$evil" >> sub/.git/config', "status", "sub"),
    "a continued line": Attack(
        "git init -q sub;"
        " printf '[user]\nname = a \\\\\n\\\n b\n[core]\nfsmonitor = \\\\\n%s\n' $evil >> sub/.git/config",
        "status",
        "sub",
    ),
    "CRLF line ends": Attack("git init -q sub; monitor | sed 's/$/\\r/' >> sub/.git/config", "status", "sub"),
    "a byte order mark": Attack(
        "git init -q sub; cp sub/.git/config c; { printf '\\357\\273\\277'; monitor; cat c; } > sub/.git/config",
        "status",
        "sub",
    ),
    "a link for the configuration": Attack(
        "git init -q sub; cp sub/.git/config c; monitor >> c; ln -sf $PWD/c sub/.git/config", "status", "sub"
    ),
    "another common folder": Attack(
        "cp -r .git other; monitor >> other/config; echo ../other > .git/commondir || true", "status"
    ),
    "a file .git": Attack(
        STORE + "monitor >> store/config; mkdir sub; echo gitdir: ../store > sub/.git", "status", "sub"
    ),
    "a file .git into a known repository": Attack(
        STORE + "monitor >> store/config; mkdir -p .git/x; mv store .git/x; mkdir sub;"
        " echo gitdir: ../.git/x/store > sub/.git",
        "status",
        "sub",
    ),
    "a link .git": Attack(
        STORE + "monitor >> store/config; mkdir -p .git/x sub; mv store .git/x; ln -s ../.git/x/store sub/.git",
        "status",
        "sub",
    ),
    "a worktree": Attack(
        "git worktree add -q tree; cp -r .git other; monitor >> other/config;"
        " mkdir .git/worktrees/w; cp .git/worktrees/tree/HEAD .git/worktrees/w; echo ../../../other >"
        " .git/worktrees/w/commondir; mkdir sub; echo gitdir: $PWD/.git/worktrees/w > sub/.git",
        "status",
        "sub",
    ),
    "a module": Attack(
        STORE + "monitor >> store/config; mkdir -p .git/modules/a; mv store .git/modules/a/b; mkdir sub;"
        " echo gitdir: ../.git/modules/a/b > sub/.git",
        "status",
        "sub",
    ),
    "a folder that is a repository": Attack(
        "git init -q --bare sub; printf '[alias]\nst=!%s\n' $evil >> sub/config", "st", "sub"
    ),
    "a folder that is a repository by two names": Attack(
        "cp -r .git other; mv other .git; printf '[alias]\nst=!%s\n' $evil >> .git/other/config; mkdir sub;"
        " cp .git/HEAD sub;"
        " echo ../.git/other > sub/commondir",
        "st",
        "sub",
    ),
    "a new bare repository": Attack(
        "mkdir new; cd new; git init -q --bare .; printf '[alias]\nst=!%s\n' $evil >> config", "st", "new"
    ),
    "a worktree of a folder that is no repository": Attack(
        "git init -q --bare vendor; rm vendor/HEAD; git config -f vendor/config core.bare false;"
        " monitor >> vendor/config; mkdir -p vendor/worktrees/x sub; cp .git/HEAD vendor/worktrees/x;"
        " echo ../.. > vendor/worktrees/x/commondir; echo gitdir: ../vendor/worktrees/x > sub/.git",
        "status",
        "sub",
    ),
    "a hook for a worktree of a folder that is no repository": Attack(
        "git init -q --bare vendor; rm vendor/HEAD; git config -f vendor/config core.bare false;"
        " mkdir -p vendor/worktrees/x sub; cp .git/HEAD vendor/worktrees/x; cp evil vendor/hooks/post-commit;"
        " echo ../.. > vendor/worktrees/x/commondir; echo gitdir: ../vendor/worktrees/x > sub/.git",
        "commit -q --allow-empty -m x",
        "sub",
    ),
    "a folder with a worktree of another": Attack(
        "git init -q --bare vendor; rm vendor/HEAD; printf '[alias]\nst=!%s\n' $evil >> vendor/config;"
        " mkdir -p vendor/worktrees/x; cp .git/HEAD vendor/worktrees/x; echo ../.. > vendor/worktrees/x/commondir",
        "st",
        "vendor/worktrees/x",
    ),
    "a link on the way": Attack(
        STORE + "monitor >> store/config; rm store/HEAD; mkdir -p deep/worktrees/x sub; mv store deep/worktrees;"
        " ln -s worktrees deep/link; cp .git/HEAD deep/worktrees/x; echo ../store > deep/worktrees/x/commondir;"
        " echo gitdir: ../deep/link/x > sub/.git",
        "status",
        "sub",
    ),
    "a path that ends before the end of the file": Attack(
        STORE + "monitor >> store/config; mkdir sub; printf 'gitdir: ../store\\0/x' > sub/.git", "status", "sub"
    ),
    "a path that begins with a space": Attack(
        STORE
        + "monitor >> store/config; mkdir -p 'sub/ ..'; mv store 'sub/ ..'; printf 'gitdir:  ../store' > sub/.git",
        "status",
        "sub",
    ),
    "a repository among the hooks of another": Attack(
        "git init -q sub; rm -r sub/.git/hooks; git init -q --bare sub/.git/hooks;"
        " printf '[alias]\nst=!%s\n' $evil >> sub/.git/hooks/config; sleep 0.2",
        "st",
        "sub/.git/hooks",
    ),
    "far below": Attack(
        f"mkdir -p {DEEP}; git init -q {DEEP}; monitor >> {DEEP}/.git/config",
        "status",
        DEEP,
    ),
    "a repository inside another": Attack(
        "mkdir .git/x; git init -q --bare .git/x/y; printf '[alias]\nst=!%s\n' $evil >> .git/x/y/config",
        "st",
        ".git/x/y",
    ),
    "a repository that was moved": Attack("mkdir sub; mv fixture/dotgit sub/.git", "status", "sub"),
    "hooks that were moved": Attack(
        "git init -q sub; rm -r sub/.git/hooks; mv fixture/hooks sub/.git", "commit -q --allow-empty -m x", "sub"
    ),
    "below a sensitive name": Attack(
        "git init -q .env.d/sub; monitor >> .env.d/sub/.git/config", "status", ".env.d/sub"
    ),
    "in a folder that cannot be listed": Attack(
        "git init -q shut/sub; monitor >> shut/sub/.git/config; chmod 311 shut", "status", "shut/sub"
    ),
    "in folders that cannot be changed": Attack(
        "git init -q sub; monitor >> sub/.git/config; chmod 555 sub/.git sub", "status", "sub"
    ),
    "a step of a rebase": Attack(
        "git checkout -q -b side; mkdir .git/rebase-merge; cd .git/rebase-merge; git rev-parse HEAD | tee orig-head >"
        " onto; echo refs/heads/side > head-name; echo exec $evil > git-rebase-todo; : > done; : > interactive",
        "rebase --continue",
    ),
    "the strategy of a rebase": Attack(
        "git checkout -q -b side HEAD~; git commit -q --allow-empty -m x; id=$(git rev-parse HEAD);"
        " git checkout -q -; mkdir git-merge-..; mkdir .git/rebase-merge; cd .git/rebase-merge; git rev-parse HEAD |"
        " tee orig-head > onto; echo refs/heads/side > head-name; echo pick $id > git-rebase-todo; : > done;"
        " : > interactive; echo ../../evil > strategy",
        "rebase --continue",
    ),
    "the strategy of a cherry-pick": Attack(
        "git checkout -q -b side HEAD~; git commit -q --allow-empty -m x; id=$(git rev-parse HEAD);"
        " git checkout -q -; mkdir git-merge-..; mkdir .git/sequencer; cd .git/sequencer; git rev-parse HEAD > head;"
        " echo pick $id | tee todo > done; cat done >> todo; rm done;"
        " printf '[options]\n\tstrategy = ../../evil\n\tallow-empty = true\n' > opts",
        "cherry-pick --continue",
    ),
}


def git(box: Box, folder: str | Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git as the user does, outside of any sandbox."""
    env = {"PATH": os.environ["PATH"], "HOME": str(box.home), **ENVIRONMENT}
    return subprocess.run([*as_user(box.worker.uid), "git", *arguments], cwd=folder, env=env, capture_output=True)


@functools.cache
def repository() -> Path:
    """Make a repository with two commits, a payload, and something to move, once; readable for every user."""
    top = Path(tempfile.mkdtemp(prefix="hilt-repository-"))
    atexit.register(shutil.rmtree, top)
    top.chmod(0o755)
    folder = top / "repository"
    folder.mkdir()
    (folder / "evil").write_text('#!/bin/sh\ntouch "$HOME/../marker"\n')
    (folder / "evil").chmod(0o755)
    script = f"export {WHO}; set -e; git init -q .; git add evil; git commit -qm 1; git commit -q --allow-empty -m 2;"
    script += "git init -q lib; git -C lib commit -q --allow-empty -m 1; "
    script += "git init -q fixture/dotgit.x; mv fixture/dotgit.x/.git fixture/dotgit; rmdir fixture/dotgit.x;"
    script += "mkdir fixture/hooks; cp evil fixture/hooks/post-commit; rm fixture/dotgit/HEAD;"
    subprocess.run(["bash", "-c", script], cwd=folder, env={"PATH": os.environ["PATH"], "HOME": str(top)}, check=True)
    return folder


def prepare(box: Box, name: str) -> Path:
    """Make a repository of the user with two commits, a payload that leaves a marker, and something to move."""
    folder = box.base / name
    folder.mkdir(parents=True, exist_ok=True)
    box.own()
    script = f"cp -R {repository()}/. .; printf '[core]\\nfsmonitor=%s\\n' $PWD/evil >> fixture/dotgit/config"
    run_freely(box, folder, script)
    return folder


def run_freely(box: Box, folder: Path, script: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(box.home)}
    subprocess.run([*as_user(box.worker.uid), "bash", "-c", script], cwd=folder, env=env, check=True)


def is_marked(box: Box) -> bool:
    return os.path.exists(box.base / "marker")


@pytest.fixture(params=["bubblewrap, ordinary user", "landlock, root"])
def any_box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """A workspace under either sandbox of Linux."""
    from hilt.sandbox.ruleset import abi

    kind, user = request.param.split(", ")
    if kind == "landlock" and not abi():
        pytest.skip("no Landlock")
    worker: Worker = request.getfixturevalue("own_worker" if user == "root" else "ordinary_worker")
    box = Box(worker, kind="landlock" if kind == "landlock" else "")
    yield box
    box.close()


def script_of(attack: Attack) -> str:
    # moved as if it were part of a project; a complete folder would be a repository at once
    return BEGIN + "if [ -d fixture/dotgit ]; then cp .git/HEAD fixture/dotgit; fi; " + attack.script


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_that_a_command_plants_runs_with_the_next_git(any_box, attack):
    box = any_box
    if not box.kind:  # one kind of box is enough
        free = prepare(box, "free")
        run_freely(box, free, script_of(attack))
        git(box, free / attack.folder, *attack.git.split())
        assert is_marked(box), "the payload does not work"
        os.unlink(box.base / "marker")
    prepare(box, "ws")

    done = box.run(script_of(attack))

    assert done.code == 0, done.output
    git(box, box.workspace / attack.folder, *attack.git.split())
    assert not is_marked(box)
    assert box.notes


HARMLESS = {
    "init": ("git init -q sub", "sub"),
    "init with a separate folder": ("git init -q --separate-git-dir=store sub", "sub"),
    "clone": ("git clone -q . sub", "sub"),
    "clone of a branch": ("git clone -q --depth 1 file://$PWD sub", "sub"),
    "bare": ("git clone -q --bare . sub", "sub"),
    "worktree": ("git worktree add -q sub", "sub"),
    "submodule": (
        "git init -q sub; cd sub; git -c protocol.file.allow=always submodule --quiet add $OLDPWD/lib lib;"
        " git commit -qm x",
        "sub/lib",
    ),
    "a rebase that stops": (
        "echo a > a; git add a; git commit -qm a; git checkout -q -b side HEAD~; echo b > a;"
        " git add a; git commit -qm b;"
        " ! git rebase -q - > /dev/null 2>&1; test -e .git/rebase-merge",
        ".",
    ),
    "a rebase with steps to its end": ("git rebase -q -f -x 'sleep 2' HEAD~", "."),
    "settings that run nothing": (
        "git init -q sub; cd sub; git config user.name 'a # b'; git config branch.x.remote o;"
        " git config remote.o.url https://example.org/x.git; git config pull.rebase true",
        "sub",
    ),
}


@pytest.mark.parametrize("script, folder", HARMLESS.values(), ids=HARMLESS)
def test_ordinary_use_of_git_disables_nothing(any_box, script, folder):
    box = any_box
    prepare(box, "ws")

    done = box.run(BEGIN + script)

    assert done.code == 0, done.output
    assert box.notes == []
    assert [path for path in box.tree() if ".disabled-" in path] == []
    assert git(box, box.workspace / folder, "log", "-1" if folder != "sub" else "--all").returncode == 0


def test_settings_of_the_user_are_unchanged(any_box):
    box = any_box
    prepare(box, "ws")
    run_freely(
        box,
        box.workspace,
        f"export {WHO}; git init -q sub; for at in . sub; do git -C $at config alias.st status;"
        " git -C $at config core.hooksPath .githooks; done; cp evil sub/.git/hooks/pre-push;"
        " git -C sub commit -q --allow-empty -m 1; git -C sub commit -q --allow-empty -m 2;"
        " ! git -C sub rebase -q -f -x 'false' -x 'true' HEAD~ > /dev/null 2>&1;"
        " cp -r .git evil.git; touch evil.git/commondir;"
        " mkdir vendor; git init -q --bare vendor/x; git --git-dir=vendor/x config core.pager less;"
        " git status > /dev/null",  # notes in the index when the copied files were changed
    )
    before = box.tree(box.workspace)

    box.run("git status > /dev/null; git -C sub log > /dev/null; true")

    assert box.notes == []
    assert box.tree(box.workspace) == before


def test_removed_settings_are_saved_and_the_others_stay(box):
    prepare(box, "ws")

    box.run(BEGIN + "git clone -q . sub; monitor >> sub/.git/config; git -C sub config user.name me")

    [note] = box.notes
    assert note.startswith("sub/.git/config ")
    assert "core.fsmonitor" in note
    [original] = (box.workspace / "sub/.git").glob("config.disabled-*")
    assert original.name in note
    assert "fsmonitor" in original.read_text()
    assert git(box, box.workspace / "sub", "config", "user.name").stdout == b"me\n"
    assert git(box, box.workspace / "sub", "remote").stdout == b"origin\n"


def test_only_the_added_setting_is_removed_from_the_users_own(worker):
    box = Box(worker, kind="landlock")
    prepare(box, "ws")
    run_freely(box, box.workspace, "git config alias.st status")

    box.run(BEGIN + "monitor >> .git/config")
    config = (box.workspace / ".git/config").read_text()
    box.close()

    assert "st = status" in config
    assert "fsmonitor" not in config


def test_a_relative_hooks_path_cannot_be_redirected_to_another_folder(any_box):
    box = any_box
    prepare(box, "ws")
    run_freely(box, box.workspace, "git config core.hooksPath .githooks")

    box.run(BEGIN + "mkdir -p sub/.githooks; cp evil sub/.githooks/post-commit; echo gitdir: ../.git > sub/.git")

    git(box, box.workspace / "sub", "commit", "-q", "--allow-empty", "-m", "x")
    assert len(box.notes) == 1
    assert not is_marked(box)


def test_attacks_that_git_itself_refuses_are_not_disabled(box):
    prepare(box, "ws")
    box.run(
        BEGIN + "git init -q sub; cd sub; git -c protocol.file.allow=always submodule --quiet add $OLDPWD/lib lib;"
        " git commit -qm x; git submodule --quiet deinit -f lib;"
        ' git config -f .gitmodules submodule.lib.update "!$evil"; git commit -qam y; mkdir .git/rebase-apply;'
        " echo exec $evil > .git/rebase-apply/git-rebase-todo"
    )
    assert box.notes == []

    git(box, box.workspace / "sub", "-c", "protocol.file.allow=always", "submodule", "update", "--init")
    git(box, box.workspace / "sub", "rebase", "--continue")

    assert not is_marked(box)


def test_an_interrupted_command_is_checked_at_the_next_start(any_box):
    box = any_box
    prepare(box, "ws")
    attack = ATTACKS["another common folder"].script
    box.start(
        BEGIN + attack + "; git init -q sub; monitor >> sub/.git/config; mkdir sub/.claude; echo ready; sleep 300"
    )

    os.kill(box.worker.pid, signal.SIGKILL)
    box.worker.restart()
    box.run("true")

    for folder in (".", "sub"):
        assert git(box, box.workspace / folder, "status").returncode == 0
    assert not is_marked(box)
    assert not (box.workspace / "sub/.claude").exists()


def test_files_that_the_user_makes_long_after_a_crash_are_untouched(box):
    prepare(box, "ws")
    box.start("echo ready; sleep 300")
    os.kill(box.worker.pid, signal.SIGKILL)
    [record] = (box.state / "running").iterdir()
    os.utime(record, (record.stat().st_atime, record.stat().st_mtime - 3600))
    run_freely(box, box.workspace, "git init -q sub; git -C sub config alias.st status")
    box.worker.restart()

    box.run("true")

    assert box.notes == []
    assert git(box, box.workspace / "sub", "st").returncode == 0


# --- while a job runs

EVERYDAY = """set -e
for words in status log "rev-parse --git-common-dir" "branch x" "checkout -q x" "checkout -q -" "stash list"
do git $words > /dev/null; done
echo $1 > made-$1; git add made-$1; git commit -qm made; git worktree add -q tree-$1; git -C tree-$1 status > /dev/null
git worktree list > /dev/null; git worktree remove --force tree-$1; git submodule status > /dev/null
git -C lib status > /dev/null
git fetch -q ./other; git gc -q; git fsck > /dev/null 2>&1; git branch -D x tree-$1 > /dev/null; git pack-refs --all
git clone -q . cloned-$1; git rebase -q -f -x true HEAD~ > /dev/null 2>&1; git tag $1; git reset -q --hard
git -C lib log > /dev/null
"""
UPDATE = "git submodule --quiet deinit -f lib; git config submodule.lib.url $PWD/other;"
UPDATE += " git -c protocol.file.allow=always submodule --quiet update --init"


def prepare_module(box: Box) -> None:
    prepare(box, "ws")
    script = f"export {WHO}; set -e; git init -q other; git -C other commit -q --allow-empty -m 1; rm -r lib;"
    script += " git -c protocol.file.allow=always submodule --quiet add ./other lib; git commit -qam module"
    run_freely(box, box.workspace, script)


@needs_sandbox
def test_git_works_inside_and_outside_while_a_job_runs(box):
    prepare_module(box)
    box.write("ws/everyday", EVERYDAY)
    job = box.start("echo on; exec sleep 300")

    assert (box.workspace / ".git/modules/lib/commondir").read_text() == ".\n"
    inside = box.run(f"export {WHO}; bash everyday inside")
    run_freely(box, box.workspace, f"export {WHO}; bash everyday outside; {UPDATE}")
    box.stop(job)

    assert inside.code == 0, inside.output
    assert box.notes == []
    assert not list(box.workspace.rglob("commondir"))


@needs_sandbox
@pytest.mark.parametrize("folder", [".", "lib"])
def test_a_job_cannot_redirect_a_known_repository(box, folder):
    """This job is not checked while it runs: only its sandbox prevents the change."""
    prepare_module(box)
    job = box.start(
        BEGIN.replace("set -e", "at=$(git -C lib rev-parse --absolute-git-dir)")
        + "cp -r .git elsewhere; monitor >> elsewhere/config; echo $PWD/elsewhere > to; echo on;"
        " while :; do for git in .git $at; do cp to $git/commondir; cp to x; mv -fT x $git/commondir; done; done 2> no"
    )

    try:
        codes = {git(box, box.workspace / folder, "status").returncode for _ in range(GITS)}
    finally:
        box.stop(job)

    assert codes == {0}
    assert not is_marked(box)


def test_git_outside_works_while_commands_start_and_end(box):
    prepare_module(box)
    errors = []
    over = threading.Event()

    def poll_status() -> None:
        while not over.is_set():
            done = git(box, box.workspace, "status")
            # git reports an error if it reads the file at the moment of its removal
            if done.returncode and b"commondir: No such file" not in done.stderr:
                errors.append(done.stderr)

    thread = threading.Thread(target=poll_status)
    thread.start()
    try:
        for _ in range(GITS):
            assert box.run("git status > /dev/null") == (0, "")
    finally:
        over.set()
        thread.join()

    assert errors == []


AGAIN = {
    "in a loop": "git init -q sub; cp sub/.git/config c; monitor >> c; while :; do cp c sub/.git/config; done",
    "a hook": "git init -q sub; while :; do cp -n evil sub/.git/hooks/post-commit; done",
    "new names forever": "git init -q sub; for i in {1..100000}; do git -C sub config alias.a$i '!x' 2> no; done",
    "new repositories forever": "git init -q sub; cp sub/.git/config c; monitor >> c;"
    " while :; do rm -rf sub; git init -q sub; cp c sub/.git/config; sleep 0.02; done",
}


@pytest.mark.parametrize("script", AGAIN.values(), ids=AGAIN)
def test_a_job_that_plants_something_again_is_ended(any_box, script):
    box = any_box
    prepare(box, "ws")

    ended = box.run_job(BEGIN.replace("set -e;", "") + script)

    assert ended.status == "stopped"
    path = ended.reason.partition("it wrote ")[2].partition(" again ")[0]
    assert any(note.startswith(f"{path} ") for note in ended.notes)
    for folder in filter(os.path.isdir, (box.workspace, box.workspace / "sub")):
        git(box, folder, "status")
        git(box, folder, "commit", "-q", "--allow-empty", "-m", "x")
    assert not is_marked(box)


def test_a_command_is_checked_for_git_while_it_runs(any_box):
    """Not for configuration of agents and editors: a program that unpacks files would fail."""
    box = any_box
    prepare(box, "ws")

    done = box.run(
        BEGIN
        + "mkdir -p other/.vscode; echo {} > other/.vscode/tasks.json; git init -q sub; monitor >> sub/.git/config;"
        " for i in {1..3000}; do if ! grep -q fsmonitor sub/.git/config; then cat other/.vscode/tasks.json; exit; fi;"
        " sleep 0.01; done; exit 1"
    )

    assert done == (0, "{}\n")
    assert any("core.fsmonitor" in note for note in box.notes)
    assert not (box.workspace / "other/.vscode").exists()


def test_a_command_that_plants_something_again_is_ended(any_box):
    box = any_box
    prepare(box, "ws")

    done = box.run(BEGIN.replace("set -e;", "") + AGAIN["in a loop"])

    assert done.code == 137
    git(box, box.workspace / "sub", "status")
    assert not is_marked(box)


@needs_sandbox
def test_a_job_that_creates_agent_configuration_again_is_ended(box):
    ended = box.run_job("while :; do echo > agents.config.json; done")

    assert ended.status == "stopped"
    assert ended.reason.startswith("it wrote agents.config.json again")


ONCE = {
    "husky": "git clone -q . sub; cd sub; git config core.hooksPath .husky/_; sleep 0.5; git config user.name n;"
    " sleep 0.3",
    "husky and large files": "git clone -q . sub; cd sub; git config core.hooksPath .husky/_; sleep 0.5;"
    " git config filter.lfs.clean 'git-lfs clean'; sleep 0.5",
    "several settings in a row": "git init -q sub; cd sub; for key in clean smudge process x y z; do"
    " git config filter.lfs.$key git-lfs; done; sleep 0.5",
    "two clones": "for at in a b; do git clone -q -c core.hooksPath=.husky/_ . $at; sleep 0.3; done",
    "a hook": "git init -q sub; cp evil sub/.git/hooks/post-commit; sleep 0.5; cp evil sub/.git/hooks/pre-push;"
    " sleep 0.3",
}


@pytest.mark.parametrize("script", ONCE.values(), ids=ONCE)
def test_a_job_that_plants_something_once_continues(box, script):
    prepare(box, "ws")

    ended = box.run_job(BEGIN + script)

    assert (ended.status, ended.reason) == ("completed", "")
    assert ended.notes


def test_a_job_cannot_add_steps_to_a_rebase_in_progress(any_box):
    box = any_box
    prepare(box, "ws")
    stopped = "git rebase -q -f -x false -x true HEAD~ > /dev/null 2>&1"
    run_freely(box, box.workspace, f"export {WHO}; ! {stopped}; test -e .git/rebase-merge")
    todo = ".git/rebase-merge/git-rebase-todo"

    ended = box.run_job(
        BEGIN + f"echo exec $evil >> {todo}; for i in {{1..500}}; do grep -q evil {todo} || exit 0; sleep 0.02; done;"
        " exit 1"
    )

    assert ended.status == "completed"
    assert "the step exec" in ended.notes[0]
    assert "exec true" in (box.workspace / todo).read_text()


def test_no_record_is_left_when_a_command_has_ended(box):
    box.run("true")

    assert list((box.state / "running").iterdir()) == []


SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
inside = os.open(sys.argv[1] + "/.git", os.O_RDONLY)
print("ready", flush=True)
while True:
    for name in ("config", "commondir", "hooks/post-commit"):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755, dir_fd=inside)
        os.write(file, b"[alias]\\nx = !y\\n")
        os.close(file)
    for _ in range(101):
        libc.renameat2(-100, b"a", -100, b"b", 2)
"""


@pytest.mark.parametrize("depth", ["", "/deep"])
def test_names_swapped_for_links_do_not_lead_outside(worker, depth):
    """A job keeps swapping a folder with a link to the outside, while commands end."""
    box = Box(worker, kind="landlock")
    prepare(box, "outside/deep")
    spoil = "cp evil .git/hooks/post-commit; git config core.pager x; touch .git/commondir; cp -r .git .."
    run_freely(box, box.base / "outside/deep", spoil)
    box.write("ws/swap.py", SWAP)
    box.mkdir("ws")
    (box.workspace / "b").symlink_to(box.base / "outside")
    box.own()
    before = box.tree(box.base / "outside")
    job = box.start(f"git init -q a{depth}; exec python3 swap.py a{depth}")
    notes = 0

    for _ in range(25):
        box.run("git init -q own; echo x > own/.git/commondir")
        notes += len(box.notes)
    box.stop(job)

    assert box.tree(box.base / "outside") == before
    assert notes
    inside = next(box.workspace / name for name in "ab" if not (box.workspace / name).is_symlink())
    assert not os.path.lexists(f"{inside}{depth}/.git/commondir")
    box.close()


def test_many_repositories_do_not_hide_a_planted_one(box):
    prepare(box, "ws")
    box.run(
        BEGIN
        + "mkdir many; for i in {1..1100}; do mkdir -p many/$i/.git; done; git init -q sub; monitor >> sub/.git/config"
    )

    git(box, box.workspace / "sub", "status")

    assert not is_marked(box)


def test_names_in_notes_are_printable(box):
    prepare(box, "ws")

    box.run(BEGIN + 'name=$\'a\\e[2Jb\\nc\'; git init -q "$name"; monitor >> "$name/.git/config"')

    assert all(note.isprintable() for note in box.notes)
    assert len(box.notes) == 1


CONFIGURATION = {
    "a folder": ("mkdir -p sub/.claude; echo '{}' > sub/.claude/settings.json", "sub/.claude"),
    "a file": ("mkdir sub; echo '{}' > sub/.mcp.json", "sub/.mcp.json"),
    "far below": ("mkdir -p a/b/c/.codex; echo x > a/b/c/.codex/config.toml", "a/b/c/.codex"),
    "for hilt itself": ("mkdir -p a/.hilt; echo x > a/.hilt/config.toml", "a/.hilt"),
    "in other letters": ("mkdir -p a/.Cursor; echo x > a/.Cursor/mcp.json", "a/.Cursor"),
    "that was moved": ("mkdir -p x/y a; echo x > x/y/z; mv x/y a/.gemini", "a/.gemini"),
    "a link": ("mkdir -p x a; echo x > x/settings.json; ln -s ../x a/.claude", "a/.claude"),
    "in a clone": (
        "git init -q x; cd x; mkdir .claude; echo > .claude/settings.json; git add .; git commit -qm 1; cd ..;"
        " git clone -q x a; rm -rf x",
        "a/.claude",
    ),
    "below a sensitive name": ("mkdir -p .env.d/.claude; echo > .env.d/.claude/settings.json", ".env.d/.claude"),
    "in a folder that cannot be listed": ("mkdir -p a/.claude; echo x > a/.claude/x; chmod 311 a", "a/.claude"),
}


@pytest.mark.parametrize("script, path", CONFIGURATION.values(), ids=CONFIGURATION)
def test_configuration_of_an_agent_in_a_new_folder_is_put_aside(any_box, script, path):
    box = any_box
    prepare(box, "ws")

    done = box.run(BEGIN + script)

    assert done.code == 0, done.output
    assert not os.path.lexists(box.workspace / path)
    [renamed] = (box.workspace / path).parent.glob(f"{os.path.basename(path)}.disabled-*")
    [note] = [note for note in box.notes if "configuration" in note]
    assert note == (
        f"New configuration of programs, agents or editors was renamed: {path} to {renamed.name}. To use it, review it "
        "and rename it back."
    )


@pytest.mark.parametrize("path", [".claude/settings.json", ".mcp.json", ".vscode/tasks.json", ".codex/config.toml"])
def test_new_configuration_at_the_top_is_never_left_under_any_sandbox(any_box, path):
    box = any_box

    box.run(f"mkdir -p {os.path.dirname(path) or '.'}; echo evil > {path}")

    assert not (box.workspace / path).exists()


def test_configuration_of_an_agent_that_existed_stays_even_if_its_folder_moves(any_box):
    box = any_box
    box.write("ws/a/b/.claude/settings.json", "{}")
    box.write("ws/c/.mcp.json", "{}")

    assert box.run("mv a/b a/d; echo x > a/x") == (0, "")

    assert box.notes == []
    assert (box.workspace / "a/d/.claude/settings.json").read_text() == "{}"
    assert (box.workspace / "c/.mcp.json").read_text() == "{}"


@pytest.mark.parametrize("moved", ["a", "a/b"])
@pytest.mark.parametrize("path", ["a/b/.claude/settings.json", "a/b/.mcp.json", "a/b/.claude/new.json"])
def test_configuration_in_a_folder_that_replaces_a_moved_one_is_put_aside(any_box, moved, path):
    box = any_box
    box.write("ws/a/b/.claude/settings.json", "{}")
    box.write("ws/a/b/.mcp.json", "{}")

    done = box.run(f"mv {moved} moved; mkdir -p {os.path.dirname(path)}; echo evil > {path}")

    assert done == (0, "")
    assert not (box.workspace / path).exists()
    assert "configuration" in box.notes[0]
    kept = box.workspace / ("moved/b" if moved == "a" else "moved")
    assert (kept / ".claude/settings.json").read_text() == "{}"
    assert (kept / ".mcp.json").read_text() == "{}"


def test_hooks_in_a_folder_that_replaces_a_moved_one_are_disabled(any_box):
    """They are in a folder whose configuration was read-only where it was."""
    box = any_box
    prepare(box, "ws")
    box.write("ws/a/.husky/pre-commit", "true\n")
    run_freely(box, box.workspace, "git config core.hooksPath a/.husky")

    box.run(f"mv a moved; mkdir -p a/.husky; cp {box.workspace}/evil a/.husky/pre-commit")

    assert not (box.workspace / "a/.husky/pre-commit").exists()


def test_a_file_instead_of_a_link_is_new_configuration(any_box):
    """The new file may have the inode of the removed link."""
    box = any_box
    for number in range(20):
        box.write(f"ws/sub{number}/mcp", "{}")
        (box.workspace / f"sub{number}/.mcp.json").symlink_to("mcp")
    box.own()

    box.run("for i in sub*; do rm $i/.mcp.json; echo evil > $i/.mcp.json; done")

    assert list(box.workspace.glob("sub*/.mcp.json")) == []
    assert box.notes


def test_a_reference_does_not_lead_to_what_commands_cannot_change(box):
    box.write("ws/.hilt/hooks/guard", "#!/bin/sh\n")
    (box.workspace / ".hilt/hooks/guard").chmod(0o755)
    box.write("ws/.hilt/config", "not git's")

    box.run("mkdir sub; echo gitdir: ../.hilt > sub/.git")

    assert (box.workspace / ".hilt/hooks/guard").exists()
    assert (box.workspace / ".hilt/config").exists()
    assert not (box.workspace / "sub/.git").exists()
    assert "sub/.git" in box.notes[0]


@pytest.mark.parametrize("name", ["config", "hooks/post-commit"])
def test_a_file_in_a_repository_that_another_name_leads_to_is_checked(any_box, name):
    box = any_box
    prepare(box, "ws")
    box.run(f"{BEGIN} git init -q sub; touch sub/.git/hooks/post-commit; ln sub/.git/{name} other")

    content = "monitor" if name == "config" else "cat evil"
    box.run(f"{BEGIN} {content} >> other; chmod +x other")

    git(box, box.workspace / "sub", "status")
    git(box, box.workspace / "sub", "commit", "-q", "--allow-empty", "-m", "x")
    assert not is_marked(box)
    assert box.notes


KNOWN = {
    "hooks in the workspace": ("git config core.hooksPath .githooks", ".githooks/post-commit", "cat $evil"),
    "included settings": ("git config include.path ../shared.conf", "shared.conf", "monitor"),
    "settings that are included by included ones": (
        "git config include.path ../first.conf; git config -f first.conf include.path second.conf",
        "second.conf",
        "monitor",
    ),
    "settings that are included on a condition": (
        'git config includeIf."gitdir:$PWD/".path ../shared.conf',
        "shared.conf",
        "monitor",
    ),
    "settings of the user": ('git config -f $HOME/.gitconfig include.path "$PWD/user.conf"', "user.conf", "monitor"),
    "a link to a hook": ("ln -s ../../hook.sh .git/hooks/post-commit", "hook.sh", "cat $evil"),
}


@pytest.mark.parametrize("setting, path, content", KNOWN.values(), ids=KNOWN)
def test_what_the_users_own_settings_lead_to_is_checked(any_box, setting, path, content):
    box = any_box
    prepare(box, "ws")
    run_freely(box, box.workspace, f"set -e; {setting}; mkdir -p $(dirname {path})")
    plant = f"mkdir -p $(dirname {path}); {content} > {path}; chmod +x {path}"
    git_commands = (("status",), ("commit", "-q", "--allow-empty", "-m", "x"))

    assert box.run(BEGIN + plant).code == 0

    for arguments in git_commands:
        git(box, box.workspace, *arguments)
    assert not is_marked(box)
    assert path in box.notes[0]
    if not box.kind:
        run_freely(box, box.workspace, BEGIN + plant)
        for arguments in git_commands:
            git(box, box.workspace, *arguments)
        assert is_marked(box), "the payload does not work"


def test_configuration_of_an_agent_that_a_job_writes_is_put_aside_while_it_runs(box):
    ended = box.run_job("mkdir -p sub/.claude; echo x > sub/.claude/x; while [ -e sub/.claude ]; do sleep 0.05; done")

    assert ended.status == "completed"
    assert "sub/.claude to .claude.disabled-" in ended.notes[0]


@pytest.mark.parametrize("name", [".GIT", ".Git", ".g\u200bit", "．git"])
def test_a_repository_in_other_letters_is_checked(any_box, name):
    box = any_box
    prepare(box, "ws")

    box.run(
        f"{BEGIN} git init -q sub; monitor >> sub/.git/config; mv sub/.git/config sub/.git/CONFIG;"
        f" mv sub/.git sub/{name}"
    )

    assert "fsmonitor" not in (box.workspace / "sub" / name / "CONFIG").read_text()
    assert len(box.notes) == 1


ODD = {
    "a very long path": "{ printf 'gitdir: '; yes a/ | head -n 100000 | tr -d '\\n'; } > odd/.git",
    "bytes that are no text": "printf 'gitdir: \\377\\376' > odd/.git",
    "a very large file": "{ printf 'gitdir: '; head -c 20000000 /dev/zero; } > odd/.git",
    "a pipe": "mkfifo odd/.git",
    "a folder for the configuration": "git init -q odd; rm odd/.git/config; mkdir odd/.git/config",
    "pipes for files": "git init -q odd; cd odd/.git; rm config HEAD; mkfifo config HEAD hooks/post-commit",
    "links in a loop": "ln -s b odd/a; ln -s a odd/b; echo gitdir: a/x > odd/.git",
    "a link to itself": "ln -s .git odd/.git",
    "itself as its common folder": "git init -q odd; echo ../.git > odd/.git/commondir; echo ../../odd/.git/objects"
    " > odd/.git/objects/info/alternates",
    "many alternates": "git init -q odd; seq 200000 > odd/.git/objects/info/alternates",
}


@pytest.mark.parametrize("script", ODD.values(), ids=ODD)
def test_odd_files_do_not_keep_the_rest_from_being_checked(any_box, script):
    box = any_box
    prepare(box, "ws")

    done = box.run(
        f"{BEGIN} git init -q sub; git init -q asub; mkdir odd; ({script})"
        "; for at in sub asub; do monitor >> $at/.git/config; done"
    )

    assert done.code == 0, done.output
    for folder in ("sub", "asub"):
        git(box, box.workspace / folder, "status")
    assert not is_marked(box)
    assert {note.split()[0] for note in box.notes} >= {"sub/.git/config", "asub/.git/config"}
