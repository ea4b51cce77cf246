"""The messages between user, model and tools: each is in the transcript before the next request is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from hilt.agents.calls import MadeCall, made_calls
from hilt.agents.context_size import ContextSize
from hilt.agents.messages import Content, answer_record, content_record, messages_of, records_of, result_record
from hilt.agents.model import ModelFault
from hilt.agents.steps import Steps
from hilt.agents.transcripts import Record, Transcript, current
from hilt.errors import ToolError


class UnansweredCall(NamedTuple):
    """A call of the last answer that has no result."""

    call: MadeCall
    part: ToolCallPart


class Dialogue:
    """The messages of one conversation, and its transcript."""

    def __init__(self, transcript: Transcript, steps: Steps) -> None:
        """Continue a transcript; `steps` keep each record until it is in there."""
        self._transcript = transcript
        self._steps = steps
        self.messages: list[ModelMessage] = messages_of(current(transcript.records()))
        self.size = ContextSize(self.messages)
        self._call_ids = {
            call.tool_call_id
            for message in self.messages
            if isinstance(message, ModelResponse)
            for call in message.tool_calls
        }

    @property
    def is_interrupted(self) -> bool:
        """Whether a turn is unfinished: the last message is not an answer without calls."""
        last = self.messages[-1] if self.messages else None
        return last is not None and (not isinstance(last, ModelResponse) or bool(last.tool_calls))

    @property
    def last_answer(self) -> str:
        """The text of the last answer."""
        for message in reversed(self.messages):
            if isinstance(message, ModelResponse):
                return message.text or ""
        return ""

    def count(self, response: ModelResponse) -> int:
        """Use the provider's token count of an answer that is about to be added; return the size in tokens."""
        self.size.answered(response, len(self.messages) + 1)
        return self.size.of(self.messages)

    def measure(self) -> None:
        """Measure the size again, for another model."""
        self.size = ContextSize(self.messages)

    def records(self) -> Sequence[Record]:
        """Return the whole transcript."""
        return self._transcript.records()

    async def begin(self) -> None:
        """Keep the first record of a new transcript as a step."""
        records = self._transcript.records()
        if len(records) == 1:
            await self._keep("session", records[0])

    async def add_user(self, content: Content, mail: int = 0) -> None:
        """Add a message of the user; `mail` is the number of the last message from other agents in it."""
        self.messages.append(ModelRequest(parts=[UserPromptPart(content)]))
        await self._save("user", content=content_record(content), **({"mail": mail} if mail else {}))

    async def add_answer(self, answer: Callable[[], Awaitable[tuple[ModelResponse, float | None]]]) -> ModelResponse:
        """Add the answer of the model, and what it cost in dollars, as one step."""
        answers: list[ModelResponse] = []
        failures: list[ModelFault | ToolError] = []

        async def work() -> Record:
            try:
                response, cost = await answer()
            except (ModelFault, ToolError) as failure:
                failures.append(failure)  # a step that fails would end a durable run
                return {}
            answers.append(response)
            costs = {} if cost is None else {"cost": cost}
            return self._transcript.record("answer", **answer_record(response), **costs)

        record = await self._steps.run("model turn", work)
        if failures:
            raise failures[0]
        self.messages.append(answers[0])
        self._transcript.write(record)
        return answers[0]

    def with_unique_ids(self, response: ModelResponse) -> ModelResponse:
        """Return an answer whose call ids no other call has; some servers repeat ids."""
        parts = []
        for part in response.parts:
            if isinstance(part, ToolCallPart):
                id, count = part.tool_call_id, 1
                while id in self._call_ids:
                    count += 1
                    id = f"{part.tool_call_id}-{count}"
                self._call_ids.add(id)
                part = part if id == part.tool_call_id else replace(part, tool_call_id=id)
            parts.append(part)
        return replace(response, parts=parts)

    async def run_calls(
        self, calls: Sequence[MadeCall], run: Callable[[Callable[[MadeCall, ToolReturnPart], None]], Awaitable[None]]
    ) -> None:
        """Run the calls of an answer; each result is in the transcript as soon as it comes."""
        results: dict[int, ToolReturnPart] = {}

        def run_steps(keep: Callable[[MadeCall, Record], None]) -> Awaitable[None]:
            def finished(call: MadeCall, part: ToolReturnPart) -> None:
                results[call.place] = part
                keep(call, self._transcript.record("result", **result_record(part)))

            return run(finished)

        try:
            await self._steps.run_calls(calls, run_steps, self._transcript.write)
        finally:
            if results:
                self._add_results([results[place] for place in sorted(results)])

    def unanswered_calls(self) -> list[UnansweredCall]:
        """Return the calls of the last answer that have no result, because hilt was killed before it was recorded."""
        last = self.messages[-1] if self.messages else None
        answered = _answered(last)
        response = self.messages[-2] if answered and len(self.messages) > 1 else last
        if not isinstance(response, ModelResponse):
            return []
        made = made_calls(response.tool_calls)
        calls = [UnansweredCall(call, part) for call, part in zip(made, response.tool_calls, strict=True)]
        return [call for call in calls if call.call.id not in answered]

    async def add_result(self, part: ToolReturnPart) -> None:
        """Add the result of an unanswered call."""
        await self._save("result", **result_record(part))
        self._add_results([part])

    async def replace(self, messages: list[ModelMessage]) -> None:
        """Replace all messages by shorter ones."""
        await self._save("compacted", records=records_of(messages))
        self.messages = messages
        self.size = ContextSize(messages)

    def end(self, status: int, error_code: str | None) -> None:
        """Record the end of a run."""
        self._transcript.append("ended", status=status, error_code=error_code)

    def close(self) -> None:
        """Close the transcript."""
        self._transcript.close()

    def _add_results(self, parts: list[ToolReturnPart]) -> None:
        last = self.messages[-1]
        if isinstance(last, ModelRequest) and _answered(last):
            last.parts = [*last.parts, *parts]  # the results of a turn are one message
        else:
            self.messages.append(ModelRequest(parts=parts))

    async def _save(self, kind: str, **fields: Any) -> None:
        record = self._transcript.record(kind, **fields)
        await self._keep(kind, record)
        self._transcript.write(record)

    async def _keep(self, kind: str, record: Record) -> None:
        async def work() -> Record:
            return record

        await self._steps.run(kind, work)


def _answered(message: ModelMessage | None) -> set[str]:
    """Return the ids of the calls whose results are in a message."""
    return {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)} if message else set()
