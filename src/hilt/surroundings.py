"""The programs and the environment of what hilt starts outside the sandbox (ADR 0046).

Nothing of them comes from a place where commands can write: a command could replace a program there, and hilt would
run it with all rights of the user.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from hilt.errors import ToolError
from hilt.places import LINKS_MAX

Step = Callable[[str], tuple[str, str | None]]

_SHEBANG_BYTES = 256
_PATHS = r"/[^\s:;,\"'=]*"


class Surroundings:
    """What programs outside the sandbox may use of an environment; does no work before it is first asked."""

    def __init__(
        self, given: Mapping[str, str], writable: Iterable[str] = (), *, provided: Callable[[], str] = str
    ) -> None:
        """`writable` are the folders in which commands can write; `provided` returns that of hilt's own programs."""
        self.given = given
        self.provided = provided
        self._folders = tuple(writable)
        self._places: dict[str | tuple[int, int], str] | None = None
        self._judged: dict[str, tuple[tuple[int, ...], str]] = {}

    def environment(
        self,
        declared: Mapping[str, str] | None = None,
        *,
        only: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> dict[str, str]:
        """Return the environment of a program.

        Variables that a person `declared` for it may name paths in the workspace; the folders of PATH may not.
        """
        from hilt import variables  # which calls without such a program do not need

        names = (self.given.keys() if only is None else self.given.keys() & only) - set(without)
        inherited = {name: value for name, value in self.given.items() if name in names}
        environment = {
            **variables.neutral(inherited, self._problem),
            **variables.neutral(declared or {}, self._problem_of_declared),
        }
        # an empty PATH means the working folder
        environment["PATH"] = self.with_provided(environment.get("PATH") or os.defpath)
        return environment

    def with_provided(self, path: str) -> str:
        """Return PATH with hilt's own programs after those of the user."""
        return os.pathsep.join(filter(None, (path, self.provided())))

    def find(self, name: str, environment: Mapping[str, str] | None = None) -> str | None:
        """Return the full path of a program on PATH, of another environment if given."""
        folders = self.search_path(None if environment is None else environment["PATH"])
        paths = [f"{folder}/{name}" for folder in folders.split(os.pathsep) if folder]
        return next((path for path in paths if _is_program(path) and not self._program_problem(path)), None)

    def program(self, name: str) -> str:
        """Return the full path of a program on PATH, or raise `runtime_missing`."""
        path = self.find(name)
        if path is None:
            message = f"{name} is not on the PATH.{self.advice(name)}"
            raise ToolError("runtime_missing", message, suggestion=f"Install {name}.", program=name)
        return path

    def search_path(self, path: str | None = None) -> str:
        """Return PATH, or another such list, without the folders in which commands can change a program."""
        folders = self.given.get("PATH", "") if path is None else path
        safe = [folder for folder in folders.split(os.pathsep) if not self._problem("PATH", folder)]
        return os.pathsep.join(safe) or os.defpath

    def left_out(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is not passed on because commands could change it: a variable, its value or a folder, and why."""
        from hilt import variables

        for name, value in self.given.items():
            for entry, reason in variables.problems(name, value, self._problem):
                if os.path.isabs(entry):
                    yield name, entry, reason

    def advice(self, name: str) -> str:
        """Return a sentence on a program of this name that is on PATH but not used; empty if there is none."""
        for folder in self.given.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)
            if os.path.isabs(path) and _is_program(path):
                return f" {path} is not used: {self._problem('PATH', folder) or self._program_problem(path)}."
        return ""

    def _program_problem(self, path: str) -> str:
        """Return why a program is unsafe: commands can change it, or the interpreter in its first line."""
        paths = [path]
        with suppress(OSError), open(path, "rb") as file:
            if file.read(2) == b"#!":
                paths += filter(os.path.isabs, os.fsdecode(file.readline(_SHEBANG_BYTES)).split())
        places = map(self.place, paths)
        return next((f"commands can write in {place}" for place in places if place), "")

    def _problem(self, variable: str, value: str) -> str:
        """Return why a folder in a list, or the value of another variable, is unsafe; empty if it is safe."""
        from hilt import variables

        if reason := variables.relative(variable, value):
            return reason
        if variable not in variables.FOLDERS:
            starts = re.finditer(_PATHS, value) if variables.is_code(variable) else ()
            # a path may contain spaces and other separators
            paths = (path for match in starts for path in (match[0], value[match.start() :]))
            return next((f"commands can write in {place}" for place in map(self.place, paths) if place), "")
        judged = self._judged.get(value)
        stamp = _stamp(value)
        if judged is None or judged[0] != stamp:
            judged = self._judged[value] = stamp, self._judge(value)
        return judged[1]

    def _problem_of_declared(self, variable: str, value: str) -> str:
        from hilt import variables

        if variable == "PATH":
            return self._problem(variable, value)
        return "" if variable == "ENV" else variables.relative(variable, value)

    def _judge(self, folder: str) -> str:
        step = cache(self._step)
        if place := self.place(folder, step):
            return f"commands can write in {place}"
        try:
            with os.scandir(folder) as entries:
                links = [entry.path for entry in entries if entry.is_symlink()]
        except PermissionError:
            return "it cannot be listed"
        except OSError:
            return ""
        for link in links:
            # a link to a neighbour is as safe as that
            if "/" in (step(link)[1] or "") and (place := self.place(link, step)):
                return f"its {os.path.basename(link)} is a link to {place}, where commands can write"
        return ""

    def place(self, path: str, step: Step | None = None) -> str:
        """Return the folder of commands through which a path leads, or "" if commands cannot change where it leads."""
        step = step or self._step
        current, links = "/", 0
        place, target = step(current)
        names = path.split("/")[::-1]
        while names and not place:
            name = names.pop()
            if name == "..":
                current = os.path.dirname(current)
            elif name not in ("", "."):
                current = f"{current.rstrip('/')}/{name}"
                place, target = step(current)
                if target is not None:
                    links += 1
                    if links > LINKS_MAX:
                        return current
                    current = "/" if target.startswith("/") else os.path.dirname(current)
                    names += target.split("/")[::-1]
        return place

    def _step(self, path: str) -> tuple[str, str | None]:
        """Return the folder of commands that a resolved path is, or "", and the target of the path if it is a link."""
        if self._places is None:
            self._places = _identities(self._folders)
        try:
            status = os.lstat(path)
            # also by identity: a folder may be mounted twice, and have names in two cases
            place = self._places.get(path) or self._places.get((status.st_dev, status.st_ino), "")
            return place, os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
        except (OSError, ValueError):
            return self._places.get(path, ""), None


def _identities(folders: Iterable[str]) -> dict[str | tuple[int, int], str]:
    """Return folders by their real path, and by device and inode."""
    # what these lead to depends on the process that asks
    places: dict[str | tuple[int, int], str] = {path: path for path in ("/proc", "/dev/fd")}
    for folder in folders:
        real = os.path.realpath(folder)
        places[real] = real
        with suppress(OSError):
            status = os.stat(real)
            places[status.st_dev, status.st_ino] = real
    return places


def _stamp(folder: str) -> tuple[int, ...]:
    try:
        status = os.stat(folder)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
