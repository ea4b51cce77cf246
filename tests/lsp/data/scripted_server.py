"""A language server that follows a plan, including what no server should do; the plan is in the same folder.

The plan has `capabilities`, `results` and `errors` by method, and `acts` by method: what to do when a message of that
method arrives, before it is answered. Every message is logged in the private /tmp of the server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, NoReturn

PLAN = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "plan.json")
SCRATCH = os.environ["TMPDIR"]


def main() -> NoReturn:
    note({"started": os.getpid(), "args": sys.argv[1:], "environ": dict(os.environ), "cwd": os.getcwd()})
    while True:
        message = receive()
        note(message)
        with open(PLAN, encoding="utf-8") as file:
            plan = json.load(file)
        method = message.get("method", "")
        for act in plan.get("acts", {}).get(method, []):
            perform(act, message)
        if "id" in message and method:
            answer(plan, message, method)
        if method == "exit":
            sys.exit(0)


def answer(plan: dict[str, Any], message: dict[str, Any], method: str) -> None:
    if method in plan.get("mute", ()):
        return
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if method in plan.get("errors", {}):
        reply["error"] = plan["errors"][method]
    elif method == "initialize":
        reply["result"] = {"capabilities": plan.get("capabilities", {})}
    else:
        reply["result"] = plan.get("results", {}).get(method)
    send(reply)


def perform(act: dict[str, Any], message: dict[str, Any]) -> None:
    kind = act["do"]
    if act.get("times") is not None:
        marker = os.path.join(SCRATCH, f"done-{kind}")
        done = os.path.getsize(marker) if os.path.exists(marker) else 0
        if done >= act["times"]:
            return
        with open(marker, "ab") as file:
            file.write(b"x")
    if kind == "die":
        sys.stderr.write("the server is dying\n")
        sys.stderr.flush()
        os._exit(act.get("status", 7))
    elif kind == "send":
        send(act["message"])
    elif kind == "raw":
        os.write(1, act["text"].encode())
    elif kind == "sleep":
        time.sleep(act["seconds"])
    elif kind == "stop":  # reads nothing any more
        while True:
            time.sleep(60)
    elif kind == "flood":
        while True:
            send({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 4, "message": "x" * 10}})
    elif kind == "gobble":
        blocks = []
        while True:
            blocks.append(bytearray(os.urandom(1 << 20) * 16))
    elif kind == "publish":  # diagnostics of the file that was opened or changed
        document = message["params"]["textDocument"]
        items = act["items"].get(str(document["version"]), act["items"].get("*", []))
        params = {"uri": document["uri"], "diagnostics": items}
        if act.get("versions", True):
            params["version"] = document["version"]
        send({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params})
    elif kind == "try":  # what the sandbox allows
        outcomes = {}
        for path in act["read"]:
            try:
                with open(path, encoding="utf-8") as file:
                    outcomes[path] = file.read()
            except OSError as error:
                outcomes[path] = type(error).__name__
        for path in act["write"]:
            try:
                with open(path, "w", encoding="utf-8") as file:
                    outcomes[path] = "written"
            except OSError as error:
                outcomes[path] = type(error).__name__
        note({"outcomes": outcomes, "network": network()})


def network() -> str:
    import socket

    try:
        socket.create_connection(("127.0.0.1", 9), timeout=2).close()
    except OSError as error:
        return type(error).__name__
    return "connected"


def receive() -> dict[str, Any]:
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if not line.strip():
            break
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
    return message


def send(message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    data = memoryview(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    while data:
        data = data[os.write(1, data) :]


def note(value: dict[str, Any]) -> None:
    with open(os.path.join(SCRATCH, "log.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


main()
