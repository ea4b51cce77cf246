"""Runs commands on an overlay of the workspace, so that their changes can be undone or previewed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from hilt.config import digest
from hilt.errors import ToolError
from hilt.files import command_changes
from hilt.files.command_changes import CommandChange
from hilt.files.workspace import Workspace
from hilt.handles import remove_tree
from hilt.sandbox import disarming, layers, overlay
from hilt.sandbox.layers import LayerPlaces
from hilt.sandbox.overlay import UpperLayer
from hilt.sandbox.profile import plain_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.backend import Availability
    from hilt.sandbox.profile import Profile
    from hilt.state.history import Recording


NOT_MOUNTED = "the overlay could not be mounted"
NO_PLACE = "no folder on the workspace's file system can hold the overlay"


def is_not_started(error: ToolError) -> bool:
    """Whether a command did not start because its sandbox could not be set up."""
    return error.code == "sandbox_unavailable" or bool(error.details.get("renamed"))


def call_key(command: str, folder: str) -> str:
    """Return a key that identifies a command and its working folder."""
    return digest(json.dumps([command, folder]))


def is_covered(setting: str, risk: str) -> bool:
    """Whether `shell.undo` applies to commands of this risk."""
    return risk in {"auto": ("dangerous",), "caution": ("dangerous", "caution")}.get(setting, ())


class Overlays:
    """The overlays of one call's commands."""

    def __init__(
        self,
        workspace: Workspace,
        profile: Callable[[], Profile],
        available: Callable[[], Availability],
        has_jobs: Callable[[], bool],
        state: str,
    ) -> None:
        self.workspace = workspace
        self.profile = cache(profile)
        self._available = available
        self._has_jobs = has_jobs
        self._state = state

    def under(self, profile: Profile) -> Overlays:
        """Return the overlays of commands with another profile."""
        return Overlays(self.workspace, lambda: profile, self._available, self._has_jobs, self._state)

    def obstacle(self) -> str:
        """Return why commands cannot run on an overlay now; an empty string if they can."""
        reason = overlay.obstacle(self.profile(), self._available())
        if not reason and self._has_jobs():
            reason = "a background job of the session is running"
        if reason:
            return reason
        with self.places() as places:
            return "" if places else NO_PLACE

    def places(self) -> AbstractContextManager[LayerPlaces | None]:
        """Open the folders for the layers of this workspace."""
        attribute = overlay.attribute(in_user_namespace=overlay.needs_user_namespace())
        roots = overlay.outermost(self.profile())
        return layers.open_places(roots, self._state, self.workspace.store.id, attribute=attribute)


class UndoableRun:
    """One run of a command on an overlay: its changes, or why it ran without one.

    With `previewed`, the key of the call, the workspace does not change. Before the command runs without an overlay,
    `accept` is called with the reason; it may raise.
    """

    def __init__(
        self,
        overlays: Overlays,
        operation: str,
        *,
        previewed: str = "",
        accept: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.change: CommandChange | None = None
        self.skipped = overlays.obstacle()
        self._overlays = overlays
        self._operation = operation
        self._previewed = previewed
        self._accept = accept
        self._recording: Recording  # of the current attempt
        self._is_settled = False
        if self.skipped:
            self._refuse_preview()

    @contextmanager
    def layer(self) -> Iterator[UpperLayer | None]:
        """Yield the layer for one attempt to run the command; None if it runs without one."""
        if self.skipped:
            yield None
            return
        workspace = self._overlays.workspace
        with self._overlays.places() as places:
            if places is None:
                raise ToolError("sandbox_unavailable", f"The command did not start: {NO_PLACE}.")
            for place in filter(None, places):
                command_changes.tidy(workspace, place)
            roots = overlay.outermost(self._overlays.profile())
            self._recording = recording = workspace.store.history().mark()
            try:
                with overlay.make(places, recording.id, roots, whole=bool(self._previewed)) as layer:
                    yield layer
            finally:
                if not self._is_settled:
                    command_changes.discard(recording, places.layers.handle)
                if places.scratch:
                    remove_tree(places.scratch.handle, recording.id)
                recording.release()

    def settle(self, layer: UpperLayer) -> tuple[str, ...]:
        """Apply the changes of an ended command, or store them as a preview; return notes on what was disarmed."""
        workspace, recording = self._overlays.workspace, self._recording
        if self._previewed:
            workspace.fence.check()
        else:
            workspace.fence.commit()
        profile = self._overlays.profile()
        absent = plain_names(profile)
        notes = tuple(
            note
            for root in layer.roots
            for note in disarming.disarm_new(root, layer.upper(root), absent, profile.names, profile.judge(root))
        )
        self._is_settled = True
        if self._previewed:
            self.change = command_changes.keep_preview(workspace, layer, recording, self._operation, self._previewed)
        else:
            self.change = command_changes.apply(workspace, layer, recording, self._operation)
        return notes

    def falls_back(self, error: ToolError) -> bool:
        """Whether to run the command without an overlay, because it did not start on one."""
        if self.skipped or not is_not_started(error):
            return False
        self.skipped = NOT_MOUNTED
        self._refuse_preview()
        self._accept(self.skipped)
        return True

    def _refuse_preview(self) -> None:
        if self._previewed:
            raise ToolError(
                "sandbox_unavailable",
                f"The command cannot be previewed: {self.skipped}.",
                suggestion="Send dry_run: true, which reports the risk without running the command.",
            )
