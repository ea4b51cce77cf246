from __future__ import annotations

import glob
import json
import os
import tomllib

import pytest

from hilt.desk.mcp_hosts import HOSTS
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.testing import Folder
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen

PERSON = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")
OTHER = {"command": "/usr/bin/other", "args": ["mcp"]}


@pytest.fixture
def home(command) -> Folder:
    """A home where every host has an entry for hilt and one for another server."""
    home = Folder(command.environ["HOME"])
    home.write(".gemini/settings.json", json.dumps({"mcpServers": {"other": OTHER}, "theme": "x"}, indent=2))
    home.write(".codex/config.toml", '[mcp_servers.other]\ncommand = "/usr/bin/other"\n')
    for host in HOSTS:
        for scope in ("--project", "--user"):
            command.run("mcp", "install", host, scope, "--yes")
    command.run("mcp", "install", "gemini", "--user", "--name", "second", "--only-hilt", "--yes")
    command.run("call", "write_file", "path=a.txt", "content=x")
    return home


def entries(*folders: Folder) -> list[str]:
    """Return the files that still mention hilt."""
    return [
        path
        for folder in folders
        for path, text in folder.tree().items()
        if text is not None and "hilt" in text and not path.startswith("state/")
    ]


def test_purge_removes_the_entries_of_all_hosts_and_the_state_and_nothing_else(command, home):
    assert len(entries(home, command.folder)) >= len(HOSTS)

    done = command.run("uninstall", "--purge", "--yes")

    assert (done.returncode, done.stderr) == (0, b"")
    assert entries(home, command.folder) == []
    gemini = json.loads(home.read(".gemini/settings.json"))
    assert gemini == {"mcpServers": {"other": OTHER}, "theme": "x", "tools": {}}
    assert tomllib.loads(home.read(".codex/config.toml")) == {"mcp_servers": {"other": {"command": "/usr/bin/other"}}}
    assert not os.path.exists(command.state)
    assert command.folder.read("a.txt") == "x"
    assert b"The program: " in done.stdout


def test_an_entry_with_the_agents_token_is_removed_and_the_same_file_only_once(command):
    home = command.folder = Folder(command.environ["HOME"])
    Folder(command.state).write("serve-agent-token", "t" * 43)
    server = {"url": "http://127.0.0.1:7654/mcp", "headers": {"Authorization": f"Bearer {'t' * 43}"}}
    other = {"url": "http://127.0.0.1:7654/mcp", "headers": {"Authorization": "Bearer x"}}
    home.write(".cursor/mcp.json", json.dumps({"mcpServers": {"tools": server, "other": other}}))

    done = command.run("uninstall", "--purge", "--yes")

    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(home.read(".cursor/mcp.json")) == {"mcpServers": {"other": other}}


@pytest.mark.parametrize("words", [(), ("--purge", "--dry-run"), ("--dry-run",)])
def test_without_a_yes_it_only_shows_what_there_is(command, home, words):
    before = home.tree(), command.folder.tree()

    done = command.run("uninstall", *words)

    assert done.returncode == 0
    assert b".gemini/settings.json" in done.stdout
    assert command.state.encode() in done.stdout
    assert (home.tree(), command.folder.tree()) == before
    assert b"1 of 1 snapshots" in command.run("undo").stdout


@PERSON
def test_each_file_and_the_state_need_a_confirmation(command):
    home = Folder(command.environ["HOME"])
    home.write(".gemini/settings.json", '{"theme": "x"}')
    command.run("mcp", "install", "gemini", "--user", "--yes")
    command.run("mcp", "install", "cursor", "--user", "--yes")
    words = [HILT, "uninstall", "--purge"]
    with Screen(words, env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=200) as screen:
        screen.expect("Delete this file? [y/n] > ")
        screen.type("n\n")
        screen.expect("Write this? [y/n] > ")
        screen.type("y\n")
        screen.expect("Delete it? [y/n] > ")
        screen.type("n\n")
        status, _ = screen.end()

    assert status == 0
    assert "hilt" in home.read(".cursor/mcp.json")
    assert "hilt" not in home.read(".gemini/settings.json")
    assert os.path.isdir(command.state)


@PERSON
def test_an_interrupt_keeps_what_was_not_confirmed(command):
    home = Folder(command.environ["HOME"])
    command.run("mcp", "install", "gemini", "--user", "--yes")
    command.run("mcp", "install", "cursor", "--user", "--yes")
    words = [HILT, "uninstall", "--purge"]
    with Screen(words, env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=200) as screen:
        screen.expect("Delete this file? [y/n] > ")
        screen.type("\x03")
        status, rest = screen.end()

    assert (status, rest.rstrip().endswith("Interrupted; this was not done.")) == (130, True)
    assert "hilt" in home.read(".cursor/mcp.json")
    assert "hilt" in home.read(".gemini/settings.json")
    assert os.path.isdir(command.state)


def test_states_that_a_restore_has_replaced_are_deleted_too(command):
    command.run("call", "write_file", "path=a.txt", "content=x")
    backup = command.folder.join("backup.tar.gz")
    command.run("state", "backup", backup)
    command.run("state", "restore", backup, "--yes")
    [replaced] = glob.glob(f"{command.state}.before-*")

    output = command.run("uninstall").stdout.decode()
    done = command.run("uninstall", "--purge", "--yes")

    assert f"state before a restore: {replaced}, " in output
    assert f"Deleted {replaced}." in done.stdout.decode()
    assert not os.path.exists(replaced)
    assert not os.path.exists(command.state)


def test_a_refusal_without_a_terminal_names_the_whole_command(command):
    for words in (("uninstall", "--purge"), ("mcp", "install", "gemini", "--only-hilt")):
        done = command.run(*words)

        assert (done.returncode, done.stderr.split(b" requires")[0]) == (1, f"denied: hilt {' '.join(words)}".encode())
        assert done.stderr.decode().rstrip().endswith(" ".join(words))


def test_a_state_directory_with_other_files_is_not_deleted(command, tmp_path):
    command.environ["HILT_STATE_DIR"] = command.environ["HOME"] = str(tmp_path / "home")
    home = Folder(str(tmp_path / "home"))
    home.write("backups/letter.txt", "hello")
    home.write("state.txt", "mine")
    command.run("call", "write_file", "path=a.txt", "content=x")
    assert os.path.exists(home.join("state.db"))

    done = command.run("uninstall", "--purge", "--yes")

    assert done.returncode == 0
    assert b"do not belong to hilt: state.txt" in done.stdout
    assert (home.read("backups/letter.txt"), os.path.exists(home.join("state.db"))) == ("hello", True)


def test_a_state_in_use_is_not_deleted(command):
    with command.start("stdio") as session:
        session.stdin.write(b'{"tool": "list_dir", "id": 1}\n')
        session.stdin.flush()
        session.stdout.readline()
        done = command.run("uninstall", "--purge", "--yes")
        session.stdin.close()

    assert (done.returncode, b"busy" in done.stderr) == (1, True)
    assert os.path.exists(os.path.join(command.state, "trail.db.log"))


def test_a_settings_file_that_cannot_be_edited_is_named(command):
    home = Folder(command.environ["HOME"])
    line = json.dumps(["/bin/hilt"])
    home.write(".codex/config.toml", f'mcp_servers = {{ hilt = {{ command = "/bin/hilt", args = {line} }} }}\n')

    done = command.run("uninstall", "--purge", "--yes")

    assert done.returncode == 0
    assert b".codex/config.toml" in done.stdout
    assert b"by hand" in done.stdout


def test_read_only_folders_that_a_command_left_are_deleted(command: Command):
    Folder(command.state).write("sandbox/w/s/cache/mod/file", "x")
    os.chmod(os.path.join(command.state, "sandbox/w/s/cache/mod"), 0o500)
    nested = os.path.join(command.state, "layers/w/c/w0/work/incompat/volatile")
    os.makedirs(nested)
    for folder in (nested, os.path.dirname(nested), os.path.dirname(os.path.dirname(nested))):
        os.chmod(folder, 0)

    assert command.run("uninstall", "--purge", "--yes").returncode == 0
    assert not os.path.exists(command.state)
