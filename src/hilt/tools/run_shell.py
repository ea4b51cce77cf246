"""Run a shell command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Annotated, Any, Literal

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import printed, views
from hilt.params import Bounds, Command
from hilt.schema import STRING, TEXT, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.commands.risk import Risk
    from hilt.processes.children import WorkingFolder
    from hilt.sandbox.process import Finished

LONGEST_SECONDS = 300
CALL_SECONDS = 660.0  # longer than any command may take
PROGRESS_SECONDS = 0.5  # between two progress messages
PROGRESS_BYTES = 400


def _touches(args: dict[str, Any]) -> Iterable[Touch]:
    if args.get("dry_run"):
        return
    yield Touch("execute", args["command"])
    if args.get("network") == "full":
        yield Touch("network", "*")


def _needs_jobs(args: dict[str, Any]) -> bool:
    return bool(args["run_in_background"] and not args["dry_run"])


_STARTED = record({"task_id": STRING}) | {TEXT: True}


@tool(
    effects="execute",
    touches=_touches,
    timeout=CALL_SECONDS,
    output=_STARTED,
    traits=Traits(profile="nano", plan=True, ruled_as="shell_exec", needs_jobs=_needs_jobs),
)
def run_shell(
    ctx: Context,
    command: Command,
    timeout: Annotated[int, Bounds(1, LONGEST_SECONDS, clamp=True)] = 30,
    dry_run: bool = False,
    force: bool = False,
    cwd: str = ".",
    run_in_background: bool = False,
    tty: bool = False,
    network: Literal["none", "loopback", "full"] | None = None,
    compact: bool = False,
) -> Output:
    """Run a bash command in the workspace, in a sandbox: it writes there and in /tmp, without network unless allowed.

    Dangerous ones (rm, sudo, git reset --hard …) need force.

    Details:
    Returns `[exit: N]`, the output (standard output and standard error interleaved, without colours) and
    `[classification: CLASS — reason]`, where CLASS is success, expected_nonzero (such as grep without a match), error,
    timeout or signal. At the timeout, hilt kills everything the command started and the exit code is 124. If the output
    has more than 50,000 characters, only the beginning and the end are shown. A command that reads standard input gets
    end of file, unless it is a job with a terminal. `[timeout: …]` and `[network: …]` suggest a call after a timeout,
    or when the command seems to need the network and it is off. `[disarmed: …]` lists files that the user's next git
    command would have run; hilt renamed them. `force` does not change the sandbox. The commands of a session share
    one loopback network, separate from the machine's. The timeout does not apply to background jobs. Use tty only for
    programs that need a terminal.

    Args:
        command: Command for bash -c; no standard input.
        timeout: Seconds, up to 300; then exit code 124.
        dry_run: Report risk and writes; run nothing.
        force: The user wants this dangerous command.
        cwd: Working folder.
        run_in_background: Return a task_id for job_output at once.
        tty: Run in a terminal.
        network: loopback: among this session's commands.
        compact: Collapse repeated lines.
    """
    from hilt.commands.risk import classify

    if not command.strip():
        raise ToolError("invalid_args", "The command is empty.", suggestion="Send a command to run.")
    if "\0" in command:
        raise ToolError("invalid_args", "The command contains a NUL character, which is not allowed.")
    risk = classify(command, sandboxed=ctx.settings["shell.sandbox"] != "full")
    if dry_run:
        return _preview(command, risk)
    argv = ["bash", "-c", command]
    with ctx.processes.folder(cwd) as folder:
        if run_in_background:
            return _job(ctx, argv, command, risk, folder, network, tty=tty)
        finished = ctx.processes.run(
            argv, cwd=folder, seconds=timeout, network=network, merge=True, tty=tty, hear=_narrator(ctx)
        )
    allowed = network or ctx.settings["shell.network"]
    return _answer(ctx, command, risk, finished, timeout, network=allowed, compact=compact)


def _narrator(ctx: Context) -> Callable[[bytes], None] | None:
    """Return a function that passes output on, and its last line as progress; None if nobody receives it."""
    attendant = ctx.attendant
    if attendant is None:
        return None
    began = monotonic()
    tail = b""
    next_time = began + PROGRESS_SECONDS

    def hear(chunk: bytes) -> None:
        nonlocal tail, next_time
        attendant.output(chunk)
        tail = (tail + chunk)[-PROGRESS_BYTES:]
        now = monotonic()
        if now >= next_time:
            next_time = now + PROGRESS_SECONDS
            lines = printed.plain(tail.decode("utf-8", "replace")).strip().split("\n")
            ctx.progress(now - began, None, lines[-1])

    return hear


def _preview(command: str, risk: Risk) -> Output:
    lines = [f"[dry-run] would execute: {command}", f"[risk: {risk.level} — {risk.reason[:300]}]"]
    runs = [
        part.words[0] or "a program known only at run time"
        for part in risk.parts
        if part.kind == "command" and part.words
    ]
    writes = [path for part in risk.parts for path in part.writes]
    lines += [
        f"[{key}: {', '.join(dict.fromkeys(names))}]" for key, names in (("runs", runs), ("writes", writes)) if names
    ]
    parts = [{"text": part.text, "risk": part.level, "reason": part.reason} for part in risk.parts]
    return Output("\n".join(lines), meta={"dry_run": True, "parts": parts}, risk=risk.level, classification="success")


def _job(
    ctx: Context, argv: list[str], command: str, risk: Risk, folder: WorkingFolder, network: str | None, *, tty: bool
) -> Output:
    job = ctx.processes.start(argv, command=command, cwd=folder, network=network, tty=tty, seconds=None)
    view = views.none(f"Started {job.id}: {command}")
    return Output(data={"task_id": job.id}, view=view, meta={"output_file": job.output_file}, risk=risk.level)


def _is_confined(ctx: Context) -> bool:
    return ctx.settings["shell.sandbox"] != "full" and ctx.processes.sandbox.kind != "none"


def _answer(
    ctx: Context, command: str, risk: Risk, finished: Finished, timeout: int, *, network: str, compact: bool
) -> Output:
    from hilt.commands.exit_status import classify_exit, lacks_network

    output = finished.stdout
    facts: dict[str, Any] = {
        "exit_code": finished.exit_code,
        "duration_ms": round(finished.duration * 1000),
        "timeout_ms": timeout * 1000,
    }
    if finished.notes:
        facts["disarmed"] = list(finished.notes)
    if finished.reason == "limit":
        raise ToolError(
            "resource_limit",
            f"The command printed more than {output.total >> 20} MiB and was killed.",
            suggestion=f"Reduce its output, or redirect it to a file. The output so far is in {output.spill}.",
            risk=risk.level,
            output_file=output.spill,
            **facts,
        )
    raw = printed.fits(output.head) if output.spill is None else None
    note = ""
    if raw is None:
        path = output.spill or ctx.overflow.try_save(output.head, "run_shell")
        raw, note = printed.excerpt(output.head, output.tail or output.head, output.total, path)
        facts["truncation"] = {"truncated": True, "total_bytes": output.total, "output_file": path}
    text = printed.plain(raw)
    if compact:
        text = printed.compact(text)
    text = text.removesuffix("\n")
    if finished.reason == "timeout":
        text += ("\n\n" if text else "") + f"Command timed out after {timeout} seconds"
    outcome = classify_exit(
        command,
        finished.exit_code,
        timed_out=finished.reason == "timeout",
        signalled=finished.reason == "signal",
        output=text,
    )
    if not finished.clean:
        facts["left_running"] = True
    advice = ""
    if finished.reason == "timeout":
        longer = f"send timeout, up to {LONGEST_SECONDS} seconds, or " if timeout < LONGEST_SECONDS else ""
        advice = f"[timeout: after {timeout} s; {longer}run_in_background: true for a longer command]"
    elif network != "full" and _is_confined(ctx) and lacks_network(finished.exit_code, text):
        advice = f"[network: {network} in this sandbox; " + (
            "plan mode allows no more]"
            if ctx.mode == "plan"
            else 'send network: "full", which prompts the user, or have the user set shell.network = "full"]'
        )
    lines = [
        f"[exit: {finished.exit_code}]",
        text,
        f"[classification: {outcome.classification} — {outcome.reason}]",
        *([advice] if advice else []),
        *(f"[disarmed: {note}]" for note in finished.notes),
        *([note] if note else []),
    ]
    return Output(
        "\n".join(lines),
        view=views.shell_output(command, raw, finished.exit_code),
        meta=facts,
        classification=outcome.classification,
        risk=risk.level,
        bounded=True,
    )
