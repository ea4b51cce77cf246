"""`hilt explain '{...}'`: the decision on a call, with every vote, without running anything."""

from __future__ import annotations

import json
import sys
from typing import Any

from hilt import wire
from hilt.authority.explanation import Explanation
from hilt.call import Call
from hilt.output.terminal import inert
from hilt.surfaces.cli import Usage
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser

_EXITS = {"allow": 0, "ask": 3, "deny": 1}


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _run
    parser.details = """Nothing runs: hooks and scripts that would be heard are named. The exit status is 0 when the
call is allowed, 3 when it asks, and 1 when it is denied."""
    parser.add_argument("request", metavar="REQUEST", help="The call, as JSON")
    parser.add_argument("--json", action="store_true", help="Print JSON")
    parser.examples = [
        ("""hilt explain '{"tool": "run_shell", "args": {"command": "rm a"}}'""", "Show why a command is denied"),
        ("""hilt explain --mode plan '{"tool": "list_dir"}'""", "Ask about another mode"),
    ]


def _run(options: Options, given: Namespace) -> int:
    try:
        call = wire.decode_request(given.request.encode())
    except wire.Refused as refused:
        raise Usage(str(refused)) from None
    if not isinstance(call, Call):
        raise Usage("explain takes a request, not a cancel")
    with open_runtime(options) as runtime:
        found = runtime.explain(call)
    sys.stdout.write(f"{json.dumps(_data(call, found))}\n" if given.json else _text(call, found))
    return _EXITS[found.decision.verdict]


def _data(call: Call, found: Explanation) -> dict[str, Any]:
    return {
        "tool": found.prepared.tool.name,
        "called": call.tool,
        "mode": found.mode,
        "decision": found.decision.verdict,
        "voter": found.decision.voter,
        "reason": found.decision.reason,
        "votes": [{"voter": vote.voter, "verdict": vote.verdict, "reason": vote.reason} for vote in found.votes],
        "touches": [{"effect": touch.effect, "target": touch.target} for touch in found.prepared.touches],
        "hooks_would_run": list(found.hooks),
        "scripts_would_run": [] if found.script is None else [found.script],
        "sandbox_rules": list(found.sandbox),
        "notes": list(found.notes),
    }


def _text(call: Call, found: Explanation) -> str:
    decision, tool = found.decision, found.prepared.tool.name
    name = tool if call.tool == tool else f"{tool} (called {inert(call.tool)})"
    lines = [
        f"{decision.verdict}: {name}",
        f"  because {inert(decision.reason)} ({decision.voter})",
        f"  mode {found.mode}",
    ]
    lines += [f"  {touch.effect:<8} {inert(touch.target)[:200]}" for touch in found.prepared.touches]
    lines += [f"  vote     {vote.verdict:<5} {vote.voter}: {inert(vote.reason)}" for vote in found.votes]
    lines += [f"  hook     would run: {inert(hook)}" for hook in found.hooks]
    lines += [f"  script   would run: {inert(found.script)}"] if found.script is not None else []
    lines += [f"  sandbox  {inert(rule)}" for rule in found.sandbox]
    lines += [f"  note     {inert(note)}" for note in found.notes]
    return "\n".join(lines) + "\n"
