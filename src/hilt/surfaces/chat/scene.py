"""The output of the chat: finished lines are printed, lines that still change are drawn above the input line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hilt.call import Result
from hilt.output import run_events as events
from hilt.output.terminal import DIM, RED, YELLOW
from hilt.surfaces.chat import drawing
from hilt.surfaces.chat.answer_stream import AnswerStream
from hilt.surfaces.chat.drawing import Ink

_CALLS_MAX = 500
_RESERVED_ROWS = 8  # of the screen, for the input and the lines above the live ones


class RunningCall(NamedTuple):
    """A call without a result so far."""

    tool: str
    args: dict[str, Any] | str
    progress: str = ""


class FinishedCall(NamedTuple):
    """A call that can be opened."""

    number: int
    tool: str
    args: dict[str, Any] | str
    result: Result


class Totals(NamedTuple):
    """What the conversation has used so far in this chat."""

    requests: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    context_used: int = 0
    context_tokens: int = 0

    def plus(self, used: events.TokensUsed) -> Totals:
        """Return the totals with one more request."""
        return Totals(
            self.requests + 1,
            self.unpriced + (used.cost is None),
            self.input_tokens + used.input_tokens,
            self.output_tokens + used.output_tokens,
            self.cost + (used.cost or 0.0),
            used.context_used,
            used.context_tokens,
        )


class Scene:
    """Turns the events of a conversation into lines."""

    def __init__(self, printed: Callable[[str], None], ink: Callable[[], Ink], redraw: Callable[[], None]) -> None:
        """`printed` receives finished lines; `ink` returns the current width and colours."""
        self._print = printed
        self._ink = ink
        self._redraw = redraw
        self._stream = AnswerStream()
        self._thought = ""
        self._running: dict[str, RunningCall] = {}
        self._finished: list[FinishedCall] = []
        self._numbers = 0
        self._next_to_open = 0  # counts back from the newest call
        self._working_since: float | None = None
        self._drawn: tuple[tuple[str, Ink], list[str]] | None = None
        self.totals = Totals()

    def begin(self) -> None:
        """A turn begins."""
        self._working_since = time.monotonic()
        self._redraw()

    def end(self) -> None:
        """The turn has ended."""
        self._working_since = None
        self._running.clear()
        self._thought = ""
        self._finish_text()
        self._redraw()

    def show(self, event: events.Event) -> None:
        """Show an event."""
        ink = self._ink()
        match event:
            case events.TextPiece(text, restart):
                self._add_text(text, restart=restart)
            case events.ThoughtPiece(text):
                self._thought = (self._thought + text)[-2000:]
            case events.CallStarted(id, tool, args):
                self._finish_text()
                self._running[id] = RunningCall(tool, args)
            case events.CallProgress(id, done, total, message) if id in self._running:
                portion = f"{done:g}/{total:g}" if total else f"{done:g}"
                self._running[id] = self._running[id]._replace(progress=f"{portion} {message}".strip())
            case events.CallFinished(id, tool, result):
                self._finish_text()
                started = self._running.pop(id, RunningCall(tool, {}))
                self._numbers += 1
                call = FinishedCall(self._numbers, tool, started.args, result)
                self._finished = [*self._finished, call][-_CALLS_MAX:]
                self._next_to_open = 0
                self._print(drawing.finished(ink, *call))
            case events.TokensUsed():
                self.totals = self.totals.plus(event)
            case events.Notice(text, kind):
                if kind != "retry":  # the next attempt continues the text
                    self._finish_text()
                self._print(ink.paint(ink.clip(f"! {text}", ink.width * 3), YELLOW) + "\n")
            case events.RunEnded(status, _, _, error):
                self._finish_text()
                if status == events.INTERRUPTED:
                    self._print(ink.paint("Interrupted.", RED) + "\n")
                elif error is not None:
                    self._print(drawing.error(ink, error))
        self._redraw()

    def open_call(self) -> None:
        """Print the newest call with its view; when repeated, the call before it."""
        if self._next_to_open >= len(self._finished):
            self._print(self._ink().paint("There is no earlier call to open.", DIM) + "\n")
            return
        self._next_to_open += 1
        self._print(drawing.opened(self._ink(), *self._finished[-self._next_to_open]))

    def live(self, rows: int, waiting: list[str], status: list[str]) -> str:
        """Return the lines that change: the end of the answer, running calls, queued messages, the status."""
        ink = self._ink()
        lines = [*self._tail(ink), *self._activity(ink)]
        lines += (ink.paint(ink.clip(f"queued: {text}"), DIM) for text in waiting)
        lines = lines[-max(1, rows - _RESERVED_ROWS) :] if lines else []
        return "\n".join([*lines, drawing.status(ink, status)])

    def _activity(self, ink: Ink) -> list[str]:
        if self._working_since is None:
            return []
        if self._running:
            return [drawing.started(ink, *call) for call in self._running.values()]
        if self._stream.tail:
            return []
        seconds = int(time.monotonic() - self._working_since)
        lines = [ink.paint(ink.clip(f"Working, {seconds} s. Ctrl-C stops."), DIM)]
        last = self._thought.rstrip("\n").rpartition("\n")[2]
        return [ink.paint(ink.clip(last[-4 * ink.width :]), DIM), *lines] if last else lines

    def _tail(self, ink: Ink) -> list[str]:
        """Return the block of the answer that still grows; drawn once for each text and width."""
        key = (self._stream.tail, ink)
        if self._drawn is None or self._drawn[0] != key:
            lines = ink.markdown(self._stream.tail).rstrip("\n").split("\n") if self._stream.tail.strip() else []
            self._drawn = (key, lines)
        return self._drawn[1]

    def _add_text(self, text: str, *, restart: bool) -> None:
        if restart:
            self._stream = AnswerStream()
            self._print(self._ink().paint("(the answer starts over)", DIM) + "\n")
        self._thought = ""
        self._print_blocks(self._stream.feed(text))

    def _finish_text(self) -> None:
        self._print_blocks(self._stream.finish())

    def _print_blocks(self, blocks: list[str]) -> None:
        if blocks:  # together: drawing them one by one is slow
            self._print(self._ink().markdown("\n\n".join(blocks)) + "\n")
