"""Runs commands on an overlay of the workspace, so that their changes can be undone or previewed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePath

from hilt.config import digest
from hilt.errors import ToolError
from hilt.files import command_changes
from hilt.files.command_changes import CommandChange
from hilt.files.workspace import Workspace
from hilt.handles import remove_tree
from hilt.sandbox import disarming, layers, overlay
from hilt.sandbox.layers import LayerPlaces
from hilt.sandbox.overlay import UpperLayer
from hilt.sandbox.profile import is_below, plain_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sandbox import Sandbox
    from hilt.shell.risk import Risk
    from hilt.state.history import Recording


_FEW = 3  # files at the top of a workspace may be removed, even if it has few
_PRIVATE = ("/tmp/", "/var/tmp/")  # of the session  # noqa: S108
NOT_MOUNTED = "the overlay could not be mounted"
NO_PLACE = "no folder on the workspace's file system can hold the overlay"


def is_not_started(error: ToolError) -> bool:
    """Whether a command did not start because its sandbox could not be set up."""
    return error.code == "sandbox_unavailable" or bool(error.details.get("renamed"))


def call_key(command: str, folder: str) -> str:
    """Return a key that identifies a command and its working folder."""
    return digest(json.dumps([command, folder]))


def is_covered(setting: str, risk: Risk) -> bool:
    """Whether `shell.undo` applies to commands of this risk."""
    levels = {"auto": ("dangerous",), "caution": ("dangerous", "caution")}.get(setting, ())
    return risk.level in levels or (setting == "auto" and risk.removes is not None)


def _leaves(root: str, risk: Risk, repositories: Iterable[str]) -> bool:
    """Whether what a command removes leaves most of a workspace folder, and the repositories in it."""
    around = (root, *map(str, PurePath(root).parents))
    if any(fnmatchcase(folder, path) for folder in around for path in risk.removes or ()):
        return False
    paths = [path.removeprefix(root).strip("/") for path in risk.removes or ()]
    inner = [os.path.relpath(path.removesuffix("/.git"), root).split("/") for path in repositories]
    names = {name for path in inner for name in path}
    if any(fnmatchcase(name, os.path.basename(path)) for path in paths for name in names):
        return False
    top = [name for name in os.listdir(root) if name != ".git"]
    removed = [name for name in top if any(fnmatchcase(name, path) for path in paths)]
    return len(removed) < max(len(top), 1) and (len(removed) < _FEW or 2 * len(removed) <= len(top))


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(is_below(os.path.realpath(path), root) for root in roots)


def _moves(risk: Risk) -> Iterator[str]:
    """Yield the folders that a command changes to, if they may be outside the workspace."""
    for words in (part.words for part in risk.parts):
        if words and words[0] in ("cd", "pushd"):
            target = words[1] if len(words) == 2 else None
            if target is None or target.startswith(("/", "~", "-")) or {"..", ".git"} & set(target.split("/")):
                yield target if target is not None and target.startswith("/") and ".." not in target else "/"


class Overlays:
    """The overlays of one call's commands."""

    def __init__(
        self,
        workspace: Workspace,
        profile: Callable[[], Profile],
        sandbox: Callable[[], Sandbox],
        has_jobs: Callable[[], bool],
        state: str,
    ) -> None:
        self.workspace = workspace
        self.profile = cache(profile)
        self._sandbox = sandbox
        self._has_jobs = has_jobs
        self._state = state

    def under(self, profile: Profile) -> Overlays:
        """Return the overlays of commands with another profile."""
        return Overlays(self.workspace, lambda: profile, self._sandbox, self._has_jobs, self._state)

    def obstacle(self) -> str:
        """Return why commands cannot run on an overlay now; an empty string if they can."""
        reason = overlay.obstacle(self.profile(), self._sandbox().availability())
        if not reason and self._has_jobs():
            reason = "a background job of the session is running"
        if reason:
            return reason
        with self.places() as places:
            return "" if places else NO_PLACE

    def covers(self, risk: Risk) -> bool:
        """Whether undo brings back all that a command removes, and that is neither a repository nor most of a root."""
        if risk.removes is None or self.obstacle():
            return False
        profile = self.profile()
        try:
            repositories = self._sandbox().repositories(profile)
        except ToolError:
            return False
        removed = [path for path in risk.removes if path.startswith("/")]
        return (
            all(_leaves(root, risk, repositories) for root in profile.roots)
            and all(_is_inside(path, profile.roots) or path.startswith(_PRIVATE) for path in removed)
            and all(_is_inside(path, profile.roots) for path in _moves(risk))
        )

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
