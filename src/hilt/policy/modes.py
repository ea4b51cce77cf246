"""Modes and profiles: which tools there are, and what happens to a call that no rule speaks of.

A mode says what is hidden and what asks; a profile is a subset of the tools. What is hidden is neither listed nor run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from hilt.errors import ToolError
from hilt.policy.decision import Vote, decide

Mode = Literal["normal", "auto-accept", "yolo", "plan", "scheduler"]
Profile = Literal["full", "minimal", "nano"]
Approval = Literal["never", "always", "destructive"]

MODES: tuple[Mode, ...] = ("normal", "auto-accept", "yolo", "plan", "scheduler")
ALIASES: dict[str, Mode] = {"headless": "scheduler"}
PROFILES: dict[Profile, frozenset[str] | None] = {
    "full": None,
    "minimal": frozenset(
        (
            *("read_file", "write_file", "edit_file", "run_shell"),
            *("find_files", "search_files", "list_dir", "agent"),
        )
    ),
    "nano": frozenset(("read_file", "write_file", "edit_file", "run_shell", "search_files")),
}

# what a planning agent may do beside reading: think, ask, and look
_SHELLS = frozenset(("run_shell", "shell_exec"))
_PLANNING = frozenset(
    (
        *("ask_user", "enter_plan_mode", "exit_plan_mode", "todo_write", "todo_read", "task"),
        *("agent", "agent_spawn"),  # their children plan too
    )
)
# these lead to other tools, which are looked at themselves: every mode and profile has them
FINDERS = frozenset(("tool_search", "tool_call"))
_LOOKING = frozenset(("screenshot", "ax_tree"))  # actions of the desktop that change nothing
_DESKTOP = "computer"
_NEEDS_PEOPLE = frozenset(("ask_user", "agent", "agent_spawn", "enter_plan_mode", "exit_plan_mode"))  # to answer
_TELLING = frozenset(("list", "help"))  # actions of what asks that only tell
_ALWAYS_ASKS = frozenset(("register_hook", _DESKTOP))


class Traits(NamedTuple):
    """What a mode must know of a tool: its own name and effects, and of a custom one its approval and read_only."""

    name: str
    effects: frozenset[str]
    custom: bool = False
    approval: Approval = "always"
    read_only: bool = False
    server: str = ""  # the MCP server whose tool it is; only the user says that one reads


class Circumstances(NamedTuple):
    """What the default for a call depends on, beside the tool.

    `rules` says that a rule file is in force. `risk`, `forced`, `sandboxed` and `full` (the user chose no sandbox) are
    about commands; the risk is None where none is known, as of input for a job. `action` is that of a desktop call.
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
    profile: Profile,
    traits: Traits,
    *,
    disabled: Collection[str] = (),
    named_tools: Collection[str] = (),
    action: str | None = None,
) -> str | None:
    """Return why a tool is neither listed nor run; None when it is there.

    `disabled` are the canonical names of the setting disabledTools, `named_tools` those that the project's profile
    table adds to a profile. A call gives its `action` too, since a mode may hide some of them. No rule lifts this.
    """
    name = traits.name
    if name in disabled:
        return f"{name} is disabled by the setting disabledTools"
    if name in FINDERS:
        return None
    members = PROFILES[profile]
    if members is not None and name not in named_tools and (traits.custom or name not in members):
        return f"{name} is not in the profile {profile}"
    return _refusal(mode, traits, action)


def mode_vote(mode: Mode, traits: Traits, circumstances: Circumstances) -> Vote:
    """Return what happens in this mode to a call that no rule speaks of."""
    refusal = _refusal(mode, traits, circumstances.action)
    if refusal is not None:
        return Vote("deny", "mode", refusal)
    vote = _custom(mode, traits) if traits.custom else _built_in(mode, traits, circumstances)
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


def _refusal(mode: Mode, traits: Traits, action: str | None) -> str | None:
    """Return why a mode has no such tool, or not this action of it."""
    name = traits.name
    if mode == "plan" and not _is_for_planning(traits):
        return f"{name} is not there in plan mode, which only reads"
    if mode in ("plan", "scheduler") and name == _DESKTOP and action is not None and action not in _LOOKING:
        return f"{mode} mode looks at the desktop and does not touch it"
    if mode == "scheduler" and name in _NEEDS_PEOPLE:
        return f"{name} is not there in scheduler mode: nobody is there to answer"
    # a rule may allow what a server has; its own tools nobody but the user speaks for
    if mode == "scheduler" and traits.custom and traits.approval != "never" and not traits.server:
        return f"{name} needs approval, and in scheduler mode nobody can give it"
    return None


def _is_for_planning(traits: Traits) -> bool:
    if traits.custom:
        return (traits.approval == "never" or bool(traits.server)) and traits.read_only
    if traits.name in _PLANNING or traits.name in _SHELLS or traits.name == _DESKTOP:
        return True
    return traits.effects <= {"read", "network"}


_SAID: dict[Approval, str] = {
    "never": "the tool needs no approval",
    "always": "the tool needs approval",
    "destructive": "the tool changes things and needs approval",
}


def _custom(mode: Mode, traits: Traits) -> Vote:
    """The tool's own approval; rules, its security script and trust vote beside it."""
    said = _SAID[traits.approval]
    if traits.server:
        said = f"it is a tool of the MCP server {traits.server}"
    if traits.approval == "never":
        return Vote("allow", "approval", said)
    if mode == "yolo" or (mode == "auto-accept" and traits.approval == "destructive"):
        return Vote("allow", "mode", f"{said}, and {mode} mode accepts that")
    return Vote("ask", "approval", said)


def _built_in(mode: Mode, traits: Traits, circumstances: Circumstances) -> Vote:
    """The strictest default of the effects; yolo mode is the defaults without a rule file, and asks about nothing."""
    if mode == "yolo":
        circumstances = circumstances._replace(rules=False)
    strictest = decide(_default(effect, traits, circumstances) for effect in sorted(traits.effects))
    if strictest.verdict != "ask":
        return strictest
    if mode == "yolo":
        return Vote("allow", "mode", f"yolo mode asks about nothing: {strictest.reason}")
    if mode == "auto-accept" and traits.effects <= {"read", "write"} and traits.name not in _ALWAYS_ASKS:
        return Vote("allow", "mode", "auto-accept mode accepts what can be undone")
    return strictest


_NO_RULE = "a rule file is in force and no rule allows this"
DANGEROUS = "the command is dangerous, and force is not set"
NO_SANDBOX = "there is no sandbox to run it in"


def _default(effect: str, traits: Traits, circumstances: Circumstances) -> Vote:
    """The table of defaults: one effect of a built-in tool, with or without a rule file."""
    if traits.name in _ALWAYS_ASKS and circumstances.action in _TELLING:
        return Vote("allow", "default", f"{traits.name} only tells")
    if traits.name in _ALWAYS_ASKS:
        return Vote("ask", "default", f"{traits.name} asks unless a rule allows it")
    if effect == "read":
        return Vote("allow", "default", "it reads")
    if effect == "write":
        return _unless_rules(circumstances, "it writes inside the workspace, and undo puts it back")
    if effect == "execute":
        return _execution(circumstances)
    if effect == "network":
        return _unless_rules(circumstances, "its network is guarded")
    if traits.name in _PLANNING:
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
