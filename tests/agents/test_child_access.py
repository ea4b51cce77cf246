"""What an agent in a worktree can reach, compared with its parent; covers worktrees.py and confinement.py."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hilt.runtime import Runtime
from hilt.state.roster import AgentProfile, NewAgent
from hilt.testing import Folder, temporary_runtime
from tests.probed import remember_sandbox
from tests.programs import needs_sandbox
from tests.sandbox.test_swapping import PLACES

pytestmark = [needs_sandbox, pytest.mark.skipif(not PLACES, reason="needs a writable folder outside /tmp")]

SECRET = "the-secret"
TRACKED = (".env", ".ssh/id", "secrets/a/key", "config/token.txt", "data/private.txt", "link-target/k", "plain.txt")
UNTRACKED = (".env.local", "sub/.env", "secrets/new", "notes.txt")
RULES = (
    *("Read(path:secrets/**)", "Read(path:{root}/secrets/**)", "Read(path:config)", "Read(path:{base}/work*/data/*)"),
    *("Read(path:link/**)", "Read(path:{root}/link)", "Read(path:**/token.txt)"),
    *("Write(path:config/**)", "Write(path:{root}/data)", "Write(path:plain.txt)", "Write(path:{root}/secrets)"),
)


TOOLS = ("run_shell", "read_file", "search_files", "write_file")


class Family(NamedTuple):
    """A runtime and those of the agents below it, each in the worktree of its agent."""

    workspace: Folder
    runtimes: list[Runtime]


def git(folder: str, *args: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@contextmanager
def family(*rules: str, ask: bool = False, flags: dict[str, str] | None = None) -> Iterator[Family]:
    """Open a workspace with secrets, an agent in a worktree, and an agent below it in another one."""
    with tempfile.TemporaryDirectory(prefix="hilt-child-", dir=PLACES[0]) as base, ExitStack() as stack:
        remember_sandbox(f"{base}/state")
        folder = Folder(f"{base}/workspace")
        for path in TRACKED:
            folder.write(path, f"{SECRET} {path}\n")
        git_root = folder.path
        git(git_root, "init", "-q")
        git(git_root, "add", "-A", "-f")
        git(git_root, "commit", "-qm", "first")
        for path in UNTRACKED:
            folder.write(path, f"{SECRET} {path}\n")
        os.symlink("link-target", folder.join("link"))
        text = ", ".join(f'"{rule.format(root=git_root, base=base)}"' for rule in rules)
        folder.write(".hilt/permissions.yaml", f"permissions:\n  {'ask' if ask else 'deny'}: [{text}]\n")
        Folder(f"{base}/config").write("permissions.yaml", f"permissions:\n  allow: [{', '.join(TOOLS)}]\n")
        runtime, _ = stack.enter_context(temporary_runtime(base, flags={"mode": "yolo", **(flags or {})}))
        runtimes, parent = [runtime], runtime.session
        host = runtime.parts.agents
        for _ in range(2):
            profile = AgentProfile(TOOLS, "yolo", worktree=True)
            new = NewAgent(parent, parent, "call", "x", "x", "x", host.settings, profile)
            parent = host.store.create(new, host.limits, owner=host.owner().name).id
            runtimes.append(stack.enter_context(host.worktrees.in_folder(parent, runtime.settings)))
        yield Family(folder, runtimes)


def shell(runtime: Runtime, command: str) -> str:
    result = runtime.call("run_shell", command=command, force=True)
    assert result.text or result.error, result
    return result.text or str(result.error)


def readable(runtime: Runtime, folder: str) -> set[str]:
    """Return the paths in a folder that commands of a runtime can read."""
    tests = "; ".join(f"grep -qs {SECRET} '{folder}/{path}' && echo '<{path}>'" for path in (*TRACKED, *UNTRACKED))
    output = shell(runtime, f"{tests}; true")
    return {path for path in (*TRACKED, *UNTRACKED) if f"<{path}>" in output}


def opened(runtime: Runtime) -> set[str]:
    """Return the paths in the folder of a runtime that its file tools can read or search."""
    matches = runtime.call("search_files", pattern=SECRET).text
    return {path for path in TRACKED if path in matches or SECRET in runtime.call("read_file", path=path).text}


def written(runtime: Runtime) -> set[str]:
    """Return the tracked paths in the folder of a runtime that commands or file tools can write."""
    output = shell(runtime, f'for f in {" ".join(TRACKED)}; do (echo >> "$f") 2>/dev/null && echo "<$f>"; done; true')
    by_tools = {path for path in TRACKED if runtime.call("write_file", path=path, content=SECRET).ok}
    return {path for path in TRACKED if f"<{path}>" in output} | by_tools


@settings(max_examples=int(os.environ.get("HILT_STRESS") or 1) * 6)
@given(rules=st.sets(st.sampled_from(RULES), max_size=4), ask=st.booleans(), read=st.sampled_from(["all", "workspace"]))
@example(rules=set(), ask=False, read="all")
@example(rules={"Read(path:secrets/**)", "Read(path:{root}/link)", "Write(path:{root}/data)"}, ask=False, read="all")
def test_an_agent_reads_and_writes_nothing_that_its_parent_cannot(rules, ask, read):
    with family(*sorted(rules), ask=ask, flags={"shell.read": read}) as (workspace, runtimes):
        main, *children = runtimes
        seen = readable(main, workspace.path)
        assert "plain.txt" in seen
        assert ".env" not in seen
        for child in children:
            assert readable(child, workspace.path) <= seen
            assert readable(child, child.parts.root) <= seen
            assert opened(child) <= opened(main)
        assert opened(main) or any("Read" in rule for rule in rules)
        for reader, other in [(main, children[0]), (main, children[1]), (children[0], children[1]), children[::-1]]:
            assert readable(reader, other.parts.root) == set()
        limits = [written(runtime) for runtime in runtimes]
        assert limits[1] <= limits[0]
        assert limits[2] <= limits[0]
        output = shell(children[0], f"echo x > {workspace.path}/plain.txt; echo x > {workspace.path}/new; echo done")
        assert "\ndone\n" in output
        assert workspace.read("plain.txt") != "x\n"
        assert not os.path.exists(workspace.join("new"))
        assert "plain.txt" in written(children[0]) or any("plain" in rule for rule in rules)


@pytest.mark.parametrize(
    "rule, command",
    [
        ("Read(path:.git/**)", "grep -s core {root}/.git/config && touch {ran}"),
        ("Read(path:{root}/.git/config)", "cat {root}/.git/HEAD >/dev/null && grep -s core {root}/.git/config"),
        ("Read(path:{base}/work*/.git/HEAD)", "grep -s refs {root}/.git/HEAD"),
        ("Write(path:.git/refs/**)", "echo core > {root}/.git/refs/x && cat {root}/.git/refs/x"),
    ],
)
def test_a_rule_on_the_repository_holds_for_commands(rule, command):
    with family(rule) as (workspace, runtimes):
        for runtime in runtimes:
            output = shell(runtime, command.format(root=workspace.path, ran=workspace.join("ran")))
            assert "[core]" not in output
            assert "refs/heads" not in output
            assert "\ncore\n" not in output
        assert not os.path.lexists(workspace.join(".git/refs/x"))
