from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.loaders import MAX_BYTES, ProjectFile
from hilt.state.db import Database
from hilt.state.tables import MIGRATIONS
from hilt.state.trust import Trust, trusts_all


@pytest.fixture
def trust(tmp_path) -> Iterator[Trust]:
    store = Trust(str(tmp_path / "state"))
    yield store
    store.close()


RULES = ".hilt/permissions.yaml"
FILE = ProjectFile("rules", "/projects/one", RULES)


@pytest.mark.parametrize(
    "file, content, trusted",
    [
        (FILE, b"allow: []\n", True),
        (FILE, b"allow: [] \n", False),
        (FILE, b"", False),
        (FILE._replace(kind="hooks"), b"allow: []\n", False),
        (FILE._replace(path=".jcli/permissions.yaml"), b"allow: []\n", False),
        (FILE._replace(root="/projects/two"), b"allow: []\n", False),
        (FILE._replace(root="/projects", path=f"one/{RULES}"), b"allow: []\n", False),
    ],
)
def test_only_the_same_file_of_the_same_project_with_the_same_content_is_trusted(
    trust, tmp_path, file, content, trusted
):
    trust.trust(FILE, b"allow: []\n")

    again = Trust(str(tmp_path / "state"))
    assert again.is_trusted(file, sha256(content)) == trusted
    again.close()


def test_trusting_new_content_replaces_the_old(trust):
    trust.trust(FILE, b"one")
    trust.trust(FILE, b"two")

    assert not trust.is_trusted(FILE, sha256(b"one"))
    assert trust.is_trusted(FILE, sha256(b"two"))
    assert trust.trusted_content(FILE) == b"two"
    assert [(item.file, item.hash) for item in trust.list()] == [(FILE, sha256(b"two"))]


def test_trust_can_be_revoked(trust):
    trust.trust(FILE, b"x")

    assert (trust.revoke(FILE), trust.revoke(FILE)) == (True, False)
    assert not trust.is_trusted(FILE, sha256(b"x"))
    assert (trust.trusted_content(FILE), trust.list()) == (None, [])


def test_a_path_need_not_be_valid_utf8(trust):
    file = ProjectFile("rules", os.fsdecode(b"/\xff"), os.fsdecode(b"\xfe.yaml"))

    trust.trust(file, b"\0\xff")

    assert trust.is_trusted(file, sha256(b"\0\xff"))
    assert trust.list()[0].file == file


def test_reading_creates_no_database(trust, tmp_path):
    assert not trust.is_trusted(FILE, sha256(b""))
    assert (trust.trusted_content(FILE), trust.list(), trust.revoke(FILE)) == (None, [], False)
    assert not os.path.exists(tmp_path / "state")


def test_a_file_too_large_to_review_cannot_be_trusted(trust):
    trust.trust(FILE, b"x" * MAX_BYTES)

    with pytest.raises(ToolError) as caught:
        trust.trust(FILE, b"x" * (MAX_BYTES + 1))

    assert caught.value.code == "file_too_large"


def test_trust_that_was_stored_by_resolved_path_is_not_kept(tmp_path):
    path = str(tmp_path / "state" / "state.db")
    older = next(number for number, text in enumerate(MIGRATIONS) if "trusted_files" in text)
    row = (os.fsencode(FILE.full), "rules", sha256(b"x"), b"x", 1)
    database = Database(path, MIGRATIONS[:older], durable=True)
    database.write(lambda db: db.execute("INSERT INTO trusted VALUES (?,?,?,?,?)", row))
    database.close()

    trust = Trust(str(tmp_path / "state"))

    assert (trust.list(), trust.is_trusted(FILE, sha256(b"x"))) == ([], False)
    trust.close()


@pytest.mark.parametrize("value, everything", [(None, False), ("", False), ("all", True)])
def test_one_run_can_trust_everything(tmp_path, value, everything):
    environ = {} if value is None else {"HILT_TRUST": value}
    trust = Trust(str(tmp_path / "state"), everything=trusts_all(environ))

    assert trust.is_trusted(FILE, sha256(b"x")) == everything
    assert trust.list() == []


@pytest.mark.parametrize("value", ["1", "true", "ALL", "none", "all "])
def test_an_invalid_trust_value_is_an_error(value):
    with pytest.raises(ToolError) as caught:
        trusts_all({"HILT_TRUST": value})

    assert "HILT_TRUST" in caught.value.message
