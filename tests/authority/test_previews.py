"""A dangerous command is previewed before it is approved, and asks when it cannot be undone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.call import ApprovalRequest, Call, UserAnswer
from hilt.runtime import Runtime
from hilt.surfaces.terminal_prompt import Terminal, prompt
from hilt.testing import Folder, environment
from tests.programs import needs_sandbox

pytestmark = pytest.mark.starts_processes

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
        approvals = runtime.parts.authority.approvals()
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
        approvals = runtime.parts.authority.approvals()
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

    denied = prompt(asked, Terminal(lambda: next(answers), written.append, 80, color=False))
    wanted = prompt(asked._replace(preview=True), Terminal(lambda: "p\n", written.append, 80, color=False))

    assert (denied.kind, wanted.kind) == ("deny", "preview")
    assert sum("[p] preview first" in text for text in written) == 1


GRANTABLE = "default: ask\ndeny: [web_fetch]\n"  # everything else asks, and may always be allowed
GENERATED = """for n in $(seq 30); do
    for line in $(seq 400); do echo "x_${n}_${line} = 1"; done > "src/generated_$n.py"
done
printf '[metadata]\\n' > setup.cfg
printf '#!/bin/sh\\necho deploy\\n' > deploy.sh
printf 'echo run\\n' > tool; chmod +x tool
chmod 700 docs
head -c 300000 /dev/zero | tr '\\0' z > large.txt
printf 'a\\0b' > binary
rm -rf old"""


@needs_sandbox
def test_a_person_sees_every_file_before_they_apply_a_preview(base):
    person = Person("preview", "once")
    with asking(base, person, GRANTABLE) as (runtime, folder):
        folder.write("docs/a.md", "a\n")
        folder.write("old/deep/b.txt", "b\n")
        result = runtime.call("run_shell", command=GENERATED, force=True)
        tree = folder.tree()

    assert result.ok, result.error
    asked = person.asked[1]
    files = {file.path: file for file in asked.files}
    assert {path for path in tree if path not in ("src/", "src/a.py", "docs/a.md")} <= set(files)
    assert (files["setup.cfg"].runs, files["deploy.sh"].runs != "", files["tool"].runs != "") == (
        "package managers",
        True,
        True,
    )
    assert files["docs/"].action.startswith("permissions changed")
    assert (files["old/deep/b.txt"].action, files["src/generated_1.py"].action) == ("deleted", "created")
    assert {path for path, file in files.items() if file.missing} == {"large.txt", "binary"}
    written = {path for path, file in files.items() if file.action == "created" and not file.missing}
    assert len(written) == 33
    assert all(f"+++ b/{path}\n" in asked.diff for path in written)
    assert "+echo deploy" in asked.diff
    # what needs attention comes first
    marked = [bool(file.runs or file.missing) for file in asked.files]
    assert marked == sorted(marked, reverse=True)


def test_a_diff_is_shown_whole_or_is_said_to_be_missing(base):
    person = Person("once", "once")
    with asking(base, person, GRANTABLE) as (runtime, _):
        for lines in (10_000, 150_000):
            assert runtime.call("write_file", path=f"long{lines}.txt", content="line 1\n" * lines).ok

    shown, missing = person.asked
    assert (shown.diff.count("+line 1\n"), shown.files[0].missing) == (10_000, "")
    assert (missing.diff, missing.files[0].missing) == ("", "its diff is too long")
    assert (bool(shown.rules), missing.rules) == (True, ())


def test_a_change_of_bytes_without_text_is_said_to_be_missing(base):
    person = Person("once")
    with asking(base, person, GRANTABLE) as (runtime, folder):
        folder.write("a.txt", "caf\u00e9\n".encode("utf-16"))
        runtime.call("write_file", path="a.txt", content="caf\u00e9\n")

    assert (person.asked[0].files[0].missing != "", person.asked[0].rules) == (True, ())


def test_a_change_whose_files_are_not_known_before_is_never_always_allowed(base):
    person = Person("deny")
    with asking(base, person, GRANTABLE) as (runtime, _):
        runtime.call("lsp_query", action="rename", path="src/a.py", line=1, symbol="a", new_name="b", apply=True)

    (asked,) = person.asked
    assert (asked.files[0].missing != "", asked.rules) == (True, ())


@needs_sandbox
def test_what_runs_later_is_listed_among_too_many_files(base):
    person = Person("preview", "deny")
    many = "mkdir many; for n in $(seq 5001); do > many/$n.txt; done; > many/zz.sh; mkdir empty; > zz.mk; rm -rf src"
    with asking(base, person) as (runtime, _):
        runtime.call("run_shell", command=many, force=True)

    files = {file.path: file for file in person.asked[1].files}
    assert files["many"].missing == "5,002 files"
    assert (files["many/zz.sh"].runs, files["zz.mk"].runs) == ("hand (a script)", "builds")
    assert files["empty/"].action == "folder created"


@needs_sandbox
def test_links_and_permissions_are_listed_even_if_the_contents_stay_the_same(base):
    person = Person("preview", "deny")
    replaced = "chmod 666 key; rm text; ln -s target text; ln -s target new; echo >> old; chmod 644 old; rm -rf src"
    with asking(base, person) as (runtime, folder):
        for path, text in {"key": "k\n", "text": "[link to target]\n", "old": "o\n"}.items():
            folder.write(path, text)
            os.chmod(folder.join(path), 0o600)
        runtime.call("run_shell", command=replaced, force=True)

    assert {file.path: file.action for file in person.asked[1].files} == {
        "key": "permissions changed from 600 to 666",
        "new": "link created",
        "old": "modified; permissions changed from 600 to 644",
        "src/a.py": "deleted",
        "text": "replaced by a link",
    }
