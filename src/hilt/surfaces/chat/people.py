"""The person at the chat answers approvals and questions, on the input line."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from select import select
from typing import TYPE_CHECKING, Any

from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError
from hilt.surfaces.chat.drawing import Ink
from hilt.surfaces.terminal_prompt import PersonPrompt, Terminal, ask_all, is_answer, note_elsewhere, prompt

if TYPE_CHECKING:
    from hilt.surfaces.chat.input_line import InputLine


class People:
    """Asks one question at a time; `asker` and `questioner` are called on the threads of calls."""

    def __init__(self, line: InputLine, ink: Callable[[], Ink]) -> None:
        self._line = line
        self._ink = ink
        self._one_at_a_time = threading.Lock()
        self._refuses = False
        self._turn = 0  # waiting calls of an earlier turn get no answer
        self.asker = PersonPrompt(self._approve)
        self.questioner = PersonPrompt(self._answer)

    def attend(self) -> None:
        """Answer the calls of a new turn from now on."""
        self._turn += 1
        self._refuses = False

    def refuse(self) -> None:
        """Answer no more questions, including the current one: the turn is over."""
        self._refuses = True
        self._line.refuse_answer()

    def _approve(self, asked: ApprovalRequest, settled: int | None) -> UserAnswer:
        """Show a call and return the person's answer. Any other text is kept in the draft, as a message."""
        with self._taking_over(settled) as ask:
            if ask is None:
                return UserAnswer("deny", "The turn was interrupted.", "terminal")
            screen = _LineTerminal(self._line, ask)
            is_reason = False

            def read() -> str:
                nonlocal is_reason
                line = screen.read()
                if not is_reason and line.strip() and not is_answer(line):
                    self._line.keep(line.rstrip("\n"))
                is_reason = line.strip().casefold() in ("n", "no", "deny")
                return line

            ink = self._ink()
            answer = prompt(asked, Terminal(read, screen.write, ink.width, ink.color))
            screen.write(note_elsewhere(settled))
        return answer

    def _answer(self, questions: Sequence[Any], settled: int | None) -> dict[str, Any]:
        """Ask the questions of `ask_user`; return the answers by question."""
        with self._taking_over(settled) as ask:
            if ask is None:
                raise ToolError("no_one_to_ask", "The turn was interrupted.")
            screen, ink = _LineTerminal(self._line, ask), self._ink()
            try:
                return ask_all(Terminal(screen.read, screen.write, ink.width, ink.color), questions)
            finally:
                note = note_elsewhere(settled)
                screen.write(note and f"\n{note}")

    def confirm(self, question: str) -> bool:
        """Return whether the person says yes."""
        with self._taking_over() as ask:
            return ask is not None and ask(question).strip().casefold() in ("y", "yes")

    @contextmanager
    def _taking_over(self, settled: int | None = None) -> Iterator[Callable[[str], str] | None]:
        """Take over the line, one question at a time, and yield a function that asks; None if the turn has ended.

        Asking ends when the descriptor `settled` becomes readable.
        """
        turn, elsewhere = self._turn, threading.Event()

        def is_refused() -> bool:
            return self._refuses or turn != self._turn or elsewhere.is_set()

        with self._one_at_a_time:
            if is_refused():
                yield None
                return
            with self._line.question(), self._watching(settled, elsewhere):
                yield lambda question: self._line.ask(question, is_refused)

    @contextmanager
    def _watching(self, settled: int | None, elsewhere: threading.Event) -> Iterator[None]:
        """Within the block, withdraw the question when the descriptor becomes readable."""
        if settled is None:
            yield
            return
        over, end = os.pipe()

        def watch() -> None:
            if settled in select([settled, over], [], [])[0]:
                elsewhere.set()
                self._line.withdraw_question()

        thread = threading.Thread(target=watch, name="hilt-settled", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(end)
            thread.join()
            os.close(over)


class _LineTerminal:
    """The input line as a terminal: whole lines are printed above it, an unfinished one is its prompt."""

    def __init__(self, line: InputLine, ask: Callable[[str], str]) -> None:
        self._line = line
        self._ask = ask
        self._unfinished = ""

    def write(self, text: str) -> None:
        """Print text."""
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            self._line.print(lines + newline)

    def read(self) -> str:
        """Return a line, or "" at the end of input."""
        question, self._unfinished = self._unfinished, ""
        return self._ask(question)
