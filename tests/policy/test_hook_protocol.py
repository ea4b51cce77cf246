from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.policy import hook_protocol
from hilt.policy.hook_protocol import EVENTS, FAILURE, POST, PRE, BadAnswer, BadHook, Hook, HookAnswer, parse_answer
from tests.policy.calls import NAMES, reading, shell, writing

GUARD = {"event": PRE, "command": "./guard"}


def names():
    return NAMES


def parse(text: str) -> hook_protocol.HookSet:
    return hook_protocol.parse(text, "hooks.yaml", "personal", names)


# --- files --------------------------------------------------------------------------------------------------------


WHOLE = """\
hooks:
  - event: pre_tool_execution
    match: Write(path:gen/**)
    command: ./guard
    timeout: 2.5
    on_failure: ignore
  - event: post_tool_execution
    command: ./format
  - event: pre_tool_execution
    command: ./other
"""


@pytest.mark.parametrize("text", [WHOLE, "\n".join(line[2:] for line in WHOLE.split("\n")[1:])])
def test_a_file_lists_hooks_with_or_without_the_first_line(text):
    hook_set = parse(text)

    assert hook_set.problems == ()
    first, second, third = hook_set.hooks
    assert first.as_dict() == {
        "event": PRE,
        "match": "Write(path:gen/**)",
        "command": "./guard",
        "timeout": 2.5,
        "on_failure": "ignore",
    }
    assert (second.timeout, second.on_failure, second.match) == (10.0, "ignore", "")
    assert (third.timeout, third.on_failure) == (10.0, "block")
    # counted by event, from 0
    assert [hook.name for hook in hook_set.hooks] == [
        "personal pre_tool_execution 0",
        "personal post_tool_execution 0",
        "personal pre_tool_execution 1",
    ]
    assert [hook.line - first.line for hook in hook_set.hooks] == [0, 5, 7]


@pytest.mark.parametrize("text", ["", "hooks:\n", "hooks: []\n", "# nothing\n"])
def test_a_file_without_hooks_has_none(text):
    assert parse(text) == hook_protocol.HookSet("personal")


@pytest.mark.parametrize("event", [event for event in EVENTS if event.startswith("pre_")])
def test_hooks_of_pre_events_block_on_failure_by_default(event):
    assert hook_protocol.check({"event": event, "command": "x"}, names).on_failure == "block"


@pytest.mark.parametrize(
    "text, line, event",
    [
        pytest.param("hooks: }", 1, None, id="not YAML"),
        pytest.param("hooks: 7", 1, None, id="not a list"),
        pytest.param("hooks: []\nhook: []", 2, None, id="an unknown key"),
        pytest.param("- just text", 1, None, id="not a mapping"),
        pytest.param("- command: x", 1, None, id="no event"),
        pytest.param("- {event: pre_tool_executon, command: x}", 1, None, id="a misspelt event"),
        pytest.param("- {event: stop, command: x}\n- {event: stop}", 2, "stop", id="no command"),
        pytest.param("- {event: stop, command: '  '}", 1, "stop", id="an empty command"),
        pytest.param("- {event: stop, command: 5}", 1, "stop", id="a command that is not a string"),
        pytest.param("- {event: stop, command: x, matches: y}", 1, "stop", id="a misspelt key"),
        pytest.param("- {event: stop, command: x, timeout: 0}", 1, "stop", id="a timeout of zero"),
        pytest.param("- {event: stop, command: x, timeout: 601}", 1, "stop", id="a timeout that is too long"),
        pytest.param("- {event: stop, command: x, timeout: .nan}", 1, "stop", id="a timeout that is not a number"),
        pytest.param("- {event: stop, command: x, timeout: true}", 1, "stop", id="a timeout that is a boolean"),
        pytest.param("- {event: stop, command: x, on_failure: pass}", 1, "stop", id="a misspelt on_failure"),
        pytest.param("- {event: stop, command: x, match: Bash}", 1, "stop", id="a match without a call"),
        pytest.param(f"- {{event: {PRE}, command: x, match: [Bash]}}", 1, PRE, id="a match that is not a string"),
        pytest.param(f"- {{event: {PRE}, command: x, match: 'Bash(/(/)'}}", 1, PRE, id="a match that is not a rule"),
    ],
)
def test_a_broken_hook_is_reported_with_its_line(text, line, event):
    (problem,) = parse(text).problems

    assert (problem.line, problem.event, problem.file) == (line, event, "hooks.yaml")


def test_a_broken_hook_keeps_its_number_and_the_others_still_apply():
    hook_set = parse(f"- {{event: {PRE}, command: a}}\n- {{event: {PRE}}}\n- {{event: {PRE}, command: b}}\n")

    assert [(hook.command, hook.number) for hook in hook_set.hooks] == [("a", 0), ("b", 2)]
    assert len(hook_set.problems) == 1


def test_a_broken_hook_with_a_match_governs_what_the_match_applies_to():
    (problem,) = parse(f"- {{event: {PRE}, match: 'Write(path:gen/**)'}}\n").problems

    assert problem.scope.governs(writing("src/a.py"))
    assert not problem.scope.governs(reading("gen/a.py"))


def test_misspelt_words_get_a_suggestion():
    with pytest.raises(BadHook, match=r"did you mean pre_tool_execution\?"):
        hook_protocol.check({"event": "pre_tool_executon", "command": "x"}, names)
    with pytest.raises(BadHook, match=r"did you mean on_failure\?"):
        hook_protocol.check({**GUARD, "on_failures": "block"}, names)


def test_too_many_hooks_are_a_problem_and_none_of_them_runs():
    hook_set = hook_protocol.collect([GUARD] * (hook_protocol.MAX_HOOKS + 1), "session", names)

    assert (hook_set.hooks, len(hook_set.problems)) == ((), 1)


@pytest.mark.parametrize(
    "match, subject, applies",
    [
        (None, reading("a"), True),
        ("Write(path:gen/**)", writing("gen/a.py"), True),
        ("Write(path:gen/**)", writing("gen/a.py", tool="edit_file"), True),
        ("Write(path:gen/**)", writing("src/a.py"), False),
        ("run_shell", shell("ls"), True),
        ("Bash(git push:*)", shell("cd x && git push origin"), True),
        ("Bash(git push:*)", shell("git status"), False),
        # calls whose match is known only at run time are shown to the hook
        ("Bash(git push:*)", shell("git $WHAT"), True),
        ("Read", writing("a"), False),
    ],
)
def test_a_hook_sees_the_calls_its_match_applies_to(match, subject, applies):
    hook = hook_protocol.check({**GUARD, "match": match}, names)

    assert hook.applies_to(lambda: subject) is applies


def test_a_hook_without_a_match_needs_no_names_and_no_subject():
    def never():
        raise AssertionError

    assert hook_protocol.check(GUARD, never).applies_to(never)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"event": st.sampled_from(list(EVENTS)), "command": st.text(min_size=1).map(lambda text: "x" + text)},
            optional={
                "timeout": st.floats(min_value=0.1, max_value=600),
                "on_failure": st.sampled_from(["block", "ignore"]),
            },
        ),
        max_size=8,
    )
)
def test_stored_hooks_of_a_session_load_unchanged(data):
    first = hook_protocol.collect([item for item in data if "\0" not in item["command"]], "session", names)

    again = hook_protocol.collect(json.loads(json.dumps([hook.as_dict() for hook in first.hooks])), "session", names)

    assert again == first


# --- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event, printed, answer",
    [
        (PRE, "", HookAnswer()),
        (PRE, " \n", HookAnswer()),
        (PRE, "{}", HookAnswer()),
        (PRE, '{"decision": null, "reason": null}', HookAnswer()),
        (PRE, '{"decision": "ask", "reason": "look"}\n', HookAnswer("ask", "look")),
        (PRE, '{"arguments": {"path": "b"}}', HookAnswer(arguments={"path": "b"})),
        (PRE, '{"decision": "skip", "result": null}', HookAnswer("skip", result=(None,))),
        (PRE, '{"decision": "skip", "result": [1]}', HookAnswer("skip", result=([1],))),
        (POST, '{"result": "new", "context": "c"}', HookAnswer(context="c", result=("new",))),
        (POST, '{"decision": "stop", "reason": "enough"}', HookAnswer("stop", "enough")),
        (FAILURE, '{"result": "said differently"}', HookAnswer(result=("said differently",))),
        ("stop", '{"decision": "deny", "reason": "tests fail"}', HookAnswer("deny", "tests fail")),
        ("session_start", '{"context": "remember"}', HookAnswer(context="remember")),
        ("pre_llm_request", '{"arguments": {"model": "x"}}', HookAnswer(arguments={"model": "x"})),
    ],
)
def test_a_hook_prints_nothing_or_one_object(event, printed, answer):
    assert parse_answer(event, 0, printed.encode(), b"noise") == answer


@pytest.mark.parametrize(
    "event, code, printed, reason",
    [
        (PRE, 0, "all good", "JSON"),
        (PRE, 0, '{"decision": "deny"} trailing', "JSON"),
        (PRE, 0, '{"decision": "allow", "decision": "deny"}', "JSON"),
        (PRE, 0, "\udcff", "JSON"),
        (PRE, 0, "[]", "not an object"),
        (PRE, 0, '"deny"', "not an object"),
        (PRE, 0, '{"decison": "deny"}', "did you mean decision?"),
        (PRE, 0, '{"decision": "block"}', "must be one of allow, ask, deny, skip, stop"),
        (PRE, 0, '{"decision": ["deny"]}', "must be one of"),
        (PRE, 0, '{"arguments": []}', "must be an object"),
        (PRE, 0, '{"reason": 5}', "must be a string"),
        (PRE, 0, '{"result": "x"}', "the decision skip"),
        (PRE, 0, json.dumps({"context": "x" * 10_001}), "longer than 10000"),
        (POST, 0, '{"arguments": {}}', "cannot be changed"),
        (POST, 0, '{"decision": "ask"}', "must be one of allow, deny, stop"),
        (FAILURE, 0, '{"result": {}}', "must be a string"),
        ("session_end", 0, '{"decision": "deny"}', "must be one of allow"),
        ("session_end", 2, "", "cannot be blocked"),
        (PRE, 1, "", "exit status 1: noise"),
        (PRE, 127, '{"decision": "allow"}', "exit status 127"),
    ],
)
def test_any_other_output_is_a_failure_of_the_hook(event, code, printed, reason):
    with pytest.raises(BadAnswer) as caught:
        parse_answer(event, code, printed.encode("utf-8", "surrogateescape"), b"noise")

    assert reason in str(caught.value)


@pytest.mark.parametrize("event", [PRE, POST, FAILURE, "pre_llm_request", "stop"])
def test_exit_status_2_blocks_with_standard_error_as_the_reason(event):
    assert parse_answer(event, 2, b"ignored", b"no\x1b[31m way\n") == HookAnswer("deny", "no [31m way")


def test_a_reason_is_short_and_holds_no_control_characters():
    reason = hook_protocol.readable("a\x00b\x9bc\u202e" + "x" * 5000)

    assert len(reason) == hook_protocol.MAX_REASON
    assert reason.startswith("a b c x")


@given(st.binary(max_size=200), st.sampled_from(list(EVENTS)), st.integers(min_value=0, max_value=255))
def test_any_output_of_a_hook_is_an_answer_or_a_failure(printed, event, code):
    try:
        answer = parse_answer(event, code, printed, printed)
    except BadAnswer:
        return
    assert answer.decision is None or answer.decision in EVENTS[event].decisions


# --- votes --------------------------------------------------------------------------------------------------------

HOOK = Hook(PRE, "./guard", source="personal")


@pytest.mark.parametrize(
    "decision, verdict",
    [(None, None), ("skip", None), ("allow", "allow"), ("ask", "ask"), ("deny", "deny"), ("stop", "deny")],
)
def test_a_decision_is_a_vote(decision, verdict):
    vote = hook_protocol.vote(HOOK, HookAnswer(decision, "because"))

    assert (None if vote is None else vote.verdict) == verdict
    assert vote is None or "because" in vote.reason


def test_a_denial_names_the_hook_and_a_stop_is_marked():
    denied: Any = hook_protocol.vote(HOOK, HookAnswer("deny", "gen/ is generated."))
    stopped: Any = hook_protocol.vote(HOOK, HookAnswer("stop"))

    assert denied.error.code == "hook_blocked"
    assert HOOK.name in denied.error.message
    assert denied.error.message.endswith("gen/ is generated.")
    assert denied.error.details == {"hook": HOOK.name}
    assert stopped.error.details == {"hook": HOOK.name, "stop": True}


def test_the_guide_lists_what_hooks_of_every_event_may_do():
    guide = (Path(__file__).parents[2] / "docs/guides/hooks.md").read_text(encoding="utf-8")
    documented: dict[str, tuple[str, str]] = {}
    for line in guide.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[3] in ("block", "ignore"):
            words = re.sub(r" \(.*?\)", "", cells[1])
            documented |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), (words, cells[3]))

    assert documented == {
        event: ("all" if event == PRE else ", ".join(spec.decisions), spec.on_failure) for event, spec in EVENTS.items()
    }
