"""Removes secrets from text: values of the user's key variables, and tokens of known formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hilt.call import Json

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_AUTH|_PAT$|DSN$|DATABASE_URL$", re.IGNORECASE)
_SHORTEST = 8  # shorter values occur by chance
_PLAIN = re.compile(r"true|false|\d{1,8}|(?:/[\w.-]+)+|[a-z]{1,12}", re.IGNORECASE)  # settings and paths, no secrets
_FORMATS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}"
    r"|tvly-[A-Za-z0-9-]{20,}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
# binary and signed data: nothing that a person reads, and worthless if changed
_OPAQUE = frozenset({"data", "signature", "encrypted_content"})


class Redactor:
    """Replaces secrets in text and JSON by `[redacted]`, with the name of the variable if one holds them."""

    def __init__(self, environ: Mapping[str, str], named: Iterable[str] = ()) -> None:
        """Redact the values of variables whose names say that they are secret, and of those in `named`."""
        always = set(named)
        self._names = {
            value: name
            for name, value in environ.items()
            if len(value) >= _SHORTEST and (name in always or _SECRET_NAME.search(name)) and not _PLAIN.fullmatch(value)
        }
        longest_first = sorted(self._names, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if self._values is not None:
            text = self._values.sub(lambda match: f"[redacted: {self._names[match[0]]}]", text)
        return _FORMATS.sub("[redacted]", text)

    def json(self, value: Json) -> Json:
        """Return a JSON value whose strings have no secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key): inner if key in _OPAQUE and isinstance(inner, str) else self.json(inner)
                for key, inner in value.items()
            }
        return [self.json(inner) for inner in value] if isinstance(value, list) else value
