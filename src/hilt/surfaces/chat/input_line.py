"""The input line at the bottom of the chat, which stays active while the model works, and its history.

Everything else is printed above it. A question, such as an approval, takes over the line; the draft is restored
afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from hilt.handles import put_file
from hilt.output.terminal import inert

_READ_BYTES = 1 << 20
_MAX_BYTES = 2 << 20
_PLAIN_MENU = Style.from_dict({"completion-menu": "noinherit", "completion-menu.completion.current": "reverse"})


class InputLine:
    """Reads lines: `submit` receives each one, `interrupt` is called for Ctrl-C, `leave` for Ctrl-D on an empty line.

    `typed` is called when the text changes, `open_call` for Ctrl-O.
    """

    def __init__(
        self,
        *,
        history: History,
        completer: Completer,
        color: bool,
        live: Callable[[], str],
        submit: Callable[[str], None],
        interrupt: Callable[[], None],
        leave: Callable[[], None],
        typed: Callable[[], None],
        open_call: Callable[[], None],
    ) -> None:
        """`live` returns the lines above the input that change all the time, with colours as escape sequences."""
        self._live = live
        self._submit = submit
        self._interrupt = interrupt
        self._leave = leave
        self._open_call = open_call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._question: str | None = None  # the prompt of a question
        self._answer: Future[str] | None = None
        self._draft = Document()  # the unsent text from before the question
        self._is_entered = False  # whether Enter was pressed after the last question was answered
        self._prompts: PromptSession[None] = PromptSession(
            self._message,
            history=history,
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=False,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=self._keys(),
            enable_suspend=True,
            erase_when_done=True,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            style=None if color else _PLAIN_MENU,
            include_default_pygments_style=False,
            output=_output(),
        )
        self._prompts.default_buffer.on_text_changed += lambda buffer: typed()
        self._prompts.app.min_redraw_interval = 0.05
        self._prompts.app.ttimeoutlen = 0.1

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self._prompts.app.output.get_size().columns

    @property
    def rows(self) -> int:
        """The height of the terminal."""
        return self._prompts.app.output.get_size().rows

    @property
    def draft(self) -> str:
        """The unsent text, without answers to questions."""
        return self._draft.text if self._question is not None else self._prompts.default_buffer.text

    def restore(self, text: str) -> None:
        """Put a text back on the line, before its current text."""
        joined = "\n".join(part for part in (text, self.draft) if part)
        if self._question is not None:
            self._draft = Document(joined)
        else:
            self._prompts.default_buffer.document = Document(joined)

    async def run(self, began: Callable[[], None]) -> None:
        """Read lines until `exit`; call `began` once the terminal is in raw mode. Unsent text goes to the history."""
        self._loop = loop = asyncio.get_running_loop()

        def begin() -> None:
            loop.call_soon(began)  # the terminal is in raw mode by then

        with suppress(EOFError, KeyboardInterrupt):
            await self._prompts.prompt_async(pre_run=begin, handle_sigint=True)
        if self.draft.strip():
            self._prompts.history.append_string(self.draft)

    def exit(self) -> None:
        """End `run`."""
        app = self._prompts.app
        self.refuse_answer()
        if app.is_running and not app.is_done:
            app.exit()

    def redraw(self) -> None:
        """Draw the changing lines again."""
        self._prompts.app.invalidate()

    def print(self, text: str) -> None:
        """Print whole lines above the input line; may be called from any thread."""
        if self._loop is None:
            self._write(text)
        else:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._write, text)

    def _write(self, text: str) -> None:
        # the terminal stays in raw mode: otherwise it would interpret keys that are typed now
        app = self._prompts.app
        is_drawn = app.is_running and not app.is_done
        if is_drawn:
            app.renderer.erase()
        app.output.write_raw(text.replace("\n", "\r\n"))
        app.output.flush()
        if is_drawn:
            app.invalidate()

    # --- questions ----------------------------------------------------------------------------------------------------

    @contextmanager
    def question(self) -> Iterator[None]:
        """Take over the line for questions, from another thread; restore the draft afterwards."""
        self._call(self._begin_question)
        try:
            yield
        finally:
            self._call(self._end_question)

    def ask(self, prompt: str, is_refused: Callable[[], bool]) -> str:
        """Return the line that answers a question, with its newline; "" if it is refused. From another thread."""
        answer: Future[str] = Future()

        def expect() -> None:
            self._question, self._answer, self._is_entered = prompt, answer, False
            if is_refused():  # checked here, on the thread of `refuse_answer`
                answer.set_result("")
            self.redraw()

        self._call(expect)
        return answer.result()

    def refuse_answer(self) -> None:
        """Answer the current question with the end of input; keep what was typed so far."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result("")

    def withdraw_question(self) -> None:
        """Refuse the answer to the current question, from another thread."""
        self._call(self.refuse_answer)

    def keep(self, text: str) -> None:
        """Append a text to the draft."""
        self._call(lambda: setattr(self, "_draft", Document(self._draft.text + text)))

    def _call(self, work: Callable[[], object]) -> None:
        assert self._loop is not None, "questions come from calls, and calls from lines"  # noqa: S101
        done: Future[None] = Future()

        def run() -> None:
            work()
            done.set_result(None)

        self._loop.call_soon_threadsafe(run)
        done.result()

    def _begin_question(self) -> None:
        self._draft = self._prompts.default_buffer.document
        self._prompts.default_buffer.document = Document()
        self._question = ""

    def _end_question(self) -> None:
        self._question = self._answer = None
        buffer = self._prompts.default_buffer
        typed_since, is_line = buffer.text, self._is_entered and not self._draft.text
        buffer.document = Document(self._draft.text + typed_since)
        self._draft, self._is_entered = Document(), False
        if is_line and typed_since.strip():
            buffer.reset(append_to_history=True)
            self._submit(typed_since)
        self.redraw()

    # --- drawing and keys ---------------------------------------------------------------------------------------------

    def _message(self) -> ANSI:
        live = self._live()
        prompt = "> " if self._question is None else self._question
        return ANSI(f"{live}\n{prompt}" if live else prompt)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_asking = Condition(lambda: self._question is not None)

        @keys.add("enter", filter=~has_completions | is_asking)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            text = buffer.text
            if self._question is not None:
                if self._answer is None or self._answer.done():
                    self._is_entered = True  # after the last question, the text is a message
                    return
                buffer.reset()
                self.print(f"{self._question}{inert(text)}\n")
                self._answer.set_result(f"{text}\n")
            elif text.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.reset(append_to_history=bool(text.strip()))
                self._submit(text)

        @keys.add("enter", filter=has_completions & ~is_asking)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None  # accepts the selected completion

        @keys.add("escape", "enter", filter=~is_asking)
        @keys.add("escape", "c-j", filter=~is_asking)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text:
                buffer.delete()
            elif self._question is not None:
                self.refuse_answer()
            else:
                self._leave()

        @keys.add("c-o")
        def _(event: KeyPressEvent) -> None:
            self._open_call()

        return keys


def _output() -> Output:
    """Return the terminal, without cursor position requests: some terminals do not answer them."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


class HistoryFile(History):
    """The inputs in one workspace, in a file: one JSON string per line; secrets are redacted."""

    def __init__(self, path: str, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._redact = redact

    def load_history_strings(self) -> Iterable[str]:
        """Yield earlier inputs, newest first."""
        try:
            with open(self._path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _READ_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return
        if size > _READ_BYTES:
            lines = lines[1:]
        if size > _MAX_BYTES:
            self._replace(b"\n".join(lines))
        for line in reversed(lines):
            with suppress(ValueError):
                text = json.loads(line)
                if isinstance(text, str):
                    yield text

    def store_string(self, string: str) -> None:
        """Append an input; errors are ignored, so that an unwritable file does not stop the chat."""
        line = json.dumps(self._redact(string)).encode() + b"\n"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)

    def _replace(self, data: bytes) -> None:
        with suppress(OSError):
            put_file(self._path, data)
