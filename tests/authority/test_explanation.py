"""Explaining a call and running it come to the same decision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.call import Call
from hilt.policy.modes import MODES
from hilt.runtime import Runtime
from hilt.testing import Folder, environment

pytestmark = pytest.mark.starts_processes

COMMANDS = ("ls", "cat a.txt", "rm a.txt", "git status", "touch b.txt", "sudo ls", "echo $(rm a.txt)", "cat locked/k")
PATHS = ("a.txt", "sub/b.txt", "locked/k", ".env", "../outside", ".hilt/config.toml", "package.json")
RULES = (
    *("Read", "Bash:ls.*", "Bash:rm.*", "write_file", "Read(path:locked/**)", "Write(path:sub/**)", "run_shell"),
    *("register_hook", "tool_call", "shell_exec", "Bash(git:*)"),
)


def call_of(tool: str, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.fixed_dictionaries(args).map(lambda given: Call(tool, given))


CALLS = st.one_of(
    call_of("read_file", path=st.sampled_from(PATHS)),
    call_of("write_file", path=st.sampled_from(PATHS), content=st.just("new\n")),
    call_of("run_shell", command=st.sampled_from(COMMANDS), force=st.booleans()),
    call_of(
        "shell_exec", argv=st.sampled_from((["ls"], ["rm", "a.txt"], ["git", "status"], ["tar", "--to-command=sh"]))
    ),
    call_of("register_hook", action=st.sampled_from(("list", "help"))),
    call_of("undo", action=st.just("list")),
    call_of("list_tools"),
    call_of("Bash", command=st.sampled_from(COMMANDS)),
    call_of("tool_call", name=st.just("read_file"), arguments=st.fixed_dictionaries({"path": st.sampled_from(PATHS)})),
)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=12)
@given(
    rules=st.dictionaries(st.sampled_from(("allow", "ask", "deny")), st.lists(st.sampled_from(RULES), max_size=3)),
    calls=st.lists(CALLS, min_size=1, max_size=4),
)
def test_explaining_and_running_agree(mode, rules, calls, tmp_path_factory):
    base = str(tmp_path_factory.mktemp("agree"))
    workspace, config = Folder(f"{base}/workspace"), Folder(f"{base}/config")
    for path in ("a.txt", "sub/b.txt", "locked/k", ".env"):
        workspace.write(path, "text\n")
    if rules:
        config.write("permissions.yaml", json.dumps(rules))
    with Runtime(workspace.path, environ=environment(base), flags={"mode": mode}) as runtime:
        for call in calls:
            explained = runtime.explain(call)
            runtime.request(call)
            entry = runtime.parts.trail.rows(limit=1)[0].entry

            assert (entry.decision, entry.reason) == (explained.decision.verdict, explained.decision.reason)
