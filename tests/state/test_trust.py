from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.state.trust import MAX_BYTES, PROJECT_FILES, Trust, kind_of, trusts_all


@pytest.fixture
def trust(tmp_path) -> Iterator[Trust]:
    store = Trust(str(tmp_path / "state"))
    yield store
    store.close()


@pytest.fixture
def path(tmp_path) -> str:
    os.makedirs(tmp_path / "project")
    return str(tmp_path / "project" / "rules.yaml")


@pytest.mark.parametrize(
    "kind, name, content, trusted",
    [
        ("rules", "rules.yaml", b"allow: []\n", True),
        ("rules", "../project/./rules.yaml", b"allow: []\n", True),
        ("rules", "rules.yaml", b"allow: [] \n", False),
        ("rules", "rules.yaml", b"", False),
        ("hooks", "rules.yaml", b"allow: []\n", False),
        ("rules", "other.yaml", b"allow: []\n", False),
    ],
)
def test_only_the_exact_content_that_was_trusted_is_trusted(trust, path, tmp_path, kind, name, content, trusted):
    trust.trust("rules", path, b"allow: []\n")

    again = Trust(str(tmp_path / "state"))
    assert again.is_trusted(kind, os.path.join(os.path.dirname(path), name), sha256(content)) == trusted
    again.close()


def test_trusting_new_content_replaces_the_old(trust, path):
    trust.trust("rules", path, b"one")
    trust.trust("rules", path, b"two")

    assert not trust.is_trusted("rules", path, sha256(b"one"))
    assert trust.is_trusted("rules", path, sha256(b"two"))
    assert trust.trusted_content(path) == b"two"
    assert [(item.kind, item.path, item.hash) for item in trust.list()] == [
        ("rules", os.path.realpath(path), sha256(b"two"))
    ]


def test_trust_in_a_link_applies_to_its_target(trust, path):
    link = path + ".link"
    os.symlink(path, link)
    trust.trust("rules", link, b"x")
    assert trust.is_trusted("rules", path, sha256(b"x"))

    os.unlink(link)
    os.symlink(path + ".other", link)

    assert not trust.is_trusted("rules", link, sha256(b"x"))


def test_trust_can_be_revoked(trust, path):
    trust.trust("rules", path, b"x")

    assert (trust.revoke(path), trust.revoke(path)) == (True, False)
    assert not trust.is_trusted("rules", path, sha256(b"x"))
    assert (trust.trusted_content(path), trust.list()) == (None, [])


def test_a_path_need_not_be_valid_utf8(trust, tmp_path):
    path = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff.yaml")

    trust.trust("rules", path, b"\0\xff")

    assert trust.is_trusted("rules", path, sha256(b"\0\xff"))
    assert trust.list()[0].path == os.path.realpath(path)


def test_reading_creates_no_database(trust, path, tmp_path):
    assert not trust.is_trusted("rules", path, sha256(b""))
    assert (trust.trusted_content(path), trust.list(), trust.revoke(path)) == (None, [], False)
    assert not os.path.exists(tmp_path / "state")


def test_a_file_too_large_to_review_cannot_be_trusted(trust, path):
    trust.trust("rules", path, b"x" * MAX_BYTES)

    with pytest.raises(ToolError) as caught:
        trust.trust("rules", path, b"x" * (MAX_BYTES + 1))

    assert caught.value.code == "file_too_large"


@pytest.mark.parametrize("value, everything", [(None, False), ("", False), ("all", True)])
def test_one_run_can_trust_everything(tmp_path, path, value, everything):
    environ = {} if value is None else {"HILT_TRUST": value}
    trust = Trust(str(tmp_path / "state"), everything=trusts_all(environ))

    assert trust.is_trusted("rules", path, sha256(b"x")) == everything
    assert trust.list() == []


@pytest.mark.parametrize("value", ["1", "true", "ALL", "none", "all "])
def test_an_invalid_trust_value_is_an_error(value):
    with pytest.raises(ToolError) as caught:
        trusts_all({"HILT_TRUST": value})

    assert "HILT_TRUST" in caught.value.message


def test_every_project_file_kind_is_recognised_by_its_path():
    assert {name: kind_of(f"/projects/one/{name}") for name in PROJECT_FILES} == PROJECT_FILES
    assert kind_of("/projects/permissions.yaml") == "file"
    assert kind_of("/projects/x.mcp.json") == "file"
