"""Runs in a waiting sandbox, and becomes the program that hilt starts there.

It tells the process that completes the sandbox where to mount: see `_fork_mounter` in keeper.py. Then it receives the
program. This module runs without the rest of hilt, and as confined as the program.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import resource  # noqa: F401 -- used by keeper.limit, when the program is to start at once
from errno import EACCES, ENOENT, ENOEXEC, ENOTDIR

_SHELL = b"/bin/sh"


def main(descriptor: int) -> None:
    """Wait for a program on a socket, and become it."""
    import keeper  # type: ignore[import-not-found]

    os.set_inheritable(descriptor, False)  # noqa: FBT003 -- takes no keyword
    channel = _socket.socket(fileno=descriptor)
    places = os.open("/", os.O_PATH | os.O_CLOEXEC), os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    channel.sendmsg([keeper.READY], keeper.pack_fds(*places))
    body, fds = keeper.receive_body(channel)
    if not body:
        return
    argv, env, rlimits, cwd = marshal.loads(body)  # noqa: S302 -- hilt
    *streams, fault = fds
    step = "start"
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for signal_number in keeper.IGNORED_BY_PYTHON:
            signal.signal(signal_number, signal.SIG_DFL)
        step = "limits"
        keeper.limit(rlimits)
        step = "cwd"
        os.chdir(cwd)
        step = "exec"
        os.write(fault, keeper.READY)
        _execute(argv, env)
    except OSError as error:
        os.write(fault, marshal.dumps((step, error.errno or 0)))


def _execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Become a program as execvp does, which bubblewrap uses: a file without a format is a shell script."""
    program = argv[0]
    folders = env.get(b"PATH", os.defpath.encode()).split(b":")
    paths = [program] if b"/" in program else [(folder or b".") + b"/" + program for folder in folders]
    refusal = OSError(ENOENT, "")
    for path in paths:
        try:
            # in folders that lack the program, stat fails faster than execve
            os.stat(path)
            os.execve(path, argv, env)  # noqa: S606 -- no shell on purpose
        except OSError as error:
            if error.errno == ENOEXEC:
                os.execve(_SHELL, [_SHELL, path, *argv[1:]], env)  # noqa: S606
            if error.errno == EACCES:
                refusal = error
            elif error.errno not in (ENOENT, ENOTDIR):
                raise
    raise refusal
