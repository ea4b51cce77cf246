from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hilt.state.trail import Trail
from hilt.testing import temporary_runtime
from tests.databases import connected
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.state.ordinary import calls

# --- stale files: a new runtime per call, so that the check must use stored state -----------------------------------


def patch(sections: list[str]) -> str:
    return "*** Begin Patch\n" + "".join(sections) + "*** End Patch\n"


def call_once(base: str, tool: str, /, session: str | None = None, **args):
    """Run one call in a new runtime; return "ok" or the code of the error."""
    with temporary_runtime(base, session=session) as (runtime, _):
        result = runtime.call(tool, **args)
    return "ok" if result.error is None else result.error.code


@pytest.fixture
def file(base):
    """A file that the default session has read."""
    path = Path(base, "workspace", "a.txt")
    path.parent.mkdir()
    path.write_text("one\n")
    assert call_once(base, "read_file", path="a.txt") == "ok"
    return path


CHANGES: list[tuple[str, dict[str, object]]] = [
    ("write_file", {"path": "a.txt", "content": "mine\n"}),
    ("edit_file", {"path": "a.txt", "old_text": "o", "new_text": "O"}),
    ("multi_edit", {"edits": [{"path": "./a.txt", "old_text": "o", "new_text": "O"}]}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n"}),
]


@pytest.mark.parametrize("tool, args", CHANGES, ids=[tool for tool, _ in CHANGES])
def test_a_file_that_changed_after_it_was_read_is_stale_until_it_is_read_again(base, file, tool, args):
    file.write_text("two\n")

    assert call_once(base, tool, **args) == "stale_file"
    assert file.read_text() == "two\n"
    assert call_once(base, "read_file", path="a.txt") == "ok"
    assert call_once(base, tool, **args) == "ok"


@pytest.mark.parametrize("tool, args", CHANGES, ids=[tool for tool, _ in CHANGES])
def test_equal_contents_with_another_time_or_another_inode_are_not_stale(base, file, tool, args):
    os.utime(file, ns=(1, 1))
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    os.replace(copy, file)

    assert call_once(base, tool, **args) == "ok"


def test_a_change_with_the_same_size_and_time_is_stale(base, file):
    before = file.stat()
    file.write_text("two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert call_once(base, "write_file", path="a.txt", content="x") == "stale_file"


@pytest.mark.starts_processes
@needs_sandbox
@pytest.mark.parametrize("command", ["echo two > a.txt", "rm a.txt", "cp -p other.txt a.txt"])
def test_a_change_by_a_command_of_the_session_is_named_as_that(base, file, command):
    file.with_name("other.txt").write_text("other\n")
    with temporary_runtime(base) as (runtime, _):

        def refusal() -> str:
            error = runtime.call("write_file", path="a.txt", content="x").error
            assert error is not None
            assert error.code == "stale_file"
            return str(error.message)

        assert runtime.call("run_shell", command=command, force=True).ok
        assert refusal().endswith(" since this session last read it, while your own command ran.")
        file.write_text("again\n")
        assert runtime.call("read_file", path="a.txt").ok

        def change() -> str:
            file.write_text("by someone else\n")
            return refusal()

        # a change in the same tick of the clock as the end of the command counts as one by it
        wait_until(lambda: change().endswith("ed since this session last read it."))


def test_a_change_by_one_session_is_stale_for_the_other(base, file):
    assert call_once(base, "read_file", session="other", path="a.txt") == "ok"
    assert call_once(base, "write_file", session="other", path="a.txt", content="theirs\n") == "ok"

    assert call_once(base, "write_file", path="a.txt", content="mine\n") == "stale_file"
    assert call_once(base, "read_file", path="a.txt") == "ok"
    assert call_once(base, "write_file", path="a.txt", content="mine\n") == "ok"
    assert call_once(base, "write_file", session="other", path="a.txt", content="theirs\n") == "stale_file"


def test_a_deleted_file_is_stale_until_a_read_finds_it_missing(base, file):
    file.unlink()

    assert call_once(base, "write_file", path="a.txt", content="x") == "stale_file"
    assert call_once(base, "read_file", path="a.txt") == "file_not_found"
    assert call_once(base, "write_file", path="a.txt", content="x") == "ok"


def test_a_file_that_appears_where_the_session_deleted_one_is_stale(base, file):
    assert call_once(base, "apply_patch", patch=patch(["*** Delete File: a.txt\n"])) == "ok"
    file.write_text("not ours\n")

    assert call_once(base, "write_file", path="a.txt", content="x") == "stale_file"
    assert file.read_text() == "not ours\n"


def test_changes_and_restores_of_the_same_session_are_never_stale(base, file):
    for text in ("two\n", "three\n"):
        assert call_once(base, "write_file", path="a.txt", content=text) == "ok"
    with temporary_runtime(base) as (runtime, _):
        ids = [entry["id"] for entry in runtime.call("undo", action="list").data["snapshots"]]
    assert call_once(base, "undo", action="restore", id=ids[-1]) == "ok"
    assert file.read_text() == "one\n"
    assert call_once(base, "write_file", path="a.txt", content="four\n") == "ok"


def test_a_file_that_was_never_read_may_be_overwritten(base):
    path = Path(base, "workspace", "b.txt")
    path.parent.mkdir()
    path.write_text("unseen\n")

    assert call_once(base, "write_file", path="b.txt", content="x") == "ok"


def test_a_failed_read_does_not_count_as_seen(base, file):
    assert call_once(base, "read_file", session="other", path="a.txt", start_line=99) == "past_end"
    file.write_text("two\n")

    assert call_once(base, "write_file", session="other", path="a.txt", content="x") == "ok"


def test_a_session_idle_for_a_day_has_seen_nothing(base, file):

    path = os.path.join(base, "state", "trail.db")
    with closing(Trail(path)) as trail:
        trail.rows()  # flushes the log
    with connected(path) as db:
        db.execute("UPDATE sessions SET used = used - 24 * 3600 - 1")
    db.close()
    file.write_text("two\n")

    assert call_once(base, "write_file", path="a.txt", content="x") == "ok"


def test_every_spelling_of_a_path_is_checked_for_staleness_as_the_same_file(base, file):
    file.write_text("two\n")
    for path in ("./a.txt", "x/../a.txt", str(file), f"{file.parent}/./a.txt", ".//a.txt"):
        os.makedirs(file.parent / "x", exist_ok=True)
        assert call_once(base, "write_file", path=path, content="x") == "stale_file", path


# --- one atomic write -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o400, 0o666, 0o4750, 0o2755, 0o1644])
def test_the_mode_of_a_file_is_preserved_without_the_rights_of_others(runtime, workspace, mode):
    path = workspace.write("a.sh", "old\n")
    os.chmod(path, mode)
    expected = stat.S_IMODE(os.stat(path).st_mode) & 0o1777

    result = runtime.call("edit_file", path="a.sh", old_text="old", new_text="new")

    assert stat.S_IMODE(os.stat(path).st_mode) == expected
    assert result.ok == os.access(path, os.W_OK)


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_gets_the_mode_that_the_umask_allows(base, umask, mode):
    before = os.umask(umask)
    try:
        with temporary_runtime(base) as (runtime, workspace):
            assert runtime.call("write_file", path="new/a.txt", content="x").ok
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(workspace.join("new/a.txt")).st_mode) == mode


def test_extended_attributes_are_kept_where_the_file_system_has_them(runtime, workspace):
    path = workspace.write("a.txt", "old\n")
    try:
        os.setxattr(path, "user.origin", b"https://example.org")
    except (AttributeError, OSError):
        attributes = {}
    else:
        attributes = {"user.origin": b"https://example.org"}

    assert runtime.call("write_file", path="a.txt", content="new\n").ok

    assert {name: os.getxattr(path, name) for name in attributes} == attributes
    assert workspace.read("a.txt") == "new\n"


def test_the_owner_of_a_file_is_kept_where_permitted(runtime, workspace):
    path = workspace.write("a.txt", "old\n")
    owner = (1234, 5678) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)

    assert runtime.call("write_file", path="a.txt", content="new\n").ok

    assert (os.stat(path).st_uid, os.stat(path).st_gid) == owner


@pytest.mark.starts_processes
@pytest.mark.parametrize("tool, args", CHANGES, ids=[tool for tool, _ in CHANGES])
def test_a_read_only_file_is_rejected(base, file, tool, args):
    file.chmod(0o444)

    [answer] = calls(base, (tool, args))

    assert answer["code"] == "permission_denied"
    assert file.read_text() == "one\n"


@pytest.mark.starts_processes
def test_a_read_only_folder_is_rejected_and_the_other_files_are_restored(base, file):
    locked = file.parent / "locked"
    locked.mkdir()
    (locked / "b.txt").write_text("one\n")
    locked.chmod(0o555)
    edits = [{"path": path, "old_text": "one", "new_text": "two"} for path in ("a.txt", "locked/b.txt")]

    [answer] = calls(base, ("multi_edit", {"edits": edits}))

    locked.chmod(0o755)
    assert answer["code"] == "permission_denied"
    assert [file.read_text(), (locked / "b.txt").read_text()] == ["one\n", "one\n"]
    assert sorted(os.listdir(file.parent)) == ["a.txt", "locked"]
    assert os.listdir(locked) == ["b.txt"]


def test_a_hard_link_outside_keeps_its_contents(runtime, workspace):
    outside = workspace.write("../outside.txt", "theirs\n")
    os.link(outside, workspace.join("a.txt"))

    assert runtime.call("write_file", path="a.txt", content="mine\n").ok

    assert (workspace.read("a.txt"), workspace.read("../outside.txt")) == ("mine\n", "theirs\n")


@pytest.mark.starts_processes
def test_the_new_contents_of_a_private_file_are_never_readable_by_others(base):
    """At no step of a change is there a file with the new contents that others may read."""
    program = f"""
import os, sys
from tests.state.crashing import EVERY, Steps, call
def look(step):
    root = os.path.join({base!r}, "workspace")
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if os.stat(path).st_mode & 0o077 and b"secret" in open(path, "rb").read():
            print("readable:", name)
Steps(EVERY, look).install()
assert call({base!r}, ("write_file", {{"path": "a.txt", "content": "secret" * 1000}}))["code"] is None
"""
    with temporary_runtime(base) as (_, workspace):
        os.chmod(workspace.write("a.txt", "old"), 0o600)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.returncode) == ("", 0), done.stderr
    assert stat.S_IMODE(os.stat(workspace.join("a.txt")).st_mode) == 0o600


@pytest.mark.starts_processes
@pytest.mark.parametrize("files", [2, 300])
def test_a_batch_that_runs_out_of_space_restores_everything(base, files):
    with temporary_runtime(base) as (_, workspace):
        for number in range(files):
            workspace.write(f"{number}.txt", "old\n")
        before = workspace.tree()
    # no file may grow beyond 3 MB; the databases never do
    program = (
        "import resource, signal, sys\n"
        "from hilt.testing import temporary_runtime\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, -1))\n"
        "count = int(sys.argv[2])\n"
        "edits = [{'path': f'{n}.txt', 'old_text': 'old', 'new_text': 'new'} for n in range(count)]\n"
        "edits[-1]['new_text'] = 'new' * 2_000_000\n"
        "with temporary_runtime(sys.argv[1]) as (runtime, _):\n"
        "    result = runtime.call('multi_edit', edits=edits)\n"
        "    print(result.error and result.error.code)\n"
    )

    done = subprocess.run([sys.executable, "-c", program, base, str(files)], capture_output=True, text=True, timeout=60)

    assert done.stdout == "resource_limit\n", done.stderr
    assert workspace.tree() == before
    with temporary_runtime(base) as (runtime, _):
        assert "recovered" not in runtime.call("list_dir").meta


@pytest.mark.parametrize("size", [10, 3_000_000])
@pytest.mark.parametrize("moment", ["before", "open"])
def test_later_writes_to_the_old_file_do_not_reach_the_snapshot(runtime, workspace, size, moment):
    """A program that has the old file open keeps writing to it after the change."""
    path = workspace.write("a.txt", "o" * size)
    with open(path, "r+b", buffering=0) as writer:
        if moment == "before":
            writer.write(b"O")
        id = runtime.call("write_file", path="a.txt", content="new\n").meta["undo"]
        writer.seek(0)
        writer.write(b"damage")

    assert workspace.read("a.txt") == "new\n"
    assert runtime.call("undo", action="restore", id=id).ok
    assert workspace.read("a.txt") == ("O" if moment == "before" else "o") + "o" * (size - 1)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_a_batch_of_many_files_needs_few_handles(base):
    """A process may have 1,024 handles by default, and hilt is not the only user of them."""
    with temporary_runtime(base) as (_, workspace):
        for number in range(1500):
            workspace.write(f"{number}.txt", "old\n")
    program = (
        "import resource, sys\n"
        "from hilt.testing import temporary_runtime\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))\n"
        "edits = [{'path': f'{n}.txt', 'old_text': 'old', 'new_text': 'new'} for n in range(1500)]\n"
        "with temporary_runtime(sys.argv[1]) as (runtime, _):\n"
        "    result = runtime.call('multi_edit', edits=edits)\n"
        "    sys.exit(result.error and result.error.message)\n"
    )

    done = subprocess.run([sys.executable, "-c", program, base], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert workspace.read("1499.txt") == "new\n"


# --- undo -----------------------------------------------------------------------------------------------------------

PATHS = ["a.txt", "b.txt", "d/a.txt", "d/e/b.txt", "n\new/c.txt"]
texts = st.sampled_from(["one\n", "two\n", "one\ntwo\n", ""])
path = st.sampled_from(PATHS)


steps = st.one_of(
    st.tuples(st.just("write_file"), st.builds(dict, path=path, content=texts)),
    st.tuples(
        st.just("edit_file"),
        st.builds(dict, path=path, old_text=st.sampled_from(["one", "two"]), new_text=st.sampled_from(["1", "one2"])),
    ),
    st.tuples(
        st.just("multi_edit"),
        st.builds(
            dict,
            edits=st.lists(
                st.builds(dict, path=path, old_text=st.sampled_from(["one", "two"]), new_text=st.just("2")),
                min_size=1,
                max_size=3,
            ),
        ),
    ),
    st.tuples(
        st.just("apply_patch"),
        st.lists(
            st.one_of(
                st.builds("*** Add File: {}\n+one\n".format, path.filter(lambda name: "\n" not in name)),
                st.builds("*** Delete File: {}\n".format, path.filter(lambda name: "\n" not in name)),
                st.builds(
                    "*** Update File: {}\n*** Move to: {}\n@@\n-one\n+moved\n".format,
                    path.filter(lambda name: "\n" not in name),
                    st.sampled_from(["a.txt", "m/b.txt", "d/moved.txt"]),
                ),
            ),
            min_size=1,
            max_size=3,
        ).map(lambda sections: {"patch": patch(sections)}),
    ),
    st.tuples(st.just("undo"), st.builds(dict, action=st.just("restore"), id=st.integers(0, 5))),
    st.tuples(st.just("chmod"), st.builds(dict, path=path, mode=st.sampled_from([0o600, 0o755]))),
)


def tree_contents(root: str) -> dict[str, tuple[int, bytes | None]]:
    contents: dict[str, tuple[int, bytes | None]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders:
            contents[os.path.join(folder, name)] = (0, None)
        for name in files:
            full = os.path.join(folder, name)
            contents[full] = (stat.S_IMODE(os.stat(full).st_mode), Path(full).read_bytes())
    return contents


@given(st.lists(steps, min_size=1, max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_every_sequence_of_changes_can_be_undone_step_by_step(sequence):
    """Restoring the ids of any changes, newest first, brings back exactly the tree from before each change:
    contents, modes of files, and folders, including empty ones."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as base, temporary_runtime(base) as (runtime, workspace):
        changes: list[tuple[str, dict[str, tuple[int, bytes | None]]]] = []
        for tool, args in sequence:
            before = tree_contents(workspace.path)
            if tool == "chmod":
                # undo does not restore a mode that a person changed, so modes change only before there is any history
                if not changes and os.path.exists(workspace.join(args["path"])):
                    os.chmod(workspace.join(args["path"]), args["mode"])
                continue
            if tool == "undo":
                if not changes:
                    continue
                args = {**args, "id": changes[args["id"] % len(changes)][0]}
            result = runtime.call(tool, **args)
            assert result.error is None or result.error.code != "internal", result.error
            if not result.ok:
                assert tree_contents(workspace.path) == before
            listed = runtime.call("undo", action="list").data["snapshots"]
            ids = list(dict.fromkeys(entry["id"] for entry in listed))
            assert len(ids) in (len(changes), len(changes) + 1)
            if len(ids) > len(changes):
                changes.append((ids[0], before))
            else:
                assert tree_contents(workspace.path) == before
        for id, before in reversed(changes):
            result = runtime.call("undo", action="restore", id=id)
            assert result.ok, result.error
            assert tree_contents(workspace.path) == before
