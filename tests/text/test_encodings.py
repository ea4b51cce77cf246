from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.text.encodings import UTF8, Encoding, Span, decode, detect, encode, is_binary, splice, visible
from hilt.text.lines import count_lines, dominant_ending, line_number, split_lines, strip_ending

FRENCH = "Ça a été très élégant à Noël, où le cœur était léger."
JAPANESE = "これは日本語のテキストです。漢字も入っています。"


@pytest.mark.parametrize(
    "head, binary",
    [
        (b"", False),
        (b"plain text\n", False),
        (b"\x7fELF\x00\x00", True),
        (b"x" * 511 + b"\0", True),
        (b"x" * 512 + b"\0", False),
        ("text".encode("utf-16"), False),
        (codecs.BOM_UTF16_BE + "text".encode("utf-16-be"), False),
        ("text".encode("utf-32"), False),
        ("text".encode("utf-16-le"), True),
        (codecs.BOM_UTF8 + b"\0", True),
    ],
)
def test_a_nul_near_the_start_is_binary_unless_there_is_a_byte_order_mark(head, binary):
    assert is_binary(head) is binary


@pytest.mark.parametrize(
    "data, encoding",
    [
        (b"", UTF8),
        (b"ascii", UTF8),
        ("naïve ✅".encode(), UTF8),
        (b"\xef\xbb\xbfmarked", Encoding("utf-8", codecs.BOM_UTF8)),
        ("wide".encode("utf-16"), Encoding("utf-16-le", codecs.BOM_UTF16_LE)),
        (codecs.BOM_UTF16_BE + "wide".encode("utf-16-be"), Encoding("utf-16-be", codecs.BOM_UTF16_BE)),
        (codecs.BOM_UTF32_LE + "wider".encode("utf-32-le"), Encoding("utf-32-le", codecs.BOM_UTF32_LE)),
        (codecs.BOM_UTF32_BE + "wider".encode("utf-32-be"), Encoding("utf-32-be", codecs.BOM_UTF32_BE)),
        (codecs.BOM_UTF16_LE + b"\0\0a\0", Encoding("utf-16-le", codecs.BOM_UTF16_LE)),
        (FRENCH.encode("cp1252"), Encoding("cp1252")),
        ("Это русский текст для проверки.".encode("cp1251"), Encoding("cp1251")),
        ("Это русский текст для проверки.".encode("koi8-r"), Encoding("koi8-u")),
        (JAPANESE.encode("cp932"), Encoding("cp932")),
        (JAPANESE.encode("euc-jp"), Encoding("euc-jp")),
        ("这是一个中文的文本文件，里面有汉字。".encode("gbk"), Encoding("gb18030")),
        ("這是一個中文的文本文件，裡面有漢字。".encode("big5"), Encoding("big5hkscs")),
        ("이것은 한국어 텍스트 파일입니다.".encode("cp949"), Encoding("cp949")),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.".encode("iso8859-2"), Encoding("iso-8859-2")),
    ],
)
def test_the_encoding_is_recognised(data, encoding):
    assert detect(data) == encoding


def test_a_utf8_file_with_a_few_invalid_bytes_is_still_utf8():
    data = FRENCH.encode() + b" \xe9\xff"

    text, encoding = decode(data)

    assert encoding == UTF8
    assert visible(text) == FRENCH + " ��"
    assert encode(text, encoding) == data


def test_bytes_that_cp1252_leaves_undefined_are_read_as_latin1():
    data = b"<p>caf\xe9 \x81\x8d\x8f\x90\x9d d\xe9j\xe0 vu</p>\n" * 3

    text, encoding = decode(data)

    assert encode(text, encoding) == data
    assert text.encode(encoding.name) == data


@pytest.mark.parametrize("tail", [b"\xd8", b"\x00\xd8", b"\x00\xdc\x00\xd8"])
def test_every_byte_of_malformed_utf16_is_preserved(tail):
    data = codecs.BOM_UTF16_LE + "text".encode("utf-16-le") + tail

    text, encoding = decode(data)

    assert encode(text, encoding) == data


def test_a_legacy_character_late_in_a_file_is_recognised():
    data = b"plain ascii line\n" * 20_000 + FRENCH.encode("cp1252")

    assert decode(data)[0].endswith(FRENCH)


def test_a_wrong_first_guess_still_decodes_every_byte():
    data = FRENCH.encode("cp1252") + b"\n" + b"filler\n" * 20_000 + b"\x81\x8d\x9d"

    text, encoding = decode(data)

    assert encode(text, encoding) == data


@settings(deadline=None)
@given(st.binary())
def test_decoding_and_encoding_round_trips(data):
    text, encoding = decode(data)

    if encoding.name not in ("cp932", "euc-jp", "big5hkscs"):  # these encode some characters in two ways
        assert encode(text, encoding) == data
    assert splice(data, text, encoding, []) == data


@settings(deadline=None)
@given(st.sampled_from([b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE]), st.binary(), st.data())
def test_a_splice_changes_no_byte_around_it(mark, tail, data):
    original = mark + tail
    text, encoding = decode(original)
    at = data.draw(st.integers(0, len(text)))

    changed = splice(original, text, encoding, [Span(at, at, "x")])

    mid = encode("x", Encoding(encoding.name))
    splits = [i for i in range(len(original) + 1) if original[:i] + mid + original[i:] == changed]
    assert splits


ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])
PLAIN = st.text(st.characters(codec="cp1252", exclude_categories=["Cs"]), max_size=8)


@given(
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "cp1252", "gb18030"]),
    st.booleans(),
    st.lists(st.tuples(PLAIN, ENDINGS, st.one_of(st.none(), PLAIN))),
)
def test_bytes_outside_the_spans_are_unchanged(codec, marked, parts):
    marks = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    mark = marks.get(codec, b"") if marked else b""
    text = ""
    spans = []
    expected = mark
    for old, ending, new in parts:
        if new is None:
            expected += (old + ending).encode(codec)
        else:
            spans.append(Span(len(text), len(text + old), new))
            expected += (new + ending).encode(codec)
        text += old + ending
    data = mark + text.encode(codec)

    assert splice(data, text, Encoding(codec, mark), spans) == expected


@pytest.mark.parametrize(
    "codec, twin",
    [
        ("cp932", b"\x87\x90"),  # the second encoding of a mathematical sign
        ("cp932", b"\xed\x40"),
        ("big5hkscs", b"\xa1\xc3"),
        ("euc-jp", b"\x8f\xa2\xb7"),  # decodes to a character whose usual encoding is shorter
    ],
)
def test_a_character_with_two_encodings_keeps_the_one_in_the_file(codec, twin):
    data = b"head " + twin + b" old " + twin + b" tail"
    text = data.decode(codec)
    at = text.index("old")

    changed = splice(data, text, Encoding(codec), [Span(at, at + 3, "new")])

    assert changed == b"head " + twin + b" new " + twin + b" tail"


def test_invalid_bytes_may_be_copied_within_a_file_but_not_added():
    data = FRENCH.encode() + b"\xff\n"
    text, encoding = decode(data)

    assert splice(data, text, encoding, [Span(0, 0, "\udcff")]) == b"\xff" + data
    with pytest.raises(ToolError) as caught:
        splice(data, text, encoding, [Span(0, 0, "a\n\udcfe")])

    assert (caught.value.code, caught.value.details["character"]) == ("encoding_error", "U+DCFE")


def test_a_character_that_cannot_be_encoded_is_reported_with_its_line():
    data = FRENCH.encode("cp1252") + b"\nlast\n"
    text, encoding = decode(data)

    with pytest.raises(ToolError) as caught:
        splice(data, text, encoding, [Span(len(text) - 5, len(text), "one\ntwo 漢\n")])

    assert caught.value.code == "encoding_error"
    assert caught.value.details == {"character": "U+6F22", "encoding": "cp1252", "line": 3}
    assert "U+6F22 '漢'" in caught.value.message


def test_encoding_a_whole_file_names_the_character_that_cannot_be_encoded():
    with pytest.raises(ToolError) as caught:
        encode("fine\nnot ✅", Encoding("latin-1"))

    assert caught.value.details == {"character": "U+2705", "encoding": "latin-1", "line": 2}


def test_spans_may_come_in_any_order_but_not_overlap():
    assert splice(b"abcdef", "abcdef", UTF8, [Span(4, 5, "Y"), Span(0, 2, "X")]) == b"XcdYf"
    with pytest.raises(ToolError) as caught:
        splice(b"ab\ncdef", "ab\ncdef", UTF8, [Span(3, 5, "Y"), Span(0, 4, "X")])

    assert (caught.value.code, caught.value.details) == ("edit_overlap", {"lines": [1, 2]})


def test_a_change_that_would_damage_a_stateful_encoding_is_rejected():
    data = "漢字テキスト".encode("iso-2022-jp")

    with pytest.raises(ToolError) as caught:
        splice(data, data.decode("iso-2022-jp"), Encoding("iso-2022-jp"), [Span(2, 3, "か")])

    assert caught.value.code == "encoding_error"


@pytest.mark.parametrize(
    "text, lines",
    [
        ("", []),
        ("one", ["one"]),
        ("one\n", ["one\n"]),
        ("one\r\ntwo", ["one\r\n", "two"]),
        ("\n\n", ["\n", "\n"]),
        ("a\x0bb\x0cc\x85d\u2028e\rf\n", ["a\x0bb\x0cc\x85d\u2028e\rf\n"]),
    ],
)
def test_a_line_ends_at_a_line_feed_only(text, lines):
    assert split_lines(text) == lines
    assert count_lines(text) == len(lines)


@settings(deadline=None)
@given(st.text("ab\r\n"))
def test_joined_lines_are_the_text(text):
    lines = split_lines(text)

    assert "".join(lines) == text
    assert all(line.startswith(strip_ending(line)) and "\n" not in strip_ending(line) for line in lines)
    assert [n for n, line in enumerate(lines, 1) for _ in line] == [line_number(text, i) for i in range(len(text))]


@pytest.mark.parametrize(
    "text, ending",
    [("", "\n"), ("a", "\n"), ("a\nb\r\n", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb", "\r"), ("a\rb\n", "\n")],
)
def test_the_most_frequent_line_ending_is_detected(text, ending):
    assert dominant_ending(text) == ending
