"""Tools that are functions of a module: described and called in a warm worker of their language."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from hilt.call import Output
from hilt.custom.answers import fit_to_limit
from hilt.custom.definition import (
    Content,
    Definition,
    Execute,
    Format,
    Loaded,
    ToolProblem,
    fingerprint,
    verified_bytes,
)
from hilt.custom.workers import Recipe, Workers
from hilt.errors import CODES, ToolError
from hilt.output import foreign_views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.surroundings import Surroundings

LOAD_SECONDS = 10.0


class Modules(NamedTuple):
    """What the workers of a workspace's modules need."""

    workers: Workers
    surroundings: Surroundings
    root: str
    state: str

    def environment(self) -> dict[str, str]:
        """Return the environment of a worker: the same as for markdown tools."""
        from hilt.custom.scripts import PROVIDER_KEYS

        return self.surroundings.environment(without=PROVIDER_KEYS)

    def recipe(
        self,
        path: str,
        data: bytes,
        argv: tuple[str, ...],
        cwd: str,
        env: Mapping[str, str],
        greeting: Mapping[str, Any],
    ) -> Recipe:
        """Return how to start a worker of a module; each workspace has its own."""
        key, place = f"{fingerprint({'': data})} {self.root}", f"{path} {self.root}"
        return Recipe(key, place, path, os.path.basename(path), argv, cwd, env, greeting)


def _language(form: Format) -> ModuleType:
    if form == "python":
        from hilt.custom import python_tools

        return python_tools
    from hilt.custom import javascript_tools

    return javascript_tools


def read(content: Content, form: Format, modules: Modules) -> Loaded:
    """Load a module in a worker, which is kept for the first call, and return its tools."""
    data = content.files[""]
    language = _language(form)
    try:
        reply = modules.workers.greet(language.recipe(modules, content.path, data), seconds=LOAD_SECONDS)
    except ToolError as error:
        return Loaded(problems=(ToolProblem(content.path, error.message),))
    if "problem" in reply:
        problem = reply["problem"]
        return Loaded(problems=(ToolProblem(content.path, _sentence(problem["message"]), problem.get("line")),))
    definitions = tuple(
        Definition(
            origin=content.path,
            source=content.source,
            format=form,
            folder=os.path.dirname(content.path),
            content_hash=fingerprint(content.files),
            # the tool may be renamed later, the function not
            details={"function": description["name"], "outputSchema": _schema(description.get("output"))},
            **language.fields(description),
        )
        for description in reply["tools"]
    )
    if not definitions:
        return Loaded(problems=(ToolProblem(content.path, "The file declares no tool."),))
    return Loaded(definitions)


def _schema(value: Any) -> Any:
    return value if isinstance(value, dict) else None


def execute(definition: Definition, modules: Modules) -> Execute:
    """Return the function that calls one tool of a module."""

    def call(ctx: Context, args: dict[str, Any]) -> Output:
        path = definition.origin
        request = {
            "op": "call",
            "tool": definition.details["function"],
            "args": args,
            "path": path,
            "root": modules.root,
            "session": ctx.session,
        }
        recipe = _language(definition.format).recipe(modules, path, verified_bytes(definition))
        reply = modules.workers.ask(
            recipe, request, seconds=definition.timeout, fence=ctx.fence, answer=lambda message: _answer(ctx, message)
        )
        return _output(reply, definition, ctx.overflow.limit)

    return call


def _answer(ctx: Context, message: Any) -> dict[str, Any]:
    """Pass a request or notification of a running tool to the client of the call; return the answer."""
    client = ctx.attendant
    kind, value = message.get("kind"), message.get("value")
    try:
        if kind == "inputs":
            return {"value": dict.fromkeys(value) if client is None else client.inputs(value)}
        if kind == "require" and client is not None:
            client.require(value)
        elif kind == "progress":
            ctx.progress(*value)
        elif kind == "log" and client is not None:
            client.log(*value)
    except ToolError as error:
        return {"error": {"code": error.code, "message": error.message, "suggestion": error.suggestion}}
    return {"value": None}


def _output(reply: dict[str, Any], definition: Definition, limit: int) -> Output:
    if "error" in reply:
        raise _error(reply["error"], definition)
    output = reply.get("output")
    if not isinstance(output, dict) or not isinstance(output.get("text", ""), str):
        raise ToolError("tool_failed", f"The host of {definition.name} sent an invalid reply.")
    meta = output.get("meta")
    data, view = foreign_views.extract(output.get("data"))
    text, data = fit_to_limit(output.get("text", ""), data, limit)
    return Output(
        text,
        data,
        view=view if output.get("view") is None else foreign_views.validate(output["view"]),
        meta=meta if isinstance(meta, dict) else {},
        content=_content(output.get("content"), definition),
        classification=output.get("classification"),
        risk=output.get("risk"),
    )


# the required fields of each kind of block
_BLOCKS: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": dict},
    "resource_link": {"uri": str, "name": str},
}


def _content(value: Any, definition: Definition) -> tuple[dict[str, Any], ...]:
    """Return the MCP content blocks of a result."""
    blocks = tuple(value) if isinstance(value, list) else ()
    for block in blocks:
        required = _BLOCKS.get(str(block.get("type"))) if isinstance(block, dict) else None
        if required is None or not all(isinstance(block.get(name), kind) for name, kind in required.items()):
            kinds = ", ".join(_BLOCKS)
            raise ToolError(
                "tool_failed",
                f"{definition.name} returned an invalid content block.",
                suggestion=f"Fix the tool: a block is an object with a type ({kinds}) and the fields MCP requires.",
            )
    return blocks


def _error(failure: dict[str, Any], definition: Definition) -> ToolError:
    code = failure.get("code")
    details = failure.get("details")
    extra = (
        {name: value for name, value in details.items() if name not in _RESERVED_KEYS}
        if isinstance(details, dict)
        else {}
    )
    return ToolError(
        code if code in CODES else "tool_failed",
        str(failure.get("message") or f"{definition.name} failed."),
        suggestion=failure.get("suggestion"),
        **extra,
    )


_RESERVED_KEYS = ("code", "message", "suggestion")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
