"""Mount points that keep missing names missing: created in the workspace, and removed again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hilt.errors import ToolError
from hilt.sandbox.mountpoints import MountPoints
from tests.marks import kill, pids, read, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux mounts")
needs_bubblewrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")


@pytest.fixture
def points(tmp_path: Path) -> MountPoints:
    return MountPoints(str(tmp_path / "records"))


def records(tmp_path: Path) -> list[str]:
    """The records that exist."""
    return os.listdir(tmp_path / "records")


def test_a_missing_folder_exists_only_while_it_is_held(points, tmp_path):
    path = tmp_path / "a"

    with points.hold([str(path)]):
        assert path.is_dir()
        with points.hold([str(path)]):
            pass
        assert path.is_dir()

    assert not path.exists()
    assert records(tmp_path) == []


def test_an_existing_folder_stays(points, tmp_path):
    (tmp_path / "a").mkdir()

    with points.hold([str(tmp_path / "a")]):
        pass

    assert (tmp_path / "a").is_dir()


def test_a_folder_that_is_not_empty_is_kept(points, tmp_path):
    with points.hold([str(tmp_path / "a")]):
        (tmp_path / "a/HEAD").write_text("theirs")

    assert (tmp_path / "a/HEAD").read_text() == "theirs"
    assert records(tmp_path) == []


@pytest.mark.parametrize("make", ["mkdir", "write"])
def test_a_replacement_of_the_mount_point_is_kept(points, tmp_path, make):
    path = tmp_path / "a"
    with points.hold([str(path)]):
        path.rename(tmp_path / "away")
        if make == "mkdir":
            path.mkdir()
        else:
            path.write_text("theirs")

    assert path.exists()


FILES = {"commondir": ".\n", "config.worktree": ""}


@pytest.mark.parametrize("name", FILES)
def test_the_mount_point_is_a_file_where_a_folder_would_break_git(points, tmp_path, name):
    path = tmp_path / name

    with points.hold([str(path)]) as identities:
        assert path.read_text() == FILES[name]
        assert identities[str(path)] == (path.stat().st_dev, path.stat().st_ino)

    assert not path.exists()
    assert records(tmp_path) == []


def test_a_file_is_created_with_its_content_without_unnamed_files(points, tmp_path, monkeypatch):
    # the error of file systems and kernels without unnamed files
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)

    with points.hold([str(tmp_path / "commondir")]):
        assert (tmp_path / "commondir").read_text() == ".\n"
        assert sorted(os.listdir(tmp_path)) == ["commondir", "records"]

    assert os.listdir(tmp_path) == ["records"]


@pytest.mark.parametrize("change", ["write", "replace", "remove", "folder"])
def test_a_file_that_was_changed_is_kept(points, tmp_path, change):
    path = tmp_path / "commondir"
    with points.hold([str(path)]):
        if change == "write":
            path.write_text("../theirs\n")
        else:
            path.unlink()
        if change == "replace":
            path.write_text(".\n")
        elif change == "folder":
            path.mkdir()

    assert path.exists() == (change != "remove")
    assert records(tmp_path) == []


def test_a_file_of_the_user_stays(points, tmp_path):
    (tmp_path / "commondir").write_text(".\n")

    with points.hold([str(tmp_path / "commondir")]):
        pass

    assert (tmp_path / "commondir").read_text() == ".\n"


def test_two_processes_share_a_file_and_the_last_removes_it(tmp_path):
    path = tmp_path / "commondir"
    first, second = (MountPoints(str(tmp_path / "records")) for _ in range(2))

    holding = first.hold([str(path)])
    holding.__enter__()
    with second.hold([str(path)]):
        holding.__exit__(None, None, None)
        assert path.exists()

    assert not path.exists()


@pytest.mark.parametrize("change", ["", "../theirs\n"])
def test_a_file_left_by_a_crash_is_removed_unless_it_was_changed(tmp_path, change):
    path = tmp_path / "commondir"
    script = (
        "import os; from hilt.sandbox.mountpoints import MountPoints\n"
        f"with MountPoints({str(tmp_path / 'records')!r}).hold([{str(path)!r}]): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    assert path.read_text() == ".\n"
    if change:
        path.write_text(change)

    with MountPoints(str(tmp_path / "records")).hold([]):
        pass

    assert path.exists() == bool(change)
    assert records(tmp_path) == []


def test_two_processes_share_a_folder_and_the_last_removes_it(tmp_path):
    path = str(tmp_path / "a")
    first, second = (MountPoints(str(tmp_path / "records")) for _ in range(2))

    with first.hold([path]):
        with second.hold([path]):
            pass
        assert os.path.isdir(path)

    assert not os.path.exists(path)


@pytest.mark.parametrize("same_state", [True, False])
def test_a_folder_stays_while_another_process_covers_it(tmp_path, same_state):
    path = str(tmp_path / "a")
    first = MountPoints(str(tmp_path / "records"))
    second = MountPoints(str(tmp_path / ("records" if same_state else "others")))

    with second.hold([]):
        holding = first.hold([path])
        holding.__enter__()
        with second.hold([path]):
            holding.__exit__(None, None, None)
            assert os.path.isdir(path)

    # with separate records the second does not know the first, and leaves the folder to it
    assert os.path.isdir(path) != same_state
    with MountPoints(str(tmp_path / "records")).hold([]):
        assert not os.path.exists(path)


def test_mount_points_left_by_a_crash_are_removed_at_the_next_use(tmp_path):
    path = tmp_path / "a"
    script = (
        "import os, sys; from hilt.sandbox.mountpoints import MountPoints\n"
        f"with MountPoints({str(tmp_path / 'records')!r}).hold([{str(path)!r}]): os.kill(os.getpid(), 9)"
    )
    crashed = subprocess.run([sys.executable, "-c", script])
    assert (crashed.returncode, path.is_dir()) == (-signal.SIGKILL, True)

    with MountPoints(str(tmp_path / "records")).hold([]):
        assert not path.exists()
    assert records(tmp_path) == []


def test_a_folder_is_recorded_before_it_is_created(tmp_path):
    path = tmp_path / "a"
    script = f"""
import os
from hilt.sandbox.mountpoints import MountPoints
make = os.mkdir
def make_and_crash(name, *mode, **folder):
    make(name, *mode, **folder)
    if name == {path.name!r}:
        os.kill(os.getpid(), 9)
os.mkdir = make_and_crash
MountPoints({str(tmp_path / "records")!r}).hold([{str(path)!r}]).__enter__()
"""
    crashed = subprocess.run([sys.executable, "-c", script])
    assert (crashed.returncode, path.is_dir()) == (-signal.SIGKILL, True)

    with MountPoints(str(tmp_path / "records")).hold([]):
        assert not path.exists()


def test_a_crash_between_the_record_and_the_folder_does_no_harm(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records/x").write_text(f"+0{tmp_path / 'a'}\0")

    with MountPoints(str(tmp_path / "records")).hold([]):
        pass

    assert os.listdir(tmp_path / "records") == []


@pytest.mark.parametrize(
    "text", ["", "+", "+12", "+0{a}", "+x{a}\0", "-0{a}\0", "+0{a}\0-0{a}\0", "\0\0+\0/\0", "\xff\0"]
)
def test_an_invalid_record_does_no_harm(tmp_path, text):
    (tmp_path / "records").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "records/x").write_bytes(text.format(a=tmp_path / "a").encode("latin-1"))

    with MountPoints(str(tmp_path / "records")).hold([]):
        assert (tmp_path / "a").is_dir()

    assert os.listdir(tmp_path / "records") == []


@pytest.mark.parametrize("content", ["file", "nothing"])
def test_folders_of_the_user_are_kept_after_a_crash(tmp_path, content):
    (tmp_path / "records").mkdir()
    (tmp_path / "a").mkdir()
    if content == "file":
        (tmp_path / "a/x").write_text("theirs")
    # without an inode, the folder may not have been created; with another inode, it was replaced
    (tmp_path / "records/x").write_text(f"+{1 if content == 'nothing' else 0}{tmp_path / 'a'}\0")

    with MountPoints(str(tmp_path / "records")).hold([]):
        assert (tmp_path / "a").is_dir()


def test_many_folders_of_any_name_are_recorded(tmp_path):
    names = [f"{number:02}\n\udcff%{'x' * 200}" for number in range(40)]
    paths = [str(tmp_path / name) for name in names]
    script = (
        "import os, sys; from hilt.sandbox.mountpoints import MountPoints\n"
        f"with MountPoints({str(tmp_path / 'records')!r}).hold({paths!r}): os.kill(os.getpid(), 9)"
    )

    subprocess.run([sys.executable, "-c", script])
    assert len(records(tmp_path)) == 1
    assert all(map(os.path.isdir, paths))
    with MountPoints(str(tmp_path / "records")).hold([]):
        assert not any(map(os.path.exists, paths))
    assert records(tmp_path) == []


def test_when_one_of_several_cannot_be_created_none_is_left(points, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ToolError):
        points.hold([str(tmp_path / "a"), str(tmp_path / "file/a"), str(tmp_path / "b")]).__enter__()

    assert sorted(os.listdir(tmp_path)) == ["file", "records"]
    assert records(tmp_path) == []


def test_a_folder_shared_by_two_processes_is_removed_by_the_last(tmp_path):
    first, second = (MountPoints(str(tmp_path / "records")) for _ in range(2))
    paths = [str(tmp_path / name) for name in "abc"]
    holding = first.hold(paths)
    holding.__enter__()

    with second.hold(paths[1:2]):
        holding.__exit__(None, None, None)
        assert [os.path.isdir(path) for path in paths] == [False, True, False]

    assert not os.path.exists(paths[1])
    assert records(tmp_path) == []


def test_a_deleted_state_directory_is_created_again(points, tmp_path):
    with points.hold([str(tmp_path / "a")]):
        shutil.rmtree(tmp_path / "records")
    with points.hold([str(tmp_path / "a")]):
        assert len(records(tmp_path)) == 1

    assert not (tmp_path / "a").exists()
    assert records(tmp_path) == []


def test_a_record_stays_until_the_command_has_ended(points, tmp_path):
    with points.hold([str(tmp_path / "a")]):
        MountPoints(str(tmp_path / "records")).recover()
        assert (tmp_path / "a").is_dir()
        assert len(records(tmp_path)) == 1

    assert os.listdir(tmp_path / "records") == []


def test_a_new_folder_of_the_user_is_not_taken_for_a_removed_one(tmp_path):
    first, second = (MountPoints(str(tmp_path / "records")) for _ in range(2))
    paths = [str(tmp_path / name) for name in "ab"]
    holding = first.hold(paths)
    holding.__enter__()

    with second.hold(paths[1:]):
        holding.__exit__(None, None, None)
        os.mkdir(paths[0])  # some file systems use the number of the removed one again

    assert [os.path.isdir(path) for path in paths] == [True, False]
    assert records(tmp_path) == []


def test_the_record_of_a_dead_process_stays_while_another_uses_its_folder(points, tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (tmp_path / "records").mkdir()
    (tmp_path / "records/dead").write_text(f"+{path.stat().st_ino}{path}\0")
    other = MountPoints(str(tmp_path / "others"))

    with other.hold([str(path)]):
        points.recover()
        assert path.is_dir()
        assert records(tmp_path) == ["dead"]
    MountPoints(str(tmp_path / "records")).recover()

    assert not path.exists()
    assert records(tmp_path) == []


def test_a_forked_child_has_its_own_record(points, tmp_path):
    with points.hold([str(tmp_path / "a")]):
        child = os.fork()
        if not child:
            with points.hold([str(tmp_path / "b")]):
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert len(records(tmp_path)) == 2
        assert (tmp_path / "b").is_dir()

        MountPoints(str(tmp_path / "records")).recover()
        assert len(records(tmp_path)) == 1
        assert not (tmp_path / "b").exists()
        assert (tmp_path / "a").is_dir()


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path):
    path = tmp_path / "a"
    script = f"""
import os, resource, signal
from hilt.errors import ToolError
from hilt.sandbox.mountpoints import MountPoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
points = MountPoints({str(tmp_path / "records")!r})
holding = points.hold([{str(path)!r}])
holding.__enter__()
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    points.hold([{str(tmp_path / "b")!r}]).__enter__()
except ToolError as error:
    print(error.code, flush=True)
os.kill(os.getpid(), 9)
"""
    crashed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (crashed.stdout, crashed.returncode) == ("sandbox_unavailable\n", -signal.SIGKILL), crashed.stderr
    assert not (tmp_path / "b").exists()
    [record] = records(tmp_path)
    assert (tmp_path / "records" / record).read_bytes().endswith(b"/a\0")

    with MountPoints(str(tmp_path / "records")).hold([]):
        assert not path.exists()


def test_a_folder_where_nothing_can_be_created_is_an_error(points, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ToolError) as raised:
        points.hold([str(tmp_path / "file/a")]).__enter__()

    # the plan was made when the file was a folder
    assert raised.value.code == "busy"
    assert records(tmp_path) == []


def test_a_held_folder_never_disappears_under_threads_and_processes(tmp_path):
    path = str(tmp_path / "a")
    missing = []

    def use(points: MountPoints) -> None:
        for _ in range(50):
            with points.hold([path]):
                if not os.path.isdir(path):
                    missing.append(1)

    shared = MountPoints(str(tmp_path / "records"))
    users = [shared, shared, MountPoints(str(tmp_path / "records")), MountPoints(str(tmp_path / "others"))]
    threads = [threading.Thread(target=use, args=(points,)) for points in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert missing == []
    with MountPoints(str(tmp_path / "records")).hold([]), MountPoints(str(tmp_path / "others")).hold([]):
        assert not os.path.exists(path)


# --- in real sandboxes


@needs_bubblewrap
def test_a_command_leaves_nothing_in_the_workspace(box):
    box.write("ws/a", "")

    box.run("true")

    assert os.listdir(box.workspace) == ["a"]


@needs_bubblewrap
def test_commands_in_a_row_leave_nothing_and_can_create_nothing(box):
    for _ in range(4):
        done = box.run("mkdir .claude/x .git/hooks; echo x > .mcp.json; rmdir .hilt; mv .vscode away; ls -A")
        assert "x" not in done.output.split()
        assert os.listdir(box.workspace) == []


@needs_bubblewrap
def test_a_running_command_keeps_its_mount_points_when_others_end(box):
    job = box.start("echo on; while sleep 0.05; do mkdir .claude/x .git/hooks && break; done 2>/dev/null")

    box.worker.ask(do="run_many", requests=[box.request("true") for _ in range(8)])
    assert (box.workspace / ".claude").is_dir()
    box.stop(job)

    assert os.listdir(box.workspace) == []


@needs_bubblewrap
def test_after_everything_is_killed_nothing_runs_and_the_next_command_cleans_up(box):
    mark = f"hilt-test-{os.getpid()}-{box.base.name}"
    box.start(f"exec -a {mark} sleep 3600 & echo on; wait")
    assert (box.workspace / ".git").is_dir()

    victims = [box.worker.pid, *_keepers(box.worker.pid)]
    for pid in victims:
        os.kill(pid, signal.SIGSTOP)
    kill(victims)
    box.worker.restart()

    try:
        wait_until(lambda: not _marked(mark))
    finally:
        kill(_marked(mark))
    assert (box.workspace / ".git").is_dir()
    box.run("true")
    assert os.listdir(box.workspace) == []


def _marked(mark: str) -> list[int]:
    return [pid for pid in pids() if mark.encode() in read(f"/proc/{pid}/cmdline")]


def _keepers(worker: int) -> list[int]:
    """The keeper and the wardens of a worker."""
    return [
        pid
        for pid in pids()
        if read(f"/proc/{pid}/comm") in (b"hilt-keeper\n", b"hilt-warden\n") and _descends(pid, worker)
    ]


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if not fields:
            return False
        pid = int(fields[1])
        if pid == ancestor:
            return True
    return False
