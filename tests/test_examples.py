"""The gallery in examples/tools: every tool is checked, and run through the runtime and by one-shot calls.

Programs that may be missing are replaced by a script that prints its arguments, so that each argument can be compared.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hilt.call import UserAnswer
from hilt.runtime import Runtime
from hilt.testing import environment
from tests.databases import connected
from tests.programs import PATH, program

pytestmark = pytest.mark.starts_processes

EXAMPLES = Path(__file__).resolve().parent.parent / "examples/tools"
TOOLS = {
    *("clean-folder", "csv-table", "gh_issues", "http_get", "jq_query", "k8s_pods", "slugs", "sqlite-query"),
    *("todo_comments", "video_clip", "word-count"),
}
STAND_INS = ("kubectl", "gh", "jq", "curl", "ffmpeg")
HOSTILE = [
    "plain",
    "two words",
    "; touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "' touch hacked '",
    '" $(touch hacked) "',
    "\\' \\\" \\\\",
    "a\nb\n; touch hacked\n",
    "--output=hacked",
    "-n",
    "--",
    "*",
    "~",
    "!!",
    "$HOME ${HOME} $_hilt_0",
    "${HOME:-$(touch hacked)}",
    "{{ namespace }} {{# pod }}",
    "\\",
    "'",
    '"',
    "日本 👩\u200d💻 \x1b[2J\u202e",
    "x" * 10_000,
]


class Desk:
    """A workspace with stand-in programs, a runtime with the gallery, and a user who answers prompts."""

    def __init__(self, base: Path) -> None:
        self.workspace = base / "workspace"
        self.workspace.mkdir()
        # a sandbox hides the other folders of a test
        self.programs = base / "home/.local/bin"
        self.programs.mkdir(parents=True)
        for name in STAND_INS:
            self.stand_in(name)
        self.stand_in("jq", "print(json.dumps([sys.argv[1:], sys.stdin.read()]))")
        path = os.pathsep.join([str(self.programs), PATH])
        self.environ = {**environment(str(base)), "PATH": path, "HILT_TOOLS_DIR": str(EXAMPLES)}
        self.prompts: list[Any] = []
        self.answer = "deny"

    def stand_in(self, name: str, line: str = "print(json.dumps(sys.argv[1:]))") -> None:
        """Write a program that prints its arguments, or does something else."""
        path = self.programs / name
        path.write_text(f"#!{sys.executable} -I\nimport json, os, sys\n{line}\n")
        path.chmod(0o755)

    def use_real(self, name: str) -> None:
        """Use the installed program; the setup does not install it, so the test is skipped without it."""
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        self.programs.joinpath(name).unlink()

    def ask(self, prompt: Any) -> UserAnswer:
        """Give the answer that the test has set."""
        self.prompts.append(prompt)
        return UserAnswer(self.answer, "", "test")

    def write(self, name: str, text: str) -> None:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def one_shot(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `hilt` as a person does."""
        command = [os.path.join(os.path.dirname(sys.executable), "hilt"), *words]
        env = {**self.environ, **variables}
        return subprocess.run(
            command, cwd=self.workspace, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def runtime(desk: Desk) -> Iterator[Runtime]:
    with Runtime(str(desk.workspace), environ=desk.environ, asker=desk.ask) as example_runtime:
        yield example_runtime


def answered(result: Any) -> Any:
    """Return the result of a tool, with JSON text decoded."""
    assert result.error is None, result.error.message
    return json.loads(result.text) if result.data is None else result.data


@contextmanager
def serving() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Serve a greeting on loopback; yield the address, and the requested paths and test headers."""
    seen: list[tuple[str, str | None]] = []

    class Greeting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["X-Test"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Greeting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


def harmless(desk: Desk) -> bool:
    return not list(desk.workspace.rglob("hacked*"))


def test_every_example_is_valid_and_its_own_examples_pass(desk):
    program("bun")
    program("node")

    done = desk.one_shot("tools", "check")

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {line.partition(":")[0] for line in lines if ": OK" in line} == TOOLS
    assert "sqlite-query: OK, 1 example passed" in lines


def test_the_gallery_in_the_guide_lists_every_example():
    guide = (EXAMPLES.parent.parent / "docs/guides/custom-tools.md").read_text(encoding="utf-8")

    for name in TOOLS:
        assert f"| `{name}` |" in guide


def test_a_pod_selector_stays_one_word_whatever_it_contains(desk, runtime):
    for value in HOSTILE:
        words = answered(runtime.call("k8s_pods", namespace="default", selector=value))

        assert words == ["get", "pods", "--namespace=default", f"--selector={value}"]
        assert harmless(desk)


def test_sections_choose_between_pods_and_logs(runtime):
    assert answered(runtime.call("k8s_pods", namespace="a")) == ["get", "pods", "--namespace=a"]
    words = answered(runtime.call("k8s_pods", namespace="a", pod="api-1", selector="app=x"))
    assert words == ["logs", "--namespace=a", "--tail=50", "--", "api-1"]


def test_all_invalid_arguments_are_reported(runtime):
    error = runtime.call("k8s_pods", namespace="--all", lines=0).error

    assert error.code == "invalid_args"
    assert error.message.startswith("⚒ namespace must match the pattern")
    assert "lines must be at least 1, not 0" in error.message


def test_labels_and_search_words_reach_gh_unchanged(desk, runtime):
    for value in HOSTILE:
        words = answered(runtime.call("gh_issues", repository="o/r", labels=["bug", value], search=value, limit=3))

        assert words == [
            *("issue", "list", "--repo=o/r", "--state=open", "--limit=3", "--label=bug", f"--label={value}"),
            *(f"--search={value}", "--json=number,title,state,labels,url"),
        ]
        assert harmless(desk)


def test_filter_and_file_reach_jq_unchanged(desk, runtime):
    for value in HOSTILE:
        name = value.replace("/", "|")[:60]
        desk.write(name, "{}")

        words = answered(runtime.call("jq_query", file=name, filter=value, raw=True))

        assert words == [["--raw-output", f" {value}"], "{}"]
        assert harmless(desk)


def test_the_real_jq_extracts_values_from_a_file(desk):
    desk.use_real("jq")
    desk.write("-n", '{"a": [{"b": "x"}, {"b": "-y"}]}')

    with Runtime(str(desk.workspace), environ=desk.environ) as runtime:
        assert runtime.call("jq_query", file="-n", filter=".a[].b", raw=True).text == "x\n-y\n"
        assert runtime.call("jq_query", file="-n", filter="-(.a | length)").text == "-2\n"
        refused = runtime.call("jq_query", file="-n", filter="--null-input").error

    assert refused is not None
    assert refused.code == "tool_failed"


def test_jq_sees_no_user_variables_and_writes_nothing(desk):
    desk.write("a", "{}")
    desk.stand_in("jq", "print(json.dumps(sorted(os.environ)))\ntry: open('made', 'w')\nexcept OSError: pass")
    desk.environ["GITHUB_TOKEN"] = "secret"

    with Runtime(str(desk.workspace), environ=desk.environ) as runtime:
        names = answered(runtime.call("jq_query", file="a", filter="."))

    assert "PATH" in names
    assert "GITHUB_TOKEN" not in names
    assert not (desk.workspace / "made").exists()


CURL = ["--silent", "--show-error", "--fail", "--globoff", "--location", "--max-redirs", "5", "--proto", "=http,https"]


def test_url_and_headers_reach_curl_unchanged(desk, runtime):
    for value in HOSTILE:
        desk.answer = "once"
        address = "https://example.com/?q=" + "".join(value.split())[:1000]

        words = answered(runtime.call("http_get", url=address, headers=[value], seconds=2.5))

        assert words == [*CURL, "--max-time", "2.5", "--header", value, "--url", address]
        assert harmless(desk)


def test_a_header_is_never_read_from_a_file(desk, runtime):
    desk.answer = "once"

    error = runtime.call("http_get", url="https://example.com", headers=["A: b", "@/etc/passwd"]).error

    assert (error.code, error.details["stdout"]) == ("tool_failed", "")
    assert "must not begin with @" in error.message


def test_the_real_curl_fetches_a_url(desk):
    desk.use_real("curl")
    desk.answer = "once"
    with serving() as (address, seen), Runtime(str(desk.workspace), environ=desk.environ, asker=desk.ask) as runtime:
        result = runtime.call("http_get", url=f"{address}/[1-3]", headers=["X-Test: ; touch hacked"])

    assert result.error is None, result.error
    assert result.text == "hello\n"
    assert seen == [("/[1-3]", "; touch hacked")]
    assert harmless(desk)


def test_the_users_token_appears_in_no_argument(desk):
    desk.environ["HTTP_GET_TOKEN"] = "secret"
    desk.answer = "once"
    desk.stand_in("curl", "print(json.dumps([sys.argv[1:], open(sys.argv[sys.argv.index('--config') + 1]).read()]))")

    with Runtime(str(desk.workspace), environ=desk.environ, asker=desk.ask) as runtime:
        words, settings = answered(runtime.call("http_get", url="https://example.com"))

    assert "secret" not in " ".join(words)
    assert settings == 'header = "Authorization: Bearer secret"\n'


def test_network_access_asks_and_a_denial_runs_nothing(desk, runtime):
    error = runtime.call("http_get", url="https://example.com").error

    assert error.code == "USER_REJECTION"
    assert len(desk.prompts) == 1


def test_video_names_reach_ffmpeg_unchanged(desk):
    with Runtime(str(desk.workspace), environ=desk.environ, flags={"mode": "auto-accept"}) as runtime:
        for value in HOSTILE:
            result = runtime.call("video_clip", source=value, target=value, start=1.5, seconds=10, silent=True)

            assert result.error is None, result.error
            words, _, rest = result.text.partition("\n")
            assert json.loads(words) == [
                *("-nostdin", "-hide_banner", "-loglevel", "error", "-n", "-ss", "1.5", "-i", f"file:{value}"),
                *("-t", "10", "-c", "copy", "-an", f"file:{value}"),
            ]
            assert rest.startswith("Wrote ")
            assert harmless(desk)


def test_ffmpeg_writes_only_in_the_workspace(desk, tmp_path):
    outside = tmp_path / "outside"
    line = f"for name in sys.argv[-1][5:], {str(outside)!r}:\n try: open(name, 'w').write('x')\n except OSError: pass"
    desk.stand_in("ffmpeg", f"{line}\nsys.exit(3)")

    with Runtime(str(desk.workspace), environ=desk.environ, flags={"mode": "auto-accept"}) as runtime:
        result = runtime.call("video_clip", source="a", target="b.mp4", seconds=1)

    assert result.error is not None
    assert (result.error.code, result.error.details["exit_code"]) == ("tool_failed", 3)
    assert (desk.workspace / "b.mp4").read_text() == "x"
    assert not outside.exists()


@pytest.fixture
def database(desk: Desk) -> Path:
    path = desk.workspace / "shop.db"
    with connected(path) as connection:
        connection.execute("create table goods (name text, price real, picture blob)")
        connection.executemany("insert into goods values (?, ?, ?)", [(f"good {n}", n / 2, b"\0\1") for n in range(5)])
    connection.close()
    return path


def test_query_values_are_bound_as_parameters(database, runtime):
    for value in HOSTILE:
        result = runtime.call("sqlite-query", database=database.name, sql="select ? as value", parameters=[value])

        assert answered(result) == {"columns": ["value"], "rows": [[value]], "more": False}


def test_database_rows_come_with_a_table_view(database, runtime):
    result = runtime.call("sqlite-query", database="shop.db", sql="select * from goods order by price", limit=2)

    rows = [["good 0", 0.0, "<2 bytes>"], ["good 1", 0.5, "<2 bytes>"]]
    assert answered(result) == {"columns": ["name", "price", "picture"], "rows": rows, "more": True}
    assert result.view["type"] == "table"
    assert [column["label"] for column in result.view["columns"]] == ["name", "price", "picture"]
    assert result.view["rows"][1] == {"0": "good 1", "1": 0.5, "2": "<2 bytes>"}


@pytest.mark.parametrize(
    "sql",
    [
        "select zeroblob(2000000)",
        "delete from goods",
        "attach 'new.db' as n",
        "select 1; delete from goods",
        "create table n (a)",
    ],
)
def test_a_query_changes_nothing(database, runtime, sql):
    before = database.read_bytes()

    assert runtime.call("sqlite-query", database="shop.db", sql=sql).error.code == "tool_failed"
    assert database.read_bytes() == before
    assert not (database.parent / "new.db").exists()


def test_a_csv_file_is_shown_as_a_table(desk, runtime):
    desk.write("a.csv", 'name,name,note\n"x, y",2,\x1b[2J\nz,3\n')

    result = runtime.call("csv-table", path="a.csv", rows=1)

    assert answered(result) == {"columns": ["name", "name", "note"], "rows": [["x, y", "2", "\x1b[2J"]], "total": 2}
    assert (result.view["type"], result.view["totalRows"]) == ("table", 2)


def test_a_variable_that_a_tool_needs_comes_from_the_users_env_file(desk):
    desk.workspace.joinpath("a.csv").write_bytes("name\né\n".encode("latin-1"))
    settings = Path(desk.environ["HILT_CONFIG_DIR"])
    settings.mkdir()
    settings.joinpath(".env").write_text("CSV_ENCODING=latin-1\n")

    with Runtime(str(desk.workspace), environ=desk.environ) as runtime:
        assert answered(runtime.call("csv-table", path="a.csv"))["rows"] == [["é"]]


def test_a_build_folder_is_cleaned_without_asking(desk, runtime):
    desk.write("build/a/b.o", "x")
    desk.write("build/c.o", "x")
    desk.write("src/main.c", "x")

    assert answered(runtime.call("clean-folder", folder="build")) == {"removed": 2}
    assert (desk.workspace / "build").is_dir()
    assert (desk.workspace / "src/main.c").exists()
    assert desk.prompts == []


@pytest.mark.parametrize("folder", ["..", ".", "../other", "/", "build/../.."])
def test_a_folder_outside_the_workspace_is_never_cleaned(desk, runtime, folder):
    desk.write("build/a.o", "x")

    error = runtime.call("clean-folder", folder=folder).error

    assert error.code == "denied"
    assert "not inside the workspace" in error.message
    assert (desk.workspace / "build/a.o").exists()


def test_a_link_to_a_folder_outside_is_never_cleaned(desk, runtime, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a").write_text("x")
    (desk.workspace / "build").symlink_to(tmp_path / "outside")

    assert runtime.call("clean-folder", folder="build").error.code == "denied"
    assert (tmp_path / "outside/a").exists()


def test_cleaning_another_folder_asks_and_an_always_answer_covers_that_folder(desk, runtime):
    desk.write("src/a.c", "x")
    desk.write("docs/a.md", "x")
    refused = runtime.call("clean-folder", folder="src").error
    assert refused is not None
    assert (desk.workspace / "src/a.c").exists()

    desk.answer = "always"
    assert answered(runtime.call("clean-folder", folder="src")) == {"removed": 1}
    desk.answer = "deny"
    assert answered(runtime.call("clean-folder", folder="./src/")) == {"removed": 0}
    assert runtime.call("clean-folder", folder="docs").error is not None
    assert (desk.workspace / "docs/a.md").exists()


def test_a_python_tool_lists_comments_with_a_view(desk, runtime):
    desk.write("a.py", "x = 1  # TODO: fix\n# nothing\n")
    desk.write("b/c.js", "// FIXME later\n")
    desk.write("node_modules/d.js", "// TODO no\n")
    os.mkfifo(desk.workspace / "pipe")
    (desk.workspace / "c.bin").write_bytes(b"# TODO \xff\n")

    result = runtime.call("todo_comments")

    assert result.text == "a.py:1: fix\nb/c.js:1: later"
    assert result.view["files"][0] == {"path": "a.py", "line": 1, "content": "fix"}
    assert runtime.call("todo_comments", marker="FIXME").meta["found"] == 1
    assert runtime.call("todo_comments", folder="nowhere").error.code == "file_not_found"
    assert runtime.call("todo_comments", marker="XXX").error.code == "invalid_args"


def test_a_typescript_tool_counts_words(desk, runtime):
    program("bun")
    desk.write("a.txt", "one two\nthree 👩\n")

    result = runtime.call("word-count", path="a.txt", longest=1)

    assert answered(result) == {"lines": 2, "words": 4, "characters": 16, "longest": ["three"]}
    assert result.view["type"] == "markdown"
    assert "does not exist" in runtime.call("word-count", path="; touch hacked").error.message
    assert harmless(desk)


def test_a_javascript_tool_makes_slugs(runtime):
    program("node")

    assert answered(runtime.call("slugs", titles=["Ünï cödé!", "uni code", "?!"])) == [
        *("uni-code", "uni-code-2", "untitled")
    ]
    assert "more than 500" in runtime.call("slugs", titles=["x" * 501]).error.message


# arguments, environment, expected output
ONE_SHOT: dict[str, tuple[list[str], Mapping[str, str], str]] = {
    "k8s_pods": (
        ["namespace=a", "selector=; touch hacked"],
        {},
        '["get", "pods", "--namespace=a", "--selector=; touch',
    ),
    "gh_issues": (["repository=o/r"], {}, "--repo=o/r"),
    "jq_query": (["file=a.csv", "filter=$(touch hacked)"], {}, '[[" $(touch hacked)"], "x\\n1\\n"]'),
    "http_get": (["url=https://e.example"], {"HILT_APPROVE": "once"}, '"--url", "https://e.example"]'),
    "video_clip": (["source=a", "target=-b.mp4", "seconds=1"], {"HILT_APPROVE": "once"}, "Wrote -b.mp4."),
    "sqlite-query": (["database=:memory:", "sql=select 'a' as b"], {}, '"rows":[["a"]]'),
    "csv-table": (["path=a.csv"], {}, '"total":1'),
    "clean-folder": (["folder=dist"], {}, '"removed":1'),
    "todo_comments": (["folder=src"], {}, "src/a.py:1: fix"),
}


@pytest.mark.parametrize("name", ONE_SHOT)
def test_a_one_shot_call_runs_every_kind_of_tool(desk, name):
    words, variables, printed = ONE_SHOT[name]
    desk.write("a.csv", "x\n1\n")
    desk.write("dist/a", "x")
    desk.write("src/a.py", "# TODO fix\n")

    done = desk.one_shot("call", name, *words, "--raw", **variables)

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)["result"]
    assert printed in (result if isinstance(result, str) else json.dumps(result, separators=(",", ":")))
    assert harmless(desk)


def test_a_table_is_drawn_in_the_terminal(desk, database):
    done = desk.one_shot("call", "sqlite-query", "database=shop.db", "sql=select name, price from goods limit 1")

    assert done.returncode == 0, done.stderr
    assert "name    price\n──────  ─────\ngood 0    0.0" in done.stdout
