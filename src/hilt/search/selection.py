"""Which files of a tree are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from hilt.errors import ToolError
from hilt.search import globs
from hilt.search.globs import BadGlob, Glob

# folders that hold what others wrote or what programs made
EXCLUDED = (".git", "node_modules", "vendor", "__pycache__", ".cache", "dist", "build")


class Selection:
    """Hidden and ignored files or not, names that must match, names that must not."""

    def __init__(
        self,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        kind: str | None = None,
        hidden: bool = False,
        no_ignore: bool = False,
        argument: str = "include",
    ) -> None:
        self.include = _parsed(include, argument)
        self.exclude = _parsed(exclude, "exclude")
        self.kind = _kind(kind)
        # who asks for a name with a dot wants to see it
        self.hidden = hidden or any(glob.dotted for glob in self.include)
        self.no_ignore = no_ignore

    @cached_property
    def names(self) -> list[str]:
        """How the names of the files look, as globs; empty when any name will do."""
        if self.kind:
            return globs.name_globs(self.kind)[0]
        return globs.name_globs(self.include)[0] if self.include else []

    @cached_property
    def accepts(self) -> Callable[[str], bool] | None:
        """What is left to be asked about a path below the folder, once its name fits; None: nothing."""
        tests: list[Callable[[str], bool]] = []
        if self.include and (self.kind or not globs.name_globs(self.include)[1]):
            tests.append(globs.matcher(self.include))
        if self.exclude:
            excluded = globs.matcher(self.exclude)
            tests.append(lambda path: not excluded(path))
        if not tests:
            return None
        return lambda path: all(test(path) for test in tests)

    @property
    def flat(self) -> bool:
        """Whether only names right in the folder can match."""
        return bool(self.include) and all(
            len(glob.components) == 2 and not glob.components[0].tokens for glob in self.include
        )

    def with_ignored(self) -> Selection:
        """Return the same selection without ignore rules."""
        other = Selection(hidden=self.hidden, no_ignore=True)
        other.include, other.exclude, other.kind = self.include, self.exclude, self.kind
        return other

    def described(self) -> dict[str, Any]:
        """Return what the stand-in for ripgrep has to know."""
        return {"names": self.names, "hidden": self.hidden, "no_ignore": self.no_ignore}


def _parsed(texts: Sequence[str], argument: str) -> tuple[Glob, ...]:
    try:
        return tuple(glob for text in texts for glob in globs.parse(text))
    except BadGlob as error:
        raise ToolError(
            "invalid_args",
            f"{argument}: {error}.",
            suggestion="Write globs such as *.py, src/**/*.py or *.{js,ts}; a backslash before a character quotes it.",
        ) from None


def _kind(name: str | None) -> tuple[Glob, ...]:
    if name is None:
        return ()
    from hilt.search.kinds import kinds

    known = kinds()
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), known, n=3, cutoff=0.4)
        raise ToolError(
            "invalid_args",
            f"There is no file type {name!r}.",
            suggestion=f"Use one of: {', '.join(near or ('py', 'js', 'ts', 'rust', 'go', 'java'))}; or use a glob.",
        )
    return tuple(glob for text in known[name] for glob in globs.parse(text))
