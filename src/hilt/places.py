"""Paths of hilt itself and of the user's settings and state; few imports, as the resident's client loads it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# environment variables that commands inherit
SHELL_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "TMPDIR", "TZ", "SHELL")

# the command, and the Python program that its native client runs
PROGRAMS = ("hilt", "hilt-py")

LINKS_MAX = 40  # on the way of a path, as in the kernel
# entries that `forget` removed from sys.path; the next process has them again
_forgotten: list[str] = []


def config_dir(environ: Mapping[str, str]) -> str:
    """Return the folder of the personal settings."""
    folder = environ.get("HILT_CONFIG_DIR")
    if not folder and environ.get("JINN_CONFIG_DIR"):
        folder = os.path.join(environ["JINN_CONFIG_DIR"], "hilt")
    return os.path.abspath(folder or _below_home(environ, "XDG_CONFIG_HOME", ".config"))


def state_dir(environ: Mapping[str, str]) -> str:
    """Return the folder of databases, blobs and logs."""
    return os.path.abspath(environ.get("HILT_STATE_DIR") or _below_home(environ, "XDG_STATE_HOME", ".local/state"))


def worktrees_dir(state: str) -> str:
    """Return the folder of the worktrees of agents: tools and commands cannot reach the state directory itself."""
    return state.rstrip("/") + "-worktrees"


def running_dir(state: str) -> str:
    """Return the folder with a record of each running confined program; records left after a kill are recovered."""
    return os.path.join(state, "running")


def programs_dir(state: str) -> str:
    """Return the folder with links to the programs that hilt provides, for the end of PATH."""
    return os.path.join(state, "programs")


def serving_folder(state: str) -> str:
    """Return the folder that exists while a `hilt serve` runs, and after one was killed."""
    return os.path.join(state, "serving")


def make_state_dir(state: str) -> None:
    """Create the state directory if it is missing, accessible to its owner only."""
    if not os.path.isdir(state):
        os.makedirs(os.path.dirname(state), exist_ok=True)
        try:
            os.mkdir(state, 0o700)
        except FileExistsError:
            return  # another process created it first


def workspace_dir(environ: Mapping[str, str], cwd: str) -> str:
    """Return the workspace set in the environment, else the working directory."""
    return os.path.join(cwd, environ.get("HILT_WORKSPACE") or environ.get("WORKSPACE_ROOT") or cwd)


def homes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the home directory from the environment, and the one from the user database if it differs."""
    import pwd

    home = environ.get("HOME") or os.path.expanduser("~")
    try:
        account_home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        account_home = home
    return tuple(dict.fromkeys((os.path.realpath(home), os.path.realpath(account_home))))


def installation(root: str, lifted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the paths of the running hilt inside a folder; the folder itself if it is part of the installation.

    A change to them would run with all rights of the user when hilt starts again. The paths are resolved except for
    the last component, which may be a link or missing. Everything below an absolute path in `lifted` is excluded.
    """
    resolve = RealPaths()
    root = resolve(root)
    excluded = [resolve(os.path.expanduser(path)) for path in lifted if path.startswith(("/", "~"))]
    installed = [path for path in _installed(root, resolve) if not any(is_below(path, folder) for folder in excluded)]
    if any(is_below(root, path) for path in excluded):
        return ()
    if any(is_below(root, path) for path in installed):
        return (root,)
    # the folder of the package, which is on sys.path, and Python with its libraries, unless the folder is inside them
    whole = dict.fromkeys((_package(), sys.prefix, sys.base_prefix))
    installed += (path for path in map(resolve, whole) if not is_below(root, path))
    installed += (link for path in (*whole, *_programs()) for link in _links(path, resolve))
    for folder in (*sys.path, *_forgotten):
        # such as a project installed next to hilt: Python runs these modules before anything else
        covered = (sys.prefix, sys.base_prefix, *installed)
        if os.path.isabs(folder) and not any(is_below(folder, path) for path in covered):
            real = resolve(folder)
            installed += (os.path.join(real, name) for name in _startup_modules())
    inside = [path for path in dict.fromkeys(installed) if is_below(os.path.dirname(path), root)]
    inside = [path for path in inside if not any(is_below(path, folder) for folder in excluded)]
    return tuple(path for path in inside if not any(path != outer and is_below(path, outer) for outer in inside))


def forget(root: str, lifted: Sequence[str] = ()) -> None:
    """Remove a workspace from sys.path, except what is installed in it: its modules are not trusted."""
    resolve = RealPaths()
    root = resolve(root)
    folders = [(entry, resolve(entry or os.curdir)) for entry in sys.path]
    inside = [(entry, folder) for entry, folder in folders if is_below(folder, root)]
    if not inside:
        return
    own = [
        *_installed(root, resolve),
        resolve(_package()),
        *(resolve(path) for path in lifted if os.path.isabs(path)),
    ]
    for entry, folder in inside:
        if not any(is_below(folder, path) for path in own):
            sys.path.remove(entry)
            _forgotten.append(entry)


class RealPaths:
    """Resolves paths as os.path.realpath does, but looks up each folder only once."""

    def __init__(self) -> None:
        self._resolved = {"/": "/"}

    def __call__(self, path: str) -> str:
        """Return the real path."""
        real = self._resolved.get(path)
        if real is None:
            outer, _, name = path.rpartition("/")
            if not path.startswith("/") or name in ("", ".", ".."):
                return os.path.realpath(path)
            real = f"{self(outer or '/').rstrip('/')}/{name}"
            if os.path.islink(real):
                real = os.path.realpath(real)
            self._resolved[path] = real
        return real


def steps(path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths through which an absolute path leads, with the target of each that is a link; the end comes last.

    Unlike os.path.realpath, this does not raise if names are swapped meanwhile.
    """
    current, links = "/", 0
    names = path.split("/")[::-1]
    while names and links <= LINKS_MAX:
        name = names.pop()
        if name == "..":
            current = os.path.dirname(current)
        elif name not in ("", "."):
            inner = os.path.join(current, name)
            try:
                target = os.readlink(inner)
            except (OSError, ValueError):
                current = inner  # not a link, or missing
                continue
            yield inner, target
            links += 1
            names += target.split("/")[::-1]
            current = "/" if target.startswith("/") else current
    yield current, ""


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def utf8_path(path: str) -> str:
    """Return a path or name with invalid UTF-8 as escapes."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def programs() -> list[str]:
    """Return the real paths of the running hilt's package and of its Python, outermost first."""
    folders = (sys.base_prefix, sys.prefix, os.path.dirname(os.path.abspath(__file__)))
    return sorted(dict.fromkeys(map(RealPaths(), folders)), key=len)


def _package() -> str:
    """Return the folder that contains the package hilt and is on sys.path."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _programs() -> Iterator[str]:
    """Yield the folder of the interpreter, and the scripts of hilt if one of them started this process."""
    if sys.executable:
        yield os.path.dirname(os.path.abspath(sys.executable))
    if sys.argv and os.path.basename(sys.argv[0]) in PROGRAMS:
        folder = os.path.dirname(os.path.abspath(sys.argv[0]))
        yield from (path for name in PROGRAMS if os.path.lexists(path := os.path.join(folder, name)))


def _installed(root: str, resolve: RealPaths) -> Iterator[str]:
    """Yield the paths of the running hilt: its modules, and the libraries of a Python inside or above the folder."""
    yield resolve(os.path.dirname(__file__))
    yield from map(resolve, _programs())
    major, minor = sys.version_info[:2]
    python = f"python{major}.{minor}"
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        real = resolve(prefix)
        if not is_below(real, root) and not is_below(root, real):
            continue
        names = ["bin", "pyvenv.cfg", f"lib/python{major}/dist-packages"]
        for library in dict.fromkeys(("lib", sys.platlibdir)):
            names += (f"{library}/{python}", f"{library}/python{major}{minor}.zip")
        for name in names:
            path = os.path.join(real, name)
            if "dist-packages" not in name or os.path.isdir(path):
                yield resolve(path)
    site = sys.modules.get("site")
    if site is not None and site.ENABLE_USER_SITE and site.USER_SITE:
        yield resolve(site.USER_SITE)
    elif sys.prefix == sys.base_prefix:
        base = os.environ.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")
        yield resolve(os.path.join(base, "lib", python, "site-packages"))


def _startup_modules() -> Iterator[str]:
    """Yield the file names of the modules that Python runs at startup."""
    import _imp

    # the last is what Debian's own sitecustomize tries to import
    for module in ("sitecustomize", "usercustomize", "apport_python_hook"):
        for ending in ("", ".py", ".pyc", *_imp.extension_suffixes()):
            yield module + ending


def _links(path: str, resolve: RealPaths) -> Iterator[str]:
    """Yield the links in a path, each with its folder resolved."""
    if resolve(path) == path:
        return
    folder = "/"
    for name in path.split("/"):
        step = os.path.join(folder, name)
        if os.path.islink(step):
            yield step
            step = resolve(step)
        folder = step


def socket_address(state: str) -> tuple[str, int | None]:
    """Return the address of the resident's socket, and a descriptor to close afterwards if the path is long."""
    path = os.path.join(state, "resident.sock")
    if len(os.fsencode(path)) < 100 or not os.path.isdir("/proc/self/fd"):
        return path, None
    # socket addresses are limited to about 100 bytes; a descriptor of the folder shortens any path
    handle = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{handle}/resident.sock", handle


def own_command() -> list[str]:
    """Return the command line that starts this hilt from any folder."""
    for path in (sys.argv[0].removesuffix("-py"), os.path.join(os.path.dirname(sys.executable), "hilt")):
        if os.path.basename(path) == "hilt" and os.path.isfile(path) and os.access(path, os.X_OK):
            return [os.path.abspath(path)]
    # -P: the working directory may contain a module named hilt
    return [os.path.abspath(sys.executable), "-P", "-m", "hilt"]


def command(*arguments: str) -> str:
    """Return a command line of hilt to show to a person; just `hilt` if PATH resolves to this installation."""
    from shlex import join

    own = own_command()
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    first = next((path for folder in folders if os.access(path := os.path.join(folder, "hilt"), os.X_OK)), None)
    is_on_path = len(own) == 1 and first is not None and os.path.realpath(first) == os.path.realpath(own[0])
    return join([*(["hilt"] if is_on_path else own), *arguments])


def _below_home(environ: Mapping[str, str], variable: str, default: str) -> str:
    base = environ.get(variable) or os.path.join(environ.get("HOME") or os.path.expanduser("~"), default)
    return os.path.join(base, "hilt")
