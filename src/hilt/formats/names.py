"""Names of files as file systems compare them."""

from __future__ import annotations

from collections.abc import Collection

# what makes git run something in a folder with a HEAD, or makes such a folder a repository
GIT_PARTS = frozenset(
    (
        *("commondir", "config", "config.worktree", "hooks", "info", "modules", "objects", "rebase-merge", "refs"),
        *("sequencer", "worktrees"),
    )
)


def is_repository(names: Collection[str]) -> bool:
    """Whether git uses a folder with these names, which are folded, as a repository."""
    return "head" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def fold(text: str) -> str:
    """Normalize a name like file systems that ignore case, Unicode form and invisible characters."""
    if text.isascii():
        return text.lower()
    from unicodedata import category, normalize

    # to file systems that ignore format characters, ".g<zero width>it" is ".git"
    visible = "".join(character for character in text if category(character) != "Cf")
    return normalize("NFKC", normalize("NFKC", visible).casefold())
