"""Run a shell command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Annotated, Any

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import printed, views
from hilt.params import Bounds, Command, NetworkName
from hilt.policy.decision import OWN, Vote
from hilt.sandbox.network import NETWORKS
from hilt.schema import TEXT, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.command_changes import CommandChange
    from hilt.processes.call_processes import WorkingFolder
    from hilt.processes.undoable import UndoableRun
    from hilt.sandbox.capturing import Finished
    from hilt.shell.risk import Risk

MAX_TIMEOUT_SECONDS = 300
CALL_SECONDS = 660.0  # longer than any command may take
PROGRESS_SECONDS = 0.5  # between two progress messages
PROGRESS_BYTES = 400
DIFF_CHARACTERS = 20_000  # of a preview, in the text for the model


def _touches(args: dict[str, Any]) -> Iterable[Touch]:
    if args.get("dry_run"):
        return
    yield Touch("execute", args["command"])
    if args.get("network") and not args.get("preview") and NETWORKS[args["network"]].internet:
        yield Touch("network", "*")


def _needs_jobs(args: dict[str, Any]) -> bool:
    return bool(args["run_in_background"] and not args["dry_run"])


def _vote(ctx: Context, args: dict[str, Any]) -> Vote | None:
    """Ask about a dangerous command that cannot be undone, if a user is available to answer."""
    if args["dry_run"] or args["preview"] or args.get("apply") is not None or not args["force"]:
        return None
    reason = _no_undo(ctx, args["command"], in_background=args["run_in_background"])
    return Vote("ask", OWN, f"the command is dangerous and cannot be undone: {reason}") if reason else None


def _no_undo(ctx: Context, command: str, *, in_background: bool) -> str:
    """Return why a dangerous command cannot be undone; empty if it can, if undo is off, or without a user."""
    from hilt.shell.risk import classify

    settings = ctx.settings
    if settings["shell.undo"] == "off" or settings["shell.sandbox"] == "full" or not ctx.can_ask:
        return ""
    if classify(command, sandboxed=True).level != "dangerous":
        return ""
    return "it runs in the background" if in_background else ctx.processes.overlays.obstacle()


_STARTED = fields("task_id:string") | {TEXT: True}


@tool(
    effects="execute",
    touches=_touches,
    timeout=CALL_SECONDS,
    output=_STARTED,
    vote=_vote,
    traits=Traits(profile="nano", plan=True, ruled_as="shell_exec", needs_jobs=_needs_jobs),
)
def run_shell(
    ctx: Context,
    command: Command,
    timeout: Annotated[int, Bounds(1, MAX_TIMEOUT_SECONDS, clamp=True)] = 30,
    dry_run: bool = False,
    force: bool = False,
    cwd: str = ".",
    run_in_background: bool = False,
    tty: bool = False,
    network: NetworkName | None = None,
    compact: bool = False,
    preview: bool = False,
    apply: str | None = None,
) -> Output:
    """Run a bash command in a sandbox: it can write in the workspace and /tmp, and has no network unless allowed.

    Dangerous commands (sudo, git reset --hard …) need force.

    Details:
    Returns `[exit: N]`, the output (standard output and standard error interleaved, without colours) and
    `[classification: CLASS — reason]`, where CLASS is success, expected_nonzero (such as grep without a match), error,
    timeout or signal. At the timeout, hilt kills everything the command started and the exit code is 124. If the output
    has more than 50,000 characters, only the beginning and the end are shown. A command that reads standard input gets
    end of file, unless it is a job with a terminal. `[timeout: …]` and `[network: …]` suggest a call after a timeout,
    or when the command seems to need the network and it is off. `[disarmed: …]` lists what hilt renamed: git, an agent
    or an editor would have run it. `force` does not change the sandbox. The commands of a session share one loopback
    network, separate from the machine's. The timeout does not apply to background jobs. Use tty only for programs that
    need a terminal. `[undo: …]` says how to revert what a dangerous command changed in the workspace, or why that is
    not possible. A preview runs the command without network on a copy of the workspace and returns its output and the
    diff; it needs no force.

    Args:
        command: Command for bash -c; standard input is empty.
        timeout: Seconds, up to 300; then it is killed with exit code 124.
        dry_run: Only report its risk and what it writes.
        force: Run a dangerous command; only if the user wants it.
        cwd: Working directory.
        run_in_background: Return a task_id for job_output at once.
        tty: Run in a terminal, for interactive programs.
        network: loopback: servers of this session; full: asks the user.
        compact: Collapse repeated lines.
        preview: Run on a copy and return the diff.
        apply: Id of a preview of this command; makes exactly its changes.
    """
    from hilt.shell.risk import classify

    if not command.strip():
        raise ToolError("invalid_args", "The command is empty.", suggestion="Send a command to run.")
    if "\0" in command:
        raise ToolError("invalid_args", "The command contains a NUL character, which is not allowed.")
    risk = classify(command, sandboxed=ctx.settings["shell.sandbox"] != "full")
    if dry_run and apply is None:
        return _report(command, risk)
    argv = ["bash", "-c", command]
    with ctx.processes.folder(cwd) as folder:
        if apply is not None:
            return _apply(ctx, command, risk, folder, apply, dry_run=dry_run)
        if run_in_background:
            if preview:
                raise ToolError("invalid_args", "A background job cannot be previewed.", suggestion="Send only one.")
            return _job(ctx, argv, command, risk, folder, network, tty=tty)
        undoable = _undoable(ctx, command, risk, folder, preview=preview)
        allowed = "none" if preview else network or ctx.settings["shell.network"]
        finished = ctx.processes.run(
            argv,
            cwd=folder,
            seconds=timeout,
            network=allowed,
            merge=True,
            tty=tty,
            on_output=_output_listener(ctx),
            undoable=undoable,
        )
    output = _answer(ctx, command, risk, finished, timeout, cwd=folder.path, network=allowed, compact=compact)
    return output if undoable is None else _with_change(output, undoable, risk, preview=preview)


def _undoable(ctx: Context, command: str, risk: Risk, folder: WorkingFolder, *, preview: bool) -> UndoableRun | None:
    """Return an undoable run of the command; None if the settings do not ask for one."""
    if not preview and (risk.level == "safe" or ctx.settings["shell.undo"] == "off"):
        return None
    from hilt.processes.undoable import UndoableRun, call_key, is_covered

    if not preview and not is_covered(ctx.settings["shell.undo"], risk):
        return None

    def accept(reason: str) -> None:
        if risk.level == "dangerous" and ctx.can_ask:
            summary = f"The command is dangerous and cannot be undone: {reason}"
            ctx.approve(summary, command=command)

    previewed = call_key(command, folder.path) if preview else ""
    overlays = ctx.processes.overlays
    return UndoableRun(overlays, "run_shell", previewed=previewed, required=ctx.needs_undo, accept=accept)


def _apply(ctx: Context, command: str, risk: Risk, folder: WorkingFolder, id: str, *, dry_run: bool) -> Output:
    from hilt.files import command_changes
    from hilt.files.editing import diff_text, diff_view, shown_change
    from hilt.processes.undoable import call_key

    preview = command_changes.find_preview(ctx.workspace, id, call_key(command, folder.path))
    if dry_run:
        diffs = list(command_changes.preview_diffs(ctx.workspace, preview))
        view = diff_view(diffs, many=True)
        return Output(diff_text(diffs), view=view, risk=risk.level, change=shown_change(diffs))
    # a preview holds only what differs from the workspace, so what it leaves for git shows only there
    with ctx.processes.disarming() as watch:
        change = command_changes.apply_preview(ctx.workspace, preview, "run_shell")
    lines = [
        "[exit: 0]",
        f"Applied the changes of preview {id}; the command did not run again.",
        "[classification: success — the preview was applied]",
        *(f"[disarmed: {note}]" for note in watch.notes()),
        *_undo_lines(change),
    ]
    return Output(
        "\n".join(lines),
        view=diff_view(list(change.diffs), many=True),
        meta={"exit_code": 0, "undo": change.facts},
        classification="success",
        risk=risk.level,
    )


def _with_change(output: Output, undoable: UndoableRun, risk: Risk, *, preview: bool) -> Output:
    """Add to the output what the command has changed, or would change."""
    from hilt.files.editing import diff_text, diff_view

    change = undoable.change
    if undoable.skipped:
        facts: dict[str, object] = {"skipped": undoable.skipped}
        lines = [f"[undo: not possible, {undoable.skipped}]"] if risk.level == "dangerous" else []
    elif change is None or not (change.files or change.conflicts):
        return output._replace(text=f"{output.text}\n[preview: nothing would change]") if preview else output
    elif preview:
        facts = change.facts
        diff = diff_text(change.diffs)
        more = f"\n[diff: {len(diff) - DIFF_CHARACTERS} more characters]" if len(diff) > DIFF_CHARACTERS else ""
        lines = [diff[:DIFF_CHARACTERS].rstrip("\n") + more] if diff else []
        lines.append(
            f'[preview: {change.files_text} would change; send the command with apply: "{change.id}" to apply it]'
        )
    else:
        facts = change.facts
        lines = _undo_lines(change)
    view = output.view
    if change is not None and change.diffs and view is not None:
        view = {**view, "diffs": diff_view(list(change.diffs), many=True)}
    text = "\n".join([output.text, *lines])
    return output._replace(text=text, view=view, meta={**output.meta, "preview" if preview else "undo": facts})


def _undo_lines(change: CommandChange) -> list[str]:
    lines = []
    if change.conflicts:
        paths = ", ".join(change.conflicts)
        lines.append(
            f"[conflict: changed by someone else while the command ran, not overwritten: {paths}; "
            f"undo restore {change.id} with the path writes the command's version]"
        )
    lines.append(f"[undo: {change.summary}]")
    return lines


def _output_listener(ctx: Context) -> Callable[[bytes], None] | None:
    """Return a function that forwards output to the client, with its last line as progress; None without a client."""
    attendant = ctx.attendant
    if attendant is None:
        return None
    began = monotonic()
    tail = b""
    next_time = began + PROGRESS_SECONDS

    def receive(chunk: bytes) -> None:
        nonlocal tail, next_time
        attendant.output(chunk)
        tail = (tail + chunk)[-PROGRESS_BYTES:]
        now = monotonic()
        if now >= next_time:
            next_time = now + PROGRESS_SECONDS
            lines = printed.plain(tail.decode("utf-8", "replace")).strip().split("\n")
            ctx.progress(now - began, None, lines[-1])

    return receive


def _report(command: str, risk: Risk) -> Output:
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
    return ctx.settings["shell.sandbox"] != "full" and ctx.processes.sandbox.works


def _advice(ctx: Context, risk: Risk, finished: Finished, timeout: int, network: str, text: str, cwd: str) -> list[str]:
    """Return lines on what the sandbox or the timeout prevented, and who can allow it."""
    lines: list[str] = []
    if _is_confined(ctx):
        lines = _denials(risk, finished, text, cwd)
        if missing := _missing_network(ctx, risk, finished, network, text):
            return [*lines, missing]
    if finished.reason == "timeout":
        longer = f"send timeout, up to {MAX_TIMEOUT_SECONDS} seconds, or " if timeout < MAX_TIMEOUT_SECONDS else ""
        lines.append(f"[timeout: after {timeout} s; {longer}run_in_background: true for a longer command]")
    return lines


def _missing_network(ctx: Context, risk: Risk, finished: Finished, network: str, text: str) -> str:
    from hilt.shell import denials
    from hilt.shell.exit_status import lacks_network

    is_late = finished.reason == "timeout"
    if NETWORKS[network].internet or not finished.exit_code:
        return ""
    if network == "none" and not is_late and denials.reaches_this_machine(risk):
        way = 'to reach a server that a job of this session runs, send network: "loopback", for the job too'
    elif lacks_network(finished.exit_code, text) or (is_late and denials.fetches(risk)):
        way = 'send network: "full", which prompts the user, or have the user set shell.network = "full"'
    else:
        return ""
    return f"[network: {network} in this sandbox; {'plan mode allows no more' if ctx.mode == 'plan' else way}]"


def _denials(risk: Risk, finished: Finished, text: str, cwd: str) -> list[str]:
    """Return what git could not read, and the path or limit that stopped a command."""
    from hilt.shell import denials

    def shown(path: str) -> str:
        return printed.plain(path.removeprefix(f"{cwd}/"))

    hidden = finished.hidden if any((part.words or ("",))[0] == "git" for part in risk.parts) else ()
    lines = [f"[sandbox: git takes {', '.join(map(shown, hidden))} for unchanged, because commands cannot read it]"]
    for path, is_missing in denials.denied_paths(text, cwd):
        if reason := finished.denial(path, is_missing):
            return [*lines[not hidden :], f"[sandbox: {shown(path)} {reason}]"]
    if finished.exit_code and (setting := denials.exceeded_setting(text)):
        lines.append(f"[sandbox: a limit stopped the command; the user can raise {setting}]")
    return lines[not hidden :]


def _answer(
    ctx: Context, command: str, risk: Risk, finished: Finished, timeout: int, *, cwd: str, network: str, compact: bool
) -> Output:
    from hilt.shell.exit_status import classify_exit

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
    raw = printed.full_text(output.head) if output.spill is None else None
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
    advice = _advice(ctx, risk, finished, timeout, network, text, cwd)
    lines = [
        f"[exit: {finished.exit_code}]",
        text,
        f"[classification: {outcome.classification} — {outcome.reason}]",
        *advice,
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
