from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from hilt.sandbox import git_view, gitfiles

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")

SETUP = """
git init -q -b main . && git config user.name N && git config user.email n@example.com
mkdir src && echo a > src/a && echo SECRET=1 > .env && touch -d 2020-01-01 .env
git add -A && git commit -qm one && echo b >> src/a && git commit -qam two && echo c >> src/a
"""


@pytest.fixture
def repository(box):
    """A repository with a tracked `.env`, and a change."""
    trust = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    subprocess.run(["bash", "-ec", SETUP], cwd=box.workspace, env={**os.environ, **trust}, check=True)
    box.own()
    return box


def config(box):
    return box.workspace.joinpath(".git/config").read_text()


@pytest.mark.parametrize(
    "script, printed",
    [
        ("git status --short", " M src/a\n"),
        ("git diff --stat | tail -1", " 1 file changed, 1 insertion(+)\n"),
        ("git commit -qam three && git log -1 --format=%s", "three\n"),
        ("echo x > new && git add -A && git status --short", "A  new\nM  src/a\n"),
        ("git stash -q && git status --short && git stash pop -q && git status --short", " M src/a\n"),
        ("git stash -q && git checkout -q HEAD~1 && git log -1 --format=%s", "one\n"),
        ("echo X=1 > .env.local; mkdir n; echo Y=1 > n/.env; git add -A && git commit -qm x && echo fine", "fine\n"),
    ],
)
def test_git_works_beside_a_hidden_file(repository, script, printed):
    repository.write("ws/later/.env", "SECRET=2")

    assert repository.run(script).output == printed
    assert repository.run("cat .env").code != 0
    assert "SECRET=2" not in repository.run("git log -p --all; cat later/.env; git diff; git stash show -p").output


def test_git_ignores_only_what_is_hidden_here(repository):
    repository.write("ws/later/.env", "SECRET=2")

    script = "git init -q sub && cd sub && mkdir .vscode later && echo x > .vscode/x && git status --short -uall"
    assert repository.run("git clean -nd").output == ""
    assert ".vscode/x" in repository.run(script).output


@pytest.mark.parametrize(
    "script, stored",
    [
        ("git remote add origin https://example.com/x.git", "url = https://example.com/x.git"),
        ("git remote add origin git@example.com:x.git", "url = git@example.com:x.git"),
        ("git config user.name 'New Name'", "name = New Name"),
        ("git checkout -q -b topic --track main", "merge = refs/heads/main"),
        ("git branch --set-upstream-to=main -q $(git checkout -q -b t; echo t)", "merge = refs/heads/main"),
    ],
)
def test_harmless_settings_are_stored(repository, script, stored):
    assert repository.run(script).code == 0
    assert stored in config(repository)


DANGERS = {
    "a program": "git config core.fsmonitor ./evil",
    "an alias": "git config alias.status '!evil'",
    "a filter": "git config filter.x.clean evil",
    "an include": "git config include.path ../evil",
    "a conditional include": "git config includeIf.gitdir:/.path ../evil",
    "hooks": "git config core.hooksPath ../evil",
    "a worktree": "git config core.worktree ..",
    "a rewritten address": "git config url.ext::evil.insteadOf https://",
    "an address": "git remote add x 'ext::sh -c evil'",
    "a pushed address": "git remote add x https://example.com; git config remote.x.pushurl 'ext::sh -c evil'",
    "an option": "git config remote.x.url -oProxyCommand=evil",
    "a folder": "git config remote.x.url ./evil",
    "a whole path": "git config remote.x.url /tmp/evil",
    "the address of a folder": "git config remote.x.url file:///tmp/evil",
    "a folder as the remote of a branch": "git config branch.main.remote evil",
    "a remote that is a folder": "git remote add evil ./x; git config branch.main.pushremote evil",
    "a host": "git config remote.x.url ssh://-oProxyCommand=evil/x",
    "a helper": "git config remote.x.vcs evil",
    "a receiver": "git config remote.x.receivepack evil",
    "the remote of a branch": "git config branch.main.remote 'ext::sh -c evil'",
    "an editor": "git config core.editor evil",
    "a signature": "git config gpg.program evil",
    "text that git reads differently": "printf '[user] name = x\\n[alias] y = !evil\\n' >> .git/config",
    "a continued line": r"printf '[user]\n name = x\\\n[alias]\n y = !evil\n' >> .git/config",
    "a carriage return": r"printf '[user]\n name = x\r[alias]\r y = !evil\n' >> .git/config",
    "a replaced file": "cp .git/config new; echo '[alias] x = !evil' >> new; mv -f new /run/hilt-git/0/config",
}


@pytest.mark.parametrize("danger", DANGERS)
def test_settings_that_run_programs_are_not_stored(repository, danger):
    before = config(repository)

    repository.run(f"{DANGERS[danger]}; echo $?")

    after = config(repository)
    assert "evil" not in after
    assert gitfiles.judge_config(after.encode(), lambda _: False, lambda _: False) == gitfiles.HARMLESS
    assert before.splitlines()[:4] == after.splitlines()[:4]


@pytest.mark.parametrize(
    "script",
    [
        "git config --unset core.bare; git config --unset core.filemode; git config user.name x",
        "rm /run/hilt-git/0/config; ln -s /etc/hostname /run/hilt-git/0/config",
        "rm /run/hilt-git/0/config; mkdir /run/hilt-git/0/config",
        "rm /run/hilt-git/0/config; mkfifo /run/hilt-git/0/config",
        "rm -r /run/hilt-git/0; ln -s $PWD/other /run/hilt-git/0; mkdir other; echo '[user]' > other/config",
        "rm .git/config; mv .git/config .git/old; ln -f .git/config x; echo '[user]' > .git/config.lock",
        "head -c 2000000 /dev/zero | tr '\\0' '#' >> .git/config",
        "echo '# text' >> .git/config",
    ],
)
def test_nothing_else_is_stored(repository, script):
    before = config(repository)

    repository.run(script)

    assert config(repository) == before
    assert os.listdir(repository.workspace / ".git/hooks") != ["evil"]


def test_a_branch_keeps_the_address_of_its_remote(repository):
    setup = "git remote add origin https://example.com/x.git && git config branch.main.remote origin"
    assert repository.run(setup).code == 0
    before = config(repository)

    repository.run("git config --unset remote.origin.url")
    assert config(repository) == before
    repository.run("git remote remove origin")
    assert "origin" not in config(repository)


@pytest.mark.parametrize("data", [b"[a]\nx = 1\n", b"[a]\n" + b"x = 12345\n" * 9])
def test_a_configuration_is_stored_whole(tmp_path, data):
    path = tmp_path / "config"
    path.write_bytes(b"[a]\n" + b"x = 1\n" * 9)
    status = tmp_path.stat()
    before = git_view._Configuration(str(path), (status.st_dev, status.st_ino), path.read_bytes())

    assert git_view._store(before, data)
    assert path.read_bytes() == data


def test_a_setting_is_stored_for_git_outside(repository):
    repository.run("git remote add origin https://example.com/x.git")

    command = ["git", "-c", f"safe.directory={repository.workspace}", "remote"]
    assert subprocess.check_output(command, cwd=repository.workspace, text=True) == "origin\n"


def test_a_configuration_that_changes_meanwhile_is_kept(repository):
    job = repository.start("git config user.name x; echo on; read line")
    path = repository.workspace / ".git/config"
    path.write_text(path.read_text() + "# by the user\n")
    repository.stop(job)

    assert "# by the user" in config(repository)
    assert "name = x" not in config(repository)
    assert "config.lock" not in os.listdir(path.parent)


def test_a_job_cannot_change_what_another_command_stores(repository):
    """The file itself is written, never one that replaces it, which the job could open before."""
    inode = os.stat(repository.workspace / ".git/config").st_ino
    script = "while :; do for f in .git/config*; do echo '[alias] x = !evil' >> $f; done; done 2>/dev/null"
    job = repository.start(f"echo on; {script}")
    for number in range(5):
        repository.run(f"git config user.name n{number}")
        assert "evil" not in config(repository)
    repository.stop(job)

    assert "evil" not in config(repository)
    assert os.stat(repository.workspace / ".git/config").st_ino == inode
