from __future__ import annotations

import os
import sys

import pytest

from hilt import variables


@pytest.mark.parametrize(
    "name", ["BASH_ENV", "BASHOPTS", "SHELLOPTS", "PS4", "BASH_FUNC_x%%", "LD_PRELOAD", "LD_AUDIT"]
)
@pytest.mark.parametrize("value", ["x", "/opt/x", ""])
def test_variables_that_inject_code_are_never_passed_on(name, value):
    assert variables.neutral({name: value, "KEPT": value}) == {"KEPT": value}


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("PATH", ".::/usr/bin:bin:/bin", "/usr/bin:/bin"),
        ("PATH", ".", None),
        ("PYTHONPATH", "src:/opt/lib", "/opt/lib"),
        ("LD_LIBRARY_PATH", ":/opt/lib", "/opt/lib"),
        ("OPENSSL_CONF", "/etc/ssl/own.cnf", "/etc/ssl/own.cnf"),
        ("OPENSSL_CONF", "own.cnf", None),
        ("RIPGREP_CONFIG_PATH", "rc", None),
        ("NODE_OPTIONS", "--max-old-space-size=64", "--max-old-space-size=64"),
        ("NODE_OPTIONS", "--trace-warnings -r ./x", None),
        ("NODE_OPTIONS", "--import=./x.mjs", None),
        ("PERL5OPT", "-w", "-w"),
        ("PERL5OPT", "Mx", None),
        ("RUBYOPT", "-W0", "-W0"),
        ("RUBYOPT", "-rx", None),
        ("JAVA_TOOL_OPTIONS", "-Xmx1g", "-Xmx1g"),
        ("JAVA_TOOL_OPTIONS", "-Xmx1g -javaagent:x.jar", None),
        ("GIT_CONFIG_GLOBAL", "config", None),
        ("GIT_CONFIG_NOSYSTEM", "1", "1"),
        ("EDITOR", "vim", "vim"),
        ("EMPTY", "", ""),
        ("ENV", "production", None),
        ("ENV", "/opt/x", None),
    ],
)
def test_relative_paths_in_variables_are_not_passed_on(name, value, expected):
    assert variables.neutral({name: value}) == ({} if expected is None else {name: expected})


def test_an_interpreter_gets_only_the_library_folders_of_its_installation():
    own = f"{sys.base_prefix}/lib/own"
    environ = {
        "LD_PRELOAD": "/x.so",
        "LD_LIBRARY_PATH": os.pathsep.join([own, "/opt/lib", "lib", f"{own}/../../../opt"]),
        "DYLD_LIBRARY_PATH": "lib",
        "HOME": "/users/u",
        "A": "1",
    }

    assert variables.libraries(environ, "HOME", "GONE") == {"LD_LIBRARY_PATH": own, "HOME": "/users/u"}
