"""`hilt explain`; every surface makes the same decision with a reason."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hilt.runtime import Runtime
from tests.surfaces.commands import Command

EXITS = {"allow": 0, "ask": 3, "deny": 1}


def rules(command: Command, text: str, name: str = "permissions.yaml") -> None:
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def explained(command: Command, request: dict[str, Any], *words: str) -> dict[str, Any]:
    done = command.run("explain", json.dumps(request), "--json", *words)
    assert done.stderr == b"", done.stderr.decode()
    explanation: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == EXITS[explanation["decision"]]
    return explanation


WRITE = {"tool": "write_file", "args": {"path": "a.txt", "content": "x"}}
SHELL = {"tool": "Bash", "args": {"command": "ls; sudo make"}}


def test_the_text_names_the_decision_every_vote_and_the_line_of_the_rule(command):
    rules(command, "default: ask\nallow: [Bash]\ndeny:\n- 'Bash:.*sudo.*'\n")
    rules(command, "hooks:\n- {event: pre_tool_execution, command: touch ran, match: Bash}\n", "hooks.yaml")

    done = command.run("explain", json.dumps(SHELL))

    lines = done.stdout.decode().splitlines()
    assert done.returncode == 1
    assert lines[:3] == [
        "deny: run_shell (called Bash)",
        "  because Bash:.*sudo.* (permissions.yaml, line 4) denies this call (rules)",
        "  mode normal",
    ]
    assert "  execute  ls; sudo make" in lines
    assert "  vote     deny  rules: Bash:.*sudo.* (permissions.yaml, line 4) denies this call" in lines
    assert "  vote     ask   default: no rule allows this, and a rule file makes asking the default" in lines
    assert sum("would run" in line for line in lines) == 1
    assert command.folder.tree() == {}


@pytest.mark.parametrize(
    "text, words, request_, decision, voter, votes",
    [
        ("", (), WRITE, "allow", "default", ["default"]),
        ("allow: [Read]", (), WRITE, "allow", "default", ["default"]),
        ("default: ask", (), WRITE, "ask", "default", ["default"]),
        ("allow: [Write]", (), WRITE, "allow", "rules", ["rules", "default"]),
        ("ask: [Write]", (), WRITE, "ask", "rules", ["rules", "default"]),
        ("deny: [Write]", ("--mode", "yolo"), WRITE, "deny", "rules", ["rules", "default"]),
        ("allow_all: true", ("--mode", "plan"), WRITE, "deny", "mode", ["mode"]),
        (
            "allow_all: true",
            ("--profile", "nano"),
            {"tool": "undo", "args": {"action": "list"}},
            "deny",
            "mode",
            ["mode"],
        ),
        ("default: ask", ("--mode", "auto-accept"), WRITE, "allow", "mode", ["mode"]),
        ("default: ask", ("--mode", "scheduler"), WRITE, "deny", "default", ["default"]),
        ("", (), {"tool": "read_file", "args": {"path": "/etc/shadow"}}, "deny", "paths", ["default", "paths"]),
        (
            "",
            (),
            {"tool": "write_file", "args": {"path": ".hilt/x", "content": ""}},
            "deny",
            "paths",
            ["default", "paths"],
        ),
        ("allow: [Read", (), {"tool": "list_dir", "args": {}}, "ask", "rules", ["rules", "default"]),
    ],
)
def test_every_vote_is_shown_with_its_voter(command, text, words, request_, decision, voter, votes):
    if text:
        rules(command, text + "\n")

    explanation = explained(command, request_, *words)

    assert (explanation["decision"], explanation["voter"]) == (decision, voter)
    assert [vote["voter"] for vote in explanation["votes"]] == votes
    assert command.folder.tree() == {}


def test_a_grant_is_shown(command):
    rules(command, "default: ask\n")
    command.ask(WRITE, words=("--approve", "always"))

    explanation = explained(command, WRITE)

    assert (explanation["decision"], explanation["voter"]) == ("allow", "grants")
    assert [vote["verdict"] for vote in explanation["votes"]] == ["ask", "allow"]


@pytest.mark.parametrize(
    "words, tool, decision",
    [
        (["rm -rf ."], "run_shell", "deny"),
        (["ls -l | wc"], "run_shell", "allow"),
        (["write_file", "path=a.txt", "content=x"], "write_file", "allow"),
        (["Write", "file_path=a.txt", "content=x", "--dialect", "claude_code"], "write_file", "allow"),
        (["read_file", "path=../a.txt"], "read_file", "deny"),
        (["list_dir"], "list_dir", "allow"),
        ([json.dumps(SHELL)], "run_shell", "deny"),
    ],
)
def test_a_call_may_be_a_command_a_tool_with_arguments_or_json(command, words, tool, decision):
    done = command.run("explain", "--json", *words)

    explanation = json.loads(done.stdout)
    assert (explanation["tool"], explanation["decision"]) == (tool, decision)
    assert done.returncode == EXITS[decision]
    assert command.folder.tree() == {}


def test_an_argument_that_the_tool_does_not_have_is_an_error(command):
    done = command.run("explain", "read_file", "file=a.txt")

    assert (done.returncode, b"unknown argument 'file'" in done.stderr) == (2, True)


def test_broken_and_untrusted_files_are_noted(command):
    rules(command, "allow: [Read]\ndeny: [Wirte]\n")
    command.folder.write(".hilt/permissions.yaml", "allow: [Write]\n")
    command.folder.write(".hilt/hooks.yaml", "hooks: []\n")

    notes = explained(command, {"tool": "read_file", "args": {"path": "a"}})["notes"]

    assert len(notes) == 3
    assert "permissions.yaml, line 2" in notes[0]
    assert ".hilt/permissions.yaml is not trusted" in notes[1]
    assert ".hilt/hooks.yaml is not trusted" in notes[2]


# --- every surface ------------------------------------------------------------------------------------------------


def by_one_shot(command: Command, request: dict[str, Any], *words: str) -> dict[str, Any]:
    return command.ask(request, words=words)[0]


def by_stdio(command: Command, request: dict[str, Any], *words: str) -> dict[str, Any]:
    done = command.run("stdio", *words, input=json.dumps(request) + "\n")
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    return next(reply for reply in replies if "ok" in reply)


def by_call(command: Command, request: dict[str, Any], *words: str) -> dict[str, Any]:
    done = command.run("call", request["tool"], "--json", json.dumps(request["args"]), "--raw", *words)
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply


def by_library(command: Command, request: dict[str, Any], *words: str) -> dict[str, Any]:
    flags = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    with Runtime(command.folder.path, environ=command.environ, flags=flags) as runtime:
        result = runtime.call(request["tool"], **request["args"])
    if result.error is None:
        return {"ok": True, "meta": result.meta}
    return {"ok": False, "error_code": result.error.code, "error": result.error.message}


SURFACES = [by_one_shot, by_stdio, by_call, by_library]


@pytest.mark.parametrize("surface", SURFACES)
def test_a_broken_file_fails_closed_and_is_reported_on_every_surface(command, surface):
    rules(command, "allow:\n- Read\n  - Write\n")

    reply = surface(command, {"tool": "list_dir", "args": {}})
    approved = surface(command, {"tool": "list_dir", "args": {}}, "--approve", "once")

    assert (reply["ok"], reply["error_code"]) == (False, "approval_required")
    assert "permissions.yaml" in reply["error"]
    assert "line" in reply["error"]
    assert approved["ok"]
    assert "permissions.yaml" in str(approved["meta"]["policy"])


@pytest.mark.parametrize("surface", SURFACES)
def test_an_untrusted_file_only_tightens_and_says_so_on_every_surface(command, surface):
    command.folder.write(".hilt/permissions.yaml", "default: ask\nallow_all: true\ndeny: [Edit]\n")

    asks = surface(command, WRITE)
    reads = surface(command, {"tool": "list_dir", "args": {}})

    assert (asks["ok"], asks["error_code"]) == (False, "approval_required")
    assert ".hilt/permissions.yaml, line 2" in asks["error"]
    assert "not trusted" in asks["error"]
    assert ".hilt/permissions.yaml is not trusted" in str(reads["meta"]["policy"])


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    "words, code",
    [
        ((), None),
        (("--mode", "plan"), "denied"),
        (("--mode", "yolo"), None),
        (("--profile", "nano"), None),
        (("--approve", "deny"), None),
    ],
)
def test_the_flags_apply_on_every_surface(command, surface, words, code):
    assert surface(command, WRITE, *words).get("error_code") == code

    listed = surface(command, {"tool": "list_dir", "args": {}}, *words)
    assert listed.get("error_code") == ("denied" if "nano" in words else None)


def test_the_flags_are_forwarded_to_the_resident(short):
    assert short.run("resident", "start").returncode == 0

    for words, code in (
        ((), None),
        (("--mode", "plan"), "denied"),
        ((), None),
        (("--mode", "scheduler"), None),
        (("--profile", "nano"), None),
    ):
        assert by_one_shot(short, WRITE, *words).get("error_code") == code
    assert by_one_shot(short, {"tool": "list_dir", "args": {}}, "--profile", "nano")["error_code"] == "denied"
    rules(short, "ask: [Write]\n")
    for words, code in (
        (("--approve", "once"), None),
        (("--approve", "deny"), "USER_REJECTION"),
        (("--session", "other"), "approval_required"),
    ):
        assert by_one_shot(short, {**WRITE, "args": {"path": "b", "content": "x"}}, *words).get("error_code") == code
    assert b"calls" in short.run("resident", "status").stdout


def test_a_tool_hidden_by_a_flag_is_not_listed(command):
    for words, listed in (((), True), (("--mode", "plan"), False), (("--profile", "nano"), True)):
        names = {tool["name"] for tool in json.loads(command.run("--schema", "mcp", *words).stdout)["tools"]}
        assert ("write_file" in names) is listed
        assert ("undo" in names) is (not words)


@pytest.mark.parametrize("request_text", ["{", '{"args": {}}', '{"cancel": 1}', '{"tool": 1}'])
def test_an_invalid_request_is_reported_without_a_traceback(command, request_text):
    done = command.run("explain", request_text)

    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


GUARDED = {
    "tool.json": json.dumps(
        {
            "name": "guarded",
            "script": "run.sh",
            "runtime": "bash",
            "inputSchema": {},
            "outputSchema": {},
            "hasSecurityCheck": True,
            "securityScript": "check.sh",
        }
    ),
    "run.sh": "touch ran; echo '{}'\n",
    "check.sh": "touch ran\n",
}


@pytest.mark.parametrize("words, runs", [((), ["check.sh"]), (("--mode", "plan"), [])])
def test_a_security_script_is_named_and_not_run(command, words, runs):
    for name, text in GUARDED.items():
        rules(command, text, f"tools/guarded/{name}")
    call = json.dumps({"tool": "guarded"})

    explanation = json.loads(command.run("explain", call, "--json", *words).stdout)
    text = command.run("explain", call, *words).stdout.decode()

    assert explanation["scripts_would_run"] == runs
    assert ("  script   would run: check.sh" in text.splitlines()) == bool(runs)
    assert command.folder.tree() == {}


@pytest.mark.parametrize("who, status, decision", [("", 0, "allow"), ("plain", 3, "ask"), ("a; id", 3, "ask")])
def test_a_value_that_a_script_would_run_as_code_is_reported(command, who, status, decision):
    keys = "name: hello\ndescription: d\napproval: never\nparameters:\n  who: {type: string}\n"
    rules(command, f'---\n{keys}---\nsh -c "echo {{{{ who }}}}"\n', "tools/hello.md")

    done = command.run("explain", json.dumps({"tool": "hello", "args": {"who": who}}), "--json")

    explanation = json.loads(done.stdout)
    assert (done.returncode, explanation["decision"]) == (status, decision)
    assert ("as code" in explanation["votes"][-1]["reason"]) == (decision == "ask")
