"""Changes on disk: none is missed."""

from __future__ import annotations

import os

import pytest

from hilt.lsp.disk import CHANGED, CREATED, DELETED, DiskWatch
from hilt.testing import Folder


@pytest.fixture
def folder(tmp_path) -> Folder:
    folder = Folder(os.path.realpath(tmp_path))
    folder.write("a.py", "a")
    folder.write("inner/b.py", "b")
    return folder


@pytest.fixture
def watch(folder) -> DiskWatch:
    return DiskWatch((folder.path,))


def take(watch: DiskWatch, folder: Folder) -> dict[str, int]:
    return {os.path.relpath(path, folder.path): kind for path, kind in watch.take().items()}


def test_created_changed_and_deleted_files_are_reported_once(watch, folder):
    folder.write("inner/b.py", "other")
    folder.write("c.py", "c")
    os.unlink(folder.join("a.py"))

    assert take(watch, folder) == {"inner/b.py": CHANGED, "c.py": CREATED, "a.py": DELETED}
    assert take(watch, folder) == {}


def test_a_file_that_replaces_another_has_changed(watch, folder):
    folder.write("temporary", "new")
    os.rename(folder.join("temporary"), folder.join("a.py"))

    assert take(watch, folder) == {"a.py": CHANGED}
    folder.write("a.py", "newer")
    assert take(watch, folder) == {"a.py": CHANGED}


def test_new_folders_are_watched_and_their_files_reported(watch, folder):
    folder.write("new/deep/c.py", "c")
    assert take(watch, folder) == {"new/deep/c.py": CREATED}

    folder.write("new/deep/d.py", "d")
    assert take(watch, folder) == {"new/deep/d.py": CREATED}


def test_a_folder_that_was_moved_is_watched_under_its_new_name(watch, folder):
    os.rename(folder.join("inner"), folder.join("moved"))
    assert take(watch, folder)["moved/b.py"] == CREATED

    folder.write("moved/b.py", "other")
    assert take(watch, folder) == {"moved/b.py": CHANGED}


def test_a_changed_file_whose_time_was_set_back_has_changed(watch, folder):
    status = os.stat(folder.join("a.py"))
    folder.write("a.py", "b")
    os.utime(folder.join("a.py"), ns=(status.st_atime_ns, status.st_mtime_ns))

    assert take(watch, folder) == {"a.py": CHANGED}


def test_folders_of_other_programs_are_not_watched(watch, folder):
    folder.write(".git/HEAD", "x")
    folder.write("node_modules/m/index.js", "x")

    assert take(watch, folder) == {}
