"""Requests and envelopes: the decoder and the encoder that every surface uses."""

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from hilt.call import Call, Result
from hilt.errors import ToolError, did_you_mean

MAX_REQUEST_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100
MAX_FIELD = 1000  # characters of a field other than the arguments; the audit trail stores some of them

_ARGUMENTS = (dict, str)  # some models send the object as a string
_TEXT_FIELDS = ("session", "client", "dialect", "approval")
# our own names of the tool and its arguments, and those of MCP clients and model APIs
_SPELLINGS = (("tool", "args"), ("name", "arguments"))
_NAMES = frozenset({"tool", "name", "cancel"})  # every request has one of these
_FIELDS = frozenset({"id", "request_id", "cancel", *_TEXT_FIELDS}.union(*_SPELLINGS))


class Cancel:
    """A request to cancel the running call that has this id."""

    def __init__(self, target: Any, id: Any = None, request_id: Any = None) -> None:
        self.target = target
        self.id = id  # of the cancel request; it gets a reply when it has an id
        self.request_id = request_id


class Refused(Exception):
    """An invalid request; carries the error and the ids, if they could be read."""

    def __init__(self, error: ToolError, id: Any = None, request_id: Any = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.result = Result(error=error, id=id, request_id=request_id)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ToolError(
                    "invalid_request",
                    f"The key {_short(key)!r} occurs twice in one object.",
                    suggestion="Send each key once.",
                )
            seen.add(key)
    return decoded


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "…"


def _reject_constant(name: str) -> Any:
    raise ToolError("invalid_request", f"{name} is not a finite number.", suggestion="Send a finite number.")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _reject_constant(digits[:40])


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_reject_constant, parse_float=_finite)


def decode_value(raw: bytes) -> Any:
    """Decode one JSON value; reject invalid UTF-8, duplicate keys, deep nesting, lone surrogates and oversize."""
    if len(raw) > MAX_REQUEST_BYTES and len(raw.rstrip(b"\r\n")) > MAX_REQUEST_BYTES:
        raise too_large(len(raw))
    try:
        text = raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ToolError(
            "invalid_request",
            f"The request is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}.",
            suggestion="Send the request as UTF-8.",
        ) from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise not_json(error) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise ToolError("invalid_request", "The request contains a number with thousands of digits.") from None
    escapes = "\\u" in text
    # each level needs a bracket and a lone surrogate needs an escape: most requests skip the slow check
    if escapes or text.count("{") + text.count("[") > MAX_DEPTH:
        _check_contents(value, surrogates=escapes)
    return value


def not_json(error: json.JSONDecodeError) -> ToolError:
    """Return the error for text that is not JSON."""
    if not error.doc.strip():
        return ToolError("invalid_request", "The request is empty.")
    return ToolError(
        "invalid_request", f"The request is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
    )


def too_large(size: int) -> ToolError:
    """Return the error for a request over the limit."""
    return ToolError(
        "invalid_request",
        f"The request has more than {MAX_REQUEST_BYTES} bytes ({size} read so far).",
        suggestion="Send less in one request.",
    )


def _too_deep() -> ToolError:
    return ToolError(
        "invalid_request",
        f"The request is nested deeper than {MAX_DEPTH} levels.",
        suggestion="Send flatter arguments.",
    )


def _check_contents(value: Any, *, surrogates: bool) -> None:
    """Reject deep nesting, and lone surrogates if the text has escapes."""
    level = [value]
    for depth in range(MAX_DEPTH + 1):
        if depth == MAX_DEPTH and any(isinstance(item, dict | list) for item in level):
            raise _too_deep()
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
                if surrogates:
                    deeper.extend(item)
            elif isinstance(item, list):
                deeper.extend(item)
            elif surrogates and isinstance(item, str):
                _reject_surrogates(item)
        if not deeper:
            return
        level = deeper


def _reject_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            "invalid_request",
            f"The request contains the lone surrogate U+{ord(text[error.start]):04X}.",
            suggestion="Send valid Unicode.",
        ) from None


def decode_request(raw: bytes) -> Call | Cancel:
    """Decode one request to a Call or a Cancel, or raise Refused."""
    try:
        value = decode_value(raw)
    except ToolError as error:
        raise Refused(error) from None
    return to_request(value)


def to_request(value: Any) -> Call | Cancel:
    """Validate a decoded request and return a Call or a Cancel, or raise Refused."""
    if not isinstance(value, dict):
        raise Refused(ToolError("invalid_request", f"A request must be a JSON object, not {_kind(value)}."))
    ids = value.get("id"), value.get("request_id")
    try:
        if not value.keys() <= _FIELDS:
            unknown = [key for key in value if key not in _FIELDS]
            near = did_you_mean(unknown[0], _FIELDS)
            advice = "Put the tool's arguments into args." if "tool" in value else None
            raise ToolError(
                "invalid_request",
                f"The request has the unknown field {_short(unknown[0])!r}"
                + (f"; did you mean {near!r}?" if near else "."),
                suggestion=f"Use {near!r}." if near else advice,
            )
        tool_field, args_field = _spelling(value)
        if value.get("cancel") is not None:
            if tool_field in value:
                raise ToolError(
                    "invalid_request",
                    f"The request has both {tool_field!r} and 'cancel'.",
                    suggestion="Send two requests, one for each.",
                )
            return Cancel(value["cancel"], *ids)
        tool = value.get(tool_field)
        if not isinstance(tool, str) or not tool:
            actual = "is missing" if tool_field not in value else f"is {_kind(tool)}"
            raise ToolError("invalid_request", f"The field {tool_field!r} must be the name of a tool; it {actual}.")
        args = value.get(args_field)
        if not isinstance(args, _ARGUMENTS) and args is not None:
            raise ToolError("invalid_request", f"The field {args_field!r} must be an object, not {_kind(args)}.")
        fields: dict[str, Any] = {}
        for name in _TEXT_FIELDS:
            field = value.get(name)
            if field is None:
                continue
            if field == "":
                raise ToolError("invalid_request", f"The field {name!r} is empty.", suggestion="Omit it.")
            if not isinstance(field, str):
                raise ToolError("invalid_request", f"The field {name!r} must be a string, not {_kind(field)}.")
            if len(field) > MAX_FIELD:
                raise ToolError(
                    "invalid_request",
                    f"The field {name!r} is longer than {MAX_FIELD} characters.",
                    suggestion="Send a shorter one.",
                )
            fields[name] = field
    except ToolError as error:
        raise Refused(error, *ids) from None
    return Call(tool, args, *ids, **fields)


def _spelling(value: dict[str, Any]) -> tuple[str, str]:
    """Return the field names a request uses for its tool and its arguments; reject a mixture."""
    ours, theirs = _SPELLINGS
    if "name" not in value and "arguments" not in value:
        return ours
    mixed = [name for name in ours if name in value]
    if mixed:
        other = next(name for name in theirs if name in value)
        raise ToolError(
            "invalid_request",
            f"The request has both {mixed[0]!r} and {other!r}.",
            suggestion="Send tool with args, or name with arguments.",
        )
    return theirs


def _kind(value: Any) -> str:
    if value == "":
        return "an empty string"
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def read_lines(stream: BinaryIO) -> Iterator[bytes | ToolError]:
    """Yield each line, or an error for a line over the limit (the rest of which is skipped)."""
    while line := stream.readline(MAX_REQUEST_BYTES + 2):
        if len(line) <= MAX_REQUEST_BYTES or len(line.rstrip(b"\r\n")) <= MAX_REQUEST_BYTES:
            yield line
            continue
        size = len(line)
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_REQUEST_BYTES)
            size += len(line)
        yield too_large(size)


def read_requests(stream: BinaryIO) -> Iterator[bytes | ToolError]:
    """Yield the requests of one-shot input: JSON values, one per line, pretty-printed or concatenated.

    A complete request on one line ends malformed text before it: one bad request costs one error, and those after it
    are still answered.
    """
    pending = bytearray()
    depth = 0  # open brackets, including those inside strings: only a hint when to try parsing
    credit = 4 * 1024 * 1024  # bytes that may still be parsed in vain: keeps the total time linear
    skipping = False  # inside a request that is too large; no part of it may run as a request
    for line in read_lines(stream):
        if isinstance(line, ToolError):
            yield from _split_all(bytes(pending))
            yield line
            pending.clear()
            depth = 0
            skipping = False
            continue
        opened = sum(map(line.count, (b"{", b"["))) - sum(map(line.count, (b"}", b"]")))
        if skipping:
            depth += opened
            skipping = depth > 0
            continue
        credit += 8 * len(line)
        if pending and credit > len(pending) and _is_request(line):
            credit -= len(pending)
            if _malformed(bytes(pending) + line):
                yield from _split_all(bytes(pending))
                pending.clear()
                depth = 0
        pending += line
        depth += opened
        if len(pending) > MAX_REQUEST_BYTES + 2:
            yield too_large(len(pending))
            pending.clear()
            skipping = depth > 0
        elif len(pending) == len(line) or (depth <= 0 and credit > len(pending)):
            credit -= len(pending)
            values, rest = _split(bytes(pending))
            yield from values
            if values:
                depth = sum(map(rest.count, (b"{", b"["))) - sum(map(rest.count, (b"}", b"]")))
            pending[:] = rest
    yield from _split_all(bytes(pending))


def _is_request(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not _NAMES.isdisjoint(value)


_SCAN = json.JSONDecoder().raw_decode
_SKIP = json.decoder.WHITESPACE.match  # type: ignore[attr-defined]  # JSON's whitespace, which is less than Python's


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Split off complete values from the front; the rest may be the start of another."""
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        # the input is whole lines, so more of it cannot complete a character
        return [data], b""
    values: list[bytes] = []
    start = _SKIP(text, 0).end()
    while start < len(text):
        try:
            _, end = _SCAN(text, start)
        except json.JSONDecodeError as error:
            if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
                break
            return [*values, text[start:].encode()], b""
        except (RecursionError, ValueError):
            return [*values, text[start:].encode()], b""
        values.append(text[start:end].encode())
        start = _SKIP(text, end).end()
    return values, text[start:].encode()


def _malformed(text: bytes) -> bool:
    """Whether no more input can complete the last value of the text."""
    values, rest = _split(text)
    return bool(values) and not rest


def _split_all(data: bytes) -> list[bytes]:
    values, rest = _split(data)
    return [*values, rest] if rest.strip() else values


def json_encoder(
    *,
    ascii_only: bool = False,
    sort_keys: bool = False,
    allow_nan: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> Callable[[Any], str]:
    """Return a function that encodes a value as compact JSON; one that contains itself raises RecursionError."""
    return json.JSONEncoder(
        ensure_ascii=ascii_only,
        sort_keys=sort_keys,
        allow_nan=allow_nan,
        default=default,
        check_circular=False,
        separators=(",", ":"),
    ).encode


_COMPACT = json_encoder()


def encode_result(result: Result) -> bytes:
    """Return the envelope as one line of JSON."""
    try:
        text = _COMPACT(envelope(result))
    except (TypeError, ValueError, RecursionError) as error:
        # the tool returned something that JSON cannot express: only this call fails
        failure = ToolError("tool_failed", f"The result cannot be encoded as JSON: {_short(str(error))}.")
        text = _COMPACT(envelope(Result(error=failure, id=result.id, request_id=result.request_id)))
    return as_line(text)


def as_line(text: str) -> bytes:
    """Return JSON as one line."""
    if not text.isascii():
        # some readers treat these as line breaks and would split the reply
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
    try:
        return (text + "\n").encode()
    except UnicodeEncodeError:
        # a file name that is not UTF-8: most readers reject lone surrogates
        plain = ("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
        return ("".join(plain) + "\n").encode()


def envelope(result: Result) -> dict[str, Any]:
    """Return the fields of the envelope without empty ones."""
    fields: dict[str, Any] = {"ok": result.ok}
    error = result.error
    meta = dict(result.meta)
    if error is None:
        fields["result"] = result.text if result.data is None else _COMPACT(result.data)
    else:
        fields["error"] = error.message
        fields["error_code"] = error.code
        if error.suggestion:
            fields["suggestion"] = error.suggestion
        if error.details:
            meta["details"] = error.details
    if result.content:
        fields["content"] = list(result.content)
    if result.classification:
        fields["classification"] = result.classification
    if result.risk:
        fields["risk"] = result.risk
    if meta:
        fields["meta"] = meta
    if result.view is not None:
        fields["visualization"] = result.view
    if result.id is not None:
        fields["id"] = result.id
    if result.request_id is not None:
        fields["request_id"] = result.request_id
    return fields
