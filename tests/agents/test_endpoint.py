"""The check of a model's server and key, alone and in `hilt doctor`, and `hilt run` without a model."""

from __future__ import annotations

import json
import re
import socket

import pytest

from hilt.agents.endpoint import check_endpoint
from hilt.agents.prices import find_pricing
from hilt.agents.starting import ModelChoice
from tests.surfaces.commands import Command
from tests.web.servers import answer, redirect, serving


@pytest.fixture
def command(tmp_path) -> Command:
    """The command hilt without a model."""
    return Command(str(tmp_path))


def choice(base_url: str | None, name: str = "openai:scripted", key: str | None = "right") -> ModelChoice:
    return ModelChoice(name, base_url, "SOME_KEY", key)


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "openai-responses", "anthropic"])
def test_a_server_that_accepts_the_key_and_has_the_model_is_ok(model_server, provider):
    server = model_server(key="right")
    url = server.url if provider == "anthropic" else server.openai_url

    state = check_endpoint(choice(url, f"{provider}:scripted"))

    assert state.kind == "ok"
    (request,) = server.requests
    assert (request.method, request.path.partition("?")[0]) == ("GET", "/v1/models")


@pytest.mark.parametrize("key", ["wrong", None])
def test_a_rejected_key_is_named_by_its_variable_and_never_shown(model_server, key):
    server = model_server(key="right")

    state = check_endpoint(choice(server.openai_url, key=key))

    assert state.kind == "refused"
    assert "401" in state.fact
    assert ("SOME_KEY" in state.fact) is (key is not None)
    assert "wrong" not in state.fact


def test_a_model_that_the_server_does_not_list_is_reported(model_server):
    state = check_endpoint(choice(model_server().openai_url, "openai:another"))

    assert (state.kind, "another" in state.fact) == ("unlisted", True)


def test_an_unreachable_server_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert check_endpoint(choice(f"http://127.0.0.1:{port}/v1")).kind == "unreachable"


def test_a_server_that_never_answers_times_out():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

        assert check_endpoint(choice(url), seconds=0.1).kind == "unreachable"


@pytest.mark.parametrize("url", ["not a url", "http://", "ftp://127.0.0.1/", "http://[::1", "http://a b/"])
def test_an_invalid_base_url_is_reported(url):
    assert check_endpoint(choice(url)).kind == "unreachable"


def test_the_key_goes_to_the_configured_server_only():
    with serving(answer("{}", kind="application/json")) as other, serving(redirect(other.url())) as site:
        state = check_endpoint(choice(site.url("/v1")))

        assert state.kind == "unreachable"
        assert len(site.requests) == 1
        assert other.requests == []


def test_a_server_without_a_list_of_models_is_ok():
    with serving(answer("no", status="404 Not Found")) as site:
        assert check_endpoint(choice(site.url("/v1"))).kind == "ok"


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"data": 3}', '{"data": [{}]}', "<html>", "[" * 100_000])
def test_an_odd_list_of_models_is_ignored(body):
    with serving(answer(body, kind="application/json")) as site:
        assert check_endpoint(choice(site.url("/v1"))).kind == "ok"


def test_other_providers_are_not_contacted():
    assert check_endpoint(choice(None, "bedrock:some-model")).kind == "unchecked"


# --- hilt doctor ------------------------------------------------------------------------------------------------------


def model_finding(command: Command) -> dict[str, str]:
    findings = json.loads(command.run("doctor", "--json").stdout)
    (finding,) = [finding for finding in findings if finding["name"] == "model"]
    return dict(finding)


def test_doctor_connects_to_no_server_without_a_model(command):
    finding = model_finding(command)

    assert finding["level"] == "missing"
    assert "HILT_MODEL" in finding["remedy"]


def test_doctor_says_that_the_key_is_missing(command):
    command.environ["HILT_MODEL"] = "anthropic:claude-sonnet-5-5"

    finding = model_finding(command)

    assert finding["level"] == "wrong"
    assert "ANTHROPIC_API_KEY" in finding["fact"]


@pytest.mark.parametrize("key, level", [("right", "ok"), ("wrong", "wrong")])
def test_doctor_checks_the_key_with_the_server(command, model_server, key, level):
    server = model_server(key="right")
    command.environ |= {
        "HILT_MODEL": "openai:scripted",
        "HILT_MODEL_BASE_URL": server.openai_url,
        "OPENAI_API_KEY": key,
    }

    finding = model_finding(command)

    assert finding["level"] == level
    assert "wrong" not in finding["fact"]


def test_doctor_accepts_a_program_in_place_of_a_model(command):
    command.environ["HILT_AGENT_COMMAND"] = "cat"

    assert model_finding(command)["level"] == "ok"


# --- the first minute -------------------------------------------------------------------------------------------------


def test_without_a_model_a_run_says_what_to_set_for_three_providers_and_a_local_server(command):
    done = command.run("run", "Hello")

    text = done.stderr.decode()
    lines = re.findall(r"export HILT_MODEL=(\S+) (\S+)=", text)
    assert done.returncode == 2
    assert "no_model" in text
    assert [variable for _, variable in lines] == [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "HILT_MODEL_BASE_URL",
    ]
    for model, _ in lines[:3]:
        assert find_pricing(model, None, {}) is not None, model
    assert command.environ["HILT_CONFIG_DIR"] in text


@pytest.mark.parametrize("line", range(3))
def test_each_line_of_the_advice_names_the_variable_of_its_model(command, line):
    text = command.run("run", "Hello").stderr.decode()
    model, variable = re.findall(r"export HILT_MODEL=(\S+) (\S+)=", text)[line]
    command.environ |= {"HILT_MODEL": model}

    without_key = command.run("run", "Hello", "--json")

    assert without_key.returncode == 2
    assert variable in json.loads(without_key.stdout.splitlines()[-1])["message"]
