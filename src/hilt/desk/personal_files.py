"""Files that a person lets hilt write: changes of settings to confirm, and whole folders to install."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from hilt import loaders
from hilt.errors import ToolError, file_error_code
from hilt.formats.invisible import one_line
from hilt.text.diffing import compare, stripped

MAX_BYTES = 64 << 20
_SIGNS = {"context": " ", "removed": "-", "added": "+"}
_LINE_SHOWN = 300


class SettingsChange(NamedTuple):
    """A change of a file: its path, the path to write without following links, and its old and new bytes."""

    path: str
    real: str
    before: bytes | None  # None if the file does not exist
    after: bytes | None  # None to delete the file

    def write(self, mode: int) -> None:
        """Replace the file atomically; a new file gets this mode."""
        folder, name = os.path.split(self.real)
        temporary = f".{name}.{os.urandom(4).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.makedirs(folder, exist_ok=True)
            with loaders.open_folder(folder) as handle:
                descriptor = os.open(temporary, flags, mode, dir_fd=handle)
                try:
                    with open(descriptor, "wb") as file:
                        self._keep_owner(file.fileno())
                        file.write(self.after or b"")
                        file.flush()
                        os.fsync(file.fileno())
                    if read_bytes(self.real) != self.before:
                        raise ToolError(
                            "stale_file",
                            f"{one_line(self.path)} was changed by another program in the meantime.",
                            suggestion="Run the command again.",
                        )
                    os.replace(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
                    if self.after is None:
                        os.unlink(name, dir_fd=handle)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=handle)
                    raise
        except (OSError, loaders.UnreadableFile) as error:
            raise _failed(self.path, error) from error
        if self.after is None:
            with suppress(OSError):  # it contains other files
                os.rmdir(folder)

    @property
    def place(self) -> str:
        """The path on one line, with the target of a link."""
        link = f" -> {self.real}" if self.real != os.path.abspath(self.path) else ""
        return one_line(self.path + link) + (
            " (new)" if self.before is None else " (deleted)" if self.after is None else ""
        )

    @property
    def difference(self) -> str:
        """The changed lines with context."""
        old, new = (
            (data or b"").decode("utf-8", "replace").removeprefix("\ufeff") for data in (self.before, self.after)
        )
        lines: list[str] = []
        for hunk in stripped(compare(old, new)):
            lines.append(f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@")
            lines += (f"{_SIGNS[kind]}{text}" for kind, text in hunk.changes)
        return "\n".join(line if len(line) <= _LINE_SHOWN else line[:_LINE_SHOWN] + "…" for line in lines)

    def _keep_owner(self, descriptor: int) -> None:
        """Give the new file the permissions and the owner of the old one."""
        if self.before is None:
            return
        status = os.stat(self.real)
        if not status.st_mode & 0o222:
            # the folder may allow replacing it, but its owner made it read-only
            raise ToolError("permission_denied", f"{one_line(self.path)} is read-only.")
        with suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def read_bytes(path: str) -> bytes | None:
    """Return the content of a settings file; None if it does not exist. No link on its path is followed."""
    try:
        return loaders.read(path, limit=MAX_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, loaders.UnreadableFile) as error:
        raise _failed(path, error) from error


def _failed(path: str, error: OSError | loaders.UnreadableFile) -> ToolError:
    if isinstance(error, loaders.UnreadableFile):
        return ToolError(error.code, f"{one_line(path)}: {one_line(str(error))}.")
    code = "not_a_file" if isinstance(error, IsADirectoryError | NotADirectoryError) else file_error_code(error)
    return ToolError(code, f"{one_line(path)}: {os.strerror(error.errno or 0)}.", suggestion=_advice(code))


def _advice(code: str) -> str | None:
    return "Free disk space, then try again." if code == "resource_limit" else None


def write_whole(target: str, files: Mapping[str, bytes], programs: Collection[str] = ()) -> None:
    """Write a folder, or the one file whose name is empty, atomically: it appears when it is complete."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=os.path.dirname(target)) as fresh:
        top = os.path.join(fresh, "new")
        for name, content in files.items():
            path = os.path.join(top, name) if name else top
            os.makedirs(os.path.dirname(path), exist_ok=True)
            mode = 0o755 if name in programs else 0o644
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(content)
        os.rename(top, target)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn file errors into tool errors."""
    try:
        yield
    except OSError as error:
        code = file_error_code(error)
        raise ToolError(
            code,
            f"{one_line(path)}: {os.strerror(error.errno or 0)}.",
            suggestion=_advice(code) or "Check that you can write to the folder around it.",
        ) from error
