"""What commands, jobs, tools and hooks leave for the user's next git command, through the runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hilt.policy.hook_protocol import POST
from hilt.runtime import Runtime
from hilt.testing import Folder, environment, temporary_runtime
from tests.marks import wait_until
from tests.tools.person import approved

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("bwrap") or not shutil.which("git"), reason="needs bubblewrap and git"
)

PLANT = "mkdir -p sub; git init -q sub; printf '[core]\\n\\tfsmonitor = %s\\n' $PWD/evil >> sub/.git/config"
REDIRECT = "cp -r .git other; printf '[core]\\n\\tfsmonitor = %s\\n' $PWD/evil >> other/config; echo ../other > "
REDIRECT += ".git/commondir"
DRIVER = """
import sys, time
from hilt.testing import temporary_runtime
with temporary_runtime(sys.argv[1]) as (runtime, _):
    job = runtime.call("run_shell", command=sys.argv[2], run_in_background=True)
    assert job.ok, job.error
    while "ready" not in runtime.call("job_output", task_id=job.data["task_id"], block=False).data["output"]:
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(300)
"""


@pytest.fixture
def repository(workspace: Folder) -> Iterator[Folder]:
    """A repository of the user, and a payload that leaves a marker."""
    prepare(workspace)
    yield workspace
    git(workspace, ".")
    git(workspace, "sub")
    assert not os.path.exists(workspace.join("marker"))


def prepare(workspace: Folder) -> None:
    workspace.write("evil", f"#!/bin/sh\ntouch {workspace.join('marker')}\n")
    os.chmod(workspace.join("evil"), 0o755)
    subprocess.run(["git", "init", "-q"], cwd=workspace.path, check=True)


def git(workspace: Folder, folder: str) -> None:
    """Run git as the user does next."""
    if os.path.isdir(workspace.join(folder)):
        subprocess.run(["git", "status"], cwd=workspace.join(folder), check=True, capture_output=True)


def notes_of(result: Any) -> list[str]:
    assert result.ok, result.error
    return list(result.meta.get("disarmed", ()))


@pytest.mark.starts_processes
def test_a_command_reports_what_was_disarmed(runtime, repository):
    done = runtime.call("run_shell", command=PLANT)

    [note] = notes_of(done)
    assert note.startswith("sub/.git/config ")
    assert done.text.endswith(f"\n[disarmed: {note}]")
    assert notes_of(runtime.call("run_shell", command="true")) == []


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "variable, value",
    [
        ("GIT_CONFIG_GLOBAL", "own/git/config"),
        ("GIT_CONFIG_GLOBAL", "{}/own/git/config"),
        ("GIT_CONFIG_SYSTEM", "{}/own/git/config"),
        ("XDG_CONFIG_HOME", "{}/own"),
        ("GIT_COMMON_DIR", "{}/own/git"),
        ("GIT_TEMPLATE_DIR", "{}/own/git"),
    ],
)
def test_what_variables_of_the_user_name_for_git_is_disarmed(base, variable, value):
    workspace = Folder(os.path.join(base, "workspace"))
    environ = {**environment(base), variable: value.format(workspace.path)}
    workspace.write("own/git/config", "[user]\n\tname = n\n")
    prepare(workspace)

    with Runtime(workspace.path, environ=environ) as runtime:
        done = runtime.call("run_shell", command="printf '[core]\n\tfsmonitor = %s\n' $PWD/evil >> own/git/config")

    assert [note.split()[0] for note in notes_of(done)] == ["own/git/config"]
    assert "fsmonitor" not in workspace.read("own/git/config")


@pytest.mark.starts_processes
def test_a_command_cannot_complete_a_repository_that_a_file_tool_has_written_to(runtime, repository):
    """Git ignores it until then, so what is in it was not the user's."""
    assert runtime.call("run_shell", command="mkdir -p sub lib; echo gitdir: ../lib > sub/.git").ok
    config = f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {repository.join('evil')}\n"
    assert runtime.call("write_file", path="lib/config", content=config).ok

    done = runtime.call("run_shell", command="cd lib; mkdir objects refs; echo ref: refs/heads/main > HEAD")

    [note] = notes_of(done)
    assert note.startswith("lib/config ")


@pytest.mark.starts_processes
def test_a_program_without_a_shell_reports_what_was_disarmed(runtime, repository):
    repository.write("plant.py", f"import subprocess\nsubprocess.run(['bash', '-c', {PLANT!r}])\n")

    done = runtime.call("shell_exec", argv=["python3", "plant.py"])

    assert done.data["disarmed"] == notes_of(done)
    assert len(notes_of(done)) == 1


@pytest.mark.starts_processes
def test_a_running_job_is_checked_and_reports_what_was_disarmed(runtime, repository):
    command = f"{PLANT}; {REDIRECT}; read"
    job = runtime.call("run_shell", command=command, run_in_background=True, tty=True).data["task_id"]

    wait_until(lambda: list(Path(repository.path, "other").glob("config.disabled-*")))
    wait_until(lambda: list(Path(repository.path, "sub/.git").glob("config.disabled-*")))
    git(repository, ".")
    git(repository, "sub")
    runtime.call("job_input", task_id=job, input="")
    ended = runtime.call("job_output", task_id=job).data

    assert ended["status"] == "completed"
    # the copied configuration is a link to the one that the job may change
    assert {note.split()[0] for note in ended["disarmed"]} == {".git/config", "other/config", "sub/.git/config"}
    assert runtime.call("job_list").data["jobs"][0]["disarmed"] == ended["disarmed"]


@pytest.mark.starts_processes
def test_a_call_checks_the_changes_of_a_running_job(runtime, repository):
    command = f"read; {PLANT}; echo ready; read"
    job = runtime.call("run_shell", command=command, run_in_background=True, tty=True).data["task_id"]
    # until the job counts as long-running
    wait_until(lambda: runtime.call("job_list").data["jobs"][0]["seconds"] > 1.2)
    runtime.call("job_input", task_id=job, input="")
    wait_until(lambda: "ready" in runtime.call("job_output", task_id=job, block=False).data["output"])

    assert runtime.call("run_shell", command="true").ok

    assert "fsmonitor" not in Path(repository.join("sub/.git/config")).read_text()
    runtime.call("job_stop", task_id=job)


@pytest.mark.starts_processes
def test_a_job_that_plants_a_file_again_is_ended_with_a_reason(runtime, repository):
    command = "git init -q sub; cp sub/.git/config c; printf '[core]\\n\\tfsmonitor = %s\\n' $PWD/evil >> c;"
    command += " while :; do cp c sub/.git/config; done"

    job = runtime.call("run_shell", command=command, run_in_background=True, force=True).data["task_id"]
    ended = runtime.call("job_output", task_id=job).data

    assert ended["status"] == "stopped"
    assert ended["reason"].startswith("it wrote sub/.git/config again ")
    assert "core.fsmonitor" in ended["reason"]
    assert all(note.startswith("sub/.git/config ") for note in ended["disarmed"])


@pytest.mark.starts_processes
def test_a_command_that_plants_a_file_again_is_ended_with_a_reason(runtime, repository):
    command = "git init -q sub; cp sub/.git/config c; printf '[core]\\n\\tfsmonitor = %s\\n' $PWD/evil >> c;"
    command += " while :; do cp c sub/.git/config; done"

    notes = notes_of(runtime.call("run_shell", command=command, force=True))

    assert notes[-1].startswith("The command was ended: it wrote sub/.git/config again ")
    assert all(note.startswith("sub/.git/config ") for note in notes[:-1])


@pytest.mark.starts_processes
def test_a_rebase_in_a_job_is_checked_when_the_job_ends(runtime, repository):
    who = "-c user.name=n -c user.email=e"
    commits = f"for i in 1 2; do git {who} commit -q --allow-empty -m $i; done"
    command = f"{commits}; ! git {who} rebase -f -x 'sleep 2; false' -x $PWD/evil HEAD~ 2> /dev/null"

    job = runtime.call("run_shell", command=command, run_in_background=True, force=True).data["task_id"]
    ended = runtime.call("job_output", task_id=job).data

    assert ended["status"] == "completed"
    assert "the step exec" in ended["disarmed"][0]
    subprocess.run(["git", "rebase", "--continue"], cwd=repository.path, check=True, capture_output=True)


@pytest.mark.starts_processes
def test_a_custom_tool_reports_what_was_disarmed(base, runtime, repository):
    head = "---\nname: probe\ndescription: P.\napproval: never\nsandbox: {write: [.]}\n---\n"
    Folder(os.path.join(base, "config", "tools")).write("probe.md", f"{head}{PLANT}\n")

    assert len(notes_of(runtime.call("probe"))) == 1


@pytest.mark.starts_processes
def test_a_hook_reports_what_was_disarmed(runtime, repository):
    script = repository.write("plant.sh", PLANT)
    approved(runtime, "register_hook", action="register", event=POST, command=f"bash {script}")

    assert len(notes_of(runtime.call("read_file", path="evil"))) == 1


@pytest.mark.starts_processes
def test_a_command_that_times_out_is_checked_too(runtime, repository):
    done = runtime.call("run_shell", command=f"{PLANT}; sleep 20", timeout=1)

    assert done.classification == "timeout"
    assert len(notes_of(done)) == 1


@pytest.mark.starts_processes
def test_files_that_a_job_left_when_hilt_was_killed_are_disarmed_by_the_next_call(base):
    workspace = Folder(os.path.join(base, "workspace"))
    os.makedirs(workspace.path, exist_ok=True)
    prepare(workspace)
    command = [sys.executable, "-c", DRIVER, base, f"{PLANT}; {REDIRECT}; echo ready; sleep 300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        driver.kill()

    with temporary_runtime(base) as (runtime, _):
        notes = notes_of(runtime.call("read_file", path="evil"))

    assert {note.split()[0] for note in notes} <= {"other/config", "sub/.git/config"}
    for folder in (".", "sub"):
        git(workspace, folder)
    assert not os.path.exists(workspace.join("marker"))
    assert not os.path.lexists(workspace.join(".git/commondir"))


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", ["sub", ".env.sub"])
@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "$HOME/.cache"])
def test_a_link_to_a_private_folder_of_commands_is_disarmed(base, runtime, repository, folder, name):
    """Its path on the host is in the table of mounts, and nothing in it is checked."""
    os.makedirs(os.path.join(base, "home"))
    above = next(str(path) for path in (Path(base), *Path(base).parents) if path.is_mount()).rstrip("/")
    # the last mount at the folder hides the others
    find = f'while read -r _ _ _ source target _; do [ "$target" = "{folder}" ] && echo "$source"; done'
    source = f"{above}$({find} < /proc/self/mountinfo | tail -n 1)"
    plant = f"git init -q {folder}/lib; printf '[core]\n\tfsmonitor = %s\n' $PWD/evil >> {folder}/lib/.git/config; "

    done = runtime.call("run_shell", command=f"{plant} ln -s {source}/lib {name}")

    [note] = notes_of(done)
    assert note.startswith(f"{name} ")
    [disabled] = Path(repository.path).glob(f"{name}*")
    assert disabled.is_file()
    assert not disabled.is_symlink()


@pytest.mark.starts_processes
def test_a_link_into_a_repository_is_disarmed(runtime, repository):
    """Configuration of agents in there has names that git may use, too."""
    done = runtime.call("run_shell", command="mkdir -p .git/logs/p/.claude; ln -s logs/p .git/p; ln -s ./.git/p sub")

    [note] = notes_of(done)
    assert note.startswith("sub ")


@pytest.mark.starts_processes
def test_links_that_stay_in_the_workspace_or_existed_are_kept(runtime, repository):
    os.symlink(".git/hooks", repository.join("hooks"))
    repository.write("lib/tool")

    command = "mkdir bin; ln -s ../lib/tool bin/tool; ln -s /usr/bin/env env; ln -s $PWD/lib l"
    done = runtime.call("run_shell", command=command)

    assert notes_of(done) == []
    assert os.path.samefile(repository.join("bin/tool"), repository.join("l/tool"))


@pytest.mark.starts_processes
def test_repositories_in_renamed_configuration_are_disarmed(runtime, repository):
    done = runtime.call("run_shell", command=PLANT.replace("sub", "sub/.vscode"))

    assert any(note.startswith("sub/.vscode/.git/config ") for note in notes_of(done))
    [renamed] = Path(repository.path).glob("sub/.vscode.disabled-*")
    git(repository, str(renamed))


@pytest.mark.starts_processes
def test_a_hook_that_is_changed_through_an_old_mapping_is_disarmed(runtime, repository):
    """The file system records no time for a change of a page that is dirty already."""
    subprocess.run(["git", "config", "core.hooksPath", ".githooks"], cwd=repository.path, check=True)
    os.chmod(repository.write(".githooks/pre-commit", "#!/bin/sh\n" + "#" * 500), 0o755)
    repository.write(
        "change.py",
        "import mmap, sys\n"
        "file = open('.githooks/pre-commit', 'r+b')\n"
        "page = mmap.mmap(file.fileno(), 0)\n"
        "page[:2] = b'#!'\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "page[10:16] = b'./evil'\n",
    )

    job = runtime.call("run_shell", command="python3 change.py", run_in_background=True, tty=True).data["task_id"]
    wait_until(lambda: "ready" in runtime.call("job_output", task_id=job, block=False).data["output"])
    runtime.call("run_shell", command="true")  # after which the job has been checked
    assert runtime.call("job_input", task_id=job, input="go").ok
    runtime.call("job_output", task_id=job)

    [disabled] = Path(repository.path).glob(".githooks/*.disabled-*")
    assert b"./evil" in disabled.read_bytes()
