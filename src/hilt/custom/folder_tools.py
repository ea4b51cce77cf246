"""Folder tools: a `tool.md` or `tool.json`, a script that reads and prints JSON, and an optional security script."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakSet

from hilt import loaders
from hilt import schema as schemas
from hilt.call import Output
from hilt.custom import answers, launching, security
from hilt.custom.definition import (
    FILE_BYTES,
    Content,
    Definition,
    FieldReader,
    Loaded,
    ToolProblem,
    fingerprint,
)
from hilt.custom.script_sandbox import ConfineDeclared, confined, run_confined
from hilt.errors import ToolError, did_you_mean
from hilt.formats import front_matter
from hilt.formats.front_matter import BadFrontMatter, FrontMatter
from hilt.places import state_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.custom.launching import ScriptStart
    from hilt.custom.workers import Workers
    from hilt.fence import Fence
    from hilt.policy.decision import Vote
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.capturing import Finished
    from hilt.surroundings import Surroundings

MARKDOWN, JSON = "tool.md", "tool.json"  # the first that exists is read

TIMEOUT_MS = 30_000
SECURITY_TIMEOUT_MS = 10_000
LARGEST_TIMEOUT_MS = 86_400_000
SECURITY_SCRIPT = "security.ts"


_KEYS = frozenset(
    (
        *("name", "description", "script", "runtime", "inputSchema", "outputSchema", "timeout", "requireApproval"),
        *("dangerous", "hasSecurityCheck", "securityScript", "securityTimeout", "env"),
        *("sandbox", "undo", "effects", "examples", "result", "warm"),
    )
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")


# --- the definition -----------------------------------------------------------------------------------------------


def read(content: Content) -> Loaded:
    """Return the tool of a folder; a folder without a definition is skipped."""
    name = next((name for name in (MARKDOWN, JSON) if name in content.files), None)
    if name is None:
        return Loaded()
    origin = os.path.join(content.path, name)
    try:
        # unlike a script, a definition may use any line ending
        data = content.files[name].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        read_document = front_matter.read if name == MARKDOWN else front_matter.read_json
        document = read_document(data, limit=FILE_BYTES)
    except BadFrontMatter as error:
        return Loaded(problems=(ToolProblem(origin, error.message, error.line),))
    reading = _FolderReader(document, content)
    return reading.loaded(reading.definition(origin))


class _FolderReader(FieldReader):
    def __init__(self, document: FrontMatter, content: Content) -> None:
        super().__init__(document)
        self._content = content

    def definition(self, origin: str) -> Definition:
        """Return the definition; discard it if there are problems."""
        fields, files = self.fields, self._content.files
        name = self._name()
        runtime = self._runtime()
        script = self._path("script", None)
        if script and not self._exists(script):
            self.add_problem(f"script {script} is not in the tool's folder", "script")
        has_check = self.flag("hasSecurityCheck")
        check = self._path("securityScript", SECURITY_SCRIPT)
        if has_check and not self._exists(check):
            self.notes.append(f"The security script {check} is missing, so every call is rejected.")
        if not has_check and fields.get("securityScript") is not None:
            self.notes.append("securityScript does not run, because hasSecurityCheck is not true.")
        seconds = self._milliseconds("timeout", TIMEOUT_MS)
        check_seconds = self._milliseconds("securityTimeout", SECURITY_TIMEOUT_MS)
        parameters, results = self._schema("inputSchema"), self._schema("outputSchema")
        if parameters.get("type", "object") not in ("object", ["object"]):
            self.add_problem("inputSchema must have type object", "inputSchema")
        effects = self.effects()
        details = {
            "runtime": runtime,
            "script": script,
            "outputSchema": results,
            "env": self._variables(),
            "seconds": seconds,
            "securityScript": check if has_check else None,
            "securitySeconds": check_seconds,
            "files": sorted(files),
            "is_whole": self._content.is_whole,
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
            approval="always" if self.flag("requireApproval") else "never",
            read_only=effects == frozenset(("read",)),
            timeout=seconds + check_seconds if has_check else seconds,
            sandbox=self.sandbox(is_warm=fields.get("warm") is True),
            effects=effects,
            dangerous=self.flag("dangerous"),
            result=self.choice("result", ("text", "json"), "json"),
            warm=self._warm(),
            examples=self.examples(),
            notes=(*self.notes, *self._unknown()),
            line=self.document.line("name"),
            details=details,
        )

    def _required(self, key: str, kind: type, expected: str) -> Any:
        value = self.fields.get(key)
        if value is None:
            self.add_problem(f"{key} is missing", key)
        elif not isinstance(value, kind):
            self.add_problem(f"{key} must be {expected}, not {schemas.quoted(value)}", key)
        else:
            return value
        return kind()

    def _name(self) -> str:
        name: str = self._required("name", str, "a string")
        if name and not _NAME.match(name):
            self.add_problem(f"name must be at most 64 letters, digits, - and _, not {schemas.quoted(name)}", "name")
        return name

    def _runtime(self) -> str:
        runtime: str = self._required("runtime", str, "a string")
        if runtime and runtime not in launching.RUNTIMES:
            near = did_you_mean(runtime, launching.RUNTIMES)
            hint = f"; did you mean {near}?" if near else ""
            choices = ", ".join(launching.RUNTIMES)
            self.add_problem(f"runtime must be one of {choices}, not {schemas.quoted(runtime)}{hint}", "runtime")
        return runtime

    def _path(self, key: str, default: str | None) -> str:
        is_default = default is not None and self.fields.get(key) is None
        value = default if is_default else self._required(key, str, "a string")
        path = os.path.normpath(value) if value else ""
        if os.path.isabs(path) or path.split(os.sep)[0] == ".." or "\0" in path or path == ".":
            self.add_problem(f"{key} must be a file in the tool's folder, not {schemas.quoted(value)}", key)
            return ""
        return path

    def _exists(self, path: str) -> bool:
        if path in self._content.files:
            return True
        # for the user's own tools, only the definition was read
        return not self._content.is_whole and os.path.isfile(os.path.join(self._content.path, path))

    def _milliseconds(self, key: str, default: int) -> float:
        value = self.fields.get(key)
        if value is None:
            return default / 1000
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_TIMEOUT_MS:
            largest = f"{LARGEST_TIMEOUT_MS:,}"
            self.add_problem(
                f"{key} must be milliseconds, above 0 and at most {largest}, not {schemas.quoted(value)}", key
            )
            return default / 1000
        return value / 1000

    def _schema(self, key: str) -> dict[str, Any]:
        schema: dict[str, Any] = self._required(key, dict, "a JSON Schema")
        try:
            schemas.check_any(schema, {})
        except ToolError as error:
            if error.code == "tool_invalid":
                why = error.message.removeprefix("The tool's schema is invalid: ")
                self.add_problem(f"{key} is invalid: {why.rstrip(' .')}", key)
        return schema

    def _variables(self) -> list[str]:
        names = self.fields.get("env")
        if names is None:
            return []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.add_problem("env must be a list of variable names", "env")
            return []
        for name in names:
            reason = launching.refusal(name)
            if reason is not None:
                self.notes.append(f"The variable {schemas.quoted(name)} is never passed to a tool: {reason}.")
        return names

    def _warm(self) -> bool:
        is_warm = self.flag("warm")
        if is_warm and self.fields.get("result") == "text":
            self.add_problem("warm tools answer with lines of JSON, so result cannot be text", "warm")
        return is_warm

    def _description(self) -> str:
        value = self.fields.get("description")
        if value is not None and not isinstance(value, str):
            self.add_problem(f"description must be a string, not {schemas.quoted(value)}", "description")
        text = self.document.body.strip() or (value if isinstance(value, str) else "").strip()
        if not text:
            self.notes.append("There is no description, so a model cannot know when to use the tool.")
        return text

    def _unknown(self) -> Iterator[str]:
        for key in self.fields:
            if key not in _KEYS:
                near = did_you_mean(str(key), _KEYS)
                hint = f"; did you mean {near}?" if near else "."
                yield f"Unknown key: {schemas.quoted(key)}{hint}"


# --- a call -------------------------------------------------------------------------------------------------------


class FolderTool:
    """Runs the calls of one folder tool. Thread-safe.

    `confine` confines tools that declare a sandbox. Warm tools run in `workers`; without it, each call is a process.
    """

    def __init__(
        self,
        definition: Definition,
        surroundings: Surroundings,
        grants: security.Grants,
        confine: ConfineDeclared | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._grants = grants
        self._confine = confine
        self._workers = workers
        self._seal = _Seal(definition, surroundings)
        self._checked: WeakSet[Fence] = WeakSet()  # of calls whose security check has run

    def __call__(self, ctx: Context, args: dict[str, Any]) -> Output:
        """Run the script."""
        details = self._definition.details
        args = schemas.check_any(self._definition.parameters, args).args
        if details["securityScript"] is not None and ctx.fence not in self._checked:
            raise ToolError("denied", f"{self._definition.name} was not run: its security check did not run.")
        definition = self._seal.check()
        root = ctx.workspace.root
        env = launching.environment(details["env"], self._surroundings)
        script = os.path.join(definition.folder, details["script"])
        launch = launching.launch(details["runtime"], script, self._surroundings, cwd=root, env=env)
        request = {**args, "workspacePath": root, "sessionId": ctx.session}
        if definition.warm and self._workers is not None:
            return self._ask(self._workers, definition, ctx, launch, request)
        finished = self._run(definition, ctx, launch, _encoded(request), details["seconds"])
        return answers.output(definition, finished, ctx.overflow.limit)

    def _ask(
        self, workers: Workers, definition: Definition, ctx: Context, launch: ScriptStart, request: dict[str, Any]
    ) -> Output:
        """Run the call in a warm process."""
        from hilt.custom import warm

        reply = warm.ask(
            workers,
            definition,
            launch,
            json.loads(_encoded(request)),
            ctx,
            lambda: confined(definition, self._confine, ctx, launch.cwd),
        )
        return answers.result(definition, reply.value, "", "", {}, limit=ctx.overflow.limit, noise=reply.is_noisy)

    def vote(self, ctx: Context, args: dict[str, Any]) -> Vote | None:
        """Return the vote of the security script; None if there is no script, or it allows the call."""
        details = self._definition.details
        if details["securityScript"] is None:
            return None
        definition = self._seal.check()
        env = launching.environment(details["env"], self._surroundings)
        # resolve the runtime before prompting anyone about a call that cannot run
        needed = os.path.join(definition.folder, details["script"])
        launching.launch(details["runtime"], needed, self._surroundings, cwd=ctx.workspace.root, env=env)
        script = os.path.join(definition.folder, details["securityScript"])
        if not os.path.isfile(script):
            raise security.missing(definition.name, details["securityScript"])
        launch = launching.launch(details["runtime"], script, self._surroundings, cwd=definition.folder, env=env)
        # scripts do not prompt for paths below these, so omit the workspace and any folder around or inside it
        workspace, *others = (root.real for root in ctx.door.roots if not root.is_library)
        allowed = [path for path in others if os.path.commonpath((path, workspace)) not in (path, workspace)]
        question = security.question(args, workspace=ctx.workspace.root, session=ctx.session, allowed_paths=allowed)
        finished = self._run(definition, ctx, launch, _encoded(question), details["securitySeconds"])
        verdict = security.parse_answer(definition.name, finished, details["securitySeconds"])
        self._checked.add(ctx.fence)
        return security.vote(verdict, self._grants)

    def _run(self, definition: Definition, ctx: Context, launch: ScriptStart, data: bytes, seconds: float) -> Finished:
        def run(sandbox: Launch | None) -> Finished:
            return launching.run(launch, data, seconds=seconds, fence=ctx.fence, confined=sandbox)

        return run_confined(definition, self._confine, ctx, launch.cwd, run)


class _Seal:
    """Rejects a folder whose files have changed since they were loaded, or that links to what commands can change.

    A project's tool runs from a private copy of the trusted bytes: nothing can be swapped between check and use, and
    its runtime finds no libraries of the workspace around it.
    """

    def __init__(self, definition: Definition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._copy = os.path.join(state_dir(surroundings.given), "cache", "tools", definition.content_hash)

    def check(self) -> Definition:
        """Return the definition with the folder to run it from; raise if its files have changed."""
        folder, details = self._definition.folder, self._definition.details
        names, is_whole = details["files"], details["is_whole"]
        if is_whole and _files(folder) != names:
            raise self._changed("files were added to or removed from its folder")
        try:
            files = {name: loaders.read(os.path.join(folder, name), follow=not is_whole) for name in names}
        except OSError as error:
            raise self._changed(f"a file cannot be read: {os.strerror(error.errno or 0)}") from None
        except ValueError as error:
            raise self._changed(f"a file cannot be read: {error}") from None
        if fingerprint(files) != self._definition.content_hash:
            raise self._changed("its files have just changed")
        if not is_whole:
            self._refuse_links()
            return self._definition
        launching.write_copy(self._copy, files, 0o700)
        return self._definition._replace(folder=self._copy)

    def _refuse_links(self) -> None:
        folder = self._definition.folder
        for name in _files(folder):
            path = os.path.join(folder, name)
            if os.path.islink(path) and self._surroundings.place(path):
                raise ToolError(
                    "tool_invalid",
                    f"{self._definition.name} was not run: {path} leads into the workspace, where commands can write.",
                    suggestion="Replace the link with a copy.",
                )

    def _changed(self, what: str) -> ToolError:
        return ToolError(
            "tool_invalid",
            f"{self._definition.name} was not run: {what}.",
            suggestion="Retry the call: the tool is reloaded once the user trusts it.",
        )


def _files(folder: str) -> list[str]:
    """Return the names of all files and links below a folder."""
    paths = []
    for inner, folders, files in os.walk(folder):
        entries = [os.path.join(inner, name) for name in (*folders, *files)]
        paths += [path for path in entries if os.path.islink(path) or not os.path.isdir(path)]
    return sorted(os.path.relpath(path, folder) for path in paths)


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
