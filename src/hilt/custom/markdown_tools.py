"""Markdown tools: one file whose front matter declares a tool and whose body is its shell script.

Reading a file never raises: it reports every problem with its line. Arguments are validated against the declared
parameters, with the messages that the format specifies.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hilt import variables
from hilt.custom.definition import (
    FILE_BYTES,
    Content,
    Definition,
    FieldReader,
    Loaded,
    ToolProblem,
    fingerprint,
)
from hilt.custom.templates import binding
from hilt.custom.templates.placeholders import Shell, Unbindable
from hilt.errors import ToolError
from hilt.formats import front_matter
from hilt.formats.front_matter import BadFrontMatter, FrontMatter
from hilt.schema import (
    ARTICLES,
    VIOLATIONS_IN_DETAILS,
    VIOLATIONS_IN_MESSAGE,
    Schema,
    check_value,
    decoded,
    kind_of,
    numbered_groups,
    quoted,
)

TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 300_000
SIGN = "⚒ "  # the prefix of messages for people

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_KEYS = frozenset(
    (
        *("name", "description", "parameters", "approval", "read_only", "timeout_ms", "cwd", "env", "env_only"),
        *("shell", "sandbox", "undo", "effects", "examples", "result", "warm"),
    )
)
# the constraints of a parameter: the types they apply to, and their names in JSON Schema
_CONSTRAINTS = {
    "pattern": (("string",), "pattern"),
    "minLength": (("string",), "minLength"),
    "maxLength": (("string",), "maxLength"),
    "min": (("number", "integer"), "minimum"),
    "max": (("number", "integer"), "maximum"),
    "items": (("array",), "items"),
}
_TYPES = ("string", "number", "integer", "boolean", "array")


def read(content: Content) -> Loaded:
    """Return the tool of a file; a README without front matter is skipped."""
    data = content.files[""]
    if os.path.basename(content.path).lower() == "readme.md" and not data.removeprefix(b"\xef\xbb\xbf").startswith(
        b"---"
    ):
        return Loaded()
    try:
        document = front_matter.read(data, limit=FILE_BYTES)
    except BadFrontMatter as error:
        return Loaded(problems=(ToolProblem(content.path, error.message, error.line),))
    reading = _MarkdownReader(document)
    return reading.loaded(reading.definition(content))


class _MarkdownReader(FieldReader):
    def __init__(self, document: FrontMatter) -> None:
        super().__init__(document)
        self.warned: list[binding.RiskyLine] | None = []  # None if it depends on the sections of a call

    def definition(self, content: Content) -> Definition:
        fields = self.fields
        for key in fields:
            if key not in _KEYS:
                self.notes.append(f"line {self.document.line(key)}: unknown key {key} is ignored")
        if fields.get("warm") is True:
            self.notes.append(f"line {self.document.line('warm')}: warm is ignored; only folder tools support it")
        approval = self.choice("approval", ("never", "always", "destructive"), "always")
        parameters = self._parameters()
        shell = self.choice("shell", ("bash", "sh"), None)
        body = self._body(parameters, shell)
        environment = self._environment()
        return Definition(
            name=self._name(),
            description=self._text("description"),
            parameters=parameters,
            origin=content.path,
            source=content.source,
            format="markdown",
            folder=os.path.dirname(content.path),
            content_hash=fingerprint(content.files),
            approval=approval,
            read_only=self.flag("read_only", default=approval == "never"),
            timeout=self._milliseconds() / 1000,
            sandbox=self.sandbox(),
            effects=self.effects(),
            result=self.choice("result", ("text", "json"), "text"),
            warm=self.flag("warm", default=False),
            examples=self.examples(),
            notes=tuple(self.notes),
            line=self.document.line("name"),
            details={
                "body": body,
                "line": self.document.body_line,
                "cwd": self._path(),
                "env": environment,
                "env_only": self.flag("env_only", default=False),
                "shell": shell,
                "warned": self.warned,
            },
        )

    # --- single fields --------------------------------------------------------------------------------------------

    def _name(self) -> str:
        name = self.fields.get("name")
        if name is None:
            self.add_problem("the name is missing")
        elif not isinstance(name, str) or not _NAME.match(name) or len(name) > 64:
            expected = "start with a lowercase letter and have at most 64 lowercase letters, digits and _"
            self.add_problem(f"the name must {expected}, not {quoted(name)}", "name")
        return name if isinstance(name, str) else ""

    def _text(self, key: str) -> str:
        value = self.fields.get(key)
        if value is None:
            self.add_problem(f"the {key} is missing")
        elif not isinstance(value, str) or not value.strip():
            self.add_problem(f"the {key} must be a non-empty string, not {quoted(value)}", key)
        return value.strip() if isinstance(value, str) else ""

    def _milliseconds(self) -> int:
        value = self.fields.get("timeout_ms", TIMEOUT_MS)
        if kind_of(value) != "integer" or not 1 <= value <= MAX_TIMEOUT_MS:
            self.add_problem(
                f"timeout_ms must be an integer from 1 to {MAX_TIMEOUT_MS}, not {quoted(value)}", "timeout_ms"
            )
            return TIMEOUT_MS
        return int(value)

    def _path(self) -> str | None:
        value = self.fields.get("cwd")
        if value is not None and (not isinstance(value, str) or not value or "\0" in value):
            self.add_problem(f"cwd must be a path, not {quoted(value)}", "cwd")
        return value if isinstance(value, str) else None

    def _environment(self) -> dict[str, str]:
        value = self.fields.get("env")
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.add_problem(f"env must map names to values, not be {ARTICLES[kind_of(value)]}", "env")
            return {}
        environment = {}
        for name, item in value.items():
            if not isinstance(name, str) or not _VARIABLE.match(name):
                self.add_problem(f"{quoted(name)} is not a valid name of an environment variable", "env", name)
            elif isinstance(item, dict | list) or "\0" in str(item):
                self.add_problem(f"the value of {name} must be a string", "env", name)
            else:
                environment[name] = item if isinstance(item, str) else "" if item is None else json.dumps(item)
                if variables.runs_at_start(name):
                    line = self.document.line("env", name)
                    self.notes.append(
                        f"line {line}: {name} is never passed to a tool: it makes programs run other code"
                    )
        return environment

    def _body(self, parameters: Schema, shell: str | None) -> str:
        body, line = self.document.body, self.document.body_line
        if not body.strip():
            self.problems.append((line, "The script below the front matter is missing."))
            return ""
        if "\0" in body:
            self.problems.append((line + body[: body.index("\0")].count("\n"), "The script contains a NUL character."))
            return ""
        try:
            template = binding.bind(body, set(parameters["properties"]), shell=expected_shell(shell), line=line)
            warned = binding.check(template, kinds(parameters))
            self.notes += map(binding.note, warned)
            self.warned = warned if binding.is_checked(template) else None
        except Unbindable as error:
            self.problems.append((error.line, error.message[:1].upper() + error.message[1:] + "."))
        return body

    # --- parameters -----------------------------------------------------------------------------------------------

    def _parameters(self) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for name, entry, path in self._entries():
            if not isinstance(name, str) or not _PARAMETER.match(name):
                self.add_problem(f"{quoted(name)} is not a valid parameter name: use letters, digits, _ and -", *path)
            elif name in properties:
                self.add_problem(f"the parameter {name} is declared twice", *path)
            elif not isinstance(entry, dict):
                self.add_problem(
                    f"the parameter {name} must be an object with keys such as type and description", *path
                )
            else:
                properties[name] = self._parameter(name, entry, path)
                if entry.get("required") is True:
                    required.append(name)
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return schema

    def _entries(self) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
        """Yield the parameters, declared as a mapping or as a list of objects with a name."""
        declared = self.fields.get("parameters")
        if isinstance(declared, dict):
            for name, entry in declared.items():
                yield name, entry, ("parameters", name)
        elif isinstance(declared, list):
            for number, entry in enumerate(declared):
                fields = entry if isinstance(entry, dict) else {}
                declaration = {key: value for key, value in fields.items() if key != "name"}
                yield fields.get("name"), declaration, ("parameters", number)
        elif declared is not None:
            self.add_problem(
                f"parameters must map names to declarations, not be {ARTICLES[kind_of(declared)]}", "parameters"
            )

    def _parameter(self, name: str, entry: dict[Any, Any], path: tuple[Any, ...]) -> Schema:
        kind = entry.get("type")
        if kind is None:
            self.add_problem(f"the parameter {name} has no type; it must be one of {', '.join(_TYPES)}", *path)
            kind = "string"
        if kind not in _TYPES:
            self.add_problem(
                f"the type of {name} must be one of {', '.join(_TYPES)}, not {quoted(kind)}", *path, "type"
            )
            kind = "string"
        schema: Schema = {"type": kind}
        before = len(self.problems)
        for key, value in entry.items():
            problem = self._constraint(schema, name, key, value, path)
            if problem:
                self.add_problem(problem, *path, key)
        if "enum" in entry and isinstance(entry["enum"], list):
            type_schema = {key: value for key, value in schema.items() if key in ("type", "items")}
            for value in entry["enum"]:
                for violation in check_value(type_schema, value, name)[1]:
                    self.add_problem(f"in enum, {violation}", *path, "enum")
        if entry.get("default") is not None and len(self.problems) == before:
            for violation in check_value(schema, entry["default"], name)[1]:
                self.add_problem(f"the default is invalid: {violation}", *path, "default")
            schema["default"] = entry["default"]
        return schema

    def _constraint(self, schema: Schema, name: str, key: Any, value: Any, path: tuple[Any, ...]) -> str | None:
        """Add one key of a parameter to its schema, or return the problem."""
        kind = schema["type"]
        if key in ("type", "default") or value is None:
            return None
        if key == "required":
            return None if isinstance(value, bool) else f"required of {name} must be true or false, not {quoted(value)}"
        if key == "description":
            schema["description"] = value if isinstance(value, str) else quoted(value)
            return None
        if key == "enum":
            if not isinstance(value, list) or not value:
                return f"enum of {name} must be a list of values"
            schema["enum"] = value
            return None
        constraint = {"minimum": "min", "maximum": "max"}.get(key, key)
        if constraint not in _CONSTRAINTS:
            self.notes.append(f"line {self.document.line(*path, key)}: unknown key {key} of {name} is ignored")
            return None
        kinds, keyword = _CONSTRAINTS[constraint]
        if kind not in kinds:
            return f"{key} applies to type {' or '.join(kinds)} only, and {name} is of type {kind}"
        problem = _constraint_problem(constraint, value)
        if problem:
            return f"{key} of {name} {problem}"
        schema[keyword] = {"type": value["type"]} if constraint == "items" else value
        return None


def _constraint_problem(key: str, value: Any) -> str | None:
    """Return the problem with the value of a constraint, if any."""
    if key == "pattern":
        return None if isinstance(value, str) and _compiles(value) else "must be a valid JavaScript regular expression"
    if key == "items":
        is_known = isinstance(value, dict) and value.get("type") in _TYPES[:4]
        return None if is_known else f"must have a type that is one of {', '.join(_TYPES[:4])}"
    if key in ("min", "max"):
        is_number = kind_of(value) in ("integer", "number") and abs(value) != float("inf") and value == value
        return None if is_number else "must be a number"
    return None if kind_of(value) == "integer" and value >= 0 else "must be an integer of at least 0"


def _compiles(pattern: str) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": numbered_groups(pattern)})
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def expected_shell(declared: str | None) -> Shell:
    """Return the shell that a script is parsed for; without bash, it is bound again for sh at the call."""
    return "sh" if declared == "sh" else "bash"


def kinds(parameters: Schema) -> dict[str, binding.Kind]:
    """Return the kind of value of each parameter."""
    return {name: _kind(schema) for name, schema in parameters["properties"].items()}


def _kind(schema: Schema) -> binding.Kind:
    if "enum" in schema or schema["type"] == "boolean":
        return "chosen"
    if schema["type"] == "array":
        is_plain = schema.get("items", {}).get("type") in ("integer", "number", "boolean")
        return "chosen" if is_plain else "texts"
    return "text" if schema["type"] == "string" else "number"


# --- arguments ----------------------------------------------------------------------------------------------------


def check_arguments(parameters: Schema, args: Any) -> dict[str, Any]:
    """Return the declared arguments with defaults filled, or raise `invalid_args` naming every violation.

    Arguments that are not declared are dropped, and null counts as absent.
    """
    if not isinstance(args, Mapping):
        raise _refusal([f"The arguments must be an object, not {ARTICLES[kind_of(args)]}"])
    checked: dict[str, Any] = {}
    violations: list[str] = []
    for name, schema in parameters["properties"].items():
        value = args.get(name)
        if value is None:
            value = schema.get("default")
        if value is None:
            if name in parameters.get("required", ()):
                violations.append(f"Missing required parameter: {name}")
            continue
        checked[name], found = check_value(schema, decoded(schema, value), name)
        violations += found
    if violations:
        raise _refusal(violations)
    return checked


def _refusal(violations: list[str]) -> ToolError:
    message = "; ".join(violations[:VIOLATIONS_IN_MESSAGE])
    if len(violations) > VIOLATIONS_IN_MESSAGE:
        message += f"; and {len(violations) - VIOLATIONS_IN_MESSAGE} more"
    return ToolError("invalid_args", SIGN + message, violations=violations[:VIOLATIONS_IN_DETAILS])
