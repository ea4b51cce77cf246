"""The steps of one call, in their fixed order: read `order` from top to bottom (ADR 0002)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hilt import schema
from hilt.call import Call, Output, Result, Touch, check_name, storable
from hilt.catalog import DialectEntry, Forwarded, FoundTool
from hilt.context import Context
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.policy.decision import Vote, join
from hilt.policy.decision import decide as strictest

if TYPE_CHECKING:
    from hilt.active_call import ActiveCall
    from hilt.authority.session_hooks import CallHooks
    from hilt.policy.hook_results import AfterCall, BeforeCall
    from hilt.running.world import WorkspaceWorld


class Prepared(NamedTuple):
    """A resolved call: the tool, its validated arguments, and what it would touch."""

    call: Call
    tool: Tool
    args: dict[str, Any]
    notes: list[str]
    touches: tuple[Touch, ...]
    entry: DialectEntry | None
    foreign: dict[str, Any]  # the arguments as the dialect names them


class Decision(NamedTuple):
    """The decision on a call, and all votes behind it."""

    vote: Vote
    votes: tuple[Vote, ...]


class NoHooks:
    """The hooks around a call without hooks, and their empty results."""

    notes: tuple[str, ...] = ()
    changed = False
    vote = skipped = result = error = stop = None
    context = ""
    ran = ()

    def before(self, prepared: Prepared) -> Any:
        """Do nothing."""
        return self

    def after(self, prepared: Prepared, output: Output | None, error: ToolError | None = None) -> Any:
        """Do nothing."""
        return self


NO_HOOKS = NoHooks()

Voter = Callable[[Prepared, Context], Decision | None]


T = TypeVar("T")
Paths = Callable[[], Mapping[str, bool]]


def order(active: ActiveCall, world: WorkspaceWorld) -> Generator[Paths, None, None]:
    """Run one call, from its request to its record.

    Yields a function that returns the paths that the call touches, and is resumed after earlier calls that touch the
    same paths (ADR 0027). Yields it again whenever a step has questions for the client, and is then resumed once it has
    answered.
    """
    before: BeforeCall | None = None
    has_turn = False
    try:
        check_names(active)
        tool, entry = resolve(active, world)
        prepared = check(active, world, tool, entry)
        yield world.paths(active, prepared)
        has_turn = True
        ctx = world.open(active, prepared)
        hooks = world.hooks(active, ctx)
        before = hooks.before(prepared)
        if before.changed:
            prepared = active.prepared = rewritten(prepared, before.args)
        decision = decide(prepared, ctx, world.voters(active, prepared), before.vote)
        active.decision, active.votes = decision
        if before.skipped is not None and decision.vote.verdict != "deny":
            output, after = before.skipped, NO_HOOKS.after(prepared, None)
        else:
            decision = consult(prepared, ctx, decision)
            active.decision, active.votes = decision
            prepared = yield from answered(active, world, prepared, partial(permit, active, world, prepared, ctx))
            output, after = yield from run(active, world, prepared, ctx, hooks)
        result = with_hook_results(shape(prepared, ctx, output), before, after)
    except ToolError as error:
        if before is not None and before.ran:
            error.details.setdefault("hooks", [hook_run._asdict() for hook_run in before.ran])
        is_new_bug = error.code == "internal" and "incident" not in error.details
        result = failure(active.call, world.report_exception(active, error) if is_new_bug else error)
    except BaseException as error:  # catches our own bugs, and a tool's sys.exit
        if not has_turn and not isinstance(error, Exception):
            raise  # an interrupt of the thread that submitted the call
        result = failure(active.call, world.report_exception(active, error))
    active.settle(result)


# --- resolve, check, touches ----------------------------------------------------------------------------------------


def check_names(active: ActiveCall) -> None:
    """Raise if a name in the call is invalid; the call is then recorded with escapes in it."""
    call = active.call
    fields = f"{call.session}{call.client}{call.approval}{call.dialect}{call.tool}{call.id}{call.request_id}"
    if fields.isascii() and "\0" not in fields:
        return
    names = {field: name for field, name in call._asdict().items() if isinstance(name, str) and field != "args"}
    escaped: dict[str, Any] = {field: storable(name) for field, name in names.items() if "id" not in field}
    active.call = call._replace(**escaped)
    for field, name in names.items():
        check_name(field, name)


def resolve(active: ActiveCall, world: WorkspaceWorld) -> FoundTool:
    """Return the tool of a call. A tool that forwards is replaced by the tool that its arguments name."""
    dialect = active.call.dialect or world.dialect
    match = world.catalog.find(active.call.tool, dialect)
    if match.tool.traits.forwards:
        active.call = forwarded(active.call, match.tool)
        match = world.catalog.find(active.call.tool, dialect)
        if match.tool.traits.forwards:
            advice = "Pass the name of the tool to call."
            raise ToolError("invalid_request", f"{match.tool.name} cannot call itself.", suggestion=advice)
    translated = None if match.entry is None else translation(active.call, match.entry)
    if translated is not None:
        active.call = active.call._replace(
            tool=translated.name, args=translated.args, through=(*active.call.through, match.tool.name)
        )
        match = world.catalog.find(active.call.tool, dialect)
    return match


def translation(call: Call, entry: DialectEntry) -> Forwarded | None:
    """Return the call of another tool that the dialect translates this one to, or None."""
    if entry.forward is None:
        return None
    try:
        return entry.forward(schema.check(entry.schema, {} if call.args is None else call.args).args)
    except ToolError:
        return None  # checking the call reports the error


def forwarded(call: Call, tool: Tool) -> Call:
    """Return the call that the arguments of a forwarding tool describe."""
    try:
        args = schema.check(tool.schema, {} if call.args is None else call.args).args
    except ToolError as error:
        advice = "Pass the tool's name as name, and its own arguments inside arguments."
        raise ToolError(error.code, error.message, suggestion=advice, **error.details) from None
    return call._replace(tool=args["name"], args=args.get("arguments"), through=(*call.through, tool.name))


def check(active: ActiveCall, world: WorkspaceWorld, tool: Tool, entry: DialectEntry | None) -> Prepared:
    """Validate the arguments of a call, and compute what it touches."""
    try:
        active.prepared = prepared = prepare(active.call, tool, entry)
    except ToolError as error:
        raise world.conceal(active, tool, error if entry is None else entry.failure(error, {})) from None
    return prepared


def prepare(call: Call, tool: Tool, entry: DialectEntry | None) -> Prepared:
    """Validate the arguments of a call, first against the dialect's schema if any, and compute what it touches."""
    args = {} if call.args is None else call.args
    foreign: dict[str, Any] = {}
    notes: list[str] = []
    if entry is not None:
        foreign, notes = schema.check(entry.schema, args)
        args = entry.arguments(foreign)
    checked = checked_arguments(tool, entry, args)
    touches = tuple(tool.touches(checked.args))
    return Prepared(call, tool, checked.args, [*notes, *checked.notes], touches, entry, foreign)


def checked_arguments(tool: Tool, entry: DialectEntry | None, args: Any) -> schema.CheckedArguments:
    """Validate the arguments of a tool, by its own check or against its schema."""
    if tool.check is not None:
        return tool.check(args)
    return schema.check(tool.schema if entry is None else entry.canonical(tool.schema), args)


def rewritten(prepared: Prepared, args: dict[str, Any]) -> Prepared:
    """Return the same call with other arguments, validated again."""
    checked = checked_arguments(prepared.tool, prepared.entry, args)
    return prepared._replace(args=checked.args, touches=tuple(prepared.tool.touches(checked.args)))


# --- decide, consult, approve ---------------------------------------------------------------------------------------


def decide(prepared: Prepared, ctx: Context, voters: Sequence[Voter], hook_vote: Vote | None = None) -> Decision:
    """Return the decision on a call: the strictest vote; votes to ask become one question (ADR 0014)."""
    decision: Decision | None = None
    for voter in voters:
        ballot = voter(prepared, ctx)
        if decision is None:
            decision = ballot
        elif ballot is not None:
            decision = Decision(join(decision.vote, ballot.vote), decision.votes + ballot.votes)
    decision = decision or Decision(strictest(()), ())
    if hook_vote is not None:
        vote = strictest((decision.vote, hook_vote))
        if (decision.vote.verdict, hook_vote.verdict) == ("ask", "ask"):
            vote = vote._replace(joined=(*vote.joined, hook_vote.voter))
        decision = Decision(vote, (*decision.votes, hook_vote))
    return decision


def consult(prepared: Prepared, ctx: Context, decision: Decision, *, runs_scripts: bool = True) -> Decision:
    """Return the decision with the tool's own vote, which counts only when nothing has denied it (ADR 0019).

    In yolo mode the tool's own vote cannot ask; in scheduler mode no vote can, and asking becomes a denial. Without
    `runs_scripts`, skip the vote of a tool that runs a script to vote.
    """
    tool = prepared.tool
    if tool.vote is not None and decision.vote.verdict != "deny" and (runs_scripts or not tool.traits.script):
        own = tool.vote(ctx, prepared.args)
        if own is not None and (own.verdict != "ask" or ctx.mode != "yolo"):
            decision = Decision(join(decision.vote, own), (*decision.votes, own))
    if decision.vote.verdict != "ask":
        return decision
    from hilt.policy.modes import unattended

    return decision._replace(vote=unattended(ctx.mode, decision.vote))


def permit(active: ActiveCall, world: WorkspaceWorld, prepared: Prepared, ctx: Context) -> Prepared:
    """Return the call that the decision or a person allows; raise if neither does."""
    if active.decision.verdict == "deny":
        error = denial(active.decision, prepared.tool)
        raise error if prepared.entry is None else prepared.entry.failure(error, prepared.foreign)
    if active.decision.verdict == "ask":
        prepared = active.prepared = world.approve(active, prepared, ctx)
    ctx.fence.check()
    return prepared


def denial(vote: Vote, tool: Tool) -> ToolError:
    """Return the error of a denied call."""
    # do not capitalize a tool's name
    reason = vote.reason
    message = reason if reason.startswith(tool.name) else reason[:1].upper() + reason[1:]
    return vote.error or ToolError("denied", f"{message}.")


def answered(
    active: ActiveCall, world: WorkspaceWorld, prepared: Prepared, step: Callable[[], T]
) -> Generator[Paths, None, T]:
    """Run a step; as long as it has questions for the client, wait for the answers and run it again."""
    while True:
        try:
            outcome = step()
        except ToolError as error:
            if not active.has_questions:
                raise
            active.unanswered = error
        else:
            if not active.has_questions:
                return outcome
        yield world.paths(active, prepared)
        world.reopen(active, prepared)


# --- run, shape -----------------------------------------------------------------------------------------------------


def run(
    active: ActiveCall, world: WorkspaceWorld, prepared: Prepared, ctx: Context, hooks: CallHooks | NoHooks
) -> Generator[Paths, None, tuple[Output, AfterCall]]:
    """Run the tool and then the hooks after it, which may replace its result."""
    try:
        output = yield from answered(active, world, prepared, partial(perform, prepared, ctx))
    except ToolError as error:
        after = hooks.after(prepared, None, error)
        if after.error is not None:
            raise after.error from error
        if after.result is not None:
            raise ToolError(error.code, after.result.text, suggestion=error.suggestion, **error.details) from error
        raise
    after = hooks.after(prepared, output)
    if after.error is not None:
        raise after.error
    if after.result is not None:
        # the original must not leak in another form
        output = output._replace(text=after.result.text, data=after.result.data, view=None, content=())
    return output, after


def perform(prepared: Prepared, ctx: Context) -> Output:
    """Run the tool, and convert its result to the caller's dialect."""
    entry = prepared.entry
    if entry is None:
        return with_new_errors(ctx, prepared.tool.run(ctx, prepared.args))
    try:
        output = with_new_errors(ctx, prepared.tool.run(ctx, prepared.args))
    except ToolError as error:
        raise entry.failure(error, prepared.foreign) from error
    return entry.reply(output, prepared.foreign, ctx.workspace.root)


def with_new_errors(ctx: Context, output: Output) -> Output:
    """Add the errors that a language server finds in the changed files, if the user enabled this."""
    if not ctx.workspace.committed or ctx.settings["lsp.after_edit"] == "off":
        return output
    from hilt.lsp.after_edit import new_errors

    lines = new_errors(ctx.languages, ctx.workspace.full_path, ctx.workspace.committed)
    if not lines:
        return output
    meta = {**output.meta, "new_errors": lines}
    if output.data is not None:
        return output._replace(meta=meta)
    return output._replace(text="\n".join([output.text, "[errors that this change introduced]", *lines]), meta=meta)


def shape(prepared: Prepared, ctx: Context, output: Output) -> Result:
    """Return the result: output truncated to the size limit for models, with metadata."""
    meta = {**ctx.meta, **output.meta}
    if prepared.notes:
        meta["notes"] = prepared.notes
    text = output.text
    if output.data is None and not output.bounded and len(text) > ctx.overflow.limit:
        overflow = ctx.overflow.keep(text, prepared.tool.name)
        text = overflow.preview
        meta["_originalSize"] = overflow.size
        if overflow.path is not None:
            meta.update(_persisted=True, _filePath=overflow.path)
    content = output.content
    if content:
        from hilt.output.blocks import within_budget

        content, note = within_budget(content, ctx.overflow.limit)
        if note and output.data is None:
            text = f"{text}\n{note}".lstrip("\n")
        elif note:
            content = (*content, {"type": "text", "text": note})
    return Result(
        text,
        output.data,
        None,
        output.view,
        meta,
        content,
        output.classification,
        output.risk,
        prepared.call.id,
        prepared.call.request_id,
    )


def with_hook_results(result: Result, before: BeforeCall, after: AfterCall) -> Result:
    """Add the context from hooks to a result, and the record of the hooks that ran."""
    ran = (*before.ran, *after.ran)
    if not ran:
        return result
    meta = {**result.meta, "hooks": [hook_run._asdict() for hook_run in ran]}
    if after.stop is not None:
        meta["stop"] = after.stop
    context = "\n\n".join(text for text in (before.context, after.context) if text)
    if context and result.data is None:
        return result._replace(text=f"{result.text}\n\n{context}" if result.text else context, meta=meta)
    if context:
        meta["context"] = context
    return result._replace(meta=meta)


def failure(call: Call, error: ToolError) -> Result:
    """Return the result of a call that failed."""
    risk = error.details.get("risk")
    return Result(error=error, id=call.id, request_id=call.request_id, risk=risk if isinstance(risk, str) else None)
