"""Turns the output of a folder tool's script into a result: the JSON that it printed, or an error."""

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
    from hilt.sandbox.capturing import Captured, Finished

QUOTED_CHARACTERS = 200
EXCERPT_CHARACTERS = 10_000  # of a script's output, in errors and metadata
_BLOCKS_TRIED = 20
_ARGUMENTS_PREFIX = re.compile(r"(?:^|(?<=; ))args: ")  # the schema check's name for the whole value


def output(definition: Definition, finished: Finished, limit: int) -> Output:
    """Return the result of a finished script, or raise its error."""
    stdout, stderr = _printed(finished.stdout), _printed(finished.stderr)
    if finished.reason == "timeout":
        seconds = definition.details["seconds"]
        raise _failure(definition, "timeout", f"timed out after {seconds:g} s", stdout, stderr)
    if finished.reason == "limit" or finished.stdout.omitted:
        raise _failure(
            definition, "resource_limit", f"printed more than {launching.OUTPUT_BYTES >> 20} MiB", "", stderr
        )
    if finished.exit_code != 0:
        raise _failed(definition, finished, stdout, stderr)
    meta: dict[str, Json] = {"stderr": stderr[:EXCERPT_CHARACTERS]} if stderr.strip() else {}
    if definition.result == "text":
        return Output(stdout, meta=meta)
    value, noise = _value(stdout)
    if value is NO_VALUE:
        quoted = json.dumps(stdout[:QUOTED_CHARACTERS], ensure_ascii=False)
        what = f"printed invalid JSON: {quoted}" if stdout.strip() else "printed nothing instead of JSON"
        raise _failure(definition, "tool_failed", what, stdout, stderr)
    return result(definition, value, stdout, stderr, meta, limit=limit, noise=noise)


def result(
    definition: Definition, value: Any, stdout: str, stderr: str, meta: dict[str, Json], *, limit: int, noise: bool
) -> Output:
    """Return the output for the value that a script printed; raise if the value reports an error."""
    value, view = foreign_views.extract(value)
    if error := _error(value):
        raise _failure(definition, "tool_failed", f"returned an error: {error}", stdout, stderr)
    warnings = [
        *(["The script printed other output around its JSON."] if noise else []),
        *_schema_warnings(definition, value),
    ]
    if warnings:
        meta["warnings"] = warnings
    if value is None or isinstance(value, str):
        return Output("null" if value is None else value, view=view, meta=meta)
    text, data = fit_to_limit("", value, limit)
    return Output(text, data, view=view, meta=meta)


def fit_to_limit(text: str, data: Json, limit: int) -> tuple[str, Json]:
    """Return text and data of a result; data over the limit moves to the text, which can be saved to disk."""
    if data is None:
        return text, None
    encoded = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (text, data) if len(encoded) <= limit else (text or encoded, None)


NO_VALUE = object()


def _value(stdout: str) -> tuple[Any, bool]:
    """Return the JSON value that a script printed, or NO_VALUE, and whether there was other output around it.

    With other output, the last object that fills a line counts, else the last that starts on a new line.
    """
    value = parse(stdout)
    if value is not NO_VALUE:
        return value, False
    lines = stdout.split("\n")
    for line in reversed(lines):
        if line.startswith("{") and isinstance(value := parse(line), dict):
            return value, True
    starts = [number for number, line in enumerate(lines) if line.startswith("{")]
    for number in reversed(starts[-_BLOCKS_TRIED:]):
        end = next((end for end in range(number, len(lines)) if lines[end].rstrip() == "}"), number)
        if isinstance(value := parse("\n".join(lines[number : end + 1])), dict):
            return value, True
    return NO_VALUE, False


def parse(text: str) -> Any:
    """Return the JSON value of a text; NO_VALUE if it is invalid."""
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
        if "\\u" in text:
            # a lone surrogate, as left by a cut string, cannot be encoded
            encoded = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
            value = json.loads(encoded.decode("utf-16-le", "replace"))
    except (ValueError, RecursionError):
        return NO_VALUE
    return value


def _number(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError(f"{digits} is not a finite number")
    return number


def _error(value: Any) -> str:
    """Return the error that a result reports; null, false and an empty string mean none."""
    error = value.get("error") if isinstance(value, dict) else None
    if not error:
        return ""
    return (error if isinstance(error, str) else json.dumps(error, ensure_ascii=False))[:EXCERPT_CHARACTERS]


def _schema_warnings(definition: Definition, value: Any) -> list[str]:
    try:
        schemas.validate(definition.details["outputSchema"], value)
    except ToolError as error:
        return ["The result does not match outputSchema: " + _ARGUMENTS_PREFIX.sub("", error.message)]
    return []


def _failed(definition: Definition, finished: Finished, stdout: str, stderr: str) -> ToolError:
    value, _ = _value(stdout)
    printed = stderr.strip() or ("" if value is NO_VALUE else _error(value)) or stdout.strip() or "it printed nothing"
    ended = "failed" if finished.reason == "exit" else "was killed by a signal"
    what = f"{ended} (exit {finished.exit_code}): {printed[:EXCERPT_CHARACTERS]}"
    return _failure(definition, "tool_failed", what, stdout, stderr, exit_code=finished.exit_code)


def _failure(definition: Definition, code: str, what: str, stdout: str, stderr: str, **details: Any) -> ToolError:
    printed = {"stdout": _without_view(stdout), "stderr": stderr}
    excerpts = {name: text[:EXCERPT_CHARACTERS] for name, text in printed.items() if text}
    message = f"{definition.name} {what}"
    return ToolError(code, message if message.endswith((".", "!", "?")) else message + ".", **excerpts, **details)


def _without_view(stdout: str) -> str:
    """Return the output without its view, which is for people only."""
    if foreign_views.KEY not in stdout:
        return stdout
    value, _ = _value(stdout)
    return stdout if value is NO_VALUE else json.dumps(foreign_views.extract(value)[0], ensure_ascii=False)


def _printed(stream: Captured) -> str:
    return (stream.head + stream.tail).decode("utf-8-sig", "replace")
