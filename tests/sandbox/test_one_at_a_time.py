"""Only one program at a time may write to a folder if mounts by handle are not supported."""

from __future__ import annotations

import pytest

from hilt.errors import ToolError
from hilt.sandbox import bubblewrap
from hilt.sandbox.bubblewrap import alone


@pytest.fixture
def locks(tmp_path, monkeypatch) -> str:
    monkeypatch.setattr(bubblewrap, "_WAIT_SECONDS", 0.05)
    return str(tmp_path / "locks")


@pytest.mark.parametrize("other", ["/p", "/p/sub", "/p/sub/deep", "/"])
def test_a_locked_folder_its_parents_and_its_children_are_busy_for_others(locks, other):
    with alone(locks, ("/p/sub",)), pytest.raises(ToolError) as raised, alone(locks, (other,)):
        pass

    assert raised.value.code == "busy"
    with alone(locks, (other,)):
        pass


def test_sibling_folders_are_independent(locks):
    with alone(locks, ("/p/a",)), alone(locks, ("/p/b", "/q")):
        pass


def test_roots_may_be_nested(locks):
    with alone(locks, ("/p", "/p/sub")):
        pass
