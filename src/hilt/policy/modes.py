"""Modes and profiles: which tools there are, and what happens to a call that no rule speaks of.

A mode says what is hidden and what asks; a profile is a subset of the tools. What is hidden is neither listed nor run.
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
PROFILES: tuple[ProfileName, ...] = ("full", "minimal", "nano")  # each has some tools of the one before it


class Circumstances(NamedTuple):
    """What the default for a call depends on, beside the tool.

    `rules` says that a rule file is in force. `risk`, `forced`, `sandboxed` and `full` (the user chose no sandbox) are
    about commands; the risk is None where none is known, as of input for a job. `action` is the argument of that name.
    """

    rules: bool = False
    risk: Literal["safe", "caution", "dangerous"] | None = None
    forced: bool = False
    sandboxed: bool = True
    full: bool = False
    action: str = ""


def named(mode: str) -> Mode:
    """Return a mode by its name or alias."""
    found = ALIASES.get(mode, mode)
    for known in MODES:
        if found == known:
            return known
    raise ToolError("invalid_request", f"There is no mode {mode!r}.", suggestion=f"Use one of: {', '.join(MODES)}.")


def hidden(
    mode: Mode,
    profile: ProfileName,
    tool: Tool,
    *,
    disabled: Collection[str] = (),
    named_tools: Collection[str] = (),
    action: str | None = None,
) -> str | None:
    """Return why a tool is neither listed nor run; None when it is there.

    `disabled` are the canonical names of the setting disabledTools, `named_tools` those that the project's profile
    table adds to a profile. A call gives its `action` too, since a mode may hide some of them. No rule lifts this.
    """
    name = tool.name
    if name in disabled or tool.traits.ruled_as in disabled:
        return f"{name} is disabled by the setting disabledTools"
    if tool.traits.finds:
        return None
    smallest = "full" if tool.is_custom else tool.traits.profile
    if PROFILES.index(profile) > PROFILES.index(smallest) and name not in named_tools:
        return f"{name} is not in the profile {profile}"
    return _refusal(mode, tool, tool.effects, action)


def mode_vote(mode: Mode, tool: Tool, effects: frozenset[str], circumstances: Circumstances) -> Vote:
    """Return what happens in this mode to a call with these effects that no rule applies to."""
    refusal = _refusal(mode, tool, effects, circumstances.action)
    if refusal is not None:
        return Vote("deny", "mode", refusal)
    vote = _custom(mode, tool) if tool.is_custom else _built_in(mode, tool, effects, circumstances)
    return unattended(mode, vote)


def settle(mode: Mode, ruled: Vote | None, default: Vote) -> Vote:
    """Join what the rules say of a call with what `mode_vote` says: an allow replaces it unless the mode refuses."""
    if ruled is None or (default.verdict == "deny" and default.voter == "mode" and ruled.verdict == "allow"):
        return default
    return ruled if ruled.verdict == "allow" else unattended(mode, decide((ruled, default)))


def unattended(mode: str, vote: Vote) -> Vote:
    """Return a vote as the mode takes it: in scheduler mode nobody can be asked."""
    if mode != "scheduler" or vote.verdict != "ask":
        return vote
    return Vote("deny", vote.voter, f"in scheduler mode nobody can be asked: {vote.reason}")


def _refusal(mode: Mode, tool: Tool, effects: frozenset[str], action: str | None) -> str | None:
    """Return why a mode has no such tool, or not this action of it."""
    name, traits = tool.name, tool.traits
    if mode == "plan" and not (traits.plan or (not tool.is_custom and effects <= {"read", "network"})):
        return f"{name} is not there in plan mode, which only reads"
    if mode in ("plan", "scheduler") and traits.looks and action is not None and action not in traits.looks:
        return f"{mode} mode allows {name} only to look: {', '.join(sorted(traits.looks))}"
    if mode == "scheduler" and traits.asks_person:
        return f"{name} is not there in scheduler mode: nobody is there to answer"
    # a rule may allow what a server has; its own tools nobody but the user speaks for
    if mode == "scheduler" and tool.is_custom and traits.approval != "never" and not traits.server:
        return f"{name} needs approval, and in scheduler mode nobody can give it"
    return None


_SAID: dict[Approval, str] = {
    "never": "the tool needs no approval",
    "always": "the tool needs approval",
    "destructive": "the tool changes things and needs approval",
}


def _custom(mode: Mode, tool: Tool) -> Vote:
    """The tool's own approval; rules, its security script and trust vote beside it."""
    approval, server = tool.traits.approval or "always", tool.traits.server
    said = f"it is a tool of the MCP server {server}" if server else _SAID[approval]
    if approval == "never":
        return Vote("allow", "approval", said)
    if mode == "yolo" or (mode == "auto-accept" and approval == "destructive"):
        return Vote("allow", "mode", f"{said}, and {mode} mode accepts that")
    return Vote("ask", "approval", said)


def _built_in(mode: Mode, tool: Tool, effects: frozenset[str], circumstances: Circumstances) -> Vote:
    """The strictest default of the effects; yolo mode is the defaults without a rule file, and asks about nothing."""
    if mode == "yolo":
        circumstances = circumstances._replace(rules=False)
    strictest = decide(_default(effect, tool, circumstances) for effect in sorted(effects))
    if strictest.verdict != "ask":
        return strictest
    if mode == "yolo":
        return Vote("allow", "mode", f"yolo mode asks about nothing: {strictest.reason}")
    if mode == "auto-accept" and effects <= {"read", "write"} and tool.traits.approval != "always":
        return Vote("allow", "mode", "auto-accept mode accepts what can be undone")
    return strictest


_NO_RULE = "a rule file is in force and no rule allows this"
DANGEROUS = "the command is dangerous, and force is not set"
NO_SANDBOX = "there is no sandbox to run it in"


def _default(effect: str, tool: Tool, circumstances: Circumstances) -> Vote:
    """The table of defaults: one effect of a built-in tool, with or without a rule file."""
    traits = tool.traits
    if traits.approval == "always" and circumstances.action in traits.tells:
        return Vote("allow", "default", f"{tool.name} only tells")
    if traits.approval == "always":
        return Vote("ask", "default", f"{tool.name} asks unless a rule allows it")
    if effect == "read":
        return Vote("allow", "default", "it reads")
    if effect == "write":
        return _unless_rules(circumstances, "it writes inside the workspace, and undo puts it back")
    if effect == "execute":
        return _execution(circumstances)
    if effect == "network":
        return _unless_rules(circumstances, "its network is guarded")
    if traits.plan:
        return Vote("allow", "default", "it changes nothing by itself")
    return Vote("ask", "default", f"it has the effect {effect}")


def _unless_rules(circumstances: Circumstances, reason: str) -> Vote:
    if circumstances.rules:
        return Vote("ask", "default", _NO_RULE)
    return Vote("allow", "default", reason)


def _execution(circumstances: Circumstances) -> Vote:
    if circumstances.rules:
        return Vote("ask", "default", _NO_RULE)
    if circumstances.risk == "dangerous" and not circumstances.forced:
        return Vote("deny", "default", DANGEROUS)
    if not circumstances.sandboxed:
        if circumstances.full:
            return Vote("ask", "default", 'it runs without a sandbox, as shell.sandbox = "full" says')
        return Vote("deny", "default", NO_SANDBOX)
    return Vote("allow", "default", "it runs in the sandbox")
