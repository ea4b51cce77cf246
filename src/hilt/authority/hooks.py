"""The hooks of a call: loads them, runs them in order, and combines their answers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from hilt import loaders
from hilt.authority.authority import HOOK_FILE
from hilt.call import Json, Output, Touch
from hilt.errors import ToolError
from hilt.loaders import ProjectFile
from hilt.policy import hook_protocol as rules
from hilt.policy.decision import Vote, decide
from hilt.policy.hook_protocol import FAILURE, POST, PRE, BadAnswer, Hook, HookAnswer, HookProblem, HookSet
from hilt.policy.hook_results import AfterCall, BeforeCall, HookRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence
    from hilt.policy.rule_forms import Names
    from hilt.policy.subject import Subject
    from hilt.processes.call_processes import Processes
    from hilt.sandbox.capturing import Finished
    from hilt.surroundings import Surroundings

SCRIPTS = "hooks"  # folder next to a project's hook file, with scripts that are trusted together with it
SCRIPTS_MAX = 1000
OUTPUT_BYTES = 1 << 20

DEPTH = "HILT_HOOK_DEPTH"
MAX_DEPTH = 3  # a hook may call tools, which have hooks

_HELP = 'See action "help".'
_NOT_FOUND = re.compile(rb"(\S+): (?:command )?not found")

Trusts = Callable[[ProjectFile, bytes], bool]  # whether the user trusts a file with this content
Run = Callable[[Hook, bytes], "Finished"]
Change = Callable[[Callable[[Json], Json]], Json]  # atomically replaces the value that a session stores under HOOKS


class CallSeen(NamedTuple):
    """A call as hooks see it. The subject is built only if a hook has a `match`."""

    tool: str
    args: dict[str, Any]
    touches: Sequence[Touch]
    subject: Callable[[], Subject]
    unhooked: bool = False  # skips the hooks of the session


class EventResult(NamedTuple):
    """The combined answer of the hooks of an event that is not a call; each hook may replace arguments and result."""

    arguments: Json = None
    result: Json = None
    decision: str | None = None
    reason: str = ""
    context: str = ""
    ran: tuple[HookRun, ...] = ()


class Hooks:
    """The hooks in force for a session, in order: personal, the project's, the session's."""

    def __init__(
        self,
        sets: Sequence[HookSet],
        run: Run,
        *,
        session: str,
        names: Callable[[], Names],
        change: Change,
        home: str = "",
        record: Callable[[Hook, HookRun], None] = lambda hook, ran: None,
    ) -> None:
        self._record = record
        self._sets = tuple(sets)
        self._run = run
        self._session = session
        self._names = names
        self._change = change
        self._home = home

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All hooks, in the order in which they run."""
        return tuple(hook for hook_set in self._sets for hook in hook_set.hooks)

    @property
    def problems(self) -> tuple[HookProblem, ...]:
        """Invalid hooks and hook files."""
        return tuple(problem for hook_set in self._sets for problem in hook_set.problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """Hooks that do not run, and why."""
        return tuple(note for hook_set in self._sets for note in hook_set.notes)

    def register(self, data: dict[str, Json], commit: Callable[[], None]) -> Hook:
        """Add a hook to the session, effective from the next call; `commit` is called first."""
        try:
            hook = rules.check(data, self._names, home=self._home)
        except rules.BadHook as error:
            raise ToolError("invalid_args", _sentence(error.message), suggestion=_HELP) from None
        commit()
        stored = self._change(lambda value: _with_hook(value, hook.as_dict()))
        return hook._replace(number=sum(item["event"] == hook.event for item in stored) - 1)

    def remove(self, event: str, number: int, commit: Callable[[], None]) -> dict[str, Json]:
        """Remove a hook of the session, effective from the next call, and return it as it was stored."""
        removed: list[dict[str, Json]] = []

        def without(value: Json) -> Json:
            remaining: list[Json] = []
            for place, item in rules.numbered(value or []):
                matches = item["event"] == event and place == number
                (removed if matches else remaining).append(item)
            return remaining or None

        commit()
        self._change(without)
        if not removed:
            raise ToolError(
                "not_found",
                f"The session has no hook {number} at {event}.",
                suggestion='Use action "list"; hooks with the source session can be removed by event and index.',
            )
        return removed[0]

    def would_run(self, seen: CallSeen, event: str = PRE) -> list[Hook]:
        """Return the hooks that would run for a call, without running them."""
        return [hook for hook in self.hooks if hook.event == event and _applies(hook, seen)]

    def before(self, seen: CallSeen, revalidate: Callable[[dict[str, Any]], CallSeen]) -> BeforeCall:
        """Run the hooks before a call; `revalidate` checks arguments that a hook rewrote, or raises.

        Each hook sees the changes of earlier hooks to the arguments. If a later hook changes them, the earlier ones run
        once more, so that they have seen the final arguments; then they can no longer change them.
        """
        run = _PreCallRun(self, seen, revalidate)
        hooks = [hook for hook in self.hooks if hook.event == PRE]
        rewritten = 0
        for place, hook in enumerate(hooks):
            if run.consult(hook):
                rewritten = place
            if run.ended:
                return run.outcome()
        for hook in hooks[:rewritten]:
            if run.consult(hook):
                run.disagree(hook, hooks[rewritten])
            if run.ended:
                break
        return run.outcome()

    def after(self, seen: CallSeen, result: Json, error: ToolError | None = None) -> AfterCall:
        """Run the hooks after a call with its result (text, or structured data) or its error."""
        event = POST if error is None else FAILURE
        outcome = AfterCall()
        message = "" if error is None else error.message
        for hook in self.would_run(seen, event):
            facts = _facts(seen)
            if error is None:
                facts["result"] = result
            else:
                facts["error"] = {"code": error.code, "message": message}
            answer, ran = self.ask(hook, facts)
            outcome = outcome._replace(ran=(*outcome.ran, ran))
            if answer is None:
                if hook.on_failure == "block":
                    return outcome._replace(error=rules.failed(hook, ran.reason))
                continue
            if answer.result:
                result = answer.result[0]
                message = str(result)
                outcome = outcome._replace(result=_output(result))
            outcome = outcome._replace(context=_joined(outcome.context, answer.context))
            if answer.decision == "deny":
                return outcome._replace(error=rules.blocked(hook, ran.reason))
            if answer.decision == "stop":
                return outcome._replace(stop=ran.reason)
        return outcome

    def event(self, name: str, *, arguments: Json = None, result: Json = None, **facts: Json) -> EventResult:
        """Run the hooks of an event other than a call; the caller acts on what they decide."""
        combined = EventResult(arguments, result)
        blocks = rules.EVENTS[name].on_failure == "block"
        for problem in self.problems:
            if blocks and problem.event in (None, name):
                return combined._replace(decision="deny", reason=problem.reason)
        for hook in self.hooks:
            if hook.event != name:
                continue
            values = {"arguments": combined.arguments, "result": combined.result}
            present = {key: value for key, value in values.items() if value is not None}
            answer, ran = self.ask(hook, {**facts, **present})
            combined = combined._replace(ran=(*combined.ran, ran))
            if answer is None:
                if hook.on_failure == "block":
                    return combined._replace(decision="deny", reason=f"The hook {hook.name} failed: {ran.reason}.")
                continue
            if answer.arguments is not None:
                combined = combined._replace(arguments=answer.arguments)
            if answer.result:
                combined = combined._replace(result=answer.result[0])
            combined = combined._replace(context=_joined(combined.context, answer.context))
            if answer.decision not in (None, "allow"):
                return combined._replace(decision=answer.decision, reason=ran.reason)
        return combined

    def ask(self, hook: Hook, facts: dict[str, Any]) -> tuple[HookAnswer | None, HookRun]:
        """Run one hook and return its answer, or None if it failed, and the record."""
        began = perf_counter()

        def ran(outcome: str, reason: str = "") -> HookRun:
            hook_run = HookRun(hook.name, hook.event, outcome, round((perf_counter() - began) * 1000, 3), reason)
            self._record(hook, hook_run)
            return hook_run

        try:
            answer = self._answer(hook, rules.hook_input(hook.event, self._session, facts))
        except BadAnswer as error:
            return None, ran("failed", str(error))
        changed = answer.arguments is not None or answer.result != ()
        reason = answer.reason
        if answer.decision is not None and not reason:
            reason = f"the hook {hook.name} answered {answer.decision}"
        return answer, ran(answer.decision or ("changed" if changed else "ok"), reason)

    def _answer(self, hook: Hook, data: bytes) -> HookAnswer:
        try:
            finished = self._run(hook, data)
        except ToolError as error:
            if error.code in ("cancelled", "timeout"):  # of the call, not of the hook
                raise
            raise BadAnswer(error.message.rstrip(".")) from None
        if finished.reason == "timeout":
            raise BadAnswer(f"it took longer than {hook.timeout:g} s")
        if finished.reason == "limit" or finished.stdout.omitted:
            raise BadAnswer(f"it printed more than {OUTPUT_BYTES >> 10} KiB")
        if finished.reason != "exit":
            raise BadAnswer(f"it was ended by a {finished.reason}, exit status {finished.exit_code}")
        return rules.parse_answer(hook.event, finished.exit_code, finished.stdout.head, finished.stderr.head)


class _PreCallRun:
    """The hooks before one call, run one by one, and their combined answer."""

    def __init__(self, hooks: Hooks, seen: CallSeen, revalidate: Callable[[dict[str, Any]], CallSeen]) -> None:
        self._hooks = hooks
        self._seen = seen
        self._revalidate = revalidate
        self._original_args = seen.args
        self._votes: list[Vote] = []
        self._contexts: dict[str, str] = {}
        self._skipped: Output | None = None
        self._ran: list[HookRun] = []

    @property
    def ended(self) -> bool:
        """Whether no further hook runs: the call is blocked or skipped."""
        return self._skipped is not None or any(vote.verdict == "deny" for vote in self._votes)

    def consult(self, hook: Hook) -> bool:
        """Run one hook, if it applies to the call; return whether it changed the arguments."""
        if not _applies(hook, self._seen):
            return False
        answer, ran = self._hooks.ask(hook, _facts(self._seen))
        changed = False
        if answer is not None and answer.arguments is not None:
            try:
                changed = self._rewrite(answer.arguments)
            except ToolError as error:
                answer, ran = None, ran._replace(outcome="failed", reason=f"its arguments are invalid: {error.message}")
        self._ran.append(ran)
        if answer is None:
            if hook.on_failure == "block":
                self._deny(rules.failed(hook, ran.reason.rstrip(".")))
            return False
        self._contexts[hook.name] = answer.context  # from its last run
        if answer.decision == "skip":
            result = answer.result[0] if answer.result else f"The call did not run: {ran.reason}"
            self._skipped = _output(result)
        vote = rules.vote(hook, answer)
        if vote is not None:
            self._votes.append(vote)
        return changed

    def _rewrite(self, args: dict[str, Any]) -> bool:
        seen = self._revalidate(args)
        changed = seen.args != self._seen.args
        self._seen = seen
        return changed

    def disagree(self, earlier: Hook, later: Hook) -> None:
        """Block the call: two hooks would change the arguments back and forth forever."""
        message = f"The hooks {earlier.name} and {later.name} do not agree on the arguments."
        self._deny(ToolError("hook_blocked", message, suggestion="Ask the user to fix one of the hooks."))

    def _deny(self, error: ToolError) -> None:
        self._votes.append(Vote("deny", "hooks", error.message, error))

    def outcome(self) -> BeforeCall:
        """Return the combined result of the hooks."""
        votes = [*self._votes, *self._broken()]
        return BeforeCall(
            self._seen.args,
            self._seen.args != self._original_args,
            decide(votes) if votes else None,
            _joined(*self._contexts.values()),
            self._skipped,
            tuple(self._ran),
        )

    def _broken(self) -> Iterator[Vote]:
        for problem in self._hooks.problems:
            if problem.event in (None, PRE) and problem.scope.may_govern(self._seen.subject()):
                yield Vote("ask", "hooks", f"A hook is invalid, so this call needs approval: {problem.reason}")


def _applies(hook: Hook, seen: CallSeen) -> bool:
    if hook.source == "session" and seen.unhooked:
        return False  # otherwise a failing hook could never be removed
    return hook.applies_to(seen.subject)


def _with_hook(value: Json, item: dict[str, Json]) -> Json:
    hooks = [*(value or ()), item]
    if len(hooks) > rules.MAX_HOOKS:
        message = f"A session can have at most {rules.MAX_HOOKS} hooks."
        raise ToolError("limit_exceeded", message, suggestion='Remove one with action "remove".')
    return hooks


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")


def _facts(seen: CallSeen) -> dict[str, Any]:
    touches = [{"effect": touch.effect, "target": touch.target} for touch in seen.touches]
    return {"tool": seen.tool, "arguments": seen.args, "touches": touches}


def _output(result: Json) -> Output:
    return Output(result) if isinstance(result, str) else Output(data=result)


def _joined(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


# --- where hooks come from ----------------------------------------------------------------------------------------


def of_files(*, config: str, root: str, names: Callable[[], Names], trusted: Trusts, home: str = "") -> list[HookSet]:
    """Load the hooks of the user and the project.

    `trusted` returns whether the user trusts a file with this content. A project's hooks run only if the user trusts
    all of `project_files`.
    """
    sets = [_personal(config, names, home), _project(root, names, trusted, home)]
    return [hook_set for hook_set in sets if hook_set is not None]


def of_session(value: Json, names: Callable[[], Names], home: str = "") -> HookSet:
    """Return the hooks of a session, from the value stored under HOOKS."""
    return rules.collect(value, "session", names, home=home)


def files(*, config: str, root: str) -> list[ProjectFile]:
    """Return the files that hooks come from, the user's first, which may not exist."""
    return [ProjectFile("hooks", config, HOOK_FILE), *project_files(root)]


def project_files(root: str) -> list[ProjectFile]:
    """Return the files to trust for a project's hooks: its hook file, and the scripts next to it."""
    hook_file, scripts = (ProjectFile("hooks", root, path) for path in loaders.paths_of("hooks"))
    if not os.path.lexists(hook_file.full):
        return []
    if os.path.islink(scripts.full):
        return [hook_file, scripts]
    script_files = []
    for inner, folders, files in os.walk(scripts.full):
        paths = [os.path.join(inner, name) for name in (*files, *folders)]
        script_files += [path for path in paths if os.path.islink(path) or not os.path.isdir(path)]
    return [hook_file, *(ProjectFile("hooks", root, os.path.relpath(path, root)) for path in sorted(script_files))]


def _personal(config: str, names: Callable[[], Names], home: str) -> HookSet | None:
    path = os.path.join(config, HOOK_FILE)
    if not os.path.lexists(path):
        return None
    try:
        return _parse(path, loaders.read(path, follow=True), "personal", names, home)
    except (OSError, ValueError) as error:
        return rules.broken("personal", path, _unreadable(path, error))


def _project(root: str, names: Callable[[], Names], trusted: Trusts, home: str) -> HookSet | None:
    files = project_files(root)
    if not files:
        return None
    if len(files) > SCRIPTS_MAX:
        note = f"The project's hooks do not run: {SCRIPTS} has more than {SCRIPTS_MAX} files."
        return HookSet("project", notes=(note,))
    contents: list[bytes] = []
    for file in files:
        try:
            contents.append(file.read())
        except (OSError, ValueError) as error:
            return HookSet("project", notes=(f"The project's hooks do not run: {_unreadable(file.full, error)}.",))
        if not trusted(file, contents[-1]):
            return HookSet("project", notes=(f"The project's hooks do not run: {file.full} is not trusted.",))
    return _parse(files[0].full, contents[0], "project", names, home)


def _parse(path: str, data: bytes, source: rules.Source, names: Callable[[], Names], home: str) -> HookSet:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return rules.broken(source, path, f"{path} is not UTF-8")
    return rules.parse(text, path, source, names, home=home)


def _unreadable(path: str, error: OSError | ValueError) -> str:
    reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
    return f"{path} cannot be read: {reason}"


# --- running hooks ------------------------------------------------------------------------------------------------


def runner(processes: Callable[[], Processes], fence: Fence, surroundings: Surroundings, root: str) -> Run:
    """Return a function that runs hooks in the workspace: a session's in the sandbox, others with the user's rights."""
    depth = _depth(surroundings.given)

    def run(hook: Hook, data: bytes) -> Finished:
        if depth >= MAX_DEPTH:
            raise ToolError(
                "hook_blocked", f"Hooks that call tools with hooks are nested deeper than {MAX_DEPTH} levels."
            )
        if hook.source == "session":
            argv = ["bash", "-c", hook.command]
            with processes().folder(".") as folder:
                return processes().run(argv, cwd=folder, seconds=hook.timeout, stdin=data, keep_bytes=OUTPUT_BYTES)
        argv = [surroundings.program("bash"), "-c", hook.command]
        env = {**surroundings.environment(), DEPTH: str(depth + 1)}
        finished = _run_unsandboxed(argv, data, hook.timeout, fence, env, root)
        missing = _NOT_FOUND.search(finished.stderr.head) if finished.exit_code == 127 else None
        name = os.fsdecode(missing[1]) if missing else ""
        if name and (advice := surroundings.advice(name)):
            raise ToolError("runtime_missing", f"{name} is not found.{advice} Install it outside the workspace.")
        return finished

    return run


def _run_unsandboxed(
    argv: list[str], data: bytes, seconds: float, fence: Fence, environ: Mapping[str, str], root: str
) -> Finished:
    from hilt.sandbox import capturing, spawning

    limits = spawning.Limits(timeout=seconds, keep_bytes=OUTPUT_BYTES, max_bytes=2 * OUTPUT_BYTES)
    finished = capturing.run(argv, cwd=root, env=environ, stdin=data, limits=limits, cancelled=fence.event())
    fence.check()
    return finished


def _depth(environ: Mapping[str, str]) -> int:
    text = environ.get(DEPTH, "0")
    return int(text) if text.isdecimal() and len(text) < 4 else MAX_DEPTH
