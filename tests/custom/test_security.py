from __future__ import annotations

import json
import os
import threading
from functools import partial
from typing import Any

import pytest

from hilt.call import Call
from hilt.custom import folder_tools, security
from hilt.custom.definition import to_tool
from hilt.custom.security import Permission
from hilt.errors import ToolError
from hilt.surroundings import Surroundings
from tests.custom.folder_tools import Bench
from tests.marks import Mark, wait_until

pytestmark = pytest.mark.starts_processes

RAN = "cat > /dev/null; touch ran; echo '{\"done\": true}'"
CHECKED = {"hasSecurityCheck": True, "securityScript": "security.sh"}
ANSWER = {"permissionType": "file_write", "permissionKey": "/a", "message": "It wants to write /a."}


def answering(**answer: Any) -> str:
    """Return a security script that gives this answer, whatever its input."""
    return f"cat > /dev/null; printf %s {_quoted(json.dumps({**ANSWER, **answer}))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def add_guarded(bench: Bench, script: str, **fields: Any) -> Bench:
    bench.add("guarded", RAN, files={"security.sh": script}, **{**CHECKED, **fields})
    return bench


def has_run(bench: Bench) -> bool:
    return (bench.workspace / "ran").exists()


# --- the matrix ---------------------------------------------------------------------------------------------------

GRANT = Permission("guarded", "file_write", "/a").grant
OTHERS = [
    Permission("other", "file_write", "/a").grant,
    Permission("guarded", "file_read", "/a").grant,
    Permission("guarded", "file_write", "/b").grant,
]


@pytest.mark.parametrize("answer", ["once", "always", "deny"])
@pytest.mark.parametrize("grants", [[], OTHERS, [GRANT]], ids=["no grant", "other grants", "a grant"])
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("requires", [True, False])
def test_a_call_runs_when_the_check_or_the_user_allows_it(bench, allowed, requires, grants, answer):
    add_guarded(bench, answering(allowed=allowed, requiresApproval=requires))
    bench.grants.update(grants)
    bench.answer = answer
    asks = requires and GRANT not in grants

    result = bench.call("guarded")

    runs = (answer != "deny" or not asks) if requires else allowed
    code = None if runs else "USER_REJECTION" if requires else "denied"
    assert (has_run(bench), len(bench.prompts)) == (runs, int(asks))
    assert (result.error.code if result.error else None) == code
    assert bench.grants == {*grants, *([GRANT] if asks and answer == "always" else [])}


BROKEN = {
    "exit 1": (answering(allowed=True, requiresApproval=False) + "; exit 1", "failed (exit 1)"),
    "its error": ("echo 'boom: no such module' >&2; exit 3", "boom: no such module"),
    "killed": (answering(allowed=True, requiresApproval=False) + "; kill -9 $$", "failed (exit 137)"),
    "no output": ("cat > /dev/null", "invalid JSON"),
    "no JSON": ("echo allowed", "invalid JSON: 'allowed\\n'"),
    "noise before": ("echo checking; " + answering(allowed=True, requiresApproval=False), "invalid JSON"),
    "noise after": (answering(allowed=True, requiresApproval=False) + "; echo done", "invalid JSON"),
    "two keys": ('echo \'{"allowed": false, "allowed": true, "requiresApproval": false}\'', "invalid JSON"),
    "a list": ("echo '[true]'", "did not print a JSON object"),
    "allowed is text": (answering(allowed="true", requiresApproval=False), "allowed must be true or false"),
    "allowed is 1": (answering(allowed=1, requiresApproval=False), "allowed must be true or false"),
    "allowed is missing": (answering(requiresApproval=False), "allowed must be true or false"),
    "requiresApproval is null": (
        answering(allowed=True, requiresApproval=None),
        "requiresApproval must be true or false",
    ),
    "requiresApproval is missing": (answering(allowed=True), "requiresApproval must be true or false"),
    "no type": (
        answering(allowed=True, requiresApproval=False, permissionType=None),
        "permissionType must be a string",
    ),
    "key is a number": (
        answering(allowed=True, requiresApproval=False, permissionKey=1),
        "permissionKey must be a string",
    ),
    "message is a list": (answering(allowed=True, requiresApproval=False, message=[]), "message must be a string"),
    "an error": (answering(allowed=True, requiresApproval=False, error="no database"), "no database"),
    "a flood": ("cat > /dev/null; yes | head -c 20000000", "printed too much"),
}


@pytest.mark.parametrize("has_grant", [False, True], ids=["no grant", "a grant"])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_failing_check_blocks_the_call_without_a_prompt(bench, broken, has_grant):
    script, reason = BROKEN[broken]
    add_guarded(bench, script)
    bench.answer = "once"
    bench.grants.update([GRANT] if has_grant else [])

    code, message = bench.error("guarded")

    assert code == "tool_failed"
    assert message.startswith("guarded was not run, because its security check ")
    assert reason in message
    assert (has_run(bench), bench.prompts) == (False, [])


def test_a_check_that_times_out_blocks_the_call(bench):
    mark = Mark()
    add_guarded(bench, f"sleep 300 & : {mark.name}; exec sleep 300 # ", securityTimeout=200, env=["MARK"])
    bench.environ["MARK"] = mark.name

    code, message = bench.error("guarded")

    assert (code, has_run(bench)) == ("tool_failed", False)
    assert "0.2 s" in message
    wait_until(lambda: not mark.alive())


def test_a_missing_check_blocks_the_call(bench):
    bench.add("guarded", RAN, **CHECKED)

    code, message = bench.error("guarded")

    assert (code, has_run(bench)) == ("tool_failed", False)
    assert "security.sh" in message
    assert "security.sh is missing" in bench.load("guarded").notes[0]


def test_the_check_is_security_ts_in_the_same_runtime_unless_named(bench):
    script = 'cat > /dev/null; echo \'{"allowed": false, "requiresApproval": false'
    script += ', "permissionType": "t", "permissionKey": "k", "message": "said by bash"}\''
    bench.add("guarded", RAN, files={"security.ts": script}, hasSecurityCheck=True)

    code, message = bench.error("guarded")

    assert (code, message.endswith(": said by bash")) == ("denied", True)


def test_a_check_does_not_run_unless_declared(bench):
    bench.add("guarded", RAN, files={"security.sh": "touch checked"}, securityScript="security.sh")

    assert bench.call("guarded").ok
    assert not (bench.workspace / "checked").exists()
    assert not (bench.tools / "guarded/checked").exists()
    assert "securityScript does not run" in bench.load("guarded").notes[0]


# --- input of the check and prompts -------------------------------------------------------------------------------


def test_a_check_receives_the_input_of_the_tool_and_more_in_the_tool_folder(bench):
    script = f"cat > received; pwd >> received; {answering(allowed=True, requiresApproval=False)}"
    add_guarded(bench, script)

    bench.call("guarded", path="a.txt")

    received, folder = (bench.tools / "guarded/received").read_text().splitlines()
    workspace = str(bench.workspace)
    overflow = json.loads(received)["allowedPaths"]
    assert json.loads(received) == {
        "path": "a.txt",
        "args": {"path": "a.txt"},
        "workspacePath": workspace,
        "sessionId": "s1",
        "allowedPaths": overflow,
    }
    assert [path.startswith(bench.environ["HILT_STATE_DIR"]) for path in overflow] == [True]
    assert folder == str(bench.tools / "guarded")


def test_a_check_receives_only_opened_folders_outside_the_workspace(bench):
    outside, inside = bench.workspace.parent / "outside", bench.workspace / "inside"
    for folder in (outside, inside):
        folder.mkdir()
    opened = (outside, inside, bench.workspace, bench.workspace.parent)
    bench.environ["HILT_WORKSPACE_ROOTS"] = os.pathsep.join(map(str, opened))
    add_guarded(bench, f"cat > received; {answering(allowed=True, requiresApproval=False)}")

    bench.call("guarded", path="a.txt")

    received = json.loads((bench.tools / "guarded/received").read_text())["allowedPaths"]
    assert [path for path in received if not path.startswith(bench.environ["HILT_STATE_DIR"])] == [str(outside)]


def test_no_argument_overrides_the_input_of_a_check():
    false = {"workspacePath": "/", "sessionId": "x", "allowedPaths": ["/"], "args": {}}

    received = security.question(false, workspace="/w", session="s", allowed_paths=["/w"])

    assert received == {"workspacePath": "/w", "sessionId": "s", "allowedPaths": ["/w"], "args": false}


def test_the_user_sees_the_tool_its_arguments_and_the_message(bench):
    add_guarded(bench, answering(allowed=False, requiresApproval=True), dangerous=True)

    bench.call("guarded", path="a.txt")

    (prompt,) = bench.prompts
    assert (prompt.tool, prompt.reason) == ("guarded", "⚠ It wants to write /a. (file_write /a)")
    assert prompt.arguments == {"path": "a.txt"}
    assert prompt.rules == (GRANT,)


def test_a_tool_declared_dangerous_is_marked_in_every_prompt(bench):
    bench.add("plain", RAN, requireApproval=True, dangerous=True)

    bench.call("plain")

    assert bench.prompts[0].reason.startswith("⚠ ")


@pytest.mark.parametrize("requires", [True, False])
def test_in_scheduler_mode_a_check_does_not_prompt(bench, requires):
    add_guarded(bench, answering(allowed=True, requiresApproval=requires))
    bench.environ["HILT_MODE"] = "scheduler"

    if not requires:
        assert bench.call("guarded").ok
        return
    code, message = bench.error("guarded")
    assert (code, bench.prompts, has_run(bench)) == ("denied", [], False)
    assert message.endswith("It wants to write /a. (file_write /a).")


@pytest.mark.parametrize("requires", [True, False])
@pytest.mark.parametrize("allowed", [True, False])
def test_in_yolo_mode_a_check_blocks_without_a_prompt(bench, allowed, requires):
    add_guarded(bench, answering(allowed=allowed, requiresApproval=requires), requireApproval=True)
    bench.environ["HILT_MODE"] = "yolo"

    result = bench.call("guarded")

    assert (result.ok, has_run(bench), bench.prompts) == (allowed or requires, allowed or requires, [])
    assert result.ok or result.error.code == "denied"


def test_in_yolo_mode_a_rule_that_asks_still_shows_the_message_of_the_check(bench):
    add_guarded(bench, answering(allowed=True, requiresApproval=True))
    rule(bench, "ask: [guarded]\n")
    bench.environ["HILT_MODE"] = "yolo"

    bench.call("guarded")

    (prompt,) = bench.prompts
    assert "permissions.yaml" in prompt.reason


def test_a_check_that_blocks_without_a_message_gets_a_default_one(bench):
    add_guarded(bench, answering(allowed=False, requiresApproval=False, message=None))

    code, message = bench.error("guarded")

    assert (code, message.endswith(": no reason given")) == ("denied", True)


def test_a_denial_includes_the_reason_of_the_user(bench):
    add_guarded(bench, answering(allowed=False, requiresApproval=True))

    code, message = bench.error("guarded")

    assert (code, "not today" in message) == ("USER_REJECTION", True)


def test_a_call_that_needs_approval_stays_pending_without_a_user(bench):
    add_guarded(bench, answering(allowed=False, requiresApproval=True))
    bench.attended = False

    assert (bench.error("guarded")[0], has_run(bench)) == ("approval_required", False)


# --- together with other prompts ----------------------------------------------------------------------------------


def rule(bench: Bench, text: str) -> None:
    (bench.config / "permissions.yaml").write_text(text)


@pytest.mark.parametrize("asks", ["its definition", "a rule"])
@pytest.mark.parametrize("answer", ["once", "deny"])
def test_one_answer_covers_the_check_and_all_other_reasons_to_ask(bench, asks, answer):
    add_guarded(bench, answering(allowed=True, requiresApproval=True), requireApproval=asks == "its definition")
    if asks == "a rule":
        rule(bench, "ask: [guarded]\n")
    bench.answer = answer

    result = bench.call("guarded", path="a.txt")

    (prompt,) = bench.prompts
    assert (result.ok, has_run(bench)) == (answer == "once", answer == "once")
    assert prompt.reason.startswith("It wants to write /a. (file_write /a); ")
    assert prompt.rules[0] == GRANT


def test_the_answer_always_covers_the_check_and_the_definition(bench):
    add_guarded(bench, answering(allowed=True, requiresApproval=True), requireApproval=True)
    bench.answer = "always"

    assert bench.call("guarded").ok
    assert bench.call("guarded").ok

    assert len(bench.prompts) == 1


def test_an_approval_covers_one_call_exactly_as_shown(bench):
    add_guarded(bench, answering(allowed=True, requiresApproval=True), requireApproval=True)
    bench.attended = False
    with bench.runtime(bench.load("guarded")) as runtime:
        approval = runtime.call("guarded").error.details["approval"]
        approvals = runtime.parts.authority.approvals()
        approvals.answer(approval, approved=True, by="test")

        (bench.tools / "guarded/security.sh").write_text(
            answering(allowed=True, requiresApproval=True, permissionKey="/etc")
        )
        other = runtime.request(Call("guarded", {}, approval=approval))
        assert (other.error.code, has_run(bench)) == ("denied", False)

        (bench.tools / "guarded/security.sh").write_text(answering(allowed=True, requiresApproval=True))
        assert runtime.request(Call("guarded", {}, approval=approval)).ok
        assert runtime.request(Call("guarded", {}, approval=approval)).error.code == "denied"


def test_the_check_of_a_call_that_a_rule_denies_does_not_run(bench):
    add_guarded(bench, f"touch checked; {answering(allowed=True, requiresApproval=False)}")
    rule(bench, "deny: [guarded]\n")

    assert bench.error("guarded")[0] == "denied"
    assert not (bench.tools / "guarded/checked").exists()


@pytest.mark.parametrize("decision, code", [("deny", "hook_blocked"), ("skip", None)])
def test_the_check_of_a_call_that_a_hook_answers_does_not_run(bench, decision, code):
    add_guarded(bench, f"touch checked; {answering(allowed=True, requiresApproval=False)}")
    answer = _quoted(json.dumps({"decision": decision, "result": "Not today.", "reason": "Not today."}))
    hook = {"event": "pre_tool_execution", "command": f"cat > /dev/null; printf %s {answer}"}
    (bench.config / "hooks.yaml").write_text(json.dumps({"hooks": [hook]}))

    result = bench.call("guarded")

    assert (result.error.code if result.error else None) == code
    assert (has_run(bench), (bench.tools / "guarded/checked").exists()) == (False, False)


def test_a_check_also_runs_with_hooks(bench):
    add_guarded(bench, answering(allowed=True, requiresApproval=True), requireApproval=True)
    hook = {"event": "pre_tool_execution", "command": "cat > /dev/null"}
    (bench.config / "hooks.yaml").write_text(json.dumps({"hooks": [hook]}))
    bench.answer = "once"

    assert bench.call("guarded").ok
    assert (len(bench.prompts), has_run(bench)) == (1, True)


def test_a_tool_with_a_check_does_not_run_unchecked(bench):
    add_guarded(bench, answering(allowed=True, requiresApproval=False))
    make = partial(folder_tools.FolderTool, surroundings=Surroundings(bench.environ), grants=bench)
    tool = to_tool(bench.load("guarded"), make(bench.load("guarded")))

    with bench.runtime() as runtime, pytest.raises(ToolError) as raised:
        tool.run(runtime._world.context(runtime._world.active(Call("guarded"))), {})

    assert (raised.value.code, has_run(bench)) == ("denied", False)


def test_the_message_of_the_check_is_in_the_audit_trail(bench):
    add_guarded(bench, answering(allowed=False, requiresApproval=False))

    with bench.runtime(bench.load("guarded")) as runtime:
        runtime.call("guarded")
        (row,) = runtime.parts.trail.rows()

    assert (row.entry.decision, row.entry.reason) == (
        "deny",
        "The security check of guarded blocked this call: It wants to write /a.",
    )


def test_a_call_cancelled_during_its_check_does_not_run(bench):
    mark = Mark()
    script = f"touch checking; sleep 300; {answering(allowed=True, requiresApproval=False)}"
    add_guarded(bench, script, env=["MARK"], securityTimeout=3_600_000)
    bench.environ["MARK"] = mark.name
    ended = threading.Event()

    with bench.runtime(bench.load("guarded")) as runtime:
        running = runtime.submit(Call("guarded", {}), lambda result: ended.set())
        wait_until((bench.tools / "guarded/checking").exists)
        running.cancel()
        assert ended.wait(60)
        wait_until(lambda: not mark.alive())

    assert not has_run(bench)


def test_a_call_cancelled_during_its_prompt_does_not_run(bench):
    add_guarded(bench, answering(allowed=False, requiresApproval=True))
    bench.answer = "once"
    began: list[Any] = []
    answered = threading.Event()

    def cancel() -> None:
        began[0].cancel()
        answered.set()

    bench.during_prompt = cancel
    with bench.runtime(bench.load("guarded")) as runtime:
        runtime.submit(Call("guarded", {}), lambda result: None, began=began.append)
        assert answered.wait(60)

    assert not has_run(bench)


@pytest.mark.parametrize("field", [0, 1, 2])
def test_different_permissions_have_different_grants(field):
    tricky = ["a", 'a","b', "a b", "", "a\n", "ä"]
    grants = {Permission(*["x" if place != field else value for place in range(3)]).grant for value in tricky}

    assert len(grants) == len(tricky)
    assert all(grant.startswith(security.GRANT) for grant in grants)
