"""Environment variables that make programs load or run extra code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping

# Whatever their value.
_LOADS = frozenset(
    (
        *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PROMPT_COMMAND", "ZDOTDIR"),
        *("BASH_LOADABLES_PATH", "GCONV_PATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "GTK_MODULES"),
        *("GTK_PATH", "GIO_MODULE_DIR", "GIO_EXTRA_MODULES", "QT_PLUGIN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
        *("PYTHONSTARTUP", "PYTHONHOME", "PYTHONBREAKPOINT", "PYTEST_PLUGINS", "PERL5DB", "NODE_REPL_EXTERNAL_MODULE"),
        *("VIMINIT", "EXINIT", "GVIMINIT", "MAKEFILES", "DOTNET_STARTUP_HOOKS", "R_PROFILE", "R_PROFILE_USER"),
        *("R_ENVIRON", "R_ENVIRON_USER", "PHPRC", "PHP_INI_SCAN_DIR", "AWKLIBPATH", "LESSKEY", "LESSKEYIN", "PSQLRC"),
        *("WGETRC", "BAT_CONFIG_PATH", "ACKRC", "VIMRUNTIME", "MYVIMRC", "ANSIBLE_LIBRARY", "ANSIBLE_FILTER_PLUGINS"),
        *("LESSKEY_CONTENT", "HGRCPATH", "RIPGREP_CONFIG_PATH", "ANSIBLE_CONFIG", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR"),
    )
)
_LOADS_PREFIXES = ("BASH_FUNC_", "LUA_INIT", "COR_PROFILER", "CORECLR_PROFILER", "GIT_CONFIG")
_JAVA_LOADS = (
    *("-javaagent", "-agentlib", "-agentpath", "OnError", "OnOutOfMemoryError", "Flags=", "-Xbootclasspath"),
    *("VMOptionsFile", "-cp", "-classpath", "--class-path", "-p", "--module-path", "--patch-module", "@"),
    *("-Djava.system.class.loader", "-Djava.ext.dirs", "--upgrade-module-path"),
)
_NODE_LOADS = ("-r", "--require", "--import", "--loader", "--experimental-loader", "--openssl-config", "--env-file")
# Variables with program options, and the options that load code; RUBYOPT and PERL5OPT accept letters without a dash,
# so their safe options are listed instead
OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("NODE_OPTIONS", "NPM_CONFIG_NODE_OPTIONS", "npm_config_node_options"), _NODE_LOADS),
    **dict.fromkeys(("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "MAVEN_OPTS"), _JAVA_LOADS),
    **dict.fromkeys(("GRADLE_OPTS", "SBT_OPTS"), _JAVA_LOADS),
    "GOFLAGS": ("-toolexec", "--toolexec", "-exec", "--exec", "-vettool", "--vettool", "-overlay", "--overlay"),
    **dict.fromkeys(("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"), ("-Clinker", "linker=", "-Zcodegen-backend")),
    **dict.fromkeys(("ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS"), ("-eval", "-run", "-s", "-pa")),
    "GIT_ALLOW_PROTOCOL": ("ext",),
    "PERL5OPT": (),
    "RUBYOPT": (),
}
_SAFE_OPTIONS = {
    "PERL5OPT": ("-w", "-W", "-C", "-T", "-t"),
    "RUBYOPT": ("-W", "-w", "-E", "-U", "-v", "--yjit", "--jit", "--rjit", "--enable", "--disable", "--encoding"),
}
# Code that a shell or the loader runs at the start of every program or script.
_AT_START = frozenset(
    (
        *("BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PS0", "PROMPT_COMMAND", "BASH_LOADABLES_PATH"),
        *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"),
    )
)
_LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
# Lists of folders in which programs look for code.
FOLDERS = frozenset(
    (
        *("PATH", *_LIBRARIES, "PYTHONPATH", "NODE_PATH", "PERL5LIB", "PERLLIB", "RUBYLIB", "LUA_PATH", "LUA_CPATH"),
        *("CLASSPATH", "GEM_PATH", "JULIA_LOAD_PATH", "GUILE_LOAD_PATH", "TCLLIBPATH", "EMACSLOADPATH", "FPATH"),
        *("AWKPATH", "CDPATH", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS", "GOPATH", "GI_TYPELIB_PATH", "GST_PLUGIN_PATH"),
        *("PKG_CONFIG_PATH", "ERL_LIBS", "PSModulePath"),
    )
)
# Further names of installations, settings and options of programs, which lead to code.
_SETTINGS = re.compile(
    r"(?:LD|DYLD|NIX|GIT|NODE|NPM_CONFIG|BUN|DENO|PNPM|PIP|UV|CARGO|GEM|BUNDLE|PIPX|CONDA|ANSIBLE|PERL|RUBY|JAVA"
    r"|CLOUDSDK|JUPYTER|HELM)_\w+|(?:PYTHON|PYLINT|PERL5|RUSTUP|RUSTC|R_LIBS)\w*|TMPDIR|(?:PY|RB|NOD|J)ENV_ROOT"
    r"|GO(?:ROOT|BIN|ENV|WORK|CACHE|MODCACHE|TMPDIR|TOOLCHAIN)|DOCKER_CONFIG|AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE"
    r"|TF_CLI_CONFIG_FILE|TF_PLUGIN_CACHE_DIR|GNUPGHOME|IPYTHONDIR|MPLCONFIGDIR|STARSHIP_CONFIG|OCAMLPATH|KREW_ROOT"
    r"|\w+_(?:HOME|PREFIX|OPTIONS|OPTS|PLUGINS|WRAPPER|LAUNCHER)|\w*FLAGS|(?:INPUT|SCREEN)RC|LESS|MANOPT|ZIPOPT"
    r"|KUBECONFIG|VIRTUAL_ENV|LOCPATH|CC|CXX|CPP|AR|DOTNET_ROOT|NVM_DIR|ASDF_(?:DATA_)?DIR|MISE_DATA_DIR",
    re.IGNORECASE,
)
# Variables whose value is a command that programs run.
_RUNS_VALUE = frozenset(
    (
        *("PAGER", "GIT_PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_SSH_COMMAND"),
        *("GIT_SSH", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "BROWSER"),
        *("LESSOPEN", "LESSCLOSE", "LESSEDIT", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "CVS_RSH", "FCEDIT", "SHELL"),
        *("SYSTEMD_PAGER", "SYSTEMD_EDITOR", "SVN_SSH", "SVN_EDITOR", "SVN_MERGE", "HGPAGER", "HGEDITOR", "HGMERGE"),
        *("SUDO_EDITOR", "CONFIG_SHELL", "MAKE_SHELL", "KUBE_EDITOR", "KUBECTL_EXTERNAL_DIFF", "PSQL_EDITOR"),
        *("PSQL_PAGER", "BAT_PAGER", "AWS_PAGER", "ACK_PAGER", "DELTA_PAGER", "GH_PAGER", "GH_EDITOR", "TEXEDIT"),
        *("RUSTC", "RUSTDOC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_RUSTC", "GOCACHEPROG"),
        *("CARGO_BUILD_RUSTC_WRAPPER", "CCACHE_PREFIX", "FZF_DEFAULT_COMMAND"),
    )
)


def loads_code(variable: str, value: str | None) -> bool:
    """Whether a variable makes programs run code that the command line does not name; an unknown value (None) may."""
    if variable in _LOADS or (variable.startswith(_LOADS_PREFIXES) and variable != "GIT_CONFIG_NOSYSTEM"):
        return True
    if variable not in OPTIONS:
        return False
    options = [None] if value is None else value.replace(":", " ").split()
    safe = _SAFE_OPTIONS.get(variable)
    if safe is not None:
        return any(option is None or not option.startswith(safe) for option in options)
    return any(option is None or option.startswith(OPTIONS[variable]) for option in options)


def runs_at_start(variable: str) -> bool:
    """Whether a variable makes a shell or any program run other code first."""
    return variable in _AT_START or variable.startswith("BASH_FUNC_")


def runs_value(variable: str) -> bool:
    """Whether programs run the value of a variable as a command."""
    lowered = variable.lower()
    return (
        variable in _RUNS_VALUE
        or (lowered.startswith("npm_config_") and lowered.endswith(("shell", "_git", "editor", "viewer", "browser")))
        or (variable.startswith("CARGO_TARGET_") and variable.endswith(("_RUNNER", "_LINKER")))
    )


def is_loader(variable: str) -> bool:
    """Whether the dynamic loader or the C library of any program reads a variable."""
    return variable.startswith(("LD_", "DYLD_")) or variable in ("GCONV_PATH", "LOCPATH", "GLIBC_TUNABLES")


def is_code(variable: str) -> bool:
    """Whether a variable names code, programs, or folders of them, for the programs that read it."""
    is_listed = variable in FOLDERS or variable in _LOADS or variable in OPTIONS or runs_value(variable)
    return is_listed or variable.startswith(_LOADS_PREFIXES) or _SETTINGS.fullmatch(variable) is not None


def relative(variable: str, value: str) -> str:
    """Return why a value, or a folder of a list, would make programs load code from the working folder."""
    if variable in FOLDERS:
        return "" if os.path.isabs(value) else "it is relative"
    is_path = os.path.isabs(value) and variable != "ENV"
    program = value.lstrip("|-").partition(" ")[0]
    if runs_value(variable) and "/" in program and not os.path.isabs(program):
        return "it is relative"
    return "it may load code from the working folder" if loads_code(variable, value) and not is_path else ""


def neutral(environ: Mapping[str, str], problem: Callable[[str, str], str] = relative) -> dict[str, str]:
    """Return an environment for a program started in a workspace, without variables that run code from that folder.

    `problem` returns why a value, or a folder of a list, is left out. By default those are relative paths, which would
    resolve inside the workspace.
    """
    safe: dict[str, str] = {}
    for name, value in environ.items():
        if runs_at_start(name):
            continue
        left_out = dict(problems(name, value, problem))
        if not left_out or not value:
            safe[name] = value
        elif name in FOLDERS and (kept := [entry for entry in _entries(name, value) if entry not in left_out]):
            safe[name] = _separator(name).join(kept)
    return safe


def problems(name: str, value: str, problem: Callable[[str, str], str]) -> Iterator[tuple[str, str]]:
    """Yield what `neutral` leaves out of a variable, each with the reason."""
    for entry in _entries(name, value):
        if reason := problem(name, entry):
            yield entry, reason


def _entries(name: str, value: str) -> list[str]:
    return value.split(_separator(name)) if name in FOLDERS else [value]


def _separator(name: str) -> str:
    return ";" if name.startswith("LUA_") else os.pathsep


def libraries(environ: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the variables that hilt's own interpreter may need, with the library folders of its installation alone.

    Variables in `names` are added.
    """
    own = [f"{prefix}/lib" for prefix in (sys.base_prefix, os.path.realpath(sys.base_prefix))]

    def problem(name: str, folder: str) -> str:
        if name not in _LIBRARIES:
            return ""
        path = os.path.normpath(folder)
        return (
            "" if any(path in (lib, f"{lib}64") or path.startswith(f"{lib}/") for lib in own) else "it is not Python's"
        )

    return neutral({name: environ[name] for name in (*_LIBRARIES, *names) if name in environ}, problem)
