"""Completion with Tab: commands, their arguments, and references to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hilt.desk.conversations import complete
from hilt.formats.invisible import one_line
from hilt.surfaces.chat.slash_commands import COMMANDS

if TYPE_CHECKING:
    from hilt.surfaces.chat.chat import Chat


class ChatCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions of the word."""
        text = document.text_before_cursor
        word = text.rpartition("\n")[2].rpartition(" ")[2]
        for candidate in self._candidates(text, word):
            # a file name may contain anything
            yield Completion(candidate, -len(word), display=one_line(candidate))

    def _candidates(self, text: str, word: str) -> Iterator[str]:
        if text.startswith("/") and " " not in text:
            yield from (f"/{name}" for name in COMMANDS if f"/{name}".startswith(word))
        elif text.startswith("/"):
            name = text[1:].partition(" ")[0]
            if name in COMMANDS:
                yield from (value for value in COMMANDS[name].complete(self._chat) if value.startswith(word))
        if word.startswith("@"):
            yield from complete(self._chat.runtime, word)
