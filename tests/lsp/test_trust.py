"""A language server runs nothing in an untrusted workspace: each of these files would leave a mark if it ran."""

from __future__ import annotations

import json
import os

import pytest

from hilt.lsp import known_servers
from hilt.lsp.known_servers import LANGUAGES, Site, install_folders
from hilt.sandbox import ruleset
from hilt.sandbox.backend import Availability
from tests.lsp.scripted import Bench, ask, failure, text
from tests.programs import program

# leaves a mark in the private /tmp, the only place where a server can write
NODE_MARK = "require('fs').writeFileSync(require('os').tmpdir() + '/ran', 'ran');"
SHELL_MARK = '#!/bin/sh\necho ran > "${TMPDIR:-/tmp}/ran"\nexec /usr/bin/env false\n'


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(str(tmp_path))


def marks(bench: Bench) -> list[str]:
    """Return the marks of the files that ran."""
    paths = []
    for folder, _, names in os.walk(os.path.join(bench.state, "sandbox")):
        paths += [os.path.join(folder, name) for name in names if name == "ran"]
    return paths + [name for name in bench.folder.tree() if name.endswith("ran")]


def evil(bench: Bench, name: str) -> str:
    path = bench.folder.write(name, SHELL_MARK)
    os.chmod(path, 0o755)
    return path


TYPESCRIPT = {"a.ts": "export const first: number = 'text';\n", "b.ts": "import { first } from './a.js';\nfirst;\n"}


@pytest.mark.parametrize(
    "files",
    [
        {
            "node_modules/typescript/package.json": '{"name": "typescript", "version": "5.9.0"}',
            "node_modules/typescript/lib/tsserver.js": NODE_MARK,
            "node_modules/typescript/lib/typescript.js": NODE_MARK,
        },
        {
            "tsconfig.json": '{"compilerOptions": {"plugins": [{"name": "evil"}, {"name": "./evil"}]}}',
            "node_modules/evil/package.json": '{"name": "evil", "version": "1.0.0", "main": "index.js"}',
            "node_modules/evil/index.js": NODE_MARK + "module.exports = () => ({create: i => i.languageService});",
            "evil/index.js": NODE_MARK + "module.exports = () => ({create: i => i.languageService});",
        },
        {"package.json": '{"type": "commonjs", "main": "x.js", "imports": {"#x": "./x.js"}}', "x.js": NODE_MARK},
    ],
    ids=["typescript", "plug-in", "package"],
)
def test_the_project_s_own_typescript_and_plug_ins_do_not_run(bench, files):
    bench.install(program("typescript-language-server"), program("node"))
    for name, contents in {**TYPESCRIPT, **files}.items():
        bench.folder.write(name, contents)
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "b.ts", line=2, symbol="first")) == "a.ts:1:14"
        assert "not assignable" in text(ask(runtime, "diagnostics", "a.ts"))

    assert marks(bench) == []


def test_a_server_without_its_own_typescript_is_not_started(bench):
    bench.install(program("node"))
    server = os.path.join(bench.programs, "typescript-language-server")
    with open(server, "w", encoding="utf-8") as file:
        file.write(SHELL_MARK)
    os.chmod(server, 0o755)
    for name, contents in TYPESCRIPT.items():
        bench.folder.write(name, contents)
    with bench.runtime() as runtime:
        result = ask(runtime, "symbols", "a.ts")

    assert "no TypeScript below version 7 beside it" in failure(result, "lsp_unavailable")
    assert result.error is not None
    assert "'typescript@>=7'" in result.error.suggestion
    assert marks(bench) == []


@pytest.mark.parametrize("name", ["basedpyright-langserver", "ty"])
def test_the_interpreter_of_a_virtual_environment_does_not_run(bench, name):
    bench.install(program(name))
    bench.folder.write("a.py", "import inside\n\nfirst: int = inside.value\n")
    bench.folder.write(".venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.0\n")
    bench.folder.write(".venv/lib/python3.11/site-packages/inside.py", "value: str = 'text'\n")
    bench.folder.write(".venv/lib/python3.11/site-packages/evil.pth", "import os; open('/tmp/ran', 'w').write('ran')\n")
    bench.folder.write("pyproject.toml", '[tool.basedpyright]\nvenvPath = "."\nvenv = ".venv"\n')
    for python in ("python", "python3", "python3.11"):
        evil(bench, f".venv/bin/{python}")
        evil(bench, python)
    bench.environ["PATH"] = f"{bench.folder.path}:{bench.folder.path}/.venv/bin:.:{bench.environ['PATH']}"
    bench.environ["VIRTUAL_ENV"] = bench.folder.join(".venv")
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.py", line=3, symbol="value")).endswith("inside.py:1:1")
        assert "int" in text(ask(runtime, "diagnostics", "a.py"))

    assert marks(bench) == []


def test_compilers_that_a_project_names_do_not_run(bench):
    bench.install(program("clangd"))
    compiler = evil(bench, "evil-gcc")
    bench.folder.write("a.c", "int first;\nint main(void) { return first; }\n")
    bench.folder.write(".clangd", f"CompileFlags:\n  Compiler: {compiler}\n  Add: [-fplugin=./evil.so]\n")
    entry = {"directory": bench.folder.path, "file": "a.c", "arguments": [compiler, "-c", "a.c"]}
    bench.folder.write("compile_commands.json", json.dumps([entry]))
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.c", line=2, symbol="first")) == "a.c:1:5"

    assert marks(bench) == []


def test_generators_compilers_and_toolchains_of_a_go_project_do_not_run(bench):
    bench.install(program("gopls"))
    bench.environ["PATH"] += ":" + os.path.dirname(os.path.realpath(program("go")))
    evil(bench, "evil-tool")
    for name in ("pkg-config", "gcc", "go", "gopackagesdriver", "git"):
        evil(bench, name)
    bench.environ["PATH"] = f"{bench.folder.path}:{bench.environ['PATH']}"
    bench.environ["GOFLAGS"] = f"-toolexec={bench.folder.join('evil-tool')}"
    bench.folder.write("go.mod", "module example.com/a\n\ngo 1.15\n")
    bench.folder.write(
        "a.go", "package main\n\n//go:generate ./evil-tool\n\nvar first = 1\n\nfunc main() { println(first) }\n"
    )
    bench.folder.write("b.go", 'package main\n\n// #cgo pkg-config: evil\n// #include <stdio.h>\nimport "C"\n')
    with bench.runtime() as runtime:
        assert text(ask(runtime, "definition", "a.go", line=7, symbol="first")) == "a.go:5:5"

    assert marks(bench) == []


def test_a_server_in_the_workspace_is_not_started(bench):
    bench.folder.write("a.lua", "return 1\n")
    evil(bench, "tools/lua-language-server")
    os.symlink(bench.folder.join("tools/lua-language-server"), os.path.join(bench.programs, "lua-language-server"))
    bench.environ["PATH"] = f"{bench.folder.path}/tools:tools:{bench.programs}:/usr/bin:/bin"
    with bench.runtime() as runtime:
        assert "outside the workspace" in failure(ask(runtime, "symbols", "a.lua"), "lsp_unavailable")

    assert marks(bench) == []


def test_every_server_has_an_install_command_and_a_reason_for_each_path_it_reads():
    kinds = [kind for language in LANGUAGES for kind in language.servers]
    site = Site(("/workspace",), "/usr/bin/server", "/tmp")

    assert len({kind.name for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert kind.install
        assert all(need.reason for need in kind.reads)
        assert json.dumps([kind.options(site), kind.settings(site), dict(kind.variables(site))])


def test_options_that_run_code_are_disabled_for_servers_that_are_not_tested_here():
    site = Site(("/workspace",), "/usr/bin/server", "/tmp")
    rust = known_servers.RUST_ANALYZER.options(site)
    java = known_servers.JDTLS.settings(site)["java"]["import"]

    assert (rust["procMacro"]["enable"], rust["cargo"]["buildScripts"]["enable"], rust["checkOnSave"]) == (False,) * 3
    assert known_servers.RUST_ANALYZER.variables(site)["RUSTC_WRAPPER"] == ""
    assert (java["gradle"]["enabled"], java["maven"]["enabled"]) == (False, False)
    assert known_servers.ZLS.has_path is False


@pytest.mark.parametrize(
    "program, folders",
    [
        ("/usr/bin/clangd", ["/usr", "/usr"]),
        ("/users/u/gopls", []),
        ("/users/u/.local/bin/pylsp", ["/users/u/.local/bin"] * 2),
        ("/users/u/venvs/x/bin/pylsp", ["/users/u/venvs/x"] * 2),
        ("/users/u/lib/node_modules/typescript-language-server/lib/cli.mjs", ["/users/u/lib/node_modules"] * 2),
        ("/users/bin/x", ["/users/bin"] * 2),
    ],
)
def test_the_home_directory_is_never_an_install_folder(program, folders):
    assert install_folders(program, "/users/u") == folders


@pytest.mark.skipif(ruleset.abi() < 1, reason="the kernel has no Landlock")
def test_a_server_is_confined_by_landlock_where_there_is_no_bubblewrap(bench):
    bench.folder.write("a.lua", "return 1\n")
    bench.folder.write(".env", "SECRET=1\n")
    tries = {"read": [bench.folder.join(".env")], "write": [bench.folder.join("new.lua"), bench.folder.join("a.lua")]}
    bench.script(
        acts={"textDocument/hover": [{"do": "try", **tries}]}, results={"textDocument/hover": {"contents": "text"}}
    )
    with bench.runtime() as runtime:
        sandbox = runtime.parts.confinement.sandbox()
        sandbox._available = Availability("landlock", "bubblewrap is not installed")
        assert text(ask(runtime, "hover", "a.lua", line=1, character=1)) == "text"

    [outcomes] = [message["outcomes"] for message in bench.log() if "outcomes" in message]
    assert set(outcomes.values()) == {"PermissionError"}
    assert bench.folder.read("a.lua") == "return 1\n"
