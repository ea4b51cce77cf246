"""Running the real command in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from hilt.testing import Folder, environment

HILT = os.path.join(os.path.dirname(sys.executable), "hilt")


class Command:
    """The command hilt, with a workspace and state below one folder."""

    def __init__(self, base: str, **environ: str) -> None:
        self.folder = Folder(os.path.join(base, "workspace"))
        os.makedirs(self.folder.path, exist_ok=True)
        self.state = os.path.join(base, "state")
        self.environ = {**environment(base), "LANG": "C.UTF-8", **environ}
        self.words: list[str] = []

    def run(
        self, *words: str, line: list[str] | None = None, input: bytes | str = b"", cwd: str | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command, or a whole command line, to its end."""
        return subprocess.run(
            line or [HILT, *words],
            input=input if isinstance(input, bytes) else input.encode(),
            cwd=cwd or self.folder.path,
            env=self.environ,
            capture_output=True,
            timeout=60,
        )

    def ask(self, *requests: Any, words: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Send requests to one one-shot process and return its replies."""
        done = self.run(*words, input="".join(json.dumps(request) + "\n" for request in requests))
        assert done.stderr == b"", done.stderr.decode()
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, *words: str, line: list[str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start the command, or a whole command line, with pipes; the caller ends it."""
        return subprocess.Popen(
            line or [HILT, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder.path,
            env=self.environ,
            **options,
        )
