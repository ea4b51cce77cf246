"""A call between its hooks: the tool is run, what hooks say of its output counts, and the answer tells of them."""

from __future__ import annotations

from collections.abc import Sequence

from hilt import pipeline
from hilt.authority.hooks import After, Hooks, Ran, Seen
from hilt.call import Output, Result
from hilt.context import Context
from hilt.errors import ToolError
from hilt.pipeline import Prepared


def run(prepared: Prepared, ctx: Context, hooks: Hooks, seen: Seen) -> tuple[Output, After]:
    """Run the tool and then the hooks after it, which see its output before anything else does."""
    try:
        output = pipeline.run(prepared, ctx)
    except ToolError as error:
        after = hooks.after(seen, None, error)
        if after.error is not None:
            raise after.error from error
        if after.result is not None:
            raise ToolError(error.code, after.result.text, suggestion=error.suggestion, **error.details) from error
        raise
    after = hooks.after(seen, output.text if output.data is None else output.data)
    if after.error is not None:
        raise after.error
    if after.result is not None:
        # what a hook has replaced is not to be seen in any other form
        output = output._replace(text=after.result.text, data=after.result.data, view=None, content=())
    return output, after


def told(result: Result, context: str, stop: str | None, ran: Sequence[Ran]) -> Result:
    """Add what hooks have to say to a result, and the record of those that ran."""
    meta = {**result.meta, "hooks": [one._asdict() for one in ran]} if ran else dict(result.meta)
    if stop is not None:
        meta["stop"] = stop
    if context and result.data is None:
        return result._replace(text=f"{result.text}\n\n{context}" if result.text else context, meta=meta)
    if context:
        meta["context"] = context
    return result._replace(meta=meta)
