from __future__ import annotations

import json
import os
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hilt.custom import launching
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.surroundings import Surroundings
from tests.custom.folder_tools import Bench
from tests.programs import PATH, program

# every script prints its input, its working folder, a variable that must not leak, and the origin of a module
PROBES = {
    "bash": (
        "script.sh",
        'read -r stdin; printf \'{"stdin": %s, "cwd": "%s", "leak": "%s"}\' "$stdin" "$PWD" "$LEAK"',
    ),
    "python": (
        "script.py",
        "import json, os, sys\n"
        "import beside, secrets\n"
        "print(json.dumps({'stdin': json.load(sys.stdin), 'cwd': os.getcwd(), 'leak': os.environ.get('LEAK', ''),"
        " 'loaded': beside.NAME, 'path': sys.path}))\n",
    ),
    "node": (
        "script.js",
        "const fs = require('fs'); const beside = require('./beside.js');\n"
        "console.log(JSON.stringify({stdin: JSON.parse(fs.readFileSync(0, 'utf-8')), cwd: process.cwd(),"
        " leak: process.env.LEAK ?? '', loaded: beside.NAME}));\n",
    ),
    "bun": (
        "script.ts",
        "import { NAME } from './beside';\n"
        "const stdin: unknown = JSON.parse(await Bun.stdin.text());\n"
        "let lodash = ''; try { await import('lodash'); lodash = 'loaded'; } catch (error) { lodash = 'not found'; }\n"
        "const leak = process.env.LEAK ?? '';\n"
        "console.log(JSON.stringify({stdin, cwd: process.cwd(), leak, loaded: NAME, lodash}));\n",
    ),
    "go": (
        "script.go",
        "package main\n"
        'import ("encoding/json"; "fmt"; "io"; "os")\n'
        "func main() {\n"
        "  data, _ := io.ReadAll(os.Stdin); var stdin any; json.Unmarshal(data, &stdin); cwd, _ := os.Getwd()\n"
        '  out, _ := json.Marshal(map[string]any{"stdin": stdin, "cwd": cwd, "leak": os.Getenv("LEAK"),'
        ' "settings": os.Getenv("GO111MODULE") + os.Getenv("GOWORK"), "arguments": len(os.Args)})\n'
        "  fmt.Println(string(out))\n}\n",
    ),
    "uv": (
        "script.py",
        "# /// script\n# requires-python = '>=3.9'\n# dependencies = []\n# ///\n"
        "import json, os, sys\n"
        "import beside, secrets\n"
        "print(json.dumps({'stdin': json.load(sys.stdin), 'cwd': os.getcwd(), 'leak': os.environ.get('LEAK', ''),"
        " 'loaded': beside.NAME}))\n",
    ),
    "binary": (
        "script",
        '#!/bin/sh\nread -r stdin; printf \'{"stdin": %s, "cwd": "%s", "leak": "%s"}\' "$stdin" "$PWD" "$LEAK"\n',
    ),
    "ruby": (
        "script.rb",
        "require 'json'\nputs JSON.generate({stdin: JSON.parse($stdin.read), cwd: Dir.pwd, leak: ENV['LEAK'].to_s})\n",
    ),
    "deno": (
        "script.ts",
        "import { NAME } from './beside.ts';\n"
        "const stdin = JSON.parse(await new Response(Deno.stdin.readable).text());\n"
        "let lodash = ''; try { await import('lodash'); lodash = 'loaded'; } catch (error) { lodash = 'not found'; }\n"
        "const leak = Deno.env.get('LEAK') ?? '';\n"
        "console.log(JSON.stringify({stdin, cwd: Deno.cwd(), leak, loaded: NAME, lodash}));\n",
    ),
    "powershell": (
        "script.ps1",
        "$stdin = [Console]::In.ReadToEnd() | ConvertFrom-Json\n"
        "@{stdin = $stdin; cwd = (Get-Location).Path; leak = [string]$env:LEAK} | ConvertTo-Json -Compress -Depth 9\n",
    ),
}
BESIDE = {
    "beside.py": "NAME = 'the tool'\n",
    "beside.js": "exports.NAME = 'the tool';\n",
    "beside.ts": "export const NAME = 'the tool';\n",
}
EVIL_PYTHON = "import os; open('evil', 'w').close(); NAME = 'the workspace'\n"
EVIL_SCRIPT = "require('fs').writeFileSync('evil', ''); exports.NAME = 'the workspace';\n"
EVIL_PROGRAM = """#!/bin/sh\ntouch "${0%/.venv/*}/evil"\n"""
# files of a repository that some runtime would read from its current folder
TRAPS = {
    ".env": "LEAK=env\n",
    ".env.local": "LEAK=env\n",
    ".env.development": "LEAK=env\n",
    "bunfig.toml": 'preload = ["./evil.js"]\n',
    "evil.js": EVIL_SCRIPT,
    "tsconfig.json": '{"compilerOptions": {"paths": {"lodash": ["./evil.js"], "./beside": ["./evil.js"]}}}',
    "package.json": '{"name": "x", "main": "evil.js"}',
    "deno.json": '{"imports": {"lodash": "./evil.js"}, "workspace": ["./.hilt/tools/probe"]}',
    "deno.lock": "{}",
    ".npmrc": "registry=http://127.0.0.1:9/\n",
    "beside.py": EVIL_PYTHON,
    "secrets.py": EVIL_PYTHON,
    "sitecustomize.py": EVIL_PYTHON,
    "usercustomize.py": EVIL_PYTHON,
    "json.py": EVIL_PYTHON,
    "beside.js": EVIL_SCRIPT,
    "json.rb": "File.write('evil', '')\n",
    "evil.rb": "File.write('evil', '')\n",
    "pyproject.toml": '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=99"\n',
    "uv.toml": 'index-url = "http://127.0.0.1:9/"\npython-preference = "only-managed"\n',
    ".python-version": "9.99\n",
    ".venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.12.0\n",
    ".venv/bin/python": EVIL_PROGRAM,
    ".venv/bin/python3": EVIL_PROGRAM,
    "go.mod": "module evil\n\ngo 1.99\n\ntoolchain go1.99.0\n",
    "go.work": "go 1.99\n",
    ".bashrc": "touch evil\n",
    ".profile": "touch evil\n",
    "python3": "#!/bin/sh\ntouch evil\n",
    "bash": "#!/bin/sh\ntouch evil\n",
}
# variables of the user's environment that control a runtime
CONTROLLING = {
    "NODE_OPTIONS": "--require ./evil.js",
    "NODE_PATH": ".",
    "BUN_OPTIONS": "--preload ./evil.js",
    "PYTHONPATH": ".",
    "PYTHONSTARTUP": "json.py",
    "PYTHONHOME": "/nowhere",
    "BASH_ENV": "./.bashrc",
    "ENV": "./.bashrc",
    "BASH_FUNC_read%%": "() { touch evil; }",
    "SHELLOPTS": "noexec",
    "LD_PRELOAD": "./evil.so",
    "RUBYOPT": "-r./evil.rb",
    "GOFLAGS": "-mod=vendor",
    "GO111MODULE": "on",
    "LEAK": "the environment",
}


@pytest.fixture(scope="module")
def shared_home(pytestconfig: pytest.Config) -> Path:
    """A home directory shared by all tests and runs, so that go compiles everything only once."""
    return pytestconfig.cache.mkdir("go")


def set_traps(bench: Bench) -> None:
    for name, text in TRAPS.items():
        path = bench.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    bench.environ.update(CONTROLLING)
    bench.environ["PATH"] = os.pathsep.join([".", "", PATH])


@pytest.mark.starts_processes
@pytest.mark.parametrize("source", ["personal", "project"])
@pytest.mark.parametrize("runtime", PROBES)
def test_a_script_runs_in_the_workspace_and_loads_nothing_from_it(tmp_path, shared_home, runtime, source):
    program(launching.RUNTIMES[runtime].program or "sh")
    bench = Bench(tmp_path, source)
    set_traps(bench)
    if runtime == "go":
        bench.environ["HOME"] = str(shared_home)
    script, text = PROBES[runtime]
    folder = bench.add("probe", text, files=BESIDE, runtime=runtime, script=script, timeout=300_000)
    (folder / script).chmod(0o755)

    output = bench.data("probe", word="ä €")

    workspace = str(bench.workspace)
    assert output.pop("stdin") == {"word": "ä €", "workspacePath": workspace, "sessionId": "s1"}
    assert (output.pop("cwd"), output.pop("leak")) == (workspace, "")
    assert not (bench.workspace / "evil").exists()
    assert workspace not in output.pop("path", [])
    assert output.pop("loaded", "the tool") == "the tool"
    assert output.pop("lodash", "not found") == "not found"
    assert (output.pop("settings", ""), output.pop("arguments", 1)) == ("", 1)
    assert output == {}
    assert sorted(path.name for path in folder.iterdir()) == sorted(["tool.md", script, *BESIDE])


@pytest.mark.starts_processes
def test_go_uses_the_modules_of_the_tool(tmp_path, shared_home):
    program("go")
    bench = Bench(tmp_path, "project")
    set_traps(bench)
    bench.environ["HOME"] = str(shared_home)
    script = (
        'package main\nimport ("fmt"; "example.org/tool/words")\n'
        'func main() { fmt.Printf("{\\"word\\": %q}", words.Word) }\n'
    )
    files = {"go.mod": "module example.org/tool\n\ngo 1.20\n", "words/words.go": 'package words\nconst Word = "own"\n'}
    bench.add("probe", script, files=files, runtime="go", script="script.go", timeout=300_000)

    assert bench.data("probe") == {"word": "own"}


@pytest.mark.starts_processes
def test_bun_uses_the_tsconfig_of_the_tool(tmp_path):
    program("bun")
    bench = Bench(tmp_path, "project")
    set_traps(bench)
    script = "import { NAME } from 'aliased'; console.log(JSON.stringify({ NAME }));"
    settings = {"tsconfig.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"aliased": ["./beside.ts"]}}}'}
    bench.add("probe", script, files={**BESIDE, **settings}, runtime="bun", script="script.ts")

    assert bench.data("probe") == {"NAME": "the tool"}


def test_deno_uses_the_imports_of_the_tool(tmp_path):
    program("deno")
    bench = Bench(tmp_path, "project")
    set_traps(bench)
    script = "import { NAME } from 'aliased'; console.log(JSON.stringify({ NAME }));"
    settings = {"deno.json": '{"imports": {"aliased": "./beside.ts"}}'}
    bench.add("probe", script, files={**BESIDE, **settings}, runtime="deno", script="script.ts")

    assert bench.data("probe") == {"NAME": "the tool"}


@pytest.mark.starts_processes
def test_uv_gives_a_script_the_packages_and_programs_that_it_declares(tmp_path):
    program("uv")
    bench = Bench(tmp_path, "project")
    set_traps(bench)
    wheel = tmp_path / "words-1-py3-none-any.whl"
    about = "words-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("words.py", "def say():\n    print('said')\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: words\nVersion: 1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\nsay-words = words:say\n")
        archive.writestr(f"{about}/RECORD", "")
    script = (
        f"# /// script\n# dependencies = ['words @ {wheel.as_uri()}']\n# ///\n"
        "import json, subprocess, words\n"
        "print(json.dumps({'said': subprocess.check_output('say-words', text=True)}))\n"
    )
    bench.add("probe", script, runtime="uv", script="script.py")

    assert bench.data("probe") == {"said": "said\n"}
    assert not (bench.workspace / "evil").exists()


@pytest.mark.starts_processes
def test_uv_runs_a_script_that_declares_nothing(tmp_path):
    program("uv")
    bench = Bench(tmp_path, "project")
    set_traps(bench)
    script = "import json, os, beside\nprint(json.dumps({'cwd': os.getcwd(), 'loaded': beside.NAME}))\n"
    bench.add("probe", script, files=BESIDE, runtime="uv", script="script.py")

    assert bench.data("probe") == {"cwd": str(bench.workspace), "loaded": "the tool"}
    assert not (bench.workspace / "evil").exists()


@pytest.mark.starts_processes
def test_a_package_that_uv_cannot_provide_is_an_error(tmp_path):
    program("uv")
    bench = Bench(tmp_path)
    script = f"# /// script\n# dependencies = ['words @ {(tmp_path / 'gone.whl').as_uri()}']\n# ///\nprint('{{}}')\n"
    bench.add("probe", script, runtime="uv", script="script.py")

    code, message = bench.error("probe")

    assert (code, "gone.whl" in message) == ("tool_failed", True)


@pytest.mark.parametrize("runtime", [name for name, entry in launching.RUNTIMES.items() if entry.program])
def test_a_missing_runtime_is_named_with_how_to_install_it(tmp_path, runtime):
    bench = Bench(tmp_path)
    bench.environ["PATH"] = str(tmp_path / "nothing")
    bench.add("probe", "", runtime=runtime)
    script_runtime = launching.RUNTIMES[runtime]

    error = bench.call("probe").error

    assert error is not None
    assert (error.code, error.details) == ("runtime_missing", {"program": script_runtime.program})
    assert script_runtime.install in error.suggestion


@pytest.mark.starts_processes
def test_a_program_that_is_not_executable_is_an_error(tmp_path):
    bench = Bench(tmp_path)
    folder = bench.add("probe", "#!/bin/sh\necho {}\n", runtime="binary", script="script")
    (folder / "script").chmod(stat.S_IRUSR | stat.S_IWUSR)

    code, message = bench.error("probe")

    assert (code, "is not executable" in message) == ("permission_denied", True)


def test_a_missing_script_is_an_error(tmp_path):
    with pytest.raises(ToolError) as raised:
        launching.launch("bash", str(tmp_path / "gone.sh"), Surroundings({}), cwd=str(tmp_path), env={})

    assert raised.value.code == "tool_invalid"


def test_a_cancelled_call_starts_nothing(tmp_path):
    fence = Fence()
    fence.cancel(ToolError("cancelled", "Not wanted."))
    launch = launching.ScriptStart((str(tmp_path / "nothing"),), str(tmp_path), {})

    with pytest.raises(ToolError) as raised:
        launching.run(launch, b"", seconds=1, fence=fence)

    assert raised.value.code == "cancelled"  # not that the program is missing


# --- the environment ----------------------------------------------------------------------------------------------


def base_environment(base: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(base / "home"), "HILT_CONFIG_DIR": str(base / "config"), "PATH": PATH, **more}


def write_env_file(base: Path, text: str | bytes, where: str = "config") -> None:
    path = base / where / ".env"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_a_tool_sees_the_fixed_variables_and_those_it_declares(tmp_path):
    fixed = {name: f"value of {name}" for name in launching.VARIABLES if name not in ("PATH", "HOME")}
    environ = base_environment(tmp_path, **fixed, OPENAI_API_KEY="secret", WANTED="yes", HILT_MODE="x", LOGNAME="x")

    passed = launching.environment(["WANTED", "NOT_SET"], Surroundings(environ))

    assert passed == {**fixed, "HOME": environ["HOME"], "PATH": PATH, "WANTED": "yes"}


@pytest.mark.starts_processes
def test_a_running_tool_has_no_other_variable(tmp_path):
    bench = Bench(tmp_path)
    bench.environ.update(SECRET="x", WANTED="yes", **CONTROLLING)
    script = f"#!{sys.executable}\nimport json, os; print(json.dumps(dict(os.environ)))"
    folder = bench.add("probe", script, runtime="binary", script="script", env=["WANTED"])
    (folder / "script").chmod(0o755)

    output = bench.data("probe")

    assert output.pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # python sets it for itself
    assert output == {"HOME": bench.environ["HOME"], "PATH": PATH, "WANTED": "yes"}


def test_declared_variables_come_from_the_users_files_before_the_environment(tmp_path):
    write_env_file(tmp_path, "A=hilt\n")
    write_env_file(tmp_path, "A=jean2\nB=jean2\n", "home/.jean2")
    environ = base_environment(tmp_path, A="process", B="process", C="process")

    passed = launching.environment(["A", "B", "C"], Surroundings(environ))

    assert {name: passed[name] for name in "ABC"} == {"A": "hilt", "B": "jean2", "C": "process"}


def test_undeclared_variables_of_the_users_files_are_not_passed(tmp_path):
    write_env_file(tmp_path, "A=1\nPATH=/evil\nHOME=/evil\n")

    passed = launching.environment([], Surroundings(base_environment(tmp_path)))

    assert passed == {"HOME": str(tmp_path / "home"), "PATH": PATH}


@pytest.mark.parametrize(
    "line, value",
    [
        ("A=plain", "plain"),
        ("A = spaced  ", "spaced"),
        ("export A=exported", "exported"),
        ("A=", ""),
        ('A=""', ""),
        ("A=with spaces inside", "with spaces inside"),
        ("A=value # comment", "value"),
        ("A=va#lue", "va#lue"),
        ("A= # comment", ""),
        ("A='single # $X \\n'", "single # $X \\n"),
        ('A="double # $X"  # comment', "double # $X"),
        ('A="line\\nbreak \\"quoted\\" \\\\"', 'line\nbreak "quoted" \\'),
        ('A="first\nsecond"', "first\nsecond"),
        ("A=$HOME/x", "$HOME/x"),
        ("A=a=b", "a=b"),
        ("A=1\nA=2", "2"),
        ("# A=1", None),
        ("#\nB=1", None),
        ("AA=1", None),
        ('A="unclosed', '"unclosed'),
        ("\ufeffA=bom", "bom"),
        ("A=windows\r\nB=x\r\n", "windows"),
        ("A=ä", "ä"),
    ],
)
def test_an_env_file_may_use_the_usual_syntax(tmp_path, line, value):
    write_env_file(tmp_path, line)

    assert launching.environment(["A"], Surroundings(base_environment(tmp_path))).get("A") == value


def test_values_that_are_not_utf_8_are_passed_unchanged(tmp_path):
    write_env_file(tmp_path, b"A=\xff\xfe\n")

    assert os.fsencode(launching.environment(["A"], Surroundings(base_environment(tmp_path)))["A"]) == b"\xff\xfe"


@pytest.mark.parametrize("name", sorted(name for name in CONTROLLING if name not in ("LEAK", "ENV")))
def test_variables_that_control_a_runtime_are_never_passed_even_when_declared(tmp_path, name):
    assert launching.refusal(name)
    assert name not in launching.environment([name], Surroundings(base_environment(tmp_path, **CONTROLLING)))


@pytest.mark.parametrize("name", ["A", "MY_TOOL_CACHE_DIR", "ENV", "API_KEY", "_x"])
def test_other_names_can_be_declared(name):
    assert launching.refusal(name) is None


@pytest.mark.parametrize(
    "path, expected",
    [(".:/usr/bin::bin:/bin", "/usr/bin:/bin"), ("", os.defpath), (None, os.defpath), ("/a b", "/a b")],
)
def test_relative_entries_of_path_are_dropped(tmp_path, path, expected):
    environ: dict[str, Any] = base_environment(tmp_path)
    del environ["PATH"]
    if path is not None:
        environ["PATH"] = path

    assert launching.environment([], Surroundings(environ))["PATH"] == expected


def test_the_table_of_runtimes_matches_the_documentation():
    assert {name: runtime.program for name, runtime in launching.RUNTIMES.items()} == {
        "bun": "bun",
        "node": "node",
        "python": "python3",
        "bash": "bash",
        "go": "go",
        "binary": "",
        "powershell": "pwsh",
        "uv": "uv",
        "deno": "deno",
        "ruby": "ruby",
    }
    assert json.dumps(sorted(PROBES)) == json.dumps(sorted(launching.RUNTIMES))
