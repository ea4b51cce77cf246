"""Where hilt, a user's settings and state are; imports nothing, because the way to the resident process starts here."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# what commands see of the user's environment
SHELL_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "TMPDIR", "TZ", "SHELL")


def config_dir(environ: Mapping[str, str]) -> str:
    """Return the folder of the personal settings."""
    named = environ.get("HILT_CONFIG_DIR")
    if not named and environ.get("JINN_CONFIG_DIR"):
        named = os.path.join(environ["JINN_CONFIG_DIR"], "hilt")
    return os.path.abspath(named or _below_home(environ, "XDG_CONFIG_HOME", ".config"))


def state_dir(environ: Mapping[str, str]) -> str:
    """Return the folder of databases, blobs and logs."""
    return os.path.abspath(environ.get("HILT_STATE_DIR") or _below_home(environ, "XDG_STATE_HOME", ".local/state"))


def make_state_dir(state: str) -> None:
    """Make the state directory if it is missing; it is for its owner alone, and so is everything below it."""
    if not os.path.isdir(state):
        os.makedirs(os.path.dirname(state), exist_ok=True)
        try:
            os.mkdir(state, 0o700)
        except FileExistsError:
            return  # another process was quicker


def workspace_dir(environ: Mapping[str, str], cwd: str) -> str:
    """Return the workspace that the environment names, else the working directory."""
    return os.path.join(cwd, environ.get("HILT_WORKSPACE") or environ.get("WORKSPACE_ROOT") or cwd)


def socket_address(state: str) -> tuple[str, int | None]:
    """Return the address of the resident's socket, and the handle to close afterwards when a long path needed one."""
    path = os.path.join(state, "resident.sock")
    if len(os.fsencode(path)) < 100 or not os.path.isdir("/proc/self/fd"):
        return path, None
    # addresses of sockets are short; the handle of the folder makes any path short
    handle = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{handle}/resident.sock", handle


def own_command() -> list[str]:
    """Return how this very hilt is started from anywhere, by absolute paths."""
    for path in (sys.argv[0], os.path.join(os.path.dirname(sys.executable), "hilt")):
        if os.path.basename(path) == "hilt" and os.path.isfile(path) and os.access(path, os.X_OK):
            return [os.path.abspath(path)]
    # -P: the folder it is started in may hold modules of this name
    return [os.path.abspath(sys.executable), "-P", "-m", "hilt"]


def command(*words: str) -> str:
    """Return a command of hilt as a person can type it: by its name alone where PATH leads to this very hilt."""
    from shlex import join

    own = own_command()
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    first = next((path for folder in folders if os.access(path := os.path.join(folder, "hilt"), os.X_OK)), None)
    is_known = len(own) == 1 and first is not None and os.path.realpath(first) == os.path.realpath(own[0])
    return join([*(["hilt"] if is_known else own), *words])


def _below_home(environ: Mapping[str, str], variable: str, default: str) -> str:
    base = environ.get(variable) or os.path.join(environ.get("HOME") or os.path.expanduser("~"), default)
    return os.path.join(base, "hilt")
