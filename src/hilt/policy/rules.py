"""Rule files: what a person allows, asks to be asked about, and denies.

    permissions:            # this line may be left out, and what follows may stand beside it
      allow_all: false
      network: true         # false denies every call that uses the network
      allow: [RULE, ...]
      ask: [RULE, ...]
      deny: [RULE, ...]

A RULE is a text (see `forms`), or a mapping with the text as `rule` and examples that are checked when the file is
read: `match`, calls that the rule must speak of, and `not_match`, calls that it must not. An example is a command
for a rule on commands, a path for one on paths, a URL or host, an action, a text, or the name of a tool, whichever the
rule is about.

deny > ask > allow. A deny or ask only has to find something in the call. An allow must cover all of it: every
simple command, and every touch that is more than a read, by this or another allow; commands of which one is dangerous
by one allow alone. What is broken asks about everything that it could have governed. A file that is not trusted only
denies and asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hilt.formats import urls, yaml12
from hilt.policy import expressions, hosts, path_globs, rule_forms
from hilt.policy.decision import Verdict
from hilt.policy.rule_forms import EVERYTHING, BadForm, Form, Names, Scope
from hilt.policy.subject import Subject, Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.commands.risk import CommandPart

MAX_RULES = 2000

_LISTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
_KEYS = ("allow_all", "network", *_LISTS)
_PATH_TOOLS = {"read": "read_file", "write": "write_file"}  # the names by which a kept rule speaks of paths


class Rule(NamedTuple):
    """One rule: what it decides, what it says, and where it stands."""

    verdict: Verdict
    text: str
    form: Form
    file: str
    line: int


class RuleProblem(NamedTuple):
    """Something broken: why, where, and what it could have governed."""

    reason: str
    file: str
    line: int
    scope: Scope = EVERYTHING


class RuleSet(NamedTuple):
    """The rules of one source. `notes` are for people: rules on tools that are not here."""

    file: str
    rules: tuple[Rule, ...] = ()
    problems: tuple[RuleProblem, ...] = ()
    notes: tuple[str, ...] = ()
    trusted: bool = True


class Ruling(NamedTuple):
    """What the rules decide on a call, and the rule that caused it; None as rule when something is broken."""

    verdict: Verdict
    reason: str
    rule: Rule | None
    file: str
    line: int


def parse(text: str, file: str, names: Names, *, trusted: bool, home: str = "", path: str = "") -> RuleSet:
    """Read a rule file; what is broken in it becomes a problem, never an exception. Problems name the `path`."""
    try:
        data, lines = yaml12.load_with_lines(text, path or file)
    except yaml12.BadYaml as error:
        return RuleSet(file, (), (RuleProblem(error.message, file, error.line),), (), trusted)
    return _Reading(file, names, lines, home, path).read(data, trusted=trusted)


def broken(file: str, reason: str, *, trusted: bool = True) -> RuleSet:
    """Return the rules of a file that cannot be read at all: everything asks."""
    return RuleSet(file, (), (RuleProblem(reason, file, 1),), (), trusted)


def listed(
    verdict: Verdict, texts: Iterable[str], source: str, names: Names, *, trusted: bool = True, home: str = ""
) -> RuleSet:
    """Return the rules of a plain list, such as a setting or the grants that are kept; lines count from 1."""
    reading = _Reading(source, names, {}, home)
    for line, text in enumerate(texts, 1):
        reading.add(verdict, text, line)
    return reading.done(trusted=trusted)


def decide(rulesets: Sequence[RuleSet], subject: Subject) -> Ruling | None:
    """Return what the rules decide on a call; None when no rule speaks of it."""
    asking: Ruling | None = None
    for rules in rulesets:
        for problem in rules.problems:
            if asking is None and problem.scope.governs(subject):
                reason = f"A rule is broken, so this asks: {problem.reason}"
                asking = Ruling("ask", reason, None, problem.file, problem.line)
        for rule in rules.rules:
            if rule.verdict == "allow":
                continue
            found = rule.form.finds(subject)
            if found == "yes" and rule.verdict == "deny":
                return _ruling("deny", rule, "denies this call")
            if found != "no" and asking is None:
                says = "asks about this call" if rule.verdict == "ask" else "denies something that this call may reach"
                asking = _ruling("ask", rule, says)
    return asking or _allowed(rulesets, subject)


def narrowest(subject: Subject) -> tuple[str, ...]:
    """Return the narrowest allow rules that together cover exactly this call; none when nothing narrow does.

    A plain command is kept word by word, any other line as it is; paths and hosts as they are; everything else by
    the action, or by the name of the tool.
    """
    if subject.actions and not subject.command:
        return (f"{subject.tool}(action:{min(subject.actions)})",)
    kept = [] if not subject.command else _narrow_commands(subject)
    for item in _items(subject):
        if isinstance(item, Touched | str):
            text = None if isinstance(item, str) else _narrow_touch(subject.tool, item)
            if text is None and not subject.command:
                return (subject.tool,)
            kept.append(text)
    known = [text for text in kept if text is not None and len(text) <= expressions.MAX_LENGTH]
    return tuple(dict.fromkeys(known)) if len(known) == len(kept) else ()


class _Reading:
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
        self._is_full = False

    def done(self, *, trusted: bool) -> RuleSet:
        """Return what was read."""
        return RuleSet(self._file, tuple(self._rules), tuple(self._problems), tuple(self._notes), trusted)

    def read(self, data: Any, *, trusted: bool) -> RuleSet:
        """Read the value of a file."""
        if data is None:
            return self.done(trusted=trusted)
        if not isinstance(data, dict):
            self._broken("a rule file is a mapping with the keys allow_all, allow, ask and deny", 1)
            return self.done(trusted=trusted)
        wrapped = data.get("permissions")
        if isinstance(wrapped, dict):
            self._keys(wrapped, ("permissions",))
        elif wrapped is not None:
            self._broken("permissions holds a mapping", self._line(("permissions",)))
        beside = {key: value for key, value in data.items() if key != "permissions"}
        if beside and isinstance(wrapped, dict):
            self._broken("keys stand beside permissions and inside it", self._line((next(iter(beside)),)))
        self._keys(beside, ())
        return self.done(trusted=trusted)

    def _keys(self, data: dict[Any, Any], path: yaml12.Path) -> None:
        for key, value in data.items():
            line = self._line((*path, key))
            if key == "allow_all":
                if value is True:
                    self._rules.append(Rule("allow", "allow_all: true", rule_forms.Whole(None), self._file, line))
                elif value is not False and value is not None:
                    self._broken("allow_all is true or false", line)
            elif key == "network":
                if value is False:
                    self._rules.append(Rule("deny", "network: false", rule_forms.Networked(), self._file, line))
                elif value is not True and value is not None:
                    self._broken("network is true or false", line)
            elif key in _LISTS:
                if isinstance(value, list):
                    for index, entry in enumerate(value):
                        self._entry(key, entry, self._line((*path, key, index)))
                elif value is not None:
                    self._broken(f"{key} is a list of rules", line)
            else:
                self._broken(f"the key {str(key)[:80]!r} is not known; there are {', '.join(_KEYS)}", line)

    def _entry(self, verdict: Verdict, entry: Any, line: int) -> None:
        if isinstance(entry, str):
            self.add(verdict, entry, line)
        elif isinstance(entry, dict) and isinstance(entry.get("rule"), str):
            self._with_examples(verdict, entry, line)
        else:
            advice = "; put it in quotes" if isinstance(entry, dict) else ""
            self._broken(f"an entry of {verdict} is a text, or a mapping with rule, match and not_match{advice}", line)

    def _with_examples(self, verdict: Verdict, entry: dict[Any, Any], line: int) -> None:
        rule = self.add(verdict, entry["rule"], line)
        scope = EVERYTHING if rule is None else rule.form.scope
        for key, value in entry.items():
            if key in ("match", "not_match"):
                if not isinstance(value, list) or not all(isinstance(example, str) for example in value):
                    self._broken(f"{key} is a list of texts", line, scope)
                elif rule is not None:
                    self._check(rule, value, expected=key == "match")
            elif key != "rule":
                self._broken(f"the key {str(key)[:80]!r} of a rule is not known", line, scope)

    def _check(self, rule: Rule, examples: list[str], *, expected: bool) -> None:
        for example in examples:
            if _speaks(rule, self._example(rule.form, example)) != expected:
                says = "does not match its example" if expected else "matches what it must not"
                self._broken(f"{rule.text!r} {says} {example!r}", rule.line, rule.form.scope)

    def _example(self, form: Form, example: str) -> Subject:
        """Return the call that an example means, by what the rule is about."""
        names = form.scope.names or frozenset()
        if isinstance(form, rule_forms.Whole | rule_forms.ServedBy):
            return Subject(example, frozenset((example,)))
        if isinstance(form, rule_forms.Acting):
            return Subject("", names, frozenset(("control",)), actions=frozenset((example,)))
        if isinstance(form, rule_forms.Below):
            effect = form.effect or "read"
            relative = None if example.startswith("/") else example
            touched = Touched(effect, example if relative is None else f"/{example}", relative)
            return Subject("", names, frozenset((effect,)), (touched,))
        if isinstance(form, rule_forms.Reaching):
            url = example if "://" in example else f"https://{example}/"
            return Subject("", names, frozenset(("network",)), (Touched("network", url),))
        if not any("execute" in self._names.effects(name) for name in names if name in self._names.twins):
            return Subject("", names, texts=(example,))
        from hilt.commands.risk import classify

        return Subject("", names, frozenset(("execute",)), (), example, classify(example).parts)

    def add(self, verdict: Verdict, text: str, line: int) -> Rule | None:
        """Add one rule, or the problem that it has."""
        if len(self._rules) >= MAX_RULES:
            if not self._is_full:
                self._broken(f"there are more than {MAX_RULES} rules", line)
            self._is_full = True
            return None
        try:
            form = rule_forms.parse(text, self._names, self._home)
        except BadForm as problem:
            self._broken(f"{text[:200]!r}: {problem.message}", line, problem.scope)
            return None
        rule = Rule(verdict, text, form, self._file, line)
        self._rules.append(rule)
        names, server = form.scope.names, form.scope.server
        known = self._names.twins
        if (names is not None and not any(name in known for name in names)) or (
            server is not None and not any(name.startswith(server) for name in known)
        ):
            self._notes.append(f"{self._file}, line {line}: {text!r} names no tool that is here.")
        return rule

    def _broken(self, reason: str, line: int, scope: Scope = EVERYTHING) -> None:
        self._problems.append(RuleProblem(f"{self._path}, line {line}: {reason}.", self._file, line, scope))

    def _line(self, path: yaml12.Path) -> int:
        return self._lines.get(path, 1)


def _items(subject: Subject) -> Iterator[CommandPart | Touched | str]:
    """Yield everything that allow rules must cover: commands, touches, and effects whose target is not known.

    Reading needs no rule beside something else.
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
    """Return the allow that covers the call, alone or with others; the first one is named."""
    allows = [rule for rules in rulesets if rules.trusted for rule in rules.rules if rule.verdict == "allow"]
    for rule in allows:
        if rule.form.covers(subject):
            return _ruling("allow", rule, "allows this call")
    used = _allowing_commands(allows, subject)
    for item in _items(subject):
        if isinstance(item, Touched | str):
            used.append(_first(allows, subject, item))
    known = [rule for rule in used if rule is not None]
    if not known or len(known) < len(used):
        return None
    others = len(set(known)) - 1
    return _ruling("allow", known[0], "allows this call" if not others else f"and {others} more allow this call")


def _allowing_commands(allows: Sequence[Rule], subject: Subject) -> list[Rule | None]:
    """Return the rules that allow the commands; None among them when something is not allowed.

    One rule that allows them all is enough. Several together are, unless a part is dangerous: what each of two rules
    allows alone, such as printing a text and starting a shell, can do harm in a pipe.
    """
    parts = [part for part in subject.parts if not _is_known_write(subject, part)]
    if not parts:
        return []
    for rule in allows:
        if all(rule.form.covers_part(subject, part) for part in parts):
            return [rule]
    if any(part.level == "dangerous" for part in parts):
        return [None]
    return [_first(allows, subject, part) for part in parts]


def _first(allows: Sequence[Rule], subject: Subject, item: CommandPart | Touched | str) -> Rule | None:
    return next((rule for rule in allows if _covers(rule.form, subject, item)), None)


def _covers(form: Form, subject: Subject, item: CommandPart | Touched | str) -> bool:
    if isinstance(item, str):
        return False
    return form.covers_touch(subject, item) if isinstance(item, Touched) else form.covers_part(subject, item)


def _is_known_write(subject: Subject, part: CommandPart) -> bool:
    """Whether a redirection is known as a touch, which a path rule then has to cover."""
    if part.kind != "redirection":
        return False
    target = part.words[-1] if part.words else None
    return target is not None and any(
        touched.effect == "write" and touched.named == target for touched in subject.touches
    )


def _narrow_commands(subject: Subject) -> list[str | None]:
    """Return the narrowest rule for the commands; None when a rule cannot allow them."""
    parts = [part for part in subject.parts if not _is_known_write(subject, part)]
    if not parts or not all(rule_forms.is_allowable(part) or part.kind == "unseen" for part in parts):
        return [None]
    program, words = (*parts[0].words, "")[0] or "", " ".join(word or "" for word in parts[0].words)
    if len(subject.parts) == 1 and words == subject.command and "/" not in program:
        return [f"{subject.tool}(/{expressions.quote(words)}/)"]
    return [f"{subject.tool}(={subject.command})"]


def _narrow_touch(tool: str, touched: Touched) -> str | None:
    if touched.effect == "network":
        place = urls.locate(touched.target)
        domain = None if place is None else hosts.shown(place)
        return None if domain is None else f"{tool}(domain:{domain})"
    if touched.effect in _PATH_TOOLS:
        path = touched.target if touched.relative is None else f"./{touched.relative}".removesuffix("/.")
        return f"{_PATH_TOOLS[touched.effect]}(path:{path_globs.quote(path)}{'/**' if touched.tree else ''})"
    return None


def _ruling(verdict: Verdict, rule: Rule, says: str) -> Ruling:
    reason = f"{rule.text} ({rule.file}, line {rule.line}) {says}."
    return Ruling(verdict, reason, rule, rule.file, rule.line)


def _speaks(rule: Rule, subject: Subject) -> bool:
    if rule.verdict != "allow":
        return rule.form.finds(subject) == "yes"
    return _allowed((RuleSet(rule.file, (rule,)),), subject) is not None
