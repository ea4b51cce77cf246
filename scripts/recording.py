"""Record the animation in the README: an agent asks before an edit, and the change is undone. It lasts 10 seconds.

    python -m scripts.recording CAST       write the recording to a file, in asciinema's format

`make picture` also renders it, as docs/images/tour.svg. The commands are real and run in their own terminal; the model
is scripted. Typing and pauses have fixed durations, so that the animation does not depend on the machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
from collections.abc import Iterable
from pathlib import Path

from tests.agents.model_server import ScriptedCall, Turn, serving_model

ROWS, COLUMNS = 27, 80
PROMPT = "\x1b[1;32m$\x1b[0m "
KEY_SECONDS, READING_SECONDS, ANSWER_SECONDS = 0.03, 1.1, 2.0
SILENCE_SECONDS = 30.0

PATCH = """\
*** Begin Patch
*** Update File: price.py
@@
 def total(prices):
-    return sum(prices)
+    return round(sum(prices) * 1.19, 2)
*** End Patch
"""

TURNS = [
    Turn(calls=[ScriptedCall("apply_patch", {"patch": PATCH})]),
    Turn("Prices now include 19 % tax."),
]

RULES = """\
permissions:
  ask: [apply_patch]
"""


class Recording:
    """Output with the time at which a viewer sees it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.events: list[tuple[float, str, str]] = []

    def show(self, text: str, pause: float = 0.0) -> None:
        """Add output, then a pause."""
        self.events.append((round(self.seconds, 3), "o", text))
        self.seconds += pause

    def type(self, text: str) -> None:
        """Add a prompt and a command, key by key; the first command at once, so that the first frame says something."""
        if self.events:
            self.show(PROMPT, 0.3)
            for key in text:
                self.show(key, KEY_SECONDS)
        else:
            self.show(PROMPT + text, 0.6)
        self.show("\r\n", 0.2)

    def write(self, path: str) -> None:
        """Write the recording."""
        self.show(PROMPT, 1.0)
        self.show("")  # the last frame stays for a while
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "env": {"TERM": "xterm-256color"}}
        lines = [json.dumps(head), *(json.dumps(event) for event in self.events)]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(recording: Recording, command: str, folder: str, env: dict[str, str], answers: Iterable[str] = ()) -> None:
    """Run a command in a terminal; answer each of its prompts, which end with "> " or "] "."""
    recording.type(command)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("sh", ["sh", "-c", command], env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    pending = list(answers)
    while True:
        text = _output(terminal, waits_for_prompt=bool(pending))
        recording.show(text.replace(os.path.realpath(folder), "~/shop"), READING_SECONDS)
        if not pending:
            break
        recording.seconds += ANSWER_SECONDS
        os.write(terminal, f"{pending.pop(0)}\n".encode())
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"recording: {command} failed with exit status {os.waitstatus_to_exitcode(status)}")


def _output(terminal: int, *, waits_for_prompt: bool) -> str:
    """Return the output of a command, up to its next prompt or its end."""
    data = b""
    while True:
        if not select.select([terminal], [], [], SILENCE_SECONDS)[0]:
            sys.exit(f"recording: nothing was printed after {data.decode(errors='replace')!r}")
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the command has ended
            chunk = b""
        data += chunk
        text = data.decode("utf-8", "ignore")
        if not chunk or (waits_for_prompt and re.search(r"(> |\] )$", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))):
            return text


def main(path: str) -> None:
    """Record, and write the recording."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as base, serving_model(*TURNS) as server:  # a short path
        folder, config = os.path.join(base, "shop"), os.path.join(base, "config")
        os.mkdir(folder)
        os.mkdir(config)
        Path(folder, "price.py").write_text("def total(prices):\n    return sum(prices)\n")
        Path(config, "permissions.yaml").write_text(RULES)
        env = {
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "HOME": base,
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HILT_CONFIG_DIR": config,
            "HILT_STATE_DIR": os.path.join(base, "state"),
            "HILT_RESIDENT": "off",
            "HILT_MODEL": "openai:scripted",
            "HILT_MODEL_BASE_URL": server.openai_url,
        }
        recording = Recording()
        run(recording, "hilt run 'Prices should include 19 % tax'", folder, env, ["y"])
        run(recording, "hilt undo last --yes", folder, env)
        run(recording, "cat price.py", folder, env)
        recording.write(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
