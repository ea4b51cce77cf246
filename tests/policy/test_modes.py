"""Modes and profiles: what is hidden, and what happens without a rule."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from hilt.call import Output
from hilt.catalog import Catalog, built_in_names
from hilt.declaration import EFFECTS, Approval, Tool, Traits
from hilt.errors import ToolError
from hilt.policy import modes
from hilt.policy.decision import Vote
from hilt.policy.modes import MODES, PROFILES, Circumstances, hidden, mode_vote, settle

APPROVALS = get_args(Approval)
DEFAULTS = Circumstances()
STRICT = Circumstances(strict=True)


def a_tool(name: str, effects: str, traits: Traits, source: str = "built-in") -> Tool:
    return Tool(
        name, "", {}, frozenset(effects.split()), lambda ctx, args: Output(), lambda args: (), source, traits=traits
    )


def built_in(name: str, effects: str, **traits: Any) -> Tool:
    return a_tool(name, effects, Traits(**traits))


def custom(approval: Approval, *, read_only: bool = False) -> Tool:
    plan = read_only and approval == "never"
    return a_tool("kubectl_pods", "execute", Traits(approval=approval, plan=plan), "personal")


def verdict(mode: str, tool: Tool, circumstances: Circumstances = DEFAULTS) -> str:
    return mode_vote(modes.find_mode(mode), tool, tool.effects, circumstances).verdict


READ = Catalog().find("read_file").tool
WRITE = Catalog().find("write_file").tool
SHELL = Catalog().find("run_shell").tool
FETCH = built_in("web_fetch", "network")
HOOK = Catalog().find("register_hook").tool
DESKTOP = Catalog().find("computer").tool
INSTALL = built_in("install_tool", "control")
TODO = built_in("todo_write", "control", plan=True)


# the table of defaults, and with `default: ask` in a rule file
@pytest.mark.parametrize(
    "tool, circumstances, without, strictly",
    [
        (READ, DEFAULTS, "allow", "allow"),
        (WRITE, DEFAULTS, "allow", "ask"),
        (built_in("edit_file", "read write"), DEFAULTS, "allow", "ask"),
        (SHELL, Circumstances(risk="safe"), "allow", "ask"),
        (SHELL, Circumstances(risk="caution"), "allow", "ask"),
        (SHELL, Circumstances(risk="dangerous"), "deny", "ask"),
        (SHELL, Circumstances(risk="dangerous", forced=True), "allow", "ask"),
        (SHELL, Circumstances(risk="safe", sandboxed=False), "deny", "ask"),
        (SHELL, Circumstances(risk="safe", sandboxed=False, full=True), "ask", "ask"),
        (SHELL, Circumstances(risk="dangerous", sandboxed=False, full=True), "deny", "ask"),
        (SHELL, Circumstances(risk="dangerous", forced=True, sandboxed=False, full=True), "ask", "ask"),
        (built_in("job_input", "execute"), DEFAULTS, "allow", "ask"),
        (FETCH, DEFAULTS, "allow", "ask"),
        (built_in("web_save", "network write"), DEFAULTS, "allow", "ask"),
        (HOOK, DEFAULTS, "ask", "ask"),
        (DESKTOP, Circumstances(action="click"), "ask", "ask"),
        (DESKTOP, Circumstances(action="screenshot"), "ask", "ask"),
        (DESKTOP, Circumstances(action="screenshot", may_look=True), "allow", "allow"),
        (DESKTOP, Circumstances(action="click", may_look=True), "ask", "ask"),
        (INSTALL, DEFAULTS, "ask", "ask"),
        (TODO, DEFAULTS, "allow", "allow"),
        (built_in("nothing", ""), DEFAULTS, "ask", "ask"),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else "",
)
def test_the_defaults_of_built_in_tools(tool, circumstances, without, strictly):
    assert verdict("normal", tool, circumstances) == without
    assert verdict("normal", tool, circumstances._replace(strict=True)) == strictly


# normal, auto-accept, yolo, plan, scheduler
@pytest.mark.parametrize(
    "approval, read_only, expected",
    [
        ("never", True, ("allow", "allow", "allow", "allow", "allow")),
        ("never", False, ("allow", "allow", "allow", "deny", "allow")),
        ("always", True, ("ask", "ask", "allow", "deny", "deny")),
        ("always", False, ("ask", "ask", "allow", "deny", "deny")),
        ("destructive", True, ("ask", "allow", "allow", "deny", "deny")),
        ("destructive", False, ("ask", "allow", "allow", "deny", "deny")),
    ],
)
@pytest.mark.parametrize("circumstances", [DEFAULTS, STRICT, Circumstances(risk="dangerous")])
def test_the_approval_of_custom_tools_in_every_mode(approval, read_only, expected, circumstances):
    tool = custom(approval, read_only=read_only)

    assert tuple(verdict(mode, tool, circumstances) for mode in MODES) == expected
    for mode in MODES:
        is_hidden = hidden(mode, "full", tool) is not None
        assert is_hidden == (verdict(mode, tool, circumstances) == "deny")


# normal, auto-accept, yolo, plan, scheduler
@pytest.mark.parametrize(
    "tool, circumstances, expected",
    [
        (READ, DEFAULTS, ("allow", "allow", "allow", "allow", "allow")),
        (READ, STRICT, ("allow", "allow", "allow", "allow", "allow")),
        (WRITE, DEFAULTS, ("allow", "allow", "allow", "deny", "allow")),
        (WRITE, STRICT, ("ask", "allow", "allow", "deny", "deny")),
        (SHELL, Circumstances(risk="safe"), ("allow", "allow", "allow", "allow", "allow")),
        (SHELL, Circumstances(strict=True, risk="safe"), ("ask", "ask", "allow", "ask", "deny")),
        (SHELL, Circumstances(risk="dangerous"), ("deny", "deny", "deny", "deny", "deny")),
        (SHELL, Circumstances(strict=True, risk="dangerous"), ("ask", "ask", "deny", "ask", "deny")),
        (SHELL, Circumstances(risk="dangerous", forced=True), ("allow", "allow", "allow", "allow", "allow")),
        (SHELL, Circumstances(risk="safe", sandboxed=False), ("deny", "deny", "deny", "deny", "deny")),
        (SHELL, Circumstances(risk="safe", sandboxed=False, full=True), ("ask", "ask", "allow", "ask", "deny")),
        (FETCH, DEFAULTS, ("allow", "allow", "allow", "allow", "allow")),
        (FETCH, STRICT, ("ask", "ask", "allow", "ask", "deny")),
        (HOOK, DEFAULTS, ("ask", "ask", "allow", "deny", "deny")),
        (INSTALL, DEFAULTS, ("ask", "ask", "allow", "deny", "deny")),
        (TODO, STRICT, ("allow", "allow", "allow", "allow", "allow")),
        (
            built_in("ask_user", "control", plan=True, asks_person=True),
            DEFAULTS,
            ("allow", "allow", "allow", "allow", "deny"),
        ),
        (
            built_in("agent", "control", plan=True, asks_person=True),
            DEFAULTS,
            ("allow", "allow", "allow", "allow", "deny"),
        ),
        (built_in("job_input", "execute"), DEFAULTS, ("allow", "allow", "allow", "deny", "allow")),
        (built_in("memory", "write"), DEFAULTS, ("allow", "allow", "allow", "deny", "allow")),
        (DESKTOP, Circumstances(action="click"), ("ask", "ask", "allow", "deny", "deny")),
        (DESKTOP, Circumstances(action="screenshot"), ("ask", "ask", "allow", "ask", "deny")),
        (DESKTOP, Circumstances(action="ax_tree", may_look=True), ("allow", "allow", "allow", "allow", "deny")),
        (DESKTOP, DEFAULTS, ("ask", "ask", "allow", "deny", "deny")),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else "",
)
def test_built_in_tools_in_every_mode(tool, circumstances, expected):
    assert tuple(verdict(mode, tool, circumstances) for mode in MODES) == expected


@pytest.mark.parametrize("effect, mode, strict", list(product(EFFECTS, MODES, [False, True])))
def test_a_mode_only_loosens_or_only_tightens(effect, mode, strict):
    """yolo and auto-accept only allow calls that would ask; plan and scheduler only tighten."""
    circumstances = Circumstances(strict=strict, risk="caution")
    tool = built_in("a_tool", effect)
    order = ["allow", "ask", "deny"]
    plain, changed = (order.index(verdict(name, tool, circumstances)) for name in ("normal", mode))

    if mode in ("plan", "scheduler"):
        assert changed >= plain
    else:
        assert changed <= plain


@pytest.mark.parametrize("tool, action", [(DESKTOP, "click"), (DESKTOP, "type"), (WRITE, ""), (HOOK, "register")])
def test_no_rule_overrides_the_denial_of_a_mode(tool, action):
    default = mode_vote("plan", tool, tool.effects, Circumstances(action=action))

    assert settle("plan", Vote("allow", "rules", "a rule"), default) == default
    assert default.verdict == "deny"
    assert hidden("plan", "full", tool, action=action) is not None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ruled", ["allow", "ask", "deny", None])
@pytest.mark.parametrize("risk", ["safe", "dangerous"])
def test_rules_and_mode_are_combined(mode, ruled, risk):
    default = mode_vote(mode, SHELL, SHELL.effects, Circumstances(strict=True, risk=risk))
    vote = None if ruled is None else Vote(ruled, "rules", "a rule")

    settled = settle(mode, vote, default)

    if ruled is None:
        assert settled == default
    elif ruled == "ask":
        # a rule that asks does so in yolo mode too
        assert settled.verdict == ("deny" if mode == "scheduler" or default.verdict == "deny" else "ask")
    else:
        assert settled.verdict == ruled


def test_the_profiles_have_these_built_in_tools():
    catalog = Catalog()
    tools = [catalog.find(name).tool for name in built_in_names()]
    available = {
        profile: {
            tool.name for tool in tools if not tool.traits.finds_tools and hidden("normal", profile, tool) is None
        }
        for profile in PROFILES
    }

    assert available["nano"] == {"read_file", "write_file", "edit_file", "run_shell", "search_files"}
    assert available["minimal"] == available["nano"] | {"find_files", "list_dir"}
    assert available["full"] == {tool.name for tool in tools if not tool.traits.finds_tools}


@pytest.mark.parametrize("profile", ["minimal", "nano"])
def test_a_custom_tool_is_in_a_profile_when_the_project_lists_it(profile):
    tool = custom("never")

    assert hidden("normal", profile, tool) is not None
    assert hidden("normal", profile, tool, named_tools=("kubectl_pods",)) is None
    assert hidden("normal", profile, tool._replace(name="read_file")) is not None


def test_a_disabled_tool_is_hidden_in_every_mode_and_profile():
    for mode, profile, tool in product(MODES, PROFILES, (READ, custom("never", read_only=True))):
        reason = hidden(mode, profile, tool, disabled=("read_file", "kubectl_pods"), named_tools=(tool.name,))
        assert reason is not None
        assert "disabledTools" in reason


@pytest.mark.parametrize("action", ["screenshot", "ax_tree", None])
def test_read_only_desktop_actions_are_available_in_plan_mode(action):
    assert hidden("plan", "full", DESKTOP, action=action) is None


def test_a_mode_has_an_alias():
    assert modes.find_mode("headless") == "scheduler"
    assert [modes.find_mode(mode) for mode in MODES] == list(MODES)
    with pytest.raises(ToolError) as caught:
        modes.find_mode("Yolo")
    assert caught.value.code == "invalid_request"
