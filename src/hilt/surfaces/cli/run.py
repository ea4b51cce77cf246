"""`hilt run`: give a model one task, and let it work with the tools until it is done."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hilt.desk import conversations
from hilt.desk.conversations import MAX_TURNS, RunLimits, TypedPrompt, new_id
from hilt.errors import ToolError
from hilt.output import run_events as events
from hilt.output.advice import next_step
from hilt.output.terminal import inert
from hilt.surfaces import Usage
from hilt.surfaces.cli.parsing import Namespace, Options, Parser, integer
from hilt.surfaces.cli.person import person
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.oneshot import ENDING_SECONDS
from hilt.surfaces.opening import open_runtime

if TYPE_CHECKING:
    from hilt.desk.conversations import Conversation

_BRIEF_CHARACTERS = 100
_MESSAGE_CHARACTERS = 300
_LIMIT_MAX = 10**15  # of requests or tokens
_PROMPT_BYTES = 16 << 20  # of standard input


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """The model calls tools, reads their results and continues until it is done. Its calls go through
the same permissions, sandbox, undo and audit as any other. Standard input, unless it is a terminal, is appended to the
prompt. Without a terminal, standard output is the last message, and everything else goes to standard error.

Exit status: 0 done, 1 failed, 2 invalid usage or no model, 3 a limit was reached, 4 an approval is missing, 130
interrupted."""
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="The task")
    add_model_options(
        parser, "Continue a session, by default the newest; without a prompt, resume where it was interrupted"
    )
    parser.add_argument("--agent", metavar="NAME", help="Run as this agent, with its prompt and only its tools")
    parser.add_argument(
        "--durable", action="store_true", help="Run it as an agent that another process resumes if this one is killed"
    )
    parser.add_argument("--json", action="store_true", help="Print one event per line as JSON")
    parser.add_argument("--show-prompt", action="store_true", help="Print what would be sent, without sending it")
    limits = (
        ("--max-turns", MAX_TURNS, f"Maximum number of model requests ({MAX_TURNS})"),
        ("--max-tokens", None, "Maximum number of tokens, input and output combined"),
    )
    for name, default, help in limits:
        parser.add_argument(name, metavar="N", type=integer(name, 1, _LIMIT_MAX), default=default, help=help)
    parser.add_argument("--max-seconds", metavar="N", type=_seconds, help="Maximum duration in seconds")
    parser.examples = [
        ("hilt run 'Why does the test in tests/test_api.py fail?'", "Give it a task"),
        ("git diff | hilt run 'Review this change' --mode plan", "Let it read, but change nothing"),
        ("hilt run --continue", "Resume after an interruption"),
        ("hilt run --durable 'Update all docs'", "Let another process resume it if this one is killed"),
        ("hilt run 'Update the changelog' --json --max-turns 20", "Run it from a program"),
    ]


def add_model_options(parser: Parser, continued: str) -> None:
    """Declare the options that name the model and the session; `continued` is the help of --continue."""
    parser.add_argument("--model", metavar="NAME", help="The model, as PROVIDER:MODEL")
    parser.add_argument("--base-url", metavar="URL", help="The URL of its server")
    parser.add_argument("--agent-command", metavar="CMD", help="A program that reads the prompt and prints the answer")
    parser.add_argument("--continue", dest="continued", metavar="ID", nargs="?", const="", help=continued)


def model_settings(arguments: Namespace) -> dict[str, str]:
    """Return the settings that the options name."""
    overrides = {"model.name": arguments.model, "model.base_url": arguments.base_url}
    return {name: value for name, value in overrides.items() if value is not None}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e9:
        raise Usage(f"a limit must be a positive number of seconds, not {text[:100]!r}")
    return seconds


def _run(options: Options, arguments: Namespace) -> int:
    prompt = TypedPrompt(arguments.prompt or "", _standard_input())
    if not "".join(prompt).strip() and arguments.continued is None and not arguments.show_prompt:
        raise Usage("hilt run needs a prompt")
    if arguments.durable and (arguments.continued is not None or arguments.agent_command):
        raise Usage("--durable cannot be combined with --continue or --agent-command")
    wait = Waiting("working")
    wait.is_held = arguments.json
    printer = JsonPrinter() if arguments.json else Printer(wait)
    try:
        run = _durably if arguments.durable and not arguments.show_prompt else _in_session
        with wait:
            status = run(options, arguments, prompt, printer.show, person(wait.paused))
    except ToolError as error:
        if error.code not in ("no_model", "runtime_missing") and not arguments.json:
            raise
        status = events.USAGE if error.code in ("no_model", "runtime_missing") else events.FAILED
        printer.show(events.RunEnded(status, "", error=error))
    printer.close()
    # threads that wait for a person or a program must not hold up the exit
    os._exit(status)


def _in_session(
    options: Options,
    arguments: Namespace,
    prompt: TypedPrompt,
    emit: Callable[[events.Event], None],
    people: dict[str, Any],
) -> int:
    settings = model_settings(arguments)
    agent = arguments.agent or ""
    if arguments.continued is None:
        session = options.get("session") or new_id()
    else:
        with open_runtime(options) as runtime:
            continued = conversations.earlier(runtime, arguments.continued, may_be_prompt=arguments.prompt is None)
        session = continued.session
        prompt = prompt._replace(typed=continued.prompt or prompt.typed)
        agent = agent or continued.agent
    gc.disable()  # imports create no garbage worth collecting
    options = {**options, "session": session}
    role = conversations.RunRole()
    if agent:
        with open_runtime(options) as runtime:
            role = conversations.role(runtime, agent, own_model=arguments.model is None)
    with open_runtime({**options, **role.options}, settings={**role.settings, **settings}, **people) as runtime:
        if arguments.show_prompt:
            sent = conversations.preview(runtime, prompt, role, asks_person="asker" in people)
            text = json.dumps(sent._asdict(), ensure_ascii=False) if arguments.json else sent.as_text()
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            return events.DONE
        turns = min(arguments.max_turns, role.turns or arguments.max_turns)
        conversation = conversations.converse(
            runtime,
            emit,
            title=prompt.title,
            is_new=arguments.continued is None,
            program=arguments.agent_command,
            limits=RunLimits(turns, arguments.max_tokens, arguments.max_seconds),
            asks_person="asker" in people,
            role=role,
        )
        try:
            import asyncio

            gc.freeze()
            gc.enable()
            return asyncio.run(_send(conversation, prompt)).status
        finally:
            runtime.give_up(ENDING_SECONDS)


def _durably(
    options: Options,
    arguments: Namespace,
    prompt: TypedPrompt,
    emit: Callable[[events.Event], None],
    people: dict[str, Any],
) -> int:
    """Run the task in this process, as a durable agent."""
    import signal
    import threading

    options = {**options, "session": options.get("session") or new_id()}
    with open_runtime(options, settings=model_settings(arguments), **people) as runtime:
        try:
            run = conversations.DurableRun(
                runtime,
                prompt,
                emit,
                agent=arguments.agent or "",
                limits=RunLimits(arguments.max_turns, arguments.max_tokens, arguments.max_seconds),
                asks_person="asker" in people,
            )
        except conversations.ImagesRefused:
            raise Usage("--durable cannot send images: let the agent read them with read_file") from None
        is_handed_over = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: run.cancel())
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: is_handed_over.set())
        status = run.run(is_handed_over.is_set).status
        runtime.give_up(ENDING_SECONDS)
        return status


async def _send(conversation: Conversation, prompt: TypedPrompt) -> events.RunEnded:
    """Send the prompt; the first signal interrupts the turn, the second ends the process."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        conversation.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt)
    try:
        return await conversations.send(conversation, prompt)
    finally:
        await conversation.close()


def _standard_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    data = sys.stdin.buffer.read(_PROMPT_BYTES + 1)
    if len(data) > _PROMPT_BYTES:
        raise Usage(f"standard input is longer than {_PROMPT_BYTES >> 20} MB")
    return data.decode("utf-8", "replace").strip("\n")


class JsonPrinter:
    """Prints events for programs; notices go to standard error."""

    def show(self, event: events.Event) -> None:
        """Print one event."""
        if isinstance(event, events.Notice):
            sys.stderr.write(f"{event.text}\n")
        data = events.as_json(event)
        if data is not None:
            sys.stdout.write(json.dumps(data, ensure_ascii=False, default=repr) + "\n")
            sys.stdout.flush()

    def close(self) -> None:
        """Send what was written."""
        sys.stdout.flush()


class Printer:
    """Prints events for a person: the answer as it streams on a terminal, only the last message elsewhere."""

    def __init__(self, wait: Waiting) -> None:
        self._wait = wait
        self._streams = sys.stdout.isatty()
        self._at_start = True  # of a line

    def show(self, event: events.Event) -> None:
        """Print one event."""
        match event:
            case events.TextPiece(text, restart):
                if self._streams:
                    if restart:
                        self._line("(starting over)")
                    self._write(text)
            case events.CallStarted(_, tool, args):
                self._line(f"• {_brief(tool)} {_brief(args)}")
            case events.CallFinished(_, tool, result) if result.error is not None:
                self._line(
                    f"  {_brief(tool)}: {result.error.code}: {_brief(result.error.message, _MESSAGE_CHARACTERS)}"
                )
            case events.Notice(text):
                self._line(text)
            case events.RunEnded(_, session, text, error):
                self._end(session, text, error)

    def _end(self, session: str, text: str, error: ToolError | None) -> None:
        if not self._streams and text and error is None:
            self._write(text)
        if not self._at_start:
            self._write("\n")
        if error is not None:
            self._line(f"{error.code}: {error.message}")
            self._line(next_step(error))
        if session:
            self._line(f"session {session}")

    def _write(self, text: str) -> None:
        self._wait.clear()
        sys.stdout.write(inert(text) if self._streams else text)
        sys.stdout.flush()
        self._at_start = text.endswith("\n") if text else self._at_start
        self._wait.is_held = not self._at_start

    def _line(self, text: str) -> None:
        self._wait.clear()
        if self._streams and not self._at_start:
            self._write("\n")
        sys.stderr.write(f"{inert(text)}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Send what was written."""
        sys.stdout.flush()


def _brief(args: dict[str, Any] | str, limit: int = _BRIEF_CHARACTERS) -> str:
    """Return arguments or a text on one short line, so that it cannot pass for another line."""
    text = args if isinstance(args, str) else ", ".join(f"{name}={value!r}" for name, value in args.items())
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
