"""What hilt starts outside the sandbox comes from no place in which commands can write."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hilt
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surroundings import Surroundings
from hilt.testing import environment

PROGRAMS = ("bash", "sh", "python3", "node", "git", "env", "bwrap", "cat", "uname")


class Place:
    """A workspace whose programs leave a mark, and folders outside from which they are reached."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace = base / "workspace"
        self.mark = base / "mark"
        self.planted = self.workspace / ".venv/bin"
        self.outside = base / "outside"
        self.safe = base / "safe"
        for folder in (self.planted, self.outside, self.safe, base / "home", base / "config"):
            folder.mkdir(parents=True)
        for name in PROGRAMS:
            self.program(self.planted / name, f"#!/bin/sh\necho {name} >> {shlex.quote(str(self.mark))}\nexit 1\n")

    def program(self, path: Path, text: str = "#!/bin/sh\n") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def surroundings(self, **environ: str) -> Surroundings:
        return Surroundings(environ, (str(self.workspace),))

    def environ(self, path: str) -> dict[str, str]:
        return {**environment(str(self.base)), "PATH": path}

    def marks(self) -> list[str]:
        return self.mark.read_text().split() if self.mark.exists() else []


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def entries(place: Place) -> dict[str, str]:
    """Return PATH entries that lead into the workspace."""
    planted = str(place.planted)
    (place.base / "link").symlink_to(planted)
    (place.base / "chain").symlink_to(place.base / "link")
    (place.outside / "python3").symlink_to(f"{planted}/python3")
    (place.outside / "bash").symlink_to(f"{planted}/bash")
    # a link in the workspace to a safe folder: a command can point it elsewhere
    (place.workspace / "tools").symlink_to(place.safe)
    return {
        "folder": planted,
        "link": str(place.base / "link"),
        "chain": str(place.base / "chain"),
        "linked programs": str(place.outside),
        "link out": str(place.workspace / "tools"),
        "missing": str(place.workspace / "later/bin"),
        "missing behind a link": f"{place.base}/link/later",
        "dots": f"{place.base}/safe/../workspace/.venv/bin",
        "slashes": f"/{place.planted}//",
        "working folder of the child": "/proc/self/cwd/.venv/bin",
        "relative": "workspace/.venv/bin",
        "empty": "",
        "dot": ".",
    }


def test_folders_that_lead_into_the_workspace_are_left_out(place, monkeypatch):
    monkeypatch.chdir(place.base)
    for name, entry in entries(place).items():
        surroundings = place.surroundings(PATH=f"{entry}:{place.safe}:/usr/bin:/bin")

        assert surroundings.environment()["PATH"] == f"{place.safe}:/usr/bin:/bin", name
        assert surroundings.find("bash") in ("/usr/bin/bash", "/bin/bash"), name


def test_a_folder_mounted_or_spelled_differently_is_recognised_by_its_identity(place):
    twice = place.base / "twice"
    twice.symlink_to("workspace")
    surroundings = Surroundings({"PATH": f"{place.planted}:/bin"}, (str(twice),))

    assert surroundings.environment()["PATH"] == "/bin"


def test_a_program_whose_interpreter_is_in_the_workspace_is_not_used(place):
    script = place.program(place.safe / "made", f"#! {place.planted}/python3 -I\n")
    place.program(place.safe / "split", f"#!/usr/bin/env -S {place.planted}/python3 -I\n")
    surroundings = place.surroundings(PATH=str(place.safe))

    assert (surroundings.find("made"), surroundings.find("split")) == (None, None)
    with pytest.raises(ToolError) as raised:
        surroundings.program("made")
    assert (raised.value.code, raised.value.message) == (
        "runtime_missing",
        f"made is not on the PATH. {script} is not used: commands can write in {place.workspace}.",
    )


def test_a_link_made_later_is_noticed(place):
    surroundings = place.surroundings(PATH=f"{place.safe}:/bin")
    assert surroundings.search_path() == f"{place.safe}:/bin"

    (place.safe / "node").symlink_to(place.planted / "node")

    assert surroundings.search_path() == "/bin"
    assert "node" in surroundings.advice("node")


def test_links_between_programs_outside_are_kept(place):
    place.program(place.outside / "python3.11")
    (place.safe / "python3").symlink_to("../outside/python3.11")
    (place.safe / "python").symlink_to("python3")

    assert place.surroundings(PATH=str(place.safe)).find("python") == str(place.safe / "python")


def test_with_nothing_left_path_is_the_system_s_default(place):
    surroundings = place.surroundings(PATH=str(place.planted))

    # an empty PATH would mean the working folder
    assert surroundings.environment()["PATH"] == surroundings.search_path() == os.defpath


IN = "{workspace}/x"


@pytest.mark.parametrize(
    "name, value, expected",
    [
        *((name, f"{IN}:/opt/x", "/opt/x") for name in ("PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "PERL5LIB")),
        *((name, f"{IN}:/opt/x", "/opt/x") for name in ("RUBYLIB", "GOPATH", "CLASSPATH", "XDG_DATA_DIRS", "CDPATH")),
        ("LUA_PATH", "/opt/?.lua;{workspace}/?.lua;;", "/opt/?.lua"),
        *((name, IN, None) for name in ("VIRTUAL_ENV", "GIT_EXEC_PATH", "PYTHONHOME", "PYTHONSTARTUP", "JAVA_HOME")),
        *((name, IN, None) for name in ("BASH_ENV", "ENV", "LD_PRELOAD", "OPENSSL_CONF", "GCONV_PATH", "GOROOT")),
        *((name, f"{IN} --wait", None) for name in ("EDITOR", "PAGER", "GIT_SSH_COMMAND", "BROWSER", "LESSOPEN")),
        ("GIT_SSH_COMMAND", "ssh -F /users/u/x", "ssh -F /users/u/x"),
        ("NODE_OPTIONS", "--max-old-space-size=64", "--max-old-space-size=64"),
        ("JAVA_TOOL_OPTIONS", "-Dfile=x -Djava.library.path=/opt:{workspace}/x", None),
        ("GIT_CONFIG_GLOBAL", IN, None),
        ("EDITOR", "vim", "vim"),
        ("EDITOR", "./vim", None),
        *((name, IN, None) for name in ("MAKEFLAGS", "CC", "npm_config_prefix", "XDG_CONFIG_HOME", "BUN_OPTIONS")),
        *((name, IN, None) for name in ("DOCKER_CONFIG", "AWS_CONFIG_FILE", "GNUPGHOME", "TMPDIR", "GOCACHE")),
        *((name, IN, None) for name in ("PIP_CONFIG_FILE", "CFLAGS", "KUBECONFIG", "PYENV_ROOT", "LOCPATH", "INPUTRC")),
        *(
            (name, IN, IN)
            for name in ("PROJECT_ROOT", "GITHUB_WORKSPACE", "SRC", "TARGET_DIR", "APP_CONFIG", "PIPELINE")
        ),
        ("GOOGLE_APPLICATION_CREDENTIALS", IN, IN),
        ("DATABASE_URL", f"sqlite:///{IN}", f"sqlite:///{IN}"),
        ("JAVA_HOME", "/opt/java", "/opt/java"),
        ("PROJECT_DATA", IN, IN),
        ("PWD", IN, IN),
    ],
)
def test_variables_that_name_code_in_the_workspace_are_left_out(place, name, value, expected):
    value = value.format(workspace=place.workspace)
    passed = place.surroundings(**{name: value}).environment()

    assert passed.get(name) == (expected and expected.format(workspace=place.workspace))


def test_a_workspace_with_spaces_and_other_separators_in_its_name_is_recognised(place):
    odd = place.base / "my project, 'new'=1"
    odd.mkdir()
    values = {"VIRTUAL_ENV": f"{odd}/.venv", "GIT_SSH_COMMAND": f"ssh -F '{odd}/config' -v", "EDITOR": f"{odd}/bin/vim"}

    assert Surroundings(values, (str(odd),)).environment().keys() == {"PATH"}


def test_declared_variables_may_name_the_workspace_except_in_path(place):
    declared = {"PATH": f"{place.planted}:/bin", "VIRTUAL_ENV": str(place.workspace), "ENV": "production"}

    passed = place.surroundings().environment(declared)

    assert passed == {**declared, "PATH": "/bin"}


def test_what_is_left_out_is_listed_with_its_reason(place):
    environ = {"PATH": f"{place.planted}::/bin", "EDITOR": f"{place.planted}/vim", "A": str(place.workspace)}

    assert list(place.surroundings(**environ).left_out()) == [
        ("PATH", str(place.planted), f"commands can write in {place.workspace}"),
        ("EDITOR", f"{place.planted}/vim", f"commands can write in {place.workspace}"),
    ]


# --- everything that a runtime starts -----------------------------------------------------------------------------


def folder_tool(place: Place, runtime: str, text: str) -> None:
    folder = place.base / "config/tools/probe"
    folder.mkdir(parents=True)
    schemas = 'inputSchema: {"type": "object"}\noutputSchema: {"type": "object"}'
    head = f"---\nname: probe\ndescription: Does something.\nscript: script\nruntime: {runtime}\n{schemas}\n---\n"
    (folder / "tool.md").write_text(head + "Does something.\n")
    place.program(folder / "script", text)


SHEBANG = "#!/usr/bin/env python3\nimport json, sys; sys.stdin.read(); print(json.dumps({'ran': 1}))\n"
CALLS_PYTHON = f"#!/bin/sh\nexec python3 -c {shlex.quote(SHEBANG.partition(chr(10))[2].strip())}\n"


@pytest.mark.starts_processes
@pytest.mark.parametrize("entry", ["folder", "link", "linked programs"])
@pytest.mark.parametrize(
    "runtime, text", [("python", SHEBANG), ("binary", SHEBANG), ("binary", CALLS_PYTHON), ("bash", CALLS_PYTHON)]
)
def test_a_folder_tool_runs_nothing_that_commands_can_change(place, entry, runtime, text):
    folder_tool(place, runtime, text)
    path = f"{entries(place)[entry]}:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
    with Runtime(str(place.workspace), environ=place.environ(path)) as runtime_:
        result = runtime_.call("probe")

    assert place.marks() == []
    assert result.error is None, result.error
    assert result.data == {"ran": 1}


@pytest.mark.starts_processes
@pytest.mark.parametrize("entry", ["folder", "link", "linked programs"])
def test_a_markdown_tool_runs_nothing_that_commands_can_change(place, entry):
    tools = place.base / "config/tools"
    tools.mkdir()
    (tools / "probe.md").write_text(
        "---\nname: probe\ndescription: Does something.\nread_only: true\n---\ncat /dev/null && echo ran\n"
    )
    environ = place.environ(f"{entries(place)[entry]}:/usr/bin:/bin")
    with Runtime(str(place.workspace), environ=environ, flags={"mode": "yolo"}) as runtime:
        result = runtime.call("probe")

    assert place.marks() == []
    assert result.text.strip() == "ran", result.error


@pytest.mark.starts_processes
@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_the_library_of_a_provider_describes_this_machine_without_a_program(place, library):
    code = (
        "from hilt.agents.providers import ProviderModel\n"
        f"from {library}._base_client import platform_headers\n"
        f"ProviderModel('{library}:m', base_url='http://127.0.0.1:9/v1', key='k', context_tokens=1)\n"
        "platform_headers('1', platform=None)\n"
    )

    subprocess.run([sys.executable, "-c", code], env=place.environ(f"{place.planted}:/usr/bin:/bin"), check=True)

    assert place.marks() == []


@pytest.mark.starts_processes
@pytest.mark.parametrize("entry", ["folder", "link", "linked programs"])
def test_a_hook_runs_nothing_that_commands_can_change(place, entry):
    command = f"cat > {shlex.quote(str(place.base / 'seen'))}; bash -c :; python3 -c ''"
    (place.base / "config/hooks.yaml").write_text(f"hooks: [{{event: pre_tool_execution, command: {command!r}}}]")
    (place.workspace / "a.txt").write_text("x\n")
    with Runtime(str(place.workspace), environ=place.environ(f"{entries(place)[entry]}:/usr/bin:/bin")) as runtime:
        runtime.call("read_file", path="a.txt")

    assert place.marks() == []
    assert (place.base / "seen").exists()


@pytest.mark.starts_processes
def test_a_hook_whose_program_is_only_in_the_workspace_fails_with_the_reason(place):
    program = place.program(place.planted / "ruff")
    (place.base / "config/hooks.yaml").write_text("hooks: [{event: pre_tool_execution, command: ruff check}]")
    (place.workspace / "a.txt").write_text("x\n")
    with Runtime(str(place.workspace), environ=place.environ(f"{place.planted}:/usr/bin:/bin")) as runtime:
        error = runtime.call("read_file", path="a.txt").error

    assert error is not None
    why = f"ruff is not found. {program} is not used: commands can write in {place.workspace}. Install it outside"
    assert (error.code, why in error.message) == ("hook_blocked", True)


@pytest.mark.starts_processes
@pytest.mark.parametrize("entry", ["folder", "link", "linked programs"])
@pytest.mark.parametrize("declared", [None, "{planted}:${{PATH}}"])
def test_an_mcp_server_is_not_a_program_that_commands_can_change(place, entry, declared):
    path = f"{entries(place)[entry]}:{place.safe}:/usr/bin:/bin"
    env = {} if declared is None else {"PATH": declared.format(planted=place.planted)}
    server: dict[str, Any] = {"command": "python3", "args": ["-c", "import bash"], "env": env}
    flags = {"mcp.servers": {"probe": server}}
    with Runtime(str(place.workspace), environ=place.environ(path), flags=flags) as runtime:
        servers = runtime.parts.servers
        assert servers is not None
        servers.tools()

    assert place.marks() == []


def test_a_missing_program_is_reported_with_the_one_that_is_not_used(place):
    folder_tool(place, "python", SHEBANG)
    with Runtime(str(place.workspace), environ=place.environ(f"{place.planted}:{place.safe}")) as runtime:
        error = runtime.call("probe").error

    assert error is not None
    reason = f"{place.planted}/python3 is not used: commands can write in {place.workspace}."
    assert (error.code, reason in error.message) == ("runtime_missing", True)


def test_a_further_folder_of_the_workspace_and_the_folders_of_worktrees_count_as_well(place):
    other = place.base / "other"
    other.mkdir()
    environ = place.environ("/bin")
    with Runtime(str(place.workspace), environ=environ, flags={"workspace.roots": [str(other)]}) as runtime:
        state = runtime.parts.state
        path = f"{other}/bin:{state}-worktrees/a/bin:{state}/sandbox/a/bin:/bin"
        assert runtime.parts.surroundings.search_path(path) == "/bin"


# --- nothing else looks for programs ------------------------------------------------------------------------------

ROOT = os.path.dirname(os.path.abspath(hilt.__file__))
# these run inside the sandbox, or only compare and show a PATH
INSIDE = {
    "sandbox/keeper.py": "becomes the program of a call, with the PATH of the sandbox",
    "sandbox/view.py": "shows the folders of programs inside the sandbox",
    "sandbox/landlock.py": "shows the folders of programs inside the sandbox",
    "sandbox/seatbelt.py": "shows the folders of programs inside the sandbox",
    "processes/confinement.py": "gives commands their PATH",
    "places.py": "writes a command for a person",
    "homes.py": "protects the folders of programs in a home directory",
    "testing.py": "gives tests a PATH",
}
LOOKUPS = {"which", "get_exec_path", "find_executable", "execvp", "execvpe", "execlp", "execlpe", "posix_spawnp"}
LOOKUPS |= {"spawnvp", "spawnvpe", "spawnlp", "spawnlpe", "defpath", "system", "popen", "webbrowser"}
STARTS = {"run", "start", "start_piped", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder, _, names in os.walk(ROOT):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                yield os.path.relpath(path, ROOT), ast.parse(Path(path).read_text())


def lookups(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.name for alias in node.names if alias.name in LOOKUPS)
        elif isinstance(node, ast.Attribute) and node.attr in LOOKUPS and ast.unparse(node.value) in ("os", "shutil"):
            yield node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if node.slice.value in ("PATH", b"PATH") and isinstance(node.ctx, ast.Load):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0] if node.args else None
            if name == "get" and isinstance(first, ast.Constant) and first.value in ("PATH", b"PATH"):
                yield ast.unparse(node)
            if name in STARTS and isinstance(first, ast.List | ast.Tuple) and first.elts:
                program = first.elts[0]
                if isinstance(program, ast.Constant) and "/" not in str(program.value):
                    yield ast.unparse(node)


def test_nothing_else_looks_for_programs():
    found = {path: list(lookups(tree)) for path, tree in sources()}

    assert {path: names for path, names in found.items() if names and path not in {*INSIDE, "surroundings.py"}} == {}


def test_the_list_of_exceptions_is_not_longer_than_needed():
    found = {path for path, tree in sources() if list(lookups(tree))}

    assert found >= INSIDE.keys()


@pytest.mark.skipif(sys.platform != "linux", reason="the loader of Linux")
def test_the_keeper_loads_no_library_of_the_workspace(place):
    from hilt import variables

    assert variables.libraries({"LD_LIBRARY_PATH": f"{place.workspace}/lib"}) == {}
