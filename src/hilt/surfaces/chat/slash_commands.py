"""The commands of the chat: lines that begin with a slash. Completion with Tab, also of references to files."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hilt.desk import sessions, skills, usage
from hilt.desk.conversations import complete
from hilt.desk.sessions import MODES, find_mode
from hilt.errors import ToolError, did_you_mean
from hilt.formats.invisible import one_line
from hilt.formats.numbers import dollars, thousands

if TYPE_CHECKING:
    from hilt.surfaces.chat.chat import Chat

_NAME = re.compile(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)
_SESSIONS_SHOWN = 15

_KEYS = """\
Enter             send
Alt-Enter         new line; also \\ before Enter
Ctrl-C            stop the turn; twice: leave
Ctrl-D            leave
Ctrl-O            open the last call; again: the one before it
Tab               complete
Up, Down, Ctrl-R  input history
@file:PATH        a file or folder; @file:PATH:10-40 for some lines
@skill:NAME       a skill; for a command, @command:NAME"""


class SlashCommand(NamedTuple):
    """A command: its usage and summary, and how to complete its argument."""

    usage: str
    summary: str
    run: Callable[[Chat, str], Awaitable[None]]
    complete: Callable[[Chat], list[str]] = lambda chat: []


def parse(line: str) -> tuple[str, str] | None:
    """Return the name and the argument of a command; None for a message, such as one that begins with a path."""
    match = _NAME.fullmatch(line.strip())
    return (match[1], (match[2] or "").strip()) if match else None


def find(name: str) -> SlashCommand:
    """Return a command by its name."""
    if name in COMMANDS:
        return COMMANDS[name]
    near = did_you_mean(name, COMMANDS)
    advice = f"Did you mean /{near}?" if near else "/help lists the commands. Ctrl-D leaves the chat."
    raise ToolError("invalid_request", f"There is no command /{name}.", suggestion=advice)


async def _mode(chat: Chat, argument: str) -> None:
    if not argument:
        chat.tell(f"The mode is {chat.mode}. Modes: {', '.join(MODES)}.")
        return
    await chat.set_mode(find_mode(argument))
    chat.tell(f"The mode is now {chat.mode}.")


async def _model(chat: Chat, argument: str) -> None:
    if not argument:
        chat.tell(f"The model is {chat.model}. To change it: /model PROVIDER:MODEL [BASE_URL]")
        return
    name, _, base_url = argument.partition(" ")
    await chat.set_model(name, base_url.strip() or None)
    chat.tell(f"The model is now {chat.model}.")


async def _tools(chat: Chat, argument: str) -> None:
    tools = await chat.tools()
    matches = [tool for tool in tools if argument.casefold() in f"{tool.name} {tool.description}".casefold()]
    width = max((len(tool.name) for tool in matches), default=0)
    lines = [f"{tool.name:<{width}}  {one_line(tool.description.partition(chr(10))[0])}" for tool in matches]
    chat.tell("\n".join([*lines, f"{len(matches)} of {len(tools)} tools"]))


async def _undo(chat: Chat, argument: str) -> None:
    newest = await chat.call("undo", action="list", limit=1)
    changes = newest.data["snapshots"] if newest.data else []
    if not changes:
        chat.tell("No changes are recorded for this folder.")
        return
    id = argument or changes[0]["id"]
    chat.show(await chat.call("undo", action="preview", id=id))
    if await chat.confirm(f"Undo {one_line(id)}? [y/n] "):
        chat.tell((await chat.call("undo", action="restore", id=id)).result)
    else:
        chat.tell("Nothing was undone.")


async def _tasks(chat: Chat, argument: str) -> None:
    chat.show(await chat.call("task", action="list"))


async def _skills(chat: Chat, argument: str) -> None:
    lines = [f"{skill.name}  {one_line(skill.description)}" for skill in skills.contents(chat.runtime).skills.values()]
    chat.tell("\n".join([*lines, f"{len(lines)} skills. To use one: @skill:NAME in a message."]))


async def _compact(chat: Chat, argument: str) -> None:
    await chat.compact(argument)


async def _resume(chat: Chat, argument: str) -> None:
    stored = sessions.transcripts(chat.runtime)
    if argument:
        chosen = int(argument) - 1 if argument.isdecimal() and len(argument) < 4 else None
        is_number = chosen is not None and 0 <= chosen < len(stored)
        await chat.resume(stored[chosen].id if chosen is not None and is_number else argument)
        return
    lines = []
    for number, session in enumerate(stored[:_SESSIONS_SHOWN], 1):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.changed / 1e9))
        mark = "*" if session.id == chat.runtime.session else " "
        lines.append(f"{mark}{number:>3}  {session.id}  {when}  {one_line(session.title or '')}")
    advice = "To continue one: /resume NUMBER or ID" if stored else "There is no earlier session in this folder."
    chat.tell("\n".join([*lines, advice]))


async def _cost(chat: Chat, argument: str) -> None:
    totals = chat.scene.totals
    cost = dollars(totals.cost if totals.requests > totals.unpriced else None if totals.unpriced else 0.0)
    unknown = f" ({_number(totals.unpriced)} without a known price)" if totals.unpriced else ""
    tokens = f"{thousands(totals.input_tokens)} tokens in, {thousands(totals.output_tokens)} out"
    lines = [f"This chat: {_number(totals.requests)}, {tokens}, cost {cost}{unknown}"]
    for spent in usage.today(chat.runtime):
        price = "unknown" if spent.unpriced == spent.requests else dollars(spent.cost)
        tokens = f"{thousands(spent.input_tokens)} tokens in, {thousands(spent.output_tokens)} out"
        lines.append(f"Today, {spent.model}: {_number(spent.requests)}, {tokens}, cost {price}")
    limit = chat.runtime.settings["agents.max_cost_day"]
    if limit is not None:
        lines.append(f"Limit per day: ${limit:g} (agents.max_cost_day)")
    chat.tell("\n".join(lines))


def _number(requests: int) -> str:
    return f"{requests} request{'s' * (requests != 1)}"


async def _help(chat: Chat, argument: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"{command.usage:<{width}}  {command.summary}" for command in COMMANDS.values()]
    chat.tell("\n".join([*lines, "", _KEYS]))


COMMANDS: dict[str, SlashCommand] = {
    "mode": SlashCommand("/mode [MODE]", "Show or change the mode", _mode, lambda chat: list(MODES)),
    "model": SlashCommand("/model [NAME] [URL]", "Show or change the model", _model),
    "tools": SlashCommand("/tools [TEXT]", "List the tools of the model", _tools),
    "undo": SlashCommand("/undo [ID]", "Show the last file change, and undo it", _undo),
    "tasks": SlashCommand("/tasks", "List the task board", _tasks),
    "skills": SlashCommand("/skills", "List skills", _skills),
    "compact": SlashCommand("/compact [FOCUS]", "Shorten the conversation", _compact),
    "resume": SlashCommand(
        "/resume [ID]",
        "List earlier sessions, or continue one",
        _resume,
        lambda chat: [session.id for session in sessions.transcripts(chat.runtime)[:_SESSIONS_SHOWN]],
    ),
    "cost": SlashCommand("/cost", "Show tokens and costs", _cost),
    "help": SlashCommand("/help", "Show this help", _help),
}


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
