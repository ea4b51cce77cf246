from __future__ import annotations

import io
import os
import tarfile
import threading
from pathlib import Path

import pytest

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.state import archive, inventory
from hilt.state.history import History, Snapshot
from hilt.testing import Folder, temporary_runtime
from tests.databases import connected

LARGE = os.urandom(1 << 20) + b"x"  # stored as a file


def changed(runtime, path: str, content: str) -> str:
    result = runtime.call("write_file", path=path, content=content)
    assert result.error is None, result.error
    return str(result.meta["undo"])


@pytest.fixture
def state(tmp_path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def backup(tmp_path, state) -> str:
    """A backup of a state with a change that can be undone, its record, a transcript and a token."""
    path = str(tmp_path / "backup.tar.gz")
    with temporary_runtime(str(tmp_path)) as (runtime, folder):
        folder.write("large.bin", LARGE)
        folder.write("a.txt", "old\n")
        runtime.call("read_file", path="a.txt")
        changed(runtime, "a.txt", "new\n")
        changed(runtime, "large.bin", "small\n")
        Folder(state).write("transcripts/w/s.jsonl", "{}\n")
        Folder(state).write("serve-token", "secret\n")
        archive.write(state, path)
    return path


def test_changes_in_a_backup_can_be_undone_after_a_restore(tmp_path, state, backup):
    with temporary_runtime(str(tmp_path)) as (runtime, folder):
        runtime.call("undo", action="clear")
        changed(runtime, "b.txt", "later\n")

    old = archive.restore(state, backup)

    with temporary_runtime(str(tmp_path)) as (runtime, folder):
        snapshots = runtime.call("undo", action="list").data["snapshots"]
        assert [(entry["path"], entry["size"]) for entry in snapshots] == [("large.bin", len(LARGE)), ("a.txt", 4)]
        for entry in snapshots:
            assert runtime.call("undo", action="restore", id=entry["id"]).error is None
        assert (folder.bytes("large.bin"), folder.read("a.txt")) == (LARGE, "old\n")
        assert runtime.parts.trail.verify() is None
        assert "read_file" in {row.entry.tool for row in runtime.parts.trail.rows()}
    assert Folder(state).read("transcripts/w/s.jsonl") == "{}\n"
    assert Folder(state).read("serve-token") == "secret\n"  # of the machine, not of the backup
    assert old is not None
    assert os.path.exists(os.path.join(old, "state.db"))


def test_a_backup_contains_no_tokens_locks_and_caches(backup):
    with tarfile.open(backup) as file:
        names = {name.split("/")[0] for name in file.getnames()}

    assert names == {"manifest.json", "state.db", "trail.db", "trail.db.head", "blobs", "transcripts"}
    assert os.stat(backup).st_mode & 0o777 == 0o600


def test_a_backup_has_all_its_blobs_even_if_changes_are_made_and_evicted_meanwhile(tmp_path):
    state = str(tmp_path / "state")
    os.mkdir(state)
    history = History(state, os.path.join(state, "journal/w"), "w", calls=2, megabytes=200)
    ended = threading.Event()

    def change() -> None:
        data = os.urandom(1 << 20) + b"x"
        snapshot = Snapshot("a", sha256(data), 0o644, len(data), sha256(b"new"), ())
        history.begin("s", "write_file", [(snapshot, data)]).keep()

    def keep_changing() -> None:
        while not ended.is_set():
            change()

    change()
    thread = threading.Thread(target=keep_changing)
    thread.start()
    try:
        for number in range(3):
            archive.write(state, str(tmp_path / f"{number}.tar.gz"))
    finally:
        ended.set()
        thread.join()
        history.close()

    for number in range(3):
        with tarfile.open(tmp_path / f"{number}.tar.gz") as file:
            names = set(file.getnames())
            database = file.extractfile("state.db")
            assert database is not None
            (tmp_path / f"{number}.db").write_bytes(database.read())
        with connected(tmp_path / f"{number}.db") as db:
            hashes = [hash.hex() for (hash,) in db.execute("SELECT hash FROM blobs WHERE data IS NULL")]
        assert {f"blobs/{name[:2]}/{name}" for name in hashes} <= names


def test_an_existing_file_is_not_replaced_by_a_backup(tmp_path, state, backup):
    with pytest.raises(ToolError) as caught:
        archive.write(state, backup)

    assert caught.value.code == "already_exists"


def hostile(path: Path, name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"x") -> str:
    with tarfile.open(path, "w:gz") as file:
        for member, content in (
            (tarfile.TarInfo("manifest.json"), b'{"format": 1, "hilt": "0", "created": "now"}'),
            (tarfile.TarInfo(name), data),
        ):
            member.size = len(content)
            if member.name == name:
                member.type, member.linkname = kind, "/etc/passwd"
            file.addfile(member, io.BytesIO(content))
    return str(path)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("../evil", tarfile.REGTYPE),
        ("transcripts/../../evil", tarfile.REGTYPE),
        ("/transcripts/evil", tarfile.REGTYPE),
        ("transcripts//evil", tarfile.REGTYPE),
        ("serve-token", tarfile.REGTYPE),
        ("state.db-wal", tarfile.REGTYPE),
        ("transcripts/link", tarfile.SYMTYPE),
        ("transcripts/link", tarfile.LNKTYPE),
        ("transcripts/pipe", tarfile.FIFOTYPE),
    ],
)
def test_an_archive_with_an_unexpected_entry_is_rejected_and_leaves_nothing(tmp_path, state, name, kind):
    path = hostile(tmp_path / "evil.tar.gz", name, kind)
    Folder(state).write("state.db", "untouched")
    before = sorted(Folder(str(tmp_path)).tree())

    for work in (lambda: archive.inspect(path), lambda: archive.restore(state, path)):
        with pytest.raises(ToolError) as caught:
            work()
        assert caught.value.code == "invalid_request"
    assert sorted(Folder(str(tmp_path)).tree()) == before


def test_a_damaged_database_is_rejected_before_anything_is_replaced(tmp_path, state, backup):
    path = hostile(tmp_path / "evil.tar.gz", "state.db", data=b"not a database" * 1000)
    before = sorted(Folder(state).tree())

    with pytest.raises(ToolError) as damaged:
        archive.restore(state, path)
    Path(path).write_bytes(Path(backup).read_bytes()[:-1000])
    with pytest.raises(ToolError) as truncated:
        archive.restore(state, path)

    assert (damaged.value.code, truncated.value.code) == ("invalid_request", "invalid_request")
    assert "state.db" in damaged.value.message

    assert sorted(Folder(state).tree()) == before


def test_a_backup_of_a_newer_hilt_is_rejected(tmp_path, state):
    with connected(tmp_path / "newer.db") as db:
        db.execute("PRAGMA user_version=1000")
    path = hostile(tmp_path / "newer.tar.gz", "state.db", data=(tmp_path / "newer.db").read_bytes())

    with pytest.raises(ToolError) as caught:
        archive.restore(state, path)

    assert (caught.value.code, os.path.exists(state)) == ("runtime_missing", False)


def test_a_state_that_a_process_uses_is_not_replaced(tmp_path, state, backup):
    with temporary_runtime(str(tmp_path)) as (runtime, _):
        runtime.call("read_file", path="a.txt")
        with pytest.raises(ToolError) as caught:
            archive.restore(state, backup)

    assert caught.value.code == "busy"
    assert "trail.db.log" in caught.value.details["files"]  # type: ignore[operator]


@pytest.mark.starts_processes
def test_every_name_in_a_used_state_directory_is_known(tmp_path, state, backup):
    with temporary_runtime(str(tmp_path)) as (runtime, _):
        runtime.call("run_shell", command="true")
        runtime.call("task", action="create", title="x")
        runtime.call("related_context", query="x")
        runtime.tidy(0.1)

    assert inventory.names_of(state).get("other", []) == []
