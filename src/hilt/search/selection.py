"""Which files of a tree to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from hilt.errors import ToolError
from hilt.formats import globs
from hilt.formats.globs import BadGlob, Glob

# folders with dependencies or generated files
EXCLUDED = (".git", "node_modules", "vendor", "__pycache__", ".cache", "dist", "build")


class Selection:
    """Whether to include hidden and ignored files, which globs must match, and which must not."""

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
        self.include = _parse_globs(include, argument)
        self.exclude = _parse_globs(exclude, "exclude")
        self.kind = kind  # a file type of ripgrep
        # a glob that starts with a dot asks for hidden files
        self.hidden = hidden or any(glob.dotted for glob in self.include)
        self.no_ignore = no_ignore

    @cached_property
    def names(self) -> list[str]:
        """Globs that the file names must match; empty if any name matches, or those of a file type."""
        return globs.name_globs(self.include)[0] if self.include and self.kind is None else []

    @cached_property
    def accepts(self) -> Callable[[str], bool] | None:
        """The remaining check of a path once its name matches; None if there is none."""
        tests: list[Callable[[str], bool]] = []
        if self.include and (self.kind is not None or not globs.name_globs(self.include)[1]):
            tests.append(globs.matcher(self.include))
        if self.exclude:
            excluded = globs.matcher(self.exclude)
            tests.append(lambda path: not excluded(path))
        if not tests:
            return None
        return lambda path: all(test(path) for test in tests)

    @property
    def flat(self) -> bool:
        """Whether only names directly in the folder can match."""
        return bool(self.include) and all(
            len(glob.components) == 2 and not glob.components[0].tokens for glob in self.include
        )

    def with_ignored(self) -> Selection:
        """Return the same selection without ignore rules."""
        other = Selection(hidden=self.hidden, no_ignore=True)
        other.include, other.exclude, other.kind = self.include, self.exclude, self.kind
        return other


def _parse_globs(texts: Sequence[str], argument: str) -> tuple[Glob, ...]:
    try:
        parsed = [glob for text in texts for glob in globs.parse(text)]
        return (*parsed, *globs.as_written(parsed))
    except BadGlob as error:
        raise ToolError(
            "invalid_args",
            f"{argument}: {error}.",
            suggestion="Use globs such as *.py, src/**/*.py or *.{js,ts}; escape special characters with a backslash.",
        ) from None
