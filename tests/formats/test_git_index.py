from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilt.formats.git_index import tracked_paths

pytestmark = pytest.mark.starts_processes

PATHS = ["a", "b/c", "b/d e", "ü", "x" * 200 + "/" + "y" * 200, *(f"many/{number:03}" for number in range(60))]


def git(folder: str, *args: str) -> bytes:
    return subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True).stdout


@pytest.fixture
def repository(tmp_path, request) -> str:
    folder = str(tmp_path)
    git(folder, "init", "-q", f"--object-format={getattr(request, 'param', 'sha1')}")
    for path in PATHS:
        os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
        with open(f"{folder}/{path}", "w") as file:
            file.write(path)
    return folder


def read(folder: str) -> list[str]:
    with open(f"{folder}/.git/index", "rb") as file:
        return list(tracked_paths(file.read()))


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("repository", ["sha1", "sha256"], indirect=True)
def test_the_paths_are_those_that_git_lists(repository, version):
    git(repository, "update-index", "--index-version", version)
    git(repository, "add", "-A")
    if version == "3":
        git(repository, "rm", "-q", "--cached", "a")
        git(repository, "add", "-N", "a")

    assert read(repository) == git(repository, "ls-files", "-z").decode().split("\0")[:-1]


def test_an_index_that_does_not_list_all_paths_is_an_error(repository):
    git(repository, "add", "-A")
    git(repository, "update-index", "--split-index")

    with pytest.raises(ValueError, match="split"):
        read(repository)


@given(data=st.binary(max_size=100), version=st.integers(0, 5))
@example(data=b"", version=4)
def test_anything_else_is_an_error(data, version):
    for index in (data, b"DIRC\0\0\0%c\0\0\0\2" % version + data):
        with pytest.raises(ValueError, match="index"):
            list(tracked_paths(index))
