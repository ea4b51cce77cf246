"""`hilt worker`: run the agents of one or more folders until stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import ExitStack

from hilt.errors import ToolError
from hilt.output.incidents import log_incident
from hilt.output.terminal import inert
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, integer
from hilt.surfaces.opening import open_runtime

CONCURRENCY = 8

_POLL_SECONDS = 0.25
_CLEAN_SECONDS = 3600


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """A worker runs waiting agents of the current folder, or of each --workspace, which may be
repeated. Runs are durable workflows: if the worker is killed, another process resumes them, and no finished step is
repeated. With the setting agents.database, workers on several machines share the agents of all folders with the same
workspace.name; agents that need no folder can run on any of them. On SIGTERM or Ctrl-C, it hands its agents over."""
    parser.add_argument("folders", metavar="DIR", nargs="*", help="More folders")
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=integer("--concurrency", 1, 9999),
        default=CONCURRENCY,
        help=f"Maximum number of agents per folder at once ({CONCURRENCY})",
    )
    parser.examples = [
        ("hilt worker", "Run the agents of this folder"),
        (
            "hilt worker --concurrency 50 --workspace ~/api --workspace ~/web",
            "Run up to 50 agents of each of two folders",
        ),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    with ExitStack() as stack:
        hosts = []
        folders = [options["workspace"], *arguments.folders] if "workspace" in options else arguments.folders
        for folder in dict.fromkeys(map(os.path.realpath, folders)) or [""]:
            place = {"workspace": folder} if folder else {}
            host = stack.enter_context(open_runtime({**options, **place})).parts.agents
            host.become_worker(arguments.concurrency)
            hosts.append(host)
        names = ", ".join(host.runtime.parts.root for host in hosts)
        sys.stderr.write(f"Worker {hosts[0].owner().record.host} runs agents of {names}.\n")
        sys.stderr.flush()
        cleaned = float("-inf")
        while not stopped.wait(_POLL_SECONDS):
            is_due = time.monotonic() > cleaned + _CLEAN_SECONDS
            cleaned = time.monotonic() if is_due else cleaned
            for host in hosts:
                try:
                    host.serve()
                    if is_due:
                        host.clean()
                except Exception as caught:  # noqa: BLE001  # the database is unreachable, or a bug: nothing is lost
                    error = caught if isinstance(caught, ToolError) else log_incident(host.runtime.parts.state, caught)
                    sys.stderr.write(inert(f"{error.code}: {error.message}\n"))
                    sys.stderr.flush()
    return 0
