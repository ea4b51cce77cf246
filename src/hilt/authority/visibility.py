"""Which tools a session has."""

from __future__ import annotations

from contextlib import suppress

from hilt.declaration import Tool
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.authority import Authority


def hidden(authority: Authority, tool: Tool, session: str) -> str | None:
    """Return why mode, profile or settings hide a tool, or None."""
    from hilt.policy import modes

    settings = authority.settings
    agent = authority.agent(session)
    if agent is not None:
        if tool.name not in agent.profile.tools and not tool.traits.finds_tools:
            return f"the agent {agent.name} does not have {tool.name}"
        refusal = authority.hidden(tool, agent.parent)
        if refusal is not None:
            return refusal
    if settings["tools.only"] and not tool.traits.finds_tools and tool.name not in _only(authority):
        return f"{tool.name} is not among the tools of the setting tools.only"
    return modes.hidden(
        authority.mode(session),
        settings["profile"],
        tool,
        named_tools=settings["tools.in_profile"],
        disabled=_disabled(authority, tool.name),
        action=None,
    )


def lacks_person(authority: Authority, tool: Tool, *, client_asks: bool) -> str | None:
    """Return why a tool that needs a user is hidden, or None; `client_asks` is whether the client can ask one."""
    if not tool.traits.needs_person or client_asks or authority.settings["approve"] in ("once", "always", "all"):
        return None
    return None if authority.approvals().attended() else "no user is available to ask"


def lacks_display(authority: Authority, tool: Tool) -> str | None:
    """Return why a tool that needs a display is not listed, or None."""
    if not tool.traits.needs_display:
        return None
    from hilt.desktop.displays import is_offered

    return (
        None
        if is_offered(authority.surroundings.given, authority.settings["desktop.display"])
        else "there is no display"
    )


def _only(authority: Authority) -> set[str]:
    """Return the canonical names of the tools in the setting tools.only; unknown names are kept unchanged."""
    names = set()
    for name in authority.settings["tools.only"]:
        names.add(name)
        if not name.startswith("mcp__"):  # looking it up may start its server
            with suppress(ToolError):
                names.add(authority.catalog.find(name, authority.settings["dialect"]).tool.name)
    return names


def _disabled(authority: Authority, tool: str) -> frozenset[str]:
    """Return every name of the disabled tools, including `tool` if its server is disabled.

    A misspelt or invalid name is rejected.
    """
    names = authority.names()
    disabled: set[str] = set()
    for name in authority.settings["disabledTools"]:
        if name not in names.twins:
            from hilt.policy import rule_forms

            try:
                form = rule_forms.parse(name, names)
                if not isinstance(form, rule_forms.Whole):
                    raise rule_forms.BadForm(f"{name} is not the name of a tool")
                if form.scope.names is None and tool.startswith(form.scope.server or ""):
                    disabled.add(tool)
            except rule_forms.BadForm as error:
                source = authority.settings.sources["disabledTools"]
                raise ToolError(
                    "denied",
                    f"{source}: disabledTools: {error.message.rstrip('?.')}.",
                    suggestion=f"Ask the user to correct {source}.",
                ) from None
        disabled |= names.twins.get(name, frozenset((name,)))
    return frozenset(disabled)
