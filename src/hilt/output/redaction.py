"""Removes secrets from text: values of the user's key variables, and tokens of known formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii

from hilt.call import Json

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_AUTH|_PAT$|DSN$|DATABASE_URL$", re.IGNORECASE)
_MIN_LENGTH = 8  # shorter values occur by chance
_PLAIN = re.compile(r"true|false|\d{1,8}|(?:/[\w.-]+)+|[a-z]{1,12}", re.IGNORECASE)  # settings and paths, not secrets
# prefix of a token -> pattern of the remainder
_TOKENS = {
    "sk-": "[A-Za-z0-9_-]{20,}",
    **{f"{kind}k_{stage}_": "[A-Za-z0-9]{16,}" for kind in "sr" for stage in ("live", "test")},
    **{f"gh{kind}_": "[A-Za-z0-9]{30,}" for kind in "opsur"},
    "github_pat_": "[A-Za-z0-9_]{22,}",
    "glpat-": "[A-Za-z0-9_-]{20,}",
    "AKIA": "[0-9A-Z]{16}",
    "ASIA": "[0-9A-Z]{16}",
    "AIza": "[0-9A-Za-z_-]{35}",
    "xox": "[abeoprs]-[A-Za-z0-9-]{10,}",
    "npm_": "[A-Za-z0-9]{30,}",
    "hf_": "[A-Za-z0-9]{30,}",
    "pypi-": "[A-Za-z0-9_-]{50,}",
    "tvly-": "[A-Za-z0-9-]{20,}",
    "eyJ": r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
}
_KEY = "-----BEGIN "
_FORMATS = re.compile(
    rf"\b(?:{'|'.join(prefix + pattern for prefix, pattern in _TOKENS.items())})"
    rf"|{_KEY}[A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_PREFIXES = (*_TOKENS, _KEY)  # looking for these is much faster than the pattern
# binary and signed data: not for people, and useless if changed
_OPAQUE = frozenset({"data", "signature", "encrypted_content"})


class Redactor:
    """Replaces secrets in text and JSON by `[redacted]`, with the name of the variable if one holds them."""

    def __init__(self, environ: Mapping[str, str], secret_names: Iterable[str] = ()) -> None:
        """Redact the values of variables whose names suggest a secret, and of those in `secret_names`."""
        always = set(secret_names)
        self._names = {
            value: name
            for name, value in environ.items()
            if len(value) >= _MIN_LENGTH
            and (name in always or _SECRET_NAME.search(name))
            and not _PLAIN.fullmatch(value)
        }
        longest_first = sorted(self._names, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._signs = (*(encode_basestring_ascii(value)[1:-1] for value in longest_first), *_PREFIXES)

    def is_clean(self, text: str) -> bool:
        """Whether ASCII JSON certainly contains no secret; JSON escapes do not affect tokens."""
        return not any(map(text.__contains__, self._signs))

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if self._values is not None:
            text = self._values.sub(lambda match: f"[redacted: {self._names[match[0]]}]", text)
        return _FORMATS.sub("[redacted]", text) if any(map(text.__contains__, _PREFIXES)) else text

    def json(self, value: Json) -> Json:
        """Return a JSON value whose strings have no secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key): inner if key in _OPAQUE and isinstance(inner, str) else self.json(inner)
                for key, inner in value.items()
            }
        return [self.json(inner) for inner in value] if isinstance(value, list | tuple) else value
