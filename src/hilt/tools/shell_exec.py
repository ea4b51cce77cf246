"""Run one program without a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Annotated, Any

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import printed, views
from hilt.params import Bounds, Items
from hilt.schema import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.capturing import Captured, Finished

STDOUT_BYTES = 100 * 1024
STDERR_BYTES = 50 * 1024
MAX_TIMEOUT_MS = 600_000


def _touches(args: dict[str, Any]) -> Iterable[Touch]:
    yield Touch("execute", shlex.join(args["argv"]))


def _rejection(args: dict[str, Any]) -> str | None:
    from hilt.shell.allowlist import refuse_argv

    return refuse_argv(args["argv"])


_ANSWER = fields(
    "stdout:string stderr:string exitCode:integer truncated?:boolean advice?:string disarmed?:[string] undo?:string"
)


@tool(
    effects="execute",
    touches=_touches,
    timeout=660,
    output=_ANSWER,
    traits=Traits(plan=True, ruled_as="run_shell", rejects=_rejection),
)
def shell_exec(
    ctx: Context,
    argv: Annotated[list[str], Items(minimum=1)],
    cwd: str = ".",
    timeout: Annotated[int, Bounds(1, MAX_TIMEOUT_MS, clamp=True)] = 120_000,
    force: bool = False,
) -> Output:
    """Run one program from a fixed list without a shell or expansion, sandboxed like run_shell.

    Details:
    Programs may not start other programs (find -exec, env with a command, tar --to-command …); git runs without a
    repository's hooks, pagers, editors and helpers. Returns JSON: stdout (up to 100 KB), stderr (up to 50 KB) and
    exitCode; truncated is true when more was printed. advice suggests a call after a timeout, or when the program seems
    to need the network and it is off. disarmed lists what hilt renamed: git, an agent or an editor would have run it.
    undo says how to revert what a dangerous program changed.

    Args:
        argv: Program and its arguments. Programs: git node npm npx bun deno python3 python pip ls cat grep find echo
            mkdir touch cp mv head tail wc sort uniq diff curl wget tar zip unzip jq sed awk which env date cargo rustc
            go make cmake. Arguments that start another program are rejected.
        cwd: Working directory.
        timeout: Milliseconds, up to 600000; then it is killed with exitCode 124.
        force: Run a dangerous command; only if the user wants it.
    """
    from hilt.shell.allowlist import harden_argv, refuse_argv
    from hilt.shell.risk import classify

    refusal = refuse_argv(argv)
    if refusal is not None:
        raise ToolError("command_blocked", refusal, suggestion="Use a program from the list, or run_shell.")
    if any("\0" in argument for argument in argv):
        raise ToolError("invalid_args", "An argument contains a NUL character, which is not allowed.")
    command = shlex.join(argv)
    hardened, variables = harden_argv(argv)
    risk = classify(command, sandboxed=ctx.settings["shell.sandbox"] != "full")
    undoable = None
    if risk.level != "safe":
        from hilt.processes.undoable import UndoableRun, is_covered

        if is_covered(ctx.settings["shell.undo"], risk):
            undoable = UndoableRun(ctx.processes.overlays, "shell_exec")
    with ctx.processes.folder(cwd) as folder:
        finished = ctx.processes.run(
            hardened, cwd=folder, seconds=timeout / 1000, variables=variables, undoable=undoable
        )
    raw = {"stdout": _first(finished.stdout, STDOUT_BYTES), "stderr": _first(finished.stderr, STDERR_BYTES)}
    data: dict[str, Any] = {name: printed.plain(text) for name, text in raw.items()}
    data["exitCode"] = finished.exit_code
    if finished.stdout.total > STDOUT_BYTES or finished.stderr.total > STDERR_BYTES:
        data["truncated"] = True
    if advice := _advice(ctx, finished, data["stderr"], timeout):
        data["advice"] = advice
    if finished.notes:
        data["disarmed"] = list(finished.notes)
    view = views.shell_output(command, raw["stdout"], finished.exit_code, errors=raw["stderr"])
    meta: dict[str, Any] = {"duration_ms": round(finished.duration * 1000), "ended_by": finished.reason}
    spilled = [stream.spill for stream in (finished.stdout, finished.stderr) if stream.spill]
    if spilled:
        meta["output_files"] = spilled
    if finished.notes:
        meta["disarmed"] = data["disarmed"]
    if undoable is not None and undoable.change is not None:
        data["undo"], meta["undo"] = undoable.change.summary, undoable.change.facts
    elif undoable is not None and undoable.skipped:
        meta["undo"] = {"skipped": undoable.skipped}
    return Output(data=data, view=view, meta=meta, risk=risk.level)


def _advice(ctx: Context, finished: Finished, errors: str, timeout: int) -> str:
    """Return the call to make after a timeout, or when the program had no network."""
    from hilt.shell.exit_status import lacks_network

    if finished.reason == "timeout":
        longer = f"Send timeout, up to {MAX_TIMEOUT_MS} ms, or u" if timeout < MAX_TIMEOUT_MS else "U"
        return f"Timed out after {timeout} ms. {longer}se run_shell with run_in_background: true."
    from hilt.sandbox.network import NETWORKS

    network = ctx.settings["shell.network"]
    if not NETWORKS[network].internet and _is_confined(ctx) and lacks_network(finished.exit_code, errors):
        return f'The network is {network} in this sandbox. Use run_shell with network: "full", which prompts the user.'
    return ""


def _is_confined(ctx: Context) -> bool:
    return ctx.settings["shell.sandbox"] != "full" and ctx.processes.sandbox.works


def _first(stream: Captured, size: int) -> str:
    """Return the beginning of a stream as text, without an incomplete last character."""
    from codecs import getincrementaldecoder

    return getincrementaldecoder("utf-8")("replace").decode(stream.head[:size], final=stream.total <= size)
