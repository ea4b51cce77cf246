"""Names that are sensitive (never read or written), protected (read-only), or need approval before writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hilt import loaders
from hilt.errors import ToolError
from hilt.formats.names import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

SENSITIVE = (".git", ".ssh", ".aws", ".gnupg", ".env", ".env.*")
READABLE = (".env.example", ".env.sample", ".env.template")
# configuration of agents: it controls what later calls may do and which programs they start
PROTECTED = (
    *loaders.PROTECTED,
    ".codex",
    ".cursor",
    ".gemini",
    ".kiro",
    ".opencode",
    ".qwen",
    "opencode.json",
    "opencode.jsonc",
    ".hilt-undo-*",  # files that commands replaced, if the state directory is on another file system
)
# configuration that runs code when the user opens or enters the folder, or uses git in it
ASKED = (".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".envrc", ".husky")


def without(names: Iterable[str], lifted: Iterable[str]) -> tuple[str, ...]:
    """Return the names without those that a setting exempts, in any spelling."""
    exempt = {fold(name).strip("/") for name in lifted}
    return tuple(name for name in dict.fromkeys(names) if fold(name).strip("/") not in exempt)


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tests whether the last name of a path matches one of the patterns."""
    return _Patterns(patterns).match


class PathRules:
    """Checks the names of a path one by one, as they are walked.

    A pattern without a slash matches each name, one with a slash the path relative to the workspace. Names are compared
    case-insensitively and in Unicode compatibility form, because some file systems treat those as equal.
    """

    def __init__(
        self, sensitive: Sequence[str], readable: Sequence[str], protected: Sequence[str], asked: Sequence[str] = ()
    ) -> None:
        self._sensitive = _Patterns(sensitive)
        self._readable = _Patterns(readable)
        self._protected = _Patterns(protected)
        self._asked = _Patterns(asked)
        self._plain: dict[str, bool] = {}  # names that are allowed in any folder
        all_patterns = (self._sensitive, self._readable, self._protected, self._asked)
        self._is_deep = any(patterns.deep for patterns in all_patterns)
        firsts = self._sensitive.firsts()
        # first characters, in both cases, of ASCII names that may be sensitive; None when any name may be
        self.suspect = None if firsts is None else firsts | {first.upper() for first in firsts}

    def check(self, parts: Sequence[str], *, write: bool) -> None:
        """Check the last name of a path whose other names were already checked; raise if it is denied."""
        name = parts[-1]
        if self._plain.get(name):
            return
        path = "/".join(parts)
        if self.is_sensitive(path):
            raise ToolError("sensitive_path", f"{path} is sensitive: tools can neither read nor write it.", path=path)
        if self._protected.match(path):
            if write:
                raise ToolError(
                    "protected_path", f"{path} is configuration: tools can read but not write it.", path=path
                )
        elif not self._is_deep and len(self._plain) < 4096 and not self._asked.match(path):
            self._plain[name] = True

    def asks(self, parts: Sequence[str]) -> bool:
        """Whether writing the last name of a path, or anything below it, needs approval."""
        return not self._plain.get(parts[-1]) and self._asked.match("/".join(parts))

    def is_sensitive(self, path: str) -> bool:
        """Whether the last name of the path is sensitive."""
        return (
            not self.is_harmless(path.rpartition("/")[2])
            and self._sensitive.match(path)
            and not self._readable.match(path)
        )

    def is_harmless(self, name: str) -> bool:
        """Whether a name cannot be sensitive, by its first character: a fast check for long listings."""
        return self.suspect is not None and name.isascii() and name[:1] not in self.suspect


class _Patterns:
    def __init__(self, patterns: Sequence[str]) -> None:
        folded = [fold(pattern) for pattern in patterns]
        self._names = frozenset(pattern for pattern in folded if not is_glob(pattern) and "/" not in pattern)
        self._globs = [pattern for pattern in folded if is_glob(pattern) and "/" not in pattern]
        self.deep = [pattern.strip("/") for pattern in folded if "/" in pattern]
        self._compiled: re.Pattern[str] | None = None

    def firsts(self) -> frozenset[str] | None:
        """Return the first characters that a matching name can have; None when any character is possible."""
        characters = {pattern[:1] for pattern in (*self._names, *self._globs)}
        return None if self.deep or characters & {"*", "?", ""} else frozenset(characters)

    def match(self, path: str) -> bool:
        folded = fold(path)
        name = folded.rpartition("/")[2]
        if name in self._names:
            return True
        if not self._globs and not self.deep:
            return False
        if self._compiled is None:
            self._compiled = _compile(self._globs, self.deep)
        return self._compiled.match(name + "\0" + folded) is not None


def is_glob(pattern: str) -> bool:
    """Whether a pattern has wildcards."""
    return "*" in pattern or "?" in pattern


def _compile(globs: Sequence[str], deep: Sequence[str]) -> re.Pattern[str]:
    """Return one expression that is matched against "name NUL path"."""
    import re

    names = [f"{_translate(glob)}\0.*" for glob in globs]
    paths = [f"[^\0]*\0{_translate(glob)}(?:/.*)?" for glob in deep]
    return re.compile(f"(?s:{'|'.join(names + paths)})\\Z")


def _translate(glob: str) -> str:
    import re

    parts = []
    position = 0
    while position < len(glob):
        if glob.startswith("**/", position):
            parts.append("(?:[^\0]*/)?")
            position += 3
        elif glob.startswith("**", position):
            parts.append("[^\0]*")
            position += 2
        elif glob[position] == "*":
            parts.append("[^/\0]*")
            position += 1
        elif glob[position] == "?":
            parts.append("[^/\0]")
            position += 1
        else:
            parts.append(re.escape(glob[position]))
            position += 1
    return "".join(parts)
