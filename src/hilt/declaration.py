"""A tool is declared once: `@tool` turns a typed function into a Tool and registers nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, overload

from hilt import schema as schemas
from hilt.call import Output, Touch
from hilt.schema import TOUCH, CheckedArguments, Schema

EFFECTS = ("read", "write", "execute", "network", "control")

# default timeout of a call
TIMEOUT_SECONDS = 120.0


Approval = Literal["never", "always", "destructive"]
ProfileName = Literal["nano", "minimal", "full"]


class Traits(NamedTuple):
    """Facts about a tool that other modules need. Declared with the tool, so that no module knows it by name."""

    approval: Approval | None = None  # when it asks for approval; None: its effects decide
    profile: ProfileName = "full"  # the smallest profile that has it
    plan: bool = False  # usable in plan mode although it does more than read
    may_only_read: bool = False  # some of its calls only read: plan mode lists it, and denies the others
    read_only_actions: frozenset[str] = frozenset()  # one approval per session; plan mode allows only these
    no_approval_actions: frozenset[str] = frozenset()
    attended: bool = False  # only for attended sessions, so scheduler mode hides it
    needs_display: bool = False  # useless without a display
    describe_target: Callable[[Any, dict[str, Any]], str] | None = None  # the approval of a call is bound to this
    asks_person: bool = False  # asks a person for input, so scheduler mode hides it
    needs_person: bool = False  # useless when no user is available to answer
    asks_itself: bool = False  # asks for approval while it runs, so the runtime does not ask first
    sets_mode: bool = False  # changes the mode of the session, and so the list of tools
    finds_tools: bool = False  # available in every mode and profile, listed only with --search
    forwards: bool = False  # calls the tool that its arguments name
    starts_agents: bool = False  # an agent has it only if its definition names it
    returns_patches: bool = False  # its agents return their changes as a patch; applying it needs approval
    frees_space: bool = False  # on disk, so it also runs when the disk is full
    polls: bool = False  # called repeatedly to wait for something
    anywhere: bool = False  # runs on any machine: needs no local files or state
    lasting: Literal["", "last", "each"] = ""  # the results that a compacted conversation keeps verbatim
    unhooked: bool = False  # skips the session's hooks, because it manages them
    ruled_as: str = ""  # another tool whose rules also apply to this one
    rejects: Callable[[dict[str, Any]], str | None] | None = None  # why arguments are rejected even with force
    needs_jobs: Callable[[dict[str, Any]], bool] | None = None  # whether a call starts or reads background jobs
    server: str = ""  # the MCP server that provides it
    dangerous: bool = False  # marked as dangerous by its author
    script: str = ""  # the security script that its vote runs


class Tool(NamedTuple):
    """A tool: its name, its arguments, what it touches, and the function that runs it."""

    name: str
    description: str
    schema: Schema
    effects: frozenset[str]
    run: Callable[..., Output]
    touches: Callable[[dict[str, Any]], Iterable[Touch]]
    source: str = "built-in"
    timeout: float = TIMEOUT_SECONDS
    check: Callable[[Any], CheckedArguments] | None = (
        None  # validates arguments; None: against the schema made from the signature
    )
    output: Schema | None = None  # schema of structured results, an object; None: not declared
    details: str = ""  # for the reference: what the description leaves out
    vote: Callable[[Any, dict[str, Any]], Any] | None = None  # the tool's own vote on a call, counted after all others
    writes: Callable[[Any, dict[str, Any]], Iterable[str]] | None = None  # paths that depend on the workspace
    traits: Traits = Traits()

    @property
    def is_custom(self) -> bool:
        """Whether the tool is not built in and declares when it needs approval; its effects then do not decide."""
        return self.source != "built-in" and self.traits.approval is not None

    @property
    def title(self) -> str:
        """The name for display: `read_file` becomes "Read file"."""
        words = self.name.replace("_", " ").strip()
        return words[:1].upper() + words[1:]

    @property
    def parameters(self) -> Schema:
        """The schema as the model sees it; compact only when made from a signature."""
        schema: Schema = schemas.compact(self.schema) if self.check is None else schemas.public(self.schema)
        return schema

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    effects: str = "read",
    touches: Callable[[dict[str, Any]], Iterable[Touch]] | None = None,
    partial: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    output: Schema | None = None,
    writes: Callable[[Any, dict[str, Any]], Iterable[str]] | None = None,
    vote: Callable[[Any, dict[str, Any]], Any] | None = None,
    traits: Traits = Traits(),  # noqa: B008
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effects: str = "read",
    touches: Callable[[dict[str, Any]], Iterable[Touch]] | None = None,
    partial: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    output: Schema | None = None,
    writes: Callable[[Any, dict[str, Any]], Iterable[str]] | None = None,
    vote: Callable[[Any, dict[str, Any]], Any] | None = None,
    traits: Traits = Traits(),  # noqa: B008
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Turn a function into a Tool: its signature becomes the schema, its docstring the description.

    A first parameter named `ctx` receives the Context. `effects` is a space-separated list. `touches` computes what a
    call touches when no annotation marks it; with `partial`, one denied target does not deny the whole call. `output`
    is the schema of a structured result. `writes` returns the paths that a call writes when its arguments do not name
    them. `vote` is the tool's own vote on a call. `traits` are facts that other modules need.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        names = frozenset(effects.split())
        if not names <= set(EFFECTS):
            raise ValueError(f"effects must be among {', '.join(EFFECTS)}, not {effects!r}")
        own = _declared(function, names, partial=partial)
        touch = touches or own.touches
        return own._replace(touches=touch, timeout=timeout, output=output, writes=writes, vote=vote, traits=traits)

    return declare if function is None else declare(function)


def _declared(function: Callable[..., Any], effects: frozenset[str], *, partial: bool) -> Tool:
    """Return the tool that a function declares by its signature and docstring."""
    takes_context = function.__code__.co_varnames[:1] == ("ctx",) and function.__code__.co_argcount > 0
    description, schema, annotations = schemas.from_function(function, skip=int(takes_context))
    description, _, details = description.partition("\n\nDetails:\n")
    records = {name for name in annotations if _has_record(schema["properties"][name])}

    def run(ctx: Any, args: dict[str, Any]) -> Output:
        if records:
            args = {
                name: schemas.build(annotations[name], args[name]) if name in records else args[name] for name in args
            }
        return as_output(function(ctx, **args) if takes_context else function(**args))

    # computed once, not for every call: most arguments cannot touch anything
    touching = {
        name: property_schema for name, property_schema in schema["properties"].items() if _has_mark(property_schema)
    }

    def marked(args: dict[str, Any]) -> list[Touch]:
        touches: list[Touch] = []
        for name, property_schema in touching.items():
            if args.get(name) is not None:
                touches.extend(marked_touches(property_schema, args[name], partial=partial))
        return touches

    return Tool(function.__name__, description, schema, effects, run, marked, details=details.strip())


def _has_record(schema: Schema) -> bool:
    return "properties" in schema or ("items" in schema and _has_record(schema["items"]))


def _has_mark(schema: Schema) -> bool:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    return TOUCH in schema or any(_has_mark(subschema) for subschema in inner if subschema)


def as_output(value: Any) -> Output:
    """Convert what a tool may return, an Output, text, None or a JSON value, to an Output."""
    if isinstance(value, Output):
        return value
    if value is None:
        return Output()
    return Output(value) if isinstance(value, str) else Output(data=value)


def marked_touches(schema: Schema, args: Any, *, partial: bool) -> Iterator[Touch]:
    """Yield the touches of the marked arguments, at any depth."""
    effect = schema.get(TOUCH)
    if effect is not None:
        for target in args if isinstance(args, list) else [args]:
            if isinstance(target, str):
                yield Touch(effect, target, partial)
    if isinstance(args, dict):
        for name, property_schema in schema.get("properties", {}).items():
            if args.get(name) is not None:
                yield from marked_touches(property_schema, args[name], partial=partial)
    elif isinstance(args, list) and "items" in schema:
        for item in args:
            yield from marked_touches(schema["items"], item, partial=partial)
    for choice in schema.get("anyOf", ()):
        yield from marked_touches(choice, args, partial=partial)
