from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.knowledge import ranking, words


def weigh(words_by_term: dict[str, str], frequencies: dict[str, int], total: int) -> ranking.Query:
    return ranking.weigh(" ".join(words_by_term), words_by_term, frequencies, total)


@pytest.mark.parametrize(
    "left,right",
    [
        ("race", "races"),
        ("race", "racing"),
        ("test", "testing"),
        ("run", "running"),
        ("query", "queries"),
        ("fix", "fixes"),
        ("cache", "cached"),
        ("deploy", "deploys"),
        ("image", "images"),
        ("class", "classes"),
        ("Résumé", "resume"),
        ("ＦＵＬＬ", "full"),
    ],
)
def test_two_forms_of_a_word_are_one_term(left, right):
    assert set(words.indexed(left).split()) & set(words.indexed(right).split())


@pytest.mark.parametrize("left,right", [("status", "state"), ("go", "going"), ("bus", "but"), ("string", "str")])
def test_different_words_stay_different(left, right):
    assert not set(words.indexed(left).split()) & set(words.indexed(right).split())


@pytest.mark.parametrize(
    "text,expected",
    [
        ("fetchUserName", {"fetchusernam", "fetch", "user", "nam"}),
        ("HTTPServer", {"httpserver", "http", "server"}),
        ("snake_case-and.dots", {"snak", "cas", "dot"}),
        ("データ競合", {"デー", "ータ", "タ競", "競合"}),
        ("the of and", set()),
    ],
)
def test_names_and_scripts_without_spaces_are_split(text, expected):
    assert set(words.indexed(text).split()) == expected


@given(text=st.text(max_size=300))
def test_index_and_query_terms_of_a_text_are_the_same(text):
    indexed = words.indexed(text)

    assert all(f" {term} " in indexed for term in ranking.query_terms(text))
    assert '"' not in indexed


@given(
    terms=st.lists(st.text("abcdef", min_size=2, max_size=4), min_size=1, max_size=30, unique=True),
    total=st.integers(1, 10_000),
    data=st.data(),
)
def test_a_score_is_between_zero_and_one_and_grows_with_coverage(terms, total, data):
    counts = {term: data.draw(st.integers(1, total)) for term in terms}
    query = weigh({term: term for term in terms}, counts, total)
    everything = f" {' '.join(terms)} "
    half = f" {' '.join(terms[::2])} "

    full_score, matched = ranking.score(query, (everything, "", "", ""))
    part, _ = ranking.score(query, (half, "", "", ""))
    below, _ = ranking.score(query, ("", "", "", everything))

    assert 0 <= part <= full_score <= 1
    assert below <= full_score
    assert len(matched) == min(len(terms), ranking.MATCHED_TERMS)


def test_a_rare_word_outweighs_a_frequent_one():
    query = weigh({"rare": "rare", "common": "common"}, {"rare": 2, "common": 400}, 500)

    rare, _ = ranking.score(query, (" rare ", "", "", ""))
    common, _ = ranking.score(query, (" common ", "", "", ""))

    assert rare > common > ranking.THRESHOLD


def test_a_word_that_every_document_has_matches_them_all():
    query = weigh({"deploy": "deploy", "rollback": "rollback"}, {"deploy": 60, "rollback": 1}, 60)

    assert ranking.score(query, ("", "", " deploy ", ""))[0] > ranking.THRESHOLD
    assert ranking.score(query, ("", "", " other ", ""))[0] == 0


def test_words_that_most_of_a_few_documents_share_still_count():
    query = weigh(
        {term: term for term in ("fix", "goroutine", "race", "data")},
        {"fix": 1, "goroutine": 4, "race": 4, "data": 3},
        7,
    )

    assert ranking.score(query, (" reviewer ", "", " race goroutine ", ""))[0] > ranking.THRESHOLD
    assert ranking.score(query, (" reviewer ", "", " race ", ""))[0] < ranking.THRESHOLD


def test_one_of_several_words_that_occurs_once_in_the_text_is_not_a_match():
    query = weigh({"vacuum": "vacuum", "database": "database"}, {"vacuum": 1}, 5)

    assert ranking.score(query, ("", "", "", " vacuum ")) == (0.0, [])


def test_the_only_word_of_a_query_matches_wherever_it_occurs():
    query = weigh({"vacuum": "vacuum"}, {"vacuum": 1}, 5)

    assert ranking.score(query, ("", "", "", " vacuum "))[0] >= ranking.THRESHOLD
    polite = query._replace(is_one_word=False)  # such as "what is the vacuum"
    assert ranking.score(polite, ("", "", "", " vacuum ")) == (0.0, [])
    assert ranking.score(query, ("", "", "", " vacuum the vacuum "))[0] >= ranking.THRESHOLD
    assert ranking.score(query, (" vacuum ", "", "", ""))[0] == 1


def test_frequent_words_are_looked_up_only_where_they_matter():
    query = weigh({"rare": "rare", "common": "common"}, {"rare": 10, "common": 9000}, 10_000)

    assert query.match == '"rare" OR {title tags description} : ("common")'
