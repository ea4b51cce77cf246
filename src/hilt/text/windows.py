"""Windows of lines: which part of a long text to show, and where to cut it."""

import re
from typing import Literal, NamedTuple

Truncate = Literal["head", "tail", "middle", "none", "smart"]

LINES_MAX = 2000
BYTES_MAX = 50 * 1024
_AHEAD = 100  # lines after the cut to search for the next non-blank line
# a comment or a string of Python; the end may be missing
_STRING = r"""#.*|("{3}|'{3})(?:\\[\s\S]|(?!\1)[\s\S])*(?:\1)?|(["'])(?:\\[\s\S]|(?!\2).)*(?:\2)?"""

_BRACES = frozenset(
    ["go", "rs", "ts", "js", "java", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "tsx", "jsx", "mjs", "cjs"]
).union(["cs", "kt", "kts", "swift", "scala", "dart", "php", "css", "scss", "less", "zig", "proto"])
_CLOSERS = frozenset(("end", "}", "fi", "done", "esac"))
_CLOSED = frozenset(["rb", "sh", "bash", "zsh", "lua", "ex", "exs", "jl", "pl", "pm", "tcl"])


class WindowPart(NamedTuple):
    """A run of lines: number of the first, and the lines without their endings."""

    first: int
    lines: list[str]

    @property
    def last(self) -> int:
        """Number of the last line."""
        return self.first + len(self.lines) - 1


class Window(NamedTuple):
    """The part of a text to show: one run of lines, or both ends; `cut` is set if a limit removed lines."""

    parts: list[WindowPart]
    cut: bool
    clipped: bool = False  # whether its only line is truncated, at the end, or with "tail" at the beginning

    @property
    def last(self) -> int:
        """Number of the last line shown."""
        return self.parts[-1].last

    @property
    def shown(self) -> int:
        """How many lines are shown."""
        return sum(len(part.lines) for part in self.parts)


class Lines:
    """The lines of a UTF-8 text by number, without splitting all of it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.total = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)

    def take(self, first: int, last: int) -> bytes:
        """Return the bytes of the lines from `first` to `last`."""
        start = self._after(0, first - 1) if first > 1 else 0
        return self._data[start : self._after(start, last - first + 1) if last < self.total else None]

    def _after(self, start: int, count: int) -> int:
        """Return the offset after some lines, or the end of the text."""
        lines = re.compile(rb"(?:[^\n]*+(?:\n|\Z)){,%d}+" % count).match(self._data, start)
        return start if lines is None else lines.end()


def resolve(total: int, start: int, end: int | None, tail: int, truncate: str) -> tuple[int, int]:
    """Return the first and last requested line."""
    if tail > 0:
        return max(1, total - tail + 1), total
    if end is not None:
        return start, min(end, total)
    if truncate in ("tail", "middle", "none", "smart"):
        return start, total
    return start, min(start + LINES_MAX - 1, total)


def select(lines: list[str], first: int, truncate: str, extension: str, *, numbered: bool) -> Window:
    """Reduce the requested lines to the limits; `truncate` selects which part to keep."""
    window = _by_lines(lines, first, truncate, extension)
    return _by_bytes(window, truncate, extension, numbered=numbered)


def _by_lines(lines: list[str], first: int, truncate: str, extension: str) -> Window:
    if len(lines) <= LINES_MAX or truncate == "none":
        return Window([WindowPart(first, lines)], cut=False)
    if truncate == "tail":
        return Window([WindowPart(first + len(lines) - LINES_MAX, lines[-LINES_MAX:])], cut=True)
    if truncate == "middle":
        half = LINES_MAX // 2
        ends = [WindowPart(first, lines[:half]), WindowPart(first + len(lines) - half, lines[-half:])]
        return Window(ends, cut=True)
    count = LINES_MAX
    if truncate == "smart":
        count = block_end(lines, LINES_MAX, extension) or LINES_MAX
    return Window([WindowPart(first, lines[:count])], cut=True)


def _by_bytes(window: Window, truncate: str, extension: str, *, numbered: bool) -> Window:
    extra = len(str(window.last)) + 2 if numbered else 1
    parts = window.parts
    upper_bound = 0  # a character has at most four bytes
    for part in parts:
        upper_bound += 4 * sum(map(len, part.lines)) + extra * len(part.lines)
    if upper_bound <= BYTES_MAX:
        return window
    sizes = [[len(line.encode("utf-8", "surrogatepass")) + extra for line in part.lines] for part in parts]
    if sum(map(sum, sizes)) <= BYTES_MAX:
        return window
    if truncate == "tail":
        selected = [_from_end(parts[0], sizes[0], BYTES_MAX)]
    elif truncate == "middle":
        if len(parts) == 1:
            middle = len(parts[0].lines) // 2
            (part,) = parts
            parts = [WindowPart(part.first, part.lines[:middle]), WindowPart(part.first + middle, part.lines[middle:])]
            sizes = [sizes[0][:middle], sizes[0][middle:]]
        selected = [_from_start(parts[0], sizes[0], BYTES_MAX // 2), _from_end(parts[1], sizes[1], BYTES_MAX // 2)]
    else:
        selected = [_from_start(parts[0], sizes[0], BYTES_MAX)]
        if truncate == "smart" and (end := block_end(parts[0].lines, len(selected[0].lines), extension)):
            selected = [WindowPart(selected[0].first, selected[0].lines[:end])]
    selected = [part for part in selected if part.lines]
    return Window(selected, cut=True) if selected else _clipped(window, truncate, BYTES_MAX - extra)


def _clipped(window: Window, truncate: str, size: int) -> Window:
    """Return the part of a single line that fits, if the line is too long."""
    if truncate == "tail":
        part = window.parts[-1]
        text = part.lines[-1].encode("utf-8", "surrogatepass")[-size:].decode("utf-8", "ignore")
        return Window([WindowPart(part.last, [text])], cut=True, clipped=True)
    part = window.parts[0]
    text = part.lines[0].encode("utf-8", "surrogatepass")[:size].decode("utf-8", "ignore")
    return Window([WindowPart(part.first, [text])], cut=True, clipped=True)


def _from_start(part: WindowPart, sizes: list[int], budget: int) -> WindowPart:
    count = 0
    for size in sizes:
        if size > budget:
            break
        budget -= size
        count += 1
    return WindowPart(part.first, part.lines[:count])


def _from_end(part: WindowPart, sizes: list[int], budget: int) -> WindowPart:
    count = len(_from_start(part, sizes[::-1], budget).lines)
    start = len(part.lines) - count
    return WindowPart(part.first + start, part.lines[start:])


def numbered(parts: list[WindowPart]) -> list[str]:
    """Return the lines, each after its number, right-justified to the width of the last one, and a tab."""
    width = len(str(parts[-1].last))
    return [
        f"{str(number).rjust(width)}\t{line}" for part in parts for number, line in enumerate(part.lines, part.first)
    ]


def block_end(lines: list[str], limit: int, extension: str) -> int | None:
    """Return how many lines to keep, at most `limit`, so that the last block is complete; None if unknown."""
    # the start of the next line shows whether a block continues
    visible = lines[:limit] + [line[:_AHEAD] for line in lines[limit : limit + _AHEAD] if line.strip()][:1]
    if sum(map(len, visible)) > BYTES_MAX + _AHEAD:
        return None  # the window will be shortened
    if extension in ("py", "pyi"):
        ends = _python_ends(visible)
    elif extension in _BRACES:
        ends = _brace_ends(visible)
    elif extension in _CLOSED:
        ends = [number for number, line in enumerate(visible, 1) if line.rstrip() in _CLOSERS]
    else:
        return None
    # do not drop more than half of the window
    return next((end for end in reversed(ends) if limit // 2 < end <= limit), None)


def _python_ends(lines: list[str]) -> list[int]:
    """Return the last lines of top-level statements and methods, from the syntax tree of the part that parses."""
    import ast
    import re
    import warnings

    # without the expressions in f-strings: Python takes time quadratic in their number
    no_braces = str.maketrans("{}", "()")
    text = re.sub(_STRING, lambda string: string[0].translate(no_braces), "\n".join(lines)).split("\n")
    for _ in range(8):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings about the file's code do not matter here
                tree = ast.parse("\n".join(text))
        except SyntaxError as error:
            # the cut is inside a statement: retry without the incomplete one
            error_line = error.lineno or 0
            incomplete = max(
                (number for number, line in enumerate(text[:error_line], 1) if line[:1].strip()), default=0
            )
            if incomplete <= 1:
                return []
            text = text[: incomplete - 1]
            continue
        except (ValueError, RecursionError, MemoryError):
            return []
        bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
        return sorted(node.end_lineno for body in bodies for node in body if node.end_lineno is not None)
    return []


def _brace_ends(lines: list[str]) -> list[int]:
    """Return the lines after which no brace is open, ignoring strings and comments."""
    ends: list[int] = []
    depth = 0
    quote = ""  # delimiter that closes the open string or comment
    for number, line in enumerate(lines, 1):
        if depth == 0 and not quote and ends and line.lstrip().startswith("{"):
            ends.pop()  # the previous line starts the block that this brace opens
        position = 0
        while position < len(line):
            character = line[position]
            if quote:
                if character == "\\" and quote != "*/":
                    position += 1
                elif line.startswith(quote, position):
                    position += len(quote) - 1
                    quote = ""
            elif character in "\"'`":
                quote = character
            elif line.startswith("//", position):
                break
            elif line.startswith("/*", position):
                quote = "*/"
                position += 1
            elif character == "{":
                depth += 1
            elif character == "}":
                depth = max(0, depth - 1)
            position += 1
        if quote in ("'", '"'):
            quote = ""  # these end with their line (and a Rust lifetime never opened one)
        if depth == 0 and not quote and line.strip():
            ends.append(number)
    return ends
