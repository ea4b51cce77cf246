from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError
from hilt.surfaces.mcp.forms import (
    MESSAGE_CHARACTERS,
    OTHER,
    approval_form,
    own_words_form,
    question_form,
    read_approval,
    read_choices,
    read_own_words,
)
from hilt.tools.ask_user import Option, Question

ASKED = ApprovalRequest(
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
    st.sampled_from(["decision", "answer_1", "choice_1_1", "other_1", "own_words_1"]),
    scalars | st.lists(scalars, max_size=3),
)
responses = st.fixed_dictionaries(
    {"action": st.sampled_from(["accept", "decline", "cancel", "", "Accept"])}, optional={"content": contents}
)


def test_the_user_sees_what_a_call_would_do():
    form = approval_form(ASKED)["params"]

    assert "make install" in form["message"]
    assert "a rule asks" in form["message"]
    assert form["requestedSchema"]["properties"]["decision"]["enum"] == ["once", "always", "deny"]
    assert "run_shell(/make install/)" in form["requestedSchema"]["properties"]["decision"]["description"]


def test_a_call_without_a_narrow_rule_has_no_always_choice():
    asked = ASKED._replace(rules=())

    assert approval_form(asked)["params"]["requestedSchema"]["properties"]["decision"]["enum"] == ["once", "deny"]
    answer = read_approval(asked, {"action": "accept", "content": {"decision": "always"}}, "x", automatic=True)
    assert answer == UserAnswer("deny", by="x")


def test_hidden_characters_are_visible_and_truncation_is_marked():
    hidden = approval_form(ASKED._replace(command="echo a\u202eb\x1b[2J\u200b"))["params"]["message"]
    long = approval_form(ASKED._replace(diff="+x\n" * 100_000, kind="edit", command=""))["params"]["message"]

    assert not any(character in hidden for character in "\u202e\x1b\u200b")
    assert len(long) < MESSAGE_CHARACTERS + 100
    assert "more" in long


@pytest.mark.parametrize("lines, is_whole", [(20, True), (60, False), (3_000, False)])
def test_always_is_not_a_choice_if_the_form_leaves_something_out(lines, is_whole):
    asked = ASKED._replace(diff="+a line of text\n" * lines, kind="edit", command="", arguments={})
    form = approval_form(asked)["params"]

    assert ("always" in form["requestedSchema"]["properties"]["decision"]["enum"]) is is_whole
    assert ("To see all of it" in form["message"]) is not is_whole
    assert "why     a rule asks" in form["message"]
    answer = read_approval(asked, {"action": "accept", "content": {"decision": "always"}}, "x", automatic=True)
    assert answer == UserAnswer("always" if is_whole else "deny", by="x")


def test_hidden_characters_in_rules_and_questions_are_visible():
    question = Question("Which\u202e?", [Option("red\u200b", "a\u2066b"), Option("blue")])
    forms = [approval_form(ASKED._replace(rules=("run_shell(\u202e)",))), question_form([question])]

    assert not any(character in str(form) for form in forms for character in ("\u202e", "\u200b", "\u2066"))
    label = forms[1]["params"]["requestedSchema"]["properties"]["answer_1"]["enum"][0]
    assert read_choices([question], {"action": "accept", "content": {"answer_1": label}})[1] == []


@given(responses, st.booleans())
def test_only_a_clear_yes_approves(response, automatic):
    answer = read_approval(ASKED, response, "me", automatic=automatic)

    is_yes = response["action"] == "accept" and response.get("content", {}).get("decision") in ("once", "always")
    assert (answer is not None and answer.kind != "deny") is is_yes
    assert answer is not None or automatic


@pytest.mark.parametrize("response", [{"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {}}])
def test_a_form_closed_by_a_program_is_not_a_denial(response):
    assert read_approval(ASKED, response, "me", automatic=True) is None
    answer = read_approval(ASKED, response, "me", automatic=False)
    assert answer is not None
    assert answer.kind == "deny"


def test_a_form_that_is_accepted_with_its_defaults_approves_nothing():
    fields = approval_form(ASKED)["params"]["requestedSchema"]["properties"]
    content = {name: field["default"] for name, field in fields.items()}

    answer = read_approval(ASKED, {"action": "accept", "content": content}, "me", automatic=True)

    assert answer == UserAnswer("deny", by="me")


def test_questions_are_choices_with_one_for_a_free_answer():
    schema = question_form([ONE, SEVERAL])["params"]["requestedSchema"]
    fields = schema["properties"]

    assert list(fields) == schema["required"] == ["answer_1", "choice_2_1", "choice_2_2", "other_2"]
    assert (fields["answer_1"]["title"], fields["answer_1"]["enum"]) == ("Colour", ["red", "blue", OTHER])
    assert "red: like blood" in fields["answer_1"]["description"]
    assert fields["choice_2_1"] == {"type": "boolean", "title": "What?: a", "description": "What? a", "default": False}


def test_a_free_answer_opens_a_second_form():
    response = {"action": "accept", "content": {"answer_1": OTHER, "choice_2_2": True, "other_2": True}}
    written = {"action": "accept", "content": {"own_words_1": " green ", "own_words_2": "c"}}

    answers, numbers = read_choices([ONE, SEVERAL], response)
    form = own_words_form([ONE, SEVERAL], numbers)["params"]["requestedSchema"]

    assert (answers, numbers) == ({"Which?": "", "What?": ["b"]}, [1, 2])
    assert list(form["properties"]) == form["required"] == ["own_words_1", "own_words_2"]
    complete = read_own_words([ONE, SEVERAL], numbers, answers, written)
    assert complete == {"Which?": "green", "What?": ["b", "c"]}


def test_an_option_named_like_the_free_answer_is_an_answer():
    question = Question("Which?", [Option("red"), Option(OTHER)])

    assert read_choices([question], {"action": "accept", "content": {"answer_1": OTHER}}) == ({"Which?": OTHER}, [])


@given(responses)
def test_answers_are_always_strings(response):
    if response["action"] != "accept":
        with pytest.raises(ToolError, match="did not answer"):
            read_choices([ONE], response)
        return
    answers, numbers = read_choices([ONE], response)
    assert isinstance(read_own_words([ONE], numbers, answers, response)["Which?"], str)
    answers, numbers = read_choices([SEVERAL], response)
    assert all(isinstance(answer, str) for answer in read_own_words([SEVERAL], numbers, answers, response)["What?"])
