"""A cluster for tests: a real PostgreSQL in its own folder, machines with state and workspace, and workers."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob

from hilt.runtime import Runtime
from hilt.state.roster import AgentRecord
from hilt.testing import environment
from tests.agents.model_server import ModelServer, Request, ScriptedCall, Turn
from tests.surfaces.commands import forked

STRESS = bool(os.environ.get("HILT_STRESS"))
SECONDS = 600 if STRESS else 90  # after which a test gives up waiting


def hilt_line(*words: str) -> list[str]:
    """Return a command line for hilt: a fork, which starts in a tenth of the time; under stress, a separate process.

    Only the latter can be stopped with SIGSTOP.
    """
    return [sys.executable, "-m", "hilt", *words] if STRESS else forked(*words)


def wait_until(happened: Callable[[], object]) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Postgres:
    """A PostgreSQL server that listens on loopback."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._programs = max(glob("/usr/lib/postgresql/*/bin"), default="")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._run(
            "initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "hilt", "--no-sync", "-E", "UTF8", "--locale=C"
        )
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "hilt", "hilt")

    @property
    def url(self) -> str:
        """The address of the database."""
        return f"postgresql://hilt@127.0.0.1:{self.port}/hilt"

    def start(self) -> None:
        """Start the server."""
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c max_connections=200"
        log = f"{self._folder}/log"
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-o", options, "-l", log, "-w", "start")

    def stop(self) -> None:
        """Stop the server at once, without a checkpoint."""
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *words: str) -> None:
        # it refuses to run as root
        user = "postgres" if os.geteuid() == 0 else None
        command = [os.path.join(self._programs, program), *words]
        subprocess.run(command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL, user=user, group=user)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run PostgreSQL in a temporary folder."""
    folder = tempfile.mkdtemp(prefix="hilt-postgres-")
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
    server = Postgres(folder)
    # ends the server if the tests are killed: then the pipe is closed
    end = ["sh", "-c", 'cat; kill -QUIT "$(head -n 1 "$1")"', "sh", f"{folder}/data/postmaster.pid"]
    with subprocess.Popen(end, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL):
        try:
            yield server
        finally:
            server.stop()
            shutil.rmtree(folder)


class Machine:
    """A machine of the cluster: a state directory and a clone of the workspace."""

    def __init__(
        self, base: str, url: str, model: ModelServer, name: str = "cluster", key: str = "", **environ: str
    ) -> None:
        self.workspace = f"{base}/workspace"
        self.key = key or f"key-of-{os.path.basename(base)}"
        for folder in ("workspace", "home"):
            os.makedirs(f"{base}/{folder}", exist_ok=True)
        self.environ = {
            **environment(base),
            "OPENAI_API_KEY": self.key,
            "HILT_MODEL": "openai:scripted",
            "HILT_MODEL_BASE_URL": model.openai_url,
            "HILT_MODE": "yolo",
            "HILT_AGENTS_LEASE_S": "2",
            "HILT_AGENTS_MAX_CHILDREN": "10000",
            **({"HILT_AGENTS_DATABASE": url, "HILT_WORKSPACE_NAME": name} if url else {}),
            **environ,
        }

    def runtime(self) -> Runtime:
        """Open a runtime on this machine that runs no agents itself."""
        return Runtime(self.workspace, session="test", environ=self.environ)

    def worker(self, concurrency: int = 8, **environ: str) -> subprocess.Popen[str]:
        """Start a worker, and return when it takes agents."""
        process = subprocess.Popen(
            hilt_line("worker", "--concurrency", str(concurrency), "--workspace", self.workspace),
            env={**self.environ, **environ},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("Worker "), line + process.stderr.read()
        return process

    def hilt(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            hilt_line(*words), env=self.environ, cwd=self.workspace, capture_output=True, text=True, timeout=SECONDS
        )

    def write(self, name: str, text: str) -> None:
        """Write a file of the workspace."""
        with open(f"{self.workspace}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name: str) -> str:
        """Read a file of the workspace; an empty text if it is missing."""
        try:
            with open(f"{self.workspace}/{name}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def left_running(text: str) -> list[str]:
    """Return the commands of processes that have a text, such as a folder, in their command or environment."""
    commands = []
    for entry in glob("/proc/[0-9]*"):
        try:
            with open(f"{entry}/cmdline", "rb") as file:
                command = file.read()
            with open(f"{entry}/environ", "rb") as file:
                commands += [command.replace(b"\0", b" ").decode()] if text.encode() in command + file.read() else []
        except OSError:
            continue  # it has ended
    return commands


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process without notice."""
    with process:
        process.send_signal(signal.SIGKILL)


def settled(runtime: Runtime, *ids: str) -> list[AgentRecord]:
    """Return agents after their end."""
    store = runtime.parts.roster

    def agents() -> list[AgentRecord]:
        return [agent for agent in map(store.get, ids) if agent is not None and agent.ended is not None]

    wait_until(lambda: len(agents()) == len(ids))
    return agents()


class SteppingModel(ModelServer):
    """A model whose agents take a number of steps, each with an effect that shows how often it ran.

    The prompt of an agent is `agent N`. Of five steps, three add the line N.K to the file N.txt with `edit_file`, one
    reads that file, and one adds the line to N.log with a command. Which step is next follows from the number of
    results, so any process can continue.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.unmade: dict[int, int] = {}  # calls of each agent that may have had no effect
        super().__init__([])

    def asked(self, key: str) -> int:
        """Return how many requests had a key."""
        return sum(1 for request in list(self.requests) if request.headers.get("authorization") == f"Bearer {key}")

    def take(self, request: Request) -> tuple[int, Turn]:
        """Return the next step of the agent that asks."""
        match = re.search(rb"agent (\d+)", request.raw)
        if match is None:  # its sender was killed
            return 0, Turn(status=400)
        agent, step = int(match[1]), len(request.results)
        if step == self._steps:
            # cancelled: its worker had lost the lease, or was stopped, before the call ran
            codes = (b"outcome_unknown: ", b"stale_file: ", b"cancelled: ")
            self.unmade[agent] = sum(request.raw.count(code) for code in codes)
            return 0, Turn(f"done {agent}")
        id = f"call_{agent}_{step}"
        if step % 5 == 4:
            call = ScriptedCall("run_shell", {"command": f"echo {agent}.{step} >> {agent}.log"}, id)
        elif step % 5 == 3:
            call = ScriptedCall("read_file", {"path": f"{agent}.txt"}, id)
        else:
            edit = {"path": f"{agent}.txt", "old_text": "begin\n", "new_text": f"begin\n{agent}.{step}\n"}
            call = ScriptedCall("edit_file", edit, id)
        return 0, Turn(calls=[call])
