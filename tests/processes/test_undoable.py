"""Commands on an overlay of the workspace: the same result as without one, and undo reverts it."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shlex
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from hilt.config import digest
from tests.processes.overlaid import SUPPLEMENTARY, Agents, Answer, tree
from tests.programs import needs_sandbox
from tests.sandbox.confined import NOBODY, as_user
from tests.sandbox.test_swapping import PLACES

pytestmark = needs_sandbox

STRESS = int(os.environ.get("HILT_STRESS", "0"))
# an overlay remembers which names are missing: a command does not see a file that is created outside it, only that an
# existing one grows
AWAIT_GO = "until [ -s go ]; do sleep 0.01; done"


@pytest.fixture(scope="module", params=["root", "ordinary user"] if os.getuid() == 0 else ["ordinary user"])
def agents(request) -> Iterator[Agents]:
    agents = Agents(ordinary=request.param == "ordinary user")
    if not agents.python:
        pytest.skip("no Python that an ordinary user can run")
    yield agents
    agents.close()


@pytest.fixture
def workspace(agents: Agents, request) -> Path:
    return agents.workspace(name_of(request))


@pytest.fixture
def name(request) -> str:
    return name_of(request)


def name_of(request) -> str:
    return "".join(character if character.isalnum() else "-" for character in request.node.name)[-60:]


def write(agents: Agents, workspace: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)
    agents.own(workspace)


# --- the same as without an overlay

NAMES = ("a", "b", "c", "d/e", "d/f", "d/g/h", "i/j", "i", "d", "d/g", "k/l/m", "n ä")
STEPS = (
    "echo {word} > {one}",
    "echo {word} >> {one}",
    "rm -f {one}",
    "rm -rf {one}",
    "mkdir -p {one}",
    "rm -rf {one}; mkdir {one}",
    "rm -rf {one}; mkdir {one}; echo {word} > {one}/in",
    "mv {one} {other}",
    "mv -T {one} {other}",
    "cp -r {one} {other}",
    "ln -s {other} {one}",
    "ln -s /etc/hostname {one}",
    "ln {one} {other}",
    "chmod {mode} {one}",
    "touch {one}",
    "truncate -s 3 {one}",
    "sed -i s/o/{word}/ {one}",
    "mkfifo {one}",
    "find {one} -type f -delete",
    "cp -p {one} {other}",
    "printf '' > {one}",
    "chmod 700 {one}; rmdir {one}",
)


def plant(chance: random.Random, *folders: Path) -> None:
    """Create the same tree in several workspaces."""
    for name in NAMES:
        kind = chance.choice(("file", "file", "file", "folder", "link", "nothing"))
        mode = chance.choice((0o644, 0o600, 0o755, 0o444))
        for folder in folders:
            path = folder / name
            if os.path.lexists(path) or kind == "nothing" or not is_folder(path.parent, folder):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to("a")
            else:
                path.write_text(f"old {name}\n")
                path.chmod(mode)


def is_folder(path: Path, root: Path) -> bool:
    while path != root:
        if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            return False
        path = path.parent
    return True


def script(chance: random.Random) -> str:
    steps = []
    for _ in range(chance.randint(1, 25)):
        values = {
            "one": f"'{chance.choice(NAMES)}'",
            "other": f"'{chance.choice(NAMES)}'",
            "word": chance.choice("xyz"),
            "mode": chance.choice(("700", "755", "500", "4755", "1777")),
        }
        steps.append(chance.choice(STEPS).format(**values))
    # last, because an overlay copies a folder that is moved, and must be able to read it
    steps.append(f"chmod {chance.choice(('000', '300', '600', '644'))} '{chance.choice(NAMES)}'")
    return "\n".join(f"({step}) </dev/null 2>/dev/null" for step in steps)


def unlocked(entries: dict[str, str]) -> dict[str, str]:
    """Folders that were closed to their owner are made accessible after a command, but not by undo."""
    return {path: oct(int(text, 8) | 0o700) if text.startswith("0o4") else text for path, text in entries.items()}


@pytest.mark.parametrize("seed", range(STRESS or 5))
def test_a_command_does_the_same_on_an_overlay_and_undo_reverts_it(agents, workspace, name, seed):
    chance = random.Random(seed)
    plain = agents.workspace(f"{name}-plain")
    plant(chance, workspace, plain)
    agents.own(workspace)
    agents.own(plain)
    compare_with_plain_run(agents, workspace, name, script(chance))


def compare_with_plain_run(agents: Agents, workspace: Path, name: str, command: str) -> None:
    plain = agents.base / f"{name}-plain/workspace"
    before = tree(workspace)

    done = agents.run(name, command)
    reference = agents.run(f"{name}-plain", command, flags={"shell.undo": "off"})

    assert (done.code, reference.code) == (None, None), (done.message, reference.message)
    after = tree(workspace)
    assert after == tree(plain), command
    assert "skipped" not in done.meta.get("undo", {})
    if after == before and "undo" not in done.meta:
        return
    reverted = agents.restore(name, done.undo)
    assert reverted.code is None, reverted.message
    assert tree(workspace) == before, command
    repeated = agents.restore(name, reverted.undo) if "undo" in reverted.meta else reverted
    assert repeated.code is None, repeated.message
    assert unlocked(tree(workspace)) == unlocked(after), command


# --- the result


def test_the_result_counts_the_files_and_names_the_undo(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a = 1\n", "src/in/b.py": "b = 1\n", "kept.txt": "kept\n"})

    done = agents.run(name, "rm -rf src; echo new > made.txt")

    assert done.text.endswith(f"[undo: 3 files changed; undo restore {done.undo} reverts it]")
    assert [item["path"] for item in done.view["diffs"]["items"]] == ["made.txt", "src/a.py", "src/in/b.py"]
    listed = agents.call(name, "undo", action="list")
    assert [(entry["path"], entry.get("deleted")) for entry in json.loads(listed.text)["snapshots"]] == [
        ("made.txt", None),
        ("src/", True),
    ]
    preview = agents.call(name, "undo", action="preview", id=done.undo)
    assert "+a = 1" in preview.text
    assert "-new" in preview.text


def test_a_command_that_changes_nothing_reports_no_undo(agents, workspace, name):
    done = agents.run(name, "true")

    assert "undo" not in done.text
    assert agents.call(name, "undo", action="list").text.count('"id"') == 0
    wait_until(lambda: layers(agents, name) == [])


def layers(agents: Agents, name: str) -> list[Path]:
    return list((agents.base / name / "state/layers").glob("*/*"))


def test_one_file_of_a_deleted_folder_can_be_restored(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a = 1\n", "src/b.py": "b = 1\n"})
    done = agents.run(name, "rm -rf src")

    restored = agents.restore(name, done.undo, path="src/b.py")

    assert restored.code is None, restored.message
    assert {path: text for path, text in tree(workspace).items() if "py" in path} == {
        "src/b.py": "0o100644 b'b = 1\\n' "
    }


def test_undo_after_later_edits_reverts_them_too_and_can_be_undone(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n", "b.txt": "old\n"})
    done = agents.run(name, "echo new > a.txt; echo new > b.txt; echo new > c.txt")
    assert agents.call(name, "write_file", path="a.txt", content="edited\n").code is None
    (workspace / "c.txt").unlink()
    after = tree(workspace)

    restored = agents.restore(name, done.undo)

    assert (workspace / "a.txt").read_text() == "old\n"
    assert not (workspace / "c.txt").exists()
    assert agents.restore(name, restored.undo).code is None
    assert tree(workspace) == after


def test_undo_of_undo_of_undo_with_a_new_file_in_between(agents, workspace, name):
    done = agents.run(name, "echo new > a.txt")
    restored = agents.restore(name, done.undo)
    write(agents, workspace, {"a.txt": "mine\n"})
    again = agents.restore(name, restored.undo)
    assert (workspace / "a.txt").read_text() == "new\n"

    first = agents.restore(name, done.undo)
    assert not (workspace / "a.txt").exists()
    assert agents.restore(name, first.undo).code is None
    assert (workspace / "a.txt").read_text() == "new\n"
    assert agents.restore(name, again.undo).code is None
    assert (workspace / "a.txt").read_text() == "mine\n"


def test_commands_rated_caution_run_on_an_overlay_with_that_setting(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n"})
    command = "touch b.txt && sed -i s/old/new/ a.txt"
    plain = agents.call(name, "run_shell", command=command)
    assert "undo" not in plain.meta
    (workspace / "a.txt").write_text("old\n")

    done = agents.call(name, "run_shell", flags={"shell.undo": "caution"}, command=command)

    assert agents.restore(name, done.undo).code is None
    assert (workspace / "a.txt").read_text() == "old\n"


# --- conflicts


def test_a_file_that_the_user_changes_during_the_command_is_not_overwritten(agents, workspace, name):
    old = dict.fromkeys(("in-place", "by-rename", "deleted", "folder/in", "free"), "old\n")
    write(agents, workspace, {**old, "go": ""})
    command = (
        "for f in in-place by-rename deleted free; do echo command >> $f; done; rm -rf folder; echo made > same; "
        f"{AWAIT_GO}"
    )

    def interfere() -> None:
        wait_until(lambda: is_in_upper_layer(agents.base / name / "state/layers", "same"))
        for path in ("in-place", "folder/in"):
            with open(workspace / path, "a", encoding="utf-8") as file:
                file.write("user\n")
        for path in ("draft", "same"):
            (workspace / path).write_text("user\n")
        os.rename(workspace / "draft", workspace / "by-rename")
        os.unlink(workspace / "deleted")
        (workspace / "go").write_text("go")

    thread = threading.Thread(target=interfere)
    thread.start()
    done = agents.run(name, command)
    thread.join()

    assert sorted(done.meta["undo"]["conflicts"]) == ["by-rename", "deleted", "folder/", "in-place", "same"]
    assert "[conflict: " in done.text
    contents = {path: (workspace / path).read_text() for path in ("in-place", "by-rename", "folder/in", "same", "free")}
    assert contents == {
        "in-place": "old\nuser\n",
        "by-rename": "user\n",
        "folder/in": "old\nuser\n",
        "same": "user\n",
        "free": "old\ncommand\n",
    }
    # both versions are reachable
    chosen = agents.restore(name, done.undo, path="in-place")
    assert (workspace / "in-place").read_text() == "old\ncommand\n"
    assert agents.restore(name, chosen.undo).code is None
    assert (workspace / "in-place").read_text() == "old\nuser\n"


def test_a_file_that_a_command_renames_while_another_command_starts_is_not_a_conflict(agents, workspace, name):
    write(agents, workspace, {"a": "a\n", "go": ""})

    def start_another() -> None:
        wait_until(lambda: is_in_upper_layer(agents.base / name / "state/layers", "b"))
        os.mkdir(workspace / "other")  # as a mount point of its sandbox
        os.rmdir(workspace / "other")
        (workspace / "go").write_text("go")

    thread = threading.Thread(target=start_another)
    thread.start()
    done = agents.run(name, f"mv a b; {AWAIT_GO}")
    thread.join()

    assert "conflicts" not in done.meta["undo"]
    assert (workspace / "b").read_text() == "a\n"
    assert not (workspace / "a").exists()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_edit_in_the_same_tick_before_the_command_is_not_a_conflict(agents, workspace, name):
    for number in range(3):
        write(agents, workspace, {"a.txt": f"old {number}\n"})
        done = agents.run(name, "rm a.txt")
        assert "conflicts" not in done.meta["undo"]


# --- previews


def test_a_preview_changes_nothing_and_is_applied_exactly(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a = 1\n"})
    before = tree(workspace)
    command = "rm -rf src; date +%N > made.txt"

    preview = agents.call(name, "run_shell", command=command, preview=True)

    assert preview.code is None, preview.message
    assert tree(workspace) == before
    id = preview.meta["preview"]["id"]
    assert "-a = 1" in preview.text
    assert preview.text.endswith(f'[preview: 2 files would change; send the command with apply: "{id}" to apply it]')
    previewed = preview.view["diffs"]["items"][0]["hunks"][0]["changes"][0]["content"]
    assert agents.call(name, "undo", action="list").text.count('"id"') == 0
    other = agents.call(name, "run_shell", command="rm -rf .", force=True, apply=id)
    assert other.code == "invalid_args"
    blocked = agents.call(name, "run_shell", command=command, apply=id)
    assert blocked.code == "command_blocked"
    applied = agents.call(name, "run_shell", command=command, force=True, apply=id)
    assert applied.code is None, applied.message
    assert (workspace / "made.txt").read_text() == previewed + "\n"
    assert not (workspace / "src").exists()
    assert agents.call(name, "run_shell", command=command, force=True, apply=id).code == "not_found"
    assert agents.restore(name, applied.undo).code is None
    assert tree(workspace) == before


def test_an_applied_preview_leaves_nothing_for_git_or_an_agent(agents, workspace, name):
    """The preview completes a repository of the project, and its own layer does not show that."""
    subprocess.run(["git", "init", "-q", str(workspace / "fixture")], check=True)
    (workspace / "fixture/.git").rename(workspace / "dotgit")
    (workspace / "dotgit/HEAD").rename(workspace / "fixture/head")
    evil, marker = workspace / "evil", workspace / "marker"
    write(agents, workspace, {"evil": f"#!/bin/sh\ntouch {marker}\n"})
    evil.chmod(0o755)
    with open(workspace / "dotgit/config", "a", encoding="utf-8") as config:
        config.write(f"[core]\n\tfsmonitor = {evil}\n")
    agents.own(workspace)
    command = "mkdir -p sub/.claude; echo {} > sub/.claude/settings.json; cp fixture/head dotgit/HEAD;"
    command += " echo gitdir: ../dotgit > sub/.git; rm evil.txt || true"

    preview = agents.call(name, "run_shell", command=command, preview=True)
    id = preview.meta["preview"]["id"]
    applied = agents.call(name, "run_shell", command=command, force=True, apply=id)

    assert applied.code is None, applied.message
    subprocess.run(["git", "status"], cwd=workspace / "sub", capture_output=True)
    assert not marker.exists()
    assert "[disarmed: dotgit/config " in applied.text
    assert not (workspace / "sub/.claude").exists()


@pytest.mark.parametrize("restored", ["lib/config", ""])
def test_undo_does_not_restore_what_git_ignored_before_into_a_repository(agents, workspace, name, restored):
    """`lib` has no HEAD at first, so its settings are no danger until the command completes it without them."""
    marker = workspace / "marker"
    settings = shlex.quote(f"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = touch {marker}\n")
    agents.call(name, "run_shell", command=f"mkdir -p lib/objects; printf %s {settings} > lib/config; echo x > a.txt")
    change = agents.run(name, "rm lib/config; echo y > a.txt")
    agents.call(name, "run_shell", command="mkdir -p lib/refs; echo ref: refs/heads/main > lib/HEAD")

    result = agents.restore(name, change.undo, **({"path": restored} if restored else {}))

    assert result.code is None, result.message
    assert "[disarmed: lib/config " in result.text
    assert (workspace / "a.txt").read_text() == ("y\n" if restored else "x\n")
    subprocess.run(["git", "--git-dir=.", "--work-tree=..", "status"], cwd=workspace / "lib", capture_output=True)
    assert not marker.exists()


def test_undo_restores_hooks_of_the_user(agents, workspace, name):
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    settings = ["git", "config", "--file", str(workspace / ".git/config"), "core.hooksPath", ".githooks"]
    subprocess.run(settings, check=True)
    write(agents, workspace, {".githooks/pre-commit": "#!/bin/sh\nexit 0\n", ".githooks/pre-push": "#!/bin/sh\n"})
    for hook in (workspace / ".githooks").iterdir():
        hook.chmod(0o755)
    agents.own(workspace)
    before = tree(workspace / ".githooks")
    change = agents.run(name, "rm .githooks/pre-push; echo echo >> .githooks/pre-commit")
    assert "[disarmed: .githooks/pre-commit " in change.text

    result = agents.restore(name, change.undo)

    assert "disarmed" not in result.text
    after = tree(workspace / ".githooks")
    assert {path: text for path, text in after.items() if ".disabled-" not in path} == before


def test_a_preview_is_stale_when_the_workspace_has_changed(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a = 1\n"})
    preview = agents.call(name, "run_shell", command="rm -rf src", preview=True)
    write(agents, workspace, {"src/b.py": "b = 1\n"})

    applied = agents.call(name, "run_shell", command="rm -rf src", force=True, apply=preview.meta["preview"]["id"])

    assert applied.code == "stale_file"
    assert (workspace / "src/b.py").exists()


@pytest.mark.parametrize("change", ["rewritten", "replaced", "added"])
def test_a_preview_is_not_applied_when_a_program_has_changed_what_it_stored(agents, workspace, name, change):
    """Such a program runs in another sandbox, which began before the place of the layers was made."""
    write(agents, workspace, {"a.sh": "old\n"})
    command = "echo shown > a.sh; mkdir new; echo shown > new/b.sh; chmod 700 ."
    preview = agents.call(name, "run_shell", command=command, preview=True)
    id = preview.meta["preview"]["id"]
    [upper] = workspace.parent.glob(f"state/layers/*/{id}/u0")
    if change == "rewritten":
        (upper / "a.sh").write_text("other\n")
    elif change == "replaced":
        (upper / "new" / "b.sh").unlink()
        (upper / "new" / "b.sh").write_text("other\n")
    else:
        (upper / "new" / "c.sh").write_text("other\n")
    before = tree(workspace)

    refused = agents.call(name, "run_shell", command=command, apply=id)

    assert refused.code == "stale_file"
    assert tree(workspace) == before


def test_places_of_layers_that_appear_during_a_command_stay(agents, workspace, name):
    """Another workspace, in or beside this one, may make one meanwhile, and needs it for undo."""
    done = agents.call(name, "run_shell", command="mkdir -p .hilt-undo-0/1", flags={"shell.undo": "off"})

    assert done.code is None
    assert (workspace / ".hilt-undo-0" / "1").is_dir()
    assert "disarmed" not in done.text


def test_a_preview_leaves_the_repository_untouched(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n"})
    git(agents, workspace, "init -q && git add . && git commit -qm one && echo new > a.txt")
    before = tree(workspace)

    command = "git checkout -- . && git tag made && git rm -q a.txt"
    preview = agents.call(name, "run_shell", command=command, preview=True)

    assert "[exit: 0]" in preview.text, preview.text
    assert tree(workspace) == before


def git(agents: Agents, workspace: Path, script: str) -> None:
    names = {f"GIT_{role}_{what}": "t@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    options = {"safe.directory": "*", "maintenance.auto": "false"}  # maintenance would run in the background
    settings = {"GIT_CONFIG_COUNT": str(len(options))}
    for number, (key, value) in enumerate(options.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    subprocess.run(["sh", "-ec", f"git {script}"], cwd=workspace, env={**os.environ, **names, **settings}, check=True)
    agents.own(workspace)


def test_discarded_changes_are_restored_and_the_repository_stays_as_git_left_it(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n"})
    git(agents, workspace, "init -q && git add . && git commit -qm one && echo work > a.txt")

    done = agents.call(name, "run_shell", command="git checkout -- . && git clean -fdq", force=True)

    assert (workspace / "a.txt").read_text() == "old\n"
    assert agents.restore(name, done.undo).code is None
    assert (workspace / "a.txt").read_text() == "work\n"
    assert agents.run(name, "git status --short && git fsck").text.count("M a.txt") == 1


# --- when a command runs without an overlay


def test_a_mount_in_the_workspace_rules_out_an_overlay(agents, workspace, name):
    if os.getuid() != 0:
        pytest.skip("only root can mount here")
    (workspace / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(workspace / "mounted")], check=True)
    try:
        done = agents.run(name, "echo x > a.txt")
        refused = agents.call(name, "run_shell", command="rm a.txt", preview=True)
    finally:
        subprocess.run(["umount", str(workspace / "mounted")], check=True)

    assert done.meta["undo"] == {"skipped": f"{workspace}/mounted is a mount point"}
    assert f"[undo: not possible, {workspace}/mounted is a mount point]" in done.text
    assert refused.code == "sandbox_unavailable"


def test_a_background_job_rules_out_an_overlay(agents, workspace, name):
    job = agents.call(name, "run_shell", command="sleep 60", run_in_background=True)
    task = json.loads(job.text)["task_id"]

    done = agents.run(name, "echo x > a.txt")
    agents.call(name, "job_stop", task_id=task)

    assert done.meta["undo"] == {"skipped": "a background job of the session is running"}
    assert agents.run(name, "echo y > a.txt").undo


@pytest.mark.parametrize("owner, group", [(0, NOBODY), (NOBODY, 0), (NOBODY, SUPPLEMENTARY)])
def test_a_file_of_another_owner_or_group_rules_out_an_overlay_for_an_ordinary_user(
    agents, workspace, name, owner, group
):
    if os.getuid() != 0 or agents.uid == 0:
        pytest.skip("needs two users")
    write(agents, workspace, {"a.txt": "x", "b.txt": "x"})
    os.chown(workspace / "b.txt", owner, group)

    done = agents.run(name, "echo y > a.txt")

    assert done.meta["undo"] == {"skipped": f"{workspace}/b.txt belongs to another user or group"}


def test_undo_can_be_turned_off(agents, workspace, name):
    done = agents.run(name, "echo x > a.txt", flags={"shell.undo": "off"})

    assert "undo" not in done.meta
    assert (workspace / "a.txt").exists()


@contextmanager
def mounted(*arguments: str) -> Iterator[None]:
    if os.getuid() != 0:
        pytest.skip("only root can mount here")
    subprocess.run(["mount", *arguments], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", arguments[-1]], check=True)


@pytest.mark.parametrize("where", ["beside the workspace", "in the workspace"])
def test_the_layers_are_on_the_file_system_of_the_workspace(agents, workspace, name, where):
    other = workspace if where == "in the workspace" else workspace.parent / "state"
    other.mkdir(exist_ok=True)
    parent = workspace if where == "in the workspace" else workspace.parent
    with mounted("-t", "tmpfs", "-o", f"uid={agents.uid},gid={agents.uid},mode=755", "tmpfs", str(other)):
        write(agents, workspace, {"src/a": "a\n"})
        before = tree(workspace)
        first = agents.run(name, "rm -rf src")
        [place] = parent.glob(".hilt-undo-*")
        attack = agents.run(name, "ls -A .hilt-undo-* ../.hilt-undo-*; rm -rf .hilt-undo-* ../.hilt-undo-*; mkdir new")
        plain = {"shell.undo": "off"}
        listed = agents.call(name, "run_shell", command="ls -A .hilt-undo-*/* ../.hilt-undo-*/*", flags=plain)

        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert {first.undo, attack.undo} <= set(os.listdir(place))
        assert first.undo not in attack.text + listed.text
        assert agents.restore(name, attack.undo).code is None
        assert agents.restore(name, first.undo).code is None
        assert tree(workspace) == before


@pytest.mark.skipif(not PLACES, reason="needs a writable folder outside /tmp, which is private in the sandbox")
def test_no_command_reads_the_layers_beside_its_workspace_or_another(request):
    agents = Agents(ordinary=False, folder=PLACES[0])
    request.addfinalizer(agents.close)
    first, other = agents.workspace("first"), agents.workspace("other")
    state = first.parent / "state"
    with mounted("-t", "tmpfs", "tmpfs", str(state)):
        write(agents, first, {"a": "old\n"})
        done = agents.run("first", "rm a")
        [place] = first.parent.glob(".hilt-undo-*")
        command = f"ls -A {place}/* {place}/*/*; cat {place}/*/u0/a"
        texts = [agents.call("first", "run_shell", command=command, flags={"shell.undo": "off"}).text]
        # a workspace with the same state, which it shares with all of the user
        with mounted("--bind", str(state), str(other.parent / "state")):
            texts.append(agents.run("other", command).text)

        assert done.undo in os.listdir(place)
        for text in texts:
            assert done.undo not in text
            assert "old" not in text


def test_a_damaged_record_of_a_place_does_not_block_commands(agents, workspace, name):
    state = workspace.parent / "state"
    state.mkdir(exist_ok=True)
    with mounted("-t", "tmpfs", "-o", f"uid={agents.uid},gid={agents.uid},mode=755", "tmpfs", str(state)):
        assert agents.run(name, "echo > a").undo
        [record] = (state / "layer-places").iterdir()
        record.write_text("text /text")

        assert agents.run(name, "echo > b").undo


# swaps the folder of the layers, made in advance if its name can be known, and the layers in it, with links
SWAPPING = """
import ctypes, os, sys, time
from contextlib import suppress
outside, known, seconds = sys.argv[1:]
swap = ctypes.CDLL(None).renameat2
for trap in ("trap", "inner-trap"):
    with suppress(FileExistsError):
        os.symlink(outside, trap)
ends = time.monotonic() + float(seconds)
while time.monotonic() < ends:
    for place in {known, *(name for name in os.listdir(".") if name.startswith(".hilt-undo-"))}:
        with suppress(OSError):
            os.mkdir(place, 0o700)
        with suppress(OSError):
            for layer in os.listdir(place):
                for inner in ("", "/u0", "/w0"):
                    swap(-100, f"{place}/{layer}{inner}".encode(), -100, b"inner-trap", 2)
                    swap(-100, f"{place}/{layer}{inner}".encode(), -100, b"inner-trap", 2)
        swap(-100, place.encode(), -100, b"trap", 2)
"""


@pytest.mark.parametrize("where", ["in the sandbox", "unconfined"])
def test_a_program_that_swaps_the_layers_with_links_reaches_nothing_outside(agents, workspace, name, where):
    """A program in another sandbox can be unconfined here: it does not know of this workspace."""
    outside = workspace.parent / "outside"
    plain = {"shell.undo": "off"}
    with mounted("-t", "tmpfs", "-o", f"uid={agents.uid},gid={agents.uid},mode=755", "tmpfs", str(workspace)):
        write(agents, workspace, {"src/a": "a\n", "swap.py": SWAPPING})
        write(agents, outside, {"kept": "kept\n", "folder/kept": "kept\n", "u0/kept": "kept\n"})
        agents.own(workspace.parent)
        before = tree(outside)
        arguments = str(outside), f".hilt-undo-{digest(str(workspace.resolve()))[:12]}", "60"
        attacker, job = None, None
        if where == "unconfined":
            prefix = as_user(agents.uid, str(SUPPLEMENTARY))
            attacker = subprocess.Popen([*prefix, agents.python, "swap.py", *arguments], cwd=workspace)
        else:
            command = shlex.join([agents.python, "swap.py", *arguments])
            job = agents.call(name, "run_shell", command=command, run_in_background=True, flags=plain)
        changes = []
        for number in range(5):
            # both may be refused because folders are renamed meanwhile
            done = agents.run(name, f"echo {number} > src/{number}")
            agents.call(name, "run_shell", command="rm -rf src", preview=True)
            if done.code is None and "id" in done.meta["undo"]:
                changes.append(done.undo)
        if attacker is not None:
            attacker.kill()
            attacker.wait(60)
        if job is not None:
            agents.call(name, "job_stop", task_id=json.loads(job.text)["task_id"], flags=plain)

        assert tree(outside) == before
        if where == "in the sandbox":
            # it could not move the layers
            assert [agents.restore(name, change).code for change in reversed(changes)] == [None] * len(changes)


# --- a workspace on overlayfs, as in most containers


@contextmanager
def on_overlayfs(agents: Agents, workspace: Path, below: str = "below") -> Iterator[None]:
    """Mount an overlay over the workspace, whose current contents are the lower layer."""
    layers = [workspace.parent / below / folder for folder in ("upper", "work")]
    for folder in layers:
        folder.mkdir(parents=True)
    agents.own(layers[0].parent)
    layers[0].chmod(workspace.stat().st_mode)
    options = f"lowerdir={workspace},upperdir={layers[0]},workdir={layers[1]}"
    with mounted("-t", "overlay", "-o", options, "overlay", str(workspace)):
        yield


@pytest.mark.parametrize("seed", range(STRESS or 2))
def test_a_command_on_overlayfs_does_the_same_and_undo_reverts_it(agents, workspace, name, seed):
    chance = random.Random(seed)
    plain = agents.workspace(f"{name}-plain")
    plant(chance, workspace, plain)
    agents.own(workspace)
    agents.own(plain)
    with on_overlayfs(agents, workspace), on_overlayfs(agents, plain):
        compare_with_plain_run(agents, workspace, name, script(chance))
        assert scratch_layers(workspace) == []


def scratch_layers(workspace: Path) -> list[Path]:
    """Return the upper layers of a workspace on tmpfs."""
    records = [path.read_text() for path in (workspace.parent / "state/layer-places").iterdir()]
    [place] = [Path(record.partition(" ")[2]) for record in records if " /dev/shm/" in record]
    return [path for path in place.iterdir() if path.name != ".gitignore"]


def test_deleted_folders_are_restored_and_previews_are_applied_on_overlayfs(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a\n", "src/in/b.py": "b\n", "kept": "kept\n", "turned/c": "c\n"})
    os.link(workspace / "kept", workspace / "linked")
    with on_overlayfs(agents, workspace):
        before = tree(workspace)
        command = "rm -rf src turned; echo new > turned; mkdir -p new/in; echo n > new/in/n"

        done = agents.run(name, f"{command}; echo more >> linked")

        assert {"new/in/n", "turned", "kept", "linked"} <= tree(workspace).keys()
        assert [(workspace / path).read_text() for path in ("kept", "linked")] == ["kept\n", "kept\nmore\n"]
        file = agents.restore(name, done.undo, path="src/in/b.py")
        assert (file.code, sorted(os.listdir(workspace / "src"))) == (None, ["in"]), file.message
        folder = agents.restore(name, done.undo, path="src")
        assert (folder.code, sorted(os.listdir(workspace / "src"))) == (None, ["a.py", "in"]), folder.message
        remaining = agents.restore(name, done.undo)
        assert remaining.code is None, remaining.message
        assert tree(workspace) == before

        preview = agents.call(name, "run_shell", command=command, preview=True)
        assert tree(workspace) == before
        applied = agents.call(name, "run_shell", command=command, force=True, apply=preview.meta["preview"]["id"])
        assert applied.code is None, applied.message
        assert (workspace / "turned").read_text() == "new\n"
        assert (workspace / "new/in/n").read_text() == "n\n"


def test_a_preview_of_changed_hard_links_on_overlayfs_can_be_applied(agents, workspace, name):
    write(agents, workspace, {"one": "one\n", "two": "two\n"})
    for path in ("one", "two"):
        os.link(workspace / path, workspace / f"{path} linked")
    with on_overlayfs(agents, workspace):
        before = tree(workspace)
        command = "rm -f one; echo more >> two"

        preview = agents.call(name, "run_shell", command=command, preview=True)
        applied = agents.call(name, "run_shell", command=command, force=True, apply=preview.meta["preview"]["id"])

        assert applied.code is None, applied.message
        assert not applied.meta["undo"].get("conflicts")
        texts = {path.name: path.read_text() for path in workspace.iterdir() if path.is_file()}
        assert texts == {"one linked": "one\n", "two": "two\nmore\n", "two linked": "two\n"}
        assert agents.restore(name, applied.undo).code is None
        assert tree(workspace) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_folders_of_others_on_overlayfs_keep_their_owner(agents, workspace, name):
    if agents.uid != 0:
        pytest.skip("the files of others rule out an overlay for an ordinary user")
    write(agents, workspace, {"theirs/inner/a": "a\n"})
    for path in ("theirs", "theirs/inner", "theirs/inner/a"):
        os.chown(workspace / path, NOBODY, SUPPLEMENTARY)
        (workspace / path).chmod(0o777)
    with on_overlayfs(agents, workspace):
        done = agents.run(name, "rm -rf theirs")
        assert not (workspace / "theirs").exists()
        assert agents.restore(name, done.undo).code is None

        for path in ("theirs", "theirs/inner", "theirs/inner/a"):
            status = (workspace / path).stat()
            assert (path, status.st_uid, status.st_gid) == (path, NOBODY, SUPPLEMENTARY)


def test_undo_works_with_everything_on_one_overlayfs_as_in_a_container(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a\n", "kept": "kept\n"})
    (workspace.parent / "state/sandbox.json").unlink(missing_ok=True)
    with on_overlayfs(agents, workspace.parent, f"below-{name}"):
        before = tree(workspace)

        done = agents.run(name, "rm -rf src; echo new >> kept")

        assert sorted(os.listdir(workspace)) == ["kept"]
        assert [path.name for path in layers(agents, name)] == [done.undo]
        assert agents.restore(name, done.undo).code is None
        assert tree(workspace) == before


def test_a_conflict_in_a_deleted_folder_on_overlayfs_keeps_only_that_file(agents, workspace, name):
    write(agents, workspace, {"src/a.py": "a\n", "src/b.py": "b\n", "go": ""})
    with on_overlayfs(agents, workspace):
        thread = threading.Thread(target=lambda: change_while_waiting(workspace))
        thread.start()
        done = agents.run(name, f"rm -rf src; {AWAIT_GO}")
        thread.join()

        assert sorted(done.meta["undo"]["conflicts"]) == ["src/", "src/b.py"]
        assert {path.name: path.read_text() for path in (workspace / "src").iterdir()} == {"b.py": "mine\n"}
        assert agents.restore(name, done.undo).code is None
        assert (workspace / "src/a.py").read_text() == "a\n"


def change_while_waiting(workspace: Path) -> None:
    time.sleep(1)  # so that the command has begun: an earlier change is not a conflict
    (workspace / "src/b.py").write_text("mine\n")
    (workspace / "go").write_text("go")


def test_a_full_disk_while_changes_are_copied_applies_none(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n"})
    below = workspace.parent / "below"
    below.mkdir()
    options = f"size=1M,uid={agents.uid},gid={agents.uid},mode=755"
    with mounted("-t", "tmpfs", "-o", options, "tmpfs", str(below)), on_overlayfs(agents, workspace):
        before = tree(workspace)

        done = agents.run(name, "echo new > a.txt; head -c 2M /dev/zero > large")

        assert (done.code, "No space left" in done.message) == ("resource_limit", True), (done.code, done.message)
        assert tree(workspace) == before
        assert scratch_layers(workspace) == []
        assert agents.run(name, "echo new > a.txt").undo


def test_an_overlay_that_cannot_be_mounted_is_skipped(agents, workspace, name):
    tools = agents.base / name / "config/tools"
    tools.mkdir(parents=True)
    (tools / "clean_up.md").write_text(TOOL)
    agents.own(tools.parent)
    write(agents, workspace, {"src/a": "a\n"})
    with on_overlayfs(agents, workspace), on_overlayfs(agents, workspace, "second"):  # no third is allowed
        done = agents.run(name, "echo x > a.txt")
        custom = agents.call(name, "clean_up")
        refused = agents.call(name, "run_shell", command="rm a.txt", preview=True)

        assert (workspace / "a.txt").read_text() == "x\n"
        assert not (workspace / "src").exists()
    assert done.meta["undo"] == custom.meta["undo"] == {"skipped": "the overlay could not be mounted"}
    assert custom.text == "done\n"
    assert refused.code == "sandbox_unavailable"


# --- hostile commands


def test_links_to_the_outside_are_moved_as_links(agents, workspace, name):
    outside = agents.base / name / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched\n")
    agents.own(outside)
    write(agents, workspace, {"folder/a": "a\n"})

    done = agents.run(
        name, f"rm -rf folder; ln -s {outside} folder; ln -s {outside}/victim link; mkdir d; ln -s / d/root"
    )

    assert os.readlink(workspace / "folder") == str(outside)
    assert agents.restore(name, done.undo).code is None
    assert (workspace / "folder/a").read_text() == "a\n"
    assert tree(outside) == {"victim": tree(outside)["victim"], ".": tree(outside)["."]}
    assert (outside / "victim").read_text() == "untouched\n"


def test_the_marks_of_an_overlay_cannot_be_forged(agents, workspace, name):
    write(agents, workspace, {"folder/a": "a\n", "folder/b": "b\n", "victim": "v\n"})
    forge = (
        "import os, stat\n"
        "for path in ('folder', 'victim'):\n"
        "    for space in ('user', 'trusted'):\n"
        "        for mark in ('opaque', 'redirect', 'whiteout', 'metacopy', 'origin', 'overlay.opaque'):\n"
        "            try: os.setxattr(path, f'{space}.overlay.{mark}', b'y')\n"
        "            except OSError: pass\n"
        "for path in ('folder/b', 'new'):\n"
        "    try:\n"
        "        if os.path.exists(path): os.rename(path, path + '.old')\n"
        "        os.mknod(path, stat.S_IFCHR | 0o600, 0)\n"
        "    except OSError: pass\n"
        "open('folder/c', 'w').close()\n"
    )
    write(agents, workspace, {"forge.py": forge})
    before = tree(workspace)

    done = agents.run(name, "/usr/bin/python3 forge.py")

    assert {path for path in tree(workspace) if path.startswith("folder")} == {
        *("folder", "folder/a", "folder/b.old", "folder/c"),
    }
    assert (workspace / "victim").read_text() == "v\n"
    assert agents.restore(name, done.undo).code is None
    assert unmarked(tree(workspace)) == unmarked(before)


def unmarked(entries: dict[str, str]) -> dict[str, str]:
    return {path: text.partition("[")[0] for path, text in entries.items()}


def test_marks_in_the_workspace_do_not_confuse_a_later_overlay(agents, workspace, name):
    write(agents, workspace, {"folder/a": "a\n"})
    os.setxattr(workspace / "folder", "user.overlay.opaque", b"y")
    os.setxattr(workspace / "folder/a", "user.overlay.metacopy", b"y")
    os.mknod(workspace / "folder/device", stat.S_IFCHR | 0o600, 0)
    agents.own(workspace)

    done = agents.run(name, "echo b > folder/b; cat folder/a")

    assert done.code is None, done.message
    assert (workspace / "folder/a").read_text() == "a\n"
    assert (workspace / "folder/b").read_text() == "b\n"
    assert agents.restore(name, done.undo).code is None
    assert sorted(os.listdir(workspace / "folder")) == ["a", "device"]


def test_protected_and_sensitive_names_stay_closed_on_an_overlay(agents, workspace, name):
    write(agents, workspace, {".env": "SECRET=1\n", "in/.env": "SECRET=2\n", ".hilt/config.toml": "", "a.txt": "a\n"})
    git(agents, workspace, "init -q")
    before = tree(workspace)

    done = agents.run(
        name,
        "cat .env in/.env; echo x > .hilt/config.toml; mkdir .claude; echo x > .mcp.json; mv in out; rm -rf .hilt in; "
        "echo '[core] pager = touch owned' >> .git/config; echo x > .git/hooks/pre-commit; rm -rf .git",
    )

    assert "SECRET" not in done.text
    assert {path: text for path, text in tree(workspace).items() if ".git" not in path} == {
        path: text for path, text in before.items() if ".git" not in path
    }
    assert tree(workspace / ".git")["config"] == before[".git/config"]
    assert not (workspace / ".git/hooks/pre-commit").exists()


def test_a_repository_that_the_command_makes_is_harmless_before_it_appears(agents, workspace, name):
    contents = []
    over = threading.Event()

    def watch() -> None:
        config = workspace / "sub/.git/config"
        is_last = False
        while not is_last:
            is_last = over.is_set()
            with suppress(OSError):
                contents.append(config.read_text())

    thread = threading.Thread(target=watch)
    thread.start()
    done = agents.run(name, "git init -q sub; git -C sub config core.fsmonitor 'touch owned'; echo x > opencode.json")
    over.set()
    thread.join()

    assert contents
    assert not any("fsmonitor" in text for text in contents)
    assert any("core.fsmonitor" in note for note in done.meta["disarmed"])
    assert not (workspace / "opencode.json").exists()


def test_hard_links_are_split_and_special_files_are_moved(agents, workspace, name):
    write(agents, workspace, {"a": "old\n"})
    os.link(workspace / "a", workspace / "b")

    done = agents.run(
        name,
        "echo new >> a; mkfifo pipe; "
        "/usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"",
    )

    assert ((workspace / "a").read_text(), (workspace / "b").read_text()) == ("old\nnew\n", "old\n")
    assert stat.S_ISFIFO(os.lstat(workspace / "pipe").st_mode)
    assert agents.restore(name, done.undo).code is None
    assert sorted(os.listdir(workspace)) == ["a", "b"]


@pytest.mark.parametrize("on_overlay", [False, True], ids=["moved", "copied"])
def test_what_a_command_moves_loses_the_rights_of_others(agents, workspace, name, on_overlay):
    write(agents, workspace, {"program": "p\n", "folder/program": "p\n"})
    for path in (workspace / "program", workspace / "folder/program"):
        path.chmod(0o6755)
        if agents.uid == 0:
            os.setxattr(path, "security.capability", bytes.fromhex("0000000202000000000000000000000000000000"))
    with on_overlayfs(agents, workspace) if on_overlay else nullcontext():
        done = agents.run(name, "mv program moved; mv folder new")

        for path in (workspace / "moved", workspace / "new/program"):
            assert path.stat().st_mode & 0o6100 == 0o100
            assert "security.capability" not in os.listxattr(path)
        assert agents.restore(name, done.undo).code is None
        assert (workspace / "program").read_text() == "p\n"


def test_folders_without_permissions_are_applied_and_restored(agents, workspace, name):
    write(agents, workspace, {"closed/in/a": "a\n", "listed/b": "b\n"})
    (workspace / "listed").chmod(0o500)
    before = tree(workspace)

    done = agents.run(
        name,
        "chmod 700 listed; echo new > listed/c; chmod 500 listed; chmod 555 closed/in; "
        "mkdir -p new/in; echo n > new/in/n; chmod 500 new/in new",
    )

    assert (workspace / "new/in/n").read_text() == "n\n"
    assert oct(os.stat(workspace / "new").st_mode) == "0o40500"
    assert (workspace / "listed/c").read_text() == "new\n"
    restored = agents.restore(name, done.undo)
    assert restored.code is None, restored.message
    assert tree(workspace) == before


def test_files_and_folders_that_their_owner_cannot_read_are_restored(agents, workspace, name):
    write(agents, workspace, {"a": "a\n", "folder/b": "b\n", "listed/c": "c\n"})
    (workspace / "a").chmod(0)
    (workspace / "folder").chmod(0o300)
    before = modes(workspace)

    done = agents.run(
        name,
        "chmod 600 a; echo more >> a; chmod 0 a listed; echo n > new; chmod 0 new; mkdir d; echo e > d/e; chmod 300 d",
    )

    assert done.code is None, done.message
    # without root, folders are made accessible again, because they are searched
    closed = {"listed": 0, "d": 0o300} if agents.uid == 0 else {"listed": 0o700, "d": 0o700}
    assert modes(workspace) == {**before, **closed, "new": 0}
    assert "conflicts" not in done.meta["undo"]
    assert agents.restore(name, done.undo).code is None
    assert modes(workspace) == before


def modes(workspace: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in workspace.iterdir()}


def test_attributes_of_the_overlay_are_removed_and_others_kept(agents, workspace, name):
    write(agents, workspace, {"a": "a\n", "folder/b": "b\n", "closed/c": "c\n"})
    os.setxattr(workspace / "a", "user.mine", b"1")
    os.setxattr(workspace / "folder", "user.mine", b"2")

    done = agents.run(
        name,
        "echo more >> a; echo more >> folder/b; rm -rf closed; mkdir closed; echo d > closed/d; chmod 400 folder/b; "
        "/usr/bin/python3 -c \"import os; os.setxattr('closed/d', 'user.theirs', b'3')\"",
    )

    paths = [path for path in (workspace, *workspace.rglob("*")) if not path.is_symlink()]
    assert {path.name: os.listxattr(path) for path in paths if os.listxattr(path)} == {
        "a": ["user.mine"],
        "folder": ["user.mine"],
        "d": ["user.theirs"],
    }
    assert agents.restore(name, done.undo).code is None
    assert [os.getxattr(workspace / name, "user.mine") for name in ("a", "folder")] == [b"1", b"2"]


def test_locks_sockets_and_pipes_of_others_keep_working(agents, workspace, name):
    write(agents, workspace, {"lock": "", "a.txt": "old\n"})
    os.mkfifo(workspace / "pipe")
    agents.own(workspace)
    inodes = {path.name: path.lstat().st_ino for path in workspace.iterdir() if path.name != "a.txt"}
    with open(workspace / "lock", encoding="utf-8") as lock, socket.socket(socket.AF_UNIX) as listener:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listener.bind(str(workspace / "socket"))
        listener.listen()
        agents.own(workspace)
        inodes["socket"] = os.lstat(workspace / "socket").st_ino
        reading = os.open(workspace / "pipe", os.O_RDONLY | os.O_NONBLOCK)

        # none of them is visible on the overlay: the lock seems free, and nobody seems to read or listen
        done = agents.run(
            name,
            "flock -n lock echo free; timeout 0.3 sh -c 'echo in > pipe' || echo unread; echo new > a.txt; "
            "/usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('socket')\" || echo closed",
        )

        assert [word for word in ("free", "unread", "closed") if word in done.text] == ["free", "unread", "closed"]
        assert {path.name: path.lstat().st_ino for path in workspace.iterdir() if path.name != "a.txt"} == inodes
        with pytest.raises(BlockingIOError), open(workspace / "lock", encoding="utf-8") as second:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(workspace / "pipe", "w", encoding="utf-8") as pipe:
            pipe.write("still")
        assert os.read(reading, 9) == b"still"
        os.close(reading)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(workspace / "socket"))
    assert agents.restore(name, done.undo).code is None
    assert (workspace / "a.txt").read_text() == "old\n"


def test_a_folder_that_becomes_a_link_to_the_outside_during_apply_is_not_followed(agents, workspace, name):
    outside = agents.base / name / "outside"
    (outside / "in").mkdir(parents=True)
    (outside / "in/a").write_text("outside\n")
    agents.own(outside)
    files = {f"folder{number}/in/a": "old\n" for number in range(40)}
    write(agents, workspace, files)
    before = tree(outside)
    swapping = (
        "import os, sys, itertools\n"
        "for number in itertools.cycle(range(40)):\n"
        "    try:\n"
        "        os.rename(f'folder{number}', 'aside'); os.symlink(sys.argv[1], f'folder{number}')\n"
        "        os.unlink(f'folder{number}'); os.rename('aside', f'folder{number}')\n"
        "    except OSError: pass\n"
    )
    swapper = subprocess.Popen(["/usr/bin/python3", "-c", swapping, str(outside)], cwd=workspace)
    try:
        for _ in range(STRESS or 2):
            done = agents.run(name, "for f in folder*/in; do echo new >> $f/a; echo new > $f/b; rm -rf $f; done")
            assert done.code in (None, "busy"), done.message
            if done.code is None and "id" in done.meta.get("undo", {}):
                agents.restore(name, done.undo)
    finally:
        swapper.kill()
        swapper.wait()

    assert tree(outside) == before


def test_a_command_on_tmpfs_does_the_same_and_undo_reverts_it(agents, workspace, name):
    chance = random.Random(name)
    plain = agents.workspace(f"{name}-plain")
    options = f"uid={agents.uid},gid={agents.uid},mode=755"
    with (
        mounted("-t", "tmpfs", "-o", options, "tmpfs", str(workspace)),
        mounted("-t", "tmpfs", "-o", options, "tmpfs", str(plain)),
    ):
        plant(chance, workspace, plain)
        agents.own(workspace)
        agents.own(plain)
        compare_with_plain_run(agents, workspace, name, script(chance))


def test_a_full_state_directory_applies_nothing(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n", "go": ""})
    agents.run(name, "true")
    wait_until(lambda: layers(agents, name) == [])
    state = agents.base / name / "state"
    saved_state = agents.base / name / "kept"
    state.rename(saved_state)
    state.mkdir()
    options = f"size=4M,uid={agents.uid},gid={agents.uid},mode=700"
    with mounted("-t", "tmpfs", "-o", options, "tmpfs", str(state)):
        subprocess.run(["cp", "-a", f"{saved_state}/.", str(state)], check=True)
        thread = threading.Thread(target=lambda: fill_while_waiting(state, workspace))
        thread.start()
        done = agents.run(name, f"echo new > a.txt; {AWAIT_GO}; rm -f go", flags={"undo.calls": 50})
        thread.join()

        assert done.code is not None
        assert (workspace / "a.txt").read_text() == "old\n"
        (state / "filler").unlink()
        (workspace / "go").unlink()
        assert agents.run(name, "echo new > a.txt", flags={"undo.calls": 51}).undo


def fill_while_waiting(state: Path, workspace: Path) -> None:
    time.sleep(1)
    with suppress(OSError), open(state / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    (workspace / "go").write_text("go")


def test_a_command_continues_and_is_applied_if_the_keeper_is_killed(agents, workspace, name):
    write(agents, workspace, {"a.txt": "old\n", "src/b": "b\n", "go": ""})
    answers: list[Answer] = []
    command = f"echo new > a.txt; rm -rf src; {AWAIT_GO}"
    thread = threading.Thread(target=lambda: answers.append(agents.run(name, command)))
    thread.start()
    wait_until(lambda: is_in_upper_layer(agents.base / name / "state/layers", "src"))

    os.kill(agents.keeper, signal.SIGKILL)
    (workspace / "go").write_text("go")
    thread.join()

    assert sorted(os.listdir(workspace)) == ["a.txt", "go"]
    wait_until(lambda: not mounting_processes(agents.base / name))
    (workspace / "go").unlink()
    assert agents.restore(name, answers[0].undo).code is None
    assert (workspace / "src/b").read_text() == "b\n"


def test_a_kill_of_hilt_while_the_command_runs_changes_nothing_and_is_cleaned_up(agents):
    killed_agents = Agents(ordinary=agents.uid != 0)
    try:
        workspace = killed_agents.workspace("killed")
        write(killed_agents, workspace, {"a.txt": "old\n", "src/b": "b\n"})
        before = tree(workspace)
        answers: list[Answer] = []

        def call() -> None:
            with suppress(AssertionError):  # the process has ended
                answers.append(killed_agents.run("killed", "echo new > a.txt; rm -rf src; sleep 600", timeout=300))

        thread = threading.Thread(target=call)
        thread.start()
        wait_until(lambda: is_in_upper_layer(killed_agents.base / "killed/state/layers", "src"))
        killed_agents.kill()
        thread.join()
        killed_agents.restart()

        assert answers == []
        wait_until(lambda: not mounting_processes(killed_agents.base))
        assert killed_agents.run("killed", "true").code is None
        wait_until(lambda: layers(killed_agents, "killed") == [])
        assert tree(workspace) == before
    finally:
        killed_agents.close()


def is_in_upper_layer(place: Path, name: str) -> bool:
    """Whether a running command has changed a name."""
    with suppress(FileNotFoundError):
        return any(os.path.lexists(f"{path}/u0/{name}") for path in place.glob("*/*"))
    return False


def mounting_processes(folder: Path) -> list[str]:
    """Return the processes that see an overlay with a layer below a folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):
            if any(" - overlay " in line and str(folder) in line for line in path.read_text().splitlines()):
                pids.append(path.parent.name)
    return pids


def test_deep_folders_are_refused_and_nothing_is_left(agents, workspace, name):
    done = agents.run(name, "for i in $(seq 300); do mkdir d; cd d; done")

    assert done.code == "resource_limit"
    assert os.listdir(workspace) == []
    wait_until(lambda: layers(agents, name) == [])


def test_a_full_disk_fails_the_command_and_changes_nothing_else(agents, workspace, name):
    options = f"size=3M,uid={agents.uid},gid={agents.uid},mode=755"
    with mounted("-t", "tmpfs", "-o", options, "tmpfs", str(workspace)):
        write(agents, workspace, {"large": "x" * (2 << 20), "small": "old\n"})
        before = tree(workspace)
        done = agents.run(name, "echo new > small; echo more >> large")

        assert "No space left" in done.text
        assert (workspace / "small").read_text() == "new\n"
        assert agents.restore(name, done.undo).code is None
        assert tree(workspace) == before


def test_a_failed_start_leaves_no_layer(agents, workspace, name):
    missing = agents.run(name, "true", cwd="missing")

    assert missing.code == "file_not_found"
    wait_until(lambda: layers(agents, name) == [])


# --- storage


def test_snapshots_of_commands_age_like_others(agents, workspace, name):
    flags = {"undo.calls": 2}
    write(agents, workspace, {f"{number}.txt": "x\n" for number in range(4)})
    ids = [agents.run(name, f"rm {number}.txt", flags=flags).undo for number in range(3)]

    listed = json.loads(agents.call(name, "undo", flags=flags, action="list").text)["snapshots"]
    agents.run(name, "rm 3.txt", flags=flags)

    assert [entry["id"] for entry in listed] == [ids[2], ids[1]]
    assert len(layers(agents, name)) == 3  # evicted by the last call, removed by the next
    assert agents.call(name, "undo", flags=flags, action="clear").code is None
    agents.run(name, "true", flags=flags)
    wait_until(lambda: layers(agents, name) == [])


# --- custom tools

TOOL = """---
name: clean_up
description: Removes things.
approval: never
sandbox: {write: ["."]}
undo: true
---
rm -rf src; echo done
"""


def test_a_custom_tool_with_undo_can_be_undone(agents, workspace, name):
    tools = agents.base / name / "config/tools"
    tools.mkdir(parents=True)
    (tools / "clean_up.md").write_text(TOOL)
    write(agents, workspace, {"src/a": "a\n", "src/b": "b\n"})
    agents.own(tools.parent)

    done = agents.call(name, "clean_up")

    assert done.code is None, done.message
    assert done.text == f"done\n[undo: 2 files changed; undo restore {done.undo} reverts it]"
    assert not (workspace / "src").exists()
    assert agents.restore(name, done.undo).code is None
    assert (workspace / "src/a").read_text() == "a\n"
