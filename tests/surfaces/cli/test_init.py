from __future__ import annotations

import json
import os

import pytest

from hilt.surfaces.cli.ancestry import hilt_above
from hilt.surfaces.cli.init import RULES
from hilt.testing import Folder
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen

PERSON = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")
PYTHON = '[project]\nname = "x"\n[tool.pytest.ini_options]\n[tool.ruff]\n'


@pytest.fixture
def home(command) -> Folder:
    """A home with the settings of one MCP host, and a project of ours as workspace."""
    command.environ["PATH"] = "/usr/bin:/bin"
    command.folder.write("pyproject.toml", PYTHON)
    home = Folder(command.environ["HOME"])
    home.write(".gemini/settings.json", '{"theme": "x"}')
    return home


def at_terminal(command: Command, *words: str) -> Screen:
    return Screen([HILT, *words], env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=200)


@PERSON
def test_one_screen_lists_the_hosts_and_only_what_is_chosen_is_written(command, home):
    home.write(".codex/config.toml", "")
    with at_terminal(command, "init") as screen:
        listed = screen.expect("[all] > ")
        screen.type("show\n")
        shown = screen.expect("[all] > ")
        screen.type("4\n")
        screen.expect("'4'" if "'4'" in screen.text else "4 is none of these.")
        screen.expect("[all] > ")
        screen.type("1, 3\n")
        status, rest = screen.end()

    titles = [line.split()[1] for line in listed.splitlines() if line[:3].strip().isdigit()]
    assert (status, titles) == (0, ["Codex", "Gemini", "rules"])
    assert ("Python; tests: pytest" in listed, "mcpServers" in listed, "mcpServers" in shown) == (True, False, True)
    assert set(command.folder.tree()) == {"pyproject.toml", ".hilt/", RULES}
    assert "hilt" in home.read(".codex/config.toml")
    assert "To take it back: " in rest
    assert "Review them now?" not in rest  # nothing but what the person has just agreed to


@PERSON
@pytest.mark.parametrize("answer", ["none\n", "\x04"])
def test_none_and_the_end_of_input_write_nothing(command, home, answer):
    with at_terminal(command, "init") as screen:
        screen.expect("[all] > ")
        screen.type(answer)
        status, rest = screen.end()

    assert (status, "Nothing was written." in rest) == (0, True)
    assert set(command.folder.tree()) == {"pyproject.toml"}


@PERSON
def test_files_of_the_project_that_need_trust_are_offered_for_review(command, home):
    command.folder.write(".hilt/hooks.yaml", "hooks: []\n")
    with at_terminal(command, "init") as screen:
        screen.expect("[all] > ")
        screen.type("\n")
        offered = screen.expect("Review them now? [y/n] > ")
        screen.type("y\n")
        screen.expect("Trust this content? [y/n] > ")
        screen.type("y\n")
        status, _ = screen.end()

    assert (status, offered.count("hooks.yaml"), RULES in offered.split("no effect")[1]) == (0, 1, False)


def test_files_of_the_project_start_hilt_from_path_and_those_of_the_user_by_its_path(command, home):
    home.write(".codex/config.toml", "")
    command.run("init", "--yes")

    assert json.loads(command.folder.read(".gemini/settings.json"))["mcpServers"]["hilt"]["command"] == "hilt"
    assert f'command = "{HILT}"' in home.read(".codex/config.toml")


def test_a_setting_for_all_projects_is_not_moved_from_another_folder(command, home):
    home.write(".config/zed/settings.json", "{}")
    first = command.run("init", "--yes").stdout.decode()
    before = home.read(".config/zed/settings.json")
    other = str(Folder(command.environ["HOME"] + "/other").write("a.txt", "x")).removesuffix("/a.txt")
    shown = command.run("init", "--print", "--workspace", other).stdout.decode()
    command.run("init", "--yes", "--workspace", other)

    assert "zed/settings.json" in first
    assert command.folder.path in before
    assert other in shown
    assert home.read(".config/zed/settings.json") == before


def test_uninstall_takes_back_what_init_wrote_in_any_project(command, home):
    project, user = command.folder.tree(), home.tree()
    command.run("init", "--yes")
    written = set(command.folder.tree())

    done = command.run("uninstall", "--purge", "--yes", cwd="/")

    assert {RULES, ".gemini/settings.json"} < written
    assert (done.returncode, command.folder.tree(), home.tree()) == (0, project, user)


def test_a_second_run_changes_nothing(command, home):
    first = command.run("init", "--yes")
    before = command.folder.tree()
    second = command.run("init", "--yes")

    assert (first.returncode, second.returncode) == (0, 0)
    assert "hilt" in json.loads(command.folder.read(".gemini/settings.json"))["mcpServers"]
    assert command.folder.tree() == before
    assert b"already has an entry" in second.stdout
    assert b"was not changed" in second.stdout


def test_print_writes_nothing(command, home):
    output = command.run("init", "--print").stdout.decode()

    assert command.folder.tree() == {"pyproject.toml": PYTHON}
    assert "Gemini CLI" not in output  # no closing lines of an entry that was not written
    assert "+    - Bash(git push:*)" in output


def test_rules_of_another_system_are_not_replaced(command, home):
    command.folder.write(".jcli/permissions.yaml", "permissions: {}\n")
    assert command.run("init", "--yes").returncode == 0
    assert not os.path.exists(command.folder.join(RULES))


@pytest.mark.parametrize(
    "link, target",
    [(".hilt", ""), (".gemini", ""), (".gemini/settings.json", "settings.json"), (RULES, "permissions.yaml")],
)
def test_nothing_is_written_through_a_link_that_leaves_the_project(command, home, tmp_path, link, target):
    outside = Folder(str(tmp_path / "outside"))
    outside.write("settings.json", "{}")
    os.makedirs(os.path.dirname(command.folder.join(link)), exist_ok=True)
    os.symlink(outside.join(target), command.folder.join(link))

    done = command.run("init", "--yes")

    # with a link to all of its settings, the project cannot be opened at all
    assert done.returncode == (1 if link == ".hilt" else 0)
    reason = f"{RULES} already exists" if link == RULES else f"{command.folder.join(link)} is a symbolic link"
    assert reason in (done.stdout + done.stderr).decode()
    assert outside.tree() == {"settings.json": "{}"}


def test_without_a_host_it_names_the_command_that_lists_them(command):
    command.environ["PATH"] = "/usr/bin:/bin"
    output = command.run("init", "--yes").stdout.decode()
    assert "mcp install" in output
    assert set(command.folder.tree()) == {".hilt/", RULES}


def test_the_proposed_rules_fit_80_columns_behind_the_bars_of_a_diff(command, home):
    command.run("init", "--yes")
    assert [line for line in command.folder.read(RULES).splitlines() if len(line) > 76] == []


def test_the_proposed_rules_are_valid_and_trusted(command, home):
    assert command.run("init", "--yes").returncode == 0
    checked = command.run("config", "check")
    assert checked.returncode == 0
    assert b"not trusted" not in checked.stdout


@pytest.mark.parametrize("request_, decision", [("ls -l", 0), ("python3 -m unittest", 0), ("git push", 3)])
def test_the_proposed_rules_add_to_what_runs_without_them(command, home, request_, decision):
    command.run("init", "--yes")
    explained = command.run("explain", json.dumps({"tool": "run_shell", "args": {"command": request_}}))
    assert explained.returncode == decision


def test_hilt_alone_on_a_terminal_names_the_first_steps(command):
    with at_terminal(command) as screen:
        status, output = screen.end()

    assert status == 0
    assert "hilt init" in output
    assert len(output.splitlines()) < 12
