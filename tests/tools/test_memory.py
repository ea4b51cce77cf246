from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from hilt.call import Call
from hilt.output import foreign_views
from hilt.runtime import Runtime
from hilt.state.memory import VALUE_BYTES
from hilt.testing import Folder, environment


def one_shot(request: str, cwd: str, env: dict[str, str]) -> dict[str, object]:
    process = subprocess.run(
        [sys.executable, "-m", "hilt"], input=request, cwd=cwd, env=env, capture_output=True, text=True
    )
    assert process.stderr == ""
    reply: dict[str, object] = json.loads(process.stdout)
    assert process.returncode == (0 if reply["ok"] else 1)
    return reply


# --- the examples of seed 001, as printed -----------------------------------------------------------------------------


@pytest.mark.starts_processes
def test_the_examples_of_the_reference_run_as_printed(workspace, environ):
    def send(request: str) -> dict[str, object]:
        return one_shot(request, workspace.path, environ)

    notes = '{"tool":"memory","args":{"action":"save","key":"project.notes","value":"auth service uses JWT RS256"}}'
    assert send(notes)["result"] == "saved: project.notes"
    host = '{"tool":"memory","args":{"action":"save","key":"db.host","value":"localhost"}}'
    assert send(host)["result"] == "saved: db.host"
    listed = '{"tool":"memory","args":{"action":"list"}}'
    assert send(listed)["result"] == '{"keys":["db.host","project.notes"],"count":2}'
    forget = '{"tool":"memory","args":{"action":"forget","key":"db.host"}}'
    assert send(forget)["result"] == "forgotten: db.host"
    assert send(forget)["result"] == "forgotten: db.host"
    recalled = '{"tool":"memory","args":{"action":"recall","key":"project.notes"}}'
    assert send(recalled)["result"] == "auth service uses JWT RS256"
    missing = send('{"tool":"memory","args":{"action":"recall","key":"db.host"}}')
    assert (missing["ok"], missing["error_code"]) == (False, "not_found")
    assert missing["suggestion"] == 'use action="list" to see available keys'


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        {"action": "save", "key": "a"},
        {"action": "save", "key": "a", "value": None},
        {"action": "save", "value": "a"},
        {"action": "recall"},
        {"action": "forget"},
        {"action": "search"},
        {"action": "search", "query": "  "},
        {"action": "gc"},
        {"action": "save", "key": "a b", "value": "x"},
        {"action": "save", "key": "k" * 129, "value": "x"},
        {"action": "save", "key": "a", "value": 1},
        {"action": "save", "key": "a", "value": "\ud800"},
        {"action": "save", "key": "a", "value": "x" * (VALUE_BYTES + 1)},
        {"action": "save", "key": "a", "value": "é" * (VALUE_BYTES // 2 + 1)},
        {"action": "save", "key": "a", "value": "x", "tags": ["two words"]},
        {"action": "save", "key": "a", "value": "x", "tags": ["t"] * 17},
        {"action": "save", "key": "a", "value": "x", "expires_in": "soon"},
        {"action": "save", "key": "a", "value": "x", "expires_in": "0s"},
        {"action": "save", "key": "a", "value": "x", "expires_in": "999999999999w"},
        {"action": "save", "key": "a", "value": "x", "scope": "elsewhere"},
        {"action": "list", "offset": -1},
    ],
    ids=lambda args: json.dumps(args)[:60],
)
def test_invalid_arguments_are_rejected_with_advice_and_save_nothing(runtime, args):
    result = runtime.call("memory", **args)

    assert result.error.code == "invalid_args"
    assert result.error.suggestion
    for scope in (None, "global"):
        assert runtime.call("memory", action="list", scope=scope).data == {"keys": [], "count": 0}


@pytest.mark.parametrize(
    "value", ["", " ", "\n", "x" * VALUE_BYTES, "é" * (VALUE_BYTES // 2), "a\0b", "𝄞 ünïcödé \u202e"], ids=range(7)
)
def test_every_value_within_the_limit_is_returned_unchanged(runtime, value):
    assert runtime.call("memory", action="save", key="k", value=value).text == "saved: k"

    result = runtime.call("memory", action="recall", key="k")

    assert (result.ok, result.text) == (True, value)


# --- scopes ---------------------------------------------------------------------------------------------------------


def test_scopes_do_not_see_each_other(runtime, base):
    for scope, value in ((None, "of the project"), ("global", "of all"), (f"{base}/elsewhere", "of another")):
        runtime.call("memory", action="save", key="k", value=value, scope=scope)

    assert runtime.call("memory", action="recall", key="k").text == "of the project"
    assert runtime.call("memory", action="recall", key="k", scope="global").text == "of all"
    assert runtime.call("memory", action="recall", key="k", scope=f"{base}/elsewhere").text == "of another"
    runtime.call("memory", action="forget", key="k", scope="global")
    assert runtime.call("memory", action="recall", key="k").ok


def test_a_folder_of_a_repository_shares_the_memory_of_the_repository(base, workspace):
    os.mkdir(workspace.join(".git"))
    os.makedirs(workspace.join("packages/web"))
    with Runtime(workspace.join("packages/web"), environ=environment(base)) as inner:
        inner.call("memory", action="save", key="k", value="from below")
    with Runtime(workspace.path, environ=environment(base)) as outer:
        assert outer.call("memory", action="recall", key="k").text == "from below"
        assert outer.call("memory", action="recall", key="k", scope=workspace.path).text == "from below"


# --- list, search, tags, expiry -------------------------------------------------------------------------------------


@pytest.fixture
def filled(runtime: Runtime) -> Runtime:
    entries = {
        "auth.tokens": ("The auth service signs tokens with JWT RS256.", ["security"]),
        "db.host": ("localhost, port 5433", ["infra", "local"]),
        "deploy": ("Deploys run from main; tokens are in the vault.", ["infra"]),
    }
    for key, (value, tags) in entries.items():
        assert runtime.call("memory", action="save", key=key, value=value, tags=tags).ok
    return runtime


def test_list_can_include_values_tags_and_expiry(filled):
    filled.call("memory", action="save", key="soon", value="v", expires_in="12h")

    data = filled.call("memory", action="list", include_values=True).data

    assert data["count"] == 4
    assert [entry["key"] for entry in data["entries"]] == ["auth.tokens", "db.host", "deploy", "soon"]
    assert (data["entries"][1]["value"], data["entries"][1]["tags"]) == ("localhost, port 5433", ["infra", "local"])
    assert "expires" in data["entries"][3]
    assert "expires" not in data["entries"][0]


def test_a_list_or_search_by_tags_returns_entries_that_have_them_all(filled):
    assert filled.call("memory", action="list", tags=["infra"]).data["keys"] == ["db.host", "deploy"]
    assert filled.call("memory", action="list", tags=["infra", "local"]).data["keys"] == ["db.host"]
    assert filled.call("memory", action="list", tags=["inf"]).data["keys"] == []
    data = filled.call("memory", action="search", query="token", tags=["infra"]).data
    assert [entry["key"] for entry in data["entries"]] == ["deploy"]


def test_search_ranks_matches_in_keys_values_and_tags(filled):
    def search(query: str) -> list[str]:
        return [entry["key"] for entry in filled.call("memory", action="search", query=query).data["entries"]]

    assert search("signing JWT tokens") == ["auth.tokens", "deploy"]
    assert search("host") == ["db.host"]
    assert search("security") == ["auth.tokens"]
    assert search("nothing-of-the-kind") == []


def test_a_search_shows_a_snippet_and_the_value_on_request(filled):
    entry = filled.call("memory", action="search", query="vault").data["entries"][0]
    assert "vault" in entry["snippet"]
    assert "value" not in entry
    entry = filled.call("memory", action="search", query="vault", include_values=True).data["entries"][0]
    assert entry["value"] == "Deploys run from main; tokens are in the vault."


def test_notes_that_repeat_a_word_are_found_before_the_deadline(runtime):
    for number in range(200):
        runtime.call("memory", action="save", key=f"k{number}", value="y " * 8_000 + "target " + "y " * 100)

    result = runtime.call("memory", action="search", query="target y", limit=200)

    assert result.ok, result.error
    assert result.data["count"] == 200


def test_a_long_list_is_paged_and_lists_every_entry_once(runtime):
    for number in range(40):
        runtime.call("memory", action="save", key=f"k{number:02}", value="x" * 16_000)
    calls = []
    args = {"action": "list", "include_values": True}
    keys = []
    while args:
        data = runtime.call("memory", **args).data
        calls.append(data)
        keys += [entry["key"] for entry in data["entries"]]
        args = data.get("next", {}).get("args")

    assert keys == [f"k{number:02}" for number in range(40)]
    assert len(calls) > 1
    assert calls[0]["truncated"] is True
    assert calls[0]["total_count"] == 40
    assert "truncated" not in calls[-1]


# --- integration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action,effect", [("save", "write"), ("forget", "write"), ("recall", "read"), ("list", "read"), ("search", "read")]
)
def test_the_effect_of_a_call_depends_on_its_action(runtime, action, effect):
    tool = runtime.parts.catalog.find("memory").tool

    assert [(touch.effect, touch.target) for touch in tool.touches({"action": action})] == [(effect, "memory:")]


def test_keys_that_look_like_sensitive_names_are_allowed(runtime):
    assert runtime.call("memory", action="save", key=".env", value="x").ok
    assert runtime.call("memory", action="recall", key=".env").text == "x"


def test_calls_of_a_session_run_in_order(runtime):
    results = []
    ended = threading.Semaphore(0)

    def done(result):
        results.append(result)
        ended.release()

    for number in range(50):
        runtime.submit(Call("memory", {"action": "save", "key": "k", "value": str(number)}), done)
    runtime.submit(Call("memory", {"action": "recall", "key": "k"}), done)
    for _ in range(51):
        ended.acquire()

    assert [result.text for result in results if result.text.isdigit()] == ["49"]


@pytest.mark.starts_processes
def test_one_shot_session_and_library_share_one_memory_and_give_the_same_answers(runtime, workspace, environ):
    runtime.call("memory", action="save", key="k", value="shared", tags=["t"])
    request = '{"tool":"memory","args":{"action":"list","include_values":true}}'

    library = runtime.call("memory", action="list", include_values=True).data
    reply = one_shot(request, workspace.path, environ)
    session = subprocess.run(
        [sys.executable, "-m", "hilt", "stdio"], input=f"{request}\n", cwd=workspace.path, env=environ,
        capture_output=True, text=True,
    )  # fmt: skip

    assert json.loads(str(reply["result"])) == library
    assert json.loads(json.loads(session.stdout)["result"]) == library


@pytest.mark.parametrize(
    "args",
    [
        {"action": "save", "key": "k", "value": "v"},
        {"action": "recall", "key": "db.host"},
        {"action": "forget", "key": "k"},
        {"action": "list"},
        {"action": "search", "query": "tokens"},
    ],
)
def test_every_answer_has_a_valid_view(filled, args):
    view = filled.call("memory", **args).view

    assert foreign_views.validate(view) == view


def test_the_workspace_is_never_touched(runtime, workspace: Folder):
    runtime.call("memory", action="save", key="k", value="v")
    runtime.call("memory", action="search", query="v")

    assert workspace.tree() == {}


@pytest.mark.parametrize("action", ["list", "search"])
def test_a_huge_offset_finds_nothing(runtime, action):
    runtime.call("memory", action="save", key="a", value="word")

    result = runtime.call("memory", action=action, query="word", offset=10**30)

    assert (result.ok, result.data["count"]) == (True, 0)
