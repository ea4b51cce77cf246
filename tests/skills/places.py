"""A workspace and its user with skills, for tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from hilt.runtime import Runtime
from hilt.state.trust import Trust
from hilt.testing import Folder, environment
from tests.trusting import file_at


def text(name: str, body: str = "Do it.", *, description: str = "Does things.", more: str = "") -> str:
    """Return a SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


class SkillUser:
    """A workspace, its user, and their skills."""

    def __init__(self, base: str) -> None:
        self.environ = environment(base)
        self.home = Folder(self.environ["HOME"])
        self.config = Folder(self.environ["HILT_CONFIG_DIR"])
        self.workspace = Folder(os.path.join(base, "workspace"))
        for folder in (self.home, self.config, self.workspace):
            os.makedirs(folder.path, exist_ok=True)

    @contextmanager
    def runtime(self, **variables: str) -> Iterator[Runtime]:
        """Open a runtime on the workspace."""
        with Runtime(self.workspace.path, environ={**self.environ, **variables}) as runtime:
            yield runtime

    def trust(self, *names: str) -> None:
        """Trust the current content of files of the workspace; a folder means all files in it."""
        with closing(Trust(self.environ["HILT_STATE_DIR"])) as trust:
            for name in names:
                for path in self._files(self.workspace.join(name)):
                    with open(path, "rb") as file:
                        trust.trust(file_at(path), file.read())

    def _files(self, path: str) -> list[str]:
        if os.path.isfile(path):
            return [path]
        return [os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files]
