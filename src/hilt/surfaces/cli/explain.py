"""`hilt explain '{...}'`: show the decision on a call with every vote, without running anything."""

from __future__ import annotations

import json
import sys
from typing import Any

from hilt import wire
from hilt.authority.explanation import Explanation
from hilt.call import Call
from hilt.output.terminal import clip, inert
from hilt.surfaces.cli import Usage
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

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
        explanation = runtime.explain(call)
    sys.stdout.write(f"{json.dumps(_data(call, explanation))}\n" if arguments.json else _text(call, explanation))
    return _EXITS[explanation.decision.verdict]


def _data(call: Call, explanation: Explanation) -> dict[str, Any]:
    return {
        "tool": explanation.prepared.tool.name,
        "called": call.tool,
        "mode": explanation.mode,
        "decision": explanation.decision.verdict,
        "voter": explanation.decision.voter,
        "reason": explanation.decision.reason,
        "votes": [{"voter": vote.voter, "verdict": vote.verdict, "reason": vote.reason} for vote in explanation.votes],
        "touches": [{"effect": touch.effect, "target": touch.target} for touch in explanation.prepared.touches],
        "hooks_would_run": list(explanation.hooks),
        "scripts_would_run": [] if explanation.script is None else [explanation.script],
        "sandbox_rules": list(explanation.sandbox),
        "notes": list(explanation.notes),
    }


def _text(call: Call, explanation: Explanation) -> str:
    decision, tool = explanation.decision, explanation.prepared.tool.name
    name = tool if call.tool == tool else f"{tool} (called {inert(call.tool)})"
    lines = [
        f"{decision.verdict}: {name}",
        f"  because {inert(decision.reason)} ({decision.voter})",
        f"  mode {explanation.mode}",
    ]
    lines += [f"  {touch.effect:<8} {clip(inert(touch.target), 200)}" for touch in explanation.prepared.touches]
    lines += [f"  vote     {vote.verdict:<5} {vote.voter}: {inert(vote.reason)}" for vote in explanation.votes]
    lines += [f"  hook     would run: {inert(hook)}" for hook in explanation.hooks]
    lines += [f"  script   would run: {inert(explanation.script)}"] if explanation.script is not None else []
    lines += [f"  sandbox  {inert(rule)}" for rule in explanation.sandbox]
    lines += [f"  note     {inert(note)}" for note in explanation.notes]
    return "\n".join(lines) + "\n"
