"""Finding sensitive files and repositories: complete, and up to date after changes."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from hilt.sandbox import sensitive
from hilt.sandbox.sensitive import Search, home_secrets, toolchains

IS_SENSITIVE = PathRules(SENSITIVE, READABLE, PROTECTED).is_sensitive

NAMES = st.sampled_from(["a", "b c", ".env", ".env.local", ".env.example", ".ssh", ".git", "é", "\udcff", ".ENV"])
ACTIONS = st.lists(st.tuples(st.sampled_from(["file", "folder", "remove"]), st.lists(NAMES, min_size=1, max_size=4)))


def expected(root: str) -> tuple[set[str], set[str]]:
    """Walk the tree naively; return the sensitive paths and the repositories."""
    sensitive, repositories = set(), set()
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if name == ".git":
                repositories.add(path)
            elif IS_SENSITIVE(os.path.relpath(path, root)):
                sensitive.add(path)
        folders[:] = [
            n for n in folders if n != ".git" and not IS_SENSITIVE(os.path.relpath(os.path.join(folder, n), root))
        ]
    return sensitive, repositories


@given(rounds=st.lists(ACTIONS, min_size=1, max_size=4))
def test_every_walk_agrees_with_a_naive_one(tmp_path_factory, rounds):
    root = tmp_path_factory.mktemp("ws")
    search = Search()
    for actions in rounds:
        for action, names in actions:
            path = root.joinpath(*names)
            try:
                if action == "remove":
                    path.unlink()
                else:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("") if action == "file" else path.mkdir()
            except OSError:
                continue
        result = search.find(str(root), IS_SENSITIVE)
        assert (set(result.sensitive), set(result.repositories)) == expected(str(root))


def test_a_folder_whose_time_was_set_back_is_listed_again(tmp_path, monkeypatch):
    folder = tmp_path / "a"
    folder.mkdir()
    os.utime(folder, (1, 1))
    monkeypatch.setattr(sensitive, "_SETTLED_NS", -1)
    search = Search()
    assert search.find(str(tmp_path), IS_SENSITIVE).sensitive == ()
    before = folder.stat().st_ctime_ns

    (folder / ".env").write_text("")
    while folder.stat().st_ctime_ns == before:  # until the file system clock has advanced
        os.utime(folder, (1, 1))
    os.utime(folder, (1, 1))

    assert search.find(str(tmp_path), IS_SENSITIVE).sensitive == (str(tmp_path / "a/.env"),)


def test_links_are_found_and_not_followed(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.env").write_text("")
    (tmp_path / "ws/link").symlink_to(tmp_path / "out")
    (tmp_path / "ws/.env").symlink_to("missing")

    assert Search().find(str(tmp_path / "ws"), IS_SENSITIVE).sensitive == (str(tmp_path / "ws/.env"),)


def test_covered_folders_are_skipped(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.env").write_text("")

    assert Search().find(str(tmp_path), IS_SENSITIVE, (str(tmp_path / "a"),)).sensitive == ()


def test_a_tree_that_is_too_large_is_rejected(tmp_path):
    for number in range(5):
        (tmp_path / str(number)).mkdir()

    with pytest.raises(ToolError) as raised:
        Search(max_folders=5).find(str(tmp_path), IS_SENSITIVE)

    assert raised.value.code == "sandbox_unavailable"


def test_secrets_of_a_home_are_those_that_exist(tmp_path):
    for name in (".ssh", ".kube", "src", ".git"):
        (tmp_path / name).mkdir()
    for name in (".netrc", ".foo_history", ".env", ".envrc", "notes"):
        (tmp_path / name).write_text("")

    secret_names = {os.path.basename(path) for path in home_secrets(str(tmp_path), IS_SENSITIVE)}

    assert secret_names == {".ssh", ".kube", ".netrc", ".foo_history", ".env"}


def test_secrets_of_a_home_are_found_behind_links(tmp_path):
    (tmp_path / "dotfiles/cargo").mkdir(parents=True)
    (tmp_path / ".cargo").symlink_to("dotfiles/cargo")
    (tmp_path / "dotfiles/cargo/credentials.toml").write_text("")

    assert list(home_secrets(str(tmp_path), IS_SENSITIVE)) == [str(tmp_path / ".cargo/credentials.toml")]


def test_programs_in_a_home_are_found_by_name_and_by_the_search_path(tmp_path):
    home = tmp_path / "home"
    for name in (".cargo/bin", "tools/x/bin", ".local/bin", "bin", "scripts", "secret"):
        (home / name).mkdir(parents=True)
    path = os.pathsep.join(str(home / name) for name in ("tools/x/bin", ".local/bin", "bin", "scripts", "missing"))

    toolchain_folders = {os.path.relpath(folder, home) for folder in toolchains(str(home), path + ":relative")}

    assert toolchain_folders == {".cargo", "tools/x", ".local/bin", "bin", "scripts"}
