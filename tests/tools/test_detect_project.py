from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import pytest

from hilt.output import foreign_views
from hilt.testing import Folder


class Layout(NamedTuple):
    """The files of a small real project, and the expected detection."""

    name: str
    files: dict[str, str]
    expected: dict[str, Any]


LAYOUTS = [
    Layout(
        "a Go module with a linter",
        {"go.mod": "module example.com/app\n\ngo 1.22\n", "main.go": "", ".golangci.yml": "linters:\n", "go.sum": ""},
        {
            "languages": ["Go"],
            "build_tool": "go build ./...",
            "test_command": "go test ./...",
            "linter": "golangci-lint run",
            "config_files": ["go.mod", "go.sum", ".golangci.yml"],
            "frameworks": [],
        },
    ),
    Layout(
        "a Go module with a Makefile, which keeps the commands of Go",
        {"go.mod": "module m\n", "Makefile": "build:\n\tgo build\ntest:\n\tgo test\nlint:\n\tx\n"},
        {"build_tool": "go build ./...", "test_command": "go test ./...", "linter": "go vet ./..."},
    ),
    Layout(
        "npm with scripts, which take precedence over conventions",
        {
            "package.json": json.dumps({"scripts": {"build": "tsc", "test": "jest", "lint": "eslint ."}}),
            "package-lock.json": "{}",
        },
        {
            "languages": ["JavaScript"],
            "package_manager": "npm",
            "build_tool": "npm run build",
            "test_command": "npm run test",
            "linter": "npm run lint",
        },
    ),
    Layout(
        "the test script that npm init writes is ignored",
        {"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})},
        {"languages": ["JavaScript"], "build_tool": "npm", "test_command": None, "linter": None},
    ),
    Layout(
        "Next.js in TypeScript with pnpm",
        {
            "package.json": json.dumps(
                {
                    "scripts": {"build": "next build", "lint": "next lint"},
                    "dependencies": {"next": "15", "react": "19"},
                    "devDependencies": {"typescript": "5", "vitest": "2"},
                }
            ),
            "pnpm-lock.yaml": "lockfileVersion: '9.0'\n",
            "tsconfig.json": "{ /* comments are allowed */ }",
            "next.config.mjs": "export default {}\n",
        },
        {
            "languages": ["TypeScript"],
            "frameworks": ["Next.js", "React"],
            "package_manager": "pnpm",
            "build_tool": "pnpm run build",
            "test_command": "pnpm exec vitest run",
            "linter": "pnpm run lint",
            "type_checker": "pnpm exec tsc --noEmit",
        },
    ),
    Layout(
        "Vue with yarn and eslint",
        {
            "package.json": json.dumps({"dependencies": {"vue": "3"}, "devDependencies": {"jest": "29"}}),
            "yarn.lock": "",
            "eslint.config.js": "",
        },
        {"frameworks": ["Vue"], "package_manager": "yarn", "test_command": "yarn jest", "linter": "yarn eslint ."},
    ),
    Layout(
        "Svelte with bun",
        {"package.json": json.dumps({"devDependencies": {"svelte": "5"}}), "bun.lockb": "\x00", "tsconfig.json": "{}"},
        {
            "languages": ["TypeScript"],
            "frameworks": ["Svelte"],
            "package_manager": "bun",
            "build_tool": "bun",
            "test_command": "bun test",
        },
    ),
    Layout(
        "the package manager set in package.json",
        {
            "package.json": json.dumps({"packageManager": "pnpm@9.1.0", "scripts": {"test": "x"}}),
            "package-lock.json": "",
        },
        {"package_manager": "pnpm", "test_command": "pnpm run test"},
    ),
    Layout(
        "a Rust crate",
        {"Cargo.toml": '[package]\nname = "x"\n', "src/main.rs": "fn main() {}\n"},
        {
            "languages": ["Rust"],
            "build_tool": "cargo build",
            "test_command": "cargo test",
            "linter": "cargo clippy",
            "package_manager": "cargo",
        },
    ),
    Layout(
        "FastAPI with uv, pytest, ruff and mypy",
        {
            "pyproject.toml": '[project]\nname="a"\ndependencies=["fastapi>=0.110", "uvicorn[standard]"]\n'
            '[dependency-groups]\ndev=["pytest", "ruff", "mypy"]\n[tool.ruff]\nline-length=100\n',
            "uv.lock": "version = 1\n",
        },
        {
            "languages": ["Python"],
            "frameworks": ["FastAPI"],
            "package_manager": "uv",
            "test_command": "uv run pytest",
            "linter": "uv run ruff check",
            "type_checker": "uv run mypy .",
        },
    ),
    Layout(
        "a poetry package",
        {
            "pyproject.toml": '[tool.poetry]\nname="a"\n[tool.poetry.dependencies]\npython="^3.11"\nFlask="*"\n'
            '[tool.poetry.group.dev.dependencies]\npytest="*"\n[build-system]\nbuild-backend="poetry.core.masonry.api"\n'
        },
        {
            "frameworks": ["Flask"],
            "package_manager": "poetry",
            "build_tool": "poetry build",
            "test_command": "poetry run pytest",
            "linter": None,
        },
    ),
    Layout(
        "a pdm package",
        {"pyproject.toml": '[tool.pdm]\n[build-system]\nrequires=["pdm-backend"]\nbuild-backend="pdm.backend"\n'},
        {"package_manager": "pdm", "build_tool": "pdm build"},
    ),
    Layout(
        "a hatch package",
        {"pyproject.toml": '[tool.hatch.envs.default]\n[build-system]\nbuild-backend="hatchling.build"\n'},
        {"package_manager": "hatch", "build_tool": "hatch build"},
    ),
    Layout(
        "Django with requirements",
        {"requirements.txt": "Django==5.0  # the framework\npsycopg\n", "manage.py": "import django\n"},
        {
            "languages": ["Python"],
            "frameworks": ["Django"],
            "package_manager": "pip",
            "test_command": "python manage.py test",
        },
    ),
    Layout(
        "an old setup.py with tox and flake8",
        {
            "setup.py": "from setuptools import setup\nsetup(name='a', install_requires=['flask>=2'])\n",
            "setup.cfg": "[flake8]\nmax-line-length=100\n",
            "tox.ini": "[tox]\n",
        },
        {"build_tool": "python -m build", "test_command": "tox", "linter": "flake8", "frameworks": ["Flask"]},
    ),
    Layout(
        "Python without tests, next to a Makefile with a test target",
        {"requirements.txt": "requests\n", "Makefile": ".PHONY: test\ntest: deps\n\tpython -m unittest\nX := 1\n"},
        {"test_command": "make test", "build_tool": "pip"},
    ),
    Layout(
        "Laravel",
        {
            "composer.json": json.dumps({"require": {"laravel/framework": "^11"}, "scripts": {"test": "phpunit"}}),
            "phpstan.neon": "",
        },
        {
            "languages": ["PHP"],
            "frameworks": ["Laravel"],
            "test_command": "composer run test",
            "linter": "vendor/bin/phpstan analyse",
            "package_manager": "composer",
        },
    ),
    Layout(
        "Rails",
        {"Gemfile": 'source "https://rubygems.org"\ngem "rails", "~> 7.1"\n  gem \'rubocop\'\n', "Rakefile": ""},
        {
            "languages": ["Ruby"],
            "frameworks": ["Rails"],
            "test_command": "bin/rails test",
            "linter": "bundle exec rubocop",
            "package_manager": "bundler",
        },
    ),
    Layout(
        "Maven with Spring Boot",
        {"pom.xml": "<project><artifactId>spring-boot-starter-parent</artifactId></project>", "mvnw": "#!/bin/sh\n"},
        {
            "languages": ["Java"],
            "frameworks": ["Spring Boot"],
            "build_tool": "./mvnw package",
            "test_command": "./mvnw test",
        },
    ),
    Layout(
        "Gradle in Kotlin",
        {"build.gradle.kts": 'plugins { kotlin("jvm") version "2.0" }\n', "gradlew": ""},
        {"languages": ["Kotlin"], "build_tool": "./gradlew build", "test_command": "./gradlew test"},
    ),
    Layout(
        "Phoenix",
        {"mix.exs": 'defp deps do [{:phoenix, "~> 1.7"}, {:credo, "~> 1.7"}] end\n'},
        {"languages": ["Elixir"], "frameworks": ["Phoenix"], "test_command": "mix test", "linter": "mix credo"},
    ),
    Layout(
        "CMake for C++",
        {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES CXX)\n", ".clang-tidy": ""},
        {
            "languages": ["C++"],
            "build_tool": "cmake -S . -B build && cmake --build build",
            "test_command": "ctest --test-dir build",
            "linter": "run-clang-tidy -p build",
        },
    ),
    Layout(
        "Deno with a task",
        {"deno.json": json.dumps({"tasks": {"build": "deno run build.ts"}})},
        {"build_tool": "deno task build", "test_command": "deno test", "linter": "deno lint"},
    ),
    Layout(
        "only a Makefile",
        {"Makefile": "all: x\nx:\n\tcc x.c\n"},
        {"languages": [], "build_tool": "make", "test_command": None, "config_files": ["Makefile"]},
    ),
    Layout(
        "only a Taskfile",
        {"Taskfile.yml": "version: '3'\nvars:\n  lint: no\ntasks:\n  build:\n    cmds: [x]\n  test:\n    cmds: [y]\n"},
        {"build_tool": "task build", "test_command": "task test", "linter": None},
    ),
    Layout(
        "a Taskfile with tasks whose names begin like others",
        {"Taskfile.yml": "tasks:\n  test:unit: x\n  'lint':\n    cmds: [x]\n"},
        {"build_tool": "task", "test_command": None, "linter": "task lint"},
    ),
    Layout(
        "recipes with parameters",
        {"justfile": "build target='a: b' +rest=\"x\":\n  x\ntest $A=1: build\n  y\nalias lint := test\n"},
        {"build_tool": "just build", "test_command": "just test", "linter": None},
    ),
    Layout(
        "a justfile takes precedence",
        {"justfile": "set shell := ['sh']\nbuild: \n  x\n@test *args:\n  y\nlint := 'no'\n", "go.mod": "module m\n"},
        {"build_tool": "just build", "test_command": "just test", "linter": "go vet ./..."},
    ),
    Layout("an empty folder", {}, {"languages": [], "frameworks": [], "config_files": [], "build_tool": None}),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_project_is_detected_by_its_files(runtime, workspace, layout):
    for name, contents in layout.files.items():
        workspace.write(name, contents)
    before = workspace.tree()

    result = runtime.call("detect_project")

    assert {name: result.data.get(name) for name in layout.expected} == layout.expected
    assert foreign_views.validate(result.view) == result.view
    assert workspace.tree() == before


@pytest.mark.starts_processes
def test_the_example_of_the_reference_runs_as_printed(workspace, environ):
    workspace.write("go.mod", "module m\n")
    workspace.write("package.json", "{}")
    workspace.write("tsconfig.json", "{}")
    request = '{"tool":"detect_project","args":{"path":"."}}'

    process = subprocess.run(
        [sys.executable, "-m", "hilt"], input=request, cwd=workspace.path, env=environ, capture_output=True, text=True
    )

    data = json.loads(json.loads(process.stdout)["result"])
    assert data["languages"] == ["Go", "TypeScript"]
    assert {"languages", "build_tool", "test_command", "linter", "config_files", "frameworks"} <= data.keys()


# --- monorepos --------------------------------------------------------------------------------------------------------


def test_a_monorepo_lists_its_projects_with_their_own_commands(runtime, workspace):
    workspace.write("package.json", json.dumps({"workspaces": ["packages/*"], "private": True}))
    workspace.write("pnpm-workspace.yaml", "packages: ['packages/*']\n")
    workspace.write("pnpm-lock.yaml")
    workspace.write(
        "packages/web/package.json", json.dumps({"dependencies": {"react": "19"}, "scripts": {"test": "x"}})
    )
    workspace.write("packages/web/tsconfig.json", "{}")
    workspace.write("services/api/pyproject.toml", '[project]\nname="api"\ndependencies=["fastapi"]\n')
    workspace.write("services/worker/go.mod", "module w\n")
    workspace.write("packages/web/node_modules/react/package.json", "{}")
    workspace.write("services/worker/testdata/mod/go.mod", "module t\n")

    data = runtime.call("detect_project").data

    assert [project["path"] for project in data["projects"]] == ["packages/web", "services/api", "services/worker"]
    assert data["projects"][0]["test_command"] == "pnpm run test"
    assert data["languages"] == ["JavaScript", "TypeScript", "Python", "Go"]
    assert data["frameworks"] == ["React", "FastAPI"]
    assert "pnpm-workspace.yaml" in data["config_files"]


def test_a_project_inside_the_workspace_is_inspected_by_path(runtime, workspace):
    workspace.write("services/api/go.mod", "module a\n")
    workspace.write("services/api/tools/gen/go.mod", "module g\n")

    data = runtime.call("detect_project", path="services/api").data

    assert data["languages"] == ["Go"]
    assert [project["path"] for project in data["projects"]] == ["tools/gen"]


def test_a_long_list_of_projects_is_truncated_and_counted(runtime, workspace):
    for number in range(120):
        workspace.write(f"packages/p{number:03}/go.mod", "module m\n")

    data = runtime.call("detect_project").data

    assert len(data["projects"]) == 100
    assert (data["truncated"], data["total_count"]) == (True, 120)


# --- invalid input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path,code",
    [
        ("missing", "file_not_found"),
        ("file.txt", "invalid_args"),
        ("../..", "path_outside_workspace"),
        ("/", "path_outside_workspace"),
        (".git", "sensitive_path"),
        ("nul\0", "invalid_args"),
        ("loop", "file_not_found"),
    ],
)
def test_a_folder_that_cannot_be_inspected_is_an_error(runtime, workspace, path, code):
    workspace.write("file.txt")
    workspace.write(".git/config")
    os.symlink("loop", workspace.join("loop"))

    assert runtime.call("detect_project", path=path).error.code == code


BROKEN = [
    b"",
    b"\xff\xfe\x00garbage",
    b"{" * 50_000,
    b"[" * 50_000,
    b"null",
    b"[]",
    b'{"scripts": [], "dependencies": 1, "packageManager": {}}',
    b"[tool]\npoetry = 1\n[project]\ndependencies = {}\n",
    b"a.b = 1\n" * 3 + b'[project]\noptional-dependencies = "x"\n[dependency-groups]\nx = 1\n',
    b'"' + b"a" * 300_000,
    b"\n" * 500_000,
    b" " * 500_000,
    b"a " * 200_000,
    b"project(" * 20_000,
    b"gem 'x" * 50_000,
]


@pytest.mark.parametrize("contents", BROKEN, ids=lambda contents: repr(contents[:20]))
def test_broken_files_are_skipped_quickly(runtime, workspace, contents):
    names = ("package.json", "pyproject.toml", "composer.json", "Cargo.toml", "deno.json", "Makefile", "justfile")
    for name in (
        *names,
        "Gemfile",
        "setup.py",
        "CMakeLists.txt",
        "Taskfile.yml",
        "requirements.txt",
        "Pipfile",
        "pom.xml",
    ):
        workspace.write(name, contents)

    result = runtime.call("detect_project")

    assert result.ok, result.error.message
    assert "Python" in result.data["languages"]


def test_pipes_links_and_folders_named_like_project_files_are_skipped(runtime, workspace, base):
    os.mkfifo(workspace.join("package.json"))
    os.mkdir(workspace.join("pyproject.toml"))
    os.symlink("/etc/hostname", workspace.join("Makefile"))
    os.symlink("go.mod", workspace.join("go.mod"))
    os.symlink(".", workspace.join("circle"))
    outside = Folder(f"{base}/outside")
    outside.write("Cargo.toml", "[package]\n")
    os.symlink(outside.path, workspace.join("away"))

    result = runtime.call("detect_project")

    assert result.ok
    assert "projects" not in result.data


def test_names_with_newlines_quotes_and_bytes_that_are_not_utf8_are_shown(runtime, workspace):
    names = ["new\nline", "quo\"te'", "b\\ack"]
    for name in names:
        workspace.write(f"{name}/go.mod", "module m\n")
    os.makedirs(os.fsencode(workspace.path) + b"/byte\xff")
    with open(os.fsencode(workspace.path) + b"/byte\xff/go.mod", "wb") as file:
        file.write(b"module m\n")

    data = runtime.call("detect_project").data

    assert sorted(project["path"] for project in data["projects"]) == sorted([*names, "byte\\xff"])
    assert json.loads(json.dumps(data)) == data


def test_sensitive_files_and_folders_never_appear(runtime, workspace):
    workspace.write(".env/go.mod", "module m\n")
    workspace.write("app/.git/package.json", "{}")
    workspace.write("app/go.mod", "module a\n")

    assert [project["path"] for project in runtime.call("detect_project").data["projects"]] == ["app"]


def test_folders_that_appear_and_vanish_during_the_walk_are_tolerated(runtime, workspace):
    for number in range(30):
        workspace.write(f"p{number}/go.mod", "module m\n")
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(30):
                os.rename(workspace.join(f"p{number}"), workspace.join(f"q{number}"))
                os.rename(workspace.join(f"q{number}"), workspace.join(f"p{number}"))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        results = [runtime.call("detect_project") for _ in range(20)]
    finally:
        stop.set()
        thread.join()

    assert all(result.ok for result in results)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_folder_is_skipped(runtime, workspace):
    workspace.write("open/go.mod", "module m\n")
    workspace.write("closed/go.mod", "module m\n")
    os.chmod(workspace.join("closed"), 0)
    try:
        data = runtime.call("detect_project").data
    finally:
        os.chmod(workspace.join("closed"), 0o700)

    assert [project["path"] for project in data["projects"]] == ["open"]


@pytest.mark.parametrize(
    "names, languages",
    [
        (["main.py", "test_main.py", "README.md"], ["Python"]),
        (["a.go", "run.sh", "b.go"], ["Go", "Shell"]),
        (["index.ts", "old.js", "util.ts"], ["TypeScript", "JavaScript"]),
        (["notes.txt", ".py", "py", "data.csv"], []),
        (["go.mod", "tool.py"], ["Go"]),
    ],
)
def test_a_folder_of_source_files_reports_their_languages(runtime, workspace, names, languages):
    for name in names:
        workspace.write(name, "")

    assert runtime.call("detect_project").data["languages"] == languages
