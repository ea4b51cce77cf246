"""`hilt explain '{...}'`: show the decision on a call with every vote, without running anything."""

from __future__ import annotations

import sys

from hilt import wire
from hilt.call import Call
from hilt.desk.explanation import ExplainedCall, explain
from hilt.output.terminal import clip, inert
from hilt.surfaces import Usage
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.opening import open_runtime

_EXITS = {"allow": 0, "ask": 3, "deny": 1}


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Nothing runs; hooks and scripts that would run are listed. The exit status is 0 if the call is
allowed, 3 if it needs approval, and 1 if it is denied."""
    parser.add_argument("request", metavar="REQUEST", help="The call, as JSON")
    parser.add_argument("--json", action="store_true", help="Print JSON")
    parser.examples = [
        ("""hilt explain '{"tool": "run_shell", "args": {"command": "rm a"}}'""", "Show why a command is denied"),
        ("""hilt explain --mode plan '{"tool": "list_dir"}'""", "Show the decision in another mode"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    try:
        call = wire.decode_request(arguments.request.encode())
    except wire.Refused as refused:
        raise Usage(str(refused)) from None
    if not isinstance(call, Call):
        raise Usage("explain takes a call, not a cancel request")
    with open_runtime(options) as runtime:
        explained = explain(runtime, call)
    if arguments.json:
        print_json(explained)
    else:
        sys.stdout.write(_text(explained))
    return _EXITS[explained.decision]


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
