"""Read several files."""

from typing import Annotated, Any, NamedTuple

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.reading import read
from hilt.params import Bounds, Count, Items, ReadPath
from hilt.schema import STRING, fields, mapping
from hilt.text.windows import Truncate

TOTAL_BYTES = 512 * 1024


class Request(NamedTuple):
    """One file to read.

    Args:
        path: File to read.
        start_line: First line, from 1.
        end_line: Last line. Default: start_line + 1999.
        tail: Return the last N lines instead.
        line_numbers: Number the lines.
        truncate: As in read_file.
    """

    path: ReadPath
    start_line: Annotated[int, Bounds(minimum=1, clamp=True)] = 1
    end_line: int | None = None
    tail: Count = 0
    line_numbers: bool = True
    truncate: Truncate = "head"


_ANSWER = fields(
    "files:files errors:errors truncation:truncation next?:next",
    files=mapping(STRING),
    errors=mapping(fields("error:string error_code:string suggestion:string")),
    truncation=mapping({"type": "object"}),
)


@tool(effects="read", partial=True, output=_ANSWER)
def multi_read(ctx: Context, files: Annotated[list[Request], Items(1, 20)]) -> Output:
    """Read up to 20 text files in one call, each like read_file.

    Failures are listed in errors, files beyond 512 KB in next.

    Details:
    Returns JSON with three maps: files (path to text), errors (path to error) and truncation (path to what was cut).
    The call fails only if all files fail. If a path is given twice, the last entry wins.

    Args:
        files: Files to read.
    """
    texts: dict[str, str] = {}
    errors: dict[str, dict[str, str]] = {}
    truncation: dict[str, Any] = {}
    remaining: list[dict[str, Any]] = []
    used = 0
    failures: list[ToolError] = []
    for request in {request.path: request for request in files}.values():
        ctx.fence.check()
        if used >= TOTAL_BYTES:
            remaining.append(_arguments(request))
            continue
        try:
            output = _read(ctx, request)
        except ToolError as error:
            failures.append(error)
            errors[request.path] = {"error": error.message, "error_code": error.code, "suggestion": error.suggestion}
            continue
        size = len(output.text.encode())
        if used + size > TOTAL_BYTES and texts:
            remaining.append(_arguments(request))
            used = TOTAL_BYTES
            continue
        used += size
        texts[request.path] = output.text
        if "truncation" in output.meta:
            truncation[request.path] = output.meta["truncation"]
    if not texts:
        raise _all_failed(failures, errors)
    data: dict[str, Any] = {"files": texts, "errors": errors, "truncation": truncation}
    if remaining:
        data["next"] = {"tool": "multi_read", "args": {"files": remaining}}
    return Output(data=data)


def _read(ctx: Context, request: Request) -> Output:
    output = read(ctx.workspace, ctx.overflow, request.path, request._asdict())
    if output.content or output.meta.get("binary"):
        kind = "an image" if output.content else "binary"
        raise ToolError("binary_file", f"{request.path} is {kind}.", suggestion="Use read_file for a single image.")
    return output


def _arguments(request: Request) -> dict[str, Any]:
    defaults = Request._field_defaults
    return {name: value for name, value in request._asdict().items() if name == "path" or value != defaults[name]}


def _all_failed(failures: list[ToolError], errors: dict[str, dict[str, str]]) -> ToolError:
    first = failures[0]
    if len(failures) == 1:
        return ToolError(first.code, first.message, suggestion=first.suggestion, errors=errors)
    reasons = "; ".join(failure.message for failure in failures)
    return ToolError(
        first.code, f"All {len(failures)} files failed: {reasons}", suggestion=first.suggestion, errors=errors
    )
