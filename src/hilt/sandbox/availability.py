"""Which sandbox works on this system: probed once, and cached until something changes."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from hilt import variables
from hilt.errors import ToolError
from hilt.sandbox import seccomp
from hilt.sandbox.profile import Availability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mounting import Mount, Overlay

Find = Callable[[str], str | None]  # the path of a program by its name

_FORMAT = 6
_RECORD = "sandbox.json"
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_SWITCHES = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
    "/proc/self/uid_map",
)
_SEATBELT = "/usr/bin/sandbox-exec"
_PROBE_SECONDS = 20.0
_NO_SOCKETS = " Commands cannot use Unix sockets, because hilt may not connect them for others."
_CONNECT = "from _socket import *; a = socket(1); a.bind(''); a.listen(); socket(1).connect(a.getsockname())"


def _nowhere(name: str) -> None:
    return None


def find(state: str, find_program: Find = _nowhere) -> Availability:
    """Return which sandbox works here, from the cache if it is still valid."""
    path = os.path.join(state, _RECORD)
    key = _key(find_program)
    with suppress(OSError, ValueError, TypeError, KeyError):
        with open(path, "rb") as file:
            record = json.load(file)
        if record["key"] == key:
            fields = record["availability"]
            return Availability(**{**fields, **{name: tuple(fields[name]) for name in ("missing", "features")}})
    available = probe(state, find_program)
    _remember(path, key, available)
    return available


def probe(state: str, find_program: Find = _nowhere) -> Availability:
    """Probe the sandboxes of this system, strongest first; mounts are tested on a folder in the state directory."""
    if sys.platform == "darwin":
        return _probe_seatbelt()
    if not sys.platform.startswith("linux"):
        return Availability("none", f"Sandboxing is not supported on {sys.platform}.")
    program = find_bubblewrap(find_program)
    available, problem = _probe_bubblewrap(program, state) if program else (None, "bubblewrap is not installed.")
    if available:
        return available
    from hilt.sandbox import landlock, ruleset

    remedy = _remedy(program)
    abi = ruleset.abi()
    if abi:
        features = ("sockets",) if _answers_calls() else ()
        facts = f"{problem} Landlock (ABI {abi}) enforces only part of the sandbox.{'' if features else _NO_SOCKETS}"
        return Availability("landlock", facts, landlock.missing(abi), remedy, features=features)
    missing = ("files", "network", "processes")
    return Availability("none", f"{problem} The kernel does not support Landlock either.", missing, remedy)


def find_bubblewrap(find_program: Find = _nowhere) -> str | None:
    """Return the path of a bubblewrap that only root or the user can have installed; `find_program` looks on PATH."""
    for path in (*(f"{folder}/bwrap" for folder in _SYSTEM_FOLDERS), find_program("bwrap") or ""):
        try:
            real = os.path.realpath(path)
            statuses = [os.stat(real), os.stat(os.path.dirname(real))]
        except OSError:
            continue
        trusted = all(status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022 for status in statuses)
        if trusted and stat.S_ISREG(statuses[0].st_mode) and os.access(real, os.X_OK):
            return real
    return None


def _probe_bubblewrap(program: str, state: str) -> tuple[Availability | None, str]:
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
                enabled = (*enabled, "handles", *(["overlay"] if _mounts_overlays(program, state) else []))
            else:
                facts += " Mounts by handle are not supported, so only one command at a time can run in a workspace."
            # connecting.py looks for sockets in our network
            if _answers_calls(program, *(argument for argument in arguments if argument != "--unshare-net"), "--"):
                enabled = (*enabled, "sockets")
            elif is_filtered:
                facts += _NO_SOCKETS
            return Availability("bubblewrap", facts, missing, "", program, enabled), ""
    return None, f"{version} does not work: {reason or 'it printed no error'}."


def _mounts_by_handle(program: str, state: str) -> bool:
    """Whether the kernel supports mounts by handle (5.12) and lets this user create a namespace for them."""
    from hilt.sandbox.mounting import DEVICES

    mounts: list[Mount] = [(b"/run", None, 0o500, None, False), (b"/dev", None, DEVICES, None, False)]
    return _runs(program, state, mounts, [], ": > /dev/null")


def _mounts_overlays(program: str, state: str) -> bool:
    """Whether the kernel lets this user mount overlays (5.11 for ordinary users) in the state directory."""
    import shlex

    from hilt.sandbox import layers, overlay
    from hilt.sandbox.handles import remove_path

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


def _answers_calls(*prefix: str) -> bool:
    """Whether connecting.py may answer the system calls of a program; not in every container."""
    from hilt.sandbox.capturing import run
    from hilt.sandbox.spawning import Confined, Limits

    if os.uname().machine not in seccomp.MACHINES:
        return False
    record = os.memfd_create("sockets", os.MFD_CLOEXEC)
    try:
        confined = Confined(asks=(*seccomp.asking(), ()), record=record)
        argv = (*prefix, sys.executable, "-I", "-S", "-c", _CONNECT)
        limits = Limits(timeout=_PROBE_SECONDS)
        return run(argv, cwd="/", env=variables.libraries(os.environ), limits=limits, confined=confined).exit_code == 0
    except (OSError, ToolError):
        return False
    finally:
        os.close(record)


def _runs(program: str, state: str, mounts: list[Mount], overlays: list[Overlay], script: str) -> bool:
    """Whether a script runs in a sandbox with these mounts."""
    from hilt.sandbox.capturing import run
    from hilt.sandbox.spawning import Confined, Limits

    stage = os.path.join(os.path.realpath(state), "stage")
    try:
        os.makedirs(stage, 0o700, exist_ok=True)
        confined = Confined(mounts=(os.fsencode(stage), mounts, overlays))
        options = ("--unshare-user", "--unshare-pid", "--dev-bind", stage, "/", "--proc", "/proc")
        argv = (program, *options, "--", "/bin/sh", "-c", script)
        return run(argv, cwd="/", env={}, limits=Limits(timeout=_PROBE_SECONDS), confined=confined).exit_code == 0
    except (OSError, ToolError):
        return False


def _probe_seatbelt() -> Availability:
    from hilt.sandbox.capturing import run
    from hilt.sandbox.spawning import Limits

    if not os.access(_SEATBELT, os.X_OK):
        return Availability("none", f"{_SEATBELT} is missing.", ("files", "network", "processes"))
    argv = (_SEATBELT, "-p", "(version 1)(allow default)", "/usr/bin/true")
    if run(argv, cwd="/", env={}, limits=Limits(timeout=_PROBE_SECONDS)).exit_code != 0:
        return Availability("none", f"{_SEATBELT} does not work here.", ("files", "network", "processes"))
    from hilt.sandbox import seatbelt

    return Availability("seatbelt", "Seatbelt works.", seatbelt.MISSING, "", _SEATBELT)


def _remedy(program: str | None) -> str:
    if program is None:
        return "Install bubblewrap: apt install bubblewrap, dnf install bubblewrap, or pacman -S bubblewrap."
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1":
        return "Allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0."
    if _read("/proc/sys/kernel/unprivileged_userns_clone").strip() == "0":
        return "Allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1."
    if _read("/proc/sys/user/max_user_namespaces").strip() == "0":
        return "Allow user namespaces: sudo sysctl user.max_user_namespaces=15000."
    return "In a container, allow user namespaces and mounts of /proc (docker: --security-opt seccomp=unconfined)."


def _key(find_program: Find = _nowhere) -> list[object]:
    """Everything that the result of the probe depends on."""
    system = os.uname()
    program = find_bubblewrap(find_program) if system.sysname == "Linux" else _SEATBELT
    try:
        status = os.stat(program) if program else None
    except OSError:
        status = None
    file = [status.st_dev, status.st_ino, status.st_mtime_ns] if status else []
    switches = [_read(path).strip() for path in _SWITCHES]
    return [_FORMAT, system.release, system.version, system.machine, os.geteuid(), program, file, switches]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""


def _remember(path: str, key: list[object], available: Availability) -> None:
    """Cache the result for the next process, which otherwise probes again."""
    draft = f"{path}.{os.getpid()}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(draft, "w", encoding="utf-8") as file:
            json.dump({"key": key, "availability": available._asdict()}, file)
        os.replace(draft, path)
