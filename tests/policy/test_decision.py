from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.policy.decision import OWN, Vote, decide, join

STRICTER = ("allow", "ask", "deny")
words = st.text(max_size=3)
votes = st.lists(st.builds(Vote, st.sampled_from(STRICTER), words, words, st.none()))


@given(votes)
def test_the_strictest_vote_wins_and_the_first_of_equals_gives_the_reason(cast):
    """deny beats ask beats allow, in any number and order; no votes mean ask."""
    decision = decide(iter(cast))

    if not cast:
        assert decision.verdict == "ask"
        return
    strictest = max((vote.verdict for vote in cast), key=STRICTER.index)
    assert decision is next(vote for vote in cast if vote.verdict == strictest)


@given(votes, votes)
def test_more_votes_never_loosen_a_decision(cast, more):
    if cast:
        before, after = decide(cast).verdict, decide([*cast, *more]).verdict
        assert STRICTER.index(after) >= STRICTER.index(before)


def test_a_denial_carries_its_own_error():
    error = ToolError("sensitive_path", "no")

    decision = decide([Vote("allow", "a", ""), Vote("deny", "b", "no", error), Vote("deny", "c", "never")])

    assert decision.error is error


@given(st.sampled_from(STRICTER), st.sampled_from(STRICTER), st.booleans())
def test_the_vote_of_the_tool_never_loosens_the_decision(first, second, has_grant):
    decision, own = Vote(first, "rules", "a rule."), Vote(second, OWN, "It wants to.", keeps=("grant",) * has_grant)

    joined = join(decision, own)

    assert joined.verdict == max(first, second, key=STRICTER.index)
    if (first, second) == ("ask", "ask"):
        assert (joined.reason, joined.keeps) == ("It wants to; a rule.", own.keeps)
        assert joined.voter == ("rules" if has_grant else OWN)
    elif STRICTER.index(second) > STRICTER.index(first):
        assert joined is own
    else:
        assert joined is decision
