from __future__ import annotations

import json
import os
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode

from hilt.surfaces.http.app import EVENTS, MCP, ROUTES
from hilt.surfaces.http.openapi import document
from tests.surfaces.http.servers import Server

EXAMPLES = 200 if os.environ.get("HILT_STRESS") else 3
DOCUMENT = json.loads(json.dumps(document(ROUTES)))
# a call may run for long or ask; it has its own tests
SKIPPED = (EVENTS, "/v1/call")

SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


@SCHEMA.exclude(path=list(SKIPPED)).parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
def test_every_response_is_as_declared(case: Any, server: Server) -> None:
    case.call_and_validate(
        base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, verify=False, timeout=60
    )


def test_the_document_is_served_and_is_valid(server):
    served = server.get("/openapi.json", token=server.agents_token)

    assert served == DOCUMENT
    assert served["openapi"].startswith("3.1")
    for path in served["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                for content in response.get("content", {}).values():
                    jsonschema_rs.meta.validate(content["schema"])


def test_the_document_has_every_path_and_each_operation_one_name():
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]

    assert len(names) == len(set(names)) == len(ROUTES)
    assert MCP not in DOCUMENT["paths"]  # it has its own protocol


@pytest.mark.parametrize("title", ["\x1d", "\x9d", " \t", "\u200b\u202e", "\x0b\u2028"])
def test_a_title_without_visible_characters_is_invalid_as_declared(server, title):
    schema = DOCUMENT["paths"]["/v1/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"]

    server.post("/v1/tasks", {"title": title}, status=422)

    assert not jsonschema_rs.is_valid(schema, {"title": title})
    assert jsonschema_rs.is_valid(schema, {"title": f"{title}x"})


@pytest.mark.parametrize("method", ["PUT", "TRACE", "OPTIONS", "HEAD"])
def test_other_methods_are_rejected_with_the_allowed_ones(server, method):
    response = server.request(method, "/v1/tasks")

    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")
