"""Kill a process at each step of applying or restoring the change of a command, start again, and check the workspace.

The layer is made by hand as the overlay leaves it, so that every attempt is cheap. A step is a system call that changes
something, including the rename of an exchange, or one SQLite statement.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hilt.fence import Fence
from hilt.files import command_changes
from hilt.files.exchanging import SlotExchange
from hilt.files.workspace import Workspace
from hilt.handles import open_folder
from hilt.runtime import Runtime
from hilt.sandbox import layers, overlay
from hilt.state.history import Recording
from hilt.testing import environment
from tests.processes.overlaid import tree
from tests.state.crashing import Steps, die, forked

_EXCHANGE = 2
FROM_COPIES = False


def started(base: Path) -> Runtime:
    """Return a new runtime on the workspace."""
    return Runtime(str(base / "workspace"), environ=environment(str(base)))


def plant(base: Path) -> None:
    """Create a workspace."""
    shutil.rmtree(base / "workspace", ignore_errors=True)
    shutil.rmtree(base / "state", ignore_errors=True)
    root = base / "workspace"
    for path in ("changed", "deleted", "in/changed", "whole/a", "whole/in/b", "replaced/a", "turned", "flat/in/a"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"old {path}\n")
    (root / "mode").mkdir()
    (root / "mode/kept").write_text("kept\n")


@contextmanager
def made_layer(base: Path, workspace: Workspace, recording: Recording) -> Iterator[overlay.UpperLayer]:
    """Make the layer of a command that has changed everything in the workspace."""
    roots = (str(base / "workspace"),)
    with layers.open_places(roots, str(base / "state"), workspace.store.id) as places:
        assert places
        if FROM_COPIES:  # as for a workspace on overlayfs
            scratch = str(base / "scratch")
            shutil.rmtree(scratch, ignore_errors=True)
            os.mkdir(scratch, 0o700)
            places = places._replace(scratch=layers.OpenPlace(scratch, open_folder(scratch)))
        with overlay.make(places, recording.id, roots, whole=False) as layer:
            yield filled(overlay.begin(layer, ()), base)


def filled(layer: overlay.UpperLayer, base: Path) -> overlay.UpperLayer:
    """Return the layer with the changes."""
    upper = Path(layer.upper(str(base / "workspace")))
    for path in (
        "changed",
        "created",
        "in/changed",
        "in/created",
        "replaced/new",
        "folder/in/new",
        "turned/now",
        "flat",
    ):
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).write_text(f"new {path}\n")
    for name in ("deleted", "whole"):
        os.mknod(upper / name, stat.S_IFCHR | 0o600, 0)
    os.setxattr(upper / "replaced", f"{layer.attribute}opaque", b"y")
    (upper / "mode").mkdir()
    (upper / "mode").chmod(0o700)
    return layer


def apply(base: Path) -> str:
    """Apply such a layer."""
    with started(base) as runtime:
        workspace = Workspace(runtime.parts.session("default").store, "default", Fence())
        recording = workspace.store.history().mark()
        with made_layer(base, workspace, recording) as layer:
            change = command_changes.apply(workspace, layer, recording, "run_shell")
        assert change is not None
        assert not change.conflicts, change.conflicts
        return change.id


def restore(base: Path, id: str) -> None:
    """Undo a change."""
    with started(base) as runtime:
        workspace = Workspace(runtime.parts.session("default").store, "default", Fence())
        change = workspace.find_change(id)
        assert command_changes.restore(workspace, change, change.steps) is not None


def stepped(at: int, work: Any) -> tuple[int, Any]:
    """Do some work in a child process that dies at a step; return its exit status and its number of steps."""

    def child() -> int:
        steps = Steps(at, die)
        steps.install()
        rename = SlotExchange._rename

        def counted(self: SlotExchange, *args: Any) -> None:
            steps.step("exchange")
            rename(self, *args)

        SlotExchange._rename = counted  # type: ignore[method-assign, assignment]
        work()
        return steps.count

    return forked(child)


def forget_exchange() -> None:
    """Make this process, and those that it forks, work like a file system without exchange."""
    rename = SlotExchange._rename

    def limited(self: SlotExchange, source: Any, target: Any, flags: int) -> None:
        if flags == _EXCHANGE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        rename(self, source, target, flags)

    SlotExchange._rename = limited  # type: ignore[method-assign]


def main(base: Path, way: str, every: int) -> dict[str, Any]:
    """Kill the process at every n-th step, and report the faults."""
    global FROM_COPIES  # noqa: PLW0603
    FROM_COPIES = way.endswith("from copies")
    if way.endswith("without exchange"):
        forget_exchange()
    plant(base)
    old = tree(base / "workspace")
    id = apply(base)
    new = tree(base / "workspace")
    assert old != new
    restore(base, id)
    assert tree(base / "workspace") == old, "restore"
    faults = []
    outcomes = {"old": 0, "new": 0}
    at = 1
    while True:
        plant(base)
        if way.startswith("restore"):
            id = apply(base)
            status, _ = stepped(at, partial(restore, base, id))
        else:
            status, _ = stepped(at, partial(apply, base))
        with started(base) as runtime:
            listed = runtime.call("undo", action="list")
            now = tree(base / "workspace")
            outcome = "old" if now == old else "new" if now == new else None
            ids = {entry["id"] for entry in listed.data["snapshots"]}
            if outcome is None:
                faults.append(f"step {at}: mixed: {sorted(now)}")
            else:
                outcomes[outcome] += 1
            if way in ("apply", "apply from copies") and outcome == "new":
                result = runtime.call("undo", action="restore", id=ids.pop())
                if not result.ok or tree(base / "workspace") != old:
                    faults.append(f"step {at}: cannot be undone: {result.error}")
            markers = [name for _, _, names in os.walk(base / "state/journal") for name in names]
            if markers:
                faults.append(f"step {at}: leftover markers: {markers}")
        if status == 0:
            return {"faults": faults, "steps": at, "outcomes": outcomes}
        at += every


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
