"""HTTP: many clients at once against an echo on the same server library, and the memory of idle WebSockets."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from benchmarks.program import HILT

CLIENTS = 200
CALLS = 10_000
SOCKETS = 200
TOKEN = "token-of-the-benchmark-0123456789"
REFERENCE = "echo on uvicorn"

_ECHO = """
import uvicorn

async def echo(scope, receive, send):
    if scope["type"] != "http":
        return
    body = (await receive())["body"]
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(256)
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(echo, http="httptools", log_config=None, lifespan="off")).run(sockets=[listener])
"""


@contextmanager
def server(place: Place, command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a server that prints its address; yield it with its port."""
    environ = {**place.environ, "HILT_TOKEN": TOKEN, "HILT_AGENT_TOKEN": TOKEN[::-1]}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=place.workspace, env=environ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode()
        try:
            yield process, int(address.split(":")[2].split("/")[0])
        finally:
            process.kill()


class Load:
    """Clients that call without a pause, each on its own connection."""

    def __init__(self, port: int, request: bytes) -> None:
        self._port = port
        self._request = request
        self.seconds: list[float] = []

    def run(self, calls: int) -> float:
        """Make these calls, and return how many were answered in a second."""
        clients = [socket.create_connection(("127.0.0.1", self._port)) for _ in range(min(CLIENTS, calls))]
        with select.epoll() as poll, ExitStack() as stack:
            for client in clients:
                stack.enter_context(client)
                poll.register(client, select.EPOLLIN)
            began = time.perf_counter()
            self._call(poll, {client.fileno(): client for client in clients}, calls)
            return calls / (time.perf_counter() - began)

    def _call(self, poll: select.epoll, clients: dict[int, socket.socket], calls: int) -> None:
        unsent, unanswered = calls - len(clients), calls
        answers = dict.fromkeys(clients, b"")
        for client in clients.values():
            client.sendall(self._request)
        sent_at = dict.fromkeys(clients, time.perf_counter())
        while unanswered:
            for number, _ in poll.poll():
                client = clients[number]
                data = client.recv(1 << 16)
                answers[number] += data
                if not data:
                    raise ConnectionError("the server has closed a connection")
                if not is_whole(answers[number]):
                    continue
                self.seconds.append(time.perf_counter() - sent_at[number])
                answers[number] = b""
                unanswered -= 1
                if unsent:
                    unsent -= 1
                    sent_at[number] = time.perf_counter()
                    client.sendall(self._request)

    def percentile(self, percent: int) -> float:
        """Return a percentile of the response times, in milliseconds."""
        return sorted(self.seconds)[len(self.seconds) * percent // 100] * 1000


def is_whole(answer: bytes) -> bool:
    """Whether a response is complete; raise if the call failed."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if len(body) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 1):
        return False
    if not head.startswith(b"HTTP/1.1 200") or b'"ok":false' in body:
        raise RuntimeError(f"a call failed: {answer!r}")
    return True


def request(port: int, path: str) -> bytes:
    """Return a request for read_file."""
    body = json.dumps({"tool": "read_file", "args": {"path": path}}).encode()
    head = f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN[::-1]}\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


async def open_sockets(port: int) -> list[asyncio.StreamWriter]:
    """Open idle, authenticated WebSockets."""
    hello = json.dumps({"token": TOKEN, "approver": False}).encode()
    frame = bytes([0x81, 0x80 | len(hello), 0, 0, 0, 0]) + hello
    writers: list[asyncio.StreamWriter] = []
    for _ in range(SOCKETS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame)
        writers.append(writer)
    await asyncio.sleep(2)
    return writers


def resident_megabytes(pid: int) -> float:
    """Return the memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def figures() -> Iterator[Figure]:
    """Measure the rate, the slowest calls, the memory of WebSockets, and the end under load."""
    with fresh_place(files=1) as place:
        with server(place, [sys.executable, "-c", _ECHO]) as (process, port):
            echo = Load(port, request(port, small_name(0)))
            echo_spent = processor_seconds(process.pid)
            echoed = echo.run(CALLS)
            echo_spent = (processor_seconds(process.pid) - echo_spent) / CALLS * 1000
        with server(place, [HILT, "serve", "--port", "0", "--no-open"]) as (process, port):
            load = Load(port, request(port, small_name(0)))
            load.run(CLIENTS)  # the first calls load the tool
            load.seconds.clear()
            spent, own = processor_seconds(process.pid), time.process_time()
            rate = load.run(CALLS)
            spent = (processor_seconds(process.pid) - spent) / CALLS * 1000
            own = (time.process_time() - own) / CALLS * 1000
            name = f"HTTP, read_file, {CLIENTS} clients"
            yield Figure(f"{name}, calls/s", rate, "/s", REFERENCE, echoed, minimum=1000)
            for percent in (50, 99):
                measured, reference = load.percentile(percent), echo.percentile(percent)
                yield Figure(f"{name}, p{percent}", measured, "ms", REFERENCE, reference)
            yield Figure("the same, CPU of the server per call", spent, "ms", REFERENCE, echo_spent, maximum=0.9)
            yield Figure("the same, CPU of the clients per call", own, "ms", "the server", spent)
            yield asyncio.run(_sockets(process.pid, port))
            yield _end(process, port)


async def _sockets(pid: int, port: int) -> Figure:
    before = resident_megabytes(pid)
    writers = await open_sockets(port)
    grown = resident_megabytes(pid) - before
    for writer in writers:
        writer.close()
    return Figure(f"HTTP, {SOCKETS} idle WebSockets", grown, "MB", "server without them", before, maximum=20)


def _end(process: subprocess.Popen[bytes], port: int) -> Figure:
    load = threading.Thread(target=_load_until_end, args=(port,))
    load.start()
    time.sleep(1)
    began = time.perf_counter()
    process.send_signal(signal.SIGINT)
    process.wait()
    seconds = time.perf_counter() - began
    load.join()
    return Figure("HTTP, end under load", seconds, "s", "limit", 5, maximum=5)


def _load_until_end(port: int) -> None:
    with suppress(OSError):
        Load(port, request(port, small_name(0))).run(10**9)
