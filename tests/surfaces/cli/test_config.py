from __future__ import annotations

import json
import os
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt import config
from hilt.config import KEYS
from hilt.desk.settings import Problem, Sources, _statements
from hilt.desk.settings import problems as settings_problems
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.state.trust import Trust
from tests.surfaces.commands import HILT, Command
from tests.trusting import file_at


def personal(command: Command, text: str) -> str:
    folder = command.environ["HILT_CONFIG_DIR"]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "config.toml")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def project(command: Command, text: str) -> str:
    command.folder.write(".hilt/config.toml", text)
    return command.folder.join(".hilt/config.toml")


def config_show(command: Command, *words: str) -> Any:
    done = command.run("config", "show", "--json", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def problems(command: Command, *words: str) -> list[tuple[str, int | None, str]]:
    done = command.run("config", "check", "--json", *words)
    listed = [Problem(**problem) for problem in json.loads(done.stdout)]
    assert done.returncode == (1 if any(not problem.only_note for problem in listed) else 0)
    return [(problem.place, problem.line, problem.text) for problem in listed]


# --- show ---------------------------------------------------------------------------------------------------------


def test_every_setting_is_shown_with_its_value_and_source(command):
    own = personal(command, 'dialect = "jcli"\n\n[undo]\ncalls = 2\nmb = 20\n\n[output]\nkeep_days = 3\n')
    theirs = project(command, "# theirs\n[workspace]\nsensitive = [\n  '*.key',\n]\n[shell]\nnetwork = 'none'\n")
    command.environ["HILT_UNDO_MB"] = "30"

    values = config_show(command, "--dialect", "jinn")

    assert list(values) == list(config.KEYS)
    assert values["output.keep_mb"] == {"value": 500, "source": "default"}
    assert values["undo.calls"] == {"value": 2, "source": "config.toml", "file": own, "line": 4}
    assert values["undo.mb"] == {"value": 30, "source": "HILT_UNDO_MB"}
    assert values["dialect"] == {"value": "jinn", "source": "flag"}
    sensitive = values["workspace.sensitive"]
    assert (sensitive["value"][-1], sensitive["file"], sensitive["line"]) == ("*.key", theirs, 3)
    assert values["shell.network"]["line"] == 7


def test_passwords_in_addresses_are_not_shown(command):
    command.environ["HILT_AGENTS_DATABASE"] = "postgresql://hilt:s3cret@db.internal/agents?sslmode=require"

    value = config_show(command)["agents.database"]["value"]

    assert value == "postgresql://hilt:...@db.internal/agents?sslmode=require"


def test_tool_folders_come_from_the_flag_then_the_variables_then_the_file(command):
    personal(command, "[custom]\ndirs = ['/file']\n")
    seen = []
    for change in ({}, {"HILT_TOOLS_DIR": "/short::/other"}, {"HILT_CUSTOM_DIRS": "/long"}):
        command.environ |= change
        seen.append((config_show(command)["custom.dirs"]["value"], config_show(command)["custom.dirs"]["source"]))
    values = config_show(command, "--tools-dir", "mine", "--tools", "read_file,undo")

    assert seen == [
        (["/file"], "config.toml"),
        (["/short", "/other"], "HILT_TOOLS_DIR"),
        (["/long"], "HILT_CUSTOM_DIRS"),
    ]
    assert values["custom.dirs"] == {"value": [os.path.realpath(command.folder.join("mine"))], "source": "flag"}
    assert values["tools.only"] == {"value": ["read_file", "undo"], "source": "flag"}


def test_the_shown_settings_are_a_valid_file(command):
    own = personal(command, "[workspace]\nroots = ['/a\\b', \"ü\\n\", '" + "long" * 30 + "']\n")

    done = command.run("config", "show")

    text = done.stdout.decode()
    values = tomllib.loads(text)
    assert values["workspace"]["roots"] == ["/a\\b", "ü\n", "long" * 30]
    assert f"# {own}:2\n" in text
    assert "# dialect is not set\n" in text
    assert "undo.calls = 500  # default\n" in text
    personal(command, text)
    del command.environ["HILT_RESIDENT"]
    assert {name for name, setting in config_show(command).items() if setting["source"] != "config.toml"} == {
        name for name, key in KEYS.items() if key.default is None
    }


def test_broken_settings_are_not_shown_as_if_they_applied(command):
    project(command, "[undo]\ncall = 3\n")

    done = command.run("config", "show")

    assert (done.returncode, done.stdout) == (1, b"")
    assert "unknown key undo.call; did you mean undo.calls?" in done.stderr.decode()


def test_the_lines_of_a_very_long_value_are_not_searched(command):
    own = personal(command, "workspace.roots = [\n" + "'x',\n" * 3000 + "]\n")

    assert config_show(command)["workspace.roots"]["file"] == own
    assert problems(command) == []


# --- check --------------------------------------------------------------------------------------------------------


def test_all_problems_are_reported_with_file_and_line(command):
    own = personal(
        command,
        "dialct = 'jcli'\r\n"
        "[output]\r\n"
        "keep_days = 0\r\n"
        "[shel]\r\n"
        "sandbox = 'full'  # not reported: the table is\r\n"
        '[workspace]\r\nsensitive = [\r\n  "a",\r\n  1,\r\n]\r\n'
        "[undo]\r\n"
        "mb = '''\n[x]\ny = 1\n'''\r\n",
    )
    theirs = project(command, "dialect = 'jcli'\nresident = 'maybe'\n")
    command.environ["HILT_UNDO_CALLS"] = "many"

    assert problems(command) == [
        (own, 1, "unknown key dialct; did you mean dialect?"),
        (own, 3, "output.keep_days must be at least 1, not 0."),
        (own, 4, "unknown key shel; did you mean shell.env?"),
        (own, 7, "workspace.sensitive must be an array of strings, not ['a', 1]."),
        (own, 12, "undo.mb must be an integer, not '[x]\\ny = 1\\n'."),
        (theirs, 2, "resident must be one of auto, off, not 'maybe'."),
        ("HILT_UNDO_CALLS", None, "undo.calls must be an integer, not 'many'."),
    ]
    text = command.run("config", "check").stdout.decode()
    assert f"{own}:3: output.keep_days must be at least 1, not 0.\n" in text
    assert text.endswith("Calls are refused until you fix this.\n")


@pytest.mark.parametrize(
    "text, line",
    [
        ("undo.calls = 1\nundo.calls =\n", 2),
        ("undo.calls = 1\nundo.calls = 2\n", 2),
        ("a = [\n1,\n", 2),
        ("[undo\n", 1),
        ("\n\nx y = 1\n", 3),
    ],
)
def test_a_file_that_is_not_toml_is_reported_with_the_line(command, text, line):
    path = project(command, text)

    ((place, number, message),) = problems(command)

    assert (place, number) == (path, line)
    assert "(at line" not in message


def test_valid_and_missing_files_are_reported_as_such(command):
    theirs = project(command, "undo.calls = 3\nshell.network = 'none'\n")

    done = command.run("config", "check")

    assert done.returncode == 0
    own = os.path.join(command.environ["HILT_CONFIG_DIR"], "config.toml")
    assert done.stdout.decode().splitlines() == [
        f"{theirs}:1: note: undo.calls is ignored until the file is trusted ({HILT} trust)",
        f"{own}: OK (not found)",
        f"{theirs}: OK",
    ]


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "folder", "nowhere"])
def test_a_special_file_is_reported_without_blocking(command, target):
    command.folder.write(".hilt/folder/x", "")
    os.symlink(target, command.folder.join(".hilt/config.toml"))

    listed = problems(command)

    assert len(listed) == 1
    assert "config.toml is a symbolic link" in listed[0][2]


_VALUES = st.one_of(
    st.integers(-2, 3).map(str),
    st.sampled_from(["'x'", "[]", "['a',\n 'b']", "{}", "{ calls = 1 }", "'none'", "'jcli'", "true", '"""\n[a]\n"""']),
)
_LINES = st.one_of(
    st.tuples(st.sampled_from([*config.KEYS, "calls", "undo", "x", "mb"]), _VALUES).map(" = ".join),
    st.sampled_from(["[undo]", "[shell]", "[x]", "[[undo]]", "", "# c", "[workspace.x]", "]", "a ="]),
)


@given(st.lists(_LINES, max_size=6), st.lists(_LINES, max_size=3))
@settings(max_examples=300)
def test_the_check_finds_a_problem_exactly_when_calls_are_refused(tmp_path_factory, own, theirs):
    base = str(tmp_path_factory.mktemp("settings"))
    paths = [os.path.join(base, "config.toml"), os.path.join(base, ".hilt", "config.toml")]
    os.mkdir(os.path.join(base, ".hilt"))
    for path, lines in zip(paths, (own, theirs), strict=True):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    environ = {"HILT_CONFIG_DIR": base, "HILT_STATE_DIR": os.path.join(base, "state")}

    faults = [problem for problem in settings_problems(Sources(base, environ, {})) if not problem.only_note]

    refusal = ""
    try:
        config.load(base, environ, {})
    except ToolError as error:
        refusal = error.message
    assert bool(faults) == bool(refusal)
    assert not refusal or any(problem.text.removesuffix(".") in refusal for problem in faults)
    assert all(problem.line for problem in faults)


@given(st.lists(_LINES.filter(lambda line: line not in ("]", "a =")), max_size=8))
def test_joined_statements_are_the_document(lines):
    text = "\n".join(lines)
    try:
        document = tomllib.loads(text)
    except ValueError:
        with pytest.raises(tomllib.TOMLDecodeError):
            list(_statements(text))
        return
    if any(line.startswith("[[") for line in lines):
        return  # arrays of tables are not settings

    together: dict[str, Any] = {}
    for statement in _statements(text):
        merge(together, statement.data)

    assert together == document


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and name in into:
            merge(into[name], value)
        else:
            into[name] = value


@pytest.mark.parametrize("words", [(), ("list",), ("show", "--toml"), ("check", "more")])
def test_a_usage_error_is_reported(command, words):
    done = command.run("config", *words)

    assert (done.returncode, done.stdout) == (2, b"")


# --- every surface ------------------------------------------------------------------------------------------------

REQUEST = {"tool": "read_file", "args": {"path": "a.txt"}, "id": 1}


def one_shot(command: Command) -> tuple[str, str]:
    (reply,) = command.ask(REQUEST)
    return reply["error_code"], reply["error"]


def session(command: Command) -> tuple[str, str]:
    done = command.run("stdio", input=json.dumps(REQUEST) + "\n")
    reply = json.loads(done.stdout)
    assert done.returncode == 1
    return reply["error_code"], reply["error"]


def by_hand(command: Command) -> tuple[str, str]:
    done = command.run("call", "read_file", "path=a.txt")
    assert (done.returncode, done.stdout) == (1, b"")
    code, _, message = done.stderr.decode().splitlines()[0].partition(": ")
    return code, message


def library(command: Command) -> tuple[str, str]:
    with pytest.raises(ToolError) as caught:
        Runtime(command.folder.path, environ=command.environ)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize("ask", [one_shot, session, by_hand, library])
@pytest.mark.parametrize("write", [personal, project])
@pytest.mark.parametrize(
    "text, reason", [("undo.call = 1\n", "did you mean undo.calls?"), ("undo.calls =\n", "line 1")]
)
def test_a_broken_file_refuses_calls_on_every_surface_and_says_why(command, ask, write, text, reason):
    command.folder.write("a.txt", "a\n")
    write(command, text)

    code, message = ask(command)

    assert code == "denied"
    assert "config.toml: " in message
    assert reason in message


# --- rules and hooks ----------------------------------------------------------------------------------------------


def test_broken_rules_and_hooks_are_reported_with_their_line(command):
    rules = os.path.join(os.path.dirname(personal(command, "")), "permissions.yaml")
    with open(rules, "w", encoding="utf-8") as file:
        file.write("allow:\n- Read\n- Bash(ls\n- kubectl_pods\n")
    theirs = command.folder.write(".hilt/permissions.yaml", "allow: [Write]\n")
    command.folder.write(".hilt/hooks.yaml", "hooks: []\n")
    with open(os.path.join(os.path.dirname(rules), "hooks.yaml"), "w", encoding="utf-8") as file:
        file.write("hooks:\n- {event: nonsense, command: 'true'}\n")

    listed = problems(command)
    printed = command.run("config", "check").stdout.decode()

    assert (rules, 3) in [(place, line) for place, line, _ in listed]
    assert any(place == theirs and "trusted" in text for place, _, text in listed)
    assert any(place.endswith("/hooks.yaml") and line == 2 and "nonsense" in text for place, line, text in listed)
    assert any(place == "hooks" and "not trusted" in text for place, _, text in listed)
    assert printed.endswith("Calls prompt until you fix this.\n")


# --- trust --------------------------------------------------------------------------------------------------------


def test_project_settings_loosen_only_when_their_content_is_trusted(command):
    text = 'mode = "auto-accept"\nworkspace.roots = ["/"]\ndisabledTools = ["undo"]\nshell.network = "full"\n'
    theirs = project(command, text)
    personal(command, 'disabledTools = ["memory"]\n')

    before = config_show(command)
    trust = Trust(command.state)
    trust.trust(file_at(theirs, "config"), text.encode())
    trust.close()
    after = config_show(command)
    project(command, text + "undo.calls = 3\n")
    changed = config_show(command)

    for values in (before, changed):
        assert (values["mode"]["value"], values["shell.network"]["value"]) == ("normal", "none")
    assert (after["mode"]["value"], after["shell.network"]["value"]) == ("auto-accept", "full")
    for values in (before, after, changed):
        assert values["disabledTools"]["value"] == ["memory", "undo"]
        assert values["workspace.roots"]["value"] == []


@pytest.mark.parametrize("inside", [False, True])
def test_the_lists_of_agents_config_json_apply_when_it_is_trusted(command, inside):
    lists = {"disabledTools": ["undo"], "alwaysAllow": ["Write"]}
    text = json.dumps({"nanocoder": lists} if inside else {**lists, "providers": []})
    path = command.folder.write("agents.config.json", text)
    personal(command, 'alwaysAllow = ["Read"]\n')

    before = config_show(command)
    trust = Trust(command.state)
    trust.trust(file_at(path, "config"), text.encode())
    trust.close()
    after = config_show(command)

    assert (before["disabledTools"]["value"], before["alwaysAllow"]["value"]) == ([], ["Read"])
    assert (after["disabledTools"]["value"], after["alwaysAllow"]["value"]) == (["undo"], ["Read", "Write"])
    assert after["disabledTools"]["source"] == "agents.config.json"


def test_an_untrusted_agents_config_json_may_contain_anything(command):
    command.folder.write("agents.config.json", "{nonsense")
    assert config_show(command)["disabledTools"]["value"] == []

    command.environ["HILT_TRUST"] = "all"
    done = command.run("config", "show")
    assert done.returncode == 1
    assert b"agents.config.json" in done.stderr
