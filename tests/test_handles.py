"""Folders opened by handle, name by name."""

from __future__ import annotations

import os
from errno import EACCES, ENOENT, ENOTDIR

import pytest

from hilt.handles import open_folder, remove_path

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
