"""Run a shell command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from tongs.call import Output, Touch
from tongs.context import Context
from tongs.declaration import tool
from tongs.errors import ToolError
from tongs.output import printed, views
from tongs.params import Bounds, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.policy.commands import Risk
    from tongs.processes import Folder
    from tongs.sandbox.process import Finished

LONGEST_SECONDS = 300
CALL_SECONDS = 660.0  # longer than any command may take


def _touches(args: dict[str, Any]) -> Iterable[Touch]:
    if args.get("dry_run"):
        return
    yield Touch("execute", args["command"])
    if args.get("network") == "full":
        yield Touch("network", "*")


@tool(effects="execute", touches=_touches, timeout=CALL_SECONDS)
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
    """Run a bash command in the workspace, confined by a sandbox.

    The answer is `[exit: N]`, the output (standard output and standard error as they came, without colours) and
    `[classification: CLASS — reason]`, where the class is success, expected_nonzero (such as grep without a match),
    error, timeout or signal. At the timeout everything the command started is ended and the exit code is 124. Of
    output over 50,000 characters the beginning and the end are shown, and a file holds all of it.

    Commands can write in the workspace and in /tmp, and reach no network unless the user allows it. Dangerous ones
    (rm, sudo, git reset --hard …) are refused without force. There is no input: a command that asks gets an end of
    file, unless it is a job with a terminal.

    Args:
        command: The command, for bash -c.
        timeout: Seconds after which it is ended, at most 300; a job in the background runs on.
        dry_run: Say what would run, how risky it is and what it would write; run nothing.
        force: Run a command although it is dangerous, because the user wants exactly this. The sandbox stays.
        cwd: Folder to run in, relative to the workspace.
        run_in_background: Start a job and answer at once with {"task_id"}; job_output, job_input, job_stop go on.
        tty: Give it a terminal of its own, for programs that insist on one.
        network: none, loopback (shared by the commands of this session, not with the machine), or full.
        compact: Show lines that repeat three times or more once.
    """
    from tongs.policy.commands import classify

    if not command.strip():
        raise ToolError("invalid_args", "The command is empty.", suggestion="Say what to run.")
    if "\0" in command:
        raise ToolError("invalid_args", "The command holds a NUL character, which no program can be given.")
    risk = classify(command, sandboxed=ctx.settings["shell.sandbox"] != "full")
    if dry_run:
        return _preview(command, risk)
    argv = ["bash", "-c", command]
    with ctx.processes.folder(cwd) as folder:
        if run_in_background:
            return _job(ctx, argv, command, risk, folder, network, tty=tty)
        finished = ctx.processes.run(argv, cwd=folder, seconds=timeout, network=network, merge=True, tty=tty)
    return _answer(ctx, command, risk, finished, timeout, compact=compact)


def _preview(command: str, risk: Risk) -> Output:
    lines = [f"[dry-run] would execute: {command}", f"[risk: {risk.level} — {risk.reason[:300]}]"]
    runs = [
        part.words[0] or "something known only then" for part in risk.parts if part.kind == "command" and part.words
    ]
    writes = [path for part in risk.parts for path in part.writes]
    lines += [
        f"[{key}: {', '.join(dict.fromkeys(found))}]" for key, found in (("runs", runs), ("writes", writes)) if found
    ]
    parts = [{"text": part.text, "risk": part.level, "reason": part.reason} for part in risk.parts]
    return Output("\n".join(lines), meta={"dry_run": True, "parts": parts}, risk=risk.level, classification="success")


def _job(
    ctx: Context, argv: list[str], command: str, risk: Risk, folder: Folder, network: str | None, *, tty: bool
) -> Output:
    job = ctx.processes.start(argv, command=command, cwd=folder, network=network, tty=tty, seconds=None)
    view = views.none(f"Started {job.id}: {command}")
    return Output(data={"task_id": job.id}, view=view, meta={"output_file": job.output_file}, risk=risk.level)


def _answer(ctx: Context, command: str, risk: Risk, finished: Finished, timeout: int, *, compact: bool) -> Output:
    from tongs.policy.exits import classify_exit

    output = finished.stdout
    facts: dict[str, Any] = {
        "exit_code": finished.exit_code,
        "duration_ms": round(finished.duration * 1000),
        "timeout_ms": timeout * 1000,
    }
    if finished.reason == "limit":
        raise ToolError(
            "resource_limit",
            f"The command printed more than {output.total >> 20} MiB and was ended.",
            suggestion=f"Make it print less, or into a file. What it printed is in {output.spill}.",
            risk=risk.level,
            output_file=output.spill,
            **facts,
        )
    raw = printed.fits(output.head) if output.spill is None else None
    if raw is None:
        path = output.spill or ctx.overflow.save(output.head, "run_shell")
        raw = printed.excerpt(output.head, output.tail or output.head, output.total, path)
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
    )
    if not finished.clean:
        facts["left_running"] = True
    return Output(
        f"[exit: {finished.exit_code}]\n{text}\n[classification: {outcome.classification} — {outcome.reason}]",
        view=views.shell_output(command, raw, finished.exit_code),
        meta=facts,
        classification=outcome.classification,
        risk=risk.level,
        bounded=True,
    )
