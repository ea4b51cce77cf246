"""`hilt agents`: the agents that other agents have started in this folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from hilt.call import Call
from hilt.desk import agents as desk
from hilt.desk.agents import Agent, AgentDetails, AgentProcess
from hilt.desk.encoding import plain
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.runtime import Runtime
from hilt.surfaces.cli.call import show
from hilt.surfaces.cli.layout import list_row, local_time, print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import person
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.oneshot import request
from hilt.surfaces.opening import open_runtime

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
        agents = desk.newest(runtime, _LISTED_MAX)
    if arguments.json:
        return print_json(agents)
    for agent in _as_trees(agents):
        line = f"{'  ' * (agent.depth - 1)}{agent.id}  {local_time(agent.created)}  {_status(agent)}"
        sys.stdout.write(list_row(f"{line}  {agent.agent}  {agent.title}"))
    if not agents:
        sys.stdout.write("There are no agents. To start one: hilt run --durable PROMPT\n")
    return 0


def _as_trees(agents: Sequence[Agent]) -> Iterator[Agent]:
    """Yield each agent before the agents that it started."""
    ids = {agent.id for agent in agents}
    below: dict[str, list[Agent]] = {}
    for agent in agents:
        below.setdefault(agent.parent if agent.parent in ids else "", []).append(agent)
    pending = [*reversed(below.get("", []))]
    while pending:
        yield (agent := pending.pop())
        pending += reversed(below.get(agent.id, []))


def _status(agent: Agent) -> str:
    return "idle" if agent.idle else agent.status


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        _serve(runtime, options)
        details = desk.details(runtime, arguments.id)
    if details is None:
        raise _unknown(arguments.id)
    if arguments.json:
        hidden = ("agent", "problem", "is_elsewhere")
        facts = {name: value for name, value in details._asdict().items() if name not in hidden}
        return print_json(plain(details.agent) | facts)
    sys.stdout.write(inert(_details_text(details)) + "\n")
    return 0


def _details_text(details: AgentDetails) -> str:
    agent = details.agent
    code = f" ({agent.error_code})" if agent.error_code else ""
    facts = {
        "agent": f"{agent.agent}, depth {agent.depth}, started by {agent.parent}",
        "status": f"{_status(agent)}{code}, {local_time(agent.changed)}",
        "tokens": f"{agent.input_tokens:,} in, {agent.output_tokens:,} out",
    }
    facts |= {f"run {run.run}": _run_text(run) for run in details.runs[-_RUNS_SHOWN:]}
    if details.worktree is not None:
        facts["worktree"] = f"{details.worktree}{f'. {details.problem}' if details.problem else ''}"
    elif details.is_elsewhere:
        facts["worktree"] = f"on {details.machine}"
    lines = [agent.id, *(f"{name}: {value}" for name, value in facts.items()), "", details.prompt]
    return "\n".join([*lines, *(f"\n{part}" for part in (details.progress, details.answer) if part)])


def _send(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        agent = _find_agent(runtime, arguments.id)
        return show(request(runtime, options, desk.message(agent.id, arguments.text)), raw=False)


def _wait(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        agent = _find_agent(runtime, arguments.id)
        with Waiting("waiting for the agent"):
            while agent.exit_status is None:
                _serve(runtime, options)
                time.sleep(_POLL_SECONDS)
                agent = _find_agent(runtime, arguments.id)
        text = desk.prompt_and_answer(runtime, agent.id)[1] or agent.status
    stream = sys.stdout if agent.status == "completed" else sys.stderr
    stream.write((inert(text) if stream.isatty() else text).rstrip("\n") + "\n")
    return agent.exit_status


def _cancel(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, keeps_jobs=False) as runtime:
        agent = _find_agent(runtime, arguments.id)
        desk.cancel(runtime, agent.id)
        agent = _find_agent(runtime, arguments.id)
    sys.stdout.write(f"{agent.id}: {agent.status}\n")
    return 0


def _apply(options: Options, arguments: Namespace) -> int:
    wait = Waiting("applying")
    with open_runtime(options, keeps_jobs=False, **person(wait.paused)) as runtime, wait:
        note, is_complete = desk.apply_worktree(runtime, _find_agent(runtime, arguments.id).id)
    sys.stdout.write(inert(note or "The worktree has no changes.") + "\n")
    return 0 if is_complete else 1


def _serve(runtime: Runtime, options: Options) -> None:
    """Have the resident process resume agents that no process runs."""
    if desk.needs_process(runtime):
        request(runtime, options, Call("agent_list", {}, dialect="jinn"))


def _find_agent(runtime: Runtime, id: str) -> Agent:
    agent = desk.find(runtime, id)
    if agent is None:
        raise _unknown(id)
    return agent


def _unknown(id: str) -> ToolError:
    from hilt.places import command

    advice = f"To list the agents of this folder: {command('agents')}"
    return ToolError("not_found", f"There is no agent {id[:100]!r} in this folder.", suggestion=advice)


def _run_text(run: AgentProcess) -> str:
    return f"{run.outcome} on {run.machine}, process {run.owner}, hilt {run.version}, {local_time(run.began)}"
