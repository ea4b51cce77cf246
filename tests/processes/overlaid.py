"""Runtimes for the tests of undo for commands, in a process of this user or of an ordinary one.

The process takes one JSON object on each line. It is started from copies of the packages that it needs, because an
ordinary user may not be able to read the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from hilt.sandbox.layers import LAYERS
from tests.probed import remember_sandbox
from tests.sandbox.confined import NOBODY, as_user, interpreter

SUPPLEMENTARY = 54321  # a group of the ordinary user
_PACKAGES = ("hilt", "tree_sitter", "tree_sitter_bash")


class Answer(NamedTuple):
    """The parts of a result that tests compare."""

    code: str | None
    text: str
    meta: dict[str, Any]
    view: dict[str, Any] | None
    message: str = ""

    @property
    def undo(self) -> str:
        """The id of the change."""
        assert self.code is None, self.message
        return str(self.meta["undo"]["id"] if isinstance(self.meta["undo"], dict) else self.meta["undo"])


class Agents:
    """A process with runtimes, each on its own workspace below one folder."""

    def __init__(self, *, ordinary: bool, folder: str | None = None) -> None:
        self.uid = NOBODY if ordinary and os.getuid() == 0 else os.getuid()
        self.python = interpreter(self.uid)
        self.base = Path(tempfile.mkdtemp(prefix="hilt-agents-", dir=folder))
        self.base.chmod(0o755)
        self._packages = Path(tempfile.mkdtemp(prefix="hilt-packages-"))
        self._packages.chmod(0o755)
        ignored = shutil.ignore_patterns("__pycache__")
        if self.uid != os.getuid():
            for name in _PACKAGES:
                spec = find_spec(name)
                assert spec is not None
                assert spec.origin is not None
                shutil.copytree(Path(spec.origin).parent, self._packages / name, ignore=ignored)
            shutil.copytree(Path(__file__).parents[1], self._packages / "tests", ignore=ignored)
        self._process = self._start()

    def workspace(self, name: str) -> Path:
        """Return a new workspace."""
        folder = self.base / name / "workspace"
        folder.mkdir(parents=True)
        remember_sandbox(str(self.base / name / "state")) if self.uid == os.getuid() else None
        self.own(self.base / name)
        return folder

    def own(self, folder: Path) -> None:
        """Give a folder with everything in it to the user of the process."""
        if self.uid != os.getuid():
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def call(self, name: str, tool: str, *, flags: dict[str, Any] | None = None, **args: Any) -> Answer:
        """Call a tool on the workspace of this name."""
        return Answer(**self._ask(base=str(self.base / name), flags=flags or {}, tool=tool, args=args))

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        reply: dict[str, Any] = json.loads(line)
        return reply

    def run(self, name: str, command: str, **args: Any) -> Answer:
        """Run a dangerous command."""
        return self.call(name, "run_shell", command=f"rm -f .nothing\n{command}", force=True, **args)

    def restore(self, name: str, id: str, **args: Any) -> Answer:
        """Undo a change."""
        return self.call(name, "undo", action="restore", id=id, **args)

    @property
    def keeper(self) -> int:
        """The keeper of the process, which starts its commands."""
        children = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        [keeper] = {int(number) for path in children for number in path.read_text().split()}
        return keeper

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait(60)

    def restart(self) -> None:
        """Start a new process after this one was killed."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()
        self._process = self._start()

    def close(self) -> None:
        """End the process and remove its folders."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout
        self._process.stdout.close()
        records = [path.read_text() for path in self.base.glob("*/state/layer-places/*")]
        scratch = [Path(record.partition(" ")[2]) for record in records if " /dev/shm/" in record]
        for folder in (self.base, self._packages, *scratch):
            subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, capture_output=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self) -> subprocess.Popen[str]:
        prefix = as_user(self.uid, str(SUPPLEMENTARY))
        paths = [str(self._packages)] if prefix else [str(Path(__file__).parents[2])]
        return subprocess.Popen(
            [*prefix, self.python, "-B", "-m", "tests.processes.overlaid"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._packages,
            env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(paths)},
        )


def tree(folder: Path) -> dict[str, str]:
    """Return everything below a folder with types, modes and contents, except the layers that hilt hides there.

    Layers without a record may be removed during the test.
    """
    entries = {".": oct(os.stat(folder).st_mode)}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(LAYERS)]
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            entries[os.path.relpath(path, folder)] = _describe(path)
    return entries


def _describe(path: str) -> str:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return f"link to {os.readlink(path)}"
    mode = oct(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return mode
    marks = [name for name in os.listxattr(path) if "overlay" in name]
    with open(path, "rb") as file:
        return f"{mode} {file.read()!r} {marks or ''}"


def serve() -> None:
    """Answer requests until the input ends."""
    from hilt.runtime import Runtime
    from hilt.testing import environment

    runtimes: dict[str, Runtime] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = json.dumps([request["base"], request["flags"]])
        if key not in runtimes:
            environ = environment(request["base"])
            root = os.path.join(request["base"], "workspace")
            runtimes[key] = Runtime(root, environ=environ, flags=request["flags"])
        result = runtimes[key].call(request["tool"], **request["args"])
        error = result.error
        answer = {
            "code": error and error.code,
            "text": result.text or json.dumps(result.data),
            "meta": dict(result.meta) | (error.details if error else {}),
            "view": result.view,
            "message": str(error or ""),
        }
        print(json.dumps(answer, default=str), flush=True)
    for runtime in runtimes.values():
        runtime.close()


if __name__ == "__main__":
    serve()
