from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from hilt.desk.mcp_hosts import HOSTS
from hilt.places import own_command
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.testing import Folder
from tests.surfaces.commands import HILT, Command
from tests.surfaces.terminals import Screen

PERSON = pytest.mark.skipif(hilt_above(os.getpid()) is not None, reason="the tests themselves are below hilt")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="applications keep their settings elsewhere")

# the file of an entry, and whether it names a working folder
PROJECT = {
    "claude": (".mcp.json", None),
    "codex": (".codex/config.toml", None),
    "cursor": (".cursor/mcp.json", "${workspaceFolder}"),
    "gemini": (".gemini/settings.json", None),
    "kiro": (".kiro/settings/mcp.json", "the workspace"),
    "opencode": ("opencode.json", None),
    "qwen": (".qwen/settings.json", None),
    "vscode": (".vscode/mcp.json", "${workspaceFolder}"),
}
USER = {
    "claude": (".claude.json", None),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "the workspace"),
    "codex": (".codex/config.toml", None),
    "copilot": (".copilot/mcp-config.json", None),
    "cursor": (".cursor/mcp.json", "the workspace"),
    "gemini": (".gemini/settings.json", None),
    "kiro": (".kiro/settings/mcp.json", "the workspace"),
    "lmstudio": (".lmstudio/mcp.json", "the workspace"),
    "opencode": (".config/opencode/opencode.json", None),
    "qwen": (".qwen/settings.json", None),
    "vscode": (".config/Code/User/mcp.json", "the workspace"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "the workspace"),
    "zed": (".config/zed/settings.json", "the workspace"),
}
KEYS = {"codex": "mcp_servers", "opencode": "mcp", "vscode": "servers", "zed": "context_servers"}


@pytest.fixture
def home(command) -> Folder:
    return Folder(command.environ["HOME"])


def install(command: Command, *words: str) -> str:
    done = command.run("mcp", "install", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def entry_of(text: str, host: str) -> dict[str, Any]:
    document = tomllib.loads(text) if host == "codex" else json.loads(text)
    entry: dict[str, Any] = document[KEYS.get(host, "mcpServers")]["hilt"]
    return entry


def words_of(entry: dict[str, Any]) -> list[str]:
    """Return the command line of an entry."""
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


# --- every host ------------------------------------------------------------------------------------------------


def test_every_supported_host_is_tested():
    assert {name for name, host in HOSTS.items() if host.project} == PROJECT.keys()
    assert {name for name, host in HOSTS.items() if host.user(os.environ)} == USER.keys()


@LINUX
@PERSON
@pytest.mark.parametrize("scope, host", [("project", host) for host in PROJECT] + [("user", host) for host in USER])
def test_an_installed_entry_starts_this_hilt_in_the_right_folder(command, home, scope, host):
    path, folder = (PROJECT if scope == "project" else USER)[host]
    place = command.folder if scope == "project" else home

    output = install(command, host, f"--{scope}", "--yes")

    words = words_of(entry_of(place.read(path), host))
    expected_folder = command.folder.path if folder == "the workspace" else folder
    assert words == [
        "hilt" if scope == "project" else HILT,
        "mcp",
        *(["--workspace", expected_folder] if expected_folder else []),
    ]
    assert f"{place.join(path)} (new)\n" in output
    assert stat.S_IMODE(os.stat(place.join(path)).st_mode) == (0o600 if scope == "user" else 0o644)
    assert "already has this entry" in install(command, host, f"--{scope}", "--yes")
    done = command.run("mcp", "uninstall", host, f"--{scope}", "--yes")
    assert done.returncode == 0
    assert "hilt" not in place.read(path)
    assert b"has no such entry" in command.run("mcp", "uninstall", host, f"--{scope}", "--yes").stdout


@PERSON
def test_codex_leaves_approvals_to_hilt_unless_asked_to_approve_too(command, home):
    output = install(command, "codex", "--yes")

    entry = entry_of(home.read(".codex/config.toml"), "codex")
    assert (entry["default_tools_approval_mode"], entry["required"]) == ("approve", True)
    assert "Codex itself does not prompt" in output

    output = install(command, "codex", "--yes", "--ask-twice")

    assert entry_of(home.read(".codex/config.toml"), "codex") == {"command": HILT, "args": ["mcp"]}
    assert "does not prompt" not in output


@PERSON
@pytest.mark.parametrize("host", HOSTS)
def test_the_remaining_steps_are_printed_at_the_end(command, host):
    output = install(command, host, "--yes", "--name", "mine").splitlines()

    assert output[-1].startswith("Next: ")
    assert "NAME" not in output[-1]
    assert host != "claude" or output[-1].endswith("--allowedTools mcp__mine")


def test_the_hosts_are_listed_with_their_files(command, home):
    text = install(command)

    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == list(HOSTS)
    assert ["--user", home.join(".claude.json")] in [line.split() for line in text.splitlines()]


def test_the_entry_is_only_printed_when_requested(command, home):
    text = install(command, "claude", "--print")

    path, _, rest = text.partition("\n\n")
    assert path == command.folder.join(".mcp.json")
    assert entry_of(rest, "claude") == {"type": "stdio", "command": "hilt", "args": ["mcp"]}
    assert command.folder.tree() == {}
    assert not os.path.exists(home.path)


@PERSON
def test_server_options_are_in_the_entry(command):
    more = ("--profile", "minimal", "--tools", "read_file,Write", "--search", "--lean", "--tools-dir", "mine")

    install(command, "claude", "--yes", "--name", "second", *more)

    document = json.loads(command.folder.read(".mcp.json"))
    assert document["mcpServers"]["second"]["args"] == [
        *("mcp", "--profile", "minimal", "--tools", "read_file,Write"),
        *("--tools-dir", command.folder.join("mine"), "--search", "--lean"),
    ]


@PERSON
def test_a_workspace_can_be_set_for_hosts_that_start_servers_in_the_project(command, home):
    install(command, "claude", "--user", "--yes", "--workspace", command.folder.path)

    assert words_of(entry_of(home.read(".claude.json"), "claude"))[2:] == ["--workspace", command.folder.path]


def test_the_command_is_found_even_when_it_was_not_started_by_name(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c"])

    assert own_command() == [HILT]


@pytest.mark.parametrize(
    "words, reason",
    [
        (("cluade",), "did you mean claude"),
        (("claude", "codex"), "unexpected argument 'codex'"),
        (("claude", "--scope", "user"), "unknown option '--scope'"),
        (("claude", "--project", "--user"), "--user cannot be used with --project"),
        (("zed", "--project"), "has no project settings file"),
        (("claude", "--ask-twice"), "omit --ask-twice"),
        (("claude", "--name", "a b"), "--name takes"),
    ],
)
def test_a_usage_error_is_reported(command, words, reason):
    done = command.run("mcp", "install", *words)

    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr.decode()
    assert command.folder.tree() == {}


# --- existing files -----------------------------------------------------------------------------------------------

ZED = """\
// my settings
{
  "theme": "One Dark", // dark
  "context_servers": {
    "other": { "command": "x" },
  },
}
"""


@LINUX
@PERSON
def test_the_rest_of_a_file_with_comments_is_unchanged(command, home):
    home.write(".config/zed/settings.json", ZED)
    os.chmod(home.join(".config/zed/settings.json"), 0o640)

    output = install(command, "zed", "--yes")

    written = home.read(".config/zed/settings.json")
    at = written.index('    "hilt": {')
    end = written.index("    },\n", at) + len("    },\n")
    assert written[:at] + written[end:] == ZED
    assert stat.S_IMODE(os.stat(home.join(".config/zed/settings.json")).st_mode) == 0o640
    assert '+    "hilt": {\n' in output
    assert '     "other": { "command": "x" },\n' in output
    assert os.listdir(home.join(".config/zed")) == ["settings.json"]
    assert command.run("mcp", "uninstall", "zed", "--yes").returncode == 0
    assert home.read(".config/zed/settings.json") == ZED


@PERSON
def test_comments_of_a_toml_file_stay(command, home):
    before = '# mine\nmodel = "m" # best\n\n[tui]\n# quiet\nx = 1\n'
    home.write(".codex/config.toml", before)

    install(command, "codex", "--yes")

    assert home.read(".codex/config.toml").startswith(before)
    assert tomllib.loads(home.read(".codex/config.toml"))["mcp_servers"]["hilt"]["args"] == ["mcp"]
    command.run("mcp", "uninstall", "codex", "--yes")
    assert home.read(".codex/config.toml") == before


@PERSON
def test_an_older_entry_is_shown_before_it_is_replaced(command):
    command.folder.write(".mcp.json", '{"mcpServers": {\n  "hilt": {"command": "old"}\n}}\n')

    output = install(command, "claude", "--yes")

    assert '-  "hilt": {"command": "old"}\n' in output
    assert entry_of(command.folder.read(".mcp.json"), "claude")["command"] == "hilt"


@PERSON
def test_a_byte_order_mark_and_line_endings_are_kept(command):
    command.folder.write(".mcp.json", b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n')

    install(command, "claude", "--yes")

    data = command.folder.bytes(".mcp.json")
    assert data.startswith(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n  "mcpServers"')
    assert data.count(b"\n") == data.count(b"\r\n")


@pytest.mark.parametrize("verb", ["install", "uninstall"])
@pytest.mark.parametrize(
    "host, link, target",
    [
        ("claude", ".mcp.json", ".claude.json"),
        ("gemini", ".gemini/settings.json", ".gemini/settings.json"),
        ("gemini", ".gemini", ".gemini"),
        ("vscode", ".vscode", "missing"),
    ],
)
def test_a_link_of_a_project_is_not_followed(command, home, verb, host, link, target):
    home.write(".claude.json", '{"mcpServers": {"hilt": {"command": "hilt"}}}')
    home.write(".gemini/settings.json", '{"mcpServers": {"hilt": {"command": "hilt"}}}')
    before = home.tree()
    os.makedirs(os.path.dirname(command.folder.join(link)), exist_ok=True)
    os.symlink(home.join(target), command.folder.join(link))

    done = command.run("mcp", verb, host, "--project", "--yes")

    assert done.returncode == 1
    assert f"{command.folder.join(link)} is a symbolic link" in done.stderr.decode()
    assert home.tree() == before


@PERSON
def test_a_link_is_followed_and_stays(command, home):
    home.write("dotfiles/claude.json", "{}")
    os.symlink("dotfiles/claude.json", home.join(".claude.json"))

    output = install(command, "claude", "--user", "--yes")

    assert f"{home.join('.claude.json')} -> {home.join('dotfiles/claude.json')}\n" in output
    assert os.readlink(home.join(".claude.json")) == "dotfiles/claude.json"
    assert "hilt" in home.read("dotfiles/claude.json")


@PERSON
@pytest.mark.parametrize("name", ["opencode.json", "opencode.jsonc"])
@pytest.mark.parametrize("before", ['{"mcp": {"servers": {"a": {}}}}', '{"mcp": {"a": {}}}'])
def test_the_existing_file_and_format_are_used(command, name, before):
    command.folder.write(name, before)

    install(command, "opencode", "--yes")

    document = json.loads(command.folder.read(name))["mcp"]
    assert "hilt" in document.get("servers", document)
    assert ("hilt" in document) == ("servers" not in document)
    assert command.folder.tree().keys() == {name}


@PERSON
@pytest.mark.parametrize(
    "data", [b"not json", b"[]", b'{"mcpServers": []}', b'{"mcpServers": {}, "mcpServers": {}}', b"\xff\xfe{\x00}\x00"]
)
def test_a_file_that_cannot_be_edited_is_unchanged_and_the_entry_is_printed(command, data):
    command.folder.write(".mcp.json", data)

    done = command.run("mcp", "install", "claude", "--yes")

    assert done.returncode == 1
    assert b"cannot be edited" in done.stderr
    assert b'"command": "hilt"' in done.stderr
    assert command.folder.bytes(".mcp.json") == data


@PERSON
def test_a_special_file_is_refused(command):
    os.makedirs(command.folder.join(".mcp.json"))
    assert b"not_a_file" in command.run("mcp", "install", "claude", "--yes").stderr
    os.makedirs(command.folder.join(".cursor"))
    os.mkfifo(command.folder.join(".cursor/mcp.json"))
    assert b"not_a_file" in command.run("mcp", "install", "cursor", "--yes").stderr
    command.folder.write(".gemini", "a file")
    assert b"not_a_file" in command.run("mcp", "install", "gemini", "--yes").stderr


@PERSON
def test_a_read_only_file_is_unchanged(command):
    command.folder.write(".mcp.json", "{}\n")
    os.chmod(command.folder.join(".mcp.json"), 0o444)

    done = command.run("mcp", "install", "claude", "--yes")

    assert (done.returncode, b"read-only" in done.stderr) == (1, True)
    assert command.folder.read(".mcp.json") == "{}\n"
    assert os.listdir(command.folder.path) == [".mcp.json"]


@PERSON
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_reported(command):
    os.makedirs(command.folder.join(".cursor"), mode=0o500)

    done = command.run("mcp", "install", "cursor", "--yes")

    assert (done.returncode, b"permission_denied" in done.stderr) == (1, True)


# --- the host's own tools -----------------------------------------------------------------------------------------

OWN_TOOLS = {name: host.own_tools for name, host in HOSTS.items() if host.own_tools is not None}


def setting_of(command: Command, host: str) -> Any:
    own = OWN_TOOLS[host]
    value: Any = json.loads(command.folder.read(own.file or PROJECT[host][0]))
    for key in own.keys:
        value = value.get(key, {})
    return value


@pytest.mark.parametrize("host", OWN_TOOLS)
def test_only_hilt_turns_off_the_hosts_own_tools_and_uninstall_turns_them_on_again(command, host):
    install(command, host, "--only-hilt", "--yes")
    setting = setting_of(command, host)
    assert set(setting) == set(OWN_TOOLS[host].off)
    assert "hilt" in command.folder.read(PROJECT[host][0])

    assert command.run("mcp", "uninstall", host, "--yes").returncode == 0
    assert setting_of(command, host) == {}


@pytest.mark.parametrize("host", ["claude", "gemini"])
def test_tools_that_the_user_turned_off_stay_off(command, host):
    own = OWN_TOOLS[host]
    file = own.file or PROJECT[host][0]
    before = json.dumps({"theme": "dark", own.keys[0]: {own.keys[1]: ["WebSearch", next(iter(own.off))]}}, indent=2)
    command.folder.write(file, before)

    install(command, host, "--only-hilt", "--yes")
    assert setting_of(command, host) == ["WebSearch", *own.off]
    assert command.run("mcp", "uninstall", host, "--yes").returncode == 0

    assert setting_of(command, host) == ["WebSearch"]
    assert json.loads(command.folder.read(file))["theme"] == "dark"


def test_uninstall_keeps_settings_that_only_hilt_did_not_write(command):
    text = '{"permissions": {"deny": ["Bash"]}}'
    command.folder.write(".claude/settings.json", text)
    install(command, "claude", "--yes")
    assert command.run("mcp", "uninstall", "claude", "--yes").returncode == 0
    assert command.folder.read(".claude/settings.json") == text


def test_a_host_that_cannot_turn_its_tools_off_is_named_with_those_that_can(command):
    done = command.run("mcp", "install", "codex", "--only-hilt")
    assert done.returncode == 2
    assert b"claude, gemini, opencode, qwen" in done.stderr
    assert command.folder.tree() == {}


@pytest.mark.parametrize("text", ['{"permissions": {"deny": "Bash"}}', "{", "[]"])
def test_a_setting_of_another_type_is_not_changed(command, text):
    command.folder.write(".claude/settings.json", text)
    done = command.run("mcp", "install", "claude", "--only-hilt", "--yes")
    assert done.returncode == 1
    assert b"cannot be edited" in done.stderr
    assert command.folder.tree() == {".claude/": None, ".claude/settings.json": text}


# --- the user -----------------------------------------------------------------------------------------------------


def at_terminal(command: Command, *words: str) -> Screen:
    return Screen([HILT, "mcp", *words], env={**command.environ, "TERM": "dumb"}, cwd=command.folder.path, columns=200)


@PERSON
def test_the_user_sees_the_change_and_confirms(command):
    with at_terminal(command, "install", "claude") as screen:
        preview = screen.expect("Write this? [y/n] > ")
        assert not os.path.exists(command.folder.join(".mcp.json"))
        screen.type("y\n")
        status, rest = screen.end()

    assert '| +    "hilt": {' in preview
    assert (status, "Installed." in rest) == (0, True)
    assert "hilt" in command.folder.read(".mcp.json")


@PERSON
@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", "maybe\n"])
def test_any_other_answer_writes_nothing(command, answer):
    with at_terminal(command, "install", "claude") as screen:
        screen.expect("Write this? [y/n] > ")
        screen.type(answer)
        status, rest = screen.end()

    assert (status, "Nothing was written." in rest) == (1, True)
    assert command.folder.tree() == {}


@PERSON
def test_a_change_made_meanwhile_is_not_lost(command):
    command.folder.write(".mcp.json", "{}")
    with at_terminal(command, "install", "claude") as screen:
        screen.expect("Write this? [y/n] > ")
        command.folder.write(".mcp.json", '{"mcpServers": {"theirs": {}}}')
        screen.type("y\n")
        status, rest = screen.end()

    assert (status, "stale_file" in rest) == (1, True)
    assert command.folder.tree() == {".mcp.json": '{"mcpServers": {"theirs": {}}}'}


@PERSON
def test_without_a_terminal_nothing_is_written(command):
    done = command.run("mcp", "install", "claude")

    assert (done.returncode, b"a person at a terminal" in done.stderr) == (1, True)
    assert command.folder.tree() == {}


@PERSON
def test_control_sequences_are_shown_and_not_executed(command):
    command.folder.write(".mcp.json", '{"mcpServers": {\n  "\x1b[2J\u202e": {}\n}}'.replace("\x1b", "\\u001b"))
    command.folder.write(".cursor/mcp.json", '{\n  // \x1b[2J\u202e\n  "mcpServers": {}\n}')

    for host in ("claude", "cursor"):
        output = install(command, host, "--yes")
        assert "\x1b" not in output
        assert "\u202e" not in output


@LINUX
def test_a_tool_cannot_install_anything(command):
    above = f"exec -a hilt sh -c '{HILT} mcp install claude --yes; exit $?'"

    done = subprocess.run(
        ["bash", "-c", above], cwd=command.folder.path, env=command.environ, capture_output=True, timeout=60
    )

    assert (done.returncode, b"denied" in done.stderr) == (1, True)
    assert not os.path.exists(command.folder.join(".mcp.json"))


# --- hilt serve -----------------------------------------------------------------------------------------------------

TOKEN = "agents-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
URL = "http://127.0.0.1:7654/mcp"
REMOTE = {
    "claude": {"type": "http", "url": URL, "headers": BEARER},
    "codex": {"url": URL, "http_headers": BEARER, "default_tools_approval_mode": "approve", "required": True},
    "copilot": {"type": "http", "url": URL, "headers": BEARER, "tools": ["*"]},
    "cursor": {"url": URL, "headers": BEARER},
    "gemini": {"httpUrl": URL, "headers": BEARER},
    "kiro": {"url": URL, "headers": BEARER},
    "lmstudio": {"url": URL, "headers": BEARER},
    "opencode": {"type": "remote", "url": URL, "headers": BEARER, "enabled": True},
    "qwen": {"httpUrl": URL, "headers": BEARER},
    "vscode": {"type": "http", "url": URL, "headers": BEARER},
    "windsurf": {"serverUrl": URL, "headers": BEARER},
    "zed": {"url": URL, "headers": BEARER},
}


def test_every_host_that_connects_to_a_url_is_tested():
    assert {name for name, host in HOSTS.items() if host.remote is not None} == REMOTE.keys()


@LINUX
@PERSON
@pytest.mark.parametrize("host", REMOTE)
def test_an_entry_for_hilt_serve_has_its_address_and_the_token_of_agents(command, home, host):
    command.environ["HILT_AGENT_TOKEN"] = TOKEN
    output = install(command, host, "--http", "--yes")
    path = home.join(USER[host][0])

    assert entry_of(home.read(USER[host][0]), host) == REMOTE[host]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "hilt serve must be running" in output
    assert TOKEN not in "".join(command.folder.tree().values())
    assert command.run("mcp", "uninstall", host, "--user", "--yes").returncode == 0
    assert TOKEN not in home.read(USER[host][0])


@LINUX
@PERSON
def test_an_entry_for_hilt_serve_names_the_chosen_workspace_and_address(command, home):
    address = "https://hilt.example:8443"
    install(command, "cursor", "--http", address, "--yes", "--workspace", command.folder.path)

    entry = entry_of(home.read(".cursor/mcp.json"), "cursor")

    assert entry["url"] == f"{address}/mcp?workspace={command.folder.path}"
    with open(os.path.join(command.state, "serve-agent-token"), encoding="ascii") as file:
        assert entry["headers"]["Authorization"] == f"Bearer {file.read().strip()}"


@LINUX
@PERSON
def test_a_file_that_others_can_read_is_reported(command, home):
    os.chmod(home.write(".cursor/mcp.json", "{}"), 0o644)

    assert "chmod 600" in install(command, "cursor", "--http", "--yes")


@PERSON
@pytest.mark.parametrize(
    "words, problem",
    [
        (["claude-desktop", "--http"], b"Claude Desktop does not support"),
        (["claude", "--http", "--project"], b"omit --project"),
        (["claude", "--http", "--lean"], b"--lean is an option of hilt serve"),
        (["claude", "--http", "ftp://x"], b"takes the address of hilt serve"),
    ],
)
def test_options_that_an_entry_for_hilt_serve_cannot_express_are_rejected(command, words, problem):
    done = command.run("mcp", "install", *words, "--print")

    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


@PERSON
def test_hilt_ignores_its_own_entry(command):
    install(command, "claude", "--yes")

    servers = command.run("mcp", "list").stdout.decode()
    tools = command.run("tools").stdout.decode()

    assert "No MCP server is configured" in servers
    assert "mcp__" not in tools
