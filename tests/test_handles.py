"""Folders opened by handle, name by name."""

from __future__ import annotations

import os
from errno import EACCES, ENOENT, ENOTDIR

import pytest

from hilt.handles import open_folder, put_file, remove_path

OUTCOMES = {
    "a/b": 0,
    "a//b/": 0,
    "": 0,
    "link": ENOTDIR,
    "link/b": ENOTDIR,
    "a/file": ENOTDIR,
    "a/file/x": ENOTDIR,
    "missing/b": ENOENT,
    "a/closed/x": EACCES,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_folder_is_opened_without_following_links(tmp_path, name):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/closed").mkdir(mode=0)
    (tmp_path / "a/file").write_text("")
    (tmp_path / "link").symlink_to("a")
    expected = ENOENT if OUTCOMES[name] == EACCES and os.geteuid() == 0 else OUTCOMES[name]
    start = os.open(tmp_path, os.O_RDONLY)

    outcomes = []
    for path, folder in ((f"{tmp_path}/{name}", None), (name, start)):
        try:
            handle = open_folder(path, folder)
        except OSError as error:
            outcomes.append(error.errno)
        else:
            outcomes.append(0)
            assert os.path.samestat(os.fstat(handle), os.stat(tmp_path / name))
            assert not os.get_inheritable(handle)
            os.close(handle)

    os.close(start)
    assert outcomes == [expected, expected]


def test_a_path_with_a_null_is_not_cut_there(tmp_path):
    (tmp_path / "a").mkdir()

    with pytest.raises(ValueError, match="null"):
        open_folder(f"{tmp_path}/a\0b")


def test_removal_does_not_follow_links(tmp_path):
    outside, top = tmp_path / "outside", tmp_path / "top"
    (outside / "kept").mkdir(parents=True)
    outside.chmod(0o755)
    deep = top
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (top / "closed").mkdir()
    (top / "closed/file").touch()
    (top / "closed").chmod(0o500)
    for folder in (top, deep):
        (folder / "link").symlink_to(outside)
    (tmp_path / "linked").symlink_to(outside)

    remove_path(str(top))
    remove_path(str(tmp_path / "linked/kept"))

    assert not top.exists()
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert outside.stat().st_mode & 0o7777 == 0o755
    remove_path(str(tmp_path / "linked"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]


def test_a_file_is_put_in_its_place_whole_and_for_the_user_alone(tmp_path):
    path = tmp_path / "new" / "file"

    assert put_file(str(path), b"one", only_new=True)
    assert not put_file(str(path), b"two", only_new=True)
    assert path.read_bytes() == b"one"
    assert put_file(str(path), b"three", synced=True)

    assert path.read_bytes() == b"three"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_cannot_be_put_in_its_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()

    with pytest.raises(OSError, match="taken"):
        put_file(str(tmp_path / "taken"), b"x")

    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        put_file(str(tmp_path / "file" / "inner"), b"x")
