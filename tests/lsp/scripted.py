"""Workspaces with language servers: real ones, and a scripted one for Lua."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hilt.call import Result
from hilt.runtime import Runtime
from hilt.testing import Folder, environment

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "scripted_server.py")
EVERYTHING = {
    "definitionProvider": True,
    "referencesProvider": True,
    "hoverProvider": True,
    "documentSymbolProvider": True,
    "workspaceSymbolProvider": True,
    "renameProvider": True,
}


class Bench:
    """A folder with a workspace, its state, and its own programs on the PATH."""

    def __init__(self, base: str, **variables: str) -> None:
        self.folder = Folder(os.path.join(base, "workspace"))
        self.programs = os.path.join(base, "programs")
        for path in (self.folder.path, self.programs, os.path.join(base, "home")):
            os.makedirs(path, exist_ok=True)
        self.environ = {**environment(base), "PATH": f"{self.programs}:/usr/bin:/bin", "LANG": "C.UTF-8", **variables}
        self.state = self.environ["HILT_STATE_DIR"]

    def install(self, *programs: str) -> None:
        """Put programs on the PATH of the workspace."""
        for path in programs:
            os.symlink(path, os.path.join(self.programs, os.path.basename(path)))

    def script(self, name: str = "lua-language-server", **plan: Any) -> None:
        """Install the scripted server, and set its plan."""
        program = os.path.join(self.programs, name)
        if not os.path.exists(program):
            os.makedirs(os.path.dirname(program), exist_ok=True)
            with open(SCRIPT, encoding="utf-8") as file, open(program, "w", encoding="utf-8") as copy:
                copy.write(f"#!{sys.executable}\n{file.read()}")
            os.chmod(program, 0o755)
        with open(os.path.join(os.path.dirname(program), "plan.json"), "w", encoding="utf-8") as file:
            json.dump({"capabilities": EVERYTHING, **plan}, file)

    def uri(self, name: str) -> str:
        """Return the URI of a file of the workspace."""
        return f"file://{os.path.realpath(self.folder.join(name))}"

    def log(self) -> list[dict[str, Any]]:
        """Return the messages that the scripted server has received."""
        paths = glob.glob(os.path.join(self.state, "sandbox", "*", "*", "tmp", "log.jsonl"))
        texts = [Path(path).read_text(encoding="utf-8") for path in paths]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    def received(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the messages of a method that the scripted server has received."""
        return [message.get("params", {}) for message in self.log() if message.get("method") == method]

    def starts(self) -> list[int]:
        """Return an item for every start of the scripted server."""
        return [message["started"] for message in self.log() if "started" in message]

    @contextmanager
    def runtime(self, **flags: Any) -> Iterator[Runtime]:
        """Yield a runtime of the workspace."""
        with Runtime(self.folder.path, environ=self.environ, flags=flags) as runtime:
            yield runtime


def place(line: int, character: int) -> dict[str, int]:
    """Return a position of the protocol, counted from 0."""
    return {"line": line, "character": character}


def span(line: int, start: int, end: int) -> dict[str, Any]:
    """Return a range of the protocol in one line."""
    return {"start": place(line, start), "end": place(line, end)}


def ask(runtime: Runtime, action: str, path: str, **args: Any) -> Result:
    """Call lsp_query."""
    return runtime.call("lsp_query", action=action, path=path, **args)


def text(result: Result) -> str:
    """Return the text of a result that must have succeeded."""
    assert result.error is None, f"{result.error.code}: {result.error.message}"
    return result.text


def failure(result: Result, code: str) -> str:
    """Return the message of a result that must have failed with this code."""
    assert result.error is not None, result.text
    assert result.error.code == code, result.error.message
    return result.error.message


def processes_of(folder: str) -> list[int]:
    """Return the processes whose command line names a folder."""
    needle = os.fsencode(folder)
    processes = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if needle in file.read():
                        processes.append(int(name))
            except OSError:
                continue
    return processes
