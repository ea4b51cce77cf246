"""Serve a temporary playground: `make run`.

The playground is a small project with its own settings and state. The script makes calls in it, so that every page of
the console has something to show; some wait for an answer. Everything is removed when the server exits.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hilt.agents.durable.leases import AgentOwner
from hilt.agents.starting import transcripts_of
from hilt.runtime import Runtime
from hilt.state.approvals import attend
from hilt.state.roster import AgentLimits, AgentOutcome, AgentProfile, NewAgent
from hilt.state.spending import Spending
from hilt.surfaces.cli.serve import PORT, open_browser

MODEL = "anthropic:claude-sonnet-5-5"
SESSION = "shop"
WAITING = ("approvals", "questions")
LIMITS = AgentLimits(depth=5, children=20, idle_seconds=86_400)

PROJECT = {
    "price.py": "TAX = 19\n\n\ndef total(prices):\n    return sum(prices) * (100 + TAX) / 100\n",
    "shop.py": "from price import total\n\nprint(total([30, 40]))\n",
    "notes.txt": "Prices are whole numbers.\n",
    "README.md": "# Shop\n\nA **small** shop with one price list.\n\n1. Add prices.\n2. Print the total.\n",
    ".env": "TOKEN=secret\n",
    "build/shop.tar": "an old build\n",
    ".mcp.json": '{"mcpServers": {"stock": {"command": "python3", "args": ["stock_server.py"]}}}\n',
    ".hilt/permissions.yaml": "permissions:\n  allow:\n    - Bash(make:*)\n",
    ".hilt/tools/deploy.md": "---\nname: deploy\ndescription: Copy the shop to its server.\n---\necho deployed\n",
}
SETTINGS = {
    "config.toml": "[approvals]\ntimeout_s = 86400\n",
    "permissions.yaml": """\
permissions:
  default: ask
  allow:
    - run_shell
    - task
    - todo_write
    - web_fetch
    - Write(path:*.py)
    - Write(path:notes.txt)
  ask:
    - Bash(rm:*)
  deny:
    - Bash(git push:*)
""",
    "tools/label.md": """\
---
name: label
description: Print a price label.
parameters:
  price: { type: integer, required: true, description: Price in cents., minimum: 0 }
  currency: { type: string, enum: [EUR, USD], default: EUR }
approval: never
read_only: true
---
printf '%s %s.%02d\\n' {{ currency }} "$(({{ price }} / 100))" "$(({{ price }} % 100))"
""",
    "tools/invoice.md": """\
---
name: invoice
description: Print an invoice.
parameters:
  customer: { type: strng }
---
echo {{ customer }}
""",
}
PATCH = """\
*** Begin Patch
*** Update File: shop.py
@@
-print(total([30, 40]))
+print(f"{total([30, 40]):.2f}")
*** Add File: test_price.py
+from price import total
+
+assert total([100]) == 120
*** Delete File: notes.txt
*** End Patch
"""
COUNTER = r"""n=0; while n=$((n+1)); do printf '\033[32mok\033[0m  order %d shipped\n' $n; sleep 2; done"""
ECHO = 'while read -r line; do echo "You typed: $line"; done'
QUESTION = {
    "question": "Which currency do prices have?",
    "header": "Currency",
    "options": [
        {"label": "EUR", "description": "All customers are in Europe."},
        {"label": "USD", "description": "Prices go to the American shop, too."},
    ],
}
TASKS: list[dict[str, Any]] = [
    {"title": "Raise the tax to 20", "status": "completed", "owner": "shop"},
    {"title": "Print totals with two digits", "status": "in_progress", "owner": "shop"},
    {"title": "Write tests for prices", "description": "At least one price list that is empty."},
    {"title": "Publish version 2", "blockedBy": [2, 3]},
]


class Api:
    """A client of the server's API, as an agent or as the person."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self._port = port
        self._tokens = tokens

    def call(self, tool: str, *, session: str = SESSION, **args: Any) -> dict[str, Any]:
        """Call a tool as an agent, and return the envelope."""
        request = {"tool": tool, "args": args, "session": session}
        return self._send("POST", "/v1/call", request, self._tokens["HILT_AGENT_TOKEN"])

    def answer(self, approval: str, answer: str) -> None:
        """Answer an approval as the person."""
        self._send("POST", f"/v1/approvals/{approval}", {"answer": answer}, self._tokens["HILT_TOKEN"])

    def waiting(self) -> int:
        """Return how many approvals and questions wait for the person."""
        lists = [self._send("GET", f"/v1/{name}", None, self._tokens["HILT_TOKEN"])[name] for name in WAITING]
        return sum(map(len, lists))

    def _send(self, method: str, path: str, body: dict[str, Any] | None, token: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer: dict[str, Any] = json.load(response)
        if response.status != 200:
            raise SystemExit(f"playground: {method} {path} returned {response.status}: {answer['detail']}")
        return answer


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def play(api: Api) -> None:
    """Make the calls of an agent at work."""
    api.call("list_dir", path=".")
    api.call("read_file", path="price.py")
    api.call("search_files", pattern="total")
    api.call("edit_file", path="price.py", old_text="TAX = 19", new_text="TAX = 20")
    api.call("read_file", path=".env")  # refused: sensitive
    api.call("apply_patch", patch=PATCH)
    api.call("run_shell", command="python3 shop.py && python3 -m unittest -q")
    api.call("run_shell", command="git push --force")  # refused by a rule
    api.call("web_fetch", url="http://2130706433:8080/admin")  # refused: a private address
    api.call("label", price=1999)
    api.call("todo_write", todos=[{"content": "Round totals", "status": "in_progress"}])
    for task in TASKS:
        created = api.call("task", action="create", **{key: task[key] for key in task.keys() - {"status", "owner"}})
        if "status" in task:
            id = json.loads(created["result"])["task"]["id"]
            api.call("task", action="update", taskId=id, status=task["status"], owner=task["owner"])
    release = {"path": "release/notes.md", "content": "# Version 1\n"}
    waiting = api.call("write_file", **release)
    api.answer(waiting["meta"]["details"]["approval"], "always")
    api.call("write_file", **release)
    # commands of a session with running jobs cannot be previewed
    api.call("run_shell", session="watch", command=ECHO, run_in_background=True, tty=True)
    api.call("run_shell", session="watch", command=COUNTER, run_in_background=True)


def ask(api: Api) -> None:
    """Make calls that wait for a person's answer; return once they wait."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("edit_file", {"path": "README.md", "old_text": "one price list", "new_text": "two price lists"}),
        ("ask_user", {"questions": [QUESTION]}),
        ("run_shell", {"command": "ls build && rm -r build"}),
    ]

    def wait(tool: str, args: dict[str, Any]) -> None:
        with suppress(OSError, ValueError, http.client.HTTPException):  # the server has exited
            api.call(tool, **args)

    threads = [threading.Thread(target=wait, args=call, daemon=True) for call in calls]
    for number, thread in enumerate(threads, 1):
        thread.start()
        # without a sandbox, the command is refused at once
        while thread.is_alive() and api.waiting() < number:
            time.sleep(0.05)


def start_agents(runtime: Runtime, owner: AgentOwner) -> None:
    """Record a tree of agents: one that has answered, with one running and one failed child."""
    roster, transcripts = runtime.parts.roster, transcripts_of(runtime)

    def start(parent: str, name: str, title: str) -> str:
        profile = AgentProfile(("read_file", "search_files"), "normal", MODEL)
        new = NewAgent(parent, SESSION, "spawned", name, title, title, "{}", profile)
        id = roster.create(new, LIMITS, owner=owner.name).id
        with closing(transcripts.create(id, workspace=runtime.parts.root, model=MODEL, title=title)) as transcript:
            transcript.append("user", content=title)
            parts = [
                {"text": "I'll search for it."},
                {"call": "search_files", "id": "c1", "args": {"pattern": "total"}},
            ]
            transcript.append("answer", parts=parts, usage={"input_tokens": 2400, "output_tokens": 60}, cost=0.0081)
            transcript.append(
                "result", id="c1", tool="search_files", outcome="ok", content="price.py:4:def total(prices):"
            )
        return id

    reviewer = start(SESSION, "review", "Review how prices are rounded")
    start(reviewer, "explore", "Find all callers of total")
    failed = start(reviewer, "general", "Compare prices with the supplier's list")
    roster.finish(failed, owner.name, AgentOutcome("failed", "The list is not here.", "not_found", 5200, 410))
    roster.finish(reviewer, owner.name, AgentOutcome("completed", "Totals are rounded once.", "", 18_200, 1_350))
    with closing(Spending(runtime.parts.state)) as spending:
        today = str(date.today())  # noqa: DTZ011  # stored by local days
        spending.add(today, MODEL, input_tokens=25_800, output_tokens=1_820, cost=Decimal("0.1047"))


def free_port() -> int:
    """Return the default port if it is free, otherwise another."""
    for port in (PORT, 0):
        with socket.socket() as listener, suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            return int(listener.getsockname()[1])
    raise SystemExit("playground: there is no free port")


@contextmanager
def serving(project: Path, environ: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run `hilt serve`; yield it with the lines it prints at startup, then stop it."""
    hilt = os.path.join(os.path.dirname(sys.executable), "hilt")
    command = [hilt, "serve", "--no-open", "--port", str(free_port())]
    # in its own process group: Ctrl-C reaches only this script, which then stops the server
    server = subprocess.Popen(
        command, cwd=project, env=environ, stdout=subprocess.PIPE, text=True, process_group=0, stdin=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        lines = [server.stdout.readline(), server.stdout.readline()]
        if not all(lines):
            raise SystemExit(server.wait() or 1)
        yield server, lines
    finally:
        server.terminate()
        server.wait()


def main() -> int:
    """Serve the playground until a signal arrives."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell script ignores it for background commands
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    place = Path(tempfile.mkdtemp(prefix="hilt-playground-"))
    try:
        return serve(place)
    except KeyboardInterrupt:
        return 0
    finally:
        shutil.rmtree(place, ignore_errors=True)


def serve(place: Path) -> int:
    """Serve a playground in this folder; return the exit status of the server if it exits by itself."""
    project, config, state = place / "shop", place / "config", place / "state"
    write_files(project, PROJECT)
    write_files(config, SETTINGS)
    tokens = {name: secrets.token_urlsafe(24) for name in ("HILT_TOKEN", "HILT_AGENT_TOKEN")}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HILT_")}
    environ.pop("WORKSPACE_ROOT", None)
    environ |= {"HILT_CONFIG_DIR": str(config), "HILT_STATE_DIR": str(state), "HILT_RESIDENT": "off"}
    with ExitStack() as stack:
        runtime = stack.enter_context(Runtime(str(project), session=SESSION, environ=environ))
        owner = stack.enter_context(closing(AgentOwner(runtime, 0)))
        start_agents(runtime, owner)
        server, lines = stack.enter_context(serving(project, environ | tokens))
        port = urlsplit(lines[0]).port
        assert port is not None
        api = Api(port, tokens)
        play(api)
        stack.enter_context(attend(runtime.parts.state))
        ask(api)
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        if sys.stdout.isatty():
            open_browser(lines[0].strip(), runtime.parts.state, runtime.parts.surroundings)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
