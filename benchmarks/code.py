"""Language servers: a query to a running server against the bare server, the first query of a large project, memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.clock import best_median
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place
from benchmarks.program import HILT, Program, request, session
from hilt.call import Call
from hilt.lsp.framing import Frames, encode
from hilt.lsp.known_servers import BASEDPYRIGHT, CLANGD, TY, ServerKind, Site
from hilt.lsp.language_server import to_uri
from hilt.runtime import Runtime

FILES = 2000
SMALL = 50
PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


def figures() -> Iterator[Figure]:
    """Measure each server that is installed."""
    for kind, ending in ((TY, "py"), (BASEDPYRIGHT, "py"), (CLANGD, "c")):
        program = shutil.which(kind.program, path=PATH)
        if program is not None:
            with fresh_place() as place:
                _install(place, program)
                user = _project(place.workspace, ending, SMALL)
                yield _warm(place, kind, program, user)
    program = shutil.which(TY.program, path=PATH)
    if program is not None:
        with fresh_place() as place:
            _install(place, program)
            yield from _one_shot(place, _project(place.workspace, "py", FILES))
        with fresh_place() as place:
            _install(place, program)
            yield _first(place, _project(place.workspace, "py", FILES))


def _install(place: Place, program: str) -> None:
    """Make one server the only one on the PATH."""
    programs = os.path.join(place.environ["HOME"], "programs")
    os.makedirs(programs)
    os.symlink(program, os.path.join(programs, os.path.basename(program)))
    place.environ["PATH"] = f"{programs}:/usr/bin:/bin"


def _project(folder: str, ending: str, count: int) -> str:
    """Write a project with this many files; return a file that uses another."""
    for number in range(count):
        with open(os.path.join(folder, f"part_{number}.{ending}"), "w", encoding="utf-8") as file:
            if ending == "py":
                file.write(f"def work_{number}(value: int) -> int:\n    return value + {number}\n")
            else:
                file.write(f"int work_{number}(int value) {{ return value + {number}; }}\n")
    user = f"main.{ending}"
    with open(os.path.join(folder, user), "w", encoding="utf-8") as file:
        if ending == "py":
            file.write("from part_7 import work_7\n\n\nprint(work_7(1))\n")
        else:
            file.write('#include "part_7.c"\n\n\nint main(void) { return work_7(1); }\n')
    return user


def _warm(place: Place, kind: ServerKind, program: str, user: str) -> Figure:
    args = {"action": "definition", "path": user, "line": 4, "symbol": "work_7"}
    with (
        _plain(place.workspace, kind, program, user) as own,
        Runtime(place.workspace, environ=place.environ) as runtime,
    ):

        def ask() -> None:
            result = runtime.call("lsp_query", **args)
            if not result.ok or "part_7" not in result.text:
                raise RuntimeError(f"{kind.name}: {result.error or result.text}")

        ask()
        base, took = best_median(5, 20, own, ask)
    return Figure(
        f"warm definition, {kind.name}", took, "ms", "the server itself", base, maximum=round(1.3 * base + 2, 2)
    )


@contextmanager
def _plain(folder: str, kind: ServerKind, program: str, user: str) -> Iterator[Any]:
    """Yield a function that queries the server directly."""
    site = Site((folder,), os.path.realpath(program), folder)
    with subprocess.Popen(
        [program, *kind.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        server = _PlainClient(process)
        try:
            capabilities = {"workspace": {"configuration": False, "workspaceFolders": True}}
            server.ask(
                "initialize",
                processId=None,
                rootUri=to_uri(folder),
                workspaceFolders=[{"uri": to_uri(folder), "name": "benchmark"}],
                capabilities=capabilities,
                initializationOptions=kind.options(site),
            )
            server.tell("initialized")
            path = os.path.join(folder, user)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            language = "python" if user.endswith("py") else "c"
            server.tell(
                "textDocument/didOpen",
                textDocument={"uri": to_uri(path), "languageId": language, "version": 1, "text": text},
            )
            column = text.split("\n")[3].index("work_7")
            position = {"textDocument": {"uri": to_uri(path)}, "position": {"line": 3, "character": column}}
            yield lambda: server.ask("textDocument/definition", **position)
        finally:
            process.kill()


class _PlainClient:
    """A minimal client of a language server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout.fileno()
        self._frames = Frames()
        self._number = 0

    def tell(self, method: str, **params: Any) -> None:
        self._in.write(encode({"jsonrpc": "2.0", "method": method, "params": params}))
        self._in.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._in.write(encode({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        self._in.flush()
        while True:
            for message in self._frames.feed(os.read(self._out, 1 << 16)):
                if "method" in message and "id" in message:
                    self._in.write(encode({"jsonrpc": "2.0", "id": message["id"], "result": None}))
                    self._in.flush()
                elif message.get("id") == self._number:
                    return message.get("result")


def _one_shot(place: Place, user: str) -> Iterator[Figure]:
    """Measure the second one-shot call, and the memory of the client in a session."""
    query = request("lsp_query", action="definition", path=user, line=4, symbol="work_7")
    place.environ["HILT_RESIDENT"] = "auto"
    try:
        ask = Program([HILT, "--workspace", place.workspace], place, query)
        ask()
        listing = Program([HILT, "--workspace", place.workspace], place, request("list_tools"))
        base, took = best_median(5, 5, listing, ask)
    finally:
        subprocess.run([HILT, "resident", "stop"], env=place.environ, stdout=subprocess.DEVNULL)
    yield Figure("second query of a one-shot call", took, "ms", "one-shot list_tools", base, maximum=base + 50)
    place.environ["HILT_RESIDENT"] = "off"
    with session(place) as hilt:
        hilt.call("read_file", path=user)
        idle = hilt.memory()
        hilt.ask(query)
        for number in range(20):
            hilt.ask(request("lsp_query", action="symbols", path=f"part_{number}.py"))
        yield Figure("memory of the client of one server", hilt.memory() - idle, "MB", "idle session", idle, maximum=10)


def _first(place: Place, user: str) -> Figure:
    """Count the progress reports of the first query while the server indexes a large project."""

    class Client:
        can_ask = has_questions = False
        reports = 0

        def progress(self, done: float, total: float | None, message: str) -> None:
            self.reports += 1

    client: Any = Client()
    ended = threading.Event()
    with Runtime(place.workspace, environ=place.environ) as runtime:
        args = {"action": "references", "path": user, "line": 4, "symbol": "work_7"}
        runtime.submit(Call("lsp_query", args), lambda result: ended.set(), attendant=client)
        ended.wait()
    return Figure(f"reports of the first query in {FILES:,} files", client.reports, "", "one", 1, minimum=1)
