from __future__ import annotations

import pytest

from hilt.text import encodings
from hilt.web import charsets


def decode(data: bytes, declared: str = "") -> str:
    return charsets.decode(data, declared, lambda data: encodings.detect(data).name)


GERMAN = "Grüße aus Köln, schöne Straße, süße Äpfel"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 3
JAPANESE = "いろはにほへと ちりぬるを わかよたれそ つねならむ " * 3


@pytest.mark.parametrize(
    "text, codec, declared",
    [
        (GERMAN, "utf-8", "utf-8"),
        (GERMAN, "utf-8", "UTF8"),
        (GERMAN, "utf-8", ""),
        (GERMAN, "utf-8-sig", "iso-8859-1"),
        (GERMAN, "latin-1", "ISO-8859-1"),
        (GERMAN, "latin-1", "utf-8"),  # wrong
        (GERMAN, "latin-1", "nonsense"),
        ("“quotes” – €", "cp1252", "iso-8859-1"),
        (RUSSIAN, "koi8-r", "koi8-r"),
        (RUSSIAN, "cp1251", ""),
        (JAPANESE, "shift_jis", "Shift_JIS"),
        (JAPANESE, "euc-jp", ""),
        (JAPANESE, "iso-2022-jp", "iso-2022-jp"),
        ("漢字" * 20, "gb18030", "gb2312"),
        (GERMAN, "utf-16", ""),
        (GERMAN, "utf-16-le", "utf-16"),
        (GERMAN, "utf-16-be", "utf-16be"),
    ],
)
def test_text_is_decoded_by_header_or_detection(text, codec, declared):
    assert decode(text.encode(codec), declared) == text


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="windows-1251">',
        "<META CHARSET=windows-1251>",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
        '<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_document_may_declare_its_charset(head):
    assert decode(f"{head}<p>{RUSSIAN}".encode("cp1251")).endswith(RUSSIAN)


def test_the_header_overrides_the_document():
    assert decode(f"<meta charset=koi8-r>{RUSSIAN}".encode("cp1251"), "windows-1251").endswith(RUSSIAN)


@pytest.mark.parametrize(
    "name", ["zlib", "base64", "hex", "rot13", "unicode_escape", "idna", "punycode", "utf-7", "undefined"]
)
def test_a_python_codec_that_is_not_a_charset_is_not_used(name):
    assert decode(b"+ADw-script+AD4- \\x41 plain", name) == "+ADw-script+AD4- \\x41 plain"


def test_a_truncated_character_does_not_change_the_charset():
    assert decode("Straße".encode()[:-2]) == "Stra�"
