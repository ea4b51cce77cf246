"""Modes and profiles: which tools are available, and the default decision on a call that no rule applies to.

A mode decides what is hidden and what needs approval; a profile is a subset of the tools. Hidden tools are neither
listed nor run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from hilt.declaration import Approval, ProfileName, Tool
from hilt.errors import ToolError
from hilt.policy.decision import Vote, decide

Mode = Literal["normal", "auto-accept", "yolo", "plan", "scheduler"]

MODES: tuple[Mode, ...] = ("normal", "auto-accept", "yolo", "plan", "scheduler")
ALIASES: dict[str, Mode] = {"headless": "scheduler"}
PROFILES: tuple[ProfileName, ...] = ("full", "minimal", "nano")  # each is a subset of the one before it


class Circumstances(NamedTuple):
    """What the default decision on a call depends on besides the tool.

    `strict` is set when a rule file makes asking the default. `risk`, `forced`, `sandboxed` and `full` (the user
    disabled the sandbox) are about commands; the risk is None when unknown, as for input to a job. `action` is the
    argument of that name.
    `may_look` is set when the user has approved the tool's actions that only look, for this session.
    """

    strict: bool = False
    risk: Literal["safe", "caution", "dangerous"] | None = None
    ruins: bool = False  # it destroys everything
    undone: bool = False  # undo brings back all that a dangerous command removes
    forced: bool = False
    sandboxed: bool = True
    full: bool = False
    action: str = ""
    may_look: bool = False


def find_mode(mode: str) -> Mode:
    """Return a mode by its name or alias."""
    canonical = ALIASES.get(mode, mode)
    for known in MODES:
        if canonical == known:
            return known
    raise ToolError("invalid_request", f"Unknown mode {mode!r}.", suggestion=f"Use one of: {', '.join(MODES)}.")


def narrowest(*modes: Mode) -> Mode:
    """Return the mode that allows least without asking."""
    return min(modes, key=("plan", "scheduler", "normal", "auto-accept", "yolo").index)


def hidden(
    mode: Mode,
    profile: ProfileName,
    tool: Tool,
    *,
    disabled: Collection[str] = (),
    named_tools: Collection[str] = (),
    action: str | None = None,
) -> str | None:
    """Return why a tool is hidden, or None.

    `disabled` are the canonical names in the setting disabledTools, `named_tools` those that the project's profile
    table adds to a profile. A call also passes its `action`, since a mode may hide some actions. No rule overrides
    this.
    """
    name = tool.name
    if name in disabled or tool.traits.ruled_as in disabled:
        return f"{name} is disabled by the setting disabledTools"
    if tool.traits.finds_tools:
        return None
    smallest = "full" if tool.is_custom else tool.traits.profile
    if PROFILES.index(profile) > PROFILES.index(smallest) and name not in named_tools:
        return f"{name} is not in the profile {profile}"
    effects = frozenset({"read"}) if tool.traits.may_only_read else tool.effects
    return _refusal(mode, tool, effects, action)


def mode_vote(mode: Mode, tool: Tool, effects: frozenset[str], circumstances: Circumstances) -> Vote:
    """Return the mode's default decision on a call with these effects that no rule applies to."""
    refusal = _refusal(mode, tool, effects, circumstances.action)
    if refusal is not None:
        return Vote("deny", "mode", refusal)
    vote = _custom(mode, tool) if tool.is_custom else _built_in(mode, tool, effects, circumstances)
    return unattended(mode, vote)


def settle(mode: Mode, ruled: Vote | None, default: Vote) -> Vote:
    """Combine the rules' vote with the default vote: an allow replaces the default unless the mode denies the call."""
    if ruled is None or (default.verdict == "deny" and default.voter == "mode" and ruled.verdict == "allow"):
        return default
    return ruled if ruled.verdict == "allow" else unattended(mode, decide((ruled, default)))


def unattended(mode: str, vote: Vote) -> Vote:
    """Return the vote; in scheduler mode, where no user is available, asking becomes a denial."""
    if mode != "scheduler" or vote.verdict != "ask":
        return vote
    return Vote("deny", vote.voter, f"scheduler mode cannot ask for approval: {vote.reason}")


def _refusal(mode: Mode, tool: Tool, effects: frozenset[str], action: str | None) -> str | None:
    """Return why a mode hides a tool or this action of it, or None."""
    name, traits = tool.name, tool.traits
    if mode == "plan" and not (traits.plan or (not tool.is_custom and effects <= {"read", "network"})):
        return f"{name} is not available in plan mode, which is read-only"
    if mode == "plan" and traits.read_only_actions and action is not None and action not in traits.read_only_actions:
        return f"plan mode allows only these actions of {name}: {', '.join(sorted(traits.read_only_actions))}"
    if mode == "scheduler" and traits.attended:
        return f"{name} is not available in scheduler mode: nobody is watching"
    if mode == "scheduler" and traits.asks_person:
        return f"{name} is not available in scheduler mode: nobody can answer"
    # a rule can allow the tools of a server, but not custom tools that need approval
    if mode == "scheduler" and tool.is_custom and traits.approval != "never" and not traits.server:
        return f"{name} needs approval, which nobody can give in scheduler mode"
    return None


_APPROVAL_REASONS: dict[Approval, str] = {
    "never": "the tool needs no approval",
    "always": "the tool needs approval",
    "destructive": "the tool changes things and needs approval",
}


def _custom(mode: Mode, tool: Tool) -> Vote:
    """Return the vote of a custom tool's own approval setting; rules, its security script and trust vote separately."""
    approval, server = tool.traits.approval or "always", tool.traits.server
    reason = f"it is a tool of the MCP server {server}" if server else _APPROVAL_REASONS[approval]
    if approval == "never":
        return Vote("allow", "approval", reason)
    if mode == "yolo" or (mode == "auto-accept" and approval == "destructive"):
        return Vote("allow", "mode", f"{reason}, and {mode} mode allows it")
    return Vote("ask", "approval", reason)


def _built_in(mode: Mode, tool: Tool, effects: frozenset[str], circumstances: Circumstances) -> Vote:
    """Return the strictest default of the effects; yolo mode never asks."""
    if mode == "yolo":
        circumstances = circumstances._replace(strict=False)
    strictest = decide(_default(effect, tool, circumstances) for effect in sorted(effects))
    if strictest.verdict != "ask":
        return strictest
    if mode == "yolo":
        return Vote("allow", "mode", f"yolo mode never asks: {strictest.reason}")
    if mode == "auto-accept" and effects <= {"read", "write"} and tool.traits.approval != "always":
        return Vote("allow", "mode", "auto-accept mode allows changes that can be undone")
    return strictest


_NO_RULE = "no rule allows this, and a rule file makes asking the default"
DANGEROUS = "the command is dangerous, and force is not set"
NO_SANDBOX = "no sandbox is available"


def _default(effect: str, tool: Tool, circumstances: Circumstances) -> Vote:
    """Return the default vote on one effect of a built-in tool."""
    traits = tool.traits
    if traits.approval == "always" and circumstances.action in traits.no_approval_actions:
        return Vote("allow", "default", f"this action of {tool.name} only reads")
    if traits.approval == "always" and circumstances.may_look and circumstances.action in traits.read_only_actions:
        return Vote("allow", "default", f"the user has approved actions of {tool.name} that only look")
    if traits.approval == "always":
        return Vote("ask", "default", f"{tool.name} needs approval unless a rule allows it")
    if effect == "read":
        return Vote("allow", "default", "it only reads")
    if effect == "write":
        return _unless_strict(circumstances, "it writes inside the workspace, and undo can restore it")
    if effect == "execute":
        return _execution(circumstances)
    if effect == "network":
        return _unless_strict(circumstances, "its network access is restricted")
    if traits.plan:
        return Vote("allow", "default", "it changes nothing by itself")
    return Vote("ask", "default", f"it has the effect {effect}")


def _unless_strict(circumstances: Circumstances, reason: str) -> Vote:
    if circumstances.strict:
        return Vote("ask", "default", _NO_RULE)
    return Vote("allow", "default", reason)


def _execution(circumstances: Circumstances) -> Vote:
    if circumstances.strict and (circumstances.forced or not circumstances.ruins):
        return Vote("ask", "default", _NO_RULE)
    if circumstances.risk == "dangerous" and not circumstances.forced and not circumstances.undone:
        return Vote("deny", "default", DANGEROUS)
    if not circumstances.sandboxed:
        if circumstances.full:
            return Vote("ask", "default", 'shell.sandbox = "full" disables the sandbox')
        return Vote("deny", "default", NO_SANDBOX)
    return Vote("allow", "default", "it runs in the sandbox")
