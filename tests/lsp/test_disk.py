"""Changes on disk: none is missed, by the kernel's queue or by scans."""

from __future__ import annotations

import os

import pytest

from hilt.lsp import disk
from hilt.lsp.disk import CHANGED, CREATED, DELETED, DiskWatch
from hilt.testing import Folder


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(os.path.realpath(tmp_path))
    made.write("a.py", "a")
    made.write("inner/b.py", "b")
    return made


@pytest.fixture(params=[True, False], ids=["queue", "scan"])
def watch(request, folder, monkeypatch):
    monkeypatch.setattr(disk, "SCAN_RATIO", 0)
    made = DiskWatch((folder.path,), native=request.param)
    yield made
    made.close()


def taken(watch: DiskWatch, folder: Folder) -> dict[str, int]:
    return {os.path.relpath(path, folder.path): kind for path, kind in watch.take().items()}


def test_created_changed_and_deleted_files_are_reported_once(watch, folder):
    folder.write("inner/b.py", "other")
    folder.write("c.py", "c")
    os.unlink(folder.join("a.py"))

    assert taken(watch, folder) == {"inner/b.py": CHANGED, "c.py": CREATED, "a.py": DELETED}
    assert taken(watch, folder) == {}


def test_a_file_that_replaces_another_has_changed(watch, folder):
    folder.write("temporary", "new")
    os.rename(folder.join("temporary"), folder.join("a.py"))

    assert taken(watch, folder) == {"a.py": CHANGED}
    folder.write("a.py", "newer")
    assert taken(watch, folder) == {"a.py": CHANGED}


def test_new_folders_are_watched_with_what_is_already_in_them(watch, folder):
    folder.write("new/deep/c.py", "c")
    assert taken(watch, folder) == {"new/deep/c.py": CREATED}

    folder.write("new/deep/d.py", "d")
    assert taken(watch, folder) == {"new/deep/d.py": CREATED}


def test_a_folder_that_was_moved_is_watched_under_its_new_name(watch, folder):
    os.rename(folder.join("inner"), folder.join("moved"))
    assert taken(watch, folder)["moved/b.py"] == CREATED

    folder.write("moved/b.py", "other")
    assert taken(watch, folder) == {"moved/b.py": CHANGED}


def test_what_other_programs_own_is_not_watched(watch, folder):
    folder.write(".git/HEAD", "x")
    folder.write("node_modules/m/index.js", "x")

    assert taken(watch, folder) == {}


def test_when_events_are_lost_every_file_counts_as_changed(folder, monkeypatch):
    monkeypatch.setattr(disk, "SCAN_RATIO", 0)
    monkeypatch.setattr(disk, "_OVERFLOW", disk._CLOSE_WRITE)
    watch = DiskWatch((folder.path,))
    folder.write("a.py", "other")

    assert taken(watch, folder) == {"a.py": CHANGED, "inner/b.py": CHANGED}
    folder.write("c.py", "c")
    assert taken(watch, folder) == {"c.py": CREATED}
    watch.close()


def test_more_folders_than_can_be_watched_are_scanned(folder, monkeypatch):
    monkeypatch.setattr(disk._Queue, "_add", lambda self, path: False)
    watch = DiskWatch((folder.path,))
    folder.write("c.py", "c")

    assert taken(watch, folder) == {"c.py": CREATED}
    watch.close()


def test_scans_of_a_large_workspace_leave_pauses(folder, monkeypatch):
    monkeypatch.setattr(disk, "SCAN_RATIO", 1e9)
    watch = DiskWatch((folder.path,), native=False)
    assert taken(watch, folder) == {}
    folder.write("c.py", "c")

    assert taken(watch, folder) == {}
    watch.close()
