"""The size of a conversation in tokens: the provider's count plus an estimate for later messages, or if that is more,
an estimate of all that is sent: some providers count little or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1500
MESSAGE_TOKENS = 4


class ContextSize:
    """The size of one conversation."""

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        self._counted = 0  # tokens that the provider counted
        self._counted_messages = 0
        for number, message in enumerate(messages, 1):
            if isinstance(message, ModelResponse) and message.usage.input_tokens:
                self.answered(message, number)

    def answered(self, response: ModelResponse, number: int) -> None:
        """Use the provider's token count for an answer; `number` is its position among the messages, from 1."""
        self._counted, self._counted_messages = response.usage.input_tokens + response.usage.output_tokens, number

    def of(self, messages: Sequence[ModelMessage], overhead: int = 0) -> int:
        """Return the tokens of the messages; `overhead` is the estimate for the rest of a request."""
        counted = self._counted + self.estimate(messages[self._counted_messages :])
        return max(counted, overhead + self.estimate(messages))

    @staticmethod
    def estimate(messages: Iterable[ModelMessage]) -> int:
        """Return an estimate of the tokens of the messages."""
        return sum(MESSAGE_TOKENS + sum(map(_tokens, message.parts)) for message in messages)


def _tokens(part: object) -> int:
    match part:
        case TextPart(content=text) | ThinkingPart(content=text):
            return len(text) // CHARACTERS_PER_TOKEN
        case ToolCallPart(tool_name=name, args=args):
            return (len(name) + len(args if isinstance(args, str) else str(args or ""))) // CHARACTERS_PER_TOKEN
        case ToolReturnPart(content=content) | UserPromptPart(content=content):
            items = [content] if isinstance(content, str) else content if isinstance(content, list | tuple) else []
            return sum(
                IMAGE_TOKENS if isinstance(item, BinaryContent) else len(str(item)) // CHARACTERS_PER_TOKEN
                for item in items
            )
    return 0
