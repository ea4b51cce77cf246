"""Build native/client.c: the build hook of hatchling, and a command that builds it for other systems.

    python scripts/native.py FOLDER [TARGET...]    build FOLDER/TARGET/hilt with zig, from the package ziglang

The hook compiles the client for the wheel. HILT_NATIVE=off builds a pure Python wheel, and HILT_NATIVE=TARGET the wheel
for another system. Without a compiler, or if it fails, the wheel is pure Python too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "native", "client.c")
STRICT = ("-Wall", "-Wextra", "-Werror")


class Target(NamedTuple):
    """A system to build for: its name in zig, and the platform tag of the wheel."""

    triple: str
    platform: str


TARGETS = {
    "linux-x86_64": Target("x86_64-linux-musl", "manylinux_2_17_x86_64.musllinux_1_1_x86_64"),
    "linux-arm64": Target("aarch64-linux-musl", "manylinux_2_17_aarch64.musllinux_1_1_aarch64"),
    "macos-x86_64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64"),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64"),
}


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # generic only for its own plugins
    """Puts the client into the wheel as the script `hilt`, instead of the Python entry point."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the client and register it, unless HILT_NATIVE is off or the compiler fails."""
        target = os.environ.get("HILT_NATIVE", "")
        if target == "off":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="hilt-native-")
        program = os.path.join(self._folder.name, "hilt")
        try:
            if target:
                cross_build(program, target)
            else:
                host_build(program)
        except (OSError, subprocess.SubprocessError) as error:
            if target:
                raise
            self.app.display_warning(f"hilt: building without the native client: {error}")
            return
        platform = TARGETS[target].platform if target else re.sub(r"[-.]", "_", sysconfig.get_platform())
        build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}
        build_data["shared_scripts"][program] = "hilt"
        del self.metadata.core.scripts["hilt"]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the client once it is in the wheel."""
        if self._folder is not None:
            self._folder.cleanup()


def host_build(program: str) -> None:
    """Compile the client for this system."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler was found")
    try:
        compile_client([compiler, "-static"], program)  # starts faster
    except subprocess.CalledProcessError:
        compile_client([compiler], program)  # no static C library


def cross_build(program: str, name: str) -> None:
    """Compile the client for a target, with zig."""
    if name not in TARGETS:
        raise ValueError(f"unknown target {name!r}; known: {', '.join(TARGETS)}")
    if not has_zig():
        raise ModuleNotFoundError("building for another system needs zig: pip install ziglang")
    compile_client([sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[name].triple, *STRICT], program)


def has_zig() -> bool:
    """Whether the package ziglang is installed."""
    return importlib.util.find_spec("ziglang") is not None


def compile_client(compiler: Sequence[str], program: str, *flags: str) -> None:
    """Run a compiler; raise if it fails."""
    os.makedirs(os.path.dirname(program), exist_ok=True)
    flag_values = runpy.run_path(os.path.join(ROOT, "src", "hilt", "choices.py"))
    defines = [f'-DHILT_{name.upper()}="{" ".join(flag_values["choices"](name))}"' for name in flag_values["FLAGS"]]
    defines.append(f'-DHILT_VERSION="{version()}"')
    command = [*compiler, "-std=c11", "-Os", *(flags or ("-s",)), *defines, SOURCE, "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def version() -> str:
    """Return the version of hilt."""
    with open(os.path.join(ROOT, "src", "hilt", "__init__.py"), encoding="utf-8") as file:
        match = re.search(r'^__version__ = "([^"]+)"$', file.read(), re.MULTILINE)
    assert match is not None
    return match[1]


def main(folder: str, *names: str) -> None:
    """Build the client for the targets, or for all."""
    for name in names or TARGETS:
        program = os.path.join(folder, name, "hilt")
        cross_build(program, name)
        print(f"{program}  {os.path.getsize(program):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
