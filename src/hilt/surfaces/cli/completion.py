"""`hilt completion SHELL`: a script that completes commands, options, their values and the names of tools.

The script contains everything except the names of tools, which it asks hilt for when needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

from hilt.choices import CHOICES
from hilt.surfaces.cli import OPTIONS
from hilt.surfaces.cli.commands import COMMANDS, TOP, parser_of
from hilt.surfaces.cli.help_text import is_listed
from hilt.surfaces.cli.parsing import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options

# how to complete a value, by its placeholder in the help
_KINDS = {"TOOL": "@tools", "PATH": "@files", "DIR": "@folders", "A,B": "@tools"}


class Flag(NamedTuple):
    """An option: its names, its summary, and how to complete its value."""

    names: tuple[str, ...]
    summary: str
    value: str | None  # words, a kind of _KINDS, or empty if unknown; None if the option takes no value

    @property
    def takes_value(self) -> bool:
        """Whether a value follows it."""
        return self.value is not None


class CompletionPoint(NamedTuple):
    """What may follow a command."""

    words: str  # the command and subcommands so far, empty at the beginning
    commands: dict[str, str]
    flags: list[Flag]
    argument: str  # completed like the value of a flag


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="The shell")
    parser.examples = [
        ('eval "$(hilt completion bash)"', "For this bash; put it in ~/.bashrc for every bash"),
        ("hilt completion zsh > ~/.zfunc/_hilt", "For zsh, with ~/.zfunc in fpath before compinit"),
        ("hilt completion fish > ~/.config/fish/completions/hilt.fish", "For fish"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    sys.stdout.write(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """Return the script of a shell."""
    return _SCRIPTS[shell]([_top_level(), *(point for name in COMMANDS for point in _points(parser_of(name)))])


def _top_level() -> CompletionPoint:
    commands = {name: command.summary for name, command in COMMANDS.items()}
    flags = []
    for term, summary in TOP.items():
        names = tuple(name.split()[0] for name in term.split(", "))
        flags.append(Flag(names, summary, "openai anthropic mcp" if "FORMAT" in term else None))
    return CompletionPoint("", commands, flags, "")


def _points(parser: Parser) -> Iterator[CompletionPoint]:
    below = {name: command for name, command in parser.commands.items() if not command.hidden}
    flags = [Flag(tuple(flag.option_strings), str(flag.help), _value(flag)) for flag in parser.flags if is_listed(flag)]
    argument = (_value(parser.arguments[0]) or "") if parser.arguments else ""
    words = parser.prog.removeprefix("hilt ")
    yield CompletionPoint(words, {name: command.summary for name, command in below.items()}, flags, argument)
    for command in below.values():
        yield from _points(command)


def _value(action: argparse.Action) -> str | None:
    if action.nargs == 0:
        return None
    if action.metavar == "HOST":
        from hilt.surfaces.cli.mcp_hosts import HOSTS

        return " ".join(HOSTS)
    return " ".join(map(str, action.choices)) if action.choices else _KINDS.get(str(action.metavar), "")


def _global_flags() -> list[Flag]:
    return [
        Flag((f"--{name}",), summary, " ".join(CHOICES[name]) if name in CHOICES else _KINDS.get(value, ""))
        for name, (value, summary) in OPTIONS.items()
    ]


def _case(rows: dict[str, str]) -> str:
    """Return the branches of a `case` in bash and zsh, merging patterns with the same body."""
    branches: dict[str, list[str]] = {}
    for pattern, body in rows.items():
        branches.setdefault(body, []).append(pattern)
    return "\n".join(f"    {'|'.join(patterns)}) {body} ;;" for body, patterns in branches.items())


def _values(points: list[CompletionPoint]) -> dict[str, str]:
    """Return how to complete the value of each option, by command and option; global options match any command."""
    values = {
        _quoted(f"{point.words} {name}"): f"echo {_quoted(flag.value or '')}"
        for point in points
        for flag in point.flags
        for name in flag.names
        if flag.takes_value
    }
    return values | {f"*' {flag.names[0]}'": f"echo {_quoted(flag.value or '')}" for flag in _global_flags()}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- bash ---------------------------------------------------------------------------------------------------------

_BASH = r"""# bash completion of hilt, written by: hilt completion bash

_hilt_commands() {
  case "$1" in
@COMMANDS@
  esac
}

_hilt_flags() {
  case "$1" in
@FLAGS@
  esac
  echo '@GLOBAL@'
}

# how to complete the value of option $2 of command $1; fails if it takes none
_hilt_value() {
  case "$1 $2" in
@VALUES@
    *) return 1 ;;
  esac
}

_hilt_argument() {
  case "$1" in
@ARGUMENTS@
  esac
}

# names come from untrusted files and servers: none is expanded, and none that the shell would expand is offered
_hilt_offer() {
  local name
  while IFS= read -r name; do
    if [[ $name == "$cur"* && $name != *[!A-Za-z0-9_:.-]* ]]; then COMPREPLY+=("$name"); fi
  done
}

_hilt_paths() {
  local name
  while IFS= read -r name; do COMPREPLY+=("$name"); done
}

_hilt() {
  local hilt=$1 cur=${COMP_WORDS[COMP_CWORD]} place= flag= kind= word i arguments=0 IFS=$' \t\n'
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' && -n $flag ]]; then continue; fi
    if [[ -n $flag ]]; then flag=; continue; fi
    if [[ $word == '--' ]]; then return; fi
    if [[ $word == -* ]]; then
      if _hilt_value "$place" "$word" >/dev/null; then flag=$word; fi
    elif [[ " $(_hilt_commands "$place") " == *" $word "* ]]; then
      place=${place:+$place }$word
    else
      arguments=$((arguments + 1))
    fi
  done
  if [[ $cur == '=' ]]; then cur=; fi
  if [[ -n $flag ]]; then
    kind=$(_hilt_value "$place" "$flag")
  elif [[ $cur == -* ]]; then
    kind=$(_hilt_flags "$place")
  elif ((arguments == 0)); then
    kind=$(_hilt_argument "$place")
  fi
  case $kind in
    @tools) _hilt_offer < <("$hilt" tools list --names 2>/dev/null) ;;
    @files) compopt -o filenames 2>/dev/null; _hilt_paths < <(compgen -f -- "$cur") ;;
    @folders) compopt -o filenames 2>/dev/null; _hilt_paths < <(compgen -d -- "$cur") ;;
    *) COMPREPLY=($(compgen -W "$kind" -- "$cur")) ;;
  esac
  if [[ -z $flag && $cur != -* ]] && ((arguments == 0)); then
    COMPREPLY+=($(compgen -W "$(_hilt_commands "$place")" -- "$cur"))
  fi
}

complete -o default -F _hilt hilt
"""


def _bash(points: list[CompletionPoint]) -> str:
    commands = {_quoted(point.words): f"echo {_quoted(' '.join(point.commands))}" for point in points if point.commands}
    flags = {_quoted(point.words): f"echo {_quoted(' '.join(_names(point)))}" for point in points}
    arguments = {_quoted(point.words): f"echo {_quoted(point.argument)}" for point in points if point.argument}
    return _fill(
        _BASH,
        COMMANDS=_case(commands),
        FLAGS=_case(flags),
        GLOBAL=" ".join(flag.names[0] for flag in _global_flags()),
        VALUES=_case(_values(points)),
        ARGUMENTS=_case(arguments),
    )


def _names(point: CompletionPoint) -> list[str]:
    return [name for flag in point.flags for name in flag.names]


def _fill(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template


# --- zsh ----------------------------------------------------------------------------------------------------------

_ZSH = r"""#compdef hilt
# zsh completion of hilt, written by: hilt completion zsh

_hilt_commands() {
  items=()
  case "$1" in
@COMMANDS@
  esac
}

_hilt_flags() {
  items=()
  case "$1" in
@FLAGS@
  esac
  items+=(@GLOBAL@)
}

# how to complete the value of option $2 of command $1; fails if it takes none
_hilt_value() {
  case "$1 $2" in
@VALUES@
    *) return 1 ;;
  esac
}

_hilt_argument() {
  case "$1" in
@ARGUMENTS@
  esac
}

_hilt_kind() {
  local -a found
  case "$1" in
    @tools) found=(${(f)"$($words[1] tools list --names 2>/dev/null)"}); compadd -a found ;;
    @files) _files ;;
    @folders) _files -/ ;;
    *) found=(${=1}); compadd -a found ;;
  esac
}

_hilt() {
  local place='' flag='' word
  local -a items
  integer i arguments=0
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    if [[ -n $flag ]]; then flag=''; continue; fi
    if [[ $word == '--' ]]; then _files; return; fi
    if [[ $word == -* ]]; then
      if [[ $word != *=* ]] && _hilt_value "$place" "$word" >/dev/null; then flag=$word; fi
      continue
    fi
    _hilt_commands "$place"
    if [[ -n ${(M)items:#${word}:*} ]]; then
      place=${place:+$place }$word
    else
      arguments+=1
    fi
  done
  if [[ -z $flag && $PREFIX == --*=* ]]; then
    flag=${PREFIX%%\=*}
    compset -P 1 '*='
  fi
  if [[ -n $flag ]]; then
    _hilt_kind "$(_hilt_value "$place" "$flag")"
  elif [[ $PREFIX == -* ]]; then
    _hilt_flags "$place"
    _describe -o option items
  elif ((arguments == 0)); then
    _hilt_commands "$place"
    (($#items)) && _describe command items
    _hilt_kind "$(_hilt_argument "$place")"
  else
    compset -P 1 '*='
    _files
  fi
}

if [[ $funcstack[1] == _hilt ]]; then
  _hilt "$@"
else
  compdef _hilt hilt
fi
"""


def _zsh(points: list[CompletionPoint]) -> str:
    commands = {
        _quoted(point.words): f"items=({' '.join(_with_summary(name, text) for name, text in point.commands.items())})"
        for point in points
        if point.commands
    }
    flags = {
        _quoted(point.words): "items=({})".format(
            " ".join(_with_summary(name, flag.summary) for flag in point.flags for name in flag.names)
        )
        for point in points
    }
    arguments = {_quoted(point.words): f"echo {_quoted(point.argument)}" for point in points if point.argument}
    return _fill(
        _ZSH,
        COMMANDS=_case(commands),
        FLAGS=_case(flags),
        GLOBAL=" ".join(_with_summary(flag.names[0], flag.summary) for flag in _global_flags()),
        VALUES=_case(_values(points)),
        ARGUMENTS=_case(arguments),
    )


def _with_summary(name: str, summary: str) -> str:
    return _quoted(f"{name}:{summary}")


# --- fish ---------------------------------------------------------------------------------------------------------

_FISH = r"""# fish completion of hilt, written by: hilt completion fish

function __hilt_place
    set -l known @PLACES@
    set -l valued @VALUED@
    set -l place ''
    set -l skip ''
    for word in (commandline -opc)[2..-1]
        if test -n "$skip"
            set skip ''
            continue
        end
        if string match -q -- '-*' "$word"
            if contains -- "$place $word" $valued; or contains -- " $word" @GLOBAL@
                set skip 1
            end
            continue
        end
        set -l deeper (string trim -- "$place $word")
        if contains -- "$deeper" $known
            set place "$deeper"
        end
    end
    echo "$place"
end

function __hilt_at
    set -l place (__hilt_place)
    test "$place" = "$argv[1]"
end

complete -c hilt -f
@LINES@
"""


def _fish(points: list[CompletionPoint]) -> str:
    lines = [_fish_flag("complete -c hilt", flag) for flag in _global_flags()]
    for point in points:
        start = f"complete -c hilt -n {_quoted('__hilt_at ' + _double_quoted(point.words))}"
        lines += [f"{start} -a {_quoted(name)} -d {_fish_quoted(text)}" for name, text in point.commands.items()]
        lines += [_fish_flag(start, flag) for flag in point.flags]
        if point.argument:
            lines.append(f"{start} {_fish_values(point.argument)}")
    valued = [
        f"{point.words} {name}" for point in points for flag in point.flags if flag.takes_value for name in flag.names
    ]
    return _fill(
        _FISH,
        PLACES=" ".join(_quoted(point.words) for point in points if point.words),
        VALUED=" ".join(map(_quoted, valued)),
        GLOBAL=" ".join(_quoted(f" {flag.names[0]}") for flag in _global_flags()),
        LINES="\n".join(lines),
    )


def _fish_flag(start: str, flag: Flag) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
    value = "" if flag.value is None else f" -r {_fish_values(flag.value)}".rstrip()
    return f"{start} {names}{value} -d {_fish_quoted(flag.summary)}"


def _fish_values(value: str) -> str:
    kinds = {
        "@tools": "-a '(hilt tools list --names 2>/dev/null)'",
        "@files": "-F",
        "@folders": "-a '(__fish_complete_directories)'",
        "": "",
    }
    return kinds[value] if value in kinds else f"-a {_quoted(value)}"


def _fish_quoted(text: str) -> str:
    """Return text in fish's single quotes, in which a backslash escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double_quoted(text: str) -> str:
    return f'"{text}"'


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
