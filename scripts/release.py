"""Build a release in dist/ and check it, in a separate virtual environment; `make release` runs all steps.

python -m scripts.release [STEP...]

PYTHONS lists the interpreters to install the wheels with; by default those on PATH. CLAUDE is the command that runs
Claude Code, which validates the plug-in.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

from scripts import native

ROOT = Path(native.ROOT)
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent
VERSION = native.version()
CHANGELOG = ROOT / "CHANGELOG.md"
# files with the version, besides the one that defines it
DESCRIPTIONS = ("server.json", ".claude-plugin/marketplace.json", "plugin/.claude-plugin/plugin.json")
OLDEST = (3, 11)
MAGIC = {"linux": b"\x7fELF", "macos": b"\xcf\xfa\xed\xfe"}


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a program and return its output; exit if it fails."""
    arguments = [str(argument) for argument in command]
    done = subprocess.run(
        arguments, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        line = " ".join(arguments)
        sys.exit(f"release: {line} failed with exit status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def require(condition: bool, problem: str) -> None:
    """Exit with a problem unless the condition is true."""
    if not condition:
        sys.exit(f"release: {problem}")


# --- the version --------------------------------------------------------------------------------------------------


def describe() -> None:
    """Write the version into server.json and the plug-in, and its section into the changelog."""
    for name in DESCRIPTIONS:
        path = ROOT / name
        path.write_text(with_version(path.read_text(encoding="utf-8"), VERSION), encoding="utf-8")
    today = datetime.now(UTC).date().isoformat()
    CHANGELOG.write_text(with_section(CHANGELOG.read_text(encoding="utf-8"), VERSION, today), encoding="utf-8")


def with_version(description: str, version: str) -> str:
    """Return a JSON file with another version."""
    return re.sub(r'("version": )"[^"]*"', rf'\1"{version}"', description)


def with_section(changelog: str, version: str, date: str) -> str:
    """Return the changelog with a section for the version, made from Unreleased; unchanged if it already has one."""
    if f"\n## [{version}]" in changelog:
        return changelog
    require(bool(section(changelog, "Unreleased")), "the section Unreleased of CHANGELOG.md is empty")
    return changelog.replace("\n## [Unreleased]\n", f"\n## [Unreleased]\n\n## [{version}] - {date}\n", 1)


def section(changelog: str, name: str) -> str:
    """Return the text of a section, without its heading."""
    match = re.search(rf"^## \[{re.escape(name)}\].*?\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


# --- the files ----------------------------------------------------------------------------------------------------


def build() -> None:
    """Build the source distribution and all wheels twice, and compare them."""
    shutil.rmtree(DIST, ignore_errors=True)
    _build_into(DIST)
    with tempfile.TemporaryDirectory() as folder:
        _build_into(Path(folder))
        different = [path.name for path in packages() if path.read_bytes() != (Path(folder) / path.name).read_bytes()]
    require(not different, f"a second build produced different bytes: {', '.join(different)}")


def _build_into(folder: Path) -> None:
    env = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()}
    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    run(*hatchling, "-t", "sdist", env=env)
    for target in ("off", *native.TARGETS):
        run(*hatchling, "-t", "wheel", env={**env, "HILT_NATIVE": target})


def packages() -> list[Path]:
    """Return the source distribution and the wheels."""
    return sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])


def wheel_for(target: str) -> Path:
    """Return the wheel for a target; `off` is the pure Python wheel."""
    tag = "any" if target == "off" else native.TARGETS[target].platform
    return DIST / f"hilt-{VERSION}-py3-none-{tag}.whl"


def check() -> None:
    """Check the contents of the packages."""
    tracked = set(run("git", "ls-files", "-z").split("\0"))
    modules = {name.removeprefix("src/") for name in tracked if name.startswith("src/hilt/")}
    for target in ("off", *native.TARGETS):
        wheel = wheel_for(target)
        with zipfile.ZipFile(wheel) as archive:
            names = {name for name in archive.namelist() if name.startswith("hilt/")}
            require(names == modules, f"{wheel.name} differs from git: {', '.join(sorted(names ^ modules)[:10])}")
            info = f"hilt-{VERSION}.dist-info"
            points = archive.read(f"{info}/entry_points.txt").decode()
            commands = set(re.findall(r"^(\S+) = hilt\.", points, re.MULTILINE))
            require(
                commands == ({"hilt", "hilt-py"} if target == "off" else {"hilt-py"}), f"{wheel.name} has {commands}"
            )
            if target != "off":
                program = archive.read(f"hilt-{VERSION}.data/scripts/hilt")
                require(program.startswith(MAGIC[target.partition("-")[0]]), f"{wheel.name} has the wrong program")
    with tarfile.open(DIST / f"hilt-{VERSION}.tar.gz") as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    require(names - {"PKG-INFO"} <= tracked, f"the source distribution has {', '.join(sorted(names - tracked)[:10])}")


# --- installing ---------------------------------------------------------------------------------------------------


class Installed(NamedTuple):
    """An interpreter on this machine."""

    version: tuple[int, int]
    path: str


def install() -> None:
    """Install the packages in clean environments, and make calls."""
    pythons = sorted(set(interpreters()))
    require(
        bool(pythons) and pythons[0].version == OLDEST,
        f"Python {OLDEST[0]}.{OLDEST[1]} was not found; set PYTHONS to the paths of interpreters",
    )
    here = f"{'macos' if sys.platform == 'darwin' else 'linux'}-{platform.machine().replace('aarch64', 'arm64')}"
    for python in dict.fromkeys((pythons[0], pythons[-1])):
        for package in (wheel_for(here), wheel_for("off")):
            for installer in (with_pip, with_uv, with_pipx):
                _try(installer, python, package, is_native=package != wheel_for("off"))
    _try(with_pip, pythons[0], DIST / f"hilt-{VERSION}.tar.gz", is_native=None)


def interpreters() -> Iterator[Installed]:
    """Yield the interpreters to install with."""
    names = os.environ.get("PYTHONS", "").split() or [f"python3.{minor}" for minor in range(OLDEST[1], 20)]
    script = "import sys; print(*sys.version_info[:2], sys._base_executable)"
    for name in names:
        try:
            done = subprocess.run([name, "-c", script], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            major, minor, path = done.stdout.strip().split(" ", 2)
            yield Installed((int(major), int(minor)), path)


Installer = Callable[[Path, str, Path], Path]


def with_pip(folder: Path, python: str, package: Path) -> Path:
    """Install a package into a virtual environment and return the command."""
    run(python, "-m", "venv", folder / "env")
    run(folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package)
    return folder / "env/bin/hilt"


def with_uv(folder: Path, python: str, package: Path) -> Path:
    """Install a package as a tool of uv and return the command."""
    env = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    run(BIN / "uv", "tool", "install", "--quiet", "--python", python, package, env=env)
    return folder / "bin/hilt"


def with_pipx(folder: Path, python: str, package: Path) -> Path:
    """Install a package with pipx and return the command."""
    env = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin"), "USE_EMOJI": "0"}
    run(BIN / "pipx", "install", "--quiet", "--python", python, package, env=env)
    return folder / "bin/hilt"


def _try(installer: Installer, python: Installed, package: Path, *, is_native: bool | None) -> None:
    """Install a package and use it; `is_native` says which kind of command it must install, None: either."""
    with tempfile.TemporaryDirectory() as base:
        command = installer(Path(base), python.path, package)
        workspace = Path(base, "workspace")
        workspace.mkdir()
        env = {"HOME": base, "HILT_CONFIG_DIR": f"{base}/config", "HILT_STATE_DIR": f"{base}/state"}
        if is_native is not None:
            require(is_native != command.read_bytes().startswith(b"#!"), f"{package.name} installs the wrong command")
        require(run(command, "--version", env=env) == f"hilt {VERSION}\n", f"{package.name} has another version")
        run(command, "call", "write_file", "path=a.txt", "content=x", env=env, cwd=workspace)
        require((workspace / "a.txt").read_text() == "x", f"a call with {package.name} wrote nothing")
        run(command, "undo", "last", "--yes", env=env, cwd=workspace)
        require(not (workspace / "a.txt").exists(), f"undo with {package.name} restored nothing")
    print(f"  {installer.__name__.replace('_', ' ')}, Python {'.'.join(map(str, python.version))}: {package.name}")


# --- metadata -----------------------------------------------------------------------------------------------------


def validate() -> None:
    """Check server.json, the plug-in and the workflows with the validators that are installed."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "server.json", folder)
        run(BIN / "skillsaw", "lint", "--strict", "--no-plugins", "--no-custom-rules", "--no-progress", folder)
    run(BIN / "zizmor", "--quiet", "--offline", "--persona", "pedantic", ".github/workflows")
    workflows = sorted(ROOT.glob(".github/workflows/*.yml"))
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    claude = os.environ.get("CLAUDE", "").split()
    if not claude or not shutil.which(claude[0]) or not all(map(os.path.exists, claude[1:])):
        print("  the plug-in was not validated: CLAUDE is not set to the command that runs Claude Code")
        return
    with tempfile.TemporaryDirectory() as home:
        for folder in (".", "plugin"):
            run(*claude, "plugin", "validate", "--strict", folder, env={"HOME": home})


# --- what goes beside the packages --------------------------------------------------------------------------------


def sbom() -> None:
    """Write a software bill of materials of hilt with all its extras."""
    wheel = wheel_for("off")
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"hilt-{VERSION}.dist-info/METADATA").decode())
    extras = ",".join(metadata.get_all("Provides-Extra", []))
    with tempfile.TemporaryDirectory() as folder:
        env = Path(folder, "env")
        run(BIN / "uv", "venv", "--quiet", env)
        run(BIN / "uv", "pip", "install", "--quiet", "--python", env, f"{wheel}[{extras}]")
        for path in env.rglob("direct_url.json"):  # contains a path of this machine
            path.unlink()
        target = DIST / f"hilt-{VERSION}.cdx.json"
        components = ("environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml")
        run(BIN / "cyclonedx-py", *components, "-o", target, env / "bin/python")
    names = {component["name"] for component in json.loads(target.read_text(encoding="utf-8"))["components"]}
    require("mcp" in names, "the bill of materials lacks the dependencies")


def checksums() -> None:
    """Write the notes of the release, and the checksums of its files."""
    notes = section(CHANGELOG.read_text(encoding="utf-8"), VERSION)
    require(bool(notes), f"CHANGELOG.md has no section for {VERSION}")
    (DIST / "NOTES.md").write_text(notes + "\n", encoding="utf-8")
    files = [*packages(), DIST / f"hilt-{VERSION}.cdx.json"]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


STEPS = {step.__name__: step for step in (describe, build, check, install, validate, sbom, checksums)}


def main(names: list[str]) -> None:
    """Run the named steps, or all."""
    unknown = [name for name in names if name not in STEPS]
    require(not unknown, f"there is no step {', '.join(unknown)}; steps: {', '.join(STEPS)}")
    for name in names or STEPS:
        print(f"{name}: {(STEPS[name].__doc__ or '').partition(chr(10))[0]}", flush=True)
        STEPS[name]()
    if not names:
        print(f"hilt {VERSION} is in {DIST.relative_to(ROOT)}:")
        print("".join(f"  {path.name}  {path.stat().st_size:,} bytes\n" for path in sorted(DIST.iterdir())), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
