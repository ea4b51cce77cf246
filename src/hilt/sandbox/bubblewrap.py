"""The backend for Linux: bubblewrap, with a view of the file system built from mounts, and separate namespaces.

view.py plans the mounts, and mounting.py performs them by handle. A missing name that must stay missing needs a mount
point: see mountpoints.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from time import monotonic, sleep

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.handles import SWAPPED, renamed
from hilt.places import RealPaths
from hilt.sandbox import mountpoints, seccomp, view
from hilt.sandbox.backend import (
    Availability,
    Backend,
    Feature,
    FindProgram,
    Launch,
    Start,
    StartSteps,
)
from hilt.sandbox.disarming import Guard
from hilt.sandbox.git_view import GitView
from hilt.sandbox.profile import is_below, plain_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mounting import Mount, Overlay
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.view import Identity, Plan, Step

# the descriptor numbers of Launch.descriptors in the started program
_ARGUMENTS_FD, _STATUS_FD, _FILTER_FD = 3, 4, 5
_STATUS_BYTES = 4096
# variables that lead package managers to the private ~/.cache of the session
_CACHES = {"npm_config_cache": "npm", "GOMODCACHE": "go-mod", "GRADLE_USER_HOME": "gradle"}
_WAIT_SECONDS = 20.0  # for another program
_PAUSE_SECONDS = 0.01
_ALWAYS: tuple[Feature, ...] = ("mounts", "inner_paths", "loopback")
_PROBE_SECONDS = 20.0
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_INSTALL = {
    "apt": "sudo apt install bubblewrap",
    "dnf": "sudo dnf install bubblewrap",
    "pacman": "sudo pacman -S bubblewrap",
    "apk": "sudo apk add bubblewrap",
    "zypper": "sudo zypper install bubblewrap",
}
_SWITCHES = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
    "/proc/self/uid_map",
)


class Bubblewrap(Backend):
    """Programs run in mount, process and network namespaces.

    Its own features: "disable-userns" and "size", options of bubblewrap, and "handles": mounts are made by handle.
    """

    name = "bubblewrap"

    def fingerprint(self, find: FindProgram) -> list[object]:
        """Return the file of bubblewrap, and the switches of the kernel."""
        program = find_program(find)
        try:
            status = os.stat(program) if program else None
        except OSError:
            status = None
        file = [status.st_dev, status.st_ino, status.st_mtime_ns] if status else []
        return [program, file, [_read(path).strip() for path in _SWITCHES]]

    def probe(self, state: str, find: FindProgram) -> Availability:
        """Test everything that a profile needs."""
        program = find_program(find)
        if program is None:
            return Availability("", "bubblewrap is not installed.", remedy=_remedy(program, find))
        available, problem = _probe(program, state)
        return available or Availability("", problem, remedy=_remedy(program, find))

    @contextmanager
    def confine(self, profile: Profile, start: Start) -> Iterator[Launch]:
        """Yield how to start a program under bubblewrap."""
        # where mounts are made by name, others could redirect them by renaming folders
        by_name = "handles" not in start.available.features and profile.writable
        folder = os.path.join(start.shared.state, "alone")
        with alone(folder, profile.writable) if by_name else nullcontext(), _confine(profile, start) as launch:
            yield launch


BACKEND = Bubblewrap


@contextmanager
def _confine(profile: Profile, start: Start) -> Iterator[Launch]:
    # before the workspace is searched: leftovers of a crash are not the user's files
    start.shared.points.recover()
    try:
        findings = view.search_workspace(profile, start.shared.search)
        git = GitView()
        if "handles" in start.available.features:
            git.prepare(profile, findings, copies=bool(profile.writable) and not (start.layer and start.layer.whole))
        plan = view.make_plan(profile, findings, start.available.features, git)
    except OSError as error:
        if error.errno not in SWAPPED:
            raise
        raise renamed() from error
    own_network = not profile.network.unix and "handles" in start.available.features
    unix = (profile.network.unix or own_network) and start.available.has("unix_scope")
    user_namespaces = "disable-userns" in start.available.features
    program_filter = seccomp.for_profile(
        profile, internet=True, unix=unix, processes=True, user_namespaces=user_namespaces
    )
    resolve = RealPaths()
    home = resolve(profile.home)
    variables = {"TMPDIR": "/tmp"}  # noqa: S108
    if os.path.join(home, ".gitconfig") in plan.missing:
        # git fails on the folder mounted there; this is the other file that it reads
        variables["GIT_CONFIG_GLOBAL"] = os.path.join(home, ".config/git/config")
    folder, layer = resolve(start.cwd), start.layer
    variables |= git.variables
    if profile.network.internet:
        # their own folders in the home directory are read-only
        variables |= {name: os.path.join(home, ".cache", folder) for name, folder in _CACHES.items()}
    with ExitStack() as stack:
        stack.callback(git.finish)
        mount_points = stack.enter_context(start.shared.points.hold(plan.missing))
        if "handles" in start.available.features:
            stage = os.path.join(resolve(profile.private), "stage")
            # bubblewrap also shows a program its terminal in /dev
            by_bubblewrap = [step for step in plan.steps if step.options and (start.tty or not step.built_in)]
            steps = [
                _identified(step, mount_points).mount
                for step in plan.steps
                if not step.options or step not in by_bubblewrap
            ]
            overlays = []
            if layer is not None:
                from hilt.sandbox import overlay

                layer = overlay.begin(layer, plan.missing)
                overlays = overlay.mounts(layer, findings.repositories)
            mounts = os.fsencode(stage), steps, overlays, own_network
            arguments = ["--dev-bind", stage, "/", *_bubblewrap_mounts(plan, by_bubblewrap, profile, stage)]
        else:
            mounts = None
            arguments = [argument for step in plan.steps for argument in step.arguments]
        arguments += namespaces(profile, start.available, tty=start.tty, own_network=own_network)
        if program_filter is not None:
            arguments += ["--seccomp", str(_FILTER_FD)]
        # reports an exit code only if the program itself ran, not if the sandbox could not be set up
        arguments += ["--json-status-fd", str(_STATUS_FD)]
        arguments += ["--chdir", folder]
        arguments += [argument for name, value in variables.items() for argument in ("--setenv", name, value)]
        guard = Guard(
            enforces=True,
            empty=[path for path in plan.missing if not mountpoints.is_file(path)],
            absent=plain_names(profile),
        )
        recorded = None if layer is None else layer.handle
        watch = stack.enter_context(start.shared.watches.hold(profile, guard, findings, layer=recorded))
        watch.more = git.notes
        arguments_file = memory_file("arguments", b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
        descriptors = [arguments_file, memory_file("status", b"")]
        if program_filter is not None:
            descriptors.append(memory_file("filter", program_filter))
        entered = start.shared.networks.enter(profile.session, profile.network, start.available.program)
        for fd in (*descriptors, *entered):
            stack.callback(os.close, fd)
        sockets = None
        if unix:
            record = stack.enter_context(start.shared.networks.record(profile.session, profile.network))
            sockets = seccomp.socket_calls(profile.sockets if profile.network.unix else (), record)
        yield Launch(
            (start.available.program, "--args", str(_ARGUMENTS_FD), "--"),
            "--setenv",
            tuple(descriptors),
            StartSteps(entered, mounts, sockets=sockets),
            watch,
            partial(_failure, descriptors[1], start.shared.state),
            partial(view.denial, plan),
            tuple(git.sealed),
            shielding=True,
            layer=layer,
        )


def _failure(status: int, state: str, program: str, code: int, output: bytes) -> ToolError | None:
    """Return why the program did not run: bubblewrap writes an exit code to a file if it did."""
    if b"exit-code" in os.pread(status, _STATUS_BYTES, 0):
        return None
    from hilt.sandbox.spawning import refusal

    printed = output.decode("utf-8", "replace").strip() or f"exit {code}"
    numbers = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG)
    number = next((number for number in numbers if printed.endswith(f": {os.strerror(number)}")), errno.ENOENT)
    # printed when the sandbox is set up, but the program or its directory fails
    if printed.startswith(f"bwrap: execvp {program}: "):
        return refusal(program, "exec", number)
    if printed.startswith("bwrap: Can't chdir to "):
        return refusal(program, "cwd", number)
    from hilt.sandbox import availability

    availability.forget(state)  # what worked may no longer
    return ToolError("sandbox_unavailable", f"The sandbox could not be set up: {printed}.")


def _identified(step: Step, mount_points: Mapping[str, Identity]) -> Step:
    """Return a step with the identity of its mount point, created after the plan; a file covers itself."""
    if step.path not in mount_points:
        return step
    mount_point = mount_points[step.path]
    return step._replace(covered=mount_point, origin=mount_point if step.source == step.path else step.origin)


def _bubblewrap_mounts(plan: Plan, mounted: Container[Step], profile: Profile, stage: str) -> Iterator[str]:
    """Yield the arguments for what bubblewrap mounts over the stage, and for workspace folders that this covers."""
    has_devices = any(step.path == "/dev" and step in mounted for step in plan.steps)
    roots = [root for root in profile.roots if has_devices and is_below(root, "/dev")]
    inner = [argument for root in roots for argument in ("--bind", stage + root, root)]
    for step in plan.steps:
        if step.layer is view.Layer.CLOSING:
            yield from inner
            inner = []
        if step in mounted:
            yield from step.options


def namespaces(profile: Profile, available: Availability, *, tty: bool, own_network: bool = False) -> list[str]:
    """Return the arguments for namespaces and capabilities."""
    arguments = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if "disable-userns" in available.features:
        arguments.append("--disable-userns")
    if not profile.network.internet and profile.network.open is None and not own_network:
        arguments.append("--unshare-net")
    if not tty:
        arguments.append("--new-session")
    return [*arguments, "--die-with-parent", "--cap-drop", "ALL"]


def memory_file(name: str, content: bytes) -> int:
    """Return a descriptor that the content can be read from once."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


# --- one at a time ----------------------------------------------------------------------------------------------------


@contextmanager
def alone(folder: str, roots: tuple[str, ...]) -> Iterator[None]:
    """Let one program at a time write to the roots; raise when another one does not end.

    While it runs, it holds locks, as files in `folder`: exclusive ones on the roots, shared ones on all their parents.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    parents = {parent for root in roots for parent in _parents(root)} - set(roots)
    lock_kinds = {**dict.fromkeys(parents, fcntl.LOCK_SH), **dict.fromkeys(roots, fcntl.LOCK_EX)}
    deadline = monotonic() + _WAIT_SECONDS
    with ExitStack() as stack:
        while not _acquire(stack, folder, lock_kinds):
            stack.close()
            if monotonic() > deadline:
                raise ToolError(
                    "busy",
                    f"Another command is still running in {roots[0]}, and this system can confine only one at a time.",
                    suggestion="Wait for it, or stop it with job_stop. `hilt doctor` shows what the sandbox lacks.",
                    path=roots[0],
                )
            sleep(_PAUSE_SECONDS)
        yield


def _acquire(stack: ExitStack, folder: str, lock_kinds: dict[str, int]) -> bool:
    for path in sorted(lock_kinds):
        name = sha256(os.fsencode(path)).hex()[:16]
        fd = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, fd)
        try:
            fcntl.flock(fd, lock_kinds[path] | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _parents(path: str) -> Iterator[str]:
    while path != (path := os.path.dirname(path)):
        yield path


# --- what works here --------------------------------------------------------------------------------------------------


def find_program(find: FindProgram) -> str | None:
    """Return the path of a bubblewrap that only root or the user can have installed; `find` looks on PATH."""
    for path in (*(f"{folder}/bwrap" for folder in _SYSTEM_FOLDERS), find("bwrap") or ""):
        try:
            real = os.path.realpath(path)
            statuses = [os.stat(real), os.stat(os.path.dirname(real))]
        except OSError:
            continue
        trusted = all(status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022 for status in statuses)
        if trusted and stat.S_ISREG(statuses[0].st_mode) and os.access(real, os.X_OK):
            return real
    return None


def _probe(program: str, state: str) -> tuple[Availability | None, str]:
    """Test everything that a profile needs; on failure, return the reason."""
    from hilt.sandbox.capturing import run
    from hilt.sandbox.spawning import Limits

    limits = Limits(timeout=_PROBE_SECONDS)
    try:
        help_text = run((program, "--help"), cwd="/", env={}, limits=limits).stdout.head.decode("utf-8", "replace")
    except ToolError as error:  # damaged, or built for another machine
        return None, error.message
    version = run((program, "--version"), cwd="/", env={}, limits=limits).stdout.head.decode("utf-8", "replace").strip()
    features = tuple(feature for feature in ("disable-userns", "size") if f"--{feature} " in help_text)
    if "--perms " not in help_text:
        return None, f"{version or program} is too old: version 0.5 or later is required."
    arguments = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    arguments += ["--unshare-net", "--new-session", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    arguments += ["--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--perms", "0500", "--tmpfs", "/run"]
    reason = ""
    for enabled in dict.fromkeys((features, tuple(feature for feature in features if feature != "disable-userns"))):
        options = ["--disable-userns"] if "disable-userns" in enabled else []
        result = run((program, *arguments, *options, "--", "/bin/sh", "-c", ":"), cwd="/", env={}, limits=limits)
        reason = " ".join((result.stderr.head + result.stderr.tail).decode("utf-8", "replace").split())
        if result.exit_code == 0:
            machine = os.uname().machine
            is_filtered = machine in seccomp.MACHINES
            missing = () if is_filtered else (f"Unix sockets can be used: no system call filter for {machine}",)
            facts = f"{version} works."
            if _mounts_by_handle(program, state):
                enabled = (*enabled, "handles", *(["layers"] if _mounts_overlays(program, state) else []))
            else:
                facts += " Mounts by handle are not supported, so only one command at a time can run in a workspace."
            # connecting.py looks for sockets in our network
            if seccomp.answers_calls(
                program, *(argument for argument in arguments if argument != "--unshare-net"), "--"
            ):
                enabled = (*enabled, "unix_scope")
            elif is_filtered:
                facts += seccomp.NO_SOCKETS
            return Availability(Bubblewrap.name, facts, missing, "", program, (*_ALWAYS, *enabled)), ""
    return None, f"{version} does not work: {reason.rstrip('.') or 'it printed no error'}."


def _mounts_by_handle(program: str, state: str) -> bool:
    """Whether the kernel supports mounts by handle (5.12) and lets this user create a namespace for them."""
    from hilt.sandbox.mounting import DEVICES

    mounts: list[Mount] = [(b"/run", None, 0o500, None, False), (b"/dev", None, DEVICES, None, False)]
    return _runs(program, state, mounts, [], ": > /dev/null")


def _mounts_overlays(program: str, state: str) -> bool:
    """Whether the kernel lets this user mount overlays (5.11 for ordinary users) in the state directory."""
    import shlex

    from hilt.handles import remove_path
    from hilt.sandbox import layers, overlay

    folder = os.path.join(os.path.realpath(state), f"probe-{os.urandom(4).hex()}")
    probed = os.path.join(folder, "probed")
    scratch = ""
    try:
        os.makedirs(probed, 0o700)
        attribute = overlay.attribute(in_user_namespace=overlay.needs_user_namespace())
        with layers.open_places((probed,), folder, "probe", attribute=attribute) as places:
            if places is None:
                return False
            scratch = places.scratch.path if places.scratch else ""
            with overlay.make(places, "layer", (probed,), whole=True) as layer:
                mounts: list[Mount] = [(os.fsencode(probed), None, os.fsencode(probed), None, True)]
                has_run = _runs(program, state, mounts, overlay.mounts(layer, ()), f": > {shlex.quote(probed)}/new")
                return has_run and os.listdir(layer.upper(probed)) == ["new"] and not os.listdir(probed)
    except OSError:
        return False
    finally:
        for path in filter(None, (folder, scratch)):
            remove_path(path)


def _runs(program: str, state: str, mounts: list[Mount], overlays: list[Overlay], script: str) -> bool:
    """Whether a script runs in a sandbox with these mounts."""
    from hilt.sandbox.capturing import run
    from hilt.sandbox.spawning import Limits

    stage = os.path.join(os.path.realpath(state), "stage")
    try:
        os.makedirs(stage, 0o700, exist_ok=True)
        launch = Launch(steps=StartSteps(mounts=(os.fsencode(stage), mounts, overlays, False)))
        options = ("--unshare-user", "--unshare-pid", "--dev-bind", stage, "/", "--proc", "/proc")
        argv = (program, *options, "--", "/bin/sh", "-c", script)
        return run(argv, cwd="/", env={}, limits=Limits(timeout=_PROBE_SECONDS), confined=launch).exit_code == 0
    except (OSError, ToolError):
        return False


def _remedy(program: str | None, find: FindProgram) -> str:
    if program is None:
        install = next((command for program, command in _INSTALL.items() if find(program)), "")
        return install or "Use the package manager of the system to install bubblewrap."
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1":
        return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _read("/proc/sys/kernel/unprivileged_userns_clone").strip() == "0":
        return "sudo sysctl kernel.unprivileged_userns_clone=1"
    if _read("/proc/sys/user/max_user_namespaces").strip() == "0":
        return "sudo sysctl user.max_user_namespaces=15000"
    return "In a container, allow user namespaces and mounts of /proc (docker: --security-opt seccomp=unconfined)."


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""
