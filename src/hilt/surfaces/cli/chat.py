"""`hilt chat`: talk with a model that works with the tools."""

from __future__ import annotations

import os
import sys
from typing import Any

from hilt.errors import ToolError
from hilt.installer import needs
from hilt.output.advice import next_step
from hilt.output.terminal import inert
from hilt.runtime import Runtime
from hilt.surfaces import Usage
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.run import add_model_options, model_settings
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import wants_color


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """The model calls tools, reads their results and continues until it is done. Its calls go through
the same permissions, sandbox, undo and audit as any other, and you approve them in place. You can type while it works.
Ctrl-C stops the turn; press it twice to leave. /help shows commands and keys."""
    add_model_options(parser, "Continue a session, by default the newest")
    parser.examples = [
        ("hilt chat", "Start a chat in this folder"),
        ("hilt chat --continue", "Continue the last session"),
        ("hilt chat --model openai:gpt-5 --mode plan", "Choose the model, and let it only read"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise Usage("hilt chat needs a terminal; hilt run works without one")
    if os.environ.get("TERM") in (None, "", "dumb", "unknown"):
        raise Usage(f"hilt chat cannot draw on this terminal (TERM={os.environ.get('TERM', '')}); use hilt run")
    try:
        status = _chat(options, arguments, model_settings(arguments))
    except ToolError as error:
        if error.code not in ("no_model", "runtime_missing"):
            raise
        sys.stderr.write(inert(f"{error.code}: {error.message}\n{next_step(error)}\n"))
        status = 2
    sys.stdout.flush()
    # threads that wait for a person or a program must not hold up the exit
    os._exit(status)


def _chat(options: Options, arguments: Namespace, settings: dict[str, Any]) -> int:
    import asyncio

    from hilt.desk import conversations

    session = options.get("session")
    with open_runtime(options, settings=settings) as runtime:
        conversations.model_name(
            runtime, arguments.agent_command
        )  # raises without a model, before anything slow is imported
        if arguments.continued is not None:
            session = conversations.earlier(runtime, arguments.continued, may_be_prompt=False).session
        history_path = os.path.join(runtime.parts.state, "chat", f"{runtime.parts.id}.history")
        redactor = conversations.redactor(runtime)

    def opened(session: str, **people: Any) -> Runtime:
        return open_runtime({**options, "session": session}, settings=settings, **people)

    with needs("agents", "hilt chat"):
        from hilt.surfaces.chat.chat import Chat, ChatOptions
        from hilt.surfaces.chat.input_line import HistoryFile

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    async def talk() -> None:
        history = HistoryFile(history_path, redactor.text)
        await Chat(ChatOptions(opened, arguments.agent_command, session, wants_color(), history)).run()

    asyncio.run(talk())
    return 0
