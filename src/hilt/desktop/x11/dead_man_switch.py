"""A small process that releases keys and buttons, and restores the keyboard mapping, if hilt dies (ADR 0040).

hilt announces every press on a pipe before it sends it. The pipe closes when hilt ends, for whatever reason: then the
process releases all keys and buttons that are still pressed, and exits.
"""

from __future__ import annotations

import os
import subprocess
import sys

from hilt import variables
from hilt.errors import ToolError

READY = b"ready\n"
CLOSE_SECONDS = 5.0
_PRESSES = {"key": 2, "button": 4}  # the events of X; a release follows its press


def start_main(module: str, *args: str, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    """Start the `main` of a module as a process, which outlives a signal to hilt's process group."""
    launch = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", launch, *args],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=variables.libraries(os.environ, "HOME", "XAUTHORITY"),
        start_new_session=True,
    )


class DeadManSwitch:
    """This side of the pipe; the process is started at the first press, and restarted if it has ended."""

    def __init__(self, display: str) -> None:
        self._display = display
        self._process: subprocess.Popen[bytes] | None = None
        self._writing = -1

    def hold(self, kind: str, code: int) -> None:
        """Announce that a key or button is about to be pressed."""
        self._send(f"hold {kind} {code}")

    def release(self, kind: str, code: int) -> None:
        """Report that a key or button was released."""
        self._send(f"release {kind} {code}")

    def remap(self, first: int, count: int, width: int) -> None:
        """Announce that spare keys are remapped; `width` is the number of symbols per key."""
        self._send(f"remap {first} {count} {width}")

    def restored(self) -> None:
        """Report that all spare keys are unmapped again."""
        self._send("restored")

    def _send(self, line: str) -> None:
        data = f"{line}\n".encode()
        for _ in range(2):
            try:
                os.write(self._pipe(), data)
            except OSError:
                self.close()  # the process has ended; nothing is pressed between two actions
            else:
                return
        raise _not_started()

    def _pipe(self) -> int:
        """Return the descriptor to write to; start the process if it is not running."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            reading, self._writing = os.pipe()
            ready, report = os.pipe()
            try:
                self._process = start_main(__name__, self._display, stdin=reading, stdout=report)
            finally:
                os.close(reading)
                os.close(report)
            try:
                if os.read(ready, len(READY)) != READY:
                    self.close()
                    raise _not_started()
            finally:
                os.close(ready)
        return self._writing

    def close(self) -> None:
        """End the process; it releases all keys and buttons that are still pressed."""
        process, self._process = self._process, None
        writing, self._writing = self._writing, -1
        if writing >= 0:
            os.close(writing)
        if process is None:
            return
        try:
            process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _not_started() -> ToolError:
    message = "The process that releases keys if hilt dies did not start, so nothing was pressed."
    return ToolError("tool_failed", message, suggestion="Try again, or ask the user.")


def main() -> None:
    """Watch one hilt process; the argument is the display."""
    import xcffib
    import xcffib.xproto
    import xcffib.xtest

    connection = xcffib.connect(display=sys.argv[1])
    root = connection.get_setup().roots[connection.pref_screen].root
    test = connection(xcffib.xtest.key)
    test.GetVersion(2, 2).reply()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    held: list[tuple[str, int]] = []
    borrowed: list[tuple[int, int, int]] = []
    for line in sys.stdin.buffer:
        verb, *arguments = line.decode().split()
        if verb == "hold":
            held.append((arguments[0], int(arguments[1])))
        elif verb == "release" and (arguments[0], int(arguments[1])) in held:
            held.remove((arguments[0], int(arguments[1])))
        elif verb == "remap":
            borrowed.append((int(arguments[0]), int(arguments[1]), int(arguments[2])))
        elif verb == "restored":
            borrowed.clear()
    for kind, code in reversed(held):
        test.FakeInput(_PRESSES[kind] + 1, code, 0, root, 0, 0, 0)
    for first, count, width in borrowed:
        connection.core.ChangeKeyboardMapping(count, first, width, [0] * (count * width))
    connection.core.GetInputFocus().reply()
