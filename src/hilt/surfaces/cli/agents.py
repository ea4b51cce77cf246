"""`hilt agents`: the agents that other agents have started in this folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from hilt.agents.durable.places import machine_name
from hilt.call import Call
from hilt.errors import ToolError
from hilt.formats.times import rfc3339
from hilt.output.terminal import inert
from hilt.state.agent_runs import RunRecord
from hilt.state.roster import EXIT_CODES, AgentRecord
from hilt.surfaces.cli.call import show
from hilt.surfaces.cli.layout import list_row, local_time
from hilt.surfaces.cli.person import person
from hilt.surfaces.oneshot import request
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.runtime import Runtime
    from hilt.surfaces.cli.parsing import Options, Parser

SENDER = "user"  # of the messages that a person sends
_LISTED_MAX = 1_000
_RUNS_SHOWN = 5
_POLL_SECONDS = 0.1


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """An agent can start other agents. Background agents keep running in the resident process after
the session ends; these commands start that process if an unfinished agent needs it. Without a command, the agents are
listed."""
    listing = parser.command("list", "List the agents of this folder, newest first", _list)
    showing = parser.command("show", "Show an agent, its progress and its answer", _show)
    for below in (parser, listing, showing):
        below.add_argument("--json", action="store_true", help="Print JSON")
    sending = parser.command("send", "Send a message to an agent, and wake it if it is idle", _send)
    waiting = parser.command("wait", "Wait for an agent, and print its answer", _wait)
    waiting.details = "Exit status: 0 done, 1 failed, 130 cancelled."
    cancelling = parser.command("cancel", "Cancel an agent and every agent it started", _cancel)
    applying = parser.command("apply", "Apply the changes that an agent made in its worktree", _apply)
    applying.details = "Exit status: 0 if no unapplied changes remain, 1 if some could not be applied."
    for below in (showing, sending, waiting, cancelling, applying):
        below.add_argument("id", metavar="ID", help="The id of the agent")
    sending.add_argument("text", metavar="TEXT", help="The message")
    listing.examples = [("hilt agents list --json", "List the agents as JSON")]
    showing.examples = [("hilt agents show agent_5f0c2b9a71de", "Show an agent and its answer")]
    parser.examples = [
        ("hilt agents", "List the agents"),
        ("hilt agents wait agent_5f0c2b9a71de", "Wait for an answer"),
        ("hilt agents send agent_5f0c2b9a71de 'Also check the docs'", "Send an agent a message"),
        ("hilt agents cancel agent_5f0c2b9a71de", "Cancel an agent and every agent it started"),
        ("hilt agents apply agent_5f0c2b9a71de", "Apply the changes in its worktree"),
    ]


def _list(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        _serve(runtime, options)
        agents = runtime.roster().newest(_LISTED_MAX)
    if arguments.json:
        return _print_json([agent_data(agent) for agent in agents])
    for agent in _as_trees(agents):
        status = "idle" if agent.is_idle else agent.status
        line = (
            f"{'  ' * (agent.depth - 1)}{agent.id}  {local_time(agent.created)}  {status}  {agent.name}  {agent.title}"
        )
        sys.stdout.write(list_row(line))
    if not agents:
        sys.stdout.write("There are no agents.\n")
    return 0


def _as_trees(agents: Sequence[AgentRecord]) -> Iterator[AgentRecord]:
    """Yield each agent before the agents that it started."""
    ids = {agent.id for agent in agents}
    below: dict[str, list[AgentRecord]] = {}
    for agent in agents:
        below.setdefault(agent.parent if agent.parent in ids else "", []).append(agent)
    pending = [*reversed(below.get("", []))]
    while pending:
        yield (agent := pending.pop())
        pending += reversed(below.get(agent.id, []))


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        _serve(runtime, options)
        agent = _find_agent(runtime, arguments.id)
        progress = runtime.agents().progress(agent.id)
        runs = runtime.roster().runs.of(agent.id)
        worktree = runtime.agents().worktrees.record(agent.id)
        is_elsewhere = agent.machine not in ("", machine_name(runtime.state))
    if arguments.json:
        details: dict[str, Any] = {"prompt": agent.prompt, "answer": agent.answer, "progress": progress}
        details |= {
            "worktree": worktree and worktree.root,
            "machine": agent.machine or None,
            "runs": [_run_data(run) for run in runs],
        }
        return _print_json({**agent_data(agent), **details})
    status = "idle" if agent.is_idle else agent.status
    facts = {
        "agent": f"{agent.name}, depth {agent.depth}, started by {agent.parent}",
        "status": f"{status}{f' ({agent.error_code})' if agent.error_code else ''}, {local_time(agent.changed)}",
        "tokens": f"{agent.input_tokens:,} in, {agent.output_tokens:,} out",
    }
    facts |= {f"run {run.number}": _run_text(run) for run in runs[-_RUNS_SHOWN:]}
    if worktree is not None:
        facts["worktree"] = f"{worktree.root}{f'. {worktree.problem}' if worktree.problem else ''}"
    elif is_elsewhere:
        facts["worktree"] = f"on {agent.machine}"
    lines = [agent.id, *(f"{name}: {value}" for name, value in facts.items()), "", agent.prompt]
    lines += [part for part in (progress and f"\n{progress}", agent.answer and f"\n{agent.answer}") if part]
    sys.stdout.write(inert("\n".join(lines)) + "\n")
    return 0


def _send(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        agent = _find_agent(runtime, arguments.id)
        args = {"agentId": SENDER, "targetAgentId": agent.id, "message": arguments.text}
        return show(request(runtime, options, Call("agent_send", args, dialect="jinn")), raw=False)


def _wait(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        agent = _find_agent(runtime, arguments.id)
        while agent.status not in EXIT_CODES:
            _serve(runtime, options)
            time.sleep(_POLL_SECONDS)
            agent = _find_agent(runtime, arguments.id)
    stream = sys.stdout if agent.status == "completed" else sys.stderr
    text = agent.answer or agent.status
    stream.write((inert(text) if stream.isatty() else text).rstrip("\n") + "\n")
    return EXIT_CODES[agent.status]


def _cancel(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        agent = _find_agent(runtime, arguments.id)
        runtime.agents().cancel(agent.id)
        agent = _find_agent(runtime, arguments.id)
    sys.stdout.write(f"{agent.id}: {agent.status}\n")
    return 0


def _apply(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False, **person()) as runtime:
        agent, host = _find_agent(runtime, arguments.id), runtime.agents()
        if agent.ended is None and not agent.is_idle:
            raise ToolError("busy", f"The agent {agent.id} is {agent.status}.", suggestion="Wait for it, or cancel it.")
        if agent.machine not in ("", machine_name(runtime.state)):
            raise ToolError(
                "not_found",
                f"The worktree of the agent {agent.id} is on {agent.machine}.",
                suggestion="Run the same command there.",
            )
        if host.worktrees.record(agent.id) is None:
            raise ToolError("not_found", f"The agent {agent.id} has no worktree with changes.")
        note = host.apply_worktree(agent, None)
        remaining = host.worktrees.record(agent.id)
    sys.stdout.write(inert(note or "The worktree has no changes.") + "\n")
    return 0 if remaining is None or not remaining.problem else 1


def _serve(runtime: Runtime, options: Options) -> None:
    """Have the resident process resume agents that no process runs."""
    if runtime.agents().serve():
        request(runtime, options, Call("agent_list", {}, dialect="jinn"))


def _find_agent(runtime: Runtime, id: str) -> AgentRecord:
    agent = runtime.roster().get(id)
    if agent is None:
        from hilt.places import command

        advice = f"To list the agents of this folder: {command('agents')}"
        raise ToolError("not_found", f"There is no agent {id[:100]!r} in this folder.", suggestion=advice)
    return agent


def agent_data(agent: AgentRecord) -> dict[str, Any]:
    """Return an agent, for programs."""
    return {
        "id": agent.id,
        "parent": agent.parent,
        "agent": agent.name,
        "title": agent.title,
        "status": agent.status,
        "idle": agent.is_idle,
        "depth": agent.depth,
        "created": rfc3339(agent.created),
        "changed": rfc3339(agent.changed),
        "error_code": agent.error_code or None,
        "input_tokens": agent.input_tokens,
        "output_tokens": agent.output_tokens,
    }


def _run_data(run: RunRecord) -> dict[str, Any]:
    ended = None if run.ended is None else rfc3339(run.ended)
    times = {"began": rfc3339(run.began), "ended": ended, "outcome": run.outcome or "running"}
    return {"run": run.number, "machine": run.host, "owner": run.owner, "version": run.version, **times}


def _run_text(run: RunRecord) -> str:
    return f"{run.outcome or 'running'} on {run.host}, process {run.owner}, hilt {run.version}, {local_time(run.began)}"


def _print_json(data: object) -> int:
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
    return 0
