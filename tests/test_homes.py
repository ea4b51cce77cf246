from __future__ import annotations

import os

import pytest

from hilt.homes import Homes, find_homes


@pytest.fixture
def home(tmp_path) -> str:
    path: str = os.path.realpath(tmp_path / "home")
    os.makedirs(path)
    return path


def homes_of(home: str, *roots: str, lifted: tuple[str, ...] = (), path: str = "/usr/bin") -> Homes:
    return find_homes(roots or (home,), {"HOME": home, "PATH": path}, lifted)


@pytest.mark.parametrize(
    "name",
    [
        *(".bashrc", ".bashrc.d", ".oh-my-zsh", ".ipython", ".vscode-server", ".psqlrc", ".config", ".local", ".npm"),
        *("bin", "go/bin", "BIN", ".Config", ".a-name-that-no-list-has", ".venv2", ".gitconfig", "tools/bin"),
    ],
)
def test_hidden_names_and_folders_of_programs_are_protected(home, name):
    homes = homes_of(home, os.path.dirname(home), path=f"/usr/bin:{home}/tools/bin")

    assert homes.protects(f"{home}/{name}")


@pytest.mark.parametrize(
    "name", ["", "notes", ".cache", ".venv", ".git", ".github", "proj", "proj/.envrc", "proj/bin", "sub/go/bin", "go"]
)
def test_the_rest_of_a_home_directory_is_not(home, name):
    assert not homes_of(home).protects(os.path.join(home, name).rstrip("/"))
    assert not homes_of(home).protects(os.path.dirname(home))


def test_a_user_exempts_names_and_paths(home):
    homes = homes_of(home, lifted=(".npm", ".Config/tool/data"))

    protected = [".config/other", ".config/tool/x", ".local"]
    free = [".npm", ".npm/x", ".config", ".config/tool", ".config/tool/data", ".config/tool/data/x", "notes"]
    assert [name for name in protected if not homes.protects(f"{home}/{name}")] == []
    assert [name for name in free if homes.protects(f"{home}/{name}")] == []


def test_a_project_in_a_home_directory_has_no_protected_home(home):
    project = f"{home}/project"

    assert homes_of(home, project, path=f"{project}/.venv/bin") == Homes()
    assert homes_of(home, "/srv/project") == Homes()


@pytest.mark.parametrize("inner", [".config", ".local"])
def test_a_folder_of_settings_as_the_workspace_protects_each_name_in_it(home, inner):
    homes = homes_of(home, f"{home}/{inner}")

    assert homes.protects(f"{home}/{inner}/fish")
    assert not homes.protects(f"{home}/{inner}/fish/x")
    assert not homes.protects(f"{home}/{inner}")


def test_a_hidden_folder_as_the_workspace_is_writable_except_its_folders_of_programs(home):
    homes = homes_of(home, f"{home}/.tool/work", path=f"{home}/.tool/work/bin")

    assert not homes.protects(f"{home}/.tool/work/src")
    assert homes.protects(f"{home}/.tool/work/bin")


def test_the_homes_of_other_users_are_protected(home):
    homes = find_homes(("/",), {"HOME": home}, ())

    assert "/root" in homes.folders
    assert homes.protects(os.path.join("/root", ".bashrc"))
    assert find_homes(("/root",), {"HOME": home}, ()).protects(os.path.join("/root", ".bashrc"))


def test_the_targets_of_links_are_protected(home):
    os.makedirs(f"{home}/dotfiles")
    for name, target in {
        ".bashrc": "dotfiles/bashrc",
        ".all": ".",
        ".up": "..",
        ".out": "/etc",
        "x": "dotfiles",
    }.items():
        os.symlink(target, f"{home}/{name}")
    homes = homes_of(home)

    assert homes.paths == {f"{home}/dotfiles/bashrc"}


@pytest.mark.parametrize(
    "link", [".config/editor", ".local/bin/tool", ".vim/plugin/x", ".config/systemd/user/x.service"]
)
def test_the_targets_of_links_in_hidden_folders_are_protected(home, link):
    os.makedirs(os.path.dirname(f"{home}/{link}"))
    os.makedirs(f"{home}/dotfiles/x")
    os.symlink(f"{home}/dotfiles/x", f"{home}/{link}")

    assert homes_of(home).protects(f"{home}/dotfiles/x")
    assert not homes_of(home).protects(f"{home}/dotfiles")


def test_links_on_the_way_to_a_target_are_protected(home):
    os.makedirs(f"{home}/project/shell")
    os.symlink("current/bashrc", f"{home}/.bashrc")
    os.symlink("project/shell", f"{home}/current")
    os.symlink("x", f"{home}/project/shell/bashrc")
    os.symlink(".again", f"{home}/.again")

    assert homes_of(home).paths == {f"{home}/current", f"{home}/project/shell/bashrc", f"{home}/project/shell/x"}


@pytest.mark.parametrize("link", [".npm-global/lib/node_modules/package", ".cache/link", ".venv/bin/tool"])
def test_other_links_leave_a_project_writable(home, link):
    os.makedirs(os.path.dirname(f"{home}/{link}"))
    os.makedirs(f"{home}/project")
    os.symlink(f"{home}/project", f"{home}/{link}")

    assert not homes_of(home).protects(f"{home}/project")
