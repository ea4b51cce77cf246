"""`hilt undo`: list the file changes in this folder, and undo them."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.places import command
from hilt.runtime import Runtime
from hilt.surfaces.cli.call import show
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import person
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.opening import open_runtime

_SHOWN = 20


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = partial(_run, action="list", limit=_SHOWN)
    parser.details = """One id covers everything that one call changed. Without a command, the newest changes are
listed. A restore is a change too, so it can be undone."""
    listing = parser.command("list", "List all changes, newest first", partial(_run, action="list"))
    last = parser.command("last", "Show the last change, prompt, and undo it", _last)
    last.add_argument("--yes", action="store_true", help="Undo it without a prompt")
    preview = parser.command("preview", "Show what a restore would change", partial(_run, action="preview"))
    restore = parser.command("restore", "Restore files to their state before a change", partial(_run, action="restore"))
    for below in (preview, restore):
        below.add_argument("id", metavar="ID", help="The id of the change; any unique prefix works")
    clear = parser.command(
        "clear", "Delete the change history of this folder; files stay as they are", partial(_run, action="clear")
    )
    for below in (parser, listing, last, preview, restore, clear):
        below.add_argument("--json", action="store_true", help="Print JSON")
        if below is not last:
            below.add_argument("--raw", action="store_true", help="Print the raw JSON reply")
    last.details = """If the last change was itself an undo, undoing it repeats the original change. Without a terminal
to prompt on, nothing is undone unless --yes is given."""
    last.examples = [
        ("hilt undo last", "Show the last change, prompt, and undo it"),
        ("hilt undo last --yes", "Undo it without a prompt"),
        ("hilt undo last --json", "Show it as JSON without undoing it"),
    ]
    listing.examples = [("hilt undo list --json", "List all changes as JSON")]
    clear.examples = [("hilt undo clear", "Delete the change history of this folder")]
    parser.examples = [
        ("hilt undo", "List the newest changes"),
        ("hilt undo last", "Undo the last one"),
        ("hilt undo preview 3f2a", "Show what a restore would change"),
        ("hilt undo restore 3f2a", "Restore the files"),
    ]


def _run(options: Options, arguments: Namespace, *, action: str, **args: Any) -> int:
    """Call undo with this action; some actions take the id of a change."""
    if "id" in arguments:
        args["id"] = arguments.id
    try:
        wait = Waiting(f"undo {action}")
        with open_runtime(options, **person(wait.paused)) as runtime, wait:
            if action == "clear":
                runtime.parts.trail.release_reserve()
            result = runtime.request(Call("undo", {"action": action, **args}))
    except ToolError as error:
        result = Result(error=error)
    if result.error is not None and result.error.code in ("not_found", "ambiguous_id") and not arguments.raw:
        result.error.suggestion = f"To see the ids: {command('undo')}"
    if arguments.raw or result.error is not None:
        return show(result, raw=arguments.raw)
    if arguments.json:
        print_json(_data(result))
    elif result.data is None:
        return show(result, raw=False)
    else:
        _print_list(result.data)
    return 0


def _data(result: Result) -> dict[str, Any]:
    if result.data is not None:
        return dict(result.data)
    fields = {name: result.meta[name] for name in ("id", "files") if name in result.meta}
    return {**fields, "text": result.text}


def _print_list(data: dict[str, Any]) -> None:
    for entry in data["snapshots"]:
        kind = "created" if "created" in entry else "deleted" if "deleted" in entry else f"{entry['size']} bytes"
        sys.stdout.write(
            f"{entry['id']}  {entry['timestamp'][:19]}  {entry['operation']:<12} {inert(entry['path'])} ({kind})\n"
        )
    sys.stdout.write(f"{data['count']} of {data['total']} snapshots\n")
    if not data["total"]:
        sys.stdout.write(
            "Nothing can be undone here yet: tools record what they change, and what a dangerous command does.\n"
        )


def _last(options: Options, arguments: Namespace) -> int:
    try:
        wait = Waiting("undo")
        with open_runtime(options, **person(wait.paused)) as runtime:
            return _undo_last(runtime, arguments, wait)
    except ToolError as error:
        return show(Result(error=error), raw=False)


def _undo_last(runtime: Runtime, arguments: Namespace, wait: Waiting) -> int:
    newest = _call_undo(runtime, action="list", limit=1)
    if not newest.data or not newest.data["snapshots"]:
        raise ToolError(
            "not_found",
            "No changes are recorded for this folder.",
            suggestion="Only changes made by tools are recorded; see hilt undo list.",
        )
    change = {name: newest.data["snapshots"][0][name] for name in ("id", "operation", "timestamp")}
    with wait:
        preview = _call_undo(runtime, action="preview", id=change["id"])
    if not arguments.json:
        sys.stdout.write(
            f"{change['operation']} {change['id']}, {change['timestamp'][:19]}. Undoing it would change:\n"
        )
        show(preview, raw=False)
    if arguments.yes or (not arguments.json and _agrees()):
        with Waiting("undo"):
            restored = _call_undo(runtime, action="restore", id=change["id"])
        if not arguments.json:
            sys.stdout.write(inert(restored.text) + "\n")
        else:
            print_json({**change, "diff": preview.text, "restored": True, "files": restored.meta.get("files", [])})
        return 0
    if arguments.json:
        print_json({**change, "diff": preview.text, "restored": False})
        return 0
    sys.stdout.write("Nothing was undone.\n")
    return 1


def _call_undo(runtime: Runtime, **args: Any) -> Result:
    result = runtime.call("undo", **args)
    if result.error is not None:
        raise result.error
    return result


def _agrees() -> bool:
    """Whether the person at the terminal answers yes; without a terminal, the answer is no."""
    if not sys.stdin.isatty():
        sys.stdout.write("The input is not a terminal, so nobody can confirm this. Pass --yes to undo it.\n")
        return False
    sys.stdout.write("Undo it? [y/n] > ")
    sys.stdout.flush()
    try:
        return sys.stdin.readline().strip().casefold() in ("y", "yes")
    except KeyboardInterrupt:
        sys.stdout.write("\nNothing was undone.\n")
        raise
