"""The security script of a folder tool: it votes last on every call, unless the call is already denied.

If rules or the tool's definition ask as well, the user is prompted once for all of it. An answer has `allowed`,
`requiresApproval`, `permissionType`, `permissionKey` and an optional `message`. `requiresApproval` prompts whatever
`allowed` says: existing scripts rely on it, and it is the safe interpretation. If the script is missing, fails, times
out or gives an invalid answer, the tool does not run.
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
    from hilt.sandbox.capturing import Finished

GRANT = "permission "  # the prefix of every grant of a permission; no rule has it
MESSAGE_CHARACTERS = 2000
QUOTED_CHARACTERS = 200

_FIX = "Ask the user to fix the security script of the tool."


class Permission(NamedTuple):
    """What a stored approval covers; the script defines `type` and `key`."""

    tool: str
    type: str
    key: str

    @property
    def grant(self) -> str:
        """The text that a grant of this permission is stored as."""
        return GRANT + json.dumps(self, ensure_ascii=False, separators=(",", ":"))


class SecurityVerdict(NamedTuple):
    """The answer of a security script to a call."""

    allowed: bool
    requires_approval: bool
    permission: Permission
    message: str = ""


class Grants(Protocol):
    """The stored approvals of the user in one workspace."""

    def has(self, grant: str) -> bool:
        """Whether the user has granted this."""


def question(args: Mapping[str, Any], *, workspace: str, session: str, allowed_paths: Sequence[str]) -> dict[str, Any]:
    """Return the input of a security script: the input of the tool, and more.

    Arguments cannot override the fields that hilt sets.
    """
    own_fields = {"workspacePath": workspace, "sessionId": session, "allowedPaths": list(allowed_paths)}
    return {**args, "args": dict(args), **own_fields}


def parse_answer(tool: str, finished: Finished, seconds: float) -> SecurityVerdict:
    """Return the answer of a finished script; raise if it failed or the answer is invalid."""
    if finished.reason == "timeout":
        raise _check_failed(tool, f"timed out after {seconds:g} s")
    if finished.reason == "limit" or finished.stdout.omitted:
        raise _check_failed(tool, "printed too much")
    if finished.reason != "exit" or finished.exit_code != 0:
        stderr = finished.stderr.head.decode("utf-8", "replace").strip()[:QUOTED_CHARACTERS]
        raise _check_failed(tool, f"failed (exit {finished.exit_code})" + (f": {stderr}" if stderr else ""))
    printed = finished.stdout.head
    try:
        value = decode_value(printed)
    except ToolError:
        raise _check_failed(tool, f"printed invalid JSON: {_quoted(printed)}") from None
    return _verdict(tool, value)


def vote(verdict: SecurityVerdict, grants: Grants) -> Vote | None:
    """Return the vote on the call; None if the script allows it or the user has granted it."""
    permission = verdict.permission
    if not verdict.requires_approval:
        return None if verdict.allowed else _blocked(permission, verdict.message or "no reason given")
    if grants.has(permission.grant):
        return None
    reason = f"{permission.tool} asks for {permission.type} {permission.key}"
    if verdict.message:
        reason = f"{verdict.message} ({permission.type} {permission.key})"
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
    """Return the error for a tool whose security script is missing."""
    return _check_failed(tool, f"is missing: {script}")


def _verdict(tool: str, value: Any) -> SecurityVerdict:
    if not isinstance(value, dict):
        raise _check_failed(tool, "did not print a JSON object")
    problems = [
        f"{name} must be true or false" for name in ("allowed", "requiresApproval") if not _has_type(value, name, bool)
    ]
    problems += [
        f"{name} must be a string" for name in ("permissionType", "permissionKey") if not _has_type(value, name, str)
    ]
    if value.get("message") is not None and not _has_type(value, "message", str):
        problems.append("message must be a string")
    if problems:
        raise _check_failed(tool, f"gave an invalid answer: {', '.join(problems)}")
    if value.get("error"):
        raise _check_failed(tool, f"failed: {str(value['error'])[:QUOTED_CHARACTERS]}")
    permission = Permission(tool, value["permissionType"], value["permissionKey"])
    message = (value.get("message") or "")[:MESSAGE_CHARACTERS]
    return SecurityVerdict(value["allowed"], value["requiresApproval"], permission, message)


def _has_type(value: dict[str, Any], name: str, kind: type) -> bool:
    return isinstance(value.get(name), kind)


def _check_failed(tool: str, what: str) -> ToolError:
    message = f"{tool} was not run, because its security check {what.rstrip('.')}."
    return ToolError("tool_failed", message, suggestion=_FIX)


def _quoted(data: bytes) -> str:
    return repr(data[: 4 * QUOTED_CHARACTERS].decode("utf-8", "replace")[:QUOTED_CHARACTERS])
