"""Environment variables that make programs load or run extra code."""

from __future__ import annotations

import os
from collections.abc import Mapping

# Whatever their value.
_LOADS = frozenset(
    (
        *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PROMPT_COMMAND", "ZDOTDIR"),
        *("BASH_LOADABLES_PATH", "GCONV_PATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "GTK_MODULES"),
        *("GTK_PATH", "GIO_MODULE_DIR", "GIO_EXTRA_MODULES", "QT_PLUGIN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
        *("PYTHONSTARTUP", "PYTHONHOME", "PYTHONBREAKPOINT", "PYTEST_PLUGINS", "PERL5DB", "NODE_REPL_EXTERNAL_MODULE"),
        *("VIMINIT", "EXINIT", "GVIMINIT", "MAKEFILES", "DOTNET_STARTUP_HOOKS", "R_PROFILE", "R_PROFILE_USER"),
        *("R_ENVIRON", "R_ENVIRON_USER", "PHPRC", "PHP_INI_SCAN_DIR", "AWKLIBPATH", "LESSKEY", "LESSKEYIN", "PSQLRC"),
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
_FOLDERS = frozenset(
    (
        *("PATH", *_LIBRARIES, "PYTHONPATH", "NODE_PATH", "PERL5LIB", "PERLLIB", "RUBYLIB", "LUA_PATH", "LUA_CPATH"),
        *("CLASSPATH", "GEM_PATH", "JULIA_LOAD_PATH", "GUILE_LOAD_PATH", "TCLLIBPATH", "EMACSLOADPATH", "FPATH"),
        *("AWKPATH", "CDPATH", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS"),
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


def neutral(environ: Mapping[str, str], declared: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment for a program started in a workspace, without variables that run code from that folder.

    Absolute paths are the user's own and stay; relative ones would resolve inside the workspace. ENV, which interactive
    shells run, also has other meanings, so it stays if it is in `declared`.
    """
    own = declared or {}
    safe: dict[str, str] = {}
    for name, value in {**environ, **own}.items():
        is_path = os.path.isabs(value) and name != "ENV"
        if runs_at_start(name) or (loads_code(name, value) and not is_path and not (name == "ENV" and name in own)):
            continue
        cleaned = _absolute(value) if name in _FOLDERS else value
        if cleaned or not value:
            safe[name] = cleaned
    return safe


def libraries(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter may need to find its libraries."""
    folders_by_name = {name: _absolute(environ[name]) for name in _LIBRARIES if name in environ}
    return {name: folders for name, folders in folders_by_name.items() if folders}


def _absolute(folders: str) -> str:
    return os.pathsep.join(folder for folder in folders.split(os.pathsep) if os.path.isabs(folder))
