"""A desktop for tests: an X server, a window manager, D-Bus with the accessibility bus, and programs on it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hilt.call import Call, Result
from hilt.runtime import Runtime
from hilt.testing import environment
from tests.marks import HANG_SECONDS, wait_until
from tests.probed import remember_sandbox
from tests.programs import program

# required programs, and files of other Debian packages
PROGRAMS = ("Xvfb", "openbox", "dbus-daemon", "xterm")
FILES = ("/usr/libexec/at-spi-bus-launcher", "/usr/lib/python3/dist-packages/gi")
FORM = Path(__file__).parent / "data/form.py"
SIZE = (1280, 800)
NAMES = itertools.count()
_CONFIG = """<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<standard_session_servicedirs/><policy context="default"><allow send_destination="*" eavesdrop="true"/>
<allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"""


def require_desktop() -> None:
    """Skip the test if the system has no desktop to start; fail where CI is set."""
    if sys.platform != "linux":
        pytest.skip("desktop tests need X11")
    for name in PROGRAMS:
        program(name)
    pytest.importorskip("xcffib", reason="the extra desktop is not installed")
    for path in FILES:
        if not os.path.exists(path):
            missing = f"{path} is not installed: make setup installs it on Debian"
            pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


class XSession:
    """One desktop, with a runtime that may use it."""

    def __init__(self, folder: str, size: tuple[int, int] = SIZE) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[Any]] = []
        self.display = self._start_server(size)
        bus = os.path.join(folder, "bus")
        Path(folder, "bus.conf").write_text(_CONFIG.format(path=bus))
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": folder,
            "LANG": "C.UTF-8",
            "DISPLAY": self.display,
            "XDG_RUNTIME_DIR": folder,
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}",
            "GTK_THEME": "Adwaita",
            "GIO_USE_VFS": "local",
            "GSETTINGS_BACKEND": "memory",
        }
        self.start(program("dbus-daemon"), f"--config-file={folder}/bus.conf", "--nofork", "--nopidfile")
        wait_until(lambda: os.path.exists(bus))
        self.start(program("openbox"))
        self.count = 0

    def _start_server(self, size: tuple[int, int]) -> str:
        reading, writing = os.pipe()
        screen = f"{size[0]}x{size[1]}x24"
        command = [program("Xvfb"), "-displayfd", str(writing), "-screen", "0", screen, "-nolisten", "tcp", "-noreset"]
        self._processes.append(
            subprocess.Popen(command, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        os.close(writing)
        with os.fdopen(reading) as file:
            return f":{file.readline().strip()}"

    def start(self, *command: str, **more: Any) -> subprocess.Popen[Any]:
        """Start a program on the desktop."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=self.environ, cwd=self.folder, **{**quiet, **more})
        self._processes.append(process)
        return process

    def end(self, process: subprocess.Popen[Any]) -> None:
        """End a program."""
        process.terminate()
        process.wait(HANG_SECONDS)
        self._processes.remove(process)

    @contextmanager
    def form(self, title: str = "Form", **more: str) -> Iterator[GtkForm]:
        """Start the GTK program of the tests."""
        form = GtkForm(self, title, more)
        try:
            yield form
        finally:
            form.close()

    @contextmanager
    def runtime(self, name: str, **flags: Any) -> Iterator[Runtime]:
        """Open a runtime that may use this desktop."""
        base = os.path.join(self.folder, name)
        workspace = os.path.join(base, "workspace")
        os.makedirs(workspace)
        remember_sandbox(os.path.join(base, "state"))
        with Runtime(workspace, environ={**environment(base), **self.own_environment()}, flags=flags) as runtime:
            yield runtime

    def own_environment(self) -> dict[str, str]:
        """The variables that a runtime needs to use this desktop."""
        return {name: self.environ[name] for name in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")}

    def close(self) -> None:
        """End everything."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(HANG_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


class GtkForm:
    """The GTK program of the tests: its events, and commands to it."""

    def __init__(self, session: XSession, title: str, variables: dict[str, str]) -> None:
        self._session = session
        self.title = title
        self._process = subprocess.Popen(
            ["/usr/bin/python3", str(FORM), title],
            env={**session.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._process.pid
        self.events: list[dict[str, Any]] = []
        self._await("ready")

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended"
        event: dict[str, Any] = json.loads(line)
        return event

    def _await(self, name: str) -> None:
        while name not in (event := self._next()):
            self.events.append(event)

    def do(self, command: str, **arguments: Any) -> None:
        """Run a command in the program."""
        self.send(command, **arguments)
        self._await("done")

    def send(self, command: str, **arguments: Any) -> None:
        """Send a command without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()

    def seen(self, name: str) -> list[Any]:
        """Return what the program has reported under this name since the last call, and discard other reports."""
        self.do("ungrab")
        events, self.events = self.events, []
        return [event[name] for event in events if name in event]

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait(HANG_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class XClient:
    """A person or a program at the display."""

    def __init__(self, display: str) -> None:
        import xcffib
        import xcffib.xproto
        import xcffib.xtest

        self.x = xcffib.connect(display=display)
        self.root = self.x.get_setup().roots[0].root
        self._test = self.x(xcffib.xtest.key)

    def press(self, code: int) -> None:
        """Press and release a key."""
        for event in (2, 3):
            self._test.FakeInput(event, code, 0, self.root, 0, 0, 0)
        self.x.core.GetInputFocus().reply()

    def held(self) -> list[int]:
        """Return the buttons and keys that are pressed."""
        mask = self.x.core.QueryPointer(self.root).reply().mask & 0x1F0D
        return [mask] * bool(mask) + [byte for byte in self.x.core.QueryKeymap().reply().keys if byte]

    def symbols(self) -> list[int]:
        """Return the keyboard mapping."""
        setup = self.x.get_setup()
        first = setup.min_keycode
        return list(self.x.core.GetKeyboardMapping(first, setup.max_keycode - first + 1).reply().keysyms)


class Agent:
    """Calls `computer` in one session."""

    def __init__(self, runtime: Runtime, session: str) -> None:
        self.runtime = runtime
        self.session = session

    def __call__(self, action: str, **args: Any) -> Result:
        return self.runtime.request(Call("computer", {"action": action, **args}, session=self.session))

    def ok(self, action: str, **args: Any) -> str:
        """Call, and return the text; fail if the call does."""
        result = self(action, **args)
        assert result.error is None, (result.error.code, result.error.message)
        return result.text

    def code(self, action: str, **args: Any) -> str:
        """Call, and return the code of the error."""
        result = self(action, **args)
        return "ok" if result.error is None else result.error.code

    def number(self, words: str) -> int:
        """Return the number that the next screenshot gives the element with these words in its line."""
        return number_in(self.screenshot_with(words), words)

    def screenshot_with(self, *words: str) -> str:
        """Return the text of the first screenshot with these words: a new window takes a moment to appear."""
        texts = [""]

        def shows_all() -> bool:
            texts.append(self.ok("screenshot"))
            return all(word in texts[-1] for word in words)

        wait_until(shows_all)
        return texts[-1]

    def find(self, query: str) -> str:
        """Return the line of the first element that matches."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            lines = [line for line in self.ok("find_element", query=query).split("\n") if line.startswith("#")]
            if lines or time.monotonic() > deadline:
                return lines[0]


def number_in(text: str, words: str) -> int:
    """Return the number of the element with these words in its line."""
    line = next(line for line in text.split("\n") if line.startswith("#") and words in line)
    return int(line.split()[0][1:])


def place_in(line: str) -> dict[str, int]:
    """Return the point in the line of an element."""
    x, y = line[line.rindex("(") + 1 : line.rindex(")")].split(", ")
    return {"x": int(x), "y": int(y)}


@contextmanager
def x_session(size: tuple[int, int] = SIZE) -> Iterator[XSession]:
    """Start a desktop; its folder has a short path, because sockets are in it."""
    require_desktop()
    session = XSession(tempfile.mkdtemp(prefix="hilt-x-"), size)
    try:
        yield session
    finally:
        session.close()
