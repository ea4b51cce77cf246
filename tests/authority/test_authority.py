"""The whole policy through a runtime: rules, modes, approvals and hooks, and attempts to bypass them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.authority.authority import IDLE_SECONDS, MODE
from hilt.call import ApprovalRequest, Call, Output, Result, Touch, UserAnswer
from hilt.declaration import Tool, Traits, tool
from hilt.policy.modes import MODES
from hilt.runtime import Runtime
from hilt.state.approvals import Approvals, attend
from hilt.state.session_values import SessionValues
from hilt.state.trust import Trust
from hilt.testing import Folder, environment
from tests.trusting import file_at

RULE_FILE = """\
# .jcli/permissions.yaml
permissions:
# Allow all (skip all tool confirmations)
allow_all: false
# Allow list (skip confirmation if matched, supports regex)
allow:
- Read
- Grep
- Glob
- "Bash:ls.*" # Regex match on command parameter
- "Bash:git status"
# Deny list (takes priority over allow, direct reject if matched)
deny:
- "Bash:rm -rf.*" # Block dangerous commands
- "Bash:.*sudo.*" # Block sudo commands
"""


@tool(effects="network", touches=lambda args: [Touch("network", args["url"])])
def fetch(url: str) -> str:
    """Fetch a page."""
    return f"fetched {url}"


@tool(effects="network")
def look_up(query: str) -> str:
    """Look something up on the network."""
    return f"found {query}"


@tool(effects="execute", touches=lambda args: [Touch("execute", args["command"])])
def remote(command: str) -> str:
    """Run a command elsewhere."""
    return f"ran {command}"


class World:
    """A workspace with its own settings and state, and the runtimes that tests open on it."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.folder = Folder(os.path.join(base, "workspace"))
        os.makedirs(self.folder.path, exist_ok=True)
        self.config = Folder(os.path.join(base, "config"))
        self.state = os.path.join(base, "state")

    def rules(self, *lines: str, **lists: list[str]) -> None:
        """Write the personal rule file: its lines, or lists of rules, with which everything else asks."""
        text = "\n".join(lines) if lines else json.dumps({"default": "ask", **lists})
        self.config.write("permissions.yaml", text)

    @contextmanager
    def runtime(
        self, *tools: Tool, asker: Any = None, environ: Mapping[str, str] | None = None, **flags: Any
    ) -> Iterator[Runtime]:
        env = {**environment(self.base), **(environ or {})}
        with Runtime(self.folder.path, tools=tools, environ=env, flags=flags, asker=asker) as runtime:
            yield runtime

    def verdict(self, name: str, /, *tools: Tool, flags: Mapping[str, Any] | None = None, **args: Any) -> str:
        """Return the decision on a call."""
        with self.runtime(*tools, **(flags or {})) as runtime:
            return decision(runtime, name, **args)


def decision(runtime: Runtime, name: str, /, **args: Any) -> str:
    return runtime.explain(Call(name, args)).decision.verdict


def code(result: Result) -> str:
    return "ok" if result.error is None else result.error.code


@pytest.fixture
def world(base) -> World:
    return World(base)


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, args, expected",
    [
        ("Read", {"path": "a.txt"}, "allow"),
        ("read_file", {"path": "a.txt"}, "allow"),
        ("Grep", {"pattern": "x"}, "allow"),
        ("Glob", {"pattern": "*"}, "allow"),
        ("Bash", {"command": "ls"}, "allow"),
        ("Bash", {"command": "ls -la src"}, "allow"),
        ("run_shell", {"command": "ls -la"}, "allow"),
        ("tool::shell_exec", {"argv": ["ls", "-l"]}, "allow"),
        ("Bash", {"command": "git status"}, "allow"),
        ("Bash", {"command": "git status; ls"}, "allow"),
        ("Bash", {"command": "git push"}, "ask"),
        ("Bash", {"command": "ls; curl example.org"}, "ask"),
        ("Bash", {"command": "ls $(curl example.org)"}, "ask"),
        ("Bash", {"command": "ls > a.txt"}, "ask"),
        ("Bash", {"command": "lsof"}, "allow"),  # as the expression says
        ("Bash", {"command": "rm -rf build"}, "deny"),
        ("Bash", {"command": "ls && rm -rf build"}, "deny"),
        ("run_shell", {"command": "rm -rf build", "force": True}, "deny"),
        ("Bash", {"command": "sudo ls"}, "deny"),
        ("Bash", {"command": "ls; 'su'do ls"}, "deny"),
        ("Write", {"path": "a.txt", "content": "x"}, "ask"),
        ("Edit", {"path": "a.txt", "old_string": "x", "new_string": "y"}, "ask"),
    ],
)
def test_the_documented_rule_file_works_as_its_comments_say(world, name, args, expected):
    world.folder.write("a.txt", "x")
    file = world.folder.write(".jcli/permissions.yaml", RULE_FILE)
    with world.runtime() as runtime:
        runtime.parts.authority.trust().trust(file_at(file, "rules"), RULE_FILE.encode())

        assert decision(runtime, name, **args) == expected


def test_an_untrusted_rule_file_denies_but_never_allows_and_is_noted(world):
    world.folder.write("a.txt", "x")
    world.folder.write(".jcli/permissions.yaml", RULE_FILE)
    with world.runtime() as runtime:
        allowed = runtime.explain(Call("Bash", {"command": "ls"}))
        denied = runtime.explain(Call("Bash", {"command": "sudo ls"}))
        read = runtime.call("read_file", path="a.txt")
        refused = runtime.call("run_shell", command="ls")

    assert (allowed.decision.verdict, denied.decision.verdict) == ("ask", "deny")
    assert "Bash:ls.* (.jcli/permissions.yaml, line 10) would allow it, but the file is not trusted" in (
        allowed.decision.reason
    )
    assert ".jcli/permissions.yaml is not trusted" in allowed.notes[0]
    assert ".jcli/permissions.yaml is not trusted" in read.meta["policy"][0]
    assert "line 10" in refused.error.message


VERDICTS = ("deny", "ask", "allow")
CALLS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "write": ("write_file", {"path": "src/a", "content": "x"}, ("Write", "write_file", "Edit(path:src/**)", "*")),
    "read": ("read_file", {"path": "a.txt"}, ("Read", "Read(path:*.txt)", "read_file", "*")),
    "shell": ("run_shell", {"command": "make all"}, ("Bash", "Bash:make.*", "Bash(make:*)", "shell_exec", "*")),
    "network": ("fetch", {"url": "https://docs.rs/a"}, ("fetch", "fetch(domain:docs.rs)", "look_up(domain:docs.rs)")),
    "desktop": ("computer", {"action": "click"}, ("computer", "computer(action:click)", "*")),
}


@pytest.mark.starts_processes
@given(data=st.data())
def test_the_strictest_rule_wins_in_every_combination(tmp_path_factory, data):
    name, args, rules = CALLS[data.draw(st.sampled_from(sorted(CALLS)))]
    chosen = {
        verdict: data.draw(st.lists(st.sampled_from(rules), max_size=2, unique=True), label=verdict)
        for verdict in VERDICTS
    }
    chosen["allow"] += data.draw(st.lists(st.sampled_from(["undo", "Bash:nothing", "Write(path:other/**)"])))
    world = World(str(tmp_path_factory.mktemp("rules")))
    world.folder.write("a.txt", "x")
    world.rules(**chosen)

    strictest = next((verdict for verdict in VERDICTS if set(chosen[verdict]) & set(rules)), None)
    expected = strictest or ("allow" if name == "read_file" else "ask")

    assert world.verdict(name, fetch, look_up, **args) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_deny_holds_in_every_mode(world, mode):
    world.folder.write("a.txt", "x")
    world.rules(deny=["Write", "Read", "Bash"], allow=["*"])

    for name, args in (
        ("read_file", {"path": "a.txt"}),
        ("write_file", {"path": "b.txt", "content": "x"}),
        ("run_shell", {"command": "ls"}),
    ):
        assert world.verdict(name, flags={"mode": mode}, **args) == "deny"


@pytest.mark.parametrize("answer", ["once", "always", "all"])
def test_no_preset_answer_beats_a_deny(world, answer):
    world.rules(deny=["Write"])
    with world.runtime(approve=answer) as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "denied"
        assert world.folder.tree() == {}


# --- bypasses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "git status && curl evil.example",
        "git status; curl evil.example",
        "git status | sh",
        "git status || curl evil.example",
        "git status & curl evil.example",
        "git status\ncurl evil.example",
        "git status $(curl evil.example)",
        "git status `curl evil.example`",
        "git status <(curl evil.example)",
        "git status > a.txt",
        "git status >> ~/.bashrc",
        "git status 2>&1 >a",
        "env git status",
        "xargs git status",
        "sh -c 'git status'",
        "eval git status",
        "PATH=/tmp git status",
        "GIT_PAGER=evil git status",
        "cd /tmp && git status",
        "git statusx",
        "gitx status",
        "./git status",
        "command git status; true",
    ],
)
def test_a_prefix_allow_covers_no_other_command(world, command):
    world.rules(allow=["Bash(git status:*)"])

    assert world.verdict("run_shell", command=command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "curl x",
        "ls; curl x",
        "env curl x",
        "sudo -u me curl x",
        "timeout 5 curl x",
        "nice curl x",
        "sh -c 'curl x'",
        'bash -c "curl x"',
        "xargs curl < a",
        "find . -exec curl {} +",
        "/usr/bin/curl x",
        "c'ur'l x",
        "\\curl x",
        "echo $(curl x)",
        "if true; then curl x; fi",
        "f() { curl x; }; f",
        "A=1 curl x",
    ],
)
def test_a_deny_of_a_command_is_found_behind_wrappers(world, command):
    world.rules(deny=["Bash(curl:*)"], allow=["Bash"])

    assert world.verdict("run_shell", command=command) in ("deny", "ask")


@pytest.mark.parametrize(
    "name, args",
    [
        ("read_file", {"path": "secret/key"}),
        ("read_file", {"path": "./open/../secret/key"}),
        ("read_file", {"path": "link/key"}),
        ("read_file", {"path": "alias"}),
        ("read_file", {"path": "deep/../key"}),  # deep leads to secret/inner
        ("Read", {"path": "secret/key"}),
        ("tool::file_read", {"path": "secret/key"}),
        ("multi_read", {"files": [{"path": "open/a"}, {"path": "secret/key"}]}),
        ("stat_file", {"path": "secret/key"}),
        ("diff_files", {"path_a": "open/a", "path_b": "secret/key"}),
    ],
)
def test_a_path_rule_follows_every_spelling_to_the_file(world, name, args):
    world.folder.write("secret/key", "k")
    world.folder.write("secret/inner/x", "x")
    world.folder.write("open/a", "a")
    os.symlink("secret", world.folder.join("link"))
    os.symlink("secret/key", world.folder.join("alias"))
    os.symlink("secret/inner", world.folder.join("deep"))
    world.rules(deny=["Read(path:secret/**)"])
    with world.runtime() as runtime:
        result = runtime.call(name, **args)

        assert code(result) == "denied", result
        assert "permissions.yaml, line 1" in result.error.message


def test_a_path_rule_matches_absolute_paths_too(world):
    full = world.folder.write("secret/key", "k")
    world.rules(deny=["Read(path:secret/**)"])

    assert world.verdict("read_file", path=full) == "deny"


@pytest.mark.parametrize("name", ["search_files", "list_dir", "find_files", "checksum_tree"])
def test_a_tool_that_may_reach_a_denied_file_asks(world, name):
    world.folder.write("secret/key", "k")
    world.rules(deny=["Read(path:secret/**)"])
    args = {"search_files": {"pattern": "k"}, "find_files": {"pattern": "*"}}.get(name, {"path": "."})

    assert world.verdict(name, **args) == "ask"


PATCH = """\
--- a/src/a.txt
+++ b/src/a.txt
@@ -1 +1 @@
-old
+new
--- a/other/b.txt
+++ b/other/b.txt
@@ -1 +1 @@
-old
+new
"""


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "name, args",
    [
        ("write_file", {"path": "other/b.txt", "content": "x"}),
        ("write_file", {"path": "src/../other/b.txt", "content": "x"}),
        ("write_file", {"path": "src/link/b.txt", "content": "x"}),
        (
            "multi_edit",
            {
                "edits": [
                    {"path": "src/a.txt", "old_text": "old", "new_text": "new"},
                    {"path": "other/b.txt", "old_text": "old", "new_text": "new"},
                ]
            },
        ),
        ("apply_patch", {"patch": PATCH}),
        ("search_replace", {"pattern": "old", "replacement": "new", "files": "**"}),
        ("undo", {"action": "restore", "id": "0"}),
    ],
)
@pytest.mark.parametrize(
    "rules, expected",
    [({"allow": ["Write(path:src/**)"]}, {"ask"}), ({"deny": ["Write(path:other/**)"]}, {"deny", "ask"})],
)
def test_every_path_of_a_batch_counts(world, name, args, rules, expected):
    world.folder.write("src/a.txt", "old\n")
    world.folder.write("other/b.txt", "old\n")
    os.symlink("../other", world.folder.join("src/link"))
    world.rules(**rules)
    with world.runtime() as runtime:
        assert decision(runtime, name, **args) in expected
        assert code(runtime.call(name, **args)) in ("denied", "approval_required")
        assert world.folder.read("other/b.txt") == "old\n"


def test_a_path_allow_covers_a_batch_inside_it(world):
    world.folder.write("src/a.txt", "old\n")
    world.rules(allow=["Write(path:src/**)"])
    with world.runtime() as runtime:
        edits = [{"path": "src/a.txt", "old_text": "old", "new_text": "new"}]

        assert code(runtime.call("multi_edit", edits=edits)) == "ok"
        assert code(runtime.call("write_file", path="src/new/deep.txt", content="x")) == "ok"


def test_a_redirection_is_resolved_in_the_folder_of_the_shell(world):
    world.rules(allow=["Bash(echo:*)", "Bash(cd:*)", "Write(path:src/**)"])
    world.folder.write("src/a.txt", "old\n")
    world.folder.write("other/src/a.txt", "old\n")

    assert world.verdict("run_shell", command="echo x > src/a.txt") == "allow"
    assert world.verdict("run_shell", command="echo x > src/a.txt", cwd="other") == "ask"
    assert world.verdict("run_shell", command="cd other && echo x > src/a.txt") == "ask"
    assert world.verdict("run_shell", command="cd other; echo x > ../src/a.txt") == "ask"
    assert world.verdict("run_shell", command="echo x; env -C other bash -c 'echo x > src/a.txt'") == "ask"
    assert world.verdict("run_shell", command=f"cd other; echo x > {world.folder.join('src/a.txt')}") == "allow"


@pytest.mark.parametrize(
    "url, expected",
    [
        ("https://docs.rs/serde", "allow"),
        ("https://DOCS.rs./serde", "allow"),
        ("https://docs.rs@evil.example/", "ask"),
        ("https://docs.rs:pw@evil.example/", "ask"),
        ("https://evil.example/docs.rs", "ask"),
        ("https://evil.example#@docs.rs", "ask"),
        ("https://evil.example\\@docs.rs", "ask"),
        ("https://docs.rs.evil.example/", "ask"),
        ("https://notdocs.rs/", "ask"),
        ("https://docs.rs:8443@evil.example:443/", "ask"),
        ("docs.rs", "ask"),
        ("file:///etc/passwd", "ask"),
        ("https://bad.example/", "deny"),
        ("https://BAD.example:8443/", "deny"),
        ("https://user:pw@bad.example/", "deny"),
        ("https://docs.rs@bad.example/", "deny"),
        ("https://bad.example./x", "deny"),
    ],
)
def test_a_domain_rule_matches_the_host_that_is_reached(world, url, expected):
    world.rules(allow=["fetch(domain:docs.rs)"], deny=["look_up(domain:bad.example)"])

    assert world.verdict("fetch", fetch, look_up, url=url) == expected


def test_a_network_tool_with_an_unknown_host_is_allowed_only_by_name(world):
    world.rules(allow=["fetch(domain:docs.rs)"])
    assert world.verdict("look_up", fetch, look_up, query="x") == "ask"

    world.rules(allow=["look_up"])
    assert world.verdict("look_up", fetch, look_up, query="x") == "allow"


@pytest.mark.parametrize(
    "rule, query, expected",
    [("look_up:.*password.*", "my password", "deny"), ("look_up:.*password.*", "weather", "ask")],
)
def test_an_expression_matches_the_text_of_a_call_that_touches_nothing(world, rule, query, expected):
    world.rules(deny=[rule])

    assert world.verdict("look_up", look_up, query=query) == expected


@pytest.mark.parametrize(
    "lists, action, expected",
    [
        ({"deny": ["computer(action:click)"], "allow": ["computer"]}, "click", "deny"),
        ({"deny": ["computer(action:double_click)"], "allow": ["computer"]}, "doubleclick", "deny"),
        ({"deny": ["computer(action:key_combo)"], "allow": ["computer"]}, "keys", "deny"),
        ({"deny": ["computer(action:click)"], "allow": ["computer"]}, "type", "allow"),
        ({"allow": ["computer(action:click)"]}, "click", "allow"),
        ({"allow": ["computer(action:click)"]}, "type", "ask"),
        ({"ask": ["computer(action:click)"], "allow": ["*"]}, "click", "ask"),
    ],
)
def test_an_action_rule_matches_the_action(world, lists, action, expected):
    world.rules(**lists)

    assert world.verdict("computer", action=action) == expected


@pytest.mark.parametrize("rule", ["Bash", "run_shell", "shell_exec", "tool::shell_exec"])
@pytest.mark.parametrize(
    "name, args",
    [
        ("Bash", {"command": "ls"}),
        ("run_shell", {"command": "ls"}),
        ("shell_exec", {"argv": ["ls"]}),
        ("tool::shell_exec", {"argv": ["ls"]}),
    ],
)
def test_a_rule_on_any_name_of_the_shell_covers_all_of_them(world, rule, name, args):
    world.rules(deny=[rule])

    assert world.verdict(name, **args) == "deny"


def test_a_tool_cannot_write_the_rules_of_its_project(world):
    with world.runtime() as runtime:
        for path in (".hilt/permissions.yaml", ".jcli/permissions.yaml", ".hilt/hooks.yaml", ".hilt/../.hilt/x"):
            assert code(runtime.call("write_file", path=path, content="allow_all: true\n")) == "protected_path"
        outside = world.config.join("permissions.yaml")
        assert code(runtime.call("write_file", path=outside, content="allow_all: true\n")) != "ok"
    assert world.folder.tree() == {}
    assert not os.path.exists(outside)


def test_a_rule_file_created_by_other_means_loosens_nothing(world):
    world.rules(ask=["Write"])
    with world.runtime() as runtime:
        world.folder.write(".hilt/permissions.yaml", "allow_all: true\n")

        assert code(runtime.call("write_file", path="a", content="x")) == "approval_required"


@pytest.mark.starts_processes
@pytest.mark.parametrize("files", ["src/**", "src", "src/*", "src/l.txt", "src/link/b.txt"])
@pytest.mark.parametrize(
    "rules", [{"allow": ["Write(path:src/**)"]}, {"allow": ["*"], "deny": ["Write(path:other/**)"]}]
)
def test_an_allow_does_not_follow_links_out_of_its_folder(world, files, rules):
    world.folder.write("other/b.txt", "old\n")
    world.folder.write("src/a.txt", "old\n")
    os.symlink("../other", world.folder.join("src/link"))
    os.symlink("../other/b.txt", world.folder.join("src/l.txt"))
    world.rules(**rules)
    with world.runtime() as runtime:
        runtime.call("search_replace", pattern="old", replacement="new", files=files)

    assert world.folder.read("other/b.txt") == "old\n"


# --- modes and profiles -------------------------------------------------------------------------------------------


def _make_tool(name: str, effects: str, **traits: Any) -> Tool:
    def done(ctx: Any, args: dict[str, Any]) -> Output:
        return Output("done")

    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    return Tool(name, "A tool.", schema, frozenset(effects.split()), done, lambda args: (), traits=Traits(**traits))


DONE, ASKS, NOT = "ok", "approval_required", "denied"

# effect -> what happens without a rule file, and with one that does not mention the call; in the order of MODES:
# normal, auto-accept, yolo, plan, scheduler
EFFECTS = {
    "read": ((DONE, DONE, DONE, DONE, DONE), (DONE, DONE, DONE, DONE, DONE)),
    "write": ((DONE, DONE, DONE, NOT, DONE), (ASKS, DONE, DONE, NOT, NOT)),
    "execute": ((DONE, DONE, DONE, NOT, DONE), (ASKS, ASKS, DONE, NOT, NOT)),
    "network": ((DONE, DONE, DONE, DONE, DONE), (ASKS, ASKS, DONE, ASKS, NOT)),
    "control": ((ASKS, ASKS, DONE, NOT, NOT), (ASKS, ASKS, DONE, NOT, NOT)),
    "read write": ((DONE, DONE, DONE, NOT, DONE), (ASKS, DONE, DONE, NOT, NOT)),
    "write execute": ((DONE, DONE, DONE, NOT, DONE), (ASKS, ASKS, DONE, NOT, NOT)),
    "read network": ((DONE, DONE, DONE, DONE, DONE), (ASKS, ASKS, DONE, ASKS, NOT)),
}


@pytest.mark.parametrize("has_rules", [False, True])
@pytest.mark.parametrize("effects", EFFECTS)
def test_what_a_tool_may_do_in_each_mode(world, effects, has_rules):
    if has_rules:
        world.rules(allow=["undo"])
    outcomes = []
    for mode in MODES:
        with world.runtime(_make_tool("custom", effects), mode=mode) as runtime:
            outcomes.append(code(runtime.call("custom")))

    assert tuple(outcomes) == EFFECTS[effects][has_rules]


# approval, read_only -> what happens, in the order of MODES
APPROVALS = {
    ("never", False): (DONE, DONE, DONE, NOT, DONE),
    ("never", True): (DONE, DONE, DONE, DONE, DONE),
    ("always", False): (ASKS, ASKS, DONE, NOT, NOT),
    ("always", True): (ASKS, ASKS, DONE, NOT, NOT),
    ("destructive", False): (ASKS, DONE, DONE, NOT, NOT),
    ("destructive", True): (ASKS, DONE, DONE, NOT, NOT),
}


@pytest.mark.parametrize("effects", ["read", "write", "execute", "network", "control"])
@pytest.mark.parametrize("approval, read_only", APPROVALS)
def test_what_a_custom_tool_may_do_in_each_mode(world, approval, read_only, effects):
    custom = _make_tool("custom", effects, approval=approval, plan=read_only and approval == "never")
    outcomes, listed = [], []
    for mode in MODES:
        with world.runtime(custom, mode=mode) as runtime:
            outcomes.append(code(runtime.call("custom")))
            listed.append("custom" in [name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)])

    assert tuple(outcomes) == APPROVALS[approval, read_only]
    assert listed == [outcome != NOT for outcome in outcomes]


def test_rules_apply_to_custom_tools_too(world):
    custom = _make_tool("custom", "execute", approval="never")
    world.rules(deny=["custom"])
    with world.runtime(custom, mode="yolo") as runtime:
        assert code(runtime.call("custom")) == "denied"


HIDDEN = [
    ({"mode": "plan"}, "write_file", {"path": "a", "content": "x"}),
    ({"mode": "plan"}, "Edit", {"path": "a", "old_string": "x", "new_string": "y"}),
    ({"mode": "plan"}, "register_hook", {"action": "list"}),
    ({"mode": "plan"}, "job_input", {"task_id": "x", "input": "x"}),
    ({"mode": "plan"}, "memory", {"action": "list"}),
    ({"mode": "scheduler"}, "ask_user", {"questions": [{"header": "h", "question": "q?", "options": ["a", "b"]}]}),
    ({"mode": "headless"}, "ask_user", {"questions": [{"header": "h", "question": "q?", "options": ["a", "b"]}]}),
    ({"mode": "scheduler"}, "agent", {"prompt": "x"}),
    ({"mode": "scheduler"}, "tool::agent_spawn", {"template": "general", "message": "x"}),
    ({"profile": "nano"}, "list_dir", {"path": "."}),
    ({"profile": "nano"}, "undo", {"action": "list"}),
    ({"profile": "minimal"}, "apply_patch", {"patch": PATCH}),
    ({"profile": "minimal"}, "shell_exec", {"argv": ["ls"]}),
    ({"disabledTools": ["write_file"]}, "Write", {"path": "a", "content": "x"}),
    ({"disabledTools": ["Bash"]}, "run_shell", {"command": "ls"}),
    ({"disabledTools": ["Bash"]}, "tool::shell_exec", {"argv": ["ls"]}),
]


@pytest.mark.parametrize("flags, name, args", HIDDEN)
def test_a_hidden_tool_is_refused_whatever_rules_and_approvals_say(world, flags, name, args):
    world.rules("allow_all: true")
    with world.runtime(approve="all", **flags) as runtime:
        result = runtime.call(name, **args)
        tool_name = runtime.parts.catalog.find(name).tool.name
        listed = {shown for shown, *_ in runtime.parts.authority.listed_tools(runtime.session)}
        tool_list = runtime.call("list_tools").result if flags.get("profile") is None else ""

    assert code(result) == "denied"
    assert tool_name not in listed
    assert f'"{tool_name}"' not in tool_list
    assert world.folder.tree() == {}


@pytest.mark.parametrize("name", ["run_shell", "Bash"])
@pytest.mark.parametrize("command", ["true", "rm a"])
def test_a_command_that_would_ask_is_denied_in_scheduler_mode(world, name, command):
    world.rules(allow=["Read"])
    with world.runtime(mode="scheduler") as runtime:
        result = runtime.call(name, command=command)

    assert code(result) == "denied"
    assert result.error.message.startswith("Scheduler mode cannot ask for approval: no rule allows this")


@pytest.mark.parametrize("name", ["enter_plan_mode", "exit_plan_mode"])
def test_plan_mode_cannot_start_when_nobody_can_approve(world, name):
    with world.runtime(mode="scheduler") as runtime:
        assert code(runtime.call(name)) == "denied"
        assert name not in [name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)]
        assert code(runtime.call("write_file", path="a", content="x")) == "ok"


LOOKS = [
    ("memory", {"action": "list"}, "ok"),
    ("memory", {"action": "search", "query": "x"}, "ok"),
    ("memory", {"action": "recall", "key": "x"}, "not_found"),
    ("memory", {"action": "save", "key": "x", "value": "y"}, "approval_required"),
    ("memory", {"action": "forget", "key": "x"}, "approval_required"),
    ("undo", {"action": "list"}, "ok"),
    ("undo", {"action": "preview", "id": "abc"}, "not_found"),
    ("undo", {"action": "restore", "id": "abc"}, "approval_required"),
    ("undo", {"action": "clear"}, "approval_required"),
]


@pytest.mark.parametrize("name, args, expected", LOOKS)
def test_read_only_actions_do_not_ask_with_a_rule_file(world, name, args, expected):
    world.rules(allow=["Grep"])
    with world.runtime() as runtime:
        assert code(runtime.call(name, **args)) == expected


PAGE = (
    *(
        "Read",
        "Write",
        "Edit",
        "Glob",
        "Grep",
        "Bash",
        "TaskOutput",
        "WebFetch",
        "WebSearch",
        "Ask",
        "Task",
        "TodoWrite",
    ),
    *("TodoRead", "EnterPlanMode", "ExitPlanMode", "LoadSkill", "Agent", "RegisterHook", "Compact", "ComputerUse"),
)


@pytest.mark.parametrize("name", PAGE)
def test_a_rule_may_name_every_documented_tool_even_if_not_installed(world, name):
    world.rules(deny=[name])
    with world.runtime() as runtime:
        assert runtime.parts.authority.notes() == []


@pytest.mark.parametrize("flags, name, args", HIDDEN)
def test_a_hidden_tool_is_refused_also_with_invalid_arguments(world, flags, name, args):
    with world.runtime(**flags) as runtime:
        right = runtime.call(name, **args)
        for wrong in ({"nonsense": 1}, {"nonsense": 1, **args}):
            result = runtime.call(name, **wrong)
            assert (code(result), result.error.message) == ("denied", right.error.message)
        assert [row.entry.decision for row in runtime.parts.trail.rows()] == ["deny"] * 3


def test_a_misspelt_disabled_tool_refuses_calls_and_names_the_file(world):
    world.config.write("config.toml", 'disabledTools = ["write_fil"]\n')
    with world.runtime() as runtime:
        result = runtime.call("write_file", path="a", content="x")

    assert code(result) == "denied"
    assert "config.toml" in result.error.message
    assert "did you mean write_file" in result.error.message


def test_an_unknown_disabled_tool_changes_nothing(world):
    with world.runtime(disabledTools=["kubectl_pods"]) as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "ok"


def test_always_allow_settles_questions_and_no_denials(world):
    world.rules(deny=["computer(action:click)"])
    with world.runtime(alwaysAllow=["computer", "Write"]) as runtime:
        assert code(runtime.call("computer", action="type", text="x")) == "no_display"
        assert code(runtime.call("write_file", path="a", content="x")) == "ok"
        assert code(runtime.call("computer", action="click")) == "denied"
        assert code(runtime.call("edit_file", path="a", old_text="x", new_text="y")) == "approval_required"


@pytest.mark.starts_processes
@pytest.mark.parametrize("settings", [{}, {"shell.sandbox": "full", "shell.network": "full"}])
@pytest.mark.parametrize("caller", ["run_shell", "Bash", "shell_exec"])
def test_commands_are_read_only_in_plan_mode_for_every_caller(world, caller, settings):
    world.folder.write("a.txt", "before")
    script = "cat a.txt; echo after > a.txt; touch b.txt; ls /sys/class/net 2>/dev/null | wc -w; cat /proc/net/dev"
    args = {"argv": ["bash", "-c", script]} if caller == "shell_exec" else {"command": script}
    with world.runtime(mode="plan", **settings) as runtime:
        result = runtime.call(caller, **args)

    assert world.folder.tree() == {"a.txt": "before"}
    if result.error is None or result.error.code == "tool_failed":
        assert "eth0" not in result.result


def test_plan_mode_of_a_session_persists_in_another_process(world):
    with world.runtime() as runtime:
        assert code(runtime.call("enter_plan_mode")) == "ok"
        assert code(runtime.call("write_file", path="a", content="x")) == "denied"
    with world.runtime(mode="yolo") as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "denied"


def test_a_mode_set_by_another_process_applies_to_the_next_call(world):
    with world.runtime() as first, world.runtime() as second:
        for _ in range(20):  # in quick succession, because file times are coarse
            assert code(first.call("write_file", path="a", content=os.urandom(4).hex())) == "ok"
            second.parts.authority.values().set(first.parts.id, first.session, MODE, "plan")
            assert code(first.call("write_file", path="b", content="x")) == "denied"
            second.parts.authority.values().set(first.parts.id, first.session, MODE, None)


def test_a_session_idle_for_a_day_loses_its_values(world, monkeypatch):
    with world.runtime() as runtime:
        runtime.call("enter_plan_mode")
        id, session = runtime.parts.id, runtime.session
    later = time.time() + IDLE_SECONDS + 60
    monkeypatch.setattr(time, "time", lambda: later)
    with world.runtime() as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "ok"
    assert SessionValues(world.state).all(id, session) == {}


def test_a_session_used_within_a_day_keeps_its_mode(world, monkeypatch):
    now = time.time()
    with world.runtime() as runtime:
        runtime.call("enter_plan_mode")
        for hours in (20, 40, 60):
            monkeypatch.setattr(time, "time", lambda hours=hours: now + hours * 3600)
            monkeypatch.setattr(time, "time_ns", lambda hours=hours: int((now + hours * 3600) * 1e9))
            assert code(runtime.call("write_file", path="a", content="x")) == "denied"
    with world.runtime() as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "denied"


@pytest.mark.starts_processes
def test_yolo_obeys_the_sandbox(world):
    outside = os.path.join(world.base, "outside.txt")
    with world.runtime(mode="yolo") as runtime:
        runtime.call("run_shell", command=f"echo x > {outside}; echo x > .hilt/permissions.yaml")
        dangerous = runtime.call("run_shell", command="rm -rf /")

    assert not os.path.exists(outside)
    assert not os.path.exists(world.folder.join(".hilt/permissions.yaml"))
    assert code(dangerous) == "command_blocked"


# --- approvals ----------------------------------------------------------------------------------------------------


def ask(runtime: Runtime, name: str, /, **args: Any) -> str:
    """Make a call that asks while nobody attends, and return the id of its approval."""
    result = runtime.call(name, **args)
    assert code(result) == "approval_required", result
    assert result.error is not None
    assert f"hilt approve {result.error.details['approval']}" in result.error.suggestion
    return str(result.error.details["approval"])


def repeat(runtime: Runtime, approval: str, name: str, /, **args: Any) -> Result:
    return runtime.request(Call(name, args, approval=approval))


APPROVING = """
import sys
from hilt.state.approvals import Approvals, attend
approvals = Approvals(sys.argv[1])
approvals.answer(sys.argv[2], approved=sys.argv[3] == "yes", reason="not now", by="ann")
approvals.close()
"""


def answer(world: World, id: str, decision: str) -> None:
    """Answer as another process does."""
    subprocess.run([sys.executable, "-c", APPROVING, world.state, id, decision], check=True, timeout=60)


@pytest.mark.starts_processes
def test_an_approval_of_another_process_lets_the_repeated_call_run_once(world):
    world.rules(ask=["Write"])
    with world.runtime() as runtime:
        id = ask(runtime, "write_file", path="a", content="x")
        assert ask(runtime, "write_file", path="a", content="x") == id
        assert code(repeat(runtime, id, "write_file", path="a", content="x")) == "approval_required"
        answer(world, id, "yes")

        assert code(repeat(runtime, id, "write_file", path="a", content="x")) == "ok"
        assert code(repeat(runtime, id, "write_file", path="a", content="x")) == "denied"
        row = runtime.parts.trail.rows(limit=2)[0].entry
    assert (row.decision, row.approver, row.outcome) == ("ask", "ann", "ok")
    assert world.folder.tree() == {"a": "x"}


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "name, args",
    [
        ("write_file", {"path": "a", "content": "y"}),
        ("write_file", {"path": "b", "content": "x"}),
        ("edit_file", {"path": "a", "old_text": "x", "new_text": "y"}),
        ("run_shell", {"command": "ls"}),
    ],
)
def test_an_approval_is_for_no_other_call(world, name, args):
    world.rules(ask=["Write", "Edit", "Bash"])
    with world.runtime() as runtime:
        id = ask(runtime, "write_file", path="a", content="x")
        answer(world, id, "yes")

        assert code(repeat(runtime, id, name, **args)) == "denied"
        assert world.folder.tree() == {}


@pytest.mark.starts_processes
def test_a_call_repeated_with_an_approval_that_is_pending_for_another_reason_is_asked_anew(world):
    world.rules(ask=["Write"])
    with world.runtime() as runtime:
        old = ask(runtime, "write_file", path="a", content="x")
        world.rules(ask=["Write(path:a)"])

        error = repeat(runtime, old, "write_file", path="a", content="x").error
        assert error is not None
        new = str(error.details["approval"])
        answer(world, new, "yes")

        assert (error.code, "Write(path:a)" in error.message) == ("approval_required", True)
        assert new != old
        assert code(repeat(runtime, old, "write_file", path="a", content="x")) == "approval_timeout"
        assert code(repeat(runtime, new, "write_file", path="a", content="x")) == "ok"


def test_an_approval_is_for_no_other_session(world):
    world.rules(ask=["Write"])
    with world.runtime() as runtime:
        id = ask(runtime, "write_file", path="a", content="x")
        answer(world, id, "yes")

        other = Call("write_file", {"path": "a", "content": "x"}, approval=id, session="other")
        assert code(runtime.request(other)) == "denied"


CHANGES = [
    ("write_file", {"path": "a.txt", "content": "new\n"}),
    ("edit_file", {"path": "a.txt", "old_text": "old", "new_text": "new"}),
    ("multi_edit", {"edits": [{"path": "a.txt", "old_text": "old", "new_text": "new"}]}),
    ("search_replace", {"pattern": "old", "replacement": "new", "files": "*.txt"}),
    ("search_replace", {"pattern": "old", "replacement": "new", "files": "."}),
]


@pytest.mark.starts_processes
@pytest.mark.parametrize("name, args", CHANGES)
def test_an_approval_of_a_change_ends_when_the_file_changes(world, name, args):
    world.folder.write("a.txt", "old\n" + "line\n" * 50)
    world.rules(ask=["*"])
    with world.runtime() as runtime:
        id = ask(runtime, name, **args)
        answer(world, id, "yes")
        world.folder.write("a.txt", "old\n" + "line\n" * 50 + "far away\n")

        result = repeat(runtime, id, name, **args)
    assert code(result) == "denied"
    assert result.error is not None
    assert "files it showed have changed" in result.error.message
    assert world.folder.read("a.txt").startswith("old\n")


@pytest.mark.starts_processes
def test_an_approval_of_a_change_ends_when_it_would_change_more_files(world):
    world.folder.write("a.txt", "old\n")
    world.rules(ask=["*"])
    args = {"pattern": "old", "replacement": "new", "files": "*.txt"}
    with world.runtime() as runtime:
        id = ask(runtime, "search_replace", **args)
        answer(world, id, "yes")
        world.folder.write("b.txt", "old\n")

        assert code(repeat(runtime, id, "search_replace", **args)) == "denied"
    assert world.folder.tree() == {"a.txt": "old\n", "b.txt": "old\n"}


@pytest.mark.starts_processes
@pytest.mark.parametrize("name, args", CHANGES)
def test_an_answer_to_a_change_covers_only_what_was_shown(world, name, args):
    world.folder.write("a.txt", "old\n")
    world.rules(ask=["*"])

    def asker(asked: ApprovalRequest) -> UserAnswer:
        assert "-old" in asked.diff
        world.folder.write("a.txt", "old, and somebody else's work\n")
        return UserAnswer("once")

    with world.runtime(asker=asker) as runtime:
        assert code(runtime.call(name, **args)) == "stale_file"
    assert world.folder.read("a.txt") == "old, and somebody else's work\n"


def test_a_preview_does_not_count_as_a_read_of_the_session(world):
    world.folder.write("a.txt", "one\n")
    world.rules(ask=["Write"])
    with world.runtime(approve="once") as runtime:
        runtime.call("read_file", path="a.txt")
        world.folder.write("a.txt", "two, by somebody else\n")

        assert code(runtime.call("write_file", path="a.txt", content="three\n")) == "stale_file"
    assert world.folder.read("a.txt") == "two, by somebody else\n"


@pytest.mark.starts_processes
def test_a_denial_carries_its_reason_and_a_timeout_has_another_code(world):
    world.rules(ask=["Write"])
    with world.runtime() as runtime:
        id = ask(runtime, "write_file", path="a", content="x")
        answer(world, id, "no")
        denied = repeat(runtime, id, "write_file", path="a", content="x")
    with world.runtime(**{"approvals.timeout_s": 1}) as runtime:
        id = ask(runtime, "write_file", path="a", content="x")
        time.sleep(1.1)
        silent = repeat(runtime, id, "write_file", path="a", content="x")

    assert code(denied) == "USER_REJECTION"
    assert denied.error is not None
    assert "not now" in denied.error.message
    assert code(silent) == "approval_timeout"


def test_an_approval_that_expired_after_its_answer_is_not_used(world):
    world.rules(ask=["Write"])
    with world.runtime(**{"approvals.timeout_s": 1}) as runtime:
        id = ask(runtime, "write_file", path="a", content="x")
        runtime.parts.authority.approvals().answer(id, approved=True, by="ann")
        time.sleep(1.1)

        assert code(repeat(runtime, id, "write_file", path="a", content="x")) == "denied"


def test_a_call_waits_only_while_a_user_is_available(world):
    world.rules(ask=["Write"])
    approvals = Approvals(world.state)
    results: list[Result] = []
    with world.runtime() as runtime:
        with attend(world.state):
            waiting = threading.Thread(target=lambda: results.append(runtime.call("write_file", path="a", content="x")))
            waiting.start()
            deadline = time.monotonic() + 60
            while not (pending := approvals.pending(runtime.parts.id)) and time.monotonic() < deadline:
                time.sleep(0.01)
            approvals.answer(pending[0].id, approved=True, by="console")
            waiting.join(60)
        assert [code(result) for result in results] == ["ok"]

        with attend(world.state):
            waiting = threading.Thread(target=lambda: results.append(runtime.call("write_file", path="a", content="y")))
            waiting.start()
            while not approvals.pending(runtime.parts.id) and time.monotonic() < deadline:
                time.sleep(0.01)
        waiting.join(60)
    approvals.close()
    assert [code(result) for result in results] == ["ok", "approval_required"]


def test_a_call_that_waits_for_the_user_blocks_only_its_own_session(world):
    world.folder.write("a", "old")
    world.rules(allow=["Read"])
    asked, answered = threading.Event(), threading.Event()

    def asker(question: ApprovalRequest) -> UserAnswer:
        asked.set()
        answered.wait(60)
        return UserAnswer("once")

    texts: dict[str, str] = {}

    def call(name: str, tool: str, **args: str) -> threading.Thread:
        def work() -> None:
            result = runtime.request(Call(tool, {"path": "a", **args}, session=name))
            assert code(result) == "ok"
            texts[f"{name} {tool}"] = result.text

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    with world.runtime(asker=asker) as runtime:
        writing = call("one", "write_file", content="new")
        assert asked.wait(60)
        same, other = call("one", "read_file"), call("two", "read_file")
        other.join(60)
        assert "old" in texts["two read_file"]
        answered.set()
        for thread in (writing, same):
            thread.join(60)
    assert "new" in texts["one read_file"]


@pytest.mark.starts_processes
def test_always_stores_the_narrowest_rule_for_the_folder_of_the_command(world):
    os.makedirs(world.folder.join("sub"))
    world.rules(allow=["Read"])
    asked: list[ApprovalRequest] = []

    def asker(question: ApprovalRequest) -> UserAnswer:
        asked.append(question)
        return UserAnswer("always" if len(asked) == 1 else "deny", by="terminal")

    with world.runtime(asker=asker) as runtime:
        assert code(runtime.call("run_shell", command="true x", cwd="sub")) == "ok"
        assert code(runtime.call("run_shell", command="true x", cwd="./sub/../sub")) == "ok"
        assert code(runtime.call("run_shell", command="true x")) == "USER_REJECTION"
        assert code(runtime.call("run_shell", command="true y", cwd="sub")) == "USER_REJECTION"
        assert code(runtime.call("run_shell", command="true x; true y", cwd="sub")) == "USER_REJECTION"
        grant = runtime.parts.authority.approvals().grants(runtime.parts.id)[0]
        assert (grant.rule, grant.folder) == ("run_shell(/true x/)", os.path.realpath(world.folder.join("sub")))

        world.rules(ask=["Bash"])
        runtime.parts.authority._refreshed = -10
        assert code(runtime.call("run_shell", command="true x", cwd="sub")) == "USER_REJECTION"


@pytest.mark.starts_processes
@pytest.mark.parametrize("asks", ["a rule", "a broken rule", "a hook"])
def test_always_is_not_offered_when_no_grant_can_settle_the_question(world, asks):
    if asks == "a hook":
        hook(world, 'echo \'{"decision": "ask"}\'')
    else:
        world.rules(ask=["Bash" if asks == "a rule" else "Bash(true"])
    asked: list[ApprovalRequest] = []

    def asker(question: ApprovalRequest) -> UserAnswer:
        asked.append(question)
        return UserAnswer("once")

    with world.runtime(asker=asker) as runtime:
        assert code(runtime.call("run_shell", command="true")) == "ok"
    assert [question.rules for question in asked] == [()]


def test_a_revoked_grant_asks_again(world):
    world.rules(allow=["Read"])
    with world.runtime(approve="always") as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "ok"
    with world.runtime() as runtime:
        assert code(runtime.call("write_file", path="a", content="y")) == "ok"
        approvals = runtime.parts.authority.approvals()
        approvals.revoke(approvals.grants(runtime.parts.id)[0].id)
        assert code(runtime.call("write_file", path="a", content="z")) == "approval_required"


@pytest.mark.parametrize(
    "preset, first, second",
    [("deny", "USER_REJECTION", "USER_REJECTION"), ("once", "ok", "ok"), ("always", "ok", "ok"), ("all", "ok", "ok")],
)
@pytest.mark.parametrize("by_environment", [False, True])
def test_preset_answers_apply_to_every_question(world, preset, first, second, by_environment):
    world.rules(ask=["Write"])
    options: dict[str, Any] = {"environ": {"HILT_APPROVE": preset}} if by_environment else {"approve": preset}
    with world.runtime(**options) as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == first
        assert code(runtime.call("write_file", path="b", content="x")) == second
        assert runtime.parts.trail.rows(limit=1)[0].entry.approver == ("" if preset == "deny" else "--approve")


# --- trust and broken files ---------------------------------------------------------------------------------------


def test_a_project_file_loosens_only_with_trusted_content(world):
    world.rules(allow=["Read"])
    file = world.folder.write(".hilt/permissions.yaml", "allow: [Write]\n")
    with world.runtime() as runtime:
        trust = Trust(world.state)
        trust.trust(file_at(file, "rules"), b"allow: [Write]\n")
        trust.close()
        assert decision(runtime, "write_file", path="a", content="x") == "allow"
    world.folder.write(".hilt/permissions.yaml", "allow: [Write, Bash]\n")
    assert world.verdict("write_file", path="a", content="x") == "ask"
    with world.runtime(environ={"HILT_TRUST": "all"}) as runtime:
        assert decision(runtime, "write_file", path="a", content="x") == "allow"


def test_rule_files_of_parent_folders_apply_up_to_the_home_directory(world, monkeypatch):
    project = os.path.join(world.folder.path, *"deep" * 15)
    os.makedirs(project)
    world.folder.write(".hilt/permissions.yaml", "deny: [Write]\n")
    for home, expected in ((world.base, "deny"), (os.path.join(world.folder.path, "d"), "allow")):
        environ = {**environment(world.base), "HOME": home}
        with Runtime(project, environ=environ) as runtime:
            assert decision(runtime, "write_file", path="a", content="x") == expected


def test_a_workspace_below_the_configuration_directory_is_still_a_project(world):
    project = Folder(world.config.join("project"))
    project.write(".hilt/permissions.yaml", "allow_all: true\n")
    world.rules(ask=["Write"])
    with Runtime(project.path, environ=environment(world.base)) as runtime:
        assert decision(runtime, "run_shell", command="make") == "ask"


@pytest.mark.parametrize(
    "path, text, expected",
    [
        ("../config/permissions.yaml", "allow: [Read]\ndeny: [web_fetch]\n", "allow"),
        ("../config/permissions.yaml", "default: ask\n", "ask"),
        ("../config/permissions.yaml", "permissions:\n  default: ask\n", "ask"),
        (".hilt/permissions.yaml", "allow: [Read]\n", "allow"),
        (".hilt/permissions.yaml", "default: ask\nallow_all: true\n", "ask"),
        (".jcli/permissions.yaml", "permissions:\n  allow: [Read]\n", "ask"),
    ],
)
@pytest.mark.parametrize("name, args", [("write_file", {"path": "a", "content": "x"}), ("Bash", {"command": "ls"})])
def test_rules_only_add_unless_the_file_asks_by_default(world, path, text, expected, name, args):
    world.folder.write(path, text)

    assert world.verdict(name, **args) == expected
    assert world.verdict("read_file", path="a") == "allow"
    assert world.verdict("Bash", command="git reset --hard") == ("deny" if expected == "allow" else "ask")


BROKEN = [
    ("allow: [Read\n", "line"),
    ("alow: [Read]\n", "line 1"),
    ("allow: [Read]\nallow: [Write]\n", "line 2"),
    ("allow:\n- Bash(ls\n- Bash:[\n", "line 2"),
    ("deny:\n- Writ\n- Bahs\n- raed_file\n", "line"),
    ("- Read\n", "line 1"),
    ("allow_all: maybe\n", "line 1"),
    ("allow: [Read]\ndefault: allow\n", "line 2"),
    (b"\xff\xfe\x00", "line 1"),
    ("deny:\n- {rule: Bash, match: [1]}\n- {rule: 'Write(path:src/**)', match: [other/x]}\n- Reed\n", "line"),
]


@pytest.mark.parametrize("text, place", BROKEN)
@pytest.mark.parametrize("where", ["personal", "project"])
def test_a_broken_file_asks_about_everything_it_could_have_governed_and_names_the_line(world, text, place, where):
    world.folder.write("a.txt", "x")
    world.folder.write("src/b.txt", "x")
    if where == "personal":
        world.config.write("permissions.yaml", text)
    else:
        world.folder.write(".hilt/permissions.yaml", text)
    governs_all = not isinstance(text, str) or "\n- " not in text or text.startswith("- ")
    with world.runtime() as runtime:
        result = runtime.call("run_shell", command="ls")
        read = runtime.call("read_file", path="a.txt")
        notes = runtime.explain(Call("read_file", {"path": "a.txt"})).notes

    assert code(result) in ("approval_required", "denied")
    assert "permissions.yaml" in str(notes)
    assert place in str(notes)
    if governs_all:
        assert code(read) == "approval_required"
        assert "permissions.yaml" in read.error.message
        assert place in read.error.message


@pytest.mark.parametrize("kind", ["loop", "folder", "dangling", "pipe", "large"])
def test_a_rule_file_that_cannot_be_read_asks(world, kind):
    world.folder.write("a.txt", "x")
    os.makedirs(world.folder.join(".hilt"))
    file = world.folder.join(".hilt/permissions.yaml")
    if kind == "loop":
        os.symlink(".jcli", world.folder.join(".jcli"))
    elif kind == "folder":
        os.mkdir(file)
    elif kind == "dangling":
        os.symlink("nowhere", file)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        world.folder.write(".hilt/permissions.yaml", "#" * (1 << 21))
    with world.runtime() as runtime:
        result = runtime.call("read_file", path="a.txt")

    assert code(result) == "approval_required"
    assert "/permissions.yaml, line 1" in result.error.message


def test_the_personal_file_may_be_a_link_and_a_dangling_one_asks(world):
    world.folder.write("a.txt", "x")
    target = Folder(world.base).write("dotfiles/rules.yaml", "allow: [Read]\n")
    os.makedirs(world.config.path)
    os.symlink(target, world.config.join("permissions.yaml"))
    with world.runtime() as runtime:
        assert decision(runtime, "read_file", path="a.txt") == "allow"
        Folder(world.base).write("dotfiles/rules.yaml", "deny: [Read]\n")
        runtime.parts.authority._refreshed = -10  # a second later
        assert decision(runtime, "read_file", path="a.txt") == "deny"
        os.unlink(target)
        runtime.parts.authority._refreshed = -10
        assert decision(runtime, "read_file", path="a.txt") == "ask"


def test_a_changed_rule_file_applies_even_with_the_same_size_and_time(world):
    world.folder.write("a.txt", "x")
    file = world.config.write("permissions.yaml", "allow: [Read]\n")
    before = os.stat(file)
    time.sleep(0.2)
    with world.runtime() as runtime:
        assert decision(runtime, "read_file", path="a.txt") == "allow"
        with open(file, "r+b") as stream:
            stream.write(b"deny:  [Read]\n")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        runtime.parts.authority._refreshed = -10
        assert decision(runtime, "read_file", path="a.txt") == "deny"


@pytest.mark.parametrize("name", ["permissions.yaml of the user", ".hilt/permissions.yaml", ".jcli/permissions.yaml"])
def test_a_rule_file_applies_from_the_next_call_on(world, name):
    folder, path = (world.folder, name) if "/" in name else (world.config, "permissions.yaml")
    world.folder.write("a.txt", "x")
    with world.runtime() as runtime:
        outcomes = [code(runtime.call("read_file", path="a.txt"))]
        for text in ("deny: [Read]\n", "deny: [Write]\n", "deny: [Read]\n"):
            folder.write(path, text)
            outcomes.append(code(runtime.call("read_file", path="a.txt")))
        os.remove(folder.join(path))
        outcomes.append(code(runtime.call("read_file", path="a.txt")))

    assert outcomes == ["ok", "denied", "ok", "denied", "ok"]


@pytest.mark.starts_processes
def test_a_hook_file_applies_from_the_next_call_on(world):
    with world.runtime() as runtime:
        outcomes = [code(runtime.call("list_dir"))]
        hook(world, "exit 2")
        outcomes.append(code(runtime.call("list_dir")))

    assert outcomes == ["ok", "hook_blocked"]


# --- hooks --------------------------------------------------------------------------------------------------------


def hook(world: World, script: str, **more: Any) -> None:
    world.config.write(
        "hooks.yaml", json.dumps({"hooks": [{"event": "pre_tool_execution", "command": script, **more}]})
    )


@pytest.mark.starts_processes
def test_rewritten_arguments_are_decided_on_again(world):
    world.rules(deny=["Write(path:secret/**)"], allow=["Write"])
    changed = json.dumps({"arguments": {"path": "secret/key", "content": "x"}})
    hook(world, f"echo '{changed}'", match="Write")
    with world.runtime() as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "denied"
        explained = runtime.explain(Call("write_file", {"path": "a", "content": "x"}))
    assert world.folder.tree() == {}
    assert (explained.decision.verdict, len(explained.hooks)) == ("allow", 1)


@pytest.mark.starts_processes
@pytest.mark.parametrize("decided", ["allow", "ask", "deny"])
def test_a_hook_tightens_and_never_loosens(world, decided):
    world.rules(deny=["Edit"], ask=["Bash"], allow=["Write"])
    hook(world, f"echo '{json.dumps({'decision': decided})}'")
    expected = {"allow": ("ok", "approval_required"), "ask": (ASKS, ASKS), "deny": ("hook_blocked", "hook_blocked")}
    world.folder.write("a", "x")
    with world.runtime() as runtime:
        assert code(runtime.call("edit_file", path="a", old_text="x", new_text="y")) in ("denied", "hook_blocked")
        outcomes = (
            code(runtime.call("write_file", path="b", content="x")),
            code(runtime.call("run_shell", command="true")),
        )
    assert outcomes == expected[decided]
    assert world.folder.read("a") == "x"


@pytest.mark.starts_processes
def test_a_hook_that_asks_denies_in_scheduler_mode(world):
    hook(world, 'echo \'{"decision": "ask", "reason": "a look first"}\'')
    with world.runtime(mode="scheduler") as runtime:
        result = runtime.call("write_file", path="a", content="x")
        pending = runtime.parts.authority.approvals().pending()

    assert (code(result), pending, world.folder.tree()) == ("denied", [], {})
    assert "hook personal pre_tool_execution 0: a look first" in result.error.message


def test_explain_runs_no_hook(world):
    hook(world, "touch ran")
    with world.runtime() as runtime:
        runtime.explain(Call("read_file", {"path": "a"}))

    assert world.folder.tree() == {}


@pytest.mark.starts_processes
def test_hook_files_are_read_again_when_they_change_and_only_then(world, monkeypatch):
    from hilt import loaders

    read: list[str] = []
    contents = loaders.read

    def record_and_read(path: str, **more: bool) -> bytes:
        if path.endswith("hooks.yaml"):
            read.append(path)
        return contents(path, **more)

    monkeypatch.setattr(loaders, "read", record_and_read)
    hook(world, "true")
    time.sleep(0.2)
    with world.runtime() as runtime:
        for _ in range(5):
            runtime.call("list_dir")
        assert len(read) == 1
        hook(world, "exit 2")
        assert code(runtime.call("list_dir")) == "hook_blocked"


@pytest.mark.starts_processes
def test_a_projects_hooks_run_only_while_all_their_files_are_trusted(world):
    entry = {"event": "pre_tool_execution", "command": "sh .hilt/hooks/block.sh"}
    files = {
        ".hilt/hooks.yaml": json.dumps({"hooks": [entry]}),
        ".hilt/hooks/block.sh": "exit 2\n",
    }
    with world.runtime() as runtime:
        trust = runtime.parts.authority.trust()
        for name, text in files.items():
            path = world.folder.write(name, text)
            runtime.parts.authority._refreshed = -10
            assert code(runtime.call("list_dir")) == "ok"
            trust.trust(file_at(path, "hooks"), text.encode())
        runtime.parts.authority._refreshed = -10
        assert code(runtime.call("list_dir")) == "hook_blocked"
        world.folder.write(".hilt/hooks/block.sh", "exit 1\n")
        result = runtime.call("list_dir")
        notes = runtime.explain(Call("list_dir", {})).notes
    assert code(result) == "ok"
    assert "block.sh is not trusted" in str(notes)
    assert "block.sh is not trusted" in str(result.meta["policy"])


def test_an_answer_to_all_questions_is_given_once_and_recorded_every_time(world):
    world.rules(ask=["*"])
    asked: list[ApprovalRequest] = []

    def asker(question: ApprovalRequest) -> UserAnswer:
        asked.append(question)
        return UserAnswer("all", by="ann")

    with world.runtime(asker=asker) as runtime:
        assert code(runtime.call("write_file", path="a", content="x")) == "ok"
        assert code(runtime.call("read_file", path="a")) == "ok"
        assert [row.entry.approver for row in runtime.parts.trail.rows()] == ["ann", "ann"]
    assert len(asked) == 1


@pytest.mark.starts_processes
def test_a_prompt_omits_default_arguments_but_an_approval_binds_them(world):
    world.folder.write("a.txt", "old\n")
    world.rules(ask=["*"])
    asked: list[ApprovalRequest] = []

    def asker(question: ApprovalRequest) -> UserAnswer:
        asked.append(question)
        return UserAnswer("deny", "no")

    with world.runtime(asker=asker) as runtime:
        runtime.call("edit_file", path="a.txt", old_text="old", new_text="new", show_context=0)
        runtime.call("edit_file", path="a.txt", old_text="old", new_text="new", show_context=3)
    explicit = {"path": "a.txt", "old_text": "old", "new_text": "new"}
    assert [question.arguments for question in asked] == [explicit, {**explicit, "show_context": 3}]
    with world.runtime() as runtime:
        id = ask(runtime, "edit_file", path="a.txt", old_text="old", new_text="new")
        answer(world, id, "yes")
        result = repeat(runtime, id, "edit_file", path="a.txt", old_text="old", new_text="new", fuzzy_indent=True)
        assert code(result) == "denied"


def test_always_stores_no_rule_for_registering_a_hook(world):
    asked: list[ApprovalRequest] = []

    def asker(question: ApprovalRequest) -> UserAnswer:
        asked.append(question)
        return UserAnswer("always")

    with world.runtime(asker=asker) as runtime:
        assert code(runtime.call("register_hook", action="register", event="stop", command="true")) == "ok"
        assert runtime.parts.authority.approvals().grants(runtime.parts.id) == []
    assert asked[0].rules == ()


def test_a_hook_of_the_session_cannot_run_what_rules_deny(world):
    world.rules(deny=["Bash(curl:*)"], allow=["RegisterHook"])
    with world.runtime() as runtime:
        result = runtime.call("register_hook", action="register", event="pre_tool_execution", command="env curl x")
        assert code(result) in ("denied", "approval_required")
        assert code(runtime.call("list_dir")) == "ok"


def test_only_a_dry_run_of_a_built_in_tool_is_trusted(world):
    ran: list[bool] = []

    @tool(effects="write")
    def careless(dry_run: bool = False) -> str:
        """Write something, dry run or not."""
        ran.append(dry_run)
        return "done"

    world.folder.write("a.txt", "old\n")
    world.rules(allow=["Read"])
    with world.runtime(careless) as runtime:
        assert code(runtime.call("careless")) == "approval_required"
        assert code(runtime.call("careless", dry_run=True)) == "approval_required"
        assert code(runtime.call("edit_file", path="a.txt", old_text="old", new_text="new", dry_run=True)) == "ok"
    assert ran == []
    assert world.folder.tree() == {"a.txt": "old\n"}
