"""The command `hilt`: the dispatch to one-shot requests or to a command.

A one-shot call goes to the resident process when it can, and that path imports nothing else.
"""

from __future__ import annotations

import atexit
import os
import sys

from hilt.surfaces import OPTIONS, Usage, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hilt.errors import ToolError
    from hilt.surfaces.cli.parsing import Parser


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
    from hilt.output.advice import next_step
    from hilt.output.terminal import inert

    lines = (f"{error.code}: {error.message}", next_step(error))
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


def _check_choices(options: dict[str, str]) -> None:
    """Reject a value that is not one of the option's choices."""
    from hilt.choices import choices

    for name, value in options.items():
        allowed = choices(name)
        if allowed and value not in allowed:
            from hilt.surfaces.cli.parsing import suggestion

            raise Usage(f"--{name} takes {', '.join(allowed)}, not {value[:100]!r}{suggestion(value, allowed)}")


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
    return _run_command(options, words)


def _run_command(options: dict[str, str], words: list[str]) -> int:
    """Run the command named by the first word."""
    name, *rest = words
    if name == "help" and rest:
        name, *rest = *rest, "--help"
    if name in ("--help", "-h", "help"):
        from hilt.surfaces.cli import help_text

        sys.stdout.write(help_text.overview())
        return 0
    if name in ("--version", "-V", "version"):
        from hilt import __version__

        sys.stdout.write(f"hilt {__version__}\n")
        return 0
    if name == "--schema" or name.startswith("--schema="):
        from hilt.surfaces.cli import tools

        return tools.schema(options, [*name.split("=", 1)[1:], *rest])
    from hilt.surfaces.cli.command_table import COMMANDS, parser_of

    if name not in COMMANDS:
        raise _unknown(name, COMMANDS)
    import gc

    gc.disable()  # as for one-shot calls
    parser, rest = parser_of(name).reached(rest)
    gc.freeze()
    gc.enable()
    before = rest[: rest.index("--")] if "--" in rest else rest
    if "--help" in before or "-h" in before:
        return _help(options, parser, [word for word in before if not word.startswith("-")])
    try:
        arguments = parser.read(rest)
        assert parser.run is not None, "read rejects a command that only has subcommands"  # noqa: S101
        return parser.run(options, arguments)
    except Usage as error:
        if error.command == "hilt":
            error.command = parser.prog
        raise


def _help(options: dict[str, str], parser: Parser, words: list[str]) -> int:
    if parser.prog == "hilt call" and words:
        from hilt.surfaces.cli import tools

        return tools.show(options, words[0])
    from hilt.surfaces.cli import help_text

    sys.stdout.write(help_text.of(parser))
    return 0


def _unknown(name: str, commands: Iterable[str]) -> Usage:
    from hilt.surfaces.cli.parsing import suggestion

    if name.startswith("-"):
        names = ["--help", "--version", "--schema", *(f"--{option}" for option in OPTIONS)]
        return Usage(f"unknown option {name!r}{suggestion(name, names)}")
    return Usage(f"unknown command {name!r}{suggestion(name, commands)}")


def _one_shot(options: dict[str, str]) -> int:
    if os.environ.get("HILT_RESIDENT") != "off":
        from hilt.surfaces import handover

        status = handover.try_resident(options)
        if status is not None:
            return status
    import gc

    gc.disable()  # imports create no garbage worth collecting
    from hilt import runtime  # noqa: F401 -- opened later
    from hilt.surfaces import oneshot

    gc.freeze()  # so that no collection looks at what was imported
    gc.enable()
    return oneshot.main(options)
