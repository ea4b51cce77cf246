"""Messages survive any split into chunks; other output is noise or breaks the stream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.lsp.framing import BrokenStream, Frames, encode

MESSAGES = st.lists(
    st.dictionaries(st.text(max_size=8), st.none() | st.integers() | st.text(max_size=20) | st.booleans(), max_size=4),
    max_size=5,
)
# text without a newline, so that a header never follows the beginning of another line
NOISE = st.sampled_from([b"", b"warning: slow\n", b"\n\n", b"Content-Type: none\n", b"loading ", b"\xff\xfe\n"])


@given(MESSAGES, st.lists(NOISE, min_size=5, max_size=5), st.lists(st.integers(0, 400), max_size=8))
def test_messages_survive_any_split_and_noise_between_them(messages, noise, cuts):
    data = b"".join(around + encode(message) for around, message in zip(noise, messages, strict=False))
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    frames = Frames()

    received = [message for start, end in pairwise(ends) for message in frames.feed(data[start:end])]

    assert received == messages


@pytest.mark.parametrize(
    "header",
    [b"content-length: 2\r\n\r\n", b"Content-Length:2\n\n", b"Content-Type: x\r\nContent-Length: 2\r\n\r\n"],
)
def test_headers_may_have_several_forms(header):
    assert list(Frames().feed(header + b"{}")) == [{}]


@pytest.mark.parametrize("body", [b'{"a": ', b"[]", b"12", b"\xff\xff", b"[" * 100_000])
def test_a_body_that_is_not_an_object_breaks_the_stream(body):
    with pytest.raises(BrokenStream):
        list(Frames().feed(b"Content-Length: %d\r\n\r\n%b" % (len(body), body)))


def test_the_end_of_the_noise_is_kept():
    frames = Frames()

    assert list(frames.feed(b"first\nlast\n" + encode({"id": 1}))) == [{"id": 1}]
    assert bytes(frames.noise) == b"first\nlast\n"


def test_lone_surrogates_do_not_break_a_message():
    message: dict[str, Any] = {"text": "a\udc80b"}

    assert list(Frames().feed(encode(message))) == [{"text": "a?b"}]
