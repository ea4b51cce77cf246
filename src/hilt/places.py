"""Where hilt, a user's settings and state are; imports nothing, because the way to the resident process starts here."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# what commands see of the user's environment
SHELL_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "TMPDIR", "TZ", "SHELL")

# what was on the search path of this process when it started, and will be when the next one does
_forgotten: list[str] = []


def config_dir(environ: Mapping[str, str]) -> str:
    """Return the folder of the personal settings."""
    named = environ.get("HILT_CONFIG_DIR")
    if not named and environ.get("JINN_CONFIG_DIR"):
        named = os.path.join(environ["JINN_CONFIG_DIR"], "hilt")
    return os.path.abspath(named or _below_home(environ, "XDG_CONFIG_HOME", ".config"))


def state_dir(environ: Mapping[str, str]) -> str:
    """Return the folder of databases, blobs and logs."""
    return os.path.abspath(environ.get("HILT_STATE_DIR") or _below_home(environ, "XDG_STATE_HOME", ".local/state"))


def running_dir(state: str) -> str:
    """Return the folder that says which confined programs run, and which ran when hilt was killed."""
    return os.path.join(state, "running")


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


def homes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the home directory of the environment, and the one that the system knows if that is another."""
    import pwd

    named = environ.get("HOME") or os.path.expanduser("~")
    try:
        listed = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        listed = named
    return tuple(dict.fromkeys((os.path.realpath(named), os.path.realpath(listed))))


def installation(root: str, lifted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what of the running hilt lies in a folder; the folder itself when it is a part of the installation.

    Whatever is changed there runs with all rights of the user when hilt is started the next time. The paths are real
    but for the last name, which may be a link or missing. What absolute paths among `lifted` hold is left out.
    """
    root = os.path.realpath(root)
    free = [os.path.realpath(os.path.expanduser(path)) for path in lifted if path.startswith(("/", "~"))]
    found = [path for path in _installed(root) if not any(is_below(path, one) for one in free)]
    if any(is_below(root, path) for path in free):
        return ()
    if any(is_below(root, path) for path in found):
        return (root,)
    # unless the folder is in there: what holds the package, for it is on the search path, and a virtual environment
    whole = [_package(), *([sys.prefix] if sys.prefix != sys.base_prefix else [])]
    found += (path for path in map(os.path.realpath, whole) if not is_below(root, path))
    found += (link for path in (*whole, *_programs()) for link in _links(path))
    for folder in (*sys.path, *_forgotten):
        # of a project that is installed beside hilt, say: Python runs these names before everything else
        if os.path.isabs(folder) and not any(is_below(folder, path) for path in (sys.prefix, sys.base_prefix, *found)):
            found += (os.path.join(os.path.realpath(folder), name) for name in _customizing())
    inside = [path for path in dict.fromkeys(found) if is_below(os.path.dirname(path), root)]
    inside = [path for path in inside if not any(is_below(path, one) for one in free)]
    return tuple(path for path in inside if not any(path != one and is_below(path, one) for one in inside))


def forget(root: str, lifted: Sequence[str] = ()) -> None:
    """Import nothing more from a folder, but for what is installed in it: modules in a workspace are not ours."""
    root = os.path.realpath(root)
    own = [
        *_installed(root),
        os.path.realpath(_package()),
        *(os.path.realpath(path) for path in lifted if os.path.isabs(path)),
    ]
    for entry in list(sys.path):
        folder = os.path.realpath(entry or os.curdir)
        if is_below(folder, root) and not any(is_below(folder, path) for path in own):
            sys.path.remove(entry)
            _forgotten.append(entry)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def utf8_path(path: str) -> str:
    """Return a path or name with bytes that are not UTF-8 shown as escapes."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _package() -> str:
    """Return the folder that holds the package hilt, which is on the search path of Python."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _programs() -> Iterator[str]:
    """Yield the folder of the interpreter, and the script that started it if that is hilt's."""
    if sys.executable:
        yield os.path.dirname(os.path.abspath(sys.executable))
    if sys.argv and os.path.basename(sys.argv[0]) == "hilt":
        yield os.path.abspath(sys.argv[0])


def _installed(root: str) -> Iterator[str]:
    """Yield where the running hilt is: its own modules, and of a Python in or around the folder what it loads."""
    yield os.path.realpath(os.path.dirname(__file__))
    yield from map(os.path.realpath, _programs())
    major, minor = sys.version_info[:2]
    python = f"python{major}.{minor}"
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        real = os.path.realpath(prefix)
        if not is_below(real, root) and not is_below(root, real):
            continue
        names = ["bin", "pyvenv.cfg", f"lib/python{major}/dist-packages"]
        for library in dict.fromkeys(("lib", sys.platlibdir)):
            names += (f"{library}/{python}", f"{library}/python{major}{minor}.zip")
        for name in names:
            path = os.path.join(real, name)
            if "dist-packages" not in name or os.path.isdir(path):
                yield os.path.realpath(path)
    site = sys.modules.get("site")
    if site is not None and site.ENABLE_USER_SITE and site.USER_SITE:
        yield os.path.realpath(site.USER_SITE)
    elif sys.prefix == sys.base_prefix:
        base = os.environ.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")
        yield os.path.realpath(os.path.join(base, "lib", python, "site-packages"))


def _customizing() -> Iterator[str]:
    """Yield the names under which Python looks for what it runs at its start."""
    import _imp

    for module in ("sitecustomize", "usercustomize"):
        for ending in ("", ".py", ".pyc", *_imp.extension_suffixes()):
            yield module + ending


def _links(path: str) -> Iterator[str]:
    """Yield the links on the way to a path, each by the real folder that it is in."""
    if os.path.realpath(path) == path:
        return
    folder = "/"
    for name in path.split("/"):
        step = os.path.join(folder, name)
        if os.path.islink(step):
            yield step
            step = os.path.realpath(step)
        folder = step


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
