"""Which paths below a tree may be shown: those with no sensitive name in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from hilt.context import Context
from hilt.search.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Place

_SPECIAL = frozenset("*?[]{}!/\\")


class SearchGuard:
    """Filters out paths that tools may not see. ripgrep skips most of them; this check is the reliable one."""

    def __init__(self, ctx: Context, place: Place, folder: int) -> None:
        self._door = ctx.door
        self._folder = folder
        self._root = place.root
        self._parts = place.parts
        self._folders: dict[str, bool] = {"": True}
        patterns = ctx.settings["workspace.sensitive"]
        self._fragments = [_fragment(pattern) for pattern in patterns]
        # one test is enough for most paths: for the start that all fragments share, up to its first letter, in any case
        common = os.path.commonprefix(self._fragments)  # noqa: RUF071 -- of texts, not of paths
        self._common = re.split("[a-z]", common, maxsplit=1)[0]
        # closed folders of the root, rules and marks may close a path whatever its name
        self._plain = not getattr(place.root, "_closed", True) and ctx.door.barrier is None and ctx.door.marked is None
        self.names = [
            name
            for name in patterns
            if name.isascii() and _SPECIAL.isdisjoint(name) and ctx.door.rules.is_sensitive(name)
        ]

    def test(self, accepts: Callable[[str], bool] | None) -> Callable[[str], bool]:
        """Whether a path below the tree may be shown and matches the selection."""
        if accepts is None:
            return self.is_open
        return lambda path: accepts(path) and self.is_open(path)

    def is_open(self, path: str) -> bool:
        """Whether no part of the path is sensitive."""
        if self._plain and self._is_harmless(f"/{path}"):
            return True
        return self._is_open_folder(path.rpartition("/")[0]) and not self._is_closed(path)

    def visible(self, data: bytes, selection: Selection) -> list[str]:
        """Return the paths of the selection that may be shown, from NUL-terminated paths."""
        text = data.decode("utf-8", "surrogateescape")
        paths = text[2:-1].split("\0./") if text.startswith("./") else text[:-1].split("\0")
        if not selection.hidden and (not text.startswith("./") or "/." in text):
            paths = [path for path in paths if path[0] != "." and "/." not in path]
        accepts = selection.accepts
        if accepts is not None:
            paths = [path for path in paths if accepts(path)]
        if self._plain and text.startswith("./") and self._is_harmless(text[1:]):
            return paths
        return [path for path in paths if self.is_open(path)]

    def _is_harmless(self, text: str) -> bool:
        """Whether paths, each with a slash before it, contain no fragment of a sensitive name."""
        if not text.isascii():
            return False  # the same name may be spelled in other ways
        if self._common not in text:
            return True
        low = text.lower()
        return not any(fragment in low for fragment in self._fragments)

    def _is_open_folder(self, folder: str) -> bool:
        is_open = self._folders.get(folder)
        if is_open is None:
            is_open = self._is_open_folder(folder.rpartition("/")[0]) and not self._is_closed(folder)
            if len(self._folders) < 100_000:
                self._folders[folder] = is_open
        return is_open

    def _is_closed(self, path: str) -> bool:
        return self._door.is_sensitive(self._root, (*self._parts, *path.split("/"))) or self._is_marked(path)

    def _is_marked(self, path: str) -> bool:
        if self._door.marked is None or self._folder < 0:
            return False
        try:
            return self._door.marked(os.stat(path, dir_fd=self._folder, follow_symlinks=False))
        except OSError:
            return True  # deleted or replaced in the meantime


def _fragment(pattern: str) -> str:
    """Return text that a path, with a slash before it, must contain for one of its names to match the pattern."""
    if not pattern.isascii():
        return ""
    last = pattern.lower().strip("/").rpartition("/")[2]
    first, *others = re.split(r"[*?]+", last)
    return f"/{first}" if first else max(others, key=len, default="")
