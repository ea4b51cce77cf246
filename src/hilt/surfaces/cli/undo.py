"""`hilt undo`: the changes of files in this folder, and the way back."""

from __future__ import annotations

import json
import sys
from typing import Any

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.surfaces.cli.call import show
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.runtime import Runtime
    from hilt.surfaces.cli.parsing import Options, Parser

_SHOWN = 20


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _list_some
    parser.details = """One id stands for everything that one call changed. Without a command, the newest changes are
listed. A restore is a change too, so it can be undone."""
    listing = parser.command("list", "List all changes, newest first", _list)
    last = parser.command("last", "Show the last change, and take it back after a yes", _last)
    last.add_argument("--yes", action="store_true", help="Take it back without asking")
    preview = parser.command("preview", "Show what a restore would change", _preview)
    restore = parser.command("restore", "Put files back as they were before a change", _restore)
    for below in (preview, restore):
        below.add_argument("id", metavar="ID", help="The id of the change; a unique beginning will do")
    clear = parser.command("clear", "Forget all changes of this folder; files stay as they are", _clear)
    for below in (parser, listing, last, preview, restore, clear):
        below.add_argument("--json", action="store_true", help="Print JSON")
        if below is not last:
            below.add_argument("--raw", action="store_true", help="Print the reply of the JSON protocol")
    last.details = """What was the last change may itself be an undo: taking that back repeats the change. Where nobody
can be asked, nothing is taken back without --yes."""
    last.examples = [
        ("hilt undo last", "Show the last change, ask, and take it back"),
        ("hilt undo last --yes", "Take it back at once"),
        ("hilt undo last --json", "Show it as JSON, and take nothing back"),
    ]
    parser.examples = [
        ("hilt undo", "List the newest changes"),
        ("hilt undo last", "Take back the last one"),
        ("hilt undo preview 3f2a", "Show what a restore would change"),
        ("hilt undo restore 3f2a", "Put the files back"),
    ]


def _list_some(options: Options, given: Namespace) -> int:
    return _ask(options, given, {"action": "list", "limit": _SHOWN})


def _list(options: Options, given: Namespace) -> int:
    return _ask(options, given, {"action": "list"})


def _preview(options: Options, given: Namespace) -> int:
    return _ask(options, given, {"action": "preview", "id": given.id})


def _restore(options: Options, given: Namespace) -> int:
    return _ask(options, given, {"action": "restore", "id": given.id})


def _clear(options: Options, given: Namespace) -> int:
    return _ask(options, given, {"action": "clear"})


def _ask(options: Options, given: Namespace, args: dict[str, Any]) -> int:
    try:
        with open_runtime(options) as runtime:
            if args["action"] == "clear":
                runtime.trail.make_way()
            result = runtime.request(Call("undo", args))
    except ToolError as error:
        result = Result(error=error)
    if given.raw or result.error is not None:
        return show(result, raw=given.raw)
    if given.json:
        _print_json(_data(result))
    elif result.data is None:
        return show(result, raw=False)
    else:
        _print_list(result.data)
    return 0


def _data(result: Result) -> dict[str, Any]:
    if result.data is not None:
        return dict(result.data)
    known = {name: result.meta[name] for name in ("id", "files") if name in result.meta}
    return {**known, "text": result.text}


def _print_json(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")


def _print_list(data: dict[str, Any]) -> None:
    for entry in data["snapshots"]:
        kind = "created" if "created" in entry else "deleted" if "deleted" in entry else f"{entry['size']} bytes"
        sys.stdout.write(
            f"{entry['id']}  {entry['timestamp'][:19]}  {entry['operation']:<12} {inert(entry['path'])} ({kind})\n"
        )
    sys.stdout.write(f"{data['count']} of {data['total']} snapshots\n")


def _last(options: Options, given: Namespace) -> int:
    try:
        with open_runtime(options) as runtime:
            return _take_back(runtime, given)
    except ToolError as error:
        return show(Result(error=error), raw=False)


def _take_back(runtime: Runtime, given: Namespace) -> int:
    found = _called(runtime, action="list", limit=1)
    if not found.data or not found.data["snapshots"]:
        raise ToolError(
            "not_found",
            "Nothing was changed in this folder, or it was forgotten.",
            suggestion="Only changes that tools make are kept; see hilt undo list.",
        )
    change = {name: found.data["snapshots"][0][name] for name in ("id", "operation", "timestamp")}
    preview = _called(runtime, action="preview", id=change["id"])
    if not given.json:
        sys.stdout.write(f"{change['operation']} {change['id']}, {change['timestamp'][:19]}. Undoing it does this:\n")
        show(preview, raw=False)
    if given.yes or (not given.json and _agrees()):
        restored = _called(runtime, action="restore", id=change["id"])
        if not given.json:
            sys.stdout.write(inert(restored.text) + "\n")
        else:
            _print_json({**change, "diff": preview.text, "restored": True, "files": restored.meta.get("files", [])})
        return 0
    if given.json:
        _print_json({**change, "diff": preview.text, "restored": False})
        return 0
    sys.stdout.write("Nothing was taken back.\n")
    return 1


def _called(runtime: Runtime, **args: Any) -> Result:
    result = runtime.call("undo", **args)
    if result.error is not None:
        raise result.error
    return result


def _agrees() -> bool:
    """Whether the person at the terminal says yes; with nobody there, the answer is no."""
    if not sys.stdin.isatty():
        sys.stdout.write("Nobody can be asked here: --yes takes it back.\n")
        return False
    sys.stdout.write("Take it back? [y/n] > ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
