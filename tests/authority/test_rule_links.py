from __future__ import annotations

import os
from pathlib import Path

import pytest

from hilt.authority.rule_links import RuleLinks


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder in ("plain/inner", "real", "other"):
        tmp_path.joinpath(folder).mkdir(parents=True)
    return tmp_path


def links_of(place: Path, *paths: str) -> RuleLinks:
    return RuleLinks(str(place / path) for path in paths)


def test_only_paths_through_links_are_resolved(place):
    place.joinpath("link").symlink_to("real")
    place.joinpath("real/again").symlink_to("../other")

    links = links_of(place, "plain/inner/x", "link", "link/x", "link/again/x", "missing/x")

    assert links.find() == {
        str(place / "link"): str(place / "real"),
        str(place / "link/x"): str(place / "real/x"),
        str(place / "link/again/x"): str(place / "other/x"),
    }


def test_links_that_appear_and_change_between_calls_are_found(place):
    links = links_of(place, "plain/inner/x", "new/x")
    path, inner = str(place / "new/x"), str(place / "plain/inner/x")
    assert links.find() == {}

    place.joinpath("new").symlink_to("real")
    assert links.find() == {path: str(place / "real/x")}

    place.joinpath("next").symlink_to("other")
    os.replace(place / "next", place / "new")
    assert links.find() == {path: str(place / "other/x")}

    place.joinpath("plain").rename(place / "moved")
    place.joinpath("plain").symlink_to("moved")
    assert links.find() == {path: str(place / "other/x"), inner: str(place / "moved/inner/x")}


def test_a_link_within_an_unchanged_folder_is_followed_again(place):
    place.joinpath("link").symlink_to("real/deeper")
    links = links_of(place, "link/x")
    assert links.find() == {str(place / "link/x"): str(place / "real/deeper/x")}

    place.joinpath("real/deeper").symlink_to("../other")

    assert links.find() == {str(place / "link/x"): str(place / "other/x")}


def test_a_replaced_folder_is_read_again(place):
    links = links_of(place, "plain/inner/x")
    old = os.stat(place / "plain")
    assert links.find() == {}

    place.joinpath("plain").rename(place / "moved")
    place.joinpath("plain").mkdir()
    place.joinpath("plain/inner").symlink_to("../real")
    os.utime(place / "plain", ns=(old.st_atime_ns, old.st_mtime_ns))

    assert links.find() == {str(place / "plain/inner/x"): str(place / "real/x")}
