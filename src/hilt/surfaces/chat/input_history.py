"""The input history of the chat, kept in a file; secrets are redacted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from prompt_toolkit.history import History

from hilt.handles import put_file

_READ_BYTES = 1 << 20
_MAX_BYTES = 2 << 20


class HistoryFile(History):
    """The history of one workspace: one JSON string per line."""

    def __init__(self, path: str, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._redact = redact

    def load_history_strings(self) -> Iterable[str]:
        """Yield earlier inputs, newest first."""
        try:
            with open(self._path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _READ_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return
        if size > _READ_BYTES:
            lines = lines[1:]
        if size > _MAX_BYTES:
            self._replace(b"\n".join(lines))
        for line in reversed(lines):
            with suppress(ValueError):
                text = json.loads(line)
                if isinstance(text, str):
                    yield text

    def store_string(self, string: str) -> None:
        """Append an input; errors are ignored, so that an unwritable file does not stop the chat."""
        line = json.dumps(self._redact(string)).encode() + b"\n"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)

    def _replace(self, data: bytes) -> None:
        with suppress(OSError):
            put_file(self._path, data)
