"""The definition of a custom tool in any format, the problems of its file, and its conversion to a Tool.

A reader takes bytes that discovery has read and found trusted, and returns a `Loaded`. It opens no files
itself, so what was trusted is what is loaded. Times are in seconds, whatever unit the file uses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from hilt import loaders
from hilt.call import Output, Touch
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.loaders import Source
from hilt.processes.declared_sandbox import DeclaredSandbox
from hilt.schema import TEXT, TOUCH, CheckedArguments, Schema, check_any, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.declaration import Tool, Traits
    from hilt.formats.front_matter import FrontMatter

T = TypeVar("T")
Format = Literal["folder", "markdown", "python", "javascript", "server"]
Approval = Literal["never", "always", "destructive"]

TIMEOUT_SECONDS = 30.0
FILE_BYTES = 1 << 20  # of one file of a tool

# added to the tool's own timeout, which should end the call first: its error says more
MARGIN_SECONDS = 15.0

_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})


class Example(NamedTuple):
    """A call that `hilt tools check` makes; `expect` is the required result if `expects` is set."""

    args: Mapping[str, Any]
    expect: Any = None
    expects: bool = False


class Definition(NamedTuple):
    """A custom tool as its file declares it. `details` holds the fields specific to its format, as JSON values."""

    name: str
    description: str
    parameters: Schema
    origin: str  # the file, shown to people
    source: Source
    format: Format
    folder: str  # the tool's own folder, or the one that holds its file
    content_hash: str  # over all files of the tool
    approval: Approval = "always"
    read_only: bool = False
    timeout: float = TIMEOUT_SECONDS
    sandbox: DeclaredSandbox | None = None  # None: the rights of the user
    effects: frozenset[str] | None = None  # None: follows from read_only
    dangerous: bool = False
    result: Literal["text", "json"] = "text"
    warm: bool = False
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()  # warnings from loading, reported by `hilt tools check`
    line: int = 1  # in the origin, where the tool is declared
    details: Mapping[str, Any] = _NO_DETAILS


class ToolProblem(NamedTuple):
    """Why a file, or one tool in it, was not loaded; `name` is the tool's name, if it could be read."""

    origin: str
    message: str
    line: int | None = None
    name: str | None = None

    @property
    def place(self) -> str:
        """The file and line, in the form compilers use."""
        return self.origin if self.line is None else f"{self.origin}:{self.line}"


class Loaded(NamedTuple):
    """The result of loading one file. No tools and no problems: not a tool file, such as a README."""

    definitions: tuple[Definition, ...] = ()
    problems: tuple[ToolProblem, ...] = ()


class Content(NamedTuple):
    """The bytes of one tool: its path, and its files by relative name ("" for a tool of a single file)."""

    path: str
    files: Mapping[str, bytes]
    source: Source
    is_whole: bool = False  # every file was read and is trusted, not only the definition


Reader = Callable[[Content, Format], Loaded]
Execute = Callable[["Context", dict[str, Any]], Output]  # may have a `vote`: the tool's own vote on a call


def fingerprint(files: Mapping[str, bytes]) -> str:
    """Return the hash over the names and contents of a tool's files."""
    parts = []
    for name in sorted(files):
        encoded = name.encode("utf-8", "surrogateescape")
        parts.append(len(encoded).to_bytes(8, "big") + encoded + sha256(files[name]))
    return sha256(b"".join(parts)).hex()


def verified_bytes(definition: Definition) -> bytes:
    """Return the bytes of a single-file tool; reject a file that changed since it was loaded."""
    try:
        data = loaders.read(definition.origin, follow=True, limit=FILE_BYTES)
    except (OSError, ValueError) as error:
        raise ToolError("tool_invalid", f"{definition.origin} cannot be read: {error}.") from None
    if fingerprint({"": data}) != definition.content_hash:
        raise ToolError(
            "tool_invalid",
            f"{definition.origin} has just changed.",
            suggestion="Retry the call: the file is reloaded once the user trusts it.",
        )
    return data


def to_tool(definition: Definition, execute: Execute) -> Tool:
    """Return the Tool for a definition; `definition_of` is the inverse."""
    from hilt.declaration import Tool

    effects = definition.effects
    if effects is None:
        effects = frozenset(("read",)) if definition.read_only else frozenset(("execute",))
    return Tool(
        definition.name,
        definition.description,
        definition.parameters,
        effects,
        _Run(definition, execute),
        _Touches(definition.parameters),
        source=definition.source,
        timeout=definition.timeout + MARGIN_SECONDS,
        check=_check_of(definition),
        output=_output_of(definition),
        vote=getattr(execute, "vote", None),
        traits=_traits_of(definition),
    )


def _traits_of(definition: Definition) -> Traits:
    from hilt.declaration import Traits

    server = definition.details.get("server", "") if definition.format == "server" else ""
    return Traits(
        approval=definition.approval,
        plan=definition.read_only and (definition.approval == "never" or bool(server)),
        server=server,
        dangerous=definition.dangerous,
        script=(definition.details.get("securityScript") or "") if definition.format == "folder" else "",
    )


def _output_of(definition: Definition) -> Schema | None:
    """Return the schema of structured results; a script may print text instead, or a value that does not match."""
    declared = definition.details.get("outputSchema")
    return {**declared, TEXT: True} if declared is not None and definition.format == "folder" else declared


def _check_of(definition: Definition) -> Callable[[Any], CheckedArguments] | None:
    """Return the function that validates arguments; None for Python tools, which are checked like built-in ones."""
    if definition.format == "python":
        return None
    if definition.format == "markdown":
        from hilt.custom.markdown_tools import check_arguments

        return lambda args: CheckedArguments(check_arguments(definition.parameters, args), [])
    return lambda args: check_any(definition.parameters, args)


def definition_of(tool: Tool) -> Definition | None:
    """Return the definition that a tool was made from; None if it is not a custom tool."""
    return tool.run.definition if isinstance(tool.run, _Run) else None


_SANDBOX_KEYS = ("network", "write", "read")


class FieldReader:
    """Reads the fields that definitions of several formats share, and collects all problems."""

    def __init__(self, document: FrontMatter) -> None:
        self.problems: list[tuple[int, str]] = []
        self.notes: list[str] = []
        self.document = document
        self.fields = document.fields

    def add_problem(self, message: str, *path: Any) -> None:
        """Add a problem with the value at a path of keys."""
        if message.startswith(("the ", "in ")):  # otherwise it begins with a key, which keeps its spelling
            message = message[:1].upper() + message[1:]
        self.problems.append((self.document.line(*path), message + ("" if message.endswith("?") else ".")))

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.fields.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.add_problem(f"{key} must be true or false, not {quoted(value)}", key)
        return value is True

    def choice(self, key: str, choices: Collection[str], default: Any) -> Any:
        """Return one of several strings."""
        value = self.fields.get(key)
        if value is None:
            return default
        if value not in choices:
            self.add_problem(f"{key} must be one of {', '.join(choices)}, not {quoted(value)}", key)
            return default
        return value

    def sandbox(self, *, is_warm: bool = False) -> DeclaredSandbox | None:
        """Return the sandbox that the keys `sandbox` and `undo` declare, if any."""
        value, undo = self.fields.get("sandbox"), self.fields.get("undo")
        before = len(self.problems)
        if undo is not True and undo not in (None, False):
            self.add_problem("undo must be true or false", "sandbox")
        elif undo and (not isinstance(value, Mapping) or not value.get("write") or is_warm):
            self.add_problem("undo requires sandbox.write, and is not supported for warm tools", "sandbox")
        if value is None or len(self.problems) > before:
            return None
        if not isinstance(value, Mapping):
            self.add_problem("sandbox must be an object with network, write and read", "sandbox")
            return None
        for key in value:
            if key not in _SANDBOX_KEYS:
                self.add_problem(f"sandbox.{key} is not a known key", "sandbox")
        network = value.get("network", False)
        if not isinstance(network, bool):
            self.add_problem("sandbox.network must be true or false", "sandbox")
        paths = {key: value.get(key) or () for key in ("write", "read")}
        for key, entries in paths.items():
            if not isinstance(entries, list | tuple) or not all(isinstance(path, str) for path in entries):
                self.add_problem(f"sandbox.{key} must be a list of paths", "sandbox")
        if len(self.problems) > before:
            return None
        return DeclaredSandbox(network, tuple(paths["write"]), tuple(paths["read"]), undo is True)

    def effects(self) -> frozenset[str] | None:
        """Return the declared effects, a list or space-separated words, if any."""
        from hilt.declaration import EFFECTS

        value = self.fields.get("effects")
        names = value.split() if isinstance(value, str) else value
        if names is None:
            return None
        if not isinstance(names, list) or not names or not all(name in EFFECTS for name in names):
            self.add_problem(f"effects must be one or more of {', '.join(EFFECTS)}", "effects")
            return None
        return frozenset(names)

    def examples(self) -> tuple[Example, ...]:
        """Return the declared examples."""
        value = self.fields.get("examples")
        if value is not None and not isinstance(value, list):
            self.add_problem("examples must be a list of {args, expect}", "examples")
        examples = []
        for number, item in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(item, Mapping) or not isinstance(item.get("args", {}), Mapping):
                message = f"examples[{number}] must be an object with args (an object) and expect"
                self.add_problem(message, "examples")
            else:
                examples.append(Example(item.get("args", {}), item.get("expect"), "expect" in item))
        return tuple(examples)

    def loaded(self, definition: Definition) -> Loaded:
        """Return the definition, or why it is invalid."""
        if not self.problems:
            return Loaded((definition,))
        name = self.fields.get("name")
        tool_name = name if isinstance(name, str) else None
        problems = sorted(self.problems, key=lambda problem: problem[0])
        return Loaded(
            problems=tuple(ToolProblem(definition.origin, message, line, tool_name) for line, message in problems)
        )


class _Run:
    """Runs a custom tool, and keeps the definition it was made from."""

    __slots__ = ("_execute", "definition")

    def __init__(self, definition: Definition, execute: Execute) -> None:
        self.definition = definition
        self._execute = execute

    def __call__(self, ctx: Context, args: dict[str, Any]) -> Output:
        output = self._execute(ctx, args)
        change = ctx.meta.get("undo")
        if change is None or output.data is not None or ("skipped" in change and not self.definition.dangerous):
            return output
        fact = change["summary"] if "id" in change else f"not possible, {change['skipped']}"
        lines = [output.text.removesuffix("\n"), f"[undo: {fact}]"]
        return output._replace(text="\n".join(filter(None, lines)))


class _Touches:
    """The targets that the marked arguments of a call name; only Python tools can mark arguments."""

    __slots__ = ("_marked",)

    def __init__(self, parameters: Schema) -> None:
        properties = parameters.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        self._marked = {name: schema for name, schema in declared.items() if _has_mark(schema)}

    def __call__(self, args: dict[str, Any]) -> Iterable[Touch]:
        from hilt.declaration import marked_touches

        for name, schema in self._marked.items():
            if args.get(name) is not None:
                yield from marked_touches(schema, args[name], partial=False)


def _has_mark(schema: Any) -> bool:
    if isinstance(schema, dict):
        return TOUCH in schema or any(_has_mark(inner) for inner in schema.values())
    return isinstance(schema, list) and any(_has_mark(inner) for inner in schema)
