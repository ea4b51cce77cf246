"""A conversation: the loop in which a model answers, calls tools, sees their results and answers again.

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

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from hilt.agents import compaction, references
from hilt.agents.asking import Clock, ask
from hilt.agents.budgets import Budget, RunLimits
from hilt.agents.calls import MadeCall, TurnCalls, image_of, made_calls, result_part
from hilt.agents.context_size import CHARACTERS_PER_TOKEN, ContextSize
from hilt.agents.marks import Marks
from hilt.agents.messages import Content, answer_record, content_record, messages_of, result_record
from hilt.agents.model import LanguageModel, ModelFault, ModelInput, OfferedTool
from hilt.agents.prompts import ProjectPrompt, read_project, system_prompt
from hilt.agents.repetition import END_AT, LoopGuard
from hilt.agents.steps import Settle, Steps, run_calls
from hilt.agents.transcripts import Record, Transcript, current
from hilt.authority.authority import MODE
from hilt.authority.principal import Values
from hilt.call import AGENT, Json, Result
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.listing import ListedTool
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
    TokensUsed,
)
from hilt.places import command
from hilt.runtime import Runtime
from hilt.state.agent_calls import Allowance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.prices import CostMeter
    from hilt.authority.hooks import EventResult
    from hilt.context import Attendant

T = TypeVar("T")

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
        above: Allowance | None = None,
        steps: Steps | None = None,
        settle: Settle | None = None,
        person: Attendant | None = None,
    ) -> None:
        """Continue the transcript, which may only have its first record; see `starting.open_conversation`.

        `limits` apply to each `send`. `asks_person` is whether the runtime has a user to ask. `meter` counts the cost.
        `role` replaces the usual prompt. `above` is what the run that started this conversation may use, `person` the
        client that asks the user, if it is not the runtime itself. `steps` store every record of the transcript, too.
        `settle` decides on calls without a result.
        """
        self.runtime = runtime
        self.model = model
        self.messages: list[ModelMessage] = messages_of(current(transcript.records()))
        self.size = ContextSize(self.messages)
        self._call_ids = {
            call.tool_call_id
            for message in self.messages
            if isinstance(message, ModelResponse)
            for call in message.tool_calls
        }
        self._transcript = transcript
        self._emit = emit
        self._marks = marks
        self._limits = limits
        self._meter = meter
        self._clock = clock
        self._asks_person = asks_person
        self._role = role
        self._above = above
        self._steps = steps
        self._settle = settle
        self._budget = Budget(limits, clock.now, above)
        self._guard = LoopGuard()
        self._calls = TurnCalls(
            runtime,
            emit,
            client=model.name,
            asks_person=asks_person,
            plan_compaction=self._plan_compaction,
            is_stopped=lambda: self._stop is not None,
            allowance=lambda: self._budget,
            person=person,
        )
        self._project: ProjectPrompt | None = None
        self._tools: dict[str, Tool] = {}
        self._offered: list[ListedTool] | None = None
        self._schema_tokens = 0  # of all offered tools, estimated
        self._focus: str | None = None  # of a compaction planned by the tool
        self._unapproved = False
        self._has_started = False
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: ToolError | None = None  # why the current turn is to end
        self._task: asyncio.Future[Any] | None = None
        self._fence = Fence()
        runtime.watch_deadlines()
        self._unlisten = runtime.listen(self._forget_tools)

    # --- for surfaces -------------------------------------------------------------------------------------------------

    @property
    def session(self) -> str:
        """The id of the session."""
        return self.runtime.session

    @property
    def marks(self) -> Marks:
        """The marks around text that is not from the user."""
        return self._marks

    @property
    def is_interrupted(self) -> bool:
        """Whether a turn is unfinished: the last message is not an answer without calls."""
        last = self.messages[-1] if self.messages else None
        return last is not None and (not isinstance(last, ModelResponse) or bool(last.tool_calls))

    async def send(self, content: Content | None, *, mail: int = 0) -> RunEnded:
        """Send a message and return after the model's last answer; None continues an interrupted turn.

        `mail` is the number of the last message from other agents in it, for the transcript.
        """
        loop = self._begin()
        self._budget = Budget(self._limits, self._clock.now, self._above)
        self._guard = LoopGuard()
        self._unapproved = False
        alarm = None
        if self._limits.seconds is not None:
            alarm = loop.call_later(self._limits.seconds, self._end_turn, self._budget.out_of_time())
        try:
            text = await self._run(content, mail)
            ended = RunEnded(UNAPPROVED if self._unapproved else DONE, self.session, text)
        except ToolError as error:
            ended = RunEnded(_status_of(error), self.session, self._last_text(), error)
        finally:
            if alarm is not None:
                alarm.cancel()
        code = None if ended.error is None else ended.error.code
        with suppress(ToolError):  # the disk is full; the messages so far are saved
            self._transcript.append("ended", status=ended.status, error_code=code)
        self._emit(ended)
        return ended

    def cancel(self) -> None:
        """End the current turn and everything that it runs; may be called from any thread."""
        # without an id, --continue skips the sessions of agents
        id_argument = (self.session,) if self.session.startswith(AGENT) else ()
        advice = f"Continue with {command('run', '--continue', *id_argument)}."
        self._end_turn(ToolError("cancelled", "The run was interrupted.", suggestion=advice))

    async def compact(self, focus: str = "") -> bool:
        """Shorten the conversation; return whether it changed. On failure nothing changes, and a notice says why."""
        self._begin()
        return await self._compact(focus, automatic=False)

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session on behalf of the user; None restores the mode from the settings."""
        Values(self.runtime.authority, self.session).set(MODE, mode)
        self._forget_tools()

    async def change_model(self, model: LanguageModel, meter: CostMeter | None) -> None:
        """Switch to another model, and close the previous one."""
        previous, previous_meter = self.model, self._meter
        self.model, self._meter = model, meter
        self._calls.client = model.name
        self.size = ContextSize(self.messages)
        await previous.close()
        if previous_meter is not None:
            previous_meter.close()

    async def close(self) -> None:
        """Fire the session's end, and close the connections and the transcript."""
        self._unlisten()
        if self._has_started:
            await self._offload(lambda: self.runtime.fire("session_end"))
        await self.model.close()
        self._transcript.close()
        if self._meter is not None:
            self._meter.close()

    async def expand(self, prompt: str) -> Content:
        """Return a prompt that the user typed, with the contents of its references, such as @file:a.py."""
        expansion = await self._offload(
            lambda: references.expand(
                self.runtime, prompt, command=self.runtime.skills().expand, around=self._marks.around
            )
        )
        images = [image for image in map(image_of, expansion.images) if image is not None]
        return [expansion.text, *images] if images else expansion.text

    async def prompt(self) -> ModelInput:
        """Return what the next request would send."""
        if self._project is None:
            await self._read_project()
        assert self._project is not None  # noqa: S101
        tools = await self._list_tools()
        offered = [OfferedTool(tool.name, tool.description, tool.schema) for tool in tools]
        return ModelInput(
            system_prompt(self.runtime, self._marks, self._project, tools, self._role), self.messages, offered
        )

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self, content: Content | None, mail: int) -> str:
        await self._start()
        if content is not None:
            content = await self._before_message(content)
        await self._settle_calls()
        if content is not None:
            await self._add_user(content, mail)
        elif not self.is_interrupted:
            raise ToolError(
                "invalid_request",
                "The session was not interrupted, so there is nothing to continue.",
                suggestion="Pass a prompt.",
            )
        while True:
            response = await self._turn()
            parts = response.tool_calls
            if parts:
                await self._perform(parts)
                continue
            text = response.text or ""
            answer = await self._fire("stop")
            if answer is None or answer.decision != "deny":
                return await self._after_message(text)
            await self._add_user(f"A hook of the user says that you are not done: {answer.reason}")

    async def _start(self) -> None:
        """Fire the hooks of a session's start, and read the project's instructions."""
        if self._has_started:
            return
        self._has_started = True
        records = self._transcript.records() if self._steps is not None else []
        if self._steps is not None and len(records) == 1:

            async def work() -> Record:
                return records[0]

            await self._steps.run("session", work)
        answer = await self._fire("session_start", arguments={"model": self.model.name})
        if answer is not None and answer.decision == "stop":
            raise _blocked("session_start", answer)
        await self._read_project()

    async def _read_project(self) -> None:
        """Read the project's instructions and the names of skills, and report unused files."""
        self._project = project = await self._offload(lambda: read_project(self.runtime))
        for reason in project.instructions.unused:
            self._emit(Notice(reason))

    async def _turn(self) -> ModelResponse:
        """Make one request, and return the answer once it is in the transcript."""
        self._check_stopped()
        self._budget.take_turn()
        await self._check_cost()
        await self._compact_if_needed()
        request = await self._before_request(await self.prompt())
        try:
            return await self._answer(request)
        except ModelFault as fault:
            if not fault.too_long or not await self._compact("", automatic=True, needed=True):
                raise _model_error(fault) from fault
            try:
                return await self._answer(await self._before_request(await self.prompt()))
            except ModelFault as again:
                raise _model_error(again) from again

    async def _answer(self, request: ModelInput) -> ModelResponse:
        """Make one request, as a step."""
        answers: list[ModelResponse] = []
        failures: list[ModelFault | ToolError] = []

        async def work() -> Record:
            try:
                response, cost = await self._ask(request)
                response = await self._after_response(_with_unique_ids(response, self._call_ids))
                self._check_stopped()
            except (ModelFault, ToolError) as failure:
                failures.append(failure)
                return {}
            answers.append(response)
            costs = {} if cost is None else {"cost": cost}
            return self._transcript.record("answer", **answer_record(response), **costs)

        record = await (work() if self._steps is None else self._steps.run("model turn", work))
        if failures:
            raise failures[0]
        self.messages.append(answers[0])
        self._transcript.write(record)
        return answers[0]

    async def _ask(self, request: ModelInput) -> tuple[ModelResponse, float | None]:
        response = await self._interruptible(ask(self.model, request, self._emit, self._clock))
        self.size.answered(response, len(self.messages) + 1)
        return response, await self._count(response.usage)

    async def _count(self, usage: RequestUsage) -> float | None:
        """Count the tokens of a request; return its cost in dollars, None if it is unknown."""
        self._budget.spend(usage.input_tokens + usage.output_tokens)
        meter = self._meter
        cost = None if meter is None else await self._offload(lambda: meter.add(usage))
        context = self.size.of(self.messages), self.model.context_tokens
        self._emit(TokensUsed(usage.input_tokens, usage.output_tokens, cost, *context))
        return cost

    async def _check_cost(self) -> None:
        if self._meter is not None:
            await self._offload(self._meter.check)

    async def _perform(self, parts: Sequence[ToolCallPart]) -> None:
        """Run the calls of an answer; each result is in the transcript as soon as it comes."""
        calls = made_calls(parts)
        for call in calls:
            self._emit(CallStarted(call.id, call.tool, call.args))
        results: dict[int, ToolReturnPart] = {}
        self._guard.begin_turn()
        stop_error: ToolError | None = None

        def finished(save: Callable[[MadeCall, Record], None], call: MadeCall, result: Result) -> None:
            nonlocal stop_error
            repetition = None
            if result.error is None or result.error.code != "cancelled":
                polls = call.tool in self._tools and self._tools[call.tool].traits.polls
                repetition = self._guard.add(call.place, call.tool, call.args, result, polls=polls)
            if repetition is not None and repetition.times >= END_AT:
                stop_error = ToolError(
                    "loop_detected",
                    f"{call.tool} was called {repetition.times} times in a row with the same result.",
                )
            part = result_part(call, result, self._marks, "" if repetition is None else repetition.hint)
            results[call.place] = part
            record = self._transcript.record("result", **result_record(part))
            save(call, record)
            self._emit(CallFinished(call.id, call.tool, result))
            if result.error is not None and result.error.code in _MISSING_APPROVALS:
                self._unapproved = True
            stop_error = stop_error or _stopped_by_hook(result)
            if call.tool in self._tools and self._tools[call.tool].traits.sets_mode:
                self._forget_tools()

        try:
            if self._steps is None:
                await self._calls.run(calls, partial(finished, lambda call, record: self._transcript.write(record)))
            else:
                run = lambda save: self._calls.run(calls, partial(finished, save))  # noqa: E731
                await run_calls(self._steps, calls, run, self._transcript.write)
        finally:
            if results:
                self.messages.append(ModelRequest(parts=[results[place] for place in sorted(results)]))
        self._check_stopped()
        if stop_error is not None:
            raise stop_error

    async def _settle_calls(self) -> None:
        """Add a result to each call that has none because hilt was killed before it was recorded."""
        last = self.messages[-1] if self.messages else None
        answered = {part.tool_call_id for part in last.parts if isinstance(part, ToolReturnPart)} if last else set()
        response = self.messages[-2] if answered and len(self.messages) > 1 else last
        if not isinstance(response, ModelResponse):
            return
        parts, repeated = [], []
        for call, part in zip(made_calls(response.tool_calls), response.tool_calls, strict=True):
            if call.id in answered:
                continue
            settle = self._settle or _unknown
            result = await self._offload(partial(settle, call))
            if result is None:
                repeated.append(part)
                continue
            parts.append(result_part(call, result, self._marks))
            await self._save("result", **result_record(parts[-1]))
            self._emit(CallFinished(call.id, call.tool, result))
        if answered and isinstance(last, ModelRequest):
            last.parts = [*last.parts, *parts]
        elif parts:
            last = ModelRequest(parts=parts)
            self.messages.append(last)
        if repeated:
            await self._list_tools()
            await self._perform(repeated)
            results = self.messages[-1]
            if isinstance(last, ModelRequest) and isinstance(results, ModelRequest) and results is not last:
                last.parts = [*last.parts, *results.parts]  # the results of a turn are one message
                self.messages.pop()

    async def _add_user(self, content: Content, mail: int = 0) -> None:
        self.messages.append(ModelRequest(parts=[UserPromptPart(content)]))
        await self._save("user", content=content_record(content), **({"mail": mail} if mail else {}))

    async def _save(self, kind: str, **fields: Any) -> None:
        """Write a record to the transcript, and store it as a step."""
        record = self._transcript.record(kind, **fields)
        if self._steps is not None:

            async def work() -> Record:
                return record

            await self._steps.run(kind, work)
        self._transcript.write(record)

    # --- what is sent -------------------------------------------------------------------------------------------------

    def _forget_tools(self) -> None:
        self._offered = None

    async def _list_tools(self) -> list[ListedTool]:
        if self._offered is None:
            self._offered = await self._offload(
                lambda: self.runtime.authority.listed_tools(self.session, client_asks=self._asks_person)
            )
            self._tools = {tool.name: tool.tool for tool in self._offered}
            characters = sum(len(str(tool.schema)) + len(tool.description) for tool in self._offered)
            self._schema_tokens = characters // CHARACTERS_PER_TOKEN
        return self._offered

    # --- compaction ---------------------------------------------------------------------------------------------------

    def _plan_compaction(self, focus: str) -> str:
        self._focus = focus
        return "The conversation will be compacted before your next answer."

    async def _compact_if_needed(self) -> None:
        if self._focus is not None:
            focus, self._focus = self._focus, None
            await self._compact(focus, automatic=False)
            return
        await self._list_tools()
        if self.size.of(self.messages, self._schema_tokens) >= self.model.context_tokens * compaction.FULL:
            await self._compact("", automatic=True)

    async def _compact(self, focus: str, *, automatic: bool, needed: bool = False) -> bool:
        """Compact the messages, `needed` if the model has rejected them as too long; return whether they changed."""
        before = await self._fire("pre_compact", arguments={"focus": focus, "automatic": automatic})
        if before is not None:
            if before.decision == "stop":
                raise _blocked("pre_compact", before)
            if before.decision is not None and before.decision != "allow":
                self._emit(Notice(f"Not compacted: {before.reason}", "compaction"))
                return False
            changed = before.arguments if isinstance(before.arguments, dict) else {}
            focus = str(changed.get("focus", focus))
        await self._list_tools()
        path = await self._offload(self._save_readable)
        estimate, context = self.size.estimate(self.messages), self.model.context_tokens
        # the provider may count more tokens than the estimate
        ratio = min(1.0, estimate / max(1, self.size.of(self.messages)))
        plan = compaction.plan(
            self.messages,
            room=int(context * compaction.TARGET * ratio),
            path=path,
            lasting=lambda tool: self._tools[tool].traits.lasting if tool in self._tools else "",
            summarise=not automatic or needed,
        )
        if plan is None:
            self._emit(Notice("Nothing to compact.", "compaction"))
            return False
        messages = plan.messages
        if plan.old:
            room = int(context * compaction.QUOTED * ratio)
            request = compaction.request(plan.old, focus, self._marks, room)
            try:
                response = await self._interruptible(ask(self.model, request, _no_text(self._emit), self._clock))
            except ModelFault as fault:
                self._emit(Notice(f"Not compacted: {fault.message}", "compaction"))
                return False
            await self._count(response.usage)
            summary = (response.text or "").strip()
            if not summary:
                self._emit(Notice("Not compacted: the model's summary is empty.", "compaction"))
                return False
            messages = compaction.joined(plan, summary)
        sizes = estimate, self.size.estimate(messages)
        await self._save("compacted", records=compaction.records_of(messages))
        self.messages = messages
        self.size = ContextSize(messages)
        self._emit(Notice(f"Compacted: about {sizes[0]:,} tokens became {sizes[1]:,}.", "compaction"))
        after = await self._fire("post_compact", result={"tokens_before": sizes[0], "tokens_after": sizes[1]})
        if after is not None and after.decision in ("deny", "stop"):
            raise _blocked("post_compact", after)
        return True

    def _save_readable(self) -> str | None:
        """Save the whole transcript as Markdown where `read_file` can open it; return its path."""
        from hilt.agents.reading import as_markdown

        return self.runtime.keep_text(as_markdown(self._transcript.records()), "transcript.md")

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def _fire(self, event: str, *, arguments: Json = None, result: Json = None) -> EventResult | None:
        if not self.runtime.authority.has_hooks(self.session):
            return None
        fence = self._fence
        try:
            return await self._offload(
                lambda: self.runtime.fire(event, arguments=arguments, result=result, fence=fence)
            )
        except ToolError:
            self._check_stopped()
            raise

    async def _before_message(self, content: Content) -> Content:
        text = content if isinstance(content, str) else "\n".join(item for item in content if isinstance(item, str))
        answer = await self._fire("pre_send_message", arguments={"message": text})
        if answer is None:
            return content
        if answer.decision not in (None, "allow"):
            raise _blocked("pre_send_message", answer)
        changed = answer.arguments.get("message") if isinstance(answer.arguments, dict) else None
        if isinstance(changed, str) and changed != text:
            others = [] if isinstance(content, str) else [item for item in content if not isinstance(item, str)]
            content = [changed, *others] if others else changed
        if answer.context:
            content = [*([content] if isinstance(content, str) else content), answer.context]
        return content

    async def _before_request(self, request: ModelInput) -> ModelInput:
        if not self.runtime.authority.has_hooks(self.session):
            return request
        arguments = {"model": self.model.name, "system": request.system, "messages": len(request.messages)}
        answer = await self._fire("pre_llm_request", arguments=arguments)
        if answer is None:
            return request
        if answer.decision not in (None, "allow"):
            raise _blocked("pre_llm_request", answer)
        changed = answer.arguments if isinstance(answer.arguments, dict) else {}
        system = str(changed.get("system", request.system))
        return request._replace(system=f"{system}\n\n{answer.context}" if answer.context else system)

    async def _after_response(self, response: ModelResponse) -> ModelResponse:
        if not self.runtime.authority.has_hooks(self.session):
            return response
        calls = [{"id": call.id, "tool": call.tool, "arguments": call.args} for call in made_calls(response.tool_calls)]
        result = {"text": response.text or "", "tool_calls": calls}
        answer = await self._fire("post_llm_response", result=result)
        if answer is None:
            return response
        if answer.decision not in (None, "allow"):
            raise _blocked("post_llm_response", answer)
        text = answer.result.get("text") if isinstance(answer.result, dict) else answer.result
        if not isinstance(text, str) or text == result["text"]:
            return response
        others = [part for part in response.parts if not isinstance(part, TextPart)]
        return replace(response, parts=[TextPart(text), *others])

    async def _after_message(self, text: str) -> str:
        answer = await self._fire("post_send_message", result=text)
        if answer is None:
            return text
        if answer.decision not in (None, "allow"):
            raise _blocked("post_send_message", answer)
        return answer.result if isinstance(answer.result, str) else text

    # --- interruption -------------------------------------------------------------------------------------------------

    def _begin(self) -> asyncio.AbstractEventLoop:
        """Begin something that `cancel` can end."""
        with self._lock:
            self._loop, self._stop, self._fence = asyncio.get_running_loop(), None, Fence()
        return self._loop

    def _end_turn(self, reason: ToolError) -> None:
        with self._lock:
            if self._stop is not None or self._loop is None:
                return
            self._stop = reason
        self._fence.cancel(ToolError("cancelled", "The turn was interrupted."))
        self._calls.stop()
        self._loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _check_stopped(self) -> None:
        if self._stop is not None:
            raise self._stop

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """Await work that `cancel` ends."""
        task = asyncio.ensure_future(work)
        self._task = task
        try:
            if self._stop is not None:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            self._check_stopped()
            raise
        finally:
            self._task = None

    async def _offload(self, work: Callable[[], T]) -> T:
        """Run blocking work on another thread."""
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def _last_text(self) -> str:
        for message in reversed(self.messages):
            if isinstance(message, ModelResponse):
                return message.text or ""
        return ""


def _unknown(call: MadeCall) -> Result:
    """Return the result of a call that may have run."""
    return Result(
        error=ToolError(
            "outcome_unknown",
            f"hilt was stopped before the result of this call of {call.tool} was recorded; it may have run.",
        )
    )


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


def _blocked(event: str, answer: EventResult) -> ToolError:
    reason = answer.reason or f"its decision is {answer.decision}"
    return ToolError("hook_blocked", f"A hook of {event} ended the run: {reason}", event=event)


def _model_error(fault: ModelFault) -> ToolError:
    return ToolError("model_error", fault.message, suggestion=fault.suggestion)


def _no_text(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return an `emit` that only passes notices: a summary is not part of the answer."""
    return lambda event: emit(event) if isinstance(event, Notice) else None


def _with_unique_ids(response: ModelResponse, used: set[str]) -> ModelResponse:
    """Return the answer with call ids that are not yet `used`, and add them; some servers repeat ids."""
    parts = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            id, count = part.tool_call_id, 1
            while id in used:
                count += 1
                id = f"{part.tool_call_id}-{count}"
            used.add(id)
            part = part if id == part.tool_call_id else replace(part, tool_call_id=id)
        parts.append(part)
    return replace(response, parts=parts)
