"""Indentation: whether two blocks differ only in indentation, and how to reindent one like the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TAB = 4  # columns; only the order of widths and their ratios matter


def indent_of(line: str) -> str:
    """Return the spaces and tabs that a line starts with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def map_indents(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str] | None:
    """Return a map from each of our indentations to theirs, taken line by line; None if it would be inconsistent.

    Consistent: equal indentations map to equal ones, and deeper ones to deeper ones. Blank lines are ignored.
    """
    indents: dict[str, str] = {}
    for our, their in zip(ours, theirs, strict=True):
        if our.strip() and indents.setdefault(indent_of(our), indent_of(their)) != indent_of(their):
            return None
    widths = [_width(indent) for _, indent in sorted(indents.items(), key=lambda pair: _width(pair[0]))]
    return indents if widths == sorted(set(widths)) else None


def reindent(lines: Sequence[str], indents: Mapping[str, str]) -> list[str]:
    """Return the lines with their indentation translated; unknown depths are derived from the nearest known one."""
    pairs = sorted((_width(ours), theirs) for ours, theirs in indents.items())
    line_indents = [indent_of(line) for line in lines if line.strip()]
    unit = _unit(pairs, line_indents)
    per_column = _per_column(pairs, line_indents, unit)

    def translate(indent: str) -> str:
        if indent in indents:
            return indents[indent]
        width = _width(indent)
        base, theirs = max((pair for pair in pairs if pair[0] <= width), default=pairs[0])
        length = round((width - base) * per_column)
        return theirs + unit * length if length >= 0 else theirs[:length]

    return [translate(indent_of(line)) + line.lstrip(" \t") if line.strip() else line for line in lines]


def adopt_indent(text: str, start: int, old_text: str, new_text: str) -> str:
    """Return new_text, which replaces old_text at `start`, with the indentation that the file has there."""
    head = text[text.rfind("\n", 0, start) + 1 : start]
    old_lines, new_lines = old_text.rstrip("\r\n").split("\n"), new_text.split("\n")
    # if old_text starts after the indentation and has more lines, those already have the file's indentation
    if head.strip() or (head and len(old_lines) > 1):
        return new_text
    first_old = next((line for line in old_lines if line.strip()), None)
    first_new = next((line for line in new_lines if line.strip()), None)
    if first_old is None or first_new is None or indent_of(first_new) == head + indent_of(first_old):
        return new_text
    lines = reindent(new_lines, {indent_of(first_new): head + indent_of(first_old)})
    lines[0] = lines[0].removeprefix(head)
    return "\n".join(lines)


def _width(indent: str) -> int:
    return len(indent.expandtabs(_TAB))


def _unit(pairs: Sequence[tuple[int, str]], indents: Sequence[str]) -> str:
    """Return the character that deeper lines are indented with: theirs, or ours if they have none."""
    samples = [theirs for _, theirs in pairs if theirs] or indents
    return "\t" if any("\t" in sample for sample in samples) else " "


def _per_column(pairs: Sequence[tuple[int, str]], indents: Sequence[str], unit: str) -> float:
    """Return how many units correspond to one of our columns."""
    (low, shallow), (high, deep) = pairs[0], pairs[-1]
    if high > low:
        return (len(deep) - len(shallow)) / (high - low)
    if unit == " ":
        return 1
    if any("\t" in indent for indent in indents):
        return 1 / _TAB
    if low and shallow:
        return len(shallow) / low
    return 1 / min((_width(indent) - low for indent in indents if _width(indent) > low), default=_TAB)
