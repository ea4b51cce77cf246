"""Globs: `*`, `?`, `[a-z]`, `{a,b}` and `**`, parsed once and matched in bounded time.

    glob       = component *( "/" component )
    component  = "**" | *( character | "?" | "*" | class )
    class      = "[" [ "!" | "^" ] 1*( character | character "-" character | "[:" name ":]" ) "]"
    {a,b}      matches any of its alternatives, which may contain anything, including "/" and other braces
    \\x         matches the character x literally

A glob without "/" matches names at any depth; one with "/" is matched from the folder that is searched. Globs of path
rules have no braces (policy/path_globs.py), and are matched name by name (`start`, `step`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

BRACES_MAX = 50
ALTERNATIVES_MAX = 256
_PLAIN_CLASS = re.compile(r"\[(?:[0-9A-Za-z_.](?:-[0-9A-Za-z])?)+\]").fullmatch
_PLAIN = "._"  # literal characters besides letters and digits
_DIGITS, _UPPER, _LOWER = ("0", "9"), ("A", "Z"), ("a", "z")
_NAMED = {
    "alnum": (_DIGITS, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "blank": ((" ", " "), ("\t", "\t")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
    "digit": (_DIGITS,),
    "graph": (("!", "~"),),
    "lower": (_LOWER,),
    "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": ((" ", " "), ("\t", "\r")),
    "upper": (_UPPER,),
    "xdigit": (_DIGITS, ("A", "F"), ("a", "f")),
}
_DEEP_MAX = 2  # a regular expression may backtrack over this many `**`; with more, names are matched one by one


class BadGlob(ValueError):
    """An invalid glob: the message says what is wrong, and where."""


def _bad(glob: str, problem: str, position: int) -> BadGlob:
    return BadGlob(f"{problem} at character {position + 1} of the glob {glob!r}")


class Class(NamedTuple):
    """A character class: its ranges, whether it is negated, and its source text."""

    negated: bool
    ranges: tuple[tuple[str, str], ...]
    source: str


Token = str | Class | None  # a character, one of a class, any one character
SLASH = "/"
STAR = "*/"  # a star: no character is two characters long


class Component(NamedTuple):
    """The glob of one name; `deep` for `**`, which matches any number of folders."""

    tokens: tuple[Token, ...]
    or_tokens: tuple[Token, ...] = ()  # the name may match these instead

    @property
    def deep(self) -> bool:
        """Whether this is `**`."""
        return self.tokens == (STAR, STAR)

    @property
    def literal(self) -> str | None:
        """The only name that it matches; None if it has a wildcard."""
        names = [token for token in self.tokens if isinstance(token, str) and token != STAR]
        return "".join(names) if len(names) == len(self.tokens) and not self.or_tokens else None


Components = tuple[Component, ...]


class Glob(NamedTuple):
    """One alternative of a glob, as its components."""

    components: Components

    @property
    def anywhere(self) -> bool:
        """Whether it matches names only, at any depth."""
        return len(self.components) == 1 and not self.components[0].deep

    @property
    def name(self) -> Component:
        """The component that the file name must match."""
        last = self.components[-1]
        return Component((STAR,)) if last.deep else last

    @property
    def dotted(self) -> bool:
        """Whether it matches hidden names."""
        return any(component.tokens[:1] == (".",) for component in self.components)


def parse(glob: str) -> list[Glob]:
    """Return the alternatives of a glob."""
    if not glob.strip("/"):
        raise _bad(glob, "there is nothing to match", 0)
    alternatives = []
    for tokens in _expand(_Reader(glob).sequence(inside=False), glob):
        components = [Component(tuple(part)) for part in _split(tokens)]
        anchored = bool(components) and not components[0].tokens
        components = [part for part in components if part.tokens not in ((), (".",))]
        if any(part.tokens == (".", ".") for part in components):
            raise _bad(glob, "it contains .., but a glob matches only below path", glob.find(".."))
        if tokens and tokens[-1] == "/":
            raise _bad(glob, "it ends with a slash, but only files are matched", len(glob) - 1)
        # "**/name" is "name" at any depth, and "/name" is "name" in the searched folder
        while len(components) == 2 and components[0].deep and not components[1].deep:
            components = components[1:]
            anchored = False
        if anchored and len(components) == 1 and not components[0].deep:
            alternatives.append(Glob((Component(()), *components)))
        elif components:
            alternatives.append(Glob(tuple(components)))
    if not alternatives:
        raise _bad(glob, "there is nothing to match", 0)
    return alternatives


def as_written(globs: Iterable[Glob]) -> list[Glob]:
    """Return the globs that have classes with their brackets as plain characters: a folder may be named [id]."""
    written = []
    for glob in globs:
        if any(isinstance(token, Class) for component in glob.components for token in component.tokens):
            plain = [
                [sign for token in component.tokens for sign in (token.source if isinstance(token, Class) else [token])]
                for component in glob.components
            ]
            written.append(Glob(tuple(Component(tuple(tokens)) for tokens in plain)))
    return written


def read_class(glob: str, opened: int) -> tuple[Class, int]:
    """Return the class whose bracket opens at a position, and the position after it."""
    reader = _Reader(glob, opened + 1)
    return reader.character_class(opened), reader.at


_Node = Token | list["_Sequence"]
_Sequence = list[_Node]


class _Reader:
    """Parses a glob from left to right."""

    def __init__(self, glob: str, at: int = 0) -> None:
        self._glob = glob
        self.at = at

    def sequence(self, *, inside: bool) -> _Sequence:
        """Parse up to the end, or up to the comma or brace that ends an alternative."""
        nodes: _Sequence = []
        while self.at < len(self._glob):
            character = self._glob[self.at]
            if inside and character in ",}":
                return nodes
            self.at += 1
            if character == "{":
                nodes.append(self._alternatives(self.at - 1))
            elif character == "}":
                raise _bad(self._glob, "there is a } without its {", self.at - 1)
            elif character == "[":
                nodes.append(self.character_class(self.at - 1))
            elif character == "*":
                nodes.append(STAR)
            elif character == "?":
                nodes.append(None)
            elif character == "\\":
                nodes.append(self._next("a backslash ends the glob"))
            else:
                nodes.append(character)
        return nodes

    def _alternatives(self, opened: int) -> list[_Sequence]:
        if self._glob.count("{", 0, opened) >= BRACES_MAX:
            raise _bad(self._glob, f"there are more than {BRACES_MAX} braces", opened)
        choices = [self.sequence(inside=True)]
        while self.at < len(self._glob):
            character = self._glob[self.at]
            self.at += 1
            if character == "}":  # as in {name}, which may be a name of a template as well
                return choices if len(choices) > 1 else [*choices, ["{", *choices[0], "}"]]
            choices.append(self.sequence(inside=True))
        raise _bad(self._glob, "the { is not closed", opened)

    def character_class(self, opened: int) -> Class:
        """Parse the rest of a class."""
        negated = self._glob[self.at : self.at + 1] in ("!", "^")
        self.at += negated
        ranges: list[tuple[str, str]] = []
        low = ""  # what a "-" would make the start of a range; nothing after a range or a named class
        start = self.at
        while True:
            first = self.at == start
            character = self._next("the [ is not closed", opened)
            following = self._glob[self.at : self.at + 1]
            if character == "]" and not first:
                return Class(negated, tuple(ranges), self._glob[opened : self.at])
            if character == "-" and low and following not in ("", "]"):
                # a range that runs backwards, as in the name [post-id], matches nothing
                ranges[-1] = (low, self._in_class(self._next("the [ is not closed", opened), opened))
                low = ""
            elif character == "[" and following == ":" and (named := self._named(opened)):
                ranges += named
                low = ""
            else:
                low = self._in_class(character, opened)
                ranges.append((low, low))

    def _in_class(self, character: str, opened: int) -> str:
        return self._next("the [ is not closed", opened) if character == "\\" else character

    def _named(self, opened: int) -> tuple[tuple[str, str], ...]:
        """Parse the rest of a named class, such as [:digit:]; return nothing if its brackets are plain characters."""
        end = self._glob.find("]", self.at + 1)
        name = self._glob[self.at + 1 : end - 1]
        if end <= self.at + 1 or self._glob[end - 1] != ":":
            return ()
        if name not in _NAMED:
            raise _bad(self._glob, f"there is no class [:{name}:]; the classes are {', '.join(_NAMED)}", opened)
        self.at = end + 1
        return _NAMED[name]

    def _next(self, problem: str, at: int | None = None) -> str:
        if self.at >= len(self._glob):
            raise _bad(self._glob, problem, len(self._glob) - 1 if at is None else at)
        self.at += 1
        return self._glob[self.at - 1]


def _expand(sequence: _Sequence, glob: str) -> list[list[Token]]:
    """Return every combination of the alternatives of all braces."""
    combinations: list[list[Token]] = [[]]
    for node in sequence:
        if isinstance(node, list):
            endings = [combination for choice in node for combination in _expand(choice, glob)]
            if len(combinations) * len(endings) > ALTERNATIVES_MAX:
                raise _bad(glob, f"the braces expand to more than {ALTERNATIVES_MAX} globs", 0)
            combinations = [combination + ending for combination in combinations for ending in endings]
        else:
            for combination in combinations:
                combination.append(node)
    return combinations


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == SLASH:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


# --- matching -------------------------------------------------------------------------------------------------------


def matcher(globs: Iterable[Glob]) -> Callable[[str], bool]:
    """Return a function that matches paths, relative to the searched folder, against any of the globs."""
    alternatives = list(globs)
    names = [_pattern(glob.components[0]) for glob in alternatives if glob.anywhere]
    paths = [_path_pattern(glob) for glob in alternatives if not glob.anywhere and _depths(glob) <= _DEEP_MAX]
    deep = [_steps(glob) for glob in alternatives if not glob.anywhere and _depths(glob) > _DEEP_MAX]
    by_name = re.compile(f"(?s:{'|'.join(names)})\\Z").match if names else None
    by_path = re.compile(f"(?s:{'|'.join(paths)})\\Z").match if paths else None

    def matches(path: str) -> bool:
        if by_name is not None and by_name(path, path.rfind("/") + 1):
            return True
        if by_path is not None and by_path(path):
            return True
        return any(covers(components, path.split("/")) for components in deep)

    return matches


def covers(components: Components, names: Iterable[str]) -> bool:
    """Whether components match the whole of a path, given as its names."""
    states = start(components)
    for name in names:
        states = step(components, states, name)
    return len(components) in states


def start(components: Components) -> set[int]:
    """Return the states before the first name; a state is a number of components that are already matched."""
    return _with_empty_matches(components, {0})


def step(components: Components, states: set[int], name: str) -> set[int]:
    """Return the states after one more name."""
    following = set()
    for state in states:
        if state < len(components):
            component = components[state]
            if component.deep:
                following.add(state)
            elif component_matcher(component)(name):
                following.add(state + 1)
    return _with_empty_matches(components, following)


def _with_empty_matches(components: Components, states: set[int]) -> set[int]:
    """Add the states after each `**`, which may match no name."""
    closed = set()
    for state in states:
        closed.add(state)
        while state < len(components) and components[state].deep:
            state += 1
            closed.add(state)
    return closed


def _steps(glob: Glob) -> Components:
    """Return components for `step`: without the anchor, and with at least one name for a last `**`."""
    components = tuple(component for component in glob.components if component.tokens)
    return (*components[:-1], Component((STAR,)), components[-1]) if components[-1].deep else components


def name_globs(globs: Iterable[Glob]) -> tuple[list[str], bool]:
    """Return globs that the names of all matching files match, and whether they are sufficient."""
    alternatives = list(globs)
    names = [_widened(glob.name) for glob in alternatives]
    exact = all(glob.anywhere and glob.name == name for glob, name in zip(alternatives, names, strict=True))
    return list(dict.fromkeys(map(_format_component, names))), exact


def _widened(component: Component) -> Component:
    """Return the component with stars for what ripgrep reads differently.

    It matches bytes, knows fewer classes, and takes a colon for the end of a name.
    """
    tokens: list[Token] = []
    for token in component.tokens:
        wide = token in (None, ":") or (isinstance(token, Class) and not _is_plain(token))
        if not wide or tokens[-1:] != [STAR]:
            tokens.append(STAR if wide else token)
    return Component(tuple(tokens))


def _is_plain(token: Class) -> bool:
    return _PLAIN_CLASS(token.source) is not None and all(low <= high for low, high in token.ranges)


def _format_component(component: Component) -> str:
    return "".join(_format_token(token) for token in component.tokens)


def _format_token(token: Token) -> str:
    if token is None:
        return "?"
    if isinstance(token, Class):
        return token.source
    if token == STAR:
        return "*"
    return token if token.isalnum() or token in _PLAIN else "\\" + token


@lru_cache(maxsize=4096)
def component_matcher(component: Component) -> Callable[[str], object]:
    """Return a function that matches a single name."""
    literal = component.literal
    return literal.__eq__ if literal is not None else re.compile(f"(?s:{_pattern(component)})\\Z").match


def _depths(glob: Glob) -> int:
    return sum(component.deep for component in glob.components[:-1])


def _pattern(component: Component) -> str:
    """Return the regular expression of a name; a star matches as little as possible and never backtracks."""
    if component.or_tokens:
        return f"(?:{_pattern(Component(component.tokens))}|{_pattern(Component(component.or_tokens))})"
    parts = [""]
    for token in component.tokens:
        if token == STAR:
            if parts[-1] or len(parts) == 1:
                parts.append("")
        else:
            parts[-1] += _token_pattern(token)
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    # text between two stars may match where it first occurs: a later match leaves less for the rest
    return first + "".join(f"(?>[^/]*?{part})" for part in middle) + f"[^/]*{last}"


def _token_pattern(token: Token) -> str:
    if token is None:
        return "[^/]"
    if isinstance(token, str):
        return re.escape(token)
    ranges = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in token.ranges if low <= high)
    # a class may contain a slash, but a name never does
    return f"[^/{ranges}]" if token.negated else f"(?!/)[{ranges}]" if ranges else "(?!)"


def _path_pattern(glob: Glob) -> str:
    pattern = ""
    last = len(glob.components) - 1
    for index, component in enumerate(glob.components):
        if component.deep:
            pattern += ".+" if index == last else "(?:[^/]+/)*"
        elif component.tokens:
            pattern += _pattern(component) + ("" if index == last else "/")
    return pattern
