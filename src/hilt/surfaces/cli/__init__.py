"""The command `hilt`: global options, and the dispatch to one-shot requests or to a command.

A one-shot call goes to the resident process when it can, and that path imports nothing else.
"""

from __future__ import annotations

import atexit
import os
import sys

from hilt.surfaces import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.errors import ToolError

# options that every command takes, before or after its name: the placeholder of the value, and the help text
OPTIONS = {
    "workspace": ("DIR", "Work in this folder instead of the current one"),
    "session": ("ID", "Use this session instead of the default one"),
    "mode": ("MODE", "Which calls need approval"),
    "approve": ("ANSWER", "How to answer approval prompts"),
    "profile": ("PROFILE", "How many tools to offer"),
    "tools": ("A,B", "Offer only these tools"),
    "tools-dir": ("DIR", "Load custom tools from this folder too; may be repeated"),
    "dialect": ("DIALECT", "Offer tools by the names of another system"),
    "allow-private": ("HOST:PORT", "Let web tools reach this private address; may be repeated"),
}
_REPEATED = {"--tools-dir": os.pathsep, "--allow-private": ","}  # may be repeated: the separator that joins the values


def program() -> int:
    """Run the command and end the process, without the slow teardown of every module."""
    statuses: list[int] = []

    def exit_now() -> None:
        if statuses:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(statuses[0])

    atexit.register(exit_now)  # registered first, so called last
    statuses.append(main())
    return statuses[0]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_streams()
    try:
        options, words = split(arguments)
        _forget_workspace(options)
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
            raise  # about a file, not a stream
        # no second error at exit, and none at all when the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"hilt: cannot write: {error.strerror}\n")
        return 1
    except Exception as error:
        from hilt.errors import ToolError

        if not isinstance(error, ToolError):
            raise
        _write_error(error)
        return 1


def _forget_workspace(options: dict[str, str]) -> None:
    """Remove the workspace from sys.path before a library looks there for an optional module or a plug-in."""
    from hilt import places

    try:  # noqa: SIM105 -- contextlib is slow to import
        places.forget(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    except FileNotFoundError:
        pass  # the working folder is gone, which is reported later


def _write_error(error: ToolError) -> None:
    """Print an error; its text may come from a file of a hostile project."""
    from hilt.output.terminal import inert

    lines = (f"{error.code}: {error.message}", error.suggestion)
    sys.stderr.write("".join(f"{inert(line)}\n" for line in lines if line))


def _open_streams() -> None:
    """Replace closed streams before a file gets their descriptors: input is empty, and writing output fails."""
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
    """Separate the options that every command takes from the other arguments."""
    options: dict[str, str] = {}
    words: list[str] = []
    remaining = iter(arguments)
    for word in remaining:
        name, equals, joined = word.partition("=")
        if word == "--":
            words += [word, *remaining]
        elif name[:2] == "--" and name[2:] in OPTIONS:
            value = joined if equals else next(remaining, None)
            if not value:
                raise Usage(f"{name} needs a value")
            if name != "--workspace":
                _require_utf8(value)
            if name == "--workspace" and "workspace" in options and ("serve" in arguments or "worker" in arguments):
                words.append(value)  # these take any number of folders
                continue
            earlier = options.get(name[2:]) if name in _REPEATED else None
            options[name[2:]] = value if earlier is None else f"{earlier}{_REPEATED[name]}{value}"
        else:
            words.append(word)
    for word in words:
        _require_utf8(word)
    return options, words


def _check_choices(options: dict[str, str]) -> None:
    """Reject a value that is not one of the option's choices."""
    from hilt.choices import choices

    for name, value in options.items():
        allowed = choices(name)
        if allowed and value not in allowed:
            from hilt.surfaces.cli.parsing import suggestion

            raise Usage(f"--{name} takes {', '.join(allowed)}, not {value[:100]!r}{suggestion(value, allowed)}")


def _require_utf8(word: str) -> None:
    """Reject an argument that is not valid UTF-8: a JSON request could not contain it either."""
    if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
        raise Usage(f"{word!a} is not UTF-8")


def _dispatch(options: dict[str, str], words: list[str]) -> int:
    if not words and "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        from hilt.surfaces.cli import completion

        completion.complete()
    if words[:1] == ["--"]:
        del words[0]
    if not words and not sys.stdin.isatty():
        return _one_shot(options)
    if words == ["stdio"]:  # the way programs start it: no parser needed
        from hilt.surfaces import stdio

        return stdio.main(options)
    if words[:1] == ["mcp"] and {"--search", "--lean"}.issuperset(words[1:]):  # no parser either
        from hilt.surfaces.mcp import pipe

        return pipe.main(options, words[1:])
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack a character
    if not words:
        from hilt.surfaces.cli import help_text

        sys.stdout.write(help_text.first_steps())
        return 0
    from hilt.surfaces.cli import command_table

    return command_table.run(options, words)


def _one_shot(options: dict[str, str]) -> int:
    if os.environ.get("HILT_RESIDENT") != "off":
        from hilt.surfaces import handover

        status = handover.try_resident(options)
        if status is not None:
            return status
    import gc

    gc.disable()  # imports create no garbage worth collecting
    from hilt.surfaces import oneshot

    gc.enable()
    return oneshot.main(options)
