from __future__ import annotations

import json
import os
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hilt import config, places
from hilt.errors import ToolError
from hilt.parts import settings_stamp
from hilt.policy.paths import READABLE, SENSITIVE
from hilt.runtime import Runtime
from hilt.state.trust import Trust
from hilt.testing import environment, temporary_runtime
from tests.programs import needs_sandbox
from tests.trusting import file_at


@pytest.fixture
def folders(base):
    """The personal settings, the workspace, and an environment that points to them."""
    personal, workspace = Path(base, "config"), Path(base, "workspace")
    personal.mkdir()
    (workspace / ".hilt").mkdir(parents=True)
    return personal, workspace, environment(base)


def load(folders, *, personal: str = "", project: str = "", environ=None, flags=None) -> config.Settings:
    (folders[0] / "config.toml").write_text(personal)
    (folders[1] / ".hilt" / "config.toml").write_text(project)
    return config.load(str(folders[1]), {**folders[2], **(environ or {})}, flags or {})


def refusal(folders, **sources) -> ToolError:
    with pytest.raises(ToolError) as caught:
        load(folders, **sources)
    assert caught.value.code == "denied"
    return caught.value


def test_later_sources_win_and_are_recorded(folders):
    settings = load(
        folders,
        personal="undo.calls = 2\nundo.mb = 20\noutput.keep_days = 2\n",
        environ={"HILT_UNDO_MB": "30", "HILT_OUTPUT_KEEP_DAYS": "3"},
        flags={"output.keep_days": 4},
    )

    assert [settings[key] for key in ("undo.calls", "undo.mb", "output.keep_days", "output.keep_mb")] == [2, 30, 4, 500]
    sources = [settings.sources[key] for key in ("undo.calls", "undo.mb", "output.keep_days", "output.keep_mb")]
    assert sources == ["config.toml", "HILT_UNDO_MB", "flag", "default"]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", " 5", "x", "1000000001", "9" * 30, "9" * 5000])
def test_a_variable_outside_the_numeric_limits_is_rejected(folders, text):
    assert refusal(folders, environ={"HILT_UNDO_CALLS": text}).message.startswith("HILT_UNDO_CALLS: undo.calls must ")


@pytest.mark.starts_processes
@needs_sandbox
def test_the_largest_numbers_work(base):
    numbers = [name for name, key in config.KEYS.items() if key.type is int]
    with temporary_runtime(base, flags=dict.fromkeys(numbers, config.MAX_NUMBER)) as (runtime, _):
        calls = [
            runtime.call("write_file", path="a", content="x"),
            runtime.call("run_shell", command="true"),
            runtime.call("register_hook", action="register", event="stop", command="true"),
        ]

    assert [call.error.code if call.error else "ok" for call in calls] == ["ok", "ok", "approval_required"]


@pytest.mark.parametrize("text", ["undo.calls = 7\n", "[undo]\ncalls = 7\n", "undo = { calls = 7 }\n"])
def test_a_dotted_key_may_be_written_as_toml_allows(folders, text):
    assert load(folders, personal=text)["undo.calls"] == 7


@pytest.mark.parametrize(
    "project, key, value",
    [
        ('workspace.sensitive = ["secret*"]', "workspace.sensitive", (*SENSITIVE, "secret*")),
        ("workspace.sensitive = []", "workspace.sensitive", SENSITIVE),
        ('workspace.readable = [".env"]', "workspace.readable", READABLE),
        ('workspace.writable = [".hilt"]', "workspace.writable", ()),
        ('shell.writable = [".hilt"]', "shell.writable", ()),
        ('workspace.protected = ["Makefile"]', "workspace.protected", ("Makefile",)),
        ('workspace.roots = ["/"]', "workspace.roots", ()),
        ("output.overflow_chars = 10", "output.overflow_chars", 10),
        ("output.overflow_chars = 99999999", "output.overflow_chars", 50_000),
        ("undo.calls = 1", "undo.calls", 500),
        ("undo.mb = 1", "undo.mb", 200),
        ('dialect = "jcli"', "dialect", None),
    ],
)  # fmt: skip
def test_a_project_can_tighten_and_never_loosen(folders, project, key, value):
    assert load(folders, project=project)[key] == value


def test_every_setting_that_a_project_may_set_can_only_become_stricter():
    """Every new setting must show this: merging any project value keeps the user's value or makes it stricter."""
    for name, key in config.KEYS.items():
        if key.tighten is None:
            continue
        if key.choices:  # from strict to lax
            for own, project in product(key.choices, repeat=2):
                assert key.choices.index(key.tighten(own, project)) <= key.choices.index(own), name
            continue
        user_value: Any = 5 if key.default is None else key.default  # None: no limit
        for project_value in ((), ("x",)) if key.type is list else (1, 10**9):
            joined = key.tighten(user_value, project_value)
            assert set(user_value) <= set(joined) if key.type is list else joined <= user_value, name


@pytest.mark.parametrize(
    "text, reason",
    [
        ("not toml", "config.toml"),
        ("undo.calls = ", "config.toml"),
        ("undo.cals = 1", "did you mean undo.calls?"),
        ("udno.calls = 1", "udno"),
        ("undo = 1", "key undo"),
        ("undo.calls = 'many'", "integer"),
        ("undo.calls = true", "integer"),
        ("undo.calls = 1.5", "integer"),
        ("undo.calls = 0", "at least 1"),
        ("undo.calls = -1", "at least 1"),
        ("undo.calls = 1_000_000_001", "at most 1000000000"),
        ("approvals.timeout_s = " + "9" * 5000, "config.toml: "),
        ("undo.calls = 1979-05-27", "integer"),
        ("workspace.sensitive = 'x'", "array of strings"),
        ("workspace.sensitive = [1]", "array of strings"),
        ("dialect = 'klingon'", "one of jinn"),
        ("undo.calls = " + "9" * 5000, "config.toml"),
        ("x = " + "[" * 5000 + "]" * 5000, "config.toml"),
        ("a." * 3000 + "b = 1", "key "),  # newer versions of tomllib reject it themselves
        ("undo.calls = 1\nundo.calls = 2", "config.toml"),
    ],
)
@pytest.mark.parametrize("place", ["personal", "project"])
def test_an_invalid_settings_file_denies_every_call_and_says_why(folders, place, text, reason):
    error = refusal(folders, **{place: text})

    assert reason in error.message
    assert "config.toml" in error.message
    assert "config.toml" in error.suggestion


@pytest.mark.parametrize("text", ["undo.cals = 1", "[theme]\ncolor = 'dark'", "not toml"])
def test_a_broken_personal_file_is_named_with_its_path(folders, text):
    error = refusal(folders, personal=text)

    path = str(folders[0] / "config.toml")
    assert (path in error.message, path in error.suggestion) == (True, True)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("raw", [b"\xff\xfe", b"undo.calls = 1\0", b"\xef\xbb\xbfundo.calls = 1"])
def test_a_settings_file_that_is_not_toml_denies_every_call(folders, place, raw):
    path = folders[0] if place == 0 else folders[1] / ".hilt"
    (path / "config.toml").write_bytes(raw)

    with pytest.raises(ToolError):
        config.load(str(folders[1]), folders[2], {})


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "folder", "pipe"])
def test_a_project_file_that_is_not_a_regular_file_is_rejected_without_blocking(folders, target):
    path = folders[1] / ".hilt" / "config.toml"
    if target == "folder":
        path.mkdir()
    elif target == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)

    with pytest.raises(ToolError) as caught:
        config.load(str(folders[1]), folders[2], {})

    assert caught.value.code == "denied"


@pytest.mark.parametrize(
    "environ, flags",
    [
        ({"HILT_UNDO_CALLS": "many"}, {}),
        ({"HILT_UNDO_CALLS": "-1"}, {}),
        ({"HILT_DIALECT": "klingon"}, {}),
        ({}, {"undo.calls": "many"}),
        ({}, {"undo.cals": 1}),
    ],
)
def test_an_invalid_variable_or_flag_is_rejected(folders, environ, flags):
    assert refusal(folders, environ=environ, flags=flags).message


def test_a_broken_project_file_denies_every_call_until_it_is_fixed(base, folders):
    (folders[1] / ".hilt" / "config.toml").write_text("nonsense")
    with pytest.raises(ToolError, match=r"\.hilt/config\.toml"):
        Runtime(str(folders[1]), environ=folders[2])

    (folders[1] / ".hilt" / "config.toml").write_text("")
    with temporary_runtime(base) as (runtime, _):
        assert runtime.call("list_dir").ok


def test_a_project_can_add_sensitive_files(base, folders):
    (folders[1] / ".hilt" / "config.toml").write_text('workspace.sensitive = ["private/*", "*.pem"]\n')
    with temporary_runtime(base) as (runtime, folder):
        for path in ("private/a.txt", "sub/key.pem"):
            folder.write(path, "x")
            assert runtime.call("read_file", path=path).error.code == "sensitive_path"  # type: ignore[union-attr]
        folder.write("sub/private/a.txt", "x")
        assert runtime.call("read_file", path="sub/private/a.txt").ok


# --- the cache of parsed files ----------------------------------------------------------------------------------------


def cached(base: str) -> list[Path]:
    return list(Path(base, "state", "cache").glob("config-*.json"))


def test_a_parsed_file_is_cached(base, folders):
    (folders[0] / "config.toml").write_text("undo.calls = 7\n")
    assert config.load(str(folders[1]), folders[2], {})["undo.calls"] == 7
    [cache] = cached(base)
    data = json.loads(cache.read_text())
    data["data"]["undo"]["calls"] = 8
    cache.write_text(json.dumps(data))

    assert config.load(str(folders[1]), folders[2], {})["undo.calls"] == 8  # read from the cache, not from the file


@pytest.mark.parametrize("change", ["contents", "time", "inode", "gone"])
def test_a_file_that_changed_is_parsed_again(folders, change):
    assert load(folders, personal="undo.calls = 7\n")["undo.calls"] == 7
    path = folders[0] / "config.toml"
    status = path.stat()
    if change == "gone":
        path.unlink()
    elif change == "inode":
        other = path.with_name("other")
        other.write_text("undo.calls = 8\n")
        os.replace(other, path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        path.write_text("undo.calls = 8\n")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + (change == "time") * 1000 + 1))

    settings = config.load(str(folders[1]), folders[2], {})

    assert settings["undo.calls"] == (500 if change == "gone" else 8)


@pytest.mark.parametrize("damage", ["", "null", "[]", "{", '{"stamp": 1}', '{"stamp": [], "data": 1}', "\0\0"])
def test_a_damaged_cache_is_not_used(base, folders, damage):
    load(folders, personal="undo.calls = 7\n")
    for cache in cached(base):
        cache.write_text(damage)

    assert config.load(str(folders[1]), folders[2], {})["undo.calls"] == 7


def test_an_invalid_file_is_rejected_every_time_despite_the_cache(folders):
    for _ in range(3):
        assert "undo.cals" in refusal(folders, personal="undo.cals = 1\n").message


def test_settings_load_without_a_cache_if_the_state_folder_is_not_writable(folders, base):
    shutil.rmtree(os.path.join(base, "state"))
    Path(base, "state").write_text("in the way")

    assert load(folders, personal="undo.calls = 7\n")["undo.calls"] == 7


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environ, config_dir, state_dir",
    [
        ({"HOME": "/h"}, "/h/.config/hilt", "/h/.local/state/hilt"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/hilt", "/s/hilt"),
        ({"HOME": "/h", "HILT_CONFIG_DIR": "/c", "HILT_STATE_DIR": "/s"}, "/c", "/s"),
        ({"HOME": "/h", "JINN_CONFIG_DIR": "/j"}, "/j/hilt", "/h/.local/state/hilt"),
        ({"HOME": "/h", "JINN_CONFIG_DIR": "/j", "HILT_CONFIG_DIR": "/c"}, "/c", "/h/.local/state/hilt"),
        ({"HOME": "/h", "JINN_CONFIG_DIR": "/j", "XDG_CONFIG_HOME": "/c"}, "/j/hilt", "/h/.local/state/hilt"),
        ({"HOME": "/h", "HILT_CONFIG_DIR": "", "XDG_CONFIG_HOME": ""}, "/h/.config/hilt", "/h/.local/state/hilt"),
    ],
)
def test_environment_variables_choose_the_settings_and_state_folders(environ, config_dir, state_dir):
    assert (places.config_dir(environ), places.state_dir(environ)) == (config_dir, state_dir)


def test_the_settings_stamp_changes_with_the_files_and_their_trust(folders):
    workspace, environ = str(folders[1]), folders[2]
    stamps = [settings_stamp(workspace, environ)]
    for name in (config.PROJECT, config.FOREIGN):
        path = os.path.join(workspace, name)
        with open(path, "wb") as file:
            file.write(b"{}" if name == config.FOREIGN else b"undo.calls = 3\n")
        stamps.append(settings_stamp(workspace, environ))
        with open(path, "rb") as file:
            data = file.read()
        trust = Trust(places.state_dir(environ))
        trust.trust(file_at(path, "config"), data)
        stamps.append(settings_stamp(workspace, environ))
        trust.revoke(file_at(path, "config"))
        trust.close()
        assert settings_stamp(workspace, environ) == stamps[-2]

    assert len(set(stamps)) == len(stamps) == 5
