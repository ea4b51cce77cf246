"""Which certificate authorities are trusted: those of the system, or those that the environment names."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping
from functools import lru_cache

from hilt.errors import ToolError


def trusted(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for TLS connections; SSL_CERT_FILE and SSL_CERT_DIR count as they do for other programs."""
    try:
        return _context(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR"))
    except OSError as error:
        raise ToolError(
            "network_error",
            f"The certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error.strerror or error}.",
            suggestion="Ask the user to correct the variable.",
        ) from error


@lru_cache(maxsize=4)  # reading all authorities takes longer than most requests
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    if not file and not folder and sys.platform == "darwin":
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context(cafile=file or None, capath=folder or None)
