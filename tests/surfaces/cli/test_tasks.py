from __future__ import annotations

import json
from typing import Any

import pytest

from tests.surfaces.commands import Command


def out(command: Command, *words: str) -> str:
    done = command.run("tasks", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def data(command: Command, *words: str) -> Any:
    return json.loads(out(command, *words, "--json"))


def test_tasks_are_added_listed_shown_and_updated(command):
    assert out(command) == "There are no tasks. To add one: hilt tasks add TITLE\n"
    out(command, "add", "Design", "--owner", "ann")
    out(command, "add", "Build", "--blocked-by", "1", "--description", "First line\n\x1b[31msecond")

    listed = out(command, "list").splitlines()
    assert [line.split() for line in listed[2:]] == [["1", "ready", "ann", "Design"], ["2", "pending", "1", "Build"]]
    assert [line.split() for line in out(command, "list", "--ready").splitlines()[2:]] == [listed[2].split()]
    assert out(command, "show", "2").endswith("Build\n\nFirst line\n[31msecond\n")
    done = out(command, "update", "1", "--status", "completed")
    assert [line.split()[:2] for line in done.splitlines()[2:]] == [["1", "completed"], ["2", "ready"]]


def test_json_output_is_the_result_of_the_tool(command):
    assert data(command) == {"tasks": []}
    assert data(command, "add", "Design")["task"]["id"] == 1
    assert data(command, "add", "Build", "--blocked-by", "1")["task"]["blockedBy"] == [1]
    assert data(command, "update", "1", "--status", "completed")["became_ready"] == [{"id": 2, "title": "Build"}]
    assert data(command, "show", "2")["task"]["ready"] is True
    assert [task["id"] for task in data(command, "list", "--status", "completed")["tasks"]] == [1]
    changed = data(command, "update", "2", "--title", "Make", "--owner", "bob", "--blocked-by", "none")["task"]
    assert (changed["title"], changed["owner"], changed["blockedBy"]) == ("Make", "bob", [])
    assert [task["id"] for task in data(command, "--owner", "bob")["tasks"]] == [2]


def test_a_long_list_is_shown_in_full(command):
    requests = [{"tool": "task", "args": {"action": "create", "title": f"t{number}"}} for number in range(250)]
    command.ask(*requests)

    assert [task["id"] for task in data(command)["tasks"]] == list(range(1, 251))
    assert "t249" in out(command)


@pytest.mark.parametrize(
    "words, status, reason",
    [
        (["show", "9"], 1, "not_found: There is no task 9."),
        (["show", "x"], 1, "invalid_args"),
        (["show"], 2, "missing required argument: ID"),
        (["add"], 2, "missing required argument: TITLE"),
        (["add", " "], 1, "title is empty"),
        (["add", "x", "--blocked-by", "1,"], 1, "blockedBy"),
        (["add", "x", "--blocked-by", "7"], 1, "There is no task 7."),
        (["update", "1"], 2, "nothing to change"),
        (["update", "1", "--status", "done"], 2, "--status takes pending, in_progress, completed"),
        (["update", "1", "--blocked-by", "1"], 1, "the cycle 1 → 1"),
        (
            ["update", "1", "--status", "in_progress", "--owner", "bob"],
            1,
            "busy: Task 1 is reserved; its owner is ann.",
        ),
        (["delete", "1"], 2, "unknown command 'delete' for hilt tasks"),
    ],
)
def test_invalid_input_is_reported(command, words, status, reason):
    out(command, "add", "Design", "--owner", "ann")

    for extra in ([], ["--json"]):
        done = command.run("tasks", *words, *extra)
        assert (done.returncode, done.stdout) == (status, b"")
        assert reason in done.stderr.decode()
    assert len(data(command)["tasks"]) == 1


def test_another_dialect_changes_nothing(command):
    done = command.run("tasks", "add", "Design", "--dialect", "jcli", "--json")

    assert json.loads(done.stdout)["task"]["id"] == 1
