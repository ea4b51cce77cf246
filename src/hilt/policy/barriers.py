"""Rules on paths, asked about the real paths that a call opens and that the sandbox of a command shows.

A call is decided on before its paths are opened, and a name may lead elsewhere by then. So the rules that deny or ask
are applied again to every name really walked. A command cannot ask: its sandbox denies what a rule asks about.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from hilt.errors import ToolError
from hilt.policy import path_globs
from hilt.policy.path_globs import Component, Found
from hilt.policy.rule_forms import Below, Matching
from hilt.policy.rules import Rule, RuleSet
from hilt.policy.subject import Subject, Touched

EFFECTS = ("read", "write")  # an index into a pair: whether a path is written

_REMEMBERED = 50_000  # paths

Links = Mapping[str, str]  # paths that rules spell out and that lead through links, with the paths they lead to


class _PathPattern(NamedTuple):
    """A glob as a deny or ask matches it, and the folder it starts from."""

    rule: Rule
    base: str
    components: tuple[Component, ...]


class _At(NamedTuple):
    """A path: the rule that covers it and everything below, and the patterns that could match below, with states."""

    rule: Rule | None
    live: list[tuple[_PathPattern, set[int]]]


class PathWatch:
    """Path rules of one effect, asked about real absolute paths. Safe to use from many threads."""

    def __init__(self, rules: Iterable[Rule], root: str, links: Links) -> None:
        """Take rules on paths; relative ones start from `root`."""
        self.rules = tuple(rules)
        self._root = root
        self._bases: dict[str, list[_PathPattern]] = {}
        for rule in self.rules:
            for pattern in _patterns(rule, root, links):
                self._bases.setdefault(pattern.base, []).append(pattern)
        self._known = {"/": self._started("/", [])}

    def covering(self, path: str) -> Rule | None:
        """Return a rule that covers a path, as `finds` of its form would say."""
        return self._at(path).rule

    def enclosing(self, path: str) -> Rule | None:
        """Return a rule that covers a path, or everything that could be below it."""
        at = self._at(path)
        if at.rule is not None:
            return at.rule
        for pattern, states in at.live:
            last = len(pattern.components) - 1
            if last in states and path_globs.matches_any(pattern.components[last]):
                return pattern.rule
        return None

    def encloses(self, path: str) -> bool:
        """Whether a rule covers a path, or everything that could be below it."""
        return self.enclosing(path) is not None

    def reach(self, path: str) -> Found:
        """Whether a rule covers a path; maybe, when it could cover something below."""
        at = self._at(path)
        return "yes" if at.rule is not None else "maybe" if at.live else "no"

    def within(self, folders: Iterable[str]) -> list[Rule]:
        """Return the rules that could cover something in the folders."""
        return [
            rule
            for rule in self.rules
            if any(PathWatch((rule,), self._root, {}).reach(folder) != "no" for folder in folders)
        ]

    def named(self) -> set[str]:
        """Return the paths that rules spell out up to wildcards for everything below, existing or not."""
        named = set()
        for rule in self.rules:
            glob = _glob(rule)
            names = path_globs.literal(glob)
            if names and all(map(path_globs.matches_any, glob.exact[len(names) :])):
                named.add(_spelled(glob, self._root))
        return named

    def starts(self) -> set[str]:
        """Return the paths that rules with absolute globs spell out before their first wildcard."""
        return {_spelled(_glob(rule), self._root) for rule in self.rules if _glob(rule).is_absolute} | {
            base for base in self._bases if base not in ("/", self._root)
        }

    def _at(self, path: str) -> _At:
        known = self._known
        if path in known:
            return known[path]
        if len(known) > _REMEMBERED:
            known = self._known = {"/": known["/"]}
        names = [name for name in path.split("/") if name]
        depth = len(names)
        while depth and "/" + "/".join(names[:depth]) not in known:
            depth -= 1
        at = known["/" + "/".join(names[:depth])]
        for end in range(depth, len(names)):
            current = "/" + "/".join(names[: end + 1])
            if at.rule is None:
                name = path_globs.fold(names[end])
                steps = ((pattern, path_globs.step(pattern.components, states, name)) for pattern, states in at.live)
                at = self._started(current, [(pattern, states) for pattern, states in steps if states])
            known[current] = at
        return at

    def _started(self, path: str, live: list[tuple[_PathPattern, set[int]]]) -> _At:
        """Start the patterns whose base this path is."""
        live += [(pattern, path_globs.start(pattern.components)) for pattern in self._bases.get(path, ())]
        covering = (pattern.rule for pattern, states in live if len(pattern.components) in states)
        return _At(next(covering, None), live)


class Bars(NamedTuple):
    """The path rules in force. Each pair is one watch for reading and one for writing."""

    root: str
    links: Links
    deny: tuple[PathWatch, PathWatch]
    ask: tuple[PathWatch, PathWatch]
    sandbox: tuple[PathWatch, PathWatch]  # what a command may not reach


def find_links(rulesets: Iterable[RuleSet], root: str, resolve: Callable[[str], str]) -> dict[str, str]:
    """Return the paths that rules spell out and that lead elsewhere through links, with where they lead."""
    links = {}
    for rule in _path_rules(rulesets):
        if path_globs.literal(_glob(rule)):
            path = _spelled(_glob(rule), root)
            real = resolve(path)
            if real != path:
                links[path] = real
    return links


def make_bars(rulesets: Iterable[RuleSet], root: str, roots: Sequence[str], links: Links) -> Bars | None:
    """Return the path rules in force in a workspace with these folders; None when there are none."""
    rules = _path_rules(rulesets)
    if not rules:
        return None

    def watches(verdict: str, links: Links) -> tuple[PathWatch, PathWatch]:
        read, write = (
            PathWatch((rule for rule in rules if (rule.verdict, _effect(rule)) == (verdict, effect)), root, links)
            for effect in EFFECTS
        )
        return read, write

    deny = watches("deny", links)
    ask = watches("ask", {})  # calls are asked about by the glob alone
    # a rule that asks about a whole workspace folder would leave commands nothing; they ask themselves
    read, write = (
        PathWatch((*denying.rules, *(rule for rule in asking.rules if not _is_whole(rule, root, roots))), root, links)
        for denying, asking in zip(deny, ask, strict=True)
    )
    return Bars(root, links, deny, ask, (read, write))


class Barrier:
    """The rules that hold for everything that one call opens."""

    def __init__(self, bars: Bars | None, subject: Subject, root: str, expressions: Sequence[Rule]) -> None:
        """`subject` is the call as it was decided on; `expressions` are rules on the texts of its paths."""
        self._bars = bars
        self._subject = subject
        self._root = root
        self._expressions = expressions
        self._decided = [touched for touched in (*subject.touches, *subject.ways) if touched.effect in EFFECTS]
        self.sandbox = None if bars is None else _lifted(bars, subject)

    def check(self, path: str, shown: str, *, write: bool) -> None:
        """Raise when a rule denies a name that is walked, or asks about it and nobody was asked."""
        if self._bars is not None:
            self._refuse(self._bars.deny[write].covering(path), path, shown)
            self._refuse(self._bars.ask[write].covering(path), path, shown)

    def check_end(self, path: str, shown: str, *, write: bool) -> None:
        """Raise when an expression of a rule matches the path at which a walk ends."""
        if not self._expressions:
            return
        touched = Touched(EFFECTS[write], path, _relative(path, self._root))
        opened = self._subject._replace(touches=(touched,), texts=())
        for rule in self._expressions:
            if rule.form.finds(opened) == "yes":
                self._refuse(rule, path, shown)

    def hides(self, path: str) -> bool:
        """Whether listings and searches leave out a path because of a rule on reading."""
        if self._bars is None:
            return False
        if self._bars.deny[0].covering(path) is not None:
            return True
        return self._bars.ask[0].covering(path) is not None and not self._was_decided(path)

    def _refuse(self, rule: Rule | None, path: str, shown: str) -> None:
        if rule is None:
            return
        place = cited(rule)
        if rule.verdict == "deny":
            raise ToolError("denied", f"{place} denies {shown}.", path=shown)
        if not self._was_decided(path):
            raise ToolError(
                "stale_file",
                f"{place} asks about {shown}, and this call was not asked about it: a path changed while the call ran.",
                suggestion="Repeat the call.",
                path=shown,
            )

    def _was_decided(self, path: str) -> bool:
        """Whether the decision was about a path, something below it, or a folder that was there and holds it."""
        return any(
            path == touched.target
            or _is_below(touched.target, path)
            or (touched.tree and _is_below(path, touched.target))
            for touched in self._decided
        )


def cited(rule: Rule) -> str:
    """Return a rule with the place where it stands."""
    return f"{rule.text} ({rule.file}, line {rule.line})"


def make_barrier(bars: Bars | None, rulesets: Iterable[RuleSet], subject: Subject, root: str) -> Barrier | None:
    """Return what holds for the call that was decided on; None when no rule can apply to a path."""
    expressions = [
        rule
        for ruleset in rulesets
        for rule in ruleset.rules
        if rule.verdict != "allow" and isinstance(rule.form, Matching) and rule.form.names & subject.names
    ]
    if subject.command:
        expressions = []  # they are about the command
    return Barrier(bars, subject, root, expressions) if bars is not None or expressions else None


def _lifted(bars: Bars, subject: Subject) -> tuple[PathWatch, PathWatch]:
    """Return what the command of a call may not reach: not what rules deny that the call itself was asked about."""
    asked = {rule for watch in bars.ask for rule in watch.rules if rule.form.finds(subject) != "no"}
    if asked.isdisjoint(rule for watch in bars.sandbox for rule in watch.rules):
        return bars.sandbox
    read, write = (
        PathWatch((rule for rule in watch.rules if rule not in asked), bars.root, bars.links) for watch in bars.sandbox
    )
    return read, write


def _path_rules(rulesets: Iterable[RuleSet]) -> list[Rule]:
    """Return the rules on paths that deny or ask, for every tool with their effect."""
    return [rule for rules in rulesets for rule in rules.rules if rule.verdict != "allow" and _effect(rule)]


def _effect(rule: Rule) -> str | None:
    return rule.form.effect if isinstance(rule.form, Below) else None


def _glob(rule: Rule) -> path_globs.PathGlob:
    return cast(Below, rule.form).glob


def _patterns(rule: Rule, root: str, links: Links) -> Iterable[_PathPattern]:
    glob = _glob(rule)
    yield _PathPattern(rule, "/" if glob.is_absolute else root, path_globs.wide(glob))
    names = path_globs.literal(glob)
    real = links.get(_spelled(glob, root)) if names else None
    if real is not None:
        yield _PathPattern(rule, real, glob.folded[len(names) :])


def _spelled(glob: path_globs.PathGlob, root: str) -> str:
    """Return the path that a glob spells out before its first wildcard."""
    return posixpath.join("/" if glob.is_absolute else root, *path_globs.literal(glob))


def _is_whole(rule: Rule, root: str, roots: Sequence[str]) -> bool:
    watch = PathWatch((rule,), root, {})
    return any(map(watch.encloses, roots))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _relative(path: str, root: str) -> str | None:
    if path == root:
        return "."
    return path[len(root.rstrip("/")) + 1 :] if _is_below(path, root) else None
