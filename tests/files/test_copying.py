"""Changes copied from an upper layer while another process renames files in the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hilt.files.collecting import HANDLE
from hilt.files.copying import CopiedSteps
from hilt.sandbox.overlay import UpperLayer
from hilt.state.history import LayerStep


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def handle(workspace: Path) -> Iterator[int]:
    handle = os.open(workspace, HANDLE | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def steps_of_deletion(workspace: Path, handle: int, path: str, status: os.stat_result) -> list[LayerStep]:
    """Return the steps of a command that deleted a path, which had this status when it was last checked."""
    layer_folder = workspace.parent / "layer"
    layer_folder.mkdir()
    folder = os.open(layer_folder, HANDLE | os.O_DIRECTORY)
    layer = UpperLayer(str(layer_folder), (str(workspace),), False, False, -1, folder, 1 << 62, scratch="elsewhere")
    steps: list[LayerStep] = []
    with CopiedSteps(layer, str(workspace), steps) as copied:
        copied.add(path, (handle, None), (handle, status), 0, is_lost=False)
    os.close(folder)
    return steps


def test_the_contents_of_a_folder_that_replaces_a_deleted_one_are_kept(workspace, handle):
    for name in ("deleted", "other"):
        (workspace / name).mkdir()
        (workspace / name / f"in {name}").touch()
    status = (workspace / "deleted").stat()
    (workspace / "deleted").rename(workspace / "away")
    (workspace / "other").rename(workspace / "deleted")

    steps = steps_of_deletion(workspace, handle, "deleted", status)

    assert [(step.kind, step.path) for step in steps] == [("conflict", "deleted")]


def test_a_hard_link_that_is_renamed_meanwhile_is_a_conflict(workspace, handle):
    (workspace / "one").touch()
    os.link(workspace / "one", workspace / "two")
    status = (workspace / "one").stat()
    (workspace / "one").rename(workspace / "away")

    steps = steps_of_deletion(workspace, handle, "one", status)

    assert [(step.kind, step.path) for step in steps] == [("conflict", "one")]
