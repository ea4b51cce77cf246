"""What the exit status of a shell command means, derived from the command that set it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hilt.shell import programs
from hilt.shell.quoting import ShellWord
from hilt.shell.syntax import MAX_DEPTH, STATEMENTS, Item, Source, Unparsed, chain, descendants, read, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

# Programs whose status 1 is an answer, not a failure.
ANSWERS = {
    "grep": "no line matched",
    "egrep": "no line matched",
    "fgrep": "no line matched",
    "rg": "no line matched",
    "diff": "the files differ",
    "cmp": "the files differ",
    "test": "the condition is false",
    "[": "the condition is false",
    "[[": "the condition is false",
}
# What programs and their libraries print when a name does not resolve or the network is missing, in lower case.
_NO_NETWORK = (
    *("could not resolve host", "couldn't resolve host", "unable to resolve host", "temporary failure resolving"),
    *("temporary failure in name resolution", "name or service not known", "no address associated with hostname"),
    *("failed to lookup address", "no such host", "network is unreachable", "network unreachable"),
    *("enetunreach", "eai_again", "getaddrinfo enotfound"),
)
# Commands that only prepare for the next one, and so are not considered the cause of a failure.
_QUIET = frozenset((":", "true", "cd", "pushd", "popd", "set", "shopt", "echo", "printf", "export", "declare", "local"))
_MOVERS = frozenset(("cd", "pushd", "popd"))
_SEEN_THROUGH = programs.TRANSPARENT - {"xargs", "exec"} | {"exec", "sudo"}


class Outcome(NamedTuple):
    """The class of an exit status (success, expected_nonzero, error, timeout, signal) and why."""

    classification: str
    reason: str


class _Undecided(Exception):
    """The command that set the status cannot be determined."""


class _Cause(NamedTuple):
    """A command that may have set a status other than 0."""

    name: str
    negated: bool = False


def classify_exit(
    command: str, code: int, *, timed_out: bool = False, signalled: bool = False, output: str = ""
) -> Outcome:
    """Classify an exit status; a process terminated by a signal has the status -N, or 128 + N."""
    if timed_out:
        return Outcome("timeout", "the command timed out")
    if signalled or code < 0:
        return Outcome("signal", f"the command was terminated by {_signal_name(abs(code))}")
    if code == 0:
        return Outcome("success", "exit status 0")
    if code == 126:
        return Outcome("error", "a program was found but could not be executed (exit status 126)")
    if code == 127:
        return Outcome("error", "a program was not found (exit status 127)")
    if code > 128 and (name := _signal_name(code)).startswith("SIG"):
        return Outcome("signal", f"a program was terminated by {name} (exit status {code})")
    if code == 1:
        return _classify_one(command, output)
    return Outcome("error", f"exit status {code}")


def lacks_network(code: int, output: str) -> bool:
    """Whether a failed command reports that it has no network."""
    if code == 0:
        return False
    lowered = output.casefold()
    return any(message in lowered for message in _NO_NETWORK)


def _classify_one(command: str, output: str) -> Outcome:
    try:
        causes = _causes(command, depth=0)
    except (Unparsed, _Undecided):
        return Outcome("error", "exit status 1")
    relevant = [cause for cause in causes if cause.name not in _QUIET] or causes
    mover = next(
        (cause.name for cause in causes if cause.name in _MOVERS and _reports_failure(output, cause.name)), None
    )
    if mover is not None:
        return Outcome("error", f"{mover} failed with exit status 1")
    if not relevant or any(cause.name not in ANSWERS for cause in relevant):
        name = next((cause.name for cause in relevant if cause.name not in ANSWERS), "")
        return Outcome("error", f"{name} failed with exit status 1" if name and len(relevant) == 1 else "exit status 1")
    cause = relevant[-1]
    if cause.negated:
        return Outcome("expected_nonzero", f"{cause.name} succeeded, and ! negated it")
    return Outcome("expected_nonzero", f"{cause.name}: {ANSWERS[cause.name]}")


def _reports_failure(output: str, name: str) -> bool:
    """Whether bash reports that this builtin failed."""
    return any(line.startswith("bash: line ") and f": {name}: " in line for line in output.split("\n"))


def _causes(text: str, *, depth: int) -> list[_Cause]:
    script = read(text)
    options = [word for command in script.commands for word in _options_set(command.words)]
    if "errexit" in options:
        raise _Undecided
    source = Source(text)
    causes = _Statuses(source, script.functions, every_stage="pipefail" in options).of_sequence(source.root, depth)
    exits = any(command.words and command.words[0].value in ("exit", "return") for command in script.commands)
    traps = any(command.words and command.words[0].value == "trap" for command in script.commands)
    if exits or traps:
        raise _Undecided
    return causes


def _options_set(words: Sequence[ShellWord]) -> Iterator[str]:
    """Yield errexit and pipefail if a command such as `set -e` or `set -o pipefail` may set them."""
    values = [word.value for word in words]
    if values[:1] not in (["set"], ["shopt"]):
        return
    for value in values[1:]:
        if value is None:
            yield "errexit"
        elif value in ("pipefail", "errexit"):
            yield value
        elif value.startswith("-") and not value.startswith("--") and "e" in value and values[0] == "set":
            yield "errexit"


class _Statuses:
    """Finds the commands that may have set the nonzero status of a node."""

    def __init__(self, source: Source, functions: frozenset[str], *, every_stage: bool) -> None:
        self._source = source
        self._functions = functions
        self._every_stage = every_stage

    def of_sequence(self, node: Node, depth: int, *, start: int = 0) -> list[_Cause]:
        """The last statement decides; one in the background cannot fail."""
        last = None
        for child in node.children[start:]:
            if child.type in STATEMENTS:
                last = child
            elif child.type == "&":
                last = None
        return [] if last is None else self.of_statement(last, depth)

    def of_statement(self, node: Node, depth: int) -> list[_Cause]:
        if depth > MAX_DEPTH:
            raise _Undecided
        causes: list[_Cause] = []
        for operator, stages in _pipelines(chain(node)):
            pipeline_causes = self._of_pipeline(stages, depth)
            # after || the status is that of the last alternative; after && either may have failed
            causes = pipeline_causes if operator == "||" else [*causes, *pipeline_causes]
        return causes

    def _of_pipeline(self, stages: Sequence[Item], depth: int) -> list[_Cause]:
        deciding = stages if self._every_stage else stages[-1:]
        causes = [cause for item in deciding for cause in self._of_item(item.node, depth)]
        if stages[0].negated:
            return [cause._replace(negated=not cause.negated) for cause in causes]
        return causes

    def _of_item(self, node: Node | None, depth: int) -> list[_Cause]:
        kind = "" if node is None else node.type
        if node is None or kind in ("variable_assignment", "variable_assignments"):
            if node is not None and "command_substitution" in {child.type for child in descendants(node)}:
                raise _Undecided
            return [_Cause(":")]
        if kind in ("command", "declaration_command", "unset_command", "test_command"):
            return self._of_words(words_of(self._source, node), depth)
        if kind == "compound_statement" and node.children[0].type == "((":
            return [_Cause("((")]
        if kind in ("subshell", "compound_statement"):
            return self.of_sequence(node, depth + 1)
        if kind == "if_statement":
            return self._of_branches(node, depth + 1)
        if kind in ("while_statement", "for_statement", "c_style_for_statement"):
            bodies = [child for child in node.children if child.type in ("do_group", "compound_statement")]
            return [cause for body in bodies for cause in self.of_sequence(body, depth + 1)]
        if kind == "case_statement":
            items = [child for child in node.children if child.type == "case_item"]
            return [cause for item in items for cause in self.of_sequence(item, depth + 1)]
        if kind == "function_definition":
            return []
        raise _Undecided

    def _of_branches(self, node: Node, depth: int) -> list[_Cause]:
        """The status of an `if` is that of the branch it took; with none taken it is 0."""
        then = next((place for place, child in enumerate(node.children) if child.type == "then"), None)
        if then is None:
            raise _Undecided
        causes = self.of_sequence(node, depth, start=then)
        for child in node.children:
            if child.type == "elif_clause":
                causes += self._of_branches(child, depth)
            elif child.type == "else_clause":
                causes += self.of_sequence(child, depth)
        return causes

    def _of_words(self, words: Sequence[ShellWord], depth: int) -> list[_Cause]:
        """See through wrappers and sh -c to the program that runs."""
        while words and words[0].name in _SEEN_THROUGH and words[0].name not in self._functions:
            values = [word.value for word in words[1:]]
            options = programs.WRAPPERS[words[0].name or ""]
            at, _ = programs.command_at(values, options, assignments=words[0].name in ("env", "sudo"))
            if words[0].name == "command" and programs.has_flag(values[:at], "vV"):
                return [_Cause("command")]
            if at >= len(values):
                return [_Cause(words[0].name or "")]
            words = words[1 + at :]
        if not words or words[0].name is None or words[0].pattern or words[0].name in self._functions:
            raise _Undecided
        if words[0].name in programs.SHELLS and len(words) >= 3 and words[1].value in ("-c", "-lc", "-ec"):
            if words[2].value is None or words[1].value == "-ec":
                raise _Undecided
            return _causes(words[2].value, depth=depth + 1)
        return [_Cause(words[0].name)]


def _pipelines(items: Sequence[Item]) -> list[tuple[str, list[Item]]]:
    """Group the members of a chain into pipelines, each with the && or || before it."""
    groups: list[tuple[str, list[Item]]] = []
    for item in items:
        if item.operator in ("|", "|&") and groups:
            groups[-1][1].append(item)
        else:
            groups.append((item.operator, [item]))
    return groups


def _signal_name(code: int) -> str:
    import signal

    try:
        return signal.Signals(code - 128 if code > 128 else code).name
    except ValueError:
        return f"signal {code}"
