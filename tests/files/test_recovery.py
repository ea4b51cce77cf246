from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from hilt.testing import Folder, temporary_runtime
from tests.databases import connected
from tests.state.ordinary import calls

pytestmark = pytest.mark.starts_processes

STRESS = os.environ.get("HILT_STRESS")  # kills at every step, however many files and restarts there are
# a kill loses nothing that the kernel already has, so the files may be in memory, which is faster
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def crash_base() -> Iterator[str]:
    """A folder with a workspace at `point`, where the driver repeats a call."""
    base = tempfile.mkdtemp(prefix="hilt-crash-", dir=MEMORY)
    yield base
    shutil.rmtree(base)


def kill_at_each_step(base: str, tool: str, *, way: str = "once", every: int = 1, **args: object):
    return drive(base, {"way": way, "tool": tool, "args": args, "every": every})


def drive(base: str, request: dict[str, object]):
    command = [sys.executable, "-m", "tests.state.crashing", base, json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def many_files(base: str, count: int) -> list[dict[str, str]]:
    with temporary_runtime(os.path.join(base, "point")) as (runtime, folder):
        for number in range(count):
            folder.write(f"src/{number % 5}/{number}.txt", f"old {number}\n")
            os.chmod(folder.join(f"src/{number % 5}/{number}.txt"), 0o600 + number % 2 * 0o044)
        assert runtime.call("write_file", path="history.txt", content="an earlier change\n").ok
    return [{"path": f"src/{number % 5}/{number}.txt", "old_text": "old", "new_text": "new"} for number in range(count)]


@pytest.mark.parametrize("count, every", [(10, 1), (50, 1 if STRESS else 13)])
def test_edited_files_are_all_old_or_all_new_after_a_kill_at_any_step(crash_base, count, every):
    edits = many_files(crash_base, count)

    report = kill_at_each_step(crash_base, "multi_edit", edits=edits, every=every)

    assert report["faults"] == []
    assert report["steps"] > 4 * count


PATCH = """*** Begin Patch
*** Add File: made/of/new/folders/a.txt
+a
*** Add File: made/of/b.txt
+b
*** Delete File: gone.txt
*** Update File: kept.txt
@@
-kept
+changed
*** Update File: here/moved.txt
*** Move to: there/new/moved.txt
@@
-moved
+moved and changed
*** Update File: here/also.txt
*** Move to: gone-2.txt
*** End Patch
"""
KINDS = """*** Begin Patch
*** Add File: file/becomes/folder.txt
+a
*** Add File: file/b.txt
+b
*** Add File: file/c.txt
+c
*** Delete File: file
*** Add File: folder
+c
*** Delete File: folder/becomes/file.txt
*** Delete File: folder/d.txt
*** End Patch
"""


def tree_for_patch(base: str) -> None:
    with temporary_runtime(os.path.join(base, "point")) as (runtime, folder):
        folder.write("gone.txt", "gone\n")
        folder.write("kept.txt", "kept\n")
        folder.write("here/moved.txt", "moved\n")
        folder.write("here/also.txt", "also\n")
        os.chmod(folder.join("here/also.txt"), 0o700)
        os.mkdir(folder.join("empty"))
        folder.write("file", "file\n")
        folder.write("folder/becomes/file.txt", "d\n")
        folder.write("folder/d.txt", "d\n")
        assert runtime.call("write_file", path="history.txt", content="an earlier change\n").ok


@pytest.mark.parametrize("patch", [PATCH, KINDS])
def test_a_patch_that_adds_deletes_and_moves_is_complete_or_absent_after_a_kill_at_any_step(crash_base, patch):
    tree_for_patch(crash_base)

    report = kill_at_each_step(crash_base, "apply_patch", patch=patch)

    assert report["faults"] == []
    assert report["steps"] > 40


@pytest.mark.parametrize("patch", [PATCH, KINDS])
def test_a_kill_during_recovery_is_repaired_at_the_next_start(crash_base, patch):
    tree_for_patch(crash_base)

    report = kill_at_each_step(crash_base, "apply_patch", patch=patch, way="twice", every=1 if STRESS else 9)

    assert report["faults"] == []
    assert report["steps"] > 40


def two_large_files(base: str) -> list[dict[str, str]]:
    with temporary_runtime(os.path.join(base, "point")) as (runtime, folder):
        for name in "ab":
            folder.write(f"{name}.txt", f"{name} begins\n" + ("0123456789" * 100 + "\n") * 1100)
        assert runtime.call("write_file", path="history.txt", content="an earlier change\n").ok
    return [{"path": f"{name}.txt", "old_text": f"{name} begins", "new_text": "changed"} for name in "ab"]


def test_files_over_a_megabyte_are_intact_after_a_kill_at_any_step(crash_base):
    edits = two_large_files(crash_base)

    report = kill_at_each_step(crash_base, "multi_edit", edits=edits)

    assert report["faults"] == []
    assert report["steps"] > 20


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_full_disk_leaves_files_over_a_megabyte_and_the_history_unchanged(crash_base, lasting):
    edits = two_large_files(crash_base)

    report = drive(crash_base, {"way": "full", "tool": "multi_edit", "args": {"edits": edits}, "lasting": lasting})

    assert report["faults"] == []


def test_a_restore_that_removes_files_and_their_folders_is_complete_or_absent_after_a_kill_at_any_step(crash_base):
    with temporary_runtime(os.path.join(crash_base, "point")) as (runtime, folder):
        folder.write("kept.txt", "kept\n")
        patch = PATCH.partition("*** Delete File")[0] + "*** Update File: kept.txt\n@@\n-kept\n+new\n*** End Patch\n"
        change = runtime.call("apply_patch", patch=patch).meta["undo"]

    report = kill_at_each_step(crash_base, "undo", action="restore", id=change)

    assert report["faults"] == []
    assert report["steps"] > 20


def test_an_interrupted_eviction_leaves_no_snapshot_without_its_contents(crash_base):
    with temporary_runtime(os.path.join(crash_base, "point")) as (_, folder):
        line = "0123456789" * 100 + "\n"
        folder.write("../config/config.toml", "undo.calls = 2\n")
        folder.write("a.txt", line * 1100)
    with temporary_runtime(os.path.join(crash_base, "point")) as (runtime, folder):
        for number in range(2):
            assert runtime.call("write_file", path="a.txt", content=f"{number}{line}" * 1100).ok

    report = kill_at_each_step(crash_base, "write_file", path="a.txt", content="the last\n")

    assert report["faults"] == []


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_full_disk_at_any_step_fails_the_call_and_changes_nothing(crash_base, lasting):
    """An error means that nothing changed, success that everything did."""
    tree_for_patch(crash_base)

    report = drive(crash_base, {"way": "full", "tool": "apply_patch", "args": {"patch": PATCH}, "lasting": lasting})

    assert report["faults"] == []
    assert report["steps"] > 40


def start_until_two_are_new(base: str, action: str) -> subprocess.Popen[str]:
    """Start a process that edits three files; when two of them are new, it dies, or reports it and waits."""
    program = (
        "import json, sys\n"
        "from tests.state.crashing import EVERY, Steps, call, die, tree\n"
        "def wait(step):\n"
        "    print('here', flush=True)\n"
        "    sys.stdin.readline()\n"
        "def act(step):\n"
        "    files = tree(sys.argv[1])\n"
        "    if [files[name + '.txt'][1] == b'new\\n'.hex() for name in 'abc'] == [True, True, False]:\n"
        f"        {action}(step)\n"
        "Steps(EVERY, act).install()\n"
        "call(sys.argv[1], ('multi_edit', {'edits': json.loads(sys.argv[2])}))\n"
    )
    command = [sys.executable, "-c", program, base, json.dumps(EDITS)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


EDITS = [{"path": name, "old_text": "old", "new_text": "new"} for name in ("a.txt", "b.txt", "c.txt")]


def three_files(base: str) -> None:
    with temporary_runtime(base) as (runtime, folder):
        for edit in EDITS:
            folder.write(edit["path"], "old\n")
        assert runtime.call("write_file", path="d.txt", content="first\n").ok  # creates the databases


@pytest.fixture
def interrupted(base: str) -> str:
    """A state with a change of three files, interrupted when two of them were new."""
    three_files(base)
    with start_until_two_are_new(base, "die") as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    folder = Folder(os.path.join(base, "workspace"))
    assert [folder.read(edit["path"]) for edit in EDITS] == ["new\n", "new\n", "old\n"]
    return base


def temporaries(base: str) -> list[str]:
    return [name for name in os.listdir(os.path.join(base, "workspace")) if name.startswith(".hilt-")]


def test_the_first_call_after_a_kill_reports_what_was_rolled_back(interrupted):
    with temporary_runtime(interrupted) as (runtime, folder):
        result = runtime.call("read_file", path="a.txt", line_numbers=False)

        assert result.text == "old"
        [report] = result.meta["recovered"]
        assert (report["outcome"], report["files"]) == ("restored", 3)
        assert [folder.read(edit["path"]) for edit in EDITS] == ["old\n"] * 3
        assert temporaries(interrupted) == []
        assert "recovered" not in runtime.call("list_dir").meta


def test_recovery_keeps_changes_of_other_programs_and_the_snapshot(interrupted):
    with temporary_runtime(interrupted) as (runtime, folder):
        folder.write("b.txt", "theirs\n")

        [report] = runtime.call("list_dir").meta["recovered"]

        assert (report["outcome"], report["left_alone"]) == ("restored", ["b.txt"])
        assert [folder.read(edit["path"]) for edit in EDITS] == ["old\n", "theirs\n", "old\n"]
        assert runtime.call("undo", action="restore", id=report["change"]).ok
        assert [folder.read(edit["path"]) for edit in EDITS] == ["old\n"] * 3


@pytest.mark.parametrize("swap", ["a folder", "a link", "nothing"])
def test_recovery_skips_a_target_that_is_no_longer_a_file(interrupted, swap):
    with temporary_runtime(interrupted) as (runtime, folder):
        secret = folder.write("../outside.txt", "new\n")
        os.unlink(folder.join("a.txt"))
        if swap == "a folder":
            os.mkdir(folder.join("a.txt"))
        elif swap == "a link":
            os.symlink(secret, folder.join("a.txt"))

        [report] = runtime.call("list_dir").meta["recovered"]

        assert report["left_alone"] == ["a.txt"]
        assert folder.read("b.txt") == "old\n"
        assert folder.read("../outside.txt") == "new\n"


def test_a_change_that_cannot_be_rolled_back_yet_is_retried(interrupted):
    folder = Folder(os.path.join(interrupted, "workspace"))
    os.chmod(folder.path, 0o500)

    read, written = calls(
        interrupted, ("read_file", {"path": "a.txt"}), ("write_file", {"path": "a.txt", "content": "x"})
    )

    assert [report["outcome"] for report in read["meta"]["recovered"]] == ["failed"]
    assert written["code"] == "permission_denied"
    os.chmod(folder.path, 0o700)
    [listed] = calls(interrupted, ("list_dir", {}))
    assert [report["outcome"] for report in listed["meta"]["recovered"]] == ["restored"]
    assert [folder.read(edit["path"]) for edit in EDITS] == ["old\n"] * 3


def test_damaged_old_contents_leave_the_new_ones_and_do_not_stop_the_workspace(interrupted):
    with connected(os.path.join(interrupted, "state", "state.db")) as db:
        db.execute("UPDATE blobs SET data=zeroblob(10)")
    db.close()
    with temporary_runtime(interrupted) as (runtime, folder):
        [report] = runtime.call("list_dir").meta["recovered"]

        assert report["left_alone"] == ["a.txt", "b.txt"]
        assert [folder.read(edit["path"]) for edit in EDITS] == ["new\n", "new\n", "old\n"]
        assert runtime.call("write_file", path="a.txt", content="x").ok


def test_a_row_that_lost_its_marker_is_recovered_before_its_files_change(interrupted):
    shutil.rmtree(os.path.join(interrupted, "state", "journal"))
    with temporary_runtime(interrupted) as (runtime, folder):
        assert runtime.call("edit_file", path="c.txt", old_text="old", new_text="mine").ok

        assert [folder.read(edit["path"]) for edit in EDITS] == ["old\n", "old\n", "mine\n"]
        assert temporaries(interrupted) == []


def test_a_change_in_progress_in_another_process_is_not_rolled_back(base):
    three_files(base)
    with start_until_two_are_new(base, "wait") as process:
        assert process.stdout
        assert process.stdout.readline() == "here\n"
        with temporary_runtime(base) as (runtime, _):
            result = runtime.call("read_file", path="b.txt", line_numbers=False)
        process.communicate("\n" * 100)

    assert (result.text, "recovered" in result.meta) == ("new", False)
    with temporary_runtime(base) as (runtime, folder):
        assert "recovered" not in runtime.call("list_dir").meta
        assert [folder.read(edit["path"]) for edit in EDITS] == ["new\n"] * 3
