"""A small process that releases keys and buttons, and restores the keyboard's map, if hilt dies while it holds them.

It learns of every press before it happens, on a pipe. The pipe ends with hilt, however that ends: then it releases
what is still pressed, and exits.
"""

from __future__ import annotations

import os
import subprocess
import sys

from hilt.errors import ToolError

READY = b"ready\n"
CLOSE_SECONDS = 5.0
_LAUNCH = f"import sys; sys.path[:] = {{!r}}; from {__name__} import main; main()"
_PRESSES = {"key": 2, "button": 4}  # the events of X; a release follows its press


class DeadManSwitch:
    """This side of the pipe; the process is started for the first press, and again if it was ended."""

    def __init__(self, display: str) -> None:
        self._display = display
        self._process: subprocess.Popen[bytes] | None = None
        self._writing = -1

    def hold(self, kind: str, code: int) -> None:
        """Announce that a key or button is about to be pressed."""
        self._tell(f"hold {kind} {code}")

    def let_go(self, kind: str, code: int) -> None:
        """Report that a key or button was released."""
        self._tell(f"let_go {kind} {code}")

    def remap(self, first: int, count: int, width: int) -> None:
        """Announce that spare keys get a meaning; `width` is the number of symbols that each has."""
        self._tell(f"remap {first} {count} {width}")

    def restored(self) -> None:
        """Report that all spare keys are without a meaning again."""
        self._tell("restored")

    def _tell(self, line: str) -> None:
        data = f"{line}\n".encode()
        for _ in range(2):
            try:
                os.write(self._pipe(), data)
            except OSError:
                self.close()  # somebody ended it; nothing is pressed between two actions
            else:
                return
        raise _missing()

    def _pipe(self) -> int:
        """Return where to write; start the process if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            reading, self._writing = os.pipe()
            ready, report = os.pipe()
            try:
                # a session of its own: a signal to the group of hilt must not end it before it has released the keys
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _LAUNCH.format(sys.path), self._display],
                    stdin=reading,
                    stdout=report,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            finally:
                os.close(reading)
                os.close(report)
            try:
                if os.read(ready, len(READY)) != READY:
                    self.close()
                    raise _missing()
            finally:
                os.close(ready)
        return self._writing

    def close(self) -> None:
        """End the process; it releases what is still pressed."""
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


def _missing() -> ToolError:
    message = "The process that would release the keys if hilt died does not start, so nothing was pressed."
    return ToolError("tool_failed", message, suggestion="Try again; if it fails again, ask the user.")


def main() -> None:
    """Watch over one hilt; the argument is the display."""
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
        verb, *words = line.decode().split()
        if verb == "hold":
            held.append((words[0], int(words[1])))
        elif verb == "let_go" and (words[0], int(words[1])) in held:
            held.remove((words[0], int(words[1])))
        elif verb == "remap":
            borrowed.append((int(words[0]), int(words[1]), int(words[2])))
        elif verb == "restored":
            borrowed.clear()
    for kind, code in reversed(held):
        test.FakeInput(_PRESSES[kind] + 1, code, 0, root, 0, 0, 0)
    for first, count, width in borrowed:
        connection.core.ChangeKeyboardMapping(count, first, width, [0] * (count * width))
    connection.core.GetInputFocus().reply()
