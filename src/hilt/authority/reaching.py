"""Checks a URL that a running call reaches, such as a redirect or a search provider, against the rules."""

from __future__ import annotations

from collections.abc import Sequence

from hilt import pipeline
from hilt.call import Touch
from hilt.context import Context
from hilt.errors import ToolError
from hilt.pipeline import Prepared, Voter


def admit(prepared: Prepared, ctx: Context, voters: Sequence[Voter], url: str, *, redirected: bool) -> None:
    """Raise unless a call to this URL would be allowed without asking.

    A URL that the user configured, or that the call named (not `redirected`), needs no rule that allows it: the call as
    a whole was allowed. Rules that deny it or ask about it still apply.
    """
    vote = pipeline.decide(prepared._replace(touches=(Touch("network", url),)), ctx, voters).vote
    if vote.verdict == "deny" or (vote.verdict == "ask" and (redirected or vote.voter == "rules")):
        reason = vote.reason[:1].upper() + vote.reason[1:]
        if vote.verdict == "deny":
            raise vote.error or ToolError("denied", f"{reason}.", url=url[:2000])
        advice = f"Call {prepared.tool.name} with that URL itself, so that the user can be asked."
        raise ToolError("denied", f"{reason}.", suggestion=advice if redirected else None, url=url[:2000])
