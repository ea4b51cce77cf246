from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from hilt import pipeline
from hilt.authority import hooks
from hilt.authority.hooks import CallSeen, Hooks
from hilt.call import Call
from hilt.catalog import Catalog
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.loaders import ProjectFile
from hilt.policy.hook_protocol import FAILURE, POST, PRE
from hilt.policy.hook_results import BeforeCall
from hilt.policy.subject import Subject
from hilt.state.trust import Trust
from hilt.surroundings import Surroundings
from hilt.testing import Folder
from tests.policy.calls import HOME, NAMES, TWINS, path
from tests.trusting import file_at

pytestmark = pytest.mark.starts_processes

CATALOG = Catalog()
LOG = "log.jsonl"


def call_seen(tool: str, **args: Any) -> CallSeen:
    """A call as the pipeline shows it to hooks."""
    prepared = pipeline.prepare(Call(tool, args), *CATALOG.find(tool))
    name, effects = prepared.tool.name, prepared.tool.effects

    def subject() -> Subject:
        touches = tuple(path(touch.effect, touch.target) for touch in prepared.touches)
        return Subject(name, TWINS.get(name, frozenset((name,))), effects, touches)

    return CallSeen(name, prepared.args, prepared.touches, subject, prepared.tool.traits.unhooked)


class Place:
    """A workspace, personal settings, and their hooks."""

    def __init__(self, base: Path) -> None:
        self.root = base / "workspace"
        self.config = base / "config"
        (self.root / ".hilt").mkdir(parents=True)
        self.config.mkdir()
        self.session: Any = None
        self.trusted = True
        self.fence = Fence()
        self.environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(base)}

    def personal(self, *entries: dict[str, Any]) -> None:
        (self.config / "hooks.yaml").write_text(json.dumps({"hooks": entries}))  # JSON is YAML

    def project(self, *entries: dict[str, Any]) -> None:
        (self.root / ".hilt/hooks.yaml").write_text(json.dumps({"hooks": entries}))

    def hooks(self) -> Hooks:
        sets = hooks.of_files(
            config=str(self.config),
            root=str(self.root),
            names=lambda: NAMES,
            trusted=lambda name, data: self.trusted,
            home=HOME,
        )
        if self.session is not None:
            sets.append(hooks.of_session(self.session, lambda: NAMES, HOME))

        def change(work: Any) -> Any:
            self.session = work(self.session)
            return self.session

        run = hooks.runner(self.confined, self.fence, Surroundings(self.environ), str(self.root))
        return Hooks(sets, run, session="s1", names=lambda: NAMES, change=change)

    def confined(self) -> Any:
        raise ToolError("sandbox_unavailable", "No sandbox here.")

    def before(self, call: CallSeen) -> Any:
        return self.hooks().before(call, lambda args: call_seen(call.tool, **args))

    def log(self) -> list[dict[str, Any]]:
        file = self.root / LOG
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def hook(command: str, event: str = PRE, **more: Any) -> dict[str, Any]:
    return {"event": event, "command": command, **more}


def says(**answer: Any) -> str:
    """A command that prints an answer, whatever its input."""
    return f"cat > /dev/null; echo '{json.dumps(answer)}'"


NOTES = f"(cat; echo) >> {LOG}"
READ = call_seen("read_file", path="a.py")
WRITE = call_seen("write_file", path="gen/a.py", content="x")


# --- before a call ------------------------------------------------------------------------------------------------


def test_without_hooks_nothing_runs(place):
    assert place.before(READ) == BeforeCall(READ.args)


def test_a_hook_receives_the_event_the_session_and_the_validated_call(place):
    place.personal(hook(NOTES))

    before = place.before(call_seen("Edit", path="a.py", old_string="x"))

    (received,) = place.log()
    assert received == {
        "event": PRE,
        "session": "s1",
        "tool": "edit_file",
        "arguments": {"path": "a.py", "old_text": "x", "new_text": "", **_defaults(received)},
        "touches": [{"effect": "write", "target": "a.py"}],
    }
    assert before[:-1] == BeforeCall(before.args)[:-1]
    (ran,) = before.ran
    assert (ran.name, ran.event, ran.outcome) == ("personal pre_tool_execution 0", PRE, "ok")
    assert ran.milliseconds > 0


def _defaults(received: dict[str, Any]) -> dict[str, Any]:
    """The other arguments, which have their defaults."""
    return {
        name: value for name, value in received["arguments"].items() if name not in ("path", "old_text", "new_text")
    }


def test_hooks_run_in_the_order_personal_project_session(place):
    place.personal(hook("echo personal >> order"), hook("echo personal 1 >> order"))
    place.project(hook("echo project >> order"))
    place.session = [hook("true")]

    before = place.before(READ)

    assert (place.root / "order").read_text().splitlines() == ["personal", "personal 1", "project"]
    assert [ran.name for ran in before.ran] == [
        "personal pre_tool_execution 0",
        "personal pre_tool_execution 1",
        "project pre_tool_execution 0",
        "session pre_tool_execution 0",
    ]


def test_a_hook_gets_no_environment_variable_that_runs_other_code(place):
    for name in ("evil.sh", "uname"):
        (place.root / name).write_text("#!/bin/sh\ntouch started\n")
        (place.root / name).chmod(0o755)
    place.environ["BASH_ENV"] = str(place.root / "evil.sh")
    place.environ["PATH"] = f".{os.pathsep}{place.environ['PATH']}"
    place.personal(hook("uname > where"))

    place.before(READ)

    assert (place.root / "where").read_text()
    assert not (place.root / "started").exists()


def test_a_hook_runs_in_the_workspace_with_the_users_environment(place):
    place.environ["COLOUR"] = "green"
    place.personal(hook('echo "$PWD $COLOUR $HILT_HOOK_DEPTH" > where'))

    place.before(READ)

    assert (place.root / "where").read_text() == f"{place.root} green 1\n"


@pytest.mark.parametrize("match, runs", [("Write(path:gen/**)", [WRITE]), ("Read", [READ]), (None, [READ, WRITE])])
def test_a_hook_sees_only_calls_that_match(place, match, runs):
    place.personal(hook("true", match=match) if match else hook("true"))

    assert [call for call in (READ, WRITE) if place.before(call).ran] == runs


@pytest.mark.parametrize("decision, verdict", [("allow", "allow"), ("ask", "ask"), ("deny", "deny"), ("stop", "deny")])
def test_a_decision_becomes_a_vote(place, decision, verdict):
    place.personal(hook(says(decision=decision, reason="because")))

    vote = place.before(READ).vote

    assert (vote.verdict, vote.voter) == (verdict, "hooks")
    assert "because" in vote.reason


def test_exit_status_2_blocks_and_later_hooks_do_not_run(place):
    place.personal(hook("echo 'gen/ is generated' >&2; exit 2"), hook("touch asked"))

    before = place.before(WRITE)

    assert before.vote.verdict == "deny"
    assert before.vote.error.code == "hook_blocked"
    assert "gen/ is generated" in before.vote.error.message
    assert [ran.outcome for ran in before.ran] == ["deny"]
    assert not (place.root / "asked").exists()


@pytest.mark.parametrize("first", ["allow", "deny"])
def test_an_allow_never_beats_a_deny(place, first):
    second = "deny" if first == "allow" else "allow"
    place.personal(hook(says(decision=first)))
    place.project(hook(says(decision=second)))

    assert place.before(READ).vote.verdict == "deny"


def test_a_skipped_call_is_answered_by_the_hook(place):
    place.personal(hook(says(decision="skip", result={"kept": 1})), hook("touch asked"))

    before = place.before(READ)

    assert before.skipped.data == {"kept": 1}
    assert before.vote is None
    assert not (place.root / "asked").exists()


def test_contexts_are_joined_in_order(place):
    place.personal(hook(says(context="one")), hook(says(context="two")))

    assert place.before(READ).context == "one\ntwo"


FAILURES = {
    "exit 1": "exit status 1",
    "echo fine": "not JSON",
    "no-such-program": "exit status 127",
    "kill -9 $$": "signal",
    "sleep 60": "longer than 0.3 s",
    "head -c 3000000 /dev/zero": "more than 1024 KiB",
    says(arguments={"no": "such argument"}): "arguments are invalid",
}


@pytest.mark.parametrize("command, reason", FAILURES.items(), ids=list(FAILURES.values()))
def test_a_hook_that_fails_blocks_the_call(place, command, reason):
    place.personal(hook(command, timeout=0.3 if "sleep" in command else 30))

    before = place.before(READ)

    assert before.vote.verdict == "deny"
    assert (before.vote.error.code, before.vote.error.details["failed"]) == ("hook_blocked", True)
    assert reason in before.vote.error.message
    assert [ran.outcome for ran in before.ran] == ["failed"]


@pytest.mark.parametrize("command, reason", FAILURES.items(), ids=list(FAILURES.values()))
def test_a_failure_can_be_ignored(place, command, reason):
    place.personal(hook(command, timeout=0.3 if "sleep" in command else 30, on_failure="ignore"))

    before = place.before(READ)

    assert (before.vote, before.args, before.changed) == (None, READ.args, False)
    assert reason in before.ran[0].reason


def test_a_session_hook_never_runs_outside_the_sandbox(place):
    place.session = [hook("touch escaped")]

    before = place.before(READ)

    assert before.vote.verdict == "deny"
    assert "No sandbox here" in before.vote.error.message
    assert not (place.root / "escaped").exists()


# --- rewriting ----------------------------------------------------------------------------------------------------


def test_rewritten_arguments_are_validated_and_get_defaults(place):
    place.personal(hook(says(arguments={"path": "b.py"})))

    before = place.before(call_seen("read_file", path="a.py", tail=5))

    assert before.changed
    assert before.args == call_seen("read_file", path="b.py").args
    assert [ran.outcome for ran in before.ran] == ["changed"]


def test_a_later_hook_sees_rewritten_arguments(place):
    place.personal(hook(says(arguments={"path": "b.py"})))
    place.project(hook(NOTES))

    place.before(READ)

    assert [received["arguments"]["path"] for received in place.log()] == ["b.py"]


def test_a_later_hook_that_matches_only_rewritten_arguments_runs(place):
    place.personal(
        hook(says(arguments={"path": "gen/b.py", "content": "x"})),
        hook("exit 2", match="Write(path:gen/**)"),
    )

    assert place.before(call_seen("write_file", path="src/b.py", content="x")).vote.verdict == "deny"


def test_an_earlier_hook_runs_again_when_a_later_one_rewrites(place):
    place.personal(hook("exit 2", match="Write(path:gen/**)"), hook(NOTES))
    place.project(hook(says(arguments={"path": "gen/b.py", "content": "x"})))

    before = place.before(call_seen("write_file", path="src/b.py", content="x"))

    assert before.vote.verdict == "deny"
    assert before.vote.error.details["hook"] == "personal pre_tool_execution 0"


def test_a_hook_may_repeat_its_rewrite(place):
    place.personal(hook(says(arguments={"path": "b.py"})), hook(says(arguments={"path": "b.py", "start_line": 1})))

    before = place.before(READ)

    assert (before.vote, before.args["path"]) == (None, "b.py")


def test_two_hooks_that_rewrite_endlessly_block_the_call(place):
    place.personal(hook(says(arguments={"path": "b.py"})), hook(says(arguments={"path": "c.py"})))

    before = place.before(READ)

    assert (before.vote.verdict, before.vote.error.code) == ("deny", "hook_blocked")
    assert len(before.ran) == 3


# --- after a call -------------------------------------------------------------------------------------------------


def test_after_a_call_a_hook_sees_the_result_and_can_change_it(place):
    place.personal(hook(NOTES, POST), hook(says(result="short", context="cut"), POST), hook(NOTES, POST))
    place.project(hook("touch wrong", FAILURE), hook("touch wrong", PRE))

    after = place.hooks().after(READ, "a long text")

    assert [received["result"] for received in place.log()] == ["a long text", "short"]
    assert (after.result.text, after.context, after.error, after.stop) == ("short", "cut", None, None)
    assert [ran.outcome for ran in after.ran] == ["ok", "changed", "ok"]
    assert not (place.root / "wrong").exists()


@pytest.mark.parametrize("value", [{"files": []}, [1], 5, None])
def test_a_structured_result_stays_structured(place, value):
    place.personal(hook(says(result=value), POST))

    assert place.hooks().after(READ, {"files": ["a"]}).result.data == value


def test_a_result_can_be_withheld(place):
    place.personal(hook("grep -q secret && { echo 'a secret' >&2; exit 2; } || true", POST), hook("touch asked", POST))

    clean = place.hooks().after(READ, "nothing")
    os.unlink(place.root / "asked")
    withheld = place.hooks().after(READ, "the secret")

    assert clean.error is None
    assert withheld.error.code == "hook_blocked"
    assert "the call itself ran: a secret" in withheld.error.message
    assert not (place.root / "asked").exists()


def test_a_failure_after_a_call_is_ignored_unless_set_to_block(place):
    place.personal(hook("exit 1", POST))
    place.project(hook("exit 1", POST, on_failure="block"))

    after = place.hooks().after(READ, "text")

    assert after.error.details == {"hook": "project post_tool_execution 0", "failed": True}
    assert [ran.outcome for ran in after.ran] == ["failed", "failed"]


def test_a_hook_sees_the_error_of_a_failed_call_and_can_reword_it(place):
    place.personal(hook(NOTES, FAILURE), hook(says(result="Try b.py.", decision="stop", reason="enough"), FAILURE))
    place.project(hook("touch wrong", POST))

    after = place.hooks().after(READ, None, ToolError("file_not_found", "a.py does not exist."))

    (received,) = place.log()
    assert received["error"] == {"code": "file_not_found", "message": "a.py does not exist."}
    assert "result" not in received
    assert (after.result.text, after.stop) == ("Try b.py.", "enough")
    assert not (place.root / "wrong").exists()


# --- other events -------------------------------------------------------------------------------------------------


def test_other_events_pass_their_data_and_changes_on(place):
    place.personal(hook(says(arguments={"text": "two"}), "pre_send_message"), hook(NOTES, "pre_send_message"))

    outcome = place.hooks().event("pre_send_message", arguments={"text": "one"}, agent="main")

    assert place.log() == [
        {"event": "pre_send_message", "session": "s1", "agent": "main", "arguments": {"text": "two"}}
    ]
    assert (outcome.arguments, outcome.decision) == ({"text": "two"}, None)


def test_a_hook_can_prevent_the_end_with_a_reason(place):
    place.personal(hook("echo 'the tests fail' >&2; exit 2", "stop"), hook("touch asked", "stop"))

    outcome = place.hooks().event("stop")

    assert (outcome.decision, outcome.reason) == ("deny", "the tests fail")
    assert not (place.root / "asked").exists()


def test_hooks_of_pre_events_fail_closed(place):
    place.personal(hook("exit 1", "pre_compact"), hook("exit 1", "post_compact"))

    assert place.hooks().event("pre_compact").decision == "deny"
    assert place.hooks().event("post_compact", result="x")[:3] == (None, "x", None)


# --- where hooks come from ----------------------------------------------------------------------------------------


def test_a_projects_hooks_run_only_when_all_their_files_are_trusted(place):
    place.project(hook("touch ran"))
    scripts = place.root / ".hilt/hooks/deep"
    scripts.mkdir(parents=True)
    (scripts / "check.sh").write_text("true")
    checked: list[str] = []

    def trusted(file: ProjectFile, data: bytes) -> bool:
        checked.append(file.path)
        return data != b"true"

    (hook_set,) = _load(place, trusted)

    assert checked == [".hilt/hooks.yaml", ".hilt/hooks/deep/check.sh"]
    assert hook_set.hooks == ()
    assert "check.sh is not trusted" in hook_set.notes[0]
    assert [file.path for file in hooks.project_files(str(place.root))] == checked


def _load(place: Place, trusted: Any) -> list[Any]:
    config, root = str(place.config), str(place.root)
    return hooks.of_files(config=config, root=root, names=lambda: NAMES, trusted=trusted)


@pytest.mark.parametrize("name", [".hilt/hooks.yaml", ".hilt/hooks", ".hilt/hooks/check.sh", ".hilt/hooks/deep"])
def test_links_to_files_that_tools_can_write_are_not_trusted(place, name):
    place.project(hook("touch ran"))
    other = place.root / "other"
    other.mkdir()
    link = place.root / name
    if link.exists():
        os.rename(link, other / "file")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(other / "file" if (other / "file").exists() else other)

    (hook_set,) = _load(place, lambda name, data: True)

    assert hook_set.hooks == ()
    assert name in hook_set.notes[0]


def test_an_untrusted_project_runs_nothing_and_is_noted(place):
    place.project(hook("touch ran"))
    place.trusted = False

    assert place.before(READ).ran == ()
    assert "is not trusted" in place.hooks().notes[0]
    assert not (place.root / "ran").exists()


@pytest.mark.parametrize(
    "contents",
    [
        b"hooks: [",
        b"\xff\xfe",
        b"- {event: pre_tool_execution}",
        b"- {event: what, command: x}",
        b"#" * (1 << 20) + b"\n",
    ],
    ids=["not YAML", "not UTF-8", "no command", "no such event", "too large"],
)
def test_a_broken_personal_file_makes_calls_ask(place, contents):
    (place.config / "hooks.yaml").write_bytes(contents)

    vote = place.before(READ).vote

    assert (vote.verdict, vote.voter) == ("ask", "hooks")
    assert "hooks.yaml" in vote.reason
    assert place.hooks().event("pre_compact").decision in ("deny", None)


def test_a_hook_file_that_is_a_pipe_is_not_read(place):
    os.mkfifo(place.config / "hooks.yaml")

    assert "not a regular file" in place.before(READ).vote.reason


def test_a_broken_hook_asks_only_about_calls_that_match(place):
    place.personal({"event": PRE, "match": "Write(path:gen/**)"})

    assert place.before(READ).vote is None
    assert place.before(WRITE).vote.verdict == "ask"


def test_a_broken_hook_of_another_event_does_not_affect_calls(place):
    place.personal({"event": POST})

    assert place.before(READ).vote is None
    assert len(place.hooks().problems) == 1


def test_hooks_that_would_run_are_listed_without_running_them(place):
    place.personal(hook("touch ran", match="Read"), hook("touch ran", match="Bash"), hook("touch ran", POST))

    assert [listed.name for listed in place.hooks().would_run(READ)] == ["personal pre_tool_execution 0"]
    assert not (place.root / "ran").exists()


# --- the hooks of a session ---------------------------------------------------------------------------------------


def test_hooks_of_a_session_are_counted_by_event_and_removed_by_number(place):
    commits = []
    session_hooks = place.hooks()

    numbers = [
        session_hooks.register(hook(command, event), lambda: commits.append(1)).number
        for command, event in [("a", PRE), ("b", POST), ("c", PRE), ("d", PRE)]
    ]
    removed = session_hooks.remove(PRE, 1, lambda: commits.append(1))

    assert (numbers, len(commits), removed["command"]) == ([0, 0, 1, 2], 5, "c")
    assert [(stored.command, stored.number) for stored in place.hooks().hooks] == [("a", 0), ("b", 0), ("d", 1)]


def test_removing_the_last_hook_leaves_nothing_behind(place):
    session_hooks = place.hooks()
    session_hooks.register(hook("a"), lambda: None)
    session_hooks.remove(PRE, 0, lambda: None)

    assert place.session is None


@pytest.mark.parametrize("event, number", [(PRE, 1), (POST, 0), ("what", 0)])
def test_a_missing_hook_cannot_be_removed(place, event, number):
    place.session = [hook("a")]

    with pytest.raises(ToolError) as caught:
        place.hooks().remove(event, number, lambda: None)

    assert caught.value.code == "not_found"
    assert place.session == [hook("a")]


def test_a_broken_hook_of_a_session_asks_and_can_be_removed(place):
    place.session = [hook("a"), {"event": PRE, "match": "Bash(/(/)", "command": "b"}]

    assert len(place.hooks().problems) == 1
    place.hooks().remove(PRE, 1, lambda: None)

    assert place.hooks().problems == ()


@pytest.mark.parametrize("data", [{"event": "what", "command": "x"}, {"event": PRE, "command": ""}])
def test_an_invalid_hook_is_not_registered(place, data):
    committed = []

    with pytest.raises(ToolError) as caught:
        place.hooks().register(data, lambda: committed.append(1))

    assert (caught.value.code, committed, place.session) == ("invalid_args", [], None)


def test_a_session_has_a_limited_number_of_hooks(place):
    place.session = [hook("a")] * 100

    with pytest.raises(ToolError) as caught:
        place.hooks().register(hook("b"), lambda: None)

    assert (caught.value.code, len(place.session)) == ("limit_exceeded", 100)


# --- ending -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_failure", ["block", "ignore"])
def test_a_cancelled_call_ends_its_hook(place, on_failure):
    place.personal(hook("touch begun; sleep 300", timeout=600, on_failure=on_failure))

    def cancel() -> None:
        while not (place.root / "begun").exists():
            sleep(0.01)
        place.fence.cancel(ToolError("cancelled", "Enough."))

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(ToolError) as caught:
        place.before(READ)
    thread.join()

    assert caught.value.code == "cancelled"


@pytest.mark.parametrize("depth, runs", [("0", True), ("2", True), ("3", False), ("many", False), ("-1", False)])
def test_nested_hooks_stop_at_a_maximum_depth(place, depth, runs):
    place.environ[hooks.DEPTH] = depth
    place.personal(hook("touch ran"))

    before = place.before(READ)

    assert (place.root / "ran").exists() is runs
    assert (before.vote is None) is runs


# --- in a runtime -------------------------------------------------------------------------------------------------


def personal(workspace: Folder, *entries: dict[str, Any]) -> None:
    workspace.write("../config/hooks.yaml", json.dumps(entries))


def test_a_blocked_call_does_nothing_and_gives_the_reason(runtime, workspace):
    personal(workspace, hook("echo 'gen/ is generated' >&2; exit 2", match="Write(path:gen/**)"))

    error = runtime.call("write_file", path="gen/a.py", content="x").error

    assert (error.code, error.details["hook"]) == ("hook_blocked", "personal pre_tool_execution 0")
    assert workspace.tree() == {}
    assert runtime.call("write_file", path="src/a.py", content="x").ok


def test_a_skipped_call_does_nothing_and_is_answered(runtime, workspace):
    personal(workspace, hook(says(decision="skip", result="Not today.")))

    result = runtime.call("write_file", path="a.py", content="x")

    assert (result.ok, result.text) == (True, "Not today.")
    assert workspace.tree() == {}


def test_rewritten_arguments_are_decided_on_again(runtime, workspace):
    workspace.write(".env", "SECRET=1")
    personal(workspace, hook(says(arguments={"path": ".env"})))

    assert runtime.call("read_file", path="a.py").error.code == "sensitive_path"


def test_an_allowed_command_that_a_hook_replaces_is_decided_on_again(runtime, workspace):
    personal(workspace, hook(says(arguments={"command": "touch ran"}), match="Bash"))
    workspace.write("../config/permissions.yaml", "default: ask\nallow: ['Bash(true)']\n")

    assert runtime.call("run_shell", command="true").error.code == "approval_required"
    assert workspace.tree() == {}


def test_an_allowed_path_that_a_hook_replaces_is_decided_on_again(runtime, workspace):
    personal(workspace, hook(says(arguments={"path": "src/a.txt", "content": "x"})))
    workspace.write("../config/permissions.yaml", "default: ask\nallow: ['Write(path:docs/**)']\n")

    assert runtime.call("write_file", path="docs/a.txt", content="x").error.code == "approval_required"
    assert workspace.tree() == {}


def test_invalid_arguments_from_a_hook_are_rejected(runtime, workspace):
    workspace.write("a.py", "alpha")
    personal(workspace, hook(says(arguments={"path": 1})))

    assert runtime.call("read_file", path="a.py").error.code == "hook_blocked"


def test_a_hook_cannot_answer_a_denied_call(runtime, workspace):
    personal(workspace, hook(says(decision="skip", result="Done.")))
    workspace.write("../config/permissions.yaml", "deny: [Write]\nallow: [Read]\n")

    assert runtime.call("write_file", path="a.py", content="x").error.code == "denied"


def test_context_and_changes_of_a_hook_reach_the_caller(runtime, workspace):
    workspace.write("a.py", "alpha")
    personal(workspace, hook(says(context="Mind the gap.")), hook(says(result="beta"), POST))

    text = runtime.call("read_file", path="a.py").text

    assert "beta" in text
    assert "Mind the gap." in text
    assert "alpha" not in text


def test_a_projects_hooks_run_once_trusted_and_stop_when_a_script_changes(runtime, workspace):
    workspace.write("a.py", "alpha")
    paths = [
        workspace.write(".hilt/hooks.yaml", json.dumps([hook("bash .hilt/hooks/guard.sh")])),
        workspace.write(".hilt/hooks/guard.sh", "exit 2\n"),
    ]
    trust = Trust(runtime.parts.state)

    def answer() -> str:
        result = runtime.call("read_file", path="a.py")
        return result.error.code if result.error else "ok"

    answers = [answer()]
    for name in paths:
        trust.trust(file_at(name, "hooks"), Path(name).read_bytes())
        answers.append(answer())
    workspace.write(".hilt/hooks/guard.sh", "touch ran\n")
    answers.append(answer())
    trust.close()

    assert answers == ["ok", "ok", "hook_blocked", "ok"]
    assert not os.path.exists(workspace.join("ran"))


def test_tools_called_by_a_hook_run_hooks_up_to_a_maximum_depth(runtime, workspace, environ):
    workspace.write("a.py", "alpha")
    command = shlex.join([sys.executable, "-m", "hilt", "call", "read_file", "path=a.py"])
    personal(workspace, hook(f"echo $HILT_HOOK_DEPTH >> depth; {command} > /dev/null 2>&1; true", timeout=60))

    done = subprocess.run(shlex.split(command), cwd=workspace.path, env=environ, capture_output=True, timeout=120)

    assert done.returncode == 0
    assert workspace.read("depth").splitlines() == ["1", "2", "3"]


def test_every_hook_that_ran_is_on_record_with_its_outcome(base):
    from hilt.testing import Folder, temporary_runtime

    config = Folder(os.path.join(base, "config"))
    config.write(
        "hooks.yaml",
        "- {event: pre_tool_execution, command: 'true'}\n- {event: pre_tool_execution, command: 'exit 2'}\n",
    )
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("a.txt", "x")
        runtime.call("read_file", path="a.txt")
        rows = [(row.entry.tool, row.entry.outcome) for row in runtime.parts.trail.rows()]

    assert [outcome for name, outcome in rows if name.startswith("hook ")] == ["ok", "deny"]
    assert rows[-1] == ("read_file", "hook_blocked")


def test_a_replaced_result_leaves_no_trace_of_the_original(base):
    from hilt import wire
    from hilt.testing import Folder, temporary_runtime

    answer = '{"result": "[taken out]"}'
    config = Folder(os.path.join(base, "config"))
    config.write("hooks.yaml", f"- {{event: post_tool_execution, command: 'echo ''{answer}'''}}\n")
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("a.txt", "the secret word")
        result = runtime.call("read_file", path="a.txt")

    assert result.text == "[taken out]"
    assert b"secret" not in wire.encode_result(result)
