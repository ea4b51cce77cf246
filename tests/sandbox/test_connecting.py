"""Confined programs connect to Unix sockets of their session, and to no others, under whatever name or address."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from hilt.sandbox import ruleset
from tests.marks import wait_until
from tests.sandbox.confined import Box, Worker

NETWORKS = [("bubblewrap", "none"), ("bubblewrap", "loopback"), ("bubblewrap", "full"), ("landlock", "full")]


def _opens_threads() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid(), os.O_EXCL))
    except OSError:
        return False
    return True


class Place:
    """A workspace whose programs have a network, and services outside the sandbox."""

    def __init__(self, box: Box, network: str, stack: ExitStack) -> None:
        self.box, self.network, self._stack = box, network, stack
        self.heard: list[bytes] = []

    def python(self, script: str, **changes: Any) -> str:
        """The output of a Python script."""
        file = self.box.write("ws/script.py", script)
        return self.box.run(f"python3 -I -S {file}", **{"network": self.network, **changes}).output

    def job(self, script: str) -> None:
        """Start a Python script, and wait for its first line."""
        file = self.box.write("ws/job.py", script)
        job = self.box.start(f"python3 -I -S {file}", network=self.network)
        self._stack.callback(self.box.stop, job)

    def serve(self, address: str, kind: int = socket.SOCK_STREAM) -> None:
        """Start a service outside, which everybody may use."""
        sock = self._stack.enter_context(closing(socket.socket(socket.AF_UNIX, kind)))
        sock.bind(address)
        if not address.startswith("\0"):
            os.chmod(address, 0o777)
            os.chown(address, self.box.worker.uid, -1)
        sock.settimeout(0.05)
        if kind != socket.SOCK_DGRAM:
            sock.listen()
        stopped = threading.Event()

        def run() -> None:
            while not stopped.is_set():
                try:
                    if kind == socket.SOCK_DGRAM:
                        self.heard.append(sock.recv(9))
                    else:
                        with closing(sock.accept()[0]) as connection:
                            self.heard.append(b"connected")
                            connection.send(b"outside")
                except OSError:
                    continue

        thread = threading.Thread(target=run)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(stopped.set)


@pytest.fixture(params=NETWORKS, ids=" ".join)
def place(request: pytest.FixtureRequest, worker: Worker) -> Iterator[Place]:
    kind, network = request.param
    if not (ruleset.abi() if kind == "landlock" else shutil.which("bwrap")):
        pytest.skip(f"needs {kind}")
    box = Box(worker, kind="landlock" if kind == "landlock" else "")
    with ExitStack() as stack:
        stack.callback(box.close)
        yield Place(box, network, stack)


USE = """
import os, socket
def use(address, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect(address)
        print(s.recv(9).decode(), flush=True)
def listen(address, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(address)
    s.listen()
    return s
"""

REACHES = {
    "by its path": "use(path)",
    "by a relative name": "os.chdir(os.path.dirname(path)); use('service')",
    "renamed": "os.rename(path, 'sub/new'); use('sub/new')",
    "by a hard link": "os.link(path, 'linked'); use('linked')",
    "by a symbolic link": "os.symlink(path, 'link'); use('link')",
    "through /proc": "use('/proc/self/cwd/service')",
    "by a handle": "fd = os.open(path, os.O_PATH); use(f'/proc/self/fd/{fd}'); use(f'/dev/fd/{fd}')",
    "over a socket of its own": "l = listen('own'); os.unlink('own'); os.link(path, 'own'); use('own')",
    "with a name of its own": "l = listen('own'); os.rename('own', 'other'); os.rename(path, 'own'); use('own')",
    "in packets": "use(top + '/service.packets', socket.SOCK_SEQPACKET)",
    "by datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'evil', top + '/service.datagrams')",
    "by a raw socket": "socket.socket(socket.AF_UNIX, socket.SOCK_RAW).sendto(b'evil', top + '/service.datagrams')",
    "by one of a pair": "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'evil', top + '/service.datagrams')",
    "by sendmsg": "socket.socketpair()[0].sendmsg([b'evil'], [], 0, top + '/service.datagrams')",
    "without a connection": "socket.socket(socket.AF_UNIX).sendto(b'evil', path)",
    "by an abstract name": "use(name)",
    "on a thread": "from concurrent.futures import ThreadPoolExecutor as E; E().submit(use, path).result()",
}
TRY = """
top = os.getcwd()
for number, way in enumerate(ways.values()):
    os.makedirs(f"{top}/{number}/sub")
    os.chdir(f"{top}/{number}")
    os.link(f"{top}/service", "service")
    try:
        exec(way, {**globals(), "path": path.replace("service", f"{number}/service")})
    except OSError as error:
        print("Error", error)
    else:
        print("fine", way)
"""


def test_services_outside_are_not_reachable(place):
    path, name = str(place.box.workspace / "service"), f"\0hilt-test-{place.box.base.name}"
    place.box.mkdir("ws/sub")
    place.serve(path)
    place.serve(path + ".packets", socket.SOCK_SEQPACKET)
    place.serve(path + ".datagrams", socket.SOCK_DGRAM)
    place.serve(name)

    output = place.python(f"{USE}\npath, name, ways = {path!r}, {name!r}, {REACHES!r}\n{TRY}")

    assert output.count("Error") == len(REACHES)
    assert "outside" not in output
    assert place.heard == []


def test_a_service_that_starts_later_is_not_reachable(place):
    path = str(place.box.workspace / "service")
    place.job(f"{USE}\nimport time\nprint('on', flush=True)\nwhile True:\n try: use({path!r})\n except OSError: pass\n")
    place.serve(path)

    assert "Error" in place.python(f"{USE}\nuse({path!r})")
    assert place.heard == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_service_in_another_network_is_not_reachable(place):
    path = str(place.box.workspace / "service")
    script = f"{USE}\nl = listen({path!r})\nos.chmod({path!r}, 0o777)\nl.accept()[0].send(b'outside')"
    with subprocess.Popen(["unshare", "--net", sys.executable, "-I", "-S", "-c", script]) as server:
        try:
            wait_until(lambda: os.path.exists(path) and os.stat(path).st_mode & 0o777 == 0o777)
            assert "Error" in place.python(f"{USE}\nuse({path!r})")
        finally:
            server.kill()


SWAPS = {
    "the name": "move('own', 'a'); move('service', 'own'); move('own', 'service'); move('a', 'own')",
    "a link": "os.unlink('link'); os.symlink(path, 'link'); os.unlink('link'); os.symlink('own', 'link')",
    "the address": "ctypes.memmove(at, outer, len(outer)); ctypes.memmove(at, inner, len(inner))",
    "the descriptor": "os.dup2(tcp.fileno(), fd); os.dup2(unix.fileno(), fd)",
}
RACE = """
import ctypes, errno, os, socket, struct, threading, time
libc = ctypes.CDLL(None, use_errno=True)
l = listen('own')
os.symlink('own', 'link')
def accept():
    while True:
        l.accept()[0].close()
threading.Thread(target=accept, daemon=True).start()
def raw(name):
    return struct.pack('=H', 1) + name.encode() + b'\\0'
# padded: the lengths of addresses must not differ
outer, inner = raw('././././service'), raw('./././././././own')
outer += bytes(len(inner) - len(outer))
at = ctypes.create_string_buffer(inner, len(inner))
tcp, unix = socket.socket(), socket.socket(socket.AF_UNIX)
move = os.rename
end = time.monotonic() + 0.7
def swap():
    fd = os.dup(0)
    globals()['fd'] = fd
    while time.monotonic() < end:
        try:
            SWAP
        except OSError:
            pass
thread = threading.Thread(target=swap)
thread.start()
tries = 0
while time.monotonic() < end:
    name = {'the name': 'own', 'a link': 'link'}.get(KIND)
    s = socket.socket(socket.AF_UNIX)
    if name:
        try: s.connect(name)
        except OSError: pass
    elif KIND == 'the address':
        libc.connect(s.fileno(), at, len(inner))
    else:
        libc.connect(globals().get('fd', 0), outer, len(outer))
    s.close()
    tries += 1
print(tries)
"""


@pytest.mark.parametrize("kind", SWAPS)
def test_what_changes_after_the_check_makes_no_difference(place, kind):
    path = str(place.box.workspace / "service")
    place.serve(path)

    output = place.python(f"{USE}\npath, KIND = {path!r}, {kind!r}\n{RACE.replace('SWAP', SWAPS[kind])}")

    assert int(output) > 5
    assert place.heard == []


SERVE = """
l = listen(ADDRESS)
print('on', flush=True)
while True:
    l.accept()[0].send(b'inside')
"""


@pytest.mark.parametrize("address", ["'own'", "os.environ['TMPDIR'] + '/own'", "f'\\0{os.getcwd()}'"])
def test_a_program_reaches_its_own_sockets(place, address):
    script = f"""{USE}
import threading
l = listen({address})
def accept():
    for _ in range(2):
        l.accept()[0].send(b"inside")
threading.Thread(target=accept).start()
use({address})
if os.fork() == 0:
    use({address})
    os._exit(0)
os.wait()
"""
    assert place.python(script).split() == ["inside", "inside"]


@pytest.mark.parametrize("address", ["'own'", "os.environ['TMPDIR'] + '/own'"])
def test_commands_of_a_session_reach_the_sockets_of_its_jobs(place, address):
    if place.network == "none":
        place.job(USE + SERVE.replace("ADDRESS", address))
        assert "Error" in place.python(f"{USE}\nuse({address})")
        return
    place.job(USE + SERVE.replace("ADDRESS", address))

    assert place.python(f"{USE}\nuse({address})") == "inside\n"
    assert place.python(f"{USE}\nos.rename('own', 'new'); os.symlink('new', 'link'); use('link')") == "inside\n" or (
        "TMPDIR" in address
    )
    assert "Error" in place.python(f"{USE}\nuse({address})", session="s2")
    assert "Error" in place.python(f"{USE}\nuse({address})", network="none")


def test_a_person_can_name_a_socket(place):
    path, other = (str(place.box.base / "home" / name) for name in ("agent.sock", "other.sock"))
    place.serve(path)
    place.serve(other)

    if place.network == "none":
        assert "Error" in place.python(f"{USE}\nuse({path!r})", sockets=[path])
        return
    assert place.python(f"{USE}\nuse({path!r})", sockets=[path]) == "outside\n"
    assert place.heard == [b"connected"]
    assert "Error" in place.python(f"{USE}\nuse({other!r})", sockets=[path])
    assert "Error" in place.python(f"{USE}\nuse({path!r})", sockets=[path], network="none")
    assert place.heard == [b"connected"]


def test_what_people_use_works(place):
    script = """
import asyncio, multiprocessing.managers, socket, sys
with multiprocessing.managers.SyncManager() as manager:
    print(manager.dict(a=1))
async def main():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    async with await asyncio.start_unix_server(serve, "asyncio.sock"):
        reader, writer = await asyncio.open_unix_connection("asyncio.sock")
        writer.write(b"echo\\n")
        print(await reader.readline())
        writer.close()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"tcp\\n")
        print(await reader.readline())
        writer.close()
if __name__ == "__main__":
    asyncio.run(main())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        print(client.getpeername() == server.getsockname())
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", 9))
"""
    indented = script.replace("with multiprocessing", "if __name__ == '__main__':\n  with multiprocessing", 1)
    indented = indented.replace("    print(manager", "      print(manager", 1)

    assert place.python(indented) == "{'a': 1}\nb'echo\\n'\nb'tcp\\n'\nTrue\n"


@pytest.mark.parametrize(
    "script, error",
    [
        ("socket.socket().connect(('127.0.0.1', 1))", "Connection refused"),
        ("use('missing')", "No such file"),
        ("open('file', 'w'); use('file')", "Connection refused"),
        ("listen('gone').close(); use('gone')", "Connection refused"),
        ("use('')", "Invalid argument"),
        ("l = listen('own', socket.SOCK_SEQPACKET); use('own')", "wrong type"),
        ("s = socket.socketpair()[0]; listen('own'); s.connect('own')", "Connection refused"),
        ("socket.socket(fileno=os.open('.', os.O_RDONLY), family=1, type=1).connect('x')", "non-socket"),
        ("import ctypes; c = ctypes.CDLL(None, use_errno=True); s = socket.socket();"
         " c.connect(s.fileno(), 1, 16); raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))",
         "Bad address"),
    ],
)  # fmt: skip
def test_a_failed_connection_has_its_usual_reason(place, script, error):
    assert error in place.python(f"{USE}\n{script}")


def test_many_connections_at_once_are_all_made(place):
    script = f"""{USE}
import threading
l = listen("own")
l.listen(1000)
together = threading.Barrier(200)
def connect():
    together.wait()
    for _ in range(4):
        socket.socket(socket.AF_UNIX).connect("own")
threads = [threading.Thread(target=connect) for _ in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    assert place.python(script) == ""


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET"])
def test_a_connection_that_a_signal_interrupts_is_made_once(place, family):
    script = f"""{USE}
import ctypes, errno, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
l = socket.socket(socket.{family})
l.bind("own" if l.family == socket.AF_UNIX else ("127.0.0.1", 0))
l.listen(4096)
unix = struct.pack("=H", 1) + b"own\\0"
address = unix if l.family == socket.AF_UNIX else struct.pack("=H", 2) + struct.pack(
    ">HI8x", l.getsockname()[1], 0x7F000001)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in range(800):
    s = socket.socket(socket.{family})
    if libc.connect(s.fileno(), address, len(address)):
        print(errno.errorcode[ctypes.get_errno()])
    l.accept()[0].close()
    s.close()
"""
    assert place.python(script) == ""


@pytest.mark.skipif(not _opens_threads(), reason="needs Linux 6.9")
def test_a_thread_connects_after_the_first_thread_has_ended(place):
    script = f"""{USE}
import ctypes, os, threading, time
l = listen("own")
def connect():
    while "Z" not in open(f"/proc/{{os.getpid()}}/stat").read().rpartition(")")[2].split()[0]:
        time.sleep(0.01)
    try:
        socket.socket(socket.AF_UNIX).connect("own")
        print("connected", flush=True)
    finally:
        os._exit(0)
threading.Thread(target=connect).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    assert place.python(script) == "connected\n"


def test_a_connection_that_waits_does_not_delay_the_end(place):
    full = "l = listen('own')\nfor _ in range(200):\n s = socket.socket(1); s.setblocking(False); kept.append(s)\n"
    script = f"{USE}\nkept = []\n{full} try: s.connect('own')\n except BlockingIOError: break\n"
    script += "import signal\nsignal.alarm(1)\nsocket.socket(1).connect('own')"

    assert "Error" not in place.python(script.replace("l = listen('own')", "l = listen('own'); l.listen(2)"))
