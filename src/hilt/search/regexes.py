"""Regular expressions in ripgrep's syntax: validated, and translated to Python's.

    pattern    = branch *( "|" branch )
    branch     = *( atom [ repeat ] | "(?" flags ")" )
    repeat     = ( "*" | "+" | "?" | "{" n [ "," [ m ] ] "}" ) [ "?" ]
    atom       = character | "." | "^" | "$" | escape | class | "(" [ opening ] pattern ")"
    opening    = "?:" | "?P<" name ">" | "?<" name ">" | "?" flags ":"

This module handles where the two syntaxes differ. Look-around and back-references are rejected, because a linear-time
search cannot support them. Lines end with LF or CRLF, but only with LF for a pattern that contains a carriage return.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

NESTING_MAX = 100
REPEAT_MAX = 1_000_000

# invalid bytes are decoded as these; no character class contains them
_STRAY = "\udc80-\udcff"
_SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_SETS = {"d": "\\d", "w": "\\w", "s": _SPACE}
_ASCII_SETS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t-\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_PUNCTUATION = frozenset("\\.+*?()|[]{}^$#&-~/!\"%',:;=@_`<> ")


class BadPattern(ValueError):
    """An invalid pattern: what is wrong, and where."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position


class RegexFlags(NamedTuple):
    """The flags i, m, s, U and x."""

    ignore_case: bool = False
    lines: bool = True
    dot_all: bool = False
    lazy: bool = False
    verbose: bool = False


_LETTERS = {"i": "ignore_case", "m": "lines", "s": "dot_all", "U": "lazy", "x": "verbose"}


class TranslatedRegex(NamedTuple):
    """A pattern for Python's `re`, its number of groups, and the names of named groups."""

    source: str
    groups: int
    names: tuple[str, ...]
    unsupported: str | None  # the part that Python does not support
    line_ends: bool  # whether it contains an explicit line feed
    returns: bool  # whether it contains an explicit carriage return
    verbose: bool  # whether whitespace and comments at its end are ignored


def translate(pattern: str, *, ignore_case: bool = False, lines: bool = True, crlf: bool = True) -> TranslatedRegex:
    """Parse a pattern; with `lines`, `^` and `$` match at every line; with `crlf`, lines may end with CRLF."""
    reader = _Reader(pattern, crlf=crlf)
    source = reader.alternatives(RegexFlags(ignore_case=ignore_case, lines=lines), depth=0)
    if reader.at < len(pattern):
        raise BadPattern("there is a ) without its (", reader.at)
    return TranslatedRegex(
        source, reader.groups, tuple(reader.names), reader.unsupported, reader.line_ends, reader.returns, reader.verbose
    )


class _Reader:
    """Parses a pattern from left to right and translates it to Python's syntax."""

    def __init__(self, pattern: str, *, crlf: bool) -> None:
        self.pattern = pattern
        self._crlf = crlf
        self.at = 0
        self.groups = 0
        self.names: list[str] = []
        self.unsupported: str | None = None
        self.line_ends = False
        self.returns = False
        self.verbose = False

    def alternatives(self, flags: RegexFlags, depth: int) -> str:
        """Parse up to the end or the parenthesis that closes this group."""
        if depth > NESTING_MAX:
            raise BadPattern(f"groups are nested deeper than {NESTING_MAX}", self.at)
        branches = [""]
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            if character == ")":
                break
            if character == "|":
                self.at += 1
                branches.append("")
            elif flags.verbose and self._skip_blank():
                continue
            else:
                start = self.at
                atom, flags = self._atom(flags, depth)
                branches[-1] += self._repeated(atom, flags, start)
        self.verbose = flags.verbose
        return "|".join(branches)

    def _skip_blank(self) -> bool:
        if self.pattern[self.at].isspace():
            self.at += 1
            return True
        if self.pattern[self.at] == "#":
            end = self.pattern.find("\n", self.at)
            self.at = len(self.pattern) if end < 0 else end
            return True
        return False

    # --- atoms ----------------------------------------------------------------------------------------------------

    def _atom(self, flags: RegexFlags, depth: int) -> tuple[str | None, RegexFlags]:
        at = self.at
        character = self.pattern[at]
        self.at += 1
        if character == "(":
            return self._group(flags, depth, at)
        if character == "[":
            return self._cased(self._class(at), flags), flags
        if character == "\\":
            return self._cased(self._escape(at), flags), flags
        if character == ".":
            ends = "" if flags.dot_all else "\\n\\r" if self._crlf else "\\n"
            return f"[^{ends}{_STRAY}]", flags
        if character == "^":
            start = r"(?:(?<![\s\S])|(?<=\n)|(?<=\r)(?!\n))" if self._crlf else r"(?:(?<![\s\S])|(?<=\n))"
            return (start if flags.lines else r"\A"), flags
        if character == "$":
            end = r"(?:(?=\r)|(?<!\r)(?=\n)|\Z)" if self._crlf else r"(?:(?=\n)|\Z)"
            return (end if flags.lines else r"\Z"), flags
        if character in "*+?":
            raise BadPattern(f"there is nothing before the {character} to repeat", at)
        if character == "{":
            raise BadPattern("there is nothing before the { to repeat", at)
        self._note_line_ends(character)
        return self._cased(re.escape(character), flags), flags

    def _note_line_ends(self, character: str) -> None:
        self.line_ends = self.line_ends or character == "\n"
        self.returns = self.returns or character == "\r"

    def _cased(self, atom: str, flags: RegexFlags) -> str:
        return f"(?i:{atom})" if flags.ignore_case else atom

    def _group(self, flags: RegexFlags, depth: int, start: int) -> tuple[str | None, RegexFlags]:
        opening = "("
        inner = flags
        if self._take("?"):
            if self._take("P<") or (self.pattern[self.at : self.at + 2] not in ("<=", "<!") and self._take("<")):
                opening = self._named_group()
            elif self._take(":"):
                opening = "(?:"
            elif self.pattern[self.at : self.at + 1] in ("=", "!", "<"):
                raise BadPattern("look-ahead and look-behind are not supported", start)
            else:
                inner, ended = self._flags(flags)
                if ended:
                    return None, inner
                opening = "(?:"
        else:
            self.groups += 1
        body = self.alternatives(inner, depth + 1)
        if not self._take(")"):
            raise BadPattern("the ( is not closed", start)
        return f"{opening}{body})", flags

    def _named_group(self) -> str:
        start = self.at
        end = self.pattern.find(">", start)
        name = self.pattern[start:end] if end >= 0 else ""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.\[\]]*", name):
            if end >= 0 and name and (name[0].isalpha() or name[0] == "_"):
                self.unsupported = f"the group name {name!r}"  # letters of other scripts
            else:
                raise BadPattern("a group needs a name of letters, digits and _", start)
        if name in self.names:
            raise BadPattern(f"there are two groups called {name}", start)
        self.at = end + 1
        self.groups += 1
        self.names.append(name)
        return f"(?P<{name}>"

    def _flags(self, flags: RegexFlags) -> tuple[RegexFlags, bool]:
        start = self.at
        on = True
        while self.at < len(self.pattern):
            letter = self.pattern[self.at]
            self.at += 1
            if letter in (")", ":") and self.at - 1 > start and self.pattern[self.at - 2] != "-":
                return flags, letter == ")"
            if letter == "-" and on:
                on = False
            elif letter in _LETTERS:
                flags = flags._replace(**{_LETTERS[letter]: on})
            elif letter in ("u", "R"):
                if on != (letter == "u"):
                    self.unsupported = f"the flag {'' if on else '-'}{letter}"
            else:
                raise BadPattern(f"there is no flag {letter!r}", self.at - 1)
        raise BadPattern("the ( is not closed", start - 2)

    def _take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    # --- repetition -----------------------------------------------------------------------------------------------

    def _repeated(self, atom: str | None, flags: RegexFlags, start: int) -> str:
        if atom is None:  # flags, which match no text
            return ""
        while self.at < len(self.pattern):
            while flags.verbose and self.at < len(self.pattern) and self._skip_blank():
                pass
            operator = self._operator()
            if operator is None:
                break
            lazy = self._take("?") != flags.lazy
            # grouped, because a second operator has another meaning in Python
            atom = f"(?:{atom}){operator}{'?' if lazy else ''}"
        return atom

    def _operator(self) -> str | None:
        start = self.at
        if self.at >= len(self.pattern):
            return None
        if self.pattern[self.at] in "*+?":
            self.at += 1
            return self.pattern[start]
        if not self._take("{"):
            return None
        end = self.pattern.find("}", self.at)
        count = re.fullmatch(r"\s*([0-9]*)\s*(?:(,)\s*([0-9]*)\s*)?", self.pattern[self.at : end]) if end >= 0 else None
        if count is None or not count[1]:
            raise BadPattern("the { is not a count such as {2}, {2,} or {2,5}", start)
        if any(number and (len(number) > 9 or int(number) > REPEAT_MAX) for number in (count[1], count[3])):
            raise BadPattern("the count is too large", start)
        if count[3] and int(count[1]) > int(count[3]):
            raise BadPattern(f"the count runs backwards, from {count[1]} to {count[3]}", start)
        self.at = end + 1
        return "{" + count[1] + (count[2] or "") + (count[3] or "") + "}"

    # --- escapes and classes --------------------------------------------------------------------------------------

    def _escape(self, start: int) -> str:
        if self.at >= len(self.pattern):
            raise BadPattern("a backslash ends the pattern", start)
        letter = self.pattern[self.at]
        if letter.lower() in _SETS:
            self.at += 1
            inside = _SETS[letter.lower()]
            return f"[{inside}]" if letter.islower() else f"[^{inside}{_STRAY}]"
        if letter in "bB":
            self.at += 1
            if letter == "b" and self.pattern.startswith("{", self.at):
                return self._word_edge(start)
            return f"\\{letter}"
        if letter in "<>":
            self.at += 1
            return r"(?:\b(?=\w))" if letter == "<" else r"(?:\b(?<=\w))"
        if letter in "Az":
            self.at += 1
            return "\\A" if letter == "A" else "\\Z"
        if letter in "pP":
            self._property(start)
            return "."
        if letter.isdigit() and letter.isascii():
            raise BadPattern("references to groups are not supported in a pattern", start)
        return re.escape(self._character(start))

    def _word_edge(self, start: int) -> str:
        edges = {
            "{start}": r"(?:\b(?=\w))",
            "{end}": r"(?:\b(?<=\w))",
            "{start-half}": r"(?<!\w)",
            "{end-half}": r"(?!\w)",
        }
        for edge, source in edges.items():
            if self._take(edge):
                return source
        return "\\b"  # a count may follow

    def _property(self, start: int) -> None:
        self.at += 1
        if self._take("{"):
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise BadPattern("the { is not closed", start)
            self.at = end + 1
        elif self.at < len(self.pattern):
            self.at += 1
        else:
            raise BadPattern("a backslash ends the pattern", start)
        self.unsupported = f"the Unicode property {self.pattern[start : self.at]}"

    def _character(self, start: int) -> str:
        """Parse the rest of an escape for one character."""
        letter = self.pattern[self.at]
        self.at += 1
        if letter in _CONTROLS:
            self._note_line_ends(_CONTROLS[letter])
            return _CONTROLS[letter]
        if letter in "xuU":
            return self._code_point(letter, start)
        if letter in _PUNCTUATION:
            return letter
        raise BadPattern(f"there is no escape \\{letter}", start)

    def _code_point(self, letter: str, start: int) -> str:
        if self._take("{"):
            end = self.pattern.find("}", self.at)
            digits = self.pattern[self.at : end] if end >= 0 else ""
            self.at = end + 1
        else:
            size = {"x": 2, "u": 4, "U": 8}[letter]
            digits = self.pattern[self.at : self.at + size]
            self.at += size
            if len(digits) < size:
                digits = ""
        if not re.fullmatch(r"[0-9A-Fa-f]{1,8}", digits) or not _is_scalar(int(digits, 16)):
            raise BadPattern(f"\\{letter} needs a hexadecimal character code", start)
        character = chr(int(digits, 16))
        self._note_line_ends(character)
        return character

    def _class(self, start: int) -> str:
        negated = self._take("^")
        line_ends = self.line_ends
        parts: list[str] = []
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise BadPattern("the [ is not closed", start)
            character = self.pattern[self.at]
            if character == "]" and not first:
                self.at += 1
                break
            first = False
            if character == "[":
                parts.append(self._nested(start))
            elif self.pattern[self.at : self.at + 2] in ("&&", "--", "~~"):
                self.unsupported = f"the operator {self.pattern[self.at : self.at + 2]} in a class"
                self.at += 2
            else:
                parts.append(self._range(start))
        inside = "".join(parts)
        if negated:
            self.line_ends = line_ends
        return f"[^{inside}{_STRAY}]" if negated else f"[{inside}]"

    def _nested(self, start: int) -> str:
        named = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.pattern, self.at)
        if named is not None and named[2] in _ASCII_SETS:
            self.at = named.end()
            if named[1]:
                self.unsupported = f"the class {named[0]}"
            return _ASCII_SETS[named[2]]
        self.at += 1
        self._class(self.at - 1)
        self.unsupported = "a class inside a class"
        return ""

    def _range(self, start: int) -> str:
        at = self.at
        low = self._member(start)
        if self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in ("]", "-", ""):
            self.at += 1
            high = self._member(start)
            if len(low) > 1 or len(high) > 1:
                raise BadPattern("a range needs a single character at each end", at)
            if high < low:
                raise BadPattern("the range runs backwards", at)
            return f"{re.escape(low)}-{re.escape(high)}"
        return low if len(low) > 1 else re.escape(low)

    def _member(self, start: int) -> str:
        """Parse one member of a class: a character, or the source of a set."""
        at = self.at
        if at >= len(self.pattern):
            raise BadPattern("the [ is not closed", start)
        character = self.pattern[at]
        self.at += 1
        if character != "\\":
            self._note_line_ends(character)
            return character
        if self.at >= len(self.pattern):
            raise BadPattern("a backslash ends the pattern", at)
        letter = self.pattern[self.at]
        if letter.lower() in _SETS:
            self.at += 1
            if letter.islower():
                return _SETS[letter]
            if letter == "S":
                self.unsupported = "\\S inside a class"
            return f"\\{letter}"
        if letter in "pP":
            self._property(at)
            return "pp"
        if letter.isdigit() and letter.isascii():
            raise BadPattern("references to groups are not supported in a pattern", at)
        return self._character(at)


def _is_scalar(code: int) -> bool:
    return code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF


# --- replacements ---------------------------------------------------------------------------------------------------

_REFERENCE = re.compile(r"\$(?:(\$)|([0-9A-Za-z_]+)|\{([^}]{0,100})\})")


def references(replacement: str) -> list[tuple[str, int]]:
    """Return the groups that a replacement refers to, each with its position."""
    names = ((match[2] or match[3], match.start()) for match in _REFERENCE.finditer(replacement) if not match[1])
    return [(name, at) for name, at in names if name is not None]


def braced(replacement: str, names: Collection[str]) -> str:
    """Return the replacement with ${1}x for $1x, which would otherwise refer to a group 1x."""

    def value(reference: re.Match[str]) -> str:
        name = reference[2] or ""
        number = name[: len(name) - len(name.lstrip("0123456789"))]
        return reference[0] if not number or number == name or name in names else f"${{{number}}}{name[len(number) :]}"

    return _REFERENCE.sub(value, replacement)


def expanded(replacement: str, match: re.Match[str]) -> str:
    """Return the replacement of a match."""

    def value(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        if not name:
            return reference[0]
        try:
            return match[int(name) if name.isdigit() else name] or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(value, replacement)
