"""Stores output that is too long for a result on disk, where read_file can open it."""

import os
import time
from contextlib import suppress
from typing import NamedTuple

from hilt.errors import ToolError

HEAD_CHARACTERS = 10_000
TAIL_CHARACTERS = 2_000
OMITTED = "[... omitted ...]"  # marks a cut
LINE_CHARACTERS = 2_000  # longer lines are split, so that read_file can page through them


class SavedText(NamedTuple):
    """A preview of long text and the path of the full text; None if it could not be saved."""

    preview: str
    path: str | None
    size: int


class Overflow:
    """One session's folder of long outputs; old files are removed by age and total size."""

    def __init__(self, directory: str, *, keep_days: int, keep_megabytes: int, limit: int) -> None:
        self.directory = directory
        self.limit = limit
        self._keep_seconds = keep_days * 86400
        self._keep_bytes = keep_megabytes * 1024 * 1024

    def keep(self, text: str, label: str) -> SavedText:
        """Save long text and return a preview; the path is in its last line, because some hosts cut out the middle."""
        path = self.try_save(split_long_lines(text), label)
        head, tail = text[:HEAD_CHARACTERS], text[-TAIL_CHARACTERS:]
        note = (
            f"[{len(text)} characters; showing the first {len(head)} and the last {len(tail)}. {location_note(path)}]"
        )
        excerpt = f"{head}\n\n{OMITTED}\n\n{tail}".removesuffix("\n")
        return SavedText(f"{excerpt}\n{note}", path, len(text))

    def try_save(self, text: str | bytes, label: str, *, suffix: str = ".txt") -> str | None:
        """Save text as `save` does, but return None on failure, so that the result is still returned."""
        try:
            return self.save(text, label, suffix=suffix)
        except ToolError:
            return None

    def save(self, text: str | bytes, label: str, *, suffix: str = ".txt") -> str:
        """Save text or bytes to a new file, readable by its owner only, and return its path."""
        data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
        safe = "".join(character if character.isalnum() or character in "._-" else "_" for character in label)[-60:]
        path = os.path.join(self.directory, f"{os.urandom(4).hex()}-{safe}{suffix}")
        self.open()
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)  # a partial file would look complete
            raise _save_failed(self.directory, error) from error
        self._clean(keep=path)
        return path

    def open(self) -> str:
        """Create the folder if it is missing, and return it."""
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise _save_failed(self.directory, error) from error
        return self.directory

    def make_room(self) -> str:
        """Remove old files beyond the limits, and return the folder, created if missing."""
        self._clean(keep="")
        return self.open()

    def _clean(self, *, keep: str) -> None:
        """Remove the oldest files beyond the limits in the folders of all sessions, except the one just written."""
        root = os.path.dirname(os.path.dirname(self.directory))
        files = []
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                files.append((status.st_mtime, status.st_size, path))
        files.sort(reverse=True)
        oldest = time.time() - self._keep_seconds
        total = 0
        for mtime, size, path in files:
            total += size
            if path != keep and (mtime < oldest or total > self._keep_bytes):
                with suppress(OSError):
                    os.unlink(path)


def _save_failed(directory: str, error: OSError) -> ToolError:
    return ToolError(
        "resource_limit",
        f"Long output cannot be saved in {directory}: {os.strerror(error.errno or 0)}.",
        suggestion="Request less output, or ask the user to free disk space.",
    )


def split_long_lines(text: str) -> str:
    """Split lines that are too long for read_file."""
    if all(len(line) <= LINE_CHARACTERS for line in text.split("\n")):
        return text
    pieces: list[str] = []
    for line in text.split("\n"):
        pieces.extend(line[start : start + LINE_CHARACTERS] for start in range(0, max(len(line), 1), LINE_CHARACTERS))
    return "\n".join(pieces)


def location_note(path: str | None) -> str:
    """Return a sentence that says where the full output is."""
    if path is None:
        return "The full output could not be saved: the state directory is not writable."
    return f"The full output is in {path}; read it with read_file."
