"""`hilt call`: call a tool from the command line, and show its result to a person."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from math import isfinite
from typing import Any

from hilt import wire
from hilt.call import Call, Result
from hilt.errors import ToolError, did_you_mean
from hilt.output.advice import for_user, next_step
from hilt.output.terminal import RED, draws_color, inert, painted, render
from hilt.runtime import Runtime
from hilt.schema import Schema
from hilt.surfaces import Usage
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import person
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.oneshot import closed_by_signals, request
from hilt.surfaces.opening import open_runtime


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Each value is converted to the type of the argument in the tool's schema; arrays and objects are
JSON. hilt call TOOL --help lists the arguments of a tool."""
    parser.add_argument("tool", metavar="TOOL", help="The name of the tool")
    parser.add_argument("pairs", metavar="KEY=VALUE", nargs="*", help="Its arguments")
    parser.add_argument("--json", metavar="OBJECT", type=_json_object, default={}, help="Arguments as a JSON object")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="Print the raw JSON reply")
    form.add_argument("--text", action="store_true", help="Print only the result, as a model reads it")
    parser.examples = [
        ("hilt call read_file path=README.md tail=5", "Show the last lines of a file"),
        ("hilt call edit_file --help", "List the arguments of edit_file"),
        ("hilt call run_shell command='make test' timeout=300", "Run a command with a timeout of 300 seconds"),
        ("""hilt call multi_read files='[{"path": "a.py"}]' --raw""", "Print the reply as JSON"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    raw: bool = arguments.raw
    try:
        wait = Waiting(arguments.tool)
        with open_runtime(options, keeps_jobs=False, **person(wait.paused)) as runtime, closed_by_signals(runtime):
            pairs = typed_arguments(runtime, arguments.tool, arguments.pairs, f"hilt call {arguments.tool}")
            args = {**arguments.json, **pairs}
            call = Call(arguments.tool, args)
            with wait:
                result = request(runtime, options, call)
            if arguments.text and result.ok:
                sys.stdout.write(_plain(result))
                return 0
            if not raw and sys.stdout.isatty():
                _show_call(runtime, call, result)
            return show(result, raw=raw)
    except ToolError as error:
        return show(Result(error=error), raw=raw)


def _show_call(runtime: Runtime, call: Call, result: Result) -> None:
    """Print the call of a markdown tool the way its format does: name, arguments, and length of the answer."""
    from hilt.desk.tools import call_lines  # a module that few calls need

    lines = call_lines(runtime, call, result)
    if lines is not None:
        sys.stdout.write(inert(lines) + "\n")
        sys.stdout.flush()  # before the error, which goes to standard error


def _plain(result: Result) -> str:
    """Return what a model reads; on a terminal without characters that control it."""
    text = inert(result.result) if sys.stdout.isatty() else result.result
    return text.rstrip("\n") + "\n"


def show(result: Result, *, raw: bool) -> int:
    """Print a result for a person, or its envelope."""
    if raw:
        sys.stdout.write(wire.encode_result(result).decode())
    elif result.error is not None:
        _show_error(result.error)
    else:
        _show_success(result)
    return 0 if result.ok else 1


def _show_error(error: ToolError) -> None:
    code = painted(error.code, RED, color=draws_color(sys.stderr))
    sys.stderr.write(f"{code}: {inert(error.message)}\n")
    advice = next_step(error)
    if advice:
        sys.stderr.write(f"{inert(advice)}\n")


def _show_success(result: Result) -> None:
    view = result.view
    rendered = ""
    if view is not None and view["type"] != "none":
        from shutil import get_terminal_size

        rendered = render(view, width=get_terminal_size().columns, color=draws_color(sys.stdout))
    text = result.text if result.data is None else json.dumps(result.data, indent=2, ensure_ascii=False)
    if rendered and view is not None:
        # the view replaces the text; a diff keeps its text above it, unless that is the diff itself
        text = text if view["type"] in ("diff", "diffs") and result.data is None else ""
        text = "" if text.startswith(("--- ", "diff --git ")) else text
    elif view is not None and not text:
        text = view.get("message", "")
    for part in (inert(text), rendered, inert(for_user(_closing(result))) if rendered else ""):
        if part:
            sys.stdout.write(part.rstrip("\n") + "\n")
    for block in result.content:
        if block["type"] == "text":
            sys.stdout.write(f"{inert(block['text'])}\n")
            continue
        source = block.get("resource", block)
        data = source.get("data") or source.get("blob") or ""
        sys.stdout.write(f"[{inert(str(source.get('mimeType', block['type'])))}, {len(data) * 3 // 4} bytes]\n")
    for note in result.meta.get("notes", ()):
        sys.stderr.write(f"note: {inert(note)}\n")


def _closing(result: Result) -> str:
    """Return the end of a text that its view does not show: the truncation notice, or advice on a command."""
    if result.view is not None and result.view["type"] == "shell-output" and result.data is None:
        return result.text.rpartition("\n[classification: ")[2].partition("\n")[2]
    if isinstance(result.data, dict) and "advice" in result.data:
        return str(result.data["advice"])
    truncation = result.meta.get("truncation")
    is_cut = isinstance(truncation, dict) and truncation.get("truncated") is True
    return result.text.rpartition("\n")[2] if is_cut else ""


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = wire.decode_value(text.encode())
    except ToolError as error:
        raise Usage(f"--json: {error.message}") from None
    if not isinstance(value, dict):
        raise Usage("--json needs a JSON object")
    return value


def typed_arguments(runtime: Runtime, tool: str, pairs: list[str], command: str) -> dict[str, Any]:
    """Convert KEY=VALUE pairs to the types in a tool's schema; `command` is the one whose help lists the arguments."""
    match = runtime.parts.catalog.find(tool, runtime.settings["dialect"])
    schema = match.entry.schema if match.entry is not None else match.tool.schema
    properties: dict[str, Any] = schema.get("properties", {})
    args: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise Usage(f"{pair!r} is not KEY=VALUE", command)
        if name not in properties:
            near = did_you_mean(name, properties)
            hint = f"did you mean {near}?" if near else f"the arguments are: {', '.join(properties) or 'none'}"
            raise Usage(f"unknown argument {name!r}; {hint}", command)
        inner = properties[name]
        # the schema of a custom tool or a server may be `true`
        args[name] = _value(inner if isinstance(inner, dict) else {}, text, args.get(name))
    return args


def _value(schema: Schema, text: str, previous: Any) -> Any:
    kind = schema.get("type")
    if kind == "boolean" and text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return text.lower() in ("true", "yes", "on", "1")
    if kind in ("integer", "number"):
        with suppress(ValueError):
            return int(text)
        with suppress(ValueError):
            if isfinite(number := float(text)):
                return number
        return text  # validation reports the error
    if kind in ("array", "object") or "anyOf" in schema:
        try:
            return wire.decode_value(text.encode())
        except ToolError:
            if kind == "array" and schema.get("items", {}).get("type") == "string":
                return [*(previous or []), text]
            return text
    return text
