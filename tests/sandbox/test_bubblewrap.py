"""What a program under bubblewrap can do, tried by hostile programs as root and as an ordinary user.

Each step of the profile is also omitted once, to prove that it is this step that prevents the attack.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from hilt.sandbox import view
from hilt.sandbox.sandbox import Sandbox, make_private
from hilt.sandbox.sensitive import Findings
from tests.marks import HANG_SECONDS, wait_until
from tests.sandbox.confined import SECRET, Box, Busy, Refused, make_profile
from tests.sandbox.test_swapping import PLACES

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")

HOOK = "echo evil > .git/hooks/pre-commit"
REPOSITORY = {
    "ws/.git/HEAD": "ref: refs/heads/main\n",
    "ws/.git/config": "[core]\n",
    "ws/.git/hooks/pre-push": "#!/bin/sh\n",
    "ws/.git/objects/keep": "",
    "ws/.git/refs/keep": "",
    "ws/.git/modules/lib/inner/HEAD": "ref: refs/heads/main\n",
    "ws/.git/modules/lib/inner/config": "[core]\n",
    "ws/.git/modules/lib/inner/hooks/keep": "",
    "ws/.git/worktrees/w/commondir": "../..\n",
    "ws/.git/worktrees/w/gitdir": "/elsewhere/.git\n",
    "ws/lib/inner/.git": "gitdir: ../../.git/modules/lib/inner\n",
    "ws/vendor/tool/.git/HEAD": "ref: refs/heads/main\n",
    "ws/vendor/tool/.git/config": "[core]\n",
    "ws/.hilt/settings.toml": "a = 1\n",
}


def fill(box: Box, files: dict[str, str]) -> None:
    for path, text in files.items():
        box.write(path, text)


# --- what works


def test_the_workspace_is_writable_and_the_system_is_readable(box):
    box.write("ws/a.txt", "one\n")

    done = box.run(
        "cat a.txt; echo two > b.txt; mkdir -p c/d; mv b.txt c/d; head -c0 /etc/passwd && ls / | grep -x usr"
    )

    assert done == (0, "one\nusr\n")
    assert (box.workspace / "c/d/b.txt").read_text() == "two\n"


def test_git_works_and_cannot_be_made_to_run_other_code(box):
    done = box.run(
        "git init -q . 2>/dev/null; echo no: $?; git -c init.defaultBranch=main init -q sub && cd sub && "
        "echo a > a && git add a && git -c user.name=n -c user.email=e commit -qm m && git log --format=%s"
    )

    assert done.output.splitlines()[-1] == "m"
    assert not (box.workspace / ".git").exists()


def test_git_commits_in_a_protected_repository(box):
    fill(box, {**REPOSITORY})

    done = box.run(
        "git add .hilt && git -c user.name=n -c user.email=e commit -qm first && git checkout -qb other && "
        "git status --short -uno && git log --format=%s; git config user.name x && git config user.name"
    )

    assert done.output.splitlines()[0] == "first"
    assert done.output.splitlines()[-1] == "x"


def test_the_exit_code_of_the_program_is_returned(box):
    assert box.run("exit 7").code == 7
    assert box.run("kill -SEGV $$").code == 139


@pytest.mark.parametrize("name", ["read-only", "workspace-write"])
def test_temporary_files_stay_for_the_next_command_of_the_session(box, name):
    box.run("echo one > /tmp/a; echo two > /var/tmp/b; echo three > ~/.cache/c; echo four > $TMPDIR/d", name=name)

    assert box.run("cat /tmp/a /var/tmp/b ~/.cache/c /tmp/d", name=name).output.split() == [
        "one",
        "two",
        "three",
        "four",
    ]
    assert box.run("ls /tmp/a ~/.cache/c 2>/dev/null", name=name, session="s2").output == ""
    assert list((box.home / ".cache").iterdir()) == []
    assert not os.path.exists("/var/tmp/b")


def test_new_agent_configuration_is_disabled_afterwards(box):
    assert box.run("ls; echo evil > agents.config.json").output == ""
    [leftover] = [path.name for path in box.workspace.iterdir()]
    assert leftover.startswith("agents.config.json.disabled-")


def test_a_missing_cache_folder_exists_while_a_program_runs(box):
    (box.home / ".cache").rmdir()

    assert box.run("mkdir -p ~/.cache/x && echo made").output == "made\n"
    assert not (box.home / ".cache").exists()


@pytest.mark.parametrize(
    "program, code", [("no-such-program", "runtime_missing"), ("./a.txt", "permission_denied"), ("", "runtime_missing")]
)
def test_a_program_that_cannot_be_started_is_not_a_fault_of_the_sandbox(box, program, code):
    box.write("ws/a.txt", "")

    with pytest.raises(Refused) as raised:
        box.worker.ask(do="run", **{**box.request(""), "argv": [program, "-c", "x"]})

    assert raised.value.code == code
    assert program in str(raised.value)


def test_a_folder_that_cannot_be_entered_is_not_a_fault_of_the_sandbox(box):
    box.mkdir("ws/closed").chmod(0)

    with pytest.raises(Refused) as raised:
        box.run("true", cwd=box.workspace / "closed")

    assert raised.value.code == "permission_denied"


def test_closing_waits_until_mount_points_are_removed_from_the_workspace(own_worker):
    box = Box(own_worker)
    sandbox = Sandbox(str(box.state))
    started, released = threading.Event(), threading.Event()

    def run() -> None:
        profile = make_profile(box.profile())
        with sandbox.confine(profile, str(box.workspace)):
            started.set()
            released.wait(HANG_SECONDS)
            time.sleep(0.2)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(HANG_SECONDS)
    assert (box.workspace / ".git").is_dir()
    released.set()
    sandbox.close()

    assert os.listdir(box.workspace) == []
    thread.join()
    box.close()


def test_a_cache_folder_stays_while_another_command_uses_it(box):
    (box.home / ".cache").rmdir()
    first = box.start("echo on; sleep 3600")
    second = box.start("echo on; while sleep 0.02; do test -e go && { mkdir ~/.cache/x && touch made; exit; }; done")

    box.stop(first)
    assert (box.home / ".cache").is_dir()
    box.write("ws/go", "")
    wait_until((box.workspace / "made").exists)
    box.stop(second)

    assert not (box.home / ".cache").exists()


def test_the_first_command_after_a_crash_runs(box):
    (box.home / ".cache").rmdir()
    box.run("true")
    for path in (box.home / ".cache", box.workspace / ".git"):
        box.mkdir(path.relative_to(box.base))
        (box.state / "mountpoints" / path.name).write_text(f"+{path.stat().st_ino}{path}\0")
    box.worker.ask(do="forget", state=str(box.state))

    assert box.run("touch ~/.cache/x && echo ran").output == "ran\n"
    assert not (box.home / ".cache").exists()
    assert not (box.workspace / ".git").exists()


def test_shared_memory_is_private(box):
    assert box.run("echo a > /dev/shm/hilt-test-x && cat /dev/shm/hilt-test-x").output == "a\n"
    assert not os.path.exists("/dev/shm/hilt-test-x")


def test_the_session_folder_is_readable_at_its_own_path_and_at_the_fixed_one(box):
    box.write("state/sessions/s1/spill.out", "spilled\n")
    box.write("state/sessions/s2/spill.out")

    done = box.run(f"cat {box.state}/sessions/s1/spill.out /tmp/jean2/s1/spill.out; echo x > /tmp/jean2/s1/x")

    assert done.output.startswith("spilled\nspilled\n")
    assert box.run(f"ls {box.state} {box.state}/sessions").output.splitlines().count("s2") == 0
    assert sorted(path.name for path in (box.state / "sessions/s1").iterdir()) == ["spill.out"]


@pytest.mark.parametrize("session", ["", ".", "..", "../../etc", "a/b", "a b\nc"])
def test_a_session_may_have_any_name(box, session):
    done = box.run("ls -d /tmp/jean2/* 2>/dev/null; echo fine", session=session, private=str(box.state / "private/odd"))

    assert done.output.endswith("fine\n")
    assert ("/tmp/jean2" in done.output) == (session == "a b\nc")


def test_the_full_profile_confines_nothing(box):
    assert box.run(f"echo x > {box.home}/x && cat {box.home}/x", name="full").output == "x\n"


# --- what is refused

OUTSIDE = {
    "in the home": "echo evil > ~/x",
    "over a file in the home": "echo evil > ~/notes",
    "remove in the home": "rm ~/notes; mv ~/notes ~/n",
    "in the system": "for place in /etc /usr '' /var; do echo evil > $place/hilt-test-evil; done",
    "through a link": "ln -s ~/notes link; echo evil > link",
    "through a hard link": "ln ~/notes hard && echo evil > hard",
    "through other processes": "echo evil > /proc/1/root/etc/hilt-test-evil; echo evil > /proc/$PPID/cwd/../home/x",
    "kernel settings": "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do "
    "[ -w $f ] && exit 9; done; exit 0",
}


@pytest.mark.parametrize("script", OUTSIDE.values(), ids=OUTSIDE)
def test_nothing_outside_the_workspace_is_written(box, script):
    box.write("home/notes", "mine")
    before = box.tree(box.home)

    done = box.run(script)

    assert box.tree(box.home) == before
    assert not any(os.path.lexists(f"{place}/hilt-test-evil") for place in ("", "/etc", "/usr"))
    assert done.code != 9


GUARDED = {
    "hooks": HOOK,
    "an existing hook": "echo evil >> .git/hooks/pre-push",
    "hooks moved away": "mv .git/hooks .git/old; mkdir -p .git/hooks; " + HOOK,
    "hooks removed": "rm -rf .git/hooks; mkdir -p .git/hooks; " + HOOK,
    "the repository moved away": "mv .git old; mkdir -p .git/hooks; " + HOOK,
    "a link in its place": "mkdir -p evil; rm -rf .git; ln -sfn evil .git",
    "swapped": 'mkdir -p evil/hooks; echo evil > evil/hooks/x; python3 -c "import ctypes, os; ctypes.CDLL(None).'
    "renameat2(-100, b'evil', -100, b'.git', 2)\"",
    "configuration": "git config core.fsmonitor evil; echo evil >> .git/config",
    "configuration replaced": "echo evil > .git/new; mv -f .git/new .git/config; cp .git/new .git/config",
    "configuration by a hard link": "ln .git/config link && echo evil >> link",
    "configuration by a link": "ln -s .git/config link; echo evil >> link",
    "configuration by a descriptor": "exec 5< .git/config; echo evil > /proc/self/fd/5",
    "configuration truncated": "truncate -s0 .git/config; chmod 777 .git/config",
    "hooks of a module": "echo evil > .git/modules/lib/inner/hooks/x; mv .git/modules .git/m",
    "configuration of a module": "echo evil > .git/modules/lib/inner/config",
    "a worktree": "echo evil > .git/worktrees/w/commondir; echo evil > .git/worktrees/w/gitdir",
    "another common folder": "for git in .git .git/modules/lib/inner vendor/tool/.git; do echo ../evil > x;"
    " mv -f x $git/commondir; cp x $git/commondir; ln -f x $git/commondir; rm -f $git/commondir;"
    " echo ../evil > $git/commondir; mv $git/commondir y; done; rm -f x y",
    "a file .git": "echo evil > lib/inner/.git; rm -f lib/inner/.git; mv lib lib2",
    "an inner repository": "echo evil > vendor/tool/.git/config; mkdir -p vendor/tool/.git/hooks; "
    "echo evil > vendor/tool/.git/hooks/x",
    "an inner repository moved away": "mv vendor v; mv vendor/tool v; mkdir -p vendor/tool/.git/hooks; "
    "echo evil > vendor/tool/.git/hooks/x",
    "settings": "echo evil >> .hilt/settings.toml; echo evil > .hilt/new; mv .hilt t",
    "missing folders": "mkdir .claude .codex .cursor; echo evil > .claude/x; rmdir .claude; rm -rf .claude",
    "missing files": "echo evil > .mcp.json; echo evil > x; mv -fT x .mcp.json; rm -f x",
    "a missing folder linked": "ln -sT /tmp .claude; ln -sfn /tmp .claude; rm -rf .claude",
    "in a new namespace": "unshare -Urm bash -c 'umount .hilt; mount -o remount,rw,bind .hilt; "
    "mount --bind /tmp .git/hooks; echo evil >> .hilt/settings.toml'",
    "as root": "mount -o remount,rw,bind .hilt; umount .hilt; echo evil > .hilt/x",
}


@pytest.mark.parametrize("script", GUARDED.values(), ids=GUARDED)
def test_files_that_make_programs_run_are_not_writable(box, script):
    fill(box, REPOSITORY)
    before = {path: text for path, text in box.tree().items() if _is_guarded(path)}

    box.run(script)

    assert {path: text for path, text in box.tree().items() if _is_guarded(path)} == before


def _is_guarded(path: str) -> bool:
    # anything elsewhere is a copy
    return not path.rpartition("/ws/")[2].startswith(("evil", "v/")) and any(
        name in path for name in ("hooks", "config", "commondir", ".hilt", ".claude", ".mcp", "worktrees", "inner/.git")
    )


@pytest.mark.parametrize(
    "script",
    ["git init -q .", "mkdir .git", "mkdir x && mv -T x .git", "ln -s x .git", "echo gitdir: x > .git", "rmdir .git"],
)
def test_a_missing_repository_cannot_be_created(box, script):
    box.run(script)

    assert not os.path.lexists(box.workspace / ".git")


def test_a_repository_cannot_be_redirected_to_other_hooks(box):
    fill(box, REPOSITORY)

    box.run("mkdir evil; echo ../evil > .git/commondir")

    assert not os.path.lexists(box.workspace / ".git/commondir")


def test_a_workspace_turned_into_a_bare_repository_gets_no_configuration(box):
    box.run("mkdir objects refs; echo ref: refs/heads/x > HEAD; echo '[core] fsmonitor = evil' > config")

    assert not os.path.lexists(box.workspace / "config")


@pytest.mark.parametrize(
    "script",
    [
        "echo evil >> .bashrc",
        "mv .bashrc b; echo evil > .bashrc",
        "echo evil > .profile",
        "mkdir -p .ssh; echo evil > .ssh/authorized_keys",
        "echo evil > .config/fish/config.fish; mkdir -p .config/fish; echo evil > .config/fish/config.fish",
        "mv .config c; mkdir -p .config/systemd; echo evil > .config/systemd/x",
        "echo evil > .gitconfig",
        "mkdir -p .config/hilt; echo evil > .config/hilt/config.toml",
    ],
)
def test_hidden_names_are_not_writable_when_the_home_is_the_workspace(box, script):
    box.write("home/.bashrc", "alias x=y\n")
    box.mkdir("home/.config")
    before = box.tree(box.home)

    box.run(script, cwd=box.home, roots=[str(box.home)])

    after = {path: text for path, text in box.tree(box.home).items() if ".disabled-" not in path}
    assert after == before
    assert box.run("echo x > notes && cat notes", cwd=box.home, roots=[str(box.home)]).output == "x\n"


@pytest.mark.parametrize(
    "name",
    [
        *(".bashrc", ".bashrc.d/x", ".oh-my-zsh/custom/x.zsh", ".ipython/startup/x.py", ".vscode-server/x", ".psqlrc"),
        *(
            ".config/x/y",
            "bin/git",
            "go/bin/git",
            ".a-name-that-no-list-has",
            ".linked",
            "dotfiles/linked",
            ".folder/x",
        ),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_what_runs_by_itself_in_a_home_directory_stays_as_it_is(box, name, exists):
    box.write("home/dotfiles/linked", "old")
    box.write("home/dotfiles/folder/x", "old")
    (box.home / ".linked").symlink_to("dotfiles/linked")
    (box.home / ".folder").symlink_to("dotfiles/folder")
    if exists and "link" not in name:
        box.write(f"home/{name}", "old")
    first = name.partition("/")[0]
    attacks = (
        f"echo evil > {name}; mkdir -p {name.rpartition('/')[0] or '.'}; echo evil > {name}",
        f"mv {first} aside; rm -rf {first}; mkdir -p {name.rpartition('/')[0] or '.'}; echo evil > {name}",
        f"ln -sfn /tmp/evil {first}; echo evil > t; mv -fT t {first}; ln t {first}",
    )

    for attack in attacks:
        box.run(attack, cwd=box.home, roots=[str(box.home)])

        active = box.home / name
        assert not active.is_file() or active.read_text() == "old"
        assert active.is_file() or not exists or first in (".linked", ".folder")


def test_home_directories_below_the_workspace_are_protected(own_worker):
    with closing(Box(own_worker, folder=PLACES[0])) as box:
        box.write("home/.bashrc", "old")
        roots, closed = [str(box.base)], [str(box.state)]

        box.run(
            "echo evil > .bashrc; mv ~ ~x; echo evil > .zshrc; echo x > notes", cwd=box.home, roots=roots, closed=closed
        )

        assert {path.name: path.read_text() for path in box.home.iterdir() if path.is_file()} == {
            ".bashrc": "old",
            "notes": "x\n",
            **{path.name: "evil\n" for path in box.home.glob(".zshrc.disabled-*")},
        }


def test_a_project_in_a_home_directory_works_as_before(box):
    script = (
        "mkdir -p .cache/pip proj/.github proj/bin .github .venv/bin; "
        "for f in .cache/pip/x proj/.env.example proj/.bashrc proj/bin/x .github/x .venv/bin/x notes .npm/x; do "
        "mkdir -p $(dirname $f); echo x > $f && cat $f; done; git init -q repo && git -C repo status --short"
    )

    done = box.run(script, cwd=box.home, roots=[str(box.home)], lifted=[".npm"])

    assert done.output.split() == ["x"] * 8, done.output
    assert (box.home / ".npm/x").read_text() == "x\n"
    assert not [path for path in box.tree(box.home) if ".disabled-" in path]


SENSITIVE = {
    "ws/.env": "cat .env",
    "ws/.env.local": "cat .env.local",
    "ws/sub/deep/.env": "cat sub/deep/.env",
    "ws/sub/.ssh/id": "cat sub/.ssh/id; ls sub/.ssh; cd sub/.ssh && cat id",
    "ws/.aws/credentials": "cat .aws/credentials",
    "ws/.gnupg/key": "tar c .gnupg",
    "ws/ENV/.Env": "cat ENV/.Env",
    "ws/a b\n/.env": "cat a*/.env",
    "ws/\udcff/.env.x": "cat */.env.x",
}
TRICKS = {
    "moved": "mv .env e; cat e",
    "linked": "ln .env e; cat e; ln -s .env f; cat f",
    "its folder moved": "mv sub other; cat other/.env",
    "made readable": "chmod 644 .env; cat .env; chmod -R 777 sub; cat sub/.env",
    "unmounted": "umount .env; unshare -Urm umount .env; cat .env",
    "replaced": "rm -f .env; cat .env",
    "by the shell": "while read -r line; do echo $line; done < .env; source .env; echo $KEY",
    "by another root": "cat /proc/self/root/$PWD/.env; cat /proc/1/root/$PWD/.env; cat /proc/$PPID/cwd/.env",
}


@pytest.mark.parametrize("name", ["read-only", "workspace-write"])
def test_sensitive_files_are_not_read(box, name):
    for path in SENSITIVE:
        box.write(path)

    done = box.run("; ".join(f"({script}); echo; echo NEXT" for script in SENSITIVE.values()), name=name)

    *outputs, remainder = done.output.split("\nNEXT\n")
    refused = {
        path: "denied" in output and SECRET not in output for path, output in zip(SENSITIVE, outputs, strict=True)
    }
    assert refused == dict.fromkeys(SENSITIVE, True)
    assert remainder == ""


@pytest.mark.parametrize("script", TRICKS.values(), ids=TRICKS)
def test_no_trick_reads_a_sensitive_file(box, script):
    box.write("ws/.env", f"KEY={SECRET}")
    box.write("ws/sub/.env")

    assert SECRET not in box.run(script).output
    assert (box.workspace / ".env").read_text() == f"KEY={SECRET}"


def test_a_sensitive_file_created_by_one_command_cannot_be_read_by_the_next(box):
    box.run("true")
    box.write("ws/sub/.env")
    # as a program would do to hide the change
    os.utime(box.workspace / "sub", (0, 0))
    assert SECRET not in box.run("cat sub/.env").output

    box.write("ws/sub/more/.env")
    assert SECRET not in box.run("cat sub/more/.env").output


@pytest.mark.parametrize("target", ["../home/real", "config/real"])
def test_the_target_of_a_sensitive_link_is_not_readable(box, target):
    box.write(os.path.normpath(f"ws/{target}"))
    (box.workspace / ".env").symlink_to(target)
    box.own()

    assert SECRET not in box.run(f"cat .env; cat {target}").output


@pytest.mark.parametrize("target", ["..", ".", "/", "/usr/bin", "missing", ".env"])
def test_a_sensitive_link_to_a_large_or_missing_target_does_no_harm(box, target):
    (box.workspace / ".env").symlink_to(target)
    box.own()

    assert box.run("echo on > a; cat a").output == "on\n"


HOME = [
    ".ssh/id",
    ".aws/credentials",
    ".gnupg/key",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".config/gcloud/x",
    ".mozilla/firefox/cookies",
    ".config/google-chrome/x",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".local/share/fish/fish_history",
    ".config/hilt/config.toml",
    ".env",
]


def test_credentials_in_the_home_are_not_read(box):
    for path in (*HOME, "notes"):
        box.write(f"home/{path}", f"{SECRET} {path}\n")

    done = box.run("cat ~/notes; for f in " + " ".join(f"~/{path}" for path in HOME) + "; do cat $f 2>&1; done")

    assert [line for line in done.output.splitlines() if SECRET in line] == [f"{SECRET} notes"]


def test_credentials_are_not_read_when_the_home_is_the_workspace(box):
    for path in HOME:
        box.write(f"home/{path}")

    done = box.run(
        "grep -r . . 2>/dev/null; mv .config c; mv .ssh s; grep -r . . 2>/dev/null", box.home, roots=[str(box.home)]
    )

    assert SECRET not in done.output


def test_the_state_directory_is_hidden(box):
    box.write("state/state.db")

    assert SECRET not in box.run(f"cat {box.state}/state.db; grep -r . {box.state}").output


def test_a_state_directory_in_the_workspace_is_hidden(box):
    box.write("ws/inner/state/state.db")
    closed = [str(box.workspace / "inner/state")]

    done = box.run("cat inner/state/state.db; mv inner i; cat i/state/state.db; echo x > inner/state/y", closed=closed)

    assert SECRET not in done.output
    assert sorted(path.name for path in (box.workspace / "inner/state").iterdir()) == ["state.db"]


def test_the_rest_of_the_home_can_be_hidden_but_not_its_programs(box):
    box.write("home/notes")
    box.write("home/.cargo/bin/prog", "#!/bin/sh\necho ran\n").chmod(0o755)
    box.write("home/.cargo/credentials.toml")

    done = box.run(
        "cat ~/notes ~/.cargo/credentials.toml; ~/.cargo/bin/prog; echo x > ~/x; echo y > ~/.cache/y", read="workspace"
    )

    assert SECRET not in done.output
    assert "ran\n" in done.output
    assert not (box.home / "x").exists()


def test_read_only_leaves_the_workspace_unchanged(box):
    fill(box, REPOSITORY)
    before = box.tree()

    box.run(
        "echo x > a; rm -rf .git vendor; mkdir .claude; git init -q .; echo x >> .hilt/settings.toml", name="read-only"
    )

    assert box.tree() == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root could read it")
def test_root_cannot_read_the_system_passwords(box):
    assert box.run("cat /etc/shadow /etc/shadow- /etc/ssh/*_key 2>/dev/null").output == ""


NESTED = ["sub/.claude/settings.json", "sub/deep/.vscode/tasks.json", "sub/.mcp.json", "sub/.envrc", "a/.hilt/x"]


@pytest.mark.parametrize("path", NESTED)
def test_nested_configuration_is_not_writable(box, path):
    file = box.write(f"ws/{path}", "mine")
    folder = os.path.dirname(path)

    box.run(f"echo evil > {path}; echo evil > x; mv -f x {path}; rm -f {path}; echo evil > {folder}/.claude/new")

    assert file.read_text() == "mine"


def test_a_folder_that_holds_configuration_can_be_renamed(box):
    box.write("ws/sub/.vscode/tasks.json", "mine")

    done = box.run("mv sub other && echo evil > other/.vscode/tasks.json; ls other/.vscode")

    assert done.output.splitlines()[-1] == "tasks.json"
    assert (box.workspace / "other/.vscode/tasks.json").read_text() == "mine"


def test_a_file_that_rules_deny_is_not_readable_under_any_name(box):
    box.write("ws/secrets/deep/k")
    denied = {"denies_read": [str(box.workspace / "secrets")]}

    first = box.run("cat secrets/deep/k; mv secrets other; cat other/deep/k; ln secrets/deep/k l; cat l", **denied)
    second = box.run("cat other/deep/k secrets/deep/k; cp -r secrets x; cat x/deep/k", **denied)

    assert SECRET not in first.output + second.output
    assert (box.workspace / "secrets/deep/k").read_text() == SECRET


def test_a_file_that_rules_protect_is_not_writable_under_any_name(box):
    box.write("ws/locked/f", "mine")
    denied = {
        "denies_write": [str(box.workspace / "locked"), str(box.workspace / "new")],
        "denied_missing": [str(box.workspace / "new")],
    }

    done = box.run(
        "cat locked/f; sort -o locked/f /etc/hostname; echo evil | tee locked/f locked/g new; mv locked l; "
        "mkdir -p new; echo evil > l/f; echo evil > new/x; rm -rf locked",
        **denied,
    )

    assert done.output.startswith("mine")
    assert [(path.name, path.read_text()) for path in (box.workspace / "locked").iterdir()] == [("f", "mine")]
    assert os.listdir(box.workspace) == ["locked"]


def test_a_denied_file_outside_the_workspace_is_not_readable(box):
    box.write("home/private/k")

    done = box.run("cat ~/private/k; ls ~", denied_outside=[[str(box.home / "private"), True]])

    assert SECRET not in done.output


def test_a_sensitive_pattern_with_a_slash_still_matches_after_its_folder_is_renamed(box):
    box.write("ws/keys/a.pem")
    sensitive = {"sensitive": ["keys/*.pem"]}

    done = [box.run(script, **sensitive) for script in ("mv keys k; cat k/a.pem", "cat k/a.pem keys/a.pem")]

    assert not any(SECRET in result.output for result in done)


def test_the_running_installation_is_not_writable(box):
    box.write("ws/.venv/lib/site-packages/x.py", "mine")
    installation = [str(box.workspace / name) for name in (".venv", "sitecustomize.py")]

    done = box.run(
        "echo evil > .venv/lib/site-packages/y.pth; mv .venv v; rm -rf .venv; echo evil > sitecustomize.py; ls",
        read_only=installation,
    )

    files = sorted(str(path.relative_to(box.workspace)) for path in box.workspace.rglob("*") if path.is_file())
    assert files[0] == ".venv/lib/site-packages/x.py"
    assert [name.partition(".disabled")[0] for name in files[1:]] == ["sitecustomize.py"]
    assert not (box.workspace / "sitecustomize.py").exists()
    assert "sitecustomize.py" in done.output.splitlines()


# --- processes


def test_outside_processes_are_neither_visible_nor_reachable(box):
    outside = f"{os.getpid()} {os.getppid()}"

    done = box.run(f"ls -d /proc/[0-9]* | wc -l; for p in {outside}; do kill -0 $p && echo reached; done")

    assert int(done.output.split()[0]) < 10
    assert "reached" not in done.output


@pytest.mark.parametrize(
    "script",
    [
        "unshare -U true",
        "unshare -Ur true",
        "unshare -m true",
        "mount -t tmpfs none /mnt",
        "chroot / true",
        "mknod /tmp/x b 7 0",
    ],
)
def test_no_privilege_is_gained(box, script):
    assert box.run(script).code != 0


def test_there_are_no_capabilities(box):
    lines = [line.split() for line in box.run("grep Cap /proc/self/status").output.splitlines()]

    assert {int(value, 16) for _, value in lines} == {0}


def test_a_setuid_program_gains_nothing(box):
    assert box.run("grep NoNewPrivs /proc/self/status").output.split() == ["NoNewPrivs:", "1"]


# --- workspaces of all kinds


@pytest.mark.parametrize("name", ["a b", "new\nline", "\udcff\udcfe", "-bind", "$HOME;`x`", "é", "a\\b'\""], ids=ascii)
def test_a_workspace_may_have_any_name(box, name):
    root = box.mkdir(f"odd/{name}")
    box.write(f"odd/{name}/.env")

    done = box.run("cat .env; mkdir .hilt/x; echo fine > a; cat a", cwd=root, roots=[str(root)])

    assert SECRET not in done.output
    assert done.output.endswith("fine\n")
    assert sorted(os.listdir(root)) == [".env", "a"]


def test_a_workspace_can_be_entered_through_a_link(box):
    (box.base / "link").symlink_to(box.workspace)

    assert box.run("pwd -P", cwd=box.base / "link").output == f"{box.workspace}\n"


def test_roots_may_be_nested(box):
    inner = box.mkdir("ws/inner")
    box.write("ws/inner/.env")

    done = box.run(
        "cat inner/.env; mkdir .claude/a inner/.claude/a; echo x > inner/x", roots=[str(box.workspace), str(inner)]
    )

    assert SECRET not in done.output
    assert sorted(os.listdir(inner)) == [".env", "x"]


def test_a_second_root_is_writable_and_guarded(box):
    other = box.mkdir("other")

    box.run(f"echo x > {other}/x; mkdir {other}/.git/hooks {other}/.hilt/a", roots=[str(box.workspace), str(other)])

    assert os.listdir(other) == ["x"]


def test_a_workspace_at_the_file_system_root_is_guarded(box):
    box.write("ws/.env")
    profile = {"roots": ["/"], "name": "read-only"}

    # a system may be too large to search for sensitive files
    with suppress(Refused):
        assert SECRET not in box.run(f"echo x > /hilt-test-evil; cat {box.workspace}/.env", cwd="/", **profile).output
    assert not os.path.exists("/hilt-test-evil")


@pytest.mark.parametrize("name", [".hilt", ".claude", ".git", ".git/hooks", ".git/config"])
def test_a_protected_link_is_refused_because_it_could_be_replaced(box, name):
    box.mkdir("ws/real")
    (box.workspace / name).parent.mkdir(exist_ok=True)
    (box.workspace / name).symlink_to("real")
    box.own()

    with pytest.raises(Refused) as raised:
        box.run("true")

    assert raised.value.code == "sandbox_unavailable"
    assert str(box.workspace / name) in str(raised.value)


def test_nested_links_made_by_a_program_do_not_break_later_commands(box):
    box.write("ws/real/.git/config", "[core]\n")
    box.run("mkdir a b; ln -s ../real/.git a/.git; git init -q b; rm -rf b/.git/hooks; ln -s ../../real b/.git/hooks")
    box.run("mkdir c d; ln -s .git c/.git; git init -q d; rm -rf d/.git/hooks; ln -s hooks d/.git/hooks")
    box.run("mkdir e; ln -s ../missing e/.git; ln -s e/.git f")

    done = box.run("echo evil > a/.git/config; echo evil > b/.git/hooks/x; echo fine")

    assert done.output.endswith("fine\n")
    assert sorted(os.listdir(box.workspace / "real")) == [".git"]
    assert sorted(os.listdir(box.workspace)) == ["a", "b", "c", "d", "e", "f", "real"]
    assert (box.workspace / "real/.git/config").read_text() == "[core]\n"


def test_a_folder_moved_below_an_overlong_path_is_not_readable(box):
    box.write("ws/sub/.env")
    chain = "n=$(printf %0200d 0); for i in $(seq 40); do mkdir $n && cd $n; done 2>/dev/null"
    box.run(f"top=$PWD; {chain}; mv $top/sub . && echo moved")

    done = box.run(
        f"{chain}; cd $n 2>/dev/null; for i in $(seq 40); do cd 0* 2>/dev/null; done; pwd | wc -c; cat sub/.env"
    )

    assert SECRET not in done.output


CLOSED = "sub sub/deep vendor/tool/.git .git/modules/lib .git/modules .git/worktrees/w .git/worktrees .git"


@pytest.mark.parametrize("folders", [CLOSED, ".git/modules", ".git/modules/lib .git/worktrees"])
@pytest.mark.parametrize("mode", ["000", "111", "222", "333", "444", "555", "666"])
def test_guards_hold_after_a_program_makes_folders_inaccessible(box, mode, folders):
    fill(box, {**REPOSITORY, "ws/sub/.env": SECRET, "ws/sub/deep/.env": SECRET})
    before = {path: text for path, text in box.tree().items() if _is_guarded(path)}

    box.run(f"for f in {folders}; do chmod {mode} $f; done")
    done = box.run(
        f"for i in 1 2 3; do chmod -R 755 {folders}; done; cat sub/.env sub/deep/.env; {GUARDED['hooks of a module']};"
        f"{GUARDED['a worktree']}; {GUARDED['hooks']}; {GUARDED['configuration']}; {GUARDED['an inner repository']}"
    )

    for folder in sorted(folders.split(), key=len):
        (box.workspace / folder).chmod(0o755)
    box.run("true")  # removes the files that could not be removed from an inaccessible folder
    assert SECRET not in done.output
    assert {path: text for path, text in box.tree().items() if _is_guarded(path)} == before


def test_an_inaccessible_folder_stays_closed_to_its_owner(box):
    box.write("ws/shut/.env")
    (box.workspace / "shut").chmod(0)

    done = box.run("chmod 755 shut; cat shut/.env")

    (box.workspace / "shut").chmod(0o755)
    assert SECRET not in done.output


def test_links_in_a_private_folder_cannot_redirect_mounts(box):
    assert (
        "moved" not in box.run(f"mv {box.base} /tmp/y && echo moved; rm -rf {box.base}; ln -s /etc {box.base}").output
    )
    # the leftovers of a session with another workspace
    (box.state / "private/s1/tmp" / box.base.name).rename(box.state / "private/s1/tmp/old")
    (box.state / "private/s1/tmp" / box.base.name).symlink_to("/newroot/etc")

    assert box.run("pwd; echo fine").output == f"{box.workspace}\nfine\n"


def test_devices_are_the_same_whoever_mounts_them(box):
    script = """
        cd /dev; stat -c '%n %F %t:%T %a' * | grep -v '^core '; readlink core fd ptmx stderr stdin stdout
        df --output=size shm | tail -1; stat -f -c %T pts shm; awk '$5 ~ "^/dev"' /proc/self/mountinfo | tail -9 | wc -l
        head -c 3 zero | tr '\\0' z; head -c 9 urandom | wc -c; echo x > full; echo x > null && echo written
        python3 -c 'import os; a, b = os.openpty(); print(os.ttyname(b))'
        mkdir x; rm null; mknod y c 1 3; ls -A | wc -l
    """

    done, by_name = box.run(script), box.run(script, features=["disable-userns", "size"])

    assert done.output == by_name.output
    assert done.output.endswith("14\n")
    assert "written\n/dev/pts/0\n" in done.output


def test_only_devices_are_mounted_with_devices(box):
    mounts = [line.split() for line in box.run("cut -d' ' -f5,6 /proc/self/mountinfo").output.splitlines()]

    names = ("null", "zero", "full", "random", "urandom", "tty", "pts")
    assert {path for path, options in mounts if "nodev" not in options.split(",")} == {f"/dev/{name}" for name in names}
    assert all("nosuid" in options.split(",") for _, options in mounts)


def test_empty_folders_share_nothing_that_can_be_written(box):
    fill(box, {"ws/.env/x": "", "ws/.secrets/x": "", "home/.ssh/id": "", "home/.aws/id": ""})

    done = box.run(
        "for f in .claude .codex ~/.ssh ~/.aws; do chmod 777 $f; mkdir $f/x; touch $f/y; done; ls -A .claude ~/.ssh"
    )

    assert "x" not in done.output.split()
    assert "y" not in done.output.split()


def test_a_workspace_in_the_shared_memory_is_writable(box):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chown(folder, box.worker.uid, box.worker.uid)
        Path(folder, ".env").write_text(SECRET)
        for tty in (False, True):
            done = box.run(
                "echo x > a; cat a .env; mkdir .claude; echo x > ../b; ls /dev/shm", cwd=folder, roots=[folder], tty=tty
            )
            assert done.output.split()[0] == "x"
            assert SECRET not in done.output
            assert "mkdir" in done.output
        assert sorted(os.listdir(folder)) == [".env", "a"]
        assert not os.path.exists("/dev/shm/b")


def test_an_older_bubblewrap_confines_equally(box):
    box.write("ws/.env")

    done = box.run("cat .env; echo x > /dev/shm/x; unshare -U true || unshare -Ur true && echo through", features=[])

    assert SECRET not in done.output
    assert "through" not in done.output
    assert "not permitted" in done.output


def test_a_program_on_a_terminal_keeps_it(box):
    done = box.run("test -t 0 && test -t 1 && echo terminal > /dev/tty; cut -d' ' -f7 /proc/self/stat", tty=True)

    assert done.output.split()[0] == "terminal"
    assert done.output.split()[1] != "0"


def test_a_program_without_a_terminal_cannot_get_one(box):
    assert box.run("echo x > /dev/tty").code != 0


def test_a_missing_home_does_no_harm(box):
    for read in ("all", "workspace"):
        assert box.run("echo fine", home=str(box.base / "missing"), read=read).output == "fine\n"
        assert box.run("echo fine", home="/", read=read, name="read-only").output == "fine\n"


@pytest.mark.skipif(os.getuid() != 0, reason="makes a folder of another user")
def test_a_workspace_of_another_user_keeps_its_permissions(box):
    if box.worker.uid == 0:
        pytest.skip("nothing is closed to root")
    box.write("ws/a", "theirs")
    os.chown(box.workspace, 0, 0)

    done = box.run("cat a; mkdir .git; echo x > b")

    assert done.output.startswith("theirs")
    assert os.listdir(box.workspace) == ["a"]


def test_a_workspace_that_its_owner_made_read_only_is_refused(box):
    if box.worker.uid == 0:
        pytest.skip("nothing is closed to root")
    box.workspace.chmod(0o555)

    with pytest.raises(Refused) as raised:
        box.run("chmod 755 .; mkdir .git")

    box.workspace.chmod(0o755)
    assert raised.value.code == "sandbox_unavailable"


def test_the_system_temporary_folder_may_be_the_workspace(box):
    before = set(os.listdir("/var/tmp"))

    done = box.run("mkdir .claude/x; echo fine", cwd="/var/tmp", roots=["/var/tmp"], name="read-only")

    assert done.output.endswith("fine\n")
    assert set(os.listdir("/var/tmp")) == before


# --- each step of the profile is necessary

THROUGH = "through\n"


def folder_of_the_machine(path: str) -> str:
    """A script that succeeds when a folder is not one of the sandbox."""
    status = os.stat(path)
    return f"[ $(stat -c %d:%i {path}) = {status.st_dev}:{status.st_ino} ]"


STEPS = {
    "processes": "[ $(ls -d /proc/[0-9]* | wc -l) -gt 12 ] && echo through",
    "devices": f"{folder_of_the_machine('/dev')} && echo through",
    "shared memory": "echo x > /dev/shm/x || echo through",
    "devices read-only": "echo x > /dev/x && echo through",
    "private tmp": f"{folder_of_the_machine('/tmp')} && echo through",
    "sockets of others": "[ $(ls /run | grep -vc ^hilt-git) -gt 0 ] && echo through",
    "private cache": "echo x > ~/.cache/x || echo through",
    "closed": "cat closed/state.db && echo through",
    "session folder": "ls /tmp/jean2/s1/spill.out || echo through",
    "configuration": "echo evil > .claude/x && echo through",
    "repository": "echo evil > .git/hooks/x && echo through",
    "parent folder": "mv .git old && echo through",
    "credentials": "cat ~/.ssh/id && echo through",
    "sensitive": "cat .env && echo through",
    "rule": "echo evil > locked/x && echo through",
    "installation": "echo evil > venv/x && echo through",
    "filter": "python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)' && echo through",
    "--disable-userns": "unshare -U true && echo through",
    "--new-session": "[ $(cut -d' ' -f6 /proc/self/stat) = 0 ] && echo through",
}
# without these, later steps have nothing to cover and nothing is started
FIRST_STEPS = ["home", "workspace"]
STEPS_FOR_ROOT = {
    "system credentials": "[ -s /etc/shadow ] && echo through",
    "processes read-only": "echo 0 > /proc/self/oom_score_adj && echo through",
    "--cap-drop": "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo through",
}
STEPS_FOR_OTHERS = {"unreadable": "chmod 755 shut; cat shut/.env && echo through"}
STEPS_FOR_THE_HOME = {"hidden name": "echo evil >> .zshrc && echo through"}


@pytest.mark.parametrize("step", [*STEPS, *STEPS_FOR_ROOT, *STEPS_FOR_OTHERS, *STEPS_FOR_THE_HOME])
def test_each_step_of_the_profile_is_necessary(box, step):
    if step in STEPS_FOR_ROOT and box.worker.uid != 0:
        pytest.skip("about root")
    if step in STEPS_FOR_OTHERS and box.worker.uid == 0:
        pytest.skip("not about root, who can look everywhere")
    script = {**STEPS, **STEPS_FOR_ROOT, **STEPS_FOR_OTHERS, **STEPS_FOR_THE_HOME}[step]
    fill(box, {**REPOSITORY, "ws/closed/state.db": "", "home/notes": "", "home/.ssh/id": "", "ws/.env": ""})
    fill(box, {"state/sessions/s1/spill.out": "", "ws/shut/.env": "", "ws/plain": ""})
    (box.workspace / "shut").chmod(0)
    options: dict[str, Any] = {"closed": [str(box.state), str(box.workspace / "closed")]}
    fill(box, {"ws/locked/a": "", "ws/venv/a": ""})
    options.update(denies_write=[str(box.workspace / "locked")], read_only=[str(box.workspace / "venv")])
    if step in STEPS_FOR_THE_HOME:
        options.update(roots=[str(box.home)], cwd=box.home)
        box.write("home/.zshrc", "old\n")
    if step == "private tmp":
        options.update(folder=None)  # it is mounted a second time in there

    complete, incomplete = box.run(script, **options), box.run(script, without=step, **options)

    (box.workspace / "shut").chmod(0o755)
    assert THROUGH not in complete.output
    assert THROUGH in incomplete.output


@pytest.mark.parametrize("git", [".git", ".git/modules/lib/inner", "vendor/tool/.git"])
def test_the_mount_point_of_a_missing_file_is_covered(box, git):
    fill(box, REPOSITORY)
    script = f"cat {git}/commondir; echo ../evil > {git}/commondir && echo through"

    complete, incomplete = box.run(script), box.run(script, without="repository")

    assert complete.output.startswith(".\n")
    assert THROUGH not in complete.output
    assert THROUGH in incomplete.output


def test_the_mount_point_of_a_missing_file_is_covered_when_mounting_by_name(box):
    fill(box, REPOSITORY)

    done = box.run("echo ../evil > .git/commondir && echo through; mv .git away && echo through", features=[])

    assert "Read-only file system" in done.output
    assert THROUGH not in done.output
    assert not (box.workspace / ".git/commondir").exists()


@pytest.mark.parametrize("git", [".git", ".git/worktrees/w"])
def test_worktree_configuration_cannot_be_created_and_git_still_works(box, git):
    fill(
        box, {**REPOSITORY, "ws/.git/config": "[core]\nrepositoryformatversion=1\n[extensions]\nworktreeConfig=true\n"}
    )

    done = box.run(f"git status -s -uno && echo fine; echo evil > {git}/config.worktree && echo through")

    assert done.output.startswith("fine\n")
    assert THROUGH not in done.output
    assert not (box.workspace / git / "config.worktree").exists()


@pytest.mark.parametrize("path", [".git", "vendor", "vendor/tool", "vendor/tool/.git", "lib", "lib/inner"])
def test_a_repository_cannot_be_renamed(box, path):
    fill(box, REPOSITORY)

    done = box.run(f"mv {path} away; mkdir away; mv -T --exchange {path} away")

    assert "Device or resource busy" in done.output
    assert box.workspace.joinpath(path).exists()


@pytest.mark.parametrize("step", FIRST_STEPS)
def test_a_plan_that_does_not_match_the_file_system_starts_nothing(box, step):
    fill(box, {"home/notes": "", "home/.ssh/id": "", "ws/plain": ""})
    script = "cat ~/notes plain && echo started"

    assert box.run(script).output == "started\n"
    with pytest.raises(Busy):
        box.run(script, without=step)


@pytest.mark.parametrize(
    "name, option",
    [
        ("user", ""),
        ("mnt", ""),
        ("pid", "--unshare-pid"),
        ("ipc", "--unshare-ipc"),
        ("uts", "--unshare-uts"),
        ("cgroup", "--unshare-cgroup-try"),
        ("net", ""),
    ],
)
def test_each_namespace_is_private(box, name, option):
    outside = os.readlink(f"/proc/self/ns/{name}")
    script = f"readlink /proc/self/ns/{name}"

    assert box.run(script).output.strip() not in ("", outside)
    if option:
        assert box.run(script, without=option).output.strip() == outside


def test_every_step_of_a_profile_has_a_test(box):
    fill(box, {**REPOSITORY, "home/.ssh/id": "", "ws/.env": "", "home/notes": "", "ws/closed/x": ""})
    closed = [str(box.state), str(box.workspace / "closed"), str(box.home / ".config/hilt")]

    steps = box.worker.ask(do="plan", **box.request("true", closed=closed))

    tested = {*STEPS, *FIRST_STEPS, *STEPS_FOR_ROOT, *STEPS_FOR_OTHERS, *STEPS_FOR_THE_HOME}
    # the first needs no test: without it no program could run
    assert {purpose for purpose, *_ in steps} - tested - {"system", "programs"} == set()


def test_private_folders_stay_private_when_the_workspace_is_the_root(own_worker):
    with closing(Box(own_worker)) as box:
        profile = make_profile(box.profile(roots=["/"]))
        make_private(profile)

        plan = view.make_plan(profile, Findings((), (), ()), ())

        outermost = {step.path: step for step in plan.steps}
        assert outermost["/tmp"].purpose == "private tmp"
        assert outermost["/var/tmp"].purpose == "private tmp"
        # it is in /tmp: showing it there must not make it writable
        assert not outermost[str(box.home)].writable


def test_a_hidden_home_is_not_written(box):
    done = box.run("echo x > ~/x; echo y > ~/.cache/y && cat ~/.cache/y; ls -A ~", read="workspace")

    assert done.output.splitlines()[-2:] == ["y", ".cache"]


def test_git_works_in_a_home_without_its_configuration(box):
    done = box.run(
        "git -c init.defaultBranch=main init -q sub && cd sub && git -c user.name=n -c user.email=e commit -qm m "
        "--allow-empty && git log --format=%s; echo evil > ~/.gitconfig; ls ~",
        cwd=box.home,
        roots=[str(box.home)],
    )

    assert done.output.splitlines()[0] == "m"
    assert done.output.splitlines()[-1] == "sub"
    assert "Library" not in done.output
    assert not (box.home / ".gitconfig").exists()


def test_git_reads_the_xdg_configuration_in_a_home_without_gitconfig(box):
    box.write("home/.config/git/config", "[user]\nname = other\n")

    assert box.run("git config user.name", cwd=box.home, roots=[str(box.home)]).output == "other\n"
