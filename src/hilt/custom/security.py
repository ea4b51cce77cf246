"""The security script of a folder tool: it votes on every call, after everybody else and only when nobody denied it.

Where rules or the tool's own definition ask as well, the person is asked once, for all of it. An answer is `allowed`,
`requiresApproval`, `permissionType`, `permissionKey` and perhaps a `message`. Whoever asks for approval gets it asked,
whatever `allowed` says: that is how the scripts that exist mean it, and it is the safe reading. A script that is
missing, fails, takes too long or is not understood lets nothing run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hilt.errors import ToolError
from hilt.policy.decision import OWN, Vote
from hilt.wire import decode_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.process import Finished

GRANT = "permission "  # begins every grant of a permission, and no rule
MESSAGE_CHARACTERS = 2000
QUOTED_CHARACTERS = 200

_MEND = "Ask the user to mend the security script of the tool."


class Permission(NamedTuple):
    """What an approval that is kept is for: `type` and `key` are the script's own words."""

    tool: str
    type: str
    key: str

    @property
    def grant(self) -> str:
        """The text under which a grant of this permission is kept."""
        return GRANT + json.dumps(self, ensure_ascii=False, separators=(",", ":"))


class SecurityVerdict(NamedTuple):
    """What a security script says of a call."""

    allowed: bool
    requires_approval: bool
    permission: Permission
    message: str = ""


class Grants(Protocol):
    """The approvals that the user keeps, in one workspace."""

    def has(self, grant: str) -> bool:
        """Whether the user keeps allowing this."""


def question(args: Mapping[str, Any], *, workspace: str, session: str, allowed_paths: Sequence[str]) -> dict[str, Any]:
    """Return what a security script is told: all that the tool is told, and more.

    An argument cannot take the place of what is told by hilt.
    """
    told = {"workspacePath": workspace, "sessionId": session, "allowedPaths": list(allowed_paths)}
    return {**args, "args": dict(args), **told}


def understand(tool: str, finished: Finished, seconds: float) -> SecurityVerdict:
    """Return the answer of a script that has ended; raise when it is not one."""
    if finished.reason == "timeout":
        raise _unclear(tool, f"took longer than {seconds:g} s")
    if finished.reason == "limit" or finished.stdout.omitted:
        raise _unclear(tool, "printed too much")
    if finished.reason != "exit" or finished.exit_code != 0:
        said = finished.stderr.head.decode("utf-8", "replace").strip()[:QUOTED_CHARACTERS]
        raise _unclear(tool, f"failed (exit {finished.exit_code})" + (f": {said}" if said else ""))
    printed = finished.stdout.head
    try:
        value = decode_value(printed)
    except ToolError:
        raise _unclear(tool, f"answered what is not JSON: {_quoted(printed)}") from None
    return _answer(tool, value)


def vote(answer: SecurityVerdict, grants: Grants) -> Vote | None:
    """Return what an answer means for the call; None when the script allows it, or the user keeps allowing it."""
    permission = answer.permission
    if not answer.requires_approval:
        return None if answer.allowed else _blocked(permission, answer.message or "it gives no reason")
    if grants.has(permission.grant):
        return None
    reason = f"{permission.tool} asks for {permission.type} {permission.key}"
    if answer.message:
        reason = f"{answer.message} ({permission.type} {permission.key})"
    return Vote("ask", OWN, reason, keeps=(permission.grant,))


def _blocked(permission: Permission, message: str) -> Vote:
    reason = f"The security check of {permission.tool} blocked this call: {message}"
    error = ToolError(
        "denied",
        reason,
        suggestion="Change the call so that the check allows it, or ask the user.",
        permissionType=permission.type,
        permissionKey=permission.key,
    )
    return Vote("deny", OWN, reason, error)


def missing(tool: str, script: str) -> ToolError:
    """Return the error for a tool whose security script is not there."""
    return _unclear(tool, f"is missing: {script}")


def _answer(tool: str, value: Any) -> SecurityVerdict:
    if not isinstance(value, dict):
        raise _unclear(tool, "did not answer with an object")
    wrong = [f"{name} must be true or false" for name in ("allowed", "requiresApproval") if not _is(value, name, bool)]
    wrong += [f"{name} must be text" for name in ("permissionType", "permissionKey") if not _is(value, name, str)]
    if value.get("message") is not None and not _is(value, "message", str):
        wrong.append("message must be text")
    if wrong:
        raise _unclear(tool, f"gave no clear answer: {', '.join(wrong)}")
    if value.get("error"):
        raise _unclear(tool, f"failed: {str(value['error'])[:QUOTED_CHARACTERS]}")
    permission = Permission(tool, value["permissionType"], value["permissionKey"])
    message = (value.get("message") or "")[:MESSAGE_CHARACTERS]
    return SecurityVerdict(value["allowed"], value["requiresApproval"], permission, message)


def _is(value: dict[str, Any], name: str, kind: type) -> bool:
    return isinstance(value.get(name), kind)


def _unclear(tool: str, what: str) -> ToolError:
    message = f"{tool} was not run, because its security check {what.rstrip('.')}."
    return ToolError("tool_failed", message, suggestion=_MEND)


def _quoted(data: bytes) -> str:
    return repr(data[: 4 * QUOTED_CHARACTERS].decode("utf-8", "replace")[:QUOTED_CHARACTERS])
