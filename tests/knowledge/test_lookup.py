"""A few texts in memory, ranked as the index ranks documents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hilt.knowledge.ranking import best

TEXTS = [
    ("read_file", "", "Read a text file", "path"),
    ("write_file", "", "Write a file", "path of what is written"),
    ("ask", "", "Ask about reading files", "question"),
]


def test_the_best_matches_come_first_and_unrelated_entries_are_omitted():
    assert best("read", TEXTS, 5) == [0, 2]
    assert best("write", TEXTS, 5) == [1]
    assert best("xylophone", TEXTS, 5) == []


def test_a_title_match_outranks_repetition_in_the_text():
    texts = [("x", "", "", "apple " * 30), ("x", "", "apple " * 30, ""), ("apple", "", "", "")]

    assert best("apple", texts, 5) == [2, 1, 0]


def test_covering_the_query_outranks_repeating_one_word():
    texts = [("find", "", "find find find", "find"), ("list", "", "find folders", "by name"), *[("y", "", "z", "")] * 5]

    assert best("find folders by name", texts, 5) == [1, 0]


def test_a_word_that_is_only_in_the_text_ranks_last():
    assert best("question read", TEXTS, 5)[0] in (0, 2)
    assert best("question", TEXTS, 5) == [2]


def test_results_respect_the_limit_and_an_empty_query_finds_nothing():
    assert len(best("file", TEXTS, 2)) == 2
    assert best("file", [], 2) == []
    assert best("", TEXTS, 2) == []


@given(st.text(), st.lists(st.tuples(*[st.text()] * 4), max_size=5))
def test_any_query_and_any_texts_are_accepted(query, texts):
    matches = best(query, texts, 3)

    assert len(set(matches)) == len(matches) <= 3
    assert all(0 <= place < len(texts) for place in matches)
