"""A session as its calls use it: the folders that it may use, its overflow folder and its language servers."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from hilt import config, places
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.door import Door, Root
from hilt.files.workspace import Store, Workspace
from hilt.loaders import folders
from hilt.output.overflow import Overflow, split_long_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.homes import Homes
    from hilt.lsp.access import ServerAccess
    from hilt.parts import Parts

RECOVERY_SECONDS = 30.0


class OpenSession:
    """One session in a workspace or in a copy of it."""

    def __init__(self, parts: Parts, name: str) -> None:
        settings = parts.settings
        self.name = name
        self._parts = parts
        self.overflow = Overflow(
            session_folder(parts.state, parts.id, name),
            keep_days=settings["output.keep_days"],
            keep_megabytes=settings["output.keep_mb"],
            limit=settings["output.overflow_chars"],
        )
        roots = [_root(parts, parts.given_root, None)]
        roots += [_root(parts, folder, folder) for folder in parts.folders[1:]]
        roots.append(Root(self.overflow.directory, label=self.overflow.directory, writable=False))
        roots += _skill_roots(parts, roots)
        self.door = Door(roots, parts.rules, marked=parts.marked)
        locks = os.path.join(parts.state, "locks")
        self.store = Store(parts.id, self.door, lambda: parts.history, parts.journal, parts.trail, locks)

    def language_servers(self) -> ServerAccess:
        """Return access to the language servers: shared by runtimes, of the resident process, or our own."""
        from hilt.lsp.access import LocalAccess, ResidentAccess

        parts, opening = self._parts, self._parts.opening
        local = LocalAccess(lambda: parts.language_servers, lambda: parts.confinement.language_servers(self.door))
        if opening.connect is None or opening.shared is not None or parts.settings["resident"] == "off":
            return local
        return ResidentAccess(opening.connect, local)

    def keep_text(self, text: str, label: str) -> str | None:
        """Save a text in the overflow folder, where `read_file` can open it; None if that fails."""
        return self.overflow.try_save(split_long_lines(text), label)

    def change_of(self, call: str) -> str | None:
        """Return the id of the change that a call has made, or None; unfinished changes are recovered.

        Raise busy if that takes too long.
        """
        workspace = Workspace(self.store, self.name, Fence())
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            workspace.recover()
            change = self._parts.history.change_of(self.name, call)
            if change is None or not change[1]:
                return None if change is None else change[0]
            if time.monotonic() > deadline:
                raise ToolError("busy", f"The change {change[0]} is being recovered.")
            time.sleep(0.01)  # another thread or process recovers it


def _skill_roots(parts: Parts, others: Sequence[Root]) -> list[Root]:
    """Return the folders of the user's skills, which tools may read, unless another root contains them."""
    own = [folder.path for folder in folders("skill", parts.folders, parts.environ) if folder.source == "personal"]
    roots = [Root(path, label=path, writable=False, is_library=True) for path in own]
    return [root for root in roots if not any(places.is_below(root.real, other.real) for other in others)]


def _root(parts: Parts, path: str, label: str | None) -> Root:
    """Return a folder that an agent may use, with the paths in it that tools may not write."""
    writable = parts.settings["workspace.writable"]

    def homes() -> Homes:
        from hilt.homes import find_homes  # which calls that write nothing do not need

        return find_homes((os.path.realpath(path),), parts.environ, writable)

    return Root(
        path,
        label=label,
        writable=True,
        closed=[parts.state, places.worktrees_dir(parts.state)],
        read_only=[parts.place.config],
        installed=lambda: places.installation(path, writable),
        homes=homes,
    )


def session_folder(state: str, workspace: str, session: str) -> str:
    """Return the folder for the overflow of a session."""
    return os.path.join(state, "overflow", workspace, config.digest(session))
