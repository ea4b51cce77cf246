"""The places that hilt loads from, and how a project's files are opened."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import hilt
from hilt.loaders import PLACES, LoadedFolder, ProjectFile, UnreadableFile, folders, open_folder, project_file, read


@pytest.mark.parametrize(
    "path, file",
    [
        ("/w/.hilt/tools/a.md", ("tool", "/w", ".hilt/tools/a.md")),
        ("/w/.nanocoder/tools/a/script.sh", ("tool", "/w", ".nanocoder/tools/a/script.sh")),
        ("/w/.hilt/tools/a/.mcp.json", ("tool", "/w", ".hilt/tools/a/.mcp.json")),
        ("/w/.hilt/hooks/x", ("hooks", "/w", ".hilt/hooks/x")),
        ("/w/.hilt/AGENTS.md", ("instructions", "/w", ".hilt/AGENTS.md")),
        ("/w/a/../.mcp.json", ("servers", "/w", ".mcp.json")),
        ("/.mcp.json", ("servers", "/", ".mcp.json")),
        ("/h/.jean2/tools/a.md", ("tool", "/h", ".jean2/tools/a.md")),
        ("/w/.hilt/tools.md", None),
        ("/w/x.mcp.json", None),
        ("/w/permissions.yaml", None),
        ("/w/.mcp.json/x", None),
        ("/w/config.toml", None),
    ],
)
def test_a_path_tells_the_project_and_the_kind_of_a_file(path, file):
    assert project_file(path) == file


def test_every_single_file_of_a_project_is_recognised():
    files = {place.path: place.kind for place in PLACES if place.base == "project" and not place.is_folder}

    assert {path: project_file(f"/w/{path}") for path in files} == {
        path: ProjectFile(kind, "/w", path) for path, kind in files.items()
    }


def test_no_other_module_names_a_place():
    places = {place.path for place in PLACES if "/" in place.path or place.base == "project"}
    # the pipe must stay light; the last two name files of other programs
    others = {"loaders", "surfaces/mcp/pipe", "desk/mcp_hosts", "knowledge/locations"}
    root = Path(hilt.__file__).parent
    named = {
        str(path.relative_to(root))[: -len(".py")]: node.value
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in places
    }

    assert set(named) <= others, named


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/file"])
def test_no_link_on_the_way_to_a_file_is_followed(tmp_path, link):
    base = os.path.realpath(tmp_path)
    os.makedirs(f"{base}/a/b")
    with open(f"{base}/a/b/file", "wb") as file:
        file.write(b"content")
    assert read(f"{base}/a/b/file") == b"content"
    os.rename(f"{base}/{link}", f"{base}/moved")
    os.symlink(f"{base}/moved", f"{base}/{link}")

    with pytest.raises(UnreadableFile) as caught:
        read(f"{base}/a/b/file")

    assert str(caught.value).startswith(f"{base}/{link} is a symbolic link")
    assert "replace it with a copy" in str(caught.value)
    assert read(f"{base}/a/b/file", follow=True) == b"content"


@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "missing"])
def test_what_is_no_regular_file_of_a_limited_size_is_not_read(tmp_path, kind):
    path = os.path.join(os.path.realpath(tmp_path), "x")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "large":
        with open(path, "wb") as file:
            file.write(b"12345")

    with pytest.raises(FileNotFoundError if kind == "missing" else UnreadableFile):
        read(path, limit=4)


def test_a_folder_is_opened_without_following_links(tmp_path):
    base = os.path.realpath(tmp_path)
    os.mkdir(f"{base}/a")
    os.symlink("a", f"{base}/link")

    with open_folder(f"{base}/a") as handle:
        assert os.listdir(handle) == []
    with pytest.raises(UnreadableFile, match="link is a symbolic link"), open_folder(f"{base}/link"):
        pass
    with open_folder(f"{base}/link", follow=True) as handle:
        assert os.listdir(handle) == []


def test_folders_where_tools_can_write_need_trust(tmp_path):
    base = os.path.realpath(tmp_path)
    home, config, workspace, other = (f"{base}/{name}" for name in ("home", "config", "workspace", "other"))
    for folder in (home, config, f"{workspace}/mine", other, f"{base}/outside"):
        os.makedirs(folder)
    os.symlink(f"{workspace}/mine", f"{base}/link-in")
    os.symlink(f"{base}/outside", f"{workspace}/link-out")
    environ = {"HOME": home, "HILT_CONFIG_DIR": config}
    named = ["tools", f"{other}/tools", f"{base}/link-in", "link-out", f"{base}/outside"]

    found = folders("tool", [workspace, other], environ, named)

    assert found == [
        LoadedFolder("tool", f"{workspace}/tools", "directory", workspace),
        LoadedFolder("tool", f"{other}/tools", "directory", other),
        LoadedFolder("tool", f"{workspace}/mine", "directory", workspace),
        LoadedFolder("tool", f"{workspace}/link-out", "directory", workspace),
        LoadedFolder("tool", f"{base}/outside", "directory"),
        LoadedFolder("tool", f"{workspace}/.hilt/tools", "project", workspace),
        LoadedFolder("tool", f"{workspace}/.nanocoder/tools", "project", workspace),
        LoadedFolder("tool", f"{config}/tools", "personal"),
        LoadedFolder("tool", f"{home}/.config/nanocoder/tools", "personal"),
        LoadedFolder("tool", f"{home}/.jean2/tools", "personal"),
    ]


def test_in_a_home_directory_the_users_folders_need_trust_except_hilts_own(tmp_path):
    home = os.path.realpath(tmp_path)
    environ = {"HOME": home, "HILT_CONFIG_DIR": f"{home}/.config/hilt"}

    anchors = {folder.path: folder.anchor for folder in folders("agent", [home], environ)}

    assert anchors == {
        f"{home}/.hilt/agents": home,
        f"{home}/.claude/agents": home,
        f"{home}/.nanocoder/agents": home,
        f"{home}/.config/hilt/agents": None,
        f"{home}/.config/nanocoder/agents": home,
    }
