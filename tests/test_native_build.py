"""Wheels with and without the native client, and the client for other systems."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hilt
from scripts import native
from tests.surfaces.native import PYTHON, compiler, has_run_python

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).parents[1]
SCRIPT = f"hilt-{hilt.__version__}.data/scripts/hilt"


def build(folder: Path, **environ: str) -> tuple[Path, str]:
    """Build a wheel; return it with the warnings of the build."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel, done.stderr.replace(f"{wheel}\n", "")


def commands(wheel: Path) -> set[str]:
    """Return the Python commands that a wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(f"hilt-{hilt.__version__}.dist-info/entry_points.txt").decode().split("\n")
    return {line.partition(" = ")[0] for line in lines if " = " in line}


def test_a_wheel_installs_the_native_client_and_the_python_command(tmp_path):
    compiler()

    wheel, warning = build(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    installing = ["uv", "pip", "install", "--quiet", "--no-deps", "--offline", "--python", str(tmp_path / "venv")]
    subprocess.run([sys.executable, "-m", *installing, str(wheel)], check=True)
    (tmp_path / "link").symlink_to("venv/bin/hilt")  # as uv tool and pipx do
    done = subprocess.run([str(tmp_path / "link"), "--version"], capture_output=True, text=True, cwd="/")

    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    assert (commands(wheel), warning) == ({"hilt-py"}, "")
    assert not (tmp_path / "venv/bin/hilt").read_bytes().startswith(b"#!")
    assert done.stdout == f"hilt {hilt.__version__}\n"


@pytest.mark.parametrize(
    "environ, warning",
    [
        ({"HILT_NATIVE": "off"}, ""),
        ({"CC": "", "PATH": "/nonexistent"}, "C compiler"),
        ({"CC": "false"}, "exit status 1"),
    ],
)
def test_without_a_compiler_the_wheel_is_pure_python(tmp_path, environ, warning):
    wheel, printed = build(tmp_path, **environ)

    assert wheel.name.endswith("-py3-none-any.whl")
    assert commands(wheel) == {"hilt", "hilt-py"}
    assert warning in printed
    assert bool(warning) == bool(printed)


def test_a_wheel_contains_the_built_console(tmp_path):
    wheel, _ = build(tmp_path, HILT_NATIVE="off")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("hilt/surfaces/http/console/")}
    built = ROOT / "src/hilt/surfaces/http/console"

    assert packed == {f"hilt/{path.relative_to(ROOT / 'src/hilt')}" for path in built.rglob("*") if path.is_file()}


def test_the_client_is_built_for_other_systems(tmp_path):
    if not native.has_zig():
        pytest.skip("ziglang is not installed: pip install ziglang")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/native.py"), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

    starts = {name: (tmp_path / name / "hilt").read_bytes()[:20] for name in native.TARGETS}
    assert {name for name, start in starts.items() if start.startswith(b"\x7fELF")} == {"linux-x86_64", "linux-arm64"}
    # the machine: EM_X86_64, EM_AARCH64
    assert [starts[name][18] for name in ("linux-x86_64", "linux-arm64")] == [62, 183]
    assert {start[:4] for name, start in starts.items() if name.startswith("macos")} == {b"\xcf\xfa\xed\xfe"}
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        program = tmp_path / "linux-x86_64" / "hilt"
        (program.parent / "hilt-py").write_text(PYTHON)
        (program.parent / "hilt-py").chmod(0o755)
        done = subprocess.run([str(program), "x"], input="input", capture_output=True, text=True)

        assert (done.stdout, has_run_python(str(program))) == ("input", "<x>")


def test_a_wheel_for_another_system_has_its_tag(tmp_path):
    if not native.has_zig():
        pytest.skip("ziglang is not installed: pip install ziglang")

    wheel, _ = build(tmp_path, HILT_NATIVE="macos-arm64")

    assert wheel.name == f"hilt-{hilt.__version__}-py3-none-macosx_11_0_arm64.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(SCRIPT).startswith(b"\xcf\xfa\xed\xfe")
        assert archive.getinfo(SCRIPT).external_attr >> 16 & 0o111


def test_the_source_distribution_contains_the_sources_of_the_client(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [archive] = tmp_path.glob("*.tar.gz")

    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"native/client.c", "scripts/native.py", "src/hilt/__init__.py"} <= names
