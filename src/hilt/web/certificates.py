"""The trusted certificate authorities: those of the system, or those in SSL_CERT_FILE and SSL_CERT_DIR."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping
from functools import cache, lru_cache

from hilt.errors import ToolError
from hilt.installer import needs


def trusted(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for TLS connections; SSL_CERT_FILE and SSL_CERT_DIR override the system's authorities."""
    try:
        return _context(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR"))
    except OSError as error:
        raise ToolError(
            "network_error",
            f"Cannot read the certificates in SSL_CERT_FILE or SSL_CERT_DIR: {error.strerror or error}.",
            suggestion="Ask the user to correct the variable.",
        ) from error


@lru_cache(maxsize=4)  # loading the authorities takes longer than most requests
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    if not file and not folder and sys.platform == "darwin":
        with needs("web", "Connecting to the web"):
            import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context(cafile=file or None, capath=folder or None)


@cache  # for the same reason
def httpx_default() -> ssl.SSLContext:
    """Return the context that an httpx client loads by default, shared by all clients."""
    import httpx2

    return httpx2.create_ssl_context()
