"""The user's hooks of a conversation: each may change what its event is about, or end the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelResponse, TextPart

from hilt.agents.calls import made_calls
from hilt.agents.interruption import Interruption, offload
from hilt.agents.messages import Content
from hilt.agents.model import ModelInput
from hilt.call import Json
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.hooks import EventResult
    from hilt.runtime import Runtime


class LoopHooks:
    """Fires the events of one conversation."""

    def __init__(self, runtime: Runtime, interruption: Interruption) -> None:
        self._runtime = runtime
        self._interruption = interruption

    async def session_start(self, model: str) -> None:
        """Fire the start of a session; raise if a hook stops the run."""
        answer = await self._fire("session_start", arguments={"model": model})
        if answer is not None and answer.decision == "stop":
            raise _blocked("session_start", answer)

    async def session_end(self) -> None:
        """Fire the end of a session."""
        await offload(lambda: self._runtime.fire("session_end"))

    async def before_message(self, content: Content) -> Content:
        """Return the user's message as hooks have changed it."""
        text = content if isinstance(content, str) else "\n".join(item for item in content if isinstance(item, str))
        answer = await self._ask("pre_send_message", arguments={"message": text})
        if answer is None:
            return content
        changed = answer.arguments.get("message") if isinstance(answer.arguments, dict) else None
        if isinstance(changed, str) and changed != text:
            others = [] if isinstance(content, str) else [item for item in content if not isinstance(item, str)]
            content = [changed, *others] if others else changed
        if answer.context:
            content = [*([content] if isinstance(content, str) else content), answer.context]
        return content

    async def after_message(self, text: str) -> str:
        """Return the last answer as hooks have changed it."""
        answer = await self._ask("post_send_message", result=text)
        return answer.result if answer is not None and isinstance(answer.result, str) else text

    async def before_request(self, model: str, request: ModelInput) -> ModelInput:
        """Return the request with the system prompt as hooks have changed it."""
        arguments = {"model": model, "system": request.system, "messages": len(request.messages)}
        answer = await self._ask("pre_llm_request", arguments=arguments)
        if answer is None:
            return request
        changed = answer.arguments if isinstance(answer.arguments, dict) else {}
        system = str(changed.get("system", request.system))
        return request._replace(system=f"{system}\n\n{answer.context}" if answer.context else system)

    async def after_response(self, response: ModelResponse) -> ModelResponse:
        """Return the model's answer with the text as hooks have changed it."""
        calls = [{"id": call.id, "tool": call.tool, "arguments": call.args} for call in made_calls(response.tool_calls)]
        result = {"text": response.text or "", "tool_calls": calls}
        answer = await self._ask("post_llm_response", result=result)
        if answer is None:
            return response
        text = answer.result.get("text") if isinstance(answer.result, dict) else answer.result
        if not isinstance(text, str) or text == result["text"]:
            return response
        others = [part for part in response.parts if not isinstance(part, TextPart)]
        return replace(response, parts=[TextPart(text), *others])

    async def objection(self) -> str | None:
        """Return why the model is not done, if a hook says so."""
        answer = await self._fire("stop")
        return answer.reason if answer is not None and answer.decision == "deny" else None

    async def before_compaction(self, focus: str, *, automatic: bool) -> tuple[str, str | None]:
        """Return the focus as hooks have changed it, and why not to compact."""
        answer = await self._fire("pre_compact", arguments={"focus": focus, "automatic": automatic})
        if answer is None:
            return focus, None
        if answer.decision == "stop":
            raise _blocked("pre_compact", answer)
        if answer.decision not in (None, "allow"):
            return focus, answer.reason
        changed = answer.arguments if isinstance(answer.arguments, dict) else {}
        return str(changed.get("focus", focus)), None

    async def after_compaction(self, sizes: Sequence[int]) -> None:
        """Fire the end of a compaction with the tokens before and after it."""
        before, after = sizes
        answer = await self._fire("post_compact", result={"tokens_before": before, "tokens_after": after})
        if answer is not None and answer.decision in ("deny", "stop"):
            raise _blocked("post_compact", answer)

    async def _ask(self, event: str, *, arguments: Json = None, result: Json = None) -> EventResult | None:
        """Fire an event; raise unless the hooks allow what it is about."""
        answer = await self._fire(event, arguments=arguments, result=result)
        if answer is not None and answer.decision not in (None, "allow"):
            raise _blocked(event, answer)
        return answer

    async def _fire(self, event: str, *, arguments: Json = None, result: Json = None) -> EventResult | None:
        runtime, fence = self._runtime, self._interruption.fence
        if not runtime.parts.authority.has_hooks(runtime.session):
            return None
        try:
            return await offload(lambda: runtime.fire(event, arguments=arguments, result=result, fence=fence))
        except ToolError:
            self._interruption.check()
            raise


def _blocked(event: str, answer: EventResult) -> ToolError:
    reason = answer.reason or f"its decision is {answer.decision}"
    return ToolError("hook_blocked", f"A hook of {event} ended the run: {reason}", event=event)
