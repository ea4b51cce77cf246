"""The forms of a rule: the syntax of one rule, and which calls it applies to.

    rule    = "*" | name | name ":" expression | name "(" inside ")" | server
    server  = "mcp__" name | "mcp__" [ name "__" [ start ] ] "*"
    inside  = prefix ":*" | "/" expression "/" | "=" command | "path:" glob | "domain:" host | "action:" word

Names may contain colons (`tool::x`): the longest known name wins. A form that names a tool applies under every name of
that tool; one that names an MCP server applies to all its tools, or to those with the given prefix.

A path form applies to every tool with the effect of the named one (`Write(path:…)` to all that write), a domain form to
every tool that uses the network. An action form that denies or asks applies to every tool with the effect.

An allow must cover the whole call, a deny or ask only part of it: see `covers` and `applies`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from hilt.formats import urls
from hilt.formats.globs import BadGlob
from hilt.policy import expressions, hosts, path_globs
from hilt.policy.path_globs import Match
from hilt.policy.subject import Subject, Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.shell.risk import CommandPart

    Item = CommandPart | Touched | None  # None: the whole call

MAX_LENGTH = 4000

_NAME = re.compile(r"[A-Za-z0-9_.-]+(?:::[A-Za-z0-9_.-]+)*")
# a command that starts with an assignment or a redirection, not with its program
_PREPARED = re.compile(r"\s*(?:[A-Za-z_]\w*(?:\[|\+?=)|[0-9]*[<>]|\{\w+\}[<>]|&>)")
_TESTS = ("[", "[[")
_EVALUATORS = ("eval", "source", ".")
_CODE_OPTION = re.compile(r"-[a-z]*c")  # an option of a shell
# a server's name cannot contain two underscores, which separate it from the tool
_SERVER = re.compile(r"mcp__(?:\*|(?:(?!__)[A-Za-z0-9_-])+(?:__[A-Za-z0-9_-]*\*)?)\Z")


class Names(NamedTuple):
    """The known tools: each name with all names of the tools it means, the effects by name, and the names of a tool.

    A name may mean two tools, in different dialects; a rule then applies to both, and `own` has that name for neither.
    """

    twins: Mapping[str, frozenset[str]]
    effects: Callable[[str], frozenset[str]]
    own: Mapping[str, frozenset[str]] = {}


class Scope(NamedTuple):
    """What a rule can govern: tools by name, effect or MCP server, or everything when all are None."""

    names: frozenset[str] | None = None
    effect: str | None = None
    server: str | None = None  # prefix of the tools' names

    def governs(self, subject: Subject) -> bool:
        """Whether a call is in the scope."""
        if self.server is not None:
            return subject.tool.startswith(self.server)
        if self.names is None and self.effect is None:
            return True
        if self.names is not None and self.names & subject.names:
            return True
        return self.effect is not None and (
            self.effect in subject.effects or any(touched.effect == self.effect for touched in subject.touches)
        )

    def may_govern(self, subject: Subject) -> bool:
        """Whether a call may be in the scope: a program may read and write any file."""
        return self.governs(subject) or (self.effect in ("read", "write") and "execute" in subject.effects)


EVERYTHING = Scope()
NETWORK = Scope(None, "network")


class BadForm(ValueError):
    """An invalid rule: why, and what it could have governed."""

    def __init__(self, message: str, scope: Scope = EVERYTHING) -> None:
        super().__init__(message)
        self.message = message
        self.scope = scope


class Form(Protocol):
    """A parsed rule."""

    @property
    def scope(self) -> Scope:
        """What the rule can govern."""

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Whether an allow of this form covers the whole call, or one simple command or touch of it."""

    def applies(self, subject: Subject) -> Match:
        """Whether a deny or ask of this form applies to the call; maybe, if that is known only at run time."""


class Whole(NamedTuple):
    """`*`, the name of a tool, or `mcp__server__get_*`: matches every call in its scope, and all of it."""

    scope: Scope

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether the call is in the scope."""
        return self.scope.governs(subject)

    def applies(self, subject: Subject) -> Match:
        """Return whether the call is in the scope."""
        return "yes" if self.scope.governs(subject) else "no"


class Matching(NamedTuple):
    """`Name:expression`: matches the commands of a tool, or else its texts or the targets of its touches."""

    scope: Scope
    expression: expressions.Expression

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether all of a simple command matches, or for a tool that runs none, a target or all texts."""
        if not self.scope.governs(subject):
            return False
        if item is not None and not isinstance(item, Touched):
            text = _allowed_text(item)
            fits = text is not None and self.expression.fits(text)
            return fits and (not _is_by_path(item) or self._fits_path(item))
        if subject.parts or subject.command:
            return False
        touches = subject.touches if item is None else (item,)
        texts = (item is None and subject.texts) or tuple(map(_path_or_target, touches))
        return bool(texts) and all(map(self.expression.fits, texts))

    def applies(self, subject: Subject) -> Match:
        """Return whether the expression occurs in the whole text, in one part, or in a target."""
        if not self.scope.governs(subject):
            return "no"
        return "yes" if any(self.expression.found_in(text) for text in _all_texts(subject)) else "no"

    def _fits_path(self, part: CommandPart) -> bool:
        """Whether the expression matches this program by intent, and not only the start of its path.

        `ls.*` matches the text `lsx/evil` and `ls/../evil` but is not meant to allow either; `.*` allows both.
        """
        program, *rest = (word or "" for word in part.words)
        direct = posixpath.normpath(program)
        spellings = [("./" if program.startswith("./") else "") + direct]
        if "/" not in self.expression.source:
            spellings.append("./" + direct)
        return all(self.expression.fits(" ".join((spelling, *rest))) for spelling in spellings)


class Beginning(NamedTuple):
    """`Name(prefix:*)`: commands that start with these words."""

    scope: Scope
    words: tuple[str, ...]

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether a simple command starts with the words, or all texts of a call without commands."""
        if not self.scope.governs(subject) or isinstance(item, Touched):
            return False
        if item is None:
            starts = (tuple(text.split())[: len(self.words)] for text in subject.texts)
            return bool(subject.texts) and not (subject.parts or subject.command) and set(starts) == {self.words}
        return (
            item.words[: len(self.words)] == self.words
            and not _PREPARED.match(item.text)
            and is_allowable(item)
            and not _is_dangerous_in_context(item)
        )

    def applies(self, subject: Subject) -> Match:
        """Return whether one simple command starts with the words, or could at run time."""
        if not self.scope.governs(subject):
            return "no"
        match: Match = "no"
        for words in _all_words(subject):
            start = words[: len(self.words)]
            if start == self.words:
                return "yes"
            if None in start and _could_begin(start, self.words):
                match = "maybe"
        return "maybe" if any(map(_runs_unseen, subject.parts)) else match


class Exactly(NamedTuple):
    """`Name(=command)`: exactly one command line, as stored by a grant."""

    scope: Scope
    command: str

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether a simple command belongs to that command line."""
        if item is None or isinstance(item, Touched):
            return False
        return self.applies(subject) == "yes" and (is_allowable(item) or item.kind in ("code", "unseen"))

    def applies(self, subject: Subject) -> Match:
        """Return whether the call runs that command line."""
        return "yes" if self.scope.governs(subject) and self.command == subject.command else "no"


class Below(NamedTuple):
    """`Name(path:glob)`: touches with the effect, of any tool; only of that tool when its effect is unknown."""

    scope: Scope
    glob: path_globs.PathGlob

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether the glob matches a path, and everything below it that the call may access."""
        return isinstance(item, Touched) and self._concerns(subject, item) and path_globs.covers(self.glob, item)

    def applies(self, subject: Subject) -> Match:
        """Return whether the glob matches one of the paths."""
        strongest: Match = "no"
        for touched in (*subject.touches, *subject.ways):
            if self._concerns(subject, touched):
                match = path_globs.applies(self.glob, touched)
                if match == "yes":
                    return match
                strongest = match if match == "maybe" else strongest
        return strongest

    def _concerns(self, subject: Subject, touched: Touched) -> bool:
        if self.scope.names is not None:
            return self.scope.governs(subject) and touched.effect in ("read", "write")
        return touched.effect == self.scope.effect


class Reaching(NamedTuple):
    """`Name(domain:host)`: what any tool accesses over the network."""

    scope: Scope
    domain: hosts.Domain

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether a URL certainly leads to the domain."""
        if not isinstance(item, Touched) or item.effect != "network":
            return False
        place = urls.locate(item.target)
        return place is not None and self.domain.covers(place)

    def applies(self, subject: Subject) -> Match:
        """Return whether a URL leads to the domain; maybe, when it is ambiguous."""
        match: Match = "no"
        for touched in subject.touches:
            if touched.effect == "network":
                place = urls.locate(touched.target)
                if place is None:
                    match = "maybe"
                elif self.domain.names(place):
                    return "yes"
        return match


class Acting(NamedTuple):
    """`Name(action:word)`: one action of a tool; a deny or ask applies to every tool with the same effect."""

    scope: Scope
    action: str

    def covers(self, subject: Subject, item: Item = None) -> bool:
        """Return whether the call is that action of that tool."""
        return bool(self.scope.names and self.scope.names & subject.names) and self._is(subject)

    def applies(self, subject: Subject) -> Match:
        """Return whether the call is that action of a tool in the scope."""
        return "yes" if self.scope.governs(subject) and self._is(subject) else "no"

    def _is(self, subject: Subject) -> bool:
        return self.action in {_plain_word(action) for action in subject.actions}


def parse(text: str, names: Names, home: str = "") -> Form:
    """Parse one rule; raise BadForm with its scope, as far as it is known."""
    if text == "*":
        return Whole(EVERYTHING)
    if len(text) > MAX_LENGTH:
        raise BadForm(f"the rule is longer than {MAX_LENGTH} characters")
    if text not in names.twins and _SERVER.match(text):
        return Whole(Scope(server=text[:-1] if text.endswith("*") else text + "__"))
    name, rest = _divide(text, names)
    twins = names.twins.get(name, frozenset()) | {name}
    scope = Scope(twins)
    if name not in names.twins:
        _check_spelling(name, names)
    if not rest:
        return Whole(scope)
    try:
        if rest.startswith(":"):
            return Matching(scope, expressions.compile_expression(rest[1:]))
        if not rest.endswith(")"):
            raise BadForm("the closing parenthesis is missing", scope)
        return _inside(rest[1:-1], name, twins, names, home)
    except (expressions.BadExpression, BadGlob, hosts.BadHost) as problem:
        raise BadForm(str(problem), _intended_scope(rest, name, twins, names)) from None


def _divide(text: str, names: Names) -> tuple[str, str]:
    """Split a rule into its name and the rest; the longest known name wins, else the longest possible one."""
    for end in range(len(text), 0, -1):
        if (end == len(text) or text[end] in ":(") and text[:end] in names.twins:
            return text[:end], text[end:]
    match = _NAME.match(text)
    if match is None or (match.end() < len(text) and text[match.end()] not in ":("):
        raise BadForm("it must start with the name of a tool")
    return match.group(), text[match.end() :]


def _check_spelling(name: str, names: Names) -> None:
    """Reject an unknown name that is close to a known one: it was meant to govern that tool."""
    from difflib import get_close_matches

    folded: dict[str, set[str]] = {}
    for known in names.twins:
        folded.setdefault(_plain_word(known), set()).add(known)
    close_words = get_close_matches(_plain_word(name), folded, n=3, cutoff=0.75)
    if close_words:
        similar = [known for word in close_words for known in sorted(folded[word])]
        scope = frozenset(twin for known in similar for twin in names.twins[known] | {known})
        raise BadForm(f"there is no tool {name}; did you mean {similar[0]}?", Scope(scope | {name}))


def _inside(inside: str, name: str, twins: frozenset[str], names: Names, home: str) -> Form:
    scope = Scope(twins)
    kind, colon, value = inside.partition(":")
    if inside.startswith("=") and len(inside) > 1:
        return Exactly(scope, inside[1:])
    if len(inside) > 2 and inside.startswith("/") and inside.endswith("/"):
        return Matching(scope, expressions.compile_expression(inside[1:-1]))
    if colon and kind == "path":
        effect = _path_effect(name, twins, names)
        return Below(Scope(None, effect) if effect else scope, path_globs.parse(value, home))
    if colon and kind == "domain":
        return Reaching(NETWORK, hosts.parse(value))
    if colon and kind == "action":
        if not _plain_word(value).isalnum():
            raise BadForm("an action must be one word", scope)
        return Acting(Scope(twins, _action_effect(name, names)), _plain_word(value))
    if inside.endswith(":*"):
        words = tuple(inside[:-2].split())
        if not words or "*" in words:
            raise BadForm("a prefix must be one or more words before :*", scope)
        return Beginning(scope, words)
    raise BadForm(
        "the parentheses must contain prefix:*, /expression/, =command, path:glob, domain:host or action:word",
        _intended_scope("(" + inside, name, twins, names),
    )


def _path_effect(name: str, twins: frozenset[str], names: Names) -> str | None:
    """Return the effect that a path form with this name applies to; None when the tool is unknown."""
    if name not in names.twins:
        return None
    effects = names.effects(name)
    for effect in ("write", "read"):
        if effect in effects:
            return effect
    raise BadForm(f"{name} does not use paths; name a tool that reads or writes files", Scope(twins))


def _action_effect(name: str, names: Names) -> str | None:
    return "control" if name in names.twins and "control" in names.effects(name) else None


def _intended_scope(rest: str, name: str, twins: frozenset[str], names: Names) -> Scope:
    """Return what a rule that is invalid after its name could have governed."""
    if rest.startswith("(path:"):
        effects = names.effects(name) if name in names.twins else frozenset()
        return Scope(twins, next((effect for effect in ("write", "read") if effect in effects), None))
    return Scope(twins, "network" if rest.startswith("(domain:") else None)


def is_allowable(part: CommandPart) -> bool:
    """Whether a rule can allow this part by its text: never a redirection or words computed at run time."""
    if part.kind != "command" or None in part.words:
        return False
    program = (*part.words, "")[0] or ""
    # a wildcard may match any program, and a file's name may start with another command and a space
    return program in _TESTS or not any(character.isspace() or character in "*?[" for character in program)


def _allowed_text(part: CommandPart) -> str | None:
    """Return the text of a simple command that an allow must match; None if no rule can allow it."""
    if not is_allowable(part) or _is_dangerous_in_context(part):
        return None
    # assignments before the program, and its input, change what it does
    if not part.words or _PREPARED.match(part.text) or ("<" in part.text and part.level != "safe"):
        return part.text
    return " ".join(word or "" for word in part.words)


def _is_dangerous_in_context(part: CommandPart) -> bool:
    """Whether a command is dangerous only in this context, such as after a pipe."""
    return part.level == "dangerous" and bool(part.words) and not _is_dangerous(part.words)


@lru_cache(maxsize=512)  # every rule checks the same parts
def _is_dangerous(words: tuple[str | None, ...]) -> bool:
    import shlex

    from hilt.shell.risk import classify

    return classify(shlex.join(word or "" for word in words)).level == "dangerous"


def _is_by_path(part: CommandPart) -> bool:
    return bool(part.words) and "/" in (part.words[0] or "") and not _PREPARED.match(part.text)


def _all_texts(subject: Subject) -> Iterator[str]:
    """Yield all texts that a deny or ask searches."""
    if subject.command:
        yield subject.command
    for part in subject.parts:
        yield part.text
        if part.words:
            # $ is a placeholder for a word that is known only at run time
            words = ["$" if word is None else word for word in part.words]
            yield " ".join(words)
            yield " ".join((words[0].rpartition("/")[2], *words[1:]))
    if not subject.parts and not subject.command:
        yield from subject.texts
        for touched in subject.touches:
            yield touched.target
            if touched.relative is not None:
                yield touched.relative


def _all_words(subject: Subject) -> Iterator[tuple[str | None, ...]]:
    for part in subject.parts:
        if part.kind == "command" and part.words:
            yield part.words
            yield ((part.words[0] or "").rpartition("/")[2] or None, *part.words[1:])
        yield tuple(part.text.split())
    if subject.command:
        yield tuple(subject.command.split())
    if not subject.parts and not subject.command:
        yield from (tuple(text.split()) for text in subject.texts)


def _runs_unseen(part: CommandPart) -> bool:
    """Whether a part runs code that was not classified, or shell commands that are known only at run time."""
    if part.kind == "unseen":
        return True
    if part.level != "dangerous" or part.kind != "command" or not part.words:
        return False
    from hilt.shell import programs

    name = posixpath.basename(part.words[0] or "")
    if name not in programs.SHELLS:
        return name in _EVALUATORS and None in part.words
    return None in part.words or not any(word and _CODE_OPTION.match(word) for word in part.words[1:])


def _could_begin(words: tuple[str | None, ...], prefix: tuple[str, ...]) -> bool:
    """Whether words known only at run time could match the prefix; each may expand to several words."""
    for word, expected in zip(words, prefix, strict=False):
        if word is None:
            return True
        if word != expected:
            return False
    return False


def _path_or_target(touched: Touched) -> str:
    return touched.target if touched.relative is None else touched.relative


def _plain_word(text: str) -> str:
    return text.replace("_", "").replace("-", "").casefold()
