"""Runs the scripts of markdown tools: from a temporary file, with the values of the call bound to variables.

A tool without a `sandbox` key has the rights and the environment of the user, without the keys of model providers and
the variables that make a shell run other code first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from hilt.call import Output
from hilt.custom import markdown_tools
from hilt.custom.definition import Definition
from hilt.custom.script_sandbox import ConfineDeclared, run_confined
from hilt.custom.templates import binding
from hilt.custom.templates.placeholders import Shell, Unbindable
from hilt.errors import ToolError
from hilt.output import foreign_views, printed
from hilt.output.overflow import OMITTED, location_note
from hilt.places import SHELL_VARIABLES
from hilt.policy.decision import OWN, Vote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.processes.call_processes import WorkingFolder
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.capturing import Captured, Finished
    from hilt.surroundings import Surroundings

SHOWN_CHARACTERS = 32_000
TAIL_CHARACTERS = 8_000  # of these, for the end of longer output
STDERR_CHARACTERS = 8_000

# keys for hilt's own model; a tool gets one only if its file names it
PROVIDER_KEYS = frozenset(
    (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "AZURE_OPENAI_API_KEY"),
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
        *("CO_API_KEY", "COHERE_API_KEY", "TOGETHER_API_KEY", "FIREWORKS_API_KEY", "CEREBRAS_API_KEY"),
        *("PERPLEXITY_API_KEY", "MOONSHOTAI_API_KEY", "HILT_API_KEY", "HILT_MODEL_API_KEY"),
    )
)

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_INSTALL = "Install bash, or set shell: sh in the tool's file if the script does not need bash."


class Program(NamedTuple):
    """The shell that runs a script: its kind and its full path."""

    shell: Shell
    path: str


def environment(definition: Definition, surroundings: Surroundings) -> dict[str, str]:
    """Return the complete environment of a tool's script."""
    given = surroundings.given
    declared = {name: expand(value, given) for name, value in definition.details["env"].items()}
    if definition.details["env_only"]:
        return surroundings.environment(declared, only=SHELL_VARIABLES)
    return surroundings.environment(declared, without=PROVIDER_KEYS)


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Expand ${VAR}, $VAR and ${VAR:-default} in a text of the front matter; unset variables are empty."""

    def value(match: re.Match[str]) -> str:
        return environ.get(match[1] or match[3]) or match[2] or ""

    return _VARIABLE.sub(value, text)


def call_lines(name: str, args: Mapping[str, Any], output: str | None = None) -> str:
    """Return a call as shown in a terminal; `output` is the text that the model gets."""
    lines = [f"{markdown_tools.SIGN}{name}"]
    if args:
        pairs = (
            f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for key, value in args.items()
        )
        lines.append("Args: " + ", ".join(_short(printed.plain(pair).replace("\n", " ")) for pair in pairs))
    if output is not None:
        lines.append(f"Output: ~{-(-len(output) // 4)} tokens")
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


class BoundScript:
    """Runs the script of one tool; `confine` confines those that declare a sandbox."""

    def __init__(
        self, definition: Definition, surroundings: Surroundings, confine: ConfineDeclared | None = None
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._confine = confine
        self._templates: dict[str, binding.Template] = {}  # by shell; two threads may build the same one, harmlessly

    def vote(self, ctx: Context, args: dict[str, Any]) -> Vote | None:
        """Vote to ask if the script may run a value as code; None if all values are only data."""
        definition = self._definition
        kinds = markdown_tools.kinds(definition.parameters)
        values = markdown_tools.check_arguments(definition.parameters, args)
        warned = definition.details["warned"]
        if warned is None:
            enabled = [name for name, value in values.items() if binding.enables_section(value)]
            with self._bindable():
                warned = binding.check(self._template(self._program().shell), kinds, enabled)
        warnings = [
            item for item in (binding.RiskyLine(*row) for row in warned) if binding.must_prompt(item, values, kinds)
        ]
        if not warnings or ctx.mode == "yolo":
            return None
        reasons = "; ".join(f"{item.reason} (line {item.line})" for item in warnings[:3])
        return Vote("ask", OWN, f"the script may run a value as code: {reasons}")

    def __call__(self, ctx: Context, args: dict[str, Any]) -> Output:
        """Run the script to its end."""
        definition = self._definition
        values = markdown_tools.check_arguments(definition.parameters, args)
        program = self._program()
        with self._bindable():
            script = binding.render(self._template(program.shell), values)
        env = environment(definition, self._surroundings)
        where = expand(definition.details["cwd"] or ".", self._surroundings.given) or "."
        with ctx.processes.folder(where) as folder, _file(ctx, definition.name, script) as path:
            finished = self._run(ctx, [program.path, path], folder, env)
            return self._output(ctx, finished, path)

    def _program(self) -> Program:
        declared = self._definition.details["shell"]
        bash = self._surroundings.find("bash") if declared != "sh" else None
        if bash is not None:
            return Program("bash", bash)
        if declared == "bash":
            message = (
                f"{self._definition.name} needs bash, which is not on the PATH.{self._surroundings.advice('bash')}"
            )
            raise ToolError("runtime_missing", message, suggestion=_INSTALL)
        return Program("sh", self._surroundings.find("sh") or "/bin/sh")

    def _template(self, shell: Shell) -> binding.Template:
        if shell not in self._templates:
            details = self._definition.details
            names = set(self._definition.parameters["properties"])
            is_validated = shell == markdown_tools.expected_shell(details["shell"])
            template = binding.bind(
                details["body"], names, shell=shell, line=details["line"], is_validated=is_validated
            )
            self._templates[shell] = template
        return self._templates[shell]

    @contextmanager
    def _bindable(self) -> Iterator[None]:
        try:
            yield
        except Unbindable as error:
            message = f"{self._definition.origin}:{error.line}: {error.message}."
            raise ToolError("tool_invalid", message, suggestion=_INSTALL, line=error.line) from None

    def _run(self, ctx: Context, argv: list[str], folder: WorkingFolder, env: Mapping[str, str]) -> Finished:
        from hilt.sandbox import capturing, spawning

        def run(sandbox: Launch | None) -> Finished:
            return capturing.run(
                argv,
                cwd=folder.handle,
                env=env,
                limits=spawning.Limits(timeout=self._definition.timeout),
                cancelled=ctx.fence.event(),
                spill=ctx.overflow.open,
                confined=sandbox or spawning.UNCONFINED,
            )

        finished = run_confined(self._definition, self._confine, ctx, folder.path, run)
        ctx.fence.check()
        return finished

    def _output(self, ctx: Context, finished: Finished, script: str) -> Output:
        definition = self._definition
        # name the tool's file, not the deleted script: their line numbers are the same
        stderr = _text(finished.stderr).replace(script, definition.origin)
        stderr = stderr if len(stderr) <= STDERR_CHARACTERS else "[…]" + stderr[-STDERR_CHARACTERS:]
        if finished.reason == "exit" and finished.exit_code == 0:
            return self._answer(ctx, finished.stdout, {"exit_code": 0, **({"stderr": stderr} if stderr else {})})
        stdout = self._shorten(ctx, finished.stdout)[0]
        facts: dict[str, Any] = {"exit_code": finished.exit_code, "stdout": stdout, "stderr": stderr}
        if finished.reason == "timeout":
            milliseconds = round(definition.timeout * 1000)
            raise ToolError("timeout", f"Custom tool timed out after {milliseconds} ms{_ending(stderr)}", **facts)
        if finished.reason == "limit":
            raise ToolError("resource_limit", "Custom tool printed more than 64 MiB and was killed.", **facts)
        reason = stderr.strip() or stdout.strip()[-STDERR_CHARACTERS:]
        raise ToolError("tool_failed", f"Custom tool failed (exit {finished.exit_code}): {reason}", **facts)

    def _answer(self, ctx: Context, stdout: Captured, meta: Mapping[str, Any]) -> Output:
        if self._definition.result == "text":
            text, overflow = self._shorten(ctx, stdout)
            return Output(text, meta={**meta, **overflow}, bounded=True)
        from hilt.custom import answers
        from hilt.wire import decode_value

        if stdout.omitted:
            raise ToolError("tool_failed", f"Custom tool printed too much JSON: {stdout.total} bytes.")
        try:
            data, view = foreign_views.extract(decode_value(stdout.head + stdout.tail))
        except ToolError as error:
            excerpt = _text(stdout)[:200]
            message = f"Custom tool printed invalid JSON: {error.message} It begins: {excerpt}"
            raise ToolError("tool_failed", message) from None
        text, data = answers.fit_to_limit("", data, ctx.overflow.limit)
        return Output(text, data, view=view, meta=meta)

    def _shorten(self, ctx: Context, stdout: Captured) -> tuple[str, dict[str, Any]]:
        """Return the output for the model, cut to its beginning and end if too long, and metadata on the rest."""
        text = _text(stdout)
        if not stdout.omitted and len(text) <= SHOWN_CHARACTERS:
            return text, {}
        path = stdout.spill or ctx.overflow.try_save(stdout.head + stdout.tail, self._definition.name)
        hint = location_note(path)
        note = f"\n[{stdout.total} bytes; the beginning and the end are shown. {hint}]"
        gap = f"\n\n{OMITTED}\n\n"
        head = printed.plain(stdout.head.decode("utf-8", "replace"))
        tail = printed.plain((stdout.tail or stdout.head).decode("utf-8", "replace"))
        head_length = SHOWN_CHARACTERS - TAIL_CHARACTERS - len(gap) - len(note)
        shortened = head[:head_length] + gap + tail[-TAIL_CHARACTERS:].removesuffix("\n") + note
        saved = {} if path is None else {"_persisted": True, "_filePath": path}
        return shortened, {**saved, "_originalSize": stdout.total}


def _ending(stderr: str) -> str:
    return f": {stderr.strip()}" if stderr.strip() else "."


def _text(stream: Captured) -> str:
    return printed.plain((stream.head + stream.tail).decode("utf-8", "replace"))


@contextmanager
def _file(ctx: Context, name: str, script: str) -> Iterator[str]:
    """Yield the path of a temporary file with the script, readable only by its owner."""
    path = os.path.join(ctx.overflow.directory, f"{os.urandom(8).hex()}-{name}.sh")
    try:
        _write(ctx, path, script.encode())
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)


def _write(ctx: Context, path: str, data: bytes) -> None:
    try:
        ctx.overflow.open()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        message = f"The script cannot be written to disk: {os.strerror(error.errno or 0)}."
        raise ToolError("resource_limit", message, suggestion="Free disk space.") from error
