from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.state.approvals import REASON_MOST, Asked
from hilt.surfaces.mcp_asking import approval_form, question_form, read_answers, read_approval
from hilt.surfaces.mcp_names import MESSAGE_CHARACTERS
from hilt.tools.ask_user import Option, Question

ASKED = Asked(
    "run_shell",
    {"command": "make install"},
    "a rule asks",
    "command",
    command="make install",
    risk="caution",
    rules=("run_shell(/make install/)",),
)
ONE = Question("Which?", [Option("red", "like blood"), Option("blue")], header="Colour")
SEVERAL = Question("What?", [Option("a"), Option("b")], multi_select=True)

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
contents = st.dictionaries(
    st.sampled_from(["decision", "reason", "answer_1", "own_words_1"]), scalars | st.lists(scalars, max_size=3)
)
responses = st.fixed_dictionaries(
    {"action": st.sampled_from(["accept", "decline", "cancel", "", "Accept"])}, optional={"content": contents}
)


def test_a_person_sees_what_a_call_would_do():
    form = approval_form(ASKED)["params"]

    assert "make install" in form["message"]
    assert "a rule asks" in form["message"]
    assert form["requestedSchema"]["properties"]["decision"]["enum"] == ["once", "always", "deny"]
    assert "run_shell(/make install/)" in form["requestedSchema"]["properties"]["decision"]["description"]


def test_what_no_rule_is_narrow_enough_for_cannot_be_kept():
    asked = ASKED._replace(rules=())

    assert approval_form(asked)["params"]["requestedSchema"]["properties"]["decision"]["enum"] == ["once", "deny"]
    assert read_approval(asked, {"action": "accept", "content": {"decision": "always"}}, "x").kind == "deny"


def test_nothing_is_hidden_from_the_person_and_what_is_cut_is_said():
    hidden = approval_form(ASKED._replace(command="echo a\u202eb\x1b[2J\u200b"))["params"]["message"]
    long = approval_form(ASKED._replace(diff="+x\n" * 100_000, kind="edit", command=""))["params"]["message"]

    assert not any(character in hidden for character in "\u202e\x1b\u200b")
    assert len(long) < MESSAGE_CHARACTERS + 100
    assert "more" in long


@given(responses)
def test_only_a_clear_yes_is_one(response):
    answer = read_approval(ASKED, response, "me")

    said_yes = response["action"] == "accept" and response.get("content", {}).get("decision") in ("once", "always")
    assert (answer.kind != "deny") is said_yes
    assert isinstance(answer.reason, str)


def test_a_reason_is_told():
    response = {"action": "accept", "content": {"decision": "deny", "reason": "not today"}}

    assert read_approval(ASKED, response, "me") == ("deny", "not today", "me")


def test_a_reason_is_plain_and_no_longer_than_it_can_be_kept():
    answer = read_approval(
        ASKED, {"action": "accept", "content": {"decision": "deny", "reason": "no\x1b[31m\x07" * 9999}}, "host"
    )

    assert answer.reason == "no" * (REASON_MOST // 2)


def test_questions_are_fields_and_own_words_beside_them():
    fields = question_form([ONE, SEVERAL], lists=True)["params"]["requestedSchema"]["properties"]

    assert list(fields) == ["answer_1", "own_words_1", "answer_2", "own_words_2"]
    assert (fields["answer_1"]["title"], fields["answer_1"]["enum"]) == ("Colour", ["red", "blue"])
    assert "red: like blood" in fields["answer_1"]["description"]
    assert fields["answer_2"]["items"] == {"type": "string", "enum": ["a", "b"]}


def test_an_older_client_is_asked_for_several_in_one_text():
    fields = question_form([SEVERAL], lists=False)["params"]["requestedSchema"]["properties"]

    assert fields["answer_1"]["type"] == "string"
    assert read_answers([SEVERAL], {"action": "accept", "content": {"answer_1": "a, b"}}) == {"What?": ["a", "b"]}


@given(responses)
def test_answers_are_always_texts(response):
    if response["action"] != "accept":
        with pytest.raises(ToolError, match="did not answer"):
            read_answers([ONE], response)
        return
    assert isinstance(read_answers([ONE], response)["Which?"], str)
    assert all(isinstance(one, str) for one in read_answers([SEVERAL], response)["What?"])
