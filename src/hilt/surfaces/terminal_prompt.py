"""Prompts on a terminal: a call to approve, with everything that the answer depends on, and questions of `ask_user`.

Text from a model is shown behind bars or labels, without control or invisible characters, so that it cannot pass for a
part of the prompt.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError
from hilt.formats.invisible import one_line, revealed
from hilt.output import terminal
from hilt.output.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, painted

BY = "terminal"  # who answers, as recorded
_NARROWEST = 30
_LINES_SHOWN = 10  # of a command, a diff or a text, so that the prompt usually fits on a screen of 24 lines
_ARGUMENTS_SHOWN = 6
_ARGUMENT_LINES_SHOWN = 2
_ARGUMENT_IN_DIFF = 200  # characters from which an argument is only counted if a diff shows what it does
_REASON_MAX = 1000
_SIGNAL_SECONDS = 1.0  # a signal right before the wait for a line is noticed when the wait ends
_MARK = f"{BOLD};{RED}"
_RISKS = {"dangerous": RED, "caution": YELLOW, "safe": GREEN}
_DIFF_COLORS = {"+": GREEN, "-": RED, "@": CYAN}
_REQUESTS = {"command": "wants to run a command", "edit": "wants to change files"}

_PLAIN = ("created", "modified", "deleted")  # actions that a diff shows

_ANSWERS = {
    **dict.fromkeys(("y", "yes", "once"), "once"),
    **dict.fromkeys(("a", "always"), "always"),
    **dict.fromkeys(("n", "no", "deny"), "deny"),
    **dict.fromkeys(("s", "show", "all"), "show"),
    **dict.fromkeys(("p", "preview"), "preview"),
}


class Terminal(NamedTuple):
    """A terminal to prompt on: `read` returns a line, or an empty string at the end of input."""

    read: Callable[[], str]
    write: Callable[[str], object]
    width: int
    color: bool

    def page(self) -> Page:
        """Return a page with the width and colour of the terminal."""
        return Page(width=self.width, color=self.color)

    def agrees(self, question: str) -> bool:
        """Whether the person answers a question with yes; Ctrl-C ends the command."""
        try:
            self.write(f"{question} [y/n] > ")
            answer = self.read()
        except KeyboardInterrupt:
            self.write("Interrupted; this was not done.\n")
            raise
        if not answer:
            self.write("\n")
        return answer.strip().casefold() in ("y", "yes")


class PersonPrompt:
    """Asks the person at the terminal; someone elsewhere may answer first."""

    def __init__(self, ask: Callable[[Any, int | None], Any]) -> None:
        """`ask` ends when the descriptor that it is passed, if any, becomes readable."""
        self._ask = ask

    def __call__(self, asked: Any) -> Any:
        """Return the person's answer."""
        return self._ask(asked, None)

    def ask_until(self, asked: Any, settled: int) -> Any:
        """Return the person's answer; stop asking when the descriptor `settled` becomes readable."""
        return self._ask(asked, settled)


def note_elsewhere(settled: int | None) -> str:
    """Return a line that says who has answered elsewhere, or that the call was cancelled; empty otherwise."""
    from select import select

    if settled is None or not select([settled], [], [], 0)[0]:
        return ""
    by = revealed(os.read(settled, 1000).decode("utf-8", "replace"))
    return f"It was answered elsewhere, by {by}.\n" if by else "The call was cancelled and did not run.\n"


@contextmanager
def controlling_terminal(settled: int | None = None) -> Iterator[Terminal]:
    """Open the terminal of this process; raise no_one_to_ask without one, or in the background.

    When the descriptor `settled` becomes readable, reading returns the end of input.
    """
    import termios
    from select import select

    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError("no_one_to_ask", "There is no terminal to prompt on.") from error
    # two files, because one opened for reading and writing must be seekable
    with (
        open(descriptor, encoding="utf-8", errors="replace") as source,
        open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as target,
    ):
        if not _is_foreground(descriptor):
            # using the terminal from the background would stop the whole process
            raise ToolError("no_one_to_ask", "Another program is in the foreground of the terminal.")
        # discard what was typed before the prompt was visible
        termios.tcflush(descriptor, termios.TCIFLUSH)

        def write(text: str) -> None:
            target.write(text)
            target.flush()

        def read() -> str:
            awaited = [descriptor] if settled is None else [descriptor, settled]
            try:
                while not (ready := select(awaited, [], [], _SIGNAL_SECONDS)[0]):
                    pass
                return "" if settled in ready else source.readline()
            except KeyboardInterrupt:
                write("\n")  # after ^C
                raise

        yield Terminal(read, write, _width(descriptor), wants_color())


def wants_color() -> bool:
    """Whether to use colours on the user's terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")


def _is_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # the terminal has been closed
        return False


def _width(descriptor: int) -> int:
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80


def prompt(asked: ApprovalRequest, screen: Terminal) -> UserAnswer:
    """Show a call and return the answer; the end of input denies, and an invalid answer prompts again."""
    read, write, _, color = screen
    page = screen.page()
    write(page.draw(asked, whole=False))
    while True:
        can_always = bool(asked.rules) and not page.was_cut
        write(_choices(asked, can_always=can_always, was_cut=page.was_cut, color=color))
        line = read()
        if not line:
            write("\n")
            return UserAnswer("deny", "The input ended without an answer.", BY)
        match _ANSWERS.get(line.strip().casefold()):
            case "once":
                return UserAnswer("once", by=BY)
            case "always" if can_always:
                return UserAnswer("always", by=BY)
            case "always" if asked.rules:
                write("Show all of the call before you always allow it.\n")
            case "always":
                write('"always" is not available for this call.\n')
            case "preview" if asked.preview:
                return UserAnswer("preview", by=BY)
            case "preview":
                write("A preview is not available for this call.\n")
            case "deny":
                write("Reason for the model (optional): ")
                return UserAnswer("deny", read().strip()[:_REASON_MAX], BY)
            case "show":
                write(page.draw(asked, whole=True))
            case _:
                write("Answer with one of the letters.\n")


def is_answer(line: str) -> bool:
    """Whether a line answers an approval prompt."""
    return line.strip().casefold() in _ANSWERS


def _choices(asked: ApprovalRequest, *, can_always: bool, was_cut: bool, color: bool) -> str:
    keys = [("y", "once"), *([("a", "always")] if can_always else []), ("n", "deny")]
    keys += [("p", "preview first")] if asked.preview else []
    keys += [("s", "show all")] if was_cut else []
    return "  ".join(f"{painted(f'[{key}]', BOLD, color=color)} {meaning}" for key, meaning in keys) + " > "


def ask_all(screen: Terminal, questions: Sequence[Any]) -> dict[str, Any]:
    """Ask the questions on a terminal; return the answers by question."""
    return {question.question: _ask(screen, question) for question in questions}


def _ask(screen: Terminal, question: Any) -> Any:
    header = f"[{one_line(question.header)}] " if question.header else ""
    screen.write(f"\n{header}{revealed(question.question)}\n")
    for number, option in enumerate(question.options, 1):
        description = f" - {one_line(option.description)}" if option.description else ""
        screen.write(f"  {number}. {one_line(option.label)}{description}\n")
    many = " (several, separated by commas)" if question.multi_select else ""
    screen.write(f"Number or your own answer{many}: ")
    line = screen.read()
    if not line:
        raise ToolError("no_one_to_ask", "The user did not answer.")
    words = line.strip().split(",") if question.multi_select else [line.strip()]
    chosen = [_chosen(word.strip(), question.options) for word in words if word.strip()]
    return chosen if question.multi_select else (chosen[0] if chosen else "")


def _chosen(word: str, options: Sequence[Any]) -> str:
    if word.isdecimal() and 1 <= int(word) <= len(options):
        return str(options[int(word) - 1].label)
    return word


class Page:
    """Draws a call for a person; `was_cut` is set if something was left out."""

    def __init__(self, *, width: int, color: bool, lines: int = _LINES_SHOWN) -> None:
        """`lines` is the number of lines to show of each text, unless the whole text is requested."""
        self._lines = lines
        self._width = max(width, _NARROWEST)
        self._color = color
        self.was_cut = False

    def draw(self, asked: ApprovalRequest, *, whole: bool) -> str:
        """Return the lines of a call; `whole` includes every line of its texts."""
        self.was_cut = False
        lines = self._heading(asked)
        if asked.command:
            lines += self._command(asked, whole=whole)
        lines += self._files(asked, whole=whole)
        if asked.diff:
            lines += self._diff(asked.diff, whole=whole)
        lines += self._arguments(asked, whole=whole)
        lines += self._facts(asked, whole=whole)
        return "\n".join(lines) + "\n"

    def text(self, content: str, *, whole: bool) -> str:
        """Return the lines of any text, behind bars."""
        lines = self._cut(self._barred(revealed(content)), whole=whole)
        return "".join(line + "\n" for line in lines)

    def diff(self, diff: str, *, whole: bool) -> str:
        """Return the lines of a unified diff, behind bars."""
        return "".join(line + "\n" for line in self._diff(diff, whole=whole))

    def difference(self, before: str, after: str, label: str) -> str:
        """Return all lines of the difference between two texts; `label` says what the first one is."""
        from hilt.text.diffing import unified_diff

        return self.diff(unified_diff(before, after, label, new_path="now", rename=False), whole=True)

    def _heading(self, asked: ApprovalRequest) -> list[str]:
        rule = "-" * (self._width - 1)
        heading = f"{one_line(asked.tool)} {_REQUESTS.get(asked.kind, 'wants to run')}"
        return [
            painted(rule, DIM, color=self._color),
            *(painted(line, BOLD, color=self._color) for line in self._fit(heading)),
        ]

    def _command(self, asked: ApprovalRequest, *, whole: bool) -> list[str]:
        """Return the command with its risky part highlighted, or underlined on a terminal without colour."""
        text, part = revealed(asked.command), revealed(asked.part)
        start = text.find(part) if part and part != text else -1
        end = start + len(part) if start >= 0 else start
        lines: list[str] = []
        first = offset = 0  # the line on which the highlight begins, and the offset of the piece in the text
        for line in text.split("\n"):
            for piece in self._fit(line, self._width - 2):
                if offset <= start < offset + len(piece):
                    first = len(lines)
                lines += self._marked(piece, max(start - offset, 0), min(end - offset, len(piece)))
                offset += len(piece)
            offset += 1
        return self._cut(lines, whole=whole, around=first)

    def _marked(self, piece: str, start: int, end: int) -> list[str]:
        before, part, after = piece[:start], piece[start:end], piece[end:]
        if end <= start or not part:
            return [self._bar + piece]
        if self._color:
            return [self._bar + before + painted(part, _MARK, color=self._color) + after]
        blanks, carets = (terminal._columns(text) for text in (before, part))
        return [self._bar + piece, " " * (2 + blanks) + "^" * carets]

    def _files(self, asked: ApprovalRequest, *, whole: bool) -> list[str]:
        """Return the files of a change; a single one that needs no explanation is in the heading of its diff."""
        files = asked.files
        if not files or (len(files) == 1 and asked.diff and files[0].action in _PLAIN and not any(files[0][2:])):
            return []
        lines: list[str] = []
        for file in files:
            facts = [f"runs later, by {file.runs}"] if file.runs else []
            facts += [f"not shown: {file.missing}"] if file.missing else []
            text = one_line(f"{file.action} {file.path}" + f" ({'; '.join(facts)})" * bool(facts))
            sgr = YELLOW if facts else ""
            lines += (self._bar + painted(piece, sgr, color=self._color) for piece in self._fit(text, self._width - 2))
        counts = Counter(file.action.partition(" from ")[0] for file in files)
        counts += Counter({"run later": sum(bool(file.runs) for file in files)})
        counts += Counter({"not shown": sum(bool(file.missing) for file in files)})
        heading = self._fact(
            "files", ", ".join(f"{count:,} {what}" for what, count in counts.items()), "", max_lines=None
        )
        return [*heading, *self._cut(lines, whole=whole, limit=4 * self._lines)]

    def _diff(self, diff: str, *, whole: bool) -> list[str]:
        lines: list[str] = []
        for line in revealed(diff).removesuffix("\n").split("\n"):
            sgr = BOLD if line.startswith(("+++ ", "--- ")) else _DIFF_COLORS.get(line[:1], "")
            lines += (self._bar + painted(piece, sgr, color=self._color) for piece in self._fit(line, self._width - 2))
        return self._cut(lines, whole=whole)

    def _arguments(self, asked: ApprovalRequest, *, whole: bool) -> list[str]:
        arguments = [
            (name, value) for name, value in asked.arguments.items() if value != asked.command or not asked.command
        ]
        # a heading, so that lines of a command or a diff above cannot pass for arguments
        lines = [painted("with", DIM, color=self._color)] if arguments and (asked.command or asked.diff) else []
        limit = len(arguments) if whole else _ARGUMENTS_SHOWN
        max_lines = None if whole else 1 if asked.diff else _ARGUMENT_LINES_SHOWN
        in_diff = asked.kind == "edit" and bool(asked.diff and asked.files) and not any(f.missing for f in asked.files)
        for name, value in arguments[:limit]:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if in_diff and (len(text) > _ARGUMENT_IN_DIFF or "\n" in text):
                text = f"{len(text):,} characters; the diff shows what they change"
            lines += self._argument(name, text, max_lines=max_lines)
        if len(arguments) > limit:
            self.was_cut = True
            lines.append(self._bar + _more(len(arguments) - limit, "argument"))
        return lines

    def _argument(self, name: str, text: str, *, max_lines: int | None) -> list[str]:
        label = f"{one_line(name)}:"
        if max_lines is None and "\n" in text:
            return [*self._barred(label), *self._barred(revealed(text), indent="  ")]
        if max_lines is not None:
            # do not format what will not be shown; a line has at most four characters per column
            text = text[: 4 * self._width * (max_lines + 1)]
        pieces = self._fit(f"{label} {one_line(text)}", self._width - 2)
        pieces = self._first(pieces, max_lines)
        if pieces[0].startswith(label):
            pieces[0] = painted(label, CYAN, color=self._color) + pieces[0][len(label) :]
        return [self._bar + piece for piece in pieces]

    def _facts(self, asked: ApprovalRequest, *, whole: bool) -> list[str]:
        lines: list[str] = []
        if asked.risk:
            part = f": {one_line(asked.part)}" if asked.part and asked.part != asked.command else ""
            lines += self._fact("risk", asked.risk + part, _RISKS.get(asked.risk, ""), max_lines=3)
        lines += self._fact("why", asked.reason, "", max_lines=4)
        if asked.workspace:
            session = f", session {asked.session}" if asked.session else ""
            lines += self._fact("in", asked.workspace + session, "", max_lines=2)
        shown = asked.rules if whole or len(asked.rules) <= self._lines else asked.rules[: self._lines - 1]
        for number, rule in enumerate(shown):
            lines += self._fact("always" if not number else "", rule, "", max_lines=None)
        if len(shown) < len(asked.rules):
            self.was_cut = True
            lines += self._fact("", _more(len(asked.rules) - len(shown), "rule"), "", max_lines=None)
        if asked.rules and asked.folder not in ("", asked.workspace):
            lines += self._fact("", f"in {asked.folder}", "", max_lines=2)
        return lines

    def _fact(self, label: str, text: str, sgr: str, *, max_lines: int | None) -> list[str]:
        pieces = self._first(self._fit(one_line(text), self._width - 8), max_lines)
        first, *more = [painted(piece, sgr, color=self._color) for piece in pieces]
        return [painted(f"{label:<8}", DIM, color=self._color) + first, *(" " * 8 + piece for piece in more)]

    def _first(self, pieces: list[str], max_lines: int | None) -> list[str]:
        """Return as many pieces as are allowed; the last one ends with … instead of its last characters."""
        if max_lines is None or len(pieces) <= max_lines:
            return pieces
        self.was_cut = True
        last = pieces[max_lines - 1]
        return [*pieces[: max_lines - 1], terminal.clip(last + " ", terminal._columns(last))]

    def _barred(self, text: str, indent: str = "") -> list[str]:
        lines = text.removesuffix("\n").split("\n")
        room = self._width - 2 - len(indent)
        return [self._bar + indent + piece for line in lines for piece in self._fit(line, room)]

    def _cut(self, lines: list[str], *, whole: bool, around: int = 0, limit: int = 0) -> list[str]:
        """Return the first lines, and the lines from `around` on if it is further down."""
        limit = limit or self._lines
        if whole or len(lines) <= limit:
            return lines
        self.was_cut = True
        room = limit - 1
        if around < room - 1:
            return [*lines[:room], self._bar + _more(len(lines) - room, "line")]
        half = room // 2
        middle = lines[around : around + half]
        above, below = around - half, len(lines) - around - len(middle)
        ends = [self._bar + _more(below, "line")] if below else []
        return [*lines[:half], self._bar + _more(above, "line"), *middle, *ends]

    def _fit(self, line: str, room: int | None = None) -> list[str]:
        """Wrap a line into pieces that fit the room, without losing a character."""
        room = self._width - 1 if room is None else room - 1
        if line.isascii():
            return [line[start : start + room] for start in range(0, len(line), room)] or [line]
        ends = terminal._wrap_offsets(line, room, words=False, max_lines=len(line) + 1)
        pieces = [line[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        # combining characters take no columns, however many there are
        limit = 4 * room
        return [piece[start : start + limit] for piece in pieces for start in range(0, len(piece) or 1, limit)]

    @property
    def _bar(self) -> str:
        return painted("|", DIM, color=self._color) + " "


def _more(count: int, noun: str) -> str:
    return f"… {count:,} more {noun}{'s' * (count != 1)}"
