"""Globs of path rules: `*` and `?` inside a name, `**` for any number of folders, a backslash before a plain character.

    glob       = [ "/" | "~/" | "./" ] component *( "/" component )
    component  = "**" | 1*( character | "*" | "?" | "\\" character )

A glob is relative to the workspace unless it starts with "/" or "~/". An allow matches narrowly: the whole path,
exactly as written. A deny or ask matches broadly: also everything below, a glob without "/" at any depth, and names
that some file systems treat as equal.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hilt.formats.names import fold
from hilt.policy.subject import Touched

Match = Literal["yes", "maybe", "no"]

_ANY = "?/"  # two characters, so it cannot be confused with a literal one
_STAR = "*/"

MAX_LENGTH = 2000


class BadPathGlob(ValueError):
    """An invalid glob; the message says why."""


Tokens = tuple[str, ...]
Component = Tokens | None  # None is `**`


class PathGlob(NamedTuple):
    """A glob as its components, once as written and once folded."""

    source: str
    is_absolute: bool
    exact: tuple[Component, ...]
    folded: tuple[Component, ...]


def parse(source: str, home: str) -> PathGlob:
    """Parse a glob; raise BadPathGlob for unsupported syntax instead of treating it as literal."""
    if not source or len(source) > MAX_LENGTH:
        raise BadPathGlob(f"a path glob must have 1 to {MAX_LENGTH} characters")
    if "\0" in source:
        raise BadPathGlob("a path cannot contain NUL")
    folders: list[str] = []
    rest = source
    if source == "~" or source.startswith("~/"):
        if not home.startswith("/"):
            raise BadPathGlob("the home directory is unknown")
        folders, rest = [name for name in home.split("/") if name], source[2:]
    elif source.startswith("~"):
        raise BadPathGlob("~ is only supported before a slash")
    is_absolute = source.startswith(("/", "~"))
    components: list[Component] = [tuple(name) for name in folders]
    for text in rest.split("/"):
        if text in ("", "."):
            continue
        if text == "..":
            raise BadPathGlob(".. is not supported in a path glob")
        components.append(None if text == "**" else _tokens(text))
    return PathGlob(
        source, is_absolute, tuple(components), tuple(_fold_component(component) for component in components)
    )


def covers(glob: PathGlob, touched: Touched) -> bool:
    """Whether an allow covers everything that the call may access there."""
    names = _names(glob, touched)
    if names is None or len(glob.exact) not in _states(glob.exact, names):
        return False
    return not touched.tree or (glob.exact[-1:] == (None,))


def applies(glob: PathGlob, touched: Touched) -> Match:
    """Whether a deny or ask applies to what the call accesses there; maybe, when it applies to something below."""
    names = _names(glob, touched)
    if names is None:
        return "no"
    components = wide(glob)
    states = start(components)
    for name in names:
        if len(components) in states:
            return "yes"
        states = step(components, states, fold(name))
    if len(components) in states:
        return "yes"
    return "maybe" if touched.tree and states else "no"


def wide(glob: PathGlob) -> tuple[Component, ...]:
    """Return the components that a deny or ask matches against folded names."""
    return glob.folded if glob.is_absolute or len(glob.folded) != 1 else (None, *glob.folded)


def literal(glob: PathGlob) -> list[str]:
    """Return the names before the first wildcard."""
    names = []
    for component in glob.exact:
        if component is None or not all(len(token) == 1 for token in component):
            break
        names.append("".join(component))
    return names


def matches_any(component: Component) -> bool:
    """Whether a component matches every name."""
    return component is None or all(token == _STAR for token in component)


def quote(path: str) -> str:
    """Return the glob that matches exactly this path."""
    return "".join("\\" + character if character in "\\*?[]{}~" else character for character in path)


def _names(glob: PathGlob, touched: Touched) -> list[str] | None:
    path = touched.target if glob.is_absolute else touched.relative
    if path is None or (glob.is_absolute and not path.startswith("/")):
        return None
    return [name for name in path.split("/") if name not in ("", ".")]


def _tokens(text: str) -> Tokens:
    tokens: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
            if position == len(text):
                raise BadPathGlob("a backslash must be followed by a character")
            tokens.append(text[position])
        elif character in "[]{}":
            raise BadPathGlob(
                f"{character} is not supported in a path glob; write \\{character} for the literal character"
            )
        elif character == "*":
            if tokens[-1:] == [_STAR]:
                raise BadPathGlob("** must be a whole component")
            tokens.append(_STAR)
        else:
            tokens.append(_ANY if character == "?" else character)
        position += 1
    return tuple(tokens)


def _fold_component(component: Component) -> Component:
    """Fold the literal characters of a component; adjacent ones together."""
    if component is None:
        return None
    folded: list[str] = []
    run = ""
    for token in (*component, None):
        if token is not None and len(token) == 1:
            run += token
            continue
        folded += fold(run)
        run = ""
        if token is not None:
            folded.append(token)
    return tuple(folded)


def start(components: tuple[Component, ...]) -> set[int]:
    """Return the states before the first name; a state is a number of components that are already matched."""
    return _with_empty_matches(components, {0})


def _states(components: tuple[Component, ...], names: list[str]) -> set[int]:
    """Return the states after all names."""
    states = start(components)
    for name in names:
        states = step(components, states, name)
    return states


def step(components: tuple[Component, ...], states: set[int], name: str) -> set[int]:
    """Return the states after one more name."""
    following = set()
    for state in states:
        if state < len(components):
            component = components[state]
            if component is None:
                following.add(state)
            elif _fits(component, name):
                following.add(state + 1)
    return _with_empty_matches(components, following)


def _with_empty_matches(components: tuple[Component, ...], states: set[int]) -> set[int]:
    """Add the states after each `**`, which may match no name."""
    closed = set()
    for state in states:
        closed.add(state)
        while state < len(components) and components[state] is None:
            state += 1
            closed.add(state)
    return closed


def _fits(tokens: Tokens, name: str) -> bool:
    """Match one name; after a mismatch, only the last star is extended by one character."""
    token = character = 0
    star, retry = -1, 0
    while character < len(name):
        if token < len(tokens) and tokens[token] in (_ANY, name[character]):
            token += 1
            character += 1
        elif token < len(tokens) and tokens[token] == _STAR:
            star, retry = token, character
            token += 1
        elif star >= 0:
            retry += 1
            token, character = star + 1, retry
        else:
            return False
    return all(remaining == _STAR for remaining in tokens[token:])
