"""Characters that nobody sees, or that change the order of others: `make assets` writes this file.

Each constant is the inside of a character class, from Unicode 17.0: spaces other than the ordinary one, and the
others, up to and above U+FFFF.
"""

SPACES = r"\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\ufffe-\uffff"
)
HIGH = (
    r"\U00013430-\U0001343f\U00013441-\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
