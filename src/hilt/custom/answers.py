"""What the script of a folder tool answers: the JSON that it printed, or what went wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any

from hilt import schema as schemas
from hilt.call import Json, Output
from hilt.custom import launching
from hilt.custom.definition import Definition
from hilt.errors import ToolError
from hilt.output import foreign_views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.process import Captured, Finished

QUOTED_CHARACTERS = 200
TOLD_CHARACTERS = 10_000  # of what a script printed, in errors and beside results
_BLOCKS_TRIED = 20
_OF_ARGUMENTS = re.compile(r"(?:^|(?<=; ))args: ")  # how a check calls the whole of what it looks at


def output(definition: Definition, finished: Finished, limit: int) -> Output:
    """Return what a script that has ended says, or raise what went wrong with it."""
    stdout, stderr = _printed(finished.stdout), _printed(finished.stderr)
    if finished.reason == "timeout":
        seconds = definition.details["seconds"]
        raise _failure(definition, "timeout", f"took longer than {seconds:g} s and was ended", stdout, stderr)
    if finished.reason == "limit" or finished.stdout.omitted:
        raise _failure(
            definition, "resource_limit", f"printed more than {launching.OUTPUT_BYTES >> 20} MiB", "", stderr
        )
    if finished.exit_code != 0:
        raise _failed(definition, finished, stdout, stderr)
    meta: dict[str, Json] = {"stderr": stderr[:TOLD_CHARACTERS]} if stderr.strip() else {}
    if definition.result == "text":
        return Output(stdout, meta=meta)
    value, noise = _value(stdout)
    if value is NO_VALUE:
        quoted = json.dumps(stdout[:QUOTED_CHARACTERS], ensure_ascii=False)
        what = f"printed what is not JSON: {quoted}" if stdout.strip() else "printed nothing, where JSON is needed"
        raise _failure(definition, "tool_failed", what, stdout, stderr)
    return result(definition, value, stdout, stderr, meta, limit=limit, noise=noise)


def result(
    definition: Definition, value: Any, stdout: str, stderr: str, meta: dict[str, Json], *, limit: int, noise: bool
) -> Output:
    """Return the value that a script answered with as people and models see it; one that tells of an error is one."""
    value, view = foreign_views.extract(value)
    if error := _error(value):
        raise _failure(definition, "tool_failed", f"answered with an error: {error}", stdout, stderr)
    warnings = [
        *(["There was other output around the JSON of the script."] if noise else []),
        *_misfits(definition, value),
    ]
    if warnings:
        meta["warnings"] = warnings
    if value is None or isinstance(value, str):
        return Output("null" if value is None else value, view=view, meta=meta)
    text, data = sized("", value, limit)
    return Output(text, data, view=view, meta=meta)


def sized(text: str, data: Json, limit: int) -> tuple[str, Json]:
    """Return the two forms of an answer; data that is too long to answer with is left to the text, for the disk."""
    if data is None:
        return text, None
    spelled = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (text, data) if len(spelled) <= limit else (text or spelled, None)


NO_VALUE = object()


def _value(stdout: str) -> tuple[Any, bool]:
    """Return the JSON value that a script printed, NO_VALUE when there is none, and whether there was more around it.

    Of several things printed, the last object on a line of its own counts, else the last that begins on one.
    """
    value = parsed(stdout)
    if value is not NO_VALUE:
        return value, False
    lines = stdout.split("\n")
    for line in reversed(lines):
        if line.startswith("{") and isinstance(value := parsed(line), dict):
            return value, True
    begun = [number for number, line in enumerate(lines) if line.startswith("{")]
    for number in reversed(begun[-_BLOCKS_TRIED:]):
        end = next((end for end in range(number, len(lines)) if lines[end].rstrip() == "}"), number)
        if isinstance(value := parsed("\n".join(lines[number : end + 1])), dict):
            return value, True
    return NO_VALUE, False


def parsed(text: str) -> Any:
    """Return a JSON value, NO_VALUE when the text is none."""
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
        if "\\u" in text:
            # half a character, as of a text that was cut, cannot be sent on
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
            value = json.loads(whole.decode("utf-16-le", "replace"))
    except (ValueError, RecursionError):
        return NO_VALUE
    return value


def _number(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError(f"{digits} is not a finite number")
    return number


def _error(value: Any) -> str:
    """Return the error that a result tells of; null, false and an empty text are none."""
    error = value.get("error") if isinstance(value, dict) else None
    if not error:
        return ""
    return (error if isinstance(error, str) else json.dumps(error, ensure_ascii=False))[:TOLD_CHARACTERS]


def _misfits(definition: Definition, value: Any) -> list[str]:
    try:
        schemas.fit(definition.details["outputSchema"], value)
    except ToolError as error:
        return ["The result does not fit outputSchema: " + _OF_ARGUMENTS.sub("", error.message)]
    return []


def _failed(definition: Definition, finished: Finished, stdout: str, stderr: str) -> ToolError:
    value, _ = _value(stdout)
    said = stderr.strip() or ("" if value is NO_VALUE else _error(value)) or stdout.strip() or "it says nothing"
    ended = "failed" if finished.reason == "exit" else "was ended by a signal"
    what = f"{ended} (exit {finished.exit_code}): {said[:TOLD_CHARACTERS]}"
    return _failure(definition, "tool_failed", what, stdout, stderr, exit_code=finished.exit_code)


def _failure(definition: Definition, code: str, what: str, stdout: str, stderr: str, **details: Any) -> ToolError:
    printed = {"stdout": _without_view(stdout), "stderr": stderr}
    kept = {name: text[:TOLD_CHARACTERS] for name, text in printed.items() if text}
    message = f"{definition.name} {what}"
    return ToolError(code, message if message.endswith((".", "!", "?")) else message + ".", **kept, **details)


def _without_view(stdout: str) -> str:
    """Return what was printed without the part of it that is for people alone."""
    if foreign_views.KEY not in stdout:
        return stdout
    value, _ = _value(stdout)
    return stdout if value is NO_VALUE else json.dumps(foreign_views.extract(value)[0], ensure_ascii=False)


def _printed(stream: Captured) -> str:
    return (stream.head + stream.tail).decode("utf-8-sig", "replace")
