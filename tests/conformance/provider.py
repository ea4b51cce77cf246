"""Resources and prompts for the conformance suite, as another part of hilt would provide them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.tools.content import PIXEL

POLL_SECONDS = 0.05

_TEXT = "This is the content of the static text resource."


class Fixtures:
    """The fixtures of the suite. Each line of the file `prompts` in the workspace adds a prompt."""

    def __init__(self, root: str) -> None:
        self._file = os.path.join(root, "prompts")

    def resources(self) -> list[dict[str, Any]]:
        return [
            {"uri": "test://static-text", "name": "static text", "mimeType": "text/plain"},
            {"uri": "test://static-binary", "name": "static binary", "mimeType": "image/png"},
            {"uri": "test://watched-resource", "name": "watched", "mimeType": "text/plain"},
        ]

    def templates(self) -> list[dict[str, Any]]:
        return [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]

    def read(self, uri: str) -> list[dict[str, Any]] | None:
        if uri in ("test://static-text", "test://watched-resource"):
            return [{"uri": uri, "mimeType": "text/plain", "text": _TEXT}]
        if uri == "test://static-binary":
            return [{"uri": uri, "mimeType": "image/png", "blob": PIXEL}]
        if uri.startswith("test://template/") and uri.endswith("/data"):
            id = uri.removeprefix("test://template/").removesuffix("/data")
            text = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
            return [{"uri": uri, "mimeType": "application/json", "text": text}]
        return None

    def prompts(self) -> list[dict[str, Any]]:
        arguments = [{"name": name, "description": name, "required": True} for name in ("arg1", "arg2")]
        resource = [{"name": "resourceUri", "description": "What to embed.", "required": True}]
        return [
            {"name": "test_simple_prompt", "description": "A simple prompt."},
            {"name": "test_prompt_with_arguments", "description": "One with arguments.", "arguments": arguments},
            {"name": "test_prompt_with_embedded_resource", "description": "One with text.", "arguments": resource},
            {"name": "test_prompt_with_image", "description": "One with a picture."},
            {"name": "test_input_required_result_prompt", "description": "One that asks first."},
            *({"name": f"another_{number}", "description": "One more."} for number in range(self._count())),
        ]

    def prompt(self, name: str, arguments: Mapping[str, str], responses: Mapping[str, Any]) -> dict[str, Any] | None:
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
        if name == "test_input_required_result_prompt":
            return _asking(responses.get("user_context"))
        return None

    def complete(self, ref: Mapping[str, Any], name: str, value: str) -> list[str]:
        return [word for word in ("paris", "park", "party") if word.startswith(value)]

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        ended = threading.Event()

        def poll() -> None:
            count = self._count()
            while not ended.wait(POLL_SECONDS):
                if self._count() != count:
                    count = self._count()
                    callback("prompts")

        threading.Thread(target=poll, daemon=True).start()
        return ended.set

    def _count(self) -> int:
        try:
            with open(self._file, encoding="utf-8") as file:
                return len(file.readlines())
        except FileNotFoundError:
            return 0


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
