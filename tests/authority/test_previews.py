"""A dangerous command is previewed before it is approved, and asks when it cannot be undone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.call import Call
from hilt.runtime import Runtime
from hilt.state.approvals import ApprovalRequest, UserAnswer
from hilt.surfaces.cli.prompt import prompt
from hilt.testing import Folder, environment
from tests.programs import needs_sandbox

ASKED = "permissions:\n  ask: [run_shell]\n"
COMMAND = "rm -rf src; date +%N > made.txt"


class Person:
    """Gives the scripted answers, and records the questions."""

    def __init__(self, *answers: str) -> None:
        self.asked: list[ApprovalRequest] = []
        self._answers = list(answers)

    def __call__(self, asked: ApprovalRequest) -> UserAnswer:
        """Return the next answer."""
        self.asked.append(asked)
        return UserAnswer(self._answers[len(self.asked) - 1], by="terminal")


@contextmanager
def asking(base: str, person: Person | None, rules: str = ASKED) -> Iterator[Any]:
    folder, config = Folder(os.path.join(base, "workspace")), Folder(os.path.join(base, "config"))
    folder.write("src/a.py", "a = 1\n")
    if rules:
        config.write("permissions.yaml", rules)
    with Runtime(folder.path, environ=environment(base), asker=person) as runtime:
        yield runtime, folder


@needs_sandbox
def test_a_preview_is_shown_and_its_approval_applies_exactly_it(base):
    person = Person("preview", "once")
    with asking(base, person) as (runtime, folder):
        result = runtime.call("run_shell", command=COMMAND, force=True)

    assert result.ok, result.error
    first, second = person.asked
    assert (first.preview, first.diff) == (True, "")
    assert not second.preview
    assert "-a = 1" in second.diff
    assert f"+{folder.read('made.txt')}" in second.diff
    assert "did not run again" in result.text
    assert not os.path.exists(folder.join("src"))


@needs_sandbox
def test_the_output_of_a_command_cannot_hide_what_its_preview_would_change(base):
    person = Person("preview", "deny")
    fake = "diff --git a/x b/x"
    with asking(base, person) as (runtime, _):
        runtime.call("run_shell", command=f"yes '{fake}' | head -c 30000; rm -rf src", force=True)

    assert (fake in person.asked[1].diff, "-a = 1" in person.asked[1].diff) == (False, True)


@needs_sandbox
def test_nothing_changes_when_the_preview_is_denied(base):
    with asking(base, Person("preview", "deny")) as (runtime, folder):
        result = runtime.call("run_shell", command=COMMAND, force=True)
        listed = runtime.call("undo", action="list")

    assert result.error.code == "USER_REJECTION"
    assert folder.read("src/a.py") == "a = 1\n"
    assert listed.data["total"] == 0


@needs_sandbox
def test_a_preview_can_be_asked_for_from_another_process(base):
    with asking(base, None) as (runtime, folder):
        approvals = runtime.authority.approvals()
        call = {"command": COMMAND, "force": True}
        first = runtime.call("run_shell", **call).error
        approvals.answer(first.details["approval"], approved=True, preview=True, by="console")
        second = runtime.call("run_shell", **call).error
        assert folder.read("src/a.py") == "a = 1\n"
        pending = approvals.find(second.details["approval"])
        approvals.answer(pending.id, approved=True, by="console")
        other = runtime.request(Call("run_shell", call, approval=pending.id)).error
        result = runtime.request(Call("run_shell", {**call, "apply": second.details["apply"]}, approval=pending.id))

    assert (first.code, second.code, other.code) == ("approval_required", "approval_required", "denied")
    assert "-a = 1" in pending.asked.diff
    assert result.ok, result.error
    assert not os.path.exists(folder.join("src"))


@needs_sandbox
def test_a_preview_is_not_an_approval(base):
    with asking(base, None) as (runtime, folder):
        approvals = runtime.authority.approvals()
        pending = runtime.call("run_shell", command="date > harmless.txt").error.details["approval"]
        asked = approvals.find(pending).asked
        with pytest.raises(Exception, match="A preview is not available"):
            approvals.answer(pending, approved=True, preview=True, by="console")

        dangerous = runtime.call("run_shell", command=COMMAND, force=True).error.details["approval"]
        approvals.answer(dangerous, approved=True, preview=True, by="console")
        used = runtime.request(Call("run_shell", {"command": "rm -rf src", "force": True}, approval=dangerous))

    assert not asked.preview
    assert not used.ok
    assert os.path.exists(folder.join("src"))


@needs_sandbox
def test_a_dangerous_command_that_cannot_be_undone_asks(base):
    if os.getuid() != 0:
        pytest.skip("only root can mount here")
    person = Person("deny")
    with asking(base, person, rules="") as (runtime, folder):
        os.mkdir(folder.join("mounted"))
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder.join("mounted")], check=True)
        try:
            refused = runtime.call("run_shell", command="rm -rf src", force=True)
            harmless = runtime.call("run_shell", command="date > out.txt")
        finally:
            subprocess.run(["umount", folder.join("mounted")], check=True)
        allowed = runtime.call("run_shell", command="rm -rf src", force=True)

    assert refused.error.code == "USER_REJECTION"
    [asked] = person.asked
    assert "undo" in asked.reason
    assert not asked.preview
    assert harmless.ok
    assert allowed.meta["undo"]["files"] == 1


def test_the_prompt_offers_a_preview_only_where_there_is_one():
    written: list[str] = []
    asked = ApprovalRequest("run_shell", {}, "a rule asks", kind="command", command="rm x", risk="dangerous")
    answers = iter(["p\n", "n\n", "\n"])

    denied = prompt(asked, read=lambda: next(answers), write=written.append, width=80, color=False)
    wanted = prompt(asked._replace(preview=True), read=lambda: "p\n", write=written.append, width=80, color=False)

    assert (denied.kind, wanted.kind) == ("deny", "preview")
    assert sum("[p] preview first" in text for text in written) == 1
