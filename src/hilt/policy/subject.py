"""What rules are matched against: one call with all its paths resolved."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.shell.risk import CommandPart


class Touched(NamedTuple):
    """One effect on one resolved target.

    `target` is a resolved absolute path or a URL. `relative` is the path relative to the workspace, "." for the
    workspace itself, None outside. `tree` is set when the call may access everything below a folder. `named` is the
    target as the call wrote it.
    """

    effect: str
    target: str
    relative: str | None = None
    tree: bool = False
    named: str = ""


class Base(NamedTuple):
    """The folder that relative rules start at, and a copy of it in which all rules apply to the same paths."""

    root: str
    copy: str = ""

    def original(self, path: str) -> str | None:
        """Return the path in the folder that a path in the copy stands for; None for a path elsewhere."""
        return self.root + path[len(self.copy) :] if self.copy and (path + "/").startswith(self.copy + "/") else None


class Subject(NamedTuple):
    """A call as rules see it.

    `tool` is the canonical name of the tool, `names` are all its names. `effects` are those of this call: an effect
    without a touch can be allowed only by the name of the tool. For a call that runs a command, `command` is its whole
    text and `parts` are its simple commands; a redirection has a known path when a touch is `named` like it.
    Expressions match the `texts`, such as a query, when there is no command. `actions` are all spellings of the action.
    `ways` are paths that the call passes through or reads besides its touches: only path rules that deny or ask apply
    to them.
    """

    tool: str
    names: frozenset[str]
    effects: frozenset[str] = frozenset()
    touches: tuple[Touched, ...] = ()
    command: str = ""
    parts: tuple[CommandPart, ...] = ()
    texts: tuple[str, ...] = ()
    actions: frozenset[str] = frozenset()
    ways: tuple[Touched, ...] = ()
