"""Running Markdown tools: real files and shells on a real workspace."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from functools import partial

import pytest

from hilt.custom import markdown_tools, scripts
from hilt.custom.definition import Content, to_tool
from hilt.runtime import Runtime
from hilt.sandbox.backend import Launch
from hilt.surroundings import Surroundings
from hilt.testing import environment

pytestmark = pytest.mark.starts_processes

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
# the second example of the format, with its placeholders filled
FORM = """\
---
name: form
description: what the tool does - fed to the LLM
parameters:
  name:
    type: string
    description: surfaced to the LLM
    required: false              # default false
    default: one                 # used when not provided
    enum: [one, b, c]            # restrict values
    pattern: ^[a-z]+$            # string only
    minLength: 1                 # string only
    maxLength: 5                 # string only
  count:
    type: integer
    min: 1                       # number/integer only
    max: 3                       # number/integer only
  files:
    type: array
    items: { type: string }      # array only
approval: never                  # default: always
read_only: true
timeout_ms: 30000                # default: 30000, max: 300000
cwd: .
env:                             # extra env vars; ${VAR} substitution allowed
  FOO: bar
shell: bash
---

# Body is a shell script. Parameters interpolate as {{ name }}.
# Use {{# selector }}…{{/ selector }} for "if defined" sections (Mustache-style).

echo {{ name }} $FOO {{# count }}-n "{{ count }}"{{/ count }} {{ files }}
"""


class Bench:
    """A workspace, and tools written for a test; `environ` is that of the user."""

    def __init__(self, base):
        self.base = base
        self.workspace = base / "workspace"
        self.workspace.mkdir()
        self.environ = environment(str(base))
        self.confine = None

    def load(self, text, path="/tools/tool.md"):
        loaded = markdown_tools.read(Content(path, {"": text.encode()}, "personal"))
        assert loaded.problems == ()
        return loaded.definitions[0]

    def runtime(self, *definitions):
        make = partial(scripts.BoundScript, surroundings=Surroundings(self.environ), confine=self.confine)
        # arguments arrive unchecked: the tool validates them
        tools = [
            to_tool(definition, make(definition))._replace(schema={"type": "object"}) for definition in definitions
        ]
        return Runtime(str(self.workspace), tools=tools, session="s1", environ=self.environ)

    def call(self, text, /, **args):
        definition = self.load(text)
        with self.runtime(definition) as runtime:
            return runtime.call(definition.name, **args)

    def run(self, body, front="", /, **args):
        return self.call(tool(body, front), **args)

    def text(self, body, front="", /, **args):
        result = self.run(body, front, **args)
        assert result.error is None, result.error.message
        return result.text

    def error(self, body, front="", /, **args):
        return self.run(body, front, **args).error

    def program(self, name, text):
        folder = self.base / "programs"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
        self.environ["PATH"] = f"{folder}{os.pathsep}{self.environ['PATH']}"

    def leftovers(self):
        """Return the scripts that calls have left in the state directory."""
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(self.base / "state") for name in names]
        return [path for path in paths if path.endswith(".sh")]


def tool(body, front=""):
    return f"---\nname: probe\ndescription: Probes.\napproval: never\n{front}\n---\n{body}\n"


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


# --- the examples of the format -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, printed",
    [
        ({"namespace": "default"}, "[get][pods][-n][default]"),
        ({"namespace": "default", "selector": "app=api"}, "[get][pods][-n][default][-l][app=api]"),
        ({"namespace": "a", "selector": 'x" ; touch HIT "'}, '[get][pods][-n][a][-l][x" ; touch HIT "]'),
        ({"namespace": "a", "selector": "", "extra": 1}, "[get][pods][-n][a]"),
    ],
)
def test_the_example_of_the_format_passes_the_plain_values(bench, args, printed):
    bench.program("kubectl", "#!/bin/sh\nprintf '[%s]' \"$@\"\n")

    result = bench.call(K8S_PODS, **args)

    assert (result.error, result.text) == (None, printed)
    assert os.listdir(bench.workspace) == []


def test_the_second_example_of_the_format_runs(bench):
    assert bench.call(FORM).text == "one bar\n"
    assert bench.call(FORM, name="b", count=3, files=["x y", "z"]).text == "b bar -n 3 x y z\n"
    assert bench.call(FORM, name="zz").error.message == '⚒ name must be one of one, b, c, not "zz"'


# --- running ------------------------------------------------------------------------------------------------------


def test_a_script_runs_in_the_workspace_with_empty_input_and_leaves_no_file(bench):
    assert bench.text("pwd; cat; echo end") == f"{os.path.realpath(bench.workspace)}\nend\n"
    assert bench.leftovers() == []


def test_a_failure_has_the_message_of_the_format_and_keeps_the_output(bench):
    error = bench.error("echo out; echo wrong >&2; exit 3")

    assert (error.code, error.message) == ("tool_failed", "Custom tool failed (exit 3): wrong")
    assert error.details == {"exit_code": 3, "stdout": "out\n", "stderr": "wrong\n"}
    assert bench.leftovers() == []


def test_a_failure_with_empty_stderr_shows_stdout(bench):
    assert bench.error("echo out; exit 1").message == "Custom tool failed (exit 1): out"


def test_success_with_output_on_stderr_is_success(bench):
    result = bench.run("echo out; echo warned >&2")

    assert (result.text, result.meta["stderr"]) == ("out\n", "warned\n")


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_shell_errors_have_the_line_number_of_the_tool_file(bench, shell):
    front = f"shell: {shell}\nparameters: {{x: {{type: string}}}}"

    error = bench.error("\necho {{ x }}\nno_such_program", front, x="a\nb\n\nc")

    assert error.message.startswith("Custom tool failed (exit 127): /tools/tool.md: ")
    assert "10:" in error.message


def test_the_shell_is_bash_if_it_is_installed(bench):
    assert bench.text("echo ${BASH_VERSION:+bash}") == "bash\n"


def test_the_shell_is_sh_if_bash_is_not_installed(bench, tmp_path):
    programs = tmp_path / "few"
    programs.mkdir()
    (programs / "sh").symlink_to(os.path.realpath(shutil.which("dash") or shutil.which("sh") or "/bin/sh"))
    bench.environ["PATH"] = str(programs)

    assert bench.text("echo {{ x }}", "parameters: {x: {type: string}}", x="it's") == "it's\n"
    error = bench.error("echo hi", "shell: bash")
    assert (error.code, "bash" in error.message) == ("runtime_missing", True)
    error = bench.error("((n = {{ x }}))", "parameters: {x: {type: integer}}", x=1)
    assert (error.code, "/tools/tool.md:7" in error.message) == ("tool_invalid", True)


def test_a_program_of_the_workspace_is_not_used_as_the_shell(bench, monkeypatch):
    monkeypatch.chdir(bench.workspace)
    (bench.workspace / "bash").write_text("#!/bin/sh\necho HIT\n")
    (bench.workspace / "bash").chmod(0o755)
    bench.environ["PATH"] = f".{os.pathsep}{os.pathsep}{bench.environ['PATH']}"

    assert bench.text("echo fine") == "fine\n"


def test_values_may_exceed_128_kib(bench):
    front = "parameters: {x: {type: string}, l: {type: array}}"

    assert bench.text("printf %s {{ x }} >f; wc -c <f", front, x="é\n" * 200_000).strip() == "600000"
    assert bench.text("set -- {{ l }}; echo $#", front, l=["a b"] * 20_000) == "20000\n"


def test_arguments_are_checked_before_anything_runs(bench):
    error = bench.error("touch HIT", "parameters: {x: {type: string, required: true}}")

    assert (error.code, error.message) == ("invalid_args", "⚒ Missing required parameter: x")
    assert os.listdir(bench.workspace) == []


# --- time and size ------------------------------------------------------------------------------------------------


def alive(marker):
    """Whether a process with this word among its arguments is running."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if marker.encode() in file.read():
                    return True
        except OSError:
            continue
    return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_script_that_times_out_is_killed_with_its_children(bench):
    marker = f"31{os.getpid()}{time.monotonic_ns() % 10**9}"

    error = bench.error(f"echo started; sleep {marker} & (trap '' TERM; sleep {marker}1) & wait", "timeout_ms: 300")

    assert (error.code, error.message) == ("timeout", "Custom tool timed out after 300 ms.")
    assert error.details["stdout"] == "started\n"
    assert not alive(marker)
    assert bench.leftovers() == []


def test_long_output_shows_both_ends_and_is_saved(bench):
    result = bench.run("i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done")

    assert len(result.text) <= scripts.SHOWN_CHARACTERS
    assert result.text.startswith("line 0\nline 1\n")
    assert result.text.rpartition("\n")[0].endswith("line 8998\nline 8999")
    path = result.text.split("The full output is in ")[1].split(";")[0]
    assert (result.meta["_persisted"], result.meta["_filePath"]) == (True, path)
    assert result.meta["_originalSize"] == os.path.getsize(path)
    with open(path) as file:
        assert file.read() == "".join(f"line {number}\n" for number in range(9000))


def test_output_beyond_the_memory_limit_is_on_disk(bench):
    result = bench.run("head -c 3000000 /dev/zero | tr '\\0' x; echo end")

    assert len(result.text) <= scripts.SHOWN_CHARACTERS
    assert result.text.rpartition("\n")[0].endswith("xend")
    path = result.text.split("The full output is in ")[1].split(";")[0]
    assert os.path.getsize(path) == 3_000_004


def test_output_of_exactly_the_limit_is_shown_whole(bench):
    assert bench.text("printf '%032000d' 0") == "0" * 32_000
    assert "The full output is in" in bench.text("printf '%032001d' 0")


def test_terminal_escapes_are_removed(bench):
    assert bench.text("printf '\\033[31mred\\033[0m\\n'") == "red\n"


def test_a_result_may_be_json(bench):
    assert bench.run("echo '{\"a\": [1]}'", "result: json").data == {"a": [1]}
    error = bench.error("echo nothing", "result: json")
    assert (error.code, "It begins: nothing" in error.message) == ("tool_failed", True)


@pytest.mark.parametrize(
    "body, risky, harmless",
    [
        ("env {{ x }} true", "-Stouch STARTED", None),
        ("env {{ x }} true", "nice", None),
        ("find {{ x }} -maxdepth 0 >&2", "-delete", "."),
        ("tar cf /dev/null {{ x }}", "--use-compress-program=touch STARTED", "."),
    ],
)
def test_an_option_that_runs_code_asks(bench, body, risky, harmless):
    front = "parameters: {x: {type: string}}"

    asked = bench.error(body, front, x=risky.replace("STARTED", f"{bench.workspace}/started"))

    assert (asked.code, "may run a value as code" in asked.message) == ("approval_required", True)
    if harmless is not None:
        assert bench.text(body, front, x=harmless) == ""
    assert not (bench.workspace / "started").exists()


@pytest.mark.parametrize("sections", [2, 20])
def test_a_call_asks_only_about_its_own_sections(bench, sections):
    """With twenty names, not every combination of sections can be checked when the tool is loaded."""
    names = [f"s{number}" for number in range(sections)]
    declared = "".join(f", {name}: {{type: boolean}}" for name in names)
    flags = " ".join(f"{{{{# {name} }}}}-{name}{{{{/ {name} }}}}" for name in names)
    front = f"parameters: {{x: {{type: string}}{declared}}}"
    body = f"echo {flags} {{{{# s0 }}}}{{{{# s1 }}}}; eval{{{{/ s1 }}}}{{{{/ s0 }}}} {{{{ x }}}}"

    asked = bench.error(body, front, x="touch started", s0=True, s1=True)

    assert (asked.code, "eval runs text that is not constant" in asked.message) == ("approval_required", True)
    if sections > 2:
        assert bench.text(body, front, x="a", s0=True).split() == ["-s0", "a"]


# --- environment and folder ---------------------------------------------------------------------------------------


def test_the_environment_is_the_users_without_model_api_keys(bench):
    bench.environ.update(MINE="kept", ANTHROPIC_API_KEY="secret", OPENAI_API_KEY="secret")

    text = bench.text("env", "env:\n  FOO: bar\n  HERE: ${MINE}/$MINE:${NOT_SET:-d e}:${NOT_SET}$")

    assert {"MINE=kept", "FOO=bar", "HERE=kept/kept:d e:$"} <= set(text.splitlines())
    assert "secret" not in text


@pytest.mark.parametrize(
    "name, value",
    [
        ("BASH_ENV", "{root}/evil.sh"),
        ("ENV", "{root}/evil.sh"),
        ("BASH_FUNC_ls%%", "() {{ . {root}/evil.sh; }}"),
        ("BASH_FUNC_true%%", "() {{ . {root}/evil.sh; }}"),
        ("PERL5OPT", "-Mevil -I{root}"),
        ("PYTHONSTARTUP", "evil.py"),
        ("NODE_OPTIONS", "--require ./evil.js"),
        ("RUBYOPT", "-r./evil"),
        ("PYTHONPATH", ":lib:"),
        ("LD_LIBRARY_PATH", "lib"),
        ("LD_PRELOAD", "/nowhere/evil.so"),
        ("PROMPT_COMMAND", ". {root}/evil.sh"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("is_declared", [False, True])
def test_no_variable_makes_the_shell_or_a_program_run_code_of_the_workspace(bench, name, value, shell, is_declared):
    (bench.workspace / "evil.sh").write_text("echo HIT; touch started\n")
    value = value.format(root=bench.workspace)
    if is_declared and "%" in name:
        pytest.skip("not a valid variable name")
    front = f"shell: {shell}\n" + (f"env: {{{name}: '{value}'}}" if is_declared else "")
    bench.environ.update({} if is_declared else {name: value})

    text = bench.text("true; ls >/dev/null; env", front)

    assert "HIT" not in text
    assert not any(line.startswith(f"{name}=") for line in text.splitlines()) or (name == "ENV" and is_declared)
    assert not (bench.workspace / "started").exists()


def test_shell_traces_run_nothing(bench):
    bench.environ.update(SHELLOPTS="xtrace", BASHOPTS="expand_aliases", PS4="$(touch started)")

    assert bench.text("echo fine") == "fine\n"
    assert not (bench.workspace / "started").exists()


def test_programs_of_the_workspace_are_not_found_by_a_script(bench):
    (bench.workspace / "uname").write_text("#!/bin/sh\necho HIT\n")
    (bench.workspace / "uname").chmod(0o755)
    bench.environ["PATH"] = f".{os.pathsep}{os.pathsep}{bench.environ['PATH']}"

    assert "HIT" not in bench.text("uname")


def test_declared_variables_that_load_nothing_of_the_workspace_are_passed(bench):
    declared = {"NODE_OPTIONS": "--max-old-space-size=64", "PYTHONPATH": "/opt/lib", "PYTHONUNBUFFERED": "1"}
    front = "env:\n" + "".join(f"  {name}: '{value}'\n" for name, value in declared.items())

    lines = bench.text("env", front).splitlines()

    assert {f"{name}={value}" for name, value in declared.items()} <= set(lines)


def test_a_tool_that_declares_a_model_api_key_gets_it(bench):
    bench.environ["OPENAI_API_KEY"] = "secret"

    assert bench.text("echo $OPENAI_API_KEY", "env: {OPENAI_API_KEY: $OPENAI_API_KEY}") == "secret\n"


def test_env_only_passes_the_short_list_and_declared_variables(bench):
    bench.environ.update(MINE="kept", LANG="C")

    lines = bench.text("env", "env_only: true\nenv: {FOO: bar}").splitlines()

    names = {line.partition("=")[0] for line in lines} - {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names == {"PATH", "HOME", "LANG", "FOO"}


@pytest.mark.parametrize("cwd", ["sub", "./sub", "$WHERE", "${WHERE}", "${NOT_SET:-sub}", "${ROOT}/sub"])
def test_a_script_runs_in_its_declared_folder(bench, cwd):
    (bench.workspace / "sub").mkdir()
    bench.environ.update(WHERE="sub", ROOT=str(bench.workspace))

    assert bench.text("pwd", f"cwd: {cwd}") == f"{os.path.realpath(bench.workspace)}/sub\n"


@pytest.mark.parametrize("cwd", ["missing", "..", "/", "${NOT_SET}/etc", "file", "link"])
def test_a_folder_that_is_missing_or_outside_is_an_error(bench, cwd, tmp_path):
    (bench.workspace / "file").write_text("")
    (bench.workspace / "link").symlink_to(tmp_path)

    error = bench.error("touch HIT", f"cwd: {cwd}")

    assert error is not None
    assert error.code in ("file_not_found", "path_outside_workspace", "invalid_args", "sensitive_path")
    assert not (tmp_path / "HIT").exists()


# --- sandbox, threads ---------------------------------------------------------------------------------------------


def test_a_tool_with_a_sandbox_does_not_run_without_one(bench):
    error = bench.error("touch HIT", "sandbox: {}")

    assert error.code == "sandbox_unavailable"
    assert os.listdir(bench.workspace) == []


def test_a_tool_with_a_sandbox_is_confined(bench):
    from contextlib import nullcontext

    seen = []

    def confine(ctx, sandbox, cwd, folder):
        assert folder is None
        seen.append((ctx.session, sandbox, cwd))
        return nullcontext(Launch((shutil.which("env") or "env", "WRAPPED=yes")))

    bench.confine = confine

    assert bench.text("echo $WRAPPED", "sandbox: {network: true, write: [out]}") == "yes\n"
    assert seen == [("s1", (True, ("out",), (), False), os.path.realpath(bench.workspace))]


def test_calls_run_in_parallel(bench):
    definition = bench.load(tool("echo {{ x }}", "parameters: {x: {type: integer}}"))
    answers = {}
    with bench.runtime(definition) as runtime:

        def call(number):
            answers[number] = runtime.call("probe", x=number).text

        threads = [threading.Thread(target=call, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert answers == {number: f"{number}\n" for number in range(12)}
    assert bench.leftovers() == []


# --- display ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, output, lines",
    [
        ({}, None, "⚒ probe"),
        ({"a": "b", "n": 3}, None, "⚒ probe\nArgs: a=b, n=3"),
        ({"a": "b\n\x1b[31mc"}, "x" * 9, "⚒ probe\nArgs: a=b c\nOutput: ~3 tokens"),
        ({"a": ["x"]}, "", '⚒ probe\nArgs: a=["x"]\nOutput: ~0 tokens'),
        ({"a": "x" * 100}, None, "⚒ probe\nArgs: a=" + "x" * 55 + "..."),
    ],
)
def test_a_call_is_shown_in_three_lines(args, output, lines):
    assert scripts.call_lines("probe", args, output) == lines


@pytest.mark.parametrize(
    "text, expanded",
    [
        ("a", "a"),
        ("$A", "1"),
        ("${A}b$A.", "1b1."),
        ("${B:-x}${E:-y}", "xy"),
        ("$B|${B}|$E", "||"),
        ("$$ $ ${ ${A-b} $1", "$$ $ ${ ${A-b} $1"),
    ],
)
def test_variables_in_the_front_matter_are_expanded(text, expanded):
    assert scripts.expand(text, {"A": "1", "E": ""}) == expanded


def test_the_details_of_a_definition_are_json(bench):
    details = bench.load(K8S_PODS).details

    assert json.loads(json.dumps(details)) == details
