"""Views drawn as text for a terminal: plain, or coloured, with syntax and Markdown."""

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeAlias

from hilt.formats.invisible import shown
from hilt.output.foreign_views import validate
from hilt.output.printed import SEQUENCES
from hilt.output.views import LANGUAGES, View

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.style import Style

_MIN_WIDTH = 20
_ROWS_MAX = 1_000
_WRAPS_MAX = 8
_CELL_CHARACTERS = 1_000
_TAB = 4
_STYLES_MAX = 8
# past these a lexer or the Markdown parser can take seconds
_RICH_LINE = 2_000
_RICH_TEXT = 100_000
_RICH_FENCED = 10_000
_RICH_SECONDS = 1.0

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"

# text and the parameters of the escape sequence that colours it; "" means no colour
_Span: TypeAlias = tuple[str, str]
_Line: TypeAlias = list[_Span]


_EMBEDDED = re.compile(r"!\[([^\]\n]*)\]\(data:[^)\s]*\)")  # an image inside Markdown
_SGR = re.compile(r"\x1b\[([0-9;]{0,40})m")
# bold, underlined and so on, and colours; not 8, which hides text
_STYLE_CODE = re.compile(
    r"(?<!\d)(?:[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3}|0?[0-79]|2[1-9]|[34][0-79]|9[0-7]|10[0-7])(?!\d)"
)


class _TableRow(NamedTuple):
    """One line before wrapping; continuation lines have a blank gutter."""

    text: _Line
    gutter: Sequence[_Span] = ()
    words: bool = False


class _DrawnPage(NamedTuple):
    """A view without its title: its subject, its rows, and its size as text."""

    subject: _Line
    rows: list[_TableRow]
    size: str


def draws_color(stream: TextIO) -> bool:
    """Whether to use colours in a stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(view: View, *, width: int, color: bool) -> str:
    """Return the lines of a view, none wider than width (at least 20 columns), without a trailing newline."""
    width = max(width, _MIN_WIDTH)
    lines: list[str] = []
    for row in _layout(validate(view), width, color):
        lines += (_paint(line, color) for line in _wrap(row, width))
    return "\n".join(lines)


def markdown(text: str, *, width: int, color: bool) -> list[str]:
    """Return Markdown as lines that fit the width, formatted if it is short; nothing is cut off."""
    width = max(width, _MIN_WIDTH)
    source = [inert(line.removesuffix("\r")).expandtabs(_TAB) for line in text.split("\n")]
    rows = [_unpadded(row.text) for row in _formatted(source, width)]
    if rows:
        filled = [index for index, row in enumerate(rows) if row]
        return [_paint(row, color) for row in rows[filled[0] : filled[-1] + 1]] if filled else []
    lines: list[str] = []
    for line in source:
        ends = _wrap_offsets(line, width, words=True, max_lines=len(line) + 1)
        lines += (line[start:end] for start, end in zip([0, *ends], ends, strict=False))
    return lines


def _unpadded(line: _Line) -> _Line:
    """Return a line without the blanks at its end."""
    length = len("".join(text for text, _ in line).rstrip(" "))
    return _slice(line, 0, length)


def summary(view: View) -> str:
    """Return the size of a view in a few words: its changes, lines, files, rows or items."""
    view = validate(view)
    draw = _PAGES[view["type"]]
    page = draw(view, 80, False)  # noqa: FBT003
    if view["type"] in ("diff", "diffs"):
        return "".join(text for text, _ in page.subject[1:]).strip()
    return page.size


def inert(text: str) -> str:
    """Return the text with control and invisible characters replaced by visible ones; newline and tab are kept."""
    return shown(text, exact=False)


def _inline(text: str) -> str:
    """Return the text, inert and on one line."""
    return inert(text).replace("\n", "␊").replace("\t", "␉")


class _DrawnLines(NamedTuple):
    """The first lines of a text, and how many there are."""

    visible: list[str]
    total: int

    @property
    def more(self) -> list[_TableRow]:
        """A row that counts the lines not shown."""
        return _more(self.total - len(self.visible), "line")


def _split(text: str) -> _DrawnLines:
    """Return the lines of a text, inert, with tabs expanded and line endings removed."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    visible = [inert(line.removesuffix("\r")).expandtabs(_TAB) for line in lines[:_ROWS_MAX]]
    return _DrawnLines(visible, len(lines))


def _layout(view: View, width: int, color: bool) -> list[_TableRow]:
    page = _PAGES[view["type"]](view, width, color)
    heading = []
    if "title" in view:
        heading.append(_TableRow([(_inline(view["title"]), BOLD)], words=True))
    if view.get("collapsed"):
        heading = heading or [_TableRow(page.subject or [(view["type"], BOLD)])]
        return [*heading, _note(page.size)]
    if page.subject:
        heading.append(_TableRow(page.subject))
    return heading + page.rows


def _diff(view: View, width: int, color: bool) -> _DrawnPage:
    changes = [change for hunk in view["hunks"] for change in hunk["changes"]]
    old_digits = max((len(str(change.get("oldLineNumber", ""))) for change in changes), default=0)
    new_digits = max((len(str(change.get("newLineNumber", ""))) for change in changes), default=0)
    # a carriage return on every line is the file's line ending; on some lines it is part of the change
    stored_with_returns = all(change["content"].endswith("\r") for change in changes)
    rows: list[_TableRow] = []
    for hunk in view["hunks"]:
        if len(rows) >= _ROWS_MAX:
            break
        old, new = f"{hunk['oldStart']},{hunk['oldLines']}", f"{hunk['newStart']},{hunk['newLines']}"
        rows.append(_TableRow([(f"@@ -{old} +{new} @@", CYAN)]))
        for change in hunk["changes"][: _ROWS_MAX - len(rows)]:
            sign, sgr = {"added": ("+", GREEN), "removed": ("-", RED), "context": (" ", "")}[change["type"]]
            content = change["content"].removesuffix("\r") if stored_with_returns else change["content"]
            old, new = change.get("oldLineNumber", ""), change.get("newLineNumber", "")
            numbers = _fitting_gutter(f"{old:>{old_digits}} {new:>{new_digits}} ", width)
            text = inert(content).expandtabs(_TAB).replace("\n", "␊")
            rows.append(_TableRow([(text, sgr)], [(numbers, DIM), (f"{sign} ", sgr)]))
    subject = [(_inline(view["path"]), BOLD), *_counts(view["additions"], view["deletions"])]
    rows += _more(len(view["hunks"]) + len(changes) - len(rows), "line")
    return _DrawnPage(subject, rows or [_note("no changes")], _number(len(changes), "line"))


def _diffs(view: View, width: int, color: bool) -> _DrawnPage:
    items = view["items"]
    rows: list[_TableRow] = []
    total = 0
    for item in items:
        if len(rows) <= _ROWS_MAX:
            rows += [*([_TableRow([])] if rows else []), *_layout(item, width, color)]
            total = len(rows)
        else:
            total += 1 + _height(item)
    subject = [(_number(len(items), "file"), BOLD)]
    subject += _counts(sum(item["additions"] for item in items), sum(item["deletions"] for item in items))
    return _DrawnPage(subject, [*rows[:_ROWS_MAX], *_more(total - _ROWS_MAX, "line")], _number(total, "line"))


def _height(diff: View) -> int:
    """Return how many rows a diff has, without drawing it."""
    if diff.get("collapsed"):
        return 2
    lines = len(diff["hunks"]) + sum(len(hunk["changes"]) for hunk in diff["hunks"])
    return ("title" in diff) + 1 + max(1, min(lines, _ROWS_MAX + 1))


def _code(view: View, width: int, color: bool) -> _DrawnPage:
    lines = _split(view["content"])
    first = view.get("firstLine", 1)
    marked = set(view.get("highlightLines", ()))
    digits = len(str(first + max(lines.total - 1, 0)))
    rows: list[_TableRow] = []
    for number, text in enumerate(_highlight(lines.visible, view.get("language"), color), first):
        mark = "> " if number in marked else "  " if marked else ""
        numbers = _fitting_gutter(f"{mark}{number:>{digits}} ", width)
        rows.append(_TableRow(text, [(numbers, YELLOW if number in marked else DIM), ("│ ", DIM)]))
    total = view.get("lineCount", lines.total)
    size = _number(total, "line")
    if 0 < lines.total < total:
        size = f"lines {first:,} to {first + lines.total - 1:,} of {total:,}"
    facts = f"  created, {size}" if view["created"] else f"  {size}"
    return _DrawnPage([(_inline(view["path"]), BOLD), (facts, DIM)], rows + lines.more or [_note("empty")], size)


def _file_list(view: View, width: int, color: bool) -> _DrawnPage:
    groups = [*view.get("groups", ()), *([{"label": "", "files": view["files"]}] if "files" in view else ())]
    files = [file for group in groups for file in group["files"]]
    indent = 4 if any("action" in file for file in files) else 2
    room = _ROWS_MAX
    rows: list[_TableRow] = []
    for group in groups[:_ROWS_MAX]:
        if not room:
            break
        if group["label"]:
            rows.append(_TableRow([(_inline(group["label"]), BOLD), (f" ({len(group['files']):,})", DIM)]))
        rows += (_file(file, indent, width) for file in group["files"][:room])
        room -= min(room, len(group["files"]))
    total = max(len(files), view.get("total", 0))
    size = _number(total, "file")
    rows += _more(total - (_ROWS_MAX - room), "file")
    return _DrawnPage([(size, BOLD)], rows, size)


def _file(file: View, indent: int, width: int) -> _TableRow:
    letter, sgr = _ACTIONS[file.get("action", "")]
    location = _inline(file["path"]) + (f":{file['line']}" if "line" in file else "")
    text = [(location, "")]
    room = width - indent - _columns(location) - 2
    # a preview is shown only where it does not push the path to a second line
    if "content" in file and room >= 8:
        text.append(("  " + clip(_inline(file["content"].strip()), room), DIM))
    return _TableRow(text, [(f"  {letter} "[:indent], sgr)])


def _table(view: View, width: int, color: bool) -> _DrawnPage:
    rows = view["rows"][:_ROWS_MAX]
    total = max(len(view["rows"]), view.get("totalRows", 0))
    # a table column needs three columns of text and two spaces before the next
    columns = view["columns"][: (width + 2) // 5]
    labels = [_cell(column.get("label", column["key"])) for column in columns]
    values = [[row.get(column["key"]) for column in columns] for row in rows]
    cells = [[_cell(value) for value in row] for row in values]
    widths = [max(map(_columns, texts)) for texts in zip(labels, *cells, strict=True)]
    widths = _fit_widths(widths, width - 2 * (len(columns) - 1))
    right = [_is_numeric([row[index] for row in values]) for index in range(len(columns))]

    def line(texts: Sequence[str], sgr: str) -> _TableRow:
        padded = map(_pad, texts, widths, right)
        return _TableRow([("  ".join(padded).rstrip(), sgr)])

    drawn: list[_TableRow] = []
    if columns:
        drawn = [line(labels, BOLD), line(["─" * size for size in widths], DIM)]
        drawn += (line(row, "") for row in cells)
    drawn += _more(total - len(rows), "row")
    drawn += _more(len(view["columns"]) - len(columns), "column")
    if not rows or not columns:
        drawn.append(_note("no columns" if rows else "no rows"))
    return _DrawnPage([], drawn, _number(total, "row"))


def _markdown(view: View, width: int, color: bool) -> _DrawnPage:
    lines = _split(_EMBEDDED.sub(r"[image: \1]", view["content"]))
    rows = (color and _formatted(lines.visible, width)) or [
        _TableRow([(line, "")], words=True) for line in lines.visible
    ]
    subject = [(_inline(view["sourceUrl"]), DIM)] if "sourceUrl" in view else []
    return _DrawnPage(subject, rows + lines.more or [_note("empty")], _number(lines.total, "line"))


def _shell_output(view: View, width: int, color: bool) -> _DrawnPage:
    command = _split(view["command"])
    first, *others = command.visible or [""]
    output, errors = _printed(view.get("stdout", "")), _printed(view.get("stderr", ""))
    drawn = [_TableRow(line) for line in output.visible]
    if errors.total:
        drawn += [_TableRow([("stderr:", DIM)])]
        drawn += (_TableRow([(text, sgr or RED) for text, sgr in line]) for line in errors.visible)
    # errors are at the end
    hidden = output.total + errors.total + (errors.total > 0) - _ROWS_MAX
    if hidden > 0:
        drawn = [_TableRow([(f"… {_number(hidden, 'earlier line')}", DIM)]), *drawn[-_ROWS_MAX:]]
    code = view["exitCode"]
    status = "no exit code" if code is None else f"exit code {code}"
    rows = [_TableRow([(line, BOLD)], [("> ", DIM)]) for line in others] + command.more
    rows += [*(drawn or [_note("no output")]), _TableRow([(status, DIM if code == 0 else RED)])]
    return _DrawnPage([("$ ", DIM), (first, BOLD)], rows, _number(output.total + errors.total, "line"))


class _OutputLines(NamedTuple):
    """The last lines of a program's output, and the total number of lines."""

    visible: list[_Line]
    total: int


def _printed(text: str) -> _OutputLines:
    """Return a program's output with its colours; other terminal sequences are removed."""
    pieces: list[str] = []
    end = 0
    for sequence in SEQUENCES.finditer(text):
        # colour sequences are safe: they change only how text looks, and every span resets them
        pieces += (text[end : sequence.start()], sequence[0] if _SGR.fullmatch(sequence[0]) else "")
        end = sequence.end()
    lines = "".join((*pieces, text[end:])).split("\n")
    if not _SGR.sub("", lines[-1]).removesuffix("\r"):
        lines.pop()
    style = ""
    for earlier in lines[:-_ROWS_MAX]:
        for codes in _SGR.findall(earlier):
            style = _styled(style, codes)
    visible: list[_Line] = []
    for line in lines[-_ROWS_MAX:]:
        spans: _Line = []
        for index, piece in enumerate(_SGR.split(line.removesuffix("\r"))):
            if index % 2:
                style = _styled(style, piece)
                continue
            # after a carriage return, only the last version of the line was visible
            _, overwritten, final = piece.rpartition("\r")
            if overwritten:
                spans.clear()
            if final:
                spans.append((inert(final).expandtabs(_TAB), style))
        visible.append(spans)
    return _OutputLines(visible, len(lines))


@lru_cache(maxsize=256)
def _styled(style: str, codes: str) -> str:
    """Return the style after these codes; the code that hides text is ignored."""
    if codes.strip("0;") == "":
        return ""
    return ";".join(_STYLE_CODE.findall(f"{style};{codes}")[-_STYLES_MAX:])


def _todo_list(view: View, width: int, color: bool) -> _DrawnPage:
    items = view["items"]
    rows: list[_TableRow] = []
    for item in items[:_ROWS_MAX]:
        mark, mark_sgr, sgr = _STATUSES[item["status"]]
        text = [(_inline(item["content"]), sgr)]
        if "priority" in item:
            text.append((f" ({item['priority']})", DIM))
        rows.append(_TableRow(text, [(f"{mark} ", mark_sgr)], words=True))
    done = sum(item["status"] == "completed" for item in items)
    subject = [(f"{done:,} of {len(items):,} done", BOLD)]
    rows += _more(len(items) - len(rows), "item")
    return _DrawnPage(subject, rows, _number(len(items), "item"))


def _none(view: View, width: int, color: bool) -> _DrawnPage:
    lines = _split(view.get("message", "") or "Nothing to show.")
    rows = [_TableRow([(line, DIM)], words=True) for line in lines.visible]
    return _DrawnPage([], rows + lines.more, _number(lines.total, "line"))


_PAGES: dict[str, Callable[[View, int, bool], _DrawnPage]] = {
    "diff": _diff,
    "diffs": _diffs,
    "code": _code,
    "file-list": _file_list,
    "table": _table,
    "markdown": _markdown,
    "shell-output": _shell_output,
    "todo-list": _todo_list,
    "none": _none,
}

_ACTIONS = {"created": ("A", GREEN), "modified": ("M", YELLOW), "deleted": ("D", RED), "": (" ", "")}

# mark, colour of the mark, colour of the text
_STATUSES = {
    "completed": ("[x]", GREEN, DIM),
    "in_progress": ("[>]", YELLOW, BOLD),
    "pending": ("[ ]", "", ""),
    "cancelled": ("[-]", DIM, DIM),
}


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _note(text: str) -> _TableRow:
    return _TableRow([(f"({text})", DIM)])


def _fitting_gutter(gutter: str, width: int) -> str:
    """Return the gutter, or "" if it would leave too little room for the text."""
    return gutter if len(gutter) <= width // 2 else ""


def _more(count: int, noun: str) -> list[_TableRow]:
    return [_TableRow([(f"… {_number(count, f'more {noun}')}", DIM)])] if count > 0 else []


def _counts(additions: int, deletions: int) -> _Line:
    return [("  ", ""), (f"+{additions:,}", GREEN), (" ", ""), (f"-{deletions:,}", RED)]


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _inline(text if len(text) <= _CELL_CHARACTERS else text[:_CELL_CHARACTERS] + "…")


def _is_numeric(values: list[object]) -> bool:
    numbers = [value for value in values if value is not None]
    return bool(numbers) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers)


def _fit_widths(widths: list[int], room: int) -> list[int]:
    """Return widths that fit the room; the widest columns shrink first."""
    if sum(widths) <= room:
        return widths
    level = room
    while sum(min(width, level) for width in widths) > room:
        level -= 1
    return [min(width, level) for width in widths]


def _columns(text: str) -> int:
    """Return how many terminal columns inert text needs; where terminals differ, the larger number."""
    return len(text) if text.isascii() else sum(map(_character_columns, text))


def _character_columns(character: str) -> int:
    if character < "\u0300":
        return 1
    # selects the emoji form of the previous character, which is wider
    if character == "\ufe0f":
        return 1
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    category = unicodedata.category(character)
    if category in ("Mn", "Me") or character in "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff":
        return 0
    # unknown to this Python version: most likely a new emoji
    return 2 if category == "Cn" else 1


def clip(text: str, room: int) -> str:
    """Return the text, cut with … if it does not fit."""
    if _columns(text) <= room:
        return text
    return text[: _wrap_offsets(text, room - 1, words=False, max_lines=1)[0]] + "…"


def _pad(text: str, width: int, right: bool) -> str:
    text = clip(text, width)
    blanks = " " * (width - _columns(text))
    return blanks + text if right else text + blanks


def _wrap_offsets(text: str, room: int, *, words: bool, max_lines: int) -> list[int]:
    """Return the end offsets of the first lines when the text is wrapped to fit the room."""
    ends: list[int] = []
    used = start = blank = 0
    for index, character in enumerate(text):
        columns = _character_columns(character)
        while used + columns > room:
            start = blank if words and blank > start else index
            ends.append(start)
            if len(ends) == max_lines:
                return ends
            used = _columns(text[start:index])
        used += columns
        if character == " ":
            blank = index + 1
    return [*ends, len(text)]


def _wrap(row: _TableRow, width: int) -> list[_Line]:
    """Return a row as lines that fit the width; beyond a few lines, the remaining characters are only counted."""
    plain = "".join(text for text, _ in row.text)
    gutter = sum(_columns(text) for text, _ in row.gutter)
    limit = width * _WRAPS_MAX * 2
    if len(plain) <= limit and gutter + _columns(plain) <= width:
        return [[*row.gutter, *row.text]]
    # zero-width characters must not make one line endless
    ends = _wrap_offsets(plain[:limit], width - gutter, words=row.words, max_lines=_WRAPS_MAX)
    blank = [(" " * gutter, "")]
    lines: list[_Line] = []
    start = 0
    for end in ends:
        visible = len(plain[:end].rstrip(" ")) if row.words else end
        lines.append([*(blank if start else row.gutter), *_slice(row.text, start, visible)])
        start = end
    if start < len(plain):
        lines.append([*blank, (clip(f"… {len(plain) - start:,} more characters", width - gutter), DIM)])
    return lines


def _slice(line: _Line, start: int, end: int) -> _Line:
    part: _Line = []
    for text, sgr in line:
        if start < len(text) and end > 0:
            part.append((text[max(start, 0) : end], sgr))
        start -= len(text)
        end -= len(text)
    return part


def _paint(line: _Line, color: bool) -> str:
    return "".join(painted(text, sgr, color=color) for text, sgr in line)


def painted(text: str, sgr: str, *, color: bool) -> str:
    """Return a text in a colour, unless colours are off."""
    return f"\x1b[{sgr}m{text}\x1b[0m" if color and sgr and text else text


def _highlight(lines: list[str], language: str | None, color: bool) -> list[_Line]:
    """Return lines with syntax highlighting; uncoloured without colour or a known language."""
    plain: list[_Line] = [[(line, "")] for line in lines]
    source = "\n".join(lines)
    if not color or not language or len(source) > _RICH_TEXT or max(map(len, lines), default=0) > _RICH_LINE:
        return plain
    from rich.syntax import Syntax

    lexer = _lexer(language)
    if lexer is None:
        return plain
    theme = Syntax.get_theme("ansi_dark")
    coloured: list[_Line] = [[]]
    deadline = time.monotonic() + _RICH_SECONDS
    for kind, token in lexer.get_tokens(source):
        # some lexers take minutes on some inputs
        if time.monotonic() > deadline:
            return plain
        sgr = _sgr(theme.get_style_for_token(kind))
        first, *others = token.split("\n")
        coloured[-1].append((first, sgr))
        coloured += ([(part, sgr)] for part in others)
    coloured = coloured[: len(lines)]
    # a lexer may drop or change characters, but the display must match the file
    if ["".join(text for text, _ in line) for line in coloured] != lines:
        return plain
    return coloured


def _lexer(language: str) -> Any:
    """Return the lexer of a common language, or None; lexers of rare languages can be very slow."""
    from rich.syntax import Syntax

    lexer = Syntax("", language).lexer
    return lexer if lexer is not None and not LANGUAGES.isdisjoint(lexer.aliases) else None


def _formatted(lines: list[str], width: int) -> list[_TableRow]:
    """Return Markdown rendered by rich; empty if the text is too long to render quickly."""
    source = "\n".join(lines)
    if len(source) > _RICH_TEXT:
        return []
    from rich.markdown import Markdown

    console = _console(width=width)
    # print links as text: a terminal link can show one address and open another
    document = Markdown(source, code_theme="ansi_dark", hyperlinks=False)
    # show HTML as text instead of hiding it
    fenced = 0
    for token in document.parsed:
        fenced += len(token.content) * (token.type == "fence")
        if token.type == "fence" and (fenced > _RICH_FENCED or _lexer(token.info.partition(" ")[0]) is None):
            token.info = ""
        if token.type == "html_block":
            token.type = "code_block"
        for child in token.children or ():
            if child.type == "html_inline":
                child.type = "text"
    return [_TableRow(_spans(line)) for line in console.render_lines(document, pad=False)]


def _console(*, width: int) -> Console:
    import io

    from rich.console import Console

    return Console(file=io.StringIO(), width=width, color_system="standard", force_terminal=True, legacy_windows=False)


def _spans(segments: Iterable[Segment]) -> _Line:
    # make it inert again: Markdown decodes &#27; to the escape character
    return [(_inline(segment.text), _sgr(segment.style)) for segment in segments if not segment.control]


def _sgr(style: Style | None) -> str:
    if style is None:
        return ""
    flags = ((style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underline, "4"), (style.strike, "9"))
    codes = [code for flag, code in flags if flag]
    # no background colours: the terminal may be dark or light
    if style.color is not None and not style.color.is_default:
        codes += style.color.get_ansi_codes()
    return ";".join(codes)
