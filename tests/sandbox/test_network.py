"""What a confined program can reach: nothing, the loopback network of its session, or everything."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from tests.marks import wait_until
from tests.sandbox.confined import Box

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")

CONNECT = "import socket, sys; s = socket.socket({family}, {kind}); s.settimeout(5); s.connect({address!r}); "
REQUEST = CONNECT + "s.send(b'hi'); print(s.recv(9).decode())"
SERVE = """
import socket, sys
s = socket.socket(socket.{family}, socket.SOCK_STREAM)
s.bind({address!r})
s.listen()
print("on", flush=True)
while True:
    c, _ = s.accept()
    c.recv(9)
    c.send(b"heard")
    c.close()
"""


def python(script: str) -> str:
    quoted = script.replace("'", "'\\''")
    return f"python3 -I -S -c '{quoted}'"


def request_script(family: str, kind: str, address: object) -> str:
    return python(REQUEST.format(family=f"socket.{family}", kind=f"socket.{kind}", address=address))


@contextmanager
def server(family: int, kind: int, address: Any) -> Iterator[tuple[str, int]]:
    """A service of the host that answers "heard"."""
    with closing(socket.socket(family, kind)) as sock:
        sock.bind(address)
        if kind == socket.SOCK_STREAM:
            sock.listen()
        stopped = threading.Event()
        sock.settimeout(0.05)

        def serve() -> None:
            while not stopped.is_set():
                try:
                    if kind == socket.SOCK_STREAM:
                        connection, _ = sock.accept()
                        with closing(connection):
                            connection.settimeout(5)
                            connection.recv(9)
                            connection.send(b"heard")
                    else:
                        _, sender = sock.recvfrom(9)
                        if sender:
                            sock.sendto(b"heard", sender)
                except OSError:
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sock.getsockname()
        finally:
            stopped.set()
            thread.join()


@pytest.mark.parametrize("network, is_reachable", [("none", False), ("loopback", False), ("full", True)])
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_services_of_the_host_are_reachable_only_with_the_full_network(box, network, is_reachable, kind):
    with server(socket.AF_INET, getattr(socket, kind), ("127.0.0.1", 0)) as address:
        done = box.run(request_script("AF_INET", kind, address), network=network)

    assert ("heard" in done.output) == is_reachable


@pytest.mark.parametrize("network", ["none", "loopback"])
def test_abstract_sockets_of_the_host_are_not_reachable(box, network):
    name = f"\0hilt-test-{box.base.name}"
    with server(socket.AF_UNIX, socket.SOCK_STREAM, name):
        done = box.run(request_script("AF_UNIX", "SOCK_STREAM", name), network=network)

    assert "heard" not in done.output


@pytest.mark.parametrize("network", ["none", "loopback", "full"])
@pytest.mark.parametrize("place", ["home", "ws"])
def test_sockets_of_the_host_at_a_path_are_not_reachable(box, network, place):
    path = str(box.base / place / "service.sock")
    with server(socket.AF_UNIX, socket.SOCK_STREAM, path):
        os.chmod(path, 0o777)
        done = box.run(request_script("AF_UNIX", "SOCK_STREAM", path), network=network)

    assert "heard" not in done.output


def test_a_socket_of_a_pair_reaches_no_other_process(box):
    path = str(box.workspace / "service.sock")
    script = python(f"import socket; a, b = socket.socketpair(type=socket.SOCK_DGRAM); print(a.sendto(b'x', {path!r}))")
    with server(socket.AF_UNIX, socket.SOCK_DGRAM, path):
        os.chmod(path, 0o777)

        assert box.run(script).code != 0
        assert box.run(script, without="filter").output == "1\n"
    assert box.run(python("import socket; socket.socketpair(); print(1)")).output == "1\n"


def test_commands_of_a_session_share_a_loopback(box):
    job = box.start(python(SERVE.format(family="AF_INET", address=("127.0.0.1", 8099))), network="loopback")
    script = request_script("AF_INET", "SOCK_STREAM", ("127.0.0.1", 8099))

    assert box.run(script, network="loopback").output == "heard\n"
    assert box.run(script, network="loopback", name="read-only").output == "heard\n"
    # not another session, not a program without a network, not the host
    assert box.run(script, network="loopback", session="s2").code != 0
    assert box.run(script, network="none").code != 0
    with closing(socket.socket()) as sock:
        assert sock.connect_ex(("127.0.0.1", 8099)) != 0

    box.stop(job)
    assert box.run(script, network="loopback").code != 0


def test_a_loopback_leads_nowhere_else(box):
    devices = box.run("ls /sys/class/net; cat /proc/net/dev | tail -n +3 | cut -d: -f1", network="loopback").output

    assert devices.split()[-1] == "lo"
    assert box.run("ip link add dummy0 type dummy", network="loopback").code != 0


def test_a_program_can_listen_on_a_socket_in_the_workspace(box):
    path = str(box.workspace / "own.sock")
    job = box.start(python(SERVE.format(family="AF_UNIX", address=path)), network="loopback")

    assert box.run(request_script("AF_UNIX", "SOCK_STREAM", path), network="loopback").output == "heard\n"
    box.stop(job)


def test_a_loopback_ends_with_the_sandbox(box):
    first = box.run("readlink /proc/self/ns/net", network="loopback").output
    assert box.run("readlink /proc/self/ns/net", network="loopback").output == first

    assert descriptors(box) == 2

    box.worker.ask(do="forget", state=str(box.state))

    # its number proves nothing: the kernel reuses it
    assert descriptors(box) == 0


def descriptors(box: Box) -> int:
    """How many namespaces the worker holds."""
    return sum("net:[" in path or "user:[" in path for path in open_paths(box))


def test_nothing_is_left_open_after_commands(box):
    for _ in range(2):  # from the second command on, the mount points are kept for the next
        box.run("true", network="loopback")
        box.run("true")
    before = count_open(box)

    for _ in range(3):
        box.run("true", network="loopback")
        box.run("true")

    assert count_open(box) == before


def count_open(box: Box) -> int:
    """How many descriptors the worker holds, once its threads have closed others."""

    def is_removed(path: str) -> bool:
        return path.startswith(f"{box.base}/") and path.endswith(" (deleted)")

    wait_until(lambda: not any(map(is_removed, open_paths(box))))
    return len(open_paths(box))


def open_paths(box: Box) -> list[str]:
    """The targets of the worker's descriptors; a thread may close some at the same time."""
    folder = f"/proc/{box.worker.pid}/fd"
    paths = []
    for fd in os.listdir(folder):
        with suppress(FileNotFoundError):
            paths.append(os.readlink(f"{folder}/{fd}"))
    return paths


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_ALG", "AF_PACKET"])
@pytest.mark.parametrize("network", ["none", "loopback", "full"])
def test_sockets_that_ignore_namespaces_are_refused(box, family, network):
    done = box.run(python(f"import socket; socket.socket(socket.{family}, socket.SOCK_DGRAM)"), network=network)

    assert done.code != 0
    assert "not supported" in done.output


def test_names_are_resolved_with_the_full_network(box):
    assert box.run("cat /etc/resolv.conf > /dev/null && getent hosts localhost", network="full").code == 0


def test_package_managers_with_a_network_use_the_private_cache(box):
    script = 'echo x > "$npm_config_cache/x" && echo y > "$GOMODCACHE/y" && echo fine'
    made = 'mkdir -p "$npm_config_cache" "$GOMODCACHE" && '

    assert box.run(made + script, network="full").output == "fine\n"
    assert box.run("cat ~/.cache/npm/x; echo ${npm_config_cache:-none}").output == "x\nnone\n"
    assert not box.home.joinpath(".cache/npm").exists()
    assert not box.home.joinpath(".npm").exists()
