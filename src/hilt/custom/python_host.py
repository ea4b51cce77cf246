"""The worker side of a Python tool: loads one file, describes its tools, and answers calls, one line of JSON each.

It runs in a separate process, started by python_tools.py. The first request carries the source of the file, so what
runs is what was trusted. What tools print goes to standard error; replies use a separate descriptor.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

from hilt.call import Output
from hilt.declaration import Tool
from hilt.errors import CODES, ToolError


class WorkerContext:
    """The `ctx` of a Python tool: its workspace and session, and requests to the client of the call."""

    def __init__(self, root: str, session: str, ask: Callable[[str, Any], Any]) -> None:
        self.root = root
        self.session = session
        self._ask = ask
        self._count = 0

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress to the client, if it requested it."""
        self._ask("progress", [done, total, message])

    def log(self, level: str, data: Any) -> None:
        """Send a log message to the client: level is debug, info, notice, warning, error or higher."""
        self._ask("log", [level, data])

    def elicit(self, message: str, schema: dict[str, Any], name: str = "") -> dict[str, Any] | None:
        """Ask the user to fill in a form; None if no user is available to answer.

        With some clients, the whole call runs again after the answer, so anything before this may happen twice.
        """
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        return self._send_one(name, {"method": "elicitation/create", "params": params})

    def sample(self, request: dict[str, Any], name: str = "") -> dict[str, Any] | None:
        """Request an answer from the client's model; None if the client does not support it."""
        return self._send_one(name, {"method": "sampling/createMessage", "params": request})

    def inputs(self, requests: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Send the client several MCP requests at once, by name; None for those it does not support."""
        answers: dict[str, Any] = self._ask("inputs", requests)
        return answers

    def require(self, capability: str) -> None:
        """End the call unless the client supports this: elicitation, sampling or roots."""
        self._ask("require", capability)

    def _send_one(self, name: str, request: dict[str, Any]) -> dict[str, Any] | None:
        self._count += 1
        name = name or f"input_{self._count}"
        answer: dict[str, Any] | None = self.inputs({name: request})[name]
        return answer


class _Channel:
    """The connection to the runtime: requests in, replies out, and requests of a tool in between."""

    def __init__(self, requests: BinaryIO, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._lock = threading.Lock()
        self._number = 0  # of the current request; 0 for none

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self._requests:
            request = json.loads(line)
            self._number = request["id"]
            yield request

    def ask(self, kind: str, value: Any) -> Any:
        """Send the runtime a request of a tool, and wait for the answer."""
        with self._lock:
            if not self._number:
                raise ToolError("cancelled", "The call is over, so its client can no longer be reached.")
            try:
                line = _encoded({"id": self._number, "ask": {"kind": kind, "value": value}})
            except (TypeError, ValueError, RecursionError) as error:
                raise ToolError("tool_failed", f"The tool sent a value that JSON does not support: {error}.") from None
            self._send(line)
            message = json.loads(self._requests.readline() or os._exit(0))  # the runtime is gone
            self._number = message["id"]
        answer = message["answer"]
        if "error" in answer:
            raise ToolError(**answer["error"])
        return answer["value"]

    def reply(self, reply: dict[str, Any]) -> None:
        """Answer the request; threads that the tool left running cannot send anything afterwards."""
        with self._lock:
            try:
                line = _encoded({"id": self._number, **reply})
            except (TypeError, ValueError, RecursionError) as error:
                failure = {
                    "code": "tool_failed",
                    "message": f"The tool returned a value that JSON does not support: {error}.",
                }
                line = _encoded({"id": self._number, "error": failure})
            self._number = 0
            self._send(line)

    def _send(self, line: bytes) -> None:
        sys.stdout.flush()
        data = memoryview(line)
        while data:
            data = data[os.write(self._replies, data) :]


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"


class LoadError(Exception):
    """Why a file cannot be loaded, and the line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Function(NamedTuple):
    """A function of the file under `@tool`."""

    line: int
    declares_effects: bool  # whether the decorator has the argument effects


def main() -> None:
    """Answer requests until there are no more."""
    with os.fdopen(os.dup(0), "rb") as requests:
        replies = os.dup(1)
        null_device = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null_device, 0)
        os.close(null_device)
        os.dup2(2, 1)
        tools: dict[str, Tool] = {}
        channel = _Channel(requests, replies)
        for request in channel:
            channel.reply(_load(request, tools) if request["op"] == "load" else _call(request, tools, channel))


# --- load -----------------------------------------------------------------------------------------------------------


def _load(request: dict[str, Any], tools: dict[str, Tool]) -> dict[str, Any]:
    path = request["path"]
    try:
        module, functions = _import_module(path, request["source"].encode("latin-1"))
        for value in vars(module).values():
            if isinstance(value, Tool) and value.name in functions:  # the others are imported
                tools[value.name] = value
        descriptions = [_describe(tool, functions[tool.name]) for tool in tools.values()]
        json.dumps(descriptions)
    except LoadError as error:
        return {"problem": {"message": error.message, "line": error.line}}
    except (TypeError, ValueError, RecursionError) as error:
        return {"problem": {"message": f"a schema is not JSON: {error}", "line": None}}
    return {"tools": descriptions}


def _import_module(path: str, source: bytes) -> tuple[ModuleType, dict[str, Function]]:
    try:
        tree = ast.parse(source, path)
        functions = _functions(tree)
        code = compile(tree, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise LoadError(error.msg, error.lineno or None) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LoadError(f"the file is not valid Python: {error}") from None
    name = os.path.basename(path).partition(".")[0]
    module = ModuleType(f"hilt_file_{name}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    try:
        exec(code, vars(module))  # noqa: S102 -- the user trusts this file
    except BaseException as error:  # noqa: BLE001 -- whatever a file raises is reported
        raise LoadError(_summary(error), _line(error, path)) from None
    return module, functions


def _functions(tree: ast.Module) -> dict[str, Function]:
    functions: dict[str, Function] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if any(map(_is_tool, node.decorator_list)):
                _check_types(node)
            functions[node.name] = Function(node.lineno, any(map(_declares_effects, node.decorator_list)))
        elif isinstance(node, ast.AsyncFunctionDef) and any(map(_is_tool, node.decorator_list)):
            raise LoadError(f"the function {node.name} is async; a tool must be a plain function", node.lineno)
    return functions


def _check_types(node: ast.FunctionDef) -> None:
    signature = node.args
    if signature.posonlyargs or signature.vararg or signature.kwarg:
        raise LoadError(f"the function {node.name} has positional-only, *args or **kwargs parameters", node.lineno)
    for position, parameter in enumerate([*signature.args, *signature.kwonlyargs]):
        if parameter.annotation is None and (position, parameter.arg) != (0, "ctx"):
            raise LoadError(f"the parameter {parameter.arg} of {node.name} has no type annotation", parameter.lineno)


def _is_tool(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target) in ("tool", "hilt.tool")


def _declares_effects(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and any(keyword.arg == "effects" for keyword in decorator.keywords)


def _describe(tool: Tool, function: Function) -> dict[str, Any]:
    if not tool.description:
        raise LoadError(
            f"the function {tool.name} has no docstring; the model needs it as a description", function.line
        )
    return {
        "name": tool.name,
        "description": tool.description,
        "schema": tool.schema,
        "output": tool.output,
        "effects": sorted(tool.effects) if function.declares_effects else None,
        "timeout": tool.timeout,
        "line": function.line,
    }


# --- call -----------------------------------------------------------------------------------------------------------


def _call(request: dict[str, Any], tools: dict[str, Tool], channel: _Channel) -> dict[str, Any]:
    tool = tools[request["tool"]]
    try:
        os.chdir(request["root"])  # the last call may have changed the working folder
        output = tool.run(WorkerContext(request["root"], request["session"], channel.ask), request["args"])
    except ToolError as error:
        code = error.code if error.code in CODES else "tool_failed"
        failure = {"code": code, "message": error.message, "suggestion": error.suggestion}
        return {"error": {**failure, "details": _json_safe(error.details)}}
    except BaseException as error:  # noqa: BLE001 -- the failure of a tool is its answer
        path = request["path"]
        line = _line(error, path)
        where = "" if line is None else f" ({os.path.basename(path)}, line {line})"
        return {"error": {"code": "tool_failed", "message": f"{tool.name} failed{where}: {_summary(error)}"}}
    return {"output": _fields(output)}


def _fields(output: Output) -> dict[str, Any]:
    return {
        "text": output.text,
        "data": output.data,
        "view": output.view,
        "meta": dict(output.meta),
        "content": list(output.content),
        "classification": output.classification,
        "risk": output.risk,
    }


def _json_safe(details: dict[str, object]) -> Any:
    return json.loads(json.dumps(details, default=repr, skipkeys=True))


def _summary(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {error}" if str(error) else kind
    except Exception:  # noqa: BLE001 -- even its str() may fail
        return kind


def _line(error: BaseException, path: str) -> int | None:
    """Return the innermost line of the file in the traceback."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
