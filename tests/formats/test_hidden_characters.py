"""One table of hidden characters, for Python and the console."""

from __future__ import annotations

import json
import re
import subprocess
import unicodedata
from pathlib import Path

import pytest

from hilt.formats.hidden_characters import HIDDEN, HIGH, SPACES
from hilt.formats.invisible import shown
from tests.programs import program

CONSOLE = Path(__file__).parents[2] / "console"
SHAPED = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
# of every kind: controls, joiners, fillers, blanks, bidirectional controls, selectors, tags, spaces
EXAMPLES = (
    "\x00\x1b\x7f\x85\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u180b\u180e\u2000\u200a\u200b\u200c\u200d\u200e\u2028\u202e"
    "\u202f\u2060\u2062\u2066\u206f\u2800\u3000\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\ufffc\U00013441\U0001bca0\U0001d159\U0001d173"
    "\U000e0001\U000e0041\U000e0100"
)
ORDINARY = [
    "plain text, Gr\u00fc\u00dfe, \u4f60\u597d, \u05e9\u05dc\u05d5\u05dd, e\u0301",
    "\U0001f469\u200d\U0001f4bb \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3 \U0001f3f3\ufe0f",  # emoji
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
    "\u0915\u094d\u200d\u0937",  # Hindi
    "10\u00a0km, bon\u202f!, \u65e5\u672c\u3000\u8a9e",
]


@pytest.mark.starts_processes
def test_the_table_is_current():
    check = [program("node"), str(CONSOLE / "characters.mjs"), "--check"]

    finished = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)

    assert (finished.returncode, finished.stderr) == (0, "")


def test_the_table_has_what_this_python_knows_to_be_hidden():
    hidden = re.compile(f"[{HIDDEN}{HIGH}{SPACES}]")
    categories = ("Cc", "Cf", "Zl", "Zp", "Zs")
    known = {point for point in range(0x110000) if unicodedata.category(chr(point)) in categories}

    missing = {point for point in known if not hidden.match(chr(point))}

    assert missing == {0x09, 0x0A, 0x20} | SHAPED


@pytest.mark.parametrize("exact", [False, True])
def test_no_hidden_character_stays_in_an_ascii_word(exact):
    stay = "\xa0\u202f\u3000" if not exact else ""

    for character in EXAMPLES:
        text = shown(f"rm{character}rf", exact=exact)
        assert (character in text) is (character in stay), ascii(character)
        assert text != "rmrf"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_except_before_an_approval(text):
    assert shown(text, exact=False) == text
    assert bool(re.search(f"[{HIDDEN}{HIGH}{SPACES}]", shown(text, exact=True))) is False


def test_joiners_and_marks_cannot_pile_up():
    assert shown("\u65e5\u200d\u200d\u672c", exact=False) == "\u65e5<U+200D><U+200D>\u672c"
    assert shown("a" + "\u0301" * 6, exact=False) == "a" + "\u0301" * 4 + "<U+0301>" * 2


@pytest.mark.starts_processes
def test_the_console_shows_the_same():
    texts = [*ORDINARY, *(f"rm{character}rf" for character in EXAMPLES), "\u65e5\u200d\u200d\u672c", "a" + "\u0301" * 6]
    script = (
        f"const {{ visible, exact }} = await import({json.dumps((CONSOLE / 'src/text.js').as_uri())});"
        "const texts = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(texts.map((text) => [visible(text), exact(text)])));"
    )

    command = [program("node"), "--input-type=commonjs", "-e", f"(async () => {{ {script} }})()"]
    finished = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=60, check=True)

    expected = [[_as_in_javascript(shown(text, exact=exact)) for exact in (False, True)] for text in texts]
    assert json.loads(finished.stdout) == expected


def _as_in_javascript(text: str) -> str:
    text = re.sub("[\u2400-\u241f]", lambda match: f"\\u{ord(match[0]) - 0x2400:04x}", text).replace("␡", "\\u007f")

    def escape(match: re.Match[str]) -> str:
        code = int(match[1], 16)
        return f"\\u{{{code:x}}}" if code > 0xFFFF else f"\\u{code:04x}"

    return re.sub("<U\\+([0-9A-F]+)>", escape, text)
