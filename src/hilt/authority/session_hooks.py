"""The active hooks of a session: from the user's file, the project's file and its own; and the hooks around a call."""

from __future__ import annotations

import threading
from typing import Any

from hilt.authority import hooks
from hilt.authority.authority import HOOKS, Authority
from hilt.authority.hooks import CallSeen
from hilt.authority.rulebook import is_settled, status
from hilt.authority.targets import risk_of
from hilt.call import Output
from hilt.context import Context
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.pipeline import Prepared, rewritten
from hilt.policy.hook_protocol import Hook, HookSet
from hilt.policy.hook_results import AfterCall, BeforeCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Door
    from hilt.sandbox.capturing import Finished


class SessionHooks:
    """The hooks of the sessions of one workspace. Safe to use from many threads."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._lock = threading.Lock()
        self._read: tuple[object, list[HookSet]] | None = None

    def around(self, ctx: Context) -> CallHooks:
        """Return the hooks around one call."""
        return CallHooks(self.of(ctx), self._authority, ctx.door)

    def of(self, ctx: Context) -> hooks.Hooks:
        """Return the hooks of the session that a call belongs to."""
        authority, session = self._authority, ctx.session
        place, values = authority.place, authority.values()
        sets = [*self.of_files()]
        for above in reversed(authority.lineage(session)):  # an agent inherits the hooks of its parent's session
            own = values.get(place.id, above, HOOKS)
            if own is not None:
                sets.append(hooks.of_session(own, authority.names, place.home))
        run = hooks.runner(lambda: ctx.processes, ctx.fence, authority.surroundings, place.root)

        def run_permitted(hook: Hook, data: bytes) -> Finished:
            if hook.source == "session":
                self._check_command(hook.command)
            return run(hook, data)

        return hooks.Hooks(
            sets,
            run_permitted,
            session=session,
            names=authority.names,
            change=lambda change: values.change(place.id, session, HOOKS, change),
            home=place.home,
            record=lambda hook, ran: authority.record_hook(session, hook, ran),
        )

    def of_files(self) -> list[HookSet]:
        """Return the hooks from files, reloaded when a file or trust changes."""
        authority, place = self._authority, self._authority.place
        files = hooks.files(config=place.config, root=place.root)
        file_stamps = tuple(status(file.full, follow=file.root == place.config) for file in files)
        stamps = (authority.state_stamp(), *zip(files, file_stamps, strict=True))
        with self._lock:
            if self._read is not None and self._read[0] == stamps:
                return self._read[1]
            sets = hooks.of_files(
                config=place.config,
                root=place.root,
                names=authority.names,
                trusted=lambda file, data: authority.trust().is_trusted(file, sha256(data)),
                home=place.home,
            )
            self._read = (stamps, sets) if all(map(is_settled, file_stamps)) else None
            return sets

    def _check_command(self, command: str) -> None:
        """Raise if a rule denies the command of a hook: registered hooks run without another decision."""
        authority = self._authority
        if not authority.rulesets():
            return
        from hilt.policy import rules
        from hilt.policy.subject import Subject
        from hilt.shell.risk import classify

        names = authority.names_of(authority.catalog.find("run_shell").tool)
        parts = classify(command).parts
        subject = Subject("run_shell", names, frozenset({"execute"}), (), command, parts)
        ruling = rules.decide(authority.rulesets(), subject)
        if ruling is not None and ruling.verdict == "deny":
            raise ToolError("hook_blocked", f"The command of a hook is denied: {ruling.reason}")


class CallHooks:
    """The hooks of a session around one call."""

    def __init__(self, hooks: hooks.Hooks, authority: Authority, door: Door) -> None:
        self._hooks = hooks
        self._authority = authority
        self._door = door

    @property
    def notes(self) -> tuple[str, ...]:
        """Hooks that do not run, and why."""
        return self._hooks.notes

    def would_run(self, prepared: Prepared) -> list[str]:
        """Return the names of the hooks that would run before a call, without running them."""
        return [hook.name for hook in self._hooks.would_run(self._seen(prepared))]

    def before(self, prepared: Prepared) -> BeforeCall:
        """Run the hooks before a call."""

        def revalidate(args: dict[str, Any]) -> CallSeen:
            return self._seen(rewritten(prepared, args))

        return self._hooks.before(self._seen(prepared), revalidate)

    def after(self, prepared: Prepared, output: Output | None, error: ToolError | None = None) -> AfterCall:
        """Run the hooks after a call."""
        result = None if output is None else output.text if output.data is None else output.data
        return self._hooks.after(self._seen(prepared), result, error)

    def _seen(self, prepared: Prepared) -> CallSeen:
        authority, door = self._authority, self._door
        return CallSeen(
            prepared.tool.name,
            prepared.args,
            prepared.touches,
            lambda: authority.subject(prepared, door, risk_of(prepared, authority.settings)),
            unhooked=prepared.tool.traits.unhooked,
        )
