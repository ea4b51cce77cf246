"""Starts the script of a folder tool with its runtime and a restricted environment.

A tool runs in the workspace, but must not load code from it. Each runtime has an entry below with a command that keeps
it from reading settings, variables or code from the working folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from hilt import places, variables
from hilt.errors import ToolError
from hilt.handles import put_file
from hilt.loaders import paths_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.capturing import Finished
    from hilt.surroundings import Surroundings

OUTPUT_BYTES = 16 << 20  # of one stream: a cut JSON value cannot be parsed

# the variables of the user that every tool gets
VARIABLES = (
    *("PATH", "HOME", "USER", "SHELL", "TMPDIR", "TEMP", "TMP"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TERM", "NODE_ENV"),
)
# variables that control a runtime or the dynamic loader: no tool may have them
_CONTROLLING = re.compile(
    r"(?:NODE_PATH|BUN_OPTIONS|BUN_INSPECT\w*|PYTHON\w*|PERL5\w*|PERLLIB|LD_\w+|DYLD_\w+|GOENV|GOWORK|GO111MODULE"
    r"|RUBYLIB|UV_\w+|DENO_\w+|PSModulePath)\Z"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ENTRY = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"""
    r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|((?:[^\n#][^\n]*?)?))[ \t]*(?:(?<=[ \t=])#[^\n]*)?$""",
    re.MULTILINE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class ScriptStart(NamedTuple):
    """A program that is ready to be started."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


class ScriptRuntime(NamedTuple):
    """The program for one kind of script and how to install it; `command` takes program, script and working folder.

    `variables` are set for the program. With `in_script_folder`, it starts in the folder of the script, and the command
    itself changes to the working folder.
    """

    program: str
    install: str
    command: Callable[[str, str, str], list[str]]
    variables: Callable[[str], dict[str, str]] = lambda script: {}
    in_script_folder: bool = False


def _beside(script: str, *names: str) -> str | None:
    """Return the first of these files that is in the folder of the script."""
    paths = [os.path.join(os.path.dirname(script), name) for name in names]
    return next((path for path in paths if os.path.isfile(path)), None)


def _bun(program: str, script: str, cwd: str) -> list[str]:
    # bun would look for these files in the working folder and above the script
    settings = _beside(script, "tsconfig.json") or os.devnull
    neutral = ["--env-file=" + os.devnull, "--config=" + os.devnull, "--tsconfig-override=" + settings]
    # --no-install: the workspace could configure where missing packages come from
    return [program, "run", *neutral, "--no-install", script]


# go resolves modules in its working folder, so it starts in the tool's folder; the program then changes to its own
_GO_EXEC = """/bin/sh -c 'unset GO111MODULE GOWORK; cd -- "$1" && unset OLDPWD && exec "$0"'"""


def _go_variables(script: str) -> dict[str, str]:
    return {"GOWORK": "off", "GO111MODULE": "on" if _beside(script, "go.mod") else "off"}


def _deno(program: str, script: str, cwd: str) -> list[str]:
    # use only the import map of the tool's settings: a file above could make itself the root of the other settings
    imports = _beside(script, "deno.json", "deno.jsonc")
    own = [f"--import-map={imports}"] if imports else []
    return [program, "run", "--quiet", "--no-prompt", "--allow-all", "--no-config", *own, script]


# uv runs the python of a .venv in its working folder or above to check it; so uv starts in /, and only the script in
# the working folder
_UV = """
uv=$0 script=$1 cwd=$2 && shift 2 && cd / || exit
[ "$1" != --script ] || "$uv" sync --quiet --no-config "$@" </dev/null >&2 || exit
python=$("$uv" python find --no-config "$@" </dev/null) && cd -- "$cwd" && unset OLDPWD || exit
PATH=${python%/*}:$PATH exec "$python" -B "$script"
"""
_SCRIPT_METADATA = re.compile(rb"^# /// script\s*$", re.MULTILINE)


def _uv(program: str, script: str, cwd: str) -> list[str]:
    options = ["--no-project"]  # a script without dependencies needs no environment
    with suppress(OSError), open(script, "rb") as file:  # python reports an unreadable script
        if _SCRIPT_METADATA.search(file.read()):
            options = ["--script", script]
    return ["/bin/sh", "-c", _UV, program, script, cwd, *options]


_POWERSHELL = ["-NoLogo", "-NoProfile", "-NonInteractive", "-File"]

RUNTIMES: dict[str, ScriptRuntime] = {
    "bun": ScriptRuntime("bun", "see https://bun.sh, or: npm install --global bun", _bun),
    "node": ScriptRuntime("node", "see https://nodejs.org", lambda program, script, cwd: [program, script]),
    # -B: imports must not write files to the tool's folder, whose exact content is trusted
    "python": ScriptRuntime(
        "python3", "see https://www.python.org", lambda program, script, cwd: [program, "-B", script]
    ),
    "bash": ScriptRuntime(
        "bash", "use your package manager", lambda program, script, cwd: [program, "--noprofile", "--norc", script]
    ),
    "go": ScriptRuntime(
        "go",
        "see https://go.dev/dl",
        lambda program, script, cwd: [program, "run", "-exec", _GO_EXEC, script, cwd],
        _go_variables,
        in_script_folder=True,
    ),
    "binary": ScriptRuntime("", "", lambda program, script, cwd: [program]),
    "powershell": ScriptRuntime(
        "pwsh", "see https://aka.ms/powershell", lambda program, script, cwd: [program, *_POWERSHELL, script]
    ),
    "uv": ScriptRuntime("uv", "see https://docs.astral.sh/uv, or: pip install uv", _uv),
    "deno": ScriptRuntime("deno", "see https://deno.com", _deno),
    "ruby": ScriptRuntime("ruby", "see https://www.ruby-lang.org", lambda program, script, cwd: [program, script]),
}


def launch(runtime: str, script: str, surroundings: Surroundings, *, cwd: str, env: Mapping[str, str]) -> ScriptStart:
    """Return the command that runs a script, given by its full path, in a folder; raise if its runtime is missing."""
    chosen = RUNTIMES[runtime]
    if not os.path.isfile(script):
        raise ToolError("tool_invalid", f"The script {script} is missing.", suggestion="Restore it.", path=script)
    program = surroundings.find(chosen.program) if chosen.program else script
    if program is None:
        raise ToolError(
            "runtime_missing",
            f"{chosen.program}, which runs {os.path.basename(script)}, is not on the PATH."
            f"{surroundings.advice(chosen.program)}",
            suggestion=f"Install {chosen.program}: {chosen.install}.",
            program=chosen.program,
        )
    folder = os.path.dirname(script) if chosen.in_script_folder else cwd
    return ScriptStart(tuple(chosen.command(program, script, cwd)), folder, {**env, **chosen.variables(script)})


def run(launch: ScriptStart, data: bytes, *, seconds: float, fence: Fence, confined: Launch | None = None) -> Finished:
    """Run a script to its end with data on its standard input; cancelling the call kills all its processes."""
    from hilt.sandbox import capturing, spawning

    fence.check()
    limits = spawning.Limits(timeout=seconds, keep_bytes=OUTPUT_BYTES, max_bytes=2 * OUTPUT_BYTES)
    finished = capturing.run(
        launch.argv,
        cwd=launch.cwd,
        env=launch.env,
        stdin=data,
        limits=limits,
        cancelled=fence.event(),
        confined=confined or spawning.UNCONFINED,
    )
    fence.check()
    return finished


def environment(names: Iterable[str], surroundings: Surroundings) -> dict[str, str]:
    """Return the complete environment of a tool that declares these names.

    A declared variable is taken from the user's `.env` files, hilt's first, else from the environment.
    """
    allowed = [name for name in names if refusal(name) is None]
    sources = [*(dict(_entries(path)) for path in env_files(surroundings.given) if allowed)]
    sources.append(surroundings.environment(only=allowed))
    declared = {name: source[name] for source in reversed(sources) for name in allowed if name in source}
    return surroundings.environment(declared, only=VARIABLES)


def write_copy(folder: str, files: Mapping[str, str | bytes], mode: int = 0o600) -> None:
    """Write the files of a folder if they differ; safe to run in several processes at once."""
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError), open(path, "rb") as file:
            if file.read(len(data) + 1) == data:
                continue
        put_file(path, data, mode=mode)


def refusal(name: str) -> str | None:
    """Return why a tool cannot have a variable; None if it can."""
    if not _NAME.match(name):
        return "it is not a valid variable name"
    if _CONTROLLING.match(name) or name in variables.OPTIONS or variables.runs_at_start(name):
        return "it controls the runtime, not the tool"
    return None


def own_variable(environ: Mapping[str, str], name: str) -> str | None:
    """Return a user's variable for hilt itself: from the environment, else from hilt's own `.env`."""
    return environ.get(name) or own_variables(environ).get(name)


def own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of hilt's own `.env`."""
    return dict(_entries(env_files(environ)[0]))


def env_files(environ: Mapping[str, str]) -> list[str]:
    """Return the paths of the user's `.env` files."""
    home = environ.get("HOME") or os.path.expanduser("~")
    own, others = paths_of("variables", "config"), paths_of("variables", "home")
    return [os.path.join(places.config_dir(environ), *own), os.path.join(home, *others)]


def _entries(path: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of an `.env` file; of duplicates, the last wins."""
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return
    for name, single, double, plain in _ENTRY.findall(text):
        yield name, single or _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), double) or plain
