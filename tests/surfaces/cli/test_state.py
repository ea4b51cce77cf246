from __future__ import annotations

import json
import os
import time

import pytest

from hilt.surfaces.cli.ancestry import hilt_above
from hilt.testing import Folder
from tests.surfaces.commands import HILT
from tests.surfaces.terminals import Screen

PERSON = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")


def test_show_lists_what_is_stored_where_and_how_large_it_is(command):
    command.run("call", "write_file", "path=a.txt", "content=x")
    Folder(command.state).write("overflow/w/s/1.txt", b"x" * 100_000)
    Folder(command.state).write("notes.txt", "mine")

    text = command.run("state").stdout.decode()
    data = json.loads(command.run("state", "show", "--json").stdout)

    parts = {part["name"]: part for part in data["parts"]}
    assert data["directory"] == command.state
    assert data["quota_bytes"] == 5 << 30
    assert 100_000 <= parts["output"]["bytes"] < 120_000
    assert (parts["undo"]["in_backup"], parts["other"]["names"]) == (True, ["notes.txt"])
    assert data["bytes"] == sum(part["bytes"] for part in data["parts"])
    assert "of 5 GB (state.mb)" in text
    assert [line for line in text.splitlines() if len(line) > 80 and "/" not in line] == []
    assert "undo.calls and undo.mb for each folder" in text


def test_files_of_hilt_are_not_listed_as_other_files(command):
    command.folder.write("a.txt", "one")
    command.run("call", "run_shell", "command=rm a.txt", "force=true")
    data = json.loads(command.run("state", "show", "--json").stdout)

    parts = {part["name"]: part["names"] for part in data["parts"]}
    assert parts["layers"] in (["layers"], [])  # without an overlay there are none
    assert parts["other"] == []


def test_a_backup_is_restored_and_the_replaced_state_kept(command):
    command.run("call", "write_file", "path=a.txt", "content=one")
    saved = command.run("state", "backup", "saved.tar.gz")
    command.run("undo", "clear")

    restored = command.run("state", "restore", "saved.tar.gz", "--yes")

    assert (saved.returncode, restored.returncode) == (0, 0), restored.stderr
    assert b"a.txt (created)" in command.run("undo").stdout
    [old] = [name for name in os.listdir(os.path.dirname(command.state)) if name.startswith("state.before-")]
    assert old.encode() in restored.stdout
    assert old.encode() in command.run("state").stdout
    assert command.run("audit", "verify").stdout == b"The audit trail is intact.\n"


@PERSON
def test_a_restore_prompts_first(command):
    command.run("call", "write_file", "path=a.txt", "content=one")
    command.run("state", "backup", "saved.tar.gz")
    command.run("undo", "clear")

    words = [HILT, "state", "restore", "saved.tar.gz"]
    with Screen(words, env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=200) as screen:
        output = screen.expect("Restore it? [y/n] > ")
        screen.type("n\n")
        status, rest = screen.end()

    assert (status, "Nothing was changed." in rest, command.state in output) == (1, True, True)
    assert b"0 of 0 snapshots" in command.run("undo").stdout


def test_clean_deletes_old_undo_data_of_all_folders_on_request(command, tmp_path):
    command.run("call", "write_file", "path=a.txt", "content=one")
    (tmp_path / "other").mkdir()
    command.run("call", "write_file", "path=b.txt", "content=two", cwd=str(tmp_path / "other"))

    unchanged = command.run("state", "clean", "--undo-days", "1")
    before = command.run("undo").stdout
    time.sleep(0.01)
    cleaned = command.run("state", "clean", "--undo-days", "0")

    assert (unchanged.returncode, b"snapshots" in unchanged.stdout) == (0, False)
    assert b"1 of 1 snapshots" in before
    assert b"deleted 2 undo snapshots" in cleaned.stdout
    assert b"0 of 0 snapshots" in command.run("undo").stdout
    assert b"0 of 0 snapshots" in command.run("undo", cwd=str(tmp_path / "other")).stdout


def test_clean_says_how_to_get_below_the_quota_if_only_undo_data_remains(command):
    command.environ["HILT_STATE_MB"] = "1"
    command.folder.write("a.bin", os.urandom(3 << 20))
    command.run("call", "write_file", "path=a.bin", "content=x", "force=true")

    done = command.run("state", "clean")

    assert b"of 1 MB (state.mb)" in command.run("doctor").stdout
    assert done.returncode == 1
    assert b"state clean --undo-days 30" in done.stdout


@pytest.mark.parametrize("words", [("backup", "a/b.tar.gz"), ("restore", "none.tar.gz", "--yes"), ("restore", ".")])
def test_a_file_that_cannot_be_read_or_written_is_reported(command, words):
    command.run("call", "read_file", "path=a.txt")

    done = command.run("state", *words)

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
