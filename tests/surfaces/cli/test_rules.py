from __future__ import annotations

import json
import os

import pytest

from hilt.surfaces.cli.init import RULES
from tests.surfaces.commands import Command

START = "# ours\npermissions:\n  ask:\n    - Bash(git push:*) # leaves this machine\n"


def changed(command: Command, *words: str) -> str:
    done = command.run("rules", *words, "--yes")
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode()


def decision(command: Command, text: str) -> str:
    explained = command.run("explain", text, "--json")
    return str(json.loads(explained.stdout)["decision"])


def test_a_rule_is_added_listed_and_removed_and_the_rest_of_the_file_stays(command):
    command.folder.write(RULES, START)

    shown = changed(command, "add", "Bash(make deploy:*)", "--ask")
    asked = decision(command, "make deploy now")
    listed = command.run("rules").stdout.decode().splitlines()
    changed(command, "add", "Read(path:secrets/**)", "--deny")
    denied = command.folder.read(RULES)
    changed(command, "remove", "Bash(make deploy:*)")
    changed(command, "remove", "Read(path:secrets/**)")

    assert "+    - Bash(make deploy:*)\n" in shown
    assert asked == "ask"
    assert listed[0].startswith("ask    Bash(make deploy:*)  (.hilt/permissions.yaml, line 4)")
    assert "  deny:\n    - Read(path:secrets/**)\n" in denied
    assert command.folder.read(RULES) == START.replace("permissions:\n", "permissions:\n  deny:\n")
    assert decision(command, "make deploy now") == "allow"


def test_a_new_file_of_the_project_is_trusted_and_an_untrusted_one_stays_so(command):
    changed(command, "add", "Bash(make build:*)", "--allow")
    listed = command.run("rules", "--json").stdout
    assert [rule["trusted"] for rule in json.loads(listed)] == [True]
    command.folder.write(RULES, START)
    output = changed(command, "add", "Bash(make build:*)", "--allow")
    assert "no effect until you trust it" in output
    assert "no effect" in command.run("rules").stdout.decode()


def test_a_rule_of_the_user_goes_to_the_configuration_folder(command):
    changed(command, "add", "Bash:.*sudo.*", "--deny", "--user")
    assert decision(command, "sudo make") == "deny"
    assert command.folder.tree() == {}
    with open(os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml"), encoding="utf-8") as file:
        assert file.read() == 'permissions:\n  deny:\n    - "Bash:.*sudo.*"\n'


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ("add", "Bash(", "--ask")),
        ("", ("add", "Bsh(ls)", "--ask")),
        ("", ("remove", "Bash(ls)")),
        ("ask: [Read]\n", ("add", "Bash(ls)", "--ask")),
        ("ask:\n- rule: Bash(ls)\n  match: [ls]\n", ("remove", "Bash(ls)")),
    ],
)
def test_what_cannot_be_done_changes_nothing(command, text, words):
    command.folder.write(RULES, text)
    done = command.run("rules", *words, "--yes")
    assert (done.returncode, done.stdout, command.folder.read(RULES)) == (1, b"", text)
    assert len(done.stderr.splitlines()) == 2


def test_without_rules_the_list_says_how_to_add_one(command):
    assert b"rules add 'Bash(git push:*)' --ask" in command.run("rules").stdout


def test_a_command_that_changes_rules_is_dangerous(command):
    explained = json.loads(command.run("explain", "hilt rules add Bash --allow --user --yes", "--json").stdout)
    assert explained["decision"] != "allow"
