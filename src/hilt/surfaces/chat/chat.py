"""The chat: lines go to the model or to a command, one after the other; Ctrl-C stops what runs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hilt.desk import conversations, sessions
from hilt.errors import ToolError
from hilt.formats.numbers import dollars, thousands
from hilt.places import command
from hilt.surfaces.chat import drawing, slash_commands
from hilt.surfaces.chat.drawing import Ink
from hilt.surfaces.chat.input_line import InputLine
from hilt.surfaces.chat.people import People
from hilt.surfaces.chat.scene import Scene
from hilt.surfaces.chat.slash_commands import ChatCompleter
from hilt.surfaces.oneshot import ENDING_SECONDS

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from hilt.call import Result
    from hilt.desk.conversations import Conversation, ModelChoice
    from hilt.listing import ListedTool
    from hilt.runtime import Runtime

T = TypeVar("T")

_MODE_SECONDS = 1.0  # maximum age of the mode in the status line
_WARNING = "Press Ctrl-C again to leave."


class ChatOptions(NamedTuple):
    """How a chat starts: a function that opens runtimes, a program to run instead of a model, a session to continue."""

    open_runtime: Callable[..., Runtime]  # takes the session, and asker and questioner
    program: str | None
    session: str | None
    color: bool
    history: History


class Chat:
    """One chat on the terminal; `run` returns when the person leaves."""

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._waiting: deque[str] = deque()  # lines queued until the turn ends
        self._wake = asyncio.Event()
        self._is_working = False
        self._is_leaving = False
        self._is_stopped = False  # the turn should end
        self._is_warned = False  # the next Ctrl-C leaves
        self._conversation: Conversation | None = None
        self._choice: ModelChoice | None = None
        self._mode_shown: tuple[float, str] = (0.0, "")
        self._line = InputLine(
            history=options.history,
            completer=ChatCompleter(self),
            color=options.color,
            live=self._live,
            submit=self._submit,
            interrupt=self._interrupt,
            leave=self.leave,
            typed=lambda: setattr(self, "_is_warned", False),
            open_call=self._open_call,
        )
        self._people = People(self._line, self._ink)
        self.scene = Scene(self._line.print, self._ink, self._line.redraw)
        self.runtime: Runtime = self._open_runtime(options.session or conversations.new_id())
        self.model = conversations.model_name(self.runtime, options.program)

    async def run(self) -> None:
        """Read lines and process them until the person leaves."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        loop.run_in_executor(None, _load_libraries)
        if self._options.session is not None:
            await self._converse("")
        worker = loop.create_task(self._work())
        worker.add_done_callback(lambda done: self._line.exit())
        try:
            await self._line.run(self._greet)
        finally:
            self._is_leaving = True
            self._stop_turn()
            self._wake.set()
            await asyncio.wait([worker], timeout=ENDING_SECONDS)
            await self._close()
        if worker.done():
            worker.result()  # raises if it failed

    def leave(self) -> None:
        """End the chat."""
        self._is_leaving = True
        self._restore_queued()
        self._line.exit()

    # --- lines --------------------------------------------------------------------------------------------------------

    def _submit(self, line: str) -> None:
        self._is_warned = False
        self._waiting.append(line)
        self._wake.set()
        self._line.redraw()

    def _open_call(self) -> None:
        self.scene.open_call()

    def _interrupt(self) -> None:
        """Ctrl-C: stop the turn, and leave if pressed again. Queued lines go back to the input line."""
        if self._is_warned:
            self.leave()
            return
        self._restore_queued()
        if self._is_working:
            self._stop_turn()
        else:
            self.tell(_WARNING)
        self._is_warned = True

    def _stop_turn(self) -> None:
        self._is_stopped = True
        self._people.refuse()
        if self._conversation is not None:
            self._conversation.cancel()

    def _restore_queued(self) -> None:
        if self._waiting:
            self._line.restore("\n".join(self._waiting))
            self._waiting.clear()

    async def _work(self) -> None:
        while not self._is_leaving:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting and not self._is_leaving:
                line = self._waiting.popleft()
                self._is_working, self._is_stopped = True, False
                self._people.attend()
                clock = asyncio.get_running_loop().create_task(self._tick())
                try:
                    await self._handle(line)
                except ToolError as error:
                    self._line.print(drawing.error(self._ink(), error))
                finally:
                    clock.cancel()
                    self._is_working = False
                    self.scene.end()

    async def _tick(self) -> None:
        """Redraw the elapsed seconds."""
        while True:
            await asyncio.sleep(1)
            self._line.redraw()

    async def _handle(self, line: str) -> None:
        parsed = slash_commands.parse(line)
        if parsed is not None:
            name, argument = parsed
            try:
                slash_command = slash_commands.find(name)
            except ToolError:
                self._line.restore(line)
                raise
            self._line.print(drawing.person(self._ink(), line.strip()))
            await slash_command.run(self, argument)
        elif line.strip():
            await self._send(line)
        elif self._conversation is not None and self._conversation.is_interrupted:
            await self._send(None)

    async def _send(self, text: str | None) -> None:
        if text is not None:
            self._line.print("\n" + drawing.person(self._ink(), text))
        self.scene.begin()
        try:
            conversation = self._conversation or await self._converse(text or "")
            content = None if text is None else await conversation.expand(text)
            if self._is_stopped:
                raise ToolError("cancelled", "The message was not sent.", suggestion="It is on the input line.")
        except ToolError:
            self._line.restore(text or "")
            raise
        await conversation.send(content)

    async def _converse(self, title: str) -> Conversation:
        """Open the conversation of the runtime's session."""
        runtime = self.runtime
        self._conversation = await _offload(
            lambda: conversations.converse(
                runtime,
                self.scene.show,
                title=title,
                program=self._options.program,
                choice=self._choice,
                asks_person=True,
            )
        )
        return self._conversation

    # --- for commands -------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The mode of the session."""
        return self.runtime.parts.authority.mode(self.runtime.session)

    def tell(self, text: str) -> None:
        """Print lines for the person."""
        self._line.print(drawing.note(self._ink(), text))

    def show(self, result: Result) -> None:
        """Print the view of a result."""
        self._line.print(drawing.body(self._ink(), result))

    async def confirm(self, question: str) -> bool:
        """Return whether the person says yes."""
        return await _offload(lambda: self._people.confirm(question))

    async def call(self, tool: str, **args: Any) -> Result:
        """Call a tool for the person, like any other call; raise its error."""
        result = await _offload(lambda: self.runtime.call(tool, **args))
        if result.error is not None:
            raise result.error
        return result

    async def tools(self) -> list[ListedTool]:
        """Return the tools that the model sees."""
        runtime = self.runtime
        return await _offload(lambda: list(runtime.parts.authority.listed_tools(runtime.session, client_asks=True)))

    async def set_mode(self, mode: str) -> None:
        """Change the mode of the session."""
        if self._conversation is not None:
            self._conversation.set_mode(mode)
        else:
            sessions.set_mode(self.runtime, mode)
        self._mode_shown = (0.0, "")

    async def set_model(self, name: str, base_url: str | None) -> None:
        """Switch to another model."""
        self._choice = await conversations.change_model(self.runtime, self._conversation, name, base_url)
        self.model = self._choice.name

    async def compact(self, focus: str) -> None:
        """Shorten the conversation."""
        if self._conversation is None:
            self.tell("Nothing to compact.")
            return
        self.scene.begin()
        await self._conversation.compact(focus)

    async def resume(self, id: str) -> None:
        """Switch to an earlier session."""
        session = sessions.full_id(self.runtime, id)
        if session == self.runtime.session:
            self.tell("This is the current session.")
            return
        if self.runtime.parts.running_jobs:
            raise ToolError(
                "busy",
                f"{self.runtime.parts.running_jobs} background jobs of this session are running; they would end.",
                suggestion="Ask the model to stop them, or leave the chat and start another one.",
            )
        before, conversation = self.runtime, self._conversation
        self.runtime, self._conversation = self._open_runtime(session), None
        try:
            await self._converse("")
        except ToolError:
            self.runtime.close()
            self.runtime, self._conversation = before, conversation
            raise
        if conversation is not None:
            await conversation.close()
        before.close()
        self._mode_shown = (0.0, "")
        self.recall()

    def recall(self) -> None:
        """Print the end of a continued conversation."""
        conversation = self._conversation
        if conversation is None:
            return
        from pydantic_ai.messages import ModelResponse

        self.tell(f"Session {self.runtime.session}, {len(conversation.messages)} messages.")
        answers = (message.text for message in reversed(conversation.messages) if isinstance(message, ModelResponse))
        last = next(filter(None, answers), None)
        if last:
            self._line.print(self._ink().markdown(last) + "\n")
        if conversation.is_interrupted:
            self.tell("It was interrupted. Press Enter to continue, or send a message.")

    # --- the screen ---------------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        self.tell(f"hilt chat with {self.model} in {self.runtime.parts.root}. /help shows commands and keys.")
        self.recall()
        if self._is_leaving:  # a signal arrived before the input line was running
            self._line.exit()

    def _ink(self) -> Ink:
        return Ink(self._line.columns, self._options.color)

    def _live(self) -> str:
        return self.scene.live(self._line.rows, list(self._waiting) if self._is_working else [], self._status())

    def _status(self) -> list[str]:
        totals = self.scene.totals
        seen, mode = self._mode_shown
        if time.monotonic() - seen > _MODE_SECONDS:
            mode = self.mode
            self._mode_shown = (time.monotonic(), mode)
        fields = [self.model, mode]
        if totals.requests:
            fields.append(f"{thousands(totals.input_tokens)} in {thousands(totals.output_tokens)} out")
            fields.append("cost unknown" if totals.unpriced else dollars(totals.cost))
        if totals.context_tokens:
            percent_left = max(0, 100 - 100 * totals.context_used // totals.context_tokens)
            fields.append(f"{percent_left}% context left")
        jobs = self.runtime.parts.running_jobs
        if jobs:
            fields.append(f"{jobs} job{'s' * (jobs != 1)}")
        return fields

    # --- opening and closing ------------------------------------------------------------------------------------------

    def _open_runtime(self, session: str) -> Runtime:
        return self._options.open_runtime(
            session,
            asker=self._people.asker,
            questioner=self._people.questioner,
        )

    async def _close(self) -> None:
        if self._conversation is not None:
            self.tell(f"Session {self.runtime.session}. To continue it: {command('chat', '--continue')}")
            with suppress(ToolError):
                await self._conversation.close()
        self.runtime.give_up(ENDING_SECONDS)
        self.runtime.close()


async def _offload(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _load_libraries() -> None:
    """Import what the first message needs, while the person types it."""
    with suppress(ImportError):
        conversations.load_libraries()
