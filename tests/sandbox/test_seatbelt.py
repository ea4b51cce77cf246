"""The policy for macOS, as text: its shape, its order, and that no path is inserted into it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.homes import find_homes
from hilt.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from hilt.sandbox import seatbelt
from hilt.sandbox.backend import Availability, SandboxResources, Start
from hilt.sandbox.mountpoints import MountPoints
from hilt.sandbox.network import FULL, LOOPBACK, NONE, SessionNetworks
from hilt.sandbox.profile import Profile
from hilt.sandbox.rooms import Rooms
from hilt.sandbox.sandbox import Sandbox
from hilt.sandbox.seatbelt import make_rules, write
from hilt.sandbox.sensitive import Findings, Search
from hilt.sandbox.watches import Watches

IS_SENSITIVE = PathRules(SENSITIVE, READABLE, PROTECTED).is_sensitive
AVAILABLE = Availability("seatbelt", "", program="/usr/bin/sandbox-exec")
NOTHING = Findings((), (), ())

SOMEWHERE = "/Volumes/someone"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    for name in ("ws", "home/.ssh", "state/private"):
        (tmp_path / name).mkdir(parents=True)
    return Profile(
        name="workspace-write",
        roots=(str(tmp_path / "ws"),),
        is_sensitive=IS_SENSITIVE,
        protected=PROTECTED,
        closed=(str(tmp_path / "state"),),
        home=str(tmp_path / "home"),
        private=str(tmp_path / "state/private"),
        read_only=(str(tmp_path / "ws/.venv"),),
    )


def verdict(profile: Profile, findings: Findings, operation: str, path: str) -> bool:
    """Whether the policy allows an operation: the last rule that matches decides."""
    allowed = operation.startswith("file-read")
    for rule in make_rules(profile, findings):
        action, *operations = rule.head.split()
        matches_operation = any(
            operation == name or (name.endswith("*") and operation.startswith(name[:-1])) for name in operations
        )
        matches_path = any(
            path == name or (rule.match == "subpath" and path.startswith(name.rstrip("/") + "/")) for name in rule.paths
        )
        if matches_operation and matches_path:
            allowed = action == "allow"
    return allowed


def test_hilt_itself_is_readable_in_a_hidden_home(profile):
    prefix = os.path.realpath(sys.prefix)
    hidden = profile._replace(home=os.path.dirname(prefix), read="workspace")

    assert verdict(hidden, NOTHING, "file-read-data", f"{prefix}/pyvenv.cfg")
    assert not verdict(hidden, NOTHING, "file-write-data", f"{prefix}/pyvenv.cfg")
    assert not verdict(hidden, NOTHING, "file-read-data", f"{os.path.dirname(prefix)}/secret")


@pytest.mark.parametrize(
    "operation,path,allowed",
    [
        ("file-read-data", "ws/a", True),
        ("file-write-data", "ws/a", True),
        ("file-write-data", "home/a", False),
        ("file-read-data", "home/a", True),
        ("file-read-data", "home/.ssh/id", False),
        ("file-write-create", "ws/.hilt", False),
        ("file-write-data", "ws/.mcp.json", False),
        ("file-write-create", "ws/sub/.git/hooks/x", False),
        ("file-write-create", "ws/sub/.git/commondir", False),
        ("file-write-unlink", "ws/sub/.git", False),
        ("file-write-unlink", "ws/sub", False),
        ("file-write-data", "ws/sub/.git/index", True),
        ("file-write-create", "ws/.git", False),
        ("file-read-data", "ws/deep/.env", False),
        ("file-write-unlink", "ws/deep/.env", False),
        ("file-read-data", "ws/.venv/bin/python", True),
        ("file-write-create", "ws/.venv/lib/evil.pth", False),
        ("file-write-unlink", "ws/.venv", False),
        ("file-read-data", "state/state.db", False),
        ("file-write-data", "state/private/tmp/x", True),
        ("file-read-data", "state/private/tmp/x", True),
        ("file-read-data", "state/private/other", False),
    ],
)
def test_the_last_rule_that_matches_decides(profile, tmp_path, operation, path, allowed):
    (tmp_path / "ws/sub/.git").mkdir(parents=True)
    (tmp_path / "ws/sub/.git/HEAD").write_text("")
    (tmp_path / "ws/deep").mkdir()
    (tmp_path / "ws/deep/.env").write_text("")
    findings = Search().find(profile.roots[0], IS_SENSITIVE)

    assert verdict(profile, findings, operation, str(tmp_path / path)) == allowed


@pytest.mark.parametrize(
    "operation,path,allowed",
    [
        ("file-read-data", "ws/secrets/key", False),
        ("file-write-unlink", "ws/deep", False),
        ("file-read-data", "ws/deep/secrets/key", False),
        ("file-write-data", "ws/locked/a", False),
        ("file-read-data", "ws/locked/a", True),
        ("file-write-create", "ws/missing", False),
        ("file-write-data", "ws/a", True),
        ("file-read-data", "home/private/a", False),
        ("file-read-data", "home/a", True),
    ],
)
def test_rules_on_paths_are_part_of_the_policy(profile, tmp_path, operation, path, allowed):
    for name in ("ws/secrets", "ws/deep/secrets", "ws/locked"):
        (tmp_path / name).mkdir(parents=True)
    profile = profile._replace(
        denies_read=lambda path: "/secrets" in path,
        denies_write=lambda path: path.startswith(str(tmp_path / "ws/locked")),
        denied_outside=((str(tmp_path / "home/private"), True),),
        denied_missing=(str(tmp_path / "ws/missing"),),
    )
    findings = Search().find(profile.roots[0], profile.judge(profile.roots[0]))

    assert verdict(profile, findings, operation, str(tmp_path / path)) == allowed


def test_read_only_allows_writing_only_to_the_private_folders(profile):
    rules = make_rules(profile._replace(name="read-only"), NOTHING)

    writing = [rule for rule in rules if rule.head.startswith("allow") and "file-write" in rule.head]
    assert [rule.purpose for rule in writing] == ["private folders"]


def test_the_home_is_hidden_except_for_the_workspace_in_it(profile, tmp_path):
    inner = str(tmp_path / "home/ws")
    profile = profile._replace(read="workspace", roots=(inner,))

    assert not verdict(profile, NOTHING, "file-read-data", str(tmp_path / "home/notes"))
    assert verdict(profile, NOTHING, "file-read-data", inner + "/a")


def test_hidden_names_are_guarded_when_the_home_is_the_workspace(profile):
    homes = find_homes((profile.home,), {"HOME": profile.home}, ())
    profile = profile._replace(roots=(profile.home,), homes=homes)
    findings = Findings(guarded=(f"{profile.home}/.zshrc", f"{profile.home}/.config"))

    assert not verdict(profile, findings, "file-write-create", profile.home + "/.zshrc")
    assert not verdict(profile, findings, "file-write-unlink", profile.home + "/.config")
    assert verdict(profile, findings, "file-write-create", profile.home + "/notes")


@pytest.mark.parametrize(
    "network,rule", [(NONE, "(deny network*)"), (LOOPBACK, "(deny network*)"), (FULL, "(allow network*)")]
)
def test_the_profile_sets_the_network_rule(profile, network, rule):
    assert rule in write(profile._replace(network=network), [])[0]


def test_only_sockets_of_the_workspace_and_named_ones_are_reachable(profile):
    profile = profile._replace(network=FULL, sockets=("/private/tmp/agent",))

    text = write(profile, make_rules(profile, NOTHING))[0]

    # the last matching rule decides
    assert text.index("(allow network*)") < text.index("(deny network-outbound") < text.index("(allow network-outbound")
    for path in ("/private/var/run/docker.sock", profile.home + "/.docker/run/docker.sock", "/private/tmp/other"):
        assert not verdict(profile, NOTHING, "network-outbound", path)
    for path in (profile.roots[0] + "/own", "/private/tmp/agent", "/private/var/run/mDNSResponder"):
        assert verdict(profile, NOTHING, "network-outbound", path)


def test_a_private_loopback_is_refused(profile, tmp_path):
    sandbox = Sandbox(str(tmp_path))
    sandbox._available = AVAILABLE
    with pytest.raises(ToolError) as raised, sandbox.confine(profile._replace(network=LOOPBACK), "/"):
        pass

    assert raised.value.code == "sandbox_unavailable"
    assert raised.value.message == "The loopback network is not supported on macOS."
    assert raised.value.suggestion == "Run the command with network: none or full."


@given(name=st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=40))
def test_paths_are_parameters_and_never_policy_text(profile, name):
    root = os.path.join(SOMEWHERE, name)

    text, parameters = write(profile, make_rules(profile._replace(roots=(root,)), NOTHING))

    assert root in parameters.values()
    assert set(re.findall(r'\(param "(\w+)"\)', text)) == set(parameters)
    # the text is the same whatever the name is
    assert text == write(profile, make_rules(profile._replace(roots=(f"{SOMEWHERE}/x",)), NOTHING))[0]


def test_the_policy_is_well_formed(profile):
    text, _ = write(profile, make_rules(profile, NOTHING))

    depth = 0
    for character in re.sub(r'"[^"]*"', "", text):
        depth += (character == "(") - (character == ")")
        assert depth >= 0
    assert depth == 0
    assert text.startswith("(version 1)\n(deny default)\n")


def test_a_program_is_started_with_the_policy_and_its_own_temporary_folder(profile, tmp_path):
    search = Search()
    points = MountPoints(str(tmp_path / "mountpoints"))
    resources = SandboxResources(
        str(tmp_path), search, points, SessionNetworks(), Watches(str(tmp_path), search), Rooms()
    )
    with seatbelt.BACKEND().confine(profile, Start(AVAILABLE, resources)) as confined:
        prefix = confined.argv

    assert prefix[:2] == ("/usr/bin/sandbox-exec", "-D")
    assert prefix[prefix.index("-p") + 1].startswith("(version 1)")
    assert prefix[-3:] == (
        "/usr/bin/env",
        f"TMPDIR={profile.private}/tmp",
        f"XDG_CACHE_HOME={profile.private}/cache",
    )
