from __future__ import annotations

from contextlib import closing

import pytest

from hilt.call import ApprovalRequest, UserAnswer
from hilt.desk import approvals
from hilt.errors import ToolError
from hilt.state.approvals import Approvals
from hilt.state.questions import Questions

MINUTE = 60
ASKED = ApprovalRequest("run_shell", {"command": "make"}, "it runs a command", rules=("run_shell(/make/)",))


@pytest.fixture
def state(tmp_path):
    return str(tmp_path)


@pytest.fixture
def id(state):
    with closing(Approvals(state)) as store:
        return store.ask("w", "s", "d", ASKED, seconds=MINUTE).id


def test_a_person_sees_what_waits_and_answers_it(state, id):
    assert [(row.id, row.asked.tool) for row in approvals.pending(state, "w")] == [(id, "run_shell")]
    assert approvals.pending(state, "other") == []

    answered = approvals.answer(state, id, UserAnswer("always", by="console"), seconds=MINUTE)

    assert (answered.state, approvals.pending(state)) == ("approved", [])
    first = approvals.settled_by(answered)
    assert first is not None
    assert (first.answer, first.reason, first.by) == ("always", "", "console")


def test_a_grant_can_be_listed_and_revoked(state, id):
    answered = approvals.answer(state, id, UserAnswer("always", by="console"), seconds=MINUTE)

    (grant,) = approvals.grants(state, "w")
    assert (grant.rule, grant.folder, grant.workspace) == ("run_shell(/make/)", None, "w")
    assert grant.since == answered.answered_at
    assert grant.until is not None
    assert 0 < grant.until - grant.since <= (MINUTE + 1) * 10**9
    assert approvals.revoke(state, grant.id[:6]) == grant
    assert approvals.grants(state) == []


def test_only_a_surface_that_may_revoke_denies_what_was_approved(state, id):
    approvals.answer(state, id, UserAnswer("once", by="terminal"))

    with pytest.raises(ToolError, match="approved by terminal"):
        approvals.answer(state, id, UserAnswer("deny", by="console"))
    assert approvals.find(state, id).state == "approved"
    assert approvals.answer(state, id, UserAnswer("deny", by="console"), revokes=True).state == "denied"


def test_the_first_answer_to_a_call_counts(state, id):
    assert approvals.settle(state, id, None) is None

    first = UserAnswer("deny", "use make check", "console")
    assert approvals.settle(state, id, first) == first
    assert approvals.settle(state, id, UserAnswer("once", by="client")) == first


def test_the_first_answers_to_questions_count(state):
    with closing(Questions(state)) as store:
        id = store.ask("w", "s", "/w", [{"question": "Which?"}], seconds=MINUTE).id
    assert approvals.settle_questions(state, id, None, by="client") is None

    answered = approvals.answer_questions(state, id, {"Which?": "this"}, by="console")

    assert (answered.answered_by, approvals.pending_questions(state)) == ("console", [])
    assert approvals.settle_questions(state, id, {"Which?": "that"}, by="client") == {"Which?": "this"}


def test_withdrawn_questions_have_no_answers(state):
    with closing(Questions(state)) as store:
        id = store.ask("w", "s", "/w", [{"question": "Which?"}], seconds=MINUTE).id

    approvals.withdraw_questions(state, id)

    assert approvals.find_questions(state, id).state == "withdrawn"
    assert approvals.settle_questions(state, id, {"Which?": "that"}, by="client") is None


def test_a_person_is_available_while_they_attend(state):
    with closing(Approvals(state)) as store:
        with approvals.attend(state):
            assert store.attended()
        assert not store.attended()
