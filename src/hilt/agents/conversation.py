"""A conversation: the loop in which a model answers, calls tools, sees their results and answers again (ADR 0029).

How to use it from another surface:

    with open_runtime(...) as runtime:
        conversation = Conversation(runtime, model, transcript, emit, ...)
        ended = await conversation.send("Fix the test.")     # a RunEnded, which is also the last event
        ended = await conversation.send("Now the docs.")     # continues the conversation
        await conversation.close()

- `emit` receives every event (see `events`) on the thread of the event loop, in order.
- `cancel()` may be called from any thread: it ends the current turn and everything that it runs. The conversation can
  continue afterwards.
- The user answers approvals and questions through the `asker` and `questioner` of the runtime, on its own threads.
- `send(None)` continues an interrupted turn, even after a crash.
- `compact(focus)` shortens the conversation between turns.

Everything is in the transcript before the next request is made: `hilt run --continue` works after a kill at any time.
One conversation belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart

from hilt.agents import references
from hilt.agents.budgets import RunLimits
from hilt.agents.calls import MadeCall, TurnCalls, image_of, made_calls, result_part
from hilt.agents.compaction import Compaction
from hilt.agents.dialogue import Dialogue
from hilt.agents.interruption import Interruption, offload
from hilt.agents.loop_hooks import LoopHooks
from hilt.agents.marks import Marks
from hilt.agents.messages import Content
from hilt.agents.model import LanguageModel, ModelFault, ModelInput
from hilt.agents.model_requests import Clock, MeteredModel
from hilt.agents.offering import Offering
from hilt.agents.repetition import END_AT, LoopGuard
from hilt.agents.steps import Steps, TranscriptOnly
from hilt.agents.transcripts import Record, Transcript
from hilt.authority.authority import MODE
from hilt.authority.principal import Values
from hilt.call import AGENT, Result
from hilt.errors import ToolError
from hilt.output.run_events import (
    DONE,
    FAILED,
    INTERRUPTED,
    OVER_BUDGET,
    UNAPPROVED,
    CallFinished,
    CallStarted,
    Event,
    Notice,
    RunEnded,
)
from hilt.places import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.prices import CostMeter
    from hilt.context import Attendant
    from hilt.runtime import Runtime

REJECTED_MAX = 2  # requests that are too long: then old results are shortened, and then the oldest turns
_MISSING_APPROVALS = ("approval_required", "approval_timeout")


class Conversation:
    """One agent's conversation with a model, in the session of a runtime."""

    def __init__(
        self,
        runtime: Runtime,
        model: LanguageModel,
        transcript: Transcript,
        emit: Callable[[Event], None],
        *,
        marks: Marks,
        limits: RunLimits = RunLimits(),  # noqa: B008
        asks_person: bool = False,
        meter: CostMeter | None = None,
        clock: Clock = Clock(),  # noqa: B008
        role: str = "",
        steps: Steps = TranscriptOnly(),  # noqa: B008
        person: Attendant | None = None,
    ) -> None:
        """Continue the transcript, which may only have its first record; see `starting.open_conversation`.

        `limits` apply to each `send`. `asks_person` is whether the runtime has a user to ask. `meter` counts the cost.
        `role` replaces the usual prompt. `person` is the client that asks the user, if it is not the runtime itself.
        """
        self.runtime = runtime
        self.marks = marks
        self.dialogue = Dialogue(transcript, steps)
        self._emit = emit
        self._limits = limits
        self._steps = steps
        self._interruption = Interruption(self._stop_calls)
        self._model = MeteredModel(model, meter, clock, self._interruption)
        self._offering = Offering(runtime, marks, role, asks_person=asks_person)
        self._hooks = LoopHooks(runtime, self._interruption)
        self._compaction = Compaction(
            self.dialogue, self._model, self._offering, self._hooks, marks, emit, self._save_readable
        )
        self._calls = TurnCalls(
            runtime,
            emit,
            self._model,
            self._interruption,
            self._compaction.plan,
            asks_person=asks_person,
            person=person,
        )
        self._guard = LoopGuard()
        self._unapproved = False
        self._has_started = False
        runtime.watch_deadlines()
        self._unlisten = runtime.parts.listen(self._offering.forget_tools)

    # --- for surfaces -------------------------------------------------------------------------------------------------

    @property
    def session(self) -> str:
        """The id of the session."""
        return self.runtime.session

    @property
    def messages(self) -> Sequence[ModelMessage]:
        """The messages so far."""
        return self.dialogue.messages

    @property
    def is_interrupted(self) -> bool:
        """Whether a turn is unfinished."""
        return self.dialogue.is_interrupted

    async def send(self, content: Content | None, *, mail: int = 0) -> RunEnded:
        """Send a message and return after the model's last answer; None continues an interrupted turn.

        `mail` is the number of the last message from other agents in it, for the transcript.
        """
        loop = self._interruption.begin()
        budget = self._model.begin(self._limits)
        self._guard = LoopGuard()
        self._unapproved = False
        alarm = None
        if self._limits.seconds is not None:
            alarm = loop.call_later(self._limits.seconds, self._interruption.end, budget.out_of_time())
        try:
            text = await self._run(content, mail)
            ended = RunEnded(UNAPPROVED if self._unapproved else DONE, self.session, text)
        except ToolError as error:
            ended = RunEnded(_status_of(error), self.session, self.dialogue.last_answer, error)
        finally:
            if alarm is not None:
                alarm.cancel()
        with suppress(ToolError):  # the disk is full; the messages so far are saved
            self.dialogue.end(ended.status, None if ended.error is None else ended.error.code)
        self._emit(ended)
        return ended

    def cancel(self) -> None:
        """End the current turn and everything that it runs; may be called from any thread."""
        # without an id, --continue skips the sessions of agents
        id_argument = (self.session,) if self.session.startswith(AGENT) else ()
        advice = f"Continue with {command('run', '--continue', *id_argument)}."
        self._interruption.end(ToolError("cancelled", "The run was interrupted.", suggestion=advice))

    async def compact(self, focus: str = "") -> bool:
        """Shorten the conversation; return whether it changed. On failure nothing changes, and a notice says why."""
        self._interruption.begin()
        return await self._compaction.run(focus, automatic=False)

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session on behalf of the user; None restores the mode from the settings."""
        Values(self.runtime.parts.authority, self.session).set(MODE, mode)
        self._offering.forget_tools()

    async def change_model(self, model: LanguageModel, meter: CostMeter | None) -> None:
        """Switch to another model, and close the previous one."""
        self.dialogue.measure()
        await self._model.change(model, meter)

    async def close(self) -> None:
        """Fire the session's end, and close the connections and the transcript."""
        self._unlisten()
        if self._has_started:
            await self._hooks.session_end()
        await self._model.close()
        self.dialogue.close()

    async def expand(self, prompt: str) -> Content:
        """Return a prompt that the user typed, with the contents of its references, such as @file:a.py."""
        expansion = await offload(
            lambda: references.expand(
                self.runtime, prompt, command=self.runtime.parts.skills.expand, around=self.marks.around
            )
        )
        images = [image for image in map(image_of, expansion.images) if image is not None]
        return [expansion.text, *images] if images else expansion.text

    async def prompt(self) -> ModelInput:
        """Return what the next request would send."""
        return await self._offering.request(self.messages)

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self, content: Content | None, mail: int) -> str:
        await self._start()
        if content is not None:
            content = await self._hooks.before_message(content)
        await self._settle_calls()
        if content is not None:
            await self.dialogue.add_user(content, mail)
        elif not self.is_interrupted:
            raise ToolError(
                "invalid_request",
                "The session was not interrupted, so there is nothing to continue.",
                suggestion="Pass a prompt.",
            )
        while True:
            response = await self._turn()
            if response.tool_calls:
                await self._perform(response.tool_calls)
                continue
            objection = await self._hooks.objection()
            if objection is None:
                return await self._hooks.after_message(response.text or "")
            await self.dialogue.add_user(f"A hook of the user says that you are not done: {objection}")

    async def _start(self) -> None:
        """Fire the hooks of a session's start, and read the project's instructions."""
        if self._has_started:
            return
        self._has_started = True
        await self.dialogue.begin()
        await self._hooks.session_start(self._model.name)
        await self._offering.read_project(lambda reason: self._emit(Notice(reason)))

    async def _turn(self) -> ModelResponse:
        """Make one request, and return the answer once it is in the transcript."""
        self._interruption.check()
        await self._model.check()
        await self._compaction.run_if_needed()
        rejected = 0
        while True:
            try:
                return await self._answer()
            except ModelFault as fault:
                rejected += 1
                too_long = fault.too_long and rejected <= REJECTED_MAX
                if not too_long or not await self._compaction.run("", automatic=True, rejected=rejected):
                    raise _model_error(fault) from fault

    async def _answer(self) -> ModelResponse:
        request = await self._hooks.before_request(self._model.name, await self.prompt())

        async def answer() -> tuple[ModelResponse, float | None]:
            response = await self._model.ask(request, self._emit)
            used = self.dialogue.count(response)
            cost = await self._model.count(response.usage, used, self._emit)
            response = await self._hooks.after_response(self.dialogue.with_unique_ids(response))
            self._interruption.check()
            return response, cost

        return await self.dialogue.add_answer(answer)

    async def _perform(self, parts: Sequence[ToolCallPart]) -> None:
        """Run the calls of an answer."""
        calls = made_calls(parts)
        for call in calls:
            self._emit(CallStarted(call.id, call.tool, call.args))
        self._guard.begin_turn()
        reasons: list[ToolError] = []  # to end the run after these calls

        async def run(keep: Callable[[MadeCall, ToolReturnPart], None]) -> None:
            def finished(call: MadeCall, result: Result) -> None:
                hint, is_endless = self._repeated(call, result)
                keep(call, result_part(call, result, self.marks, hint))
                self._emit(CallFinished(call.id, call.tool, result))
                if result.error is not None and result.error.code in _MISSING_APPROVALS:
                    self._unapproved = True
                reasons.extend(filter(None, (is_endless, _stopped_by_hook(result))))
                if self._offering.traits(call.tool).sets_mode:
                    self._offering.forget_tools()

            await self._calls.run(calls, finished)

        await self.dialogue.run_calls(calls, run)
        self._interruption.check()
        if reasons:
            raise reasons[0]

    def _repeated(self, call: MadeCall, result: Result) -> tuple[str, ToolError | None]:
        """Return a hint for the model if it repeats a call, and the error if it does so without end."""
        if result.error is not None and result.error.code == "cancelled":
            return "", None
        polls = self._offering.traits(call.tool).polls
        repetition = self._guard.add(call.place, call.tool, call.args, result, polls=polls)
        if repetition is None:
            return "", None
        if repetition.times < END_AT:
            return repetition.hint, None
        text = f"{call.tool} was called {repetition.times} times in a row with the same result."
        return repetition.hint, ToolError("loop_detected", text)

    async def _settle_calls(self) -> None:
        """Add a result to each call that has none because hilt was killed before it was recorded."""
        repeated = []
        for call, part in self.dialogue.unanswered_calls():
            result = await offload(partial(self._steps.settle, call))
            if result is None:
                repeated.append(part)
                continue
            await self.dialogue.add_result(result_part(call, result, self.marks))
            self._emit(CallFinished(call.id, call.tool, result))
        if repeated:
            await self._offering.list_tools()
            await self._perform(repeated)

    def _stop_calls(self) -> None:
        self._calls.stop()

    def _save_readable(self, records: Sequence[Record]) -> str | None:
        """Save the whole transcript as Markdown where `read_file` can open it; return its path."""
        from hilt.agents.transcript_views import as_markdown

        return self.runtime.parts.session(self.runtime.session).keep_text(as_markdown(records), "transcript.md")


def _status_of(error: ToolError) -> int:
    if error.code == "cancelled":
        return INTERRUPTED
    return OVER_BUDGET if error.code == "budget_exceeded" else FAILED


def _stopped_by_hook(result: Result) -> ToolError | None:
    """Return the error of a run that a hook of a call ends."""
    reason = result.meta.get("stop")
    if reason is None and result.error is not None and result.error.details.get("stop"):
        reason = result.error.message
    return None if reason is None else ToolError("hook_blocked", f"A hook stopped the agent: {reason}")


def _model_error(fault: ModelFault) -> ToolError:
    return ToolError("model_error", fault.message, suggestion=fault.suggestion)
