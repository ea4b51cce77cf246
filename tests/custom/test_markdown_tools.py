"""Loading Markdown tools: every declared key is read, and every problem is reported with its line."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.custom import markdown_tools
from hilt.custom.definition import Content, Example
from hilt.errors import ToolError
from hilt.processes.declared_sandbox import DeclaredSandbox

K8S_PODS = """\
---
name: k8s_pods
description: List pods in a Kubernetes namespace. Returns kubectl output as text.
parameters:
  namespace:
    type: string
    required: true
    description: The Kubernetes namespace
    pattern: ^[a-z0-9-]+$
    maxLength: 63
  selector:
    type: string
    description: Optional label selector (e.g. "app=api")
approval: never
read_only: true
---

kubectl get pods -n {{ namespace }} {{# selector }}-l "{{ selector }}"{{/ selector }}
"""
SMALL = "---\nname: small\ndescription: Small.\n---\necho hi\n"


def read(text, path="/tools/tool.md", source="personal"):
    data = text if isinstance(text, bytes) else text.encode()
    return markdown_tools.read(Content(path, {"": data}, source))


def load(text, **options):
    loaded = read(text, **options)
    assert loaded.problems == ()
    (definition,) = loaded.definitions
    return definition


def with_keys(lines, body="echo hi\n"):
    return f"---\nname: small\ndescription: Small.\n{lines}\n---\n{body}"


def problems(text):
    loaded = read(text)
    assert loaded.definitions == ()
    return [(problem.line, problem.message) for problem in loaded.problems]


def rejection(definition, args):
    with pytest.raises(ToolError) as caught:
        markdown_tools.check_arguments(definition.parameters, args)
    assert caught.value.code == "invalid_args"
    return caught.value.message


# --- declarations -------------------------------------------------------------------------------------------------


def test_the_example_of_the_format_becomes_a_tool():
    definition = load(K8S_PODS, path="/project/.nanocoder/tools/k8s-pods.md", source="project")

    assert definition.name == "k8s_pods"
    assert definition.description == "List pods in a Kubernetes namespace. Returns kubectl output as text."
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "namespace": {
                "type": "string",
                "description": "The Kubernetes namespace",
                "pattern": "^[a-z0-9-]+$",
                "maxLength": 63,
            },
            "selector": {"type": "string", "description": 'Optional label selector (e.g. "app=api")'},
        },
        "required": ["namespace"],
    }
    assert (definition.approval, definition.read_only, definition.timeout) == ("never", True, 30.0)
    assert (definition.origin, definition.folder) == (
        "/project/.nanocoder/tools/k8s-pods.md",
        "/project/.nanocoder/tools",
    )
    assert (definition.source, definition.format, definition.line, definition.notes) == ("project", "markdown", 2, ())


def test_omitted_keys_have_defaults():
    definition = load(SMALL)

    assert definition.parameters == {"type": "object", "properties": {}}
    assert (definition.approval, definition.read_only, definition.timeout) == ("always", False, 30.0)
    assert (definition.sandbox, definition.effects, definition.result, definition.warm) == (None, None, "text", False)
    assert definition.details == {
        "body": "echo hi\n",
        "line": 5,
        "cwd": None,
        "env": {},
        "env_only": False,
        "shell": None,
        "warned": [],
    }


def test_every_key_of_the_format_is_read():
    definition = load(
        with_keys(
            """\
parameters:
  count: {type: integer, min: 1, max: 5, default: 2}
  ratio: {type: number, min: 0.5, max: 1}
  mode: {type: string, enum: [a, b], minLength: 1}
  deep: {type: boolean, default: false}
  files: {type: array, items: {type: string}, required: true}
approval: destructive
read_only: false
timeout_ms: 1500
cwd: ${ROOT:-.}/sub
env: {FOO: bar, PORT: 80, DEBUG: true, EMPTY: }
env_only: true
shell: sh
sandbox: {network: true, write: [out]}
effects: [write]
examples: [{args: {files: [a]}, expect: hi}]
result: json
warm: true"""
        )
    )

    assert definition.parameters == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
            "ratio": {"type": "number", "minimum": 0.5, "maximum": 1},
            "mode": {"type": "string", "enum": ["a", "b"], "minLength": 1},
            "deep": {"type": "boolean", "default": False},
            "files": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["files"],
    }
    assert (definition.approval, definition.read_only, definition.timeout) == ("destructive", False, 1.5)
    assert (definition.sandbox, definition.effects) == (DeclaredSandbox(True, ("out",), ()), frozenset(("write",)))
    assert (definition.examples, definition.result, definition.warm) == (
        (Example({"files": ["a"]}, "hi", True),),
        "json",
        True,
    )
    assert definition.details["env"] == {"FOO": "bar", "PORT": "80", "DEBUG": "true", "EMPTY": ""}
    assert (definition.details["cwd"], definition.details["env_only"], definition.details["shell"]) == (
        "${ROOT:-.}/sub",
        True,
        "sh",
    )


@pytest.mark.parametrize(
    "approval, read_only",
    [("never", True), ("always", False), ("destructive", False)],
)
def test_only_a_tool_that_never_asks_is_read_only_by_default(approval, read_only):
    assert load(with_keys(f"approval: {approval}")).read_only is read_only
    assert load(with_keys(f"approval: {approval}\nread_only: {str(not read_only).lower()}")).read_only is not read_only


def test_parameters_may_be_a_list():
    listed = load(
        with_keys("parameters:\n  - name: a\n    type: string\n    required: true\n  - {name: b, type: integer}")
    )
    keyed = load(with_keys("parameters:\n  a:\n    type: string\n    required: true\n  b: {type: integer}"))

    assert listed.parameters == keyed.parameters


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + SMALL,
        SMALL.replace("\n", "\r\n"),
        "\ufeff" + SMALL.replace("\n", "\r\n"),
        SMALL.replace("---\nname", "---  \nname"),
        SMALL.replace("---\nname", "---yaml\nname"),
        '---json\n{"name": "small",\n"description": "Small."}\n---\necho hi\n',
    ],
)
def test_the_same_tool_may_be_written_in_several_ways(text):
    definition = load(text)

    assert (definition.name, definition.description) == ("small", "Small.")
    assert definition.details["body"] == "echo hi\n"
    assert definition.details["line"] == 5


def test_front_matter_has_the_meaning_of_yaml_1_2():
    definition = load(
        with_keys(
            "parameters:\n  a: {type: string, enum: [yes, no, on, off], default: no}\n"
            "  b: {type: string, default: 2026-11-15}\n  c: {type: string, default: 12:30}"
        )
    )

    assert definition.parameters["properties"]["a"] == {
        "type": "string",
        "enum": ["yes", "no", "on", "off"],
        "default": "no",
    }
    assert definition.parameters["properties"]["b"]["default"] == "2026-11-15"
    assert definition.parameters["properties"]["c"]["default"] == "12:30"


def test_unknown_keys_are_noted_and_ignored():
    definition = load(with_keys("version: 3\nparameters:\n  a: {type: string, colour: red}"))

    assert [note.partition(":")[0] for note in definition.notes] == ["line 4", "line 6"]
    assert definition.parameters["properties"] == {"a": {"type": "string"}}


def test_a_value_that_another_program_reads_as_code_is_noted():
    definition = load(
        with_keys("parameters: {a: {type: string}}", body="ls {{ a }}\npython3 -c 'print({{ a }})' {{ a }}\n")
    )

    (note,) = definition.notes
    assert note.startswith("line 7: python3 -c runs text that is not constant; every call prompts; pass values as")


def test_a_value_that_the_file_itself_lists_is_not_noted():
    definition = load(with_keys("parameters: {a: {type: string, enum: [ls, date]}}", body="sh -c {{ a }}\n"))

    assert definition.notes == ()


@pytest.mark.parametrize(
    "kind, is_noted", [("string", True), ("integer", False), ("number", False), ("boolean", False)]
)
def test_a_string_in_shell_arithmetic_is_noted_and_a_number_is_not(kind, is_noted):
    definition = load(with_keys(f"parameters: {{a: {{type: {kind}}}}}", body="n={{ a }}\necho $((n))\n"))

    assert bool(definition.notes) is is_noted


# --- problems -----------------------------------------------------------------------------------------------------


def test_a_readme_without_front_matter_is_ignored_silently():
    for name in ("README.md", "readme.md"):
        loaded = read("# Tools\n", path=os.path.join("/tools", name))
        assert (loaded.definitions, loaded.problems) == ((), ())
    assert load(SMALL, path="/tools/README.md").name == "small"


@pytest.mark.parametrize(
    "text, line, reason",
    [
        ("", 1, "must begin with a line ---"),
        ("# A title\n", 1, "must begin with a line ---"),
        ("\n" + SMALL, 1, "must begin with a line ---"),
        ("---\nname: small\n", 1, "no end"),
        ("---js\nmodule.exports = {}\n---\necho hi\n", 1, "is not supported"),
        ("---javascript\n{}\n---\necho hi\n", 1, "is not supported"),
        ("---\n- a\n---\necho hi\n", 2, "mapping"),
        ("---\nname: a\nname: b\n---\necho hi\n", 3, "occurs twice"),
        ("---\nname: [a\n---\necho hi\n", 3, "Invalid"),
        ("---\nname: !!python/object:os.system a\n---\necho hi\n", 2, "tag"),
        ('---json\n{"name": "a",\n"name": "b"}\n---\necho hi\n', 3, "occurs twice"),
        ('---json\n{"name": "a"\n"b": 1}\n---\necho hi\n', 3, "JSON"),
        (b"---\nname: \xff\n---\necho hi\n", 2, "not UTF-8"),
        (b"---\n" + b"# " * (1 << 19) + b"\n---\n", 1, "larger"),
        ("---\ndescription: A.\n---\necho hi\n", 2, "name is missing"),
        ("---\nname: small\n---\necho hi\n", 2, "description is missing"),
        ("---\nname: small\ndescription: ''\n---\necho hi\n", 3, "description must be a non-empty string"),
        (with_keys("approval: sometimes"), 4, "approval must be one of never, always, destructive"),
        (with_keys("approval: true"), 4, "approval must be one of"),
        (with_keys("read_only: yes"), 4, "read_only must be true or false"),
        (with_keys("timeout_ms: 0"), 4, "from 1 to 300000"),
        (with_keys("timeout_ms: 300001"), 4, "from 1 to 300000"),
        (with_keys("timeout_ms: 1.5"), 4, "from 1 to 300000"),
        (with_keys("timeout_ms: true"), 4, "from 1 to 300000"),
        (with_keys("timeout_ms: 30s"), 4, "from 1 to 300000"),
        (with_keys("shell: zsh"), 4, "shell must be one of bash, sh"),
        (with_keys("cwd: [a]"), 4, "cwd must be a path"),
        (with_keys("env: FOO"), 4, "env must map"),
        (with_keys("env:\n  FOO: a\n  A-B: c"), 6, '"A-B" is not a valid name'),
        (with_keys("env:\n  FOO: [a]"), 5, "must be a string"),
        (with_keys("result: xml"), 4, "result must be one of text, json"),
        (with_keys("sandbox: true"), 4, "sandbox must be"),
        (with_keys("effects: fly"), 4, "effects must be"),
        (with_keys("examples: 1"), 4, "examples must be"),
        (with_keys("parameters: a"), 4, "parameters must map"),
        (with_keys("parameters:\n  a: string"), 5, "parameter a must be an object"),
        (with_keys("parameters:\n  1: {type: string}"), 5, "not a valid parameter name"),
        (with_keys("parameters:\n  a b: {type: string}"), 5, "not a valid parameter name"),
        (with_keys("parameters:\n  - type: string"), 5, "not a valid parameter name"),
        (with_keys("parameters:\n  - {name: a, type: string}\n  - {name: a, type: string}"), 6, "declared twice"),
        (with_keys("parameters:\n  b: {type: string}\n  a: {required: true}"), 6, "a has no type"),
        (with_keys("parameters:\n  a:\n    type: object"), 6, "type of a must be one of"),
        (with_keys("parameters:\n  a:\n    type: string\n    required: yes"), 7, "required of a"),
        (with_keys("parameters:\n  a:\n    type: string\n    enum: []"), 7, "enum of a"),
        (with_keys("parameters:\n  a:\n    type: integer\n    enum: [1, b]"), 7, "In enum"),
        (with_keys("parameters:\n  a:\n    type: string\n    pattern: (a"), 7, "regular expression"),
        (with_keys("parameters:\n  a:\n    type: integer\n    pattern: a"), 7, "type string only"),
        (with_keys("parameters:\n  a:\n    type: string\n    min: 1"), 7, "type number or integer only"),
        (with_keys("parameters:\n  a:\n    type: string\n    items: {type: string}"), 7, "type array only"),
        (with_keys("parameters:\n  a:\n    type: string\n    maxLength: -1"), 7, "maxLength of a must be an integer"),
        (with_keys("parameters:\n  a:\n    type: integer\n    max: ten"), 7, "must be a number"),
        (with_keys("parameters:\n  a:\n    type: array\n    items: {type: array}"), 7, "items of a"),
        (with_keys("parameters:\n  a:\n    type: integer\n    max: 3\n    default: 4"), 8, "default is invalid"),
        (with_keys("", body="\n \n"), 6, "script below the front matter"),
        (with_keys("", body="echo\nls \0\n"), 7, "NUL"),
        (with_keys("", body="echo hi\n\necho {{ nobody }}\n"), 8, "is not a parameter"),
        (with_keys("parameters: {a: {type: string}}", body="echo\n{{# a }}x\n"), 7, "never closed"),
        (with_keys("parameters: {a: {type: string}}", body="\necho '{{ a }}\n"), 7, "never closed"),
    ],
)
def test_every_problem_is_reported_with_its_line(text, line, reason):
    reported = problems(text)

    assert [number for number, _ in reported] == [line]
    assert reason in reported[0][1]


@pytest.mark.parametrize("name", ["K8s", "k8s-pods", "_a", "1a", "a.b", "a b", "", "é", "a\\n", "custom__x-", "a" * 65])
def test_a_name_is_snake_case(name):
    (problem,) = problems(f'---\nname: "{name}"\ndescription: A.\n---\necho hi\n')

    assert problem[0] == 2
    assert "lowercase letter" in problem[1]


def test_all_problems_are_reported_at_once_with_the_name_of_the_tool():
    loaded = read("---\nname: small\napproval: no\ntimeout_ms: 0\n---\necho {{ a }}\n", path="/tools/x.md")

    assert [(problem.line, problem.name, problem.origin) for problem in loaded.problems] == [
        (line, "small", "/tools/x.md") for line in (2, 3, 4, 6)
    ]


@given(st.one_of(st.binary(), st.text().map(lambda text: f"---\n{text}\n---\necho\n".encode())))
def test_no_file_makes_the_reader_raise(data):
    loaded = markdown_tools.read(Content("/tools/tool.md", {"": data}, "personal"))

    assert bool(loaded.definitions) != bool(loaded.problems)


SNIPPETS = [
    "{{ x }}",
    "{{# x }}",
    "{{/ x }}",
    "{{^ x }}",
    "'",
    '"',
    "`",
    "$(",
    "$((",
    "${",
    ")",
    "}",
    "\\",
    "$",
    "a",
    " ",
    "\n",
]


@given(
    st.lists(
        st.sampled_from([*SNIPPETS, "#", "<<E", "\nE\n", "(", "[[", "]]", "case a in", "esac", ";;", "=", "<", "&"])
    )
)
def test_no_script_makes_the_reader_raise(pieces):
    text = with_keys("parameters: {x: {type: string}}", body="echo " + "".join(pieces))

    loaded = read(text)

    assert bool(loaded.definitions) != bool(loaded.problems)
    assert all(problem.line is not None and problem.line >= 5 for problem in loaded.problems)


# --- arguments ----------------------------------------------------------------------------------------------------

TYPED = with_keys(
    """\
parameters:
  text: {type: string, pattern: "^[a-z]+$", minLength: 2, maxLength: 4}
  whole: {type: integer, min: 1, max: 9}
  twice: {type: string, pattern: '^(?<w>a.)-\\k<w>$'}
  number: {type: number, min: 0.5}
  flag: {type: boolean}
  list: {type: array, items: {type: integer}}
  choice: {type: string, enum: [a, b]}
  filled: {type: string, default: x}"""
)


def test_defaults_are_filled_in_and_undeclared_arguments_dropped():
    parameters = load(TYPED).parameters

    args = {"text": "abc", "whole": 3.0, "number": 1, "list": "[1, 2]", "flag": None, "other": 1, "choice": "b"}
    assert markdown_tools.check_arguments(parameters, args) == {
        "text": "abc",
        "whole": 3,
        "number": 1,
        "list": [1, 2],
        "choice": "b",
        "filled": "x",
    }
    assert markdown_tools.check_arguments(parameters, {"filled": None}) == {"filled": "x"}


def test_a_missing_argument_is_reported_with_the_message_of_the_format():
    definition = load(K8S_PODS)

    assert rejection(definition, {}) == "⚒ Missing required parameter: namespace"
    assert rejection(definition, {"namespace": None}) == "⚒ Missing required parameter: namespace"


@pytest.mark.parametrize(
    "args, message",
    [
        ({"text": 5}, "text must be a string, not an integer (5)"),
        ({"text": "a"}, "text must have at least 2 characters, not 1"),
        ({"text": "abcde"}, "text must have at most 4 characters, not 5"),
        ({"text": "ab1"}, 'text must match the pattern ^[a-z]+$, and "ab1" does not'),
        ({"text": "ab\n"}, 'text must match the pattern ^[a-z]+$, and "ab\\n" does not'),
        ({"twice": "ab-ac"}, r'twice must match the pattern ^(?<w>a.)-\k<w>$, and "ab-ac" does not'),
        ({"whole": "3"}, 'whole must be an integer, not a string ("3")'),
        ({"whole": 1.5}, "whole must be an integer, not a number (1.5)"),
        ({"whole": True}, "whole must be an integer, not a boolean (true)"),
        ({"whole": 0}, "whole must be at least 1, not 0"),
        ({"whole": 10}, "whole must be at most 9, not 10"),
        ({"number": 0.1}, "number must be at least 0.5, not 0.1"),
        ({"flag": "true"}, 'flag must be a boolean, not a string ("true")'),
        ({"list": "a"}, 'list must be an array, not a string ("a")'),
        ({"list": [1, "b"]}, 'list[1] must be an integer, not a string ("b")'),
        ({"choice": "c"}, 'choice must be one of a, b, not "c"'),
        ([], "The arguments must be an object, not an array"),
    ],
)
def test_each_constraint_has_its_message(args, message):
    assert rejection(load(TYPED), args) == f"⚒ {message}"


def test_all_violations_are_reported_at_once():
    message = rejection(load(TYPED), {"text": "A", "whole": 0, "choice": "c"})

    assert message.startswith("⚒ text must have at least 2")
    assert message.count("; ") == 3


@pytest.mark.parametrize(
    "pattern, value, matches",
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("c$", "abc", True),
        ("c$", "abc\n", False),
        (r"^\d+$", "123", True),
        (r"^\d+$", "١٢٣", False),
        (r"^\w+$", "é", False),
        (r"^[^\s]+$", "a b", False),
        ("^(?=.*a)b", "ba", True),
        (r"^(a)\1$", "aa", True),
    ],
)
def test_a_pattern_has_the_meaning_of_javascript(pattern, value, matches):
    definition = load(with_keys(f"parameters:\n  a: {{type: string, pattern: '{pattern}'}}"))

    if matches:
        assert markdown_tools.check_arguments(definition.parameters, {"a": value}) == {"a": value}
    else:
        assert "must match" in rejection(definition, {"a": value})


def test_a_pattern_cannot_run_forever():
    definition = load(with_keys("parameters:\n  a: {type: string, pattern: '^(\\w+\\s?)*\\1$'}"))

    assert "takes too long" in rejection(definition, {"a": "aaa " * 2000 + "!"})
