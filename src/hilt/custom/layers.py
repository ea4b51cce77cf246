"""The custom tools of all places, laid over each other: higher ones hide lower ones by name.

A broken file hides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from hilt.custom.candidates import Untrusted
from hilt.custom.definition import Definition, Loaded, ToolProblem
from hilt.errors import ToolError
from hilt.places import command

PREFIX = "custom__"

T = TypeVar("T")


class CustomTools(NamedTuple):
    """The tools there are, by name, and what is wrong. `hidden` are those that others of their name hide."""

    definitions: Mapping[str, Definition]
    hidden: tuple[Definition, ...]
    problems: tuple[ToolProblem, ...]
    untrusted: tuple[Untrusted, ...]
    broken: Mapping[str, ToolProblem]  # by the names under which they would be called
    awaiting: Mapping[str, Untrusted]  # likewise

    def find(self, name: str) -> Definition | None:
        """Return the tool of this name; one that is broken or not trusted raises why; None when there is none."""
        definition = self.definitions.get(name)
        if definition is not None:
            return definition
        problem = self.broken.get(name)
        if problem is not None:
            raise ToolError(
                "tool_invalid",
                f"The tool {name} is broken: {problem.place}: {problem.message}",
                file=problem.origin,
                line=problem.line,
            )
        untrusted = self.awaiting.get(name)
        if untrusted is not None:
            raise ToolError(
                "untrusted",
                f"The tool {name} is not loaded: the user has not trusted {untrusted.path} as it is now.",
                suggestion=f"Ask the user to run: {command('tools', 'trust', untrusted.path)}",
                file=untrusted.path,
            )
        return None


NOTHING = CustomTools({}, (), (), (), {}, {})


class ToolLayer:
    """What one folder came to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.hidden: list[Definition] = []
        self.problems: list[ToolProblem] = []
        self.untrusted: list[Untrusted] = []
        self.guesses: dict[str, ToolProblem] = {}  # broken ones, by the names that they have or might have
        self.awaiting: dict[str, Untrusted] = {}

    def add(self, stem: str, loaded: Loaded) -> None:
        """Add what a file declares; `stem` is the name it probably has. Of two tools with one name the first stays."""
        for definition in loaded.definitions:
            first = self.definitions.setdefault(definition.name, definition)
            if first is not definition:
                self.hidden.append(definition)
                message = f"There is already a tool {definition.name} in this folder, in {first.origin}."
                self.problems.append(ToolProblem(definition.origin, message, definition.line, definition.name))
        for problem in loaded.problems:
            self.problems.append(problem)
            for name in (problem.name, stem):
                if name is not None:
                    self.guesses.setdefault(name, problem)  # the first is what is told


def layered(layers: Iterable[ToolLayer], reserved: Collection[str]) -> CustomTools:
    """Return the tools of all layers, highest first; `reserved` are the names of built-in tools."""
    definitions: dict[str, Definition] = {}
    hidden: list[Definition] = []
    problems: list[ToolProblem] = []
    untrusted: list[Untrusted] = []
    broken: dict[str, ToolProblem] = {}
    awaiting: dict[str, Untrusted] = {}
    for layer in layers:
        problems += layer.problems
        untrusted += layer.untrusted
        hidden += layer.hidden
        for found in layer.definitions.values():
            definition = found
            if definition.name in reserved:
                if definition.source != "directory":
                    message = f"{definition.name} is the name of a built-in tool; the file needs another."
                    problems.append(ToolProblem(definition.origin, message, definition.line, definition.name))
                    continue
                definition = definition._replace(name=PREFIX + definition.name)
            if definitions.setdefault(definition.name, definition) is not definition:
                hidden.append(definition)
        _spell(layer.guesses, broken)
        _spell(layer.awaiting, awaiting)
    return CustomTools(definitions, tuple(hidden), tuple(problems), tuple(untrusted), broken, awaiting)


def _spell(guesses: Mapping[str, T], wanted: dict[str, T]) -> None:
    """Add reasons under the names by which a tool may be called: files are often named with a dash."""
    for name, why in guesses.items():
        for spelled in (name, name.replace("-", "_")):
            wanted.setdefault(spelled, why)
