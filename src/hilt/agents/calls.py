"""The tool calls of one turn: run through the pipeline, in parallel unless they touch the same targets.

Every call gets exactly one result, even if it is interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from pydantic_ai.messages import BinaryContent, ToolCallPart, ToolReturnPart

from hilt import wire
from hilt.active_call import ActiveCall
from hilt.agents.marks import Marks, source_of
from hilt.call import ApprovalRequest, Call, Result, UserAnswer
from hilt.context import Attendant
from hilt.errors import ToolError
from hilt.output.run_events import ApprovalAsked, CallProgress, Event
from hilt.state.agent_calls import Allowance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.interruption import Interruption
    from hilt.agents.model_requests import MeteredModel
    from hilt.runtime import Runtime

Arguments = dict[str, Any] | str  # a string if it is not a JSON object


class MadeCall(NamedTuple):
    """A call that the model made: its arguments, or why they are invalid."""

    place: int  # in its turn, from 0
    id: str
    tool: str
    args: Arguments
    error: ToolError | None = None


def made_calls(parts: Sequence[ToolCallPart]) -> list[MadeCall]:
    """Return the calls of an answer with their arguments decoded."""
    return [_made(place, part) for place, part in enumerate(parts)]


def _made(place: int, part: ToolCallPart) -> MadeCall:
    args = part.args
    if not args:
        return MadeCall(place, part.tool_call_id, part.tool_name, {})
    if isinstance(args, dict):
        return MadeCall(place, part.tool_call_id, part.tool_name, args)
    try:
        decoded = wire.decode_value(args.encode("utf-8", "surrogatepass"))
        if isinstance(decoded, dict):
            return MadeCall(place, part.tool_call_id, part.tool_name, decoded)
        reason = "They are JSON, but not an object."
    except ToolError as error:
        reason = error.message
    problem = ToolError("invalid_args", f"The arguments of {part.tool_name} are not a JSON object. {reason}")
    return MadeCall(place, part.tool_call_id, part.tool_name, args, problem)


class TurnCalls:
    """Runs the calls of the turns of one conversation."""

    def __init__(
        self,
        runtime: Runtime,
        emit: Callable[[Event], None],
        model: MeteredModel,
        interruption: Interruption,
        plan_compaction: Callable[[str], str],
        *,
        asks_person: bool,
        person: Attendant | None = None,
    ) -> None:
        """`asks_person` is whether a user is available to ask, by `person` if that is not the runtime itself.

        Once the turn is interrupted, no further call starts.
        """
        self._runtime = runtime
        self._emit = emit
        self._model = model
        self._interruption = interruption
        self._plan_compaction = plan_compaction
        self._asks_person = asks_person
        self._person = person
        self._active: list[ActiveCall] = []

    def stop(self) -> None:
        """Cancel the running calls; one that is already committing finishes."""
        for active in list(self._active):
            active.cancel()

    async def run(self, calls: Sequence[MadeCall], finished: Callable[[MadeCall, Result], None]) -> None:
        """Run the calls; `finished` receives each result as it comes."""
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[tuple[MadeCall, Result]] = asyncio.Queue()
        self._active.clear()

        def deliver(call: MadeCall, result: Result) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(results.put_nowait, (call, result))

        def report(event: Event) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: self._emit(event))

        def submit() -> None:
            for call in calls:
                if call.error is not None or self._interruption.is_ending:
                    stopped = ToolError("cancelled", f"The call of {call.tool} did not run: the turn was interrupted.")
                    deliver(call, Result(error=call.error or stopped))
                    continue
                request = Call(call.tool, call.args, id=call.id, client=self._model.name)
                attendant = CallAttendant(
                    call,
                    report,
                    self._plan_compaction,
                    asks_person=self._asks_person,
                    allowance=self._model.budget,
                    person=self._person,
                )
                self._runtime.submit(request, partial(deliver, call), began=self._active.append, attendant=attendant)
            if self._interruption.is_ending:
                self.stop()  # calls that began after the stop

        try:
            # finding a tool that is not built in may be slow
            await loop.run_in_executor(None, submit)
            for _ in calls:
                finished(*await results.get())
        except BaseException:
            self.stop()  # nobody waits for their results any more
            raise


class CallAttendant(Attendant):
    """The conversation as the client of one call. It reports approvals; the user or the runtime's approver answers."""

    allowance: Allowance | None = None
    can_ask = False

    def __init__(
        self,
        call: MadeCall,
        emit: Callable[[Event], None],
        plan_compaction: Callable[[str], str],
        *,
        asks_person: bool,
        allowance: Allowance,
        person: Attendant | None = None,
    ) -> None:
        self.allowance = allowance
        self._person = person
        self._call = call
        self._emit = emit
        self._plan_compaction = plan_compaction
        self.can_ask = asks_person

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Report the question, and return the user's answer; None leaves it to the runtime's approver."""
        self._emit(ApprovalAsked(self._call.id, self._call.tool))
        return None if self._person is None else self._person.approve(asked, digest)

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Return the user's answers; None leaves the questions to the runtime."""
        return None if self._person is None else self._person.ask(questions)

    def for_agents(self) -> Attendant | None:
        """Return the client that asks the user."""
        return self._person

    def compact(self, focus: str) -> str | None:
        """Plan the compaction of the conversation after this turn."""
        return self._plan_compaction(focus)

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress."""
        self._emit(CallProgress(self._call.id, done, total, message))


# --- results as the model sees them -----------------------------------------------------------------------------------


def result_part(call: MadeCall, result: Result, marks: Marks, hint: str = "") -> ToolReturnPart:
    """Return the result for the model: everything that comes from the tool between marks, then the hint."""
    text = marks.around(_text(result), source_of(call.tool, call.args))
    if hint:
        text = f"{text}\n{hint}"
    images = [image for image in map(image_of, result.content) if image is not None]
    content = [text, *images] if images else text
    return ToolReturnPart(call.tool, content, call.id, outcome="success" if result.ok else "failed")


def _text(result: Result) -> str:
    if result.error is not None:
        error = result.error
        return f"{error.code}: {error.message}" + (f"\n{error.suggestion}" if error.suggestion else "")
    lines = [result.result]
    lines += (block["text"] for block in result.content if isinstance(block.get("text"), str))
    lines += (
        resource["text"]
        for block in result.content
        if isinstance(resource := block.get("resource"), dict) and isinstance(resource.get("text"), str)
    )
    lines += (f"Note: {note}" for note in result.meta.get("notes", ()))
    lines.append(str(result.meta.get("context", "")))
    return "\n".join(line for line in lines if line)


def image_of(block: Mapping[str, Any]) -> BinaryContent | None:
    """Return the image of an MCP content block; None if it is not an image."""
    if block.get("type") != "image":
        return None
    with suppress(KeyError, TypeError, binascii.Error, ValueError):
        return BinaryContent(base64.b64decode(block["data"], validate=True), media_type=str(block["mimeType"]))
    return None
