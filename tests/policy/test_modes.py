"""Modes and profiles: what is hidden, and what happens without a rule."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from hilt.declaration import EFFECTS
from hilt.errors import ToolError
from hilt.policy import modes
from hilt.policy.decision import Vote
from hilt.policy.modes import MODES, PROFILES, Approval, Circumstances, Traits, hidden, mode_vote, settle

APPROVALS = get_args(Approval)
NO_RULES = Circumstances()
RULES = Circumstances(rules=True)


def built_in(name: str, effects: str) -> Traits:
    return Traits(name, frozenset(effects.split()))


def custom(approval: Approval, *, read_only: bool = False) -> Traits:
    return Traits("kubectl_pods", frozenset(("execute",)), True, approval, read_only)


def verdict(mode: str, traits: Traits, circumstances: Circumstances = NO_RULES) -> str:
    return mode_vote(modes.named(mode), traits, circumstances).verdict


READ = built_in("read_file", "read")
WRITE = built_in("write_file", "write")
SHELL = built_in("run_shell", "execute")
FETCH = built_in("web_fetch", "network")
HOOK = built_in("register_hook", "control")
DESKTOP = built_in("computer", "control")
INSTALL = built_in("install_tool", "control")
TODO = built_in("todo_write", "control")


# the table of defaults: without a rule file, and with one that says nothing of the call
@pytest.mark.parametrize(
    "traits, circumstances, without, with_rules",
    [
        (READ, NO_RULES, "allow", "allow"),
        (WRITE, NO_RULES, "allow", "ask"),
        (built_in("edit_file", "read write"), NO_RULES, "allow", "ask"),
        (SHELL, Circumstances(risk="safe"), "allow", "ask"),
        (SHELL, Circumstances(risk="caution"), "allow", "ask"),
        (SHELL, Circumstances(risk="dangerous"), "deny", "ask"),
        (SHELL, Circumstances(risk="dangerous", forced=True), "allow", "ask"),
        (SHELL, Circumstances(risk="safe", sandboxed=False), "deny", "ask"),
        (SHELL, Circumstances(risk="safe", sandboxed=False, full=True), "ask", "ask"),
        (SHELL, Circumstances(risk="dangerous", sandboxed=False, full=True), "deny", "ask"),
        (SHELL, Circumstances(risk="dangerous", forced=True, sandboxed=False, full=True), "ask", "ask"),
        (built_in("job_input", "execute"), NO_RULES, "allow", "ask"),
        (FETCH, NO_RULES, "allow", "ask"),
        (built_in("web_save", "network write"), NO_RULES, "allow", "ask"),
        (HOOK, NO_RULES, "ask", "ask"),
        (DESKTOP, Circumstances(action="click"), "ask", "ask"),
        (DESKTOP, Circumstances(action="screenshot"), "ask", "ask"),
        (INSTALL, NO_RULES, "ask", "ask"),
        (TODO, NO_RULES, "allow", "allow"),
        (built_in("nothing", ""), NO_RULES, "ask", "ask"),
    ],
    ids=lambda value: value.name if isinstance(value, Traits) else "",
)
def test_the_defaults_of_built_in_tools(traits, circumstances, without, with_rules):
    assert verdict("normal", traits, circumstances) == without
    assert verdict("normal", traits, circumstances._replace(rules=True)) == with_rules


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
@pytest.mark.parametrize("circumstances", [NO_RULES, RULES, Circumstances(risk="dangerous")])
def test_custom_tools_by_their_approval(approval, read_only, expected, circumstances):
    traits = custom(approval, read_only=read_only)

    assert tuple(verdict(mode, traits, circumstances) for mode in MODES) == expected
    for mode in MODES:
        is_hidden = hidden(mode, "full", traits) is not None
        assert is_hidden == (verdict(mode, traits, circumstances) == "deny")


# normal, auto-accept, yolo, plan, scheduler
@pytest.mark.parametrize(
    "traits, circumstances, expected",
    [
        (READ, NO_RULES, ("allow", "allow", "allow", "allow", "allow")),
        (READ, RULES, ("allow", "allow", "allow", "allow", "allow")),
        (WRITE, NO_RULES, ("allow", "allow", "allow", "deny", "allow")),
        (WRITE, RULES, ("ask", "allow", "allow", "deny", "deny")),
        (SHELL, Circumstances(risk="safe"), ("allow", "allow", "allow", "allow", "allow")),
        (SHELL, Circumstances(rules=True, risk="safe"), ("ask", "ask", "allow", "ask", "deny")),
        (SHELL, Circumstances(risk="dangerous"), ("deny", "deny", "deny", "deny", "deny")),
        (SHELL, Circumstances(rules=True, risk="dangerous"), ("ask", "ask", "deny", "ask", "deny")),
        (SHELL, Circumstances(risk="dangerous", forced=True), ("allow", "allow", "allow", "allow", "allow")),
        (SHELL, Circumstances(risk="safe", sandboxed=False), ("deny", "deny", "deny", "deny", "deny")),
        (SHELL, Circumstances(risk="safe", sandboxed=False, full=True), ("ask", "ask", "allow", "ask", "deny")),
        (FETCH, NO_RULES, ("allow", "allow", "allow", "allow", "allow")),
        (FETCH, RULES, ("ask", "ask", "allow", "ask", "deny")),
        (HOOK, NO_RULES, ("ask", "ask", "allow", "deny", "deny")),
        (INSTALL, NO_RULES, ("ask", "ask", "allow", "deny", "deny")),
        (TODO, RULES, ("allow", "allow", "allow", "allow", "allow")),
        (built_in("ask_user", "control"), NO_RULES, ("allow", "allow", "allow", "allow", "deny")),
        (built_in("agent", "control"), NO_RULES, ("allow", "allow", "allow", "allow", "deny")),
        (built_in("job_input", "execute"), NO_RULES, ("allow", "allow", "allow", "deny", "allow")),
        (built_in("memory", "write"), NO_RULES, ("allow", "allow", "allow", "deny", "allow")),
        (DESKTOP, Circumstances(action="click"), ("ask", "ask", "allow", "deny", "deny")),
        (DESKTOP, Circumstances(action="screenshot"), ("ask", "ask", "allow", "ask", "deny")),
        (DESKTOP, NO_RULES, ("ask", "ask", "allow", "deny", "deny")),
    ],
    ids=lambda value: value.name if isinstance(value, Traits) else "",
)
def test_built_in_tools_in_every_mode(traits, circumstances, expected):
    assert tuple(verdict(mode, traits, circumstances) for mode in MODES) == expected


@pytest.mark.parametrize("effect, mode, rules", list(product(EFFECTS, MODES, [False, True])))
def test_a_mode_only_differs_from_normal_as_it_says(effect, mode, rules):
    """yolo and auto-accept only loosen what asks, plan and scheduler only tighten."""
    circumstances = Circumstances(rules=rules, risk="caution")
    traits = built_in("a_tool", effect)
    order = ["allow", "ask", "deny"]
    plain, found = (order.index(verdict(name, traits, circumstances)) for name in ("normal", mode))

    if mode in ("plan", "scheduler"):
        assert found >= plain
    else:
        assert found <= plain


@pytest.mark.parametrize("traits, action", [(DESKTOP, "click"), (DESKTOP, "type"), (WRITE, ""), (HOOK, "register")])
def test_no_rule_lifts_what_a_mode_refuses(traits, action):
    default = mode_vote("plan", traits, Circumstances(action=action))

    assert settle("plan", Vote("allow", "rules", "a rule"), default) == default
    assert default.verdict == "deny"
    assert hidden("plan", "full", traits, action=action) is not None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ruled", ["allow", "ask", "deny", None])
@pytest.mark.parametrize("risk", ["safe", "dangerous"])
def test_rules_and_mode_are_joined(mode, ruled, risk):
    default = mode_vote(mode, SHELL, Circumstances(rules=True, risk=risk))
    vote = None if ruled is None else Vote(ruled, "rules", "a rule")

    found = settle(mode, vote, default)

    if ruled is None:
        assert found == default
    elif ruled == "ask":
        # a rule that asks does so in yolo mode too
        assert found.verdict == ("deny" if mode == "scheduler" or default.verdict == "deny" else "ask")
    else:
        assert found.verdict == ruled


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_hides_what_it_does_not_name(profile):
    members = PROFILES[profile]
    for name in ("read_file", "search_files", "list_dir", "agent", "undo", "web_fetch"):
        is_hidden = hidden("normal", profile, built_in(name, "read")) is not None
        assert is_hidden == (members is not None and name not in members)


def test_the_profiles_are_these():
    minimal = {"read_file", "write_file", "edit_file", "run_shell", "find_files", "search_files", "list_dir", "agent"}

    assert PROFILES["full"] is None
    assert set(PROFILES["minimal"] or ()) == minimal
    assert set(PROFILES["nano"] or ()) == minimal - {"find_files", "list_dir", "agent"}


@pytest.mark.parametrize("profile", ["minimal", "nano"])
def test_a_custom_tool_is_in_a_profile_when_the_project_names_it(profile):
    traits = custom("never")

    assert hidden("normal", profile, traits) is not None
    assert hidden("normal", profile, traits, named_tools=("kubectl_pods",)) is None
    assert hidden("normal", profile, traits._replace(name="read_file")) is not None


def test_a_disabled_tool_is_hidden_in_every_mode_and_profile():
    for mode, profile, traits in product(MODES, PROFILES, (READ, custom("never", read_only=True))):
        reason = hidden(mode, profile, traits, disabled=("read_file", "kubectl_pods"), named_tools=(traits.name,))
        assert reason == f"{traits.name} is disabled by the setting disabledTools"


@pytest.mark.parametrize("action", ["screenshot", "ax_tree", None])
def test_looking_at_the_desktop_is_there_in_plan_mode(action):
    assert hidden("plan", "full", DESKTOP, action=action) is None


def test_a_mode_is_known_by_its_alias():
    assert modes.named("headless") == "scheduler"
    assert [modes.named(mode) for mode in MODES] == list(MODES)
    with pytest.raises(ToolError) as caught:
        modes.named("Yolo")
    assert caught.value.code == "invalid_request"
