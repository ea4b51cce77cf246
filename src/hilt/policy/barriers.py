"""Path rules applied to the resolved paths that a call opens, and to the sandbox of a command.

A call is decided before its paths are opened, and a path may change in between. So the rules that deny or ask are
applied again to every name that is walked. A running command cannot ask: its sandbox denies what a rule asks about.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from hilt.errors import ToolError
from hilt.formats import globs
from hilt.formats.globs import Component, Components
from hilt.formats.names import fold
from hilt.policy import path_globs
from hilt.policy.path_globs import Match
from hilt.policy.rule_forms import Below, Matching
from hilt.policy.rules import Rule, Rules, RuleSet
from hilt.policy.subject import Base, Subject, Touched

EFFECTS = ("read", "write")  # the index is `write`, False or True

_CACHED_PATHS_MAX = 50_000

Links = Mapping[str, str]  # literal paths of rules that contain links, with the resolved paths


class _PathPattern(NamedTuple):
    """A glob as a deny or ask matches it, and the folder it is relative to."""

    rule: Rule
    base: str
    components: Components


class _PathState(NamedTuple):
    """The rule that covers a path and everything below, and the patterns that could match below, with states."""

    rule: Rule | None
    live: list[tuple[_PathPattern, set[int]]]


class PathWatch:
    """Path rules of one effect, matched against resolved absolute paths. Safe to use from many threads."""

    def __init__(self, rules: Iterable[Rule], base: Base, links: Links) -> None:
        """`rules` are path rules."""
        self.rules = Rules(rules)
        self._base = base
        self._bases: dict[str, list[_PathPattern]] = {}
        for rule in self.rules:
            for pattern in _patterns(rule, base, links):
                self._bases.setdefault(pattern.base, []).append(pattern)
        self._cache = {"/": self._started("/", [])}

    def covering(self, path: str) -> Rule | None:
        """Return a rule that covers a path, or None; the same match as `applies` of its form."""
        return self._state(path).rule

    def enclosing(self, path: str) -> Rule | None:
        """Return a rule that covers a path, or everything that could be below it."""
        state = self._state(path)
        if state.rule is not None:
            return state.rule
        for pattern, states in state.live:
            last = len(pattern.components) - 1
            if last in states and path_globs.matches_any(pattern.components[last]):
                return pattern.rule
        return None

    def encloses(self, path: str) -> bool:
        """Whether a rule covers a path, or everything that could be below it."""
        return self.enclosing(path) is not None

    def reach(self, path: str) -> Match:
        """Whether a rule covers a path; maybe, when it could cover something below."""
        state = self._state(path)
        return "yes" if state.rule is not None else "maybe" if state.live else "no"

    def within(self, folders: Iterable[str]) -> list[Rule]:
        """Return the rules that could cover something in the folders."""
        return [
            rule
            for rule in self.rules
            if any(PathWatch((rule,), self._base, {}).reach(folder) != "no" for folder in folders)
        ]

    def naming(self, name: str) -> PathWatch | None:
        """Return a watch for the rules with this name as a component; None if there are none."""
        rules = [rule for rule in self.rules if Component(tuple(name)) in _glob(rule).folded]
        return PathWatch(rules, self._base, {}) if rules else None

    def literal_paths(self) -> set[str]:
        """Return the literal paths of rules whose remaining components match everything below."""
        named: set[str] = set()
        for rule in self.rules:
            glob = _glob(rule)
            names = path_globs.first_names(glob)
            if names and all(map(path_globs.matches_any, glob.exact[len(names) :])):
                named.update(_literal_paths(glob, self._base))
        return named

    def literal_prefixes(self) -> set[str]:
        """Return the literal paths before the first wildcard of absolute globs."""
        absolute = [_glob(rule) for rule in self.rules if _glob(rule).is_absolute]
        return {path for glob in absolute for path in _literal_paths(glob, self._base)} | {
            base for base in self._bases if base not in ("/", self._base.root)
        }

    def _state(self, path: str) -> _PathState:
        cache = self._cache
        if path in cache:
            return cache[path]
        if len(cache) > _CACHED_PATHS_MAX:
            cache = self._cache = {"/": cache["/"]}
        names = [name for name in path.split("/") if name]
        depth = len(names)
        while depth and "/" + "/".join(names[:depth]) not in cache:
            depth -= 1
        state = cache["/" + "/".join(names[:depth])]
        for end in range(depth, len(names)):
            current = "/" + "/".join(names[: end + 1])
            if state.rule is None:
                name = fold(names[end])
                steps = ((pattern, globs.step(pattern.components, states, name)) for pattern, states in state.live)
                state = self._started(current, [(pattern, states) for pattern, states in steps if states])
            cache[current] = state
        return state

    def _started(self, path: str, live: list[tuple[_PathPattern, set[int]]]) -> _PathState:
        """Start the patterns that are relative to this path, or to the one that it is a copy of."""
        original = self._base.original(path)
        if original == self._base.root:
            live += self._state(original).live
        patterns = (*self._bases.get(path, ()), *(self._bases.get(original, ()) if original is not None else ()))
        live += [(pattern, globs.start(pattern.components)) for pattern in patterns]
        covering = (pattern.rule for pattern, states in live if len(pattern.components) in states)
        return _PathState(next(covering, None), live)


class Bars(NamedTuple):
    """The path rules in force. Each pair is one watch for reading and one for writing."""

    base: Base
    links: Links
    deny: tuple[PathWatch, PathWatch]
    ask: tuple[PathWatch, PathWatch]
    sandbox: tuple[PathWatch, PathWatch]  # for commands: what they may not access


def literal_paths(rulesets: Iterable[RuleSet], base: Base) -> set[str]:
    """Return the literal paths before the first wildcards of path rules."""
    with_names = (glob for glob in map(_glob, _path_rules(rulesets)) if path_globs.first_names(glob))
    return {path for glob in with_names for path in _literal_paths(glob, base)}


def make_bars(rulesets: Iterable[RuleSet], base: Base, roots: Sequence[str], links: Links) -> Bars | None:
    """Return the path rules in force in a workspace with these folders; None when there are none."""
    rules = _path_rules(rulesets)
    if not rules:
        return None

    def watches(verdict: str, links: Links) -> tuple[PathWatch, PathWatch]:
        read, write = (
            PathWatch((rule for rule in rules if (rule.verdict, _effect(rule)) == (verdict, effect)), base, links)
            for effect in EFFECTS
        )
        return read, write

    deny = watches("deny", links)
    ask = watches("ask", {})  # ask rules match calls by the glob alone
    # a sandbox that closes a whole workspace folder would be useless; for such a rule the command itself asks
    read, write = (
        PathWatch(
            (*denying.rules, *(rule for rule in asking.rules if not _closes_a_root(rule, base, roots))), base, links
        )
        for denying, asking in zip(deny, ask, strict=True)
    )
    return Bars(base, links, deny, ask, (read, write))


class Barrier:
    """The rules that apply to everything that one call opens."""

    def __init__(self, bars: Bars | None, subject: Subject, root: str, expressions: Sequence[Rule]) -> None:
        """`subject` is the call as it was decided; `expressions` are rules that match the text of its paths."""
        self._bars = bars
        self._subject = subject
        self._root = root
        self._expressions = expressions
        self._decided = [touched for touched in (*subject.touches, *subject.ways) if touched.effect in EFFECTS]
        self.sandbox = None if bars is None else _without_approved(bars, subject)

    def check(self, path: str, shown: str, *, write: bool) -> None:
        """Raise if a rule denies a walked name, or requires an approval for it that the call does not have."""
        if self._bars is not None:
            self._refuse(self._bars.deny[write].covering(path), path, shown)
            self._refuse(self._bars.ask[write].covering(path), path, shown)

    def check_end(self, path: str, shown: str, *, write: bool) -> None:
        """Raise if a rule's expression matches the path where a walk ends."""
        if not self._expressions:
            return
        touched = Touched(EFFECTS[write], path, _relative(path, self._root))
        opened = self._subject._replace(touches=(touched,), texts=())
        for rule in self._expressions:
            if rule.form.applies(opened) == "yes":
                self._refuse(rule, path, shown)

    def hides(self, path: str) -> bool:
        """Whether listings and searches omit a path because of a rule on reading."""
        if self._bars is None:
            return False
        if self._bars.deny[0].covering(path) is not None:
            return True
        return self._bars.ask[0].covering(path) is not None and not self._was_decided(path)

    def _refuse(self, rule: Rule | None, path: str, shown: str) -> None:
        if rule is None:
            return
        if rule.verdict == "deny":
            raise ToolError("denied", f"{rule.cited} denies {shown}.", path=shown)
        if not self._was_decided(path):
            raise ToolError(
                "stale_file",
                f"{rule.cited} requires approval for {shown}, which this call does not have: a path changed meanwhile.",
                suggestion="Repeat the call.",
                path=shown,
            )

    def _was_decided(self, path: str) -> bool:
        """Whether the decision included a path, something below it, or an existing folder that contains it."""
        return any(
            path == touched.target
            or _is_below(touched.target, path)
            or (touched.tree and _is_below(path, touched.target))
            for touched in self._decided
        )


def make_barrier(bars: Bars | None, rulesets: Iterable[RuleSet], subject: Subject, root: str) -> Barrier | None:
    """Return the barrier for a decided call; None when no rule can apply to a path."""
    expressions = [
        rule
        for ruleset in rulesets
        for rule in ruleset.rules.about(subject)
        if rule.verdict != "allow" and isinstance(rule.form, Matching) and rule.form.scope.governs(subject)
    ]
    if subject.command:
        expressions = []  # they match the command instead
    return Barrier(bars, subject, root, expressions) if bars is not None or expressions else None


def _without_approved(bars: Bars, subject: Subject) -> tuple[PathWatch, PathWatch]:
    """Return what the command of a call may not access, without the ask rules that the call was approved for."""
    approved = {rule for watch in bars.ask for rule in watch.rules.about(subject) if rule.form.applies(subject) != "no"}
    if not approved or approved.isdisjoint(rule for watch in bars.sandbox for rule in watch.rules):
        return bars.sandbox
    read, write = (
        PathWatch((rule for rule in watch.rules if rule not in approved), bars.base, bars.links)
        for watch in bars.sandbox
    )
    return read, write


def _path_rules(rulesets: Iterable[RuleSet]) -> list[Rule]:
    """Return the path rules that deny or ask, for every tool with their effect."""
    return [rule for rules in rulesets for rule in rules.rules if rule.verdict != "allow" and _effect(rule)]


def _effect(rule: Rule) -> str | None:
    return rule.form.scope.effect if isinstance(rule.form, Below) else None


def _glob(rule: Rule) -> path_globs.PathGlob:
    return cast(Below, rule.form).glob


def _patterns(rule: Rule, base: Base, links: Links) -> Iterable[_PathPattern]:
    glob = _glob(rule)
    yield _PathPattern(rule, "/" if glob.is_absolute else base.root, path_globs.wide(glob))
    names = path_globs.first_names(glob)
    for path in _literal_paths(glob, base) if names else ():
        if path in links:
            yield _PathPattern(rule, links[path], glob.folded[len(names) :])


def _literal_paths(glob: path_globs.PathGlob, base: Base) -> Iterable[str]:
    """Yield the literal path before the first wildcard of a glob, and the same path in the copy."""
    path = posixpath.join("/" if glob.is_absolute else base.root, *path_globs.first_names(glob))
    yield path
    if base.copy and (path + "/").startswith(base.root.rstrip("/") + "/"):
        yield base.copy + path[len(base.root.rstrip("/")) :]


def _closes_a_root(rule: Rule, base: Base, roots: Sequence[str]) -> bool:
    watch = PathWatch((rule,), base, {})
    return any(map(watch.encloses, roots))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _relative(path: str, root: str) -> str | None:
    if path == root:
        return "."
    return path[len(root.rstrip("/")) + 1 :] if _is_below(path, root) else None
