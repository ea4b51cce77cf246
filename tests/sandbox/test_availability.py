"""Which sandbox is detected, and that the result is cached until something changes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hilt.errors import ToolError
from hilt.sandbox import availability, bubblewrap
from hilt.sandbox.backend import Availability, Launch
from hilt.sandbox.profile import Profile
from hilt.sandbox.sandbox import Sandbox
from hilt.surroundings import Surroundings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="probes Linux")
needs_bubblewrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")


def program(folder: Path, text: str = "#!/bin/sh\nexit 1\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    file = folder / "bwrap"
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.fixture
def only(monkeypatch, tmp_path):
    """A system whose only programs are those that the test puts into this folder."""
    monkeypatch.setattr(bubblewrap, "_SYSTEM_FOLDERS", (str(tmp_path / "bin"),))
    return tmp_path / "bin"


@needs_bubblewrap
def test_bubblewrap_is_found_and_the_result_is_cached(tmp_path):
    first = Sandbox(str(tmp_path)).availability()
    assert (first.backend, first.missing, first.remedy) == ("bubblewrap", (), "")

    record = json.loads((tmp_path / "sandbox.json").read_bytes())
    record["availability"]["facts"] = "remembered"
    (tmp_path / "sandbox.json").write_text(json.dumps(record))

    assert Sandbox(str(tmp_path)).availability() == first._replace(facts="remembered")


@needs_bubblewrap
def test_a_program_that_can_no_longer_be_confined_ends_the_cached_result(tmp_path):
    sandbox = Sandbox(str(tmp_path))
    assert sandbox.availability().backend == "bubblewrap"
    confined = profile(tmp_path)
    with sandbox.confine(confined, str(tmp_path)) as launch:
        error = launch.failure("true", 1, b"bwrap: No permissions to create new namespace")
    sandbox.close()

    assert error is not None
    assert error.code == "sandbox_unavailable"
    assert not (tmp_path / "sandbox.json").exists()


def test_that_nothing_works_is_not_cached(only, tmp_path):
    found = availability.find_afresh(str(tmp_path))

    assert (tmp_path / "sandbox.json").exists() == found.works


@needs_bubblewrap
def test_probing_afresh_replaces_the_cached_result(tmp_path):
    before = availability.find(str(tmp_path))
    record = json.loads((tmp_path / "sandbox.json").read_bytes())
    record["availability"]["facts"] = "remembered"
    (tmp_path / "sandbox.json").write_text(json.dumps(record))

    assert availability.find_afresh(str(tmp_path)) == before
    assert availability.find(str(tmp_path)) == before


@needs_bubblewrap
@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": []}', '{"key": 1, "availability": {}}'])
def test_an_invalid_record_is_replaced(tmp_path, text):
    (tmp_path / "sandbox.json").write_text(text)

    assert Sandbox(str(tmp_path)).availability().backend == "bubblewrap"


BROKEN = """#!/bin/sh
case $1 in
    --help) echo "--perms OCTAL" ;;
    --version) echo bwrap 9 ;;
    *) echo no room >&2; exit 1 ;;
esac
"""


def test_a_program_that_does_not_work_is_reported_with_its_error(only, tmp_path):
    program(only, BROKEN)

    availability_found = availability.find(str(tmp_path))

    assert availability_found.backend in ("landlock", "")
    assert "bwrap 9 does not work: no room" in availability_found.facts
    assert availability_found.missing
    assert availability_found.remedy


def test_a_damaged_program_is_reported(only, tmp_path):
    program(only, "x")

    available = availability.find(str(tmp_path))

    assert available.backend in ("landlock", "")
    assert "is not in an executable format." in available.facts


def test_a_program_that_is_too_old_is_reported(only, tmp_path):
    program(only, "#!/bin/sh\necho bubblewrap 0.1\n")

    assert "too old" in availability.probe(str(tmp_path)).facts


def test_without_bubblewrap_the_remedy_says_how_to_install_it(only, tmp_path):
    availability_found = availability.probe(str(tmp_path))

    assert "not installed" in availability_found.facts
    assert "install bubblewrap" in availability_found.remedy


def test_a_replaced_program_is_checked_again(only, tmp_path):
    assert "not installed" in availability.find(str(tmp_path)).facts

    program(only, "#!/bin/sh\necho bubblewrap 0.1\n")

    assert "too old" in availability.find(str(tmp_path)).facts


@pytest.mark.parametrize("who", ["file", "folder"])
def test_a_program_that_others_can_write_is_not_used(only, who):
    file = program(only)
    assert bubblewrap.find_program(lambda name: None) == str(file)

    (file if who == "file" else file.parent).chmod(0o777)

    assert bubblewrap.find_program(lambda name: None) is None


def test_a_program_on_the_search_path_is_used_only_without_one_of_the_system(only, tmp_path):
    on_path = program(tmp_path / "path")
    find = Surroundings({"PATH": str(on_path.parent)}).find

    assert bubblewrap.find_program(find) == str(on_path)
    assert bubblewrap.find_program(lambda name: None) is None
    in_workspace = Surroundings({"PATH": f"{on_path.parent}:/nowhere"}, (str(tmp_path),))
    assert bubblewrap.find_program(in_workspace.find) is None

    of_system = program(only)
    assert bubblewrap.find_program(find) == str(of_system)


def profile(tmp_path: Path, **changes: Any) -> Profile:
    return Profile(
        name="workspace-write",
        roots=(str(tmp_path),),
        is_sensitive=lambda path: False,
        protected=(),
        closed=(),
        home=str(tmp_path),
        private=str(tmp_path / "private"),
    )._replace(**changes)


def test_without_a_sandbox_only_the_full_profile_runs(tmp_path):
    sandbox = Sandbox(str(tmp_path / "state"))
    sandbox._available = Availability("", "Nothing works.", ("files",), "Do something.")

    with pytest.raises(ToolError) as raised, sandbox.confine(profile(tmp_path), str(tmp_path)):
        pass
    assert (raised.value.code, raised.value.suggestion) == ("sandbox_unavailable", "To fix it: Do something.")

    with sandbox.confine(profile(tmp_path, name="full"), str(tmp_path)) as confined:
        assert confined == Launch()


@needs_bubblewrap
def test_a_bubblewrap_in_the_workspace_is_not_used(only, tmp_path):
    sandbox = Sandbox(str(tmp_path / "state"))
    sandbox._available = Availability("bubblewrap", "", program=str(program(only)))

    with pytest.raises(ToolError) as raised, sandbox.confine(profile(tmp_path), str(tmp_path)):
        pass

    assert raised.value.code == "sandbox_unavailable"


def test_a_read_only_state_directory_only_disables_the_cache(tmp_path, only):
    state = tmp_path / "file"
    state.write_text("")

    assert availability.find(str(state / "state")).backend in ("landlock", "")
    assert os.listdir(tmp_path) == ["file"]
