"""Folder tools on a real runtime: written to disk, loaded and called, with a user who answers prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from hilt.call import Result, UserAnswer
from hilt.custom import folder_tools
from hilt.custom.definition import Content, Definition, Loaded, to_tool
from hilt.loaders import Source
from hilt.runtime import Runtime
from hilt.surroundings import Surroundings
from hilt.testing import environment
from tests.programs import PATH

OBJECT: dict[str, Any] = {"type": "object"}
ECHO = "cat"


def markdown(fields: Mapping[str, Any], body: str = "Does something.") -> str:
    """Return a tool.md; JSON is YAML."""
    return "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items()) + f"---\n{body}\n"


def grant_of(prompt: Any) -> str:
    """Return the grant that the answer "always" would store."""
    return str(prompt.rules[0] if prompt.rules else prompt.arguments["grant"])


class Bench:
    """A workspace, a folder of tools, and a user who answers prompts if `attended`; `grants` are the user's."""

    def __init__(self, base: Path, source: Source = "personal") -> None:
        self.workspace = base / "workspace"
        self.source = source
        self.tools = self.workspace / ".hilt/tools" if source == "project" else base / "tools"
        self.environ = {**environment(str(base)), "PATH": PATH}
        self.home, self.config = base / "home", base / "config"
        for folder in (self.workspace, self.tools, self.home, self.config):
            folder.mkdir(parents=True)
        self.grants: set[str] = set()
        self.prompts: list[Any] = []
        self.answer = "deny"
        self.attended = True
        self.during_prompt: Callable[[], None] = lambda: None
        self.session = "s1"

    def has(self, grant: str) -> bool:
        """Whether the user has this grant."""
        return grant in self.grants

    def add(self, name: str, text: str = ECHO, /, *, files: Mapping[str, str] | None = None, **fields: Any) -> Path:
        """Write a tool; its script is in bash unless its fields say otherwise."""
        script = fields.get("script", "script.sh")
        schemas = {"inputSchema": OBJECT, "outputSchema": OBJECT}
        all_fields = {"name": name, "script": script, "runtime": "bash", **schemas, **fields}
        return self.write(name, {"tool.md": markdown(all_fields), script: text, **(files or {})})

    def write(self, name: str, files: Mapping[str, str | bytes]) -> Path:
        """Write the files of a tool unchanged."""
        folder = self.tools / name
        for inner, text in files.items():
            path = folder / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder

    def read(self, name: str) -> Loaded:
        """Load the folder of a tool, as discovery does."""
        folder = self.tools / name
        paths = [path for path in folder.rglob("*") if path.is_file()]
        if self.source != "project":
            paths = [path for path in paths if path.name in ("tool.md", "tool.json")]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        return folder_tools.read(Content(str(folder), files, self.source, self.source == "project"))

    def load(self, name: str) -> Definition:
        """Load a valid tool."""
        loaded = self.read(name)
        assert loaded.problems == ()
        (definition,) = loaded.definitions
        return definition

    @contextmanager
    def runtime(self, *definitions: Definition) -> Iterator[Runtime]:
        """Yield a runtime with these tools."""
        make = partial(folder_tools.FolderTool, surroundings=Surroundings(self.environ), grants=self)
        tools = [to_tool(definition, make(definition)) for definition in definitions]
        asker = self._ask if self.attended else None
        with Runtime(
            str(self.workspace), tools=tools, session=self.session, environ=self.environ, asker=asker
        ) as runtime:
            yield runtime

    def call(self, name: str, /, **args: Any) -> Result:
        """Load a tool and call it."""
        with self.runtime(self.load(name)) as runtime:
            return runtime.call(name, **args)

    def data(self, name: str, /, **args: Any) -> Any:
        """Load a tool, call it, and return its structured result."""
        result = self.call(name, **args)
        assert result.error is None, result.error.message
        return result.data

    def error(self, name: str, /, **args: Any) -> tuple[str, str]:
        """Load a tool, call it, and return the code and message of its error."""
        error = cast(Any, self.call(name, **args).error)
        assert error is not None
        return error.code, error.message

    def _ask(self, prompt: Any) -> UserAnswer:
        self.prompts.append(prompt)
        self.during_prompt()
        if self.answer == "always":
            self.grants.add(grant_of(prompt))
        return UserAnswer(self.answer, "not today" if self.answer == "deny" else "", "test")
