"""The command `hilt`: dispatches by the first word; each command's own imports stay inside it.

The way to the resident process comes first and imports nothing: a one-shot call that can be handed over is.
"""

from __future__ import annotations

import os
import sys

COMMANDS = (
    "approve",
    "audit",
    "call",
    "config",
    "deny",
    "doctor",
    "explain",
    "grants",
    "mcp",
    "resident",
    "session",
    "stats",
    "stdio",
    "tools",
    "trust",
    "undo",
)

HELP = """\
hilt: the tool runtime for AI agents

  echo '{"tool": "read_file", "args": {"path": "a.py"}}' | hilt
                              one request in, one reply out; several, one per line
  hilt stdio                 a session: JSON lines both ways until end of input
  hilt mcp                   every tool for an MCP host, on standard input and output
                              [--http [HOST:PORT]] [--no-token] [--search] [--lean]
  hilt mcp install HOST      the entry by which claude, codex, cursor, vscode and others find hilt; uninstall HOST
                              [--project|--user] [--name NAME] [--print] [--yes]
  hilt call NAME key=value   a call typed by hand  [--json '{...}'] [--raw]
  hilt tools [list [--tokens]|show NAME|new NAME|check [PATH]|install PATH|remove NAME|trust [PATH]]
  hilt undo [list|preview ID|restore ID|clear]
  hilt approve [ID]          what waits for approval; answer it  [--once|--always] [--for 8h] [show ID]
  hilt deny ID               [--reason TEXT]
  hilt explain '{...}'       the decision on a call, with every vote; nothing runs  [--json]
  hilt grants [list|revoke ID]
  hilt trust [list|PATH|revoke PATH]
                              these four need a person at a terminal
  hilt audit [verify|head]   what was called  [--since 1h] [--tool NAME] [--session ID] [--json] [--limit N]
  hilt stats                 how often, how long  [--since 7d] [--tool NAME] [--json|--prometheus]
  hilt config show|check     every setting and its source; what is wrong with them  [--json]
  hilt session end           forget what the session has read
  hilt resident start|stop|status
  hilt doctor                what is installed and what is missing
  hilt --schema [openai|anthropic|mcp]
  hilt --version

  on every command: --workspace DIR  --session ID  --dialect NAME  --mode normal|auto-accept|yolo|plan|scheduler
                    --profile full|minimal|nano  --approve deny|once|always|all  --tools A,B  --tools-dir DIR
                    --allow-private HOST:PORT
"""

_VALUED = (
    *("--workspace", "--session", "--dialect", "--mode", "--profile", "--approve", "--tools", "--tools-dir"),
    "--allow-private",
)
_REPEATED = {"--tools-dir": os.pathsep, "--allow-private": ","}  # with what joins the values


class Usage(Exception):
    """The command line is wrong; the message says how."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_streams()
    try:
        options, words = split(arguments)
        if options:
            _check_choices(options)
        status = _dispatch(options, words)
        sys.stdout.flush()
        return status
    except Usage as error:
        sys.stderr.write(f"hilt: {error}\nTry hilt --help.\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.filename is not None:
            raise  # not of a stream
        # no second complaint at exit, and none at all when the reader went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"hilt: cannot write: {error.strerror}\n")
        return 1
    except Exception as error:
        from hilt.errors import ToolError

        if not isinstance(error, ToolError):
            raise
        sys.stderr.write(f"{error.code}: {error.message}\n{error.suggestion}\n")
        return 1


def _open_streams() -> None:
    """Open what stands in for closed streams, before a file becomes one of them: no input, and output that fails."""
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_RDONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, flags)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Take the options that every command has out of the arguments."""
    options: dict[str, str] = {}
    words: list[str] = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            words.extend(rest)
        elif name in _VALUED:
            found = value if equals else next(rest, None)
            if not found:
                raise Usage(f"{name} needs a value")
            if name != "--workspace":
                _refuse_bytes(found)
            earlier = options.get(name[2:]) if name in _REPEATED else None
            options[name[2:]] = found if earlier is None else f"{earlier}{_REPEATED[name]}{found}"
        else:
            words.append(word)
    for word in words:
        _refuse_bytes(word)
    return options, words


def _check_choices(options: dict[str, str]) -> None:
    """Refuse a value that its flag does not take."""
    from hilt.choices import CHOICES

    for name, value in options.items():
        if value not in CHOICES.get(name, (value,)):
            raise Usage(f"--{name} takes {', '.join(CHOICES[name])}, not {value[:100]!r}")


def _refuse_bytes(word: str) -> None:
    """Refuse what is not text: no request could hold it either."""
    if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
        raise Usage(f"{word!a} is not UTF-8")


def _dispatch(options: dict[str, str], words: list[str]) -> int:
    if not words:
        if sys.stdin is None or sys.stdin.isatty():
            sys.stdout.write(HELP)
            return 0
        return _one_shot(options)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character shows its number
    command, *rest = words
    if command in ("--help", "-h", "help"):
        sys.stdout.write(HELP)
        return 0
    if command in ("--version", "-V"):
        from hilt import __version__

        sys.stdout.write(f"hilt {__version__}\n")
        return 0
    if "--help" in rest or "-h" in rest:
        return _help_on(options, command, [word for word in rest if word not in ("--help", "-h")])
    if command == "--schema":
        from hilt.surfaces.cli import listing

        return listing.schema(options, rest)
    if command == "stdio":
        _no_more(rest)
        from hilt.surfaces import stdio

        return stdio.main(options)
    if command in COMMANDS:
        from importlib import import_module

        module = import_module(f"hilt.surfaces.{_MODULES.get(command, f'cli.{command}')}")
        return int(getattr(module, command)(options, rest))
    from hilt.schema import did_you_mean

    near = did_you_mean(command, COMMANDS)
    raise Usage(f"there is no command {command!r}" + (f"; did you mean {near}?" if near else ""))


_MODULES = {
    **dict.fromkeys(("call", "undo", "session"), "cli.by_hand"),
    **dict.fromkeys(("approve", "deny", "grants", "trust"), "cli.approve"),
    "tools": "cli.listing",
    "mcp": "mcp.command",
    "resident": "resident",
}


def _help_on(options: dict[str, str], command: str, words: list[str]) -> int:
    """Show what a tool takes, for `call NAME --help`; else the help on everything."""
    if command == "call" and words:
        from hilt.surfaces.cli import listing

        return listing.tools(options, ["show", words[0]])
    sys.stdout.write(HELP)
    return 0


def _no_more(words: list[str]) -> None:
    if words:
        raise Usage(f"unexpected argument {words[0]!r}")


def _one_shot(options: dict[str, str]) -> int:
    if os.environ.get("HILT_RESIDENT") != "off":
        from hilt.surfaces import handover

        status = handover.try_resident(options)
        if status is not None:
            return status
    import gc

    gc.disable()  # the imports of one call make no garbage worth looking for
    from hilt.surfaces import oneshot

    gc.enable()
    return oneshot.main(options)
