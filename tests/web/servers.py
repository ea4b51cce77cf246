"""Real servers on loopback for web tests: the test sets every byte of their responses."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple


class Request(NamedTuple):
    """A request as it arrived; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Responder = Callable[[Request], bytes | Iterable[bytes]]


class Site:
    """A server; `requests` has what it received, `names` the names that TLS clients requested."""

    def __init__(self, answer: Responder, tls: ssl.SSLContext | None, host: str) -> None:
        self.requests: list[Request] = []
        self.names: list[str | None] = []
        self._answer = answer
        self._tls = tls
        if tls is not None:
            tls.sni_callback = lambda connection, name, context: self.names.append(name)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def place(self) -> str:
        """The address as HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def url(self, path: str = "/", host: str | None = None) -> str:
        """Return a URL of the site."""
        place = self.place if host is None else f"{host}:{self.port}"
        return f"{'https' if self._tls else 'http'}://{place}{path}"

    def close(self) -> None:
        """End the server and every connection."""
        for connection in (self._listener, *self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._connections.append(connection)
            request = _read(connection)
            if request is not None:
                self.requests.append(request)
                answer = self._answer(request)
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        connection.close()


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)


@contextmanager
def serving(answer: Responder | bytes, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[Site]:
    """Run a server that sends `answer` to every request."""
    site = Site(answer if callable(answer) else lambda request: answer, tls, host)
    try:
        yield site
    finally:
        site.close()


def answer(
    body: bytes | str = b"", kind: str = "text/html; charset=utf-8", status: str = "200 OK", **fields: str
) -> bytes:
    """Return a complete response; underscores in header names become dashes."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", *([f"Content-Type: {kind}"] if kind else []), f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    """Return a redirect."""
    return answer("moved", status=status, Location=location)


class Authority(NamedTuple):
    """A certificate authority: its certificate file, and server contexts by name."""

    file: str
    server: Callable[..., ssl.SSLContext]


def make_authority(folder: Path) -> Authority:
    """Make a certificate authority whose files are in a folder."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)

    def name_of(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    root_key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = (
        x509.CertificateBuilder(name_of("test authority"), name_of("test authority"), root_key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    file = folder / "authority.pem"
    file.write_bytes(root.public_bytes(serialization.Encoding.PEM))

    def server(*names: str, expired: bool = False) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [
            x509.IPAddress(ip_address(name)) if name[0].isdigit() or ":" in name else x509.DNSName(name)
            for name in names
        ]
        issuer = x509.SubjectKeyIdentifier.from_public_key(root_key.public_key())
        leaf = (
            x509.CertificateBuilder(root.subject, name_of(names[0]), key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=-1 if expired else 1))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
            .sign(root_key, hashes.SHA256())
        )
        path = folder / f"{names[0].replace(':', '_')}-{leaf.serial_number}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(leaf.public_bytes(serialization.Encoding.PEM) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    return Authority(str(file), server)
