from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.state.history import History, Snapshot
from hilt.testing import temporary_runtime
from tests.databases import connected

MEGABYTE = 1024 * 1024


@pytest.fixture
def open_history(tmp_path):
    """Return a function that opens the history of a workspace with limits."""
    opened = []

    def open_one(workspace: str = "w", *, calls: int = 500, megabytes: int = 200) -> History:
        journal = str(tmp_path / "journal" / workspace)
        opened.append(History(str(tmp_path), journal, workspace, calls=calls, megabytes=megabytes))
        return opened[-1]

    yield open_one
    for history in opened:
        history.close()


def add(history: History, *contents: bytes, session: str = "s") -> str:
    """Add a finished change of files that held these contents; return its id."""
    files = [
        (Snapshot(f"{number}.txt", sha256(data), 0o644, len(data), sha256(b"new"), ()), data)
        for number, data in enumerate(contents)
    ]
    recording = history.begin(session, "write_file", files)
    recording.keep()
    return recording.id


def blob_files(tmp_path) -> list[str]:
    return [name for _, _, names in os.walk(tmp_path / "blobs") for name in names]


def refusal(work, *args) -> ToolError:
    with pytest.raises(ToolError) as caught:
        work(*args)
    return caught.value


def test_the_oldest_calls_beyond_the_count_are_evicted_completely(open_history):
    history = open_history(calls=3)

    ids = [add(history, b"a%d" % number, b"b%d" % number) for number in range(5)]

    assert [change.id for change in history.changes()] == ids[:1:-1]
    assert history.total() == 6
    for number in (0, 1):
        assert refusal(history.blobs.read, sha256(b"a%d" % number)).code == "not_found"
    assert history.blobs.read(sha256(b"a2")) == b"a2"


def test_the_oldest_calls_beyond_the_size_are_evicted_with_their_blob_files(open_history, tmp_path):
    history = open_history(megabytes=5)

    ids = [add(history, bytes([number]) * (2 * MEGABYTE), b"small") for number in range(4)]

    assert [change.id for change in history.changes()] == [ids[3], ids[2]]
    assert sorted(blob_files(tmp_path)) == sorted(sha256(bytes([n]) * (2 * MEGABYTE)).hex() for n in (2, 3))


def test_one_call_over_the_limit_is_kept_until_the_next(open_history):
    history = open_history(megabytes=1)

    first = add(history, b"x" * (3 * MEGABYTE))
    assert [change.id for change in history.changes()] == [first]
    second = add(history, b"small")
    assert [change.id for change in history.changes()] == [second]


def test_unfinished_calls_are_not_evicted(open_history):
    history = open_history(calls=1)
    files = [(Snapshot("a.txt", sha256(b"old"), 0o644, 3, sha256(b"new"), ()), b"old")]
    recording = history.begin("s", "edit_file", files)

    add(history, b"one")
    last = add(history, b"two")

    assert [change.id for change in history.changes()] == [last]
    assert history.blobs.read(sha256(b"old")) == b"old"
    recording.drop()
    assert [change.id for change in history.changes()] == [last]


def test_equal_contents_are_stored_once_and_kept_while_referenced(open_history, tmp_path):
    history, other = open_history("w", calls=2), open_history("other")
    data = b"same" * MEGABYTE
    add(history, data, data)
    add(other, data)
    assert len(blob_files(tmp_path)) == 1

    add(history, b"1")
    add(history, b"2")

    assert history.blobs.read(sha256(data)) == data
    other.clear()
    assert blob_files(tmp_path) == []
    assert refusal(history.blobs.read, sha256(data)).code == "not_found"


def test_contents_stored_again_after_eviction_are_complete(open_history, tmp_path):
    history = open_history(calls=1)
    data = b"again" * MEGABYTE
    for _ in range(3):
        add(history, data)
        add(history, b"between")
        assert blob_files(tmp_path) == []
    add(history, data)

    assert history.blobs.read(sha256(data)) == data


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, MEGABYTE, MEGABYTE + 1])
def test_compressing_keeps_contents_and_removes_files(open_history, tmp_path, size):
    history = open_history()
    data = (b"line of text\n" * (size // 13 + 1))[:size]
    add(history, data)

    history.blobs.compress(60)

    assert history.blobs.read(sha256(data)) == data
    assert blob_files(tmp_path) == []
    add(history, data)  # already stored, but compressed
    assert history.blobs.read(sha256(data)) == data


def test_compressing_continues_past_missing_contents(open_history, tmp_path):
    history = open_history()
    add(history, b"a" * (2 * MEGABYTE))
    [name] = blob_files(tmp_path)
    os.unlink(tmp_path / "blobs" / name[:2] / name)
    add(history, b"b" * (2 * MEGABYTE))

    history.blobs.compress(5)

    assert history.blobs.read(sha256(b"b" * (2 * MEGABYTE))) == b"b" * (2 * MEGABYTE)
    assert blob_files(tmp_path) == []


def test_an_ambiguous_id_prefix_is_rejected_with_the_candidates(open_history, tmp_path):
    history = open_history()
    ids = [add(history, b"%d" % number) for number in range(20)]
    with connected(tmp_path / "state.db") as db:
        for number, id in enumerate(ids):
            db.execute("UPDATE changes SET id=? WHERE id=?", (f"abc{number:09x}", id))
    db.close()

    error = refusal(history.find, "abc")

    assert error.code == "ambiguous_id"
    assert len(error.details["candidates"]) == 10  # type: ignore[arg-type]
    assert history.find("abc000000003").id == "abc000000003"
    assert history.find("abc00000000f").id == "abc00000000f"


@pytest.mark.parametrize("prefix", ["", "zz", "*", "%", "ABC", "a'b", "0" * 100])
def test_an_invalid_id_prefix_finds_nothing(open_history, prefix):
    history = open_history()
    add(history, b"x")

    assert refusal(history.find, prefix).code == "not_found"


@pytest.mark.parametrize("size", [10, 100_000, 2 * MEGABYTE])
def test_damaged_contents_are_rejected_and_nothing_is_restored(base, size):
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "o" * size)
        id = runtime.call("write_file", path="a.txt", content="new").meta["undo"]
        with connected(os.path.join(base, "state", "state.db")) as db:
            db.execute("UPDATE blobs SET data=zeroblob(7) WHERE data NOT NULL")
        db.close()
        for inner, _, names in os.walk(os.path.join(base, "state", "blobs")):
            for name in names:
                with open(os.path.join(inner, name), "r+b") as file:
                    file.write(b"damage")

        result = runtime.call("undo", action="restore", id=id)

        assert result.error is not None
        assert (result.error.code, "damaged" in result.error.message) == ("internal", True)
        assert folder.read("a.txt") == "new"


def test_a_missing_blob_file_is_reported_with_the_same_error(base):
    with temporary_runtime(base) as (runtime, folder):
        folder.write("a.txt", "o" * (2 * MEGABYTE))
        id = runtime.call("write_file", path="a.txt", content="new").meta["undo"]
        for inner, _, names in os.walk(os.path.join(base, "state", "blobs")):
            for name in names:
                os.unlink(os.path.join(inner, name))

        result = runtime.call("undo", action="restore", id=id)

        assert result.error is not None
        assert "damaged" in result.error.message
        assert folder.read("a.txt") == "new"
        # and the same contents can be stored again
        folder.write("a.txt", "o" * (2 * MEGABYTE))
        again = runtime.call("write_file", path="a.txt", content="newer", force=True)
        assert again.error is None or again.error.code == "stale_file"


def test_clearing_removes_only_the_snapshots_of_this_workspace(open_history, tmp_path):
    history, other = open_history("w"), open_history("other")
    add(history, b"a", b"b" * (2 * MEGABYTE))
    remaining = add(other, b"c")

    assert history.clear() == 2

    assert (history.changes(), history.total(), blob_files(tmp_path)) == ([], 0, [])
    assert [change.id for change in other.changes()] == [remaining]
    assert history.clear() == 0


def test_reading_the_history_creates_no_database(open_history, tmp_path):
    history = open_history()

    assert (history.changes(), history.total(), history.clear()) == ([], 0, 0)
    assert refusal(history.find, "abc").code == "not_found"
    assert list(history.interrupted()) == []
    assert not history.is_unfinished(["a.txt"])
    assert not (tmp_path / "state.db").exists()


def test_folders_and_paths_with_odd_names_are_restored_unchanged(open_history):
    history = open_history()
    snapshot = Snapshot("new\nline/ü/a b.txt", None, 0, 0, sha256(b"x"), ("new\nline", "new\nline/ü"), 0o600)
    history.begin("s", "write_file", [(snapshot, None)]).keep()

    assert history.changes()[0].snapshots == (snapshot,)


def test_a_marker_removed_before_it_is_locked_is_recreated(open_history, tmp_path, monkeypatch):
    """Another process sweeps between the creation and the locking of a marker."""
    import fcntl

    history = open_history()
    add(history, b"x")
    real = fcntl.flock
    swept: list[Path] = []

    def sweep_first(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and not swept:
            swept.extend((tmp_path / "journal" / "w").iterdir())
            for path in swept:
                path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    id = add(history, b"y")

    assert len(swept) == 1
    assert history.changes()[0].id == id
    assert list((tmp_path / "journal" / "w").iterdir()) == []


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 5)), min_size=1, max_size=25), st.integers(1, 6))
@settings(max_examples=40)
def test_exactly_the_contents_of_the_newest_calls_are_kept(tmp_path_factory, sequence, calls):
    """After any sequence of changes: the newest `calls` are listed, all their contents can be read, and there is no
    blob that none of them needs."""
    folder = tmp_path_factory.mktemp("history")
    history = History(str(folder), str(folder / "journal"), "w", calls=calls, megabytes=1000)
    expected = []
    for letter, count in sequence:
        contents = [letter.encode() * (number + 1) for number in range(count)]
        expected.append((add(history, *contents), contents))
    expected = expected[-calls:]

    assert [change.id for change in history.changes()] == [id for id, _ in reversed(expected)]
    needed = {sha256(data): data for _, contents in expected for data in contents}
    assert {hash: history.blobs.read(hash) for hash in needed} == needed
    with connected(folder / "state.db") as db:
        assert {hash for (hash,) in db.execute("SELECT hash FROM blobs")} == set(needed)
    db.close()
    history.close()
