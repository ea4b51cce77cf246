"""Globs of path rules: `*`, `?` and `[a-z]` inside a name, `**` for any number of folders, a backslash before a plain
character.

    glob       = [ "/" | "~/" | "./" ] component *( "/" component )
    component  = "**" | 1*( character | "*" | "?" | class | "\\" character )     (class: see hilt.formats.globs)

A glob is relative to the workspace unless it starts with "/" or "~/". An allow matches narrowly: the whole path,
exactly as written. A deny or ask matches broadly: also everything below, a glob without "/" at any depth, and names
that some file systems treat as equal. Folders may be named [id]: for an allow, brackets are plain characters; a deny or
ask matches names both as written and by the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from hilt.formats import globs
from hilt.formats.globs import STAR, BadGlob, Class, Component, Components, Token
from hilt.formats.names import fold
from hilt.policy.subject import Touched

Match = Literal["yes", "maybe", "no"]

MAX_LENGTH = 2000
_CLASS_MAX = 1000  # characters of a class; a larger one matches any character

_DEEP = Component((STAR, STAR))


class PathGlob(NamedTuple):
    """A glob as its components, once as written and once folded."""

    source: str
    is_absolute: bool
    exact: Components
    folded: Components


def parse(source: str, home: str) -> PathGlob:
    """Parse a glob; raise BadGlob for unsupported syntax instead of treating it as literal."""
    if not source or len(source) > MAX_LENGTH:
        raise BadGlob(f"a path glob must have 1 to {MAX_LENGTH} characters")
    if "\0" in source:
        raise BadGlob("a path cannot contain NUL")
    folders: list[str] = []
    rest = source
    if source == "~" or source.startswith("~/"):
        if not home.startswith("/"):
            raise BadGlob("the home directory is unknown")
        folders, rest = [name for name in home.split("/") if name], source[2:]
    elif source.startswith("~"):
        raise BadGlob("~ is only supported before a slash")
    is_absolute = source.startswith(("/", "~"))
    components = [Component(tuple(name)) for name in folders]
    for text in rest.split("/"):
        if text in ("", "."):
            continue
        if text == "..":
            raise BadGlob(".. is not supported in a path glob")
        components.append(_DEEP if text == "**" else _component(text))
    exact = tuple(Component(tuple(_without_classes(component.tokens))) for component in components)
    return PathGlob(source, is_absolute, exact, tuple(map(_fold_component, components)))


def covers(glob: PathGlob, touched: Touched) -> bool:
    """Whether an allow covers everything that the call may access there."""
    path = _names(glob, touched)
    if path is None or not globs.covers(glob.exact, path):
        return False
    return not touched.tree or (glob.exact[-1:] == (_DEEP,))


def applies(glob: PathGlob, touched: Touched) -> Match:
    """Whether a deny or ask applies to what the call accesses there; maybe, when it applies to something below."""
    path = _names(glob, touched)
    if path is None:
        return "no"
    components = wide(glob)
    states = globs.start(components)
    for name in path:
        if len(components) in states:
            return "yes"
        states = globs.step(components, states, fold(name))
    if len(components) in states:
        return "yes"
    return "maybe" if touched.tree and states else "no"


def wide(glob: PathGlob) -> Components:
    """Return the components that a deny or ask matches against folded names."""
    return glob.folded if glob.is_absolute or len(glob.folded) != 1 else (_DEEP, *glob.folded)


def literal(components: Components) -> list[str]:
    """Return the names before the first wildcard."""
    first: list[str] = []
    for component in components:
        if component.literal is None:
            break
        first.append(component.literal)
    return first


def first_names(glob: PathGlob) -> list[str]:
    """Return the names before the first wildcard, as written."""
    return literal(glob.exact)[: len(literal(glob.folded))]


def matches_any(component: Component) -> bool:
    """Whether a component matches every name."""
    return all(token == STAR for token in component.tokens)


def quote(path: str) -> str:
    """Return the glob that matches exactly this path."""
    return "".join("\\" + character if character in "\\*?[]{}~" else character for character in path)


def _names(glob: PathGlob, touched: Touched) -> list[str] | None:
    path = touched.target if glob.is_absolute else touched.relative
    if path is None or (glob.is_absolute and not path.startswith("/")):
        return None
    return names(path)


def names(path: str) -> list[str]:
    """Return the names of a path."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _component(text: str) -> Component:
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
            if position == len(text):
                raise BadGlob("a backslash must be followed by a character")
            tokens.append(text[position])
        elif character == "[":
            try:
                token, position = globs.read_class(text, position)
            except BadGlob as error:
                raise BadGlob(f"{error}; write \\[ for the literal character") from None
            tokens.append(token)
            continue
        elif character in "{}":
            raise BadGlob(f"{character} is not supported in a path glob; write \\{character} for the literal character")
        elif character == "*":
            if tokens[-1:] == [STAR]:
                raise BadGlob("** must be a whole component")
            tokens.append(STAR)
        else:
            tokens.append(None if character == "?" else character)
        position += 1
    return Component(tuple(tokens))


def _without_classes(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens with the brackets of classes as plain characters."""
    for token in tokens:
        yield from token.source if isinstance(token, Class) else [token]


def _fold_class(token: Class) -> Class | None:
    """Return a class that matches the folded names that the class matches; None for any character."""
    codes = [range(ord(low), ord(high) + 1) for low, high in token.ranges]
    if token.negated or sum(map(len, codes)) > _CLASS_MAX:
        return None
    folded = sorted({fold(chr(code)) for part in codes for code in part if not 0xD800 <= code < 0xE000})
    return token._replace(ranges=tuple((character, character) for character in folded if len(character) == 1))


def _fold_component(component: Component) -> Component:
    """Fold the literal characters of a component; adjacent ones together."""
    plain = tuple(_without_classes(component.tokens))
    return Component(_fold(component.tokens), () if plain == component.tokens else _fold(plain))


def _fold(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    folded: list[Token] = []
    run = ""
    for token in (*tokens, STAR):
        if isinstance(token, str) and token != STAR:
            run += token
            continue
        folded += [*fold(run), _fold_class(token) if isinstance(token, Class) else token]
        run = ""
    return tuple(folded[:-1])
