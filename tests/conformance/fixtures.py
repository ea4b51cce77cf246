"""The server of hilt with the resources, prompts and completions that the conformance suite expects."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from hilt.runtime import Runtime
from hilt.surfaces.mcp.calls import Ctx
from hilt.surfaces.mcp.content import COMPLETE, Choice
from hilt.surfaces.mcp.resources import Resources
from hilt.surfaces.mcp.server import Serving
from hilt.surfaces.mcp.sessions import Session
from tests.conformance.tools.content import PIXEL

POLL_SECONDS = 0.05

_TEXT = "This is the content of the static text resource."


class FixtureResources(Resources):
    """The resources and prompts of hilt and of the suite. Each line of the file `prompts` adds a prompt."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._file = os.path.join(runtime.parts.root, "prompts")

    def all(self, session: str) -> list[dict[str, Any]]:
        return [
            {"uri": "test://static-text", "name": "static text", "mimeType": "text/plain"},
            {"uri": "test://static-binary", "name": "static binary", "mimeType": "image/png"},
            {"uri": "test://watched-resource", "name": "watched", "mimeType": "text/plain"},
            *super().all(session),
        ]

    def templates(self) -> list[dict[str, Any]]:
        own = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
        return [own, *super().templates()]

    def read(self, session: str, uri: str) -> list[dict[str, Any]]:
        if uri in ("test://static-text", "test://watched-resource"):
            return [{"uri": uri, "mimeType": "text/plain", "text": _TEXT}]
        if uri == "test://static-binary":
            return [{"uri": uri, "mimeType": "image/png", "blob": PIXEL}]
        if uri.startswith("test://template/") and uri.endswith("/data"):
            id = uri.removeprefix("test://template/").removesuffix("/data")
            text = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
            return [{"uri": uri, "mimeType": "application/json", "text": text}]
        return super().read(session, uri)

    def prompts(self) -> list[dict[str, Any]]:
        arguments = [{"name": name, "description": name, "required": True} for name in ("arg1", "arg2")]
        resource = [{"name": "resourceUri", "description": "What to embed.", "required": True}]
        return [
            {"name": "test_simple_prompt", "description": "A simple prompt."},
            {"name": "test_prompt_with_arguments", "description": "One with arguments.", "arguments": arguments},
            {"name": "test_prompt_with_embedded_resource", "description": "One with text.", "arguments": resource},
            {"name": "test_prompt_with_image", "description": "One with a picture."},
            {"name": "test_input_required_result_prompt", "description": "One that asks first."},
            *({"name": f"another_{number}", "description": "One more."} for number in range(self.count())),
            *super().prompts(),
        ]

    def prompt(self, session: str, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        if name == "test_simple_prompt":
            return _prompt(_text("This is a simple prompt for testing."))
        if name == "test_prompt_with_arguments":
            values = f"arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            return _prompt(_text(f"Prompt with arguments: {values}"))
        if name == "test_prompt_with_embedded_resource":
            text = "Embedded resource content for testing."
            resource = {"uri": arguments.get("resourceUri", ""), "mimeType": "text/plain", "text": text}
            request = _text("Please process the embedded resource above.")
            return _prompt({"type": "resource", "resource": resource}, request)
        if name == "test_prompt_with_image":
            image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            return _prompt(image, _text("Please analyze the image above."))
        return super().prompt(session, name, arguments)

    def count(self) -> int:
        """Return the number of lines in the file."""
        try:
            with open(self._file, encoding="utf-8") as file:
                return len(file.readlines())
        except FileNotFoundError:
            return 0


class FixtureServing(Serving):
    """The server of hilt with these resources, and what only the suite uses."""

    def __init__(self, runtime: Runtime, choice: Choice, *, single: Session | None) -> None:
        super().__init__(runtime, choice, single=single)
        self._resources = self._fixtures = FixtureResources(runtime)
        self.server.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)
        threading.Thread(target=self._poll, daemon=True).start()

    async def _get_prompt(self, ctx: Ctx, params: types.GetPromptRequestParams) -> dict[str, Any]:
        if params.name == "test_input_required_result_prompt":
            responses = (ctx.params or {}).get("inputResponses") or {}
            return {**COMPLETE, **_asking(responses.get("user_context"))}
        return await super()._get_prompt(ctx, params)

    async def _complete(self, ctx: Ctx, params: types.CompleteRequestParams) -> dict[str, Any]:
        words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return {**COMPLETE, "completion": {"values": words, "total": len(words), "hasMore": False}}

    def _poll(self) -> None:
        count = self._fixtures.count()
        while True:
            time.sleep(POLL_SECONDS)
            if self._fixtures.count() != count:
                count = self._fixtures.count()
                self.announce("prompts")


def _asking(answer: Any) -> dict[str, Any]:
    if answer is not None:
        return _prompt(_text(f"Mind this: {answer['content']['context']}"))
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    params = {"mode": "form", "message": "What context should the prompt use?", "requestedSchema": schema}
    requests = {"user_context": {"method": "elicitation/create", "params": params}}
    return {"resultType": "input_required", "inputRequests": requests}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _prompt(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}
