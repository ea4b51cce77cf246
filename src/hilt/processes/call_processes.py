"""Child processes of one call: commands of the caller are confined; all end with the call."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from time import monotonic
from typing import NamedTuple, TypeVar

from hilt.errors import ToolError
from hilt.fence import Fence, Reads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.config import Settings
    from hilt.files.workspace import Workspace
    from hilt.output.overflow import Overflow
    from hilt.processes.jobs import Job, Jobs
    from hilt.processes.undoable import Overlays, UndoableRun
    from hilt.sandbox.backend import Availability, Launch, Report
    from hilt.sandbox.capturing import Finished
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sandbox import Sandbox
    from hilt.sandbox.spawning import Child, Excess, Limits

PIPE_BYTES = 1 << 20
FIRST_FD = 3  # in a program, of the descriptors of its launch
_ARGUMENT_BYTES = 128 * 1024  # of one argument of a program, its end included
_ATTEMPTS = 5  # to start a program while others rename folders
STDERR_BYTES = 1 << 16
OUTPUT_CHARACTERS = 4000  # of output in the error of a command that exceeded a limit


Started = TypeVar("Started")


class SessionProcesses(NamedTuple):
    """What the commands of a session share: its workspace, environment, sandbox and jobs."""

    workspace: Workspace
    settings: Settings
    environment: Mapping[str, str]
    sandbox: Callable[[], Sandbox]
    profile: Callable[[str | None], Profile]  # of a command with this network
    overflow: Overflow  # keeps output that does not fit in memory
    jobs: Callable[[], Jobs]
    has_jobs: Callable[[], bool]
    state: str  # the state directory


class WorkingFolder(NamedTuple):
    """An open folder and its real path."""

    handle: int
    path: str


class Processes:
    """Starts programs for one call; they are killed when the call is cancelled."""

    def __init__(self, fence: Fence, shared: SessionProcesses) -> None:
        self._fence = fence
        self._shared = shared

    @property
    def sandbox(self) -> Availability:
        """Which backend of the sandbox works here."""
        return self._shared.sandbox().availability()

    @property
    def overlays(self) -> Overlays:
        """The overlays on which commands can run."""
        from hilt.processes.undoable import Overlays

        shared = self._shared
        return Overlays(shared.workspace, lambda: shared.profile(None), shared.sandbox, shared.has_jobs, shared.state)

    def disarming(self, layer: str = "") -> AbstractContextManager[Report]:
        """Disarm what the block puts into the workspace for git, agents and editors.

        What existed before the command of a recorded `layer` may come back.
        """
        return self._shared.sandbox().disarming(self._shared.profile(None), layer)

    @contextmanager
    def folder(self, path: str) -> Iterator[WorkingFolder]:
        """Open a workspace folder as a working directory."""
        with self._shared.workspace.door.open_folder(path) as (handle, place):
            yield WorkingFolder(handle, os.path.join(place.root.real, *place.parts))

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: WorkingFolder,
        seconds: float,
        stdin: bytes = b"",
        network: str | None = None,
        merge: bool = False,
        tty: bool = False,
        keep_bytes: int = 1 << 20,
        on_output: Callable[[bytes], None] | None = None,
        variables: Mapping[str, str] | None = None,
        undoable: UndoableRun | None = None,
    ) -> Finished:
        """Run a command of the caller to completion, confined; none of its processes outlive it.

        `on_output` receives the output as it arrives. `variables` extend the environment of every command. With
        `undoable`, the command runs on an overlay of the workspace if possible.
        """
        from hilt.sandbox import capturing

        shared = self._shared
        limits = self._limits(seconds)._replace(keep_bytes=keep_bytes)

        def attempt() -> Finished:
            notes: tuple[str, ...] = ()
            with (
                nullcontext() if undoable is None else undoable.layer() as layer,
                # its profile closes the folder of the layer
                shared.sandbox().confine(shared.profile(network), cwd.path, tty=tty, layer=layer) as confined,
                _long_command(argv, confined) as (argv_to_start, confined_with_command),
            ):
                finished = capturing.run(
                    argv_to_start,
                    cwd=cwd.handle,
                    env={**shared.environment, **(variables or {})},
                    stdin=stdin,
                    limits=limits,
                    cancelled=self._fence.event(),
                    spill=shared.overflow.make_room,
                    merge=merge,
                    tty=tty,
                    confined=confined_with_command,
                    on_output=on_output,
                )
                if undoable is not None and confined.layer is not None and finished.reason != "cancelled":
                    notes = undoable.settle(confined.layer)
            notes += confined.report.notes()
            if finished.reason == "signal" and (repeated := confined.report.repeated()):
                notes += (f"The command was ended: {repeated}.",)
            return finished._replace(notes=notes, denial=confined.denial, hidden=confined.hidden)

        try:
            finished = _retry(attempt)
        except ToolError as error:
            if undoable is None or not undoable.falls_back(error):
                raise
            finished = _retry(attempt)
        self._fence.check()
        if finished.exceeded is not None:
            limit_error = self._limit_error(finished, finished.exceeded)
            if undoable is not None and undoable.change is not None:
                limit_error.details["undo"] = undoable.change.facts
            raise limit_error
        return finished

    def _limit_error(self, finished: Finished, exceeded: Excess) -> ToolError:
        """Return the error for a command that exceeded a limit, with its output."""
        from hilt.output import printed
        from hilt.sandbox import rooms

        captured = [stream for stream in (finished.stdout, finished.stderr) if stream.total]
        text = "\n".join((stream.head + stream.tail).decode("utf-8", "replace") for stream in captured)
        files = [stream.spill for stream in captured if stream.spill]
        if not files and len(text) > OUTPUT_CHARACTERS:
            saved = (self._shared.overflow.try_save(stream.head, "command") for stream in captured)
            files = [path for path in saved if path]
        location = f" Its output is in {' and '.join(files)}." if files else ""
        return ToolError(
            "resource_limit",
            f"The command was ended: {rooms.describe(exceeded)}.",
            suggestion=rooms.advise(exceeded) + location,
            resource=exceeded.resource,
            used=exceeded.used,
            limit=exceeded.limit,
            exit_code=finished.exit_code,
            duration_ms=round(finished.duration * 1000),
            output=printed.plain(text)[-OUTPUT_CHARACTERS:],
            output_files=files,
        )

    def start(
        self,
        argv: Sequence[str],
        *,
        command: str,
        cwd: WorkingFolder,
        network: str | None,
        tty: bool,
        seconds: float | None,
    ) -> Job:
        """Start a command of the caller as a background job, confined."""
        from hilt.sandbox import spawning

        shared, jobs = self._shared, self._shared.jobs()

        def attempt() -> Job:
            with ExitStack() as unless_started:
                resources = ExitStack()
                unless_started.callback(resources.close)
                sandboxed = shared.sandbox().confine(shared.profile(network), cwd.path, tty=tty)
                argv_to_start, confined = resources.enter_context(
                    _long_command(argv, resources.enter_context(sandboxed))
                )

                def begin(stdin: int, stdout: int, stderr: int) -> Child:
                    return spawning.start(
                        argv_to_start,
                        cwd=cwd.handle,
                        env=shared.environment,
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        limits=self._limits(None),
                        confined=confined,
                        tty=tty,
                    )

                self._fence.commit()
                unless_started.pop_all()  # from here on the job closes them
                return jobs.start(
                    shared.workspace.session,
                    command,
                    begin,
                    tty=tty,
                    resources=resources,
                    timeout=seconds,
                    cwd=cwd.path,
                    launch=confined,
                )

        return _retry(attempt)

    def _limits(self, seconds: float | None) -> Limits:
        from hilt.sandbox import spawning

        settings = self._shared.settings
        memory = settings["shell.memory_mb"] << 20
        return spawning.Limits(
            timeout=seconds,
            memory=min(memory, machine_memory()),
            # the kernel's limit includes everything that the user already runs on this machine
            processes=settings["shell.processes"] + _tasks(),
            file_size=settings["shell.file_mb"] << 20,
        )

    @contextmanager
    def stream(
        self,
        argv: Sequence[str],
        *,
        cwd: int,
        env: Mapping[str, str],
        stdin: int | None = None,
        fds: tuple[int, ...] = (),
        seconds: float | None = None,
        memory: int | None = None,
        reads: Reads | None = None,
    ) -> Iterator[OutputStream]:
        """Start one of our own programs in an open folder and yield its output; it ends with the block.

        `stdin` is a descriptor, by default of /dev/null; `fds` are more descriptors, numbered from 3 in the program.
        `memory` limits the address space, in bytes. `reads` is what it may read; it has no other access to files.
        """
        from hilt.sandbox import spawning
        from hilt.sandbox.backend import Launch, StartSteps

        with ExitStack() as ours:
            with ExitStack() as theirs:
                pipes = []
                for _ in range(2):
                    reading, writing = os.pipe()
                    ours.callback(os.close, reading)
                    theirs.callback(os.close, writing)
                    pipes.append((reading, writing))
                if stdin is None:
                    stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                    theirs.callback(os.close, stdin)
                _widen(pipes[0][0])
                limits = spawning.Limits(timeout=None, grace=0, settle=0, address_space=memory)
                ruleset = None if reads is None else theirs.enter_context(_ruleset(argv[0], reads))
                child = spawning.start(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    stdout=pipes[0][1],
                    stderr=pipes[1][1],
                    limits=limits,
                    confined=Launch(descriptors=fds, steps=StartSteps(ruleset=ruleset), trusted=True),
                )
                ours.enter_context(child)
            self._fence.watch(child.kill)
            yield OutputStream(child, pipes[0][0], pipes[1][0], self._fence.check, seconds)


@contextmanager
def _long_command(argv: Sequence[str], confined: Launch) -> Iterator[tuple[Sequence[str], Launch]]:
    """Yield how to start a shell; if its command is too long for an argument, it reads it from a file in memory."""
    command = os.fsencode(argv[-1])
    if len(command) < _ARGUMENT_BYTES or list(argv[:-1]) != ["bash", "-c"] or not hasattr(os, "memfd_create"):
        yield argv, confined
        return
    number = FIRST_FD + len(confined.descriptors)
    with open(os.memfd_create("command", os.MFD_CLOEXEC), "wb", buffering=0) as file:
        file.write(command)
        file.seek(0)
        # eval closes the file for the command itself
        script = f'eval "$(command cat <&{number})" {number}<&-'
        yield [*argv[:-1], script], confined._replace(descriptors=(*confined.descriptors, file.fileno()))


def _retry(attempt: Callable[[], Started]) -> Started:
    """Start a program; retry if it did not start because folders were renamed while its sandbox was set up."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except ToolError as error:
            if not error.details.get("renamed"):
                raise
    return attempt()


class OutputStream:
    """The output of a running program."""

    def __init__(
        self, child: Child, stdout: int, stderr: int, check: Callable[[], None], seconds: float | None
    ) -> None:
        self.stderr = b""  # truncated at STDERR_BYTES
        self.received = 0  # bytes of standard output
        self.timed_out = False
        self.exit_code: int | None = None  # set once the output was read to its end
        self._child = child
        self._stdout = stdout
        self._stderr = stderr
        self._check = check
        self._deadline = None if seconds is None else monotonic() + seconds

    def __iter__(self) -> Iterator[bytes]:
        """Yield output until the program ends or times out."""
        poller = select.poll()
        open_pipes = {self._stdout, self._stderr}
        for pipe in open_pipes:
            poller.register(pipe, select.POLLIN)
        while open_pipes:
            ready = poller.poll(self._milliseconds())
            self._check()
            if not ready or self._seconds() == 0:
                self.timed_out = True
                self._child.kill()
                return
            for pipe, _ in ready:
                data = os.read(pipe, PIPE_BYTES)
                if not data:
                    poller.unregister(pipe)
                    open_pipes.remove(pipe)
                elif pipe == self._stdout:
                    self.received += len(data)
                    yield data
                else:
                    self.stderr += data[: STDERR_BYTES - len(self.stderr)]
        outcome = self._child.wait(self._seconds())
        self._check()
        if outcome is None:
            self.timed_out = True
        else:
            self.exit_code = outcome.code

    def _seconds(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - monotonic())

    def _milliseconds(self) -> float | None:
        seconds = self._seconds()
        return None if seconds is None else seconds * 1000


def machine_memory() -> int:
    """Return the memory of the machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_groups() -> str | None:
    """Return the folder of the control groups that limit the memory of commands; None where they are not supported."""
    from hilt.sandbox.wardens import WARDENS

    return WARDENS.groups.parent()


@contextmanager
def _ruleset(program: str, reads: Reads) -> Iterator[int | None]:
    """Yield a ruleset that restricts what a program may read; None without Landlock."""
    from hilt.sandbox import ruleset

    descriptor = ruleset.reading(reads.folder, reads.files, (os.path.realpath(program), *reads.programs))
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _tasks() -> int:
    """Return the number of tasks on this machine; a generous guess where it is unknown."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 4096


def _widen(pipe: int) -> None:
    """Enlarge the buffer of a pipe, so that the program and its reader wait less for each other."""
    import fcntl

    with suppress(AttributeError, OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
