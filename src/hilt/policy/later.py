"""Files that run later, when a person commits, builds, opens a folder or starts a shell: a mark for approvals."""

from __future__ import annotations

from functools import cache

from hilt.policy import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Patterns of names by what runs them. They mark what a person should read first and decide nothing.
_RUNNERS = {
    "agents": "AGENTS.md CLAUDE.md GEMINI.md .cursorrules",
    "git": ".git .githooks .husky .gitattributes .gitmodules .gitconfig .pre-commit-config.yaml *lefthook*",
    "CI": """.github .gitlab .gitlab-ci* .circleci .buildkite .woodpecker* .drone.* .travis.* .cirrus.* .forgejo .gitea
        Jenkinsfile* azure-pipelines* bitbucket-pipelines* *appveyor.y*ml cloudbuild.y*ml action.y*ml""",
    "editors": ".vim* .exrc .nvim* .emacs* .dir-locals.el *.code-workspace",
    "builds": """*Makefile* *.mk *.mak *justfile Taskfile.* CMakeLists.txt *.cmake configure configure.ac meson.build
        BUILD BUILD.bazel WORKSPACE* MODULE.bazel *.bzl SConstruct build.rs *.gradle *.gradle.kts gradle.properties
        pom.xml build.xml *.sbt *.csproj Directory.Build.* Rakefile *Dockerfile* *Containerfile* *compose*.y*ml
        Vagrantfile Procfile Earthfile Tiltfile *.nix *.tf""",
    "package managers": """package.json .npmrc .yarnrc* .pnpmfile.* pnpm-workspace.yaml bunfig.toml binding.gyp setup.py
        setup.cfg pyproject.toml requirements*.txt Pipfile pip.conf Cargo.toml .cargo Gemfile *.gemspec composer.json
        deno.json* go.mod mix.exs Package.swift""",
    "tests or interpreters": """conftest.py sitecustomize.py usercustomize.py *.pth tox.ini noxfile.py pytest.ini .rspec
        *.config.js *.config.ts *.config.mjs *.config.cjs""",
    "shells or logins": """.env .env.* .*rc .*profile .*rc.* .zshenv .*login .*logout .bash_* .gdbinit *.desktop
        *.service *.timer crontab *.plist""",
    "hand (a script)": "*.sh *.bash *.zsh *.fish *.ps1 *.bat *.cmd",
}


def runner(path: str, *, executable: bool, start: str) -> str:
    """Return what runs a file later, "" if nothing is known to; `start` is the beginning of its contents."""
    names = [name for name in path.replace("\\", "/").split("/") if name not in ("", ".", "..")]
    for who, matches in _matchers().items():
        if any(map(matches, names)):
            return who
    return "hand (executable)" if executable or start.startswith("#!") else ""


@cache
def _matchers() -> dict[str, Callable[[str], bool]]:
    own = {"agents": paths.PROTECTED, "editors": paths.ASKED}
    return {who: paths.matcher([*names.split(), *own.get(who, ())]) for who, names in _RUNNERS.items()}
