"""Records every call in the audit trail, and bugs in hilt itself in incidents.log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from hilt.active_call import ActiveCall
from hilt.call import Json, Origin, Result
from hilt.errors import ToolError
from hilt.output.incidents import log_incident  # at the top: files may have run out later
from hilt.pipeline import Prepared, failure
from hilt.places import serving_folder
from hilt.state.trail import Trail, TrailEntry, digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.policy.hook_protocol import Hook
    from hilt.policy.hook_results import HookRun
    from hilt.running.publishing import Publisher
    from hilt.telemetry import Telemetry


_ID_CHARACTERS = 200


class Recorder:
    """Records calls. Safe to use from many threads."""

    def __init__(
        self,
        trail: Trail,
        workspace: str,
        state: str,
        take_notes: Callable[[], tuple[str, ...]],
        publisher: Callable[[], Publisher],
        origin_of: Callable[[str], Origin],
    ) -> None:
        """`take_notes` returns the unreported notes on disarmed files; `publisher` publishes to `hilt serve`."""
        self._trail = trail
        self._origin_of = origin_of
        self._publisher = publisher
        self._marker = serving_folder(state)
        self._workspace = workspace
        self._state = state
        self._has_begun = False  # whether the start of any call was published, perhaps to a server that has ended since
        self._take_notes = take_notes
        self.telemetry: Telemetry | None = None

    def begin(self, active: ActiveCall) -> None:
        """Publish the start of a call to `hilt serve`, if it is running."""
        if os.access(self._marker, os.F_OK):
            self._has_begun = True
            with suppress(Exception):  # it is published when it ends
                self._publisher().begin(active)

    def close(self) -> None:
        """Send pending spans and metrics."""
        if self.telemetry is not None:
            self.telemetry.close()
            self.telemetry = None

    def record(self, active: ActiveCall, result: Result) -> Result:
        """Record the end of a call; return its result, or an error if it cannot be recorded."""
        prepared = active.prepared
        seen = active.workspace.seen if active.workspace is not None else {}
        if result.error is not None:
            # a failed call returns no contents, but may report that a file is gone
            seen = {path: stamp for path, stamp in seen.items() if stamp is None}
        micros = int((time.perf_counter() - active.started) * 1_000_000)
        try:
            origin = self._origin_of(active.session)
            entry = TrailEntry(
                time.time_ns(),
                self._workspace,
                active.session,
                prepared.tool.name if prepared else active.call.tool[:200],
                digest(prepared.args if prepared else active.call.args),
                active.decision.verdict,
                active.decision.reason,
                active.approver,
                result.error.code if result.error else "ok",
                micros,
                origin.agent,
                ", ".join(dict.fromkeys(active.contacts)),
                _id_text(active.call.id),
                origin.run,
                origin.parent,
            )
            self._trail.record(entry, seen, ran=active.ran)
            if self.telemetry is not None:
                self.telemetry(entry, active.call.id)
        except Exception as caught:  # noqa: BLE001  # the caller is waiting for a result
            # no result without a record (ADR 0011)
            error = caught if isinstance(caught, ToolError) else log_incident(self._state, caught)
            return failure(active.call, unrecorded(error, ran=active.ran))
        meta = {**result.meta, "timing": {"ms": micros / 1000}}
        if notes := self._take_notes():
            previous = result.meta.get("disarmed")
            meta["disarmed"] = list(dict.fromkeys((*(previous if isinstance(previous, list) else ()), *notes)))
        result = result._replace(meta=meta)
        if self._has_begun or os.access(self._marker, os.F_OK):
            with suppress(Exception):  # the caller is waiting for a result, and the trail has the call
                self._publisher().publish(active, entry, result)
        return result

    def record_hook(self, session: str, hook: Hook, run: HookRun) -> None:
        """Record a hook that ran, in the same trail as calls."""
        entry = TrailEntry(
            time.time_ns(),
            self._workspace,
            session,
            f"hook {hook.name}",
            digest(hook.command),
            "allow",
            f"{run.event} hook",
            "",
            {"ok": "ok", "changed": "ok", "allow": "ok"}.get(run.outcome, run.outcome),
            int(run.milliseconds * 1000),
            **self._origin_of(session)._asdict(),
        )
        self._trail.record(entry, {})

    def report_exception(self, prepared: Prepared | None, error: BaseException) -> ToolError:
        """Log an exception that escaped from a call, and return the error to report."""
        incident = log_incident(self._state, error)
        if prepared is None or prepared.tool.source == "built-in" or isinstance(error, ToolError):
            return incident
        number = incident.details["incident"]
        return ToolError(
            "internal",
            f"The tool {prepared.tool.name} failed ({type(error).__name__}), incident {number}.",
            suggestion="The traceback is in incidents.log, in the state directory.",
            incident=number,
        )


def _id_text(id: Json) -> str:
    """Return the id of a call as text that can be stored."""
    return "" if id is None else str(id)[:_ID_CHARACTERS].encode("utf-8", "replace").decode()


def unrecorded(error: ToolError, *, ran: bool) -> ToolError:
    """Return the error for a call that could not be recorded."""
    outcome = (
        "ran but could not be recorded, so its result is withheld" if ran else "did not run: it could not be recorded"
    )
    return ToolError(error.code, f"The call {outcome}. {error.message}", suggestion=error.suggestion, **error.details)
