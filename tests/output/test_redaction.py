"""Secrets in JSON: text that passes the fast check must contain nothing that would be redacted."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilt.output.redaction import Redactor
from hilt.state.events import encode

ODD = 'pass"word\\with\n\u00e9 \U0001f511 \ud83d'
REDACTOR = Redactor({"ODD_SECRET": ODD, "PLAIN_KEY": "correct-horse-battery"})
SECRETS = [
    ODD,
    "correct-horse-battery",
    "sk-" + "a1" * 12,
    "rk_test_" + "a" * 16,
    "ghs_" + "a" * 36,
    "AKIA" + "A" * 16,
    "xoxb-" + "1" * 12,
    "eyJ" + "a" * 9 + ".eyJ" + "b" * 9 + "." + "c" * 9,
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]


@given(st.text(), st.sampled_from(["", *SECRETS]), st.text())
@example("\n", "sk-" + "a1" * 12, "\n")  # the letter of an escape is not part of a word
@example("\\", ODD, '"')
def test_json_that_is_clean_contains_no_secret(before, secret, after):
    value = {"args": {"path": [before + secret + after]}, before: 1}

    assert REDACTOR.json(value) == value or not REDACTOR.is_clean(encode(value))


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_found_inside_escaped_text(secret):
    value = {"text": f'\n"{secret}"\n'}

    assert not REDACTOR.is_clean(encode(value))
    assert secret not in REDACTOR.json(value)["text"]


def test_text_without_the_start_of_a_token_is_clean():
    assert REDACTOR.is_clean(encode({"text": "plain words\n\u00e9 " * 1000, "number": 5}))
