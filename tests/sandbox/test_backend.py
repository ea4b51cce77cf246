"""A backend is one class: calls run through one that only records, and no other module knows which there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import get_args

import pytest

from hilt.config import KEYS
from hilt.params import NetworkName
from hilt.parts import share
from hilt.runtime import Runtime
from hilt.sandbox import availability, backend
from hilt.sandbox.backend import Availability, Backend, Feature, FindProgram, Launch, Report, Start
from hilt.sandbox.network import NETWORKS, NONE, Network
from hilt.sandbox.profile import Profile
from hilt.sandbox.sandbox import Sandbox
from hilt.testing import environment


class Recorder(Backend):
    """Confines nothing, and records what it should confine."""

    name = "recorder"

    def __init__(self, *features: Feature, works: bool = True) -> None:
        self.confined: list[Profile] = []
        self.ended = 0
        self._found = Availability(self.name if works else "", f"{self.name} was asked.", features=features)

    def fingerprint(self, find: FindProgram) -> list[object]:
        return []

    def probe(self, state: str, find: FindProgram) -> Availability:
        return self._found

    @contextmanager
    def confine(self, profile: Profile, start: Start) -> Iterator[Launch]:
        self.confined.append(profile)
        yield Launch(("/usr/bin/env", "CONFINED=yes"), report=_Noted())
        self.ended += 1


class _Noted(Report):
    """Says that something was disarmed."""

    def notes(self) -> tuple[str, ...]:
        return ("a hook was renamed",)


@contextmanager
def running(base: Path, recorder: Recorder, **flags: object) -> Iterator[Runtime]:
    workspace, state = base / "workspace", base / "state"
    workspace.mkdir(exist_ok=True)
    state.mkdir(0o700, exist_ok=True)
    with closing(share(str(state), str(workspace))) as shared:
        shared.sandbox = Sandbox(str(state), [recorder])
        with Runtime(str(workspace), environ=environment(str(base)), flags=flags, shared=shared) as runtime:
            yield runtime


def test_a_call_runs_through_any_backend(tmp_path):
    recorder = Recorder("inner_paths")
    with running(tmp_path, recorder) as runtime:
        result = runtime.call("run_shell", command="echo $CONFINED; echo new > file")

    assert result.error is None
    assert "yes\n" in str(result.result)
    assert "[disarmed: a hook was renamed]" in str(result.result)
    [profile] = recorder.confined
    assert (profile.name, profile.network, profile.roots) == (
        "workspace-write",
        NONE,
        (os.path.realpath(tmp_path / "workspace"),),
    )
    assert recorder.ended == 1


def test_what_a_backend_cannot_enforce_is_asked_about(tmp_path):
    with running(tmp_path, Recorder()) as runtime:
        result = runtime.call("run_shell", command="true")

    assert result.error is not None
    assert result.error.code == "approval_required"
    assert "the sandbox is only partial" in result.error.message


def test_a_network_that_a_backend_lacks_is_refused(tmp_path):
    recorder = Recorder("inner_paths")
    with running(tmp_path, recorder) as runtime:
        result = runtime.call("run_shell", command="true", network="loopback")

    assert result.error is not None
    assert result.error.code == "sandbox_unavailable"
    assert result.error.message == "The loopback network is not supported here."
    assert recorder.confined == []


def test_the_strongest_backend_that_works_is_used(tmp_path):
    weak, strong, broken = Recorder(), Recorder("mounts"), Recorder(works=False)

    found = availability.probe(str(tmp_path), lambda name: None, [broken, strong, weak])

    assert found == strong.probe("", lambda name: None)._replace(facts="recorder was asked. recorder was asked.")


def test_without_a_backend_that_works_the_facts_of_all_are_the_reason(tmp_path):
    found = availability.probe(str(tmp_path), lambda name: None, [Recorder(works=False)] * 2)

    assert not found.works
    assert found.facts == "recorder was asked. recorder was asked."
    assert found.missing == ("files", "network", "processes")


@pytest.mark.parametrize("name", [name for names in backend.BACKENDS.values() for name in names])
def test_every_backend_of_the_list_has_its_module(name):
    assert backend.load(name).name == name


def test_every_kind_of_network_is_declared_once():
    names = get_args(NetworkName)

    assert tuple(NETWORKS) == names == KEYS["shell.network"].choices
    assert [network.name for network in NETWORKS.values()] == list(names)
    assert {network.needs for network in NETWORKS.values()} <= {None, *get_args(Feature)}
    assert isinstance(NETWORKS["none"], Network)
