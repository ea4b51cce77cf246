"""`hilt explain`: show the decision on a call with every vote, without running anything."""

from __future__ import annotations

import sys

from hilt import wire
from hilt.call import Call
from hilt.desk.explanation import ExplainedCall, explain
from hilt.errors import ToolError
from hilt.output.terminal import clip, inert
from hilt.runtime import Runtime
from hilt.surfaces import Usage
from hilt.surfaces.cli.call import typed_arguments
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.opening import open_runtime

_EXITS = {"allow": 0, "ask": 3, "deny": 1}


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Nothing runs; hooks and scripts that would run are listed. The exit status is 0 if the call is
allowed, 3 if it needs approval, and 1 if it is denied."""
    parser.add_argument("call", metavar="CALL", help="A shell command, the name of a tool, or a request as JSON")
    parser.add_argument("pairs", metavar="KEY=VALUE", nargs="*", help="The arguments of the tool")
    parser.add_argument("--json", action="store_true", help="Print JSON")
    parser.examples = [
        ("hilt explain 'rm -rf src'", "Show why a command is denied"),
        ("hilt explain write_file path=a.txt content=x", "Show the decision on another tool"),
        ("""hilt explain --mode plan '{"tool": "list_dir"}'""", "Show the decision on a request in another mode"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        explained = explain(runtime, _call(runtime, arguments.call, arguments.pairs))
    if arguments.json:
        print_json(explained)
    else:
        sys.stdout.write(_text(explained))
    return _EXITS[explained.decision]


def _call(runtime: Runtime, text: str, pairs: list[str]) -> Call:
    """Return the call that a text stands for: a request, a tool with these arguments, or a shell command."""
    if text.lstrip().startswith("{") and not pairs:
        try:
            call = wire.decode_request(text.encode())
        except wire.Refused as refused:
            raise Usage(str(refused)) from None
        if not isinstance(call, Call):
            raise Usage("explain takes a call, not a cancel request")
        return call
    try:
        return Call(text, typed_arguments(runtime, text, pairs, f"hilt call {text}"))
    except ToolError as error:
        if pairs or error.code != "unknown_tool":
            raise
    return Call("run_shell", {"command": text})


def _text(call: ExplainedCall) -> str:
    name = call.tool if call.called == call.tool else f"{call.tool} (called {inert(call.called)})"
    lines = [f"{call.decision}: {name}", f"  because {inert(call.reason)} ({call.voter})", f"  mode {call.mode}"]
    lines += [f"  {touch.effect:<8} {clip(inert(touch.target), 200)}" for touch in call.touches]
    lines += [f"  vote     {vote.verdict:<5} {vote.voter}: {inert(vote.reason)}" for vote in call.votes]
    lines += [f"  hook     would run: {inert(hook)}" for hook in call.hooks_would_run]
    lines += [f"  script   would run: {inert(script)}" for script in call.scripts_would_run]
    lines += [f"  sandbox  {inert(rule)}" for rule in call.sandbox_rules]
    lines += [f"  note     {inert(note)}" for note in call.notes]
    return "\n".join(lines) + "\n"
