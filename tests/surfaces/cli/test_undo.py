from __future__ import annotations

import json
import os

import pytest

from tests.surfaces.commands import HILT
from tests.surfaces.terminals import Screen, bare


@pytest.fixture(autouse=True)
def file(command):
    command.folder.write("a.txt", "one\ntwo\nthree\n")


def test_undo_lists_previews_restores_and_clears(command):
    command.run("call", "write_file", "path=a.txt", "content=new\n")

    listed = command.run("undo").stdout.decode()
    id = listed.split()[0]
    preview = command.run("undo", "preview", id[:5])
    assert b"new" in preview.stdout
    restored = command.run("undo", "restore", id)
    cleared = command.run("undo", "clear")

    assert "write_file" in listed
    assert "1 of 1 snapshots" in listed
    assert restored.returncode == 0
    assert command.folder.read("a.txt") == "one\ntwo\nthree\n"
    assert b"cleared 2 snapshots" in cleared.stdout
    assert command.run("undo", "restore", id).returncode == 1
    assert json.loads(command.run("undo", "list", "--raw").stdout)["ok"]


def change(command) -> str:
    """Change two files with one call and return the id of the change."""
    edits = (
        '[{"path": "a.txt", "old_text": "two", "new_text": "2"}, {"path": "b.txt", "old_text": "b", "new_text": "B"}]'
    )
    command.folder.write("b.txt", "b\n")
    assert command.run("call", "multi_edit", f"edits={edits}").returncode == 0
    return str(json.loads(command.run("undo", "--json").stdout)["snapshots"][0]["id"])


def test_the_last_change_is_shown_and_undone_after_a_yes(command):
    id = change(command)
    with Screen([HILT, "undo", "last"], env=command.environ, cwd=command.folder.path) as screen:
        output = screen.expect("Undo it? [y/n] > ")
        assert command.folder.read("a.txt") == "one\n2\nthree\n"
        screen.type("y\n")
        status, text = screen.end()

    assert f"multi_edit {id}, " in output
    assert all(part in bare(output) for part in ("a.txt", "b.txt", "- 2", "+ two"))
    assert (status, "restored 2 files" in text) == (0, True)
    assert command.folder.read("a.txt") == "one\ntwo\nthree\n"
    assert command.folder.read("b.txt") == "b\n"


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
def test_any_answer_but_yes_undoes_nothing(command, answer):
    change(command)
    with Screen([HILT, "undo", "last"], env=command.environ, cwd=command.folder.path) as screen:
        screen.expect("[y/n] > ")
        screen.type(answer)
        status, text = screen.end()

    assert (status, "Nothing was undone." in text) == (1, True)
    assert command.folder.read("a.txt") == "one\n2\nthree\n"


@pytest.mark.parametrize("words", [("last", "--yes"), ("restore", "ID")])
def test_rules_that_ask_by_default_ask_the_person_at_the_terminal(command, words):
    id = change(command)
    os.makedirs(command.environ["HILT_CONFIG_DIR"], exist_ok=True)
    with open(os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml"), "w", encoding="utf-8") as rules:
        rules.write("default: ask\nallow: ['Bash(echo:*)']\n")
    words = tuple(word.replace("ID", id) for word in words)
    with Screen([HILT, "undo", *words], env=command.environ, cwd=command.folder.path) as screen:
        assert "undo" in bare(screen.expect(" > "))
        screen.type("y\n")
        status, text = screen.end()

    assert (status, "restored 2 files" in text) == (0, True)
    assert command.folder.read("a.txt") == "one\ntwo\nthree\n"


def test_without_a_terminal_only_the_yes_flag_undoes(command):
    change(command)

    asked = command.run("undo", "last", input=b"y\n")
    assert (asked.returncode, b"--yes" in asked.stdout) == (1, True)
    assert command.folder.read("a.txt") == "one\n2\nthree\n"

    assert command.run("undo", "last", "--yes").returncode == 0
    assert command.folder.read("a.txt") == "one\ntwo\nthree\n"


def test_the_last_change_may_be_an_undo(command):
    change(command)

    for text in ("one\ntwo\nthree\n", "one\n2\nthree\n", "one\ntwo\nthree\n"):
        assert command.run("undo", "last", "--yes").returncode == 0
        assert command.folder.read("a.txt") == text


def test_with_json_the_last_change_is_only_shown_without_the_yes_flag(command):
    id = change(command)

    preview = json.loads(command.run("undo", "last", "--json").stdout)
    assert (preview["id"], preview["operation"], preview["restored"]) == (id, "multi_edit", False)
    assert "+two" in preview["diff"]
    assert command.folder.read("a.txt") == "one\n2\nthree\n"

    done = json.loads(command.run("undo", "last", "--json", "--yes").stdout)
    assert (done["id"], done["restored"], sorted(done["files"])) == (id, True, ["a.txt", "b.txt"])
    assert command.folder.read("a.txt") == "one\ntwo\nthree\n"


def test_without_changes_there_is_nothing_to_undo(command):
    done = command.run("undo", "last", "--yes")

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"not_found: ")


@pytest.mark.parametrize("words", [["list"], ["preview", "ID"], ["restore", "ID"], ["clear"]])
def test_every_output_is_available_as_json(command, words):
    id = change(command)

    done = command.run("undo", *(id if word == "ID" else word for word in words), "--json")

    assert done.returncode == 0
    assert isinstance(json.loads(done.stdout), dict)
