"""A web client for tests: its own resolver and cache, and a record of contacts and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hilt.fence import Fence
from hilt.state.db import Database
from hilt.web.cache import MIGRATIONS, PageCache, StoredAnswer
from hilt.web.certificates import trusted
from hilt.web.client import Access, Web
from hilt.web.guard import NetworkGuard


class Reach:
    """Creates web clients and records their actions."""

    def __init__(
        self,
        folder: Path,
        allowed: Sequence[str] = (),
        names: Mapping[str, Sequence[str]] | None = None,
        authority: str = "",
        check: Callable[[str], None] = lambda url: None,
        keys: Mapping[str, str] | None = None,
        base_urls: Mapping[str, str] | None = None,
        resolve: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        self.resolved: list[str] = []
        self.contacts: list[str] = []
        self.admitted: list[tuple[str, bool]] = []
        self.fence = Fence()
        self._names = names or {}
        self._check = check
        self._access = Access(
            NetworkGuard(allowed, resolve or self._resolve),
            PageCache(Database(str(folder / "web.db"), MIGRATIONS, durable=False)),
            session="session",
            fence=self.fence,
            admit=self._admit,
            contacted=self.contacts.append,
            tls=lambda: trusted({"SSL_CERT_FILE": authority} if authority else {}),
            secret=(keys or {}).get,
            base_urls=base_urls or {},
        )

    @property
    def web(self) -> Web:
        """A web client for one more call."""
        return Web(self._access)

    def fetch(self, url: str, headers: Mapping[str, str] | None = None, **options: object) -> StoredAnswer:
        """Fetch a URL as a call would."""
        arguments: dict[str, object] = {
            "headers": headers or {},
            "authorization": None,
            "max_bytes": 500_000,
            **options,
        }
        return self.web.fetch(url, **arguments)  # type: ignore[arg-type]

    def _resolve(self, host: str) -> Sequence[str]:
        self.resolved.append(host)
        if host in self._names:
            return self._names[host]
        return [host] if host[-1].isdigit() or ":" in host else []

    def _admit(self, url: str, *, redirected: bool) -> None:
        self.admitted.append((url, redirected))
        self._check(url)
