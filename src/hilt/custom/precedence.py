"""Merges the custom tools of all places: a tool hides those of the same name in lower places.

A broken file hides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hilt.custom.candidates import Untrusted
from hilt.custom.definition import Definition, Loaded, ToolProblem
from hilt.errors import ToolError
from hilt.places import command

PREFIX = "custom__"


class CustomTools(NamedTuple):
    """The tools by name, and the problems. `hidden` are tools that another of the same name hides."""

    definitions: Mapping[str, Definition]
    hidden: tuple[Definition, ...]
    problems: tuple[ToolProblem, ...]
    untrusted: tuple[Untrusted, ...]
    reasons: Mapping[str, ToolProblem | Untrusted]  # why a tool is not loaded, by the names a caller would use

    def find(self, name: str) -> Definition | None:
        """Return the tool of this name, or None; raise the reason if it is broken or not trusted."""
        definition = self.definitions.get(name)
        if definition is not None:
            return definition
        reason = self.reasons.get(name)
        if isinstance(reason, ToolProblem):
            raise ToolError(
                "tool_invalid",
                f"The tool {name} is broken: {reason.place}: {reason.message}",
                file=reason.origin,
                line=reason.line,
            )
        if reason is not None:
            raise ToolError(
                "untrusted",
                f"The tool {name} is not loaded: the current content of {reason.path} is not trusted.",
                suggestion=f"Ask the user to run: {command('tools', 'trust', reason.path)}",
                file=reason.path,
            )
        return None


NOTHING = CustomTools({}, (), (), (), {})


class ToolLayer:
    """The tools and problems of one folder."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.hidden: list[Definition] = []
        self.problems: list[ToolProblem] = []
        self.untrusted: list[Untrusted] = []
        self.reasons: dict[str, ToolProblem | Untrusted] = {}  # by the actual or likely names of tools

    def add(self, stem: str, loaded: Loaded) -> None:
        """Add the tools of a file; `stem` is its likely name. Of two tools with the same name, the first wins."""
        for definition in loaded.definitions:
            first = self.definitions.setdefault(definition.name, definition)
            if first is not definition:
                self.hidden.append(definition)
                message = f"Duplicate name: {first.origin} in the same folder already declares {definition.name}."
                self.problems.append(ToolProblem(definition.origin, message, definition.line, definition.name))
        for problem in loaded.problems:
            self.problems.append(problem)
            for name in (problem.name, stem):
                if name is not None:
                    self.reasons.setdefault(name, problem)  # the first one is reported


def layered(layers: Iterable[ToolLayer], reserved: Collection[str]) -> CustomTools:
    """Return the tools of all layers, highest first; `reserved` are the names of built-in tools."""
    definitions: dict[str, Definition] = {}
    hidden: list[Definition] = []
    problems: list[ToolProblem] = []
    untrusted: list[Untrusted] = []
    reasons: dict[str, ToolProblem | Untrusted] = {}
    for layer in layers:
        problems += layer.problems
        untrusted += layer.untrusted
        hidden += layer.hidden
        for declared in layer.definitions.values():
            definition = declared
            if definition.name in reserved:
                if definition.source != "directory":
                    message = f"{definition.name} is the name of a built-in tool; choose another name."
                    problems.append(ToolProblem(definition.origin, message, definition.line, definition.name))
                    continue
                definition = definition._replace(name=PREFIX + definition.name)
            if definitions.setdefault(definition.name, definition) is not definition:
                hidden.append(definition)
        for name, reason in layer.reasons.items():
            for spelling in (name, name.replace("-", "_")):  # file names often have dashes
                reasons.setdefault(spelling, reason)
    return CustomTools(definitions, tuple(hidden), tuple(problems), tuple(untrusted), reasons)
