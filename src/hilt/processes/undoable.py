"""Runs commands on an overlay of the workspace, so that their changes can be undone or previewed."""

from __future__ import annotations

import json
import os
import posixpath
import re
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
from hilt.shell.programs import WRAPPERS
from hilt.shell.removals import ANYWHERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sandbox import Sandbox
    from hilt.shell.risk import Risk
    from hilt.state.history import Recording


_MANY = 20_000  # files in a repository that are compared
_FEW = 3  # files at the top of a workspace may be removed, even if it has few
_KEEPERS = frozenset(("builtin", "command", "env", "find", "nice", "nohup", "time", "timeout", "xargs"))
_MOVES = re.compile(r"-(?:\w*C|execdir|okdir|-c)")  # options of these that change the folder
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
    # find may ignore case
    removed_paths = [path.lower() for path in risk.removes or ()]
    found = {posixpath.basename(path) for path in removed_paths if ANYWHERE in path}
    if found and any(_may_find(found, git) for git in repositories):
        return False
    paths = [path.removeprefix(root.lower()).replace(f"{ANYWHERE}/", "").strip("/.") for path in removed_paths]
    inner = [os.path.relpath(path.removesuffix("/.git"), root).lower().split("/") for path in repositories]
    names = {name for path in inner for name in path}
    if any(fnmatchcase(name, os.path.basename(path)) for path in paths for name in names):
        return False
    top = [name.lower() for name in os.listdir(root) if name != ".git"]
    removed = [name for name in top if any(fnmatchcase(name, path) for path in paths)]
    return len(removed) < max(len(top), 1) and (len(removed) < _FEW or 2 * len(removed) <= len(top))


def _may_find(globs: Iterable[str], git: str) -> bool:
    """Whether `find` could select something in a repository, which undo does not bring back."""
    entries = (name for _, folders, files in os.walk(git) for name in (*folders, *files))
    return any(
        number > _MANY or fnmatchcase(name.lower(), glob) for number, name in enumerate(entries) for glob in globs
    )


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return ".git" not in real.lower().split("/") and any(is_below(real, root) for root in roots)


def _folders(risk: Risk, cwd: str) -> list[str]:
    """Return the folders in which the parts of a command may run; the top of the system for one that is not known."""
    folders = [cwd]
    for part in risk.parts:
        program, *values = [word or "" for word in part.words] or [""]
        target = values[0] if len(values) == 1 else ""
        if program in ("cd", "pushd"):
            is_unknown = not target or target.startswith(("~", "-")) or ".." in target or re.search(r"[*?\[]", target)
            folders += ["/"] if is_unknown or len(folders) > _FEW else [os.path.join(each, target) for each in folders]
        elif "CDPATH" in part.text or (any(map(_MOVES.match, values)) if program in _KEEPERS else program in WRAPPERS):
            folders.append("/")
    return folders


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

    def covers(self, risk: Risk, cwd: str) -> bool:
        """Whether undo brings back all that a command removes, and that is neither a repository nor most of a root."""
        if risk.removes is None or self.obstacle():
            return False
        profile = self.profile()
        try:
            repositories = self._sandbox().repositories(profile)
        except ToolError:
            return False
        folders = _folders(risk, cwd)
        starts = [re.split(r"[^/]*[*?]", path)[0] for path in risk.removes]
        removed = [os.path.join(folder, start) for folder in folders for start in starts]
        return (
            all(_leaves(root, risk, repositories) for root in profile.roots)
            and all(_is_inside(path, profile.roots) for path in folders)
            and all(
                _is_inside(path, profile.roots)
                or (path.startswith(_PRIVATE) and not any(is_below(path, root) for root in profile.roots))
                for path in removed
            )
        )

    def places(self) -> AbstractContextManager[LayerPlaces | None]:
        """Open the folders for the layers of this workspace."""
        attribute = overlay.attribute(in_user_namespace=overlay.needs_user_namespace())
        roots = overlay.outermost(self.profile())
        return layers.open_places(roots, self._state, self.workspace.store.id, attribute=attribute)


class UndoableRun:
    """One run of a command on an overlay: its changes, or why it ran without one.

    With `previewed`, the key of the call, the workspace does not change. A command that may
    run only because it can be undone is refused if it cannot (`required`). Before another one runs without an overlay,
    `accept` is called with the reason; it may raise.
    """

    def __init__(
        self,
        overlays: Overlays,
        operation: str,
        *,
        previewed: str = "",
        required: bool = False,
        accept: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.change: CommandChange | None = None
        self.skipped = overlays.obstacle()
        self._overlays = overlays
        self._operation = operation
        self._previewed = previewed
        self._required = required
        self._accept = accept
        self._recording: Recording  # of the current attempt
        self._is_settled = False
        if self.skipped:
            self._refuse()

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
        self._refuse()
        self._accept(self.skipped)
        return True

    def _refuse(self) -> None:
        if self._required and not self._previewed:
            message = (
                f"The command did not run: it is dangerous, and undo cannot bring back its changes: {self.skipped}."
            )
            raise ToolError("command_blocked", message, risk="dangerous")
        if self._previewed:
            raise ToolError(
                "sandbox_unavailable",
                f"The command cannot be previewed: {self.skipped}.",
                suggestion="Send dry_run: true, which reports the risk without running the command.",
            )
