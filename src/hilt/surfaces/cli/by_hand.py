"""Commands for people: a call typed by hand, undo, and the end of a session."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from math import isfinite
from typing import Any

from hilt import wire
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.schema import Schema, did_you_mean
from hilt.surfaces.cli import Usage
from hilt.surfaces.oneshot import closed_by_signals, request
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.declaration import Tool
    from hilt.state.approvals import Asked, UserAnswer


def call(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt call NAME key=value ... [--json '{...}'] [--raw]`."""
    raw = "--raw" in words
    words = [word for word in words if word != "--raw"]
    args: dict[str, Any] = {}
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--json=") else (word,))]
    if "--json" in words:
        position = words.index("--json")
        args = _json_object(words[position + 1 : position + 2])
        del words[position : position + 2]
    if not words or words[0].startswith("-"):
        raise Usage("call needs the name of a tool, then key=value ...")
    name, *pairs = words
    try:
        with open_runtime(options, keeps_jobs=False, **person()) as runtime, closed_by_signals(runtime):
            found = runtime.catalog.find(name, runtime.settings["dialect"])
            schema = found.entry.schema if found.entry is not None else found.tool.schema
            args.update(_typed(schema, pairs))
            result = request(runtime, options, Call(name, args))
            if not raw and sys.stdout.isatty():
                _show_call(found.tool, args, result)
            return show(result, raw=raw)
    except ToolError as error:
        return show(Result(error=error), raw=raw)


def _show_call(tool: Tool, args: dict[str, Any], result: Result) -> None:
    """Print the call of a markdown tool as its format shows it: the name, the arguments, and how long the answer is."""
    definition = getattr(tool.run, "definition", None)
    if getattr(definition, "format", "") == "markdown":
        from hilt.custom.scripts import told

        shown = told(tool.name, args, result.result if result.ok else None)
        sys.stdout.write(_inert(shown) + "\n")
        sys.stdout.flush()  # before the error, which goes another way


def undo(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt undo [list|preview ID|restore ID|clear]`."""
    raw = "--raw" in words
    match [word for word in words if word != "--raw"]:
        case []:
            args = {"action": "list", "limit": 20}
        case [("list" | "clear") as action]:
            args = {"action": action}
        case [("preview" | "restore") as action, id]:
            args = {"action": action, "id": id}
        case _:
            raise Usage("undo takes list, preview ID, restore ID or clear")
    try:
        with open_runtime(options) as runtime:
            if args["action"] == "clear":
                runtime.trail.make_way()
            result = runtime.request(Call("undo", args))
    except ToolError as error:
        return show(Result(error=error), raw=raw)
    if raw or result.data is None:
        return show(result, raw=raw)
    for entry in result.data["snapshots"]:
        kind = "created" if "created" in entry else "deleted" if "deleted" in entry else f"{entry['size']} bytes"
        sys.stdout.write(
            f"{entry['id']}  {entry['timestamp'][:19]}  {entry['operation']:<12} {_inert(entry['path'])} ({kind})\n"
        )
    sys.stdout.write(f"{result.data['count']} of {result.data['total']} snapshots\n")
    return 0


_ONE_AT_A_TIME = threading.Lock()


def person() -> dict[str, Any]:
    """Return who answers questions: the person at this terminal, if there is one."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return {}

    def asker(asked: Asked) -> UserAnswer:
        from hilt.state.approvals import UserAnswer
        from hilt.surfaces.cli.prompt import controlling_terminal, prompt

        with _ONE_AT_A_TIME, controlling_terminal() as screen:
            said = prompt(asked, read=screen.read, write=screen.write, width=screen.width, color=screen.color)
        return UserAnswer(said.kind, said.reason, "terminal")

    from hilt.surfaces.cli.questions import questioner

    return {"asker": asker, "questioner": questioner}


def session(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt session end`."""
    if words != ["end"]:
        raise Usage("session takes end")
    from hilt.surfaces import resident

    jobs = resident.end_session(options)
    with open_runtime(options) as runtime:
        runtime.fire("session_end")
        ended = runtime.end_session(runtime.session)
        name = _inert(runtime.session)
    sys.stdout.write(f"session {name} {'ended' if ended or jobs else 'has not been used here'}\n")
    if jobs:
        sys.stdout.write(f"{jobs} background job{'s' * (jobs != 1)} ended with it\n")
    return 0


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
    color = _color(sys.stderr)
    red, end = ("\x1b[31m", "\x1b[0m") if color else ("", "")
    sys.stderr.write(f"{red}{error.code}{end}: {_inert(error.message)}\n")
    if error.suggestion:
        sys.stderr.write(f"{_inert(error.suggestion)}\n")


def _show_success(result: Result) -> None:
    view = result.view
    shown = ""
    if view is not None and view["type"] != "none":
        from shutil import get_terminal_size

        from hilt.output.terminal import render

        shown = render(view, width=get_terminal_size().columns, color=_color(sys.stdout))
    # these views hold the very text; others add to it
    if not shown or (view is not None and view["type"] not in ("code", "shell-output") and result.data is None):
        text = result.text if result.data is None else json.dumps(result.data, indent=2, ensure_ascii=False)
        if text and not (shown and text.startswith(("--- ", "diff --git "))):
            sys.stdout.write(_inert(text).rstrip("\n") + "\n")
    if shown:
        sys.stdout.write(shown.rstrip("\n") + "\n")
    elif view is not None and not result.text and result.data is None:
        sys.stdout.write(_inert(view.get("message", "")) + "\n")
    if "truncation" in result.meta:
        sys.stdout.write(_inert(result.text.rpartition("\n")[2]) + "\n")
    for block in result.content:
        held = block.get("resource", block)
        data = held.get("data") or held.get("blob") or ""
        sys.stdout.write(f"[{_inert(str(held.get('mimeType', block['type'])))}, {len(data) * 3 // 4} bytes]\n")
    for note in result.meta.get("notes", ()):
        sys.stderr.write(f"note: {_inert(note)}\n")


def _inert(text: str) -> str:
    from hilt.output.terminal import inert

    return inert(text)


def _color(stream: Any) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _json_object(words: list[str]) -> dict[str, Any]:
    try:
        value = wire.decode_value(words[0].encode()) if words else None
    except ToolError as error:
        raise Usage(f"--json: {error.message}") from None
    if not isinstance(value, dict):
        raise Usage("--json needs a JSON object")
    return value


def _typed(schema: Schema, pairs: list[str]) -> dict[str, Any]:
    """Turn key=value words into arguments, typed as the schema says."""
    properties: dict[str, Any] = schema.get("properties", {})
    args: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise Usage(f"{pair!r} is not key=value")
        if name not in properties:
            near = did_you_mean(name, properties)
            hint = f"did you mean {near}?" if near else f"the arguments are: {', '.join(properties) or 'none'}"
            raise Usage(f"there is no argument {name!r}; {hint}")
        told = properties[name]
        # a foreign schema may be true
        args[name] = _value(told if isinstance(told, dict) else {}, name, text, args.get(name))
    return args


def _value(schema: Schema, name: str, text: str, before: Any) -> Any:
    kind = schema.get("type")
    if kind == "boolean" and text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return text.lower() in ("true", "yes", "on", "1")
    if kind in ("integer", "number"):
        with suppress(ValueError):
            return int(text)
        with suppress(ValueError):
            if isfinite(number := float(text)):
                return number
        return text  # the check says what is wrong with it
    if kind in ("array", "object") or "anyOf" in schema:
        try:
            return wire.decode_value(text.encode())
        except ToolError:
            if kind == "array" and schema.get("items", {}).get("type") == "string":
                return [*(before or []), text]
            return text
    return text
