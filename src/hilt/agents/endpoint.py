"""Checks the server of a model: is it reachable, does it accept the key, does it list the model?

This connects to the configured server and nowhere else: redirects are not followed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from hilt.agents.starting import ModelChoice

SECONDS = 5.0

_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"
_BASE_URLS = {
    "anthropic": _ANTHROPIC,
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "openrouter": "https://openrouter.ai/api/v1",
}


class EndpointState(NamedTuple):
    """What the server of a model answered."""

    kind: Literal["ok", "unchecked", "unreachable", "refused", "unlisted"]
    fact: str


def check_endpoint(choice: ModelChoice, seconds: float = SECONDS) -> EndpointState:
    """Request the list of models from the server of a model, with the configured key."""
    provider, _, name = choice.name.partition(":")
    base_url = choice.base_url or _BASE_URLS.get(provider)
    if base_url is None or provider not in _BASE_URLS:
        return EndpointState("unchecked", f"{choice.name} is set; its server was not checked")
    import httpx2

    is_anthropic = provider == "anthropic"
    url = base_url.rstrip("/") + ("/v1/models?limit=1000" if is_anthropic else "/models")
    headers = {"anthropic-version": "2023-06-01"} if is_anthropic else {}
    if choice.key:
        headers |= {"x-api-key": choice.key} if is_anthropic else {"authorization": f"Bearer {choice.key}"}
    host = ""
    try:
        host = httpx2.URL(url).netloc.decode("ascii", "replace")
        response = httpx2.get(url, headers=headers, timeout=seconds, follow_redirects=False)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return EndpointState("unreachable", f"{host or base_url} cannot be reached: {error!s:.200}")
    status = response.status_code
    if status in (401, 403):
        source = f"the key in {choice.key_variable}" if choice.key else "a request without a key"
        return EndpointState("refused", f"{host} rejects {source} (status {status})")
    if status != 200:
        # not every compatible server has a list of models
        return EndpointState("ok" if status == 404 else "unreachable", f"{host} returned status {status}")
    models = _models(response)
    if models and not any(model == name or model.startswith(f"{name}-") for model in models):
        return EndpointState("unlisted", f"{host} accepts the key, but does not list the model {name}")
    return EndpointState("ok", f"{choice.name} at {host}")


def _models(response: Any) -> list[str]:
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
