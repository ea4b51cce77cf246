"""A process that has imported all of hilt and runs it in forks, which saves the import time.

    forking.py LISTENER HILT

Each connection to the listening socket is one stand-in (`stand_in.py`), for which it forks. Words such as
`hilt.surfaces.http.listening:HEAD_SECONDS=2` before the others override a constant in the fork. After `-m` or `-c`, the
fork runs the named module or the code instead of hilt, as Python does.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import marshal
import os
import re
import runpy
import select
import signal
import socket
import sys
import termios
import threading
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

REQUEST_BYTES = 1 << 17
HUGE_PAGE_BYTES = 2 << 20
MADV_COLLAPSE = 25  # of Linux 6.1; an older one refuses it


def serve(listener: socket.socket) -> list[str]:
    """Fork for each connection until standard input ends; return, in each fork, the arguments."""
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        watched: list[int | socket.socket] = [0, wake, listener, *running.values()]
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        for pid, connection in running.items():
            if connection in ready:  # the stand-in was killed
                os.kill(pid, signal.SIGKILL)
        if wake in ready:
            os.read(wake, 4096)
            _reap(running)
        if listener in ready:
            connection = listener.accept()[0]
            request, streams, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                words, environ, folder, session = marshal.loads(request)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                os.closerange(3, max(listener.fileno(), connection.fileno(), wake, woken, *streams) + 1)
                os.environb.clear()
                os.environb.update(environ)
                os.chdir(folder)
                if session:
                    os.setsid()
                    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
                # as a new interpreter opens them; a terminal is line buffered
                sys.stdin = os.fdopen(0, errors=sys.stdin.errors, newline="\n", closefd=False)
                sys.stdout = os.fdopen(1, "w", errors=sys.stdout.errors, newline="\n", closefd=False)
                sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", newline="\n", closefd=False)
                return words  # type: ignore[no-any-return]
            for stream in streams:
                os.close(stream)
            running[pid] = connection
            with suppress(OSError):  # the stand-in may have been killed; then the fork is killed too
                connection.send(str(pid).encode())


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as connection, suppress(OSError):  # the stand-in may have ended
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def run_program(option: str, program: str, *words: str) -> int:
    """Run a module below the working directory, or code, as Python does with `-m` and `-c`."""
    sys.path[0] = os.getcwd()
    try:
        if option == "-m":
            sys.argv = [program, *words]
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.argv = [option, *words]
            exec(program, {"__name__": "__main__"})
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def use_huge_pages() -> None:
    """Move the memory of this process to huge pages where the system can: a fork then costs half as much."""
    with suppress(OSError), open("/proc/self/maps") as maps:
        libc = ctypes.CDLL(None)
        for line in maps.read().splitlines():
            addresses, rights, *_, inode = line.split()[:5]
            start, end = (int(address, 16) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES for address in addresses.split("-"))
            start += HUGE_PAGE_BYTES
            if rights == "rw-p" and inode == "0" and start < end:
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_COLLAPSE)


def main() -> None:
    listener, program = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    sys.path[0] = os.path.dirname(program)  # as if that program had been started
    import hilt
    from hilt.surfaces.cli import main

    for module in walk_packages(hilt.__path__, "hilt."):
        # the desktop's modules are for one system each
        if module.name != "hilt.__main__" and not module.name.startswith("hilt.desktop."):
            import_module(module.name)
    import_module("pydantic_ai.models.openai")  # which hilt loads for the models of the tests
    assert threading.active_count() == 1
    gc.freeze()
    use_huge_pages()
    words = serve(listener)
    while words and (constant := re.fullmatch(r"(hilt[.\w]*):(\w+)=([\d.]+)", words[0])):
        changed, name, value = constant.groups()
        assert hasattr(sys.modules[changed], name)
        setattr(sys.modules[changed], name, float(value))
        del words[0]
    sys.argv = [program, *words]
    status = run_program(*words) if words[:1] in (["-m"], ["-c"]) else main()
    # like an interpreter at exit, but without freeing modules, which would copy all their memory
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
