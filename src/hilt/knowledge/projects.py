"""Detects the kind of project in a folder from the names and contents of its configuration files.

A table maps each file to its language and its conventional commands. The contents of a file (scripts, tasks, sections,
dependencies) override the convention. If two files give the same fact, the earlier one in the table wins, except that
a justfile overrides all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Read = Callable[[str], "str | None"]  # the text of a file in the folder; None when it cannot be read


class Project(NamedTuple):
    """The facts about one folder."""

    languages: tuple[str, ...] = ()
    build_tool: str | None = None
    test_command: str | None = None
    linter: str | None = None
    type_checker: str | None = None
    package_manager: str | None = None
    frameworks: tuple[str, ...] = ()
    config_files: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON, without unknown values; the lists are always present."""
        data = self._asdict()
        lists = ("languages", "frameworks", "config_files")
        return {name: list(data[name]) if name in lists else data[name] for name in data if name in lists or data[name]}


class ProjectFacts(NamedTuple):
    """The facts from one configuration file. A command with a leading `~` is a convention; a task overrides it."""

    languages: tuple[str, ...] = ()
    build: str | None = None
    test: str | None = None
    lint: str | None = None
    types: str | None = None
    manager: str | None = None
    frameworks: tuple[str, ...] = ()


class ProjectFolder:
    """The names in a folder, and cached access to its files."""

    def __init__(self, names: Collection[str], read: Read, manager: str | None = None) -> None:
        self.names = names
        self.manager = manager  # of the JavaScript project around this one
        self._read = read
        self._texts: dict[str, str | None] = {}

    def text(self, name: str) -> str:
        """Return the text of a file; empty if it cannot be read."""
        if name not in self._texts:
            self._texts[name] = self._read(name) if name in self.names else None
        return self._texts[name] or ""

    def object(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file; empty if there is none."""
        try:
            value = json.loads(self.text(name).removeprefix("\ufeff") or "null")
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def table(self, name: str) -> dict[str, Any]:
        """Return the TOML table in a file; empty if there is none."""
        from hilt.formats.toml_tables import loads

        try:
            return loads(self.text(name).removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            return {}

    def first(self, *names: str) -> str | None:
        """Return the first of these names that exists."""
        return next((name for name in names if name in self.names), None)


def detect(names: Collection[str], read: Read, *, manager: str | None = None) -> Project:
    """Detect the project in a folder with these names; folders end with a slash."""
    folder = ProjectFolder(names, read, manager)
    facts = [probe(folder, name) for wanted, probe in PROBES if (name := folder.first(*wanted)) is not None]
    languages = dict.fromkeys(language for fact in facts for language in fact.languages)
    if "TypeScript" in languages:
        languages.pop("JavaScript", None)
    if not languages:
        languages = dict.fromkeys(_by_endings(names))
    tasks = _tasks(folder)
    return Project(
        tuple(languages),
        _command("build", [fact.build for fact in facts], tasks),
        _command("test", [fact.test for fact in facts], tasks),
        _command("lint", [fact.lint for fact in facts], tasks),
        next((fact.types for fact in facts if fact.types), None),
        next((fact.manager for fact in facts if fact.manager), None),
        tuple(dict.fromkeys(framework for fact in facts for framework in fact.frameworks)),
        tuple(name for name in CONFIG_FILES if name in folder.names),
    )


# endings of source files, for folders where no other file determines the language
_ENDINGS = {
    "Python": "py pyw",
    "JavaScript": "js mjs cjs jsx",
    "TypeScript": "ts mts cts tsx",
    "Go": "go",
    "Rust": "rs",
    "Ruby": "rb",
    "PHP": "php",
    "Java": "java",
    "Kotlin": "kt kts",
    "Scala": "scala",
    "Swift": "swift",
    "Dart": "dart",
    "C": "c",
    "C++": "cc cpp cxx",
    "C#": "cs",
    "Elixir": "ex exs",
    "Shell": "sh bash zsh",
    "Lua": "lua",
    "Perl": "pl pm",
    "R": "r",
    "Julia": "jl",
    "Haskell": "hs",
    "Zig": "zig",
}
_LANGUAGES = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}


def _by_endings(names: Collection[str]) -> list[str]:
    """Return the languages of the source files, most frequent first."""
    counts: dict[str, int] = {}
    for name in names:
        stem, _, ending = name.rpartition(".")
        language = _LANGUAGES.get(ending.lower()) if stem else None
        if language is not None:
            counts[language] = counts.get(language, 0) + 1
    return sorted(counts, key=lambda language: (-counts[language], language))


def is_project(names: Collection[str]) -> bool:
    """Whether a folder with these names is a separate project."""
    return not ROOTS.isdisjoint(names)


def _command(task: str, commands: Iterable[str | None], tasks: list[tuple[str, Collection[str]]]) -> str | None:
    """Return the command from a justfile, or else as configured, from another task file, or by convention."""
    runners = [runner for runner, names in tasks if task in names]
    if runners and runners[0] == "just":
        return f"just {task}"
    candidates = [command for command in commands if command]
    configured = next((command for command in candidates if not command.startswith("~")), None)
    if configured:
        return configured
    if runners:
        return f"{runners[0]} {task}"
    if task == "build" and not candidates and tasks:
        return tasks[0][0]
    return candidates[0][1:] if candidates else None


# --- task files ---------------------------------------------------------------------------------------------------


# the default of a parameter; unambiguous, so that the pattern cannot backtrack
_DEFAULT = r"""=(?:"[^"\n]*"|'[^'\n]*'|[^\s:"']+)"""
_RECIPE = re.compile(rf"^@?([A-Za-z_][\w-]*)(?:[ \t]+[+*$]*[\w-]+(?:{_DEFAULT})?)*[ \t]*:(?!=)", re.MULTILINE)
_TARGET = re.compile(r"^([A-Za-z_][\w./-]*(?:[ \t]+[\w./-]+)*)[ \t]*::?(?![=:])", re.MULTILINE)
_TASK = re.compile(r"""^(?:  |    |\t)["']?([\w:-]+)["']?:(?=\s|\Z)""", re.MULTILINE)


def _tasks(folder: ProjectFolder) -> list[tuple[str, Collection[str]]]:
    """Return the task runners that have a file here, each with the names of its tasks."""
    runners: list[tuple[str, Collection[str]]] = []
    if name := folder.first("justfile", "Justfile", ".justfile"):
        runners.append(("just", set(_RECIPE.findall(folder.text(name)))))
    if name := folder.first("Makefile", "makefile", "GNUmakefile"):
        targets = {target for line in _TARGET.findall(folder.text(name)) for target in line.split()}
        runners.append(("make", targets))
    if name := folder.first("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"):
        section = re.split(r"^tasks:[^\n]*$", folder.text(name), maxsplit=1, flags=re.MULTILINE)
        inner = re.split(r"^\S", section[1], maxsplit=1, flags=re.MULTILINE)[0] if len(section) > 1 else ""
        runners.append(("task", set(_TASK.findall(inner))))
    return runners


# --- one probe per kind of file -----------------------------------------------------------------------------------


def _go(folder: ProjectFolder, name: str) -> ProjectFacts:
    golangci = folder.first(".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json")
    return ProjectFacts(("Go",), "go build ./...", "go test ./...", "golangci-lint run" if golangci else "go vet ./...")


_LOCKS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lockb": "bun",
    "bun.lock": "bun",
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
}
_RUN = {"npm": "npx", "pnpm": "pnpm exec", "yarn": "yarn", "bun": "bunx"}
_NODE_FRAMEWORKS = {
    "next": "Next.js",
    "react": "React",
    "vue": "Vue",
    "svelte": "Svelte",
    "@sveltejs/kit": "SvelteKit",
    "nuxt": "Nuxt",
    "@angular/core": "Angular",
    "astro": "Astro",
    "express": "Express",
    "@nestjs/core": "NestJS",
}


def _node(folder: ProjectFolder, name: str) -> ProjectFacts:
    package = folder.object("package.json")
    manager = _node_manager(folder, package)
    scripts = _mapping(package.get("scripts"))
    dependencies = {
        *_mapping(package.get("dependencies")),
        *_mapping(package.get("devDependencies")),
        *_mapping(package.get("peerDependencies")),
    }
    run = _RUN[manager]
    test = f"{manager} run test" if _is_script(scripts, "test") else None
    if test is None:
        runners = {"vitest": f"{run} vitest run", "jest": f"{run} jest", "mocha": f"{run} mocha"}
        test = next((command for dependency, command in runners.items() if dependency in dependencies), None)
        test = test or ("bun test" if manager == "bun" else None)
    lint = f"{manager} run lint" if _is_script(scripts, "lint") else None
    if lint is None and ("eslint" in dependencies or folder.first(*_ESLINT)):
        lint = f"{run} eslint ."
    elif lint is None and ("@biomejs/biome" in dependencies or folder.first("biome.json", "biome.jsonc")):
        lint = f"{run} biome check ."
    typescript = folder.first("tsconfig.json") is not None
    frameworks = [framework for dependency, framework in _NODE_FRAMEWORKS.items() if dependency in dependencies]
    if folder.first("next.config.js", "next.config.mjs", "next.config.ts") and "Next.js" not in frameworks:
        frameworks.insert(0, "Next.js")
    return ProjectFacts(
        ("TypeScript" if typescript or name in ("bun.lockb", "bun.lock") else "JavaScript",),
        f"{manager} run build" if _is_script(scripts, "build") else f"~{manager}",
        test,
        lint,
        f"{run} tsc --noEmit" if typescript and "typescript" in dependencies else None,
        manager,
        tuple(frameworks),
    )


_ESLINT = (
    *("eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc", ".eslintrc.js"),
    *(".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yml"),
)


def _node_manager(folder: ProjectFolder, package: Mapping[str, Any]) -> str:
    declared = package.get("packageManager")
    if isinstance(declared, str) and declared.partition("@")[0] in _RUN:
        return declared.partition("@")[0]
    locked = next((manager for lock, manager in _LOCKS.items() if lock in folder.names), None)
    return locked or folder.manager or "npm"


def _is_script(scripts: Mapping[str, Any], name: str) -> bool:
    # npm init writes a placeholder test script
    return isinstance(scripts.get(name), str) and "no test specified" not in scripts[name]


def _rust(folder: ProjectFolder, name: str) -> ProjectFacts:
    return ProjectFacts(("Rust",), "cargo build", "cargo test", "cargo clippy", manager="cargo")


_PYTHON_LOCKS = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "Pipfile.lock": "pipenv"}
_PYTHON_RUN = {"uv": "uv run ", "poetry": "poetry run ", "pdm": "pdm run ", "pipenv": "pipenv run "}
_PYTHON_BUILD = {"uv": "uv build", "poetry": "poetry build", "pdm": "pdm build", "hatch": "hatch build"}
_PYTHON_FRAMEWORKS = {"django": "Django", "fastapi": "FastAPI", "flask": "Flask"}
_REQUIREMENT = re.compile(r"^\s*[\"']?([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


def _python(folder: ProjectFolder, name: str) -> ProjectFacts:
    project = folder.table("pyproject.toml")
    tools = _mapping(project.get("tool"))
    dependencies = _python_dependencies(folder, project, tools)
    manager = next((manager for lock, manager in _PYTHON_LOCKS.items() if lock in folder.names), None)
    backend = str(_mapping(project.get("build-system")).get("build-backend", ""))
    for candidate in ("uv", "poetry", "pdm", "hatch"):
        if manager is None and (candidate in tools or (candidate != "hatch" and backend.startswith(candidate))):
            manager = candidate
    manager = manager or ("pipenv" if "Pipfile" in folder.names else "pip")
    run = _PYTHON_RUN.get(manager, "")
    setup, tox = folder.text("setup.cfg"), folder.text("tox.ini")
    configured = (
        "[tool:pytest]" in setup or "[pytest]" in tox or folder.first("pytest.ini", "conftest.py", ".pytest.ini")
    )
    if "pytest" in tools or "pytest" in dependencies or configured:
        test = f"{run}pytest"
    elif "manage.py" in folder.names:
        test = f"{run}python manage.py test"
    elif folder.first("tox.ini", "noxfile.py"):
        test = "tox" if "tox.ini" in folder.names else "nox"
    else:
        test = f"~{run}pytest"
    lint = (
        f"{run}ruff check"
        if "ruff" in tools or "ruff" in dependencies or folder.first("ruff.toml", ".ruff.toml")
        else None
    )
    if lint is None and ("flake8" in dependencies or ".flake8" in folder.names or "[flake8]" in setup + tox):
        lint = f"{run}flake8"
    mypy = "mypy" in tools or "mypy" in dependencies or folder.first("mypy.ini", ".mypy.ini") or "[mypy]" in setup
    pyright = "pyright" in tools or "pyright" in dependencies or "pyrightconfig.json" in folder.names
    types = f"{run}mypy ." if mypy else f"{run}pyright" if pyright else None
    frameworks = [framework for dependency, framework in _PYTHON_FRAMEWORKS.items() if dependency in dependencies]
    if "manage.py" in folder.names and "django" in folder.text("manage.py").lower() and "Django" not in frameworks:
        frameworks.insert(0, "Django")
    build = _PYTHON_BUILD.get(manager) if "build-system" in project or manager != "uv" else "uv sync"
    build = build or ("python -m build" if "build-system" in project or "setup.py" in folder.names else None)
    return ProjectFacts(("Python",), build or f"~{manager}", test, lint, types, manager, tuple(frameworks))


def _python_dependencies(folder: ProjectFolder, project: Mapping[str, Any], tools: Mapping[str, Any]) -> set[str]:
    """Return the normalised names of a Python project's dependencies."""
    section = _mapping(project.get("project"))
    poetry = _mapping(tools.get("poetry"))
    lines: list[Any] = [*_list(section.get("dependencies"))]
    for group in (*_mapping(section.get("optional-dependencies")).values(),):
        lines += _list(group)
    for group in _mapping(project.get("dependency-groups")).values():
        lines += _list(group)
    lines += _list(_mapping(tools.get("uv")).get("dev-dependencies"))
    lines += [*_mapping(poetry.get("dependencies")), *_mapping(poetry.get("dev-dependencies"))]
    for group in _mapping(poetry.get("group")).values():
        lines += _mapping(_mapping(group).get("dependencies"))
    pipfile = folder.table("Pipfile") if "Pipfile" in folder.names else {}
    lines += [*_mapping(pipfile.get("packages")), *_mapping(pipfile.get("dev-packages"))]
    for name in sorted(folder.names):
        if name.startswith("requirements") and name.endswith((".txt", ".in")):
            lines += folder.text(name).split("\n")
    if "setup.py" in folder.names:
        lines += re.findall(r"[\"']([A-Za-z0-9._-]++)[^\"'\n]*+[\"']", folder.text("setup.py"))
    matches = (_REQUIREMENT.match(line) for line in lines if isinstance(line, str))
    return {re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match}


def _php(folder: ProjectFolder, name: str) -> ProjectFacts:
    composer = folder.object("composer.json")
    scripts = _mapping(composer.get("scripts"))
    dependencies = {*_mapping(composer.get("require")), *_mapping(composer.get("require-dev"))}
    phpunit = "phpunit/phpunit" in dependencies or folder.first("phpunit.xml", "phpunit.xml.dist")
    test = "composer run test" if "test" in scripts else "vendor/bin/phpunit" if phpunit else None
    lint = "composer run lint" if "lint" in scripts else None
    if lint is None and (folder.first("phpstan.neon", "phpstan.neon.dist") or "phpstan/phpstan" in dependencies):
        lint = "vendor/bin/phpstan analyse"
    frameworks_by_dependency = {"laravel/framework": "Laravel", "symfony/framework-bundle": "Symfony"}
    frameworks = tuple(
        framework for dependency, framework in frameworks_by_dependency.items() if dependency in dependencies
    )
    build = "composer run build" if "build" in scripts else "~composer"
    return ProjectFacts(("PHP",), build, test, lint, manager="composer", frameworks=frameworks)


def _deno(folder: ProjectFolder, name: str) -> ProjectFacts:
    tasks = _mapping(folder.object(name).get("tasks"))
    return ProjectFacts(
        ("TypeScript",),
        "deno task build" if "build" in tasks else "~deno",
        "deno task test" if "test" in tasks else "deno test",
        "deno task lint" if "lint" in tasks else "deno lint",
        manager="deno",
    )


def _ruby(folder: ProjectFolder, name: str) -> ProjectFacts:
    gems = set(re.findall(r"^[ \t]*gem[ \t]+[\"']([\w-]+)[\"']", folder.text("Gemfile"), re.MULTILINE))
    rails = "rails" in gems or "Rails" in folder.text("config.ru")
    if "rspec" in gems or "rspec-rails" in gems or folder.first(".rspec"):
        test: str | None = "bundle exec rspec"
    else:
        test = "bin/rails test" if rails else "bundle exec rake test" if "Rakefile" in folder.names else None
    lint = "bundle exec rubocop" if "rubocop" in gems or ".rubocop.yml" in folder.names else None
    candidates = {"Rails": rails, "Sinatra": "sinatra" in gems}
    frameworks = tuple(framework for framework, is_used in candidates.items() if is_used)
    return ProjectFacts(("Ruby",), "~bundle install", test, lint, manager="bundler", frameworks=frameworks)


def _maven(folder: ProjectFolder, name: str) -> ProjectFacts:
    maven = "./mvnw" if "mvnw" in folder.names else "mvn"
    text = folder.text("pom.xml")
    languages = ("Java", "Kotlin") if "kotlin-maven-plugin" in text else ("Java",)
    lint = f"{maven} checkstyle:check" if "maven-checkstyle-plugin" in text else None
    return ProjectFacts(languages, f"{maven} package", f"{maven} test", lint, manager="maven", frameworks=_spring(text))


def _gradle(folder: ProjectFolder, name: str) -> ProjectFacts:
    gradle = "./gradlew" if "gradlew" in folder.names else "gradle"
    text = folder.text(name)
    kotlin = re.search(r"kotlin\s*\(|org\.jetbrains\.kotlin|kotlin-gradle-plugin", text) is not None
    lint = f"{gradle} ktlintCheck" if "ktlint" in text else f"{gradle} check" if "checkstyle" in text else None
    language = "Kotlin" if kotlin else "Java"
    return ProjectFacts(
        (language,), f"{gradle} build", f"{gradle} test", lint, manager="gradle", frameworks=_spring(text)
    )


def _spring(text: str) -> tuple[str, ...]:
    return ("Spring Boot",) if "spring-boot" in text or "org.springframework.boot" in text else ()


def _elixir(folder: ProjectFolder, name: str) -> ProjectFacts:
    text = folder.text("mix.exs")
    credo = ":credo" in text or ".credo.exs" in folder.names
    frameworks = ("Phoenix",) if re.search(r":phoenix\b", text) else ()
    return ProjectFacts(
        ("Elixir",), "mix compile", "mix test", "mix credo" if credo else None, manager="mix", frameworks=frameworks
    )


def _cmake(folder: ProjectFolder, name: str) -> ProjectFacts:
    call = re.search(r"^[ \t]*project[ \t]*\(([^)]{0,2000})\)", folder.text(name), re.MULTILINE | re.IGNORECASE)
    words = call[1].replace('"', " ").split()[1:] if call else []
    languages = tuple(language for word, language in (("C", "C"), ("CXX", "C++")) if word in words)
    lint = "run-clang-tidy -p build" if ".clang-tidy" in folder.names else None
    return ProjectFacts(
        languages or ("C", "C++"), "cmake -S . -B build && cmake --build build", "ctest --test-dir build", lint
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- the table ----------------------------------------------------------------------------------------------------

# the files of each kind of project and their probes; the first match in a folder wins
PROBES: tuple[tuple[tuple[str, ...], Callable[[ProjectFolder, str], ProjectFacts]], ...] = (
    (("go.mod", "go.work"), _go),
    (("package.json", "bun.lockb", "bun.lock"), _node),
    (("deno.json", "deno.jsonc"), _deno),
    (("Cargo.toml",), _rust),
    (("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "manage.py"), _python),
    (("composer.json",), _php),
    (("Gemfile",), _ruby),
    (("pom.xml",), _maven),
    (("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"), _gradle),
    (("mix.exs",), _elixir),
    (("CMakeLists.txt",), _cmake),
)

# files that make a folder inside a project a separate project; some projects have a CMakeLists.txt in every folder
ROOTS = frozenset(name for names, probe in PROBES for name in names if probe is not _cmake) - {
    *("go.work", "setup.cfg", "manage.py", "settings.gradle", "settings.gradle.kts", "bun.lock", "bun.lockb"),
}

CONFIG_FILES = (
    *(name for names, _ in PROBES for name in names),
    *("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile"),
    *("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"),
    *("tsconfig.json", "next.config.js", "next.config.mjs", "next.config.ts", "biome.json", "biome.jsonc", *_ESLINT),
    *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock"),
    *("pnpm-workspace.yaml", "lerna.json", "nx.json", "turbo.json", "Cargo.lock", "go.sum"),
    *(".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json", "rustfmt.toml", "clippy.toml"),
    *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pytest.ini", "tox.ini", "noxfile.py"),
    *("ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", "pyrightconfig.json", ".flake8"),
    *("composer.lock", "phpunit.xml", "phpunit.xml.dist", "phpstan.neon", "phpstan.neon.dist"),
    *("Gemfile.lock", "Rakefile", ".rspec", ".rubocop.yml", ".credo.exs", ".formatter.exs", "mix.lock"),
    *("deno.lock", ".clang-tidy", ".clang-format", "Dockerfile", "docker-compose.yml", "compose.yaml"),
)


def merged(values: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield each value once, in order of first occurrence."""
    yield from dict.fromkeys(value for group in values for value in group)
