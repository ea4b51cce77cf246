"""Rule files: which calls the user allows, wants to approve, or denies.

    permissions:            # optional; without it, the keys are at the top level
      default: ask          # calls that no rule matches and that do more than read need approval
      allow_all: false
      network: true         # false denies every call that uses the network
      allow: [RULE, ...]
      ask: [RULE, ...]
      deny: [RULE, ...]

A RULE is a string (see `rule_forms`), or a mapping with the string as `rule` and examples that are checked when the
file is read: `match`, calls that the rule must match, and `not_match`, calls that it must not. An example is a command,
path, URL or host, action, text or tool name, depending on the rule.

deny > ask > allow. A deny or ask applies if any part of the call matches. An allow must cover the whole call: every
simple command, and every touch that is more than a read, by this or another allow; if a command is dangerous, one allow
must cover all commands. An invalid rule asks about everything that it could have governed. The allow rules of an
untrusted file are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from hilt.formats import urls, yaml12
from hilt.formats.names import fold
from hilt.policy import expressions, hosts, path_globs, rule_forms
from hilt.policy.decision import Verdict
from hilt.policy.rule_forms import EVERYTHING, BadForm, Form, Names, Scope
from hilt.policy.subject import Subject, Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.shell.risk import CommandPart

_LISTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
# keys with one value that is a rule: the value, the verdict of the rule and its scope
_SWITCHES: dict[str, tuple[bool, Verdict, Scope]] = {
    "allow_all": (True, "allow", EVERYTHING),
    "network": (False, "deny", rule_forms.NETWORK),
}
_KEYS = ("default", *_SWITCHES, *_LISTS)
_PATH_TOOLS = {"read": "read_file", "write": "write_file"}  # the tool names in granted path rules


class Rule(NamedTuple):
    """One rule: its verdict, text and parsed form, and its file and line."""

    verdict: Verdict
    text: str
    form: Form
    file: str
    line: int

    @property
    def cited(self) -> str:
        """The rule with its file and line, for messages."""
        return f"{self.text} ({self.file}, line {self.line})"


class Rules(tuple[Rule, ...]):
    """Rules in their order. Path rules are looked up by their first names, so that a call does not try all of them."""

    def about(self, subject: Subject) -> list[Rule]:
        """Return the rules that may match a call, in their order."""
        below, within, others = self._index
        if not below and not within:
            return list(self)
        numbers = set(others)
        for touched in (*subject.touches, *subject.ways):
            for path in (touched.target, touched.relative or ""):
                names = tuple(map(fold, path_globs.names(path)))
                for end, name in enumerate(names, 1):
                    numbers.update(below.get(names[:end], ()), within.get(name, ()))
                if touched.tree:
                    depth = len(names)
                    numbers.update(*(rules for first, rules in below.items() if first[:depth] == names))
                    numbers.update(*within.values())
        return [self[number] for number in sorted(numbers)]

    @cached_property
    def _index(self) -> tuple[dict[tuple[str, ...], list[int]], dict[str, list[int]], list[int]]:
        """The numbers of path rules by the names they start with, by a name at any depth, and of all other rules."""
        below: dict[tuple[str, ...], list[int]] = {}
        within: dict[str, list[int]] = {}
        others: list[int] = []
        for number, rule in enumerate(self):
            if not isinstance(rule.form, rule_forms.Below):
                others.append(number)
                continue
            components = path_globs.wide(rule.form.glob)
            if first := path_globs.literal(components):
                below.setdefault(tuple(first), []).append(number)
            elif components and components[0].deep and (first := path_globs.literal(components[1:])):
                within.setdefault(first[0], []).append(number)
            else:
                others.append(number)
        return below, within, others


class RuleProblem(NamedTuple):
    """An invalid rule or file: why, where, and what it could have governed."""

    reason: str
    file: str
    line: int
    scope: Scope = EVERYTHING


class RuleSet(NamedTuple):
    """The rules of one source. `notes` are for people: rules for tools that do not exist.

    With `strict`, calls that no rule matches and that do more than read need approval.
    """

    file: str
    rules: Rules = Rules()
    problems: tuple[RuleProblem, ...] = ()
    notes: tuple[str, ...] = ()
    trusted: bool = True
    strict: bool = False


class Ruling(NamedTuple):
    """The rules' decision on a call, and the rule behind it; None when an invalid rule caused it."""

    verdict: Verdict
    reason: str
    rule: Rule | None
    file: str
    line: int


def parse(text: str, file: str, names: Names, *, trusted: bool, home: str = "", path: str = "") -> RuleSet:
    """Parse a rule file; invalid parts become problems, never exceptions. Problems name the `path`."""
    try:
        data, lines = yaml12.load_with_lines(text, path or file)
    except yaml12.BadYaml as error:
        return RuleSet(file, Rules(), (RuleProblem(error.message, file, error.line),), (), trusted)
    return _RuleReader(file, names, lines, home, path).read(data, trusted=trusted)


def broken(file: str, reason: str, *, trusted: bool = True) -> RuleSet:
    """Return the rules of an unreadable file: everything asks."""
    return RuleSet(file, Rules(), (RuleProblem(reason, file, 1),), (), trusted)


def listed(
    verdict: Verdict, texts: Iterable[str], source: str, names: Names, *, trusted: bool = True, home: str = ""
) -> RuleSet:
    """Return the rules of a plain list, such as a setting or stored grants; lines count from 1."""
    reader = _RuleReader(source, names, {}, home)
    for line, text in enumerate(texts, 1):
        reader.add(verdict, text, line)
    return reader.ruleset(trusted=trusted)


def decide(rulesets: Sequence[RuleSet], subject: Subject) -> Ruling | None:
    """Return the rules' decision on a call; None when no rule applies."""
    asking: Ruling | None = None
    for rules in rulesets:
        for problem in rules.problems:
            if asking is None and problem.scope.may_govern(subject):
                reason = f"A rule is invalid, so this call needs approval: {problem.reason}"
                asking = Ruling("ask", reason, None, problem.file, problem.line)
        for rule in rules.rules.about(subject):
            if rule.verdict == "allow":
                continue
            match = rule.form.applies(subject)
            if match == "yes" and rule.verdict == "deny":
                return _ruling("deny", rule, "denies this call")
            if match != "no" and asking is None:
                asks = rule.verdict == "ask"
                conclusion = "asks about this call" if asks else "denies something that this call may access"
                asking = _ruling("ask", rule, conclusion)
    return asking or _allowed(rulesets, subject)


def narrowest(subject: Subject) -> tuple[str, ...]:
    """Return the narrowest allow rules that together cover exactly this call; empty when no narrow rules do.

    A plain command is matched word by word, any other command line literally; paths and hosts literally; everything
    else by the action or the name of the tool.
    """
    if subject.actions and not subject.command:
        return (f"{subject.tool}(action:{min(subject.actions)})",)
    texts = [] if not subject.command else _narrow_commands(subject)
    for item in _items(subject):
        if isinstance(item, Touched | str):
            text = None if isinstance(item, str) else _narrow_touch(subject.tool, item)
            if text is None and not subject.command:
                return (subject.tool,)
            texts.append(text)
    usable = [text for text in texts if text is not None and len(text) <= expressions.MAX_LENGTH]
    return tuple(dict.fromkeys(usable)) if len(usable) == len(texts) else ()


class _RuleReader:
    """Collects the rules and problems of one source."""

    def __init__(self, file: str, names: Names, lines: yaml12.Lines, home: str, path: str = "") -> None:
        self._file = file
        self._path = path or file
        self._names = names
        self._lines = lines
        self._home = home
        self._rules: list[Rule] = []
        self._problems: list[RuleProblem] = []
        self._notes: list[str] = []
        self._strict = False

    def ruleset(self, *, trusted: bool) -> RuleSet:
        """Return the rules and problems so far."""
        rules, problems, notes = Rules(self._rules), tuple(self._problems), tuple(self._notes)
        return RuleSet(self._file, rules, problems, notes, trusted, self._strict)

    def read(self, data: Any, *, trusted: bool) -> RuleSet:
        """Read the value of a file."""
        if data is None:
            return self.ruleset(trusted=trusted)
        if not isinstance(data, dict):
            self._broken("a rule file must be a mapping with the keys allow_all, allow, ask and deny", 1)
            return self.ruleset(trusted=trusted)
        wrapped = data.get("permissions")
        if isinstance(wrapped, dict):
            self._keys(wrapped, ("permissions",))
        elif wrapped is not None:
            self._broken("permissions must be a mapping", self._line(("permissions",)))
        top_level = {key: value for key, value in data.items() if key != "permissions"}
        if top_level and isinstance(wrapped, dict):
            self._broken("there are keys both inside permissions and next to it", self._line((next(iter(top_level)),)))
        self._keys(top_level, ())
        return self.ruleset(trusted=trusted)

    def _keys(self, data: dict[Any, Any], path: yaml12.Path) -> None:
        for key, value in data.items():
            line = self._line((*path, key))
            if key == "default":
                self._strict = self._strict or value == "ask"
                if value != "ask":
                    self._broken("default must be ask; without it, hilt's own defaults apply", line)
            elif key in _SWITCHES:
                switched, verdict, scope = _SWITCHES[key]
                if value is switched:
                    text = f"{key}: {str(value).lower()}"
                    self._rules.append(Rule(verdict, text, rule_forms.Whole(scope), self._file, line))
                elif value is not None and not isinstance(value, bool):
                    self._broken(f"{key} must be true or false", line)
            elif key in _LISTS:
                if isinstance(value, list):
                    for index, entry in enumerate(value):
                        self._entry(key, entry, self._line((*path, key, index)))
                elif value is not None:
                    self._broken(f"{key} must be a list of rules", line)
            else:
                self._broken(f"unknown key {str(key)[:80]!r}; the keys are {', '.join(_KEYS)}", line)

    def _entry(self, verdict: Verdict, entry: Any, line: int) -> None:
        if isinstance(entry, str):
            self.add(verdict, entry, line)
        elif isinstance(entry, dict) and isinstance(entry.get("rule"), str):
            self._with_examples(verdict, entry, line)
        else:
            advice = "; put it in quotes" if isinstance(entry, dict) else ""
            self._broken(
                f"an entry of {verdict} must be a string, or a mapping with rule, match and not_match{advice}", line
            )

    def _with_examples(self, verdict: Verdict, entry: dict[Any, Any], line: int) -> None:
        rule = self.add(verdict, entry["rule"], line)
        scope = EVERYTHING if rule is None else rule.form.scope
        for key, value in entry.items():
            if key in ("match", "not_match"):
                if not isinstance(value, list) or not all(isinstance(example, str) for example in value):
                    self._broken(f"{key} must be a list of strings", line, scope)
                elif rule is not None:
                    self._check(rule, value, expected=key == "match")
            elif key != "rule":
                self._broken(f"unknown key {str(key)[:80]!r} of a rule", line, scope)

    def _check(self, rule: Rule, examples: list[str], *, expected: bool) -> None:
        for example in examples:
            if _applies(rule, self._example(rule.form, example)) != expected:
                mismatch = "does not match its match example" if expected else "matches its not_match example"
                self._broken(f"{rule.text!r} {mismatch} {example!r}", rule.line, rule.form.scope)

    def _example(self, form: Form, example: str) -> Subject:
        """Return the call that an example describes, depending on the form of the rule."""
        names = form.scope.names or frozenset()
        if isinstance(form, rule_forms.Whole):
            return Subject(example, frozenset((example,)))
        if isinstance(form, rule_forms.Acting):
            return Subject("", names, frozenset(("control",)), actions=frozenset((example,)))
        if isinstance(form, rule_forms.Below):
            effect = form.scope.effect or "read"
            relative = None if example.startswith("/") else example
            touched = Touched(effect, example if relative is None else f"/{example}", relative)
            return Subject("", names, frozenset((effect,)), (touched,))
        if isinstance(form, rule_forms.Reaching):
            url = example if "://" in example else f"https://{example}/"
            return Subject("", names, frozenset(("network",)), (Touched("network", url),))
        if not any("execute" in self._names.effects(name) for name in names if name in self._names.twins):
            return Subject("", names, texts=(example,))
        from hilt.shell.risk import classify

        return Subject("", names, frozenset(("execute",)), (), example, classify(example).parts)

    def add(self, verdict: Verdict, text: str, line: int) -> Rule | None:
        """Add one rule, or a problem if it is invalid."""
        try:
            form = rule_forms.parse(text, self._names, self._home)
        except BadForm as problem:
            self._broken(f"{text[:200]!r}: {problem.message}", line, problem.scope)
            return None
        rule = Rule(verdict, text, form, self._file, line)
        self._rules.append(rule)
        names, server = form.scope.names, form.scope.server
        existing = self._names.twins
        if (names is not None and not any(name in existing for name in names)) or (
            server is not None and not any(name.startswith(server) for name in existing)
        ):
            self._notes.append(f"{self._file}, line {line}: {text!r} matches no existing tool.")
        return rule

    def _broken(self, reason: str, line: int, scope: Scope = EVERYTHING) -> None:
        self._problems.append(RuleProblem(f"{self._path}, line {line}: {reason}.", self._file, line, scope))

    def _line(self, path: yaml12.Path) -> int:
        return self._lines.get(path, 1)


def _items(subject: Subject) -> Iterator[CommandPart | Touched | str]:
    """Yield everything that allow rules must cover: commands, touches, and effects without a known target.

    A read needs its own rule only when the call does nothing else.
    """
    touches = [touched for touched in subject.touches if not (subject.parts and touched.effect == "execute")]
    acting = [touched for touched in touches if touched.effect != "read"]
    effects = {touched.effect for touched in touches} | ({"execute"} if subject.parts else set())
    missing = subject.effects - effects - {"read"}
    yield from subject.parts
    yield from acting
    yield from sorted(missing)
    if not subject.parts and not acting and not missing:
        yield from touches or ("read",)


def _allowed(rulesets: Sequence[RuleSet], subject: Subject) -> Ruling | None:
    """Return the allow that covers the call, alone or with others; the result names the first one."""
    allows = [rule for rules in rulesets if rules.trusted for rule in rules.rules.about(subject)]
    allows = [rule for rule in allows if rule.verdict == "allow"]
    for rule in allows:
        if rule.form.covers(subject):
            return _ruling("allow", rule, "allows this call")
    first_rules = _allowing_commands(allows, subject)
    for item in _items(subject):
        if isinstance(item, Touched | str):
            first_rules.append(_first(allows, subject, item))
    allowing = [rule for rule in first_rules if rule is not None]
    if not allowing or len(allowing) < len(first_rules):
        return None
    others = len(set(allowing)) - 1
    return _ruling("allow", allowing[0], "allows this call" if not others else f"and {others} more allow this call")


def _allowing_commands(allows: Sequence[Rule], subject: Subject) -> list[Rule | None]:
    """Return the rules that allow the commands; None among them when a command is not allowed.

    One rule may allow them all. Several rules may together, unless a part is dangerous: commands that are harmless
    alone, such as printing a text and starting a shell, can do harm in a pipe.
    """
    parts = [part for part in subject.parts if not _is_known_write(subject, part)]
    if not parts:
        return []
    for rule in allows:
        if all(rule.form.covers(subject, part) for part in parts):
            return [rule]
    if any(part.level == "dangerous" for part in parts):
        return [None]
    return [_first(allows, subject, part) for part in parts]


def _first(allows: Sequence[Rule], subject: Subject, item: CommandPart | Touched | str) -> Rule | None:
    if isinstance(item, str):
        return None  # an effect, which only the name of the tool allows
    return next((rule for rule in allows if rule.form.covers(subject, item)), None)


def _is_known_write(subject: Subject, part: CommandPart) -> bool:
    """Whether a redirection is also a touch, which a path rule must then cover."""
    if part.kind != "redirection":
        return False
    target = part.words[-1] if part.words else None
    return target is not None and any(
        touched.effect == "write" and touched.named == target for touched in subject.touches
    )


def _narrow_commands(subject: Subject) -> list[str | None]:
    """Return the narrowest rule for the commands; [None] when no rule can allow them."""
    parts = [part for part in subject.parts if not _is_known_write(subject, part)]
    if not parts or not all(rule_forms.is_allowable(part) or part.kind in ("code", "unseen") for part in parts):
        return [None]
    program, words = (*parts[0].words, "")[0] or "", " ".join(word or "" for word in parts[0].words)
    if len(subject.parts) == 1 and words == subject.command and "/" not in program:
        return [f"{subject.tool}(/{expressions.quote(words)}/)"]
    return [f"{subject.tool}(={subject.command})"]


def _narrow_touch(tool: str, touched: Touched) -> str | None:
    if touched.effect == "network":
        place = urls.locate(touched.target)
        domain = None if place is None else hosts.domain_of(place)
        return None if domain is None else f"{tool}(domain:{domain})"
    if touched.effect in _PATH_TOOLS:
        path = touched.target if touched.relative is None else f"./{touched.relative}".removesuffix("/.")
        return f"{_PATH_TOOLS[touched.effect]}(path:{path_globs.quote(path)}{'/**' if touched.tree else ''})"
    return None


def _ruling(verdict: Verdict, rule: Rule, conclusion: str) -> Ruling:
    return Ruling(verdict, f"{rule.cited} {conclusion}.", rule, rule.file, rule.line)


def _applies(rule: Rule, subject: Subject) -> bool:
    if rule.verdict != "allow":
        return rule.form.applies(subject) == "yes"
    return _allowed((RuleSet(rule.file, Rules((rule,))),), subject) is not None
