"""What a rule is held against: one call, with everything about it resolved."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.commands.risk import CommandPart


class Touched(NamedTuple):
    """One effect on one target, where its names really lead.

    `target` is an absolute path without links and dots, or a URL. `relative` is the same path from the workspace, "."
    for the workspace itself, None outside of it. `tree` says that the call may reach everything below a folder, and
    `named` is the target as the call wrote it.
    """

    effect: str
    target: str
    relative: str | None = None
    tree: bool = False
    named: str = ""


class Subject(NamedTuple):
    """A call as rules see it.

    `tool` is the tool's own name, `names` are all names that mean it. `effects` are those of this call: one that has
    no touch can be allowed by the name of the tool only. For a call that runs a command, `command` is its whole text
    and `parts` what it consists of; a redirection that writes is known by its path when a touch is `named` as it is.
    `texts` is what an expression speaks of where there is no command, such as a query. `actions` are all spellings of
    the action that is asked for. `ways` are paths that the call passes or reads besides its touches: only path rules
    that deny or ask apply to them.
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
