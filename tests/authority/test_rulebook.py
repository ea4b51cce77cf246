"""When the status of a file may be cached, and where rule files are searched."""

from __future__ import annotations

import os
import time

import pytest

from hilt.authority.rulebook import is_settled, status, upward
from hilt.formats.times import COARSE_TICK_NS, TICK_NS


def test_a_file_that_has_just_changed_is_not_settled(tmp_path):
    file = tmp_path / "a"
    file.write_text("x")
    assert not is_settled(status(str(file)))

    time.sleep(2 * TICK_NS / 1e9)
    assert is_settled(status(str(file)))


def test_a_time_in_whole_seconds_takes_longer_to_settle():
    now = time.time_ns() // 1_000_000_000 * 1_000_000_000
    assert not is_settled((now - 1_000_000_000, 0, 0, 0))
    assert is_settled((now - 2 * COARSE_TICK_NS // 1_000_000_000 * 1_000_000_000, 0, 0, 0))


def test_a_missing_file_is_settled_and_an_inaccessible_one_is_not(tmp_path):
    os.symlink("loop", tmp_path / "loop")
    (tmp_path / "file").write_text("")

    assert status(str(tmp_path / "nothing")) is None
    assert status(str(tmp_path / "file" / "below")) is None
    assert is_settled(None)
    broken = status(str(tmp_path / "loop" / "below"))
    assert broken is not None
    assert not is_settled(broken)


def test_a_personal_link_is_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("x")
    os.symlink(target, tmp_path / "link")
    before = [status(str(tmp_path / "link"), follow=follow) for follow in (False, True)]
    time.sleep(2 * TICK_NS / 1e9)
    target.write_text("other")
    after = [status(str(tmp_path / "link"), follow=follow) for follow in (False, True)]

    assert (before[0] == after[0], before[1] == after[1]) == (True, False)
    target.unlink()
    assert status(str(tmp_path / "link"), follow=True) is not None


@pytest.mark.parametrize("home, expected", [("", 4), ("a", 3), ("a/b", 2), ("a/b/c", 1), ("a/b/c/d", 1)])
def test_folders_are_walked_up_to_the_home_directory(tmp_path, home, expected):
    project = tmp_path / "a" / "b" / "c" / "d"
    project.mkdir(parents=True)
    folders = list(upward(str(project), os.path.normpath(str(tmp_path / home))))

    assert folders[:expected] == [str(project), *map(str, project.parents)][:expected]
    assert len(folders) == expected
