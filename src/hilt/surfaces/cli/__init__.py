"""The command `hilt`: options that every command takes, and the way to requests or to a command.

The way to the resident process comes first and imports nothing: a one-shot call that can be handed over is.
"""

from __future__ import annotations

import os
import sys

# options that every command takes, before or after its name: their values, and what they mean
OPTIONS = {
    "workspace": ("DIR", "Work in this folder, not in the current one"),
    "session": ("ID", "Call in this session, not in the default one"),
    "mode": ("MODE", "Which calls ask for approval"),
    "approve": ("ANSWER", "Answer calls that ask"),
    "profile": ("PROFILE", "How many tools a model is shown"),
    "tools": ("A,B", "Offer only these tools"),
    "tools-dir": ("DIR", "Load custom tools from this folder too; may be repeated"),
    "dialect": ("DIALECT", "Offer tools by the names of another system"),
    "allow-private": ("HOST:PORT", "Let web tools reach this private address; may be repeated"),
}
_REPEATED = {"--tools-dir": os.pathsep, "--allow-private": ","}  # with what joins the values


class Usage(Exception):
    """The command line is wrong; the message says how, and the help of the command says more."""

    def __init__(self, message: str, command: str = "hilt") -> None:
        super().__init__(message)
        self.command = command


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
        sys.stderr.write(f"hilt: {error}\nTry {error.command} --help.\n")
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
            words += [word, *rest]
        elif name[:2] == "--" and name[2:] in OPTIONS:
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
    if words[:1] == ["--"]:
        del words[0]
    if not words and not sys.stdin.isatty():
        return _one_shot(options)
    if words == ["stdio"]:  # as programs start it: nothing is left to parse
        from hilt.surfaces import stdio

        return stdio.main(options)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character shows its number
    from hilt.surfaces.cli import commands

    return commands.run(options, words or ["--help"])


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
