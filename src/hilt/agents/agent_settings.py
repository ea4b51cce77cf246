"""The settings of agents: with their own model, and stored as JSON for the process that continues them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hilt.config import KEYS
from hilt.errors import ToolError
from hilt.places import worktrees_dir
from hilt.policy.modes import find_mode, narrowest
from hilt.state.roster import AgentProfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

# settings that do not affect what an agent may do, or are secret
_NOT_STORED = ("resident", "telemetry.endpoint", "workspace.name", "agents.database", "agents.lease_s")
# settings that give an agent no rights, although a project's value needs trust; those of these tables neither
_HARMLESS = ("model.name", "model.context_tokens", "dialect", "approvals.timeout_s", "tools.only", "lsp.after_edit")
_HARMLESS_TABLES = ("agents", "output", "undo")


def with_model(runtime: Runtime, profile: AgentProfile) -> Any:
    """Return the settings with the agent's own model; base URL and key apply only to a model of the same provider."""
    settings = runtime.settings
    if not profile.model or profile.model == settings["model.name"]:
        return settings
    is_same_provider = profile.model.partition(":")[0] == (settings["model.name"] or "").partition(":")[0]
    base_url = settings["model.base_url"] if is_same_provider else None
    key_variable = settings["model.api_key_env"] if is_same_provider else None
    changes = {"model.name": profile.model, "model.base_url": base_url, "model.api_key_env": key_variable}
    return settings.replaced("agent", {**changes, "model.context_tokens": None})


def stored(settings: Mapping[str, Any]) -> str:
    """Return the settings that an agent needs as JSON, without defaults, so that other versions of hilt can read it."""
    needed = {
        name: value
        for name, value in settings.items()
        if name not in KEYS
        or (
            KEYS[name].type is not dict
            and name not in _NOT_STORED
            and json.dumps(value) != json.dumps(KEYS[name].default)
        )
    }
    return json.dumps(needed, sort_keys=True)


def open_stored(runtime: Runtime, text: str, workspace: str) -> Runtime | None:
    """Return a runtime with exactly these settings; None if settings of the user override them.

    For the agents of another workspace, it works in an empty folder, beside the worktrees of agents.
    """
    own = {name: runtime.settings[name] for name in _NOT_STORED}
    defaults = {name: key.default for name, key in KEYS.items() if key.type is not dict and name not in _NOT_STORED}
    root = runtime.parts.root
    try:
        values = {**own, **defaults, **json.loads(text)}
        if workspace:
            values["workspace.name"] = workspace
            root = os.path.join(worktrees_dir(runtime.parts.state), "nowhere")
            for folder in (os.path.dirname(root), root):
                os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = {name: value for name, value in values.items() if value is not None}
        other = runtime.elsewhere(root, flags)
        if runtime.parts.roster.database.is_shared and any(_loosens(name, runtime, other) for name in KEYS):
            other.close()
            return None  # others can write to the database
    except (ToolError, ValueError, TypeError, RecursionError):
        return None  # stored by another version
    if other.parts.agents.settings == stored(json.loads(text)):
        return other
    other.close()
    return None


def _loosens(name: str, own: Runtime, other: Runtime) -> bool:
    """Whether a setting may give an agent rights that the user of this machine has not given."""
    mine, theirs = own.settings[name], other.settings[name]
    if mine == theirs or KEYS[name].type is dict or name in _NOT_STORED:
        return False
    if name == "mode":
        return narrowest(find_mode(mine), find_mode(theirs)) != find_mode(theirs)
    tighten = KEYS[name].tighten
    if tighten is None:
        return name not in _HARMLESS and name.partition(".")[0] not in _HARMLESS_TABLES
    if theirs is None:
        return True
    joined = tighten(mine, theirs)
    return set(joined) != set(theirs) if isinstance(theirs, tuple) else bool(joined != theirs)
