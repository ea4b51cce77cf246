from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from hilt.call import Output
from hilt.custom import module_tools
from hilt.custom.definition import Content, Definition, Loaded
from hilt.custom.module_tools import Modules
from hilt.custom.workers import Workers
from hilt.errors import ToolError
from hilt.surroundings import Surroundings
from tests.custom.calls import call, environment
from tests.programs import program

pytestmark = pytest.mark.starts_processes

# the example of the format, with an address that needs no network
TICKET = """
import {tool, jsonSchema, type NanocoderToolExport} from 'nanocoder/tools';

export default {
  name: 'jira_ticket',
  tool: tool({
    description: 'Fetch a Jira ticket by key.',
    inputSchema: jsonSchema({
      type: 'object',
      properties: { key: { type: 'string' } },
      required: ['key'],
    }),
    needsApproval: false,
    execute: async ({ key }) => {
      const r = await fetch(`data:text/plain,ticket ${key}`);
      return await r.text();
    },
  }),
  readOnly: true,
} satisfies NanocoderToolExport;
"""
PLAIN = TICKET.replace(", type NanocoderToolExport", "").replace(" satisfies NanocoderToolExport", "")


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as opened:
        yield opened


class Module:
    """A module in a folder, the workspace beside it, and one runtime on the path."""

    def __init__(self, base: str, workers: Workers, host: str) -> None:
        self.folder = os.path.join(base, "tools")
        self.root = os.path.join(base, "workspace")
        self.state = os.path.join(base, "state")
        programs = os.path.join(base, "bin")
        for path in (self.folder, self.root, programs):
            os.makedirs(path)
        os.symlink(os.path.realpath(program(host)), os.path.join(programs, host))
        self.environ = {**environment(), "PATH": programs, "HOME": base}
        self.workers = workers

    @property
    def modules(self) -> Modules:
        return Modules(self.workers, Surroundings(self.environ), self.root, self.state)

    def load(self, text: str, name: str = "made.js") -> Loaded:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return module_tools.read(Content(path, {"": text.encode()}, "personal"), "javascript", self.modules)

    def call(self, definition: Definition, **args: Any) -> Output:
        return call(module_tools.execute(definition, self.modules), **args)

    def run(self, text: str, **args: Any) -> Output:
        loaded = self.load(text)
        assert loaded.problems == ()
        return self.call(loaded.definitions[0], **args)


@pytest.fixture(params=["node", "bun"])
def module(base, workers, request) -> Module:
    return Module(base, workers, request.param)


def module_text(execute: str, *, head: str = "", extra: str = "", more: str = "") -> str:
    return (
        f"{head}\nlet count = 0;\nexport default {{ name: 't', "
        f"tool: {{ description: 'Do.', execute: {execute}{more} }}{extra} }};\n"
    )


def test_the_example_of_the_format_loads_and_runs(module):
    loaded = module.load(PLAIN)

    (definition,) = loaded.definitions
    assert (loaded.problems, definition.name, definition.description) == (
        (),
        "jira_ticket",
        "Fetch a Jira ticket by key.",
    )
    assert definition.parameters == {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    assert (definition.approval, definition.read_only, definition.format) == ("never", True, "javascript")
    assert module.call(definition, key="A-1").text == "ticket A-1"


def test_the_example_of_the_format_runs_unchanged_as_typescript(module):
    (definition,) = module.load(TICKET, "jira.ts").definitions

    assert module.call(definition, key="A-1").text == "ticket A-1"


def test_without_a_runtime_the_problem_says_what_to_install(base, workers):
    module = Module(base, workers, "node")
    module.environ["PATH"] = os.path.join(base, "nothing")

    for name, reason in (("a.js", "JavaScript tools need node or bun"), ("a.ts", "TypeScript tools need bun")):
        (problem,) = module.load(PLAIN, name).problems
        assert reason in problem.message


@pytest.mark.parametrize(
    "more, approval", [("", "always"), (", needsApproval: true", "always"), (", needsApproval: false", "never")]
)
def test_a_module_asks_unless_needs_approval_is_false(module, more, approval):
    (definition,) = module.load(module_text("() => 1", more=more)).definitions

    assert (definition.approval, definition.read_only) == (approval, False)


def test_a_needs_approval_function_is_not_called_and_always_asks(base, workers):
    (definition,) = (
        Module(base, workers, "node").load(module_text("() => 1", more=", needsApproval: () => false")).definitions
    )

    assert definition.approval == "always"


@pytest.mark.parametrize(
    "execute, output",
    [
        ("() => 'text'", Output("text")),
        ("async () => ({a: [1, 'é']})", Output(data={"a": [1, "é"]})),
        ("() => undefined", Output()),
        ("() => null", Output()),
        ("async function* () { yield 'a'; yield 'b'; }", Output("b")),
        ("(args) => args", Output(data={"x": 1})),
        ("(_, options) => typeof options.abortSignal", Output("object")),
        ("() => { console.log('noise'); process.stdout.write('no newline'); return 'x'; }", Output("x")),
    ],
)
def test_return_values_become_results(module, execute, output):
    assert module.run(module_text(execute), x=1) == output


@pytest.mark.parametrize(
    "execute, reason",
    [
        ("() => { throw new TypeError('bad'); }", "t failed: TypeError: bad"),
        ("async () => { throw 'just text'; }", "t failed: just text"),
        ("() => { process.exit(7); }", "status 7"),
        ("() => { const a = {}; a.a = a; return a; }", "that JSON does not support"),
        ("() => 10n", "that JSON does not support"),
    ],
)
def test_a_failure_is_reported_and_the_next_call_works(module, execute, reason):
    text = module_text(f"(args) => args.fine ? 'fine' : ({execute})(args)")
    (definition,) = module.load(text).definitions

    with pytest.raises(ToolError) as caught:
        module.call(definition)

    assert (caught.value.code, reason in caught.value.message) == ("tool_failed", True), caught.value.message
    assert module.call(definition, fine=True).text == "fine"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("export default {", ""),
        ("throw new Error('at load');", "at load"),
        ("import 'nothing-of-this-name';", "nothing-of-this-name"),
        ("import './beside.js';", "beside.js"),
        ("export const x = 1;", "The default export must be an object with name and tool."),
        ("export default {name: 't'};", "The default export must be an object with name and tool."),
        ("export default {name: 't', tool: {execute() {}}};", "The tool.description must be a non-empty string."),
        ("export default {name: 't', tool: {description: 'd'}};", "The tool.execute must be a function."),
        (module_text("() => 1", more=", inputSchema: 'x'"), "The tool.inputSchema must be a JSON Schema"),
        ("process.exit(3);", "status 3"),
    ],
)
def test_a_broken_module_is_reported(module, text, reason):
    with open(os.path.join(module.folder, "beside.js"), "w", encoding="utf-8") as file:
        file.write("export default 1;")

    loaded = module.load(text)

    (problem,) = loaded.problems
    assert loaded.definitions == ()
    assert reason in problem.message, problem.message


@pytest.mark.parametrize("text", ["\n\nthrow new Error('x');\n", "\n\nnothing.of;\n", "\n\nconst = 1;\n"])
def test_a_load_error_is_reported_with_its_line(module, text):
    (problem,) = module.load(text).problems

    assert problem.line == 3


def test_a_commonjs_module_works(module):
    text = "module.exports = { name: 't', tool: { description: 'Do.', execute: () => 'x' } };\n"

    (definition,) = module.load(text, "made.cjs").definitions

    assert module.call(definition).text == "x"


def test_the_validator_runs_first_and_formatters_are_noted(module):
    text = module_text(
        "() => ++count",
        extra=", validator: async ({key}) => key === 'ok' ? {valid: true} : {valid: false, error: `⚒ no ${key}`}, "
        "formatter: () => 'x'",
    )
    (definition,) = module.load(text).definitions

    with pytest.raises(ToolError) as caught:
        module.call(definition, key="bad")

    assert (caught.value.code, caught.value.message) == ("invalid_args", "⚒ no bad")
    (note,) = definition.notes
    assert note.startswith("formatter is ignored")
    assert module.call(definition, key="ok").data == 1
    assert module.call(definition, key="ok").data == 2


def test_nothing_is_loaded_from_the_workspace_or_the_environment(module):
    planted = os.path.join(module.root, "planted.cjs")
    for name, text in {
        "planted.cjs": "process.exit(66)",
        "bunfig.toml": 'preload = ["./planted.cjs"]\n',
        ".env": "PLANTED=yes\n",
        "node_modules/nanocoder/package.json": '{"exports": {"./tools": "./tools.js"}}',
        "node_modules/nanocoder/tools.js": "process.exit(66)",
        "package.json": '{"type": "commonjs"}',
    }.items():
        path = os.path.join(module.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    module.environ |= {"NODE_OPTIONS": f"--require {planted}", "BUN_OPTIONS": f"--preload {planted}", "KEPT": "1"}

    head = "import {tool} from 'nanocoder/tools'; tool({});"
    output = module.run(module_text("() => [process.cwd(), process.env.PLANTED ?? null, process.env.KEPT]", head=head))

    assert output.data == [module.root, None, "1"]


def test_a_tampered_copy_is_replaced(base, workers):
    module = Module(base, workers, "node")
    (definition,) = module.load(module_text("() => 'right'")).definitions
    workers.close()
    (copy,) = [os.path.join(at, n) for at, _, names in os.walk(module.state) for n in names if n == "tool.js"]
    with open(copy, "w", encoding="utf-8") as file:
        file.write(module_text("() => 'wrong'"))

    with Workers() as module.workers:
        assert module.call(definition).text == "right"
    assert os.stat(copy).st_mode & 0o077 == 0


def test_an_endless_loop_times_out(base, workers):
    module = Module(base, workers, "node")
    (definition,) = module.load(module_text("() => { for (;;) {} }")).definitions

    with pytest.raises(ToolError) as caught:
        module.call(definition._replace(timeout=0.3))

    assert caught.value.code == "timeout"
