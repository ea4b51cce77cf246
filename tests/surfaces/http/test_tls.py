"""HTTPS end to end, with a certificate made for the test."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from websockets.sync.client import connect

from tests.surfaces.commands import Command
from tests.surfaces.http.servers import WAIT_SECONDS, Server, serving
from tests.surfaces.mcp.hosts import run
from tests.web.servers import make_authority

HALF_OPEN = 700


class Encrypted(NamedTuple):
    """A server with HTTPS, and the TLS context with which clients trust its certificate."""

    server: Server
    trust: ssl.SSLContext

    def client(self, **headers: str) -> httpx2.Client:
        """Return a client that verifies the certificate."""
        authorization = {"Authorization": f"Bearer {self.server.token}"}
        return httpx2.Client(
            base_url=self.server.url, headers={**authorization, **headers}, timeout=WAIT_SECONDS, verify=self.trust
        )


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory) -> Iterator[Encrypted]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = make_authority(folder)
    authority.server("127.0.0.1", "localhost")
    (file,) = folder.glob("127.0.0.1-*.pem")
    command = Command(str(tmp_path_factory.mktemp("encrypted")))
    command.folder.write("a.txt", "hello\n")
    options = ("--tls-cert", str(file), "--tls-key", str(file))
    constants = ["hilt.surfaces.http.listening:HEAD_SECONDS=2", "hilt.surfaces.http.serving:CONNECTIONS_MAX=300"]
    with serving(command, *options, constants=constants) as server:
        yield Encrypted(server, ssl.create_default_context(cafile=authority.file))


def test_calls_and_events_are_encrypted(encrypted):
    server = encrypted.server
    with encrypted.client() as client:
        address = f"wss://127.0.0.1:{server.port}/v1/events"
        with connect(address, ssl=encrypted.trust, origin=server.url) as events:
            events.send(json.dumps({"token": server.token, "approver": False}))
            body = {"tool": "read_file", "args": {"path": "a.txt"}}
            answer = client.post("/v1/call", json=body).json()
            event = json.loads(events.recv(timeout=WAIT_SECONDS))
        page = client.get("/")

    assert server.url.startswith("https://")
    assert (answer["result"], event["tool"]) == ("1\thello", "read_file")
    assert f"wss://127.0.0.1:{server.port}" in page.headers["content-security-policy"]


def test_an_mcp_host_connects_over_https(encrypted):
    async def check() -> None:
        headers = {"Authorization": f"Bearer {encrypted.server.agents_token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS, verify=encrypted.trust) as http:
            transport = streamable_http_client(f"{encrypted.server.url}/mcp", http_client=http)
            async with Client(transport, mode="legacy") as client:
                result = await client.call_tool("read_file", {"path": "a.txt"})
                assert not result.is_error

    run(check())


@pytest.mark.parametrize("origin, status", [("https", 200), ("http", 403)])
def test_only_the_https_origin_is_accepted(encrypted, origin, status):
    with encrypted.client(Origin=f"{origin}://127.0.0.1:{encrypted.server.port}") as client:
        assert client.get("/v1/tools").status_code == status


def test_any_host_is_accepted_from_other_machines_and_an_origin_must_match_it(tmp_path):
    authority = make_authority(tmp_path)
    authority.server("127.0.0.1")
    (file,) = tmp_path.glob("127.0.0.1-*.pem")
    options = ("--host", "0.0.0.0", "--tls-cert", str(file), "--tls-key", str(file))
    with serving(Command(str(tmp_path)), *options) as server:
        host = f"box.example:{server.port}"
        origins = [f"https://{host}", None, f"http://{host}", "https://evil.example", "null"]
        statuses = [
            server.request("GET", "/v1/tools", headers={"Host": host, **({"Origin": origin} if origin else {})})
            for origin in origins
        ]

    assert [response.status_code for response in statuses] == [200, 200, 403, 403, 403]


def test_an_unencrypted_request_gets_no_response(encrypted):
    with pytest.raises(httpx2.HTTPError), httpx2.Client(timeout=WAIT_SECONDS) as client:
        client.get(f"http://127.0.0.1:{encrypted.server.port}/")


def test_an_old_protocol_version_is_refused(encrypted):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", encrypted.server.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain).recv(1)


def test_incomplete_handshakes_do_not_block_others_and_time_out(encrypted):
    with ExitStack() as stack:
        silent: list[socket.socket] = []
        for number in range(HALF_OPEN):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", encrypted.server.port)))
            with suppress(OSError):
                connection.sendall(b"\x16\x03\x01\x02\x00\x01"[: number % 7])
            silent.append(connection)
        with encrypted.client() as client:
            assert client.get("/v1/tools").status_code == 200
        for connection in silent[:20]:
            connection.settimeout(20)  # less than the default of the event loop
            with suppress(ConnectionResetError):
                while connection.recv(100):  # an alert may come first
                    pass
