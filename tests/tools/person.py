"""A user who answers approval questions through the same database as `hilt approve`."""

from __future__ import annotations

from typing import Any

from hilt.call import Call, Result
from hilt.runtime import Runtime
from hilt.state.approvals import Approvals


def approved(runtime: Runtime, tool: str, **args: Any) -> Any:
    """Call a tool, and call it again with approval when it asks."""
    return _answered(runtime, tool, args, approved=True)


def rejected(runtime: Runtime, tool: str, reason: str, **args: Any) -> Any:
    """Call a tool that asks, and call it again after a denial."""
    return _answered(runtime, tool, args, approved=False, reason=reason)


def _answered(runtime: Runtime, tool: str, args: dict[str, Any], **answer: Any) -> Result:
    first = runtime.request(Call(tool, args))
    if first.error is None or first.error.code != "approval_required":
        return first
    id = str(first.error.details["approval"])
    approvals = Approvals(runtime.parts.state)
    try:
        approvals.answer(id, by="test", **answer)
    finally:
        approvals.close()
    return runtime.request(Call(tool, args, approval=id))
