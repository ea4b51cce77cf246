from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator

import pytest

from hilt.call import ApprovalRequest
from hilt.config import digest
from hilt.formats.digests import sha256
from hilt.sandbox.capturing import run
from hilt.sandbox.spawning import Limits
from hilt.state.approvals import Approvals
from hilt.state.trust import Trust
from hilt.surfaces.cli.ancestry import hilt_above
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen, bare
from tests.trusting import file_at

pytestmark = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes have names of their own on Linux only")
ASKED = ApprovalRequest(
    "run_shell",
    {"command": "make install"},
    "a rule asks",
    "command",
    command="make install",
    risk="caution",
    rules=("run_shell(/make install/)",),
    workspace="/homes/me/project",
    session="default",
)


@pytest.fixture
def approvals(command) -> Iterator[Approvals]:
    store = Approvals(command.state)
    yield store
    store.close()


@pytest.fixture
def id(command, approvals) -> str:
    """The id of a pending approval."""
    workspace = digest(os.path.realpath(command.folder.path))
    pending: str = approvals.ask(workspace, "default", "d", ASKED, seconds=600).id
    return pending


def at_terminal(command: Command, *words: str, **options: bool) -> Screen:
    env = {**command.environ, "TERM": "dumb"}
    return Screen([HILT, *words], env=env, cwd=command.folder.path, **options)


def status_and_text(command: Command, *words: str) -> tuple[int, str]:
    """Run the command without typing anything; return its exit status and output."""
    with at_terminal(command, *words) as screen:
        return screen.end()


# --- approve and deny ---------------------------------------------------------------------------------------------


def test_pending_approvals_are_listed(command, approvals, id):
    approvals.ask("w", "other", "e", ASKED._replace(command="x\x1b[2J" + "y" * 500), seconds=600)

    status, text = status_and_text(command, "approve")

    assert status == 0
    assert f"{id}  run_shell  (9 min left)  /homes/me/project, session default\n| make install\n" in text
    assert "why: a rule asks" in text
    assert "| x␛[2Jyyy" in text
    assert "…" in text
    assert "hilt approve ID" in text


def test_pending_approvals_are_listed_for_one_workspace(command, approvals, id):
    other = approvals.ask("w", "s", "e", ASKED, seconds=600).id

    text = status_and_text(command, "approve", "--workspace", ".")[1]

    assert (id in text, other in text) == (True, False)


def test_an_empty_list_of_approvals_says_so(tmp_path):
    command = Command(str(tmp_path))

    assert status_and_text(command, "approve") == (
        0,
        "No calls are waiting for approval. What was asked before: hilt log\n",
    )
    assert not os.path.exists(command.state)


@pytest.mark.parametrize(
    "typed, status, state, rules",
    [
        (["y"], 0, "approved", 0),
        (["a"], 0, "approved", 1),
        (["n", "use make check"], 1, "denied", 0),
        (["maybe", "y"], 0, "approved", 0),
        (["\x04"], 1, "denied", 0),
    ],
)
def test_an_approval_is_shown_and_answered(command, approvals, id, typed, status, state, rules):
    with at_terminal(command, "approve", id[:8]) as screen:
        page = screen.expect(" > ")
        screen.type(typed[0] + ("" if typed[0] == "\x04" else "\n"))
        for line in typed[1:]:
            screen.expect(": " if typed[0] == "n" else " > ")
            screen.type(line + "\n")
        ended, rest = screen.end()

    assert "| make install" in page
    assert "always  run_shell(/make install/)" in page
    approval = approvals.find(id)
    assert (ended, approval.state, len(approvals.grants())) == (status, state, rules)
    assert approval.answered_by == "terminal"
    if typed[0] == "n":
        assert approval.reason == "use make check"
    if status == 0:
        assert f"hilt deny {id}" in rest


@pytest.mark.parametrize("flag, rules", [("--once", []), ("--always", ["run_shell(/make install/)"])])
def test_a_flag_answers_without_a_prompt(command, approvals, id, flag, rules):
    status, text = status_and_text(command, "approve", id, flag)

    assert (status, approvals.find(id).state) == (0, "approved")
    assert "| make install" in text
    assert [grant.rule for grant in approvals.grants()] == rules
    assert all(rule in text for rule in rules)


@pytest.mark.parametrize("words", [("--for", "8h"), ("--always", "--for=8h"), ("--for", "8h", "--always")])
def test_a_call_may_be_allowed_for_some_time(command, approvals, id, words):
    before = time.time_ns()
    status, text = status_and_text(command, "approve", id, *words)
    after = time.time_ns()

    (grant,) = approvals.grants()
    assert (status, approvals.find(id).state, grant.rule) == (0, "approved", "run_shell(/make install/)")
    assert before <= grant.expires_at - 8 * 3600 * 10**9 <= after
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(grant.expires_at // 10**9))
    assert f"Allowed here until {until}: run_shell(/make install/)" in text


def test_an_interrupt_answers_nothing(command, approvals, id):
    with at_terminal(command, "approve", id) as screen:
        screen.expect(" > ")
        screen.type("\x03")
        status, rest = screen.end()

    assert (status, rest.rstrip().endswith("Interrupted; the call was not answered.")) == (130, True)
    assert approvals.find(id).state == "pending"


def test_a_call_can_be_reviewed_without_answering(command, approvals):
    asked = ASKED._replace(command="".join(f"echo {number}\n" for number in range(100)))
    id = approvals.ask("w", "s", "e", asked, seconds=600).id

    status, text = status_and_text(command, "approve", "show", id)

    assert (status, text.count("| echo ")) == (0, 100)
    assert approvals.find(id).state == "pending"


def test_a_call_is_denied_with_a_reason(command, approvals, id):
    assert status_and_text(command, "deny", id, "--reason", "not today") == (0, "Denied: run_shell, make install\n")

    approval = approvals.find(id)
    assert (approval.state, approval.reason, approval.answered_by) == ("denied", "not today", "terminal")


def test_an_unused_approval_is_withdrawn(command, approvals, id):
    approvals.answer(id, approved=True, by="console", always=True)

    status, text = status_and_text(command, "deny", id)

    assert (status, approvals.find(id).state) == (0, "denied")
    assert "hilt grants" in text


@pytest.mark.parametrize("words", [["approve"], ["deny"]])
def test_an_approval_that_is_not_pending_cannot_be_answered(command, approvals, id, words):
    approvals.answer(id, approved=False, by="console")

    for name in (id, "abcdef", "\x1b[2J"):
        status, text = status_and_text(command, *words, name)
        assert status == 1
        assert text.startswith("not_found: ")
        assert "\x1b" not in text
    assert approvals.find(id).answered_by == "console"


@pytest.mark.parametrize(
    "words",
    [
        ["approve", "a", "b"],
        ["approve", "--always"],
        ["approve", "show"],
        ["approve", "ab", "--never"],
        ["approve", "ab", "--for"],
        ["approve", "ab", "--for", "8"],
        ["approve", "ab", "--for", "0h"],
        ["approve", "ab", "--for", "-1h"],
        ["approve", "ab", "--for", "99999999999999999d"],
        ["approve", "ab", "--once", "--for", "8h"],
        ["approve", "--for", "8h"],
        ["approve", "show", "ab", "--for", "8h"],
        ["deny"],
        ["deny", "--reason", "x"],
        ["deny", "a", "b"],
        ["deny", "a", "--reason"],
        ["grants", "revoke"],
        ["grants", "x"],
        ["trust", "revoke"],
        ["trust", "--all"],
        ["trust", "a", "b"],
    ],
)
def test_a_usage_error_is_reported(command, words):
    status, text = status_and_text(command, *words)

    assert (status, text.startswith("hilt: ")) == (2, True)


# --- grants -------------------------------------------------------------------------------------------------------


def test_grants_are_listed_and_revoked(command, approvals):
    assert status_and_text(command, "grants") == (
        0,
        "There are no grants: the answer always to an approval stores one.\n",
    )
    grant = approvals.add_grant(
        "w", "Bash(\x1b[2Jmake:*)", by="me", folder="/homes/me/p", expires=time.time_ns() + 10**15
    )
    other = approvals.add_grant("v", "Read", by="me")

    text = status_and_text(command, "grants", "list")[1]
    assert f"{grant.id}  Bash(␛[2Jmake:*)\n  in /homes/me/p, since " in text
    assert ", until " in text
    assert (
        status_and_text(command, "grants", "--workspace", ".")[1]
        == "There are no grants: the answer always to an approval stores one.\n"
    )

    listed = json.loads(status_and_text(command, "grants", "--json")[1])
    assert [(item["id"], item["rule"], item["folder"]) for item in listed] == [
        (grant.id, "Bash(\x1b[2Jmake:*)", "/homes/me/p"),
        (other.id, "Read", None),
    ]

    assert status_and_text(command, "grants", "revoke", grant.id[:8]) == (0, "No longer allowed: Bash(␛[2Jmake:*)\n")
    assert approvals.grants() == [other]
    assert status_and_text(command, "grants", "revoke", grant.id)[0] == 1


# --- trust --------------------------------------------------------------------------------------------------------


def trusts(command: Command, name: str, kind: str = "rules") -> bool:
    trust = Trust(command.state)
    try:
        return trust.is_trusted(file_at(command.folder.join(name), kind), sha256(command.folder.bytes(name)))
    finally:
        trust.close()


RULES = ".hilt/permissions.yaml"


@pytest.mark.parametrize(
    "typed, trusted", [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("\x04", False)]
)
def test_a_file_is_shown_before_it_is_trusted(command, typed, trusted):
    command.folder.write(RULES, "allow:\n  - Bash:\x1b[8mrm.*\n")

    with at_terminal(command, "trust", RULES) as screen:
        page = screen.expect(" > ")
        screen.type(typed)
        status, _ = screen.end()

    assert f"{command.folder.join(RULES)} (rules)" in page.replace("\n", "")
    assert "|   - Bash:␛[8mrm.*\n" in page
    assert (status, trusts(command, RULES)) == (0 if trusted else 1, trusted)


def test_an_interrupt_trusts_nothing_and_ends_the_review(command):
    command.folder.write(RULES, "deny: []\n")
    command.folder.write(".mcp.json", "{}")

    with at_terminal(command, "trust", ".") as screen:
        screen.expect(" > ")
        screen.type("\x03")
        status, rest = screen.end()

    assert (status, rest.rstrip().endswith("Interrupted; this was not done.")) == (130, True)
    assert (trusts(command, RULES), trusts(command, ".mcp.json", "servers")) == (False, False)


def test_the_difference_is_shown_when_a_trusted_file_changed(command):
    command.folder.write(RULES, "deny:\n  - Bash\nask:\n  - Read\n")
    trust = Trust(command.state)
    trust.trust(file_at(command.folder.join(RULES), "rules"), command.folder.bytes(RULES))
    trust.close()
    assert status_and_text(command, "trust", RULES)[1].endswith("is already trusted.\n")
    command.folder.write(RULES, "allow:\n  - Bash\nask:\n  - Read\n")
    assert "no longer trusted" in status_and_text(command, "trust", "list")[1]

    with at_terminal(command, "trust", RULES) as screen:
        page = screen.expect(" > ")
        screen.type("y\n")
        assert screen.end()[0] == 0

    assert "| -deny:\n| +allow:\n" in page
    assert trusts(command, RULES)


def test_the_trusted_content_is_the_shown_content(command):
    command.folder.write(RULES, "deny: []\n")

    with at_terminal(command, "trust", RULES) as screen:
        screen.expect(" > ")
        command.folder.write(RULES, "allow_all: true\n")
        screen.type("y\n")
        assert screen.end()[0] == 0

    assert not trusts(command, RULES)


def test_a_project_is_trusted_file_by_file(command):
    command.folder.write(RULES, "deny: []\n")
    command.folder.write(".mcp.json", "{}")
    listed = status_and_text(command, "trust")[1].replace("\n", "")
    assert "permissions.yaml  rules, not trusted" in listed
    assert ".mcp.json  servers, not trusted" in listed

    with at_terminal(command, "trust", ".") as screen:
        screen.expect("permissions.yaml")
        screen.expect(" > ")
        screen.type("y\n")
        screen.expect(".mcp.json")
        screen.expect(" > ")
        screen.type("n\n")
        assert screen.end()[0] == 1

    assert (trusts(command, RULES), trusts(command, ".mcp.json", "servers")) == (True, False)


@pytest.mark.parametrize("link", [".hilt", RULES])
def test_a_link_cannot_be_trusted(command, link):
    command.folder.write("real/.hilt/permissions.yaml", "deny: []\n")
    path = command.folder.join(link)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(command.folder.join(f"real/{link}"), path)

    status, text = status_and_text(command, "trust", RULES)

    assert status == 1
    assert f"{path} is a symbolic link" in text.replace("\n", "")
    assert "replace it with a copy" in text.replace("\n", " ")
    assert not trusts(command, RULES)


def test_a_link_does_not_keep_the_other_files_of_a_project_from_review(command):
    command.folder.write("AGENTS.md", "Be kind.\n")
    command.folder.write("other/.mcp.json", "{}")
    command.folder.write(RULES, "deny: []\n")
    os.symlink("AGENTS.md", command.folder.join("CLAUDE.md"))
    os.symlink("other/.mcp.json", command.folder.join(".mcp.json"))

    with at_terminal(command, "trust", ".") as screen:
        for _ in range(2):
            screen.expect("Trust this content? [y/n] > ")
            screen.type("y\n")
        status, _ = screen.end()

    assert status == 1
    assert f"{command.folder.join('.mcp.json')} is a symbolic link" in screen.text.replace("\r", "").replace("\n", "")
    assert "CLAUDE.md" not in screen.text
    assert trusts(command, RULES)
    assert trusts(command, "AGENTS.md", "instructions")


def test_the_scripts_of_hooks_are_trusted_with_their_file(command):
    command.folder.write(".hilt/hooks.yaml", "hooks: []\n")
    command.folder.write(".hilt/hooks/deep/check.sh", "exit 2\n")
    listed = status_and_text(command, "trust")[1].replace("\n", "")
    assert "hooks.yaml  hooks, not trusted" in listed
    assert "hooks/deep/check.sh  hooks, not trusted" in listed

    with at_terminal(command, "trust", ".") as screen:
        for _ in range(2):
            screen.expect("Trust this content? [y/n] > ")
            screen.type("y\n")
        status = screen.end()[0]

    assert status == 0
    assert trusts(command, ".hilt/hooks.yaml", "hooks")
    assert trusts(command, ".hilt/hooks/deep/check.sh", "hooks")


def test_rules_of_a_folder_above_are_listed(command):
    rules = os.path.join(os.path.dirname(command.folder.path), ".hilt", "permissions.yaml")
    os.makedirs(os.path.dirname(rules))
    with open(rules, "w", encoding="utf-8") as file:
        file.write("allow: [Write]\n")

    assert "permissions.yaml  rules, not trusted" in status_and_text(command, "trust")[1].replace("\n", "")


def test_trust_is_revoked(command):
    command.folder.write(RULES, "deny: []\n")
    trust = Trust(command.state)
    trust.trust(file_at(command.folder.join(RULES), "rules"), b"deny: []\n")
    trust.close()

    assert status_and_text(command, "trust", "revoke", RULES) == (0, f"No longer trusted: {RULES}\n")
    assert not trusts(command, RULES)
    assert status_and_text(command, "trust", "revoke", RULES)[0] == 1


@pytest.mark.parametrize(
    "name, code",
    [
        ("AGENTS.md", "file_not_found"),
        ("CLAUDE.md", "not_a_file"),
        (".mcp.json", "file_too_large"),
        ("empty", "not_found"),
        ("other", "not_found"),
    ],
)
def test_a_path_that_cannot_be_trusted_is_reported(command, name, code):
    os.mkfifo(command.folder.join("CLAUDE.md"))
    os.mkdir(command.folder.join("empty"))
    command.folder.write("other", "text")
    command.folder.write(".mcp.json", b"x" * (1024 * 1024 + 1))

    status, text = status_and_text(command, "trust", name)

    assert (status, text.partition(":")[0]) == (1, code)


def test_nothing_is_trusted_in_an_empty_project(command):
    assert status_and_text(command, "trust") == (0, "No file is trusted, and no file of this project needs trust.\n")
    assert status_and_text(command, "trust", "--json") == (0, "[]\n")


def test_the_list_of_trusted_files_is_available_as_json(command):
    command.folder.write(".hilt/permissions.yaml", "allow: [Read]\n")

    [trusted] = json.loads(status_and_text(command, "trust", "list", "--json")[1])

    path = command.folder.join(".hilt/permissions.yaml")
    assert trusted == {"path": path, "kind": "rules", "state": "untrusted", "since": None}


# --- permission to answer -----------------------------------------------------------------------------------------

COMMANDS = [["approve"], ["approve", "ID", "--always"], ["deny", "ID"], ["grants"], ["trust", "."]]


@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_answers_without_a_terminal(command, approvals, id, words):
    words = [id if word == "ID" else word for word in words]

    done = command.run(*words, input=b"y\n")

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"denied: hilt {words[0]} requires a person at a terminal. ".encode())
    assert approvals.find(id).state == "pending"


def test_a_terminal_that_is_not_the_controlling_one_is_not_enough(command, approvals, id):
    with at_terminal(command, "approve", id, "--once", controlling=False) as screen:
        status, text = screen.end()

    assert (status, "There is no terminal to prompt on." in text) == (1, True)
    assert approvals.find(id).state == "pending"


def test_a_pipe_cannot_answer_for_the_user_at_the_terminal(command, approvals, id):
    line = f"yes | {shlex.quote(HILT)} approve {id}; exit $?"
    with Screen(["sh", "-c", line], env=command.environ, cwd=command.folder.path) as screen:
        status, text = screen.end()

    assert (status, "The input is not a terminal." in text) == (1, True)
    assert approvals.find(id).state == "pending"


@LINUX
@pytest.mark.parametrize(
    "line",
    [
        "{hilt} {words}",
        "exec {hilt} {words}",
        "sh -c 'sh -c \"{hilt} {words}; :\"; :'",
        "env -i HOME=$HOME PATH=$PATH HILT_STATE_DIR=$HILT_STATE_DIR {hilt} {words}",
        # a terminal of its own
        "{python} -c 'import pty, sys; pty.spawn(sys.argv[1:])' {hilt} {words}",
        # orphaned
        "(setsid sh -c '{{ {hilt} {words}; }} > out 2>&1; touch done' &); "
        "until [ -e done ]; do sleep 0.1; done; cat out",
    ],
    ids=["plain", "exec", "shells", "clean", "terminal", "orphan"],
)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_process_started_by_a_tool_cannot_answer_even_without_a_sandbox(command, approvals, id, line, words):
    line_words = " ".join(id if word == "ID" else word for word in words)
    line = line.format(hilt=shlex.quote(HILT), python=shlex.quote(sys.executable), words=line_words)

    done = run(
        ["bash", "-c", line],
        cwd=command.folder.path,
        env=command.environ,
        tty=True,
        limits=Limits(timeout=60, settle=10),
    )

    assert "was started by hilt itself (process " in done.stdout.head.decode()
    assert approvals.find(id).state == "pending"
    assert approvals.grants() == []


def test_colours_are_for_terminals_that_support_them(command, id):
    env = {**command.environ, "TERM": "xterm"}
    with Screen([HILT, "approve", "show", id], env=env, cwd=command.folder.path) as screen:
        text = screen.end()[1]

    assert "\x1b[" in text
    assert "| make install" in bare(text)
