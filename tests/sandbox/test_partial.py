"""Commands on a system where only Landlock works: the user is informed once per session, and they run confined."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hilt.call import ApprovalRequest, Call, UserAnswer
from hilt.runtime import Runtime
from hilt.sandbox import availability, landlock, ruleset
from hilt.sandbox.backend import Availability
from hilt.testing import environment
from tests.sandbox.confined import SECRET

pytestmark = pytest.mark.skipif(not ruleset.abi(), reason="needs a kernel with Landlock")

# tries to use files that are denied, then writes and reads one that is allowed
HOSTILE = "cat ~/.ssh/id; cat ../state/state.db; echo evil > ~/evil; echo evil > ../evil; echo here > here; cat here"


class System:
    """A workspace on a system without bubblewrap, and its user."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace, self.home = base / "workspace", base / "home"
        self.answer = "once"  # empty when no user is available
        self.asked: list[ApprovalRequest] = []
        for folder in (self.workspace / "sub", self.home / ".ssh", base / "state"):
            folder.mkdir(parents=True)
        (base / "state").chmod(0o700)
        (self.home / ".ssh/id").write_text(SECRET)
        only_landlock = Availability("landlock", "bubblewrap is not installed.", landlock.missing(ruleset.abi()))
        availability._remember(str(base / "state" / availability._RECORD), only_landlock)

    @contextmanager
    def runtime(self, **flags: Any) -> Iterator[Runtime]:
        asker = self.ask if self.answer else None
        with Runtime(str(self.workspace), environ=environment(str(self.base)), flags=flags, asker=asker) as runtime:
            yield runtime

    def ask(self, asked: ApprovalRequest) -> UserAnswer:
        self.asked.append(asked)
        return UserAnswer(self.answer)

    def check_names_gaps(self, reason: str) -> None:
        for gap in landlock.missing(ruleset.abi()):
            assert gap in reason

    def check_is_unharmed(self) -> None:
        assert sorted(path.name for path in self.base.iterdir()) == ["home", "state", "workspace"]
        assert [path.name for path in self.home.iterdir()] == [".ssh"]


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def output(result: Any) -> str:
    assert result.error is None, result.error
    return str(result.result)


@pytest.mark.parametrize("answer", ["once", "always", "all"])
def test_the_user_is_informed_once_and_commands_run_confined(system, answer):
    system.answer = answer
    with system.runtime() as runtime:
        for _ in range(2):
            printed = output(runtime.call("run_shell", command=HOSTILE))
            assert SECRET not in printed
            assert "SQLite" not in printed
            assert "here\n" in printed
        output(runtime.call("run_shell", command="echo another"))
        output(runtime.call("shell_exec", argv=["ls"]))

    [asked] = system.asked
    system.check_names_gaps(asked.reason)
    assert len(asked.reason) <= 300  # a person reads it in a prompt, a model in an error
    system.check_is_unharmed()


@pytest.mark.parametrize("asks", ["a rule", "a hook"])
def test_always_is_not_offered_when_something_else_asks_every_time(system, asks):
    rule_or_hook = {
        "a rule": ("permissions.yaml", {"ask": ["Bash"]}),
        "a hook": (
            "hooks.yaml",
            {"hooks": [{"event": "pre_tool_execution", "command": 'echo \'{"decision": "ask"}\''}]},
        ),
    }
    name, contents = rule_or_hook[asks]
    (system.base / "config").mkdir()
    (system.base / "config" / name).write_text(json.dumps(contents))
    with system.runtime() as runtime:
        output(runtime.call("run_shell", command="true"))
        output(runtime.call("run_shell", command="true"))

    assert [asked.rules for asked in system.asked] == [(), ()]
    system.check_names_gaps(system.asked[0].reason)
    assert "partial" not in system.asked[1].reason


def test_another_session_informs_the_user_again(system):
    with system.runtime() as runtime:
        for session in ("one", "two", "one", "two"):
            assert runtime.request(Call("run_shell", {"command": "true"}, session=session)).error is None

    assert [asked.session for asked in system.asked] == ["one", "two"]


def test_a_late_answer_counts_for_the_session(system):
    system.answer = ""
    with system.runtime() as runtime:
        id = runtime.call("run_shell", command="true").error.details["approval"]
        runtime.parts.authority.approvals().answer(id, approved=True, by="ann")
        assert runtime.call("run_shell", command="echo other").error.code == "approval_required"

        output(runtime.request(Call("run_shell", {"command": "true"}, approval=id)))
        output(runtime.call("run_shell", command="echo another"))


def test_a_denied_command_does_not_run_and_the_next_one_asks_again(system):
    system.answer = "deny"
    with system.runtime() as runtime:
        for _ in range(2):
            assert runtime.call("run_shell", command="echo x > made").error.code == "USER_REJECTION"

    assert len(system.asked) == 2
    assert not (system.workspace / "made").exists()


@pytest.mark.parametrize(
    "rules, args",
    [
        ("", {"command": "true", "network": "full"}),
        ("ask: [run_shell]", {"command": "true"}),
        ("ask: [run_shell]", {"command": "true", "network": "full"}),
    ],
)
def test_a_prompt_for_another_reason_names_the_gaps_too(system, rules, args):
    (system.base / "config").mkdir()
    (system.base / "config/permissions.yaml").write_text(rules)
    with system.runtime() as runtime:
        output(runtime.call("run_shell", **args))
        output(runtime.call("run_shell", **args))

    first, second = system.asked
    system.check_names_gaps(first.reason)
    assert "Missing" not in second.reason
    assert first.reason.startswith(second.reason)


def test_separate_processes_remember_the_answer(system):
    def call(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hilt", "call", "run_shell", f"command={HOSTILE}", "--raw", *options],
            cwd=system.workspace,
            env=environment(str(system.base)),
            capture_output=True,
            text=True,
        )

    refused = json.loads(call().stdout)
    assert refused["error_code"] == "approval_required"
    system.check_names_gaps(refused["error"])

    for options in (("--approve", "once"), ()):
        printed = json.loads(call(*options).stdout)["result"]
        assert "here\n" in printed
        assert SECRET not in printed
    assert json.loads(call("--session", "other").stdout)["error_code"] == "approval_required"


def test_jobs_terminals_and_folders_work_confined(system):
    with system.runtime() as runtime:
        assert "/sub\n" in output(runtime.call("run_shell", command="pwd", cwd="sub"))
        assert "own\n" in output(runtime.call("run_shell", command="test -t 0 && echo own > /dev/tty", tty=True))
        for tty in (False, True):
            job = runtime.call("run_shell", command=HOSTILE, run_in_background=True, tty=tty).data["task_id"]
            printed = runtime.call("job_output", task_id=job).data["output"]
            assert SECRET not in printed
            assert printed.endswith("here\n")

    assert len(system.asked) == 1
    system.check_is_unharmed()


def test_plan_mode_can_read_but_not_write(system):
    (system.workspace / ".env").write_text(SECRET)
    with system.runtime(mode="plan") as runtime:
        printed = output(runtime.call("run_shell", command="ls; echo x > made; cat .env; echo x > sub/made"))

    assert "sub\n" in printed
    assert SECRET not in printed
    assert sorted(path.name for path in system.workspace.rglob("*")) == [".env", "sub"]


def test_a_session_network_needs_bubblewrap(system):
    with system.runtime() as runtime:
        assert runtime.call("run_shell", command="true", network="loopback").error.code == "sandbox_unavailable"


RULES = {"allow": ["*"], "deny": ["Read(path:secrets/**)", "Write(path:locked/**)", "Read(path:~/private/**)"]}


def write_rules(system: System, rules: dict[str, list[str]]) -> None:
    (system.base / "config").mkdir(exist_ok=True)
    (system.base / "config/permissions.yaml").write_text(json.dumps(rules))


@pytest.mark.parametrize("mode", ["normal", "yolo"])
def test_path_rules_that_cannot_be_enforced_are_named_in_the_prompt(system, mode):
    with system.runtime() as runtime:
        output(runtime.call("run_shell", command="true"))
    write_rules(system, RULES)
    with system.runtime(mode=mode) as runtime:
        output(runtime.call("run_shell", command="true"))
        output(runtime.call("run_shell", command="true"))
    with system.runtime(mode="scheduler") as runtime:
        assert runtime.request(Call("run_shell", {"command": "true"}, session="other")).error.code == "denied"

    first, second = system.asked
    assert "permissions.yaml" not in first.reason
    system.check_names_gaps(second.reason)
    for rule in RULES["deny"][:2]:
        assert f"{rule} (permissions.yaml, line 1)" in second.reason
    assert RULES["deny"][2] not in second.reason


def test_path_rules_on_outside_paths_and_whole_folders_are_enforced(system):
    (system.home / "private/deep").mkdir(parents=True)
    (system.home / "private/deep/key").write_text(SECRET)
    (system.home / "open").write_text("open")
    write_rules(system, {**RULES, "deny": [*RULES["deny"], "Write(path:**)"]})
    with system.runtime() as runtime:
        printed = output(runtime.call("run_shell", command="cat ~/private/deep/key; cat ~/open; touch made"))

    assert SECRET not in printed
    assert "open" in printed
    assert not (system.workspace / "made").exists()


def test_read_rules_are_enforced_in_plan_mode(system):
    (system.workspace / "secrets").mkdir()
    (system.workspace / "secrets/key").write_text(SECRET)
    (system.workspace / "open").write_text("open")
    write_rules(system, RULES)
    with system.runtime(mode="plan") as runtime:
        printed = output(runtime.call("run_shell", command="cat secrets/key; cat open"))

    assert SECRET not in printed
    assert "open" in printed
