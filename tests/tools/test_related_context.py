from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from typing import Any

import pytest

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.output import foreign_views
from hilt.runtime import Runtime
from hilt.testing import Folder, environment

RACE = """\
---
name: go-races
description: Find and fix data races between goroutines
tags: [go, concurrency]
---
# Data races

Run the tests with -race.
"""


@pytest.fixture
def home(base) -> Folder:
    return Folder(os.path.join(base, "home"))


@pytest.fixture
def config(base) -> Folder:
    return Folder(os.path.join(base, "config"))


def ask(runtime: Runtime, query: str, *, client: str | None = None, **args: Any) -> Result:
    result = runtime.request(Call("related_context", {"query": query, **args}, client=client))
    assert result.ok, result.error
    return result


def names(result: Result) -> list[str]:
    return [entry["name"] for entry in result.data["results"]]


def settle(*paths: str) -> None:
    """Give files and folders an old modification time."""
    for path in paths:
        os.utime(path, ns=(10**18, 10**18))


def test_one_word_finds_the_note_of_one_line_that_has_it(runtime, home):
    home.write(".claude/kb/doors/key.md", "---\ndescription: Doors\n---\n# Doors\n\nThe zebratoken opens it.\n")

    assert names(ask(runtime, "zebratoken")) == ["key"]
    assert names(ask(runtime, "zebratoken of the aquarium")) == []


# --- the example of seed 001, as printed ------------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_the_example_of_the_reference_returns_ranked_metadata_and_paths(home, workspace, environ):
    path = home.write(".claude/kb/go/races.md", RACE)
    home.write(".claude/kb/css/grid.md", "# CSS grid\n\nLay things out in two dimensions.\n")
    request = '{"tool":"related_context","args":{"query":"fix goroutine data race","types":["kb","skill"]}}'

    process = subprocess.run(
        [sys.executable, "-m", "hilt"], input=request, cwd=workspace.path, env=environ, capture_output=True, text=True
    )

    data = json.loads(json.loads(process.stdout)["result"])
    assert [(entry["type"], entry["name"], entry["path"]) for entry in data["results"]] == [("kb", "go-races", path)]
    assert data["results"][0]["title"] == "Data races"
    assert data["results"][0]["description"] == "Find and fix data races between goroutines"
    assert set(data["results"][0]["matched"]) == {"fix", "goroutine", "data", "race"}
    assert data["results"][0]["readable"] is False
    assert "Run the tests" not in process.stdout
    assert data["index"]["entry_count"] == 2
    assert data["index"]["client"] == "none"


# --- clients and places -----------------------------------------------------------------------------------------------


@pytest.fixture
def everywhere(home: Folder, config: Folder, workspace: Folder, base: str) -> None:
    """One entry about sharks in every known location."""
    for path, name in {
        ".claude/kb/shark-kb.md": "kb",
        ".claude/skills/shark-claude/SKILL.md": "claude skill",
        ".claude/agents/shark-agent.md": "claude agent",
        ".claude/commands/deep/shark-command.md": "claude command",
        ".codex/skills/shark-codex/SKILL.md": "codex skill",
        ".pi/agent/skills/shark-pi/SKILL.md": "pi skill",
        "plugin/skills/shark-plugin/SKILL.md": "plugin",
    }.items():
        home.write(path, f"# A shark of {name}\n")
    installed = {"version": 2, "plugins": {"fish@sea": [{"scope": "user", "installPath": home.join("plugin")}]}}
    home.write(".claude/plugins/installed_plugins.json", json.dumps(installed))
    config.write("skills/shark-personal/SKILL.md", "# A shark of mine\n")
    workspace.write(".hilt/skills/shark-project/SKILL.md", "# A shark of the project\n")


SHARED = {"shark-kb", "shark-personal", "shark-project"}
CLAUDE = {"shark-claude", "shark-agent", "shark-command", "shark-plugin"}


@pytest.mark.parametrize("folder", [".claude/skills", ".agents/skills", ".jcli/skills"])
def test_all_skills_that_can_be_loaded_are_found(runtime, workspace, home, folder):
    workspace.write(f"{folder}/shark-project/SKILL.md", "# A shark of the project\n")
    home.write(f"{folder}/shark-personal/SKILL.md", "# A shark of mine\n")

    results = ask(runtime, "shark", client="claude").data["results"]

    assert {entry["name"] for entry in results} == {"shark-project", "shark-personal"}
    assert all(entry["type"] == "skill" and entry["readable"] for entry in results)


@pytest.mark.parametrize(
    "declared,argument,expected",
    [
        (None, None, SHARED),
        ("claude", None, SHARED | CLAUDE),
        ("codex", None, SHARED | {"shark-codex"}),
        ("pi", None, SHARED | {"shark-pi"}),
        ("claude", "codex", SHARED | {"shark-codex"}),
        ("codex", "all", SHARED | CLAUDE | {"shark-codex", "shark-pi"}),
        ("cursor", None, SHARED),
    ],
)
@pytest.mark.usefixtures("everywhere")
def test_a_client_sees_the_shared_folders_and_its_own(runtime, declared, argument, expected):
    args = {"query": "shark", "client": argument, "limit": 20}

    result = runtime.request(Call("related_context", args, client=declared))

    assert set(names(result)) == expected
    warned = any("client" in warning for warning in result.data.get("warnings", ()))
    assert warned is (expected == SHARED)


@pytest.mark.usefixtures("everywhere")
def test_every_client_has_its_own_index_in_the_configuration_directory(runtime, config):
    for client in (None, "claude", "codex", "pi"):
        ask(runtime, "shark", client=client)

    indexes = {name for name in os.listdir(config.path) if name.endswith(".db")}
    assert indexes == {f"context-index-{client}.db" for client in ("none", "claude", "codex", "pi")}


@pytest.mark.usefixtures("everywhere")
def test_kinds_filter_the_results(runtime):
    for kind, expected in {"agent": ["shark-agent"], "command": ["shark-command"], "kb": ["shark-kb"]}.items():
        assert names(ask(runtime, "shark", client="claude", types=[kind], limit=20)) == expected


def test_a_project_entry_is_shown_by_its_path_and_can_be_read(runtime, workspace):
    workspace.write(".hilt/skills/deploy/SKILL.md", "---\nname: deploy\n---\n# Deploy the shop\n")

    entry = ask(runtime, "deploy").data["results"][0]

    assert (entry["path"], entry["readable"]) == (".hilt/skills/deploy/SKILL.md", True)
    assert runtime.call("read_file", path=entry["path"]).ok


def test_entries_of_another_workspace_are_not_returned(base, home):
    for name in ("one", "two"):
        Folder(f"{base}/{name}").write(f".hilt/skills/shark-{name}/SKILL.md", "# A shark\n")
    for name in ("one", "two", "one"):
        with Runtime(f"{base}/{name}", environ=environment(base)) as runtime:
            assert names(ask(runtime, "shark")) == [f"shark-{name}"]


def test_plugins_of_other_projects_and_paths_outside_a_plugin_are_skipped(runtime, home, workspace, base):
    home.write("mine/skills/shark-mine/SKILL.md", "# Shark\n")
    home.write("theirs/skills/shark-theirs/SKILL.md", "# Shark\n")
    home.write("elsewhere/shark-outside/SKILL.md", "# Shark\n")
    home.write("mine/extra/shark-extra/SKILL.md", "# Shark\n")
    home.write("mine/.claude-plugin/plugin.json", json.dumps({"skills": ["./extra", "../elsewhere", "/etc", 3]}))
    plugins = {
        "a": [{"scope": "project", "projectPath": workspace.path, "installPath": home.join("mine")}],
        "b": [{"scope": "project", "projectPath": f"{base}/other", "installPath": home.join("theirs")}],
        "c": {"installPath": "relative"},
        "d": ["text", {"installPath": 3}, {"installPath": "/nul\0"}],
        "e": None,
    }
    home.write(".claude/plugins/installed_plugins.json", json.dumps({"plugins": plugins}))

    assert set(names(ask(runtime, "shark", client="claude"))) == {"shark-mine", "shark-extra"}


# --- configured paths -------------------------------------------------------------------------------------------------


def open_runtime(base: str, **variables: str) -> Runtime:
    return Runtime(f"{base}/workspace", environ={**environment(base), **variables})


def test_paths_in_the_personal_settings_are_shared_by_all_clients(base, workspace, home, config):
    home.write("notes/shark.md", "# A shark\n")
    config.write("config.toml", '[related_context]\npaths = ["~/notes"]\n')
    with open_runtime(base) as runtime:
        for client in (None, "codex"):
            assert names(ask(runtime, "shark", client=client)) == ["shark"]


def test_the_variable_overrides_the_file_and_takes_several_paths(base, workspace, home, config):
    for name in ("one", "two", "three"):
        home.write(f"{name}/shark-{name}.md", "# A shark\n")
    config.write("config.toml", '[related_context]\npaths = ["~/three"]\n')
    with open_runtime(base, HILT_RELATED_CONTEXT_PATHS=f"{home.join('one')}:~/two") as runtime:
        assert set(names(ask(runtime, "shark"))) == {"shark-one", "shark-two"}


def test_a_project_cannot_configure_paths(base, workspace, home):
    home.write("private/shark.md", "# A shark\n")
    workspace.write(".hilt/config.toml", f'[related_context]\npaths = ["{home.join("private")}"]\n')
    with open_runtime(base) as runtime:
        assert ask(runtime, "shark").data["results"] == []


@pytest.mark.parametrize("variable", [None, "XDG_CONFIG_HOME", "JINN_CONFIG_DIR"])
def test_the_paths_of_jinn_are_the_default(base, workspace, home, config, variable):
    folder = ".config" if variable is None else "elsewhere"
    home.write("notes/shark-jinn.md", "# A shark\n")
    home.write("own/shark-own.md", "# A shark\n")
    home.write(f"{folder}/jinn/config.json", json.dumps({"related_context": {"paths": ["~/notes"]}}))
    variables = {} if variable is None else {variable: home.join(folder)}
    with open_runtime(base, **variables) as runtime:
        assert names(ask(runtime, "shark")) == ["shark-jinn"]
    config.write("config.toml", '[related_context]\npaths = ["~/own"]\n')
    with open_runtime(base, **variables) as runtime:
        assert names(ask(runtime, "shark")) == ["shark-own"]


@pytest.mark.parametrize(
    "contents", ["", "not json", "[]", '{"related_context": 1}', '{"related_context":{"paths":"x"}}']
)
def test_a_broken_jinn_config_is_reported_and_ignored(base, workspace, home, contents):
    home.write(".claude/kb/shark.md", "# A shark\n")
    home.write(".config/jinn/config.json", contents)
    with open_runtime(base) as runtime:
        result = ask(runtime, "shark", client="claude")
        assert names(result) == ["shark"]
        assert "jinn's config.json" in result.data["warnings"][0]


def test_unusable_paths_are_reported(base, workspace, home):
    home.write("file", "")
    home.write(".ssh/notes/shark.md", "# A shark\n")
    os.symlink(home.join(".ssh/notes"), home.join("innocent"))
    paths = "~/missing:~/file:~/.ssh/notes:~/innocent"
    with open_runtime(base, HILT_RELATED_CONTEXT_PATHS=paths) as runtime:
        data = ask(runtime, "shark", client="claude").data

    assert data["results"] == []
    assert data["warnings"] == [
        "skipped '~/missing' in related_context.paths: no such folder",
        "skipped '~/file' in related_context.paths: not a folder",
        "skipped '~/.ssh/notes' in related_context.paths: sensitive path",
        "skipped '~/innocent' in related_context.paths: sensitive path",
    ]


def test_nested_folders_list_each_entry_once(base, workspace, home):
    home.write("notes/deep/shark.md", "# A shark\n")
    with open_runtime(base, HILT_RELATED_CONTEXT_PATHS="~/notes:~/notes/deep:~/notes/") as runtime:
        assert names(ask(runtime, "shark")) == ["shark"]


# --- changes of files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False], ids=["one process", "a process per call"])
def test_the_index_follows_every_change_and_reads_only_changed_files(base, workspace, home, shared):
    runtimes: list[Runtime] = []

    def search(query: str) -> tuple[list[str], int]:
        if not runtimes or not shared:
            runtimes.append(open_runtime(base))
        result = ask(runtimes[-1], query)
        if not shared:
            runtimes[-1].close()
        return names(result), result.data["index"]["refreshed"]

    folder = ".claude/kb/sea"
    for name in ("a", "b", "c"):
        home.write(f"{folder}/{name}.md", f"# Notes on {name * 4}\n")
        settle(home.join(f"{folder}/{name}.md"))
    settle(home.join(folder), home.join(".claude/kb"))

    assert search("aaaa") == (["a"], 3)
    assert search("aaaa") == (["a"], 0)

    home.write(f"{folder}/a.md", "# Notes on sharks\n")
    os.utime(home.join(f"{folder}/a.md"), ns=(11**17, 11**17))
    assert search("sharks") == (["a"], 1)
    assert search("aaaa") == ([], 0)

    home.write(f"{folder}/d.md", "# Notes on whales\n")
    settle(home.join(f"{folder}/d.md"))
    assert search("whales") == (["d"], 1)

    os.unlink(home.join(f"{folder}/d.md"))
    assert search("whales") == ([], 0)

    shutil.rmtree(home.join(folder))
    assert search("sharks") == ([], 0)
    for runtime in runtimes:
        runtime.close()


@pytest.mark.parametrize("place", ["home/.claude/kb/note.md", "workspace/.hilt/skills/note.md"])
def test_a_change_of_the_same_size_right_after_a_search_is_detected(runtime, base, place):
    for text in ("shark", "whale", "squid", "otter"):
        Folder(base).write(place, f"# About {text}\n")

        assert names(ask(runtime, text)) == ["note"]


def test_a_skill_that_is_removed_and_added_again_is_found(runtime, home):
    home.write(".claude/skills/sea/notes.md", "# Shark parts\n")
    settle(home.join(".claude/skills/sea"), home.join(".claude/skills"))
    for _ in range(2):
        assert names(ask(runtime, "shark", client="claude")) == []
        home.write(".claude/skills/sea/SKILL.md", "# Shark skill\n")
        settle(home.join(".claude/skills"))
        for _ in range(2):
            assert names(ask(runtime, "shark", client="claude")) == ["sea"]
        os.unlink(home.join(".claude/skills/sea/SKILL.md"))
        settle(home.join(".claude/skills"))


def test_rebuild_recreates_the_index(runtime, home):
    home.write(".claude/kb/note.md", "# Shark\n")
    settle(home.join(".claude/kb/note.md"))
    assert ask(runtime, "shark").data["index"]["rebuilt"] is True
    assert ask(runtime, "shark").data["index"]["rebuilt"] is False

    result = ask(runtime, "shark", rebuild=True)

    assert (result.data["index"]["rebuilt"], names(result)) == (True, ["note"])


BUILD = """
import sys
from hilt import Runtime
from hilt.testing import environment
base = sys.argv[1]
with Runtime(base + "/workspace", environ=environment(base)) as runtime:
    sys.stdin.read()
    for _ in range(3):
        result = runtime.call("related_context", query="shark")
        assert result.ok, result.error.message
        assert len(result.data["results"]) == 5, result.data
"""


@pytest.mark.starts_processes
def test_processes_that_build_one_index_at_once_all_return_results(base, workspace, home):
    for number in range(300):
        home.write(f".claude/kb/{number}.md", f"# Shark number {number}\n")
    command = [sys.executable, "-c", BUILD, base]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    for process in running:
        _, errors = process.communicate("")
        assert process.returncode == 0, errors

    connection = sqlite3.connect(f"{base}/config/context-index-none.db")
    assert connection.execute("SELECT count(*) FROM entries").fetchone() == (300,)
    assert connection.execute("SELECT count(*) FROM texts").fetchone() == (300,)
    connection.close()


@pytest.mark.parametrize(
    "contents", [b"no database, but long enough to be looked at" * 30, b"SQLite format 3\0" + b"\1" * 9000]
)
def test_a_damaged_index_is_rebuilt(runtime, home, config, contents):
    home.write(".claude/kb/note.md", "# Shark\n")
    config.write("context-index-none.db", contents)

    assert names(ask(runtime, "shark")) == ["note"]


def test_an_unwritable_index_is_stored_in_the_state_directory(base, workspace, home, config):
    home.write(".claude/kb/note.md", "# Shark\n")
    # a folder in place of the index blocks it, even for root
    os.makedirs(config.join("context-index-none.db"))
    with open_runtime(base) as runtime:
        assert names(ask(runtime, "shark")) == ["note"]
    assert os.path.isfile(f"{base}/state/cache/context-index-none.db")


# --- ranking ----------------------------------------------------------------------------------------------------------


FAILURE = """\
WARNING: DATA RACE
Read at 0x00c0000b4010 by goroutine 8:
  main.main.func1()
      /app/main.go:14 +0x3c
"""


@pytest.fixture
def shelf(home: Folder) -> None:
    for name, text in {
        "go-races": RACE,
        "postgres": "---\ntags: [database, sql]\n---\n# Tune Postgres\n\nIndexes, vacuum and connection pools.\n",
        "docker": "# Smaller Docker images\n\nMulti-stage builds; the goroutine example has a data file.\n",
        "pytest": "# Fixtures in pytest\n\nUse conftest.py. FixtureLookupError means the name is unknown.\n",
        "hello": "# Style guide\n\nSay hello to readers, and thank you today. The weather is fine.\n",
    }.items():
        home.write(f".claude/kb/{name}.md", text)


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    "query,expected",
    [
        ("fix goroutine data race", "go-races"),
        (FAILURE, "go-races"),
        ("tuning the postgres database", "postgres"),
        ("E       fixture 'runtimes' not found\npytest: FixtureLookupError in conftest.py line 12", "pytest"),
        ("docker image size", "docker"),
        ("concurrency", "go-races"),
    ],
)  # fmt: skip
def test_the_intended_entry_comes_first(runtime, query, expected):
    assert names(ask(runtime, query))[0] == expected


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    "query",
    ["hello, how are you today?", "what is the weather like", "please help me with this", "???", "quantum physics",
     "write a poem about the sea and a data file for my grandmother's garden", "0x00c000 12345678", "the"],
)  # fmt: skip
def test_unrelated_words_find_nothing(runtime, query):
    assert names(ask(runtime, query)) == []


def test_scores_descend_between_one_and_the_threshold(runtime, home):
    for number in range(8):
        home.write(f".claude/kb/{number}.md", f"# {'shark ' * (number > 5)}notes\n\n{'whale ' * number} shark reef\n")

    scores = [entry["score"] for entry in ask(runtime, "shark reef whale", limit=20).data["results"]]

    assert scores == sorted(scores, reverse=True)
    assert all(0.3 <= score <= 1 for score in scores)


@pytest.mark.parametrize("limit,count", [(1, 1), (20, 20), (500, 20), (0, 1), (-3, 1)])
def test_the_limit_is_clamped(runtime, home, limit, count):
    for number in range(30):
        home.write(f".claude/kb/{number}.md", "# Shark\n")

    assert len(ask(runtime, "shark", limit=limit).data["results"]) == count


@pytest.mark.parametrize(
    "args",
    [{}, {"query": ""}, {"query": " \n"}, {"query": "x", "types": ["book"]}, {"query": "x", "client": "cursor"},
     {"query": "x", "types": "kb"}, {"query": 3}],
)  # fmt: skip
def test_invalid_arguments_are_rejected(runtime, args):
    result = runtime.call("related_context", **args)

    assert result.error.code == "invalid_args"
    assert result.error.suggestion


def test_a_query_of_a_megabyte_is_answered(runtime, home):
    home.write(".claude/kb/shark.md", "# Shark attack\n")

    assert ask(runtime, "shark attack\n" + "noise nr%d " * 100_000).ok
    assert names(ask(runtime, '"shark" AND (attack* OR NEAR( {title}:'))[0] == "shark"


def test_every_answer_has_a_valid_view(runtime, home):
    assert foreign_views.validate(ask(runtime, "shark").view)["type"] == "none"
    home.write(".claude/kb/shark.md", "# Shark\n")

    view = ask(runtime, "shark").view

    assert foreign_views.validate(view) == view
    assert view["type"] == "table"


# --- hostile input ----------------------------------------------------------------------------------------------------


def test_links_to_sensitive_files_and_to_other_files_are_not_followed(runtime, home):
    home.write(".ssh/id.md", "# shark key\n")
    home.write(".netrc", "# shark password\n")
    home.write("elsewhere/shark-linked.md", "# shark\n")
    home.write("skills/shark-skill/SKILL.md", "# shark\n")
    os.makedirs(home.join(".claude/kb"))
    os.makedirs(home.join(".claude/skills"))
    os.symlink(home.join(".ssh/id.md"), home.join(".claude/kb/one.md"))
    os.symlink(home.join(".ssh"), home.join(".claude/kb/two"))
    os.symlink(home.join(".netrc"), home.join(".claude/kb/three.md"))
    os.symlink(home.join("elsewhere/shark-linked.md"), home.join(".claude/kb/four.md"))
    os.symlink(home.join("skills/shark-skill"), home.join(".claude/skills/five"))

    result = ask(runtime, "shark", client="claude", limit=20)

    assert set(names(result)) == {"shark-linked", "shark-skill"}
    assert not any("password" in str(entry) for entry in result.data["results"])


def test_link_loops_pipes_and_dangling_links_are_skipped(runtime, home):
    home.write(".claude/kb/a/shark.md", "# Shark\n")
    os.symlink("..", home.join(".claude/kb/a/up"))
    os.symlink("../a", home.join(".claude/kb/a/self"))
    os.symlink("loop.md", home.join(".claude/kb/loop.md"))
    os.symlink("gone", home.join(".claude/kb/dangling.md"))
    os.mkfifo(home.join(".claude/kb/pipe.md"))
    os.mkdir(home.join(".claude/kb/folder.md"))
    os.makedirs(home.join(".claude/kb/skill"))
    os.mkfifo(home.join(".claude/kb/skill/SKILL.md"))

    assert names(ask(runtime, "shark")) == ["shark"]


def test_names_and_texts_of_any_bytes_are_returned_as_json(runtime, home):
    home.write('.claude/kb/new\nline "quoted".md', "no heading, only a shark\n")
    home.write(".claude/kb/binary.md", b"\0\1\2 shark")
    home.write(".claude/kb/latin.md", "# Shark caf\xe9\n".encode("latin-1"))
    home.write(".claude/kb/empty.md", "")
    folder = os.fsencode(home.join(".claude/kb"))
    with open(folder + b"/odd\xff shark.md", "wb") as file:
        file.write(b"---\nname: \x1b[31mred\n---\n# A shark\n")

    data = ask(runtime, "shark", limit=20).data

    assert json.loads(json.dumps(data, ensure_ascii=False).encode()) == data
    assert len(data["results"]) == 3
    assert not any("\x1b" in json.dumps(entry, ensure_ascii=False) for entry in data["results"])
    assert any(entry["path"].endswith("/odd\\xff shark.md") for entry in data["results"])


def test_entries_that_appear_and_vanish_during_the_walk_are_tolerated(runtime, home):
    for number in range(30):
        home.write(f".claude/kb/{number}/shark.md", "# Shark\n")
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(30):
                os.rename(home.join(f".claude/kb/{number}"), home.join(f".claude/kb/x{number}"))
                os.rename(home.join(f".claude/kb/x{number}"), home.join(f".claude/kb/{number}"))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(15):
            ask(runtime, "shark")
    finally:
        stop.set()
        thread.join()

    assert len(ask(runtime, "shark", limit=20).data["results"]) == 20


def test_a_cancelled_call_leaves_an_index_that_works(runtime, home):
    for number in range(600):
        home.write(f".claude/kb/{number}.md", "# Shark\n")
    answers: list[Result] = []
    ended = threading.Event()

    def done(result: Result) -> None:
        answers.append(result)
        ended.set()

    running = runtime.submit(Call("related_context", {"query": "shark"}), done)
    running.cancel()
    assert ended.wait(60)

    assert answers[0].ok or (isinstance(answers[0].error, ToolError) and answers[0].error.code == "cancelled")
    result = ask(runtime, "shark", limit=20)
    assert (len(result.data["results"]), result.data["index"]["entry_count"]) == (20, 600)


def test_only_the_folders_of_hilt_are_written(runtime, home, workspace):
    home.write(".claude/kb/shark.md", "# Shark\n")
    workspace.write(".hilt/skills/shark/SKILL.md", "# Shark\n")
    before = home.tree(), workspace.tree()

    ask(runtime, "shark", client="claude", rebuild=True)

    assert (home.tree(), workspace.tree()) == before
