"""The settings of agents: with a model of their own, and kept as text for another process that goes on with them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hilt.config import KEYS
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.roster import AgentProfile

# settings that do not matter for what an agent may do, or are too secret to be stored
_LEFT_OUT = ("resident", "telemetry.endpoint", "workspace.name", "agents.database", "agents.lease_s")


def with_model(runtime: Runtime, profile: AgentProfile) -> Any:
    """Return the settings with the agent's own model; the address of one provider's server is not another's."""
    settings = runtime.settings
    if not profile.model or profile.model == settings["model.name"]:
        return settings
    is_same = profile.model.partition(":")[0] == (settings["model.name"] or "").partition(":")[0]
    address = settings["model.base_url"] if is_same else None
    key = settings["model.api_key_env"] if is_same else None
    changes = {"model.name": profile.model, "model.base_url": address, "model.api_key_env": key}
    return settings.replaced("agent", {**changes, "model.context_tokens": None})


def stored(settings: Mapping[str, Any]) -> str:
    """Return the settings that an agent needs, as JSON: without defaults, so that other versions of hilt know them."""
    needed = {
        name: value
        for name, value in settings.items()
        if name not in KEYS
        or (
            KEYS[name].type is not dict
            and name not in _LEFT_OUT
            and json.dumps(value) != json.dumps(KEYS[name].default)
        )
    }
    return json.dumps(needed, sort_keys=True)


def open_stored(runtime: Runtime, text: str, workspace: str) -> Runtime | None:
    """Return a runtime with exactly these settings; None if the user's own rule that out.

    For the agents of another workspace, it works in an empty folder.
    """
    own = {name: runtime.settings[name] for name in _LEFT_OUT}
    defaults = {name: key.default for name, key in KEYS.items() if key.type is not dict and name not in _LEFT_OUT}
    root = runtime.root
    try:
        values = {**own, **defaults, **json.loads(text)}
        if workspace:
            values["workspace.name"] = workspace
            root = os.path.join(runtime.state, "nowhere")
            os.makedirs(root, mode=0o700, exist_ok=True)
        flags = {name: value for name, value in values.items() if value is not None}
        other = Runtime(root, environ=runtime.environ, flags=flags)
    except (ToolError, ValueError, TypeError):
        return None  # of another version
    if other.agents().settings == stored(json.loads(text)):
        return other
    other.close()
    return None
