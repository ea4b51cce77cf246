"""Folder tools: a `tool.md` or `tool.json`, a script that reads JSON and prints JSON, and perhaps a security script."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from tongs import schema as schemas
from tongs.call import Json, Output
from tongs.custom import launching, security
from tongs.custom.confining import Confine, confined
from tongs.custom.definition import (
    Content,
    Definition,
    Execute,
    Loaded,
    Problem,
    effects_from,
    examples_from,
    fingerprint,
    sandbox_from,
)
from tongs.errors import ToolError
from tongs.output import views
from tongs.yaml12 import BadYaml, load_with_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.context import Context
    from tongs.custom.launching import Launch
    from tongs.sandbox.process import Captured, Finished

MARKDOWN, JSON = "tool.md", "tool.json"  # the first that is there is read

TIMEOUT_MS = 30_000
SECURITY_TIMEOUT_MS = 10_000
LARGEST_TIMEOUT_MS = 86_400_000
SECURITY_SCRIPT = "security.ts"
PERSON_SECONDS = 86_400.0  # a person may take their time; approvals end by themselves

QUOTED_CHARACTERS = 200
TOLD_CHARACTERS = 10_000  # of what a script printed, in errors and beside results
_BLOCKS_TRIED = 20
_SETTLED_NS = 50_000_000  # clocks of file systems are no finer than some milliseconds

_KEYS = frozenset(
    (
        *("name", "description", "script", "runtime", "inputSchema", "outputSchema", "timeout", "requireApproval"),
        *("dangerous", "hasSecurityCheck", "securityScript", "securityTimeout", "env"),
        *("sandbox", "effects", "examples", "result", "warm"),
    )
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")
_FENCE = re.compile(r"---[ \t]*(\w*)[ \t]*\Z")


# --- the definition -----------------------------------------------------------------------------------------------


def read(content: Content) -> Loaded:
    """Return the tool of a folder; a folder without a definition is none of ours."""
    name = next((name for name in (MARKDOWN, JSON) if name in content.files), None)
    if name is None:
        return Loaded()
    origin = os.path.join(content.path, name)
    try:
        written = _front_matter(content.files[name]) if name == MARKDOWN else _json_file(content.files[name])
    except _Unreadable as error:
        return Loaded(problems=(Problem(origin, error.message, error.line),))
    reading = _Reading(written, content)
    definition = reading.definition(origin)
    if reading.problems:
        tool = written.fields.get("name")
        known = tool if isinstance(tool, str) else None
        found = (Problem(origin, message, line, known) for line, message in reading.problems)
        return Loaded(problems=tuple(found))
    return Loaded((definition,))


class _Unreadable(Exception):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Written(NamedTuple):
    """A definition file: its fields, the lines they begin on, and the text after them."""

    fields: dict[str, Any]
    lines: Mapping[str, int]
    body: str


def _front_matter(data: bytes) -> _Written:
    lines = _text(data).split("\n")
    opening = _FENCE.match(lines[0])
    if opening is None:
        raise _Unreadable("The file must begin with a line ---, the front matter.", 1)
    language = opening[1]
    if language not in ("", "yaml", "json"):
        raise _Unreadable(f"Front matter in {language} is not read: it is never evaluated. Use YAML or JSON.", 1)
    end = next((number for number, line in enumerate(lines) if number and line.rstrip() == "---"), None)
    if end is None:
        raise _Unreadable("The front matter has no end: a line --- is missing.", 1)
    front, body = "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip()
    if language == "json":
        fields = _decoded(front, offset=1)
        return _Written(fields, _json_lines(front, fields, offset=1), body)
    try:
        value, places = load_with_lines(front, "front matter")
    except BadYaml as error:
        # its own message counts the lines of the front matter alone
        reason = error.message.partition(": ")[2] or error.message
        raise _Unreadable(f"The front matter is not understood: {reason}", error.line + 1) from None
    if not isinstance(value, dict):
        raise _Unreadable("The front matter must be keys with values.", 2)
    return _Written(value, {str(path[0]): line + 1 for path, line in places.items() if len(path) == 1}, body)


def _json_file(data: bytes) -> _Written:
    text = _text(data)
    fields = _decoded(text)
    return _Written(fields, _json_lines(text, fields), "")


def _text(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Unreadable(f"The file is not UTF-8: byte 0x{data[error.start]:02x}.", line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(text: str, offset: int = 0) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            second = text.find(f'"{twice}"', text.find(f'"{twice}"') + 1)
            raise _Unreadable(f"The key {twice!r} occurs twice.", text.count("\n", 0, second) + 1 + offset)
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise _Unreadable(f"The JSON is not understood: {error.msg}.", error.lineno + offset) from None
    except (ValueError, RecursionError):
        raise _Unreadable("The JSON is nested too deeply, or has a number of too many digits.", 1 + offset) from None
    if not isinstance(value, dict):
        raise _Unreadable("The definition must be a JSON object.", 1 + offset)
    return value


def _json_lines(text: str, fields: Mapping[str, Any], offset: int = 0) -> dict[str, int]:
    places = {key: re.search(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text) for key in fields}
    return {key: text.count("\n", 0, found.start()) + 1 + offset for key, found in places.items() if found}


class _Reading:
    """Takes a definition out of its fields, and notes all that is wrong with them."""

    def __init__(self, written: _Written, content: Content) -> None:
        self.problems: list[tuple[int, str]] = []
        self._notes: list[str] = []
        self._written = written
        self._fields = written.fields
        self._content = content

    def definition(self, origin: str) -> Definition:
        """Return the definition; it is of no use when there are problems."""
        fields, files = self._fields, self._content.files
        name = self._name()
        runtime = self._runtime()
        script = self._path("script", None)
        if script and not self._has(script):
            self._wrong("script", f"{script} is not in the folder of the tool")
        has_check = self._flag("hasSecurityCheck")
        check = self._path("securityScript", SECURITY_SCRIPT)
        if has_check and not self._has(check):
            self._notes.append(f"The security script {check} is missing, so every call is refused.")
        if not has_check and fields.get("securityScript") is not None:
            self._notes.append("securityScript does not run, because hasSecurityCheck is not true.")
        seconds = self._milliseconds("timeout", TIMEOUT_MS)
        check_seconds = self._milliseconds("securityTimeout", SECURITY_TIMEOUT_MS)
        parameters, results = self._schema("inputSchema"), self._schema("outputSchema")
        if parameters.get("type", "object") not in ("object", ["object"]):
            self._wrong("inputSchema", "must be the schema of an object")
        sandbox, wrong = sandbox_from(fields.get("sandbox"))
        effects, wrong_effects = effects_from(fields.get("effects"))
        examples, wrong_examples = examples_from(fields.get("examples"))
        for key, messages in (("sandbox", wrong), ("effects", wrong_effects), ("examples", wrong_examples)):
            self.problems += [(self._line(key), message + ".") for message in messages]
        details = {
            "runtime": runtime,
            "script": script,
            "outputSchema": results,
            "env": self._variables(),
            "seconds": seconds,
            "securityScript": check if has_check else None,
            "securitySeconds": check_seconds,
            "files": sorted(files),
        }
        return Definition(
            name=name,
            description=self._description(),
            parameters=parameters,
            origin=origin,
            source=self._content.source,
            format="folder",
            folder=self._content.path,
            content_hash=fingerprint(files),
            approval="always" if self._flag("requireApproval") else "never",
            read_only=effects == frozenset(("read",)),
            timeout=seconds + check_seconds + PERSON_SECONDS if has_check else seconds,
            sandbox=sandbox,
            effects=effects,
            dangerous=self._flag("dangerous"),
            result=self._result(),
            warm=self._flag("warm"),
            examples=examples,
            notes=(*self._notes, *self._unknown()),
            line=self._line("name"),
            details=details,
        )

    def _line(self, key: str) -> int:
        # what is missing is missing at the beginning
        return self._written.lines.get(key, 1)

    def _wrong(self, key: str, message: str) -> None:
        self.problems.append((self._line(key), f"{key} {message}" + ("" if message.endswith("?") else ".")))

    def _required(self, key: str, kind: type, called: str) -> Any:
        value = self._fields.get(key)
        if value is None:
            self._wrong(key, "is missing")
        elif not isinstance(value, kind):
            self._wrong(key, f"must be {called}, not {schemas.shown(value)}")
        else:
            return value
        return kind()

    def _name(self) -> str:
        name: str = self._required("name", str, "text")
        if name and not _NAME.match(name):
            self._wrong("name", f"must be letters, digits, - and _, at most 64, not {schemas.shown(name)}")
        return name

    def _runtime(self) -> str:
        runtime: str = self._required("runtime", str, "text")
        if runtime and runtime not in launching.RUNTIMES:
            near = schemas.did_you_mean(runtime, launching.RUNTIMES)
            hint = f"; did you mean {near}?" if near else ""
            known = ", ".join(launching.RUNTIMES)
            self._wrong("runtime", f"must be one of {known}, not {schemas.shown(runtime)}{hint}")
        return runtime

    def _path(self, key: str, default: str | None) -> str:
        given = default if default is not None and self._fields.get(key) is None else self._required(key, str, "text")
        path = os.path.normpath(given) if given else ""
        if os.path.isabs(path) or path.split(os.sep)[0] == ".." or "\0" in path or path == ".":
            self._wrong(key, f"must be a file in the folder of the tool, not {schemas.shown(given)}")
            return ""
        return path

    def _has(self, path: str) -> bool:
        if path in self._content.files:
            return True
        # of what is the user's own, only the definition was read
        return self._content.source != "project" and os.path.isfile(os.path.join(self._content.path, path))

    def _flag(self, key: str) -> bool:
        value = self._fields.get(key)
        if value is not None and not isinstance(value, bool):
            self._wrong(key, f"must be true or false, not {schemas.shown(value)}")
        return value is True

    def _milliseconds(self, key: str, default: int) -> float:
        value = self._fields.get(key)
        if value is None:
            return default / 1000
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_TIMEOUT_MS:
            most = f"{LARGEST_TIMEOUT_MS:,}"
            self._wrong(key, f"must be milliseconds, above 0 and at most {most}, not {schemas.shown(value)}")
            return default / 1000
        return value / 1000

    def _schema(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self._required(key, dict, "a JSON Schema")
        try:
            schemas.check_any(found, {})
        except ToolError as error:
            if error.code == "tool_invalid":
                self._wrong(key, f"is not usable: {error.message.rstrip('.')}")
        return found

    def _variables(self) -> list[str]:
        names = self._fields.get("env")
        if names is None:
            return []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._wrong("env", "must be a list of names")
            return []
        for name in names:
            reason = launching.refusal(name)
            if reason is not None:
                self._notes.append(f"The variable {schemas.shown(name)} is never given to a tool: {reason}.")
        return names

    def _result(self) -> Literal["text", "json"]:
        value = self._fields.get("result", "json")
        if value not in ("text", "json"):
            self._wrong("result", f"must be text or json, not {schemas.shown(value)}")
        return "text" if value == "text" else "json"

    def _description(self) -> str:
        value = self._fields.get("description")
        if value is not None and not isinstance(value, str):
            self._wrong("description", f"must be text, not {schemas.shown(value)}")
        text = self._written.body or (value if isinstance(value, str) else "").strip()
        if not text:
            self._notes.append("There is no description, so a model cannot know when to use the tool.")
        return text

    def _unknown(self) -> Iterator[str]:
        for key in self._fields:
            if key not in _KEYS:
                near = schemas.did_you_mean(str(key), _KEYS)
                hint = f"; did you mean {near}?" if near else "."
                yield f"The key {schemas.shown(key)} is not known{hint}"


# --- a call -------------------------------------------------------------------------------------------------------


def executor(
    environ: Mapping[str, str], grants: security.Grants, confine: Confine | None = None
) -> Callable[[Definition], Execute]:
    """Return what makes folder tools run: with the user's environment and grants, and what confines those that ask."""

    def make(definition: Definition) -> Execute:
        tool = _FolderTool(definition, environ, grants, confine)
        return tool.execute

    return make


class _FolderTool:
    """Runs the calls of one folder tool; used from many threads at once."""

    def __init__(
        self, definition: Definition, environ: Mapping[str, str], grants: security.Grants, confine: Confine | None
    ) -> None:
        self._definition = definition
        self._environ = environ
        self._grants = grants
        self._confine = confine
        self._seal = _Seal(definition)

    def execute(self, ctx: Context, args: dict[str, Any]) -> Output:
        definition, details = self._definition, self._definition.details
        args = schemas.check_any(definition.parameters, args).args
        self._seal.check()
        root = ctx.workspace.root
        env = launching.environment(details["env"], self._environ)
        script = os.path.join(definition.folder, details["script"])
        # looked up before anybody is asked about a call that cannot be made
        launch = launching.launch(details["runtime"], script, cwd=root, env=env)
        if details["securityScript"] is not None:
            self._permit(ctx, args, env)
            self._seal.check()
        data = _encoded({**args, "workspacePath": root, "sessionId": ctx.session})
        finished = self._run(ctx, launch, data, details["seconds"])
        return _output(definition, finished, ctx.overflow.limit)

    def _permit(self, ctx: Context, args: dict[str, Any], env: Mapping[str, str]) -> None:
        """Return when the security script, or the user whom it wants to be asked, lets the call run."""
        definition, details = self._definition, self._definition.details
        script = os.path.join(definition.folder, details["securityScript"])
        if not os.path.isfile(script):
            raise security.missing(definition.name, details["securityScript"])
        launch = launching.launch(details["runtime"], script, cwd=definition.folder, env=env)
        allowed = [root.real for root in ctx.door.roots if root.writable]
        asked = security.question(args, workspace=ctx.workspace.root, session=ctx.session, allowed_paths=allowed)
        finished = self._run(ctx, launch, _encoded(asked), details["securitySeconds"])
        answer = security.understand(definition.name, finished, details["securitySeconds"])
        security.permit(answer, args, self._grants, ctx.approve, warning="⚠ " if definition.dangerous else "")

    def _run(self, ctx: Context, launch: Launch, data: bytes, seconds: float) -> Finished:
        with confined(self._definition, self._confine, ctx, launch.cwd) as held:
            return launching.run(launch, data, seconds=seconds, fence=ctx.fence, confined=held)


class _Seal:
    """Refuses a folder whose files are no longer what was loaded; reads them only when their times have changed."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._lock = threading.Lock()
        self._stamps: list[_Stamp] | None = None

    def check(self) -> None:
        """Return when the files are what was loaded, raise when not."""
        folder, names = self._definition.folder, self._definition.details["files"]
        if self._definition.source == "project" and _files(folder) != names:
            raise self._changed("files have come or gone in its folder")
        try:
            stamps = [_stamp(os.path.join(folder, name)) for name in names]
            with self._lock:
                if stamps == self._stamps:
                    return
            files = {name: _contents(os.path.join(folder, name)) for name in names}
        except OSError as error:
            raise self._changed(f"{error.filename} cannot be read: {os.strerror(error.errno or 0)}") from None
        if fingerprint(files) != self._definition.content_hash:
            raise self._changed("its files have just changed")
        with self._lock:
            # what was written just now could be written again and look the same
            self._stamps = stamps if time.time_ns() - max(stamps).changed_ns > _SETTLED_NS else None

    def _changed(self, what: str) -> ToolError:
        return ToolError(
            "tool_invalid",
            f"{self._definition.name} was not run: {what}.",
            suggestion="Send the call again: the tool is loaded anew, once the user trusts it.",
        )


def _files(folder: str) -> list[str]:
    """Return the names of all files and links below a folder."""
    found = []
    for inner, folders, files in os.walk(folder):
        paths = [os.path.join(inner, name) for name in (*folders, *files)]
        found += [path for path in paths if os.path.islink(path) or not os.path.isdir(path)]
    return sorted(os.path.relpath(path, folder) for path in found)


class _Stamp(NamedTuple):
    """What changes when a file changes."""

    changed_ns: int
    written_ns: int
    size: int
    inode: int
    device: int


def _stamp(path: str) -> _Stamp:
    status = os.stat(path)
    return _Stamp(status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)


def _contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


# --- what comes back ----------------------------------------------------------------------------------------------


def _output(definition: Definition, finished: Finished, limit: int) -> Output:
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
    if value is _NO_VALUE:
        quoted = json.dumps(stdout[:QUOTED_CHARACTERS], ensure_ascii=False)
        what = f"printed what is not JSON: {quoted}" if stdout.strip() else "printed nothing, where JSON is needed"
        raise _failure(definition, "tool_failed", what, stdout, stderr)
    value, view = views.extract(value)
    if error := _error(value):
        raise _failure(definition, "tool_failed", f"answered with an error: {error}", stdout, stderr)
    warnings = [
        *(["There was other output around the JSON of the script."] if noise else []),
        *_misfits(definition, value),
    ]
    if warnings:
        meta["warnings"] = warnings
    if isinstance(value, str):
        return Output(value, view=view, meta=meta)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # what is too long to answer with is kept on disk as text
    if value is None or len(text) > limit:
        return Output(text, view=view, meta=meta)
    return Output(data=value, view=view, meta=meta)


_NO_VALUE = object()


def _value(stdout: str) -> tuple[Any, bool]:
    """Return the JSON value that a script printed, _NO_VALUE when there is none, and whether there was more around it.

    Of several things printed, the last object on a line of its own counts, else the last that begins on one.
    """
    value = _parsed(stdout)
    if value is not _NO_VALUE:
        return value, False
    lines = stdout.split("\n")
    for line in reversed(lines):
        if line.startswith("{") and isinstance(value := _parsed(line), dict):
            return value, True
    begun = [number for number, line in enumerate(lines) if line.startswith("{")]
    for number in reversed(begun[-_BLOCKS_TRIED:]):
        end = next((end for end in range(number, len(lines)) if lines[end].rstrip() == "}"), number)
        if isinstance(value := _parsed("\n".join(lines[number : end + 1])), dict):
            return value, True
    return _NO_VALUE, False


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
        if "\\u" in text:
            # half a character, as of a text that was cut, cannot be sent on
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
            value = json.loads(whole.decode("utf-16-le", "replace"))
    except (ValueError, RecursionError):
        return _NO_VALUE
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
        schemas.check_any(definition.details["outputSchema"], value)
    except ToolError as error:
        return [f"The result does not fit outputSchema: {error.message}"]
    return []


def _failed(definition: Definition, finished: Finished, stdout: str, stderr: str) -> ToolError:
    value, _ = _value(stdout)
    said = stderr.strip() or ("" if value is _NO_VALUE else _error(value)) or stdout.strip() or "it says nothing"
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
    if views.KEY not in stdout:
        return stdout
    value, _ = _value(stdout)
    return stdout if value is _NO_VALUE else json.dumps(views.extract(value)[0], ensure_ascii=False)


def _printed(stream: Captured) -> str:
    return (stream.head + stream.tail).decode("utf-8-sig", "replace")
