"""Extras that are missing, the commands that install them, and the set-up of a clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hilt import installer
from hilt.errors import ToolError
from hilt.files import decoders
from hilt.web import pages
from tests.programs import program

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
SCRIPT = ROOT / "requirements/system.sh"


def test_extras_are_named_after_features_and_all_includes_every_one():
    assert sorted(EXTRAS) == ["agents", "all", "desktop", "documents", "otel", "web"]
    assert EXTRAS["all"] == [f"hilt[{','.join(name for name in sorted(EXTRAS) if name != 'all')}]"]
    assert any(line.startswith("rich>") for line in PROJECT["dependencies"])  # colours need no extra


def test_every_extra_that_an_error_names_exists():
    names = {
        name
        for path in (ROOT / "src/hilt").rglob("*.py")
        for name in re.findall(r"""\b(?:needs|missing|add_command)\(\s*["'](\w+)["']""", path.read_text())
    }

    assert {"agents", "documents", "web"} <= names <= set(EXTRAS)


@pytest.mark.parametrize(
    "package, extra, code, use",
    [
        ("html_to_markdown", "web", "runtime_missing", lambda: pages.convert(b"<p>x", "http://x.example", plain=False)),
        ("selectolax", "web", "runtime_missing", lambda: pages.parse(b"<p>x")),
        ("pypdfium2", "documents", "unsupported_file", lambda: decoders.pdf_text(b"%PDF", "a.pdf")),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    monkeypatch, package: str, extra: str, code: str, use: Callable[[], object]
):
    for name in [name for name in sys.modules if name.partition(".")[0] == package] + [package]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ToolError) as caught:
        use()

    assert caught.value.code == code
    assert f"needs the extra {extra}: {package}" in caught.value.message
    assert f"pip install 'hilt[{extra}]'" in caught.value.message + caught.value.suggestion


@pytest.mark.parametrize(
    "receipt, adds, removes",
    [
        ("uv-receipt.toml", "uv tool install 'hilt[all]'", "uv tool uninstall hilt"),
        ("pipx_metadata.json", "pipx inject hilt 'hilt[web]'", "pipx uninstall hilt"),
        ("pyvenv.cfg", "pip install 'hilt[web]'", "pip uninstall hilt"),
    ],
)
def test_the_commands_use_the_program_that_installed_hilt(monkeypatch, tmp_path, receipt, adds, removes):
    (tmp_path / receipt).write_text("")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert (installer.add_command("web"), installer.remove_command()) == (adds, removes)


# --- the set-up of a clone --------------------------------------------------------------------------------------------


def check(
    tmp_path, *arguments: str, user: str = "1000", python: str = "exec false"
) -> subprocess.CompletedProcess[str]:
    """Run system.sh on a machine that has only these programs."""
    stubs = {
        "id": f"echo {user}",
        "apt-get": f'echo "$@" >> {tmp_path}/apt',
        "python3": python,
        "git": "",
    }
    for name, script in stubs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        if script != "exec false":
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), "programs", *arguments],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
    )


PACKAGES = ("python", "git:git", "bwrap:bubblewrap", "gopls:gopls")


def test_an_ordinary_user_sees_all_missing_programs_at_once(tmp_path):
    result = check(tmp_path, *PACKAGES)

    assert result.returncode == 1
    assert (
        "sudo apt-get update && sudo apt-get install --no-install-recommends python3 python3-venv bubblewrap gopls"
        in result.stderr
    )
    assert not (tmp_path / "apt").exists()


def test_the_set_up_continues_without_optional_programs(tmp_path):
    result = check(tmp_path, *PACKAGES, python=f'exec {sys.executable} "$@"')

    assert result.returncode == 0
    assert "--no-install-recommends bubblewrap gopls\n" in result.stderr
    assert check(tmp_path, "python", "git:git", python=f'exec {sys.executable} "$@"').stderr == ""


def test_root_on_debian_gets_everything_with_one_command(tmp_path):
    result = check(tmp_path, *PACKAGES, user="0")

    assert result.returncode == 0
    installed = (tmp_path / "apt").read_text().splitlines()[-1]
    assert installed.endswith("install --yes --no-install-recommends python3 python3-venv bubblewrap gopls")


@pytest.mark.parametrize("goal, tests", [("run", False), ("test", True), ("setup", True)])
def test_test_dependencies_are_installed_only_for_tests(tmp_path, goal, tests):
    line = [program("make"), "--dry-run", goal, f"VENV={tmp_path}/venv"]
    steps = subprocess.run(
        line, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    ).stdout

    assert "requirements/run.txt" in steps
    assert ["dev.txt" in steps, "programs.sh" in steps, "gopls" in steps] == [
        tests,
        tests,
        tests and "linux" in sys.platform,
    ]
