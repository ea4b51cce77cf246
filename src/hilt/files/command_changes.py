"""The changes of commands: apply them, store them as a preview, recover, show and restore them.

A command that can be undone runs on an overlay. Its upper layer is moved into the workspace step by step; the replaced
versions stay in the layer, so that the inverse steps restore them.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.files import collecting
from hilt.files.door import plain_error
from hilt.files.editing import FileDiff, diff_of_bytes
from hilt.files.exchanging import SlotExchange
from hilt.files.workspace import Workspace
from hilt.handles import LISTED, Closing, open_folder, remove_tree
from hilt.policy.later import runner
from hilt.sandbox.layers import OpenPlace, open_layer
from hilt.sandbox.overlay import UpperLayer
from hilt.state.history import LayerStep, RecordedChange, Recording, Version

SHOWN_FILES = 100  # in the result of a command
PREVIEWED_FILES = 5_000  # before a person approves a change
SHOWN_BYTES = 256 * 1024  # of one file
_ALL_SHOWN_BYTES = 4 * 1024 * 1024
_LISTED_MAX = 20  # conflicts
_ANSWER_SECONDS = 0.02  # upper bound for the time from the end of a command to its answer


class CommandChange(NamedTuple):
    """The change of a command: its id for undo, the number of files, the conflicting paths and the diffs.

    Conflicting paths were skipped.
    """

    id: str
    files: int
    conflicts: tuple[str, ...] = ()
    diffs: tuple[FileDiff, ...] = ()

    @property
    def files_text(self) -> str:
        """The number of files as text."""
        return f"{self.files} file{'s' * (self.files != 1)}"

    @property
    def summary(self) -> str:
        """How many files changed, and how to revert that."""
        return f"{self.files_text} changed; undo restore {self.id} reverts it"

    @property
    def facts(self) -> dict[str, object]:
        """The change as metadata."""
        facts: dict[str, object] = {"id": self.id, "files": self.files}
        return {**facts, "conflicts": list(self.conflicts)} if self.conflicts else facts


def apply(workspace: Workspace, layer: UpperLayer, recording: Recording, operation: str) -> CommandChange | None:
    """Move the changes of a command that has ended into the workspace; None if there are none."""
    with _collected(layer, recording) as steps:
        if not steps:
            return None
        change = _new(workspace, recording.id, operation, layer.folder, steps)._replace(began=layer.began)
        with workspace.locked_paths(step.full_path for step in steps), closing(SlotExchange(layer.handle)) as exchange:
            exchange.sync()
            recording.record(change, call=workspace.call, is_open=True)
            return _perform(workspace, change, recording, exchange)


def keep_preview(
    workspace: Workspace, layer: UpperLayer, recording: Recording, operation: str, previewed: str
) -> CommandChange:
    """Store the changes of a command without applying them; `previewed` identifies the call that may apply them."""
    with _collected(layer, recording) as steps:
        change = _new(workspace, recording.id, operation, layer.folder, steps)
        change = change._replace(began=layer.began, previewed=previewed)
        diffs = _diffs(workspace, layer.handle, steps, is_applied=False, files=SHOWN_FILES)
        conflicts = _listed(workspace, [step for step in steps if step.kind == "conflict"])
        if steps:
            recording.record(change, call=workspace.call, is_open=False)
            recording.keep()
        return CommandChange(recording.id, sum(step.files for step in steps), conflicts, diffs)


def find_preview(workspace: Workspace, id: str, previewed: str) -> RecordedChange:
    """Return a preview of exactly this call; raise if there is none, or if the workspace has changed since."""
    change = workspace.store.history().find_preview(id)
    if change.previewed != previewed:
        raise ToolError(
            "invalid_args",
            f"The preview {id} is for another command or folder.",
            suggestion="Send the same command and cwd as in the preview.",
        )
    created = {step.full_path for step in change.steps if step.kind == "folder" and step.after.inode}
    first = {step.full_path: step for step in reversed(change.steps)}.values()
    stale = [step for step in change.steps if step.kind == "conflict"]
    stale += [step for step in first if _is_stale(step, change.began, created)]
    if stale:
        path = shown_path(workspace, stale[0])
        raise ToolError(
            "stale_file",
            f"{path} has changed since the preview {id}, which can no longer be applied.",
            suggestion="Preview the command again.",
            path=path,
        )
    with _exchange(workspace, change) as exchange:
        if any(_is_tampered(exchange.layer, step, change.at) for step in change.steps):
            raise ToolError(
                "stale_file",
                f"Another program has changed what the preview {id} stored, so it can no longer be applied.",
                suggestion="Preview the command again.",
            )
    return change


def preview_diffs(workspace: Workspace, change: RecordedChange) -> tuple[FileDiff, ...]:
    """Return the diffs that applying a preview would make."""
    with _exchange(workspace, change) as exchange:
        return _diffs(workspace, exchange.layer, change.steps, is_applied=False, files=PREVIEWED_FILES)


def apply_preview(workspace: Workspace, change: RecordedChange, operation: str) -> CommandChange:
    """Apply exactly the changes of a preview."""
    workspace.fence.commit()
    try:
        with workspace.locked_paths(step.full_path for step in change.steps), _exchange(workspace, change) as exchange:
            change = change._replace(steps=tuple(map(exchange.split, change.steps)))
            recording = workspace.store.history().reopen(change, operation, workspace.call)
            return _perform(workspace, change, recording, exchange)
    except OSError as error:
        raise plain_error(error, workspace.root) from error


def restore(workspace: Workspace, change: RecordedChange, steps: Sequence[LayerStep]) -> CommandChange | None:
    """Restore the versions that steps of a change replaced; None if they are already in place.

    The current versions move to the layer, so that this can be undone too.
    """
    workspace.fence.commit()
    try:
        with workspace.locked_paths(step.full_path for step in steps), _exchange(workspace, change) as exchange:
            recording = workspace.store.history().mark()
            inverse, skipped = _invert(exchange, steps, recording.id)
            if not inverse:
                recording.abandon()
                return CommandChange("", 0, _listed(workspace, skipped)) if skipped else None
            revert = _new(workspace, recording.id, "undo", change.layer, inverse)
            recording.record(revert, call=workspace.call, is_open=True)
            restored = _perform(workspace, revert, recording, exchange)
            return restored._replace(conflicts=(*restored.conflicts, *_listed(workspace, skipped)))
    except OSError as error:
        raise plain_error(error, workspace.root) from error


def recover(workspace: Workspace, change: RecordedChange, recording: Recording) -> dict[str, object]:
    """Complete an interrupted change of a command, and return a report."""
    try:
        with _exchange(workspace, change) as exchange:
            failed = exchange.perform(change.steps)
            exchange.sync()
    except (OSError, ToolError):
        failed = [position for position, step in enumerate(change.steps) if step.kind == "swap"]
    recording.keep_steps(failed)
    report: dict[str, object] = {
        "change": change.id,
        "outcome": "completed",
        "files": sum(step.files for position, step in enumerate(change.steps) if position not in failed),
    }
    left_alone = [shown_path(workspace, change.steps[position]) for position in failed]
    return {**report, "left_alone": left_alone} if left_alone else report


def restorable(workspace: Workspace, change: RecordedChange) -> tuple[list[LayerStep], list[LayerStep]]:
    """Return the steps that undo may revert, and those on paths that tools may not write."""
    allowed: list[LayerStep] = []
    closed: list[LayerStep] = []
    for step in change.steps:
        if step.kind != "conflict":
            (closed if _is_closed(workspace, step) else allowed).append(step)
    return allowed, closed


def restore_diffs(workspace: Workspace, change: RecordedChange, steps: Sequence[LayerStep]) -> tuple[FileDiff, ...]:
    """Return the diffs that a restore would make."""
    with _exchange(workspace, change) as exchange:
        return _diffs(workspace, exchange.layer, steps, is_applied=False, files=PREVIEWED_FILES)


def old_file(workspace: Workspace, change: RecordedChange, step: LayerStep, inner: str) -> tuple[bytes, int] | None:
    """Return the contents and the mode of one file in the slot of a step; None if it is not a regular file."""
    path = f"{step.slot}/{inner}" if inner else step.slot
    with suppress(OSError), _exchange(workspace, change) as exchange, _around(path, exchange.layer) as (folder, name):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
                return file.read(), stat.S_IMODE(status.st_mode)
    return None


def tidy(workspace: Workspace, place: OpenPlace) -> None:
    """Remove the layers in a place that no change refers to and no running command uses."""
    history = workspace.store.history()
    names = [name for name in collecting.list_names(place.handle) if name != ".gitignore"]
    used = history.layers() if names else set()
    for name in names:
        if os.path.join(place.path, name) not in used and not history.is_marked(name):
            remove_tree(place.handle, name)


@contextmanager
def _around(path: str, base: int | None) -> Iterator[tuple[int, str]]:
    """Open the folder around a path, absolute or from an open folder; yield it with the name there."""
    outer, name = os.path.split(path)
    with Closing(open_folder(outer, base)) as folder:
        yield folder, name


@contextmanager
def _exchange(workspace: Workspace, change: RecordedChange) -> Iterator[SlotExchange]:
    """Open the layer of a recorded change."""
    with ExitStack() as stack:
        try:
            layer = stack.enter_context(open_layer(change.layer, workspace.store.history().directory))
        except OSError as error:
            raise ToolError(
                "not_found",
                f"What {change.operation} {change.id} replaced is gone: {change.layer} was removed or replaced.",
            ) from error
        yield stack.enter_context(closing(SlotExchange(layer)))


@contextmanager
def _collected(layer: UpperLayer, recording: Recording) -> Iterator[list[LayerStep]]:
    """Yield the steps of a command that has ended; if they are not recorded in the block, discard its layer."""
    steps: list[LayerStep] = []
    try:
        steps += collecting.collect(layer)
        yield steps
        if not steps:
            discard(recording, layer.place)
    except BaseException as error:
        if not recording.is_recorded:
            discard(recording, layer.place)
        if isinstance(error, OSError):
            raise plain_error(error, layer.roots[0]) from error
        raise


def discard(recording: Recording, place: int) -> None:
    """Discard the changes of a command, which were not recorded; `place` is the open folder around its layer.

    Its layer is removed in the background, after a delay in which the call should have been answered: removing an
    overlay takes longer than mounting it, and would slow down the answer. If the process exits before, the next command
    removes the rest.
    """
    recording.abandon()
    threading.Thread(target=_remove_later, args=(os.dup(place), recording.id), name="layer", daemon=True).start()


def _remove_later(place: int, name: str) -> None:
    time.sleep(_ANSWER_SECONDS)
    remove_tree(place, name)
    os.close(place)


def _new(workspace: Workspace, id: str, operation: str, layer: str, steps: Sequence[LayerStep]) -> RecordedChange:
    return RecordedChange(id, workspace.session, operation, time.time_ns(), (), layer, tuple(steps))


def _perform(
    workspace: Workspace, change: RecordedChange, recording: Recording, exchange: SlotExchange
) -> CommandChange:
    """Perform the steps of a recorded change; if this process dies, the next call in the workspace completes it."""
    try:
        failed = exchange.perform(change.steps)
        exchange.sync()
        recording.keep_steps(failed)
    finally:
        recording.release()
    done = [step for position, step in enumerate(change.steps) if step.kind != "conflict" and position not in failed]
    skipped = [step for step in change.steps if step not in done]
    diffs = _diffs(workspace, exchange.layer, done, is_applied=True, files=SHOWN_FILES)
    return CommandChange(change.id, sum(step.files for step in done), _listed(workspace, skipped), diffs)


def _invert(exchange: SlotExchange, steps: Sequence[LayerStep], id: str) -> tuple[list[LayerStep], list[LayerStep]]:
    """Return the steps that revert these steps, and the steps whose old version is gone."""
    inverse, lost = [], []
    planned: dict[str, Version] = {}  # the version at each path after the steps so far
    for position, step in enumerate(reversed(steps)):
        if step.kind == "mode":
            inverse.append(step._replace(before=step.after, after=step.before))
            continue
        now = planned[step.full_path] if step.full_path in planned else exchange.now(step)
        if step.kind == "folder":
            if bool(now.inode) != bool(step.before.inode):
                inverse.append(step._replace(before=step.after, after=step.before))
                planned[step.full_path] = step.before
            continue
        stored = exchange.stored(step)
        target = step.before if step.kind == "swap" else step.after
        if now.inode == target.inode:
            continue
        slot = step.slot
        if not target.inode and stored.inode:
            slot = f"x{id}/{position}"  # its own slot holds a later version
        elif stored.inode != target.inode:
            lost.append(step)
            continue
        inverse.append(step._replace(kind="swap", slot=slot, before=now, after=target))
        planned[step.full_path] = target
    return inverse if any(step.kind == "swap" for step in inverse) or not lost else [], lost


def _is_stale(step: LayerStep, began: int, created: Set[str]) -> bool:
    """Whether the path of a step, or anything below it, changed since a time; earlier steps create these folders."""
    if step.kind == "mode" or os.path.dirname(step.full_path) in created:
        return False
    try:
        around = open_folder(os.path.dirname(step.full_path))
    except OSError:
        return True
    name, tree = os.path.basename(step.path), collecting.Measured()
    try:
        if os.stat(name, dir_fd=around, follow_symlinks=False).st_ino != step.before.inode:
            return True
        collecting.measure(around, name, tree, began)
    except FileNotFoundError:
        return step.before.inode != 0
    finally:
        os.close(around)
    return tree.is_changed


def _is_tampered(layer: int, step: LayerStep, since: int) -> bool:
    """Whether the new version of a step changed: programs that began before the place of layers was made see it."""
    if step.kind == "mode" or not step.after.inode:
        return False
    tree = collecting.Measured()
    try:
        with _around(step.slot, layer) as (folder, name):
            collecting.measure(folder, name, tree, since)
    except OSError:
        return True
    return tree.is_changed


def _is_closed(workspace: Workspace, step: LayerStep) -> bool:
    path = shown_path(workspace, step).rstrip("/")
    try:
        workspace.judge(path, write=True)
        root, parts = workspace.door.locate(path)
        workspace.door.check_rules(root, [part for part in parts if part not in ("", ".")], write=True)
    except ToolError:
        return True
    return False


def _is_hidden(workspace: Workspace, path: str) -> bool:
    try:
        workspace.judge(path, write=False)
    except ToolError:
        return True
    return False


def shown_path(workspace: Workspace, step: LayerStep) -> str:
    """Return the path of a step as callers see it; that of a folder ends with a slash."""
    root = next((root for root in workspace.door.roots if root.real == step.root), None)
    path = step.full_path if root is None else root.display_path(step.path.split("/") if step.path else ())
    return path + "/" if any(stat.S_ISDIR(version.mode) for version in (step.before, step.after)) else path


def _listed(workspace: Workspace, steps: Iterable[LayerStep]) -> tuple[str, ...]:
    paths = [shown_path(workspace, step) for step in steps]
    excess = len(paths) - _LISTED_MAX
    return (*paths[:_LISTED_MAX], f"and {excess} more") if excess > 0 else tuple(paths)


# --- diffs


class _Reading:
    """What was read for diffs, and the limits of files and bytes."""

    def __init__(self, files: int) -> None:
        self.files = files
        # before an approval, what runs later is listed beyond the limit
        self.marks = files if files > SHOWN_FILES else 0
        self.bytes = _ALL_SHOWN_BYTES


class _File(NamedTuple):
    """A file on one side of a diff; `missing` says why its contents were not read."""

    data: bytes
    mode: int = 0
    missing: str = ""

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def executable(self) -> bool:
        return self.mode & 0o111 != 0 and not self.is_link


def _diffs(
    workspace: Workspace, layer: int, steps: Sequence[LayerStep], *, is_applied: bool, files: int
) -> tuple[FileDiff, ...]:
    """Return the diffs between workspace and layer: from the layer if the steps are applied, else to it.

    Every step has at least one; beyond this number of files, one for all of its files.
    """
    reading = _Reading(files)
    diffs: list[FileDiff] = []
    for step in steps:
        if step.kind == "mode" and step.before.mode == step.after.mode:
            continue  # only for moving the files in it
        path = shown_path(workspace, step)
        if step.kind != "swap" or (reading.files <= 0 and not reading.marks):
            diffs.append(_unread(path, step))
            continue
        if _is_closed(workspace, step):
            diffs.append(_hidden(path, is_new=not step.before.inode, is_gone=not step.after.inode))
            continue
        path = path.rstrip("/")
        in_workspace = _contents(step.full_path, None, reading)
        in_layer = _contents(step.slot, layer, reading)
        before, after = (in_layer, in_workspace) if is_applied else (in_workspace, in_layer)
        if reading.files < 0:
            diffs.append(_unread(path, step))
            if before and after:
                continue  # the names of one side are incomplete
        elif not before and not after:
            diffs.append(_entry(f"{path}/", "folder deleted" if step.before.inode else "folder created"))
        for inner in sorted({*before, *after}):
            full = f"{path}/{inner}" if inner else path
            old, new = before.get(inner), after.get(inner)
            if old == new:
                continue
            if _is_hidden(workspace, full):
                diffs.append(_hidden(full, is_new=old is None, is_gone=new is None))
                continue
            diff = diff_of_bytes(full, old and old.data, new and new.data)
            diff.executable = (old is not None and old.executable, new is not None and new.executable)
            diff.missing = (new and new.missing) or (old and old.missing) or diff.missing
            diff.action = _kind_action(old, new)
            diffs.append(diff)
    return tuple(diffs)


def _unread(path: str, step: LayerStep) -> FileDiff:
    """Return the entry of a step whose contents are not shown."""
    if step.kind == "mode":
        return _entry(path, f"permissions changed from {step.before.mode & 0o7777:o} to {step.after.mode & 0o7777:o}")
    if step.kind == "conflict":
        return _entry(path, "left alone, because someone else changed it")
    if step.kind == "folder":
        return _entry(path, "folder created" if step.after.inode else "folder deleted")
    action = _action(is_new=not step.before.inode, is_gone=not step.after.inode)
    return _entry(path, action, f"{step.files:,} files" if step.files > 1 else "there are too many files")


def _hidden(path: str, *, is_new: bool, is_gone: bool) -> FileDiff:
    diff = _entry(path, _action(is_new=is_new, is_gone=is_gone), "tools may not read it")
    diff.is_hidden = True
    return diff


def _entry(path: str, action: str, missing: str = "") -> FileDiff:
    diff = FileDiff(path, "", "")
    diff.action, diff.missing = action, missing
    return diff


def _kind_action(old: _File | None, new: _File | None) -> str:
    """Return in words what the contents of a file do not show: that it becomes a link, or who may use it."""
    if new is not None and new.is_link and not (old and old.is_link):
        return "link created" if old is None else "replaced by a link"
    if old is None or new is None or old.is_link or not (old.mode ^ new.mode) & 0o666:
        return ""
    permissions = f"permissions changed from {old.mode & 0o777:o} to {new.mode & 0o777:o}"
    return permissions if old.data == new.data else f"modified; {permissions}"


def _action(*, is_new: bool, is_gone: bool) -> str:
    return "created" if is_new else "deleted" if is_gone else "modified"


def _contents(path: str, base: int | None, reading: _Reading) -> dict[str, _File]:
    """Return the files at a path, absolute or from an open folder, by their path below it, within the limits."""
    contents: dict[str, _File] = {}
    with suppress(OSError), _around(path, base) as (folder, name):
        _read(folder, name, "", contents, reading)
    return contents


def _read(around: int, name: str, inner: str, contents: dict[str, _File], reading: _Reading) -> None:
    try:
        status = os.stat(name, dir_fd=around, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            with Closing(os.open(name, LISTED, dir_fd=around)) as folder:
                for entry in sorted(os.listdir(folder)):
                    _read(folder, entry, f"{inner}/{entry}" if inner else entry, contents, reading)
            return
        reading.files -= 1
        if reading.files < 0:
            if reading.marks and runner(name, executable=bool(status.st_mode & 0o111), start=""):
                reading.marks -= 1
                contents[inner] = _File(b"%d" % status.st_mtime_ns, missing="there are too many files")
            return
        contents[inner] = _read_file(around, name, status, reading)
        reading.bytes -= len(contents[inner].data)
    except FileNotFoundError:
        return
    except OSError:
        contents[inner] = _File(b"", missing="it cannot be read")


def _read_file(around: int, name: str, status: os.stat_result, reading: _Reading) -> _File:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return _File(b"[link to %s]\n" % os.fsencode(os.readlink(name, dir_fd=around)), mode)
    if not stat.S_ISREG(mode):
        return _File(b"[not a regular file]\n", mode)
    if status.st_size > min(SHOWN_BYTES, reading.bytes):
        identity = b"[%d bytes, changed at %d]\n" % (status.st_size, status.st_mtime_ns)
        return _File(identity, mode, f"{status.st_size:,} bytes are too many to show")
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=around), "rb") as file:
        return _File(file.read(SHOWN_BYTES), mode)
