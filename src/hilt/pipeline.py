"""One call, in the only order there is: resolve, check, touches, decide, approve, run, shape.

The order is a security property. `prepare` and `perform` are two functions because a session looks at what a call
touches before it lets it run; the runtime records every call that comes out of here, failures included.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hilt import schema
from hilt.call import Call, Output, Result, Touch
from hilt.catalog import Catalog, DialectEntry
from hilt.context import Context
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.policy.decision import Vote, decide, join

CALLS = "tool_call"  # the tool that stands for others


class Prepared(NamedTuple):
    """A call that is understood: the tool, its checked arguments, and what it would touch."""

    call: Call
    tool: Tool
    args: dict[str, Any]
    notes: list[str]
    touches: tuple[Touch, ...]
    entry: DialectEntry | None
    foreign: dict[str, Any]  # the arguments in the words of the dialect


Voter = Callable[[Prepared, Context], Vote | None]
Approver = Callable[[Prepared, Vote], None]  # returns when the call may run, raises when not


def prepare(call: Call, catalog: Catalog, dialect: str | None) -> Prepared:
    """Resolve the name and check the arguments."""
    call = meant(call, catalog)
    tool, entry = catalog.find(call.tool, call.dialect or dialect)
    args = {} if call.args is None else call.args
    foreign: dict[str, Any] = {}
    notes: list[str] = []
    if entry is not None:
        foreign, notes = schema.check(entry.schema, args)
        args = entry.arguments(foreign)
    checked = check(tool, entry, args)
    touches = tuple(tool.touches(checked.args))
    return Prepared(call, tool, checked.args, [*notes, *checked.notes], touches, entry, foreign)


def meant(call: Call, catalog: Catalog) -> Call:
    """Return the call that a call of tool_call is about; any other call is itself."""
    if call.tool != CALLS:
        return call
    try:
        given = schema.check(catalog.find(CALLS).tool.schema, {} if call.args is None else call.args).args
    except ToolError as error:
        advice = "Send name, and what the tool itself takes inside arguments."
        raise ToolError(error.code, error.message, suggestion=advice, **error.details) from None
    if given["name"] == CALLS:
        raise ToolError("invalid_request", f"{CALLS} does not call itself.", suggestion="Name the tool that is meant.")
    return call._replace(tool=given["name"], args=given.get("arguments"), through=CALLS)


def check(tool: Tool, entry: DialectEntry | None, args: Any) -> schema.Checked:
    """Check the arguments of a tool: as it does itself, or against its schema."""
    if tool.check is not None:
        return tool.check(args)
    return schema.check(tool.schema if entry is None else entry.canonical(tool.schema), args)


def rewritten(prepared: Prepared, args: dict[str, Any]) -> Prepared:
    """Return the same call with other arguments, checked again."""
    checked = check(prepared.tool, prepared.entry, args)
    return prepared._replace(args=checked.args, touches=tuple(prepared.tool.touches(checked.args)))


def judge(prepared: Prepared, ctx: Context, voters: Sequence[Voter]) -> Vote:
    """Return the decision on a call: the strictest vote; where several ask, one question is asked for all."""
    decision: Vote | None = None
    for voter in voters:
        vote = voter(prepared, ctx)
        if vote is not None:
            decision = vote if decision is None else join(decision, vote)
    return decision or decide(())


def consult(prepared: Prepared, ctx: Context, decision: Vote) -> Vote:
    """Return the decision after the tool itself was heard, which it is only when nothing has denied the call.

    Who is asked in the end is for the mode to say: yolo mode lets nobody be asked for the tool's own sake, and
    scheduler mode lets nobody be asked.
    """
    if prepared.tool.vote is not None and decision.verdict != "deny":
        own = prepared.tool.vote(ctx, prepared.args)
        if own is not None and (own.verdict != "ask" or ctx.mode != "yolo"):
            decision = join(decision, own)
    if decision.verdict != "ask":
        return decision
    from hilt.policy.modes import unattended

    return unattended(ctx.mode, decision)


def perform(prepared: Prepared, ctx: Context, decision: Vote, approve: Approver) -> Result:
    """Act on the decision: run the tool and shape what it returns."""
    permit(prepared, ctx, decision, approve)
    return shape(prepared, ctx, run(prepared, ctx))


def run(prepared: Prepared, ctx: Context) -> Output:
    """Run the tool, and put its answer into the words of the caller's dialect."""
    entry = prepared.entry
    if entry is None:
        return prepared.tool.run(ctx, prepared.args)
    try:
        output = prepared.tool.run(ctx, prepared.args)
    except ToolError as error:
        raise error if entry.failure is None else entry.failure(error, prepared.foreign) from error
    return entry.reply(output, prepared.foreign, ctx.workspace.root)


def permit(prepared: Prepared, ctx: Context, decision: Vote, approve: Approver) -> None:
    """Return when the call may run: the decision allows it, or a person does."""
    if decision.verdict == "deny":
        raise denial(decision, prepared.tool)
    if decision.verdict == "ask":
        approve(prepared, decision)
    ctx.fence.check()


def denial(decision: Vote, tool: Tool) -> ToolError:
    """Return the error of a call that is denied."""
    # a tool's name is written as it is, also where a sentence begins
    reason = decision.reason
    said = reason if reason.startswith(tool.name) else reason[:1].upper() + reason[1:]
    return decision.error or ToolError("denied", f"{said}.")


def shape(prepared: Prepared, ctx: Context, output: Output) -> Result:
    """Bring the output to the size a model can read, and put the facts for programs beside it."""
    meta = {**ctx.meta, **output.meta}
    if prepared.notes:
        meta["notes"] = prepared.notes
    text = output.text
    if output.data is None and not output.bounded and len(text) > ctx.overflow.limit:
        kept = ctx.overflow.keep(text, prepared.tool.name)
        text = kept.preview
        meta["_originalSize"] = kept.size
        if kept.path is not None:
            meta.update(_persisted=True, _filePath=kept.path)
    return Result(
        text,
        output.data,
        None,
        output.view,
        meta,
        output.content,
        output.classification,
        output.risk,
        prepared.call.id,
        prepared.call.request_id,
    )
